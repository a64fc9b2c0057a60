"""What a session keeps, as plain JSON parts and back, by declared types and by nothing that stands in the data.

Every hook is strict: what it would not dump it does not load.  The text around it is the codec's.  Rule L4.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Flag
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, NewType, NoReturn, TypeAlias, get_args, get_origin
from uuid import UUID

from attrs import NOTHING, Attribute
from cattrs.gen import make_dict_unstructure_fn_from_attrs
from immutables import Map
from msgspec import Meta, Struct, json

from ezgraph.activations import Activation, Place, Row, Rows
from ezgraph.histories import Addition, History
from ezgraph.messages import Message, ToolCall, Usage
from ezgraph.notes import GONE, Note, Raised, Said
from ezgraph.records import (
    Choice,
    Maybe,
    OneOf,
    Table,
    attributes,
    bare,
    describe,
    is_record,
    kinds_of,
    named_fields,
    shape_of,
)
from ezgraph.session import CONTEXT, END, ErrorRecord, Head, Limits, Session
from ezgraph.shapes import LEAF_TESTS
from ezgraph.stores.parts import FORMAT
from ezgraph.structuring import Hook, Misfit, Name, Named, Single, Strict, each, exactly, found, is_enum, single
from ezgraph.unions import is_union, members_of

Dump: TypeAlias = Callable[[Any], Any]

_OURS: Final = (Message, ToolCall, Usage, ErrorRecord)
"""Records of the engine.  Their defaults are part of the format, so they are left out; an author's may change."""

# For each scalar that JSON lacks: dump, load, and the form in words.
_FORMS: Final[dict[type, tuple[Dump, Callable[[Any], Any], str]]] = {
    bytes: (lambda value: b64encode(value).decode(), partial(b64decode, validate=True), "base64"),
    Decimal: (str, Decimal, "a decimal number as a string"),
    UUID: (str, UUID, "a UUID"),
    date: (date.isoformat, date.fromisoformat, "a date as YYYY-MM-DD"),
    datetime: (datetime.isoformat, datetime.fromisoformat, "a date and time in ISO 8601"),
    time: (time.isoformat, time.fromisoformat, "a time in ISO 8601"),
    timedelta: (
        lambda span: [span.days, span.seconds, span.microseconds],
        lambda parts: timedelta(**dict(zip(("days", "seconds", "microseconds"), parts, strict=True))),
        "[days, seconds, microseconds]",
    ),
}


def _canonical(cls: type, value: Any) -> object:
    """Only what the dump would write: parsers take more, and 1e3 for 1000 would load as something else."""
    dump, load, _ = _FORMS[cls]
    made = load(value)
    if type(made) is not cls or dump(made) != value or (cls in LEAF_TESTS and not LEAF_TESTS[cls][0](made)):
        raise ValueError
    return made


def _flag(cls: type[Flag], value: Any) -> object:
    made = cls(exactly(int, value))
    if type(made) is not cls or made.value != value:
        raise ValueError
    return made


_SINGLES: Final[dict[type, Single]] = {
    type(None): ("null", partial(exactly, type(None))),
    bool: ("true or false", partial(exactly, bool)),
    int: ("an integer", partial(exactly, int)),
    float: ("a number with a point", partial(exactly, float)),
    str: ("a string", partial(exactly, str)),
    **{cls: (words, partial(_canonical, cls)) for cls, (_, _, words) in _FORMS.items()},
}


def _named(cls: Any) -> Named:
    return {} if issubclass(cls, Flag) else {(str, name): member for name, member in cls.__members__.items()}


_LOADS: Final[dict[object, Hook]] = {}
_DUMPS: Final[dict[object, Dump]] = {}


class Values(Strict):
    """Dump and load of one graph's sessions, by the declared types of its cells and outputs.

    `load` takes a document and gives the arguments of a `Session` but for its id; `dump` takes a session; `dumps` has
    the dump of each thing in it by the name of its field, or of its kind.

    Args:
        states: The state type of every node by its id, and the context's type under `session.CONTEXT`.
        outputs: The output type of every worker by its id.
        entry: The worker that a job begins with: the one that may be a cursor.  Rule E12.
        answers: What tools give as task results, by `Tool.key`.
    """

    def __init__(
        self, states: Mapping[str, Any], outputs: Mapping[str, Any], *, entry: str | None, answers: Mapping[str, Any]
    ) -> None:
        super().__init__(_SINGLES, _named)
        for cls, (dump, _, _) in _FORMS.items():
            self.register_unstructure_hook(cls, dump)
        factories: tuple[tuple[Callable[[Any], bool], Callable[[Any], Dump]], ...] = (
            (is_record, self._dump_record),
            (lambda tp: get_origin(tp) is frozenset, self._dump_bag),
            (lambda tp: get_origin(tp) is Map, self._dump_table),
            (is_union, self._dump_union),
            (lambda tp: get_origin(tp) is Literal, lambda _: _as_it_is),
            (lambda tp: bare(tp) is not tp, lambda tp: self.get_unstructure_hook(bare(tp))),
        )
        for fits, factory in factories:
            self.register_unstructure_hook_factory(fits, factory)
        self._dumps: dict[object, Dump] = {}
        self._records.update(_LOADS)
        self._dumps.update(_DUMPS)
        self._register_parts(states, outputs, entry, answers)
        for tp in (*_OURS, Addition, Limits):  # they are the same for every graph
            _LOADS.setdefault(tp, self._records[tp])
            _DUMPS.setdefault(tp, self._dumps[tp])

    def _register_parts(
        self, states: Mapping[str, Any], outputs: Mapping[str, Any], entry: str | None, answers: Mapping[str, Any]
    ) -> None:
        """The parts of a session, whose own annotations say less than this graph knows."""
        cells, usage, results, series, inputs, values, rows, journal, before = (
            _field(name)
            for name in ("cells", "usage", "results", "series", "inputs", "values", "rows", "journal", "before")
        )
        given: dict[str, Any] = {name: _tuple(states[name], ...) for name in outputs}
        every: dict[str, Any] = {name: _tuple(tp, ...) for name, tp in outputs.items()}
        spending = dict.fromkeys(states, Usage)
        for tp, types in (
            (cells, states),
            (usage, spending),
            (results, outputs),
            (series, every),
            (inputs, given),
        ):
            self._register_by_name(tp, types)
        self._register_by_name(values, answers, lambda *_: GONE)  # of a renamed tool: only a replay needs it
        stages = [name for name in states if name != CONTEXT and (name not in outputs or name == entry)]  # rule B4
        stage, worker, count = Literal[(*stages,)], Literal[(*outputs,)], Annotated[int, Meta(ge=0)]
        load_before, dump_before = self._part(Head, cursor=stage, before=None)
        self.register_structure_hook(before, load_before)
        self.register_unstructure_hook(before, dump_before)
        self._part(Head, cursor=Literal[(*stages, END)], before=_maybe(before))
        kinds = {
            name: self._part(
                Row, node=Literal[name], output=tp, depth=count, cells=cells, usage=usage, item=_maybe(count)
            )
            for name, tp in outputs.items()
        }
        unread = _field("unread")
        self.register_structure_hook(unread, lambda value, _: value)
        nameless = self._part(Row, node=worker, output=unread, cells=cells)[0]  # what is wrong is the name

        def load_row(value: Any, tp: Any) -> Any:
            name = value.get("node") if type(value) is dict else None
            return (kinds[name][0] if type(name) is str and name in kinds else nameless)(value, tp)

        self.register_structure_hook(Row, load_row)
        self.register_unstructure_hook(Row, lambda row: kinds[row.node][1](row))
        self._register_sequence(rows, Row, lambda loaded: Rows(_each_once(loaded)), lambda value: value.values())
        place = _tuple(worker, _maybe(count))
        parts: dict[str, Any] = {"id": count, "parent": stage, "depth": count, "rows": rows}
        parts |= {"roots": _tuple(worker, ...), "marks": frozenset[place]}  # type: ignore[valid-type]
        plain = self._part(Activation, **parts, inputs=None)
        scattered = {name: self._part(Activation, **parts, inputs=tp) for name, tp in given.items()}

        def load_activation(value: Any, tp: Any) -> Any:
            root = _root_of(value)
            return (scattered[root][0] if root in scattered else plain[0])(value, tp)

        def dump_activation(value: Any) -> Any:
            return (plain if value.inputs is None else scattered[value.roots[0]])[1](value)

        self.register_structure_hook(Activation, load_activation)
        self.register_unstructure_hook(Activation, dump_activation)
        node: Any = Literal[(*states,)]
        self._part(
            Said,
            target=Literal[(*stages, "")],
            state=cells,
            workers=_tuple(worker, ...),
            inputs=_maybe(inputs),
            value=values,
        )
        self._part(
            Note,
            node=node,
            item=_maybe(count),
            outcome=_maybe(Said),
            worker=_maybe(worker),
            state=cells,
            output=results,
            raised=_maybe(Raised),
            cells=cells,
            usage=usage,
        )
        self._register_sequence(journal, Note, _by_place, _in_a_row)
        self._register_sequence(History, Message, History, tuple)
        types = {
            "head": Head,
            "limits": Limits,
            "cells": cells,
            "histories": Mapping[str, History],
            "usage": usage,
            "activation": _maybe(Activation),
            "results": results,
            "series": series,
            "errors": tuple[ErrorRecord, ...],
            "journal": journal,
        }
        self.load, self.dump = self._session(types)
        singles = {"activation": Activation, "row": Row, "mark": place, "message": Message}
        singles |= {"error": ErrorRecord, "note": Note}
        self.dumps = {name: self.get_unstructure_hook(tp) for name, tp in {**types, **singles}.items()}

    def _session(self, types: Mapping[str, Any]) -> tuple[Hook, Dump]:
        """Load (as the arguments of a `Session`, but for its id) and dump of a whole session, its document."""
        count = Annotated[int, Meta(ge=1)]
        form: dict[str, Any] = {"format": Literal[FORMAT], "graph": str, "version": count, "revision": count}
        first = [one.evolve(type=form[one.name]) for one in named_fields(dict.fromkeys(form, NOTHING))]
        parts = [one.evolve(type=types[one.name]) for one in attributes(Session) if one.name in types]
        load = self.record(
            object(),
            [*first, *parts],
            lambda format, version, **given: given,  # noqa: A006, ARG005
        )
        dump: Dump = make_dict_unstructure_fn_from_attrs(
            parts, Session, self, _cattrs_omit_if_default=True, _cattrs_use_linecache=False
        )
        return load, dump

    def _part(self, cls: type, **types: Any) -> tuple[Hook, Dump]:
        """Load and dump of one of the engine's Structs; what is left empty takes no bytes."""
        parts = [part.evolve(type=types.get(part.name, part.type)) for part in attributes(cls)]
        load = self.record(object(), parts, cls)
        dump: Dump = make_dict_unstructure_fn_from_attrs(
            parts, cls, self, _cattrs_omit_if_default=True, _cattrs_use_linecache=False
        )
        self.register_structure_hook(cls, load)
        self.register_unstructure_hook(cls, dump)
        return load, dump

    def _register_sequence(
        self, tp: Any, item: Any, build: Callable[[Any], object], parts: Callable[[Any], Iterable[Any]]
    ) -> None:
        """A list in JSON that is no tuple in memory."""
        load, dump = self.get_structure_hook(tuple[item, ...]), self.get_unstructure_hook(item)
        self.register_structure_hook(tp, lambda value, _: build(load(value, tuple[item, ...])))
        self.register_unstructure_hook(tp, lambda value: [dump(one) for one in parts(value)])

    def _register_by_name(self, tp: Any, types: Mapping[str, Any], unknown: Hook | None = None) -> None:
        """An object with a value for each of some names, each of its own type; `unknown` loads those of others."""
        loads = {name: (inner, self.get_structure_hook(inner)) for name, inner in types.items()}
        dumps = {name: self.get_unstructure_hook(inner) for name, inner in types.items()}

        def load(value: Any, _: Any) -> Any:
            if type(value) is not dict:
                raise Misfit("an object", value)
            parts = [loads.get(name) or (name, unknown or partial(_refuse, types)) for name in value]
            return dict(zip(value, each(tp, ((Name(name), one) for name, one in value.items()), parts), strict=True))

        self.register_structure_hook(tp, load)
        self.register_unstructure_hook(tp, lambda value: {name: dumps[name](one) for name, one in value.items()})

    # -------------------------------------------------------------------------------------------- an author's types

    def get_unstructure_hook(self, type: Any, cache_result: bool = True) -> Dump:  # noqa: A002, FBT001, FBT002  as cattrs has it
        """The dump of a type; cattrs would take a str-Enum for a str."""
        if is_enum(type):
            return attrgetter("value" if issubclass(type, Flag) else "name")
        return super().get_unstructure_hook(type, cache_result)

    def _choice(self, tp: Any) -> Hook:
        if is_enum(tp) and issubclass(tp, Flag):
            self._singles[tp] = (f"a combination of {describe(tp)}", partial(_flag, tp))
            return partial(single, *self._singles[tp])
        return super()._choice(tp)

    def _series(self, tp: Any) -> Hook:
        hook = super()._series(tp)
        if get_origin(tp) is not frozenset:
            return hook

        def structure(value: Any, _: Any) -> object:
            made = hook(value, tp)
            if len(made) != len(value):
                raise Misfit("each member once", value)
            return made

        return structure

    def _union(self, tp: Any) -> Hook:
        shape = shape_of(tp)
        if isinstance(shape, Maybe) and isinstance(shape_of(shape.item), OneOf | Table):
            hook = self.get_structure_hook(shape.item)
            return lambda value, _: None if value is None else hook(value, shape.item)
        return self._tagged(shape) if isinstance(shape, OneOf) else super()._union(tp)

    def _tagged(self, shape: OneOf) -> Hook:
        """The tag stands outside the payload, so that no field can be taken for it."""
        hooks = {tag: (item, self.get_structure_hook(item)) for tag, item in shape.items.items()}
        expected = f"an object with one of {', '.join(map(found, hooks))}"

        def structure(value: Any, tp: Any) -> object:
            if type(value) is not dict or len(value) != 1:
                raise Misfit(expected, value)
            ((tag, inner),) = value.items()
            if tag not in hooks:
                raise ValueError(f"unknown, expected {expected}, got {found(tag)}")
            (made,) = each(tp, ((Name(tag), inner),), (hooks[tag],))
            return made

        return structure

    def _mapping(self, tp: Any) -> Hook:
        if get_origin(tp) is not Map:
            return super()._mapping(tp)
        key, item = get_args(tp)
        if bare(key) is str:
            inner = super()._mapping(tp)
            return lambda value, _: Map(inner(value, tp))
        pairs = _tuple(_tuple(key, item), ...)
        load = self.get_structure_hook(pairs)

        def structure(value: Any, _: Any) -> object:
            made = Map(load(value, pairs))
            if len(made) != len(value):
                raise Misfit("each key once", value)
            return made

        return structure

    def record(self, tp: Any, parts: Sequence[Attribute[Any]] | None = None, build: Any = None) -> Hook:
        """The hook of named fields."""
        if parts is None and tp not in self._records:
            parts = attributes(tp)  # without `Annotated`: what it says is not of the format
        return super().record(tp, parts, build)

    def _dump_record(self, tp: Any) -> Dump:
        if tp in self._dumps:  # made, or in the making where it holds itself
            return lambda value: self._dumps[tp](value)  # noqa: PLW0108  not yet the dump
        cls = get_origin(tp) or tp
        ours = cls in _OURS or issubclass(cls, Struct)
        self._dumps[tp] = _as_it_is
        self._dumps[tp] = make_dict_unstructure_fn_from_attrs(
            list(attributes(tp)), cls, self, _cattrs_omit_if_default=ours, _cattrs_use_linecache=False
        )
        return self._dumps[tp]

    def _dump_union(self, tp: Any) -> Dump:
        shape = shape_of(tp)
        if isinstance(shape, OneOf):
            tags = {
                kind: (tag, self.get_unstructure_hook(item))
                for tag, item in shape.items.items()
                for kind in kinds_of(shape_of(item))
            }

            def dump_tagged(value: Any) -> Any:
                tag, dump = tags[type(value)]
                return {tag: dump(value)}

            return dump_tagged
        if isinstance(shape, Choice):
            return _as_it_is
        others = [member for member in members_of(tp) if bare(member) is not type(None)]
        item = shape.item if isinstance(shape, Maybe) else others[0]  # of ours: a name for a part of the session
        dump = self.get_unstructure_hook(item)
        return lambda value: None if value is None else dump(value)

    def _dump_table(self, tp: Any) -> Dump:
        key, item = get_args(tp)
        dump_key, dump = self.get_unstructure_hook(key), self.get_unstructure_hook(item)
        if bare(key) is str:
            return lambda value: {name: dump(value[name]) for name in sorted(value)}
        return lambda value: sorted(
            ([dump_key(name), dump(one)] for name, one in value.items()), key=lambda pair: json.encode(pair[0])
        )

    def _dump_bag(self, tp: Any) -> Dump:
        dump = self.get_unstructure_hook(get_args(tp)[0])
        return lambda value: sorted(map(dump, value), key=json.encode)


def _each_once(rows: Sequence[Row]) -> Sequence[Row]:
    if len({row.place for row in rows}) != len(rows):
        raise Misfit("one row for each place", list(rows))
    return rows


def _by_place(notes: Sequence[Note]) -> dict[Place, tuple[Note, ...]]:
    made: dict[Place, list[Note]] = {}
    for note in notes:
        made.setdefault((note.node, note.item), []).append(note)
    return {place: tuple(listed) for place, listed in made.items()}


def _in_a_row(journal: Mapping[Place, tuple[Note, ...]]) -> list[Note]:
    return [note for notes in journal.values() for note in notes]


def _field(name: str) -> Any:
    """A type of its own for one of the session's fields, to register a hook by."""
    return NewType(name, dict)  # pyright: ignore[reportArgumentType]


def _maybe(tp: Any) -> Any:
    return tp | None


def _tuple(*items: Any) -> Any:
    kind: Any = tuple
    return kind[items]


def _root_of(activation: Any) -> str | None:
    """The one root of what may be a scatter's activation."""
    if type(activation) is not dict or activation.get("inputs") is None:
        return None
    match activation.get("roots"):
        case [str(root)]:
            return root
        case _:
            return None


def _as_it_is(value: Any) -> Any:
    return value


def _refuse(known: Mapping[str, Any], _: Any, name: str) -> NoReturn:
    raise ValueError(f"this graph has no {name!r}; it has {', '.join(known)}")
