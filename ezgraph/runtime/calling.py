"""Workers called inside a step: `ctx.call` and `ctx.call_all`.  Rule E11."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ezgraph.algebra.scheduling import Seen, depth_at
from ezgraph.algebra.settling import Published, Yielded
from ezgraph.errors import InvalidResponse, ReplayMismatch, StepLimit, StepOver
from ezgraph.messages import Usage
from ezgraph.plan import NodeSpec
from ezgraph.runtime.context import Context
from ezgraph.runtime.journal import Journal
from ezgraph.runtime.steps import run_node

if TYPE_CHECKING:
    from ezgraph.runtime.driver import Drive


@frozen
class Done:
    """What a called worker came to: its output, the state it leaves, and what was spent."""

    output: object
    state: object
    usage: dict[str, Usage]


async def call_workers(
    drive: Drive, ctx: Context[Any, Any], worker: object, states: Sequence[object]
) -> tuple[object, ...]:
    """Run a worker for each state, side by side, stage what they leave, and give their outputs.

    Raises:
        InvalidResponse: It is no worker that may be called here.
        StateTypeError: A state is not of its type.
        StepLimit: A called worker is one deeper than its caller, and that is too deep.  Rule E9.
        ReplayMismatch: An earlier run of this step called another worker or with another state here.
        NodeError: A run failed; of several, the first in order.
    """
    spec = _checked(drive, ctx, worker, states)
    depth = 1 + depth_at(drive.plan, drive.session, ctx._step)
    if depth > (limit := drive.session.limits.steps):
        raise StepLimit(ctx.session, limit, (spec.id,), depth)
    journal = ctx._journalled()
    runs = [_run(drive, ctx, journal, spec, state, journal.numbered(ctx._section)) for state in states]
    ended = await asyncio.gather(*runs, return_exceptions=True)
    if ctx._over:
        raise StepOver(ctx._spec.id)
    for done in ended:
        if isinstance(done, Done):
            ctx._staged[spec.id] = done.state
            for node, spent in done.usage.items():
                ctx._spend_for(node, spent)
    outputs: list[object] = []
    for done in ended:
        if isinstance(done, BaseException):
            raise done
        outputs.append(done.output)
    return tuple(outputs)


def _checked(drive: Drive, ctx: Context[Any, Any], worker: object, states: Sequence[object]) -> NodeSpec:
    if ctx._over:
        raise StepOver(ctx._spec.id)
    spec = drive.plan.find(ctx._spec.id, worker)
    if ctx._called:
        told = f"{ctx._spec.id} was called itself, and calls {spec.id}"
        raise InvalidResponse("ctx.call", told, "Call both from the step, or join them by edges.")
    if spec.placement != "internal":
        told = f"{spec.id} is a stage"
        raise InvalidResponse("ctx.call", told, "Call a worker; a stage is reached by go(...).")
    if spec is ctx._spec:
        raise InvalidResponse("ctx.call", f"{spec.id} calls itself", "Loop in its own code.")
    for index, state in enumerate(states):
        spec.check_state(ctx._spec.id, state, index)
    return spec


async def _run(  # noqa: PLR0913, PLR0917  facts of one call
    drive: Drive, ctx: Context[Any, Any], journal: Journal, spec: NodeSpec, state: object, at: str
) -> Done:
    if (note := journal.found(at)) is not None:
        if note.worker != spec.id or note.state[spec.id] != state:
            raise ReplayMismatch(ctx._spec.id, at, f"{spec.id}({state!r})", f"{note.worker}({note.state!r})")
        return Done(note.output[spec.id], note.cells[spec.id], note.usage)
    cells = {**ctx._seen.cells, **ctx._staged, spec.id: state}
    called: Context[Any, Any] = Context(drive, ctx._plan, drive.session, spec, ctx._step, Seen(cells, {}, {}))
    called._called = True
    ran = run_node(called)
    published = ran if isinstance(ran, Published) else await ran
    output = published.answer.output if isinstance(published.answer, Yielded) else None
    done = Done(output, published.cells.get(spec.id, state), published.usage)
    await journal.write(
        at,
        worker=spec.id,
        state={spec.id: state},
        output={spec.id: output},
        cells={spec.id: done.state},
        usage=done.usage,
    )
    return done
