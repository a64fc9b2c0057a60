"""Parallel work through the public API: scatters, gathers, policies, jobs, called workers, error hooks, abandoning."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import pytest
from attrs import frozen
from kept import journals

import ezgraph.stores.parts as parts_module
from ezgraph import (
    END,
    BranchFailed,
    Context,
    Conversation,
    Direct,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    InvalidInput,
    InvalidResponse,
    NodeError,
    NoResult,
    ReplayMismatch,
    SessionCompleted,
    StageContext,
    StateTypeError,
    StepFailed,
    StepLimit,
    StepOver,
    TaskResult,
    UndeclaredRoute,
    UnfinishedWork,
    UnknownSession,
    Usage,
    Worker,
    direct,
    fanout,
    finish,
    go,
    scatter,
    task_result,
    tool,
    user,
)
from ezgraph.messages import ToolCall
from ezgraph.models.contract import ModelReply, ModelRequest
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.session import Delta, Session, Turn
from ezgraph.stores.codec import Codec
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.parts import Changes
from ezgraph.stores.sqlite import SQLiteStore

ENTERED: Counter[str] = Counter()
"""Bodies entered, by what they say of themselves."""

BROKEN: set[str] = set()
"""What raises when it is entered."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ENTERED.clear()
    BROKEN.clear()


def entered(who: str) -> None:
    ENTERED[who] += 1
    if who in BROKEN:
        raise ValueError(f"{who} is broken")


# ------------------------------------------------------------------------------------------------- scatter and gather


class Ask(GraphNode[None]):
    """Scatters the numbers of its message."""

    def run(self, ctx: StageContext[None]) -> Fanout[Square]:
        assert ctx.incoming is not None
        return scatter(Square, [int(word) for word in ctx.incoming.text.split() if word != "none"])


class Square(Worker[int, int]):
    async def run(self, ctx: Context[int]) -> TaskResult[int]:
        number = ctx.state
        entered(f"Square {number}")
        for _ in range(10 - number):  # the later items end first
            await asyncio.sleep(0)
        ctx.save(-number)
        return task_result(number * number)


class Say(Worker[int, str]):
    """Comes after `Square` inside each item."""

    async def run(self, ctx: Context[int]) -> TaskResult[str]:
        entered(f"Say {ctx.result(Square)}")
        return task_result(str(ctx.result(Square)))


class Sum(Worker[None, int]):
    """Gathers."""

    async def run(self, ctx: Context[None]) -> TaskResult[int]:
        entered("Sum")
        return task_result(sum(ctx.results(Square)))


class Report(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        entered("Report")
        return direct(f"{ctx.results(Square)} {ctx.results(Say)} {ctx.result(Sum)}")


def questions(store: Any = None, **options: Any) -> CompiledGraph:
    graph = Graph("questions", entry=Ask).stages(Report).workers(Square, Say, Sum)
    graph = graph.edge(Square, Say).join((Square,), to=Sum).join((Say, Sum), to=Report)
    return graph.compile(store=store, **options)


@pytest.mark.parametrize(
    ("numbers", "reply"),
    [
        ("none", "() () 0"),
        ("1 2 3", "(1, 4, 9) ('1', '4', '9') 14"),
        ("3 1 2", "(9, 1, 4) ('9', '1', '4') 14"),
        ("2 2", "(4, 4) ('4', '4') 8"),
    ],
)
def test_e6_a_scatter_joins_once_with_its_results_in_input_order(store: Any, numbers: str, reply: str) -> None:
    """FIELD F5, F10: over nothing too, and whatever ends first."""
    app = questions(store)
    turn = app.invoke(numbers, session="s")
    assert (turn.reply, turn.cursor) == (reply, "Report")
    assert (ENTERED["Sum"], ENTERED["Report"]) == (1, 1)
    squares = Counter(f"Square {word}" for word in numbers.split() if word != "none")
    assert Counter({who: count for who, count in ENTERED.items() if who.startswith("Square")}) == squares
    assert sum(ENTERED.values()) == 2 + 2 * squares.total()
    assert dict(app.load("s").cells) == {}  # what a per-item worker saves is for its run only
    assert app.unfinished(app.load("s")) == ()


@pytest.mark.parametrize("limit", [1, 2, 4, None])
def test_e4_every_limit_gives_the_same_session(limit: int | None) -> None:
    """FIELD F6."""
    app, free = questions(max_branches=limit), questions()
    assert app.invoke("1 2 3 4 5 6", session="s").reply == free.invoke("1 2 3 4 5 6", session="s").reply
    assert app.load("s") == free.load("s")
    assert all(ENTERED[f"Square {n}"] == 2 for n in range(1, 7))
    with pytest.raises(InvalidInput, match="max_branches=0: pass a whole number, 1 or more"):
        questions(max_branches=0)


def test_e6_results_are_asked_for_by_how_often_their_worker_ran() -> None:
    class Wrong(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Direct:
            with pytest.raises(NoResult, match=r"Square \(once per item\).*write ctx.results\(Square\)"):
                ctx.result(Square)
            with pytest.raises(NoResult, match=r"It ran once: write ctx.result\(Sum\)"):
                ctx.results(Sum)
            with pytest.raises(NoResult, match="results that can be read here"):
                ctx.results(Say)
            return direct("fine")

    graph = Graph("g", entry=Ask).stages(Wrong).workers(Square, Sum, Say)
    graph = graph.join((Square,), to=Sum).join((Sum,), to=Wrong)
    assert graph.compile().invoke("1 2", session="s").reply == "fine"


class Nothing(GraphNode[int]):
    """Scatters over nothing, and has done and spent something all the same."""

    def run(self, ctx: StageContext[int]) -> Fanout[Square]:
        ctx.save(ctx.state + 1)
        ctx.write(Square, 5)
        ctx.append(Nothing, user("nothing to ask"))
        return scatter(Square, []).with_usage(Usage(input_tokens=3, requests=1))


def test_e6_a_scatter_over_nothing_publishes_all_that_its_stage_did(store: Any) -> None:
    """Rules C, E6: it closes in the write that opens it, which is the stage's own."""
    app = Graph("g", entry=Nothing).workers(Square).edge(Square, END).compile(store=store)
    for times in (1, 2):
        turn = app.invoke("hello", session="s")
        assert (turn.reply, turn.usage) == (None, Usage(input_tokens=3, requests=1))
        session = app.load("s")
        assert session.usage == {"Nothing": Usage(input_tokens=3 * times, requests=times)}
        assert session.cells == {"Nothing": times, "Square": 5}
        assert [message.text for message in session.histories["default"]] == ["hello", "nothing to ask"] * times


def test_e6_results_last_until_the_stage_is_left() -> None:
    app = questions()
    app.invoke("1 2", session="s")
    assert app.invoke("once more", session="s").reply == "(1, 4) ('1', '4') 5"


def test_e6_an_input_of_another_type_is_refused_with_its_index() -> None:
    class Bad(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Square]:
            return scatter(Square, [1, "two"])  # type: ignore[misc]

    app = Graph("g", entry=Bad).stages(Report).workers(Square, Say, Sum).edge(Square, Say)
    compiled = app.join((Square,), to=Sum).join((Say, Sum), to=Report).compile()
    with pytest.raises(StateTypeError, match=r"input 1 of Square.*int.*str"):
        compiled.invoke("x", session="s")
    assert not ENTERED


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: scatter(Report, [None]), "Report is not a worker"),  # type: ignore[arg-type]
        (lambda: scatter(Square, 7), "7 cannot be iterated"),  # type: ignore[arg-type]
        (lambda: scatter(Square, "123"), "one str was given"),  # type: ignore[misc]
        (lambda: scatter(3, [1]), "3 is not a worker"),  # type: ignore[arg-type]
    ],
)
def test_a3_a_scatter_of_something_else_is_refused_when_called(call: Any, told: str) -> None:
    with pytest.raises(InvalidResponse, match=told):
        call()


def test_e2_a_scatter_is_an_opening_by_itself() -> None:
    """`Fanout[A | B]` does not declare that A may be scattered: the drawing would be short of it."""

    class Both(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Square | Sum]:
            return scatter(Square, [1])

    class Over(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Finish:
            return finish("over")

    app = Graph("g", entry=Both).stages(Over).workers(Square, Sum).join((Square, Sum), to=Over)
    with pytest.raises(UndeclaredRoute, match="Square"):
        app.compile().invoke("x", session="s")


# ----------------------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("policy", ["finish_siblings", "cancel_siblings"])
def test_e5_recovery_runs_only_what_is_missing(store: Any, policy: Any) -> None:
    """FIELD F12, over the items of a scatter."""
    graph = Graph("q", entry=Ask).stages(Report).workers(Square, Say, Sum).edge(Square, Say)
    graph = graph.join((Square,), to=Sum).join((Say, Sum), to=Report, on_failure=policy)
    app = graph.compile(store=store, max_branches=1)
    BROKEN.add("Square 2")
    with pytest.raises(BranchFailed, match="Square raised ValueError: Square 2 is broken") as failed:
        app.invoke("1 2 3", session="s")
    assert [error.node for error in failed.value.failures] == ["Square"]
    first = {"Square 1": 1, "Square 2": 1}
    if policy == "finish_siblings":
        first |= {"Square 3": 1, "Say 1": 1, "Say 9": 1}
    assert first == ENTERED, "which of the others ran at all"
    assert app.unfinished(app.load("s")) == LEFT[policy]
    with pytest.raises(UnfinishedWork, match="of the 3 items of Square"):
        app.invoke("more", session="s")
    assert first == ENTERED, "the refused input ran nothing"
    BROKEN.clear()
    assert app.recover("s").reply == "(1, 4, 9) ('1', '4', '9') 14"
    once = dict.fromkeys(("Square 1", "Square 3", "Say 1", "Say 4", "Say 9", "Sum", "Report"), 1)
    assert {**once, "Square 2": 2} == ENTERED


LEFT = {
    "finish_siblings": (
        "of the 3 items of Square, opened by Ask, 1 failed",
        "of the 3 items of Say, opened by Ask, 1 has not finished",
        "Sum waits for Square",
        "Report waits to be joined",
    ),
    "cancel_siblings": (
        "of the 3 items of Square, opened by Ask, 1 failed and 1 has not finished",
        "of the 3 items of Say, opened by Ask, 3 have not finished",
        "Sum waits for Square",
        "Report waits to be joined",
    ),
}
"""What is unfinished once the second of three items has failed, one branch at a time."""


FELL: list[int] = []
"""The items that fell, in the order in which they did."""


class Fall(Worker[int, int]):
    """Fails after as many turns of the loop as its number says."""

    async def run(self, ctx: Context[int]) -> TaskResult[int]:
        for _ in range(ctx.state):
            await asyncio.sleep(0)
        if "Fall" in BROKEN:
            FELL.append(ctx.state)
            raise ValueError(f"{ctx.state} fell")
        return task_result(ctx.state)


class Falls(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Fall]:
        assert ctx.incoming is not None
        return scatter(Fall, [int(word) for word in ctx.incoming.text.split()])


class Stands(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct(str(ctx.results(Fall)))


@pytest.mark.parametrize("message", ["9 1 5", "1 5 9", "9 5 1", "5 9 1", "3 3 1"])
def test_e5_failures_are_told_in_dispatch_order_whichever_fell_first(message: str) -> None:
    app = Graph("g", entry=Falls).stages(Stands).workers(Fall).join((Fall,), to=Stands).compile()
    numbers = [int(word) for word in message.split()]
    BROKEN.add("Fall")
    FELL.clear()
    with pytest.raises(BranchFailed, match=f"3 of its branches failed: Fall raised ValueError: {numbers[0]}") as failed:
        app.invoke(message, session="s")
    assert sorted(numbers) == FELL
    assert [str(error) for error in failed.value.failures] == [f"Fall raised ValueError: {n} fell" for n in numbers]
    assert [error.item for error in failed.value.failures] == [0, 1, 2]
    BROKEN.clear()
    assert app.recover("s").reply == str(tuple(numbers))


class Stubborn(Worker[int, str]):
    """Waits for ever, and when it is cancelled ends well all the same."""

    async def run(self, ctx: Context[int]) -> TaskResult[str]:
        entered("Stubborn")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ctx.save(ctx.state + 1)
        return task_result("nevertheless")


class Yields(Worker[None, str]):
    """Waits as long, and stops when it is cancelled."""

    async def run(self, ctx: Context[None]) -> TaskResult[str]:
        entered("Yields")
        if BROKEN:
            await asyncio.Event().wait()
        return task_result("as told")


class Snaps(Worker[None, str]):
    async def run(self, ctx: Context[None]) -> TaskResult[str]:
        await asyncio.sleep(0)
        entered("Snaps")
        return task_result("whole")


class Three(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Stubborn | Yields | Snaps]:
        return fanout(Stubborn, Yields, Snaps)


class AllThree(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(f"{ctx.result(Stubborn)}, {ctx.result(Yields)}, {ctx.result(Snaps)}")


def test_e5_a_branch_that_ends_well_while_it_is_cancelled_is_kept(store: Any) -> None:
    """Rules E5, L3: it was done, so it is not done again; one that stopped is."""
    graph = Graph("g", entry=Three).stages(AllThree).workers(Stubborn, Yields, Snaps)
    graph = graph.join((Stubborn, Yields, Snaps), to=AllThree, on_failure="cancel_siblings")
    app = graph.compile(store=store)
    BROKEN.add("Snaps")
    with pytest.raises(BranchFailed, match="1 of its branches failed: Snaps raised ValueError"):
        app.invoke("x", session="s")
    assert app.unfinished(app.load("s")) == (
        "branch Yields, opened by Three, has not finished",
        "branch Snaps, opened by Three, failed",
        "AllThree waits to be joined",
    )
    BROKEN.clear()
    assert app.recover("s").reply == "nevertheless, as told, whole"
    assert ENTERED == {"Stubborn": 1, "Yields": 2, "Snaps": 2}
    assert app.load("s").cells == {"Stubborn": 1}


def test_g6_abandoning_drops_what_is_left_and_keeps_the_cursor(store: Any) -> None:
    app = questions(store)
    BROKEN.add("Square 2")
    with pytest.raises(BranchFailed):
        app.invoke("1 2 3", session="s")
    assert app.abandon("s").head.cursor == "Ask"
    assert app.unfinished(app.load("s")) == ()
    abandoned = app.load("s")
    again = app.abandon("s")
    assert again == abandoned
    assert again.revision == app.load("s").revision == abandoned.revision, "nothing is left: nothing is written"
    assert app.recover("s").revision == abandoned.revision
    BROKEN.clear()
    assert app.invoke("5", session="s").reply == "(25,) ('25',) 25"
    assert ENTERED["Square 5"] == 1


@pytest.mark.parametrize("status", ["idle", "completed"])
def test_g6_abandoning_where_nothing_is_owed_writes_nothing(store: Any, status: str) -> None:
    """What is under way elsewhere is not made stale, and a completed session stays one."""
    app = questions(store) if status == "idle" else two(store=store)
    turn = app.invoke("1 2", session="s")
    assert turn.status == status
    before = app.load("s")
    for _ in range(2):
        left = app.abandon("s")
        assert left == app.load("s") == before
        assert (left.revision, left.limits, left.head) == (turn.revision, before.limits, before.head)
    assert app.load("s").revision == turn.revision


class Two(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Left | Right]:
        return fanout(Left, Right)


class Left(Worker[None, str]):
    async def run(self, ctx: Context[None]) -> TaskResult[str]:
        entered("Left")
        return task_result("left")

    def on_error(self, ctx: Context[None], error: Exception) -> TaskResult[str] | None:
        ENTERED["Left rescued"] += 1
        return task_result(f"instead of {error}") if isinstance(error, ValueError) else None


class Right(Worker[None, str]):
    async def run(self, ctx: Context[None]) -> TaskResult[str]:
        entered("Right")
        await asyncio.sleep(0)
        return task_result("right")


class Both(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        entered("Both")
        return finish(f"{ctx.result(Left)}, {ctx.result(Right)}")


def two(**options: Any) -> CompiledGraph:
    graph = Graph("two", entry=Two).stages(Both).workers(Left, Right).join((Left, Right), to=Both)
    return graph.compile(**options)


def test_g1_an_error_hooks_substitute_counts_as_a_result() -> None:
    """FIELD F11."""
    BROKEN.add("Left")
    assert two().invoke("x", session="s").reply == "instead of Left is broken, right"
    assert ENTERED["Left rescued"] == 1


def test_e1_a_path_that_ends_lets_its_sibling_complete(recwarn: pytest.WarningsRecorder) -> None:
    """FIELD C3, with an edge to END; rule A9: no stage was joined."""
    graph = Graph("ends", entry=Two).workers(Left, Right).edge(Left, END).edge(Right, END)
    turn = graph.compile().invoke("x", session="s")
    assert (turn.status, turn.reply, turn.cursor) == ("idle", None, "Two")
    assert ENTERED == {"Left": 1, "Right": 1}
    assert not recwarn.list


# ---------------------------------------------------------------------------------------------------- the error hook


@frozen
class Tries:
    count: int = 0


class Shaky(GraphNode[Tries]):
    def run(self, ctx: StageContext[Tries]) -> Finish:
        ctx.save(Tries(7))
        entered("Shaky")
        return finish("ran")

    def on_error(self, ctx: StageContext[Tries], error: Exception) -> Go[Calm] | None:
        ENTERED["rescue"] += 1
        ctx.save(Tries(ctx.state.count + 1))
        return go(Calm).with_message("sorry") if "delegate" not in BROKEN else None

    def on_exit(self, ctx: StageContext[Tries], outcome: object) -> None:
        ENTERED[f"exit {type(outcome).__name__}"] += 1


class Calm(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct(f"calm: {ctx.incoming.text if ctx.incoming else 'nothing'}")


def test_g1_the_error_hook_gives_the_outcome_and_what_was_staged_is_gone(store: Any) -> None:
    app = Graph("g", entry=Shaky).stages(Calm).compile(store=store)
    BROKEN.add("Shaky")
    turn = app.invoke("hello", session="s")
    assert (turn.reply, turn.cursor) == ("calm: sorry", "Calm")
    loaded = app.load("s")
    assert app.read(loaded, Shaky) == Tries(1)
    assert [message.text for message in loaded.histories["default"]] == ["hello", "sorry", "calm: sorry"]
    assert ENTERED["rescue"] == ENTERED["exit Go"] == 1
    assert loaded.errors == ()


def test_g1_an_error_hook_that_gives_nothing_lets_the_error_stand() -> None:
    app = Graph("g", entry=Shaky).stages(Calm).compile()
    BROKEN.update({"Shaky", "delegate"})
    with pytest.raises(StepFailed, match="Shaky raised ValueError"):
        app.invoke("hello", session="s")
    assert dict(app.load("s").cells) == {}
    assert ENTERED["rescue"] == 1


# ---------------------------------------------------------------------------------------------------- called workers


class Price(Worker[int, int]):
    async def run(self, ctx: Context[int]) -> TaskResult[int]:
        item = ctx.state
        entered(f"Price {item}")
        await asyncio.sleep(0)
        ctx.save(item + 100)
        return task_result(item * 2).with_usage(Usage(requests=1))


class Shop(GraphNode[None]):
    async def run(self, ctx: StageContext[None]) -> Direct:
        one = await ctx.call(Price, 1)
        more = await ctx.call_all(Price, [2, 3])
        entered("Shop")
        return direct(f"{one} {more} {ctx.read(Price)}")


def test_e11_called_workers_run_inside_the_step(store: Any) -> None:
    app = Graph("shop", entry=Shop).workers(Price).compile(store=store)
    turn = app.invoke("x", session="s")
    assert (turn.reply, turn.usage.requests) == ("2 (4, 6) 103", 3)
    loaded = app.load("s")
    assert app.read(loaded, Price) == 103
    assert loaded.usage["Price"].requests == 3
    assert journals(app) == {}
    assert ENTERED == {"Price 1": 1, "Price 2": 1, "Price 3": 1, "Shop": 1}


def test_e11_all_started_calls_settle_before_an_error_is_raised() -> None:
    app = Graph("shop", entry=Shop).workers(Price).compile()
    BROKEN.add("Price 2")
    with pytest.raises(StepFailed, match="Price raised ValueError: Price 2 is broken"):
        app.invoke("x", session="s")
    assert ENTERED["Price 3"] == 1
    assert dict(app.load("s").cells) == {}


class Deep(Worker[None, int]):
    async def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(await ctx.call(Price, 1))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda ctx: ctx.call(Calm, None), "Calm is a stage"),
        (lambda ctx: ctx.call(Price, "one"), "the state of Price: . must be int"),
        (lambda ctx: ctx.call(Shop, None), "Shop"),
        (lambda ctx: ctx.call(Deep, None), "Deep was called itself, and calls Price"),
        (lambda ctx: ctx.call_all(Price, [1, None]), "input 1 of Price: . must be int"),
    ],
)
def test_e11_a_call_that_cannot_be_is_refused(call: Any, told: str) -> None:
    class Caller(GraphNode[None]):
        async def run(self, ctx: StageContext[None]) -> Go[Calm]:
            await call(ctx)
            return go(Calm)

    app = Graph("g", entry=Caller).stages(Calm).workers(Price, Deep).compile()
    with pytest.raises(NodeError, match=told):
        app.invoke("x", session="s")


class Again(Worker[int, int]):
    async def run(self, ctx: Context[int]) -> TaskResult[int]:
        return task_result(await ctx.call(Again, 1))


class Promise(Worker[int, int]):
    """A plain function that gives a promise."""

    def run(self, ctx: Context[int]) -> Awaitable[TaskResult[int]]:
        async def later() -> TaskResult[int]:
            await asyncio.sleep(0)
            return task_result(ctx.state * ctx.state)

        return later()


def test_e11_a_worker_does_not_call_itself() -> None:
    class Start(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Again]:
            return scatter(Again, [1])

    app = Graph("g", entry=Start).workers(Again).edge(Again, END)
    with pytest.raises(BranchFailed, match="Again calls itself"):
        app.compile().invoke("x", session="s")


def test_g5_a_plain_worker_may_give_a_promise(store: Any) -> None:
    class Start(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Promise]:
            return scatter(Promise, [3, 2])

    class End(GraphNode[None]):
        async def run(self, ctx: StageContext[None]) -> Direct:
            called = await ctx.call(Promise, 5)
            return direct(f"{ctx.results(Promise)} {called}")

    app = Graph("g", entry=Start).stages(End).workers(Promise).join((Promise,), to=End).compile(store=store)
    assert app.invoke("x", session="s").reply == "(9, 4) 25"


def test_e11_a_call_after_its_step_is_refused() -> None:
    kept: list[Any] = []

    class Keeps(GraphNode[None]):
        async def run(self, ctx: StageContext[None]) -> Direct:
            kept.append(ctx)
            return direct("kept")

    app = Graph("g", entry=Keeps).workers(Price).compile()

    async def late() -> None:
        await app.ainvoke("x", session="s")
        with pytest.raises(StepOver):
            await kept[0].call(Price, 1)

    asyncio.run(late())
    assert not ENTERED


def test_e9_a_called_worker_is_one_deeper_and_a_larger_limit_goes_on(store: Any) -> None:
    app = Graph("shop", entry=Shop).workers(Price).compile(store=store)
    with pytest.raises(StepLimit, match="Price did not start: the turn reached its limit of 1 step") as limit:
        app.invoke("x", session="s", step_limit=1)
    assert (limit.value.held, limit.value.depth) == (("Price",), 2)
    assert app.unfinished(app.load("s")) == ("Shop was entered and has not finished",)
    assert app.load("s").errors == ()
    assert app.recover("s", step_limit=2).reply == "2 (4, 6) 103"
    assert [message.text for message in app.load("s").histories["default"]] == ["x", "2 (4, 6) 103"]


# ---------------------------------------------------------------------------------------------------------- journals


class Model:
    """Calls `look` for 1 and 2 and then `wait` in one message."""

    def __init__(self) -> None:
        self.asked = 0

    async def respond(self, request: ModelRequest) -> ModelReply:
        self.asked += 1
        arguments = [("look", '{"number": 1}'), ("look", '{"number": 2}'), ("wait", "{}")]
        return ModelReply(calls=tuple(ToolCall(f"c{at}", *call) for at, call in enumerate(arguments)))


class Clerk(Conversation[Tries]):
    """Looks things up."""

    @tool
    async def look(self, ctx: StageContext[Tries], number: int) -> Direct | TaskResult[Tries] | Go[Calm]:
        """Look a number up."""
        entered(f"look {number}")
        ctx.save(Tries(ctx.state.count + await ctx.call(Price, number)))
        return go(Calm)

    @tool
    async def wait(self, ctx: StageContext[Tries]) -> Go[Calm]:
        """Wait."""
        if "wait" in BROKEN:
            await asyncio.Event().wait()
        entered("wait")
        return go(Calm)


async def _cut(app: CompiledGraph) -> None:
    turn = asyncio.ensure_future(app.ainvoke("hello", session="s"))
    for _ in range(60):
        await asyncio.sleep(0)
    assert ENTERED["look 2"] == 1
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(("durability", "again"), [("call", 1), ("step", 2)])
def test_f2_a_finished_call_is_not_made_again(store: Any, durability: Any, again: int) -> None:
    """Rule L3.  The turn is cancelled in the third call; under `step` only whole steps are kept."""
    model = Model()
    app = Graph("g", entry=Clerk).stages(Calm).workers(Price).compile(store=store, model=model, durability=durability)
    BROKEN.add("wait")
    asyncio.run(_cut(app))
    BROKEN.clear()
    if durability == "step":
        turn: Turn = app.invoke("hello", session="s") if _missing(app) else app.recover("s")
    else:
        assert journals(app)["Clerk", None]
        assert app.load("s").journal == {}, "what only replay reads, a caller cannot change"
        assert app.unfinished(app.load("s")) == ("Clerk was entered and has not finished",)
        with pytest.raises(UnfinishedWork, match="Clerk was entered"):
            app.invoke("again", session="s")
        turn = app.recover("s")
    assert turn.cursor == "Calm"
    assert {"look 1": again, "look 2": again, "Price 1": again, "Price 2": again, "wait": 1} == ENTERED
    assert model.asked == again
    loaded = app.load("s")
    assert app.read(loaded, Clerk) == Tries(6)
    assert journals(app) == {}
    assert [m.role for m in loaded.histories["default"]].count("tool") == 3


def _missing(app: CompiledGraph) -> bool:
    try:
        app.load("s")
    except UnknownSession:
        return True
    return False


def test_e11_a_step_that_calls_something_else_on_replay_is_a_mismatch() -> None:
    wanted = [1]

    class Fickle(GraphNode[None]):
        async def run(self, ctx: StageContext[None]) -> Direct:
            got = await ctx.call(Price, wanted[0])
            if wanted == [1]:
                await asyncio.Event().wait()
            return direct(str(got))

    app = Graph("g", entry=Fickle).workers(Price).compile()

    async def cut() -> None:
        turn = asyncio.ensure_future(app.ainvoke("hello", session="s"))
        for _ in range(30):
            await asyncio.sleep(0)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(cut())
    wanted[0] = 2
    with pytest.raises(
        ReplayMismatch, match=r"Fickle goes on from its journal.*now calls Price\(2\).*aabandon"
    ) as told:
        app.recover("s")
    assert (told.value.node, told.value.at) == ("Fickle", "run/0")


# -------------------------------------------------------------------------------------------------------------- jobs


class Fetch(Worker[None, int]):
    async def run(self, ctx: Context[None]) -> TaskResult[int]:
        entered("Fetch")
        return task_result(20)


class Double(Worker[None, int]):
    async def run(self, ctx: Context[None]) -> TaskResult[int]:
        entered("Double")
        return task_result(ctx.result(Fetch) * 2)


class Told(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct(f"{ctx.result(Double, default=0)}")


def test_e12_a_job_runs_from_its_entry_to_end_without_a_message(store: Any) -> None:
    app = Graph("job", entry=Fetch).workers(Double).edge(Fetch, Double).edge(Double, END).compile(store=store)
    turn = app.invoke(session="j")
    assert (turn.status, turn.reply, turn.cursor) == ("completed", None, END)
    assert ENTERED == {"Fetch": 1, "Double": 1}
    with pytest.raises(SessionCompleted):
        app.invoke(session="j")


def test_e12_a_job_that_joins_a_stage_waits_there(store: Any) -> None:
    app = Graph("job", entry=Fetch).workers(Double).stages(Told).edge(Fetch, Double).join((Double,), to=Told)
    compiled = app.compile(store=store)
    turn = compiled.invoke(session="j")
    assert (turn.status, turn.reply, turn.cursor) == ("idle", "40", "Told")
    with pytest.raises(InvalidInput, match="Told waits for one"):
        compiled.invoke(session="j")
    assert compiled.invoke("and?", session="j").reply == "40"


class Sorts(GraphNode[None]):
    """By the edges of its graph."""

    def run(self, ctx: StageContext[None]) -> None:
        return None


class Scatters(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Square]:
        return scatter(Square, (1, 2))


class ScattersNothing(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Square]:
        return scatter(Square, ())


@pytest.mark.parametrize(
    ("stage", "last"),
    [(Sorts, (Left,)), (Two, (Left, Right)), (Scatters, (Square,)), (ScattersNothing, (Square,))],
)
@pytest.mark.parametrize(("at_end", "stands"), [("complete", ("completed", END)), ("wait", ("idle", "Fetch"))])
def test_e12_a_job_ends_though_a_stage_opened_its_last_branches(
    store: Any, stage: type[GraphNode[None]], last: tuple[type[Worker[Any, Any]], ...], at_end: Any, stands: Any
) -> None:
    """Rules A9, H6: the drawing shows END, and END it is, whoever opened the branches that led there."""
    graph = Graph("job", entry=Fetch).stages(stage).workers(*last).join((Fetch,), to=stage)
    for worker in last:
        graph = graph.edge(worker, END)
    if stage is Sorts:
        graph = graph.edge(Sorts, Left)
    turn = graph.compile(store=store, at_end=at_end).invoke(session="j")
    assert ((turn.status, turn.cursor), turn.reply) == (stands, None)


def test_e12_at_end_wait_makes_the_entry_the_cursor_again() -> None:
    app = Graph("job", entry=Fetch).edge(Fetch, END).compile(at_end="wait")
    assert [app.invoke(session="j").cursor for _ in range(2)] == ["Fetch", "Fetch"]
    assert ENTERED["Fetch"] == 2
    with pytest.raises(InvalidInput, match="Fetch is a worker, which reads its state and no message"):
        app.invoke("hello", session="j")


def test_e12_an_entry_that_raises_leaves_nothing_open(store: Any) -> None:
    app = Graph("job", entry=Fetch).workers(Double).edge(Fetch, Double).edge(Double, END).compile(store=store)
    BROKEN.add("Fetch")
    with pytest.raises(StepFailed, match="Fetch is broken"):
        app.invoke(session="j")
    assert app.unfinished(app.load("j")) == ()
    BROKEN.clear()
    BROKEN.add("Double")
    with pytest.raises(BranchFailed, match="Double is broken"):
        app.invoke(session="j")
    assert app.load("j").head.cursor == "Fetch"
    BROKEN.clear()
    assert app.recover("j").status == "completed"
    assert ENTERED == {"Fetch": 2, "Double": 2}


# ------------------------------------------------------------------------------------------------- a store that waits


class Patient:
    """A store that answers later, as one over a network does."""

    def __init__(self) -> None:
        self.inner = MemoryStore()

    async def load(self, session: str, codec: Any, /) -> Any:
        await asyncio.sleep(0)
        return self.inner.load(session, codec)

    async def commit(self, after: Any, delta: Any, codec: Any, /) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        self.inner.commit(after, delta, codec)


class Calls(Worker[None, int]):
    """Calls three times, in as many groups as `GROUPS` says."""

    async def run(self, ctx: Context[None]) -> TaskResult[int]:
        await asyncio.sleep(0)
        return task_result(sum([sum(await ctx.call_all(Price, group)) for group in GROUPS]))


class Fails(Worker[None, int]):
    async def run(self, ctx: Context[None]) -> TaskResult[int]:
        for _ in range(WAITS[0]):
            await asyncio.sleep(0)
        entered("Fails")
        return task_result(1)


WAITS = [0]
GROUPS: list[list[int]] = []


class Opens(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Calls | Fails]:
        return fanout(Calls, Fails)


class Ends(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(f"{ctx.result(Calls)} {ctx.result(Fails)}")


def _fails_after(app: CompiledGraph, waits: int) -> tuple[set[object], bool]:
    """What stood written when a sibling failed so late, and whether the branch itself did; all of it is kept."""
    session = f"s{waits}"
    ENTERED.clear()
    WAITS[0] = waits
    BROKEN.add("Fails")
    with pytest.raises(BranchFailed, match="Fails is broken"):
        app.invoke("x", session=session)
    noted = {note.state["Price"] for notes in journals(app, session).values() for note in notes}
    done = "branch Calls, opened by Opens, has not finished" not in app.unfinished(app.load(session))
    assert not (done and noted), "a row drops its journal"
    BROKEN.clear()
    before = Counter(ENTERED)
    assert app.recover(session).reply == "12 1"
    missing = set[object]() if done else {1, 2, 3} - noted
    assert dict.fromkeys(("Fails", *(f"Price {n}" for n in missing)), 1) == ENTERED - before
    return noted, done


@pytest.mark.parametrize(
    ("groups", "stands"),
    [
        ([[1, 2, 3]], [set()]),
        ([[1], [2, 3]], [set(), {1}]),
        ([[1, 2], [3]], [set(), {1, 2}]),
        ([[1], [2], [3]], [set(), {1}, {1, 2}]),
    ],
)
def test_g3_a_commit_that_a_cancelled_branch_began_stands(groups: Any, stands: Any) -> None:
    """Rules E5, F2: a sibling fails while another branch writes to its journal; nothing that was written is lost.

    Whenever it fails, exactly what has not been written runs again; the later it fails, the less that is.
    """
    GROUPS[:] = groups
    graph = Graph("g", entry=Opens).stages(Ends).workers(Calls, Fails, Price)
    app = graph.join((Calls, Fails), to=Ends, on_failure="cancel_siblings").compile(store=Patient())
    found: list[tuple[set[object], bool]] = []
    for waits in range(24):
        if (kept := _fails_after(app, waits)) not in found[-1:]:
            found.append(kept)
    assert found == [*((noted, False) for noted in stands), (set(), True)]


# --------------------------------------------------------------------------------------------------------- large values


class Weight(Worker[int, str]):
    async def run(self, ctx: Context[int]) -> TaskResult[str]:
        await asyncio.sleep(0)
        return task_result("x" * ctx.state)


class Weighed(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(sum(map(len, ctx.results(Weight))))


class Says(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(str(ctx.result(Weighed, default=0)))


class Weighs(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Weight]:
        return scatter(Weight, SIZES)


SIZES = [300, 300, 300]


def weighs(tmp_path: Any, **options: Any) -> CompiledGraph:
    graph = Graph("g", entry=Weighs).stages(Says).workers(Weight, Weighed)
    graph = graph.join((Weight,), to=Weighed).edge(Weighed, Says)
    return graph.compile(store=SQLiteStore(tmp_path / "s.db", keep=0), **options)


def test_e5_branches_that_are_too_large_together_are_not_by_themselves(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules E5, L3, L6: the limit is one of each part, and no row is written again."""
    written: list[str] = []
    changes = Codec.changes

    def watched(codec: Codec, after: Session, delta: Delta) -> Changes:
        made = changes(codec, after, delta)
        written.extend(part.body for part in made.puts if part.kind == "row" and "xxx" in part.body)
        return made

    monkeypatch.setattr(Codec, "changes", watched)
    monkeypatch.setattr(parts_module, "MAX_BYTES", 700)
    assert weighs(tmp_path).invoke("go", session="s").reply == "900"
    assert len(written) == 3
    assert max(map(len, written)) < 700 < sum(map(len, written))


@pytest.mark.parametrize("max_branches", [None, 1])
def test_e5_a_branch_that_is_too_large_by_itself_fails_by_itself(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, max_branches: int | None
) -> None:
    app = weighs(tmp_path, max_branches=max_branches)
    monkeypatch.setattr(parts_module, "MAX_BYTES", 700)
    monkeypatch.setitem(globals(), "SIZES", [5, 1_000, 6])
    with pytest.raises(BranchFailed, match="must be at most 700 bytes of JSON"):
        app.invoke("go", session="s")
    assert app.unfinished(app.load("s")) == (
        "of the 3 items of Weight, opened by Weighs, 1 failed",
        "Weighed waits for Weight",
        "Says waits to be joined",
    )
    assert [record.error for record in app.load("s").errors] == ["StateTypeError"]
    monkeypatch.setattr(parts_module, "MAX_BYTES", 2_000)
    assert app.recover("s").reply == "1011"


def test_f3_a_step_that_is_too_large_fails_and_is_logged(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule G4: as any step that fails."""
    app = weighs(tmp_path)
    monkeypatch.setattr(parts_module, "MAX_BYTES", 700)
    monkeypatch.setitem(globals(), "SIZES", list(range(1_000)))
    with pytest.raises(StateTypeError, match="must be at most 700 bytes of JSON"):
        app.invoke("go", session="s")
    loaded = app.load("s")
    assert [record.error for record in loaded.errors] == ["StateTypeError"]
    assert app.unfinished(loaded) == ()
    monkeypatch.setitem(globals(), "SIZES", [])
    assert app.invoke("go", session="s").reply == "0"


def test_e5_a_failure_that_cannot_be_logged_is_told(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule M2: the mark of a branch whose error has no room in the file is not written, and nothing is hidden."""
    app = weighs(tmp_path)
    monkeypatch.setattr(parts_module, "MAX_BYTES", 700)
    monkeypatch.setitem(globals(), "SIZES", [1])
    monkeypatch.setattr(Weight, "run", _raises_at_length)
    with pytest.raises(StateTypeError, match="must be at most 700 bytes of JSON"):
        weighs(tmp_path).invoke("go", session="s")
    monkeypatch.undo()
    assert app.unfinished(app.load("s"))[0] == "of the 1 items of Weight, opened by Weighs, 1 has not finished"


async def _raises_at_length(self: Weight, ctx: Context[int]) -> TaskResult[str]:
    raise ValueError("x" * 1_000)
