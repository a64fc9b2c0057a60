"""The store laws over every store, and what only a file can do wrong.  Rules L1, L2, L4, L6, F7."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace
from store_laws import (
    CODEC,
    LAWS,
    Opener,
    commit,
    following,
    law_a_session_loads_as_the_fold_of_its_deltas,
    load,
)
from strategies import histories

from ezgraph.errors import (
    CorruptSession,
    ForeignFile,
    InvalidInput,
    RevisionConflict,
    StateTypeError,
    StoreError,
    StoreUnavailable,
    VersionMismatch,
)
from ezgraph.session import Delta, ErrorRecord, Head, Session, apply, standing
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Archive, Query
from ezgraph.stores.file import APPLICATION_ID, KINDS, SCHEMA, SQLiteFile, Sync
from ezgraph.stores.group import Group, Refusal, Write
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.parts import Changes
from ezgraph.stores.sqlite import SQLiteStore


class Shared(AbstractContextManager[SQLiteStore]):
    """One SQLite store that is not closed when a law is done with it: many threads use it at once."""

    def __init__(self, store: SQLiteStore) -> None:
        self.store = store

    def __enter__(self) -> SQLiteStore:
        return self.store

    def __exit__(self, *_: object) -> None:
        pass


OPENERS = ("memory", "one SQLite store", "SQLite, opened each time", "SQLite, power-loss safe")


@pytest.fixture(params=OPENERS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    with closing(SQLiteStore(tmp_path / "one.db")) as one:
        memory: Archive = MemoryStore()
        openers: dict[str, Opener] = {
            "memory": lambda: nullcontext(memory),
            "one SQLite store": lambda: Shared(one),
            "SQLite, opened each time": lambda: SQLiteStore(tmp_path / "many.db"),
            "SQLite, power-loss safe": lambda: SQLiteStore(tmp_path / "safe.db", sync="commit"),
        }
        yield openers[request.param]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_l1_every_store_keeps_the_contract(law: Callable[[Opener], None], opened: Opener) -> None:
    law(opened)


@pytest.mark.parametrize("kind", ["memory", "SQLite"])
@given(drawn=histories())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_l3_a_session_loads_as_the_fold_of_its_deltas(kind: str, drawn: Any) -> None:
    of, deltas, _ = drawn
    memory: Archive = MemoryStore()
    with TemporaryDirectory() as folder:
        opener: Opener = (
            (lambda: nullcontext(memory)) if kind == "memory" else (lambda: SQLiteStore(Path(folder) / "s.db"))
        )
        law_a_session_loads_as_the_fold_of_its_deltas(opener, of, deltas)


# ------------------------------------------------------------------------------------------------------------- the file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "claims.db"


def written(path: Path, count: int = 1) -> Session:
    """A file of ours with a session of `count` deltas."""
    with SQLiteStore(path) as store:
        session = load(store, "c-17")
        for _ in range(count):
            session = commit(store, session, following(session))
    assert session is not None
    return session


def test_l1_making_a_store_touches_nothing(path: Path) -> None:
    with SQLiteStore(path) as store:
        assert repr(store) == f"SQLiteStore({str(path)!r})"
    assert list(path.parent.iterdir()) == []


def test_l1_a_file_of_ours_is_marked_and_in_wal_mode(path: Path) -> None:
    written(path)
    header = path.read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == SCHEMA
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_l1_an_empty_file_is_ours_to_make(path: Path) -> None:
    path.touch()
    assert written(path).revision == 1


def _sqlite(statements: str) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(statements)

    return make


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (
            lambda path: path.write_bytes(b"not a database at all, but longer than a hundred bytes" * 10),
            "not a SQLite file",
        ),
        (lambda path: path.write_bytes(b"x"), "not a SQLite file"),
        (lambda path: path.write_bytes(b"SQLite format 3\0"), "not a SQLite file"),
        (_sqlite("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)"), "another program's SQLite file"),
        (_sqlite("CREATE TABLE session (key, id)"), "another program's SQLite file"),
        (_sqlite("PRAGMA application_id = 7; CREATE TABLE a (b)"), "another program's SQLite file"),
        (_sqlite("PRAGMA journal_mode = WAL; CREATE TABLE a (b)"), "another program's SQLite file"),
        (
            _sqlite(
                f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA + 1}; CREATE TABLE a (b)"
            ),
            f"has layout {SCHEMA + 1}, and this version knows {SCHEMA}",
        ),
    ],
)
def test_l4_a_foreign_file_is_refused_and_left_as_it_is(path: Path, make: Callable[[Path], object], what: str) -> None:
    make(path)
    before = path.read_bytes()
    with SQLiteStore(path) as store:
        for _ in range(2):
            with pytest.raises(ForeignFile, match=f"{what}. It was not touched; name another file") as caught:
                load(store, "c-17")
            assert caught.value.store == str(path)
        with pytest.raises(ForeignFile, match=what):
            commit(store, None, following(None))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_l4_a_file_that_another_program_makes_meanwhile_is_refused(path: Path) -> None:
    """The header is read once more inside the transaction that would make the tables."""
    file = SQLiteFile(str(path), 1, "process")
    file._look()
    _sqlite("CREATE TABLE theirs (a)")(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(ForeignFile, match="another program's SQLite file"):
            file._make(connection)
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def test_l1_a_file_that_is_made_meanwhile_by_us_is_used(path: Path) -> None:
    file = SQLiteFile(str(path), 1, "process")
    file._look()
    session = written(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        file._make(connection)
    with SQLiteStore(path) as store:
        assert load(store, "c-17") == session


@pytest.mark.parametrize("path", [":memory:", "", " ", "a\0b"])
def test_m2_a_path_that_is_no_files_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput, match=r"Use MemoryStore|name a file, such as"):
        SQLiteStore(path)


def test_m1_a_folder_a_device_and_a_missing_folder_are_told_with_a_mend(tmp_path: Path) -> None:
    for path, mend in (
        (tmp_path, "is not a file. Name a file in it or beside it"),
        (Path("/dev/full"), "is not a file"),
        (tmp_path / "none" / "claims.db", "there is no folder .*none. Make the folder first"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with SQLiteStore(path) as store, pytest.raises(StoreUnavailable, match=mend):
            load(store, "c-17")
    assert list(tmp_path.iterdir()) == []


def _read_elsewhere(path: Path) -> sqlite3.Connection:
    """A reader of a file that is not in WAL yet: it keeps the mode from being changed, and SQLite would not wait."""
    with SQLiteStore(path) as store:
        load(store, "c-17")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM session").fetchone()
    return other


def test_l1_who_opens_a_file_waits_for_who_is_in_it(path: Path) -> None:
    """Two processes that begin at once on a new file: neither is refused."""
    with closing(_read_elsewhere(path)) as other, SQLiteStore(path) as store:
        leaves = threading.Timer(0.05, lambda: other.execute("COMMIT"))
        leaves.start()
        assert load(store, "c-17") is None
        leaves.join()
        with closing(sqlite3.connect(path)) as fresh:
            assert fresh.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_l1_who_opens_a_file_waits_no_longer_than_it_may(path: Path) -> None:
    busy = pytest.raises(StoreUnavailable, match=r"database is locked\. Another program holds it")
    with closing(_read_elsewhere(path)), SQLiteStore(path, timeout=0.02) as store, busy:
        load(store, "c-17")


def test_m1_a_locked_file_is_told_with_a_mend(path: Path) -> None:
    session = written(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, SQLiteStore(path, timeout=0) as store:
        other.execute("BEGIN IMMEDIATE")
        assert load(store, "c-17") == session
        with pytest.raises(StoreUnavailable, match=r"database is locked. Another program holds it"):
            commit(store, session, following(session))
        other.execute("ROLLBACK")
        commit(store, session, following(session))


@pytest.mark.parametrize(
    ("pragma", "told"),
    [
        ("query_only = 1", "readonly database. Let this user write the file and its folder"),
        ("max_page_count = 1", "full. Make room on the disk"),
    ],
)
def test_m1_a_file_that_cannot_be_written_is_told_with_a_mend(path: Path, pragma: str, told: str) -> None:
    session = written(path)
    with SQLiteStore(path) as store:
        assert load(store, "c-17") == session
        assert store._reads._connection is not None
        store._reads._connection.execute(f"PRAGMA {pragma}")
        with pytest.raises(StoreUnavailable, match=told):
            commit(store, session, following(session, "x" * 10_000))
        assert load(store, "c-17") == session


def test_m1_a_damaged_file_is_told_with_a_mend(path: Path) -> None:
    written(path, 40)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with (
        SQLiteStore(path) as store,
        pytest.raises(StoreUnavailable, match=r"malformed. Restore the file from a backup"),
    ):
        load(store, "c-17")


@pytest.mark.parametrize(
    "damage",
    [
        "body = '{'",
        "body = x'ff00'",
        "body = 7",
        "body = CAST(x'22ff22' AS TEXT)",
        "body = '{\"cursor\":9}'",
        "kind = 'other'",
        "kind = 99",
        "kind = -1",
        "kind = x'ff'",
        "at = 7",
    ],
)
def test_l4_a_damaged_row_is_corrupt_and_not_changed(path: Path, damage: str) -> None:
    written(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE part SET {damage} WHERE kind = {KINDS.index('message')}")
        connection.commit()
    with SQLiteStore(path) as store, pytest.raises(CorruptSession, match=r"does not load: .* It was not changed"):
        load(store, "c-17")


def test_l4_what_could_not_be_loaded_is_not_saved(path: Path) -> None:
    with SQLiteStore(path) as store:
        lone = Delta("c-17", "claims", 1, Head("Intake"), errors=(ErrorRecord(1, "Intake", "E", "\ud800"),))
        with pytest.raises(StateTypeError, match="text that UTF-8 can encode"):
            commit(store, None, lone)
        with pytest.raises(InvalidInput, match=r"the session id .* is not text that UTF-8 can encode"):
            load(store, "\udfff")
        assert load(store, "c-17") is None


@pytest.mark.parametrize("sync", ["process", "commit"])
def test_m1_a_closed_store_says_so(path: Path, sync: Sync) -> None:
    store = SQLiteStore(path, sync=sync)
    session = commit(store, None, following(None))
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match=r"is closed. Make a new one"):
        load(store, "c-17")
    with pytest.raises(StoreUnavailable, match=r"is closed. Make a new one"):
        commit(store, session, following(session))
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]


def test_l1_one_store_is_used_from_many_threads(path: Path) -> None:
    with SQLiteStore(path) as store:
        found: list[object] = []

        def work(name: str) -> None:
            session = None
            for _ in range(20):
                session = commit(store, session, following(session, name, name))
            found.append(load(store, name) == session)

        threads = [threading.Thread(target=work, args=(f"s{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [True] * 4


_WORK = """
import sys
sys.path[:0] = sys.argv[2:]
from store_laws import commit, following, load
from ezgraph.errors import RevisionConflict
from ezgraph.stores.sqlite import SQLiteStore

with SQLiteStore(sys.argv[1], timeout=60) as store:
    won = 0
    while won < 20:
        session = load(store, "c-17")
        try:
            commit(store, session, following(session))
            won += 1
        except RevisionConflict:
            pass
"""


def test_l2_several_processes_make_and_write_one_file(path: Path) -> None:
    """Also the first opening, in which each of them would make the table."""
    here = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    command = [sys.executable, "-W", "error", "-c", _WORK, str(path), *here]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [(one.communicate()[1], one.returncode) for one in running] == [("", 0)] * 3
    with SQLiteStore(path) as store:
        session = load(store, "c-17")
    assert session is not None
    assert session.revision == 60


def test_l3_a_killed_process_loses_no_commit(path: Path) -> None:
    work = _WORK.replace("        try:", "        if won == 7: import os; os._exit(9)\n        try:")
    here = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    done = subprocess.run([sys.executable, "-c", work, str(path), *here], check=False)
    assert done.returncode == 9
    with SQLiteStore(path) as store:
        session = load(store, "c-17")
    assert session is not None
    assert session.revision == 7


def test_l6_bytes_grow_with_what_the_turns_add(path: Path) -> None:
    """FIELD G1: 500 turns that each append 1 KB."""
    sizes = []
    for _ in range(2):
        with SQLiteStore(path) as store:
            session = load(store, "c-17")
            for _ in range(250):
                session = commit(store, session, following(session, "x" * 1024))
        sizes.append(path.stat().st_size)
    assert sizes[1] < 2.1 * sizes[0]
    assert sizes[1] < 500 * 1024 * 2


def test_f7_a_load_of_what_is_kept_reads_one_row(path: Path) -> None:
    with SQLiteStore(path) as store, SQLiteStore(path, keep=0) as other:
        session = None
        for _ in range(3):
            session = commit(store, session, following(session))
            read: list[str] = []
            assert store._reads._connection is not None
            store._reads._connection.set_trace_callback(read.append)
            assert load(store, "c-17") is session
            assert len(read) == 1
            store._reads._connection.set_trace_callback(None)
            session = commit(other, load(other, "c-17"), following(session))
            assert load(store, "c-17") == session == load(other, "c-17")
        assert other._kept == {}


def test_f7_what_is_kept_in_memory_is_bounded_and_never_what_was(path: Path) -> None:
    with SQLiteStore(path, keep=2) as store, SQLiteStore(path) as other:
        for name in ("a", "b", "c"):
            commit(store, None, following(None, name, name))
        assert list(store._kept) == ["b", "c"]
        other.delete("c")
        commit(other, None, following(None, "other", "c"))
        found = load(store, "c")
        assert found is not None
        assert [message.text for message in found.histories["default"]] == ["other"]


@pytest.mark.parametrize("sync", ["process", "commit"])
def test_l3_who_looks_at_a_file_takes_nothing_from_who_writes_it(path: Path, sync: Sync) -> None:
    """A second store in the same process, and another process that opens the file and closes it again.

    Where a process closes a file once, it has lost all its locks on it: the other one would delete the log.
    """
    look = [sys.executable, "-m", "ezgraph", "sessions", "list", str(path)]
    with SQLiteStore(path, sync=sync) as store, SQLiteStore(path) as beside:
        session = commit(store, None, following(None))
        for _ in range(3):
            assert load(beside, "c-17") == session
            subprocess.run(look, check=True, capture_output=True)
            assert Path(f"{path}-wal").exists()
            session = commit(store, session, following(session))
            listed = subprocess.run(look, check=True, capture_output=True, text=True).stdout
            assert listed.split("\t")[3] == str(session.revision)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_l6_a_process_that_ends_leaves_one_file(path: Path) -> None:
    """Whether or not the store was closed."""
    program = f"""
import ctypes
from store_laws import commit, following
from ezgraph.stores.sqlite import SQLiteStore

store = SQLiteStore({str(path)!r})
ctypes.pythonapi.Py_IncRef(ctypes.py_object(store))  # something holds it to the very end
commit(store, None, following(None))
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parent)
    assert list(path.parent.iterdir()) == [path]
    with SQLiteStore(path) as store:
        assert store.entry("c-17") is not None


def test_l6_a_turn_writes_the_same_after_any_number_of_turns(path: Path) -> None:
    """The log of a file grows by what is written: turn 500 to turn 50."""
    log, sizes = Path(f"{path}-wal"), []
    with SQLiteStore(path) as store:
        session = load(store, "c-17")
        assert store._writes._connection is not None
        store._writes._connection.execute("PRAGMA wal_autocheckpoint = 0")
        for _ in range(510):
            before = log.stat().st_size
            session = commit(store, session, following(session, "x" * 1024))
            sizes.append(log.stat().st_size - before)
    assert sum(sizes[490:510]) < 1.2 * sum(sizes[40:60])


@pytest.mark.parametrize("length", [64, 100, 250, 1000, 4000])
def test_l6_a_file_is_no_more_than_twice_its_messages(path: Path, length: int) -> None:
    """After 200 messages, closed, with all that else is in it."""
    with SQLiteStore(path) as store:
        session = None
        for _ in range(200):
            session = commit(store, session, following(session, "x" * length))
        messages = store.export("c-17")["histories"]["default"]
    assert path.stat().st_size <= 2 * sum(len(json.dumps(message)) for message in messages)


def test_l6_nothing_of_pruned_sessions_is_left(path: Path) -> None:
    with SQLiteStore(path) as store:
        for session in ("c-17", "c-18", "c-19"):
            commit(store, None, following(None, session=session))
        assert store.prune(Query()) == 3
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM part").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("wrong", "sizes", "failed"),
    [
        (OSError("no room for this one"), [1, 4, 1, 1, 1, 1], [OSError, None, None, OSError]),
        (StoreUnavailable("claims.db", "the disk is full"), [1, 4], [StoreUnavailable] * 4),
    ],
)
def test_l1_of_a_group_only_what_cannot_be_written_fails(wrong: Exception, sizes: Any, failed: Any) -> None:
    """What the file refuses is told to all at once: asking again for each would wait as often."""
    tried: list[int] = []
    writing, going_on = threading.Event(), threading.Event()

    def write(writes: Sequence[Write]) -> list[Refusal | None]:
        tried.append(len(writes))
        writing.set()
        assert going_on.wait(10)
        if any(one.after.id == "bad" for one in writes):
            raise wrong
        return [None for _ in writes]

    async def commits() -> list[type[BaseException] | None]:
        group = Group(write)
        first, *others = (
            group.take(Write(Session(name, "claims", 1, Head("Intake")), CODEC, Changes([], [], 0), 0.0, 0))
            for name in ("a", "bad", "b", "c", "bad")
            if name == "a" or writing.wait(10)
        )
        going_on.set()
        assert first is not None
        await first
        told = await asyncio.gather(*[one for one in others if one is not None], return_exceptions=True)
        group.close()
        return [None if one is None else type(one) for one in told]

    assert asyncio.run(commits()) == failed
    assert tried == sizes


@pytest.mark.parametrize("kept_open", ["memory", "SQLite"])
def test_l5_an_older_program_does_not_write_over_what_a_newer_one_wrote(path: Path, kept_open: str) -> None:
    """A turn that was under way while the store was migrated: nothing goes back to the version that it was."""
    newer = Codec("claims", {"Intake": int}, {}, version=2, migrations={2: lambda document: document})
    older = Codec("claims", {"Intake": int}, {})
    store: Any = MemoryStore() if kept_open == "memory" else SQLiteStore(path)
    session = commit(store, None, following(None), older)
    assert list(store.migrate(newer)) == ["c-17"]
    with pytest.raises(VersionMismatch, match="is of version 2 and the graph of version 1, which is newer"):
        commit(store, session, following(session), older)
    assert [entry.version for entry in store.find(Query())] == [2]
    if kept_open == "SQLite":
        store.close()


@pytest.mark.parametrize("store", ["memory", "SQLite"])
@pytest.mark.parametrize(
    ("head", "opened", "status"),
    [
        ({"cursor": "Intake"}, None, "idle"),
        ({"cursor": "Intake", "owed": True}, None, "unfinished"),
        ({"cursor": "Intake", "owed": True, "raised": True}, None, "failed"),
        ({"cursor": "Intake"}, (), "unfinished"),
        ({"cursor": "Intake"}, (("Check", None),), "failed"),
        ({"cursor": "END"}, None, "completed"),
    ],
)
def test_l1_a_session_stands_the_same_whoever_wrote_it(
    path: Path, store: str, head: dict[str, Any], opened: tuple[Any, ...] | None, status: str
) -> None:
    """As a document that was added, and as a commit; `opened` has the marks of its activation."""
    kept: Any = MemoryStore() if store == "memory" else SQLiteStore(path)
    document: dict[str, Any] = {"format": 1, "graph": "claims", "version": 1, "revision": 1, "head": head}
    if opened is not None:
        marks = [list(mark) for mark in opened]
        document["activation"] = {"id": 1, "parent": "Intake", "roots": ["Check"], "depth": 1, "marks": marks}
    kept.add({"added": document})
    codec = Codec("claims", {"Intake": int, "Check": int}, {"Check": int})
    session = codec.read("added", kept.export("added"), store="here")
    after = replace(session, id="written")
    delta = Delta("written", "claims", 1, session.head, opened=session.activation, marks=opened or ())
    kept.commit(after, delta, codec)
    assert {entry.session: entry.status for entry in kept.find(Query())} == {"added": status, "written": status}
    assert standing(kept.load("written", codec)) == status
    if store == "SQLite":
        kept.close()


@pytest.mark.parametrize(
    ("part", "value", "told"),
    [
        ("cells", {"Intake": float("inf")}, "is not JSON"),
        ("cells", {"Intake": b"abc"}, "is not JSON"),
        ("revision", 2**63, "is not a whole number"),
        ("version", 2**63, "is not a whole number"),
        ("graph", "\ud800", "UTF-8"),
    ],
)
@pytest.mark.parametrize("store", ["memory", "SQLite"])
def test_l4_what_is_no_json_of_ours_is_not_added(path: Path, store: str, part: str, value: Any, told: str) -> None:
    kept: Any = MemoryStore() if store == "memory" else SQLiteStore(path)
    document = {"format": 1, "graph": "claims", "version": 1, "revision": 1, "head": {"cursor": "Intake"}}
    with pytest.raises(CorruptSession, match=told):
        kept.add({"s": document | {part: value}})
    for name in ("", "a\nb", "x" * 201):
        with pytest.raises(InvalidInput, match="session id"):
            kept.add({name: document})
    assert list(kept.find(Query())) == []
    if store == "SQLite":
        kept.close()


QUERIES: list[dict[str, Any]] = [
    *({"limit": wrong} for wrong in (-1, 10**20, "3", 2.5, True)),
    *({"idle": wrong} for wrong in (-1.0, float("nan"), "x", timedelta(1))),
]


@pytest.mark.parametrize("given", QUERIES)
def test_m2_a_query_that_counts_nothing_is_told(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"pass a (whole )?number, 0 or more"):
        Query(**given)


@pytest.mark.parametrize("given", [{"keep": -1}, {"keep": "9"}, {"timeout": -1.0}, {"timeout": "x"}])
def test_m2_a_number_that_a_store_cannot_use_is_told(path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"{next(iter(given))}=.*: pass .* 0 or more"):
        SQLiteStore(path, **given)


@pytest.mark.parametrize("name", ["file:claims.db", "file::memory:", 5, None])
def test_m2_a_uri_or_what_is_no_path_is_told(name: Any) -> None:
    with pytest.raises(InvalidInput, match="name a file"):
        SQLiteStore(name)


def test_l6_nothing_of_a_deleted_session_is_left(path: Path) -> None:
    with SQLiteStore(path) as store:
        commit(store, None, following(None))
        commit(store, None, following(None, session="c-18"))
        store.delete("c-17")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT id FROM session").fetchall() == [("c-18",)]
        (stray,) = connection.execute("SELECT count(*) FROM part WHERE session NOT IN (SELECT key FROM session)")
        assert stray == (0,)


def test_m2_a_sync_that_is_none_is_told(path: Path) -> None:
    word: Any = "always"
    with pytest.raises(InvalidInput, match="sync='always': pass one of 'commit', 'process'"):
        SQLiteStore(path, sync=word)


@pytest.mark.parametrize(("sync", "level"), [("commit", 2), ("process", 1)])
def test_l1_sync_says_in_words_what_a_pragma_says(path: Path, sync: Sync, level: int) -> None:
    with SQLiteStore(path, sync=sync) as store:
        commit(store, None, following(None))
        assert store._writes._connection is not None
        assert store._writes._connection.execute("PRAGMA synchronous").fetchone() == (level,)


def test_l1_what_comes_in_while_the_disk_is_written_is_one_transaction(path: Path) -> None:
    """Sessions that commit at once; one of them conflicts, and the others stand."""

    async def all_at_once(store: SQLiteStore) -> list[object]:
        await commit_of(store, None, following(None, session="s0"))
        await commit_of(store, None, following(None, session="other"))
        connection: Any = store._writes._connection
        connection.set_trace_callback(said.append)
        deltas = [following(None, session=f"s{n}") for n in range(20)]  # the first of them is taken
        return await asyncio.gather(*(commit_of(store, None, one) for one in deltas), return_exceptions=True)

    def commit_of(store: SQLiteStore, before: Session | None, delta: Delta) -> Awaitable[None]:
        after = apply(before or Session(delta.session, delta.graph, 0, Head("")), delta)
        waiting = store.commit(after, delta, CODEC)
        assert waiting is not None
        return waiting

    said: list[str] = []
    with SQLiteStore(path, sync="commit") as store:
        answers = asyncio.run(all_at_once(store))
        assert isinstance(answers[0], RevisionConflict)
        assert answers[1:] == [None] * 19
        assert 1 <= said.count("COMMIT") < 19
        assert [entry.session for entry in store.find(Query())] == ["other", *sorted(f"s{n}" for n in range(20))]


async def _waited(handed: Awaitable[None]) -> None:
    await handed


def test_l1_who_commits_alone_is_written_at_once(path: Path) -> None:
    """To hand over to a thread would take longer than the disk does."""
    with SQLiteStore(path, sync="commit") as store:
        first = commit(store, None, following(None))
        delta = following(first)
        second = apply(first, delta)
        assert store.commit(second, delta, CODEC) is None
        other = following(None, session="other")
        handed = store.commit(apply(Session("other", "claims", 0, Head("")), other), other, CODEC)
        assert handed is not None
        asyncio.run(_waited(handed))
        commit(store, second, following(second))
        assert [entry.revision for entry in store.find(Query())] == [3, 1]


def test_m1_a_group_that_cannot_be_written_is_told_to_each(path: Path) -> None:
    session = written(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with SQLiteStore(path, sync="commit", timeout=0) as store:
            with pytest.raises(StoreUnavailable, match=r"database is locked. Another program holds it"):
                commit(store, session, following(session))
            other.execute("ROLLBACK")
            commit(store, session, following(session))


@pytest.mark.parametrize("left", [100, 4096, 8192, -4096, -1])
def test_l4_a_truncated_file_is_refused_and_left_as_it_is(path: Path, left: int) -> None:
    written(path, 40)
    path.write_bytes(path.read_bytes()[:left])
    before = path.read_bytes()
    with SQLiteStore(path) as store:
        with pytest.raises(StoreUnavailable, match=r"has lost its end. Restore the file from a backup"):
            load(store, "c-17")
        with pytest.raises(StoreUnavailable, match=r"has lost its end"):
            commit(store, None, following(None))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_l4_nothing_but_the_sqlite_store_loads_sqlite() -> None:
    code = (
        "import sys, ezgraph, ezgraph.shapes, ezgraph.stores.codec, ezgraph.stores.memory\n"
        "assert not {'sqlite3', 'asyncio', 'socket'} & sys.modules.keys()\n"
    )
    root = str(Path(__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, check=False)
    assert done.returncode == 0


def test_m2_a_memory_store_names_itself() -> None:
    store = MemoryStore()
    commit(store, None, following(None))
    assert repr(store) == "MemoryStore(1 sessions)"
    with pytest.raises(RevisionConflict, match="built on revision 0, and the store has 1"):
        store.commit(Session("c-17", "claims", 1, Head("")), Delta("c-17", "claims", 1), CODEC)


def test_m1_store_errors_have_one_root() -> None:
    assert all(issubclass(one, StoreError) for one in (CorruptSession, ForeignFile, StoreUnavailable))
