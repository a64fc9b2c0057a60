"""What the author of a graph must mend: a definition, with all of its problems."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from attrs import frozen

from ezgraph.errors.root import EzGraphError


@final
@frozen
class Problem:
    """One thing that is wrong in a definition.

    Attributes:
        kind: A short stable name, such as `unknown-target`.
        place: Where it stands: a node, a handler, an edge, a field.
        what: What is wrong.
        mend: What to write instead.
    """

    kind: str
    place: str
    what: str
    mend: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what} [{self.kind}]\n    {self.mend}"


class DefinitionError(EzGraphError):
    """A graph's definition is wrong.  All of its problems are raised together.  Rule M3.

    Attributes:
        graph: The graph's name.
        problems: Everything that is wrong, in the order of the definition.
    """

    def __init__(self, graph: str, problems: Iterable[Problem]) -> None:
        self.graph, self.problems = graph, tuple(problems)
        found = len(self.problems)
        head = f"graph {graph!r} has {found} problem{'s' if found > 1 else ''}:"
        super().__init__("\n".join([head, *(f"- {p}" for p in self.problems)]))
