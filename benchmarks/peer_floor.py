"""The floor: plain dict dispatch.  Not a library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from workloads import NODES, START, TEXT, Rec, advance

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
