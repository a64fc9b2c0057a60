"""How one value becomes plain JSON parts and back, by its declared type and by nothing that stands in the data.

Every hook is strict: what it would not dump it does not load.  The document around the values is the codec's.  Rule L4.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Flag
from itertools import repeat
from typing import Any, Final, TypeAlias, final, get_type_hints
from uuid import UUID

from msgspec import NODEFAULT, Struct, json
from msgspec.structs import fields as struct_fields

from ezgraph.messages import Message, ToolCall, Usage
from ezgraph.records import (
    Bag,
    Choice,
    Enumeration,
    Leaf,
    Many,
    Maybe,
    Pack,
    Record,
    RecordField,
    Shape,
    Wrong,
    describe,
    shape_of,
)
from ezgraph.responses import UNSET
from ezgraph.session import ErrorRecord
from ezgraph.shapes import LEAF_TESTS

Dump: TypeAlias = Callable[[Any], Any]
Load: TypeAlias = Callable[[Any], Any]

_OURS: Final = (Message, ToolCall, Usage, ErrorRecord)
"""Records of the engine.  Their defaults are part of the format, so they are left out; an author's may change."""

# JSON text is exact for int and str, and for a float of Python's repr.
_PLAIN: Final = (type(None), bool, int, str, float)


def _dump_timedelta(span: timedelta) -> list[int]:
    return [span.days, span.seconds, span.microseconds]


def _load_timedelta(parts: Any) -> timedelta:
    days, seconds, microseconds = parts
    return timedelta(days, seconds, microseconds)


def _load_bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


# For each scalar that JSON lacks: the JSON type of its form, dump, load, and the form in words.
_FORMS: Final[dict[type, tuple[type, Dump, Callable[[Any], Any], str]]] = {
    bytes: (str, lambda value: b64encode(value).decode(), _load_bytes, "base64"),
    Decimal: (str, str, Decimal, "a decimal number as a string"),
    UUID: (str, str, UUID, "a UUID"),
    date: (str, date.isoformat, date.fromisoformat, "a date as YYYY-MM-DD"),
    datetime: (str, datetime.isoformat, datetime.fromisoformat, "a date and time in ISO 8601"),
    time: (str, time.isoformat, time.fromisoformat, "a time in ISO 8601"),
    timedelta: (list, _dump_timedelta, _load_timedelta, "[days, seconds, microseconds]"),
}


def _as_it_is(value: Any) -> Any:
    return value


def _told(value: object) -> str:
    """A JSON value, short, for a message."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:60]}..."


@final
class Misfit(Exception):  # noqa: N818  the codec makes an error of it
    """A value does not load.

    Attributes:
        path: Where in the value: `.items[3].price`; empty for the value itself.
        problem: Why.
    """

    def __init__(self, problem: str, path: str = "") -> None:
        self.path, self.problem = path, problem
        super().__init__(path, problem)


def _refuse(value: object, expected: str) -> Misfit:
    return Misfit(f"{_told(value)} is not {expected}")


def misfit_at(place: str, error: Exception) -> Misfit:
    """The same misfit, seen from the value around it; an author's own validator may have raised anything."""
    if isinstance(error, Misfit):
        return Misfit(error.problem, place + error.path)
    return Misfit(f"{type(error).__name__}: {error}", place)


# ------------------------------------------------------------------------------------------------------------ scalars


def _load_leaf(cls: type) -> Load:
    name = "null" if cls is type(None) else cls.__name__
    if cls in _PLAIN:

        def load_plain(value: Any) -> Any:
            if type(value) is not cls:
                raise _refuse(value, f"of type {name}")
            return value

        return load_plain

    form, dump, load, words = _FORMS[cls]
    allowed = LEAF_TESTS[cls][0] if cls in LEAF_TESTS else None

    def load_form(value: Any) -> Any:
        if type(value) is not form:
            raise _refuse(value, words)
        try:
            made = load(value)
        except (ValueError, ArithmeticError, TypeError):
            raise _refuse(value, words) from None
        # Only what `dump` would write: parsers take more, and 1e3 for 1000 would load as something else.
        if type(made) is not cls or (allowed and not allowed(made)) or dump(made) != value:
            raise _refuse(value, words)
        return made

    return load_form


def _enum_hooks(cls: Any) -> tuple[Dump, Load]:
    if issubclass(cls, Flag):

        def load_flag(value: Any) -> Any:
            try:
                made = cls(value) if type(value) is int else None
            except ValueError:
                made = None
            if made is None or type(made) is not cls or made.value != value:
                raise _refuse(value, f"a combination of {describe(cls)}")
            return made

        return (lambda value: value.value), load_flag

    members = cls.__members__

    def load_member(value: Any) -> Any:
        if type(value) is not str or value not in members:
            raise _refuse(value, f"a member of {describe(cls)}: {', '.join(members)}")
        return members[value]

    return (lambda value: value.name), load_member


def _load_choice(tp: Any, values: tuple[Any, ...]) -> Load:
    kept = {(type(value), value): value for value in values}

    def load_choice(value: Any) -> Any:
        if type(value) not in _PLAIN or (type(value), value) not in kept:
            raise _refuse(value, describe(tp))
        return value

    return load_choice


# ---------------------------------------------------------------------------------------------------------- containers


def _list_of(value: list[Any], hooks: Iterable[Load]) -> list[Any]:
    """Load each part of a list by its own hook."""
    made: list[Any] = []
    try:
        for part, hook in zip(value, hooks, strict=False):
            made.append(hook(part))
    except Exception as error:  # noqa: BLE001  told with its place
        raise misfit_at(f"[{len(made)}]", error) from None
    return made


def _expect_list(value: Any, tp: Any, length: int | None = None) -> None:
    if type(value) is not list:
        raise _refuse(value, f"a list, for {describe(tp)}")
    if length is not None and len(value) != length:
        raise Misfit(f"a list of {len(value)} is not one of {length}, for {describe(tp)}")


@final
class Values:
    """Dump and load of values by their declared type.  The hooks of a record are built once."""

    def __init__(self) -> None:
        self._dumps: dict[object, Dump] = {}
        self._loads: dict[object, Load] = {}

    def dumper(self, tp: Any) -> Dump:
        """A function from a value of `tp` to plain JSON parts."""
        return self._dump(tp)

    def loader(self, tp: Any) -> Load:
        """A function from plain JSON parts to a value of `tp`; it raises `Misfit`."""
        return self._load(tp)

    # ------------------------------------------------------------------------------------------------------------ dump

    def _dump(self, tp: Any) -> Dump:  # noqa: C901, PLR0911  an arm for each shape
        shape = _shape(tp)
        match shape:
            case Leaf(cls):
                return _FORMS[cls][1] if cls in _FORMS else _as_it_is
            case Enumeration(cls):
                return _enum_hooks(cls)[0]
            case Choice():
                return _as_it_is
            case Maybe(item):
                inner = self._dump(item)
                return lambda value: None if value is None else inner(value)
            case Many(item):
                inner = self._dump(item)
                return list if inner is _as_it_is else lambda value: [inner(part) for part in value]
            case Bag(item):
                inner = self._dump(item)
                return lambda value: sorted(map(inner, value), key=json.encode)
            case Pack(items):
                hooks = [self._dump(item) for item in items]
                return lambda value: [hook(part) for hook, part in zip(hooks, value, strict=True)]
            case Record():
                if shape.tag not in self._dumps:
                    # A record that holds itself meets this before its own hook is made.
                    self._dumps[shape.tag] = lambda value: self._dumps[shape.tag](value)  # noqa: PLW0108  not yet the hook
                    self._dumps[shape.tag] = self._dump_record(shape)
                return self._dumps[shape.tag]
            case Wrong():
                raise TypeError(f"{describe(tp)}: {shape.what}")

    def _dump_record(self, shape: Record) -> Dump:
        parts = [(field.name, field.default, self._dump(field.type)) for field in shape.fields]
        if shape.cls in _OURS or issubclass(shape.cls, Struct):
            return lambda record: {
                name: dump(value) for name, default, dump in parts if (value := getattr(record, name)) != default
            }
        return lambda record: {name: dump(getattr(record, name)) for name, _, dump in parts}

    # ------------------------------------------------------------------------------------------------------------ load

    def _load(self, tp: Any) -> Load:  # noqa: C901, PLR0911  an arm for each shape
        shape = _shape(tp)
        match shape:
            case Leaf(cls):
                return _load_leaf(cls)
            case Enumeration(cls):
                return _enum_hooks(cls)[1]
            case Choice(values):
                return _load_choice(tp, values)
            case Maybe(item):
                inner = self._load(item)
                return lambda value: None if value is None else inner(value)
            case Many(item) | Bag(item):
                return self._load_all(tp, item, tuple if isinstance(shape, Many) else frozenset)
            case Pack(items):
                loads = [self._load(item) for item in items]

                def load_pack(value: Any) -> Any:
                    _expect_list(value, tp, len(loads))
                    return tuple(_list_of(value, loads))

                return load_pack
            case Record():
                if shape.tag not in self._loads:
                    self._loads[shape.tag] = lambda value: self._loads[shape.tag](value)  # noqa: PLW0108  not yet the hook
                    self._loads[shape.tag] = self._load_record(tp, shape)
                return self._loads[shape.tag]
            case Wrong():
                raise TypeError(f"{describe(tp)}: {shape.what}")

    def _load_all(self, tp: Any, item: Any, container: Any) -> Load:
        inner = self._load(item)

        def load_all(value: Any) -> Any:
            _expect_list(value, tp)
            made = container(_list_of(value, repeat(inner)))
            if len(made) != len(value):
                raise Misfit(f"a member stands twice, for {describe(tp)}")
            return made

        return load_all

    def _load_record(self, tp: Any, shape: Record) -> Load:
        parts = [(field.name, field.alias, field.required, self._load(field.type)) for field in shape.fields]
        # Such a method may change what it was given, and then the value would not be what was saved.
        verified = hasattr(shape.cls, "__attrs_post_init__")

        def load_record(value: Any) -> Any:
            if type(value) is not dict:
                raise _refuse(value, f"an object, for {describe(tp)}")
            given: dict[str, Any] = {}
            for name, alias, required, hook in parts:
                if name in value:
                    try:
                        given[alias] = hook(value[name])
                    except Exception as error:  # noqa: BLE001  told with its place
                        raise misfit_at(f".{name}", error) from None
                elif required:
                    raise Misfit("is missing", f".{name}")
            if len(value) > len(given):
                unknown = sorted(value.keys() - {name for name, *_rest in parts})
                raise Misfit(f"has unknown keys: {', '.join(unknown)}")
            made = shape.cls(**given)
            if verified:
                _verify(made, {name: given[alias] for name, alias, *_rest in parts if alias in given})
            return made

        return load_record


def _verify(made: object, given: dict[str, Any]) -> None:
    for name, value in given.items():
        if getattr(made, name) != value:
            raise Misfit(f"__attrs_post_init__ of {describe(type(made))} changed it", f".{name}")


def _shape(tp: Any) -> Shape:
    """A type's shape; the engine's own Structs are records too."""
    if isinstance(tp, type) and issubclass(tp, Struct):
        hints = get_type_hints(tp)
        made = [
            RecordField(
                one.name,
                one.name,
                hints[one.name],
                one.required,
                one.default if one.default is not NODEFAULT else UNSET,
            )
            for one in struct_fields(tp)
        ]
        return Record(tp, tp, tuple(made), is_tuple=False)
    return shape_of(tp)


__all__ = ["Dump", "Load", "Misfit", "Values", "misfit_at"]
