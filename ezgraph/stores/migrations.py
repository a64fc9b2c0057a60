"""From an older version's sessions to a newer one's: pure steps over a session's plain JSON, and ready-made ones.

    app = claims.compile(
        store=store,
        migrations={2: rename_node("Review", "Approval"), 3: (rename_field("Approval", "sum", "total"), add_rate)},
    )

The step to version 2 is what stands under 2.  A session that is loaded is brought to the graph's version in memory, and
written so by its next commit; `python -m ezgraph migrate` does it for a whole store.  Rule L5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ezgraph.stores.parts import Document

Migration: TypeAlias = Callable[[Document], Document]
"""Takes a session's document, which is its own to change, and gives the next version's."""

Steps: TypeAlias = Mapping[int, Migration | Sequence[Migration]]
"""By the version that they lead to: one migration, or several in order; `()` where nothing changes."""

Change: TypeAlias = Callable[[Any], Any]
"""Takes one stored value, as plain JSON, and gives it anew."""


def steps_of(given: Migration | Sequence[Migration]) -> tuple[Migration, ...]:
    """The migrations that one version has, in order."""
    return (given,) if callable(given) else tuple(given)


def missing_steps(stored: int, version: int, steps: Iterable[int]) -> tuple[int, ...]:
    """The versions between that of a session and that of its graph to which nothing leads."""
    there = frozenset(steps)
    return tuple(number for number in range(stored + 1, version + 1) if number not in there)


# ----------------------------------------------------------------------------------------------------- ready-made ones


def rename_node(old: str, new: str) -> Migration:
    """A node has another id: wherever a session names it.

    Args:
        old: The id before: the class's name, or its `id`.
        new: The id now.
    """

    def name(value: Any) -> Any:
        return new if value == old else value

    def key(value: Any) -> Any:
        return _renamed(value, old, new) if isinstance(value, dict) else value

    def migrate(document: Document) -> Document:
        for at, field, kind in _places(document):
            if kind == "node":
                at[field] = name(at[field])
            elif kind == "nodes":
                at[field] = [name(one) for one in at[field]]
            elif kind == "mark":
                at[field] = [[name(one[0]), *one[1:]] for one in at[field]]
            elif kind == "answers":
                at[field] = {_tool(one, old, new): inner for one, inner in at[field].items()}
            else:
                at[field] = key(at[field])
        return document

    return migrate


def _tool(key: str, old: str, new: str) -> str:
    """A tool's key, `Node.tool`."""
    node, dot, tool = key.rpartition(".")
    return f"{new}{dot}{tool}" if node == old else key


def change_state(node: str, change: Change) -> Migration:
    """Each stored state of a node is made anew: its cell, what branches and journals hold of it, and inputs for it.

    Args:
        node: Its id; `session.CONTEXT` for the graph's context.
        change: Of the state as plain JSON.
    """

    def migrate(document: Document) -> Document:
        for at, field, kind in _places(document):
            if kind == "states" and node in at[field]:
                at[field][node] = change(at[field][node])
            elif kind == "inputs" and node in at[field]:
                at[field][node] = [change(one) for one in at[field][node]]
        opened = document.get("activation") or {}
        if opened.get("inputs") is not None and opened.get("roots") == [node]:
            opened["inputs"] = [change(one) for one in opened["inputs"]]
        return document

    return migrate


def change_output(worker: str, change: Change) -> Migration:
    """Each stored output of a worker is made anew: in rows, in results, and in journals.

    Args:
        worker: Its id.
        change: Of the output as plain JSON.
    """

    def migrate(document: Document) -> Document:
        for row in (document.get("activation") or {}).get("rows", ()):
            if row["node"] == worker:
                row["output"] = change(row["output"])
        for at, field, kind in _places(document):
            if kind == "outputs" and worker in at[field]:
                at[field][worker] = change(at[field][worker])
            elif kind == "series" and worker in at[field]:
                at[field][worker] = [change(one) for one in at[field][worker]]
        return document

    return migrate


def rename_field(node: str, old: str, new: str) -> Migration:
    """A field of a node's state has another name.

    Args:
        node: The node's id; `session.CONTEXT` for the graph's context.
        old: The field's name before.
        new: Its name now.
    """

    def rename(value: Any) -> Any:
        if not isinstance(value, dict):  # None, where the state is optional
            return value
        return _renamed(value, old, new)

    return change_state(node, rename)


def _renamed(table: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """The same values in the same order, one under another name, which must be free."""
    if old in table and new in table and old != new:
        raise ValueError(f"{new!r} is there already, beside {old!r}: take one of them away first")
    return {new if name == old else name: value for name, value in table.items()}


# ------------------------------------------------------------------------------------------- where a node may be named

_OF_DOCUMENT: Final = {"cells": "states", "usage": "keys", "results": "outputs", "series": "series"}
_OF_ROW: Final = {"node": "node", "cells": "states", "usage": "keys"}
_OF_NOTE: Final = {
    "node": "node",
    "worker": "node",
    "state": "states",
    "output": "outputs",
    "cells": "states",
    "usage": "keys",
}
_OF_OUTCOME: Final = {
    "target": "node",
    "state": "states",
    "workers": "nodes",
    "inputs": "inputs",
    "value": "answers",
}


def _places(document: Document) -> Iterable[tuple[dict[str, Any], str, str]]:
    """Each place of a document where nodes are named: an object, its field, and what is in it."""
    opened, head = document.get("activation") or {}, document["head"]
    tables: list[tuple[dict[str, Any], Mapping[str, str]]] = [
        (document, _OF_DOCUMENT),
        (head, {"cursor": "node"}),
        (head.get("before") or {}, {"cursor": "node"}),
        (opened, {"parent": "node", "roots": "nodes", "marks": "mark"}),
        *((row, _OF_ROW) for row in opened.get("rows", ())),
        *((error, {"node": "node"}) for error in document.get("errors", ())),
    ]
    for note in document.get("journal", ()):
        tables += [(note, _OF_NOTE), (note.get("outcome") or {}, _OF_OUTCOME)]
    return [(at, field, kind) for at, table in tables for field, kind in table.items() if at.get(field) is not None]


__all__ = [
    "Change",
    "Document",
    "Migration",
    "Steps",
    "change_output",
    "change_state",
    "missing_steps",
    "rename_field",
    "rename_node",
    "steps_of",
]
