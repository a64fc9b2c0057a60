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
    "scatter": "==>",
    "finish": "-->",
    "edge": "-->",
    "join": "--o",
}

_WORDS: Final = frozenset({"class", "click", "default", "direction", "end", "flowchart", "graph", "style", "subgraph"})
"""What Mermaid may take for a statement of its own."""


def mermaid(plan: Plan) -> str:
    """The plan as Mermaid text: stages are round, workers square, the entry has a thick border.

    A line without a name is an edge, one that ends in a circle a join, a dotted one a `direct_to`.  A thick line is a
    fan-out, and with `for each` beside the handler a scatter: its worker and what follows run once for each input, up
    to the lines that say `for all`, which lead into what runs once: a gathering of all items, or a stage.  Rule E6.
    """
    gathered = _gathered(plan)
    names = {node: f"n{i}" for i, node in enumerate(plan.nodes)} | {END: "finish"}
    lines = ["flowchart TD"]
    for node, spec in plan.nodes.items():
        opening, closing = "[]" if spec.placement == "internal" else "()"
        lines.append(f"    {names[node]}{opening}{_quoted(node)}{closing}")
    if any(arrow.target == END for arrow in plan.arrows):
        lines.append(f"    {names[END]}((END))")
    for arrow in plan.arrows:
        label = (
            "for all" if arrow in gathered else f"{arrow.label} for each" if arrow.kind == "scatter" else arrow.label
        )
        lines.append(f"    {names[arrow.source]} {_line(arrow, label)} {names[arrow.target]}")
    lines.append(f"    style {names[plan.entry]} stroke-width:3px")
    return "\n".join(lines) + "\n"


def _gathered(plan: Plan) -> set[Arrow]:
    """The edges and joins over which the runs of all items come together."""
    roots = dict.fromkeys(arrow.target for arrow in plan.arrows if arrow.kind == "scatter")
    closures = [plan.topology.closure((root,), scattered=True) for root in roots]
    ends = {(w, n) for c in closures for n in (*c.once, c.stage) if n for w in c.before[n] if w in c.each}
    return {arrow for arrow in plan.arrows if arrow.kind in {"edge", "join"} and (arrow.source, arrow.target) in ends}


def _line(arrow: Arrow, label: str) -> str:
    plain = label.isidentifier() and label.isascii() and label.lower() not in _WORDS
    shown = label if plain or not label else _quoted(label)
    return f"{_LINES[arrow.kind]}|{shown}|" if shown else _LINES[arrow.kind]


def _quoted(text: str) -> str:
    """A Mermaid string: letters of any script, digits, spaces and `_.-` as they are, all else as entity codes."""
    return '"' + "".join(c if c.isalnum() or c in " _.-" else f"#{ord(c)};" for c in text) + '"'
