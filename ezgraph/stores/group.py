"""Commits of many sessions that wait for one disk: a thread writes all that came in meanwhile in one transaction."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeAlias, final

from ezgraph.errors import RevisionConflict, StoreError, VersionMismatch
from ezgraph.session import Session
from ezgraph.stores.codec import Codec
from ezgraph.stores.parts import Changes

Refusal: TypeAlias = RevisionConflict | VersionMismatch
"""Why a commit is not written, where the file itself is well."""


class Write(NamedTuple):
    """A commit that waits to be written; the key is the session's, or 0 where it is not known."""

    after: Session
    codec: Codec
    changes: Changes
    now: float
    key: int


@final
class Group:
    """One thread that writes what all sessions commit while it waited for the disk, in one transaction."""

    def __init__(self, write: Callable[[Sequence[Write]], list[Refusal | None]]) -> None:
        self._write_all = write
        self._pool = ThreadPoolExecutor(1, "ezgraph-commit")
        self._waiting: deque[tuple[Write, Future[None]]] = deque()
        self._last = ""

    def take(self, write: Write) -> Awaitable[None] | None:
        """Take a commit over; what is returned is done once it is written, and raises what it came to.

        None, and nothing is taken, where nobody else has committed since this session did: to hand it over would take
        longer than to write it.
        """
        alone, self._last = self._last == write.after.id and not self._waiting, write.after.id
        if alone:
            return None
        future: Future[None] = Future()
        self._waiting.append((write, future))
        try:
            self._pool.submit(self._flush)
        except RuntimeError:  # it is shut down: the closed file refuses what waits
            self._flush()
        return _outcome(future)

    def _flush(self) -> None:
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        if taken:
            self._write(taken)

    def _write(self, taken: Sequence[tuple[Write, Future[None]]]) -> None:
        """Write what was taken, and tell each of those who wait.

        What the file refuses is told to all; what is wrong with one commit alone fails it alone.
        """
        try:
            refused = self._write_all([write for write, _ in taken])
        except BaseException as error:  # noqa: BLE001  who waits is told
            if len(taken) > 1 and not isinstance(error, StoreError):
                for one in taken:
                    self._write([one])
                return
            for _, future in taken:
                future.set_exception(error)
            return
        for (_, future), conflict in zip(taken, refused, strict=True):
            if conflict is None:
                future.set_result(None)
            else:
                future.set_exception(conflict)

    def close(self) -> None:
        """Write what waits, and end the thread."""
        self._pool.shutdown()


async def _outcome(future: Future[None]) -> None:
    await asyncio.shield(asyncio.wrap_future(future))
