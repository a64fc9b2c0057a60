"""What a state may be besides one thing: unions and immutable maps.  Rules F3, L4."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, MutableMapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Annotated, Any, Generic, Literal, NewType, Self, TypeVar

import pytest
from attrs import frozen
from hypothesis import given, settings, strategies as st
from immutables import Map
from msgspec.structs import replace
from strategies import Level, Point, Tree, Word, exactly
from typing_extensions import TypeAliasType

from ezgraph import CorruptSession, DefinitionError, Direct, Graph, GraphNode, StageContext, StateTypeError, direct
from ezgraph.activations import Activation, Row, Rows
from ezgraph.session import CONTEXT, Delta, Head, Session
from ezgraph.shapes import Flaw, checker, flaws, initial
from ezgraph.stores.codec import Codec
from ezgraph.stores.sqlite import SQLiteStore

T = TypeVar("T")


@frozen
class Card:
    number: str


@frozen
class Transfer:
    """Its field is named as a tag might be, and holds what a tag might be."""

    Card: str
    tag: str = "Card"


@frozen
class Box(Generic[T]):
    item: T


@frozen
class Either:
    """Holds itself through a union and through a map."""

    left: Either | int | None
    all: Map[str, Either | str] = Map()  # noqa: RUF009  it cannot be changed


@frozen
class Chain(Generic[T]):
    """Does not say its name."""

    item: T
    next: Self | int | None = None
    more: tuple[Self, ...] = ()
    named: Map[str, Self] = Map()  # noqa: RUF009  it cannot be changed


Money = NewType("Money", int)
Way = TypeAliasType("Way", Card | Transfer)
Name = NewType("Name", str)


def stored(tp: Any, value: Any) -> Any:
    codec = codec_of(tp)
    session = Session("s", "g", 1, Head("Intake"), cells={"Intake": value})
    return codec.document(session)["cells"]["Intake"]


def codec_of(tp: Any) -> Codec:
    return Codec("g", {"Intake": tp, CONTEXT: None}, {})


def loaded(tp: Any, cell: Any) -> Any:
    document = {"format": 1, "graph": "g", "version": 1, "revision": 1, "head": {"cursor": "Intake"}}
    return codec_of(tp).read("s", document | {"cells": {"Intake": cell}}, store="memory").cells["Intake"]


@pytest.mark.parametrize(
    ("tp", "value", "cell"),
    [
        (Card | Transfer, Card("7"), {"Card": {"number": "7"}}),
        (Card | Transfer, Transfer("x"), {"Transfer": {"Card": "x", "tag": "Card"}}),
        (Card | Transfer | None, None, None),
        (Card | Transfer | None, Card("7"), {"Card": {"number": "7"}}),
        (Way, Card("7"), {"Card": {"number": "7"}}),
        (Annotated[Way, "how"], Card("7"), {"Card": {"number": "7"}}),
        (Way | int, 7, {"int": 7}),
        (int | str, 7, {"int": 7}),
        (int | str, "7", {"str": "7"}),
        (bool | int, True, {"bool": True}),
        (bool | int, 1, {"int": 1}),
        (int | float, 1.0, {"float": 1.0}),
        (Money | str, 7, {"int": 7}),
        (date | datetime, date(2024, 2, 29), {"date": "2024-02-29"}),
        (date | datetime, datetime(2024, 2, 29), {"datetime": "2024-02-29T00:00:00"}),  # noqa: DTZ001  naive is meant
        (Word | str, Word.YES, {"Word": "YES"}),
        (Word | str, "yes", {"str": "yes"}),
        (Level | int | None, Level.LOW, {"Level": "LOW"}),
        (Literal["a", 1] | bytes, 1, {"Literal['a', 1]": 1}),
        (Literal["a", 1] | bytes, b"a", {"bytes": "YQ=="}),
        (tuple[int, ...] | int, (1, 2), {"tuple[int, ...]": [1, 2]}),
        (tuple[int | str, ...], (1, "a"), [{"int": 1}, {"str": "a"}]),
        (Box[int | str] | int, Box("a"), {"Box[int | str]": {"item": {"str": "a"}}}),
        (Point | Tree, Point(1, "a", 2.0), {"Point": {"x": 1, "label": "a", "weight": 2.0}}),
        (
            Either,
            Either(Either(3), Map(b="x", a=Either(None))),
            {
                "left": {"Either": {"left": {"int": 3}, "all": {}}},
                "all": {"a": {"Either": {"left": None, "all": {}}}, "b": {"str": "x"}},
            },
        ),
        (Map[str, int], Map(b=2, a=1), {"a": 1, "b": 2}),
        (Map[Name, int], Map(b=2, a=1), {"a": 1, "b": 2}),
        (Map[str, int] | None, None, None),
        (Map[str, int] | None, Map(a=1), {"a": 1}),
        (Map[int, str] | None, Map({2: "b", 1: "a"}), [[1, "a"], [2, "b"]]),
        (Map[date, Decimal], Map({date(2024, 2, 29): Decimal("1.50")}), [["2024-02-29", "1.50"]]),
        (Map[Word, int], Map({Word.NO: 1, Word.YES: 2}), [["NO", 1], ["YES", 2]]),
        (Map[str, Map[str, Card | int]], Map(a=Map(b=Card("7"))), {"a": {"b": {"Card": {"number": "7"}}}}),
        (Map[str, int] | int, Map(int=1), {"Map[str, int]": {"int": 1}}),
    ],
)
def test_l4_what_is_stored_says_what_it_is_outside_the_payload(tp: Any, value: Any, cell: Any) -> None:
    """FIELD S2, S10: and comes back equal, of the same types."""
    assert flaws(tp) == ()
    assert checker(tp)(value) is None
    assert stored(tp, value) == cell
    assert exactly(loaded(tp, json.loads(json.dumps(cell)))) == exactly(value)


@pytest.mark.parametrize(
    ("tp", "cell", "path", "told"),
    [
        (
            Card | Transfer,
            {"Cash": {}},
            "$.cells.Intake",
            'expected an object with one of "Card", "Transfer", got "Cash"',
        ),
        (Card | Transfer, {"Card": {"number": "7"}, "Transfer": {}}, "$.cells.Intake", "with one of .*, got an object"),
        (Card | Transfer, {}, "$.cells.Intake", "with one of .*, got an object"),
        (Card | Transfer, {"number": "7"}, "$.cells.Intake", 'got "number"'),
        (Card | Transfer, {"Card": {"number": 7}}, "$.cells.Intake.Card.number", "expected a string, got 7"),
        (Card | Transfer, None, "$.cells.Intake", "with one of .*, got null"),
        (int | str, 7, "$.cells.Intake", 'with one of "int", "str", got 7'),
        (int | str, {"int": True}, "$.cells.Intake.int", "expected an integer, got true"),
        (int | str | None, {"int": "7"}, "$.cells.Intake.int", 'expected an integer, got "7"'),
        (Map[str, int], {"a": "x"}, '$.cells.Intake["a"]', 'expected an integer, got "x"'),
        (Map[str, int], [["a", 1]], "$.cells.Intake", "expected an object, got a list of 1"),
        (Map[int, str], {"1": "a"}, "$.cells.Intake", "expected a list, got an object"),
        (Map[int, str], [[1, "a"], [1, "b"]], "$.cells.Intake", "expected each key once"),
        (Map[int, str], [["1", "a"]], "$.cells.Intake[0][0]", 'expected an integer, got "1"'),
        (Map[int, str], [[1]], "$.cells.Intake[0]", "expected a list of 2, got a list of 1"),
    ],
)
def test_l4_nothing_is_guessed_where_the_tag_does_not_say(tp: Any, cell: Any, path: str, told: str) -> None:
    """FIELD S10: an unknown tag is an error."""
    with pytest.raises(CorruptSession, match=told) as caught:
        loaded(tp, cell)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("tp", "value", "wrong"),
    [
        (int | str, True, ("$", "int | str", "bool")),
        (int | str, "\ud800", ("$", "str, text that UTF-8 can encode", r"'\ud800'")),
        (Card | Transfer, {"number": "7"}, ("$", "Card | Transfer", "dict")),
        (Card | Transfer, Card(7), ("$.number", "str", "int")),  # type: ignore[arg-type]
        (Card | Transfer | None, 7, ("$", "Card | Transfer | None", "int")),
        (Map[str, int], {"a": 1}, ("$", "Map[str, int]", "dict")),
        (Map[str, int], Map(a=True), ("$['a']", "int", "bool")),
        (Map[str, int], Map({1: 1}), ("$[key]", "str", "int")),
        (Map[int, Card], Map({7: Card(7)}), ("$[7].number", "str", "int")),  # type: ignore[arg-type]
        (Map[bool, int], Map({1: 1}), ("$[key]", "bool", "int")),
    ],
)
def test_f3_a_value_is_of_a_member_to_the_last_field(tp: Any, value: Any, wrong: tuple[str, str, str]) -> None:
    assert checker(tp)(value) == wrong


def test_f3_what_nests_too_deep_through_a_map_is_refused() -> None:
    """What could not be loaded again is not saved."""
    deep = Either(0)
    for _ in range(60):
        deep = Either(None, Map(a=deep))
    assert checker(Either)(deep) == ("$", "nested at most 100 deep", "nested deeper")


@pytest.mark.parametrize(
    ("tp", "what", "mend"),
    [
        (
            tuple[int, ...] | tuple[str, int],
            "a tuple could be of two members",
            "Write one frozen class with an optional",
        ),
        (frozenset[int] | frozenset[str], "a frozenset could be of two members", "Write one frozen class"),
        (Box[int] | Box[str], "a Box could be of two members", "Write one frozen class"),
        (Literal["a"] | str, "a str could be of two members", "Write one frozen class"),  # noqa: PYI051  on purpose
        (Money | int | str, "a int could be of two members", "Write one frozen class"),
        (Map[str, int] | Map[int, int], "a Map could be of two members", "Write one frozen class"),
        (int | list[int], "list[int] can be changed", "Write tuple[int, ...]."),
        (Map, "Map does not say what it holds", "Write immutables.Map[X, Y]."),
        (Map[Card, int], "Map[Card, int] has keys that are not plain values", "Write tuple[tuple[Card, int], ...]."),
        (Map[str, list[int]], "list[int] can be changed", "Write tuple[int, ...]."),
        (dict[str, int], "dict[str, int] can be changed", "Write immutables.Map[str, int], or a frozen attrs class."),
        (Mapping[str, int], "Mapping[str, int] can be changed", "Write immutables.Map[str, int]"),
        (MutableMapping[str, int], "MutableMapping[str, int] can be changed", "Write immutables.Map[str, int]"),
        (MappingProxyType[str, int], "mappingproxy[str, int] can be changed", "Write immutables.Map[str, int]"),
        (set[int], "set[int] can be changed", "Write frozenset[int]."),
    ],
)
def test_f3_what_could_not_be_told_apart_or_could_change_is_a_flaw(tp: Any, what: str, mend: str) -> None:
    (flaw,) = flaws(tp)
    assert what in flaw.what
    assert flaw.mend.startswith(mend)


def test_f3_two_classes_of_one_name_are_not_told_apart() -> None:
    def made() -> Any:
        @frozen
        class Twin:
            n: int

        return Twin

    one, other = made(), made()
    (flaw,) = flaws(one | other)
    assert "two members are called" in flaw.what
    assert flaw.mend == "Give one of the classes another name."


@frozen
class Well:
    """Holds itself in every way that a stored form has levels of its own for: tags, pairs, and plain fields."""

    one: Well | int = 0
    all: Map[int, Well | str | None] = Map()  # noqa: RUF009  it cannot be changed
    some: tuple[Well, ...] = ()
    pair: tuple[int, Well | int] | None = None


def nested(depth: int, chance: Random) -> Well:
    """A value that a checker counts as `depth` deep, or one less: a container is a level, and what is in it another."""
    made = Well()
    while depth > 2:
        match chance.choice(("one", "all", "some", "pair")):
            case "one":
                made, depth = Well(made), depth - 1
            case "all":
                made, depth = Well(all=Map({7: made})), depth - 2
            case "some":
                made, depth = Well(some=(made,)), depth - 2
            case _:
                made, depth = Well(pair=(1, made)), depth - 2
    return made


@given(st.integers(60, 130), st.integers(0, 2**32), st.sampled_from(["cells", "results", "series", "activation"]))
@settings(max_examples=200, deadline=None)
def test_l4_whatever_is_accepted_loads_however_deep_it_nests(depth: int, seed: int, where: str) -> None:
    """From the parts that a step writes, wherever a value may stand in them: what is refused is refused at save."""
    value = nested(depth, Random(seed))
    if checker(Well)(value) is not None:
        return
    codec = Codec("g", {"Intake": Well, "Work": Well, CONTEXT: None}, {"Work": Well})
    opened = Activation(
        1, "Intake", ("Work",), 1, Rows([Row("Work", value, 2, {"Work": value}, item=0)]), inputs=(value,)
    )
    parts: dict[str, Any] = {
        "cells": {"Intake": value},
        "results": {"Work": value},
        "series": {"Work": (value,)},
        "activation": opened,
    }
    session = Session("s", "g", 1, Head("Intake"), **{where: parts[where]})
    delta = Delta("s", "g", 1, Head("Intake"), cells=parts["cells"] if where == "cells" else {})
    if where == "activation":
        delta = replace(delta, opened=opened)
    if where in ("results", "series"):
        delta = replace(delta, results=("Work",))
    rows = sorted(codec.changes(session, delta).puts, key=lambda part: part[:3])
    assert codec.loaded("s", rows, store="memory", graph="g", version=1, revision=1) == session
    assert codec.read("s", codec.document(session), store="memory") == session


@pytest.mark.parametrize("depth", [50, 90, 99])
def test_l4_the_deepest_state_that_a_step_saves_is_there_in_another_process(tmp_path: Path, depth: int) -> None:
    """Not a value alone: through a turn, a file and a fresh store."""

    class Digs(GraphNode[Well]):
        def run(self, ctx: StageContext[Well]) -> Direct:
            made = Well()
            for _ in range(depth - 1):
                made = Well(made)
            ctx.save(made)
            return direct("saved")

    graph = Graph("g", entry=Digs)
    with SQLiteStore(tmp_path / "s.db") as store:
        assert graph.compile(store=store).invoke("dig", session="s").reply == "saved"
    with SQLiteStore(tmp_path / "s.db") as store:
        app = graph.compile(store=store)
        value: Any = app.read(app.load("s"), Digs)
        for _ in range(depth - 1):
            value = value.one
        assert value == Well()
        store.copy("s", "copied")
        assert app.read(app.load("copied"), Digs) == app.read(app.load("s"), Digs)


def test_f3_what_annotated_says_need_not_be_hashable() -> None:
    check = checker(tuple[Annotated[int | str, ["a note"]], ...])
    assert (check((1, "a")), check((1, b"a"))) == (None, ("$[1]", "int | str", "bytes"))


def test_f8_what_a_union_and_a_map_are_before_they_are_written() -> None:
    assert initial(Map[str, int]) == Map()
    assert initial(Card | Transfer | None) is None
    assert checker(int | str)(initial(int | str)) is not None, "there is none"


@frozen
class Deep:
    a: tuple[Map[str, Any], ...]


class Saves(GraphNode[Map[str, "tuple[Card | int, ...]"]]):
    def run(self, ctx: StageContext[Map[str, tuple[Card | int, ...]]]) -> Direct:
        wrong: Any = object()
        ctx.save(Map(a=(Card("7"), wrong)))
        return direct("saved")


def test_f3_a_wrong_value_is_named_with_its_path_its_type_and_its_node() -> None:
    """FIELD S6."""
    app = Graph("g", entry=Saves).compile()
    with pytest.raises(StateTypeError, match=r"\$\['a'\]\[1\] must be Card \| int, and is object") as caught:
        app.invoke("hi", session="s")
    assert (caught.value.node, caught.value.path) == ("Saves", "$['a'][1]")


def test_l4_a_type_that_cannot_be_kept_is_told_at_compile_with_its_path() -> None:
    class Wrong(GraphNode[Deep]):
        def run(self, ctx: StageContext[Deep]) -> Direct:
            return direct("")

    with pytest.raises(DefinitionError, match=r"\$.a\[\*\]\[\*\] Any is not a type that can be loaded"):
        Graph("g", entry=Wrong).compile()


def test_l4_self_is_the_class_with_its_arguments() -> None:
    made: Any = Chain
    value = made("a", made("b", 1), (made("c"),), Map(d=made("e")))
    assert checker(Chain[str])(value) is None
    assert list(stored(Chain[str], value)["next"]) == ["Chain[str]"]
    assert loaded(Chain[str], stored(Chain[str], value)) == value
    assert checker(Chain[str])(made("a", more=(made(1),))) == ("$.more[0].item", "str", "int")


def alias_of_itself() -> Any:
    if sys.version_info >= (3, 12):
        there: dict[str, Any] = {}
        exec("type Json = int | tuple[Json, ...]", there)
        return there["Json"]
    make: Any = TypeAliasType
    series: Any = tuple
    alias = make("Json", int)
    object.__setattr__(alias, "__value__", int | series[alias, ...])
    return alias


def test_f3_an_alias_that_holds_itself_is_refused() -> None:
    flaw = Flaw("$[*]", "Json holds itself outside a class", "Write a frozen attrs class that does.")
    assert flaws(alias_of_itself()) == (flaw,)
    assert flaws(tuple[Way, Way]) == ()
