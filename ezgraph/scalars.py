"""Single values out of decoded JSON: strictly, as they were written, and within the limits their types were given.

A number with a point comes here as a `Decimal`, never through binary floating point.  Rule D2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import inspect as read

LARGEST: Final = 6144
"""The largest power of ten of a number, decimal128's: `int()` of a few characters more would fill the memory."""


_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def whole(value: object) -> object:
    """5.0 as 5; anything else as it is."""
    if type(value) is Decimal and value.adjusted() < 40 and value == value.to_integral_value():
        return int(value)
    return value


def _exactly(kind: type, value: object) -> object:
    if type(value) is not kind:
        raise ValueError
    return value


def _integer(value: object) -> object:
    return _exactly(int, whole(value))


def _float(value: object) -> object:
    if not isinstance(value, int | Decimal) or isinstance(value, bool) or not math.isfinite(number := float(value)):
        raise ValueError
    return number


def _decimal(value: object) -> object:
    if isinstance(value, bool) or not (
        isinstance(value, int | Decimal) or (isinstance(value, str) and _NUMBER.fullmatch(value))
    ):
        raise ValueError
    number = Decimal(value)
    if not number.is_finite() or abs(number.adjusted()) > LARGEST:
        raise ValueError
    return number


def _parsed(kind: type, value: object) -> object:
    return msgspec.convert(_exactly(str, value), kind)


SINGLE: Final[Mapping[type[read.Type], tuple[str, Callable[[object], object]]]] = {
    read.NoneType: ("null", partial(_exactly, type(None))),
    read.BoolType: ("true or false", partial(_exactly, bool)),
    read.IntType: ("an integer", _integer),
    read.FloatType: ("a number", _float),
    read.DecimalType: ("a number, or its digits as a string", _decimal),
    read.StrType: ("a string", partial(_exactly, str)),
    read.DateType: ("a date such as 2024-12-31", partial(_parsed, date)),
    read.DateTimeType: ("a date and time such as 2024-12-31T09:30:00Z", partial(_parsed, datetime)),
    read.TimeType: ("a time such as 09:30:00", partial(_parsed, time)),
    read.TimeDeltaType: ("a duration such as P1DT2H", partial(_parsed, timedelta)),
    read.UUIDType: ("a UUID", partial(_parsed, UUID)),
}
"""What a single value is called, and how it is made; it raises ValueError or ArithmeticError."""

LIMITS: Final[Mapping[str, tuple[str, Callable[[Any, Any], object]]]] = {
    "gt": ("greater than {}", lambda value, bound: value > bound),
    "ge": ("of at least {}", lambda value, least: value >= least),
    "lt": ("less than {}", lambda value, bound: value < bound),
    "le": ("of at most {}", lambda value, most: value <= most),
    "multiple_of": ("that is a multiple of {}", lambda value, of: value % of == 0),
    "min_length": ("of length {} or more", lambda value, least: len(value) >= least),
    "max_length": ("of length {} or less", lambda value, most: len(value) <= most),
    "pattern": ("that matches {}", lambda value, pattern: re.search(pattern, value)),
    "tz": ("{1} an offset", lambda value, aware: (value.tzinfo is not None) == aware),
}
"""The constraints of `msgspec.Meta`: how each reads after what is expected ({1} is `with` or `without`), and whether a
value holds it."""
