"""A tool's parameters: their JSON Schema from annotations and docstring, and the structuring of what a model wrote.

What a type takes is `structuring`, what a model is told is `refusals`; the handler is called elsewhere.  Rule D2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from inspect import Parameter, cleandoc, signature
from typing import Any, Final, cast, final

import msgspec
from attrs import field, frozen
from msgspec import inspect as read

from ezgraph.refusals import ArgumentsRefused, found, line, near, problems
from ezgraph.structuring import Flaw, Hook, Reading, mutable, record

__all__ = ["ArgumentsRefused", "Flaw", "Parameters", "parameters_of"]

LONGEST: Final = 1_000_000
"""Characters of one call's arguments."""
DEEPEST: Final = 64
"""Lists and objects inside each other in one call's arguments."""


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

    def structure(self, arguments: str) -> dict[str, object]:
        """Keyword arguments for the handler from JSON text; empty text is no arguments.

        Every value is made anew, so a handler may keep or change it.  What is left out is left to the handler's
        default.

        Raises:
            ArgumentsRefused: It is not JSON, not an object, too long, too deep, or does not fit.
        """
        given = _decoded(arguments)
        try:
            made = self._hook(given)
        except Exception as error:
            raise ArgumentsRefused(problems(error)) from error
        return cast("dict[str, object]", made)


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
    reading = Reading()
    hooks = {p.name: _hook(reading, p, hints) for p in offered}
    for name in sorted(told.keys() - {p.name for p in declared}):
        nearest = near(name, hooks)
        mend = f"Write {nearest}." if nearest else "Remove it, or indent it deeper if it continues the line above."
        reading.flaw(f"docstring, Args: {name}", f"there is no parameter {name}", mend)
    if reading.flaws:
        return None, tuple(reading.flaws)
    try:
        schema = _schema(offered, hints, told, reading.orders)
    except Exception as error:  # noqa: BLE001  msgspec asks an author's classes for their defaults
        return None, (Flaw("parameters", line(error), "Write types and defaults that JSON can show."),)
    required = {p.name for p in offered if p.default is Parameter.empty}
    return Parameters(description, schema, record(hooks, required, dict)), ()


_STARRED: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _hook(reading: Reading, parameter: Parameter, hints: Mapping[str, object]) -> Hook:
    place = f"parameter {parameter.name}"
    if unfit := _unfit(parameter, hints):
        return reading.flaw(place, *unfit)
    try:
        node = read.type_info(hints[parameter.name])
    except NotImplementedError:
        what = "a class in it has a default that is made from other fields (takes_self=True)"
        mend = "Write factory=..., or compute the value in a property."
    except NameError as error:
        what, mend = line(error), "Define the classes of arguments at module level."
    except Exception as error:  # noqa: BLE001  annotations of classes are evaluated here, and may raise anything
        what = re.sub(r" \(.*?\)", "", line(error))  # without msgspec's lists of types
        mend = "Write one type whose JSON is unmistakable, or an attrs class with a field for each."
    else:
        return reading.hook(node, place)
    return reading.flaw(place, what, mend)


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
    if default is not Parameter.empty and mutable(default):
        what = f"its default {default!r} can be changed, and would be shared by all calls"
        return what, "Write a tuple, a frozen class or None."
    return None


# ---------------------------------------------------------------------------------------------------------- JSON text

_DECODER: Final = msgspec.json.Decoder(float_hook=Decimal)
_TOO_DEEP: Final = f"the arguments hold lists and objects more than {DEEPEST} deep inside each other"


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
