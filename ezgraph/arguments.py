"""A tool's parameters: their JSON Schema from annotations and docstring, and the structuring of what a model wrote.

What a type takes is `structuring` and `scalars`; the handler is called elsewhere.  Rule D2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from inspect import Parameter, cleandoc, isabstract, signature
from itertools import islice
from typing import Any, Final, final, get_origin

import attrs
import msgspec
from attrs import field, frozen
from msgspec import inspect as read

from ezgraph.records import named_fields
from ezgraph.scalars import SINGLE
from ezgraph.structuring import Hook, Strict, found, near, shown

__all__ = ["ArgumentsRefused", "Flaw", "Parameters", "parameters_of"]

LONGEST: Final = 1_000_000
"""Characters of one call's arguments."""
_MOST: Final = 20  # problems that one refusal lists
DEEPEST: Final = 64
"""Lists and objects inside each other in one call's arguments."""


class ArgumentsRefused(Exception):  # noqa: N818  a refusal, and the model's to mend
    """What a model wrote does not fit the parameters.  Its text is the call's result.  Rule D2.

    Attributes:
        problems: Everything that is wrong, by field, at most 20 lines and one that says there is more.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        listed = tuple(islice(problems, _MOST + 1))
        self.problems = (*listed[:_MOST], "and more beside these") if len(listed) > _MOST else listed
        lines = "\n".join(f"- {problem}" for problem in self.problems)
        super().__init__(f"The tool was not called, because its arguments are wrong:\n{lines}")


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


@final
@frozen
class Parameters:
    """What a tool takes, as a model is told of it and as a handler is given it.

    Attributes:
        description: The docstring's text before its first section.
        schema: A JSON Schema object that stands alone: what it refers to is in its `$defs`.
    """

    description: str
    schema: Mapping[str, object]
    _hook: Hook = field(repr=False, eq=False)
    _converter: Strict = field(repr=False, eq=False)

    def structure(self, arguments: str) -> dict[str, object]:
        """Keyword arguments for the handler from JSON text; empty text is no arguments.

        Every value is made anew, so a handler may keep or change it.  What is left out is left to the handler's
        default.

        Raises:
            ArgumentsRefused: It is not JSON, not an object, too long, too deep, or does not fit.
        """
        given = _decoded(arguments)
        try:
            made: dict[str, object] = self._hook(given, dict)
        except Exception as error:
            raise ArgumentsRefused(
                f"{shown(path).lstrip('.')}: {_said(wrong)}" for path, wrong in self._converter.wrongs(error)
            ) from error
        return made


def parameters_of(
    handler: Callable[..., object], hints: Mapping[str, object]
) -> tuple[Parameters | None, tuple[Flaw, ...]]:
    """Read a handler's parameters after `self` and `ctx`.

    Args:
        handler: The function, sync or async, decorated or not.
        hints: Its resolved annotations, `Annotated` kept, type variables of generic bases filled in.

    Returns:
        The parameters, or None and everything that is wrong with the signature.
    """
    declared = list(signature(handler).parameters.values())
    offered = [p for n, p in enumerate(declared) if n >= 2 or p.kind in _STARRED]
    description, told = _docstring(handler.__doc__ or "")
    reading = _Reading()
    for parameter in offered:
        _read(reading, parameter, hints)
    for name in sorted(told.keys() - {p.name for p in declared}):
        nearest = near(name, [p.name for p in offered])
        mend = f"Write {nearest}." if nearest else "Remove it, or indent it deeper if it continues the line above."
        reading.flaw(f"docstring, Args: {name}", f"there is no parameter {name}", mend)
    if reading.flaws:
        return None, tuple(reading.flaws)
    converter = Strict(SINGLE, lambda cls: {(type(member.value), member.value): member for member in cls})
    try:
        schema = _schema(offered, hints, told, reading.orders)
        fields = named_fields({p.name: attrs.NOTHING if p.default is Parameter.empty else None for p in offered})
        hook = converter.record(handler, [one.evolve(type=hints[one.name]) for one in fields], dict)
    except Exception as error:  # noqa: BLE001  msgspec asks an author's classes for their defaults
        return None, (Flaw("parameters", _line(error), "Write types and defaults that JSON can show."),)
    return Parameters(description, schema, hook, converter), ()


_STARRED: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _read(reading: _Reading, parameter: Parameter, hints: Mapping[str, object]) -> None:
    place = f"parameter {parameter.name}"
    if unfit := _unfit(parameter, hints):
        reading.flaw(place, *unfit)
        return
    try:
        node = read.type_info(hints[parameter.name])
    except NotImplementedError:
        what = "a class in it has a default that is made from other fields (takes_self=True)"
        mend = "Write factory=..., or compute the value in a property."
    except NameError as error:
        what, mend = _line(error), "Define the classes of arguments at module level."
    except Exception as error:  # noqa: BLE001  annotations of classes are evaluated here, and may raise anything
        what = re.sub(r" \(.*?\)", "", _line(error))  # without msgspec's lists of types
        mend = "Write one type whose JSON is unmistakable, or an attrs class with a field for each."
    else:
        reading.look(node, place)
        return
    reading.flaw(place, what, mend)


def _unfit(parameter: Parameter, hints: Mapping[str, object]) -> tuple[str, str] | None:
    """What is wrong with a parameter, whatever its type, and what to write instead."""
    name, default = parameter.name, parameter.default
    if parameter.kind in _STARRED:
        mend = "Write each parameter out; a decorator needs functools.wraps, so that they can be seen."
        return "a model cannot be told what * and ** take", mend
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        return "it is positional only, and arguments are given by name", "Remove the `/`, or move it before."
    if name not in hints:
        return "it has no annotation", f"Write `{name}: str`, or what it is."
    if default is not Parameter.empty and _mutable(default):
        what = f"its default {default!r} can be changed, and would be shared by all calls"
        return what, "Write a tuple, a frozen class or None."
    return None


# -------------------------------------------------------------------------------------------------------------- types


class _Reading:
    """Notes what of a signature's types cannot be a tool's.

    Attributes:
        flaws: What is wrong so far.
        orders: The values of each enum, in the order of its definition; msgspec sorts them.
    """

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []
        self.orders: dict[frozenset[object], list[object]] = {}
        self._classes: set[object] = set()

    def look(self, node: read.Type, place: str) -> None:  # noqa: C901  an arm for each form
        """Note the flaws of a type, as msgspec reads it: so the schema and the hooks cannot disagree."""
        match node := _bare(node):
            case read.EnumType():
                values = [member.value for member in node.cls]
                self.orders[frozenset(values)] = values
            case read.UnionType():
                for member in node.types:
                    self.look(member, place)
            case read.DataclassType() if attrs.has(node.cls):
                self._read_class(node, place)
            case read.DictType():
                if not _is_text(node.key_type):
                    mend = "Write dict[str, ...], or a list of pairs."
                    self.flaw(place, "the keys of a JSON object are strings", mend)
                self.look(node.key_type, place)
                self.look(node.value_type, place)
            case read.TupleType():
                for item in node.item_types:
                    self.look(item, place)
            case read.SetType() | read.FrozenSetType() if not _hashable(node.item_type):
                mend = "Write a list, or a frozen class in it."
                self.flaw(place, "a set cannot hold what can be changed", mend)
            case read.ListType() | read.SetType() | read.FrozenSetType() | read.VarTupleType():
                self.look(node.item_type, place)
            case read.AnyType():
                self.flaw(place, "it may hold anything, so nothing can be checked", "Write what it holds.")
            case _ if type(node) not in _SCALARS:
                name = getattr(getattr(node, "cls", None), "__name__", type(node).__name__.removesuffix("Type").lower())
                mend = "Write an attrs class, or a type that JSON has a form for."
                self.flaw(place, f"{name} is no type of an argument", mend)

    def flaw(self, place: str, what: str, mend: str) -> None:
        """Note a flaw."""
        self.flaws.append(Flaw(place, what, mend))

    def _read_class(self, node: read.DataclassType, place: str) -> None:
        if node.cls in self._classes:
            return
        self._classes.add(node.cls)
        cls = get_origin(node.cls) or node.cls
        if isabstract(cls):
            self.flaw(place, f"{cls.__name__} is abstract", "Write a class that can be built.")
        for attribute in attrs.fields(cls):
            self._check(attribute, f"{place}, field {cls.__name__}.{attribute.name}")
        for one in node.fields:
            self.look(one.type, f"{place}, field {cls.__name__}.{one.name}")

    def _check(self, attribute: attrs.Attribute[Any], place: str) -> None:
        default = attribute.default
        if not attribute.init:
            self.flaw(place, "it is not given to the constructor (init=False)", "Compute it in a property.")
        if attribute.init and attribute.alias != attribute.name:
            mend = f"Name the field {attribute.alias}, without an alias."
            self.flaw(place, f"the constructor calls it {attribute.alias}", mend)
        if default is not attrs.NOTHING and not hasattr(default, "takes_self") and _mutable(default):
            self.flaw(place, f"its default {default!r} can be changed, and would be shared", "Write factory=...")


_SCALARS: Final = (
    *(read.NoneType, read.BoolType, read.IntType, read.FloatType, read.DecimalType, read.StrType, read.LiteralType),
    *(read.DateType, read.DateTimeType, read.TimeType, read.TimeDeltaType, read.UUIDType),
)


def _bare(node: read.Type) -> read.Type:
    """A type without what is only said of it in the schema."""
    return _bare(node.type) if isinstance(node, read.Metadata) else node


def _is_text(node: read.Type) -> bool:
    match _bare(node):
        case read.EnumType(cls=cls):
            return all(type(member.value) is str for member in cls)
        case read.LiteralType(values=values):
            return all(type(value) is str for value in values)
        case key:
            return isinstance(key, read.StrType)


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
            return all(_hashable(member) for member in node.types)
        case _:
            return True


def _mutable(default: object) -> bool:
    """Whether a default could be changed by one call and seen by the next: what Python will not hash."""
    try:
        hash(default)
    except TypeError:
        return True
    return False


# ---------------------------------------------------------------------------------------------------------- JSON text

_DECODER: Final = msgspec.json.Decoder(float_hook=Decimal)
_TOO_DEEP: Final = f"the arguments hold lists and objects more than {DEEPEST} deep inside each other"


def _line(error: Exception) -> str:
    """The first line of what an error says; some of attrs carry more arguments than their text."""
    text = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    lines = text.strip().splitlines()
    return lines[0][:400] if lines else type(error).__name__


def _said(error: Exception) -> str:
    told = _line(error)
    return told if isinstance(error, ValueError | TypeError) else f"{type(error).__name__}: {told}"


def _decoded(arguments: str) -> dict[str, object]:
    if len(arguments) > LONGEST:
        raise ArgumentsRefused([f"the arguments have {len(arguments)} characters, and {LONGEST} are allowed"])
    if not arguments.strip():
        return {}
    try:
        given = _DECODER.decode(arguments)
    except UnicodeEncodeError as error:
        raise ArgumentsRefused([f"the arguments are not Unicode text: half a character at {error.start}"]) from error
    except RecursionError as error:
        raise ArgumentsRefused([_TOO_DEEP]) from error
    except ArithmeticError as error:
        raise ArgumentsRefused(["the arguments hold a number that is out of range"]) from error
    except msgspec.DecodeError as error:
        raise ArgumentsRefused([f"the arguments are not JSON: {error}"]) from error
    if not isinstance(given, dict):
        raise ArgumentsRefused([f"the arguments must be a JSON object, got {found(given)}"])
    if arguments.count("[") + arguments.count("{") > DEEPEST and _deep(given):  # with fewer it cannot be deeper
        raise ArgumentsRefused([_TOO_DEEP])
    return given


def _deep(given: object) -> bool:
    level: list[Any] = [given]
    for _ in range(DEEPEST):
        inside = (value for outer in level for value in (outer.values() if type(outer) is dict else outer))
        level = [value for value in inside if type(value) in (list, dict)]
    return bool(level)


# ---------------------------------------------------------------------------------------------- schema and docstring


def _schema(
    offered: Sequence[Parameter],
    hints: Mapping[str, object],
    told: Mapping[str, str],
    orders: Mapping[frozenset[object], Sequence[object]],
) -> Mapping[str, object]:
    fields = [
        (p.name, hints[p.name]) if p.default is Parameter.empty else (p.name, hints[p.name], _default(p.default))
        for p in offered
    ]
    struct = msgspec.defstruct("(arguments)", fields, kw_only=True, forbid_unknown_fields=True)
    (top,), defs = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    schema = defs.pop(top["$ref"].removeprefix("#/$defs/"))
    schema.pop("title")
    for name, text in told.items():
        if name in schema["properties"]:
            schema["properties"][name]["description"] = text
    for definition in defs.values():
        if "enum" in definition:  # msgspec sorts them
            definition["enum"] = list(orders.get(frozenset(definition["enum"]), definition["enum"]))
        else:
            definition["additionalProperties"] = False
    return {**schema, "$defs": defs} if defs else schema


def _default(default: object) -> Any:
    """A field's default where JSON can show it, else only that there is one."""
    try:
        msgspec.to_builtins(default)
    except Exception:  # noqa: BLE001  whatever it raises, it cannot be shown
        return msgspec.field(default_factory=object)
    return msgspec.field(default=default)


_SECTION: Final = re.compile(r"(Args|Arguments|Returns|Raises|Yields):\s*")
_ENTRY: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\(.*?\))?\s*:\s*(?P<text>.*)")


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text before the first section, and that of each parameter, of a Google-style docstring."""
    before: list[str] = []
    told: dict[str, list[str]] = {}
    section, indent, name = "", 0, ""
    for row in cleandoc(text).splitlines():
        depth, said = len(row) - len(row.lstrip()), row.strip()
        if said and not depth:
            header = _SECTION.fullmatch(row)
            section = header[1] if header else section and "over"
            indent, name = 0, ""
        if not section:
            before.append(row)
        elif section.startswith("Arg") and said and depth:
            indent = indent or depth
            entry = _ENTRY.fullmatch(said) if depth == indent else None
            if entry:
                name = entry["name"]
                told[name] = [entry["text"]]
            elif name:
                told[name].append(said)
    return "\n".join(before).strip(), {name: " ".join(rows).strip() for name, rows in told.items()}
