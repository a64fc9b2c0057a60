"""One node run, from its context to its outcome: `run`, or the model/tool loop, then `on_exit`.  Rule G1."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from ezgraph.algebra.acceptance import of_loop, of_run
from ezgraph.algebra.ownership import check_response
from ezgraph.algebra.scheduling import Step, seen_by
from ezgraph.algebra.settling import Answer, Continue, Published, Reply, Yielded
from ezgraph.errors import (
    ConflictError,
    NodeError,
    OwnershipError,
    ReplayMismatch,
    RoutingError,
    StepFailed,
)
from ezgraph.plan import Handler, NodeSpec
from ezgraph.responses import NO_EFFECTS, Go
from ezgraph.runtime.awaiting import called, settled, within
from ezgraph.runtime.context import Context, StageContext
from ezgraph.runtime.loop import converse
from ezgraph.session import NOTHING

if TYPE_CHECKING:
    from ezgraph.runtime.driver import Drive

BREACHES: Final = (OwnershipError, RoutingError, ConflictError, ReplayMismatch)
"""What no error hook is asked about: the author's own breach of the rules.  Rule G1."""


_HOOKS: Final[Mapping[str, str]] = {
    "enter": "on_enter",
    "prompt": "prompt",
    "response": "on_response",
    "rescue": "on_error",
    "exit": "on_exit",
}
"""The methods that a run calls besides, by the section of the step that they are."""


def run_node(ctx: Context[Any, Any]) -> Published | Coroutine[Any, Any, Published]:
    """Run a node once and give its outcome, or the promise of it; nothing is published here.

    A function that waits for nothing has run when this returns: it costs no coroutine.

    Raises:
        NodeError: The node did what it may not, or failed; a foreign error comes as `StepFailed`.
    """
    spec = ctx._spec
    run = spec.run
    if run is None or spec.waits:
        work = work_of(ctx)
        return _tended(ctx, work) if spec.tended else work
    try:
        response = run.call(ctx)
        if type(response) in run.kinds or not inspect.isawaitable(response):
            published = _published(spec, run, ctx, response)
            ctx._over = True
            return published
    except BaseException as error:  # noqa: BLE001  it is raised, as what it is
        ctx._over = True
        raise _told(ctx, error)  # noqa: B904
    return work_of(ctx, response)


def context_of(drive: Drive, step: Step) -> Context[Any, Any]:
    """What the node of a step is handed.  Rules B3, E4."""
    session, plan = drive.session, drive.plan
    spec = plan.nodes[step.node]
    if spec.placement == "internal":
        return Context(drive, plan, session, spec, step, seen_by(plan, session, step))
    head = session.head
    ctx: StageContext[Any, Any] = StageContext(drive, plan, session, spec, step, session, head.incoming)
    if head.before is not None and head.incoming is not None:
        ctx._add(spec.space, head.incoming)
    return ctx


def _afresh(ctx: Context[Any, Any]) -> Context[Any, Any]:
    """The context as it was before the run staged anything."""
    if not ctx._called:
        return context_of(ctx._drive, ctx._step)
    again: Context[Any, Any] = Context(ctx._drive, ctx._plan, ctx._drive.session, ctx._spec, ctx._step, ctx._seen)
    again._called, again._journal = True, ctx._journal
    return again


async def work_of(ctx: Context[Any, Any], begun: Awaitable[Any] | None = None) -> Published:
    """The work of a run that may wait; `begun` is what its `run` gave already.

    Raises:
        NodeError: As `run_node`.
    """
    spec = ctx._spec
    run = spec.run
    try:
        if run is None:
            return _outcome(ctx, await converse(ctx))
        if begun is not None:
            response = await begun
        elif run.awaits:  # the hot path: nothing between the driver and the node
            response = await run.call(ctx)
        else:
            response = await called(run, ctx, {})
        return _published(spec, run, ctx, response)
    except BaseException as error:  # noqa: BLE001  it is raised, as what it is
        raise _told(ctx, error)  # noqa: B904
    finally:
        ctx._over = not spec.on_exit
        if ctx._calls is not None:
            await ctx._calls.end()


async def _tended(ctx: Context[Any, Any], work: Awaitable[Published]) -> Published:
    """A run with an end, an error hook and `on_exit`, where the node has them.  Rules G1, G2, G7."""
    spec = ctx._spec
    try:
        published = await (work if spec.timeout is None else within(spec.timeout, spec.id, None, work))
    except NodeError as error:
        ctx._over = True
        if spec.rescue is None or isinstance(error, BREACHES) or isinstance(error.__cause__, BREACHES):
            raise
        spent, ctx = ctx._spent, _afresh(ctx)
        ctx._spent = spent  # which it was
        published = await _rescued(spec, spec.rescue, ctx, error)
    if spec.on_exit:
        exiting = _exited(spec, ctx, published)
        await (exiting if spec.timeout is None else within(spec.timeout, spec.id, None, exiting))
    return published


async def _rescued(spec: NodeSpec, rescue: Handler, ctx: Context[Any, Any], error: NodeError) -> Published:
    """What the error hook gives in the place of an outcome; the response hook does not see it."""
    cause = error.__cause__ if isinstance(error, StepFailed) else None
    shown = cause if isinstance(cause, Exception) else error
    ctx._section = "rescue"
    try:
        given = await settled(rescue.call(ctx, shown))
        check_response(ctx._plan, spec, rescue, given)
        if given is None:
            raise error  # noqa: TRY301  it delegates
        ctx._spend(given.effects.usage)
        return _outcome(ctx, of_loop(spec, "", given))
    except BaseException as raised:  # noqa: BLE001  it is raised, as what it is
        raise error if ctx._drive.failing(raised) is shown else _told(ctx, raised)  # noqa: B904
    finally:
        ctx._over = not spec.on_exit
        if ctx._calls is not None:
            await ctx._calls.end()


async def _exited(spec: NodeSpec, ctx: Context[Any, Any], published: Published) -> None:
    ctx._section = "exit"
    try:
        await settled(spec.node.on_exit(ctx, _seen_at_exit(published.answer)))
        ctx._check_fault()
    except BaseException as error:  # noqa: BLE001  it is raised, as what it is
        raise _told(ctx, error)  # noqa: B904
    finally:
        ctx._over = True
        if ctx._calls is not None:
            await ctx._calls.end()


def _published(spec: NodeSpec, run: Handler, ctx: Context[Any, Any], response: Any) -> Published:
    """The outcome of a `run`, once table B has allowed what it returned."""
    if ctx._fault is not None:
        raise ctx._fault
    check_response(ctx._plan, spec, run, response)
    if response is not None and response.effects is not NO_EFFECTS:
        ctx._spend(response.effects.usage)
    answer = response if type(response) is Go else of_run(spec, response)  # the hot path comes first
    return Published(answer, ctx._staged, ctx._adds if spec.space else NOTHING, ctx._spent)


def _outcome(ctx: Context[Any, Any], answer: Answer) -> Published:
    """A run that ended well.  A worker's messages are private to its run.  Rule B3."""
    ctx._check_fault()
    return Published(answer, ctx._staged, ctx._adds if ctx._spec.space else NOTHING, ctx._spent)


def _told(ctx: Context[Any, Any], error: BaseException) -> BaseException:
    """What a run raises for `error`: itself if it fails no step, its fault, the node's own breach, or `StepFailed`."""
    node, cause = ctx._spec.id, ctx._drive.failing(error)
    if cause is None:
        return error
    if ctx._fault is not None:
        return ctx._fault
    if isinstance(error, NodeError) and error.node == node:
        return error
    failed = StepFailed(node, cause)
    failed.__cause__ = cause
    if ctx._section in _HOOKS:
        failed.add_note(f"in {_HOOKS[ctx._section]}")
    return failed


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
