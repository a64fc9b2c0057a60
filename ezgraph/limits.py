"""The limits that msgspec's `Meta` puts on a type: how each reads, and whether a value holds it.  Rule D2."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, get_args, get_origin

from msgspec import Meta

from ezgraph.fields import bare

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
"""How each reads after what is expected ({1} is `with` or `without`), and whether a value holds it."""


def metas(tp: Any) -> list[Meta]:
    """What msgspec's `Meta` says of a type, through aliases and NewTypes; the outermost first."""
    given = [meta for meta in get_args(tp)[1:] if isinstance(meta, Meta)] if get_origin(tp) is Annotated else []
    return given + (metas(inner) if (inner := bare(tp, levels=1)) is not tp else [])
