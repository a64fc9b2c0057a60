"""`transitions`, driven by events: it does no routing of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from transitions.extensions.asyncio import AsyncMachine
from workloads import NODES, START, advance

Job = Callable[[], Awaitable[int]]


class Model:
    """Holds the state that a transition replaces."""

    def __init__(self) -> None:
        self.count, self.rec = 0, START

    async def work(self) -> None:
        self.count, self.rec = advance(self.count, self.rec)


def ring(length: int) -> Job:
    """W1 with async callbacks."""

    async def once() -> int:
        model = Model()
        machine = AsyncMachine(model, states=[f"n{i}" for i in range(NODES)], initial="n0")
        machine.add_ordered_transitions(trigger="step", after="work")
        while model.count < length:
            await model.trigger("step")  # type: ignore[attr-defined]
        return model.count

    return once
