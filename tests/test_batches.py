"""One message with several tool calls, in running graphs: results, refusals, conflicts, the end.  Section D."""

from __future__ import annotations

from typing import Any

import pytest
from desk import Joined, Ledger, Left, Note, Other, Right, calls, check_valid, history, spoken
from kept import journals

from ezgraph import (
    END,
    ConflictError,
    Conversation,
    Direct,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Graph,
    InvalidResponse,
    Message,
    OwnershipError,
    RoundLimit,
    StageContext,
    StateTypeError,
    Stay,
    StepFailed,
    TaskResult,
    ToolCall,
    Usage,
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
    tool_result,
    user,
)
from ezgraph.algebra.results import CONFLICT, ENDED, NEUTRAL
from ezgraph.models import ModelReply, ScriptedModel, call
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.runtime.events import Event, ToolAnswered, ToolCalled


class Quiet(Conversation[Note]):
    """A stage in a space of its own."""

    history = "quiet"


class Desk(Conversation[Note]):
    """Help."""

    def __init__(self) -> None:
        self.done: list[str] = []
        """What handlers did, and cleanups, in order."""

    def _did(self, ctx: StageContext[Note], what: str) -> None:
        self.done.append(what)
        ctx.save(Note(f"{ctx.state.text}{what} "))

    @tool
    def note(self, ctx: StageContext[Note], text: str = "noted") -> Stay:
        """Note it down."""
        self._did(ctx, f"note:{text}")
        return stay(text)

    @tool
    def told(self, ctx: StageContext[Note], text: str) -> Stay:
        """Note it down, with another result, an attachment and a cleanup."""
        self._did(ctx, "told")
        answer = stay("default").with_tool_feedback(text).with_usage(Usage(1)).with_usage(Usage(2, 1))
        return answer.with_messages([instruction(f"see {text}")]).with_cleanup(
            lambda: self.done.append(f"clean:{text}")
        )

    @tool
    def over(self, ctx: StageContext[Note]) -> Go[Other]:
        """Hand over to the other desk."""
        self._did(ctx, "over")
        return go(Other)

    @tool
    def quiet(self, ctx: StageContext[Note]) -> Go[Quiet]:
        """Hand over to the quiet desk."""
        self._did(ctx, "quiet")
        return go(Quiet)

    @tool
    def briefed(self, ctx: StageContext[Note], text: str = "brief") -> Go[Other]:
        """Hand over with a state and a message."""
        self._did(ctx, "briefed")
        return go(Other).with_state(Note(text)).with_message("look").with_cleanup(lambda: self.done.append("clean"))

    @tool
    def both(self, ctx: StageContext[Note]) -> Fanout[Left | Right]:
        """Look into it."""
        self._did(ctx, "both")
        return fanout(Left, Right)

    @tool
    def htob(self, ctx: StageContext[Note]) -> Fanout[Left | Right]:
        """Look into it, in the other order."""
        self._did(ctx, "htob")
        return fanout(Right, Left)

    @tool
    def say(self, ctx: StageContext[Note], text: str = "said") -> Direct:
        """Say it."""
        self._did(ctx, "say")
        return direct(text)

    @tool
    def send(self, ctx: StageContext[Note]) -> DirectTo[Quiet]:
        """Send them over."""
        self._did(ctx, "send")
        return direct_to(Quiet, "over there").with_state(Note("sent"))

    @tool
    def close(self, ctx: StageContext[Note]) -> Finish:
        """Close."""
        self._did(ctx, "close")
        return finish("closed")

    @tool
    def answer(self, ctx: StageContext[Note], value: int = 7) -> TaskResult[int]:
        """Answer."""
        self._did(ctx, "answer")
        return task_result(value)

    @tool
    def fail(self, ctx: StageContext[Note], how: str = "boom") -> Stay:
        """Fail."""
        self._did(ctx, "fail")
        if how == "state":
            wrong: Any = "wrong"
            ctx.save(wrong)
        if how == "target":
            target: Any = Left
            go(target)
        if how == "nothing":
            nothing: Any = None
            return nothing  # type: ignore[no-any-return]
        if how == "cleanup":
            refused: Any = direct_to(Other, "x").with_cleanup(lambda: self.done.append("clean"))
            return refused  # type: ignore[no-any-return]
        raise ValueError(how)


def desk(
    *script: Any, on_conflict: Any = "raise", may_end: bool = False, listener: Any = None, durability: Any = "call"
) -> tuple[CompiledGraph, Desk, ScriptedModel, Ledger]:
    """A desk that plays `script`, with its model and its store."""
    node, model, ledger = Desk(), ScriptedModel(*script), Ledger()
    graph = Graph("g", entry=Desk).stages(node, Quiet, Other, Joined).workers(Left, Right)
    app = graph.join((Left, Right), to=Joined).compile(
        store=ledger,
        model=model,
        on_conflict=on_conflict,
        end_session=[Desk] if may_end else [],
        listener=listener,
        durability=durability,
    )
    return app, node, model, ledger


# ------------------------------------------------------------------------------------------------------ D1, the results


def test_d1_calls_run_in_order_and_each_has_one_result_before_the_next_model_call() -> None:
    app, node, model, _ = desk(calls(("a", "note"), ("b", "told"), ("c", "note"), arguments='{"text": "x"}'), "bye")
    assert app.invoke("hi", session="s").reply == "bye"
    assert node.done == ["note:x", "told", "note:x", "clean:x"]
    assert spoken(model.requests[1].messages) == [
        "user: hi",
        "assistant:  +note#a +told#b +note#c",
        "tool#a: x",
        "tool#b: x",
        "tool#c: x",
        "user*: see x",
    ]
    assert history(app)[-1] == "assistant: bye"


@pytest.mark.parametrize("last", ["over", "both", "say", "send", "close", "answer"])
def test_d1_no_route_stops_the_later_calls(last: str) -> None:
    """Rule D1: the route may come first; what is called after it runs all the same, and is answered before it."""
    app, node, _, _ = desk(calls(("a", last), ("b", "note")))
    app.invoke("hi", session="s")
    assert node.done == [last, "note:noted"]
    default = "accepted" if last == "answer" else "Done."
    assert history(app)[:4] == ["user: hi", f"assistant:  +{last}#a +note#b", f"tool#a: {default}", "tool#b: noted"]


def test_d1_results_stand_in_the_history_before_control_moves() -> None:
    """FIELD H3: the history that the target starts from is valid for a provider."""
    app, _, model, _ = desk(calls(("a", "quiet"), ("b", "note")), "here I am")
    turn = app.invoke("hi", session="s")
    assert (turn.cursor, turn.reply) == ("Quiet", "here I am")
    assert history(app) == ["user: hi", "assistant:  +quiet#a +note#b", "tool#a: Done.", "tool#b: noted"]
    check_valid(model.requests[1].messages)


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("note", "noted"),
        ("over", NEUTRAL),
        ("both", NEUTRAL),
        ("say", NEUTRAL),
        ("close", NEUTRAL),
        ("answer", "accepted"),
    ],
)
def test_d1_the_default_result_of_a_call(name: str, result: str) -> None:
    app, _, _, _ = desk(calls(("a", name)), "bye")
    app.invoke("hi", session="s")
    assert history(app)[2] == f"tool#a: {result}"


def test_d1_repeated_and_empty_ids_get_fresh_ones() -> None:
    events: list[Event] = []
    script = calls(("a", "note"), ("a", "note"), ("", "note"), ("a.2", "note"))
    app, _, _, _ = desk(script, "bye", listener=events.append)
    app.invoke("hi", session="s")
    ids = ["a", "a.3", "call.2", "a.2"]
    assert history(app)[1:6] == [
        "assistant:  +note#a +note#a.3 +note#call.2 +note#a.2",
        *[f"tool#{one}: noted" for one in ids],
    ]
    assert [event.call.id for event in events if isinstance(event, ToolCalled)] == ids
    assert [(e.call, e.result) for e in events if isinstance(e, ToolAnswered)] == [(one, "noted") for one in ids]


def test_d1_text_beside_calls_is_kept_and_not_the_reply() -> None:
    app, _, _, _ = desk(ModelReply("Let me see.", (ToolCall("a", "say"),)))
    assert app.invoke("hi", session="s").reply == "said"
    assert history(app)[1] == "assistant: Let me see. +say#a"


# ------------------------------------------------------------------------------------------------- D2, before a handler


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            ToolCall("a", "nope"),
            "There is no tool 'nope'. The tools are: note, told, over, quiet, briefed, both, htob, say, send, close,",
        ),
        (ToolCall("a", "end_session", '{"farewell": "x"}'), "There is no tool 'end_session'"),
        (ToolCall("a", "told", "{"), "the arguments are not JSON"),
        (ToolCall("a", "told", "[1]"), "the arguments must be a JSON object, got a list of 1"),
        (ToolCall("a", "told", "{}"), "text: missing"),
        (ToolCall("a", "told", '{"text": 5, "txt": 1}'), "text: expected a string, got 5"),
        (ToolCall("a", "told", '{"text": 5, "txt": 1}'), "txt: unknown, did you mean text?"),
        (ToolCall("a", "answer", '{"value": "seven"}'), "value: expected an integer"),
    ],
)
def test_d2_a_call_that_does_not_validate_never_reaches_a_handler(wrong: ToolCall, told: str) -> None:
    """Rule D2: every wrong field is named, the call counts as `stay`, and the others of its message run."""
    app, node, model, _ = desk(ModelReply(calls=(wrong, ToolCall("b", "note"))), "bye")
    assert app.invoke("hi", session="s").reply == "bye"
    assert node.done == ["note:noted"]
    refused, noted = model.requests[1].messages[-2:]
    assert (refused.call, noted.text) == ("a", "noted")
    assert told in refused.text
    assert app.load("s").cells == {"Desk": Note("note:noted ")}


def test_d2_a_refused_call_does_not_conflict() -> None:
    """Rules D2, D3: it is a `stay`, so the route beside it is taken."""
    app, _, _, _ = desk(ModelReply(calls=(ToolCall("a", "close", '{"x": 1}'), ToolCall("b", "say"))))
    assert app.invoke("hi", session="s").reply == "said"


class Toolless(Conversation[None]):
    """Only talks."""


def test_d2_a_node_without_tools_says_so() -> None:
    model = ScriptedModel(call("note"), "sorry")
    app = Graph("g", entry=Toolless).compile(model=model)
    assert app.invoke("hi", session="s").reply == "sorry"
    assert model.requests[1].messages[-1].text == "There is no tool 'note'. The tools are: none."


# -------------------------------------------------------------------------------------- D3, in a graph that really runs


def test_d3_equal_bare_routes_are_one() -> None:
    """Rule D3: the same handoff twice, the same fan-out in two orders."""
    app, _, _, _ = desk(calls(("a", "over"), ("b", "over")))
    assert app.invoke("hi", session="s").reply == "other: -: -"
    app, _, _, _ = desk(calls(("a", "both"), ("b", "htob")))
    assert app.invoke("hi", session="s").reply == "joined: left, right"


CONFLICTS = [
    ("over", "quiet"),
    ("over", "both"),
    ("over", "say"),
    ("say", "say"),
    ("close", "close"),
    ("answer", "answer"),
    ("briefed", "over"),
    ("briefed", "briefed"),
    ("send", "both"),
    ("close", "answer"),
    ("send", "send"),
]


@pytest.mark.parametrize(("one", "other"), CONFLICTS)
def test_d4_a_conflict_names_every_call_and_publishes_nothing(one: str, other: str) -> None:
    app, node, _, ledger = desk("hello", calls(("a", one), ("n", "note"), ("b", other)), "bye")
    app.invoke("hi", session="s")
    before = ledger.sessions[-1]
    with pytest.raises(ConflictError, match="Desk: the tool calls of one message exclude each other") as caught:
        app.invoke("more", session="s")
    error = caught.value
    assert node.done == [one, "note:noted", other, *["clean"] * [one, other].count("briefed")], "all of them ran"
    assert [(id_, name) for id_, name, _ in error.outcomes] == [("a", one), ("n", "note"), ("b", other)]
    assert error.outcomes[1][2] == stay("noted")
    for id_, name, outcome in error.outcomes:
        assert f"{name} ({id_}) gave {outcome!r}" in str(error)
    assert 'Let one tool decide, or compile with on_conflict="feedback"' in str(error)
    after = app.load("s")
    assert (after.cells, after.histories, after.usage, after.head.cursor) == (
        before.cells,
        before.histories,
        before.usage,
        "Desk",
    )
    assert app.invoke("again", session="s").reply == "bye", "the next call works"


@pytest.mark.parametrize(("one", "other"), CONFLICTS)
def test_d4_feedback_answers_each_and_the_model_chooses_again(one: str, other: str) -> None:
    """FIELD H2: neither is entered, both calls are answered with the conflict, the model chooses again."""
    batch = calls(("a", one), ("n", "note"), ("b", other))
    app, _, model, _ = desk(batch, calls(("c", "say")), on_conflict="feedback")
    turn = app.invoke("hi", session="s")
    assert (turn.reply, turn.cursor, turn.usage.requests) == ("said", "Desk", 0)
    check_valid(model.requests[1].messages)
    assert [m.text for m in model.requests[1].messages[2:]] == [CONFLICT, "noted", CONFLICT]
    session = app.load("s")
    assert session.cells == {"Desk": Note(f"{one} note:noted {other} say ")}, "saved stands, a builder's is dropped"
    assert list(session.histories) == ["default"]


def test_d4_a_conflicting_round_counts() -> None:
    """Rules D4, G3."""
    batch = calls(("a", "say"), ("b", "close"))
    app, _, model, _ = desk(*[batch] * 8, on_conflict="feedback")
    with pytest.raises(RoundLimit, match="Desk: the model called tools in 8 messages"):
        app.invoke("hi", session="s")
    assert len(model.requests) == 8


def test_d4_a_conflict_drops_feedback_and_keeps_call_effects() -> None:
    """Rules D3, D4: each conflicting call is answered with the conflict; effects are outside the combination."""
    batch = ModelReply(calls=(ToolCall("a", "briefed"), ToolCall("t", "told", '{"text": "x"}'), ToolCall("b", "say")))
    app, node, model, _ = desk(batch, "bye", on_conflict="feedback")
    turn = app.invoke("hi", session="s")
    assert spoken(model.requests[1].messages)[2:] == [
        f"tool#a: {CONFLICT}",
        "tool#t: x",
        f"tool#b: {CONFLICT}",
        "user*: see x",
    ]
    assert node.done == ["briefed", "told", "say", "clean", "clean:x"]
    assert turn.usage == Usage(3, 1, 0) + Usage(requests=1)


# ------------------------------------------------------------------------------------------------- D5, ending a session


def ending(*others: str, farewell: str = '{"farewell": "So long."}') -> ModelReply:
    """A message that calls `others`, then ends the session, then takes a note."""
    last = (ToolCall("e", "end_session", farewell), ToolCall("n", "note"))
    return ModelReply(calls=(*(ToolCall(f"o{n}", name) for n, name in enumerate(others)), *last))


def test_d5_the_tool_is_offered_only_where_it_is_named() -> None:
    app, _, model, _ = desk("bye", may_end=True)
    app.invoke("hi", session="s")
    offered = model.requests[0].tools[-1]
    assert (offered.name, list(offered.parameters["properties"])) == ("end_session", ["farewell"])  # type: ignore[call-overload]
    app, _, model, _ = desk("bye")
    app.invoke("hi", session="s")
    assert "end_session" not in [one.name for one in model.requests[0].tools]


def test_d5_the_farewell_is_the_reply_and_the_session_is_completed() -> None:
    app, _, _, _ = desk(ending(), may_end=True)
    turn = app.invoke("hi", session="s")
    assert (turn.reply, turn.cursor, turn.status) == ("So long.", END, "completed")
    assert history(app)[2:] == ["tool#e: Done.", "tool#n: noted", "assistant: So long."]


@pytest.mark.parametrize(
    "others", [("over",), ("over", "quiet"), ("briefed",), ("send", "close", "say"), ("answer",), ("both",)]
)
def test_d5_ended_beats_routes_and_conflicts(others: tuple[str, ...]) -> None:
    """Rule D5: what handlers saved stands; what a route's builder would write does not."""
    app, _, _, _ = desk(ending(*others), may_end=True)
    turn = app.invoke("hi", session="s")
    assert (turn.reply, turn.cursor) == ("So long.", END)
    told = [f"tool#o{n}: {ENDED}" for n, _ in enumerate(others)]
    assert history(app)[2:] == [*told, "tool#e: Done.", "tool#n: noted", "assistant: So long."]
    session = app.load("s")
    assert session.cells == {"Desk": Note("".join(f"{name} " for name in (*others, "note:noted")))}
    assert list(session.histories) == ["default"]


@pytest.mark.parametrize("farewell", ["", "  \n"])
def test_d5_an_empty_farewell_is_told_to_the_model(farewell: str) -> None:
    """Rules A4, D2, D5: the customer reads it."""
    app, _, model, _ = desk(call("end_session", farewell=farewell), "bye", may_end=True)
    turn = app.invoke("hi", session="s")
    assert (turn.reply, turn.status) == ("bye", "idle")
    assert model.requests[1].messages[-1].text == "farewell: say something, the customer reads it."


def test_d5_a_farewell_is_validated_as_any_argument() -> None:
    app, _, model, _ = desk(call("end_session", goodbye="x"), "bye", may_end=True)
    assert app.invoke("hi", session="s").status == "idle"
    assert "farewell: missing" in model.requests[1].messages[-1].text


# --------------------------------------------------------------------------------------------------------- D6, failures


@pytest.mark.parametrize(("durability", "notes"), [("call", 1), ("step", 0)])
def test_d6_a_handler_that_raises_fails_the_step(durability: str, notes: int) -> None:
    """Rules D6, F2, G4: what the call before it left in the journal goes with the step."""
    app, node, _, _ = desk("hello", (call("told", text="x"), call("fail"), call("note")), "bye", durability=durability)
    app.invoke("hi", session="s")
    before = app.load("s")
    with pytest.raises(StepFailed, match=r"^Desk\.fail \(call s2\.2\) raised ValueError: boom$") as caught:
        app.invoke("more", session="s")
    error = caught.value
    assert (error.node, error.tool, error.call) == ("Desk", "fail", "s2.2")
    assert isinstance(error.error, ValueError)
    assert error.__cause__ is error.error
    assert node.done == ["told", "fail", "clean:x"], "later calls are not run, cleanups are"
    session = app.load("s")
    assert session.cells == {}
    assert spoken(session.histories["default"]) == ["user: hi", "assistant: hello"]
    assert [(e.node, e.error, e.text) for e in session.errors] == [("Desk", "StepFailed", str(error))]
    assert session == before
    assert journals(app) == {}
    assert session.revision == before.revision + notes + 1, "the journal of what ended, the log, and nothing else"
    assert app.unfinished(session) == ()
    assert app.invoke("again", session="s").reply == "bye"
    assert node.done == ["told", "fail", "clean:x"], "new input goes on from nothing"


def test_d6_a_response_that_could_not_be_built_names_its_call() -> None:
    """Rules A3, D6: an error that knows no node is given one."""
    app, _, _, _ = desk(calls(("a", "fail"), arguments='{"how": "target"}'))
    with pytest.raises(StepFailed, match=r"Desk\.fail \(call a\) raised InvalidResponse: go: Left is not") as caught:
        app.invoke("hi", session="s")
    assert (caught.value.tool, caught.value.call) == ("fail", "a")
    assert isinstance(caught.value.__cause__, InvalidResponse)


@pytest.mark.parametrize(
    ("how", "kind", "told"),
    [
        ("state", StateTypeError, r"Desk wrote the state of Desk: \$ must be Note, and is str"),
        ("nothing", OwnershipError, r'Desk\.fail returned None: .* Did you forget "return"\?'),
    ],
)
def test_d6_an_error_of_the_node_itself_names_its_call_in_a_note(how: str, kind: type[Any], told: str) -> None:
    """Rules B6, D6; FIELD T6."""
    app, _, _, _ = desk(calls(("a", "fail"), arguments=f'{{"how": "{how}"}}'))
    with pytest.raises(kind, match=told) as caught:
        app.invoke("hi", session="s")
    assert caught.value.node == "Desk"
    assert caught.value.__notes__ == ["in tool fail, call a"]
    assert app.load("s").cells == {}


def test_c2_a_refused_responses_cleanup_runs() -> None:
    """Table C: exactly once, whatever became of the response."""
    app, node, _, _ = desk(calls(("a", "fail"), arguments='{"how": "cleanup"}'))
    with pytest.raises(
        Exception, match=r"Desk\.fail returned DirectTo\[Other\], but its return annotation declares Stay"
    ):
        app.invoke("hi", session="s")
    assert node.done == ["fail", "clean"]


def test_d6_a_later_call_reads_what_an_earlier_one_saved() -> None:
    """Rules D1, F1: a node sees its own staged writes at once."""
    app, _, _, _ = desk((call("note", text="a"), call("note", text="b"), call("say")))
    app.invoke("hi", session="s")
    assert app.load("s").cells["Desk"] == Note("note:a note:b say ")


# ---------------------------------------------------------------------------------------- table C, on what a batch adds


def test_c2_a_builders_writes_come_last() -> None:
    """Rule C2: the node's own staged writes, its writes to other nodes, then the builder's."""
    ledger = Ledger()
    app = Graph("g", entry=Writer).stages(Writer, Other).compile(store=ledger, model=ScriptedModel(call("hand")))
    turn = app.invoke("hi", session="s")
    assert turn.reply == "other: the builder's: look"
    noted, published = ledger.deltas[:2]
    assert (noted.cells, noted.messages) == ({}, {}), "the journal of the finished call, which publishes nothing"
    assert noted.notes
    assert published.cells == {"Writer": Note("own"), "Other": Note("the builder's")}
    messages = ledger.sessions[1].histories["default"]
    check_valid(messages)
    assert spoken(messages)[2:] == ["tool#s1.1: Done.", "user: appended", "user*: look"], "results come first: D1"


class Writer(Conversation[Note]):
    @tool
    def hand(self, ctx: StageContext[Note]) -> Go[Other]:
        """Hand over."""
        ctx.write(Other, Note("written"))
        ctx.save(Note("own"))
        ctx.append(Other, user("appended"))
        assert ctx.read(Other) == Note("written")
        return go(Other).with_state(Note("the builder's")).with_message("look")


def test_c2_the_target_may_be_the_node_itself() -> None:
    """Rules A5, C2: then the builder's state comes after what it saved."""
    app = Graph("g", entry=Selfish).compile(model=ScriptedModel(call("sleep"), "I am Selfish"))
    turn = app.invoke("hi", session="s")
    assert (turn.reply, turn.cursor) == ("good night", "Selfish")
    session = app.load("s")
    assert session.cells == {"Selfish": Note("the builder's")}
    assert history(app) == [
        "user: hi",
        "assistant:  +sleep#s1.1",
        "tool#s1.1: Done.",
        "user*: wake up",
        "assistant: good night",
    ]
    assert not session.head.owed, "it has not run"


class Selfish(Conversation[Note]):
    @tool
    def sleep(self, ctx: StageContext[Note]) -> DirectTo[Selfish]:
        """Sleep."""
        ctx.save(Note("own"))
        return direct_to(Selfish, "good night").with_state(Note("the builder's")).with_message("wake up")


class Forward(Conversation[None]):
    @tool
    def forward(self, ctx: StageContext[None], text: str) -> Go[Other]:
        """Forward the customer's message."""
        return go(Other).with_messages([user("photo")]).with_message(user(text))


@pytest.mark.parametrize(("text", "times"), [("photo", 1), ("another", 2)])
def test_c2_a_message_that_is_already_the_last_is_not_appended(text: str, times: int) -> None:
    """Table C: "already the last there: nothing is appended"; it is the incoming message all the same."""
    app = Graph("g", entry=Forward).stages(Other).compile(model=ScriptedModel(call("forward", text=text)))
    assert app.invoke("hi", session="s").reply == f"other: -: {text}"
    told = [m.text for m in app.load("s").histories["default"] if m.role == "user"]
    assert told == ["hi", "photo", "another"][: times + 1]


def test_c3_messages_for_the_machine_are_internal_in_the_session() -> None:
    app, _, _, _ = desk((call("told", text="x"), call("briefed")))
    app.invoke("hi", session="s")
    internal = [m.text for m in app.load("s").histories["default"] if m.internal]
    assert internal == ["see x", "look"]
    assert [m.text for m in app.load("s").histories["default"] if m.role == "user" and not m.internal] == ["hi"]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ([user("hi"), assistant("", (ToolCall("a", "note"),)), user("more")], "unanswered"),
        ([user("hi"), assistant("", (ToolCall("a", "note"),))], "unanswered at the end"),
        ([user("hi"), tool_result("a", "x")], "answers nothing"),
        ([assistant("", (ToolCall("a", "note"), ToolCall("a", "note")))], "an id that is not its own"),
        (
            [assistant("", (ToolCall("a", "x"), ToolCall("b", "x"))), tool_result("b", ""), tool_result("a", "")],
            "out of order",
        ),
    ],
)
def test_d1_the_check_of_histories_can_fail(broken: list[Message], why: str) -> None:
    """Rule D1: what `check_valid` holds everywhere here."""
    with pytest.raises(AssertionError, match=why):
        check_valid(broken)
