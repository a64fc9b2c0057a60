"""How a type is read: one level of an annotation as a shape.  The types that a session can keep are a closed set.

What is asked of a shape (flaws, checks, bytes) lives in `ezgraph.shapes` and `ezgraph.stores`.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from typing import (
    Any,
    Final,
    ForwardRef,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    final,
    get_args,
    get_origin,
)
from uuid import UUID

from attrs import Attribute, field, frozen
from immutables import Map

from ezgraph.errors.words import quoted
from ezgraph.fields import Wrong, bare, describe, fields_of, without_remarks
from ezgraph.numbers import MAX_BITS, is_kept

LEAVES: Final = (type(None), bool, int, float, str, bytes, Decimal, date, datetime, time, timedelta, UUID)
"""The scalar types, each with one JSON form."""


@final
@frozen
class Leaf:
    """A scalar type."""

    cls: type


@final
@frozen
class Enumeration:
    """An Enum class: kept by the member's name, a Flag by its number."""

    cls: type[Enum]


@final
@frozen
class Choice:
    """`Literal[...]` of str, int, bool or None."""

    values: tuple[str | int | bool | None, ...]


@final
@frozen
class Maybe:
    """`X | None`."""

    item: Any


@final
@frozen
class Many:
    """`tuple[X, ...]`."""

    item: Any


@final
@frozen
class Bag:
    """`frozenset[X]`."""

    item: Any


@final
@frozen
class Pack:
    """`tuple[X, Y]`."""

    items: tuple[Any, ...]


@final
@frozen
class Table:
    """`immutables.Map[K, V]`."""

    key: Any
    item: Any


@final
@frozen
class OneOf:
    """`X | Y`, of members that their exact types tell apart; with None it is a `Maybe` of one.

    Attributes:
        items: By the name under which a value of it is stored.
    """

    items: Mapping[str, Any] = field(hash=False)


@final
@frozen
class Record:
    """A frozen attrs class or a NamedTuple.

    Attributes:
        cls: The class of its values.
        tag: The type as written; two records are one where their tags are equal.
        fields: In order.
        is_tuple: It is a NamedTuple.
    """

    cls: type = field(eq=False)
    tag: Any
    fields: tuple[Attribute[Any], ...] = field(eq=False)
    is_tuple: bool = field(eq=False)


Shape: TypeAlias = Leaf | Enumeration | Choice | Maybe | Many | Bag | Pack | Table | OneOf | Record | Wrong


def shape_of(tp: object) -> Shape:  # noqa: C901, PLR0911  a line for each form
    """What `tp` is, at its top level."""
    tp = without_remarks(bare(tp))
    origin, args = get_origin(tp), get_args(tp)
    if tp in LEAVES:
        return Leaf(cast("type", tp))
    if origin is Literal:
        return _choice(args)
    if origin in (Union, types.UnionType):
        return _union(tp, args)
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return Many(args[0])
        return Pack(args)
    if origin is frozenset:
        return Bag(args[0])
    if origin is Map:
        return Table(*args)
    cls = origin or tp
    if not isinstance(cls, type):
        return _not_a_class(tp)
    if issubclass(cls, Enum):
        return _enumeration(cls)
    if "__attrs_attrs__" in cls.__dict__:
        return _attrs_record(tp, cls)
    if issubclass(cls, tuple) and "_fields" in cls.__dict__:
        return _named_tuple(tp, cls)
    return _refused(tp, cls, args)


def _enumeration(cls: type[Enum]) -> Shape:
    if not len(cls):
        return Wrong(f"{describe(cls)} has no members", "Name the Enum that has them.")
    if issubclass(cls, Flag) and not all(is_kept(member.value) for member in cls):
        return Wrong(f"{describe(cls)} has numbers of more than {MAX_BITS:,} bits", "Write frozenset[...] of an Enum.")
    return Enumeration(cls)


def _choice(values: tuple[Any, ...]) -> Shape:
    if odd := [value for value in values if value is not None and type(value) not in (str, int, bool)]:
        return Wrong(f"Literal[{quoted(odd[0])}] is not of str, int, bool or None", "Name the Enum class itself.")
    if any(type(value) is int and not is_kept(value) for value in values):
        return Wrong(f"a Literal has a number of more than {MAX_BITS:,} bits", "Name it by a text.")
    return Choice(values)


def _union(tp: Any, args: tuple[Any, ...]) -> Shape:
    members = list(_members(args))
    others = [arg for arg in members if bare(arg) is not type(None)]
    if all(get_origin(bare(arg)) is Literal for arg in others):
        choice = _choice(tuple(value for arg in others for value in get_args(bare(arg))))
        return Choice((*choice.values, None)) if isinstance(choice, Choice) and len(others) < len(members) else choice
    if len(others) < len(members):
        return Maybe(Union[tuple(others)])  # noqa: UP007  its members are known only here
    return _one_of(tp, others)


def _members(args: tuple[Any, ...]) -> Iterator[Any]:
    """The members of a union, those of unions behind a name too."""
    for arg in args:
        inner = bare(arg)
        if get_origin(inner) in (Union, types.UnionType):
            yield from _members(get_args(inner))
        else:
            yield arg


def _one_of(tp: Any, members: list[Any]) -> Shape:
    """A union of several types; each value must say by its exact type of which it is."""
    names = [describe(bare(member)) for member in members]
    kinds = [kind for member in members for kind in kinds_of(shape_of(member))]
    mend = "Write one frozen class with an optional field for each."
    if twice := next((kind for kind in kinds if kinds.count(kind) > 1), None):
        return Wrong(f"in {describe(tp)} a {describe(twice)} could be of two members", mend)
    if twice_named := next((name for name in names if names.count(name) > 1), None):
        return Wrong(f"in {describe(tp)} two members are called {twice_named}", "Give one of the classes another name.")
    return OneOf(dict(zip(names, members, strict=True)))


def kinds_of(shape: Shape) -> frozenset[type]:
    """The exact types that values of a shape have."""
    match shape:
        case Leaf(cls) | Enumeration(cls) | Record(cls):
            return frozenset({cls})
        case Choice(values):
            return frozenset(map(type, values))
        case Many() | Pack():
            return frozenset({tuple})
        case Bag():
            return frozenset({frozenset})
        case Table():
            return frozenset({Map})
        case _:
            return frozenset()


def _not_a_class(tp: Any) -> Shape:
    if isinstance(tp, TypeVar):
        return Wrong(f"the type variable {tp} is left open", "Name the type: Box[int], not Box.")
    if isinstance(tp, str | ForwardRef):
        return Wrong(f"{tp!r} is not resolved", "Name the type itself, defined at a module's top level.")
    return Wrong(f"{describe(tp)} is not a type that can be loaded", "Write a frozen attrs class.")


_MENDS: Final[tuple[tuple[type, str, str], ...]] = (
    # a base, what is wrong, and the mend; {0} and {1} are the type's arguments
    (tuple, "{tp} does not say what it holds", "Write tuple[X, ...]."),
    (frozenset, "{tp} does not say what it holds", "Write frozenset[X]."),
    (AbstractSet, "{tp} can be changed", "Write frozenset[{0}]."),
    (Map, "{tp} does not say what it holds", "Write immutables.Map[X, Y]."),
    (Mapping, "{tp} can be changed", "Write immutables.Map[{0}, {1}], or a frozen attrs class."),
    (str, "{tp} is a subclass of str", "Write str, or an Enum."),
    (bytearray, "{tp} can be changed", "Write bytes."),
    (Sequence, "{tp} can be changed", "Write tuple[{0}, ...]."),
)


def _refused(tp: Any, cls: type, args: tuple[Any, ...]) -> Shape:
    told = describe(tp)
    if cls is object or tp is Any:
        return Wrong(f"{told} is not a type that can be loaded", "Name the type.")
    if dataclasses.is_dataclass(cls):
        return Wrong(f"{told} is a dataclass", "Make it a frozen attrs class: @attrs.frozen.")
    if hasattr(cls, "__attrs_attrs__"):
        return Wrong(f"{told} is not an attrs class itself, only its base is", "Decorate it with @attrs.frozen too.")
    for base, what, mend in _MENDS:
        if issubclass(cls, base):
            names = [*(describe(arg) for arg in args), "X", "Y"]
            return Wrong(what.format(tp=told), mend.format(*names))
    return Wrong(f"{told} is a plain class", "Make it a frozen attrs class: @attrs.frozen.")


# ------------------------------------------------------------------------------------------------------------- records


def _attrs_record(tp: Any, cls: Any) -> Shape:  # noqa: PLR0911  a line for each reason
    told = describe(cls)
    # attrs marks a frozen class by nothing else that all its versions have.
    if getattr(cls.__setattr__, "__name__", "") != "_frozen_setattrs":
        return Wrong(f"{told} can be changed", "Make it frozen: @attrs.frozen.")
    if cls.__eq__ in (object.__eq__, BaseException.__eq__):
        return Wrong(f"{told} is not equal by value", "Leave eq on, and let it be no exception.")
    if "__attrs_init__" in cls.__dict__:
        return Wrong(f"{told} has its own __init__, which a load could not call", "Write a classmethod in its place.")
    if hasattr(cls, "__attrs_post_init__"):
        mend = "Check in a field's validator; compute in a property."
        return Wrong(f"{told} has __attrs_post_init__, which a load would run once more", mend)
    fields = cast("tuple[Attribute[Any], ...]", cls.__attrs_attrs__)
    for one in fields:
        if not one.init:
            return Wrong(
                f"{told}.{one.name} is init=False, so that a load could not give it",
                "Make it a property, or let init on.",
            )
        if one.converter is not None:
            return Wrong(
                f"{told}.{one.name} has a converter, which a load would run once more",
                "Convert where the value is made, for example in a classmethod.",
            )
    return _record(tp, cls)


def _named_tuple(tp: Any, cls: Any) -> Shape:
    if not cls.__annotations__.keys() >= set(cls._fields):
        return Wrong(f"{describe(cls)} has fields without a type", "Write a typing.NamedTuple with annotations.")
    return _record(tp, cls)


def _record(tp: Any, cls: type) -> Shape:
    fields = fields_of(tp)
    return fields if isinstance(fields, Wrong) else Record(cls, tp, fields, is_tuple=issubclass(cls, tuple))
