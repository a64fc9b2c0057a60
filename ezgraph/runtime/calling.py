"""Workers called inside a step: `ctx.call` and `ctx.call_all`.  Rule E11."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, cast, final

from attrs import frozen

from ezgraph.algebra.journalling import raised, recalled
from ezgraph.algebra.scheduling import Seen, depth_at
from ezgraph.algebra.settling import Published, Yielded
from ezgraph.errors import InvalidResponse, NodeError, ReplayMismatch, StepLimit, StepOver
from ezgraph.errors.words import quoted
from ezgraph.messages import Usage
from ezgraph.plan import NodeSpec
from ezgraph.runtime.context import Context
from ezgraph.runtime.journal import Journal
from ezgraph.runtime.steps import run_node


@final
class Calls:
    """The workers that one run of a step calls: where each call stands in it, and which are running."""

    def __init__(self) -> None:
        self._ordinals: dict[str, int] = {}
        self._order = count()
        self._staged: dict[str, int] = {}
        self._callers: set[asyncio.Task[Any]] = set()

    def placed(self, section: str) -> tuple[int, str]:
        """The next call of a section of the step: its place among all, and its name in the journal."""
        ordinal = self._ordinals[section] = self._ordinals.get(section, -1) + 1
        return next(self._order), f"{section}/{ordinal}"

    def stage(self, ctx: Context[Any, Any], worker: str, order: int, state: object) -> None:
        """Stage what a called worker left, unless a later call of it has: the last one's stays, not the slowest's."""
        if order >= self._staged.get(worker, 0):
            self._staged[worker] = order
            ctx._staged[worker] = state

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the task that is here waits for what it called."""
        caller = cast("asyncio.Task[Any]", asyncio.current_task())
        self._callers.add(caller)
        try:
            yield
        finally:
            self._callers.discard(caller)

    async def end(self) -> None:
        """Stop the calls that a step left running, such as the slower of two; no task outlives its step.  Rule G3."""
        callers = tuple(self._callers)
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)


@frozen
class Done:
    """What a called worker came to: its output, the state it leaves, and what was spent."""

    output: object
    state: object
    usage: Mapping[str, Usage]


@frozen
class CallFailed:
    """What a called worker raised, and what was spent before."""

    error: BaseException
    usage: Mapping[str, Usage]


async def call_workers(ctx: Context[Any, Any], worker: object, states: Sequence[object]) -> tuple[object, ...]:
    """Run a worker for each state, side by side, stage what they leave, and give their outputs.

    Raises:
        InvalidResponse: It is no worker that may be called here.
        StateTypeError: A state is not of its type.
        StepLimit: A called worker is one deeper than its caller, and that is too deep.  Rule E9.
        ReplayMismatch: An earlier run of this step called another worker or with another state here.
        NodeError: A run failed; of several, the first in order.
    """
    spec, session = _checked(ctx, worker, states), ctx._drive.session
    depth = 1 + depth_at(ctx._plan, session, ctx._step)
    if depth > (limit := session.limits.steps):
        ctx._fault = StepLimit(ctx.session, limit, (spec.id,), depth)
        raise ctx._fault
    if ctx._calls is None:
        ctx._calls = Calls()
    calls, journal = ctx._calls, ctx._journalled()
    places = [calls.placed(ctx._section) for _ in states]
    with calls.running():
        runs = [_run(ctx, journal, spec, state, at) for state, (_, at) in zip(states, places, strict=True)]
        ended = await asyncio.gather(*runs, return_exceptions=True)
    failures: list[BaseException] = []
    outputs: list[object] = []
    for done, (order, _) in zip(ended, places, strict=True):
        if isinstance(done, BaseException):
            failures.append(done)
            continue
        for node, spent in done.usage.items():
            ctx._spend_for(node, spent)
        if isinstance(done, CallFailed):
            failures.append(done.error)
        else:
            outputs.append(done.output)
            calls.stage(ctx, spec.id, order, done.state)
    if failures:
        raise next((error for error in failures if not isinstance(error, Exception)), failures[0])
    return tuple(outputs)


def _checked(ctx: Context[Any, Any], worker: object, states: Sequence[object]) -> NodeSpec:
    if ctx._over:
        raise StepOver(ctx._spec.id)
    if ctx._drive.stopping:
        raise asyncio.CancelledError("a sibling has failed, and nothing new starts")
    spec = ctx._plan.find(ctx._spec.id, worker)
    if ctx._called:
        told = f"{ctx._spec.id} was called itself, and calls {spec.id}"
        raise InvalidResponse("ctx.call", told, "Call both from the step, or join them by edges.")
    if spec.placement != "internal":
        told = f"{spec.id} is a stage"
        raise InvalidResponse("ctx.call", told, "Call a worker; a stage is reached by go(...).")
    if spec is ctx._spec:
        raise InvalidResponse("ctx.call", f"{spec.id} calls itself", "Loop in its own code.")
    for index, state in enumerate(states):
        spec.check_state(ctx._spec.id, state, index if len(states) > 1 else None)
    return spec


async def _run(ctx: Context[Any, Any], journal: Journal, spec: NodeSpec, state: object, at: str) -> Done | CallFailed:
    if (note := journal.found(at)) is not None:
        (before,) = note.state.values()
        if note.worker != spec.id or before != state:
            raise ReplayMismatch(ctx._spec.id, at, f"{spec.id}({quoted(state)})", f"{note.worker}({quoted(before)})")
        if note.raised is not None:
            return CallFailed(recalled(note.raised), note.usage)
        return Done(note.output[spec.id], note.cells[spec.id], note.usage)
    cells = {**ctx._seen.cells, **ctx._staged, spec.id: state}
    called: Context[Any, Any] = Context(ctx._drive, ctx._plan, ctx._drive.session, spec, ctx._step, Seen(cells, {}, {}))
    called._called, called._journal = True, journal.within(at)
    try:
        ran = run_node(called)
        published = ran if type(ran) is Published else await ran
    except NodeError as error:  # kept with the next write: a step that goes on has done so because of it
        journal.hold(at, worker=spec.id, state={spec.id: state}, raised=raised(error), usage=called._spent)
        return CallFailed(error, called._spent)
    except (KeyboardInterrupt, SystemExit) as error:  # raised by a task, it would stop the loop before who called knows
        return CallFailed(error, called._spent)
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
