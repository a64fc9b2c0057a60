"""A file that is moved, replaced or cut off while a store has it open: no write is lost in silence.  Rule L3."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from inspect import isawaitable
from pathlib import Path

import pytest
from store_laws import CODEC, commit, following, load

from ezgraph import StoreUnavailable
from ezgraph.session import Delta, Head, Session, apply
from ezgraph.stores.contract import Query
from ezgraph.stores.file import Sync
from ezgraph.stores.sqlite import SQLiteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here" / "claims.db"


def _log(path: Path) -> Path:
    return Path(f"{path}-wal")


def _truncated(path: Path) -> None:
    os.truncate(path, 0)


def _halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _replaced(path: Path) -> None:
    other = path.with_name("other")
    shutil.copy(path, other)
    other.replace(path)


def _unlinked(path: Path) -> None:
    path.unlink()


def _emptied_anew(path: Path) -> None:
    path.unlink()
    path.touch()


HAPPENS: tuple[Callable[[Path], object], ...] = (
    _unlinked,
    lambda path: shutil.rmtree(path.parent),
    lambda path: path.parent.rename(path.parent.with_name("away")),
    lambda path: path.rename(path.with_name("away.db")),
    _replaced,
    _emptied_anew,
    _truncated,
    _halved,
    lambda path: _log(path).unlink(),
    lambda path: _replaced(_log(path)),
    lambda path: _emptied_anew(_log(path)),
    lambda path: _truncated(_log(path)),
    lambda path: _halved(_log(path)),
)
NAMES = ["unlinked", "folder-gone", "folder-moved", "moved", "replaced", "emptied-anew", "cut", "halved"] + [
    f"log-{what}" for what in ("unlinked", "replaced", "emptied-anew", "cut", "halved")
]


@pytest.mark.parametrize("sync", ["process", "commit"])
@pytest.mark.parametrize("happens", HAPPENS, ids=NAMES)
def test_l3_no_write_to_a_file_that_is_gone_succeeds(path: Path, happens: Callable[[Path], object], sync: Sync) -> None:
    """Neither the next write nor any other, of a session or of many, of one that is there or new."""
    with SQLiteStore(path, sync=sync) as store:
        session: Session | None = None
        for number in range(60):
            session = commit(store, session, following(session, "x" * 500))
            if number == 30:  # some of it is in the file, and some in the log
                with closing(sqlite3.connect(path, isolation_level=None)) as other:
                    other.execute("PRAGMA wal_checkpoint").fetchall()
        assert session is not None
        document = store.export("c-17")
        happens(path)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match=r"while it was open\. Nothing of this was written"):
                commit(store, session, following(session))
            with pytest.raises(StoreUnavailable, match="while it was open"):
                commit(store, None, following(None, session="new"))
            with pytest.raises(StoreUnavailable, match="while it was open"):
                store.add({"added": document})
            with pytest.raises(StoreUnavailable, match="while it was open"):
                store.delete("c-17")


@pytest.mark.parametrize("sync", ["process", "commit"])
def test_l3_of_a_group_of_sessions_none_is_written_to_a_file_that_is_gone(path: Path, sync: Sync) -> None:
    async def main() -> None:
        with SQLiteStore(path, sync=sync) as store:
            await committed(store, following(None))
            _unlinked(path)
            deltas = [following(None, session=f"s-{n}") for n in range(20)]
            told = await asyncio.gather(*[committed(store, delta) for delta in deltas], return_exceptions=True)
            assert {type(one) for one in told} == {StoreUnavailable}

    async def committed(store: SQLiteStore, delta: Delta) -> None:
        after = apply(Session(delta.session, delta.graph, 0, Head("")), delta)
        answer = store.commit(after, delta, CODEC)
        if isawaitable(answer):
            await answer

    asyncio.run(main())


def _backup(path: Path) -> Path:
    """A backup of a file, made as SQLite makes one."""
    backup = path.with_name("backup.db")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    return backup


def _sessions(path: Path) -> list[str]:
    """What another process lists."""
    code = f"from ezgraph.cli import main; main(['sessions', 'list', {str(path)!r}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.splitlines() + done.stderr.splitlines()


@pytest.mark.parametrize("dies", [False, True], ids=["open", "killed"])
def test_l3_a_log_is_not_applied_to_the_file_put_in_the_place_of_its_own(path: Path, dies: bool) -> None:  # noqa: FBT001
    """A backup moved over a file that a program has open, or that one left when it was killed."""
    with SQLiteStore(path) as store:
        for name in ("kept-1", "kept-2"):
            commit(store, None, following(None, session=name))
    backup = _backup(path)
    whole = backup.read_bytes()
    program = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(path), *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stdout.readline() == "written\n"
    if dies:
        program.kill()
        program.wait()
    assert _log(path).stat().st_size
    backup.replace(path)
    for sync in ("process", "commit"):
        with (
            SQLiteStore(path, sync=sync) as store,
            pytest.raises(StoreUnavailable, match="was put in the place of another file, whose log stands beside it"),
        ):
            store.find(Query())
    assert any("was put in the place of another file" in line for line in _sessions(path))
    assert path.read_bytes() == whole
    if not dies:
        program.stdin.write("go on\n")
        program.stdin.flush()
        assert program.stdout.readline() == "StoreUnavailable\n"
        program.stdin.close()
        program.wait()
        assert path.read_bytes() == whole
    program.stdin.close()
    program.stdout.close()
    _log(path).unlink(missing_ok=True)
    Path(f"{path}-shm").unlink(missing_ok=True)
    with SQLiteStore(path) as store:
        assert [entry.session for entry in store.find(Query())] == ["kept-1", "kept-2"]
        commit(store, None, following(None))
    with SQLiteStore(path) as store:
        assert [entry.session for entry in store.find(Query())] == ["c-17", "kept-1", "kept-2"]


_PROGRAM = """
import sys
path, *sys.path[:] = sys.argv[1:]
from store_laws import commit, following
from ezgraph import StoreUnavailable
from ezgraph.stores.sqlite import SQLiteStore
with SQLiteStore(path) as store:
    session = None
    for _ in range(50):
        session = commit(store, session, following(session, "x" * 200))
    print("written", flush=True)
    sys.stdin.readline()
    try:
        commit(store, session, following(session))
    except StoreUnavailable:
        print("StoreUnavailable", flush=True)
    sys.stdin.readline()
"""


def test_l3_a_file_and_its_log_that_were_copied_together_are_whole(path: Path, tmp_path: Path) -> None:
    """A snapshot of a folder in use: new files, with all that was committed."""
    with SQLiteStore(path) as store:
        session = commit(store, None, following(None))
        shutil.copytree(path.parent, tmp_path / "there")
    with SQLiteStore(tmp_path / "there" / path.name) as store:
        assert load(store, "c-17") == session
        commit(store, session, following(session))
    assert sorted(one.name for one in (tmp_path / "there").iterdir()) == [path.name]


@pytest.mark.parametrize("statement", ["PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM"])
def test_l3_what_another_program_may_do_to_an_open_file_is_no_damage(path: Path, statement: str) -> None:
    with SQLiteStore(path) as store:
        session: Session | None = None
        for _ in range(40):
            session = commit(store, session, following(session, "x" * 900))
        assert session is not None
        store.delete("c-17")
        session = None
        for _ in range(3):
            session = commit(store, session, following(session))
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute(statement).fetchall()
                other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with SQLiteStore(path) as store:
        assert load(store, "c-17") == session


@pytest.mark.parametrize("sync", ["process", "commit"])
def test_l1_a_relative_path_is_of_the_folder_in_which_the_store_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: Sync
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with SQLiteStore("s.db", sync=sync) as store:
        monkeypatch.chdir(tmp_path / "two")
        session = commit(store, None, following(None))
        monkeypatch.chdir(tmp_path)
        assert load(store, "c-17") == session
    assert [one.relative_to(tmp_path).as_posix() for one in tmp_path.glob("*/*")] == ["one/s.db"]


def test_l1_the_log_of_a_link_is_where_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real" / "s.db")
    with SQLiteStore(link) as store:
        session = commit(store, None, following(None))
        session = commit(store, session, following(session))
    with SQLiteStore(tmp_path / "real" / "s.db") as store:
        assert load(store, "c-17") == session
