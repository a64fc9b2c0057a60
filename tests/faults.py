"""What goes wrong, on purpose and by no real clock: awaits that cancel, stores that crash, and time set by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal

from ezgraph.session import Delta, Session
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Store


class Clock:
    """Seconds, set by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Crash(BaseException):
    """The process ends here: nothing of it remains but what the store has written."""


class Await:
    """One bare await: gives the loop a turn and comes back."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Awaits:
    """Counts the awaits of a turn, and cancels its task at the `at`-th of them."""

    def __init__(self) -> None:
        self.seen, self.at = 0, 0
        self.task: asyncio.Task[Any] | None = None

    def watch(self, task: asyncio.Task[Any] | None, at: int) -> None:
        self.seen, self.at, self.task = 0, at, task

    async def here(self) -> None:
        self.seen += 1
        if self.seen == self.at and self.task is not None:
            self.task.cancel()
        await Await()


class PatientStore:
    """A store whose calls take awaits of their own, and that may crash before or after its n-th commit.

    Attributes:
        commits: How many commits stand since `arm`.
        deltas: What was committed since `arm`.
    """

    def __init__(self, inner: Store, awaits: Awaits | None = None) -> None:
        self.inner, self.awaits = inner, awaits
        self.commits = 0
        self.deltas: list[Delta] = []
        self.fault: tuple[int, Literal["before", "after"]] | None = None

    def arm(self, fault: tuple[int, Literal["before", "after"]] | None = None) -> None:
        self.commits, self.deltas, self.fault = 0, [], fault

    async def load(self, session: str, codec: Codec, /) -> Session | None:
        if self.awaits is not None:
            await self.awaits.here()
        found = self.inner.load(session, codec)
        assert found is None or isinstance(found, Session)
        return found

    async def commit(self, after: Session, delta: Delta, codec: Codec, /) -> None:
        if self.awaits is not None:
            await self.awaits.here()
        if self.fault == (self.commits + 1, "before"):
            raise Crash
        assert self.inner.commit(after, delta, codec) is None
        self.commits += 1
        self.deltas.append(delta)
        if self.fault == (self.commits, "after"):
            raise Crash
        if self.awaits is not None:
            await self.awaits.here()


async def idle(rounds: int = 20) -> None:
    """Let every task that can run do so."""
    for _ in range(rounds):
        await Await()


def no_other_task() -> bool:
    """Whether nothing runs in this loop but the caller."""
    return asyncio.all_tasks() <= {asyncio.current_task()}


async def stopped_when(ready: Awaitable[object], work: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
    """Start `work`, wait until `ready`, cancel it, and wait until it has stopped."""
    task = asyncio.ensure_future(work())
    await ready
    task.cancel()
    await asyncio.wait({task})
    return task
