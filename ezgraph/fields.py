"""The fields of a class as its author wrote them: their names, defaults and resolved types; and types in words."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import cache
from inspect import get_annotations
from typing import Annotated, Any, Literal, NewType, Self, TypeVar, Union, final, get_args, get_origin, get_type_hints

import attrs
import typing_extensions
from attrs import NOTHING, Attribute, Factory, field, frozen, make_class
from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields as struct_fields

from ezgraph.errors.words import quoted


@final
@frozen
class Wrong:
    """A type that a session cannot keep.

    Attributes:
        what: What is wrong with it.
        mend: What to write instead.
    """

    what: str
    mend: str


def describe(tp: object) -> str:  # noqa: PLR0911  a line for each form
    """A type's name for a message: `Claim | None`, `tuple[int, ...]`, `Literal['a']`."""
    if tp is None or tp is type(None):
        return "None"
    if tp is Ellipsis:
        return "..."
    if isinstance(tp, NewType | TypeVar):
        return tp.__name__
    origin, args = get_origin(tp), get_args(tp)
    if origin is None:
        return tp.__qualname__.removeprefix("typing.") if isinstance(tp, type) else str(tp).removeprefix("typing.")
    if origin is Annotated:
        return describe(args[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(quoted, args))}]"
    if origin in (Union, types.UnionType):
        return " | ".join(describe(arg) for arg in args)
    return f"{describe(origin)}[{', '.join(describe(arg) for arg in args) or '()'}]"


def bare(tp: Any, levels: int = 100) -> Any:
    """The type beneath aliases, `Annotated` and `NewType`."""
    for _ in range(levels):
        if tp is None:
            return type(None)
        if isinstance(tp, NewType):
            tp = without_remarks(tp.__supertype__)
        elif get_origin(tp) is Annotated:
            tp = get_args(tp)[0]
        elif isinstance(tp, typing_extensions.TypeAliasType):
            tp = without_remarks(tp.__value__)
        else:
            break
    return tp


def without_remarks(tp: Any) -> Any:
    """The type without what `Annotated` says of it to others: that need not be hashable, and we keep types by hash."""
    origin, args = get_origin(tp), get_args(tp)
    if origin is Annotated:
        ours = [remark for remark in args[1:] if isinstance(remark, Meta)]
        inner = without_remarks(args[0])
        return Annotated[(inner, *ours)] if ours else inner
    if origin is None or origin is Literal:
        return tp
    return _rebuilt(tp, tuple(map(without_remarks, args)))


def is_record(tp: Any) -> bool:
    """Whether it is an attrs class, a NamedTuple or one of the engine's own Structs."""
    cls = get_origin(tp) or tp
    return isinstance(cls, type) and (
        hasattr(cls, "__attrs_attrs__")
        or issubclass(cls, Struct)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )


def attributes(tp: Any, *, extras: bool = False) -> tuple[Attribute[Any], ...]:
    """The fields of a record, their types resolved (with `Annotated`, for `extras`), its type arguments filled in."""
    fields = fields_of(tp, extras=extras)
    if isinstance(fields, Wrong):
        raise TypeError(f"{fields.what}. {fields.mend}")
    return fields


def fields_of(tp: Any, *, extras: bool = False) -> tuple[Attribute[Any], ...] | Wrong:
    """As `attributes`, or what is wrong with them."""
    cls = get_origin(tp) or tp
    if hasattr(cls, "__attrs_attrs__"):
        written: tuple[Attribute[Any], ...] = cls.__attrs_attrs__
    elif issubclass(cls, Struct):
        written = _struct_fields(cls)
    else:
        written = named_fields({name: cls._field_defaults.get(name, NOTHING) for name in cls._fields})
    hints = _hints(cls, {one.name: one.type for one in written}, extras=extras)
    if isinstance(hints, Wrong):
        return hints
    if extras:
        hints = {name: without_remarks(hint) for name, hint in hints.items()}
    fill = _filler(tp, cls)
    if isinstance(fill, Wrong):
        return fill
    return tuple(one.evolve(type=fill(one.name, hints[one.name])) for one in written)


@cache
def _struct_fields(cls: type[Struct]) -> tuple[Attribute[Any], ...]:
    made: dict[str, Any] = {}
    for one in struct_fields(cls):
        factory = one.default_factory
        default = NOTHING if one.default is NODEFAULT else one.default
        made[one.name] = default if factory is NODEFAULT else Factory(factory)
    return named_fields(made)


def named_fields(defaults: Mapping[str, Any]) -> tuple[Attribute[Any], ...]:
    """Fields as those of an attrs class, of names and defaults."""
    made = make_class(
        "fields",
        {name: field(default=one, alias=name, kw_only=True) for name, one in defaults.items()},
        init=False,
        repr=False,
        eq=False,
    )
    return tuple(attrs.fields(made))


def _hints(cls: type, written: dict[str, Any], *, extras: bool) -> dict[str, Any] | Wrong:
    """The resolved types of a class's fields; `written` are those that stand in the fields themselves."""
    try:
        return {**written, **get_type_hints(cls, include_extras=extras)}
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        if written and not any(tp is None or isinstance(tp, str) for tp in written.values()):
            return written  # `attrs.resolve_types` was called with the names
        return Wrong(
            f"an annotation of {describe(cls)} cannot be resolved: {error}",
            "Name types that stand at a module's top level, imported outside `if TYPE_CHECKING`.",
        )


def _filler(tp: Any, cls: Any) -> Callable[[str, Any], Any] | Wrong:
    """Puts type arguments in the place of type variables, and the class in the place of `Self`, in a field's type.

    One variable may stand for two things in a class and in its base, so each field is filled by the class it is from.
    """
    names = getattr(cls, "__parameters__", ())
    if len(get_args(tp)) < len(names):
        return Wrong(f"{describe(cls)} is generic", f"Name its type arguments: {describe(cls)}[int].")
    known: dict[Any, dict[Any, Any]] = {cls: dict(zip(names, get_args(tp), strict=True))}
    for child in cls.__mro__:
        for parent in child.__dict__.get("__orig_bases__", ()):
            names = getattr(get_origin(parent), "__parameters__", ())
            given = [_filled(arg, known.get(child, {})) for arg in get_args(parent)]
            known.setdefault(get_origin(parent), dict(zip(names, given, strict=False)))

    def fill(name: str, inner: Any) -> Any:
        owner = next((child for child in cls.__mro__ if name in get_annotations(child)), cls)
        return _filled(inner, {**known.get(owner, {}), Self: tp})

    return fill


def _filled(tp: Any, known: Mapping[Any, Any]) -> Any:
    if isinstance(tp, TypeVar) or tp is Self:
        return known.get(tp, tp)
    origin, args = get_origin(tp), get_args(tp)
    if origin is Literal:
        return tp
    filled = tuple(_filled(arg, known) for arg in args)
    return Annotated[filled] if origin is Annotated and filled != args else _rebuilt(tp, filled)


def _rebuilt(tp: Any, filled: tuple[Any, ...]) -> Any:
    """The type with others in the place of its arguments."""
    origin = get_origin(tp)
    if all(new is old for new, old in zip(filled, get_args(tp), strict=True)):
        return tp
    return Union[filled] if origin in (Union, types.UnionType) else origin[filled]  # noqa: UP007  they are counted here
