"""One SQLite file of ours: looked at before it is touched, opened or made, and every error of it told with its mend."""

from __future__ import annotations

import sqlite3
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock, RLock
from time import monotonic, sleep
from typing import Final, Literal, TypeAlias, TypeVar, final
from weakref import finalize

from ezgraph.errors import ForeignFile, InvalidInput, StoreUnavailable
from ezgraph.stores.place import Identity, Place, check_log, forget_log, identity, log_of

APPLICATION_ID: Final = 0x657A6772
"""Marks a SQLite file as ours ("ezgr"), at byte 68 of its header."""

SCHEMA: Final = 4
"""The number of the file's layout, SQLite's user_version, at byte 60 of its header."""

Sync: TypeAlias = Literal["commit", "process"]
"""What a commit outlasts: `commit` the machine's power as well (WAL, synchronous=FULL), `process` the end of the
process (WAL, synchronous=NORMAL), in a twentieth of the time."""

Answer = TypeVar("Answer")

_LEVELS: Final[Mapping[str, str]] = {"commit": "FULL", "process": "NORMAL"}

_PAGE: Final = 1024
"""Bytes.  A step changes a few small rows here and there, and a page is written whole: a quarter of SQLite's own."""

_LOG: Final = 4 * 1024 * 1024
"""Bytes of write-ahead log at which it is copied into the file."""

KINDS: Final = (
    "activation",
    "cell",
    "error",
    "item",
    "limits",
    "mark",
    "note",
    "result",
    "row",
    "series",
    "usage",
    "message",
)
"""The kinds of parts but the head, by their number in the file.  Messages come last: a step appends them to the end of
what a session has, where SQLite fills its pages."""

_CREATE: Final = f"""
    CREATE TABLE session (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        graph TEXT NOT NULL,
        version INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        cursor TEXT NOT NULL,
        status TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        head TEXT,  -- the part that nearly every step writes
        incarnation INTEGER NOT NULL,  -- of no other session that had this id
        parts INTEGER NOT NULL  -- how many it has, but for limits
    );
    CREATE INDEX session_status ON session (graph, status);
    CREATE TABLE part (
        session INTEGER NOT NULL,
        kind INTEGER NOT NULL,  -- the index in {KINDS}
        name TEXT NOT NULL,
        at INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, kind, name, at)  -- not WITHOUT ROWID: there, a longer body takes pages of its own
    );
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {SCHEMA};
"""

_OPEN: Final = Counter[Identity | None]()
_OPENING: Final = RLock()  # the garbage collector may close a file meanwhile
"""The files that this process has open, by device and inode, and who may open one.

What is open is not opened beside SQLite, to be looked at: where a process closes a file once, POSIX takes all its locks
on it away, SQLite's with them.  Another process would take the log for nobody's, and delete it under who writes there.
"""

_GLANCE: Final = 0.2
"""Seconds after which a file that looks cut off is taken for one."""

_HELD: Final = "Another program holds it; end that, or give a longer timeout=."
_DENIED: Final = "Let this user write the file and its folder."
_BROKEN: Final = "Restore the file from a backup."
_MENDS: Final = {
    "SQLITE_BUSY": _HELD,
    "SQLITE_LOCKED": _HELD,
    "SQLITE_READONLY": _DENIED,
    "SQLITE_PERM": _DENIED,
    "SQLITE_CANTOPEN": "Make the folder first, and let this user write in it.",
    "SQLITE_FULL": "Make room on the disk.",
    "SQLITE_IOERR": "Look at the disk.",
    "SQLITE_CORRUPT": _BROKEN,
    "SQLITE_NOTADB": _BROKEN,
}


@final
class SQLiteFile:
    """A connection to a file, opened at first use and used by one thread at a time.

    Args:
        path: The file, as errors name it.  Its folder must exist.
        timeout: Seconds to wait for another writer.
        sync: What a commit outlasts.

    Raises:
        InvalidInput: The path leads nowhere.
    """

    def __init__(self, path: str, timeout: float, sync: Sync) -> None:
        self.path, self._timeout, self._sync = path, timeout, sync
        self._file = _whole(path)
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._leave: Callable[[], object] | None = None
        self._place: Place | None = None
        self._closed = False

    def write(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """As `ask`, of what changes the file: in one transaction, once it is sure to be found again.

        Raises:
            StoreUnavailable: The file or its log was moved, deleted, replaced or cut off while it was open.
        """

        def writing(connection: sqlite3.Connection) -> Answer:
            if self._place is not None:
                self._place.check(connection)
            with transaction(connection):
                return question(connection)

        return self.ask(writing)

    def ask(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """What a question put to the file answers.

        Raises:
            StoreUnavailable: The file cannot be opened, read or written.
            ForeignFile: It is not a store of ours.
        """
        with self._lock:
            if self._closed:
                raise StoreUnavailable(self.path, f"the store on {self.path} is closed. Make a new one.")
            try:
                if self._connection is None:
                    self._connection = self._opened()
                return question(self._connection)
            except sqlite3.Error as error:
                raise self._unavailable(error) from error
            except UnicodeDecodeError as error:  # the driver's, of what SQLite says of a damaged file
                raise StoreUnavailable(self.path, f"{self.path} is damaged. {_BROKEN}") from error

    def close(self) -> None:
        """Close the file for good."""
        with self._lock:
            self._closed = True
            self._connection = None
            if self._leave is not None:
                self._leave()

    def _unavailable(self, error: sqlite3.Error) -> StoreUnavailable:
        name = getattr(error, "sqlite_errorname", "")
        mend = next((text for code, text in _MENDS.items() if name.startswith(code)), "Look at the file.")
        return StoreUnavailable(self.path, f"{self.path}: {error}. {mend}")

    def _opened(self) -> sqlite3.Connection:
        with _OPENING:
            if identity(self._file) not in _OPEN:
                self._look()
            connection = sqlite3.connect(
                self._file, timeout=self._timeout, isolation_level=None, check_same_thread=False
            )
            found = identity(self._file)
            _OPEN[found] += 1
        # At exit, too: or the log would be left beside the file.
        leave = finalize(self, _leave, connection, self._file, found)
        try:
            self._place = Place(self._file, found, logged=self._prepare(connection) == "wal")
            # Bytes: text that is not UTF-8 is for the codec to refuse, with its session.
            connection.text_factory = bytes
        except BaseException:
            leave()
            raise
        self._leave = leave
        return connection

    def _look(self) -> None:
        """Judge the file by its header before SQLite may touch it."""
        path = Path(self._file)
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise StoreUnavailable(self.path, f"{self.path} is not a file. Name a file in it or beside it.")
            header = self._header()
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
        check_log(self._file)
        deadline = monotonic() + _GLANCE
        while self._is_cut_off():
            if monotonic() > deadline:
                raise StoreUnavailable(self.path, f"{self.path} has lost its end. {_BROKEN}")
            sleep(_GLANCE / 10)

    def _header(self) -> bytes:
        with Path(self._file).open("rb") as file:
            return file.read(100)

    def _is_cut_off(self) -> bool:
        """Whether pages are missing at its end: SQLite would tell only when it meets one, and write to the others.

        While another process closes the file, it may look so for an instant.
        """
        log = Path(log_of(self._file))
        if log.exists() and log.stat().st_size:  # what the file lacks may be in the log
            return False
        header = self._header()
        page, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
        counted = header[24:28] == header[92:96]  # else an old library wrote it, which did not count pages
        return counted and Path(self._file).stat().st_size < pages * (65536 if page == 1 else page)

    def _judge(self, application: int, schema: int) -> None:
        if application != APPLICATION_ID:
            raise self._foreign("is another program's SQLite file")
        if schema != SCHEMA:
            raise self._foreign(f"has layout {schema}, and this version knows {SCHEMA}")

    def _foreign(self, what: str) -> ForeignFile:
        return ForeignFile(self.path, f"{self.path} {what}. It was not touched; name another file.")

    def _prepare(self, connection: sqlite3.Connection) -> str:
        """Make what is not there yet; the mode of the file's journal."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION_ID:
            self._make(connection)
        mode = self._mode(connection)
        if mode == "wal":  # else SQLite's own default, FULL, is the safe one
            connection.execute(f"PRAGMA synchronous = {_LEVELS[self._sync]}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG // _PAGE}")
        return mode

    def _mode(self, connection: sqlite3.Connection) -> str:
        """The journal's mode: WAL, where the file system can.  SQLite itself does not wait here for who has it."""
        deadline = monotonic() + self._timeout
        while True:
            mode: str
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode == "wal":
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
        """Make the tables in an empty file, unless another process makes them first."""
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        with transaction(connection):
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application == 0 and not tables:
                for statement in _CREATE.split(";"):
                    connection.execute(statement)
            else:
                (schema,) = connection.execute("PRAGMA user_version").fetchone()
                self._judge(application, schema)


def _whole(path: str) -> str:
    """The path without links, from the root: a program may change its folder, and SQLite keeps the log at its end."""
    try:
        return str(Path(path).resolve())
    except (OSError, RuntimeError) as error:
        raise InvalidInput("", f"SQLiteStore({path!r}) leads nowhere from this folder: {error}.") from None


def _leave(connection: sqlite3.Connection, path: str, found: Identity | None) -> None:
    connection.close()
    forget_log(path)
    with _OPENING:
        _OPEN[found] -= 1
        if not _OPEN[found]:
            del _OPEN[found]


@contextmanager
def transaction(connection: sqlite3.Connection, kind: Literal["IMMEDIATE", "DEFERRED"] = "IMMEDIATE") -> Iterator[None]:
    """All that is written, or nothing; all that is read is of one instant."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite may have ended it, where the disk is full
            connection.execute("ROLLBACK")
        raise
