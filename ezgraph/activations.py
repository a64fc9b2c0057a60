"""Parallel work as a value: an activation, and a row for each outcome in it.  Rules E2, E6."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from typing import TypeAlias, cast, final

from msgspec import Struct, field

from ezgraph.histories import GROWING
from ezgraph.messages import Usage

Place: TypeAlias = tuple[str, int | None]
"""A worker of an activation: its id, and the index of its item, or None where it runs once for all.  Rule E6."""


class Row(Struct, frozen=True, gc=False):
    """The outcome of one worker of an activation: inserted once, never rewritten.

    Attributes:
        node: The worker's id.
        output: What it yielded, of its output type.
        depth: One more than the deepest row before it.
        cells: What it saved, where that outlasts its run: its own cell, and those of workers it called.
        usage: What was spent, by node id.
        item: The index of its item, or None where it runs once.
    """

    node: str
    output: object
    depth: int
    cells: Mapping[str, object] = {}
    usage: Mapping[str, Usage] = {}
    item: int | None = None

    @property
    def place(self) -> Place:
        """Which worker's row it is."""
        return self.node, self.item


@final
class Rows(Mapping[Place, Row]):
    """The rows of an activation; adding one costs the same however many there are.  Order of arrival is not equality.

    A view of the first `length` rows of a table that views share, as `History` is of a list.
    """

    __slots__ = ("_counts", "_length", "_next", "_table", "_wrote")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._table: dict[Place, tuple[int, Row]] = {}
        self._counts: dict[str, list[int]] = {}
        self._wrote: dict[str, list[str]] = {}
        for at, row in enumerate(rows):
            for cell in row.cells:
                self._wrote.setdefault(cell, []).append(row.node)
            self._table[row.place] = at, row
            self._counts.setdefault(row.node, []).append(at)
        self._length = len(self._table)
        self._next: tuple[tuple[Row, ...], Rows] | None = None

    def with_rows(self, rows: tuple[Row, ...]) -> Rows:
        """These rows and more; the same again, as a step's delta is applied once it is settled, costs nothing."""
        grown = self._next  # read once: another thread may set it
        if grown is not None and grown[0] is rows:
            return grown[1]
        new = object.__new__(Rows)
        new._next = None
        with GROWING:
            table, counts, wrote, length = self._table, self._counts, self._wrote, self._length
            behind = len(table) > length  # another view has grown
            for row in rows:
                place = row.node, row.item
                if behind:
                    there = table.get(place)
                    if there is not None and there[0] == length and there[1] is row:  # in the same way
                        length += 1
                        behind = len(table) > length
                        continue
                    own = Rows([kept for at, kept in table.values() if at < length])  # this one goes its own way
                    table, counts, wrote, behind = own._table, own._counts, own._wrote, False
                for cell in row.cells:
                    wrote.setdefault(cell, []).append(row.node)
                table[place] = length, row
                if place[0] in counts:
                    counts[place[0]].append(length)
                else:
                    counts[place[0]] = [length]
                length += 1
            new._table, new._counts, new._wrote, new._length = table, counts, wrote, length
        self._next = rows, new
        return new

    def count(self, node: str) -> int:
        """How many rows a worker has."""
        found = self._counts.get(node, ())
        return len(found) if not found or found[-1] < self._length else bisect_left(found, self._length)

    def writers(self, cell: str) -> Sequence[str]:
        """The workers that saved a cell; it may name some that another view has a row of, and this one not yet."""
        return self._wrote.get(cell, ())

    def each(self, node: str, items: int) -> list[Row]:
        """The rows of a worker that runs once for each of `items` items, in their order.

        Raises:
            KeyError: One of them is not there.
        """
        table = self._table
        if self._length == len(table):  # no other view has grown
            return [table[node, item][1] for item in range(items)]
        found = [table[node, item] for item in range(items)]
        if max([at for at, _ in found], default=-1) >= self._length:
            raise KeyError(node)
        return [row for _, row in found]

    def __getitem__(self, place: Place) -> Row:
        at, row = self._table[place]
        if at >= self._length:
            raise KeyError(place)
        return row

    def __contains__(self, place: object) -> bool:
        found = self._table.get(place)  # type: ignore[call-overload]
        return found is not None and found[0] < self._length

    def __iter__(self) -> Iterator[Place]:
        return (row.place for row in self.values())

    def values(self) -> ValuesView[Row]:
        """The rows, in the order in which they arrived."""
        return cast("ValuesView[Row]", [row for at, row in list(self._table.values())[: self._length]])

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"Rows({self.values()!r})"


class Activation(Struct, frozen=True, gc=False):
    """One opening of parallel work, while it is open.  Rule E2.

    Attributes:
        id: The run number that its opening took.
        parent: The stage that opened it, or the entry of a job.
        roots: The workers it opened with, in registration order.
        depth: The depth of the step that opened it.
        rows: The workers that are done.
        marks: The workers that failed since the last recovery.  Rule E5.
        inputs: The inputs of a scatter, of the state type of its one root; None for any other opening.  Rule E6.
    """

    id: int
    parent: str
    roots: tuple[str, ...]
    depth: int
    rows: Rows = field(default_factory=Rows)
    marks: frozenset[Place] = frozenset()
    inputs: tuple[object, ...] | None = None
