"""What a branch may count on of its task and its context variables, whether it waits or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from ezgraph import (
    BranchFailed,
    Context,
    Fanout,
    Finish,
    Graph,
    GraphNode,
    StageContext,
    TaskResult,
    Worker,
    finish,
    scatter,
    task_result,
)
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
