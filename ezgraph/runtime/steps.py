"""One node run, from its context to its outcome: `run`, or the model/tool loop, then `on_exit`.  Rule G1."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from ezgraph.algebra.acceptance import of_run
from ezgraph.algebra.ownership import check_response
from ezgraph.algebra.scheduling import Step, seen_by
from ezgraph.algebra.settling import Answer, Continue, Published, Reply, Yielded
from ezgraph.errors import NodeError, StepFailed
from ezgraph.plan import NodeSpec, Plan
from ezgraph.runtime.awaiting import called, settled, within
from ezgraph.runtime.context import Context, StageContext
from ezgraph.runtime.events import Listener
from ezgraph.runtime.loop import converse
from ezgraph.session import Session


def run_step(plan: Plan, session: Session, step: Step, listener: Listener | None) -> Awaitable[Published]:
    """Run a node once and give its outcome; nothing is published here.

    Raises:
        NodeError: The node did what it may not, or failed; a foreign error comes as `StepFailed`.
    """
    spec = plan.nodes[step.node]
    run = _run(plan, session, spec, listener)
    return run if spec.timeout is None else within(spec.timeout, spec.id, None, run)


async def _run(plan: Plan, session: Session, spec: NodeSpec, listener: Listener | None) -> Published:
    ctx = _context(plan, session, spec)
    try:
        if spec.run is None:
            answer = await converse(plan, spec, ctx, listener)
        else:
            if spec.run.blocking:
                response = await called(spec.run, ctx, {})
            else:  # the hot path: nothing between the driver and the node
                response = spec.run.call(ctx)
                if spec.run.awaits or (type(response) not in spec.run.kinds and inspect.isawaitable(response)):
                    response = await response
            check_response(plan, spec, spec.run, response)
            if response is not None and response.usage is not None:
                ctx._spend(response.usage)
            answer = of_run(spec, response)
        if spec.on_exit:
            await settled(spec.node.on_exit(ctx, _seen_at_exit(answer)))
    except NodeError as error:
        if error.node == spec.id:
            raise
        raise StepFailed(spec.id, error) from error
    except Exception as error:
        raise StepFailed(spec.id, error) from error
    finally:
        ctx._over = True
    # A worker's messages are private to its run (rule B3).
    return Published(answer, ctx._staged, ctx._adds if spec.space else {}, ctx._spent)


def _context(plan: Plan, session: Session, spec: NodeSpec) -> Context[Any, Any]:
    """The view of the session that this run may see.  Rules B3, E4."""
    if session.activation is not None:
        cells, results = seen_by(plan, session, session.activation, spec.id)
        return Context(plan, spec, session, cells, results, None)
    head = session.head
    ctx: StageContext[Any, Any] = StageContext(plan, spec, session, session.cells, session.results, head.incoming)
    if head.before is not None and head.incoming is not None:
        ctx._add(spec.space, head.incoming)
    return ctx


def _seen_at_exit(answer: Answer) -> object:
    """What `on_exit` is handed: a worker's output, a reply's text, None where the stage continues, else the route."""
    match answer:
        case Yielded(output=output):
            return output
        case Reply(text=text):
            return text
        case Continue():
            return None
        case _:
            return answer
