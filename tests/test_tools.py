"""What a tool may be, and what it may do to what it is handed.  Rules G5, G7 and F3; FIELD S7, T6, K2."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen
from desk import Note, calls, file_parts, history, spoken

from ezgraph import (
    Context,
    Conversation,
    DefinitionError,
    Direct,
    Fanout,
    Finish,
    Graph,
    GraphNode,
    StageContext,
    StateTypeError,
    Stay,
    StepFailed,
    StepOver,
    StepTimeout,
    TaskResult,
    Worker,
    direct,
    fanout,
    finish,
    stay,
    task_result,
    tool,
    user,
)
from ezgraph.models import ModelReply, ModelRequest, ScriptedModel, call
from ezgraph.runtime.awaiting import within
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore

# -------------------------------------------------------------------------------------------- G5, sync, async, blocking

CALLER: contextvars.ContextVar[str] = contextvars.ContextVar("CALLER", default="nobody")


class Inherited(Conversation[Note]):
    """Gives tools to what derives from it."""

    @tool
    def first(self, ctx: StageContext[Note]) -> Stay:
        """The first tool."""
        return stay("inherited")

    @tool(name="renamed")
    def second(self, ctx: StageContext[Note]) -> Stay:
        """The second tool."""
        return stay("by another name")


class Kinds(Inherited):
    """Every way to write a tool."""

    def __init__(self) -> None:
        self.threads: list[bool] = []

    def _where(self) -> str:
        self.threads.append(threading.current_thread() is threading.main_thread())
        return CALLER.get()

    @tool
    def first(self, ctx: StageContext[Note]) -> Stay:
        """The first tool, overridden."""
        return stay("overridden")

    @tool
    def inline(self, ctx: StageContext[Note]) -> Stay:
        """Runs where the turn runs."""
        return stay(self._where())

    @tool
    async def awaited(self, ctx: StageContext[Note]) -> Stay:
        """Awaits."""
        await asyncio.sleep(0)
        return stay(self._where())

    @tool
    def promised(self, ctx: StageContext[Note]) -> Awaitable[Stay]:
        """Gives a promise."""
        return self.awaited(ctx)

    @tool(blocking=True)
    def blocks(self, ctx: StageContext[Note]) -> Stay:
        """Runs in a thread."""
        ctx.save(Note("from a thread"))
        return stay(self._where())

    @tool(blocking=True, timeout=30)
    def timed(self, ctx: StageContext[Note]) -> Stay:
        """Runs in a thread, with an end."""
        return stay(self._where())


@pytest.mark.parametrize(
    ("name", "inline"),
    [("inline", True), ("awaited", True), ("promised", True), ("blocks", False), ("timed", False)],
)
def test_g5_a_handler_may_be_written_any_way(name: str, inline: bool) -> None:  # noqa: FBT001
    """Rule G5: a blocking one runs in a thread and still sees its caller's context variables."""

    async def main() -> None:
        CALLER.set("Ann")
        await app.ainvoke("hi", session="s")

    node, model = Kinds(), ScriptedModel(call(name), "bye")
    app = Graph("g", entry=Kinds).stages(node).compile(model=model)
    asyncio.run(main())
    assert spoken(model.requests[1].messages)[-1] == "tool#s1.1: Ann"
    assert node.threads == [inline]
    assert app.load("s").cells == ({"Kinds": Note("from a thread")} if name == "blocks" else {})


def test_g5_a_blocking_tool_holds_up_no_other_session() -> None:
    started, release = threading.Event(), threading.Event()

    class Model:
        async def respond(self, request: ModelRequest, /) -> ModelReply:
            waits = request.session == "slow" and request.messages[-1].role == "user"
            return calls(("a", "wait")) if waits else ModelReply("spoken")

    async def main() -> None:
        app = Graph("g", entry=Waits).stages(Waits(started, release)).compile(model=Model())
        slow = asyncio.create_task(app.ainvoke("hi", session="slow"))
        await asyncio.to_thread(started.wait, 10)
        assert (await app.ainvoke("hi", session="fast")).reply == "spoken"
        assert not slow.done()
        release.set()
        assert (await slow).reply == "spoken"

    asyncio.run(main())


class Waits(Conversation[None]):
    def __init__(self, started: threading.Event, release: threading.Event) -> None:
        self.started, self.release = started, release

    @tool(blocking=True)
    def wait(self, ctx: StageContext[None]) -> Stay:
        """Wait for the other."""
        self.started.set()
        assert self.release.wait(10)
        return stay("waited")


def test_g5_tools_are_inherited_overridden_and_renamed() -> None:
    model = ScriptedModel((call("first"), call("renamed"), call("second")), "bye")
    app = Graph("g", entry=Kinds).stages(Kinds()).compile(model=model)
    app.invoke("hi", session="s")
    assert [one.name for one in model.requests[0].tools][:2] == ["first", "renamed"]
    assert [one.description for one in model.requests[0].tools][:2] == [
        "The first tool, overridden.",
        "The second tool.",
    ]
    results = [m.text for m in model.requests[1].messages if m.role == "tool"]
    assert results[:2] == ["overridden", "by another name"]
    assert results[2].startswith("There is no tool 'second'. The tools are: first, renamed, ")


def test_g7_a_tool_that_outlives_its_timeout_writes_nothing() -> None:
    """Rule G7: the error is typed; its thread, which nothing can stop, finds its step over."""
    release, over = threading.Event(), list[BaseException]()
    node = Late(release, over)
    app = Graph("g", entry=Late).stages(node).compile(model=ScriptedModel(call("late")))

    async def main() -> None:
        with pytest.raises(StepTimeout, match=r"Late\.late took longer than its timeout of 0\.01 s") as caught:
            await app.ainvoke("hi", session="s")
        assert (caught.value.node, caught.value.tool, caught.value.seconds) == ("Late", "late", 0.01)
        release.set()

    asyncio.run(main())  # waits for its threads at the end
    assert [type(error) for error in over] == [StepOver]
    assert app.load("s").cells == {}


class Late(Conversation[Note]):
    def __init__(self, release: threading.Event, over: list[BaseException]) -> None:
        self.release, self.over = release, over

    @tool(blocking=True, timeout=0.01)
    def late(self, ctx: StageContext[Note]) -> Stay:
        """Come late."""
        assert self.release.wait(10)
        try:
            ctx.save(Note("too late"))
        except StepOver as error:
            self.over.append(error)
        return stay("late")


class Gate(GraphNode[Note]):
    """Waits in a thread for whoever opens it."""

    blocking = True
    timeout = 30

    def __init__(self, seen: list[object]) -> None:
        self.seen = seen

    def run(self, ctx: StageContext[Note]) -> Fanout[Weighs | Counts]:
        self.seen += [CALLER.get(), threading.current_thread() is threading.main_thread()]
        ctx.save(Note("from a thread"))
        return fanout(Weighs, Counts)


class Weighs(Worker[None, int]):
    blocking = True

    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(int(threading.current_thread() is threading.main_thread()))


class Counts(Weighs):
    """A blocking worker by inheritance."""


class Told(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(f"{ctx.result(Weighs)} {ctx.result(Counts)} {ctx.read(Gate).text}")


def test_g5_a_blocking_run_is_called_in_a_thread_with_the_callers_context_variables() -> None:
    seen: list[object] = []
    graph = Graph("g", entry=Gate).stages(Gate(seen), Told).workers(Weighs, Counts)
    app = graph.join((Weighs, Counts), to=Told).compile()

    async def main() -> str | None:
        CALLER.set("Ann")
        return (await app.ainvoke("hi", session="s")).reply

    assert asyncio.run(main()) == "0 0 from a thread"
    assert seen == ["Ann", False]


class Both(GraphNode[None]):
    blocking = True

    async def run(self, ctx: StageContext[None]) -> Finish:
        return finish("never")


def test_g5_an_async_run_is_not_blocking() -> None:
    with pytest.raises(DefinitionError, match=r"Both\.run: is async and blocking"):
        Graph("g", entry=Both).compile()


def test_g7_work_that_swallows_its_timeout_has_timed_out_all_the_same() -> None:
    async def swallows() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "too late"
        return "never"

    with pytest.raises(StepTimeout, match=r"Gate took longer than its timeout of 0\.001 s"):
        asyncio.run(within(0.001, "Gate", None, swallows()))


# ---------------------------------------------------------------------------------------------------- S7, nothing leaks


class Appends(Conversation[Note]):
    """Changes whatever it is handed."""

    def __init__(self) -> None:
        self.kept: list[list[int]] = []

    @tool
    def add(self, ctx: StageContext[Note], numbers: list[int], names: dict[str, list[int]]) -> Stay:
        """Add to what was given."""
        self.kept.append(numbers)
        numbers.append(len(numbers))
        names["more"] = [1]
        return stay(f"{numbers} {sorted(names)}")

    @tool
    def look(self, ctx: StageContext[Note]) -> Stay:
        """Look at what cannot be changed."""
        history: Any = ctx.history
        for change in (
            lambda: history.append(user("more")),
            lambda: history.__setitem__(0, user("more")),
            lambda: setattr(ctx.state, "text", "changed"),
        ):
            with pytest.raises((AttributeError, TypeError)):
                change()
        return stay("looked")


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_s7_what_a_handler_does_to_its_arguments_stays_with_it(kind: str, tmp_path: Path) -> None:
    """FIELD S7; rule F3: in memory and on disk alike."""
    one = call("add", numbers=[7], names={"a": []})
    model = ScriptedModel((one, one), call("look"), "bye", "bye")
    node = Appends()
    store: Any = SQLiteStore(tmp_path / "s.db") if kind == "file" else MemoryStore()
    app = Graph("g", entry=Appends).stages(node).compile(model=model, store=store)
    said = user("hi")
    app.invoke(said, session="s")
    first = app.load("s")
    told, rows = spoken(first.histories["default"]), file_parts(tmp_path / "s.db") if kind == "file" else {}
    assert told[2:4] == ["tool#s1.1: [7, 1] ['a', 'more']", "tool#s1.2: [7, 1] ['a', 'more']"], "each its own"
    assert told[1] == "assistant:  +add#s1.1 +add#s1.2"
    assert first.histories["default"][1].calls[0].arguments == '{"numbers": [7], "names": {"a": []}}'
    assert node.kept[0] is not node.kept[1]
    node.kept[0].append(99)
    app.invoke("more", session="s")
    assert said == user("hi")
    assert spoken(first.histories["default"]) == told, "an earlier snapshot stays as it was"
    assert spoken(app.load("s").histories["default"])[: len(told)] == told
    if kind == "file":
        now = file_parts(tmp_path / "s.db")
        assert {key: now[key] for key in rows if key[1] == "message"} == {
            key: value for key, value in rows.items() if key[1] == "message"
        }
        store.close()


def test_s7_a_models_request_is_its_own() -> None:
    """FIELD S7: what a model does to a request changes no session."""

    def greedy(request: ModelRequest) -> ModelReply:
        messages: Any = request.messages
        with pytest.raises((AttributeError, TypeError)):
            messages.append(user("more"))
        return ModelReply("spoken")

    app = Graph("g", entry=Appends).compile(model=ScriptedModel(greedy))
    app.invoke("hi", session="s")
    assert history(app) == ["user: hi", "assistant: spoken"]


# ------------------------------------------------------------------------- T6 and K2, a wrong value, a broken validator


def _positive(claim: Any, attribute: Any, value: int) -> None:
    if value < 0:
        raise ValueError("no claim is negative")


@frozen
class Claim:
    amount: int = field(default=0, validator=_positive)
    lines: tuple[Note, ...] = ()


class Claims(Conversation[Claim]):
    @tool
    def put(self, ctx: StageContext[Claim], amount: int = 0, how: str = "right") -> Stay | Direct:
        """Put it down."""
        ctx.save(Claim(1))
        if how == "wrong":
            wrong: Any = ("a line",)
            ctx.save(Claim(amount, wrong))
        if how == "swallowed":
            wrong = object()
            with pytest.raises(StateTypeError):
                ctx.save(wrong)
            return direct("kept the old")
        ctx.save(Claim(amount))
        return stay("put")


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        (
            {"how": "wrong"},
            StateTypeError,
            r"^Claims wrote the state of Claims: \$\.lines\[0\] must be Note, and is str",
        ),
        ({"amount": -1}, StepFailed, r"^Claims\.put \(call c1\) raised ValueError: no claim is negative$"),
    ],
    ids=["T6", "K2"],
)
def test_k2_a_state_that_could_not_be_built_leaves_the_old_one(
    kind: str, arguments: dict[str, Any], error: Any, told: str, tmp_path: Path
) -> None:
    """FIELD T6, K2; rule F3: refused at that node, whatever the store; the session before it still loads."""
    store: Any = SQLiteStore(tmp_path / "s.db") if kind == "file" else MemoryStore()
    right, wrong = call("put", amount=5), call("put", **arguments).arguments
    model = ScriptedModel(right, "kept", calls(("c1", "put"), arguments=wrong), "bye")
    app = Graph("g", entry=Claims).compile(model=model, store=store)
    app.invoke("hi", session="s")
    before = app.load("s")
    with pytest.raises(error, match=told) as caught:
        app.invoke("more", session="s")
    assert caught.value.node == "Claims"
    after = app.load("s")
    assert after.cells == before.cells == {"Claims": Claim(5)}
    assert after.histories == before.histories
    assert app.invoke("again", session="s").reply == "bye"
    if kind == "file":
        store.close()


def test_t6_a_wrong_write_that_is_caught_leaves_what_was_staged() -> None:
    """Rule F3: nothing of the refused value is kept."""
    app = Graph("g", entry=Claims).compile(model=ScriptedModel(call("put", how="swallowed")))
    assert app.invoke("hi", session="s").reply == "kept the old"
    assert app.load("s").cells == {"Claims": Claim(1)}
