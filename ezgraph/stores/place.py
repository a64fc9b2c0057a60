"""Whether a path still leads to the file that was opened there, and whose log stands beside it.

SQLite finds a file's log by its name alone: it would copy into a file the log of another one that stood there before.
And what is written to a file that nobody can find any more is lost, though each write succeeds.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, final

from ezgraph.errors import StoreUnavailable

Identity: TypeAlias = tuple[int, int]
"""A file under whatever name: its device and inode."""


def identity(path: str) -> Identity | None:
    """Which file a path leads to; None where there is none."""
    found = _stat(path)
    return None if found is None else (found.st_dev, found.st_ino)


def log_of(path: str) -> str:
    """Where the log of a file is."""
    return f"{path}-wal"


def check_log(path: str) -> None:
    """Raise where the log beside a file is another file's, which stood there when the log was written.

    Raises:
        StoreUnavailable: It is.
    """
    log = _stat(log_of(path))
    if log is None or not log.st_size:
        return
    try:
        owner = [int(word) for word in Path(_note(path)).read_bytes().split()]
    except (OSError, ValueError):  # nobody noted it: it is taken for the file's own, as SQLite does
        return
    if owner[2:] == [log.st_dev, log.st_ino] and owner[:2] != [*(identity(path) or ())]:
        raise StoreUnavailable(
            path,
            f"{path} was put in the place of another file, whose log stands beside it still. It was not touched. End "
            f"what has the other file open, then delete {log_of(path)} and {path}-shm.",
        )


def forget_log(path: str) -> None:
    """Forget whose log stands beside a file, once SQLite has taken the log away."""
    if identity(log_of(path)) is None:
        with suppress(OSError):  # it stays, and says nothing of any log that is there
            Path(_note(path)).unlink()


def _note(path: str) -> str:
    return f"{log_of(path)}-of"


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116  before each write: `Path` would cost as much again
    except OSError:
        return None


@final
class Place:
    """Where a file was opened; looked at before each write.

    Args:
        path: The file's.
        main: Which file it was.
        logged: Whether it has a log (SQLite's WAL).
    """

    def __init__(self, path: str, main: Identity | None, *, logged: bool) -> None:
        self._path, self._log, self._main, self._logged = path, log_of(path), main, logged
        self._log_is: Identity | None = None
        self._sizes = 0, 0

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise where what is written now could not be found again.

        Raises:
            StoreUnavailable: The file or its log was moved, deleted, replaced or cut off.
        """
        main = _stat(self._path)
        if main is None or (main.st_dev, main.st_ino) != self._main:
            raise self._lost(self._path)
        if not self._logged:
            return
        if self._log_is is None:
            self._begin(connection)
        log = _stat(self._log)
        if log is None or (log.st_dev, log.st_ino) != self._log_is:
            raise self._lost(self._log)
        size, log_size = self._sizes
        if not main.st_size:
            raise self._cut_off()
        if main.st_size < size or log.st_size < log_size:
            self._check_whole(connection)
        self._sizes = main.st_size, log.st_size or 1  # it will be written to

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Note whose log it is, before anything of ours stands in it."""
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # now SQLite has the log open
        self._log_is, note = identity(self._log), Path(_note(self._path))
        owner = " ".join(map(str, (*(self._main or ()), *(self._log_is or ())))).encode()
        try:
            if not note.exists() or note.read_bytes() != owner:
                note.write_bytes(owner)
        except OSError as error:
            self._log_is = None
            raise StoreUnavailable(
                self._path, f"{note}: {error.strerror}. Let this user write the file and its folder."
            ) from error

    def _check_whole(self, connection: sqlite3.Connection) -> None:
        """The file or its log is shorter than it was: SQLite made it so, or it has lost its end."""
        try:
            connection.execute("PRAGMA shrink_memory")  # or it would read what it has in memory
            ((told,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
        except sqlite3.Error as error:
            raise self._cut_off() from error
        if told != b"ok":
            raise self._cut_off()

    def _cut_off(self) -> StoreUnavailable:
        return StoreUnavailable(
            self._path,
            f"{self._path}, or its log, was cut off while it was open. Nothing of this was written. "
            "Restore the file from a backup.",
        )

    def _lost(self, path: str) -> StoreUnavailable:
        return StoreUnavailable(
            self._path,
            f"{path} was moved, deleted or replaced while it was open. Nothing of this was written. "
            "Close this store, put the file back with its log or restore a backup, and make a new store.",
        )
