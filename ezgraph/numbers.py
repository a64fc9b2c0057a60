"""How numbers are written and read: alike whatever a thread's decimal context and the interpreter's digit limit say.

A session outlives the process that wrote it, so nothing that a process can set may show in it.  Rule L4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation, localcontext
from json import loads
from typing import Any, Final, Literal

from msgspec import DecodeError, Raw, json, to_builtins

MAX_BITS: Final = 13_287
"""The longest whole number that is kept: Python reads no number of more than about 4000 digits from text."""

_DIGITS: Final = 4000
"""No number of fewer digits has more bits."""

_CONTEXT: Final = Context(capitals=1, traps=[InvalidOperation])


class TooLarge(ValueError):  # noqa: N818  caught where a refusal is written
    """A whole number has more than `MAX_BITS`."""

    def __init__(self) -> None:
        super().__init__(f"a whole number has more than {MAX_BITS:,} bits")


def is_kept(number: int) -> bool:
    """Whether it has no more bits than can be kept."""
    return number.bit_length() <= MAX_BITS


# ------------------------------------------------------------------------------------------------------------ decimals


def decimal_text(number: Decimal) -> str:
    """A Decimal as text, with the E of its exponent in capitals."""
    return _CONTEXT.to_sci_string(number)


def decimal_of(text: str) -> Decimal:
    """The Decimal of a text, to its last digit.

    Raises:
        ArithmeticError: It is none.
    """
    return Decimal(text, _CONTEXT)


# ---------------------------------------------------------------------------------------------------------------- JSON


def json_of(
    value: object, hook: Callable[[Any], Any] | None = None, order: Literal["deterministic"] | None = None
) -> bytes:
    """A value as JSON.

    Args:
        value: Of what msgspec can encode.
        hook: Makes plain what it cannot.
        order: Whether names are sorted.

    Raises:
        TooLarge: A whole number in it cannot be kept.
        UnicodeEncodeError: A text in it cannot be encoded.
    """
    try:
        text = json.encode(value, enc_hook=hook, order=order)
    except UnicodeEncodeError:
        raise
    except ValueError:  # the interpreter's limit, which may be lower than ours
        return json.encode(_written_out(to_builtins(value, enc_hook=hook, order=order)))
    if len(text) >= _DIGITS and _has_long_run(text) and _holds_too_large(to_builtins(value, enc_hook=hook)):
        raise TooLarge
    return text


def json_of_any(value: object, hook: Callable[[Any], Any], order: Literal["deterministic"]) -> bytes:
    """As `json_of`, where a Decimal may be in the value: msgspec writes it as the thread's context says."""
    with localcontext(_CONTEXT):
        return json_of(value, hook, order)


def plain_of(value: object) -> Any:
    """What JSON says of a value, as plain data with texts for names."""
    with localcontext(_CONTEXT):
        return to_builtins(value, str_keys=True)


def _written_out(value: Any) -> Any:
    """Plain data with the text of each long number in its place."""
    if type(value) is dict:
        return {name: _written_out(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_written_out, value)]
    if type(value) is not int or -(2**63) <= value < 2**64:
        return value
    if not is_kept(value):
        raise TooLarge
    return Raw(decimal_text(Decimal(value)))  # a Decimal has no limit of digits


def without_long(value: Any) -> Any:
    """Plain data with nothing in the place of each long number, for whoever cannot write them."""
    if isinstance(value, dict):
        return {without_long(name): without_long(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [*map(without_long, value)]
    return 0 if isinstance(value, int) and not -(2**63) <= value < 2**64 else value


def value_of(text: str | bytes, point: Callable[[str], Any] = float) -> Any:
    """The value of JSON.

    Args:
        text: The JSON.
        point: What a number with a point is made by.

    Raises:
        TooLarge: A whole number in it cannot be kept.
        DecodeError: It is no JSON.
        UnicodeError: It is no text.
    """
    decoder = _DECODER if point is float else json.Decoder(float_hook=point)
    try:
        made = decoder.decode(text)
    except DecodeError:
        if len(text) <= _LEAST_LIMIT:
            raise
        written = text if isinstance(text, str) else text.decode()
        decoder.decode(_LONG.sub(_without_long, written))  # what else is wrong with it
        return loads(written, parse_int=_whole, parse_float=point)
    if len(text) >= _DIGITS and _has_long_run(text) and _holds_too_large(made):
        raise TooLarge
    return made


_DECODER: Final = json.Decoder()
_LEAST_LIMIT: Final = 640  # digits: an interpreter that reads less than all reads so many at least
_LONG: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\d.eE+-])-?\d{641,}(?![\d.eE])', re.DOTALL)


def _has_long_run(text: str | bytes) -> bool:
    """Whether so many digits may stand in a row that it is worth a look: each such row holds a whole stride."""
    stride = _DIGITS // 2 - 1
    return any(text[at : at + stride].isdigit() for at in range(0, len(text) - stride, stride))


def _holds_too_large(value: Any) -> bool:
    if type(value) is dict:
        return any(map(_holds_too_large, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_too_large, value))
    return type(value) is int and not is_kept(value)


def _without_long(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else "0"


def _whole(text: str) -> int:
    if len(text) > _DIGITS + 1:
        raise TooLarge
    number = int(decimal_of(text))
    if not is_kept(number):
        raise TooLarge
    return number
