"""One run of a model-driven node: hooks, prompt, rounds, cleanups, histories, and what a handler may do.  Section G."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen
from desk import Ledger, Left, Note, calls, check_valid, file_rows, spoken
from hypothesis import given, settings, strategies as st

from ezgraph import (
    END,
    Context,
    Conversation,
    Direct,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    Message,
    ModelStopped,
    OutputError,
    RoundLimit,
    StageContext,
    StateTypeError,
    Stay,
    StepFailed,
    StepOver,
    StepTimeout,
    TaskResult,
    ToolCall,
    Worker,
    assistant,
    direct,
    direct_to,
    fanout,
    finish,
    go,
    instruction,
    stay,
    task_result,
    tool,
    user,
)
from ezgraph.models import ModelReply, ModelRequest, ScriptedModel, call
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore


def history(app: CompiledGraph, space: str = "default", session: str = "s") -> list[str]:
    messages = app.load(session).histories[space]
    check_valid(messages)
    return spoken(messages)


# ----------------------------------------------------------------------------------------------- G1, the order of hooks


class Recorder(Conversation[Note]):
    """Writes down everything that is called, as it is called."""

    def __init__(self, *, awaits: bool) -> None:
        self.awaits, self.done = awaits, list[str]()

    def _did(self, what: str, value: Any = None) -> Any:
        async def later() -> Any:
            await asyncio.sleep(0)
            self.done.append(what)
            return value

        if self.awaits:
            return later()
        self.done.append(what)
        return value

    def on_enter(self, ctx: StageContext[Note], message: Message | None) -> Any:
        return self._did(f"enter:{message.text if message is not None else None}")

    def prompt(self, ctx: StageContext[Note]) -> Any:
        return self._did("prompt", "Be kind.")

    @tool
    def look(self, ctx: StageContext[Note]) -> Stay:
        """Look."""
        self.done.append("look")
        return stay("looked").with_cleanup(lambda: self._did("clean"))

    @tool
    async def leave(self, ctx: StageContext[Note]) -> Finish:
        """Leave."""
        self.done.append("leave")
        return finish("left").with_cleanup(lambda: self._did("clean"))

    def on_response(self, ctx: StageContext[Note], output: object) -> str | None:
        said: str | None = self._did(f"response:{output}")
        return said

    def on_exit(self, ctx: StageContext[Note], outcome: Any) -> Any:
        ctx.save(Note("saved at exit"))
        return self._did(f"exit:{outcome if isinstance(outcome, str) else type(outcome).__name__}")


@pytest.mark.parametrize("awaits", [False, True], ids=["sync", "async"])
def test_g1_each_hook_is_called_once_per_run_in_order(awaits: bool) -> None:  # noqa: FBT001
    """Rules G1, G5: not once per round; the cleanup of a batch is due when the model has seen its results."""
    node = Recorder(awaits=awaits)

    def speak(request: ModelRequest) -> ModelReply:
        node.done.append("model")
        assert request.prompt == "Be kind."
        return ModelReply("spoken") if len(request.messages) > 4 else calls(("a", "look"))

    app = Graph("g", entry=Recorder).stages(node).compile(model=ScriptedModel(speak, speak, speak))
    assert app.invoke("hi", session="s").reply == "spoken"
    assert node.done == [
        "enter:hi",
        "prompt",
        "model",
        "look",
        "model",
        "clean",
        "look",
        "model",
        "clean",
        "response:spoken",
        "exit:spoken",
    ]
    assert app.load("s").cells == {"Recorder": Note("saved at exit")}


def test_g1_a_route_leaves_without_the_response_hook() -> None:
    """Rules A6, G1: and its cleanup runs when the step ends."""
    node = Recorder(awaits=True)
    app = Graph("g", entry=Recorder).stages(node).compile(model=ScriptedModel(calls(("a", "look"), ("b", "leave"))))
    assert app.invoke("hi", session="s").cursor == END
    assert node.done == ["enter:hi", "prompt", "look", "leave", "clean", "clean", "exit:Finish"]


class Exits(GraphNode[Note]):
    """With `run` there is `on_exit` and no other hook; it sees the final outcome."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.seen = answer, list[object]()

    async def run(self, ctx: StageContext[Note]) -> Go[Exits] | Direct | None:
        ctx.save(Note("run"))
        answer: Direct | None = self.answer
        return answer

    async def on_exit(self, ctx: StageContext[Note], outcome: object) -> None:
        self.seen.append(outcome)
        if self.answer == direct("raise"):
            raise ValueError("at exit")
        ctx.save(Note(f"{ctx.state.text}, exit"))


@pytest.mark.parametrize(("answer", "seen"), [(None, None), (direct("said"), "said")], ids=repr)
def test_g2_on_exit_sees_the_outcome_and_may_save(answer: Any, seen: object) -> None:
    node = Exits(answer)
    app = Graph("g", entry=Exits).stages(node).compile()
    app.invoke("hi", session="s")
    assert node.seen == [seen]
    assert app.load("s").cells == {"Exits": Note("run, exit")}


def test_g2_an_error_at_exit_publishes_nothing() -> None:
    app = Graph("g", entry=Exits).stages(Exits(direct("raise"))).compile()
    with pytest.raises(StepFailed, match="Exits raised ValueError: at exit"):
        app.invoke("hi", session="s")
    assert (app.load("s").cells, app.load("s").histories) == ({}, {})


# -------------------------------------------------------------------------------------------- G2, on_enter and the seed


class Entered(Conversation[Note]):
    """Replaces the incoming message as the test wants."""

    def __init__(self, used: Any, seed: str | None = "Begin.", space: str = "default") -> None:
        self.used, self.seed, self.history = used, seed, space
        self.seen: list[Message | None] = []

    def on_enter(self, ctx: StageContext[Note], message: Message | None) -> Message | str | None:
        self.seen.append(message)
        used: Message | str | None = self.used
        return used


class Gate(GraphNode[None]):
    """Goes to `Entered`, with a message where it has one."""

    def __init__(self, message: str | Message | None = None, space: str = "gate") -> None:
        self.message, self.history = message, space

    def run(self, ctx: StageContext[None]) -> Go[Entered]:
        return go(Entered) if self.message is None else go(Entered).with_message(self.message)


def seen_by_model(app: CompiledGraph, model: ScriptedModel) -> list[str]:
    app.invoke("hi", session="s")
    (request,) = model.requests
    return spoken(request.messages)


@pytest.mark.parametrize(
    ("used", "seen"),
    [
        (None, "user: hi"),
        ("replaced", "user: replaced"),
        (instruction("replaced"), "user*: replaced"),
        (user("hi"), "user: hi"),
    ],
    ids=repr,
)
def test_g2_on_enter_replaces_the_incoming_message_in_the_history(used: Any, seen: str) -> None:
    node, model, ledger = Entered(used), ScriptedModel("spoken"), Ledger()
    app = Graph("g", entry=Entered).stages(node).compile(model=model, store=ledger)
    assert seen_by_model(app, model) == [seen]
    assert node.seen == [user("hi")]
    assert history(app) == [seen, "assistant: spoken"]
    assert ledger.deltas[0].messages["default"].drop == 0


@pytest.mark.parametrize(
    ("forwarded", "used", "received", "seen"),
    [
        ("look", None, instruction("look"), ["user*: look"]),
        ("look", instruction("look"), instruction("look"), ["user*: look"]),
        (user("look"), None, user("look"), ["user: look"]),
        (user("look"), "replaced", user("look"), ["user: replaced"]),
        (None, None, None, ["user*: Begin."]),
        (None, "my task", None, ["user*: my task"]),
        (None, user("my task"), None, ["user: my task"]),
    ],
    ids=repr,
)
def test_g2_on_enter_receives_what_was_forwarded_or_nothing(
    forwarded: Any, used: Any, received: Any, seen: list[str]
) -> None:
    """Rule G2: in a space of its own there is no other message; one that was published is replaced as well."""
    node, model, ledger = Entered(used, space="own"), ScriptedModel("spoken"), Ledger()
    app = Graph("g", entry=Gate).stages(Gate(forwarded), node).compile(model=model, store=ledger)
    assert seen_by_model(app, model) == seen
    assert node.seen == [received]
    assert history(app, "own") == [*seen, "assistant: spoken"]
    replaced = ledger.sessions[0].histories.get("own") is not None and used not in {None, instruction("look")}
    assert ledger.deltas[1].messages["own"].drop == int(replaced), "what stands is not written again"
    assert history(app, "gate") == ["user: hi"]


def test_g2_the_trailing_message_of_a_shared_space_is_the_incoming_one() -> None:
    node, model = Entered("replaced"), ScriptedModel("spoken")
    app = Graph("g", entry=Gate).stages(Gate(space="default"), node).compile(model=model)
    assert seen_by_model(app, model) == ["user: replaced"]
    assert node.seen == [user("hi")]


@pytest.mark.parametrize("seed", ["Say something first.", None])
def test_g2_an_empty_history_is_seeded_unless_told_not_to(seed: str | None) -> None:
    node, model = Entered(None, seed, space="own"), ScriptedModel("spoken")
    app = Graph("g", entry=Gate).stages(Gate(), node).compile(model=model)
    assert seen_by_model(app, model) == ([] if seed is None else [f"user*: {seed}"])


def test_g2_a_history_that_ends_with_an_answer_is_seeded_too() -> None:
    """Rule G2: a provider wants something to answer."""
    node, model = Entered(None, space="own"), ScriptedModel("spoken")
    app = Graph("g", entry=Preface).stages(node).compile(model=model)
    assert seen_by_model(app, model) == ["assistant: We spoke before.", "user*: Begin."]


def test_g2_a_history_that_ends_with_a_result_is_not_seeded() -> None:
    """Rule G2: it has something to answer, and an instruction of ours would only be in the way."""
    model = ScriptedModel(call("move"), "spoken")
    app = Graph("g", entry=Chatty).compile(model=model)
    app.invoke("hi", session="s")
    assert spoken(model.requests[1].messages) == ["user: hi", "assistant:  +move#s1.1", "tool#s1.1: Done."]


class Preface(GraphNode[None]):
    history = "gate"

    def run(self, ctx: StageContext[None]) -> Go[Entered]:
        ctx.append(Entered, assistant("We spoke before."))
        return go(Entered)


class Tasked(Worker[Note, str]):
    """A worker with a model: its task comes from `on_enter`, from state it reads."""

    def __init__(self, *, task: bool, seed: str | None = "Begin.") -> None:
        self.task, self.seed = task, seed

    def on_enter(self, ctx: Context[Note], message: Message | None) -> str | None:
        assert message is None
        return f"Look at {ctx.read(Sender).text}." if self.task else None


class Sender(GraphNode[Note]):
    def run(self, ctx: StageContext[Note]) -> Fanout[Tasked | Left]:
        ctx.save(Note("parcel 7"))
        return fanout(Tasked, Left)


@pytest.mark.parametrize(
    ("task", "seed", "seen"),
    [(True, "Begin.", ["user*: Look at parcel 7."]), (False, "Go.", ["user*: Go."]), (False, None, [])],
)
def test_g2_a_workers_history_starts_with_its_task(task: bool, seed: str | None, seen: list[str]) -> None:  # noqa: FBT001
    """Rules B3, G2: it is private, and starts empty every time."""
    model = ScriptedModel("one", "two")
    graph = Graph("g", entry=Sender).workers(Tasked(task=task, seed=seed), Left).edge(Tasked, END).edge(Left, END)
    app = graph.compile(model=model, at_end="wait")
    for _ in range(2):
        app.invoke("hi", session="s")
    assert [spoken(request.messages) for request in model.requests] == [seen, seen]
    assert history(app) == ["user: hi", "user: hi"]


# ------------------------------------------------------------------------------------------------ G3, rounds and limits


class Loops(Conversation[Note]):
    """Never satisfied."""

    @tool
    def again(self, ctx: StageContext[Note]) -> Stay:
        """Again."""
        ctx.save(Note("staged"))
        return stay("again")

    @tool
    def done(self, ctx: StageContext[Note]) -> Direct:
        """Done."""
        return direct("done")


class Loops2(Loops):
    rounds = 2


@pytest.mark.parametrize(("kind", "limit"), [(Loops, 8), (Loops2, 2)])
def test_g3_the_loop_has_a_round_limit(kind: Any, limit: int) -> None:
    model = ScriptedModel(*[call("again")] * limit)
    app = Graph("g", entry=kind).compile(model=model)
    told = rf"{kind.__name__}: the model called tools in {limit} messages without an answer or a route\. Set `rounds`"
    with model, pytest.raises(RoundLimit, match=told) as caught:
        app.invoke("hi", session="s")
    assert caught.value.limit == limit
    assert (app.load("s").cells, app.load("s").histories) == ({}, {})


@pytest.mark.parametrize("last", ["spoken", call("done")], ids=["text", "route"])
def test_g3_the_last_round_may_answer(last: Any) -> None:
    with ScriptedModel(call("again"), last) as model:
        assert Graph("g", entry=Loops2).compile(model=model).invoke("hi", session="s").status == "idle"


@pytest.mark.parametrize("reason", ["length", "filtered"])
def test_g3_what_a_model_broke_off_is_no_answer(reason: Any) -> None:
    reply = ModelReply("half an ans", (ToolCall("a", "done"),), stop=reason)
    app = Graph("g", entry=Loops).compile(model=ScriptedModel(reply))
    with pytest.raises(ModelStopped, match=rf"Loops: the model stopped early \({reason}\)\. Nothing was published"):
        app.invoke("hi", session="s")
    assert app.load("s").histories == {}


def test_g3_neither_text_nor_calls_is_an_error() -> None:
    app = Graph("g", entry=Loops).compile(model=ScriptedModel(ModelReply(" \n")))
    with pytest.raises(OutputError, match=r"Loops: the model gave neither text nor calls\. Try again\."):
        app.invoke("hi", session="s")


def test_g4_what_a_model_raises_fails_the_step() -> None:
    """Rule G4: the input is not in the history and may be sent again."""
    app = Graph("g", entry=Loops).compile(model=ScriptedModel(call("again"), TimeoutError("provider"), "spoken"))
    with pytest.raises(StepFailed, match="Loops raised TimeoutError: provider") as caught:
        app.invoke("hi", session="s")
    assert (caught.value.tool, caught.value.call) == (None, None)
    assert app.load("s").histories == {}
    assert app.invoke("hi", session="s").reply == "spoken"
    assert history(app) == ["user: hi", "assistant: spoken"]


# --------------------------------------------------------------------------------------------------- with_cleanup, once


class Cleans(Conversation[Note]):
    """Its tools leave cleanups behind."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.entered, self.release = asyncio.Event(), asyncio.Event()

    def _clean(self, name: str) -> Callable[[], object]:
        async def later() -> None:
            await asyncio.sleep(0)
            self.done.append(name)

        def now() -> None:
            self.done.append(name)

        return later if name.startswith("async") else now

    @tool
    def leave(self, ctx: StageContext[Note], name: str) -> Stay:
        """Leave something to clean up."""
        self.done.append("call")
        return stay("left").with_cleanup(self._clean(name))

    @tool
    def broken(self, ctx: StageContext[Note]) -> Stay:
        """Leave a cleanup that raises."""

        def clean() -> None:
            self.done.append("broken")
            raise ValueError("cannot clean")

        return stay("left").with_cleanup(clean)

    @tool
    async def stuck(self, ctx: StageContext[Note]) -> Stay:
        """Leave a cleanup that waits."""

        async def clean() -> None:
            self.entered.set()
            await self.release.wait()

        return stay("left").with_cleanup(clean)

    @tool
    async def wait(self, ctx: StageContext[Note]) -> Stay:
        """Wait for ever."""
        ctx.save(Note("waiting"))
        self.entered.set()
        await self.release.wait()
        return stay("waited")

    @tool
    def fail(self, ctx: StageContext[Note]) -> Finish:
        """Fail."""
        raise ValueError("boom")

    @tool
    def out(self, ctx: StageContext[Note]) -> Finish:
        """Finish."""
        return finish("out").with_cleanup(self._clean("out"))


def cleans(*script: Any, **options: Any) -> tuple[CompiledGraph, Cleans]:
    node = Cleans()
    return Graph("g", entry=Cleans).stages(node).compile(model=ScriptedModel(*script), **options), node


LEFT = (call("leave", name="a"), call("leave", name="async b"))


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ((LEFT, "spoken"), None),
        ((LEFT, call("out")), None),
        (((*LEFT, call("out")),), None),
        (((*LEFT, call("fail")),), StepFailed),
        ((LEFT, ValueError("provider")), StepFailed),
        ((LEFT, ModelReply("half", stop="length")), ModelStopped),
        ((LEFT, *[call("nothing")] * 7), RoundLimit),
    ],
)
def test_c2_a_cleanup_runs_exactly_once(script: Any, error: Any) -> None:
    """Table C: after the model has seen the result, or before the step stops or fails."""
    app, node = cleans(*script)
    if error is None:
        app.invoke("hi", session="s")
    else:
        with pytest.raises(error):
            app.invoke("hi", session="s")
    assert node.done == ["call", "call", "a", "async b"] + ["out"] * (node.done[-1] == "out")


def test_c2_a_cleanup_comes_after_the_model_has_seen_the_result() -> None:
    node = Cleans()

    def look(request: ModelRequest) -> ModelReply:
        assert spoken(request.messages)[-1] == "tool#s1.1: left"
        assert node.done == ["call"]
        return ModelReply("spoken")

    app = Graph("g", entry=Cleans).stages(node).compile(model=ScriptedModel(call("leave", name="a"), look))
    app.invoke("hi", session="s")
    assert node.done == ["call", "a"]


def test_c2_a_cleanup_that_raises_is_told_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    app, node = cleans((call("broken"), call("leave", name="a")), "spoken")
    with caplog.at_level(logging.ERROR, "ezgraph"):
        assert app.invoke("hi", session="s").reply == "spoken"
    assert node.done == ["call", "broken", "a"]
    assert [record.getMessage() for record in caplog.records] == ["Cleans: a cleanup raised in session s"]
    assert caplog.records[0].exc_info is not None


async def _cancelled(app: CompiledGraph, node: Cleans, times: int = 1) -> None:
    """Run a turn, and cancel it where it waits, as often as told."""
    turn = asyncio.create_task(app.ainvoke("hi", session="s"))
    await node.entered.wait()
    for _ in range(times):
        turn.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_g3_a_cancelled_step_cleans_up_and_publishes_nothing() -> None:
    """Rules C2, G3: the cancellation reaches the caller, the session stays, no task leaks."""

    async def main() -> None:
        ledger = Ledger()
        app, node = cleans((*LEFT, call("wait")), "spoken", store=ledger)
        await _cancelled(app, node)
        assert node.done == ["call", "call", "a", "async b"]
        assert ledger.deltas == []
        assert (await app.ainvoke("hi", session="s")).reply == "spoken"

    asyncio.run(main())


@pytest.mark.parametrize("last", [(), (call("out"),)], ids=["in the loop", "at the end"])
def test_c2_a_cancelled_cleanup_holds_up_no_other(last: Any) -> None:
    """Table C: exactly once, also where the cancellation comes while one of them waits."""

    async def main() -> None:
        batch = (call("leave", name="a"), call("stuck"), call("leave", name="async b"))
        app, node = cleans((*batch, *last), "spoken")
        await _cancelled(app, node)
        assert node.done == ["call", "call", "a", "async b", *["out"] * len(last)]

    asyncio.run(main())


def test_h10_after_a_cancellation_the_next_turn_starts_from_a_valid_history() -> None:
    """FIELD H10; rule G3."""

    async def main() -> None:
        node, seen = Cleans(), asyncio.Event()

        class Slow:
            calls = 0

            async def respond(self, request: ModelRequest, /) -> ModelReply:
                check_valid(request.messages)
                self.calls += 1
                if self.calls == 1:
                    return calls(("a", "leave"), arguments='{"name": "a"}')
                if self.calls == 2:
                    seen.set()
                    await node.release.wait()
                return ModelReply("spoken")

        app = Graph("g", entry=Cleans).stages(node).compile(model=Slow())
        turn = asyncio.create_task(app.ainvoke("hi", session="s"))
        await seen.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert node.done == ["call", "a"]
        await app.ainvoke("hi again", session="s")
        assert spoken((await app.aload("s")).histories["default"]) == ["user: hi again", "assistant: spoken"]

    asyncio.run(main())


# -------------------------------------------------------------------------------------- G9 and F4, what is in a history


class Front(Conversation[None]):
    """The front desk."""

    @tool
    def hand(self, ctx: StageContext[None]) -> Go[BackOffice]:
        """Hand over."""
        return go(BackOffice)

    @tool
    def send(self, ctx: StageContext[None]) -> DirectTo[BackOffice | Same]:
        """Send over."""
        return direct_to(BackOffice, "please wait")

    @tool
    def same(self, ctx: StageContext[None]) -> DirectTo[BackOffice | Same]:
        """Send to a node of the same space."""
        return direct_to(Same, "one moment")

    @tool
    def whisper(self, ctx: StageContext[None]) -> Stay:
        """Tell the back office."""
        ctx.append(BackOffice, instruction("an angry one"))
        return stay("told")


class BackOffice(Conversation[None]):
    """The back office, which keeps its own history."""

    history = "back"

    @tool
    def close(self, ctx: StageContext[None]) -> Finish:
        """Close."""
        return finish("closed")


class Same(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct | None:
        return direct("same") if len(ctx.history) < 9 else None


def office(*script: Any) -> tuple[CompiledGraph, ScriptedModel]:
    model = ScriptedModel(*script)
    return Graph("g", entry=Front).stages(BackOffice, Same).compile(model=model), model


def test_g9_the_reply_is_in_the_history_of_the_node_that_gave_it() -> None:
    """Rule G9: after the tool results, in its own space and in no other."""
    app, _ = office(call("hand"), "here I am", call("close"))
    app.invoke("hi", session="s")
    assert app.invoke("close it", session="s").reply == "closed"
    assert history(app) == ["user: hi", "assistant:  +hand#s1.1", "tool#s1.1: Done."]
    assert history(app, "back") == [
        "user*: Begin.",
        "assistant: here I am",
        "user: close it",
        "assistant:  +close#s3.1",
        "tool#s3.1: Done.",
        "assistant: closed",
    ]


def test_g9_direct_to_another_space_tells_both() -> None:
    """Rule G9: so a model always sees what the customer was told."""
    app, model = office(call("send"), "here I am")
    assert app.invoke("hi", session="s").reply == "please wait"
    assert history(app)[-1] == "assistant: please wait"
    assert history(app, "back") == ["assistant: please wait"]
    app.invoke("well?", session="s")
    assert spoken(model.requests[-1].messages) == ["assistant: please wait", "user: well?"]


def test_g9_direct_to_in_one_space_tells_it_once() -> None:
    app, _ = office(call("same"))
    app.invoke("hi", session="s")
    assert history(app)[-2:] == ["tool#s1.1: Done.", "assistant: one moment"]
    assert app.invoke("well?", session="s").reply == "same"
    assert history(app)[-2:] == ["user: well?", "assistant: same"]


def test_f4_a_node_reads_only_its_own_space() -> None:
    """Rule F4: a turn owner may append to another, on purpose."""
    app, model = office(call("whisper"), call("hand"), "here I am")
    app.invoke("hi", session="s")
    assert spoken(model.requests[-1].messages) == ["user*: an angry one"]
    assert "an angry one" not in "".join(history(app))
    assert history(app, "back") == ["user*: an angry one", "assistant: here I am"]


def test_g9_a_stage_that_continues_says_nothing() -> None:
    """Rules A8, G9."""
    app, _ = office(call("same"))
    app.invoke("hi", session="s")
    replies = [app.invoke(f"{n}", session="s").reply for n in range(4)]
    assert replies == ["same", "same", None, None]
    assert history(app)[-1].startswith("user: ")


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
    told, rows = spoken(first.histories["default"]), file_rows(tmp_path / "s.db") if kind == "file" else []
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
        assert file_rows(tmp_path / "s.db")[: len(rows)] == rows
        store.close()


def test_s7_a_models_request_is_its_own() -> None:
    """FIELD S7: what a model does to a request changes no session."""

    def greedy(request: ModelRequest) -> ModelReply:
        messages: Any = request.messages
        with pytest.raises((AttributeError, TypeError)):
            messages.append(user("more"))
        return ModelReply("spoken")

    app = Graph("g", entry=Loops).compile(model=ScriptedModel(greedy))
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


# ------------------------------------------------------------------------------------ a random conversation stays valid


class Chatty(Conversation[Note]):
    """Every kind of call, as a model may make them."""

    @tool
    def note(self, ctx: StageContext[Note]) -> Stay:
        """Note."""
        ctx.append(Chatty, instruction("appended"))
        return stay("noted").with_messages([user("see"), instruction("that")])

    @tool
    def say(self, ctx: StageContext[Note]) -> Direct:
        """Say."""
        return direct("said").with_messages([user("photo")])

    @tool
    def move(self, ctx: StageContext[Note]) -> Go[Chatty]:
        """Move."""
        return go(Chatty)

    @tool
    def brief(self, ctx: StageContext[Note]) -> Go[Chatty]:
        """Move, with a message."""
        return go(Chatty).with_message("brief")

    @tool
    def tell(self, ctx: StageContext[Note]) -> DirectTo[Chatty]:
        """Tell."""
        return direct_to(Chatty, "told").with_message("brief")

    @tool
    def give(self, ctx: StageContext[Note]) -> TaskResult[int]:
        """Give."""
        return task_result(7)


some_calls = st.lists(
    st.builds(
        ToolCall,
        st.sampled_from(["", "a", "b"]),
        st.sampled_from(["note", "say", "move", "brief", "tell", "give", "nope", "end_session"]),
        st.sampled_from(["{}", "{", '{"x": 1}']),
    ),
    max_size=4,
).map(tuple)
replies = st.builds(
    lambda made, text: ModelReply("" if made and text == "-" else text, made), some_calls, st.sampled_from("ab-")
)


@settings(deadline=None, max_examples=150)
@given(st.lists(replies, min_size=1, max_size=6), st.booleans())
def test_d1_every_history_that_a_model_sees_is_valid(script: list[ModelReply], feedback: bool) -> None:  # noqa: FBT001
    """Rule D1, FIELD H3: whatever the model calls, in every request and in every commit."""
    model, ledger = ScriptedModel(*script, *[ModelReply("done")] * 30), Ledger()
    graph = Graph("g", entry=Chatty)
    app = graph.compile(
        model=model, store=ledger, on_conflict="feedback" if feedback else "raise", end_session=[Chatty]
    )
    for _ in range(2):
        try:
            app.invoke("hi", session="s", step_limit=100)
        except Exception as error:  # noqa: BLE001  a conflict, or the end
            assert type(error).__name__ in {"ConflictError", "SessionCompleted"}  # noqa: PT017
    for request in model.requests:
        check_valid(request.messages)
        assert request.messages[-1].role != "assistant"
    for session in ledger.sessions:
        for messages in session.histories.values():
            check_valid(messages)
