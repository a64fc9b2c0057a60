"""What a step of an activation comes after, looked up when it is read.  Rule E4.

Gathered for each step, what all its ancestors saved and yielded would cost a chain the square of its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ezgraph.activations import Rows
from ezgraph.plan import Closure


class Line:
    """The workers that lead into one: those just before it at once, all the others when somebody asks for them."""

    __slots__ = ("_near", "_whole", "closure", "item", "items", "node", "rows")

    def __init__(self, closure: Closure, rows: Rows, items: int, node: str, item: int | None) -> None:
        self.closure, self.rows, self.items = closure, rows, items
        self.node, self.item = node, item
        self._near: dict[str, None] | None = None
        self._whole: dict[str, None] | None = None

    def holds(self, worker: str) -> bool:
        """Whether the step comes after a worker."""
        if self._near is None:
            self._near = dict.fromkeys(self.closure.before[self.node])
        return worker in self._near or worker in self.whole

    @property
    def whole(self) -> Mapping[str, None]:
        """All of them, in the plan's order."""
        if self._whole is None:
            self._whole = dict.fromkeys(self.closure.ancestors(self.node))
        return self._whole


class LineResults(Mapping[str, object]):
    """The outputs of those that have one for this step: that ran once, or in the item of this step."""

    __slots__ = ("_line",)

    def __init__(self, line: Line) -> None:
        self._line = line

    def __getitem__(self, worker: str) -> object:
        line = self._line
        if (worker in line.closure.items and line.item is None) or not line.holds(worker):
            raise KeyError(worker)
        return line.rows[worker, line.item if worker in line.closure.items else None].output

    def __iter__(self) -> Iterator[str]:
        line = self._line
        return (w for w in line.whole if line.item is not None or w not in line.closure.items)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class LineSeries(Mapping[str, tuple[object, ...]]):
    """The outputs of those that ran for each item, where this step runs once: all of them, in input order."""

    __slots__ = ("_line",)

    def __init__(self, line: Line) -> None:
        self._line = line

    def __getitem__(self, worker: str) -> tuple[object, ...]:
        line = self._line
        if line.item is not None or worker not in line.closure.items or not line.holds(worker):
            raise KeyError(worker)
        return tuple([row.output for row in line.rows.each(worker, line.items)])

    def __iter__(self) -> Iterator[str]:
        line = self._line
        return (w for w in line.whole if line.item is None and w in line.closure.items)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class LineCells(Mapping[str, object]):
    """State as it was when the activation opened, and over it what those that ran once have saved, the last one's."""

    __slots__ = ("_cells", "_line")

    def __init__(self, line: Line, cells: Mapping[str, object]) -> None:
        self._line, self._cells = line, cells

    def __getitem__(self, cell: str) -> object:
        line, order = self._line, self._line.closure.order
        writers = [w for w in dict.fromkeys(line.rows.writers(cell)) if w not in line.closure.items and line.holds(w)]
        if not writers:
            return self._cells[cell]
        return line.rows[max(writers, key=order.__getitem__), None].cells[cell]

    def __iter__(self) -> Iterator[str]:
        line = self._line
        saved = (c for w in line.whole if w not in line.closure.items for c in line.rows[w, None].cells)
        return iter(dict.fromkeys((*self._cells, *saved)))

    def __len__(self) -> int:
        return sum(1 for _ in self)
