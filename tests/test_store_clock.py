"""When a session was begun and last written, and what a file's writer and its readers do to each other.  Rule L1."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from faults import Clock
from msgspec.structs import replace
from puppets import Play, app
from store_laws import CODEC, commit, following, load

from ezgraph import direct
from ezgraph.restoring import Decision, Restored, keep
from ezgraph.session import Delta, Head, Session, apply
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Archive, Query
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "process", "commit"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Archive]:
    if request.param == "memory":
        yield MemoryStore(clock=clock)
    else:
        with closing(SQLiteStore(tmp_path / "s.db", sync=request.param, clock=clock)) as made:
            yield made


def times(store: Any, session: str) -> tuple[float, float, float]:
    entry = store.entry(session)
    return entry.created, entry.updated, entry.idle


def test_l1_a_session_says_when_it_was_begun_and_last_written(store: Any, clock: Clock) -> None:
    """By a commit, from elsewhere, and as a copy; a migration is no writing."""
    first = commit(store, None, following(None))
    clock.now += 10
    store.add({"added": store.export("c-17")})
    clock.now += 10
    store.copy("added", "copy")
    commit(store, first, following(first))
    clock.now += 5
    assert times(store, "c-17") == (1_000_000, 1_000_020, 5)
    assert times(store, "added") == (1_000_010, 1_000_010, 15)
    assert times(store, "copy") == (1_000_020, 1_000_020, 5)
    later = Codec("claims", {"Intake": int | None, "$context": None}, {}, version=2, migrations={2: lambda it: it})
    assert sorted(store.migrate(later)) == ["added", "c-17", "copy"]
    assert times(store, "added") == (1_000_010, 1_000_010, 15)


def test_l1_a_clock_that_goes_back_makes_nobody_idle_for_less_than_no_time(store: Any, clock: Clock) -> None:
    commit(store, None, following(None))
    clock.now -= 3600
    assert times(store, "c-17") == (1_000_000, 1_000_000, 0)
    assert [entry.session for entry in store.find(Query(idle=0))] == ["c-17"]
    assert list(store.find(Query(idle=1))) == []


def test_l1_a_policy_is_told_of_no_time_less_than_none(store: Archive, clock: Clock) -> None:
    seen = []

    def policy(restored: Restored) -> Decision:
        seen.append(restored.idle.total_seconds())
        return keep()

    graph = app(Play(A=lambda ctx: direct("hi")), store=store, on_restore=policy)
    graph.invoke("one", session="s")
    clock.now -= 3600
    graph.invoke("two", session="s")
    assert seen == [0]


@pytest.mark.parametrize("by", ["migrate", "commit"])
def test_l5_an_older_session_that_is_written_anew_stands_as_it_stood(store: Any, by: str) -> None:
    owed = commit(store, None, Delta("c-17", "claims", 1, Head("Intake", owed=True)))
    commit(store, None, Delta("c-18", "claims", 1, Head("END")))
    later = Codec("claims", {"Intake": int | None, "$context": None}, {}, version=2, migrations={2: lambda it: it})
    if by == "migrate":
        store.migrate(later)
    else:
        for session in (owed, replace(owed, id="c-18", head=Head("END"))):
            delta = Delta(session.id, "claims", 2)
            answer = store.commit(apply(session, delta), delta, later)
            if answer is not None:
                asyncio.run(_wait(answer))
    assert {entry.session: (entry.status, entry.version) for entry in store.find(Query())} == {
        "c-17": ("unfinished", 2),
        "c-18": ("completed", 2),
    }


async def _wait(answer: Awaitable[None]) -> None:
    await answer


# -------------------------------------------------------------------------------------------- while a group is written


async def _committed(store: SQLiteStore, session: str) -> None:
    delta = following(None, session=session)
    answer = store.commit(apply(Session(session, "claims", 0, Head("")), delta), delta, CODEC)
    if answer is not None:
        await answer


def test_l1_who_reads_does_not_wait_for_who_waits_for_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def main() -> None:
        with SQLiteStore(path, sync="commit", timeout=60) as store, closing(_holds(path)) as other:
            writing = asyncio.ensure_future(_committed(store, "new"))
            await asyncio.sleep(0)  # the thread of the group has it, and waits for `other`
            read = threading.Thread(target=load, args=(store, "c-17"))
            listed = threading.Thread(target=store.find, args=(Query(),))
            for thread in (read, listed):
                thread.start()
                thread.join(30)
                assert not thread.is_alive()
            assert not writing.done()
            other.execute("ROLLBACK")
            await writing
            assert load(store, "new") is not None

    with SQLiteStore(path) as store:
        commit(store, None, following(None))
    asyncio.run(main())


def test_l1_a_store_that_is_closed_writes_what_waits_first(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def main() -> None:
        store = SQLiteStore(path, sync="commit", timeout=60)
        with closing(_holds(path)) as other:
            writing = [asyncio.ensure_future(_committed(store, f"new-{n}")) for n in range(5)]
            await asyncio.sleep(0)
            closes = threading.Thread(target=store.close)
            closes.start()
            closes.join(0.05)
            assert closes.is_alive()
            other.execute("ROLLBACK")
            await asyncio.gather(*writing)
            closes.join(30)
            assert not closes.is_alive()

    with SQLiteStore(path) as store:
        commit(store, None, following(None))
    asyncio.run(main())
    with SQLiteStore(path) as store:
        assert len(store.find(Query())) == 6


def _holds(path: Path) -> sqlite3.Connection:
    """Another writer, in the middle of its work."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    return other
