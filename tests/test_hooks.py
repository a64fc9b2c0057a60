"""The hooks of a node run: their order, the incoming message, the seed, the exit.  Rules G1 and G2."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from desk import Ledger, Left, Note, calls, history, spoken

from ezgraph import (
    END,
    Context,
    Conversation,
    Direct,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    Message,
    StageContext,
    Stay,
    StepFailed,
    Worker,
    assistant,
    direct,
    fanout,
    finish,
    go,
    instruction,
    stay,
    tool,
    user,
)
from ezgraph.models import ModelReply, ModelRequest, ScriptedModel
from ezgraph.runtime.compiled import CompiledGraph

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
        ("replaced", "user*: replaced"),
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
        (user("look"), "replaced", user("look"), ["user*: replaced"]),
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
    assert seen_by_model(app, model) == ["user*: replaced"]
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


class Appending(Conversation[None]):
    """Replaces the incoming message, and appends another of its own."""

    def __init__(self, used: str | None, space: str) -> None:
        self.used, self.history = used, space

    def on_enter(self, ctx: StageContext[None], message: Message | None) -> str | None:
        ctx.append(Appending, instruction("appended"))
        return self.used


class Leading(GraphNode[None]):
    history = "gate"

    def __init__(self, *, brief: bool) -> None:
        self.brief = brief

    def run(self, ctx: StageContext[None]) -> Go[Appending]:
        return go(Appending).with_message(user("look")) if self.brief else go(Appending)


@pytest.mark.parametrize(
    ("brief", "used", "seen"),
    [
        (True, "replaced", ["user*: replaced", "user*: appended"]),
        (True, None, ["user: look", "user*: appended"]),
        (False, "task", ["user*: appended", "user*: task"]),
        (False, None, ["user*: appended"]),
    ],
)
def test_g2_on_enter_replaces_the_message_it_was_handed(brief: bool, used: str | None, seen: list[str]) -> None:  # noqa: FBT001
    """Rule G2: not one that it appended itself; published or not, and no seed where there is something to answer."""
    model = ScriptedModel("spoken")
    app = Graph("g", entry=Leading).stages(Leading(brief=brief), Appending(used, "own")).compile(model=model)
    assert seen_by_model(app, model) == seen
    assert history(app, "own") == [*seen, "assistant: spoken"]
    model = ScriptedModel("spoken")
    if brief:  # by input, so that the message is not yet published
        app = Graph("g", entry=Appending).stages(Appending(used, "default")).compile(model=model)
        app.invoke(user("look"), session="s")
        assert history(app) == [*seen, "assistant: spoken"]


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
