"""From types to hooks that make values of decoded JSON, strictly, and that say everything that is wrong, by field.

One reading of the types, msgspec's, gives the hooks here and the JSON Schema elsewhere, so the two cannot disagree,
also where generic classes inherit from each other.  Rule D2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from functools import partial
from inspect import isabstract
from itertools import islice, repeat
from typing import Any, Final, TypeAlias, final, get_origin

import attrs
from attrs import frozen
from msgspec import inspect as read

from ezgraph.refusals import MISSING, MOST, Misfit, Name, Several, found, unknown
from ezgraph.scalars import LIMITS, SINGLE, whole

Hook: TypeAlias = Callable[[Any], object]
"""Makes a value of what the JSON decoder gave, or raises; anew each time, so nothing is shared."""


@final
@frozen
class Flaw:
    """One reason why a handler cannot be a tool.

    Attributes:
        path: Where in the signature, such as `parameter value` or `parameter items, field Line.price`.
        what: What is wrong.
        mend: What to write instead.
    """

    path: str
    what: str
    mend: str


_TAKEN_BY: Final[Mapping[type, tuple[type[read.Type], ...]]] = {
    type(None): (read.NoneType,),
    bool: (read.BoolType,),
    int: (read.IntType, read.FloatType, read.DecimalType),
    Decimal: (read.FloatType, read.DecimalType, read.IntType),
    str: (
        read.StrType,
        read.DecimalType,
        read.DateType,
        read.DateTimeType,
        read.TimeType,
        read.TimeDeltaType,
        read.UUIDType,
    ),
    list: (read.ListType, read.SetType, read.FrozenSetType, read.VarTupleType, read.TupleType),
    dict: (read.DictType, read.DataclassType),
}
"""Which member of a union takes a decoded value, the first that is there; an enum or a literal goes before all."""


# -------------------------------------------------------------------------------------------------- from types to hooks


class Reading:
    """Makes hooks of a signature's types, and notes what cannot be a tool's.

    Attributes:
        flaws: What is wrong so far.
        orders: The values of each enum, in the order of its definition; msgspec sorts them.
    """

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []
        self.orders: dict[frozenset[object], list[object]] = {}
        self._classes: dict[object, Hook] = {}

    def hook(self, node: read.Type, place: str) -> Hook:
        """The hook of a type."""
        node = _bare(node)
        if type(node) in SINGLE:
            expected, make = SINGLE[type(node)]
            return _limited(node, expected, partial(_single, expected, make))
        match node:
            case read.EnumType() | read.LiteralType():
                hook = self._named(node)
            case read.UnionType():
                hook = self._union(node, place)
            case read.DataclassType() if attrs.has(node.cls):
                hook = self._class(node, place)
            case read.DictType():
                hook = self._mapping(node, place)
            case read.TupleType():
                hook = self._tuple(node, place)
            case read.ListType() | read.SetType() | read.FrozenSetType() | read.VarTupleType():
                hook = self._series(node, place)
            case read.AnyType():
                hook = self.flaw(place, "it may hold anything, so nothing can be checked", "Write what it holds.")
            case _:
                name = getattr(getattr(node, "cls", None), "__name__", type(node).__name__.removesuffix("Type").lower())
                mend = "Write an attrs class, or a type that JSON has a form for."
                hook = self.flaw(place, f"{name} is no type of an argument", mend)
        return hook

    def flaw(self, place: str, what: str, mend: str) -> Hook:
        """Note a flaw; the hook that comes back is for the shape only."""
        self.flaws.append(Flaw(place, what, mend))
        return _UNUSED

    def _named(self, node: read.EnumType | read.LiteralType) -> Hook:
        named = _values(node)
        if isinstance(node, read.EnumType):
            self.orders[frozenset(value for _, value in named)] = [value for _, value in named]
        expected = _told(node)

        def structure(value: Any) -> object:
            plain = whole(value)
            if type(plain) not in (str, int, bool, type(None)) or (type(plain), plain) not in named:
                raise Misfit(expected, value)
            return named[type(plain), plain]

        return structure

    def _union(self, node: read.UnionType, place: str) -> Hook:
        members = [(member, self.hook(member, place)) for member in _members(node)]
        ways = {
            kind: [h for n, h in members if any(k is kind or (k, kind) == (int, Decimal) for k, _ in _values(n))]
            + [h for wanted in takers for n, h in members if type(n) is wanted]
            for kind, takers in _TAKEN_BY.items()
        }
        expected = _told(node)

        def structure(value: Any) -> object:
            candidates = ways.get(type(value), [])
            if len(candidates) == 1:
                return candidates[0](value)
            for candidate in candidates:
                try:
                    return candidate(value)
                except Misfit:
                    continue
            raise Misfit(expected, value)

        return structure

    def _tuple(self, node: read.TupleType, place: str) -> Hook:
        hooks = [self.hook(item, place) for item in node.item_types]
        expected = _told(node)

        def structure(value: Any) -> object:
            if type(value) is not list or len(value) != len(hooks):
                raise Misfit(expected, value)
            return tuple(_each(enumerate(value), hooks))

        return structure

    def _series(self, node: read.ListType | read.SetType | read.FrozenSetType | read.VarTupleType, place: str) -> Hook:
        if isinstance(node, read.SetType | read.FrozenSetType) and not _hashable(node.item_type):
            return self.flaw(place, "a set cannot hold what can be changed", "Write a list, or a frozen class in it.")
        expected, build = _told(node), _BUILT[type(node)]
        item = self.hook(node.item_type, place)

        def structure(value: Any) -> object:
            if type(value) is not list:
                raise Misfit(expected, value)
            return build(_each(enumerate(value), repeat(item)))

        return _limited(node, expected, structure)

    def _mapping(self, node: read.DictType, place: str) -> Hook:
        if not (
            isinstance(_bare(node.key_type), read.StrType) or {kind for kind, _ in _values(node.key_type)} == {str}
        ):
            return self.flaw(
                place, "the keys of a JSON object are strings", "Write dict[str, ...], or a list of pairs."
            )
        key, item = self.hook(node.key_type, place), self.hook(node.value_type, place)
        expected = _told(node)

        def structure(value: Any) -> object:
            if type(value) is not dict:
                raise Misfit(expected, value)
            keys = _each(((k, k) for k in value), repeat(key))
            return dict(zip(keys, _each(value.items(), repeat(item)), strict=True))

        return _limited(node, expected, structure)

    def _class(self, node: read.DataclassType, place: str) -> Hook:
        built, alias = self._classes, node.cls
        if alias in built:
            return partial(_later, built, alias)
        built[alias] = _UNUSED
        cls = get_origin(alias) or alias
        if isabstract(cls):
            self.flaw(place, f"{cls.__name__} is abstract", "Write a class that can be built.")
        for attribute in attrs.fields(cls):
            self._check(attribute, f"{place}, field {cls.__name__}.{attribute.name}")
        hooks = {f.name: self.hook(f.type, f"{place}, field {cls.__name__}.{f.name}") for f in node.fields}
        required = {f.name for f in node.fields if f.required}
        built[alias] = record(hooks, required, cls)
        return built[alias]

    def _check(self, attribute: attrs.Attribute[Any], place: str) -> None:
        default = attribute.default
        if not attribute.init:
            self.flaw(place, "it is not given to the constructor (init=False)", "Compute it in a property.")
        if attribute.init and attribute.alias != attribute.name:
            mend = f"Name the field {attribute.alias}, without an alias."
            self.flaw(place, f"the constructor calls it {attribute.alias}", mend)
        if default is not attrs.NOTHING and not hasattr(default, "takes_self") and mutable(default):
            self.flaw(place, f"its default {default!r} can be changed, and would be shared", "Write factory=...")


_BUILT: Final[Mapping[type[read.Type], Callable[[Iterable[object]], object]]] = {
    read.ListType: list,
    read.SetType: set,
    read.FrozenSetType: frozenset,
    read.VarTupleType: tuple,
}


_UNUSED: Final[Hook] = found
"""Stands where a hook is not made, or not yet; with a flaw no hook of the signature is ever called."""


def _later(hooks: Mapping[object, Hook], key: object, value: Any) -> object:
    """A recursive class: where it meets itself, its hook is not made yet."""
    return hooks[key](value)


def _single(expected: str, make: Callable[[object], object], value: Any) -> object:
    try:
        return make(value)
    except (ValueError, ArithmeticError):
        raise Misfit(expected, value) from None


def _limited(node: read.Type, expected: str, hook: Hook) -> Hook:
    """`hook`, and then the constraints that the type was annotated with."""
    limits = [
        (f"{expected} {text.format(limit, 'with' if limit else 'without')}", holds, limit)
        for name, (text, holds) in LIMITS.items()
        if (limit := getattr(node, name, None)) is not None
    ]
    if not limits:
        return hook

    def structure(value: Any) -> object:
        made = hook(value)
        for told, holds, limit in limits:
            if not holds(made, limit):
                raise Misfit(told, value)
        return made

    return structure


def record(hooks: Mapping[str, Hook], required: Collection[str], build: Callable[..., object]) -> Hook:
    """The hook of named fields: a JSON object with all that are required, and no others than these."""

    def structure(value: Any) -> object:
        if type(value) is not dict:
            raise Misfit("an object", value)
        made: dict[str, object] = {}
        wrong: list[tuple[int | str, Exception]] = []
        for name, hook in hooks.items():
            if name in value or name in required:
                try:
                    made[name] = hook(value.get(name, MISSING))
                except Exception as error:  # noqa: BLE001  gathered; a class's validator may raise anything
                    wrong.append((Name(name), error))
        strange = islice((name for name in value if name not in hooks), MOST + 1)
        wrong += [(Name(name), unknown(name, hooks)) for name in strange]
        if wrong:
            raise Several(wrong)
        return build(**made)

    return structure


def _each(items: Iterable[tuple[int | str, object]], hooks: Iterable[Hook]) -> list[object]:
    made: list[object] = []
    wrong: list[tuple[int | str, Exception]] = []
    for (step, value), hook in zip(items, hooks, strict=False):
        try:
            made.append(hook(value))
        except Exception as error:  # noqa: BLE001  gathered; a class's validator may raise anything
            wrong.append((step, error))
            if len(wrong) > MOST:
                break
    if wrong:
        raise Several(wrong)
    return made


def _bare(node: read.Type) -> read.Type:
    """A type without what is only said of it in the schema."""
    return _bare(node.type) if isinstance(node, read.Metadata) else node


def _members(node: read.UnionType) -> list[read.Type]:
    """The members of a union, those of unions in it (behind a NewType) too."""
    members = [_bare(member) for member in node.types]
    return [one for m in members for one in (_members(m) if isinstance(m, read.UnionType) else (m,))]


def _values(node: read.Type) -> dict[tuple[type, object], object]:
    """What an enum or a literal allows, by type and value, so that True is not 1; nothing for other types."""
    match node := _bare(node):
        case read.EnumType():
            return {(type(member.value), member.value): member for member in node.cls}
        case read.LiteralType():
            return {(type(value), value): value for value in node.values}
        case _:
            return {}


def _told(node: read.Type) -> str:
    """A type as a person would say it."""
    match node := _bare(node):
        case read.UnionType():
            return " or ".join(dict.fromkeys(_told(member) for member in _members(node)))
        case read.EnumType() | read.LiteralType():
            named = [found(value) for _, value in _values(node)]
            return named[0] if len(named) == 1 else f"one of {', '.join(named)}"
        case read.DictType() | read.DataclassType():
            return "an object"
        case read.TupleType():
            return f"a list of {len(node.item_types)}"
        case _:
            return SINGLE[type(node)][0] if type(node) in SINGLE else "a list"


def _hashable(node: read.Type) -> bool:
    match node := _bare(node):
        case read.ListType() | read.SetType() | read.DictType():
            return False
        case read.DataclassType():
            return (get_origin(node.cls) or node.cls).__hash__ is not None
        case read.VarTupleType():
            return _hashable(node.item_type)
        case read.TupleType():
            return all(_hashable(item) for item in node.item_types)
        case read.UnionType():
            return all(_hashable(member) for member in _members(node))
        case _:
            return True


def mutable(default: object) -> bool:
    """Whether a default could be changed by one call and seen by the next: what Python will not hash."""
    try:
        hash(default)
    except TypeError:
        return True
    return False
