"""A turn as a stream of its events: the same engine, with a queue for a listener.  Rule G8."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, final

from ezgraph.runtime.awaiting import ended
from ezgraph.runtime.events import Event, Listener
from ezgraph.session import Turn


@final
class Stream:
    """The events of one turn, in order; the last one of a turn that does not raise is `TurnEnded`.

    The turn begins when the stream is entered or first asked.  Closing it cancels the turn at its last commit:

        async with app.astream("My parcel is late", session="c-17") as events:
            async for event in events:
                ...
    """

    def __init__(self, run: Callable[[Listener], Awaitable[Turn]]) -> None:
        self._run = run
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task: asyncio.Task[Turn] | None = None
        self._detached = False
        self._closed = False

    def _begun(self) -> asyncio.Task[Turn]:
        task = self._task or asyncio.ensure_future(self._played())
        self._task = task
        return task

    async def _played(self) -> Turn:
        try:
            return await self._run(self._events.put_nowait)
        finally:
            self._events.put_nowait(None)

    async def __aenter__(self) -> Self:
        if not self._closed:
            self._task = self._begun()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """The next event.

        Raises:
            StopAsyncIteration: The turn has ended, or the stream was closed.
            EzGraphError: The turn raised.
        """
        if self._closed:
            raise StopAsyncIteration
        task = self._begun()
        event = await self._events.get()
        if event is not None:
            return event
        self._events.put_nowait(None)  # asked again, it is still over
        if not self._closed:
            await task
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancel the turn, if it still runs and was not detached, and wait until it has stopped."""
        self._closed = True
        if self._task is None or self._detached:
            return
        self._task.cancel()
        await ended(self._task)
        if not self._task.cancelled():
            self._task.exception()

    def detach(self) -> asyncio.Task[Turn]:
        """Let the turn run on when the stream is closed; await the task for its `Turn`."""
        self._detached = True
        return self._begun()
