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
from ezgraph.plan import Handler, NodeSpec, Plan
from ezgraph.runtime.awaiting import called, settled, within
from ezgraph.runtime.context import Context, StageContext
from ezgraph.runtime.events import Listener
from ezgraph.runtime.loop import converse
from ezgraph.session import Session


def run_step(plan: Plan, session: Session, step: Step, listener: Listener | None) -> Published | Awaitable[Published]:
    """Run a node once and give its outcome, or the promise of it; nothing is published here.

    A function that waits for nothing has run when this returns: it costs no coroutine.  A node sees what rules B3 and
    E4 say.

    Raises:
        NodeError: The node did what it may not, or failed; a foreign error comes as `StepFailed`.
    """
    spec = plan.nodes[step.node]
    ctx: Context[Any, Any]
    if session.activation is None:
        head = session.head
        ctx = StageContext(plan, spec, session, session.cells, session.results, head.incoming)
        if head.before is not None and head.incoming is not None:
            ctx._add(spec.space, head.incoming)
    else:
        cells, results = seen_by(plan, session, session.activation, spec.id)
        ctx = Context(plan, spec, session, cells, results, None)
    run = spec.run
    if run is None or run.awaits or run.blocking or spec.on_exit or spec.timeout is not None:
        work = _run(plan, spec, ctx, listener)
        return work if spec.timeout is None else within(spec.timeout, spec.id, None, work)
    try:
        response = run.call(ctx)
        if type(response) in run.kinds or not inspect.isawaitable(response):
            published = _published(plan, spec, run, ctx, response)
            ctx._over = True
            return published
    except Exception as error:
        ctx._over = True
        if _names(spec, error):
            raise
        raise StepFailed(spec.id, error) from error
    return _run(plan, spec, ctx, listener, response)


async def _run(
    plan: Plan, spec: NodeSpec, ctx: Context[Any, Any], listener: Listener | None, begun: Awaitable[Any] | None = None
) -> Published:
    """The run of a node that may wait; `begun` is what its `run` gave already."""
    try:
        run = spec.run
        if run is None:
            answer = await converse(plan, spec, ctx, listener)
            published = Published(answer, ctx._staged, ctx._adds if spec.space else {}, ctx._spent)
        else:
            if begun is not None:
                response = await begun
            elif run.awaits:  # the hot path: nothing between the driver and the node
                response = await run.call(ctx)
            else:
                response = await called(run, ctx, {})
            published = _published(plan, spec, run, ctx, response)
        if spec.on_exit:
            await settled(spec.node.on_exit(ctx, _seen_at_exit(published.answer)))
    except Exception as error:
        if _names(spec, error):
            raise
        raise StepFailed(spec.id, error) from error
    else:
        return published
    finally:
        ctx._over = True


def _published(plan: Plan, spec: NodeSpec, run: Handler, ctx: Context[Any, Any], response: Any) -> Published:
    """The outcome of a `run`, once table B has allowed what it returned.  A worker's messages are private (rule B3)."""
    check_response(plan, spec, run, response)
    if response is not None and response.usage is not None:
        ctx._spend(response.usage)
    return Published(of_run(spec, response), ctx._staged, ctx._adds if spec.space else {}, ctx._spent)


def _names(spec: NodeSpec, error: Exception) -> bool:
    """Whether an error is a node's own breach, which is told as it is."""
    return isinstance(error, NodeError) and error.node == spec.id


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
