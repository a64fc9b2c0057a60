"""A plan as a Mermaid flowchart: exactly the edges it has, in a stable order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ezgraph.plan import Arrow, Plan
from ezgraph.session import END

_LINES: Final[Mapping[str, str]] = {
    "go": "-->",
    "direct_to": "-.->",
    "fanout": "==>",
    "finish": "-->",
    "edge": "-->",
    "join": "--o",
}

_WORDS: Final = frozenset({"class", "click", "default", "direction", "end", "flowchart", "graph", "style", "subgraph"})
"""What Mermaid may take for a statement of its own."""


def mermaid(plan: Plan) -> str:
    """The plan as Mermaid text: stages are round, workers square, the entry has a thick border.

    A dotted line is a `direct_to`, a thick one a fan-out, one that ends in a circle a join.
    """
    names = {node: f"n{i}" for i, node in enumerate(plan.nodes)} | {END: "finish"}
    lines = ["flowchart TD"]
    for node, spec in plan.nodes.items():
        opening, closing = "[]" if spec.placement == "internal" else "()"
        lines.append(f"    {names[node]}{opening}{_quoted(node)}{closing}")
    if any(arrow.target == END for arrow in plan.arrows):
        lines.append(f"    {names[END]}((END))")
    lines += [f"    {names[a.source]} {_line(a)} {names[a.target]}" for a in plan.arrows]
    lines.append(f"    style {names[plan.entry]} stroke-width:3px")
    return "\n".join(lines) + "\n"


def _line(arrow: Arrow) -> str:
    plain = arrow.label.isascii() and arrow.label.lower() not in _WORDS
    label = arrow.label if plain else _quoted(arrow.label)
    return f"{_LINES[arrow.kind]}|{label}|" if label else _LINES[arrow.kind]


def _quoted(text: str) -> str:
    """A Mermaid string: letters of any script, digits, spaces and `_.-` as they are, all else as entity codes."""
    return '"' + "".join(c if c.isalnum() or c in " _.-" else f"#{ord(c)};" for c in text) + '"'
