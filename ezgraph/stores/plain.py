"""An author's values as plain JSON and back, by their declared types and by nothing that stands in the data.

Every hook is strict: what it would not dump it does not load.  Rule L4.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Flag
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args, get_origin
from uuid import UUID

from attrs import Attribute
from cattrs.gen import make_dict_unstructure_fn_from_attrs
from immutables import Map
from msgspec import Struct

from ezgraph.fields import attributes, bare, describe, is_record, without_remarks
from ezgraph.numbers import MAX_BITS, decimal_of, decimal_text, json_of
from ezgraph.records import Choice, Maybe, OneOf, Table, kinds_of, shape_of
from ezgraph.shapes import LEAF_TESTS
from ezgraph.structuring import Hook, Misfit, Name, Named, Single, Strict, each, exactly, found, is_enum, single
from ezgraph.unions import is_union, members_of

Dump: TypeAlias = Callable[[Any], Any]

# For each scalar that JSON lacks: dump, load, and the form in words.
_FORMS: Final[dict[type, tuple[Dump, Callable[[Any], Any], str]]] = {
    bytes: (lambda value: b64encode(value).decode(), partial(b64decode, validate=True), "base64"),
    Decimal: (decimal_text, decimal_of, "a decimal number as a string"),
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


def _integer(value: Any) -> object:
    if type(value) is not int or value.bit_length() > MAX_BITS:
        raise ValueError
    return value


_SINGLES: Final[dict[type, Single]] = {
    type(None): ("null", partial(exactly, type(None))),
    bool: ("true or false", partial(exactly, bool)),
    int: ("an integer", _integer),
    float: ("a number with a point", partial(exactly, float)),
    str: ("a string", partial(exactly, str)),
    **{cls: (words, partial(_canonical, cls)) for cls, (_, _, words) in _FORMS.items()},
}


def _named(cls: Any) -> Named:
    return {} if issubclass(cls, Flag) else {(str, name): member for name, member in cls.__members__.items()}


class Plain(Strict):
    """Dump and load of values by their types; what a type of the engine's looks like is for who inherits to say."""

    ours: ClassVar[frozenset[type]] = frozenset()
    """Records whose defaults are part of the format, so that they are left out; an author's may change."""

    def __init__(self) -> None:
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

    def get_unstructure_hook(self, type: Any, cache_result: bool = True) -> Dump:  # noqa: A002, FBT001, FBT002  as cattrs has it
        """The dump of a type; cattrs would take a str-Enum for a str."""
        type = without_remarks(type)  # noqa: A001  as cattrs has it
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
        pairs = tuple_of(tuple_of(key, item), ...)
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
        ours = cls in self.ours or issubclass(cls, Struct)
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
            ([dump_key(name), dump(one)] for name, one in value.items()), key=lambda pair: json_of(pair[0])
        )

    def _dump_bag(self, tp: Any) -> Dump:
        dump = self.get_unstructure_hook(get_args(tp)[0])
        return lambda value: sorted(map(dump, value), key=json_of)


def _as_it_is(value: Any) -> Any:
    return value


def tuple_of(*items: Any) -> Any:
    """The type of a tuple of items whose types are known only here."""
    kind: Any = tuple
    return kind[items]
