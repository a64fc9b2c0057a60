"""What a Google-style docstring says to a model: its text, and that of each parameter.  Rule D2."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Final

_SECTION: Final = re.compile(r"(Args|Arguments|Attributes|Returns|Raises|Yields):\s*")
_ENTRY: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\(.*?\))?\s*:\s*(?P<text>.*)")


def docstring(text: str) -> tuple[str, dict[str, str]]:
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
