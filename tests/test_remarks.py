"""What `Annotated` says of a type to others is nothing to us, hashable or not.  Rules D2, L4."""

from __future__ import annotations

from typing import Annotated, Any, Generic, NamedTuple, NewType, TypeVar

import pytest
from attrs import frozen
from immutables import Map
from msgspec import Meta
from typing_extensions import TypeAliasType

from ezgraph import END, Context, Conversation, Graph, GraphNode, StageContext, TaskResult, Worker, task_result, tool
from ezgraph.arguments import parameters_of
from ezgraph.models import ScriptedModel, call
from ezgraph.session import CONTEXT, Head, Session
from ezgraph.shapes import checker, describe
from ezgraph.stores.codec import Codec
from ezgraph.stores.sqlite import SQLiteStore

T = TypeVar("T")
Marked = Annotated[int, "x", [1]]
Limited = Annotated[int, [1], Meta(ge=1)]
Name = NewType("Name", tuple[Marked, ...])
Alias = TypeAliasType("Alias", tuple[Marked, ...])


@frozen
class Line:
    price: Marked = 1
    more: tuple[Annotated[str, {}], ...] = ()
    inner: Line | None = None


@frozen
class Box(Generic[T]):
    one: T
    more: tuple[T, ...] = ()


class Pair(NamedTuple):
    left: Marked
    right: Map[str, Marked]


CASES: list[tuple[Any, object]] = [
    (Marked, 3),
    (Annotated[int | str, [1]], "a"),
    (Annotated[Line, [1]], Line(2, ("a",), Line(3))),
    (Line, Line(2)),
    (Box[Marked], Box(1, (2,))),
    (Box[Line], Box(Line(), (Line(2),))),
    (Pair, Pair(1, Map({"a": 2}))),
    (tuple[Marked, ...], (1, 2)),
    (tuple[Marked, str], (1, "a")),
    (frozenset[Marked], frozenset({1})),
    (Map[Marked, tuple[Marked, ...]], Map({1: (2,)})),
    (Name, (1,)),
    (Alias, (1,)),
    (Annotated[Annotated[int | None, {}], []], None),
]


@pytest.mark.parametrize(("tp", "value"), CASES, ids=map(str, range(len(CASES))))
def test_l4_a_remark_of_others_changes_nothing(tp: Any, value: object) -> None:
    codec = Codec("bills", {"Ask": tp, "Look": tp, CONTEXT: None}, {"Look": tp}, answers={"Ask.report": tp})
    session = Session("c-17", "bills", 1, Head("Ask"), cells={"Ask": value})
    assert codec.read("c-17", codec.document(session), store="memory").cells["Ask"] == value
    assert checker(tp)(value) is None
    assert checker(tp)(b"no") is not None
    assert describe(tp)


@pytest.mark.parametrize(
    ("tp", "given", "value"),
    [
        (Marked, "3", 3),
        (Line, '{"price": 2, "more": ["a"]}', Line(2, ("a",))),
        (Box[Marked], '{"one": 1, "more": [2]}', Box(1, (2,))),
        (list[Marked], "[1]", [1]),
        (dict[str, Marked], '{"a": 1}', {"a": 1}),
    ],
)
def test_d2_a_tool_takes_what_others_remarked_upon(tp: Any, given: str, value: object) -> None:
    def handler(self: object, ctx: object, value: Any) -> None: ...

    parameters, flaws = parameters_of(handler, {"value": tp})
    assert flaws == ()
    assert parameters is not None
    assert parameters.structure(f'{{"value": {given}}}') == {"value": value}


def test_d2_what_is_said_to_us_beside_it_holds() -> None:
    def handler(self: object, ctx: object, value: Any) -> None: ...

    parameters, _ = parameters_of(handler, {"value": list[Limited]})
    assert parameters is not None
    with pytest.raises(Exception, match=r"value\[0\]: expected an integer of at least 1, got 0"):
        parameters.structure('{"value": [0]}')


class Look(Worker[Marked, Marked]):
    def run(self, ctx: Context[Marked]) -> TaskResult[Marked]:
        return task_result(ctx.state + 1)


class Tell(GraphNode[Marked]):
    def run(self, ctx: StageContext[Marked]) -> None:
        ctx.save(ctx.state + 1)


class Ask(Conversation[Marked]):
    """Asks."""

    @tool
    def report(self, ctx: Context[Marked], value: Marked, line: Box[Marked]) -> TaskResult[Box[Marked]]:
        """Report."""
        ctx.save(value)
        return task_result(Box(value, (line.one,)))


def test_l4_a_graph_of_remarked_types_compiles_and_runs(tmp_path: Any) -> None:
    with SQLiteStore(tmp_path / "bills.db") as store:
        model = ScriptedModel(call("report", value=3, line={"one": 4}))
        app = Graph("bills", entry=Ask).compile(model=model, store=store)
        assert app.invoke("hello", session="c-17").reply == '{"more":[4],"one":3}'
        assert app.read(app.load("c-17"), Ask) == 3
    Graph("told", entry=Tell).compile()
    Graph("job", entry=Look).edge(Look, END).compile()
