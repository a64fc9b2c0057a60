"""The messages of a history space as a value, and what a step adds to it.  Rules F4, F7."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Final, final, overload

from msgspec import Struct

from ezgraph.messages import Message

GROWING: Final = Lock()
"""Held while a history or a table of rows grows in place: two threads may extend one view."""


@final
class History(Sequence[Message]):
    """An immutable sequence of messages; appending costs what is appended, whatever the length.  Rule F7.

    A view of the first `length` items of a list that views share.  What is appended goes into the list where no other
    view can see it, or is there already (a step's own view of what it then publishes); else into a copy.
    """

    __slots__ = ("_items", "_length")

    def __init__(self, items: Sequence[Message] = ()) -> None:
        self._items, self._length = list(items), len(items)

    def extended(self, messages: Sequence[Message], drop: int = 0) -> History:
        """A history with the last `drop` messages left out, and `messages` after the others."""
        keep = self._length - drop
        new = object.__new__(History)
        with GROWING:
            there = self._items[keep : keep + len(messages)]
            if not there or all(old is one for old, one in zip(there, messages, strict=False)):
                new._items = self._items
            else:
                new._items, there = self._items[:keep], []
            new._items.extend(messages[len(there) :])
        new._length = keep + len(messages)
        return new

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(self._items[i] for i in range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._items[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[Message]:
        for index in range(self._length):
            yield self._items[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, History):
            return NotImplemented
        return self._length == other._length and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((self._length, self[-1] if self._length else None))

    def __repr__(self) -> str:
        return f"History({list(self)!r})"


class Addition(Struct, frozen=True, gc=False):
    """What a step adds to one history space.

    Attributes:
        messages: Appended, in order.
        drop: Messages taken off the end first: the incoming one, where `on_enter` replaced it.
    """

    messages: tuple[Message, ...]
    drop: int = 0
