"""The scripted model: plays its steps in order, and is loud when the script does not fit the run."""

from __future__ import annotations

import json

import pytest
from puppets import C, Play, app
from transcripts import Asked

from ezgraph import EzGraphError, ScriptError, StepFailed, ToolCall, Usage, direct_to, go, stay
from ezgraph.models import Call, ModelReply, ModelRequest, ScriptedModel, call


def talking() -> Play:
    """A hands over to C, and C's tool stays."""
    return Play(A=lambda ctx: go(C), C1=lambda ctx: stay("once more"))


def test_a_script_is_played_in_order_and_its_requests_are_kept() -> None:
    whole = ModelReply("a whole reply", usage=Usage(3, 4, 1))
    with ScriptedModel(call("do", k=1), (call("do", k=1), call("do", k=1)), whole) as model:
        turn = app(talking(), model=Asked(model)).invoke("hello", session="s")
    assert turn.reply == "a whole reply"
    assert turn.usage == Usage(3, 4, 3)
    assert [request.node for request in model.requests] == ["C", "C", "C"]
    assert [len(request.messages) for request in model.requests] == [1, 3, 6]
    ids = [c.id for m in model.requests[-1].messages for c in m.calls]
    assert ids == ["s1.1", "s2.1", "s2.2"]


def test_a_call_carries_its_arguments_as_json() -> None:
    assert call("report", tracking="AB1", value=3.5, tags=["x"], none=None) == Call(
        "report", json.dumps({"tracking": "AB1", "value": 3.5, "tags": ["x"], "none": None})
    )
    assert call("name", name="a tool may have an argument called name").name == "name"
    assert call("plain").arguments == "{}"


def test_a_function_of_the_request_is_a_step() -> None:
    def echo(request: ModelRequest) -> ModelReply:
        return ModelReply(f"{request.session}: {request.messages[-1].text}")

    with ScriptedModel(echo) as model:
        assert app(talking(), model=model).invoke("hello", session="s-1").reply == "s-1: hello"


def test_an_error_in_the_script_fails_the_step_and_the_input_may_be_sent_again() -> None:
    play = Play(A=lambda ctx: direct_to(C, "ready"))
    with ScriptedModel(ConnectionError("the provider is down"), "back again") as model:
        graph = app(play, model=model)
        graph.invoke("hello", session="s")
        with pytest.raises(StepFailed, match="C raised ConnectionError: the provider is down"):
            graph.invoke("hello?", session="s")
        assert graph.invoke("hello?", session="s").reply == "back again"


def test_a_script_that_is_used_up_says_who_asked() -> None:
    model = ScriptedModel(call("do", k=1))
    graph = app(talking(), model=model)
    with pytest.raises(StepFailed, match="asked the scripted model for answer 2, and its script has 1") as caught:
        graph.invoke("hello", session="s")
    error = caught.value.error
    assert isinstance(error, ScriptError)
    assert (error.node, error.left) == ("C", 0)


def test_a_script_that_is_left_over_says_what_was_not_played() -> None:
    with (
        pytest.raises(ScriptError, match=r"2 of 3 steps left over, the next being 'second'") as caught,
        ScriptedModel("first", "second", "third") as model,
    ):
        app(talking(), model=model).invoke("hello", session="s")
    assert (caught.value.node, caught.value.left) == (None, 2)
    assert isinstance(caught.value, EzGraphError)
    with pytest.raises(ScriptError, match="left over"):
        model.close()


def test_an_error_inside_the_block_is_not_hidden_by_what_is_left_over() -> None:
    with pytest.raises(ZeroDivisionError), ScriptedModel("never played"):
        raise ZeroDivisionError


def test_a_script_that_fits_closes_quietly() -> None:
    with ScriptedModel() as model:
        assert model.requests == []
    with ScriptedModel("only") as model:
        app(talking(), model=model).invoke("hello", session="s")
    model.close()


@pytest.mark.parametrize(
    "step", [None, 7, [call("do", k=1)], ("do",), (), {"name": "do"}, ToolCall("c", "do"), OSError]
)
def test_a_step_that_is_none_is_refused_when_the_script_is_made(step: object) -> None:
    with pytest.raises(ScriptError, match=r"step 2 of the script is .*call\("):
        ScriptedModel("first", step)  # type: ignore[arg-type]


def test_a_function_that_gives_no_reply_is_named() -> None:
    model = ScriptedModel(lambda request: "text")  # type: ignore[arg-type,return-value]
    with pytest.raises(StepFailed, match="step 1 of the script is a function that gave 'text'"):
        app(talking(), model=model).invoke("hello", session="s")
