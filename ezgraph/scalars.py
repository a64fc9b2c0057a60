"""Single values as a model writes them: strictly, and as they were written.

A number with a point comes here as a `Decimal`, never through binary floating point.  Rule D2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Final
from uuid import UUID

import msgspec

from ezgraph.numbers import decimal_of
from ezgraph.structuring import Single, exactly, whole

LARGEST: Final = 6144
"""The largest power of ten of a number, decimal128's: `int()` of a few characters more would fill the memory."""


_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def _integer(value: object) -> object:
    return exactly(int, whole(value))


def _float(value: object) -> object:
    if not isinstance(value, int | Decimal) or isinstance(value, bool) or not math.isfinite(number := float(value)):
        raise ValueError
    return number


def _decimal(value: object) -> object:
    if isinstance(value, bool) or not (
        isinstance(value, int | Decimal) or (isinstance(value, str) and _NUMBER.fullmatch(value))
    ):
        raise ValueError
    number = decimal_of(value) if isinstance(value, str) else Decimal(value)
    if not number.is_finite() or abs(number.adjusted()) > LARGEST:
        raise ValueError
    return number


def _parsed(kind: type, value: object) -> object:
    return msgspec.convert(exactly(str, value), kind)


SINGLE: Final[Mapping[type, Single]] = {
    type(None): ("null", partial(exactly, type(None))),
    bool: ("true or false", partial(exactly, bool)),
    int: ("an integer", _integer),
    float: ("a number", _float),
    Decimal: ("a number, or its digits as a string", _decimal),
    str: ("a string", partial(exactly, str)),
    date: ("a date such as 2024-12-31", partial(_parsed, date)),
    datetime: ("a date and time such as 2024-12-31T09:30:00Z", partial(_parsed, datetime)),
    time: ("a time such as 09:30:00", partial(_parsed, time)),
    timedelta: ("a duration such as P1DT2H", partial(_parsed, timedelta)),
    UUID: ("a UUID", partial(_parsed, UUID)),
}
"""What a single value is called, and how it is made."""
