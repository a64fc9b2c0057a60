"""The responses as values, their builders, and what accepted output comes to.  Sections A and C."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import pytest
from attrs import evolve, fields, frozen
from attrs.exceptions import FrozenInstanceError
from desk import Joined, Ledger, Left, Note, Other, Right, spoken
from immutables import Map

import ezgraph
from ezgraph import (
    END,
    BranchFailed,
    Context,
    Conversation,
    DefinitionError,
    Direct,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    InvalidResponse,
    Message,
    OutputError,
    Response,
    StageContext,
    StepFailed,
    TaskResult,
    ToolCall,
    Usage,
    Worker,
    assistant,
    direct,
    direct_to,
    fanout,
    finish,
    go,
    instruction,
    scatter,
    stay,
    task_result,
    tool,
    user,
)
from ezgraph.algebra.acceptance import yielded
from ezgraph.models import ModelReply, ScriptedModel, call
from ezgraph.responses import NO_EFFECTS, RESPONSES, UNSET, Builders, Effects, Stay
from ezgraph.runtime.compiled import CompiledGraph

MAKERS: dict[type, Callable[[], Any]] = {
    Go: lambda: go(Other),
    DirectTo: lambda: direct_to(Other, "there"),
    Fanout: lambda: fanout(Left, Right),
    Stay: lambda: stay("no"),
    Direct: lambda: direct("said"),
    Finish: lambda: finish("bye"),
    TaskResult: lambda: task_result(7),
}
every = pytest.mark.parametrize("kind", RESPONSES)


SYSTEM: Any = "system"


def _clean() -> None:
    return None


BUILDERS: dict[str, Callable[[Any], Any]] = {
    "with_usage": lambda response: response.with_usage(Usage(1)),
    "with_tool_feedback": lambda response: response.with_tool_feedback("seen"),
    "with_messages": lambda response: response.with_messages([user("look")]),
    "with_cleanup": lambda response: response.with_cleanup(_clean),
    "with_state": lambda response: response.with_state(Note("new")),
    "with_message": lambda response: response.with_message("look"),
}
TARGETED = {"with_state", "with_message"}


# ------------------------------------------------------------------------------------------------------- A1, the values


def test_a2_every_response_has_a_case_here() -> None:
    assert set(MAKERS) == set(RESPONSES)


@every
def test_a1_responses_are_frozen_and_equal_by_value(kind: type) -> None:
    one, other = MAKERS[kind](), MAKERS[kind]()
    assert type(one) is kind
    assert one == other
    assert hash(one) == hash(other)
    for name in [a.name for a in fields(kind)]:
        with pytest.raises(FrozenInstanceError):
            setattr(one, name, None)
    assert getattr(kind, "__final__", False), f"{kind.__name__} is final"


@every
def test_a1_different_kinds_are_different_values(kind: type) -> None:
    """Rule A1: a type error waiting to happen is `direct("x") == finish("x")`."""
    same = [direct("x"), finish("x"), stay("x"), task_result("x"), direct_to(Other, "x")]
    assert all(one != other for n, one in enumerate(same) for other in same[n + 1 :])
    assert MAKERS[kind]() not in [make() for other, make in MAKERS.items() if other is not kind]


@every
def test_a1_a_builder_returns_a_new_value(kind: type) -> None:
    for name, build in BUILDERS.items():
        if name in TARGETED and kind not in {Go, DirectTo}:
            continue
        response: Any = MAKERS[kind]()
        built = build(response)
        cleanups = built.effects.cleanups, response.effects.cleanups
        assert built is not response
        assert type(built) is kind
        assert response == MAKERS[kind](), f"{name} changed what it was called on"
        if name == "with_cleanup":
            assert cleanups == ((_clean,), ())
            assert built == MAKERS[kind](), "a cleanup is outside equality"
        else:
            assert built != response


@every
def test_c1_only_go_and_direct_to_write_into_their_target(kind: type) -> None:
    """Rule C1: the attributes do not exist."""
    for name in TARGETED:
        assert hasattr(MAKERS[kind](), name) is (kind in {Go, DirectTo})
    assert {name for name in vars(Builders) if name.startswith("with_")} == set(BUILDERS) - TARGETED


def test_c1_builders_add_up() -> None:
    """Table C: usage is summed, messages follow each other, feedback and cleanup are the last one given."""
    response = stay("no").with_usage(Usage(1, 2, 3)).with_usage(Usage(10, 20, 30))
    assert response.effects.usage == Usage(11, 22, 33)
    more = response.with_messages([user("a")]).with_messages((user("b"), user("c")))
    assert [m.text for m in more.effects.messages] == ["a", "b", "c"]
    assert more.effects.usage == Usage(11, 22, 33)
    assert stay("no").with_tool_feedback("one").with_tool_feedback("two").effects.feedback == "two"


def test_d3_none_is_a_state() -> None:
    """Rule D3: what was not given is a sentinel."""
    target: Any = Joined
    assert go(target).state is UNSET
    assert go(target).with_state(None).state is None
    assert go(target) != go(target).with_state(None)
    assert repr(UNSET) == "UNSET"


# ---------------------------------------------------------------------------------------------- A3, A4: what is refused


class NotANode:
    pass


@pytest.mark.parametrize(
    "target", [Left, NotANode, "Other", None, 7, Other()], ids=lambda target: type(target).__name__
)
@pytest.mark.parametrize("build", ["go", "direct_to"])
def test_a3_go_takes_one_stage(build: str, target: Any) -> None:
    shown = target.__name__ if isinstance(target, type) else repr(target)
    call_it = (lambda: go(target)) if build == "go" else (lambda: direct_to(target, "there"))
    written = "go(Stage)" if build == "go" else "direct_to(Stage, text)"
    told = f"{build}: {shown} is not a stage. {written} takes one Conversation or GraphNode class"
    with pytest.raises(InvalidResponse, match=re.escape(told)) as caught:
        call_it()
    assert (caught.value.call, caught.value.node) == (build, "")
    assert ("a worker is reached by fanout(A, B) or an edge" in str(caught.value)) is (target is Left)


MEND = "Write fanout(A, B, ...) with two or more different Worker classes."


@pytest.mark.parametrize(
    ("workers", "told"),
    [
        ((), "fanout: 0 given. " + MEND),
        ((Left,), "fanout: 1 given. " + MEND),
        ((Left, Right, Left), "fanout: a worker is named twice in Left, Right, Left. " + MEND),
        ((Left, Other), "fanout: Other is not a worker. " + MEND),
        ((Left, "Right"), "fanout: 'Right' is not a worker. " + MEND),
        ((Left, Right()), "is not a worker. " + MEND),
    ],
)
def test_a3_fanout_takes_two_or_more_different_workers(workers: tuple[Any, ...], told: str) -> None:
    with pytest.raises(InvalidResponse, match=re.escape(told)) as caught:
        fanout(*workers)
    assert caught.value.call == "fanout"


@pytest.mark.parametrize("text", ["", " \n\t", None, 7], ids=repr)
@pytest.mark.parametrize("kind", [Direct, DirectTo, Finish])
def test_a4_a_text_for_the_customer_is_not_empty(kind: type, text: Any) -> None:
    builders: dict[type, Any] = {Direct: direct, Finish: finish, DirectTo: lambda said: direct_to(Other, said)}
    build = builders[kind]
    told = f"{kind.__name__}: the text is {text!r}. Say something: the customer reads it. Rule A4."
    with pytest.raises(InvalidResponse, match=re.escape(told)) as caught:
        build(text)
    assert caught.value.call == kind.__name__


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (
            lambda: Message(SYSTEM, "x"),
            "Message: 'system' is not a role. Write user(), assistant() or tool_result().",
        ),
        (
            lambda: Message("user", "x", (ezgraph.ToolCall("a", "b"),)),
            "a user message has no calls. Write assistant(text, calls).",
        ),
        (lambda: Message("user", "x", call="a"), "`call` belongs to a tool message. Write tool_result(call, text)."),
        (lambda: Message("tool", "x"), "`call` belongs to a tool message. Write tool_result(call, text)."),
    ],
)
def test_d1_a_message_fits_its_role(build: Callable[[], Message], told: str) -> None:
    """Rule D1: a history that is valid for a provider is made of messages that are."""
    with pytest.raises(InvalidResponse, match=re.escape(told)):
        build()


# --------------------------------------------------------------------------------------- A5, A7: where a session stands


class Talk(Conversation[None]):
    """Talks, or does what the test wants."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    @tool
    def act(self, ctx: StageContext[None]) -> Go[Breaks] | DirectTo[Breaks | Talk] | Stay | TaskResult[str]:
        """Act."""
        answer: Stay = self.answer
        return answer


class Breaks(GraphNode[Note]):
    """Breaks on the word `break`."""

    def run(self, ctx: StageContext[Note]) -> Direct:
        if ctx.state == Note("break"):
            raise ValueError("broken")
        said = ctx.incoming.text if ctx.incoming is not None else "-"
        return direct(f"whole: {said}")


def talk(answer: Any, *script: Any, store: Any = None) -> CompiledGraph:
    model = ScriptedModel(*script)
    return Graph("g", entry=Talk).stages(Talk(answer), Breaks).compile(model=model, store=store)


def test_a5_destination_and_cursor_are_two_things() -> None:
    """Rule A5: after A → go(B) succeeded and B failed, A's writes are kept and the cursor is B."""
    app = talk(go(Breaks).with_state(Note("break")), call("act"))
    with pytest.raises(StepFailed, match="Breaks raised ValueError: broken"):
        app.invoke("hi", session="s")
    session = app.load("s")
    assert session.head.cursor == "Breaks"
    assert session.cells == {"Breaks": Note("break")}
    assert spoken(session.histories["default"]) == ["user: hi", "assistant:  +act#s1.1", "tool#s1.1: Done."]


def test_a5_the_target_of_direct_to_owns_the_next_turn_and_has_not_run() -> None:
    app = talk(direct_to(Breaks, "there").with_state(Note("new")), call("act"))
    turn = app.invoke("hi", session="s")
    assert (turn.reply, turn.cursor, turn.status) == ("there", "Breaks", "idle")
    assert app.load("s").cells == {"Breaks": Note("new")}
    assert app.invoke("more", session="s").reply == "whole: more"


def test_a5_direct_to_may_name_the_node_itself() -> None:
    app = talk(direct_to(Talk, "still here"), call("act"), "again")
    assert app.invoke("hi", session="s").reply == "still here"
    assert app.invoke("more", session="s").cursor == "Talk"


def test_a7_stay_does_not_wait_for_the_customer() -> None:
    """Rule A7: the loop goes on in the same turn; waiting is a reply."""
    app = talk(stay("not yet"), call("act"), call("act"), "done")
    turn = app.invoke("hi", session="s")
    assert (turn.reply, turn.usage.requests) == ("done", 3)


# ---------------------------------------------------------------------------------------- A6, in conversation placement


@frozen
class Estimate:
    amount: Decimal
    parts: tuple[int, ...] = ()


class Gives(Conversation[None]):
    """Gives a task result, of the type that the test declares."""

    def __init__(self, value: object) -> None:
        self.value = value

    @tool
    def act(self, ctx: StageContext[None]) -> TaskResult[Any]:
        """Act."""
        return task_result(self.value)


def giving(value: object, declared: Any) -> CompiledGraph:
    Gives.act.__annotations__["return"] = TaskResult[declared]
    return Graph("g", entry=Gives).stages(Gives(value)).compile(model=ScriptedModel(call("act")))


@pytest.mark.parametrize(
    ("value", "declared", "reply"),
    [
        ("seven", str, "seven"),
        (7, int, "7"),
        (True, bool, "true"),
        (None, int | None, "null"),
        (("a", 1), tuple[str, int], '["a",1]'),
        (Estimate(Decimal("1.50"), (1, 2)), Estimate, '{"amount":"1.50","parts":[1,2]}'),
        (Note("x"), Note, '{"text":"x"}'),
        (7, int | str, "7"),
        (Map(b=1, a=Note("x")), Map[str, int | Note], '{"a":{"text":"x"},"b":1}'),
        (Map({Decimal(2): "b", Decimal(1): "a"}), Map[Decimal, str], '[["1","a"],["2","b"]]'),
    ],
    ids=lambda value: "a map" if isinstance(value, Map) else repr(value),  # whose order is another in each process
)
def test_a6_a_stage_replies_with_its_task_result(value: object, declared: Any, reply: str) -> None:
    """Rule A6: as it is if a text, else as its JSON."""
    app = giving(value, declared)
    assert app.invoke("hi", session="s").reply == reply
    assert spoken(app.load("s").histories["default"])[-2:] == ["tool#s1.1: accepted", f"assistant: {reply}"]


@pytest.mark.parametrize("declared", [Any, object, dict[str, str], list[int] | str], ids=str)
def test_f2_a_task_result_that_no_journal_can_keep_does_not_compile(declared: Any) -> None:
    with pytest.raises(DefinitionError, match=r"Gives\.act: (TaskResult|may give TaskResult).*\[output-type\]"):
        giving(None, declared)


def test_f2_a_task_result_of_another_type_than_declared_is_an_error() -> None:
    with pytest.raises(OutputError, match=r"Gives\.act declares a task_result of int at \$, and gave str"):
        giving("seven", int).invoke("hi", session="s")


class Rescued(GraphNode[None]):
    """Breaks, and comes to a task result instead."""

    def __init__(self, value: object) -> None:
        self.value = value

    def run(self, ctx: StageContext[None]) -> Direct:
        raise ValueError("broken")

    def on_error(self, ctx: StageContext[None], error: Exception) -> TaskResult[Any]:
        return task_result(self.value)


@pytest.mark.parametrize(("value", "why"), [(object(), "unsupported"), ({1j: 1}, "only dicts")], ids=["object", "keys"])
def test_a6_a_task_result_without_json_is_an_error(value: object, why: str) -> None:
    app = Graph("g", entry=Rescued).stages(Rescued(value)).compile()
    told = r"Rescued gave task_result\(.*\), which has no JSON to reply with: (?i:.*" + why
    with pytest.raises(OutputError, match=told + r".*)\. Let its on_response return a text for it\.") as caught:
        app.invoke("hi", session="s")
    assert caught.value.node == "Rescued"
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("value", ["", "  "])
def test_a6_an_empty_reply_is_an_error(value: str) -> None:
    """Rules A4, A6, G9: no provider takes a history with an empty answer."""
    app = talk(task_result(value), call("act"))
    with pytest.raises(OutputError, match=r"Talk came to an empty reply\. Say something: the customer reads it\."):
        app.invoke("hi", session="s")


Hooked: TypeAlias = Go[Breaks] | DirectTo[Breaks] | Fanout[Left | Right] | Direct | Finish | str | None


class Hooking(Conversation[Note]):
    """Its hook returns what the test wants, and records what it saw."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.seen = answer, list[object]()

    @tool
    def say(self, ctx: StageContext[Note]) -> Direct:
        """Say."""
        return direct("said")

    @tool
    def give(self, ctx: StageContext[Note]) -> TaskResult[int]:
        """Give."""
        return task_result(7)

    @tool
    def leave(self, ctx: StageContext[Note]) -> Finish | DirectTo[Breaks]:
        """Leave."""
        return finish("left")

    async def on_response(self, ctx: StageContext[Note], output: object) -> Hooked:
        self.seen.append(output)
        answer: Hooked = self.answer
        return answer


OUTPUTS: dict[str, tuple[Any, object, str]] = {
    "text": ("spoken", "spoken", "spoken"),
    "direct": (call("say"), "said", "said"),
    "task_result": (call("give"), 7, "7"),
}
"""The model's step, what the hook sees, and the reply where it returns nothing."""

HOOKED: dict[str, tuple[Any, str | None, str]] = {
    "text": ("instead", "instead", "Hooking"),
    "direct": (direct("instead").with_usage(Usage(5)), "instead", "Hooking"),
    "go": (go(Breaks).with_message("look"), "whole: look", "Breaks"),
    "direct_to": (direct_to(Breaks, "over there"), "over there", "Breaks"),
    "fanout": (fanout(Left, Right), "joined: left, right", END),
    "finish": (finish("the end"), "the end", END),
}
"""What the hook returns, the reply, and the cursor."""


def hooking(answer: Any, *script: Any) -> tuple[CompiledGraph, Hooking]:
    node = Hooking(answer)
    graph = Graph("g", entry=Hooking).stages(node, Breaks, Joined).workers(Left, Right).join((Left, Right), to=Joined)
    return graph.compile(model=ScriptedModel(*script)), node


@pytest.mark.parametrize("output", OUTPUTS)
def test_a6_the_hook_sees_accepted_output_once_and_lets_it_stand(output: str) -> None:
    step, seen, reply = OUTPUTS[output]
    app, node = hooking(None, step)
    assert app.invoke("hi", session="s").reply == reply
    assert node.seen == [seen]


@pytest.mark.parametrize("hooked", HOOKED)
@pytest.mark.parametrize("output", OUTPUTS)
def test_a6_the_hook_may_replace_the_output_or_route(output: str, hooked: str) -> None:
    step, seen, _ = OUTPUTS[output]
    answer, reply, cursor = HOOKED[hooked]
    app, node = hooking(answer, step)
    turn = app.invoke("hi", session="s")
    assert (turn.reply, turn.cursor, node.seen) == (reply, cursor, [seen])
    assert turn.usage.input_tokens == (5 if hooked == "direct" else 0)
    said = [m.text for m in app.load("s").histories["default"] if m.role == "assistant" and not m.calls]
    assert said == [reply], "what the hook replaced was never said"


def test_a6_a_route_is_no_output() -> None:
    """Rule A6: the hook is for text, `direct` and `task_result`; a route leaves without it."""
    app, node = hooking("instead", call("leave"))
    assert app.invoke("hi", session="s").reply == "left"
    assert node.seen == []


def test_a6_a_hook_that_empties_the_reply_is_refused() -> None:
    app, _ = hooking("", "spoken")
    with pytest.raises(OutputError, match="Hooking came to an empty reply"):
        app.invoke("hi", session="s")


# -------------------------------------------------------------------------------------------- A6, in internal placement


class TextWorker(Worker[None, str]):
    id = "Probe"

    def __init__(self, seen: list[object]) -> None:
        self.seen = seen

    @tool
    def say(self, ctx: Context[None]) -> Direct:
        """Say."""
        return direct("said")

    @tool
    def give(self, ctx: Context[None]) -> TaskResult[str]:
        """Give."""
        return task_result("given")


class NumberWorker(Worker[None, int]):
    id = "Probe"

    def __init__(self, seen: list[object]) -> None:
        self.seen = seen

    @tool
    def give(self, ctx: Context[None], wrong: int = 0) -> TaskResult[int]:
        """Give."""
        value: Any = "seven" if wrong else 7
        given: TaskResult[int] = task_result(value)
        return given


class HookedNumber(NumberWorker):
    id = "Probe"
    answer: Any = None

    @tool
    def say(self, ctx: Context[None]) -> Direct:
        """Say."""
        return direct("said")

    def on_response(self, ctx: Context[None], output: str | int) -> TaskResult[int] | Direct | str | None:
        self.seen.append(output)
        answer: TaskResult[int] | None = self.answer
        return answer


class HookedText(TextWorker):
    id = "Probe"
    answer: Any = None

    def on_response(self, ctx: Context[None], output: str) -> TaskResult[str] | Direct | str | None:
        self.seen.append(output)
        answer: TaskResult[str] | None = self.answer
        return answer


class Sibling(Worker[None, str]):
    def run(self, ctx: Context[None]) -> TaskResult[str]:
        return task_result("sibling")


def fanout_of(kind: Any) -> Any:
    """An annotation that no checker can read, and compile() can."""
    return Fanout[kind | Sibling]


def working(worker: Any, step: Any) -> CompiledGraph:
    """A graph that fans out to `worker` and a sibling, and replies with the repr of what it yields."""
    kind: Any = type(worker)

    class Start(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Any:
            return fanout(kind, Sibling)

    class End(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Direct:
            return direct(repr(ctx.result(kind)))

    Start.run.__annotations__["return"] = fanout_of(kind)
    graph = Graph("g", entry=Start).stages(End).workers(worker, Sibling).join((kind, Sibling), to=End)
    return graph.compile(model=ScriptedModel(step))


def _hooked(kind: Any, answer: Any) -> Any:
    worker = kind([])
    worker.answer = answer
    return worker


NOT_AN_INT = r"Probe must yield int at \$, and gave str\. Give task_result\(\.\.\.\) of the output type; a text is"


@pytest.mark.parametrize(
    ("kind", "step", "answer", "seen", "output"),
    [
        (TextWorker, "spoken", None, None, "spoken"),
        (TextWorker, call("say"), None, None, "said"),
        (TextWorker, call("give"), None, None, "given"),
        (NumberWorker, call("give"), None, None, 7),
        (NumberWorker, "spoken", None, None, NOT_AN_INT),
        (NumberWorker, call("give", wrong=1), None, None, NOT_AN_INT),
        (HookedText, "spoken", None, "spoken", "spoken"),
        (HookedText, call("give"), "instead", "given", "instead"),
        (HookedText, call("say"), direct("instead"), "said", "instead"),
        (HookedText, "spoken", task_result("instead"), "spoken", "instead"),
        (HookedText, "spoken", task_result(5), "spoken", r"Probe must yield str at \$, and gave int"),
        (HookedNumber, call("give"), None, 7, 7),
        (HookedNumber, call("give"), task_result(8).with_usage(Usage(5)), 7, 8),
        (HookedNumber, "spoken", task_result(8), "spoken", 8),
        (HookedNumber, call("say"), task_result(8), "said", 8),
        (HookedNumber, "spoken", None, "spoken", NOT_AN_INT),
        (HookedNumber, call("say"), None, "said", NOT_AN_INT),
        (HookedNumber, call("give"), "instead", 7, NOT_AN_INT),
        (HookedNumber, call("give"), direct("instead"), 7, NOT_AN_INT),
        (HookedNumber, call("give", wrong=1), task_result(8), None, NOT_AN_INT),
    ],
)
def test_a6_a_worker_yields_its_output_type(kind: Any, step: Any, answer: Any, seen: object, output: object) -> None:
    """Rule A6: text and `direct` are an output only where the type is `str`; a hook sees only what is of it."""
    worker = _hooked(kind, answer)
    app = working(worker, step)
    if isinstance(output, str) and "must yield" in output:
        with pytest.raises(BranchFailed, match=output) as caught:
            app.invoke("hi", session="s")
        (error,) = caught.value.failures
        assert (type(error), error.node) == (OutputError, "Probe")
        assert "Probe" not in app.load("s").cells
    else:
        assert app.invoke("hi", session="s").reply == repr(output)
    assert worker.seen == ([] if seen is None else [seen])


def test_a6_what_has_no_output_type_is_not_checked() -> None:
    """Rule A6: only a worker has one."""
    spec = talk(stay("x")).plan.nodes["Talk"]
    assert yielded(spec, "anything").output == "anything"


# ------------------------------------------------------------------------------------------------------- A2, exhaustive


def describe(response: Response[Any]) -> str:
    """Rule A2: a match over the closed union, which both checkers test for exhaustiveness."""
    match response:
        case Go() | DirectTo() | Fanout() | Finish():
            return "route"
        case Stay():
            return "stay"
        case Direct() | TaskResult():
            return "output"


@every
def test_a2_the_union_is_closed(kind: type) -> None:
    assert describe(MAKERS[kind]()) in {"route", "stay", "output"}
    assert not dataclasses.is_dataclass(kind)
    for name in ("continue_", "Continue", "pause", "Pause", "Reply", "Yielded"):
        assert not hasattr(ezgraph, name), "the engine's own are not exported"


def test_c2_a_message_for_the_target_is_kept_as_it_is() -> None:
    """Rule C3: a text is an instruction; a customer's message stays the customer's."""
    ledger = Ledger()
    app = talk(go(Breaks).with_message(user("forwarded")), call("act"), store=ledger)
    assert app.invoke("hi", session="s").reply == "whole: forwarded"
    assert spoken(ledger.sessions[-1].histories["default"])[-2:] == ["user: forwarded", "assistant: whole: forwarded"]
    app = talk(go(Breaks).with_message("look"), call("act"))
    assert app.invoke("hi", session="s").reply == "whole: look"
    assert instruction("look") in app.load("s").histories["default"]


class Shout(str):
    """A subclass of `str`, as template and data libraries give."""

    __slots__ = ()


@pytest.mark.parametrize(
    "made",
    [
        user(Shout("hi")).text,
        direct(Shout("hi")).text,
        finish(Shout("hi")).text,
        direct_to(Other, Shout("hi")).text,
        stay(Shout("hi")).text,
        stay("x").with_tool_feedback(Shout("hi")).effects.feedback,
        ModelReply(Shout("hi")).text,
    ],
)
def test_l4_a_text_is_a_str_wherever_it_came_from(made: object) -> None:
    assert type(made) is str
    assert made == "hi"


@pytest.mark.parametrize("build", [user, assistant, direct, finish, stay, ModelReply, stay("x").with_tool_feedback])
def test_l4_a_text_that_no_store_could_keep_is_refused_where_it_is_made(build: Any) -> None:
    with pytest.raises(InvalidResponse, match=r"its text holds half a surrogate pair. Clean it"):
        build("\ud800")


ANY_USAGE: Any = Usage
ANY_TOOLCALL: Any = ToolCall
ANY_MESSAGE: Any = Message
ANY_MODELREPLY: Any = ModelReply
ANY_STAY: Any = stay("x")
ANY_USER: Any = user


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: ANY_USAGE(12.0), "Usage: input_tokens=12.0. Pass a whole number, 0 or more."),
        (lambda: ANY_USAGE(-5), "Usage: input_tokens=-5. Pass a whole number"),
        (lambda: ANY_USAGE(requests=True), "Usage: requests=True. Pass a whole number"),
        (lambda: ANY_TOOLCALL(3, "t"), "ToolCall: id=3. Pass a str; arguments are JSON text."),
        (lambda: ANY_TOOLCALL("a", "t", {}), "ToolCall: arguments={}. Pass a str"),
        (lambda: ANY_USER(5), "user: its text is 5. Pass a str."),
        (lambda: ANY_MESSAGE("user", 5), "Message: its text is 5. Pass a str."),
        (lambda: ANY_MESSAGE("user", "x", internal=1), "Message: internal=1. Write instruction(text)"),
        (lambda: ANY_MESSAGE("assistant", "x", [ToolCall("a", "t")]), "Message: its calls are ["),
        (
            lambda: ANY_MODELREPLY(usage={"input_tokens": 3}),
            "its usage is {'input_tokens': 3}. Pass Usage(",
        ),
        (lambda: ANY_MODELREPLY(calls=["t"]), "ModelReply: its calls are ['t']. Pass a tuple of ToolCall."),
        (
            lambda: ANY_MODELREPLY(stop="stop"),
            "ModelReply: stop='stop'. Pass one of (",
        ),
        (lambda: ANY_STAY.with_messages(user("y")), "with_messages: one message was given. Pass a list"),
        (lambda: ANY_STAY.with_cleanup(3), "with_cleanup: 3 cannot be called. Pass a function of no arguments."),
        (lambda: ANY_STAY.with_usage(3), "with_usage: 3 is no usage. Write with_usage(Usage(input_tokens=...))."),
    ],
)
def test_l4_a_value_of_another_type_is_refused_where_it_is_made(build: Any, told: str) -> None:
    """What a store could not load again must not get as far as a commit."""
    with pytest.raises(InvalidResponse, match=re.escape(told)):
        build()


# ------------------------------------------------------------------------------------------------------ what is shown


@pytest.mark.parametrize(
    ("response", "shown"),
    [
        (go(Other), "Go(target=Other)"),
        (go(Other).with_state(Note("x")), "Go(target=Other, state=Note(text='x'))"),
        (fanout(Left, Right), "Fanout(workers=(Left, Right))"),
        (task_result(1).with_usage(Usage(requests=1)), "effects=Effects(usage=Usage("),
        (task_result("x" * 1_000), "TaskResult(value='" + "x" * 99 + ")"),
        (stay("no").with_cleanup(_clean), "Stay(text='no')"),
    ],
)
def test_m2_a_response_is_shown_in_short(response: object, shown: str) -> None:
    """It stands in errors, and may hold a customer's data of any length."""
    assert shown in repr(response)
    assert len(repr(response)) < 250


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({1, 2}, "scatter: a set has no order. Pass a list, such as sorted"),
        (frozenset({1}), "scatter: a frozenset has no order"),
        ({1: 2}.keys(), "scatter: a dict_keys has no order"),
        ("ab", "scatter: one str was given. Pass a list of inputs"),
        ({1: 2}, "scatter: one dict was given"),
        (None, "scatter: None cannot be iterated"),
    ],
)
def test_e6_inputs_have_an_order(inputs: Any, told: str) -> None:
    """Rule E6: results come in input order; a set has another one in each process."""
    with pytest.raises(InvalidResponse, match=re.escape(told)):
        scatter(Left, inputs)


# --------------------------------------------------------------------------- made by a class, by `evolve`, by a copy

SEVEN: Any = 7
LEFT: Any = Left
SOME: Any = {1}
LISTED: Any = [Left]
ONE: Any = user("a")
MISMADE: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    # as its class makes it, and as its builder does
    "scatter over a set": (lambda: Fanout(workers=(Left,), inputs=SOME), lambda: scatter(LEFT, SOME)),
    "scatter over one text": (lambda: Fanout(workers=(Left,), inputs="ab"), lambda: scatter(LEFT, "ab")),
    "scatter over a number": (lambda: Fanout(workers=(Left,), inputs=7), lambda: scatter(LEFT, SEVEN)),
    "a message": (lambda: Go(target=Other, message=SEVEN), lambda: go(Other).with_message(SEVEN)),
    "its message": (
        lambda: DirectTo(target=Other, text="there", message=SEVEN),
        lambda: direct_to(Other, "there").with_message(SEVEN),
    ),
    "correction": (lambda: Stay(text=SEVEN), lambda: stay(SEVEN)),
    "half a correction": (lambda: Stay(text="\ud800"), lambda: stay("\ud800")),
    "usage": (lambda: Effects(usage=SEVEN), lambda: stay("no").with_usage(SEVEN)),
    "feedback": (lambda: Effects(feedback=SEVEN), lambda: stay("no").with_tool_feedback(SEVEN)),
    "messages": (lambda: Effects(messages=SEVEN), lambda: stay("no").with_messages(SEVEN)),
    "one message": (lambda: Effects(messages=ONE), lambda: stay("no").with_messages(ONE)),
    "no message": (lambda: Effects(messages=[SEVEN]), lambda: stay("no").with_messages([SEVEN])),
    "cleanup": (lambda: Effects(cleanups=(SEVEN,)), lambda: stay("no").with_cleanup(SEVEN)),
}


@pytest.mark.parametrize("name", MISMADE)
def test_a3_a_class_refuses_what_its_builder_refuses(name: str) -> None:
    by_class, by_builder = MISMADE[name]
    with pytest.raises(InvalidResponse) as refused:
        by_builder()
    with pytest.raises(InvalidResponse) as caught:
        by_class()
    assert str(caught.value) == str(refused.value)


@every
def test_a3_effects_are_effects(kind: type) -> None:
    with pytest.raises(InvalidResponse, match=r"effects: 7 is no Effects"):
        evolve(MAKERS[kind](), effects=SEVEN)


def test_a3_evolve_checks_as_the_builder_does() -> None:
    scattered = scatter(LEFT, [1, 2])
    with pytest.raises(InvalidResponse, match="a set has no order"):
        evolve(scattered, inputs=SOME)
    with pytest.raises(InvalidResponse, match=r"workers=\[.* is no tuple"):
        evolve(scattered, workers=LISTED)
    with pytest.raises(InvalidResponse, match="is not a stage"):
        evolve(go(Other), target=LEFT)
    assert evolve(scattered, inputs=(one for one in (1, 2))) == scattered
    assert Fanout(workers=(Left,), inputs=iter([1, 2])) == scattered


@every
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a1_a_copy_is_equal_and_made_by_its_class(kind: type, again: Callable[[Any], Any]) -> None:
    plain = MAKERS[kind]()
    spent = plain.with_usage(Usage(1)).with_messages([user("look")]).with_cleanup(_clean)
    assert again(plain) == plain
    assert again(plain).effects is NO_EFFECTS
    assert again(spent) == spent
    assert not hasattr(plain, "__setstate__")


def test_a1_effects_that_are_none_are_none() -> None:
    assert Direct(text="said", effects=Effects()).effects is NO_EFFECTS
    assert Direct(text="said", effects=Effects(cleanups=(_clean,))).effects.cleanups == (_clean,)


class Read(Worker[int, int]):
    def run(self, ctx: Context[int]) -> TaskResult[int]:
        return task_result(ctx.state)


class Ask(Conversation[None]):
    @tool
    def look(self, ctx: Context[None], *, wrong: bool = False) -> Fanout[Read]:
        """Look."""
        inputs: Any = {1, 2} if wrong else (one for one in (1, 2))
        return Fanout(workers=(Read,), inputs=inputs)


class Say(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct(str(sum(ctx.results(Read))))


def test_e6_a_scatter_made_by_its_class_runs() -> None:
    graph = Graph("asks", entry=Ask).stages(Say).workers(Read).join((Read,), to=Say)
    app = graph.compile(model=ScriptedModel(call("look", wrong=True), call("look")))
    with pytest.raises(StepFailed, match="a set has no order"):
        app.invoke("look", session="c-17")
    turn = app.invoke("look", session="c-18")
    assert turn.reply == "3"
