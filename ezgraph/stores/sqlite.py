"""Sessions in one SQLite file: a row for each session, whose revision is the optimistic lock, and one for each part.

A step updates the session's row and writes the parts that changed.  Nothing has to be compacted.  Rules L1, L2, L6.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from os import PathLike, fsdecode, fspath
from threading import Lock
from time import time
from typing import NamedTuple, Self, TypeVar, final, get_args

from msgspec.structs import replace

from ezgraph.errors import CorruptSession, InvalidInput, NoSuchSession, SessionExists
from ezgraph.session import Delta, Session, check_session
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Entry, Query, new_incarnation
from ezgraph.stores.file import SQLiteFile, Sync, transaction
from ezgraph.stores.group import Group, Refusal, Write
from ezgraph.stores.parts import Document, Part, Summary, Unreadable, document_of, parts_of, summary_of, written_as_json
from ezgraph.stores.rows import Stored, forgotten, inserted, is_as_kept, listed, older, rewrite, stored, written

Answer = TypeVar("Answer")


class _Kept(NamedTuple):
    """A session as it was last read or written, its key in the file, and when the file says that was."""

    codec: Codec
    session: Session
    updated: float
    key: int


@final
class SQLiteStore:
    """Keeps sessions in a file, for any number of threads and processes at once.

    The file is opened at first use and made where there is none.  It is in WAL mode: next to it stand `-wal`, `-shm`
    and `-wal-of` while it is open.  A process that also opens the file by other means than SQLite takes the store's
    locks away: copy sessions with `export` or `copy`, and the whole file with SQLite's own backup.

    Args:
        path: The file.  Its folder must exist.  A relative one is of the folder in which the store is made.
        sync: What a commit outlasts.  `process` (the default): the end of the process, however it ends; the last
            commits may be lost with the machine's power, and the file is whole all the same (`PRAGMA synchronous =
            NORMAL`).  `commit`: a power failure, too (`synchronous = FULL`); one thread writes for all sessions, and
            what comes in while it waits for the disk is one transaction.
        timeout: Seconds to wait for another writer.
        keep: How many sessions stay in memory between turns, so that a load need not read them again.  Rule F7.
        clock: Seconds since 1970 (UTC).

    Raises:
        InvalidInput: The path is no file's, `sync` is none of these, or a number is none that fits.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        sync: Sync = "process",
        timeout: float = 5.0,
        keep: int = 1024,
        clock: Callable[[], float] = time,
    ) -> None:
        given: object = path
        if not isinstance(given, str | bytes | PathLike):
            raise InvalidInput("", f"SQLiteStore({path!r}): name a file, such as SQLiteStore('claims.db').")
        text = fsdecode(fspath(path))
        if text.startswith("file:"):
            raise InvalidInput("", f"SQLiteStore({text!r}): name a file, not a URI.")
        if text == ":memory:":
            raise InvalidInput("", "SQLiteStore(':memory:') would forget its sessions. Use MemoryStore().")
        if not text.strip() or "\0" in text:
            raise InvalidInput("", f"SQLiteStore({text!r}): name a file, such as SQLiteStore('claims.db').")
        if sync not in get_args(Sync):
            raise InvalidInput("", f"sync={sync!r}: pass one of {', '.join(map(repr, get_args(Sync)))}.")
        if type(keep) is not int or keep < 0:
            raise InvalidInput("", f"keep={keep!r}: pass how many sessions, 0 or more.")
        if type(timeout) not in (int, float) or not 0 <= timeout < 1e6:
            raise InvalidInput("", f"timeout={timeout!r}: pass seconds, 0 or more.")
        self.path, self._clock, self._keep = text, clock, keep
        self._lock = Lock()
        self._kept: dict[str, _Kept] = {}  # oldest first
        self._writes = SQLiteFile(text, timeout, sync)
        self._group = Group(self._write) if sync == "commit" else None
        # Who reads does not wait for a group that waits for the disk.
        self._reads = self._writes if self._group is None else SQLiteFile(text, timeout, sync)

    # ------------------------------------------------------------------------------------------------- one session

    def load(self, session: str, codec: Codec, /) -> Session | None:
        """The session, or None.

        Raises:
            CorruptSession: It does not load as what the graph declares.
            WrongGraph: It is another graph's session.
            StoreUnavailable: The file cannot be read.
            ForeignFile: It is not a store of ours.
        """
        kept = self._kept.get(session)

        def read(connection: sqlite3.Connection) -> Session | Stored | None:
            """What is kept in memory, where the file has nothing newer."""
            if kept and kept.codec is codec and is_as_kept(connection, kept.session, codec.version, kept.updated):
                return kept.session
            with transaction(connection, "DEFERRED"):
                return stored(connection, session, self.path)

        found = self._ask(self._reads.ask, session, read)
        if not isinstance(found, Stored):
            return found
        made = self._made(session, found, codec)
        self._remember(made, codec, found.updated, found.key)
        return made

    def commit(self, after: Session, delta: Delta, codec: Codec, /) -> Awaitable[None] | None:
        """Write what changed, in one transaction.

        Raises:
            RevisionConflict: The revision is taken, or leaves a gap.  Nothing was written.  Rule L2.
            VersionMismatch: A newer version of the graph wrote the session.  Nothing was written.  Rule L5.
            StateTypeError: The delta holds what could not be loaded again.
            StoreUnavailable: The file cannot be written.
            ForeignFile: It is not a store of ours.
        """
        kept = self._kept.get(after.id)
        write = Write(after, codec, codec.changes(after, delta), self._clock(), kept.key if kept else 0)
        if self._group is not None and (taken := self._group.take(write)) is not None:
            return taken
        (refused,) = self._write([write])
        if refused is not None:
            raise refused
        return None

    def _write(self, writes: Sequence[Write]) -> list[Refusal | None]:
        """Write all in one transaction; those that build on what is not there are refused, and change nothing."""

        def together(connection: sqlite3.Connection) -> list[int | Refusal]:
            return [written(connection, write, self.path) for write in writes]

        refused: list[Refusal | None] = []
        done = self._ask(self._writes.write, writes[0].after.id, together)
        for write, key in zip(writes, done, strict=True):
            if isinstance(key, int):
                self._remember(write.after, write.codec, write.now, key)
                refused.append(None)
            else:
                refused.append(key)
        return refused

    def _made(self, session: str, found: Stored, codec: Codec) -> Session:
        made = codec.loaded(session, found.parts, store=self.path, **found.head)
        return replace(made, incarnation=found.incarnation)

    def _remember(self, session: Session, codec: Codec, updated: float, key: int) -> None:
        with self._lock:
            self._kept.pop(session.id, None)
            self._kept[session.id] = _Kept(codec, session, updated, key)
            while len(self._kept) > self._keep:
                del self._kept[next(iter(self._kept))]

    def export(self, session: str, /) -> Document:
        """A whole session as plain JSON.

        Raises:
            NoSuchSession: There is none.
            CorruptSession: It is not JSON of ours.
        """

        def read(connection: sqlite3.Connection) -> Stored | None:
            with transaction(connection, "DEFERRED"):
                return stored(connection, session, self.path)

        found = self._ask(self._reads.ask, session, read)
        if found is None:
            raise NoSuchSession(self.path, session)
        try:
            return document_of(found.parts, **found.head)
        except Unreadable as error:
            raise CorruptSession(self.path, session, [(error.path, str(error))]) from None

    def add(self, documents: Mapping[str, Document], /) -> None:
        """Keep documents under ids that are free, in one transaction.

        Raises:
            SessionExists: An id is taken.
            InvalidInput: One is no session's id.
            CorruptSession: One is no document of ours.
        """
        made: dict[str, tuple[Summary, list[Part]]] = {}
        for session, document in documents.items():
            check_session(session)
            try:
                whole = written_as_json(document)
                made[session] = summary_of(whole), [*parts_of(whole)]
            except Unreadable as error:
                raise CorruptSession(self.path, session, [(error.path, str(error))]) from None
        now = self._clock()

        def insert(connection: sqlite3.Connection) -> None:
            for session, (summary, parts) in made.items():
                if not inserted(connection, session, summary, parts, now, new_incarnation()):
                    raise SessionExists(self.path, session)

        self._ask(self._writes.write, next(iter(made), ""), insert)

    def copy(self, session: str, to: str, /) -> None:
        """Keep what a session is now under another id, as it stands in the file."""
        self.add({to: self.export(session)})

    # ------------------------------------------------------------------------------------------------ many sessions

    def find(self, query: Query, /) -> Sequence[Entry]:
        """The sessions that are meant, in the order of their ids."""
        where, given = self._condition(query)
        return self._entries(where, given, query.after or "")

    def entry(self, session: str, /) -> Entry | None:
        """What is listed of one session, or None."""
        return next(iter(self._entries("id = ?", (session,), session)), None)

    def _entries(self, where: str, given: tuple[object, ...], session: str) -> list[Entry]:
        now = self._clock()
        rows = self._ask(self._reads.ask, session, lambda connection: listed(connection, where, given))
        return [Entry(*[*row, max(0.0, now - row[-1])]) for row in rows]

    def _condition(self, query: Query) -> tuple[str, tuple[object, ...]]:
        """What stands behind WHERE for a query, and its values."""
        wanted = {
            "graph = ?": query.graph,
            "cursor = ?": query.cursor,
            "status = ?": query.status,
            "updated <= ?": self._clock() - query.idle if query.idle else None,
            "id > ?": query.after,
        }
        given = {text: value for text, value in wanted.items() if value is not None}
        limit = -1 if query.limit is None else query.limit
        return f"{' AND '.join(given) or 'TRUE'} ORDER BY id LIMIT ?", (*given.values(), limit)

    def delete(self, session: str, /) -> bool:
        """Forget a session; whether there was one."""
        return self._delete("id = ?", (session,), session) == 1

    def prune(self, query: Query, /) -> int:
        """Delete the sessions that are meant, in one transaction; how many there were."""
        where, given = self._condition(query)
        return self._delete(where, given, query.after or "")

    def _delete(self, where: str, given: tuple[object, ...], session: str) -> int:
        def forget(connection: sqlite3.Connection) -> int:
            return forgotten(connection, where, given)

        return self._ask(self._writes.write, session, forget)

    def migrate(self, codec: Codec, /) -> Sequence[str]:
        """Bring every session of the codec's graph to its version in one transaction; the ids of those brought."""

        def bring(connection: sqlite3.Connection) -> list[str]:
            ids = older(connection, codec)
            for session in ids:
                if found := stored(connection, session, self.path):
                    made = self._made(session, found, codec)
                    rewrite(connection, found.key, made, codec, found.updated)
            return ids

        return self._ask(self._writes.write, "", bring)

    # ------------------------------------------------------------------------------------------------------ the file

    def close(self) -> None:
        """Close the file, once what waits is written; the store is not used afterwards.  Twice is once."""
        if self._group is not None:
            self._group.close()
            self._reads.close()
        self._writes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SQLiteStore({self.path!r})"

    @staticmethod
    def _ask(
        ask: Callable[[Callable[[sqlite3.Connection], Answer]], Answer],
        session: str,
        question: Callable[[sqlite3.Connection], Answer],
    ) -> Answer:
        try:
            return ask(question)
        except UnicodeEncodeError:
            raise InvalidInput(session, f"the session id {session!a} is not text that UTF-8 can encode.") from None
