"""The floor: plain dict dispatch.  Not a library."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

from workloads import NODES, PAD, START, TEXT, Rec, advance

Job = Callable[[], Awaitable[int]]


def ring(length: int) -> Job:
    """W1: `length` transitions round a ring of async nodes."""

    def make(i: int) -> Any:
        following = f"n{(i + 1) % NODES}"

        async def node(state: tuple[int, Rec]) -> tuple[str | None, tuple[int, Rec]]:
            state = advance(*state)
            return (None if state[0] >= length else following), state

        return node

    nodes = {f"n{i}": make(i) for i in range(NODES)}

    async def run() -> int:
        name: str | None = "n0"
        state = (0, START)
        while name is not None:
            name, state = await nodes[name](state)
        return state[0]

    return run


def ring_sync(length: int) -> Job:
    """W1 with sync nodes."""

    def make(i: int) -> Any:
        following = f"n{(i + 1) % NODES}"

        def node(state: tuple[int, Rec]) -> tuple[str | None, tuple[int, Rec]]:
            state = advance(*state)
            return (None if state[0] >= length else following), state

        return node

    nodes = {f"n{i}": make(i) for i in range(NODES)}

    async def run() -> int:
        name: str | None = "n0"
        state = (0, START)
        while name is not None:
            name, state = nodes[name](state)
        return state[0]

    return run


def messages(length: int) -> Job:
    """W2: a self-loop that appends one message a transition."""

    async def node(said: list[Any]) -> tuple[str | None, list[Any]]:
        said.append({"role": "user", "content": TEXT, "i": len(said)})
        return (None if len(said) >= length else "loop"), said

    nodes = {"loop": node}

    async def run() -> int:
        name: str | None = "loop"
        said: list[Any] = []
        while name is not None:
            name, said = await nodes[name](said)
        return len(said)

    return run


def fan(width: int) -> Job:
    """W3: `asyncio.gather` alone."""

    async def work(item: int) -> int:
        return item

    async def run() -> int:
        return len(await asyncio.gather(*(work(item) for item in range(width))))

    return run


def fan_sqlite(width: int, folder: Path) -> Job:
    """W3 on disk: `asyncio.gather`, and an INSERT in each branch, of about as many bytes as a row of ours."""
    db = sqlite3.connect(folder / "floor.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("CREATE TABLE row (run TEXT, seq INTEGER, body TEXT, PRIMARY KEY (run, seq))")
    runs = count()

    async def work(run: str, item: int) -> int:
        row = {"node": "Work", "item": item, "output": item, "pad": PAD}
        db.execute("INSERT INTO row VALUES (?, ?, ?)", (run, item, json.dumps(row)))
        return item

    async def run() -> int:
        name = f"r{next(runs)}"
        return len(await asyncio.gather(*(work(name, item) for item in range(width))))

    return run
