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


def mermaid(plan: Plan) -> str:
    """The plan as Mermaid text: stages are round, workers square, the entry has a thick border.

    A dotted line is a `direct_to`, a thick one a fan-out, one that ends in a circle a join.
    """
    names = {node: f"n{i}" for i, node in enumerate(plan.nodes)} | {END: "finish"}
    lines = ["flowchart TD"]
    for node, spec in plan.nodes.items():
        lines.append(f'    {names[node]}["{node}"]' if spec.placement == "internal" else f'    {names[node]}("{node}")')
    if any(arrow.target == END for arrow in plan.arrows):
        lines.append(f"    {names[END]}((END))")
    lines += [f"    {names[a.source]} {_line(a)} {names[a.target]}" for a in plan.arrows]
    lines.append(f"    style {names[plan.entry]} stroke-width:3px")
    return "\n".join(lines) + "\n"


def _line(arrow: Arrow) -> str:
    return f"{_LINES[arrow.kind]}|{arrow.label}|" if arrow.label else _LINES[arrow.kind]
