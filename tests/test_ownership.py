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
from desk import Joined, Left, Note, Other, Right, file_parts, published, ran

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
    NodeError,
    OutputError,
    OwnershipError,
    StageContext,
    Stay,
    StepFailed,
    TaskResult,
    Usage,
    Worker,
    direct,
    direct_to,
    fanout,
    finish,
    go,
    scatter,
    stay,
    task_result,
    tool,
    user,
)
from ezgraph.algebra import ownership
from ezgraph.algebra.ownership import TABLE, check_ownership, permits
from ezgraph.models import ModelReply, ModelRequest, ScriptedModel
from ezgraph.responses import (
    RESPONSES,
    Origin,
    Placement,
    Response,
    StageHook,
    StageRescue,
    StageRun,
    StageTool,
    WorkerHook,
    WorkerRescue,
    WorkerRun,
    WorkerTool,
)
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.runtime.events import Event
from ezgraph.stores.sqlite import SQLiteStore


class Scatter:
    """Stands for a `Fanout` with inputs, which is a way of its own.  Rule A2."""


BUILT: tuple[type, ...] = (*RESPONSES, Scatter)
"""Whatever has builders."""


KINDS: tuple[type, ...] = (*BUILT, str, NoneType)
"""Whatever a handler can return: the closed union, text, and nothing."""


def type_of(kind: type) -> type:
    """The type of a value of that kind."""
    return Fanout if kind is Scatter else kind


class Single(Worker[str, str]):
    def run(self, ctx: Context[str]) -> TaskResult[str]:
        return task_result(ctx.state + "!")


class Gathered(GraphNode[None]):
    """Where every `Single` comes to."""

    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(f"gathered: {', '.join(ctx.results(Single))}")


VALUES: dict[type, Callable[[], Any]] = {
    Go: lambda: go(Other),
    DirectTo: lambda: direct_to(Other, "directed"),
    Fanout: lambda: fanout(Left, Right),
    Scatter: lambda: scatter(Single, ["a", "b"]),
    Stay: lambda: stay("look again"),
    Direct: lambda: direct("direct"),
    Finish: lambda: finish("finished"),
    TaskResult: lambda: task_result("seven"),
    str: lambda: "a text",
    NoneType: lambda: None,
}


Cell: TypeAlias = tuple[Origin, Placement, type]


CELLS: list[Cell] = [(origin, placement, kind) for origin, placement in TABLE for kind in KINDS]


def may(origin: Origin, placement: Placement, kind: type) -> bool:
    """What table B says of a cell."""
    return permits(origin, placement, type_of(kind))


ALLOWED = [cell for cell in CELLS if may(*cell)]


REFUSED = [cell for cell in CELLS if not may(*cell)]


# --------------------------------------------------------------- nodes whose annotations are lawful, and values are not

Answers: TypeAlias = Iterator[Any]
"""What a handler returns, turn by turn."""


Opened: TypeAlias = Fanout[Left | Right] | Fanout[Single]


LawfulTool: TypeAlias = Go[Other] | DirectTo[Other] | Opened | Stay | Direct | Finish | TaskResult[str]


LawfulRun: TypeAlias = Go[Other] | DirectTo[Other] | Opened | Direct | Finish | None


LawfulHook: TypeAlias = Go[Other] | DirectTo[Other] | Opened | Direct | Finish | str | None


LawfulRescue: TypeAlias = Go[Other] | DirectTo[Other] | Direct | Finish | TaskResult[str] | None


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


class RescuedProbe(GraphNode[Note]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def run(self, ctx: StageContext[Note]) -> Direct | Opened:
        ctx.save(Note("lost"))
        raise LookupError("broken")

    def on_error(self, ctx: StageContext[Note], error: Exception) -> LawfulRescue:
        assert isinstance(error, LookupError)
        ctx.save(Note("staged"))
        ctx.write(Other, Note("staged"))
        answer: LawfulRescue = next(self.answers)
        return answer


class RescuedWorker(Worker[Note, str]):
    id = "Probe"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def run(self, ctx: Context[Note]) -> TaskResult[str]:
        ctx.save(Note("lost"))
        raise LookupError("broken")

    def on_error(self, ctx: Context[Note], error: Exception) -> Direct | TaskResult[str] | None:
        assert isinstance(error, LookupError)
        ctx.save(Note("staged"))
        answer: Direct | TaskResult[str] | None = next(self.answers)
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
    ("error hook", "conversation"): RescuedProbe,
    ("error hook", "internal"): RescuedWorker,
}


HANDLERS: dict[Origin, str] = {"tool": "act", "run": "run", "response hook": "on_response", "error hook": "on_error"}


def an(origin: Origin) -> str:
    """An origin with its article."""
    return f"an {origin}" if origin == "error hook" else f"a {origin}"


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
        graph = Graph("cell", entry=probe).stages(probe(iter(answers)), Other, Joined, Gathered)
        graph = graph.workers(Left, Right, Single)
        return graph.join((Left, Right), to=Joined).join((Single,), to=Gathered)
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
        assert type(make()) is type_of(kind)


CONVERSATION: dict[type, tuple[str | None, str, list[str]]] = {
    Go: ("other: staged: -", END, ["Probe", "Other"]),
    DirectTo: ("directed", "Other", ["Probe"]),
    Fanout: ("joined: left, right", END, ["Probe", "Left", "Right", "Joined"]),
    Scatter: ("gathered: a!, b!", END, ["Probe", "Single", "Single", "Gathered"]),
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
        if (nothing, kind) == ("delegates", NoneType):
            _check_delegates(app, placement)
            return
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


def _check_delegates(app: CompiledGraph, placement: Placement) -> None:
    """Nothing from an error hook: the error stands, and what the hook staged is not published either.  Rule G1."""
    before = app.load("s")
    with pytest.raises((StepFailed, BranchFailed), match="Probe raised LookupError: broken") as caught:
        app.invoke("open", session="s")
    after = app.load("s")
    error: Any = caught.value.failures[0] if isinstance(caught.value, BranchFailed) else caught.value
    assert (type(error), type(error.__cause__)) == (StepFailed, LookupError)
    assert (after.cells, after.usage) == (before.cells, before.usage)
    if placement == "conversation":
        assert after == before
    assert [(record.node, record.error) for record in after.errors] == [("Probe", "StepFailed")]
    assert isinstance(caught.value, BranchFailed) == (placement == "internal")


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
        before, parts = app.load("s"), file_parts(path)
        events.clear()
        with pytest.raises((OwnershipError, BranchFailed)) as caught:
            app.invoke("open", session="s")
        after = app.load("s")
    now = file_parts(path)
    assert parts.keys() <= now.keys()
    changed = {key[1:]: value for key, value in now.items() if parts.get(key) != value}
    logged = ("error", "", len(before.errors))
    if placement == "conversation":
        error: Any = caught.value
        assert changed.keys() == {("head", "", 0), logged}
        assert published(app, after) == published(app, before)
        assert ran(events) == ["Probe"]
    else:
        assert isinstance(caught.value, BranchFailed)
        (error,) = caught.value.failures
        assert changed.pop(("activation", "", 0))["roots"] == ["Probe", "Mate"]
        opening = {key for key in changed if key[0] in ("head", "message", "usage", "cell")}
        assert {key: changed[key] for key in changed.keys() - opening - {logged}} == {
            ("mark", '["Probe",null]', 0): ["Probe", None],
            ("row", '["Mate",null]', 0): {"node": "Mate", "output": "mate", "depth": 2},
        }
        assert after.activation is not None
        assert set(after.activation.rows) == {("Mate", None)}
        assert "Probe" not in after.usage
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
        f"Probe.{HANDLERS[origin]} returned {value!r}: {an(origin)} in {placement} placement may return "
        f"{', '.join(error.allowed)}. {mend}"
    )
    assert [(e.node, e.error) for e in after.errors] == [("Probe", "OwnershipError")]


ANNOTATIONS: dict[type, Any] = {
    Go: Go[Other],
    DirectTo: DirectTo[Other],
    Fanout: Fanout[Left | Right],
    Scatter: Fanout[Single],
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

    def error_hook(self: Any, ctx: Any, error: Any) -> Any:
        """Act."""

    handler: Any = {"response hook": hook, "error hook": error_hook}.get(origin, plain)
    context = Context[Note] if placement == "internal" else StageContext[Note]
    handler.__annotations__ = {"ctx": context, "return": ANNOTATIONS[kind]}
    if origin == "error hook":
        handler.__annotations__["error"] = Exception
    probe: Any = type("Probe", (base,), {name: tool(handler) if origin == "tool" else handler})
    graph = Graph("g", entry=Other).edge(Other, Other)  # an edge that is a problem, so that there is always one
    made: Any = probe(iter([]))
    graph = graph.workers(made) if placement == "internal" else graph.stages(made)
    with pytest.raises(DefinitionError) as caught:
        graph.compile(model=ScriptedModel())
    told = [p for p in caught.value.problems if p.kind == "placement" and p.place == f"Probe.{name}"]
    if may(origin, placement, kind):
        assert told == []
        return
    written = "None" if kind is NoneType else type_of(kind).__name__
    assert [(p.what, p.mend) for p in told] == [
        (
            f"may return {written}, which {an(origin)} in {placement} placement may not",
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
    ("error hook", "conversation"): StageRescue,
    ("error hook", "internal"): WorkerRescue,
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
        ("error hook", "conversation"): ("go", "direct", "direct_to", "finish", "task_result", "nothing"),
        ("error hook", "internal"): ("direct", "task_result", "nothing"),
    }
    for permission in TABLE.values():
        for name in permission.names:
            assert name in {"text", "nothing"} or callable(getattr(ezgraph, name))
    nothing = [permission.nothing for permission in TABLE.values()]
    assert nothing == ["refused"] * 2 + ["continue"] * 2 + ["output stands"] * 2 + ["delegates"] * 2
    assert not hasattr(TABLE, "__setitem__")


class Subtext(str):
    __slots__ = ()


@pytest.mark.parametrize("value", [7, True, ["a"], Go, Subtext("a"), NotImplemented], ids=repr)
@pytest.mark.parametrize(("origin", "placement"), TABLE)
def test_b6_what_is_no_response_is_refused_everywhere(origin: Origin, placement: Placement, value: Any) -> None:
    """Rule B6: exactly the types of the table, no subclass, no truthy stand-in."""
    with pytest.raises(
        OwnershipError, match=re.escape(f"N.h returned {value!r}: {an(origin)} in {placement}")
    ) as caught:
        check_ownership("N", placement, origin, "h", value)
    assert caught.value.response is value


EFFECTS: list[Callable[[Any], Any]] = [
    lambda response: response.with_tool_feedback("seen"),
    lambda response: response.with_messages([user("look")]),
    lambda response: response.with_cleanup(lambda: None),
]


@pytest.mark.parametrize("effect", range(len(EFFECTS)))
@pytest.mark.parametrize("cell", [c for c in ALLOWED if c[0] != "tool" and c[2] in BUILT], ids=str)
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


@pytest.mark.parametrize("cell", [c for c in ALLOWED if c[2] in BUILT], ids=str)
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


@pytest.mark.parametrize("origin", ["run", "tool", "response hook"])
def test_b6_a_worker_that_routes_names_what_it_tried(origin: Origin, tmp_path: Path) -> None:
    """Rules B3, B6: no reply, no cursor, no completion comes from a worker, whoever made the value."""
    with SQLiteStore(tmp_path / "cell.db") as store:
        app = compiled((origin, "internal", Finish), finish("I am done"), store, [])
        with pytest.raises(BranchFailed, match=r"Probe\.\w+ returned Finish\(.*text='I am done'\)"):
            app.invoke("open", session="s")
        assert app.load("s").head.cursor == "Opener"


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
        assert not may(origin, placement, kind)
    else:
        assert may(origin, placement, kind)


def test_b1_nothing_is_refused_or_allowed_as_the_table_says() -> None:
    assert ownership.permits("run", "internal", TaskResult)
    assert not ownership.permits("run", "internal", Go)
    assert not ownership.permits("tool", "internal", NoneType)
    assert ownership.permits("run", "internal", NoneType)


def test_b1_an_error_hook_may_neither_open_work_nor_go_on_talking() -> None:
    """Table B: its rows are those of a substitute outcome."""
    for placement in ("conversation", "internal"):
        for kind in (Fanout, Stay, str):
            assert not permits("error hook", placement, kind)
    assert permits("error hook", "conversation", Go)
    assert not permits("error hook", "internal", Go)
