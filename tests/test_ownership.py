"""Table B, cell by cell: what each origin may return in each placement, in real graphs, down to the bytes of the file.

Every test iterates `TABLE` and the closed union of responses: a new row or a new response without a case here fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import NoneType
from typing import Any, TypeAlias, get_args, get_origin

import pytest
from attrs import frozen
from desk import Joined, Ledger, Left, Note, Other, Right, body, file_rows, published, ran
from hypothesis import given, settings, strategies as st

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
    NodeError,
    OutputError,
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
from ezgraph.algebra import ownership
from ezgraph.algebra.ownership import TABLE, check_ownership, permits
from ezgraph.models import ModelReply, ModelRequest, ScriptedModel, call
from ezgraph.responses import (
    RESPONSES,
    Origin,
    Placement,
    Response,
    StageHook,
    StageRun,
    StageTool,
    WorkerHook,
    WorkerRun,
    WorkerTool,
)
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.runtime.events import Event
from ezgraph.stores.sqlite import SQLiteStore

KINDS: tuple[type, ...] = (*RESPONSES, str, NoneType)
"""Whatever a handler can return: the closed union, text, and nothing."""

VALUES: dict[type, Callable[[], Any]] = {
    Go: lambda: go(Other),
    DirectTo: lambda: direct_to(Other, "directed"),
    Fanout: lambda: fanout(Left, Right),
    Stay: lambda: stay("look again"),
    Direct: lambda: direct("direct"),
    Finish: lambda: finish("finished"),
    TaskResult: lambda: task_result("seven"),
    str: lambda: "a text",
    NoneType: lambda: None,
}

Cell: TypeAlias = tuple[Origin, Placement, type]

CELLS: list[Cell] = [(origin, placement, kind) for origin, placement in TABLE for kind in KINDS]
ALLOWED = [cell for cell in CELLS if permits(*cell)]
REFUSED = [cell for cell in CELLS if not permits(*cell)]

# --------------------------------------------------------------- nodes whose annotations are lawful, and values are not

Answers: TypeAlias = Iterator[Any]
"""What a handler returns, turn by turn."""

LawfulTool: TypeAlias = Go[Other] | DirectTo[Other] | Fanout[Left | Right] | Stay | Direct | Finish | TaskResult[str]
LawfulRun: TypeAlias = Go[Other] | DirectTo[Other] | Fanout[Left | Right] | Direct | Finish | None
LawfulHook: TypeAlias = Go[Other] | DirectTo[Other] | Fanout[Left | Right] | Direct | Finish | str | None


class TalkingProbe(Conversation[Note]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    @tool
    def act(self, ctx: StageContext[Note]) -> LawfulTool:
        """Act."""
        ctx.save(Note("staged"))
        ctx.write(Other, Note("staged"))
        answer: LawfulTool = next(self.answers)
        return answer


class RunningProbe(GraphNode[Note]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def run(self, ctx: StageContext[Note]) -> LawfulRun:
        ctx.save(Note("staged"))
        ctx.write(Other, Note("staged"))
        answer: LawfulRun = next(self.answers)
        return answer


class HookedProbe(Conversation[Note]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def on_response(self, ctx: StageContext[Note], output: object) -> LawfulHook:
        ctx.save(Note("staged"))
        ctx.write(Other, Note("staged"))
        answer: LawfulHook = next(self.answers)
        return answer


class ToolWorker(Worker[Note, str]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    @tool
    def act(self, ctx: Context[Note]) -> Stay | Direct | TaskResult[str]:
        """Act."""
        ctx.save(Note("staged"))
        answer: Stay | Direct | TaskResult[str] = next(self.answers)
        return answer


class RunWorker(Worker[Note, str]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def run(self, ctx: Context[Note]) -> Direct | TaskResult[str]:
        ctx.save(Note("staged"))
        answer: Direct | TaskResult[str] = next(self.answers)
        return answer


class SilentWorker(Worker[Note, None]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def run(self, ctx: Context[Note]) -> None:
        ctx.save(Note("staged"))
        answer: None = next(self.answers)
        return answer


class HookedWorker(Worker[Note, str]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    @tool
    def done(self, ctx: Context[Note]) -> TaskResult[str]:
        """Be done."""
        return task_result("done")

    def on_response(self, ctx: Context[Note], output: str) -> Direct | TaskResult[str] | str | None:
        ctx.save(Note("staged"))
        answer: Direct | TaskResult[str] | str | None = next(self.answers)
        return answer


PROBES: dict[tuple[Origin, Placement], Any] = {
    ("tool", "conversation"): TalkingProbe,
    ("tool", "internal"): ToolWorker,
    ("run", "conversation"): RunningProbe,
    ("run", "internal"): RunWorker,
    ("response hook", "conversation"): HookedProbe,
    ("response hook", "internal"): HookedWorker,
}
HANDLERS: dict[Origin, str] = {"tool": "act", "run": "run", "response hook": "on_response"}


def script(origin: Origin) -> ScriptedModel:
    """A model that calls the tool once a turn and then talks; for a hook it only talks."""

    def act(request: ModelRequest) -> ModelReply:
        acted = request.messages[-1].role == "tool"
        return ModelReply("again") if acted else ModelReply(calls=(ezgraph.ToolCall("c1", "act"),))

    step = act if origin == "tool" else "spoken"
    return ScriptedModel(*[step] * 4)


class Mate(Worker[None, str]):
    def run(self, ctx: Context[None]) -> TaskResult[str]:
        return task_result("mate")


def opener(probe: type[Worker[Any, Any]]) -> tuple[type[Any], type[Any]]:
    """A stage that fans out to `probe`, declared in its annotation, and the stage that reads what it yields."""

    class Opens(GraphNode[None]):
        id = "Opener"

        def run(self, ctx: StageContext[None]) -> Any:
            return fanout(Mate, probe) if ctx.incoming == user("open") else direct("hello")

    class Reads(GraphNode[None]):
        id = "Reader"

        def run(self, ctx: StageContext[None]) -> Finish:
            return finish(f"{ctx.result(Mate)}, {ctx.result(probe)!r}")

    Opens.run.__annotations__["return"] = Direct | Fanout[Mate | probe]  # type: ignore[valid-type]
    return Opens, Reads


def graph_of(origin: Origin, placement: Placement, kind: type, answers: Iterable[Any]) -> Graph[None]:
    """The graph of one cell; in internal placement the entry opens it on the word `open`."""
    probe = PROBES[origin, placement]
    if placement == "conversation":
        graph = Graph("cell", entry=probe).stages(probe(iter(answers)), Other, Joined).workers(Left, Right)
        return graph.join((Left, Right), to=Joined)
    probe = SilentWorker if (origin, kind) == ("run", NoneType) else probe
    entry, reader = opener(probe)
    return Graph("cell", entry=entry).stages(reader).workers(probe(iter(answers)), Mate).join((probe, Mate), to=reader)


def compiled(cell: Cell, value: Any, store: SQLiteStore, events: list[Event]) -> CompiledGraph:
    """A graph whose node answers `hello` in the first turn, and `value` in the second."""
    origin, placement, kind = cell
    answers = [direct("hello"), value] if placement == "conversation" else [value]
    graph = graph_of(origin, placement, kind, answers)
    return graph.compile(store=store, model=script(origin), max_branches=1, listener=events.append)


# --------------------------------------------------------------------------------------------------- every cell is held


def test_b1_the_table_and_the_closed_union_are_covered() -> None:
    """Rule B1: the cases below are those of the constant, no more and no fewer."""
    assert set(PROBES) == set(TABLE)
    assert set(VALUES) == set(KINDS)
    assert set(RESPONSES) == {get_origin(member) or member for member in get_args(Response)}
    assert len(ALLOWED) + len(REFUSED) == len(TABLE) * len(KINDS)
    for kind, make in VALUES.items():
        assert type(make()) is kind


CONVERSATION: dict[type, tuple[str | None, str, list[str]]] = {
    Go: ("other: staged: -", END, ["Probe", "Other"]),
    DirectTo: ("directed", "Other", ["Probe"]),
    Fanout: ("joined: left, right", END, ["Probe", "Left", "Right", "Joined"]),
    Stay: ("again", "Probe", ["Probe"]),
    Direct: ("direct", "Probe", ["Probe"]),
    Finish: ("finished", END, ["Probe"]),
    TaskResult: ("seven", "Probe", ["Probe"]),
    str: ("a text", "Probe", ["Probe"]),
}
"""Table A: reply, cursor after, and what was run."""

NOTHING: dict[str, tuple[str | None, str, list[str]]] = {
    "continue": (None, "Probe", ["Probe"]),
    "output stands": ("spoken", "Probe", ["Probe"]),
}

INTERNAL: dict[type, object] = {Stay: "again", Direct: "direct", TaskResult: "seven", str: "a text"}
"""What the worker yields."""

YIELDED: dict[str, object] = {"continue": None, "output stands": "spoken"}


@pytest.mark.parametrize("cell", ALLOWED, ids=str)
def test_b2_an_allowed_response_does_what_table_a_says(cell: Cell, tmp_path: Path) -> None:
    """Rules A5, B1, B2."""
    origin, placement, kind = cell
    nothing = TABLE[origin, placement].nothing
    events: list[Event] = []
    with SQLiteStore(tmp_path / "cell.db") as store:
        app = compiled(cell, VALUES[kind](), store, events)
        app.invoke("hello", session="s")
        events.clear()
        turn = app.invoke("open", session="s")
        session = app.load("s")
    assert session.cells["Probe"] == Note("staged")
    if placement == "conversation":
        reply, cursor, run = NOTHING[nothing] if kind is NoneType else CONVERSATION[kind]
        assert (turn.reply, turn.cursor, ran(events)) == (reply, cursor, run)
        assert turn.status == ("completed" if cursor == END else "idle")
    else:
        output = YIELDED[nothing] if kind is NoneType else INTERNAL[kind]
        assert turn.reply == f"mate, {output!r}"
        assert sorted(ran(events)) == ["Mate", "Opener", "Probe", "Reader"]


@pytest.mark.parametrize("cell", REFUSED, ids=str)
def test_b6_a_refused_response_publishes_nothing(cell: Cell, tmp_path: Path) -> None:
    """Rule B6, down to the rows of the file: all that is added is what went wrong."""
    origin, placement, kind = cell
    value = VALUES[kind]()
    if isinstance(value, RESPONSES):
        value = value.with_usage(Usage(7, 7, 7))
    events: list[Event] = []
    path = tmp_path / "cell.db"
    with SQLiteStore(path) as store:
        app = compiled(cell, value, store, events)
        app.invoke("hello", session="s")
        before, rows = app.load("s"), file_rows(path)
        events.clear()
        with pytest.raises((OwnershipError, BranchFailed)) as caught:
            app.invoke("open", session="s")
        after = app.load("s")
    added = [body(row) for row in file_rows(path)[len(rows) :]]
    assert file_rows(path)[: len(rows)] == rows
    if placement == "conversation":
        error: Any = caught.value
        (record,) = added
        assert set(record) == {"format", "graph", "revision", "head", "errors"}
        assert published(app, after) == published(app, before)
        assert ran(events) == ["Probe"]
    else:
        assert isinstance(caught.value, BranchFailed)
        (error,) = caught.value.failures
        opening, *records = added
        assert opening["opened"]["roots"] == ["Probe", "Mate"]
        failed, mate = records
        assert set(failed) == {"format", "graph", "revision", "marks", "errors"}
        assert failed["marks"] == ["Probe"]
        assert mate["rows"] == [{"node": "Mate", "output": "mate", "depth": 2}]
        assert (after.cells, after.usage) == (before.cells, before.usage)
        assert after.activation is not None
        assert set(after.activation.rows) == {"Mate"}
    assert isinstance(error, OwnershipError)
    assert (error.node, error.placement, error.origin, error.handler) == (
        "Probe",
        placement,
        origin,
        HANDLERS[origin],
    )
    assert error.response == value
    assert error.allowed == TABLE[origin, placement].names
    mend = 'Did you forget "return"?' if kind is NoneType else "Return one of these."
    assert str(error) == (
        f"Probe.{HANDLERS[origin]} returned {value!r}: a {origin} in {placement} placement may return "
        f"{', '.join(error.allowed)}. {mend}"
    )
    assert [(e.node, e.error) for e in after.errors] == [("Probe", "OwnershipError")]


ANNOTATIONS: dict[type, Any] = {
    Go: Go[Other],
    DirectTo: DirectTo[Other],
    Fanout: Fanout[Left | Right],
    Stay: Stay,
    Direct: Direct,
    Finish: Finish,
    TaskResult: TaskResult[str],
    str: str,
    NoneType: None,
}


@pytest.mark.parametrize(("origin", "placement", "kind"), CELLS)
def test_b2_compile_holds_the_table_by_annotation(origin: Origin, placement: Placement, kind: type) -> None:
    """Rule B2: what may not be returned may not be declared."""
    assert set(ANNOTATIONS) == set(KINDS)
    base = PROBES[origin, placement]
    name = HANDLERS[origin]

    def plain(self: Any, ctx: Any) -> Any:
        """Act."""

    def hook(self: Any, ctx: Any, output: Any) -> Any:
        """Act."""

    handler: Any = hook if origin == "response hook" else plain
    context = Context[Note] if placement == "internal" else StageContext[Note]
    handler.__annotations__ = {"ctx": context, "return": ANNOTATIONS[kind]}
    probe: Any = type("Probe", (base,), {name: tool(handler) if origin == "tool" else handler})
    graph = Graph("g", entry=Other).edge(Other, Other)  # an edge that is a problem, so that there is always one
    made: Any = probe(iter([]))
    graph = graph.workers(made) if placement == "internal" else graph.stages(made)
    with pytest.raises(DefinitionError) as caught:
        graph.compile(model=ScriptedModel())
    told = [p for p in caught.value.problems if p.kind == "placement" and p.place == f"Probe.{name}"]
    if permits(origin, placement, kind):
        assert told == []
        return
    written = "None" if kind is NoneType else kind.__name__
    assert [(p.what, p.mend) for p in told] == [
        (
            f"may return {written}, which a {origin} in {placement} placement may not",
            f"It may return: {', '.join(TABLE[origin, placement].names)}.",
        )
    ]


ROLES: dict[tuple[Origin, Placement], Any] = {
    ("tool", "conversation"): StageTool,
    ("run", "conversation"): StageRun,
    ("response hook", "conversation"): StageHook,
    ("tool", "internal"): WorkerTool,
    ("run", "internal"): WorkerRun,
    ("response hook", "internal"): WorkerHook,
}


def test_b2_the_unions_that_checkers_read_are_the_rows_of_the_table() -> None:
    """Rule B2: the same table, three times."""
    assert set(ROLES) == set(TABLE)
    for row, role in ROLES.items():
        permission = TABLE[row]
        nothing = frozenset() if permission.nothing == "refused" else frozenset({NoneType})
        assert {get_origin(member) or member for member in get_args(role)} == permission.may | nothing, row


def test_b1_the_table_can_be_printed() -> None:
    """Rule B1: the documentation reads the same constant."""
    assert {row: permission.names for row, permission in TABLE.items()} == {
        ("tool", "conversation"): ("stay", "go", "fanout", "direct", "direct_to", "finish", "task_result"),
        ("tool", "internal"): ("stay", "direct", "task_result"),
        ("run", "conversation"): ("go", "fanout", "direct", "direct_to", "finish", "nothing"),
        ("run", "internal"): ("direct", "task_result", "nothing"),
        ("response hook", "conversation"): ("text", "go", "fanout", "direct", "direct_to", "finish", "nothing"),
        ("response hook", "internal"): ("text", "direct", "task_result", "nothing"),
    }
    for permission in TABLE.values():
        for name in permission.names:
            assert name in {"text", "nothing"} or callable(getattr(ezgraph, name))
    assert [TABLE[row].nothing for row in TABLE] == ["refused", "refused", *["continue"] * 2, *["output stands"] * 2]
    assert not hasattr(TABLE, "__setitem__")


class Subtext(str):
    __slots__ = ()


@pytest.mark.parametrize("value", [7, True, ["a"], Go, Subtext("a"), NotImplemented], ids=repr)
@pytest.mark.parametrize(("origin", "placement"), TABLE)
def test_b6_what_is_no_response_is_refused_everywhere(origin: Origin, placement: Placement, value: Any) -> None:
    """Rule B6: exactly the types of the table, no subclass, no truthy stand-in."""
    with pytest.raises(OwnershipError, match=re.escape(f"N.h returned {value!r}: a {origin} in {placement}")) as caught:
        check_ownership("N", placement, origin, "h", value)
    assert caught.value.response is value


EFFECTS: list[Callable[[Any], Any]] = [
    lambda response: response.with_tool_feedback("seen"),
    lambda response: response.with_messages([user("look")]),
    lambda response: response.with_cleanup(lambda: None),
]


@pytest.mark.parametrize("effect", range(len(EFFECTS)))
@pytest.mark.parametrize("cell", [c for c in ALLOWED if c[0] != "tool" and c[2] in RESPONSES], ids=str)
def test_b5_tool_effects_are_refused_on_what_no_tool_gave(cell: Cell, effect: int, tmp_path: Path) -> None:
    _, _, kind = cell
    with SQLiteStore(tmp_path / "cell.db") as store:
        app = compiled(cell, EFFECTS[effect](VALUES[kind]()), store, [])
        app.invoke("hello", session="s")
        before = app.load("s")
        with pytest.raises((OwnershipError, BranchFailed), match="Feedback, messages and cleanup belong to a tool"):
            app.invoke("open", session="s")
        after = app.load("s")
    assert after.cells == before.cells
    assert [e.error for e in after.errors] == ["OwnershipError"]


@pytest.mark.parametrize("cell", [c for c in ALLOWED if c[2] in RESPONSES], ids=str)
def test_c1_usage_may_come_with_every_response(cell: Cell, tmp_path: Path) -> None:
    """Table C: `with_usage` is on every response, summed, and the accounting is the node's."""
    _, _, kind = cell
    value = VALUES[kind]().with_usage(Usage(5, 2, 0)).with_usage(Usage(1, 1, 0))
    with SQLiteStore(tmp_path / "cell.db") as store:
        app = compiled(cell, value, store, [])
        app.invoke("hello", session="s")
        turn = app.invoke("open", session="s")
        spent = app.load("s").usage["Probe"]
    assert (spent.input_tokens, spent.output_tokens) == (6, 3)
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (6, 3)


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
    [(go(Joined), "Go[Joined]"), (direct_to(Other, "bye"), "DirectTo[Other]"), (go(Undecided), "Go[Undecided]")],
)
def test_b2_a_route_that_the_annotation_does_not_declare_is_refused(answer: Any, route: str) -> None:
    """Rule B2: the annotation is the drawing, so the value must keep to it."""
    app = undecided(answer)
    told = (
        f"Undecided.run returned {route}, but its return annotation declares Go[Other], Fanout[Left | Right]. "
        f"Add {route} to the annotation."
    )
    with pytest.raises(UndeclaredRoute, match=re.escape(told)) as caught:
        app.invoke("hi", session="s")
    assert (caught.value.node, caught.value.handler, caught.value.route) == ("Undecided", "run", route)
    assert caught.value.declared == ("Go[Other]", "Fanout[Left | Right]")
    assert app.load("s").cells == {}


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


@pytest.mark.parametrize("origin", ["run", "tool", "response hook"])
def test_b6_a_worker_that_routes_names_what_it_tried(origin: Origin, tmp_path: Path) -> None:
    """Rules B3, B6: no reply, no cursor, no completion comes from a worker, whoever made the value."""
    with SQLiteStore(tmp_path / "cell.db") as store:
        app = compiled((origin, "internal", Finish), finish("I am done"), store, [])
        with pytest.raises(BranchFailed, match=r"Probe\.\w+ returned Finish\(.*text='I am done'\)"):
            app.invoke("open", session="s")
        assert app.load("s").head.cursor == "Opener"


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


def test_a6_a_workers_output_of_another_type_is_refused() -> None:
    """Rules A6, B2: the value itself, to the last field."""
    (tmp,) = [graph_of("run", "internal", TaskResult, [task_result(7)])]
    app = tmp.compile(model=ScriptedModel())
    with pytest.raises(BranchFailed, match=r"Probe must yield str at \$, and gave int\. Give task_result") as caught:
        app.invoke("open", session="s")
    assert [type(error) for error in caught.value.failures] == [OutputError]
    assert all(isinstance(error, NodeError) for error in caught.value.failures)


@pytest.mark.parametrize(("origin", "placement", "kind"), CELLS)
def test_b1_the_check_reads_the_constant(origin: Origin, placement: Placement, kind: type) -> None:
    """Rule B1: what the table says is what is done."""
    try:
        check_ownership("N", placement, origin, "h", VALUES[kind]())
    except OwnershipError:
        assert not permits(origin, placement, kind)
    else:
        assert permits(origin, placement, kind)


def test_b1_nothing_is_refused_or_allowed_as_the_table_says() -> None:
    assert ownership.permits("run", "internal", TaskResult)
    assert not ownership.permits("run", "internal", Go)
    assert not ownership.permits("tool", "internal", NoneType)
    assert ownership.permits("run", "internal", NoneType)
