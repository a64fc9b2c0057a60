"""Values out of decoded JSON by their declared type: strictly, all that is wrong by path.  Rules D2, L4.

The engine is cattrs.  What a scalar and an enum look like in JSON is told by who reads: `ezgraph.scalars` what a model
writes, `ezgraph.stores` what a store keeps.
"""

from __future__ import annotations

import json
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableSequence,
    MutableSet,
    Sequence,
    Set as AbstractSet,
)
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum
from functools import partial
from itertools import islice, repeat
from typing import Any, Final, Literal, NoReturn, TypeAlias, get_args, get_origin
from uuid import UUID

from attrs import Attribute
from cattrs import ClassValidationError, Converter, ForbiddenExtraKeysError, IterableValidationError
from cattrs.cols import is_mapping
from cattrs.errors import AttributeValidationNote, IterableValidationNote
from cattrs.gen import make_dict_structure_fn_from_attrs

from ezgraph.fields import attributes, bare, is_record, without_remarks
from ezgraph.limits import LIMITS, metas
from ezgraph.numbers import decimal_text
from ezgraph.unions import is_union, members_of, own_fields, tag_of

Hook: TypeAlias = Callable[[Any, Any], Any]
"""Makes a value of what the JSON decoder gave and of its type, or raises; anew each time, so nothing is shared."""

Single: TypeAlias = tuple[str, Callable[[Any], object]]
"""What a scalar is called, and how it is made of decoded JSON; that may raise what Python's constructors raise."""

Named: TypeAlias = Mapping[tuple[type, object], object]
"""What an enum or a literal is in JSON, by type and value, so that True is not 1."""

Path: TypeAlias = tuple[int | str, ...]
"""Steps into a value: a `Name` for a field, an index, or an object's key."""

MOST: Final = 20
"""Wrong items that are told of one list or object."""

MOST_NAMES: Final = 1000
"""Of an object whose names are nodes': a deploy that renamed many is told of each."""

_MISSING: Final = object()


class Misfit(ValueError):  # noqa: N818  caught where a refusal is written
    """A value is not what it should be."""

    def __init__(self, expected: str, value: object) -> None:
        super().__init__(
            f"missing, expected {expected}" if value is _MISSING else f"expected {expected}, got {found(value)}"
        )


class Name(str):
    """A step of a path that is a field's name, not an object's key."""

    __slots__ = ()


class Strict(Converter):
    """A converter that takes of each type its one form in JSON.

    Args:
        singles: The form of each scalar.
        named: The values of an enum by their form.
    """

    def __init__(self, singles: Mapping[type, Single], named: Callable[[Any], Named]) -> None:
        super().__init__(detailed_validation=True, forbid_extra_keys=True)
        self._singles, self._enum, self._records = {**singles}, named, dict[object, Hook]()
        for cls, (expected, make) in singles.items():
            self.register_structure_hook(cls, partial(single, expected, make))
        factories: tuple[tuple[Callable[[Any], bool], Callable[[Any], Hook]], ...] = (
            (is_record, self.record),
            (lambda tp: get_origin(tp) is Literal, self._choice),
            (is_union, self._union),
            (lambda tp: get_origin(tp) in BUILT or get_origin(tp) is tuple, self._series),
            (is_mapping, self._mapping),
            (lambda tp: bare(tp) is not tp, self._limited),
        )
        for fits, factory in factories:
            self.register_structure_hook_factory(fits, factory)

    def get_structure_hook(self, type: Any, cache_result: bool = True) -> Hook:  # noqa: A002, FBT001, FBT002  as cattrs has it
        """The hook of a type; cattrs would take an IntEnum for the int that it is too."""
        type = without_remarks(type)  # noqa: A001  as cattrs has it
        return self._choice(type) if is_enum(type) else super().get_structure_hook(type, cache_result)

    # ----------------------------------------------------------------------------------------------------------- hooks

    def _choice(self, tp: Any) -> Hook:
        named, expected = self.named(tp), self.told(tp)

        def structure(value: Any, _: Any) -> object:
            plain = whole(value)
            if type(plain) not in (str, int, bool, type(None)) or (type(plain), plain) not in named:
                raise Misfit(expected, value)
            return named[type(plain), plain]

        return structure

    def _union(self, tp: Any) -> Hook:
        members = [(member, self.named(member), self.get_structure_hook(member)) for member in members_of(tp)]
        ways = {
            kind: [(m, h) for m, named, h in members if any(k is kind or (k, kind) == (int, Decimal) for k, _ in named)]
            + [(m, h) for fits in takers for m, named, h in members if not named and _form(m) is fits]
            for kind, takers in _TAKEN_BY.items()
        }
        if told_apart := self._classes(tp, dict(ways[dict])):
            ways[dict] = [(tp, told_apart)]
        expected = self.told(tp)

        def structure(value: Any, _: Any) -> object:
            candidates = ways.get(type(value), [])
            if len(candidates) == 1:
                member, hook = candidates[0]
                return hook(value, member)
            for member, hook in candidates:
                try:
                    return hook(value, member)
                except Misfit:
                    continue
            raise Misfit(expected, value)

        return structure

    def _classes(self, tp: Any, hooks: Mapping[Any, Hook]) -> Hook | None:
        """The hook of several classes, where a tag tells which an object is, or fields that no other has."""
        members = {bare(member): member for member in hooks}
        if len(members) < 2 or not all(map(is_record, members)):
            return None
        fields = {cls: attributes(cls, extras=True) for cls in members}
        if tag := tag_of(fields):
            name, tagged = tag
            allowed: Any = Literal[(*tagged,)]

            def by_tag(value: Any, _: Any) -> object:
                text = value.get(name, _MISSING)
                if type(text) is not str or text not in tagged:
                    wrong = Misfit(self.told(allowed), text)
                    wrong.add_note(AttributeValidationNote("", name, allowed))
                    raise ClassValidationError("", [wrong], tp)  # pyright: ignore[reportCallIssue]
                member = members[tagged[text]]
                return hooks[member](value, member)

            return by_tag
        own = own_fields(fields) or {}
        expected = ", or ".join(f"with {' and '.join(names)}" for names in own.values())

        def by_fields(value: Any, _: Any) -> object:
            given = {cls: [name for name in names if name in value] for cls, names in own.items()}
            fitting = [cls for cls, names in given.items() if names]
            if len(fitting) != 1:
                there = " and ".join(name for names in given.values() for name in names) or "none of these"
                raise ValueError(f"expected an object {expected}, got one with {there}")
            member = members[fitting[0]]
            return hooks[member](value, member)

        return by_fields

    def _series(self, tp: Any) -> Hook:
        origin, items = get_origin(tp), get_args(tp)
        length = None if origin is not tuple or items[1:] == (...,) else len(items)
        parts = [(item, self.get_structure_hook(item)) for item in (items[:1] if length is None else items)]
        build, expected = BUILT.get(origin, tuple), self.told(tp)

        def structure(value: Any, _: Any) -> object:
            if type(value) is not list or (length is not None and len(value) != length):
                raise Misfit(expected, value)
            return build(each(tp, enumerate(value), repeat(parts[0]) if length is None else parts))

        return structure

    def _mapping(self, tp: Any) -> Hook:
        key, item = ((inner, self.get_structure_hook(inner)) for inner in get_args(tp))

        def structure(value: Any, _: Any) -> object:
            if type(value) is not dict:
                raise Misfit("an object", value)
            keys = each(tp, ((k, k) for k in value), repeat(key))
            return dict(zip(keys, each(tp, value.items(), repeat(item)), strict=True))

        return structure

    def _limited(self, tp: Any) -> Hook:
        """The hook beneath an alias, a NewType or `Annotated`, and then the constraints of the annotation."""
        inner = bare(tp)
        hook, expected = self.get_structure_hook(inner), self.told(inner)
        limits = [
            (f"{expected} {text.format(limit, 'with' if limit else 'without')}", holds, limit)
            for name, (text, holds) in LIMITS.items()
            for meta in metas(tp)
            if (limit := getattr(meta, name)) is not None
        ]

        def structure(value: Any, _: Any) -> object:
            made = hook(value, inner)
            for told, holds, limit in limits:
                if not holds(made, limit):
                    raise Misfit(told, value)
            return made

        return structure

    def record(self, tp: Any, parts: Sequence[Attribute[Any]] | None = None, build: Any = None) -> Hook:
        """The hook of named fields: a JSON object with all that are required, and no others than these."""
        if tp in self._records:  # made, or in the making where it holds itself
            return lambda value, _: self._records[tp](value, tp)
        made_of = list(attributes(tp, extras=True) if parts is None else parts)
        build = (
            build or get_origin(tp) or tp
        )  # cattrs' own reading of a generic class mistakes the T of one class for the T of its base.
        stand_in = type(
            "record", (), {"__new__": lambda _, **given: build(**given), "names": [part.name for part in made_of]}
        )
        self._records[tp] = _in_the_making  # a class that holds itself meets this before its own hook is made
        inner: Hook = make_dict_structure_fn_from_attrs(made_of, stand_in, self, _cattrs_use_linecache=False)

        def structure(value: Any, _: Any) -> object:
            if type(value) is not dict:
                raise Misfit("an object", value)
            return inner(value, stand_in)

        self._records[tp] = structure
        return structure

    # ----------------------------------------------------------------------------------------------------------- words

    def named(self, tp: Any) -> Named:
        """What an enum or a literal allows; nothing for other types."""
        tp = bare(tp)
        if get_origin(tp) is Literal:
            return {(type(value), value): value for value in get_args(tp)}
        return self._enum(tp) if is_enum(tp) else {}

    def told(self, tp: Any) -> str:
        """A type as a person would say it."""
        tp = bare(tp)
        if is_union(tp):
            return " or ".join(dict.fromkeys(self.told(member) for member in members_of(tp)))
        if named := self.named(tp):
            forms = [found(value) for _, value in named]
            return forms[0] if len(forms) == 1 else f"one of {', '.join(forms)}"
        if tp in self._singles:
            return self._singles[tp][0]
        if _form(tp) is dict:
            return "an object"
        fixed = get_origin(tp) is tuple and get_args(tp)[1:] != (...,)
        return f"a list of {len(get_args(tp))}" if fixed else "a list"

    def wrongs(self, error: Exception, path: Path = ()) -> Iterator[tuple[Path, Exception]]:
        """Each thing that is wrong, behind its path, such as `items[0].price`."""
        match error:
            case ClassValidationError() | IterableValidationError():
                noted, whole_ones = error.group_exceptions()
                for part, note in noted:
                    step = Name(note.name) if isinstance(note, AttributeValidationNote) else note.index
                    missing = isinstance(part, KeyError) and isinstance(step, Name)
                    yield from self.wrongs(Misfit(self.told(note.type), _MISSING) if missing else part, (*path, step))
                for part in whole_ones:
                    yield from self.wrongs(part, path)
            case ForbiddenExtraKeysError():
                names: list[str] = error.cl.names  # type: ignore[attr-defined]
                for name in islice(sorted(error.extra_fields), MOST + 1):
                    yield (*path, Name(name)), unknown(name, names)
            case _:
                yield path, error


def single(expected: str, make: Callable[[Any], object], value: Any, _: Any) -> object:
    """What one scalar is made of, or a misfit."""
    try:
        return make(value)
    except (ValueError, ArithmeticError, TypeError, AttributeError):
        raise Misfit(expected, value) from None


def _in_the_making(_: Any, tp: Any) -> NoReturn:
    raise TypeError(f"{tp!r} is not read yet")


def each(
    tp: Any, items: Iterable[tuple[int | str, object]], parts: Iterable[tuple[Any, Hook]], most: int = MOST
) -> list[object]:
    """Each item by its own hook, or the first wrong ones: cattrs itself would gather 333,000, in 8 s and 474 MB."""
    made: list[object] = []
    wrong: list[Exception] = []
    for (step, value), (item, hook) in zip(items, parts, strict=False):
        try:
            made.append(hook(value, item))
        except Exception as error:  # noqa: BLE001  gathered; a class's validator may raise anything
            error.add_note(IterableValidationNote("", step, item))
            wrong.append(error)
            if len(wrong) > most:
                break
    if wrong:
        raise IterableValidationError("", wrong, tp)  # pyright: ignore[reportCallIssue]
    return made


# --------------------------------------------------------------------------------------------------------------- types

BUILT: Final[Mapping[Any, Callable[[Iterable[object]], object]]] = {
    **dict.fromkeys((list, Collection, Sequence, MutableSequence), list),
    **dict.fromkeys((set, AbstractSet, MutableSet), set),
    frozenset: frozenset,
}

_TAKEN_BY: Final[Mapping[type, tuple[type, ...]]] = {
    type(None): (type(None),),
    bool: (bool,),
    int: (int, float, Decimal),
    Decimal: (float, Decimal, int),
    float: (float,),
    str: (str, bytes, Decimal, date, datetime, time, timedelta, UUID),
    list: (list, timedelta),
    dict: (dict,),
}
"""Which member of a union takes a decoded value, the first that is there; an enum or a literal goes before all."""


def _form(tp: Any) -> Any:
    """What stands for a type in `_TAKEN_BY`."""
    tp = bare(tp)
    if is_record(tp) or is_mapping(tp):
        return dict
    if is_enum(tp):  # a Flag, which is its number
        return int
    return list if get_origin(tp) in (*BUILT, tuple) else tp


def is_enum(tp: Any) -> bool:
    """Whether it is an Enum class."""
    return isinstance(tp, type) and issubclass(tp, Enum)


# --------------------------------------------------------------------------------------------------------------- words


def whole(value: object) -> object:
    """5.0 as 5; anything else as it is."""
    if type(value) is Decimal and value.adjusted() < 40 and value == value.to_integral_value():
        return int(value)
    return value


def exactly(kind: type, value: object) -> Any:
    """A value that is of the kind and of no other, or ValueError."""
    if type(value) is not kind:
        raise ValueError
    return value


def found(value: object) -> str:
    """A value as a person would say it, in a few characters."""
    match value:
        case dict():
            return "an object"
        case list():
            return f"a list of {len(value)}"
        case str():
            return json.dumps(value if len(value) <= 40 else f"{value[:40]}…", ensure_ascii=False)
        case None | bool():
            return json.dumps(value)
        case int() if abs(value) >= 10**40:
            return "a number of more than 40 digits"
        case _:
            text = decimal_text(value) if isinstance(value, Decimal) else str(value)
            return text if len(text) <= 40 else f"{text[:40]}…"


def shown(path: Path) -> str:
    """A path as Python would write it: `items[0].price`."""
    named = [isinstance(step, Name) and step.isidentifier() and len(step) <= 40 for step in path]
    return "".join(f".{step}" if name else f"[{found(step)}]" for step, name in zip(path, named, strict=True))


def unknown(name: str, known: Iterable[str]) -> ValueError:
    """A field that nothing knows, with the nearest name that is known, else all of them."""
    names = list(known)
    if nearest := near(name, names):
        return ValueError(f"unknown, did you mean {nearest}?")
    return ValueError(f"unknown, the fields are {', '.join(names)}" if names else "unknown, there are no fields")


def near(name: str, known: Iterable[str]) -> str:
    """The nearest known name, or nothing."""
    return next(iter(get_close_matches(name[:100], list(known), n=1)), "")
