"""Where a response may lead, what a worker publishes, and where the cursor stands.  Rules A3, B2, B3 and B4."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from attrs import frozen
from desk import Joined, Ledger, Left, Note, Other, Right
from hypothesis import given, settings, strategies as st

import ezgraph
from ezgraph import (
    END,
    BranchFailed,
    Context,
    Direct,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    InvalidResponse,
    OwnershipError,
    StageContext,
    StateTypeError,
    Stay,
    StepFailed,
    TaskResult,
    UndeclaredRoute,
    UnknownTarget,
    Usage,
    Worker,
    direct,
    direct_to,
    fanout,
    finish,
    go,
    stay,
    task_result,
    tool,
    user,
)
from ezgraph.models import ScriptedModel, call
from ezgraph.runtime.compiled import CompiledGraph

# -------------------------------------------------------------------------------------------- where a response may lead


class Stranger(GraphNode[None]):
    """A stage that no graph here has."""

    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("stranger")


class StrangeWorker(Worker[None, str]):
    def run(self, ctx: Context[None]) -> TaskResult[str]:
        return task_result("strange")


class Undecided(GraphNode[Note]):
    """Declares one way, and takes another."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def run(self, ctx: StageContext[Note]) -> Go[Other] | Fanout[Left | Right] | Finish:
        ctx.save(Note("staged"))
        answer: Go[Other] | Fanout[Left | Right] | Finish = self.answer
        return answer


def undecided(answer: Any) -> CompiledGraph:
    graph = Graph("g", entry=Undecided).stages(Undecided(answer), Other, Joined).workers(Left, Right)
    return graph.join((Left, Right), to=Joined).compile()


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        (go(Stranger), "Stranger"),
        (direct_to(Stranger, "bye"), "Stranger"),
        (fanout(Left, StrangeWorker), "StrangeWorker"),
    ],
)
def test_a3_a_target_the_graph_does_not_have_is_refused_at_run_time(answer: Any, target: str) -> None:
    app = undecided(answer)
    told = f"Undecided names {target}, which this graph does not have. It has Undecided, Other, Joined, Left, Right."
    with pytest.raises(UnknownTarget, match=re.escape(told)) as caught:
        app.invoke("hi", session="s")
    assert (caught.value.node, caught.value.target) == ("Undecided", target)
    assert caught.value.known == ("Undecided", "Other", "Joined", "Left", "Right")
    assert app.load("s").cells == {}


@pytest.mark.parametrize(
    ("answer", "route"),
    [
        (go(Joined), "Go[Joined]"),
        (direct_to(Other, "bye"), "DirectTo[Other]"),
        (go(Undecided), "Go[Undecided]"),
        (direct("bye"), "Direct"),
        (None, "None"),
    ],
)
def test_b2_a_route_that_the_annotation_does_not_declare_is_refused(answer: Any, route: str) -> None:
    """Rule B2: the annotation is the drawing, so the value must keep to it."""
    app = undecided(answer)
    mend = 'Did you forget "return"? Else add' if answer is None else "Add"
    told = (
        f"Undecided.run returned {route}, but its return annotation declares Go[Other], Fanout[Left | Right], Finish. "
        f"{mend} {route} to the annotation."
    )
    with pytest.raises(UndeclaredRoute, match=re.escape(told)) as caught:
        app.invoke("hi", session="s")
    assert (caught.value.node, caught.value.handler, caught.value.route) == ("Undecided", "run", route)
    assert caught.value.declared == ("Go[Other]", "Fanout[Left | Right]", "Finish")
    assert app.load("s").cells == {}


class Third(Worker[None, str]):
    def run(self, ctx: Context[None]) -> TaskResult[str]:
        return task_result("third")


class Fourth(Third):
    """The other worker of another opening."""


class Second(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(f"second: {ctx.result(Third)}")


class Opens(GraphNode[None]):
    """Declares two openings, each into a stage of its own."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def run(self, ctx: StageContext[None]) -> Fanout[Left | Right] | Fanout[Third | Fourth]:
        answer: Fanout[Left | Right] = self.answer
        return answer


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (fanout(Right, Left), "joined: left, right"),
        (fanout(Third, Fourth), "second: third"),
        (fanout(Left, Third), None),
        (fanout(Left, Right, Fourth), None),
    ],
    ids=repr,
)
def test_e2_each_declared_fanout_is_an_opening_by_itself(answer: Any, reply: str | None) -> None:
    """Rules B2, E2: a mixture of two would reach two stages, and one of them would never be joined."""
    graph = Graph("g", entry=Opens).stages(Opens(answer), Joined, Second).workers(Left, Right, Third, Fourth)
    app = graph.join((Left, Right), to=Joined).join((Third, Fourth), to=Second).compile()
    if reply is not None:
        assert app.invoke("hi", session="s").reply == reply
        return
    named = " | ".join(worker.__name__ for worker in answer.workers)
    told = f"Opens.run returned Fanout[{named}], but its return annotation declares Fanout[Left | Right], Fanout[Third"
    with pytest.raises(UndeclaredRoute, match=re.escape(told)):
        app.invoke("hi", session="s")


@pytest.mark.parametrize("wrong", [7, "a text", None, Note], ids=str)
def test_t6_with_state_of_another_type_is_refused_at_the_node_that_wrote_it(wrong: Any) -> None:
    """FIELD T6; rules B2, F3: what the checker cannot see is seen when the value comes."""
    app = undecided(go(Other).with_state(wrong))
    with pytest.raises(StateTypeError, match=r"^Undecided wrote the state of Other: \$ must be Note") as caught:
        app.invoke("hi", session="s")
    assert (caught.value.node, caught.value.path) == ("Undecided", "$")
    assert app.load("s").cells == {}


@pytest.mark.parametrize("target", [Left, Right])
def test_b4_a_worker_is_no_target_of_go(target: Any) -> None:
    """Rule B4: a message can never resume inside a half-done worker."""
    with pytest.raises(InvalidResponse, match=f"go: {target.__name__} is not a stage. .* reached by fanout") as caught:
        go(target)
    assert caught.value.call == "go"


def test_b2_the_builders_check_holds_where_a_value_is_made_by_hand() -> None:
    """Rule B2: whoever made it."""
    with pytest.raises(InvalidResponse, match="Finish: the text is ''"):
        Finish(text="")


# ------------------------------------------------------------------------------------ what a worker publishes (rule B3)


@frozen
class Deed:
    """What a worker does in one run.

    Attributes:
        saves: What it saves, in order.
        feedback: What its model is told in rounds before it is done; empty for a worker without a model.
        usage: Tokens it reports with its result.
        task: What its `on_enter` gives.
        output: What it yields.
        exits: Whether it saves once more in `on_exit`.
    """

    saves: tuple[str, ...]
    feedback: tuple[str, ...]
    usage: int | None
    task: str | None
    output: str
    exits: bool


class Doing(Worker[Note, str]):
    """Driven by code."""

    id = "Code"

    def __init__(self, deed: Deed) -> None:
        self.deed = deed

    def run(self, ctx: Context[Note]) -> TaskResult[str]:
        for text in self.deed.saves:
            ctx.save(Note(text))
        done = task_result(self.deed.output)
        return done if self.deed.usage is None else done.with_usage(Usage(self.deed.usage))

    def on_exit(self, ctx: Context[Note], output: str) -> None:
        if self.deed.exits:
            ctx.save(Note(output))


class Modelled(Worker[Note, str]):
    """Driven by a model."""

    id = "Model"

    def __init__(self, deed: Deed) -> None:
        self.deed = deed
        self.rounds = len(deed.feedback) + 1
        self.model = ScriptedModel(*[call("step", number=n) for n in range(len(deed.feedback) + 1)])

    def on_enter(self, ctx: Context[Note], message: ezgraph.Message | None) -> str | None:
        assert message is None
        assert len(ctx.history) == 0
        return self.deed.task

    @tool
    def step(self, ctx: Context[Note], number: int) -> Stay | TaskResult[str]:
        """Go one step on."""
        for text in self.deed.saves:
            ctx.save(Note(text))
        if number < len(self.deed.feedback):
            return stay(self.deed.feedback[number]).with_messages([user("look")])
        done = task_result(self.deed.output).with_tool_feedback("done")
        return done if self.deed.usage is None else done.with_usage(Usage(self.deed.usage))

    def on_exit(self, ctx: Context[Note], output: str) -> None:
        if self.deed.exits:
            ctx.save(Note(output))


class Begin(GraphNode[Note]):
    def run(self, ctx: StageContext[Note]) -> Fanout[Doing | Modelled]:
        ctx.save(Note("begun"))
        return fanout(Doing, Modelled)


class Close(GraphNode[Note]):
    def run(self, ctx: StageContext[Note]) -> Direct | Go[Begin]:
        return direct(f"{ctx.result(Doing)}/{ctx.result(Modelled)}")


words = st.text("ab", min_size=1, max_size=3)


deeds = st.builds(
    Deed,
    st.lists(words, max_size=2).map(tuple),
    st.lists(words, max_size=2).map(tuple),
    st.none() | st.integers(0, 9),
    st.none() | words,
    words,
    st.booleans(),
)


@settings(deadline=None, max_examples=60)
@given(deeds, deeds)
def test_b3_a_worker_publishes_its_own_cell_its_output_and_its_usage(code: Deed, model: Deed) -> None:
    ledger = Ledger()
    graph = Graph("g", entry=Begin).stages(Close).workers(Doing(code), Modelled(model))
    app = graph.join((Doing, Modelled), to=Close).compile(store=ledger)
    turn = app.invoke("hi", session="s")
    opening, *branches, closing = ledger.deltas
    assert opening.opened is not None
    assert turn.reply == f"{code.output}/{model.output}"
    told = {"Code": code, "Model": model}
    for delta in branches:
        assert delta.messages == {}
        assert delta.opened is None
        if delta.notes:  # a finished call of the model's loop, for nobody else to read
            assert (delta.head, delta.cells, delta.usage, delta.results, delta.rows) == (None, {}, {}, None, ())
            continue
        if not delta.closed:  # the closing write publishes what both of them did, and moves the cursor
            assert (delta.head, delta.cells, delta.usage, delta.results) == (None, {}, {}, None)
            assert len(delta.rows) == 1
        for row in delta.rows:
            deed = told[row.node]
            assert set(row.cells) <= {row.node}
            assert row.output == deed.output
    session = ledger.sessions[-1]
    last = {n: deed.output if deed.exits else (deed.saves or ("",))[-1] for n, deed in told.items()}
    saved = {n: Note(last[n]) for n, deed in told.items() if deed.exits or deed.saves}
    assert session.cells == {"Begin": Note("begun"), **saved}
    assert list(session.histories) == ["default"], "a worker's messages are private to its run"
    assert [m.text for m in session.histories["default"]] == ["hi", f"{code.output}/{model.output}"]
    asked = Usage(0, 0, len(model.feedback) + 1)
    spent = {} if code.usage is None else {"Code": Usage(code.usage)}
    assert session.usage == {**spent, "Model": Usage(model.usage or 0) + asked}
    assert closing.head is not None
    assert closing.head.cursor == "Close"


# ----------------------------------------------------------------------------------------- the cursor is a stage or END


class Walker(GraphNode[None]):
    """Takes the next of the routes that it was made with, then replies."""

    def __init__(self, routes: list[Any]) -> None:
        self.routes = routes

    def run(
        self, ctx: StageContext[None]
    ) -> Go[Here | There] | DirectTo[Here | There] | Fanout[Left | Right] | Direct | Finish | None:
        taken: Direct | None = self.routes.pop(0) if self.routes else direct("no more")
        return taken


class Here(Walker):
    """The entry."""


class There(Walker):
    """Another stage."""


class Joining(Walker):
    """Where the workers are joined."""


doors: st.SearchStrategy[Any] = st.sampled_from([Here, There])


steps: st.SearchStrategy[Any] = st.one_of(
    doors.map(go),
    doors.map(lambda stage: direct_to(stage, "over there")),
    st.sampled_from([fanout(Left, Right), direct("here"), None, task_result("not allowed"), "no response"]),
    st.just(finish("the end")),
)


@settings(deadline=None, max_examples=80)
@given(st.lists(steps, max_size=12), st.integers(1, 4))
def test_b4_the_cursor_is_always_a_stage_or_end(routes: list[Any], turns: int) -> None:
    """Rules A5, B4: after every single commit, in turns that fail too."""
    ledger = Ledger()
    graph = Graph("g", entry=Here).stages(Here(routes), There(routes), Joining(routes)).workers(Left, Right)
    app = graph.join((Left, Right), to=Joining).compile(store=ledger)
    for _ in range(turns):
        try:
            turn = app.invoke("hi", session="s")
        except (OwnershipError, ezgraph.UnfinishedWork, ezgraph.SessionCompleted):
            continue
        assert turn.cursor == ledger.sessions[-1].head.cursor
        assert (turn.status == "completed") == (turn.cursor == END)
    stages = {"Here", "There", "Joining", END}
    assert {session.head.cursor for session in ledger.sessions} <= stages
    assert all(session.activation is None or session.activation.parent in stages for session in ledger.sessions)


# ------------------------------------------------------------------------------------------------------ B3, at the door


class Grasping(Worker[Note, str]):
    """Tries to write what is not its own, past its type."""

    def __init__(self, deed: Callable[[Any], object]) -> None:
        self.deed = deed

    def run(self, ctx: Context[Note]) -> TaskResult[str]:
        self.deed(ctx)
        return task_result("done")


class Gate(GraphNode[Note]):
    def run(self, ctx: StageContext[Note]) -> Fanout[Grasping | Left]:
        return fanout(Grasping, Left)


@pytest.mark.parametrize(
    "deed",
    [
        lambda ctx: ctx.write(Gate, Note("mine")),
        lambda ctx: ctx.share(Note("mine")),
        lambda ctx: ctx.append(Gate, user("mine")),
    ],
    ids=["write", "share", "append"],
)
def test_b3_a_workers_context_has_no_way_to_write_elsewhere(deed: Callable[[Any], object]) -> None:
    graph = Graph("g", entry=Gate).workers(Grasping(deed), Left).edge(Grasping, END).edge(Left, END)
    app = graph.compile()
    with pytest.raises(
        BranchFailed, match=r"Grasping raised AttributeError: 'Context' object has no attribute"
    ) as caught:
        app.invoke("hi", session="s")
    (error,) = caught.value.failures
    assert isinstance(error, StepFailed)
    assert isinstance(error.__cause__, AttributeError)
    assert app.load("s").cells == {}
