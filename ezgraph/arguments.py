"""A tool's parameters: what a model is told of them, and the structuring of what it wrote.

What a type says is `schemas`, what it takes is `structuring` and `scalars`; the handler is called elsewhere.  Rule D2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from itertools import islice
from typing import Any, Final, final

import attrs
import msgspec
from attrs import field, frozen

from ezgraph.docstrings import docstring
from ezgraph.errors.words import quoted
from ezgraph.fields import named_fields, without_remarks
from ezgraph.numbers import TooLarge, decimal_of, value_of
from ezgraph.scalars import SINGLE
from ezgraph.schemas import Flaw, Schemas, mutable, shown_default
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
    hints = {name: without_remarks(hint) for name, hint in hints.items()}
    declared = list(signature(handler).parameters.values())
    offered = [p for n, p in enumerate(declared) if n >= 2 or p.kind in _STARRED]
    description, told = docstring(handler.__doc__ or "")
    converter = Strict(SINGLE, lambda cls: {(type(member.value), member.value): member for member in cls})
    schemas = Schemas(converter.named)
    properties = {p.name: _property(schemas, p, hints, told.get(p.name, "")) for p in offered}
    for name in sorted(told.keys() - {p.name for p in declared}):
        nearest = near(name, [p.name for p in offered])
        mend = f"Write {nearest}." if nearest else "Remove it, or indent it deeper if it continues the line above."
        schemas.flaw(f"docstring, Args: {name}", f"there is no parameter {name}", mend)
    if schemas.flaws:
        return None, tuple(schemas.flaws)
    schema = {
        "type": "object",
        "properties": properties,
        "required": [p.name for p in offered if p.default is Parameter.empty],
        "additionalProperties": False,
    }
    definitions = schemas.definitions()
    fields = named_fields({p.name: attrs.NOTHING if p.default is Parameter.empty else None for p in offered})
    hook = converter.record(handler, [one.evolve(type=hints[one.name]) for one in fields], dict)
    return Parameters(description, {**schema, "$defs": definitions} if definitions else schema, hook, converter), ()


_STARRED: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _property(schemas: Schemas, parameter: Parameter, hints: Mapping[str, object], told: str) -> Mapping[str, object]:
    """What a schema says of a parameter: its type, its default and the docstring's text of it."""
    place = f"parameter {parameter.name}"
    if unfit := _unfit(parameter, hints):
        return schemas.flaw(place, *unfit)
    try:
        schema = schemas.of(hints[parameter.name], place)
    except RecursionError:
        what = "its classes hold ever other classes in each other"
        return schemas.flaw(place, what, "Write a class that holds itself, with the same type arguments.")
    except Exception as error:  # noqa: BLE001  annotations of classes are evaluated here, and may raise anything
        return schemas.flaw(place, _line(error), "Write annotations that can be evaluated and hashed.")
    default = {} if parameter.default is Parameter.empty else shown_default(parameter.default)
    return {**schema, **default, **({"description": told} if told else {})}


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
        what = f"its default {quoted(default)} can be changed, and would be shared by all calls"
        return what, "Write a tuple, a frozen class or None."
    return None


# ---------------------------------------------------------------------------------------------------------- JSON text

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
        given = value_of(arguments, decimal_of)
    except UnicodeEncodeError as error:
        raise ArgumentsRefused([f"the arguments are not Unicode text: half a character at {error.start}"]) from error
    except RecursionError as error:
        raise ArgumentsRefused([_TOO_DEEP]) from error
    except ArithmeticError as error:
        raise ArgumentsRefused(["the arguments hold a number that is out of range"]) from error
    except TooLarge as error:
        raise ArgumentsRefused(["the arguments are not JSON: Integer value out of range"]) from error
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
