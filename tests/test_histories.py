"""What stands in a history: replies, spaces, and always what a provider accepts.  Rules D1, F4 and G9."""

from __future__ import annotations

from typing import Any

import pytest
from desk import Ledger, Note, check_valid, history, spoken
from hypothesis import given, settings, strategies as st

from ezgraph import (
    Conversation,
    Direct,
    DirectTo,
    Finish,
    Go,
    Graph,
    GraphNode,
    Message,
    StageContext,
    Stay,
    StepFailed,
    TaskResult,
    ToolCall,
    assistant,
    direct,
    direct_to,
    finish,
    go,
    instruction,
    stay,
    task_result,
    tool,
    tool_result,
    user,
)
from ezgraph.models import ModelReply, ScriptedModel, call
from ezgraph.runtime.compiled import CompiledGraph


def test_g2_a_history_that_ends_with_a_result_is_not_seeded() -> None:
    """Rule G2: it has something to answer, and an instruction of ours would only be in the way."""
    model = ScriptedModel(call("move"), "spoken")
    app = Graph("g", entry=Chatty).compile(model=model)
    app.invoke("hi", session="s")
    assert spoken(model.requests[1].messages) == ["user: hi", "assistant:  +move#s1.1", "tool#s1.1: Done."]


class Forges(Conversation[None]):
    """Puts messages into histories that only the engine may write."""

    def __init__(self, message: Message) -> None:
        self.message = message

    def on_enter(self, ctx: StageContext[None], message: Message | None) -> Message | None:
        return self.message if message == user("enter") else None

    @tool
    def extra(self, ctx: StageContext[None]) -> Stay:
        """Give more."""
        return stay("x").with_messages([user("fine"), self.message])

    @tool
    def forward(self, ctx: StageContext[None]) -> DirectTo[Forges]:
        """Forward."""
        return direct_to(Forges, "there").with_message(self.message)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (assistant("", (ToolCall("z", "extra"),)), "an assistant message with calls"),
        (tool_result("z", "forged"), "a tool message"),
    ],
    ids=["call", "result"],
)
@pytest.mark.parametrize(("said", "name"), [("enter", "on_enter"), ("x", "with_messages"), ("y", "with_message")])
def test_d1_only_the_engine_writes_calls_and_results(message: Message, what: str, said: str, name: str) -> None:
    """Rule D1: a history is always valid for a provider, whatever a handler gives."""
    model = ScriptedModel(call("forward" if name == "with_message" else "extra"))
    app = Graph("g", entry=Forges).stages(Forges(message)).compile(model=model)
    told = rf"raised InvalidResponse: {name}: {what} was given\. The engine writes calls and results; pass user\("
    with pytest.raises(StepFailed, match=told) as caught:
        app.invoke(said, session="s")
    assert caught.value.node == "Forges"
    assert caught.value.call == (None if name == "on_enter" else "s1.1")
    assert app.load("s").histories == {}


def test_c2_what_the_program_said_may_be_forwarded() -> None:
    """Table C: an answer without calls is a message as any other."""
    app = Graph("g", entry=Forges).stages(Forges(assistant("as I said"))).compile(model=ScriptedModel(call("forward")))
    app.invoke("hi", session="s")
    assert history(app)[-2:] == ["assistant: as I said", "assistant: there"]


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
    assert history(app, "back") == ["user*: Begin.", "assistant: please wait"]
    app.invoke("well?", session="s")
    assert spoken(model.requests[-1].messages) == ["user*: Begin.", "assistant: please wait", "user: well?"]


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
