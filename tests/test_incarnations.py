"""A session that is deleted and begun anew while a turn of it runs: the late turn writes nothing.  Rule L2."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from puppets import W1, W2, Note, Play, app

from ezgraph import RevisionConflict, StepFailed, direct, fanout, task_result
from ezgraph.restoring import Decision, Restored, start_over
from ezgraph.stores.contract import Archive
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore

Stores: TypeAlias = tuple[Archive, Archive]


@pytest.fixture(params=["memory", "process", "commit"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    """One store as two processes have it."""
    if request.param == "memory":
        memory = MemoryStore()
        yield memory, memory
        return
    path = tmp_path / "s.db"
    with closing(SQLiteStore(path, sync=request.param)) as one, closing(SQLiteStore(path)) as other:
        yield one, other


class Held:
    """Holds a node, a policy or a tool of the late turn until the session is another one."""

    def __init__(self) -> None:
        self.entered, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def here(self) -> None:
        self.entered.set()
        await self.may_go_on.wait()


def _reply(held: Held) -> dict[str, Any]:
    async def late(ctx: Any) -> Any:
        ctx.save(Note(9))
        await held.here()
        return direct("late")

    return {"A": late}


def _error(held: Held) -> dict[str, Any]:
    async def late(ctx: Any) -> Any:
        await held.here()
        raise LookupError("on purpose")

    return {"A": late}


def _opening(held: Held) -> dict[str, Any]:
    async def late(ctx: Any) -> Any:
        await held.here()
        return fanout(W1, W2)

    return {"A": late}


def _row(held: Held) -> dict[str, Any]:
    async def late(ctx: Any) -> Any:
        await held.here()
        return task_result(1)

    return {"A": lambda ctx: fanout(W1, W2), "W1": late}


def _journal(held: Held) -> dict[str, Any]:
    async def late(ctx: Any) -> Any:
        await ctx.call(W2, Note(1))
        await held.here()
        await ctx.call(W2, Note(2))
        return direct("late")

    return {"A": late}


@pytest.mark.parametrize("late", [_reply, _error, _opening, _row, _journal], ids=lambda late: late.__name__[1:])
def test_l2_no_late_write_reaches_a_session_begun_anew(stores: Stores, late: Callable[[Held], Any]) -> None:
    """In the revisions that the late turn builds on, and in any later one."""

    async def main(further: int) -> None:
        held, session = Held(), f"s-{further}"
        one, other = stores
        slow, fast = app(Play(**late(held)), store=one), app(Play(A=lambda ctx: direct("fast")), store=other)
        await fast.ainvoke("begin", session=session)
        task = asyncio.ensure_future(slow.ainvoke("mine", session=session))
        await held.entered.wait()
        assert _now(other.delete(session)) is True
        for _ in range(further):
            await fast.ainvoke("anew", session=session)
        before = _now(other.export(session)) if further else None
        held.may_go_on.set()
        await asyncio.wait({task})
        error = task.exception()
        if isinstance(error, StepFailed):
            assert "deleted meanwhile" in str(error.__notes__) or "committed first" in str(error.__notes__)
        else:
            assert isinstance(error, RevisionConflict)
        assert (_now(other.export(session)) if further else _now(other.entry(session))) == before

    for further in range(5):
        asyncio.run(main(further))


def test_l2_what_a_policy_decided_is_not_written_to_a_session_begun_anew(stores: Stores) -> None:
    async def main() -> None:
        held = Held()
        one, other = stores

        async def policy(_: Restored) -> Decision:
            await held.here()
            return start_over()

        slow, fast = app(Play(), store=one, on_restore=policy), app(Play(), store=other)
        await fast.ainvoke("begin", session="s")
        task = asyncio.ensure_future(slow.ainvoke("mine", session="s"))
        await held.entered.wait()
        _now(other.delete("s"))
        await fast.ainvoke("anew", session="s")
        before = _now(other.export("s"))
        held.may_go_on.set()
        await asyncio.wait({task})
        assert isinstance(task.exception(), RevisionConflict)
        assert _now(other.export("s")) == before

    asyncio.run(main())


def _now(answer: Any) -> Any:
    return answer
