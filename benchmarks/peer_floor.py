"""The floor: plain dict dispatch.  Not a library."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

from workloads import KILO, NODES, PAD, START, TEXT, Rec, advance

Job = Callable[[], Awaitable[int]]


Node = Callable[[tuple[int, Rec]], Awaitable[tuple[str | None, tuple[int, Rec]]]]


def _nodes(length: int) -> dict[str, Node]:
    """A ring of async nodes."""

    def make(i: int) -> Any:
        following = f"n{(i + 1) % NODES}"

        async def node(state: tuple[int, Rec]) -> tuple[str | None, tuple[int, Rec]]:
            state = advance(*state)
            return (None if state[0] >= length else following), state

        return node

    return {f"n{i}": make(i) for i in range(NODES)}


def ring(length: int) -> Job:
    """W1: `length` transitions round a ring of async nodes."""
    nodes = _nodes(length)

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


def _table(folder: Path, sync: str) -> sqlite3.Connection:
    """A table as anybody would write it, in WAL mode."""
    db = sqlite3.connect(folder / f"floor-{sync}.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {sync}")
    db.execute("CREATE TABLE IF NOT EXISTS step (run TEXT, seq INTEGER, body TEXT, PRIMARY KEY (run, seq))")
    return db


def _kept(length: int, db: sqlite3.Connection, body: Callable[[int], str]) -> Job:
    nodes, runs = _nodes(length), count()

    async def run() -> int:
        own, state = f"r{next(runs)}", (0, START)
        name: str | None = "n0"
        while name is not None:
            name, state = await nodes[name](state)
            text = json.dumps([name, state, body(state[0])])
            db.execute("INSERT INTO step VALUES (?, ?, ?)", (own, state[0], text))
        return state[0]

    return run


def ring_sqlite(length: int, folder: Path) -> Job:
    """W4: one INSERT of 1 KB a transition, in the mode that the end of the process cannot harm."""
    return _kept(length, _table(folder, "NORMAL"), lambda _: KILO)


def ring_full_sqlite(length: int, folder: Path) -> Job:
    """W4, in the mode that a power failure cannot harm."""
    return _kept(length, _table(folder, "FULL"), lambda _: KILO)


def messages_sqlite(length: int, folder: Path) -> Job:
    """W4h: one INSERT of the new message a transition."""
    return _kept(length, _table(folder, "NORMAL"), lambda seq: json.dumps({"role": "user", "content": TEXT, "i": seq}))
