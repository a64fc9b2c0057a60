"""What a branch may count on of its task and its context variables, whether it waits or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from ezgraph import (
    END,
    BranchFailed,
    Context,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    StageContext,
    Stay,
    StepFailed,
    TaskResult,
    ToolCall,
    Worker,
    finish,
    go,
    scatter,
    stay,
    task_result,
    tool,
)
from ezgraph.models import ModelReply, ModelRequest
from ezgraph.runtime.compiled import CompiledGraph

ACTS: list[Callable[[], Awaitable[object]]] = []
"""What each branch does, by its item."""

VISITOR: ContextVar[str] = ContextVar("VISITOR", default="nobody")


class Opens(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Acts]:
        return scatter(Acts, range(len(ACTS)))


class Acts(Worker[int, str]):
    async def run(self, ctx: Context[int]) -> TaskResult[str]:
        return task_result(str(await ACTS[ctx.state]()))


class Tells(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(" ".join(ctx.results(Acts)))


def opened(*acts: Callable[[], Awaitable[object]], **given: Any) -> CompiledGraph:
    ACTS[:] = acts
    return Graph("g", entry=Opens).stages(Tells).workers(Acts).join((Acts,), to=Tells).compile(**given)


def told(*acts: Callable[[], Awaitable[object]], **given: Any) -> str | None:
    return opened(*acts, **given).invoke("go", session="s").reply


async def visits() -> str:
    before = VISITOR.get()
    VISITOR.set("a branch")
    return before


async def waits_and_visits() -> str:
    before = VISITOR.get()
    VISITOR.set("one that waits")
    await asyncio.sleep(0)
    return f"{before}/{VISITOR.get()}"


@pytest.mark.parametrize("limit", [None, 1, 2])
def test_e4_what_a_branch_sets_in_its_context_variables_is_its_own(limit: int | None) -> None:
    """Whether branches share a task is not to be seen."""
    token = VISITOR.set("caller")
    try:
        reply = told(visits, visits, waits_and_visits, visits, waits_and_visits, max_branches=limit)
        assert VISITOR.get() == "caller"
    finally:
        VISITOR.reset(token)
    assert reply == "caller caller caller/one that waits caller caller/one that waits"


def test_e4_branches_that_wait_for_each_other_run_side_by_side() -> None:
    met = asyncio.Barrier(3)

    async def meets() -> int:
        await met.wait()
        return 1

    assert told(visits, meets, visits, meets, meets) == "nobody 1 nobody 1 1"


def test_e5_a_time_limit_inside_a_branch_ends_that_branch_alone() -> None:
    async def hurries() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "late"
        return "early"

    assert told(visits, hurries, visits, hurries) == "nobody late nobody late"


def test_e5_a_branch_that_cancels_its_own_task_cancels_no_other() -> None:
    async def gives_up() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "up"

    assert told(gives_up, waits_and_visits, gives_up, waits_and_visits) == (
        "up nobody/one that waits up nobody/one that waits"
    )


def test_e5_one_that_raises_before_it_waits_is_a_failure_of_its_own() -> None:
    async def breaks() -> str:
        raise ValueError("broken")

    app = opened(visits, breaks, waits_and_visits, breaks)
    with pytest.raises(BranchFailed) as failed:
        app.invoke("go", session="s")
    assert [error.item for error in failed.value.failures] == [1, 3]
    ACTS[1] = ACTS[3] = visits
    assert app.recover("s").reply == "nobody nobody nobody/one that waits nobody"


def test_m1_a_branch_is_named_by_its_node_in_the_loop() -> None:
    async def names() -> str:
        task = asyncio.current_task()
        return "" if task is None else task.get_name()

    assert told(names, waits_and_visits, names) == "Acts nobody/one that waits Acts"


def test_e5_what_had_not_begun_when_a_sibling_failed_never_does() -> None:
    """The first fails at once, the second waits, and the third is only about to start."""
    begun: list[int] = []

    async def breaks() -> str:
        raise ValueError("broken")

    async def begins() -> int:
        begun.append(1)
        return 1

    ACTS[:] = [breaks, waits_and_visits, begins]
    graph = Graph("g", entry=Opens).stages(Tells).workers(Acts)
    app = graph.join((Acts,), to=Tells, on_failure="cancel_siblings").compile()
    with pytest.raises(BranchFailed):
        app.invoke("go", session="s")
    assert begun == []
    ACTS[0] = visits
    assert app.recover("s").reply == "nobody nobody/one that waits 1"
    assert begun == [1]


def test_g3_an_error_that_is_no_failure_of_the_branch_reaches_the_caller() -> None:
    class Aborted(BaseException):
        """As a debugger's or a runner's would be."""

    async def aborts() -> None:
        await asyncio.sleep(0)
        raise Aborted

    with pytest.raises(Aborted):
        told(visits, aborts, waits_and_visits)


def test_m1_a_loop_that_makes_tasks_of_its_own_is_asked_for_them() -> None:
    made: list[str] = []

    async def turn() -> str | None:
        loop = asyncio.get_running_loop()

        def makes(of: asyncio.AbstractEventLoop, work: Any, **given: Any) -> asyncio.Task[Any]:
            made.append(work.__name__)
            return asyncio.Task(work, loop=of, **given)

        loop.set_task_factory(makes)
        return (await opened(visits, waits_and_visits, visits).ainvoke("go", session="s")).reply

    assert asyncio.run(turn()) == "nobody nobody/one that waits nobody"
    assert made.count("_run") == 2, "one for those that do not wait, up to the first that does, and one for the last"


# ------------------------------------------------------------------- context variables, whatever kind of code sets them

SEEN: dict[str, str] = {}
"""Whom each place in the code met, by its name."""


@pytest.fixture(autouse=True)
def _nobody_was_seen() -> None:
    SEEN.clear()


def visit(place: str) -> str:
    """Whom a place meets; the next one that shares its context variables meets it."""
    SEEN[place] = met = VISITOR.get()
    VISITOR.set(place)
    return met


class Plain(Worker[int, str]):
    def run(self, ctx: Context[int]) -> TaskResult[str]:
        return task_result(visit(f"run {ctx.state}"))


class Threaded(Plain):
    blocking = True


class Exits(Plain):
    """Its hook is a later part of the same branch."""

    def on_exit(self, ctx: Context[int], output: object) -> None:
        visit(f"exit {ctx.state}")


class ThreadedExits(Exits):
    blocking = True


class Now(Worker[int, str]):
    async def run(self, ctx: Context[int]) -> TaskResult[str]:
        return task_result(visit(f"run {ctx.state}"))


class Later(Worker[int, str]):
    async def run(self, ctx: Context[int]) -> TaskResult[str]:
        met = visit(f"run {ctx.state}")
        await asyncio.sleep(0)
        assert visit(f"later {ctx.state}") == f"run {ctx.state}"
        return task_result(met)


class Promises(Worker[int, str]):
    """Sets before it gives what is to be awaited, and reads in there."""

    def run(self, ctx: Context[int]) -> TaskResult[str]:
        met = visit(f"run {ctx.state}")

        async def promised() -> TaskResult[str]:
            await asyncio.sleep(0)
            assert visit(f"later {ctx.state}") == f"run {ctx.state}"
            return task_result(met)

        return promised()  # type: ignore[return-value]


class Asks(Worker[int, str]):
    """Its hooks and tools, of every kind, are parts of one branch."""

    def __init__(self) -> None:
        self.model = self

    async def respond(self, request: ModelRequest) -> ModelReply:
        if request.messages[-1].role == "tool":
            return ModelReply("spoken")
        return ModelReply(calls=tuple(ToolCall(name, name) for name in ("at_once", "later", "threaded")))

    def on_enter(self, ctx: Context[int], message: object) -> str:
        SEEN[f"run {ctx.state}"] = VISITOR.get()
        visit("enter")
        return "Go."

    async def prompt(self, ctx: Context[int]) -> str:
        visit("prompt")
        return "Speak."

    @tool
    def at_once(self, ctx: Context[int]) -> Stay:
        """Do it."""
        visit("at_once")
        return stay("done")

    @tool
    async def later(self, ctx: Context[int]) -> Stay:
        """Do it."""
        visit("later")
        return stay("done")

    @tool(blocking=True)
    def threaded(self, ctx: Context[int]) -> Stay:
        """Do it."""
        visit("threaded")
        return stay("done")

    def on_response(self, ctx: Context[int], output: object) -> None:
        visit("response")


class Ends(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(VISITOR.get())


KINDS = (Plain, Threaded, Exits, ThreadedExits, Now, Later, Promises, Asks)
everywhere = pytest.mark.parametrize("worker", KINDS)


async def left_by(app: CompiledGraph) -> tuple[str | None, str]:
    """The reply of a turn, and whom its caller meets afterwards."""
    VISITOR.set("caller")
    return (await app.ainvoke("go", session="s")).reply, VISITOR.get()


@everywhere
@pytest.mark.parametrize("limit", [1, 2, None])
def test_e4_the_context_variables_of_a_branch_are_its_own_whatever_runs_it(worker: Any, limit: int | None) -> None:
    """Neither a sibling, nor the stage that joins them, nor the caller sees what it sets."""

    class Opens(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Plain]:
            return scatter(worker, range(3))

    Opens.run.__annotations__["return"] = Fanout[worker]
    graph = Graph("g", entry=Opens).stages(Ends).workers(worker).join((worker,), to=Ends)
    assert asyncio.run(left_by(graph.compile(max_branches=limit))) == ("caller", "caller")
    assert [SEEN[f"run {item}"] for item in range(3)] == ["caller"] * 3


@everywhere
def test_e4_the_steps_of_a_chain_of_branches_have_each_their_own(worker: Any) -> None:
    class Opens(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Plain]:
            return scatter(worker, [0])

    class After(Worker[None, str]):
        def run(self, ctx: Context[None]) -> TaskResult[str]:
            return task_result(visit("after"))

    Opens.run.__annotations__["return"] = Fanout[worker]
    graph = Graph("g", entry=Opens).stages(Ends).workers(worker, After).edge(worker, After).join((After,), to=Ends)
    assert asyncio.run(left_by(graph.compile())) == ("caller", "caller")
    assert SEEN["after"] == "caller"


@everywhere
def test_e11_the_context_variables_of_a_called_worker_are_its_own(worker: Any) -> None:
    class Calls(GraphNode[None]):
        async def run(self, ctx: StageContext[None]) -> Finish:
            VISITOR.set("the step")
            await ctx.call(worker, 0)
            await ctx.call_all(worker, [1, 2])
            return finish(VISITOR.get())

    graph = Graph("g", entry=Calls).workers(worker)
    assert asyncio.run(left_by(graph.compile())) == ("the step", "caller")
    assert [SEEN[f"run {item}"] for item in range(3)] == ["the step"] * 3


@pytest.mark.parametrize("worker", [Exits, ThreadedExits])
def test_g5_what_a_run_sets_its_own_hook_sees_also_from_a_thread(worker: Any) -> None:
    app = Graph("g", entry=worker).edge(worker, END).compile()
    app.invoke(session="s")
    assert SEEN["exit 0"] == "run 0"


def test_g5_what_a_hook_or_a_tool_sets_the_later_ones_of_its_run_see() -> None:
    app = Graph("g", entry=Asks).edge(Asks, END).compile()
    app.invoke(session="s")
    assert SEEN == {
        "run 0": "nobody",
        "enter": "nobody",
        "prompt": "enter",
        "at_once": "prompt",
        "later": "at_once",
        "threaded": "later",
        "response": "threaded",
    }


def test_g5_what_a_stage_sets_is_the_turns_and_not_the_callers() -> None:
    """The stages of a turn follow one another, so one sees what an earlier one has set; the caller never does."""

    class Goes(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Go[Waits]:
            visit("goes")
            return go(Waits)

    class Waits(GraphNode[None]):
        async def run(self, ctx: StageContext[None]) -> Go[Blocks]:
            await asyncio.sleep(0)
            visit("waits")
            return go(Blocks)

    class Blocks(GraphNode[None]):
        blocking = True

        def run(self, ctx: StageContext[None]) -> Go[Ends]:
            visit("blocks")
            return go(Ends)

    Goes.run.__annotations__["return"] = Go[Waits]
    Waits.run.__annotations__["return"] = Go[Blocks]
    heard: list[str] = []
    app = Graph("g", entry=Goes).stages(Waits, Blocks, Ends).compile(listener=lambda event: heard.append(VISITOR.get()))
    assert asyncio.run(left_by(app)) == ("blocks", "caller")
    assert (heard[0], heard[-1]) == ("caller", "blocks"), "who listens is in the turn, from its beginning to its end"


def test_g4_a_turn_that_raises_leaves_its_caller_no_context_variables_either() -> None:
    class Breaks(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Finish:
            visit("breaks")
            raise ValueError("down")

    async def main() -> None:
        VISITOR.set("caller")
        app = Graph("g", entry=Breaks).compile()
        with pytest.raises(StepFailed):
            await app.ainvoke("go", session="s")
        assert VISITOR.get() == "caller"

    asyncio.run(main())
