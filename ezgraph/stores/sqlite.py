"""Sessions in one SQLite file: a row for each delta, and its key is the optimistic lock.  Rules L1, L2, L6."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from os import PathLike, fsdecode, fspath
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Final, Self, TypeVar, final

from ezgraph.errors import ForeignFile, InvalidInput, RevisionConflict, StoreUnavailable
from ezgraph.session import Delta, Session
from ezgraph.stores.codec import Codec

APPLICATION_ID: Final = 0x657A6772
"""Marks a SQLite file as ours ("ezgr"), at byte 68 of its header."""

SCHEMA: Final = 1
"""The number of the file's layout, SQLite's user_version, at byte 60 of its header."""

Answer = TypeVar("Answer")

_CREATE: Final = f"""
    CREATE TABLE delta (
        session TEXT NOT NULL,
        revision INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, revision)
    );
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {SCHEMA};
"""

# A gap inserts no row, a taken revision breaks the key; both in one statement, so in one transaction.
_INSERT: Final = """
    INSERT INTO delta SELECT ?1, ?2, ?3
    WHERE ?2 = 1 OR EXISTS (SELECT 1 FROM delta WHERE session = ?1 AND revision = ?2 - 1)
"""
_LOAD: Final = "SELECT revision, body FROM delta WHERE session = ? AND revision >= ? ORDER BY revision"
_LAST: Final = "SELECT max(revision) FROM delta WHERE session = ?"

_MENDS: Final = {
    "SQLITE_BUSY": "Another program holds it; end that, or give a longer timeout=.",
    "SQLITE_LOCKED": "Another program holds it; end that, or give a longer timeout=.",
    "SQLITE_READONLY": "Let this user write the file and its folder.",
    "SQLITE_PERM": "Let this user write the file and its folder.",
    "SQLITE_CANTOPEN": "Make the folder first, and let this user write in it.",
    "SQLITE_FULL": "Make room on the disk.",
    "SQLITE_IOERR": "Look at the disk.",
    "SQLITE_CORRUPT": "Restore the file from a backup.",
    "SQLITE_NOTADB": "Restore the file from a backup.",
}


@final
class SQLiteStore:
    """Keeps sessions in a file, for any number of threads and processes at once.

    The file is opened at first use and made where there is none.  It is in WAL mode: next to it stand `-wal` and `-shm`
    while it is open.  A commit survives the end of the process; the last ones may be lost with the machine's power.

    Args:
        path: The file.  Its folder must exist.
        timeout: Seconds to wait for another writer.
        keep: How many sessions stay in memory between turns, so that a load reads only what is new.  Rule F7.

    Raises:
        InvalidInput: The path is no file's.
    """

    def __init__(self, path: str | PathLike[str], *, timeout: float = 5.0, keep: int = 1024) -> None:
        text = fsdecode(fspath(path))
        if text == ":memory:":
            raise InvalidInput("", "SQLiteStore(':memory:') would forget its sessions. Use MemoryStore().")
        if not text.strip() or "\0" in text:
            raise InvalidInput("", f"SQLiteStore({text!r}): name a file, such as SQLiteStore('claims.db').")
        self.path, self._timeout = text, timeout
        self._lock = Lock()
        self._keep = keep
        self._kept: dict[str, tuple[Codec, Session, bytes]] = {}  # with the text of its last delta; oldest first
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    def load(self, session: str, codec: Codec, /) -> Session | None:
        """The session as the fold of its deltas, or None.

        Raises:
            CorruptSession: A delta does not load.
            WrongGraph: It is another graph's session.
            StoreUnavailable: The file cannot be read.
            ForeignFile: It is not a store of ours.
        """
        kept = self._kept.get(session)
        before, last = (kept[1], kept[2]) if kept and kept[0] is codec else (None, b"")
        rows = self._rows(session, before.revision if before else 0)
        if before is not None:
            if rows and rows[0] == (before.revision, last):
                del rows[0]
            else:  # the file was put in another's place
                before, rows = None, self._rows(session, 0)
        if rows:
            last = rows[-1][1]
        found = codec.folded(session, rows, before, store=self.path)
        if found is not None:
            self._remember(codec, found, last)
        return found

    def _rows(self, session: str, since: int) -> list[tuple[int, bytes]]:
        return self._ask(session, lambda connection: connection.execute(_LOAD, (session, since)).fetchall())

    def _remember(self, codec: Codec, session: Session, last: bytes) -> None:
        with self._lock:
            self._kept.pop(session.id, None)
            self._kept[session.id] = codec, session, last
            while len(self._kept) > self._keep:
                del self._kept[next(iter(self._kept))]

    def commit(self, after: Session, delta: Delta, codec: Codec, /) -> None:
        """Add one row, in one statement.

        Raises:
            RevisionConflict: The revision is taken, or leaves a gap.  Nothing was written.  Rule L2.
            StateTypeError: The delta holds what could not be loaded again.
            StoreUnavailable: The file cannot be written.
            ForeignFile: It is not a store of ours.
        """
        body = codec.encode(delta)

        def insert(connection: sqlite3.Connection) -> tuple[int | None] | None:
            """None, or the last revision where the delta does not build on it."""
            try:
                if connection.execute(_INSERT, (delta.session, delta.revision, body)).rowcount == 1:
                    return None
            except sqlite3.IntegrityError:
                pass  # the revision is taken
            (last,) = connection.execute(_LAST, (delta.session,)).fetchone()
            return (last or 0,)

        refused = self._ask(delta.session, insert)
        if refused is not None:
            raise RevisionConflict(delta.session, delta.revision - 1, refused[0])
        self._remember(codec, after, body.encode())

    def close(self) -> None:
        """Close the file; the store is not used afterwards.  Closing twice is closing once."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SQLiteStore({self.path!r})"

    # ------------------------------------------------------------------------------------------------------ the file

    def _ask(self, session: str, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        with self._lock:
            if self._closed:
                raise StoreUnavailable(self.path, f"{self!r} is closed. Make a new one.")
            try:
                if self._connection is None:
                    self._connection = self._opened()
                return question(self._connection)
            except UnicodeEncodeError:
                raise InvalidInput(session, f"the session id {session!a} is not text that UTF-8 can encode.") from None
            except sqlite3.Error as error:
                raise self._unavailable(error) from error

    def _unavailable(self, error: sqlite3.Error) -> StoreUnavailable:
        name = getattr(error, "sqlite_errorname", "")
        mend = next((text for code, text in _MENDS.items() if name.startswith(code)), "Look at the file.")
        return StoreUnavailable(self.path, f"{self.path}: {error}. {mend}")

    def _opened(self) -> sqlite3.Connection:
        self._look()
        connection = sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            # Bytes: text that is not UTF-8 is for the codec to refuse, with its session.
            connection.text_factory = bytes
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _look(self) -> None:
        """Judge the file by its header before SQLite may touch it."""
        path = Path(self.path)
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise StoreUnavailable(self.path, f"{self.path} is not a file. Name a file in it or beside it.")
            with path.open("rb") as file:
                header = file.read(100)
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise StoreUnavailable(
                    self.path, f"{self.path}: there is no folder {path.parent}. Make the folder first."
                ) from None
            return
        except OSError as error:
            raise StoreUnavailable(
                self.path, f"{self.path}: {error.strerror}. Let this user read and write it."
            ) from error
        if not header:
            return
        if not header.startswith(b"SQLite format 3\0") or len(header) < 100:
            raise self._foreign("is not a SQLite file")
        self._judge(int.from_bytes(header[68:72], "big"), int.from_bytes(header[60:64], "big"))

    def _judge(self, application: int, schema: int) -> None:
        if application != APPLICATION_ID:
            raise self._foreign("is another program's SQLite file")
        if schema != SCHEMA:
            raise self._foreign(f"has layout {schema}, and this version knows {SCHEMA}")

    def _foreign(self, what: str) -> ForeignFile:
        return ForeignFile(self.path, f"{self.path} {what}. It was not touched; name another file.")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION_ID:
            self._make(connection)
        if self._mode(connection) == b"wal":
            connection.execute("PRAGMA synchronous = NORMAL")

    def _mode(self, connection: sqlite3.Connection) -> bytes:
        """The journal's mode: WAL, where the file system can.  SQLite itself does not wait here for who has it."""
        deadline = monotonic() + self._timeout
        while True:
            mode: bytes
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode == b"wal":
                return mode
            try:
                with closing(connection.execute("PRAGMA journal_mode = WAL")) as answer:
                    (mode,) = answer.fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                    raise
                sleep(0.005)
            else:
                return mode

    def _make(self, connection: sqlite3.Connection) -> None:
        """Make the table in an empty file, unless another process makes it first."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application == 0 and not tables:
                for statement in _CREATE.split(";"):
                    connection.execute(statement)
            else:
                (schema,) = connection.execute("PRAGMA user_version").fetchone()
                self._judge(application, schema)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
