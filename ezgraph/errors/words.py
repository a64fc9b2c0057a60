"""Anybody's values in an error's text, which must never raise itself: it would hide what it tells of.  Rule M2."""

from __future__ import annotations

from typing import Final

_LONG: Final = 133  # bits of a number of 40 digits


def quoted(value: object) -> str:
    """As `repr`; of a number of many digits, which Python may refuse to write, its size; of what has none, its type."""
    if isinstance(value, int) and value.bit_length() > _LONG:
        return f"a number of {value.bit_length():,} bits"
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001  an author's class may raise anything, and a long number inside does
        return f"a {type(value).__name__} whose repr() raises {type(error).__name__}"


def said(error: BaseException) -> str:
    """What an error says; nothing where it cannot."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  as above
        return ""
