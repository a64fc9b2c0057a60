"""Draws what a session is made of: state types with values of them, messages, deltas and whole sessions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from typing import Any, Literal, NamedTuple, Optional, TypeAlias, Union
from uuid import UUID

import attrs
from attrs import frozen
from hypothesis import strategies as st
from immutables import Map
from msgspec.structs import replace

from ezgraph.activations import Activation, Place, Row, Rows
from ezgraph.histories import Addition
from ezgraph.messages import Message, ToolCall, Usage, assistant, instruction, tool_result, user
from ezgraph.notes import Note, Said
from ezgraph.session import CONTEXT, END, Delta, ErrorRecord, Head, Limits, Session, apply
from ezgraph.shapes import flaws
from ezgraph.stores.codec import Codec

Typed: TypeAlias = tuple[Any, "st.SearchStrategy[Any]"]
"""A type, and a strategy for values of it."""


class Colour(Enum):
    RED = (255, 0, 0)
    GREEN = object()


class Word(str, Enum):  # noqa: UP042  what people have
    YES = "yes"
    NO = "no"
    AYE = "yes"  # noqa: PIE796  an alias


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Right(Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    label: str
    weight: float = 1.0


@frozen
class Tree:
    """Holds itself through a tuple, through None, and through what else it may be."""

    value: int
    children: tuple[Tree, ...] = ()
    next: Tree | None = None
    named: Map[str, Tree | Point] = Map()  # noqa: RUF009  it cannot be changed


offsets = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
instants = st.datetimes(timezones=st.none() | offsets).map(lambda moment: moment.replace(fold=0))
times = st.times(timezones=st.none() | offsets).map(lambda moment: moment.replace(fold=0))
decimals = st.decimals(allow_nan=False, allow_infinity=False)
huge = st.integers(min_value=-(10**300), max_value=10**300)
points = st.builds(Point, st.integers(), st.text(), st.floats(allow_nan=False, allow_infinity=False))
trees = st.recursive(
    st.builds(Tree, st.integers()),
    lambda inner: st.builds(
        Tree,
        st.integers(),
        st.lists(inner, max_size=3).map(tuple),
        st.none() | inner,
        st.dictionaries(st.text(), inner | points, max_size=2).map(Map),
    ),
    max_leaves=6,
)

LEAVES: tuple[Typed, ...] = (
    (bool, st.booleans()),
    (int, st.integers() | huge),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, st.text()),
    (bytes, st.binary()),
    (Decimal, decimals),
    (date, st.dates()),
    (datetime, instants),
    (time, times),
    (timedelta, st.timedeltas()),
    (UUID, st.uuids()),
    (Colour, st.sampled_from(Colour)),
    (Word, st.sampled_from(Word)),
    (Level, st.sampled_from(Level)),
    (Right, st.sampled_from([Right(0), Right.READ, Right.WRITE, Right.READ | Right.WRITE])),
    (Literal["a", 1, True], st.sampled_from(["a", 1, True])),
)
leaves = st.sampled_from(LEAVES)
NAMES = ("a", "b", "_hidden", "cls", "value", "converter")


@st.composite
def _classes(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    """A frozen attrs class made for the occasion, and its values."""
    fields = draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=3))
    made: Any = attrs.make_class(
        "Made",
        {name: attrs.field(type=tp, alias=f"give_{name.strip('_')}") for name, (tp, _) in fields.items()},
        frozen=True,
        slots=draw(st.booleans()),
    )
    return made, st.builds(made, **{f"give_{name.strip('_')}": values for name, (_, values) in fields.items()})


@st.composite
def _named_tuples(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    fields = draw(st.dictionaries(st.sampled_from(["a", "b", "value"]), inner, min_size=1, max_size=3))
    make: Any = NamedTuple
    made = make("Made", [(name, tp) for name, (tp, _) in fields.items()])
    return made, st.builds(made, *(values for _, values in fields.values()))


_Tuple: Any = tuple
_FrozenSet: Any = frozenset
_Optional: Any = Optional
_Map: Any = Map


def _union(parts: list[Typed]) -> Typed:
    return Union[tuple(tp for tp, _ in parts)], st.one_of(*(values for _, values in parts))  # noqa: UP007  drawn


def _unions(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    """Unions whose members are told apart; None may be one of them."""
    some = st.lists(inner | st.just((None, st.none())), min_size=2, max_size=4)
    return some.map(_union).filter(lambda one: not flaws(one[0]))


def _tables(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.tuples(leaves, inner).map(
        lambda both: (_Map[both[0][0], both[1][0]], st.dictionaries(both[0][1], both[1][1], max_size=3).map(Map))
    )


def _containers(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.one_of(
        inner.map(lambda one: (_Tuple[one[0], ...], st.lists(one[1], max_size=3).map(tuple))),
        st.lists(inner, max_size=3).map(
            lambda parts: (_Tuple[tuple(tp for tp, _ in parts)], st.tuples(*(values for _, values in parts)))
        ),
        leaves.map(lambda one: (_FrozenSet[one[0]], st.frozensets(one[1], max_size=3))),
        inner.map(lambda one: (_Optional[one[0]], st.none() | one[1])),
        _classes(inner),
        _named_tuples(inner),
        _unions(inner),
        _tables(inner),
    )


typed: st.SearchStrategy[Typed] = st.recursive(
    st.one_of(leaves, st.sampled_from(((None, st.none()), (Tree, trees), (Point, points)))),
    _containers,
    max_leaves=5,
)
"""State types of every shape, each with a strategy for its values."""


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    """A state type and one value of it."""
    tp, values = draw(typed)
    return tp, draw(values)


def exactly(value: Any) -> Any:
    """A form of a value that is equal only where type and content are, unlike 1, True, 1.0 and Decimal('1.0')."""
    if attrs.has(type(value)):
        return type(value), tuple(exactly(getattr(value, one.name)) for one in attrs.fields(type(value)))
    if isinstance(value, tuple):
        return type(value), tuple(map(exactly, value))
    if isinstance(value, frozenset):
        return frozenset, frozenset(map(exactly, value))
    if isinstance(value, Map):
        return Map, frozenset((exactly(key), exactly(one)) for key, one in value.items())
    return type(value), value, str(value)


# ------------------------------------------------------------------------------------------------------------- sessions

STAGES = ("Intake", "Settle")
WORKERS = ("Valuation", "FraudCheck")
NODES = (*STAGES, *WORKERS)
TOOLS = ("Intake.report", "Valuation.look")
SPACES = ("default", "internal notes")

counts = st.integers(0, 10**12)
usages = st.builds(Usage, counts, counts, counts)
calls = st.builds(ToolCall, st.text(), st.text(), st.text())
messages: st.SearchStrategy[Message] = st.one_of(
    st.text().map(user),
    st.text().map(instruction),
    st.builds(assistant, st.text(), st.lists(calls, max_size=2).map(tuple)),
    st.builds(tool_result, st.text(), st.text()),
)
additions = st.builds(Addition, st.lists(messages, max_size=3).map(tuple))
items = st.none() | st.integers(0, 3)
places: st.SearchStrategy[Place] = st.tuples(st.sampled_from(WORKERS), items)


@frozen
class Kept:
    """What a graph keeps: types by node, with strategies, and the codec made of them.

    Attributes:
        states: By node, and the context's.
        outputs: By worker.
        answers: What tools give as a task result, by the tool's key.
        entry: The worker that a job begins with, or None.
        codec: Made of them.
    """

    states: Mapping[str, Typed]
    outputs: Mapping[str, Typed]
    answers: Mapping[str, Typed]
    entry: str | None
    codec: Codec

    @property
    def cursors(self) -> tuple[str, ...]:
        """What may be the cursor while the graph has not ended.  Rules B4, E12."""
        return STAGES if self.entry is None else (*STAGES, self.entry)


def _types(typed: Mapping[str, Typed]) -> dict[str, Any]:
    return {name: tp for name, (tp, _) in typed.items()}


@st.composite
def kept(draw: st.DrawFn) -> Kept:
    """The types of a graph with two stages and two workers, each kind with a tool; it may be a job."""
    states = {name: draw(typed) for name in (*NODES, CONTEXT)}
    outputs = {name: draw(typed) for name in WORKERS}
    answers = {key: draw(typed) for key in TOOLS}
    entry = draw(st.sampled_from([None, WORKERS[0]]))
    codec = Codec("claims", _types(states), _types(outputs), entry=entry, answers=_types(answers))
    return Kept(states, outputs, answers, entry, codec)


def _some(types: Mapping[str, Typed]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: values for name, (_, values) in types.items()})


def _lists(types: Mapping[str, Typed]) -> dict[str, Typed]:
    return {name: (tp, st.lists(values, max_size=2).map(tuple)) for name, (tp, values) in types.items()}


def _one(types: Mapping[str, Typed]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(*(st.fixed_dictionaries({name: values}) for name, (_, values) in types.items()))


spending: st.SearchStrategy[dict[str, Usage]] = st.dictionaries(st.sampled_from(NODES), usages, max_size=2)


def _heads(cursors: tuple[str, ...], before: st.SearchStrategy[Head | None]) -> st.SearchStrategy[Head]:
    made = st.builds(
        Head, st.sampled_from(cursors), st.booleans(), st.booleans(), counts, counts, st.none() | messages, before
    )
    return made.map(_whole)


def _whole(head: Head) -> Head:
    """No run is owed at END, and none has raised that is not owed."""
    owed = head.owed and head.cursor != END
    return replace(head, owed=owed, raised=owed and head.raised)


def heads(of: Kept) -> st.SearchStrategy[Head]:
    """Where a session stands; one that a step of its first turn has written to knows where input found it."""
    return _heads((*of.cursors, END), st.none() | _heads(of.cursors, st.none()))


@st.composite
def rows(draw: st.DrawFn, of: Kept) -> Row:
    """What one worker did, for an item or once."""
    node, item = draw(places)
    return Row(node, draw(of.outputs[node][1]), draw(counts), draw(_some(of.states)), draw(spending), item)


def _all_rows(of: Kept) -> st.SearchStrategy[list[Row]]:
    return st.lists(rows(of), max_size=3, unique_by=lambda row: row.place)


@st.composite
def activations(draw: st.DrawFn, of: Kept) -> Activation:
    """Open parallel work: a scatter over inputs (none of them, too), or another opening."""
    roots: tuple[str, ...] = WORKERS
    inputs: tuple[Any, ...] | None = None
    if draw(st.booleans()):
        root = draw(st.sampled_from(WORKERS))
        roots, inputs = (root,), tuple(draw(st.lists(of.states[root][1], max_size=3)))
    marks = draw(st.frozensets(places, max_size=3))
    parent = draw(st.sampled_from(of.cursors))
    return Activation(draw(counts), parent, roots, draw(counts), Rows(draw(_all_rows(of))), marks, inputs)


def said(of: Kept) -> st.SearchStrategy[Said]:
    """A finished call's outcome, of every kind."""
    effects: dict[str, Any] = {
        "usage": st.none() | usages,
        "feedback": st.none() | st.text(),
        "messages": st.lists(messages, max_size=2).map(tuple),
    }
    texts = [st.builds(Said, st.just(kind), st.text(), **effects) for kind in ("stay", "direct", "finish")]
    routed: dict[str, Any] = {"message": st.none() | messages, "target": st.sampled_from(STAGES), **effects}
    routed["state"] = st.just({}) | _one(of.states)
    fans = {"workers": st.lists(st.sampled_from(WORKERS), min_size=1, max_size=2).map(tuple)}
    return st.one_of(
        *texts,
        st.builds(Said, st.just("go"), **routed),
        st.builds(Said, st.just("direct_to"), st.text(), **routed),
        st.builds(
            Said,
            st.just("fanout"),
            inputs=st.none() | _one(_lists({name: of.states[name] for name in WORKERS})),
            **fans,
            **effects,
        ),
        st.builds(Said, st.just("task_result"), value=_one(of.answers), **effects),
    )


def notes(of: Kept) -> st.SearchStrategy[Note]:
    """An entry of a journal, of every kind: entered, asked, said, a finished call, a called worker."""
    where: dict[str, Any] = {"node": st.sampled_from(NODES), "item": items}
    did: dict[str, Any] = {
        "cells": _some(of.states),
        "adds": st.dictionaries(st.sampled_from(SPACES), additions, max_size=1),
        "usage": spending,
    }
    worked = {"worker": st.sampled_from(WORKERS), "state": _one(of.states), "output": _one(of.outputs)}
    return st.one_of(
        st.builds(Note, **where, at=st.just("enter"), **did),
        st.builds(Note, **where, at=st.just("prompt"), text=st.text()),
        st.builds(Note, **where, at=st.just("reply 0"), text=st.text(), calls=st.lists(calls, max_size=2).map(tuple)),
        st.builds(Note, **where, at=st.just("call 0.1"), outcome=said(of), **did),
        st.builds(Note, **where, at=st.just("call 0.1/0"), **worked, **did),
    )


logged = st.builds(ErrorRecord, counts, st.text(), st.text(), st.text(), st.sampled_from(["error", "warning"]))


@st.composite
def deltas(draw: st.DrawFn, of: Kept, before: Session) -> Delta:
    """Any delta that `apply` can add to `before`: no row is written twice."""
    anew = draw(st.sampled_from([False, False, False, True]))
    if anew:
        before = replace(before, histories={}, activation=None)
    added = {}
    for space in draw(st.sets(st.sampled_from(SPACES))):
        there = len(before.histories.get(space, ()))
        added[space] = Addition(draw(st.lists(messages, max_size=3).map(tuple)), draw(st.integers(0, min(there, 1))))
    opened = draw(st.none() | activations(of))
    activation = opened or before.activation
    known: Mapping[Place, Row] = {} if activation is None else activation.rows
    new = tuple(row for row in draw(_all_rows(of)) if row.place not in known)
    filled = set(known) | {row.place for row in new if activation is not None}
    items = range(len(activation.inputs or ())) if activation is not None else ()
    once = [worker for worker in WORKERS if (worker, None) in filled]
    each = [worker for worker in WORKERS if all((worker, item) in filled for item in items)]
    return Delta(
        before.id,
        before.graph,
        before.revision + 1,
        draw(heads(of) if before.revision == 0 else st.none() | heads(of)),
        draw(st.none() | st.builds(Limits, counts, counts)),
        draw(_some(of.states)),
        added,
        draw(spending),
        opened,
        new,
        draw(st.none() | st.lists(places, max_size=2).map(tuple)),
        draw(st.booleans()),
        draw(st.none() | (st.lists(st.sampled_from(once), unique=True).map(tuple) if once else st.just(()))),
        draw(st.lists(st.sampled_from(each), unique=True).map(tuple) if each else st.just(())),
        draw(st.lists(logged, max_size=1).map(tuple)),
        draw(st.lists(notes(of), max_size=2).map(tuple)),
        draw(st.booleans()),
        anew,
    )


@st.composite
def histories(draw: st.DrawFn, most: int = 3) -> tuple[Kept, tuple[Delta, ...], Session]:
    """A graph's types, the deltas of a session of it, and the session they make."""
    of = draw(kept())
    session, made = Session("c-17", "claims", 0, Head("")), []
    for _ in range(draw(st.integers(1, most))):
        delta = draw(deltas(of, session))
        made.append(delta)
        session = apply(session, delta)
    return of, tuple(made), session
