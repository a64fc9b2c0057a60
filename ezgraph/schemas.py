"""Types as JSON Schema, as a model is told of them, and what no schema could say of them.  Rule D2.

What a model wrote is made a value elsewhere, in `ezgraph.structuring`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence, Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from inspect import isabstract
from itertools import chain, combinations, count
from typing import Any, Final, Literal, TypeAlias, TypeVar, final, get_args, get_origin
from uuid import UUID

import attrs
from attrs import NOTHING, Attribute, frozen

from ezgraph.docstrings import docstring
from ezgraph.errors.words import quoted
from ezgraph.fields import attributes, bare, describe
from ezgraph.limits import LIMITS, metas
from ezgraph.numbers import plain_of
from ezgraph.scalars import SINGLE
from ezgraph.structuring import BUILT, Misfit, Named, is_enum, single
from ezgraph.unions import is_union, members_of, own_fields, tag_of

Schema: TypeAlias = dict[str, Any]


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


_SINGLES: Final[Mapping[Any, Schema]] = {
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    Decimal: {"type": "string", "format": "decimal"},
    date: {"type": "string", "format": "date"},
    datetime: {"type": "string", "format": "date-time"},
    time: {"type": "string", "format": "time"},
    timedelta: {"type": "string", "format": "duration"},
    UUID: {"type": "string", "format": "uuid"},
}
_MAPPINGS: Final = (dict, Mapping, MutableMapping)
_KINDS: Final[Mapping[Any, str]] = {
    **{cls: "strings" for cls, schema in _SINGLES.items() if schema["type"] == "string"},
    int: "integers",
}
_PARSED: Final = {"strings": "str", "integers": "int"}
_NAIVE: Final[Mapping[Any, Schema]] = {datetime: {"type": "string"}, time: {"type": "string", "format": "partial-time"}}
"""A moment without an offset; JSON Schema has no format for it with a date."""

_NUMERIC: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_KEYWORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "integer": _NUMERIC,
    "number": _NUMERIC,
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
"""What JSON Schema calls each limit."""


@final
class Schemas:
    """Reads the types of one tool.

    Args:
        named: The values that an enum or a literal allows; nothing for other types.

    Attributes:
        flaws: What is wrong so far.
    """

    def __init__(self, named: Callable[[Any], Named]) -> None:
        self.flaws: list[Flaw] = []
        self._named = named
        self._names: dict[Any, str] = {}
        self._fields: dict[Any, tuple[Attribute[Any], ...]] = {}
        self._definitions: dict[str, Schema] = {}
        self._tags: list[tuple[str, str]] = []

    def flaw(self, place: str, what: str, mend: str) -> Schema:
        """Note a flaw; it has no schema."""
        if (flaw := Flaw(place, what, mend)) not in self.flaws:
            self.flaws.append(flaw)
        return {}

    def definitions(self) -> Mapping[str, Schema]:
        """The classes and enums of all types that were read, if without flaw."""
        for name, tag in self._tags:  # a default is of no use where the tag decides which class it is
            one = self._definitions[name]
            one["required"] = [field for field in one["properties"] if field == tag or field in one["required"]]
            one["properties"][tag].pop("default", None)
        return self._definitions

    def of(self, tp: Any, place: str) -> Schema:
        """The schema of a type, its flaws noted."""
        hash(tp)  # or TypeError: hooks are kept by their types
        inner, said = bare(tp), metas(tp)
        schema = self._plain(inner, place)
        if not said or not schema:
            return schema
        texts: Schema = {}
        for meta in said:
            own = {"title": meta.title, "description": meta.description, "examples": meta.examples}
            own = {name: text for name, text in own.items() if text is not None}
            texts = {**own, **(meta.extra_json_schema or {}), **texts}
        limits = [(limit, of) for meta in said for limit in LIMITS if (of := getattr(meta, limit)) is not None]
        keywords = {} if schema.keys() & {"format", "maxItems"} else _KEYWORDS.get(schema.get("type", ""), {})
        for limit, of in limits:
            if limit == "tz" and inner in _NAIVE:
                schema = schema if of else {**_NAIVE[inner]}
            elif limit not in keywords:
                mend = "Remove it, or write it at the type that it limits, as in Annotated[int, Meta(ge=1)] | None."
                self.flaw(place, f"{limit}={quoted(of)} is no limit of {describe(inner)}", mend)
            elif keywords[limit] in schema:
                self.flaw(place, f"{limit} is given twice", "Write it once.")
            else:
                schema[keywords[limit]] = of
        return {**texts, **schema}

    def _plain(self, tp: Any, place: str) -> Schema:  # noqa: C901, PLR0911  an arm for each form
        """The schema of a type without what is only said of it."""
        cls: Any = get_origin(tp) or tp
        args = get_args(tp)
        if cls is Final:
            return self.of(args[0], place)
        if tp is Any or isinstance(tp, TypeVar):
            return self.flaw(place, "it may hold anything, so nothing can be checked", "Write what it holds.")
        if is_union(tp):
            return self._union(tp, place)
        if cls is Literal:
            if any(value is not None and type(value) not in (str, int, bool) for value in args):
                return self.flaw(
                    place, f"{describe(tp)} is not of str, int, bool or None", "Name the Enum class itself."
                )
            return {"enum": list(args)}
        if tp in _SINGLES:
            return {**_SINGLES[tp]}
        if cls is tuple and tp is not tuple and args[1:] != (...,):
            return self._fixed(args, place)
        if cls in BUILT or cls is tuple:
            return self._series(cls, args[0] if args else Any, place)
        if cls in _MAPPINGS:
            return self._mapping(args or (Any, Any), place)
        if is_enum(cls):
            return self._enum(tp, place)
        if isinstance(cls, type) and attrs.has(cls):
            return self._record(tp, cls, place)
        name = getattr(cls, "__name__", describe(tp))
        mend = "Write an attrs class, or a type that JSON has a form for."
        return self.flaw(place, f"{name} is no type of an argument", mend)

    def _series(self, cls: Any, item: Any, place: str) -> Schema:
        schema = {"type": "array", "items": self.of(item, place)}
        if not issubclass(cls, AbstractSet):
            return schema
        if not _hashable(item):
            return self.flaw(place, "a set cannot hold what can be changed", "Write a list, or a frozen class in it.")
        return {**schema, "uniqueItems": True}

    def _fixed(self, items: Sequence[Any], place: str) -> Schema:
        schema: Schema = {"type": "array", "minItems": len(items), "maxItems": len(items)}
        return {**schema, "prefixItems": [self.of(item, place) for item in items], "items": False} if items else schema

    def _mapping(self, parts: tuple[Any, ...], place: str) -> Schema:
        key, item = parts
        named = self._named(key)
        names: Schema = {}
        if bare(key) is str or (named and all(kind is str for kind, _ in named)):
            names = {name: said for name, said in self.of(key, place).items() if name != "type"}
        else:
            self.flaw(place, "the keys of a JSON object are strings", "Write dict[str, ...], or a list of pairs.")
        schema = {"type": "object", "additionalProperties": self.of(item, place)}
        return {**schema, "propertyNames": names} if names else schema

    # ---------------------------------------------------------------------------------------------------------- unions

    def _union(self, tp: Any, place: str) -> Schema:
        schemas: list[Schema] = []
        for member in get_args(tp):
            schema = self.of(member, place)
            schemas += schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
        options = [one for n, one in enumerate(schemas) if one not in schemas[:n]]
        options.sort(key=lambda one: one == _SINGLES[type(None)])
        kinds = {bare(member): member for member in members_of(tp)}
        for one, other in combinations(kinds, 2):
            if both := self._clash(one, other):
                told = describe(kinds[one]), describe(kinds[other])
                what = f"{' and '.join(told)} are both {both} in JSON, and nothing tells which is meant"
                self.flaw(place, what, _mend(told, _PARSED.get(both, "")))
                break
        classes = {cls: self._fields[cls] for cls in kinds if cls in self._fields}
        if len(classes) < 2:
            return {"anyOf": options}
        if tag := tag_of(classes):
            self._tags += [(self._names[cls], tag[0]) for cls in classes]
        elif not own_fields(classes):
            what = f"{' and '.join(map(describe, classes))} are objects in JSON, and no field tells which is meant"
            self.flaw(place, what, 'Give each a field of its own text: kind: Literal["..."].')
        return {"anyOf": options}

    def _clash(self, one: Any, other: Any) -> str:
        """What two members of a union both are in JSON, where that leaves open which is meant; else nothing."""
        values, others = self._named(one), self._named(other)
        if others and not values:
            return self._clash(other, one)
        enum = is_enum(one) or is_enum(other)

        def is_other(kind: type, value: object) -> bool:
            if others or kind is other:  # the text of a literal is the same text; the member of an enum is another
                return enum and (kind is other or (kind, value) in others)
            return kind is str and _takes(other, value)

        if values:
            return next((_KINDS[kind] for kind, value in values if is_other(kind, value)), "")
        kind = _kind(one)
        return kind if kind == _kind(other) and not (_is_class(one) and _is_class(other)) else ""

    # --------------------------------------------------------------------------------------------------------- classes

    def _reference(self, tp: Any) -> tuple[str, Schema]:
        """A definition's name, and the reference to it."""
        if tp not in self._names:
            stem = re.sub(r"[^A-Za-z0-9_.-]", "_", _said(tp)["title"])
            names = chain([stem], (f"{stem}_{n}" for n in count(2)))
            self._names[tp] = next(name for name in names if name not in self._names.values())
        return self._names[tp], {"$ref": f"#/$defs/{self._names[tp]}"}

    def _enum(self, cls: Any, place: str) -> Schema:
        values = [member.value for member in cls]
        if {type(value) for value in values} not in ({str}, {int}):
            what = f"the values of {cls.__name__} are not all str, or all int"
            return self.flaw(place, what, "Give each member a str, or each an int.")
        name, reference = self._reference(cls)
        self._definitions[name] = {**_said(cls), "enum": values}
        return reference

    def _record(self, tp: Any, cls: Any, place: str) -> Schema:
        name, reference = self._reference(tp)
        if name in self._definitions:  # read, or in the reading where it holds itself
            return reference
        properties: dict[str, Schema] = {}
        required: list[str] = []
        form = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        self._definitions[name] = {**_said(tp), **form}
        if isabstract(cls):
            self.flaw(place, f"{cls.__name__} is abstract", "Write a class that can be built.")
        if tp is cls and getattr(cls, "__parameters__", False):
            what = f"{cls.__name__} is generic, so that it may hold anything"
            return self.flaw(place, what, f"Name its type arguments: {cls.__name__}[int].")
        try:
            fields = attributes(tp, extras=True)
        except TypeError as error:
            what = str(error).rpartition(". ")[0]
            return self.flaw(place, what, "Define the classes of arguments at module level.")
        self._fields[tp] = fields
        for one in fields:
            inside = f"{place}, field {cls.__name__}.{one.name}"
            default = self._default(one, inside)
            properties[one.name] = {**self.of(Any if one.type is None else one.type, inside), **default}
            if one.default is NOTHING:
                required.append(one.name)
        return reference

    def _default(self, attribute: Attribute[Any], place: str) -> Schema:
        """A field's default as a schema shows it; what its constructor could not be given is a flaw."""
        default: Any = attribute.default
        if not attribute.init:
            self.flaw(place, "it is not given to the constructor (init=False)", "Compute it in a property.")
        elif attribute.alias != attribute.name:
            mend = f"Name the field {attribute.alias}, without an alias."
            self.flaw(place, f"the constructor calls it {attribute.alias}", mend)
        if default is NOTHING:
            return {}
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
            if default.takes_self:
                what = "its default is made from other fields (takes_self=True)"
                self.flaw(place, what, "Write factory=..., or compute the value in a property.")
            return shown_default(default.factory()) if default.factory in (list, dict, set) else {}
        if mutable(default):
            return self.flaw(
                place, f"its default {quoted(default)} can be changed, and would be shared", "Write factory=..."
            )
        shown = shown_default(default)
        return shown or self.flaw(
            place, f"its default {quoted(default)} has no form in JSON", "Write one that has, or factory=..."
        )


def shown_default(default: object) -> Schema:
    """A default as a schema shows it; nothing where JSON has no form for it."""
    try:
        plain = plain_of(default)
        json.dumps(plain, allow_nan=False)
    except Exception:  # noqa: BLE001  whatever it raises, it cannot be shown
        return {}
    return {"default": plain}


def mutable(default: object) -> bool:
    """Whether a default could be changed by one call and seen by the next: what Python will not hash."""
    try:
        hash(default)
    except TypeError:
        return True
    return False


def _said(tp: Any) -> Schema:
    """A class's title, and what its own docstring says of it."""
    title = re.sub(r"(\w+|<locals>)\.", "", describe(tp))
    text, _ = docstring(vars(get_origin(tp) or tp).get("__doc__") or "")
    return {"title": title, "description": text} if text else {"title": title}


def _mend(told: Sequence[str], plain: str) -> str:
    """What to write for two types that are both written as the plain one, if there is one."""
    if not plain:
        return "Write one of them alone."
    rest = [name for name in told if name != plain]
    return f"Write {plain} and parse it, or {rest[0] if len(rest) == 1 else 'one of them'} alone."


def _is_class(tp: Any) -> bool:
    cls = get_origin(tp) or tp
    return isinstance(cls, type) and attrs.has(cls)


def _kind(tp: Any) -> str:
    """What is written as a string, a list or an object; nothing for others, whose values tell."""
    cls = get_origin(tp) or tp
    if cls in BUILT or cls is tuple:
        return "lists"
    return "objects" if cls in _MAPPINGS or _is_class(tp) else ("strings" if _KINDS.get(tp) == "strings" else "")


def _takes(tp: Any, value: object) -> bool:
    """Whether a scalar type has the value too."""
    if tp not in SINGLE:
        return False
    try:
        single(*SINGLE[tp], value, tp)
    except Misfit:
        return False
    return True


def _hashable(tp: Any) -> bool:
    inner = bare(tp)
    cls, args = get_origin(inner) or inner, get_args(inner)
    if _is_class(inner):
        return cls.__hash__ is not None
    if cls is tuple or is_union(inner):
        return all(_hashable(arg) for arg in args if arg is not ...)
    return cls is frozenset or cls not in (*BUILT, *_MAPPINGS)
