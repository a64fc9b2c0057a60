"""What comes of an odd exception, wherever an author's code raises it: the step fails, or the caller gets it as it is.

Rules G3, G5: which of the two is a matter of the exception alone, not of the place and not of how the code is run.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from attrs import frozen

from ezgraph import (
    BranchFailed,
    Context,
    Conversation,
    Fanout,
    Finish,
    Graph,
    GraphNode,
    StageContext,
    Stay,
    StepFailed,
    StepTimeout,
    TaskResult,
    ToolCall,
    UnknownSession,
    Worker,
    fanout,
    finish,
    stay,
    task_result,
    tool,
)
from ezgraph.models import ModelReply, ModelRequest
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.session import Turn


class Aborted(BaseException):
    """As a debugger's or a runner's would be."""


class Bundle(BaseExceptionGroup[BaseException]):
    """A group that is no Exception, whatever is in it."""


FAIL: list[Callable[[], BaseException]] = [
    StopIteration,
    lambda: StopIteration("with a value"),
    StopAsyncIteration,
    asyncio.CancelledError,
    lambda: ExceptionGroup("ordinary", [ValueError("one"), ExceptionGroup("inside", [StopIteration()])]),
    lambda: BaseExceptionGroup("of its own", [ValueError("one"), asyncio.CancelledError()]),
    lambda: Bundle("ordinary", [ValueError("one")]),
]
END: list[Callable[[], BaseException]] = [
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    Aborted,
    lambda: BaseExceptionGroup("mixed", [ValueError("one"), KeyboardInterrupt()]),
]


def named(make: Callable[[], BaseException]) -> str:
    return repr(make())


fails, ends = pytest.mark.parametrize("make", FAIL, ids=named), pytest.mark.parametrize("make", END, ids=named)

RAISES: dict[str, BaseException] = {}
"""What comes up, by the place where it does."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAISES.clear()


def here(place: str) -> None:
    if place in RAISES:
        raise RAISES[place]


async def there(place: str) -> None:
    await asyncio.sleep(0)
    here(place)


@frozen
class Note:
    text: str = ""


class Plain(GraphNode[Note]):
    def run(self, ctx: StageContext[Note]) -> Finish:
        ctx.save(Note("staged"))
        here("run")
        return finish("done")


class Blocks(GraphNode[Note]):
    blocking = True

    def run(self, ctx: StageContext[Note]) -> Finish:
        ctx.save(Note("staged"))
        here("run")
        return finish("done")


class Awaits(GraphNode[Note]):
    async def run(self, ctx: StageContext[Note]) -> Finish:
        ctx.save(Note("staged"))
        await there("run")
        return finish("done")


class Timed(Awaits):
    timeout = 60.0


class TimedThread(Blocks):
    timeout = 60.0


class Exits(Plain):
    def on_exit(self, ctx: StageContext[Note], outcome: object) -> None:
        here("on_exit")


class ExitsLater(Plain):
    async def on_exit(self, ctx: StageContext[Note], outcome: object) -> None:
        await there("on_exit")


class Rescued(Plain):
    def on_error(self, ctx: StageContext[Note], error: Exception) -> Finish:
        ctx.save(Note("staged"))
        here("on_error")
        return finish("rescued")


class RescuedLater(Plain):
    async def on_error(self, ctx: StageContext[Note], error: Exception) -> Finish:
        ctx.save(Note("staged"))
        await there("on_error")
        return finish("rescued")


class Talks(Conversation[Note]):
    """Calls each of its tools once, then speaks."""

    def __init__(self) -> None:
        self.model = self

    async def respond(self, request: ModelRequest) -> ModelReply:
        await there("respond")
        if request.messages[-1].role == "tool":
            return ModelReply("spoken")
        return ModelReply(calls=tuple(ToolCall(name, name) for name in ("at_once", "later", "threaded")))

    def on_enter(self, ctx: StageContext[Note], message: object) -> None:
        ctx.save(Note("staged"))
        here("on_enter")

    def prompt(self, ctx: StageContext[Note]) -> str:
        here("prompt")
        return "Speak."

    @tool
    def at_once(self, ctx: StageContext[Note]) -> Stay:
        """Do it."""
        here("at_once")
        return stay("done")

    @tool(timeout=60.0)
    async def later(self, ctx: StageContext[Note]) -> Stay:
        """Do it."""
        await there("later")
        return stay("done")

    @tool(blocking=True)
    def threaded(self, ctx: StageContext[Note]) -> Stay:
        """Do it."""
        here("threaded")
        return stay("done")

    def on_response(self, ctx: StageContext[Note], output: object) -> None:
        here("on_response")

    def on_exit(self, ctx: StageContext[Note], outcome: object) -> None:
        here("on_exit")


class TalksLater(Talks):
    async def on_enter(self, ctx: StageContext[Note], message: object) -> None:  # type: ignore[override]
        ctx.save(Note("staged"))
        await there("on_enter")

    async def prompt(self, ctx: StageContext[Note]) -> str:  # type: ignore[override]
        await there("prompt")
        return "Speak."

    async def on_response(self, ctx: StageContext[Note], output: object) -> None:  # type: ignore[override]
        await there("on_response")

    async def on_exit(self, ctx: StageContext[Note], outcome: object) -> None:  # type: ignore[override]
        await there("on_exit")


TALKS = ("respond", "on_enter", "prompt", "at_once", "later", "threaded", "on_response", "on_exit")
PLACES: list[tuple[Any, str]] = [
    *((stage, "run") for stage in (Plain, Blocks, Awaits, Timed, TimedThread)),
    *((stage, "on_exit") for stage in (Exits, ExitsLater)),
    *((stage, "on_error") for stage in (Rescued, RescuedLater)),
    *((stage, place) for stage in (Talks, TalksLater) for place in TALKS),
]
placed = pytest.mark.parametrize(("stage", "place"), PLACES, ids=lambda value: getattr(value, "__name__", value))


def played(run: Callable[[], Awaitable[Turn]]) -> Turn | BaseException:
    """What a caller gets, who waits in a task and for no more than so long; no other task is left."""

    async def main() -> Turn | BaseException:
        came: Turn | BaseException
        try:
            async with asyncio.timeout(20):
                came = await run()
        except BaseException as error:  # noqa: BLE001  it is what the test is about
            came = error
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return came

    return asyncio.run(main())


def armed(stage: Any, place: str, make: Callable[[], BaseException]) -> tuple[CompiledGraph, BaseException]:
    app = Graph("g", entry=stage).compile(durability="step")
    if place == "on_error":
        RAISES["run"] = ValueError("down")
    RAISES[place] = odd = make()
    return app, odd


@placed
@fails
def test_g5_what_fails_a_step_fails_it_wherever_it_is_raised(
    stage: Any, place: str, make: Callable[[], BaseException]
) -> None:
    app, odd = armed(stage, place, make)
    failed = played(lambda: app.ainvoke("hi", session="s"))
    assert isinstance(failed, StepFailed)
    assert failed.__cause__ is failed.error is odd
    assert failed.tool == (place if place in ("at_once", "later", "threaded") else None)
    session = app.load("s")
    assert [record.error for record in session.errors] == ["StepFailed"]
    assert session.cells == {}
    RAISES.clear()
    assert app.invoke("hi", session="s").reply in ("done", "spoken")


@placed
@ends
def test_g3_what_fails_no_step_reaches_the_caller_as_it_is(
    stage: Any, place: str, make: Callable[[], BaseException]
) -> None:
    app, odd = armed(stage, place, make)
    assert played(lambda: app.ainvoke("hi", session="s")) is odd
    with pytest.raises(UnknownSession):
        app.load("s")


@ends
def test_g3_what_fails_no_step_ends_a_call_and_a_stream_without_a_loop_too(make: Callable[[], BaseException]) -> None:
    app, odd = armed(Awaits, "run", make)
    for turn in (lambda: app.invoke("hi", session="s"), lambda: list(app.stream("hi", session="s"))):
        with pytest.raises(BaseException) as caught:  # noqa: PT011  it is compared
            turn()
        assert caught.value is odd


@fails
def test_g1_an_error_hook_is_asked_of_all_that_fails_a_step(make: Callable[[], BaseException]) -> None:
    for stage in (Rescued, RescuedLater):
        RAISES["run"] = make()
        assert Graph("g", entry=stage).compile().invoke("hi", session="s").reply == "rescued"


@ends
def test_g1_an_error_hook_is_not_asked_of_what_fails_no_step(make: Callable[[], BaseException]) -> None:
    RAISES["run"] = odd = make()
    app = Graph("g", entry=Rescued).compile()
    assert played(lambda: app.ainvoke("hi", session="s")) is odd


def test_d6_an_odd_error_that_its_hook_gives_back_is_told_as_it_was() -> None:
    class GivesBack(Plain):
        async def on_error(self, ctx: StageContext[Note], error: Exception) -> Finish:
            raise error

    RAISES["run"] = StopIteration("no more")
    with pytest.raises(StepFailed, match=r"^GivesBack raised StopIteration: no more$") as failed:
        Graph("g", entry=GivesBack).compile().invoke("hi", session="s")
    assert failed.value.__cause__ is RAISES["run"]
    assert not hasattr(failed.value, "__notes__")


def test_g5_a_runtime_error_of_the_authors_own_is_left_as_it_is() -> None:
    RAISES["run"] = mine = RuntimeError("nothing left")
    mine.__cause__ = StopIteration()
    with pytest.raises(StepFailed, match="RuntimeError: nothing left") as failed:
        Graph("g", entry=Plain).compile().invoke("hi", session="s")
    assert failed.value.__cause__ is mine


# ------------------------------------------------------------------------------------------------------------- cleanups


class Cleans(Conversation[Note]):
    """Its one call leaves two cleanups that raise, and one that does not."""

    def __init__(self) -> None:
        self.model = self
        self.done: list[str] = []

    async def respond(self, request: ModelRequest) -> ModelReply:
        if request.messages[-1].role == "tool":
            return ModelReply("spoken")
        return ModelReply(calls=tuple(ToolCall(name, "leave", f'{{"name": "{name}"}}') for name in ("c", "d", "e")))

    def prompt(self, ctx: StageContext[Note]) -> str:
        return "Leave."

    @tool
    def leave(self, ctx: StageContext[Note], name: str) -> Stay:
        """Leave something."""

        def cleanup() -> None:
            self.done.append(name)
            here(name)

        async def cleanup_later() -> None:
            self.done.append(name)
            await there(name)

        return stay("left").with_cleanup(cleanup_later if name == "d" else cleanup)


@fails
def test_c2_a_cleanup_that_would_fail_a_step_is_told_and_stops_nothing(
    make: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    RAISES.update(c=make(), d=make())
    node = Cleans()
    app = Graph("g", entry=Cleans).stages(node).compile()
    with caplog.at_level(logging.ERROR, "ezgraph"):
        assert app.invoke("hi", session="s").reply == "spoken"
    assert node.done == ["c", "d", "e"]
    assert [record.getMessage() for record in caplog.records] == ["Cleans: a cleanup raised in session s"] * 2


@ends
def test_g3_a_cleanup_that_fails_no_step_reaches_the_caller_after_the_others(
    make: Callable[[], BaseException],
) -> None:
    for place in "c", "d":
        RAISES.clear()
        RAISES[place] = odd = make()
        node = Cleans()
        app = Graph("g", entry=Cleans).stages(node).compile(durability="step")
        assert played(lambda: app.ainvoke("hi", session="s")) is odd  # noqa: B023  it is run here
        assert node.done == ["c", "d", "e"]
        with pytest.raises(UnknownSession):
            app.load("s")


@pytest.mark.parametrize("make", [StopIteration, asyncio.CancelledError])
def test_g8_an_odd_error_of_a_listener_harms_nothing(
    make: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def listens(event: object) -> None:
        raise make()

    with caplog.at_level(logging.ERROR, "ezgraph"):
        assert Graph("g", entry=Awaits).compile(listener=listens).invoke("hi", session="s").reply == "done"
    assert caplog.records


# ------------------------------------------------------------------------------------------------- branches, and called


class Works(Worker[Note, str]):
    def run(self, ctx: Context[Note]) -> TaskResult[str]:
        here("run")
        return task_result("worked")


class WorksInAThread(Works):
    blocking = True


class WorksLater(Worker[Note, str]):
    async def run(self, ctx: Context[Note]) -> TaskResult[str]:
        await there("run")
        return task_result("worked")


class WorksNow(Worker[Note, str]):
    """Async, and never waits."""

    async def run(self, ctx: Context[Note]) -> TaskResult[str]:
        here("run")
        return task_result("worked")


class Promises(Worker[Note, str]):
    """Gives what has to be awaited, without being async."""

    def run(self, ctx: Context[Note]) -> TaskResult[str]:
        return WorksLater().run(ctx)  # type: ignore[return-value]


class Steady(Worker[Note, str]):
    runs: list[int] = []

    def run(self, ctx: Context[Note]) -> TaskResult[str]:
        self.runs.append(1)
        return task_result("steady")


class Slow(Worker[Note, str]):
    runs: list[int] = []

    async def run(self, ctx: Context[Note]) -> TaskResult[str]:
        self.runs.append(1)
        for _ in range(5):
            await asyncio.sleep(0)
        return task_result("slow")


class Joins(GraphNode[Note]):
    def run(self, ctx: StageContext[Note]) -> Finish:
        return finish("joined")


WORKERS = (Works, WorksInAThread, WorksLater, WorksNow, Promises)
working = pytest.mark.parametrize("worker", WORKERS)
limited = pytest.mark.parametrize("limit", [1, 2, None])


def forked(worker: Any, **given: Any) -> CompiledGraph:
    class Opens(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Steady | Slow]:
            return fanout(worker, Steady, Slow)

    Opens.run.__annotations__["return"] = Fanout[worker | Steady | Slow]
    Steady.runs.clear()
    Slow.runs.clear()
    graph = Graph("g", entry=Opens).stages(Joins).workers(Slow, worker, Steady)
    return graph.join((Slow, worker, Steady), to=Joins).compile(**given)


@working
@limited
@fails
def test_g5_what_fails_a_step_fails_that_branch_alone(
    worker: Any, limit: int | None, make: Callable[[], BaseException]
) -> None:
    app = forked(worker, max_branches=limit)
    RAISES["run"] = make()
    failed = played(lambda: app.ainvoke("go", session="s"))
    assert isinstance(failed, BranchFailed)
    (only,) = failed.failures
    assert only.node == worker.__name__
    assert isinstance(only, StepFailed)
    assert only.__cause__ is RAISES["run"]
    assert [record.error for record in app.load("s").errors] == ["StepFailed"]
    RAISES.clear()
    assert app.recover("s").reply == "joined"
    assert (Steady.runs, Slow.runs) == ([1], [1]), "siblings are kept"


@working
@limited
@ends
def test_g3_what_fails_no_step_ends_the_turn_with_its_branches(
    worker: Any, limit: int | None, make: Callable[[], BaseException]
) -> None:
    app = forked(worker, max_branches=limit)
    RAISES["run"] = make()
    assert played(lambda: app.ainvoke("go", session="s")) is RAISES["run"]
    assert app.load("s").errors == ()
    RAISES.clear()
    assert app.recover("s").reply == "joined"


def calling(worker: Any) -> CompiledGraph:
    class Calls(GraphNode[Note]):
        async def run(self, ctx: StageContext[Note]) -> Finish:
            ctx.save(Note("staged"))
            first, *_ = await ctx.call_all(worker, [Note()])
            return finish(first)

    return Graph("g", entry=Calls).workers(worker).compile(durability="step")


@working
@fails
def test_e11_what_fails_a_step_fails_a_called_worker(worker: Any, make: Callable[[], BaseException]) -> None:
    app = calling(worker)
    RAISES["run"] = make()
    failed = played(lambda: app.ainvoke("go", session="s"))
    assert isinstance(failed, StepFailed)
    inner = failed.__cause__
    assert isinstance(inner, StepFailed)
    assert (inner.node, inner.__cause__) == (worker.__name__, RAISES["run"])
    assert [record.error for record in app.load("s").errors] == ["StepFailed"]


@working
@ends
def test_e11_what_fails_no_step_comes_through_a_called_worker(worker: Any, make: Callable[[], BaseException]) -> None:
    app = calling(worker)
    RAISES["run"] = make()
    assert played(lambda: app.ainvoke("go", session="s")) is RAISES["run"]
    with pytest.raises(UnknownSession):
        app.load("s")


def test_e11_of_several_called_workers_what_fails_no_step_is_told_first() -> None:
    class Differs(Worker[int, str]):
        def run(self, ctx: Context[int]) -> TaskResult[str]:
            raise ValueError("down") if ctx.state == 0 else Aborted

    class Calls(GraphNode[None]):
        async def run(self, ctx: StageContext[None]) -> Finish:
            return finish("".join(await ctx.call_all(Differs, [0, 1])))

    app = Graph("g", entry=Calls).workers(Differs).compile()
    assert isinstance(played(lambda: app.ainvoke("go", session="s")), Aborted)


# ------------------------------------------------------------------------------------------------ who cancelled it

STARTED, RELEASE = threading.Event(), threading.Event()


def stalls() -> None:
    STARTED.set()
    RELEASE.wait(20)


async def stalls_later() -> None:
    STARTED.set()
    await asyncio.Event().wait()


class StallsInAThread(GraphNode[Note]):
    blocking = True

    def run(self, ctx: StageContext[Note]) -> Finish:
        stalls()
        return finish("never")


class Stalls(GraphNode[Note]):
    async def run(self, ctx: StageContext[Note]) -> Finish:
        await stalls_later()
        return finish("never")


class RaisesInstead(GraphNode[Note]):
    async def run(self, ctx: StageContext[Note]) -> Finish:
        try:
            await stalls_later()
        finally:
            raise ValueError("in the place of the cancellation")


class CancelsInstead(GraphNode[Note]):
    async def run(self, ctx: StageContext[Note]) -> Finish:
        try:
            await stalls_later()
        finally:
            raise asyncio.CancelledError("mine")


class TalksAndStalls(Talks):
    @tool
    async def later(self, ctx: StageContext[Note]) -> Stay:
        """Do it."""
        await stalls_later()
        return stay("never")


class PromptsAndStalls(Talks):
    async def prompt(self, ctx: StageContext[Note]) -> str:  # type: ignore[override]
        await stalls_later()
        return "never"


class StallingWorker(Worker[Note, str]):
    async def run(self, ctx: Context[Note]) -> TaskResult[str]:
        await stalls_later()
        return task_result("never")


class CallsAndStalls(GraphNode[Note]):
    async def run(self, ctx: StageContext[Note]) -> Finish:
        return finish(await ctx.call(StallingWorker, Note()))


class OpensAndStalls(GraphNode[Note]):
    def run(self, ctx: StageContext[Note]) -> Fanout[StallingWorker | Steady]:
        return fanout(StallingWorker, Steady)


STALLING = (
    StallsInAThread,
    Stalls,
    RaisesInstead,
    CancelsInstead,
    TalksAndStalls,
    PromptsAndStalls,
    CallsAndStalls,
    OpensAndStalls,
)


def stalling(stage: Any) -> CompiledGraph:
    STARTED.clear()
    RELEASE.clear()
    graph = Graph("g", entry=stage).workers(StallingWorker)
    if stage is OpensAndStalls:
        graph = graph.stages(Joins).workers(Steady).join((StallingWorker, Steady), to=Joins)
    return graph.compile(durability="step")


async def started() -> None:
    await asyncio.to_thread(STARTED.wait, 20)


@pytest.mark.parametrize("stage", STALLING)
@pytest.mark.parametrize("before", [0, 1])
def test_g3_a_cancellation_by_the_caller_is_told_from_one_by_the_handler(stage: Any, before: int) -> None:
    """Also where the caller's task had been cancelled once already, and went on."""

    async def calls(app: CompiledGraph) -> Turn:
        task = asyncio.current_task()
        assert task is not None
        if before:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(0)
            assert task.cancelling() == 1
        return await app.ainvoke("go", session="s")

    async def main() -> None:
        app = stalling(stage)
        turn = asyncio.create_task(calls(app))
        await started()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        RELEASE.set()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        if stage is not OpensAndStalls:
            with pytest.raises(UnknownSession):
                await app.aload("s")
        else:
            assert (await app.aload("s")).errors == ()

    asyncio.run(main())


@pytest.mark.parametrize("stage", STALLING)
def test_g3_a_time_limit_of_the_caller_reaches_the_caller_as_its_own(stage: Any) -> None:
    async def main() -> None:
        app, scope = stalling(stage), asyncio.timeout(None)
        begun = asyncio.ensure_future(started())
        begun.add_done_callback(lambda _: scope.reschedule(0))

        async def limited() -> None:
            async with scope:
                await app.ainvoke("go", session="s")

        with pytest.raises(TimeoutError):
            await limited()
        RELEASE.set()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


@pytest.mark.parametrize("stage", STALLING)
def test_g8_a_stream_that_is_closed_while_a_handler_runs_has_stopped(stage: Any) -> None:
    async def main() -> None:
        app = stalling(stage)
        async with app.astream("go", session="s"):
            await started()
        RELEASE.set()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_g5_a_cancellation_that_was_before_the_turn_is_not_of_the_turn() -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        for stage in (Plain, Blocks, Awaits):
            app, odd = armed(stage, "run", asyncio.CancelledError)
            with pytest.raises(StepFailed) as failed:
                await app.ainvoke("hi", session="s")
            assert failed.value.__cause__ is odd

    asyncio.run(main())


def test_g5_a_task_group_that_fails_fails_its_step() -> None:
    """Before Python 3.13 the group leaves its task as if it had been cancelled."""

    class Groups(GraphNode[Note]):
        async def run(self, ctx: StageContext[Note]) -> Finish:
            async with asyncio.TaskGroup() as group:
                group.create_task(there("a task"))
                group.create_task(asyncio.sleep(60))
            return finish("never")

    RAISES["a task"] = odd = ValueError("down")
    odd.__cause__ = odd
    app = Graph("g", entry=Groups).compile()
    failed = played(lambda: app.ainvoke("go", session="s"))
    assert isinstance(failed, StepFailed)
    assert isinstance(failed.error, ExceptionGroup)
    assert [record.error for record in app.load("s").errors] == ["StepFailed"]


def test_g3_an_error_that_is_its_own_cause_is_told() -> None:
    class Circles(GraphNode[Note]):
        async def run(self, ctx: StageContext[Note]) -> Finish:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            error = ValueError("down")
            raise error from error

    app = Graph("g", entry=Circles).compile()
    with pytest.raises(StepFailed):
        app.invoke("go", session="s")


@pytest.mark.parametrize("stage", [Stalls, RaisesInstead, CancelsInstead])
def test_g7_a_time_limit_of_the_node_is_a_timeout_or_what_the_node_made_of_it(stage: Any) -> None:
    short: Any = type("Short", (stage,), {"timeout": 0.001, "__module__": __name__})
    made = StepFailed if stage is RaisesInstead else StepTimeout
    app = Graph("g", entry=short).compile()
    assert isinstance(played(lambda: app.ainvoke("go", session="s")), made)
    assert len(app.load("s").errors) == 1


def test_e5_a_sibling_that_is_cancelled_for_a_failure_has_not_failed() -> None:
    class Opens(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[StallingWorker | WorksLater]:
            return fanout(StallingWorker, WorksLater)

    RAISES["run"] = asyncio.CancelledError()
    graph = Graph("g", entry=Opens).stages(Joins).workers(StallingWorker, WorksLater)
    app = graph.join((StallingWorker, WorksLater), to=Joins, on_failure="cancel_siblings").compile()
    failed = played(lambda: app.ainvoke("go", session="s"))
    assert isinstance(failed, BranchFailed)
    assert [error.node for error in failed.failures] == ["WorksLater"]
