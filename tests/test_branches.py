"""Parallel work: any order and limit come to one end, joins fire once, failures keep what is done.  E2 to E5."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import pytest
from attrs import frozen
from faults import idle, no_other_task, stopped_when
from puppets import W1, W2, W3, W4, X1, X2, A, B, J, Note, Play, app
from transcripts import told

from ezgraph import (
    END,
    BranchFailed,
    Context,
    Direct,
    DirectTo,
    Fanout,
    Graph,
    GraphNode,
    NoResult,
    NoState,
    StageContext,
    StepFailed,
    TaskResult,
    UndeclaredRoute,
    UnfinishedWork,
    UnknownTarget,
    Worker,
    direct,
    fanout,
    go,
    task_result,
)
from ezgraph.runtime.events import StepPublished
from ezgraph.session import Session

FAN = (W1, W2, W3)


def raising(ctx: Any) -> Any:
    raise LookupError("on purpose")


class Order:
    """Lets branches end in a given order: each waits until those before it have ended."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.ended = {name: asyncio.Event() for name in names}

    def of(self, name: str, answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def act(ctx: Any) -> Any:
            for earlier in self.names[: self.names.index(name)]:
                await self.ended[earlier].wait()
            try:
                return answer(ctx)
            finally:
                self.ended[name].set()

        return act


def totals(ctx: Any) -> Any:
    return direct(" ".join(str(ctx.result(worker, default=None)) for worker in (W1, W2, W3, W4)))


def saving(n: int) -> Callable[[Any], Any]:
    def act(ctx: Any) -> Any:
        ctx.save(Note(n))
        return task_result(n)

    return act


# --------------------------------------------------------------------------------------------------- orders and limits


def sessions_in_every_order(play: Callable[[Order], Play]) -> list[tuple[object, Session]]:
    """The turn and the session that each order of ending leads to, with and without limits."""
    found: list[tuple[object, Session]] = []

    async def one(names: Sequence[str], limit: int | None) -> None:
        graph = app(play(Order(names)), max_branches=limit)
        try:
            outcome: object = await graph.ainvoke("go", session="s")
        except BranchFailed as error:
            outcome = [(failure.node, str(failure)) for failure in error.failures]
        assert no_other_task()
        found.append((outcome, await graph.aload("s")))

    for names in permutations(["W1", "W2", "W3"]):
        asyncio.run(one(names, None))
    for limit in (1, 2, 3):
        asyncio.run(one(["W1", "W2", "W3"], limit))
    return found


def test_e4_every_order_and_every_limit_gives_the_same_session() -> None:
    """FIELD F6, F10: the merge is in the plan's order, whoever ends first."""

    def play(order: Order) -> Play:
        return Play(
            A=lambda ctx: fanout(W3, W1, W2),
            W1=order.of("W1", saving(1)),
            W2=order.of("W2", saving(2)),
            W3=order.of("W3", saving(3)),
            W4=lambda ctx: task_result(10 * ctx.result(W3) + ctx.read(W3).n + ctx.read(W1).n),
            J=totals,
        )

    outcomes = sessions_in_every_order(play)
    assert all(outcome == outcomes[0] for outcome in outcomes)
    turn, session = outcomes[0]
    assert getattr(turn, "reply", None) == "1 2 3 33"
    assert list(session.cells) == ["W1", "W2", "W3"]
    assert list(session.results) == ["W1", "W2", "W3", "W4"]


@pytest.mark.parametrize("failing", [("W1",), ("W3",), ("W3", "W1"), ("W1", "W2", "W3")])
def test_e5_failures_are_listed_in_dispatch_order_whatever_the_timing(failing: Sequence[str]) -> None:
    def play(order: Order) -> Play:
        acts = {
            name: order.of(name, raising if name in failing else saving(n)) for n, name in enumerate(order.ended, 1)
        }
        return Play(A=lambda ctx: fanout(W3, W1, W2), W4=saving(4), **acts)

    outcomes = sessions_in_every_order(play)
    named = [[node for node, _ in outcome] for outcome, _ in outcomes if isinstance(outcome, list)]
    assert named == [sorted(failing)] * len(outcomes)
    for _, session in outcomes:
        assert session.activation is not None
        assert session.activation.marks == {(name, None) for name in failing}
        assert session.head.cursor == "A"
        assert len(session.errors) == len(failing)


def test_f6_no_more_branches_run_at_once_than_the_limit_allows() -> None:
    """FIELD F6."""
    for limit in (1, 2):
        running, most = 0, 0

        async def counted(ctx: Any) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await idle(3)
            running -= 1
            return task_result(1)

        play = Play(A=lambda ctx: fanout(W1, W2, W3), **dict.fromkeys(("W1", "W2", "W3", "W4"), counted))
        app(play, max_branches=limit).invoke("go", session="s")
        assert most == limit


def test_e4_a_slow_sibling_does_not_delay_the_next_node_of_a_fast_branch() -> None:
    async def main() -> None:
        followed = asyncio.Event()

        async def slow(ctx: Any) -> Any:
            await followed.wait()
            return task_result(1)

        def follows(ctx: Any) -> Any:
            followed.set()
            return task_result(4)

        play = Play(A=lambda ctx: fanout(W1, W3), W1=slow, W4=follows, J=totals)
        assert (await app(play).ainvoke("go", session="s")).reply == "1 None 0 4"

    asyncio.run(main())


def test_e4_a_branch_reads_what_it_comes_after_and_nothing_else_that_landed() -> None:
    async def main() -> None:
        landed = asyncio.Event()

        def tell(event: object) -> None:
            if isinstance(event, StepPublished) and event.node == "W4":
                landed.set()

        async def late(ctx: Any) -> Any:
            await landed.wait()
            with pytest.raises(NoResult, match="results that can be read here: none"):
                ctx.result(W3)
            return task_result(ctx.read(W3).n + ctx.read(W4).n + ctx.read(A).n)

        def begins(ctx: Any) -> Any:
            ctx.save(Note(7))
            return fanout(W1, W3)

        play = Play(A=begins, W1=late, W3=saving(3), W4=lambda ctx: task_result(ctx.read(W3).n), J=totals)
        assert (await app(play, listener=tell).ainvoke("go", session="s")).reply == "7 None 3 3"

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------------------- joins


def test_f14_a_join_in_a_loop_fires_once_a_round() -> None:
    """FIELD F14: gate → {X, Y} → join → gate, three rounds, each with its own results."""
    seen: list[tuple[int, int]] = []
    rounds = iter(range(1, 4))

    def joins(ctx: Any) -> Any:
        seen.append((ctx.result(W1), ctx.result(W2)))
        return go(A)

    def gate(ctx: Any) -> Any:
        n = next(rounds, None)
        if n is None:
            return direct("over")
        ctx.save(Note(n))
        return fanout(W1, W2)

    play = Play(
        A=gate,
        W1=lambda ctx: task_result(ctx.read(A).n),
        W2=lambda ctx: task_result(-ctx.read(A).n),
        J=joins,
    )
    assert app(play).invoke("go", session="s").reply == "over"
    assert seen == [(1, -1), (2, -2), (3, -3)]
    assert play.runs == {"A": 4, "W1": 3, "W2": 3, "J": 3}


def test_e2_results_are_readable_over_later_turns_until_the_stage_is_left() -> None:
    play = Play(
        A=[lambda ctx: fanout(W1, W2), lambda ctx: direct(str(ctx.result(W1, default="gone")))],
        W1=saving(5),
        J=[totals, totals, totals, lambda ctx: go(A)],
    )
    graph = app(play)
    for _ in range(3):
        assert graph.invoke("go", session="s").reply == "5 0 None None"
    assert graph.invoke("leave", session="s").reply == "gone"
    assert dict(graph.load("s").results) == {}
    play.let(A=lambda ctx: direct(str(ctx.result(W1))))
    with pytest.raises(NoResult, match=r"A asked for the result of W1; .*here: none") as caught:
        graph.invoke("go", session="s")
    assert (caught.value.worker, caught.value.available) == ("W1", ())


def test_e2_results_are_readable_in_the_joined_stages_recovery() -> None:
    play = Play(A=lambda ctx: fanout(W1, W2), W1=saving(5), J=[raising, totals])
    graph = app(play)
    with pytest.raises(StepFailed, match="J raised"):
        graph.invoke("go", session="s")
    assert graph.recover("s").reply == "5 0 None None"
    assert play.runs == {"A": 1, "W1": 1, "W2": 1, "J": 2}


def test_e2_the_next_activation_to_close_takes_the_results_away() -> None:
    play = Play(
        A=lambda ctx: fanout(W1, W2),
        W1=saving(5),
        J=[lambda ctx: fanout(W2, W3), totals],
        W2=lambda ctx: task_result(ctx.result(W1, default=9)),
    )
    assert app(play).invoke("go", session="s").reply == "None 9 0 0"


def test_e2_a_source_that_is_not_in_the_closure_has_no_result() -> None:
    def asks(ctx: Any) -> Any:
        assert ctx.result(W3, default=None) is None
        return direct(str(ctx.result(W3)))

    graph = app(Play(A=lambda ctx: fanout(W1, W2), J=asks))
    with pytest.raises(NoResult, match=r"J asked for the result of W3.*here: W1, W2\..*default="):
        graph.invoke("go", session="s")


def test_a9_branches_that_join_no_stage_end_the_turn_at_the_parent() -> None:
    play = Play(A=lambda ctx: go(B), B=lambda ctx: fanout(X1, X2), X1=saving(1))
    graph = app(play)
    turn = graph.invoke("go", session="s")
    assert (turn.status, turn.reply, turn.cursor) == ("idle", None, "B")
    session = graph.load("s")
    assert session.activation is None
    assert dict(session.cells) == {"X1": Note(1)}
    assert graph.unfinished(session) == ()


def test_b3_a_worker_is_asked_for_that_the_graph_does_not_have() -> None:
    class Stray(Worker[None, int]):
        def run(self, ctx: Context[None]) -> TaskResult[int]:
            return task_result(1)

    graph = app(Play(A=lambda ctx: direct(str(ctx.result(Stray, default=1)))))
    with pytest.raises(UnknownTarget, match="A names Stray"):
        graph.invoke("go", session="s")


# ------------------------------------------------------------------------------------------------------------- failures


def test_f12_recovery_runs_only_what_is_missing() -> None:
    """FIELD F12; rule E5: finished branches are kept, the join fires once."""
    play = Play(A=lambda ctx: fanout(W1, W2, W3), W1=saving(1), W2=raising, W3=[raising, saving(3)], J=totals)
    graph = app(play)
    with pytest.raises(BranchFailed, match=r"2 of its branches failed: W2 raised.*W3 raised.*recover") as caught:
        graph.invoke("go", session="s")
    assert [failure.node for failure in caught.value.failures] == ["W2", "W3"]
    assert all(isinstance(failure, StepFailed) for failure in caught.value.failures)
    left = (
        "branch W2, opened by A, failed",
        "branch W3, opened by A, failed",
        "W4 waits for W3",
        "J waits to be joined",
    )
    assert graph.unfinished(graph.load("s")) == left
    with pytest.raises(UnfinishedWork, match="branch W2, opened by A, failed") as refused:
        graph.invoke("well?", session="s")
    assert refused.value.work == left
    with pytest.raises(BranchFailed) as again:
        graph.recover("s")
    assert [failure.node for failure in again.value.failures] == ["W2"]
    play.let(W2=saving(2))
    assert graph.recover("s").reply == "1 2 3 0"
    assert play.runs == {"A": 1, "W1": 1, "W2": 3, "W3": 2, "W4": 1, "J": 1}
    assert [record.node for record in graph.load("s").errors] == ["W2", "W3", "W2"]
    assert told(graph.load("s")) == [("user", "go")]


def test_e5_what_a_failed_branch_saved_is_dropped() -> None:
    def saves_and_raises(ctx: Any) -> Any:
        ctx.save(Note(9))
        raise LookupError("on purpose")

    play = Play(A=lambda ctx: fanout(W1, W2), W1=[saves_and_raises, lambda ctx: task_result(ctx.state.n)], J=totals)
    graph = app(play)
    with pytest.raises(BranchFailed):
        graph.invoke("go", session="s")
    assert graph.recover("s").reply == "0 0 None None"
    assert dict(graph.load("s").cells) == {}


@pytest.mark.parametrize(("answer", "error"), [(go(A), "OwnershipError"), (task_result("five"), "OutputError")])
def test_b6_a_worker_that_answers_wrongly_is_a_failed_branch(answer: Any, error: str) -> None:
    play = Play(A=lambda ctx: fanout(W1, W2), W1=lambda ctx: answer, W2=saving(2))
    graph = app(play)
    with pytest.raises(BranchFailed) as caught:
        graph.invoke("go", session="s")
    assert [(type(f).__name__, f.node) for f in caught.value.failures] == [(error, "W1")]


def test_e9_a_failed_turn_names_what_the_step_limit_held_back_besides() -> None:
    graph = app(Play(A=lambda ctx: fanout(W1, W3), W1=raising))
    with pytest.raises(BranchFailed, match="the limit of 2 steps held back W4") as caught:
        graph.invoke("go", session="s", step_limit=2)
    assert caught.value.limit is not None
    assert (caught.value.limit.limit, caught.value.limit.held) == (2, ("W4",))


def test_g3_a_cancelled_turn_stops_its_branches_and_leaves_no_task() -> None:
    async def main() -> None:
        stopped: list[str] = []
        begun = asyncio.Barrier(3)

        async def waits(ctx: Any) -> Any:
            try:
                await begun.wait()
                await asyncio.Event().wait()
            finally:
                stopped.append(ctx.session)

        play = Play(A=lambda ctx: fanout(W1, W2), W1=waits, W2=waits, J=totals)
        graph = app(play)
        task = await stopped_when(begun.wait(), lambda: graph.ainvoke("go", session="s"))
        assert task.cancelled()
        assert stopped == ["s", "s"]
        assert no_other_task()
        assert graph.unfinished(await graph.aload("s")) == (
            "branch W1, opened by A, has not finished",
            "branch W2, opened by A, has not finished",
            "J waits to be joined",
        )
        play.let(W1=saving(1), W2=saving(2))
        assert (await graph.arecover("s")).reply == "1 2 None None"

    asyncio.run(main())


def test_g3_a_conflict_of_one_branch_stops_the_others() -> None:
    """Rule L2: the loser of two recoveries is told, and nothing of it runs on."""

    async def main() -> None:
        entered = asyncio.Event()
        stopped = asyncio.Event()

        async def endless(ctx: Any) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        async def waits(ctx: Any) -> Any:
            entered.set()
            await may_go_on.wait()
            return task_result(1)

        may_go_on = asyncio.Event()
        play = Play(A=lambda ctx: fanout(W1, W2), W1=raising, W2=raising, J=totals)
        graph = app(play)
        with pytest.raises(BranchFailed):
            await graph.ainvoke("go", session="s")
        play.let(W1=waits, W2=endless)
        slow = asyncio.ensure_future(graph.arecover("s"))
        await entered.wait()
        await idle()
        play.let(W1=saving(1), W2=saving(2))
        assert (await graph.arecover("s")).reply == "1 2 None None"
        may_go_on.set()
        await asyncio.wait({slow})
        assert type(slow.exception()).__name__ == "RevisionConflict"
        assert stopped.is_set()
        assert no_other_task()

    asyncio.run(main())


# ------------------------------------------------------------------------------------------- other graphs, other rules


class Left(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(1)


class Right(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(2)


class Up(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(3)


class Down(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(4)


class Sides(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct("sides")


class Ends(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct("ends")


class Choose(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Left | Right] | Fanout[Up | Down]:
        return fanout(Left, Up)  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def test_e2_a_fanout_across_two_declared_ones_is_refused() -> None:
    """An opening is each `Fanout[…]` of an annotation by itself: mixing two would reach two stages, and run one."""
    graph = (
        Graph("sides", entry=Choose)
        .stages(Sides, Ends)
        .workers(Left, Right, Up, Down)
        .join((Left, Right), to=Sides)
        .join((Up, Down), to=Ends)
        .compile()
    )
    with pytest.raises(UndeclaredRoute, match=r"Choose\.run returned Fanout"):
        graph.invoke("go", session="s")


class Foot(Worker[Note, int]):
    """The foot of a diamond."""

    runs = 0

    def run(self, ctx: Context[Note]) -> TaskResult[int]:
        type(self).runs += 1
        return task_result(ctx.result(Left) + ctx.result(Right))


class Opens(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> None:
        return None


class Closes(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct(f"{ctx.result(Foot)} {ctx.result(Left, default=0)}")


def test_e1_a_diamond_runs_its_foot_once() -> None:
    graph = (
        Graph("diamond", entry=Opens)
        .stages(Closes)
        .workers(Left, Right, Foot)
        .edge(Opens, Left)
        .edge(Opens, Right)
        .edge(Left, Foot)
        .edge(Right, Foot)
        .edge(Foot, Closes)
        .compile()
    )
    Foot.runs = 0
    assert graph.invoke("go", session="s").reply == "3 1"
    assert Foot.runs == 1


@pytest.mark.parametrize("at_end", ["complete", "wait"])
def test_h6_an_edge_to_end_completes_or_waits_at_the_entry(at_end: Any) -> None:
    play = Play(A=lambda ctx: go(J), J=lambda ctx: None)
    graph = app(play, at_end=at_end)
    turn = graph.invoke("go", session="s")
    assert (turn.status, turn.reply, turn.cursor) == (
        ("completed", None, END) if at_end == "complete" else ("idle", None, "A")
    )


@frozen
class Counted:
    """State that cannot be built without arguments."""

    n: int


class Reads(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct | DirectTo[Keeps]:
        return direct(str(ctx.read(Keeps).n))


class Keeps(GraphNode[Counted]):
    def run(self, ctx: StageContext[Counted]) -> Direct:
        return direct(str(ctx.state.n))


def test_f8_an_absent_state_without_defaults_is_named_with_its_writers() -> None:
    graph = Graph("absent", entry=Reads).stages(Keeps).compile()
    with pytest.raises(NoState, match="Reads read the state of Keeps, which nothing has written") as caught:
        graph.invoke("go", session="s")
    assert (caught.value.node, caught.value.owner) == ("Reads", "Keeps")
    assert caught.value.writers == (
        "direct_to(Keeps).with_state(...) in Reads.run",
        "ctx.save(...) in Keeps",
        "ctx.write(Keeps, ...) in a stage",
    )
