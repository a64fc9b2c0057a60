"""Files that another hand has damaged: every call refuses them with a store's error, or gives what was written."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import hostile
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from store_laws import CODEC, commit, following, load

from ezgraph import CorruptSession, RevisionConflict, StoreError
from ezgraph.session import Delta, Head, Session, apply
from ezgraph.stores.contract import Query
from ezgraph.stores.file import KINDS
from ezgraph.stores.sqlite import SQLiteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "claims.db"


def test_l4_a_row_that_is_gone_is_told_whichever_it_is(path: Path) -> None:
    """Also the last of a history, a whole cell, and a session's only row of its kind."""
    codec, document = hostile.subject()
    with SQLiteStore(path) as store:
        store.add({"s": document})
        assert load(store, "s", codec) is not None
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        rows = other.execute("SELECT rowid, kind FROM part").fetchall()
        assert {KINDS[kind] for _, kind in rows} == set(KINDS)
        for row, kind in rows:
            other.execute("BEGIN")
            body = other.execute("DELETE FROM part WHERE rowid = ? RETURNING *", (row,)).fetchone()
            other.execute("COMMIT")
            with SQLiteStore(path) as store:
                if KINDS[kind] == "limits":  # numbers of tries, which a session may be without
                    assert load(store, "s", codec) is not None
                else:
                    with pytest.raises(CorruptSession, match=rf"has {len(rows) - 2} parts, and was written with"):
                        load(store, "s", codec)
                    with pytest.raises(CorruptSession):
                        store.export("s")
            other.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", body)


def test_l4_a_history_or_a_cell_that_is_gone_is_told(path: Path) -> None:
    with SQLiteStore(path) as store:
        commit(store, None, following(None))
    for kind in ("message", "cell"):
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            gone = other.execute("DELETE FROM part WHERE kind = ? RETURNING *", (KINDS.index(kind),)).fetchall()
            assert gone
            with SQLiteStore(path) as store, pytest.raises(CorruptSession, match="has 1 parts, and was written with 2"):
                load(store, "c-17")
            other.executemany("INSERT INTO part VALUES (?, ?, ?, ?, ?)", gone)


def test_l4_rows_that_a_deleted_session_left_are_told_by_who_gets_its_key(path: Path) -> None:
    with SQLiteStore(path) as store:
        commit(store, None, following(None, session="a"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("DELETE FROM session")
            other.execute("UPDATE part SET name = 'Gone' WHERE kind = ?", (KINDS.index("cell"),))
        commit(store, None, following(None, session="b"))
    with SQLiteStore(path) as store, pytest.raises(CorruptSession, match="has 3 parts, and was written with 2"):
        load(store, "b")


def test_l2_a_late_commit_does_not_reach_who_got_the_key_in_the_file(path: Path) -> None:
    """The key of a deleted session is the next one's; revision and incarnation may be the same by chance."""
    with SQLiteStore(path) as store, SQLiteStore(path) as other:
        late = commit(store, None, following(None, session="a"))
        other.delete("a")
        mine = commit(other, None, following(None, session="b"))
        with pytest.raises(RevisionConflict, match="the store has 0"):
            commit(store, late, following(late, session="a"))
        assert load(other, "b") == mine
        assert load(store, "a") is None


def _file(path: Path) -> bytes:
    """The bytes of a file with sessions of every kind of part in it."""
    codec, document = hostile.subject()
    with SQLiteStore(path) as store:
        store.add({"s": document, "t": document})
        session = commit(store, None, following(None))
        for _ in range(5):
            session = commit(store, session, following(session, "x" * 300))
        assert load(store, "s", codec) is not None
    return path.read_bytes()


def _tried(path: Path) -> None:
    """Every call into the file, each of which may refuse it."""
    codec, document = hostile.subject()
    with SQLiteStore(path) as store:
        for session, of in (("s", codec), ("c-17", CODEC)):
            with suppress(StoreError):
                store.entry(session)
            with suppress(StoreError):
                store.export(session)
            with suppress(StoreError):
                found = load(store, session, of)
                if found is not None:
                    delta = Delta(session, of.graph, found.revision + 1, found.head, errors=())
                    with suppress(RevisionConflict):
                        store.commit(apply(found, delta), delta, of)
            with suppress(StoreError):
                store.find(Query(status="idle", idle=0))
            with suppress(StoreError):
                store.find(Query(cursor="Intake", after="a"))
            with suppress(StoreError):
                store.copy(session, f"{session}-copy")
            with suppress(StoreError):
                store.migrate(of)
        with suppress(StoreError, RevisionConflict):
            new = Session("new", "claims", 0, Head(""))
            delta = following(None, session="new")
            store.commit(apply(new, delta), delta, CODEC)
        with suppress(StoreError):
            store.add({"added": document})
        with suppress(StoreError):
            store.delete("t")
        with suppress(StoreError):
            store.prune(Query(graph="claims"))


_BYTES: list[bytes] = []


@given(seed=st.integers(0, 2**32))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_l4_whatever_bytes_are_damaged_every_call_refuses_or_answers(seed: int) -> None:
    chance = Random(seed)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        if not _BYTES:
            _BYTES.append(_file(path))
        damaged = bytearray(_BYTES[0])
        schema = damaged.index(b"CREATE TABLE")
        pages = [page + at for page in range(0, len(damaged), 1024) for at in range(12)]
        names = range(schema, schema + 1500)
        places = [*chance.choice([range(100), names, pages, range(len(damaged))])]
        for _ in range(chance.choice([1, 1, 2, 5, 40])):
            at = chance.choice(places)
            damaged[at] = chance.choice([0, 0xFF, 0x80, chance.randrange(256), damaged[at] ^ 1 << chance.randrange(8)])
        path.write_bytes(damaged)
        _tried(path)


def test_l4_a_file_whose_own_words_are_damaged_is_told_as_such(path: Path) -> None:
    """SQLite quotes them in what it says of the file, and they are no text any more."""
    whole = _file(path)
    first = whole.index(b"CREATE TABLE session")
    told = []
    for at in range(first, first + 60):
        path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        with SQLiteStore(path) as store:
            try:
                load(store, "c-17")
            except StoreError as error:
                told.append(str(error))
    assert any("is damaged. Restore the file from a backup" in text for text in told)


COLUMNS = (
    "id",
    "graph",
    "version",
    "revision",
    "cursor",
    "status",
    "created",
    "updated",
    "head",
    "incarnation",
    "parts",
)
VALUES = (b"\xff", "x", -1, 2**62, 1.5, float("inf"), "", "\ud7ff", b"")


@pytest.mark.parametrize("column", COLUMNS)
def test_l4_a_damaged_value_in_a_row_is_refused_or_answered(path: Path, column: str) -> None:
    _file(path)
    original = path.read_bytes()
    for value in VALUES:
        path.write_bytes(original)
        with closing(sqlite3.connect(path)) as other, other:
            other.execute(f"UPDATE session SET {column} = ? WHERE key = 1", (value,))
        _tried(path)
