"""Everything that `compile()` refuses of one node, each with its message and mended twin; and what only a call can.

Rule E8, and the holes that types leave: what a class says of itself is read, whatever a checker made of it.
"""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from types import new_class
from typing import Any, Generic, Literal, LiteralString, NewType, Protocol, TypeVar, Union

import pytest
from attrs import define, frozen
from cast import (
    MODEL,
    AnyFanout,
    AnyGo,
    AnyGraph,
    AnyStageContext,
    AnyTool,
    End,
    Note,
    Other,
    Talk,
    V,
    W,
    X,
    compiled,
    kinds,
    only,
    problems,
    refused,
    told,
)

from ezgraph import (
    END,
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
    OwnershipError,
    StageContext,
    StateTypeError,
    Stay,
    TaskResult,
    UndeclaredRoute,
    UnknownTarget,
    Worker,
    direct,
    fanout,
    finish,
    go,
    stay,
    task_result,
    tool,
)
from ezgraph.models import ScriptedModel, call

# ------------------------------------------------------------ state, types, attributes


def test_f3_mutable_state_is_told_to_the_last_field() -> None:
    @define
    class Inner:
        n: int = 0

    @frozen
    class Outer:
        inner: tuple[Inner, ...] = ()
        names: dict[str, set[int]] = {}  # noqa: RUF008

    class Keeps(End):
        pass

    class Holds(GraphNode[Outer]):
        def run(self, ctx: StageContext[Outer]) -> Finish:
            return finish("done")

    class Yields(Worker[None, list[int]]):
        def run(self, ctx: Context[None]) -> TaskResult[list[int]]:
            return task_result([1])

    found = told(Graph("g", entry=Holds))
    assert [(kind, place, what.split(" ")[2]) for kind, place, what, _ in found] == [
        ("mutable-state", "Holds", "$.inner[*]"),
        ("mutable-state", "Holds", "$.names"),
    ]
    refused(only(Yields), "output-type", "Yields", r"(?s)output list\[int\]: \$ list\[int\] can be changed.*tuple\[int")
    match = r"(?s)context: list: \$ list .*can be changed"
    refused(Graph("g", entry=Keeps, context=[1]), "mutable-state", "context", match)
    match = r"(?s)context: tuple: \$ tuple does not say what it holds.*Put it into a frozen attrs class"
    refused(Graph("g", entry=Keeps, context=(1, 2)), "mutable-state", "context", match)
    compiled(Graph("g", entry=Keeps, context=Note()))


def test_e8_a_state_or_an_output_that_is_not_given() -> None:
    class Open(GraphNode):  # type: ignore[type-arg]
        def run(self, ctx: StageContext[Any]) -> Finish:
            return finish("done")

    match = r"(?s)Open: the type of its state is not given.*Write it in the class line, such as `class Open\(GraphNode"
    refused(only(Open), "missing-annotation", "Open", match)


def test_e8_a_state_whose_name_does_not_resolve() -> None:
    class Lost(GraphNode["Nowhere"]):  # type: ignore[name-defined]
        def run(self, ctx: StageContext[Any]) -> Finish:
            return finish("done")

    match = r"(?s)Lost: the name 'Nowhere' in its class line does not resolve at run time.*Import Nowhere at the top"
    refused(only(Lost), "unresolvable-annotation", "Lost", match)


def test_f8_a_state_that_can_never_exist() -> None:
    """The entry, and a worker that only fan-outs and edges reach, begin with a state that nothing has written."""

    @frozen
    class Needs:
        text: str

    class Works(Worker[Needs, int]):
        def run(self, ctx: Context[Needs]) -> TaskResult[int]:
            return task_result(1)

    class After(Worker[Needs, int]):
        def run(self, ctx: Context[Needs]) -> TaskResult[int]:
            return task_result(1)

    class Called(Worker[Needs, int]):
        def run(self, ctx: Context[Needs]) -> TaskResult[int]:
            return task_result(1)

    class Later(GraphNode[Needs]):
        def run(self, ctx: StageContext[Needs]) -> Finish:
            return finish("done")

    class Start(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Works | W] | Go[Later]:
            return go(Later).with_state(Needs("x"))

    class Maybe(GraphNode[Needs | None]):
        def run(self, ctx: StageContext[Needs | None]) -> Finish:
            return finish("done")

    match = r"(?s)Later: begins with a state that nothing has written, and its type .*Give its fields defaults"
    refused(Graph("g", entry=Later), "no-initial-state", "Later", match)
    graph = Graph("g", entry=Start).stages(Later).workers(Works, W, After, Called).edge(W, END)
    assert kinds(graph.edge(Works, After).edge(After, END)) == [
        ("no-initial-state", "Works"),
        ("no-initial-state", "After"),
    ]
    compiled(Graph("g", entry=Maybe))


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("history", "", r"is ''.*Name a history space"),
        ("history", None, r"is None"),
        ("history", 5, r"is 5"),
        ("rounds", 0, r"is 0.*Give a whole number, 1 or more"),
        ("rounds", True, r"is True"),
        ("rounds", 2.0, r"is 2.0"),
        ("seed", "", r"is ''.*Give a text, or None for no such message"),
        ("seed", " \n", r"is ' "),
        ("seed", 7, r"is 7"),
    ],
)
def test_e8_attributes_that_are_not_what_they_must_be(name: str, value: Any, match: str) -> None:
    """Rules F4, G2, G3: also where a constructor sets them."""
    wrong: Any = type("Wrong", (Talk,), {name: value})
    refused(Graph("g", entry=wrong).stages(End), "attribute", f"Wrong.{name}", rf"(?s)Wrong\.{name}: {match}")
    late: Any = type("Late", (Talk,), {"__init__": lambda self: setattr(self, name, value)})
    refused(Graph("g", entry=late).stages(End), "attribute", f"Late.{name}", f"(?s){match}")
    fine: Any = type("Fine", (Talk,), {"history": "side", "rounds": 1, "seed": None})
    assert compiled(Graph("g", entry=fine).stages(End)).nodes["Fine"].space == "side"


# ------------------------------------------------------------ placements


def method(name: str, returns: Any, ctx: Any, *more: str) -> Any:
    """A method of that name, return annotation and context."""
    names: dict[str, Any] = {}
    exec(f"def {name}({', '.join(('self', 'ctx', *more))}): 'Do it.'", names)
    names[name].__annotations__ = {"ctx": ctx, "return": returns}
    return names[name]


def made(kind: Any, name: str, **attributes: Any) -> Any:
    return type(name, (kind,), attributes)


class BareTalk(Conversation[None]):
    """Talks."""


class BareNode(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("done")


class BareWork(Worker[None, int]):
    @tool
    def give(self, ctx: Context[None]) -> TaskResult[int]:
        """Give."""
        return task_result(1)


ORIGINS: dict[str, tuple[Any, str, Any, str, tuple[str, ...]]] = {
    "tool, conversation": (BareTalk, "act", StageContext[None], "stay", ()),
    "tool, internal": (BareWork, "act", Context[None], "stay", ()),
    "run, conversation": (BareNode, "run", StageContext[None], "nothing", ()),
    "run, internal": (Worker[None, int], "run", Context[None], "nothing", ()),
    "response hook, conversation": (BareTalk, "on_response", StageContext[None], "nothing", ("output",)),
    "response hook, internal": (BareWork, "on_response", Context[None], "nothing", ("output",)),
}
MAY: dict[str, set[Any]] = {
    "tool, conversation": {Stay, Go[End], Fanout[V | W], Direct, DirectTo[End], Finish, TaskResult[int]},
    "tool, internal": {Stay, TaskResult[int]},
    "run, conversation": {Go[End], Fanout[V | W], Direct, DirectTo[End], Finish, None},
    "run, internal": {TaskResult[int]},
    "response hook, conversation": {str, Go[End], Fanout[V | W], Direct, DirectTo[End], Finish, None},
    "response hook, internal": {str, Direct, TaskResult[int], None},
}
EVERY: list[Any] = [Stay, Go[End], Fanout[V | W], Direct, DirectTo[End], Finish, TaskResult[int], str, None]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("given", EVERY, ids=str)
def test_b2_compile_refuses_a_placement_that_breaks_table_b(origin: str, given: Any) -> None:
    """Every cell of the table: what may be returned compiles, what may not is one problem that says what may."""
    kind, name, ctx, _, more = ORIGINS[origin]
    handler = method(name, given, ctx, *more)
    node = made(
        kind if isinstance(kind, type) else BareWorker, "Node", **{name: tool(handler) if name == "act" else handler}
    )
    graph: Any = (
        Graph("g", entry=Anywhere).stages(End, node)
        if not issubclass(node, Worker)
        else Graph("g", entry=Anywhere).stages(End).workers(node)
    )
    graph = graph.workers(V, W).edge(V, END).edge(W, END)
    found = [p for p in problems(graph) if p.kind == "placement"]
    if given in MAY[origin] or (given in {Direct, None} and origin.endswith("internal") and "tool" not in origin):
        assert not found
        return
    if origin == "tool, internal" and given is Direct:
        return  # allowed by the table, and refused by the output's type: tested with rule A6
    what, placement = origin.split(", ")
    shown = "None" if given is None else given.__name__ if isinstance(given, type) else str(given.__origin__.__name__)
    (problem,) = found
    assert problem.place == f"Node.{name}"
    assert problem.what == f"may return {shown}, which a {what} in {placement} placement may not"
    assert problem.mend.startswith("It may return: ")


class BareWorker(Worker[None, int]):
    pass


class Anywhere(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Go[End] | Fanout[V | W] | None:
        return None


def test_b2_what_is_no_response_at_all() -> None:
    class Says(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> int | Finish:  # type: ignore[override]
            return 5

    match = r"(?s)Says.run: may return int, which a run in conversation placement may not.*It may return: go, fanout"
    refused(only(Says), "placement", "Says.run", match)


@pytest.mark.parametrize(
    ("returns", "match"),
    [
        (Go[Any], r"`Go\[Any\]` does not say where it may lead"),
        (AnyGo[V], r"(?s)Go\[V\] leads to a worker.*A worker is reached by Fanout\[A \| B\] or an edge"),
        (AnyFanout[V | End], r"(?s)Fanout\[End\] leads to a stage.*Write Go\[End\]"),
    ],
)
def test_b4_routes_that_are_forbidden(returns: Any, match: str) -> None:
    """Rule B4, and nothing else that only follows from it."""
    entry = made(BareNode, "Wrong", run=method("run", returns | Go[End], StageContext[None]))
    graph = Graph("g", entry=entry).stages(End).workers(V).edge(V, END)
    found = problems(graph)
    assert len([p for p in found if p.place == "Wrong.run"]) == 1
    assert [p.place for p in found if p.kind == "unreachable"] == (["V"] if "Any" in match else [])
    with pytest.raises(DefinitionError, match=match):
        compiled(graph)


# ------------------------------------------------------------ contexts


@frozen
class Config:
    limit: int = 3


@frozen
class Larger(Config):
    name: str = ""


S = TypeVar("S")


@pytest.mark.parametrize(
    ("kind", "ctx", "match"),
    [
        (BareNode, StageContext[Note], r"(?s)takes StageContext\[Note, object\].*`ctx: StageContext\[None\]`"),
        (BareNode, int, r"takes int, and its state is None"),
        (BareNode, StageContext[None, Config], r"(?s)asks for Config .*\(this node: nothing\).*Node\[\.\.\., Config\]"),
        (BareWorker, StageContext[None], r"(?s)a worker may not write elsewhere.*`ctx: Context\[None\]`"),
        (BareWorker, Context[Note], r"(?s)its state is None.*`ctx: Context\[None\]`"),
    ],
)  # fmt: skip
def test_e8_a_context_that_is_not_the_nodes(kind: Any, ctx: Any, match: str) -> None:
    """Also where pyright's basic mode does not complain of an override."""
    returns = TaskResult[int] if issubclass(kind, Worker) else Finish
    refused(only(made(kind, "Node", run=method("run", returns, ctx))), "wrong-context", "Node.run", match)


@pytest.mark.parametrize(
    "ctx", [StageContext[None], Context[None], Any, object, StageContext[Any], Context, StageContext[None, object],
            StageContext[Note] | Context[None], AnyStageContext[S]]
)  # fmt: skip
def test_e8_a_context_that_is_wide_enough(ctx: Any) -> None:
    compiled(only(made(BareNode, "Node", run=method("run", Finish, ctx))))


def test_e8_a_tools_context_of_another_state() -> None:
    """What no checker can see: a bound cannot hold a type variable."""

    class Desk(Conversation[Note]):
        @tool
        def wrong(self, ctx: StageContext[Config]) -> Stay:
            """Take another node's context."""
            return stay("no")

        @tool
        def right(self, ctx: StageContext[Note]) -> Stay:
            """Take one's own."""
            return stay("no")

    match = r"(?s)Desk.wrong: takes StageContext\[Config, object\], and its state is Note.*`ctx: StageContext\[Note\]`"
    refused(only(Desk), "wrong-context", "Desk.wrong", match)


def test_e8_a_node_that_needs_another_graph_context() -> None:
    class Reads(GraphNode[None, Config]):
        def run(self, ctx: StageContext[None, Config]) -> Finish:
            return finish(str(ctx.shared.limit))

    class Either(GraphNode[None, Note | Config]):
        def run(self, ctx: StageContext[None, Note | Config]) -> Finish:
            return finish("done")

    class Limited(Protocol):
        limit: int

    class Asks(GraphNode[None, Limited]):
        def run(self, ctx: StageContext[None, Limited]) -> Finish:
            return finish("done")

    match = r"(?s)Reads: needs a graph context of Config \[wrong-context\].*This graph's is None: write Graph\("
    refused(AnyGraph("g", entry=Reads), "wrong-context", "Reads", match)
    refused(AnyGraph("g", entry=Reads, context=Note()), "wrong-context", "Reads", "This graph's is Note")
    refused(AnyGraph("g", entry=Either), "wrong-context", "Either", r"needs a graph context of Note \| Config")
    for context in (Config(), Larger()):
        for entry in (Reads, Either, Asks):
            compiled(AnyGraph("g", entry=entry, context=context))


def test_e8_a_graphs_context_that_a_nested_generic_call_hid_from_the_checker() -> None:
    """There mypy makes the graph's type `Any`; the value still tells."""

    def same(value: S) -> S:
        return value

    class Reads(GraphNode[None, Config]):
        def run(self, ctx: StageContext[None, Config]) -> Finish:
            return finish(str(ctx.shared.limit))

    hidden: Any = same(Graph("g", entry=End, context=same(Note())))
    graph = hidden.stages(Reads)
    assert ("wrong-context", "Reads") in kinds(graph)


# ------------------------------------------------------------ tools and overrides


def desk(**attributes: Any) -> Any:
    return Graph("g", entry=made(BareTalk, "Desk", **attributes))


def test_e8_duplicate_tool_names() -> None:
    class Desk(Conversation[None]):
        @tool(name="look")
        def one(self, ctx: StageContext[None]) -> Stay:
            """One."""
            return stay("no")

        @tool(name="look")
        def two(self, ctx: StageContext[None]) -> Stay:
            """Two."""
            return stay("no")

        @tool
        def end_session(self, ctx: StageContext[None]) -> Stay:
            """Take the name of the built-in one."""
            return stay("no")

    with pytest.raises(
        DefinitionError, match=r"(?s)Desk.two: 'look' is already a tool.*Give one another name: @tool"
    ) as wrong:
        compiled(only(Desk))
    assert [(p.kind, p.place) for p in wrong.value.problems] == [
        ("duplicate-tool", "Desk.two"),
        ("duplicate-tool", "Desk.end_session"),
    ]


@pytest.mark.parametrize("name", ["", "two words", "größe", "x" * 65, 5])
def test_e8_a_tools_name_that_no_provider_takes(name: Any) -> None:
    act = AnyTool(name=name)(method("act", Stay, StageContext[None]))
    match = r"(?s)Desk.act: .* is no name that every model's provider takes.*at most 64 letters"
    refused(desk(act=act), "tool-name", "Desk.act", match)
    compiled(desk(act=AnyTool(name="x" * 64)(method("act", Stay, StageContext[None]))))


def test_e8_an_override_that_loses_its_mark() -> None:
    class Sub(Talk):
        def end(self, ctx: StageContext[None]) -> Go[End] | Stay:
            """End, without being offered."""
            return stay("no")

    class Kept(Talk):
        @tool
        def end(self, ctx: StageContext[None]) -> Stay:
            """End, later."""
            return stay("no")

    match = r"(?s)Sub.end: overrides a tool and is none itself \[lost-tool\].*Write `@tool` on the override as well"
    graph: Any = Graph("g", entry=Sub)
    refused(graph, "lost-tool", "Sub.end", match)
    compiled(only(Kept))


def test_e8_tools_that_are_static_or_class_methods() -> None:
    inside, outside = method("act", Stay, StageContext[None]), method("act", Stay, StageContext[None])
    for act in (staticmethod(tool(inside)), classmethod(tool(inside)), AnyTool(staticmethod(outside))):
        match = r"(?s)Desk.act: is a static or class method \[signature\].*Write `def act\(self, ctx, \.\.\.\)`"
        refused(desk(act=act), "signature", "Desk.act", match)
    compiled(desk(act=tool(inside)))


def test_g1_a_node_with_run_has_no_tools_and_no_model_hooks() -> None:
    class Both(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Finish:
            return finish("done")

        def prompt(self, ctx: StageContext[None]) -> str:
            return "never read"

        def on_response(self, ctx: StageContext[None], output: Any) -> None:
            return None

        @AnyTool  # type: ignore[untyped-decorator]
        def act(self, ctx: StageContext[None]) -> Stay:
            return stay("no")

    with pytest.raises(
        DefinitionError, match=r"(?s)Both.act: is a tool of a node that has `run`.*Remove it, or remove run"
    ):
        compiled(only(Both))
    assert kinds(only(Both)) == [("placement", f"Both.{n}") for n in ("prompt", "on_response", "act")]


def test_e8_a_tools_parameters_that_no_model_can_be_told_of() -> None:
    class Desk(Conversation[None]):
        @tool
        def act(self, ctx: StageContext[None], thing: object, amount: Decimal) -> Stay:
            """Act."""
            return stay("no")

    refused(only(Desk), "tool-parameter", "Desk.act", r"Desk.act: parameter thing: ")


def test_e8_a_tool_without_any_annotation_is_told_of_its_parameters_too() -> None:
    def bare(self, ctx, thing):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        """Do it."""

    found = kinds(desk(act=AnyTool(bare)))
    assert found == [("missing-annotation", "Desk.act"), ("tool-parameter", "Desk.act")]


def test_g7_timeouts_that_are_none_or_cannot_be_kept() -> None:
    class Slow(Conversation[None]):
        @tool(timeout=1)
        def sync(self, ctx: StageContext[None]) -> Stay:
            """Block."""
            return stay("no")

        @tool(timeout=1)
        async def awaits(self, ctx: StageContext[None]) -> Stay:
            """Wait."""
            return stay("no")

        @tool(timeout=0.5)
        def promised(self, ctx: StageContext[None]) -> Awaitable[Stay]:
            """Promise."""
            return self.awaits(ctx)

        @tool(timeout=1, blocking=True)
        def apart(self, ctx: StageContext[None]) -> Stay:
            """Block a thread of its own."""
            return stay("no")

        @AnyTool(blocking=True)  # type: ignore[untyped-decorator]
        async def both(self, ctx: StageContext[None]) -> Stay:
            """Wait in a thread."""
            return stay("no")

    with pytest.raises(DefinitionError, match=r"(?s)Slow.sync: has a timeout and is sync.*async, or blocking: `@tool"):
        compiled(only(Slow))
    assert kinds(only(Slow)) == [("timeout", "Slow.sync"), ("signature", "Slow.both")]
    with pytest.raises(DefinitionError, match=r"(?s)Slow.both: is async and blocking.*Leave out `blocking`"):
        compiled(only(Slow))

    class Sync(End):
        timeout = 1.0

    class Async(GraphNode[None]):
        timeout = 1

        async def run(self, ctx: StageContext[None]) -> Finish:
            return finish("done")

    class Driven(Talk):
        timeout = 1

    refused(only(Sync), "timeout", "Sync.timeout", "is sync, so that nothing can interrupt it")
    assert compiled(only(Async)).nodes["Async"].timeout == 1
    compiled(Graph("g", entry=Driven).stages(End))


@pytest.mark.parametrize("seconds", [0, -1, True, "5", float("nan"), float("inf")])
def test_g7_bad_timeouts(seconds: Any) -> None:
    match = r"(?s)timeout=.* \[timeout\].*Give seconds above 0, or None"
    refused(Graph("g", entry=made(Talk, "Late", timeout=seconds)).stages(End), "timeout", "Late.timeout", match)
    act = AnyTool(timeout=seconds)(method("act", Stay, StageContext[None]))
    refused(desk(act=act), "timeout", "Desk.act", match)


@pytest.mark.parametrize(
    ("name", "override", "match"),
    [
        ("prompt", "Be kind.", r"(?s)Desk.prompt: is a str, not a method.*Write `def prompt\(self, ctx\)`"),
        ("prompt", lambda self: "Be kind.", r"Desk.prompt: takes \(self\), and is called with ctx: too many"),
        ("prompt", method("prompt", int, StageContext[None]), r"(?s)Desk.prompt: may return int.*Write `-> str`"),
        ("prompt", method("prompt", str, StageContext[Note]), r"Desk.prompt: takes StageContext\[Note, object\]"),
        ("on_enter", lambda self, ctx: None, r"Desk.on_enter: takes \(self, ctx\), and is called with ctx, message"),
        (
            "on_enter",
            method("on_enter", int, Any, "message"),
            r"(?s)may return int.*`-> Message \| str \| None`, or one of",
        ),
        ("on_exit", method("on_exit", str, Any, "outcome"), r"(?s)Desk.on_exit: may return str.*Write `-> None`"),
        (
            "on_response",
            method("on_response", str, Any, "output", "more"),
            r"is called with ctx, output: missing a req",
        ),
        ("act", AnyTool(lambda self: None), r"Desk.act: takes \(self\), and is called with ctx"),
        ("act", AnyTool(lambda self, *, ctx: None), r"Desk.act: takes \(self, \*, ctx\), and is called with ctx"),
        ("prompt", property(lambda self: "x"), r"Desk.prompt: is a property, not a method"),
    ],
)
def test_e8_overrides_that_cannot_be_called_as_they_will_be(name: str, override: Any, match: str) -> None:
    """What pyright's basic mode does not report of an override."""
    with pytest.raises(DefinitionError, match=match) as wrong:
        compiled(desk(**{name: override}))
    assert wrong.value.problems[0].place == f"Desk.{name}"
    assert (
        len([p for p in wrong.value.problems if p.kind not in {"missing-annotation", "unresolvable-annotation"}]) == 1
    )


def test_e8_an_unresolvable_annotation_of_a_hook() -> None:
    hook = method("prompt", str, "Nowhere")
    refused(desk(prompt=hook), "unresolvable-annotation", "Desk.prompt", "the name 'Nowhere' in an annotation")


Kind = NewType("Kind", str)


@pytest.mark.parametrize("returns", [str, LiteralString, Literal["a", "b"], Kind, Any, Awaitable[str]])
def test_e8_a_prompt_may_say_more_closely_what_it_returns(returns: Any) -> None:
    assert compiled(desk(prompt=method("prompt", returns, Any))).nodes["Desk"].driver == "model"
    compiled(desk(on_enter=method("on_enter", returns | None, Any, "message")))


def test_e8_starred_parameters_take_what_they_are_handed() -> None:
    def run(*args: Any) -> Finish:
        return finish("done")

    compiled(only(made(BareNode, "Node", run=run)))


def test_e8_what_a_hook_is_handed_must_be_what_it_takes() -> None:
    class Counts(Worker[None, int]):
        @tool
        def give(self, ctx: Context[None]) -> TaskResult[int]:
            """Give."""
            return task_result(1)

        def on_enter(self, ctx: Context[None], message: Message) -> None:  # type: ignore[override]
            return None

        def on_response(self, ctx: Context[None], output: int) -> None:  # type: ignore[override]
            return None

        def on_exit(self, ctx: Context[None], output: str) -> None:  # type: ignore[override]
            return None

    with pytest.raises(
        DefinitionError, match=r"(?s)on_response: takes output: int, and may be handed str .*Write `output: str \| int`"
    ) as wrong:
        compiled(only(Counts))
    assert [(p.kind, p.place) for p in wrong.value.problems] == [
        ("override", "Counts.on_response"),
        ("override", "Counts.on_enter"),
        ("override", "Counts.on_exit"),
    ]

    class Wide(Counts):
        def on_enter(self, ctx: Context[None], message: object) -> None:
            return None

        def on_response(self, ctx: Context[None], output: int | str) -> None:
            return None

        def on_exit(self, ctx: Context[None], output: Any) -> None:
            return None

    compiled(only(Wide))


# ------------------------------------------------------------ outputs


def test_a6_a_tool_annotated_with_another_output() -> None:
    """What no checker can see, as a bound cannot hold a type variable."""

    class Wrong(Worker[None, int]):
        @tool
        def give(self, ctx: Context[None]) -> TaskResult[str]:
            """Give."""
            return task_result("one")

    match = (
        r"(?s)Wrong.give: may give TaskResult\[str\], and the output of the worker is int.*Write `TaskResult\[int\]`"
    )
    refused(only(Wrong), "output-type", "Wrong.give", match)


T = TypeVar("T")
Number = NewType("Number", int)


class Gives(Worker[None, T], Generic[T]):
    pass


def gives(output: Any, **attributes: Any) -> Any:
    """A worker of that output."""
    kind: Any = Gives
    return new_class("Node", (kind[output],), exec_body=lambda body: body.update(attributes))


@pytest.mark.parametrize(
    ("output", "given", "fits"),
    [
        (int, TaskResult[int], True),
        (int, TaskResult[bool], False),
        (int, TaskResult[Any], False),
        (int, TaskResult, False),
        (int, TaskResult[Number], True),
        (float, TaskResult[int], False),
        (int | None, TaskResult[int], True),
        (int | None, TaskResult[None], True),
        (int | None, TaskResult[int] | TaskResult[None], True),
        (int, TaskResult[int | None], False),
        (Union[int, None], TaskResult[int | None], True),  # noqa: UP007
        (Config, TaskResult[Larger], False),
        (Literal["a", "b"], TaskResult[Literal["a"]], True),
        (Literal["a", "b"], TaskResult[Literal["a", "c"]], False),
        (Literal[1], TaskResult[Literal[True]], False),
        (Literal["a"], TaskResult[str], False),
        (str, TaskResult[Literal["a"]], True),
        (tuple[int, ...], TaskResult[tuple[int, int]], True),
        (tuple[int, ...], TaskResult[tuple[Number, ...]], True),
        (tuple[int, int], TaskResult[tuple[int, ...]], False),
        (tuple[int, int], TaskResult[tuple[int, int, int]], False),
        (tuple[int, str], TaskResult[tuple[int, Literal["a"]]], True),
        (frozenset[str], TaskResult[frozenset[Literal["a"]]], True),
        (frozenset[str], TaskResult[tuple[str, ...]], False),
    ],
    ids=str,
)  # fmt: skip
def test_a6_an_output_is_of_its_type_exactly(output: Any, given: Any, fits: Any) -> None:
    """Rule F3: a subclass is not its base, as a load could not tell; a narrower union is fine."""
    node = gives(output, run=method("run", given, Any))
    if fits:
        compiled(only(node))
    else:
        with pytest.raises(DefinitionError, match=r"Node.run: may give TaskResult"):
            compiled(only(node))


def test_a6_text_is_an_output_only_where_the_type_is_str() -> None:
    class Says(Worker[None, int]):
        @tool
        def give(self, ctx: Context[None]) -> Direct | TaskResult[int]:
            """Give."""
            return task_result(1)

    class Hooked(Says):
        def on_response(self, ctx: Context[None], output: str | int) -> TaskResult[int]:
            return task_result(1)

    class Text(Worker[None, str]):
        def run(self, ctx: Context[None]) -> Direct:
            return direct("fine")

    match = r"(?s)Says.give: may give a text, and the output of the worker is int.*add an on_response that does"
    refused(only(Says), "output-type", "Says.give", match)
    compiled(only(Hooked))
    compiled(only(Text))


@pytest.mark.parametrize(
    ("output", "returns", "yields"),
    [
        (int, None, False),
        (str, None, False),
        (None, None, True),
        (int | None, None, True),
        (str, Direct, True),
        (int, TaskResult[int], True),
    ],
    ids=str,
)
def test_a6_a_worker_that_can_never_yield(output: Any, returns: Any, yields: Any) -> None:
    node = gives(output, run=method("run", returns, Any))
    if yields:
        compiled(only(node))
    else:
        match = r"(?s)Node: nothing of it yields its output (int|str).*Give it `run`, a tool that returns `TaskResult"
        refused(only(node), "output-type", "Node", match)


def test_a6_a_worker_that_may_give_nothing() -> None:
    node = gives(int, run=method("run", TaskResult[int] | None, Any))
    match = r"(?s)Node.run: may give nothing, and the output of the worker is int.*Always give a task_result"
    refused(only(node), "output-type", "Node.run", match)
    compiled(only(gives(int | None, run=method("run", TaskResult[int] | None, Any))))


def test_a6_a_model_driven_worker_yields_by_a_tool_or_as_text() -> None:
    class Silent(Worker[None, int]):
        """No tool, no run."""

    class Text(Worker[None, str]):
        """A model's text is its output."""

    refused(only(Silent), "output-type", "Silent", "nothing of it yields its output int")
    assert compiled(only(Text)).nodes["Text"].output is str
    compiled(only(BareWork))


# ------------------------------------------------------------ what only a call can refuse


def running(entry: Any, *stages: Any, workers: tuple[Any, ...] = (), model: Any = MODEL) -> Callable[[], object]:
    graph: Any = Graph("g", entry=entry).stages(*stages).workers(*workers)
    for worker in workers:
        graph = graph.edge(worker, END)
    app = graph.compile(model=model)
    return lambda: app.invoke("hi", session="s")


def test_b6_a_forgotten_return_is_told() -> None:
    """`go(X)` as a statement: the checkers see no fault in it where the annotation allows for a bare `return`."""

    class Forgets(Conversation[None]):
        @tool
        def end(self, ctx: StageContext[None]) -> Go[End]:  # type: ignore[return]
            """End."""
            go(End)

    with pytest.raises(OwnershipError, match=r'Forgets.end returned None.*Did you forget "return"\?') as wrong:
        running(Forgets, End, model=ScriptedModel(call("end")))()
    assert (wrong.value.node, wrong.value.handler, wrong.value.response) == ("Forgets", "end", None)


def test_a3_a_returned_subclass_of_the_declared_target_is_undeclared() -> None:
    class Sub(Other):
        pass

    class Picks(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Go[Other]:
            return go(Sub)

    class Also(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Go[Picks | Sub]:
            return go(Picks)

    with pytest.raises(UndeclaredRoute, match=r"Picks.run returned Go\[Sub\], but its return .* declares Go\[Other\]"):
        running(Also, Picks, Other, Sub)()
    with pytest.raises(UnknownTarget, match="Sub, which this graph does not have") as wrong:
        running(Picks, Other)()
    assert wrong.value.target == "Sub"


@pytest.mark.parametrize(
    ("workers", "match"),
    [
        ([V, V], r"fanout: a worker is named twice in V, V\. Write fanout\(A, B, \.\.\.\) with two or more"),
        ([V, W, V], r"a worker is named twice in V, W, V"),
        ([V], r"fanout: 1 given"),
        ([], r"fanout: 0 given"),
        ([V, End], r"fanout: End is not a worker"),
        ([V, "W"], r"fanout: 'W' is not a worker"),
    ],
)
def test_a3_a_fanout_of_too_few_or_the_same(workers: list[Any], match: str) -> None:
    """What `fanout(*some_list)` hides from the checkers."""
    with pytest.raises(InvalidResponse, match=match):
        fanout(*workers)


def test_a3_a_target_that_is_not_registered() -> None:
    class Sends(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[V | W]:
            return AnyFanout(workers=(V, X))  # type: ignore[no-any-return]

    with pytest.raises(UnknownTarget, match=r"X, which this graph does not have\. It has Sends, V, W") as wrong:
        running(Sends, workers=(V, W))()
    assert wrong.value.known == ("Sends", "V", "W")


def test_f3_a_context_of_another_type_is_refused_where_it_is_shared() -> None:
    """In a node that names no context, the checkers let anything through."""

    class Shares(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Finish:
            ctx.share(Note())
            return finish("done")

    match = r"Shares wrote the graph's context: \$ must be Config, and is Note"
    with pytest.raises(StateTypeError, match=match):
        AnyGraph("g", entry=Shares, context=Config()).compile().invoke("hi", session="s")
