"""What a model is told when its tool call does not fit: each thing that is wrong, by field, as a person would say it.

Rule D2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final

MOST: Final = 20
"""Problems that one refusal lists."""
MISSING: Final = object()
"""Stands where a required value was not given."""


class ArgumentsRefused(Exception):  # noqa: N818  a refusal, and the model's to mend
    """What a model wrote does not fit the parameters.  Its text is the call's result.  Rule D2.

    Attributes:
        problems: Everything that is wrong, by field, at most 20 lines and one that says there is more.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        listed = tuple(islice(problems, MOST + 1))
        self.problems = (*listed[:MOST], "and more beside these") if len(listed) > MOST else listed
        lines = "\n".join(f"- {problem}" for problem in self.problems)
        super().__init__(f"The tool was not called, because its arguments are wrong:\n{lines}")


class Misfit(ValueError):  # noqa: N818  caught where a refusal is written
    """A value is not what it should be."""

    def __init__(self, expected: str, value: object) -> None:
        super().__init__(
            f"missing, expected {expected}" if value is MISSING else f"expected {expected}, got {found(value)}"
        )


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
            text = str(value)
            return text if len(text) <= 40 else f"{text[:40]}…"


def line(error: Exception) -> str:
    """The first line of what an error says; some of attrs carry more arguments than their text."""
    text = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    lines = text.strip().splitlines()
    return lines[0][:400] if lines else type(error).__name__


class Several(Exception):  # noqa: N818  caught where a refusal is written
    """Several things are wrong inside one value.

    Attributes:
        parts: What is wrong, each behind its step: a `Name` for a field, an index, or an object's key.
    """

    def __init__(self, parts: Sequence[tuple[int | str, Exception]]) -> None:
        self.parts = tuple(parts)
        super().__init__(f"{len(self.parts)} parts are wrong")


class Name(str):
    """A step of a path that is a field's name, not an object's key."""

    __slots__ = ()


def problems(error: Exception, path: tuple[int | str, ...] = ()) -> Iterator[str]:
    """Each thing that is wrong, behind its path, such as `items[0].price`."""
    match error:
        case Several():
            for step, part in error.parts:
                yield from problems(part, (*path, step))
        case ValueError() | TypeError():
            yield f"{_shown(path)}: {line(error)}"
        case _:
            yield f"{_shown(path)}: {type(error).__name__}: {line(error)}"


def _shown(path: tuple[int | str, ...]) -> str:
    named = [isinstance(step, Name) and step.isidentifier() and len(step) <= 40 for step in path]
    return "".join(f".{step}" if name else f"[{found(step)}]" for step, name in zip(path, named, strict=True)).lstrip(
        "."
    )


def unknown(name: str, known: Iterable[str]) -> ValueError:
    """A field that nothing knows, with the nearest name that is known, else all of them."""
    names = list(known)
    if nearest := near(name, names):
        return ValueError(f"unknown, did you mean {nearest}?")
    return ValueError(f"unknown, the fields are {', '.join(names)}" if names else "unknown, there are no fields")


def near(name: str, known: Iterable[str]) -> str:
    """The nearest known name, or nothing."""
    return next(iter(get_close_matches(name[:100], list(known), n=1)), "")
