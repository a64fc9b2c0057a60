"""Sessions in memory, for as long as the store lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from threading import Lock
from time import time
from typing import final

from attrs import define
from msgspec.structs import replace

from ezgraph.errors import CorruptSession, NoSuchSession, RevisionConflict, SessionExists, VersionMismatch
from ezgraph.numbers import json_of, value_of
from ezgraph.session import Delta, Session, check_session, standing
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Entry, Query, new_incarnation
from ezgraph.stores.parts import Document, Summary, Unreadable, check, summary_of, written_as_json


@final
@define(eq=False)
class _Written:
    """A session as its graph wrote it; made and last written in seconds since 1970.  A step puts its own over it."""

    session: Session
    codec: Codec
    created: float
    updated: float

    @property
    def incarnation(self) -> int:
        return self.session.incarnation

    def document(self) -> Document:
        return self.codec.document(self.session)

    def summary(self) -> Summary:
        of = self.session
        return Summary(self.codec.graph, self.codec.version, of.revision, of.head.cursor, standing(of))


@final
@define(eq=False)
class _Added:
    """A session that came from elsewhere, as it came."""

    of: Document
    created: float
    updated: float
    incarnation: int

    def document(self) -> Document:
        return self.of

    def summary(self) -> Summary:
        return summary_of(self.of)


@final
class MemoryStore:
    """Keeps each session's last value.  Values cannot be changed, so nobody needs a copy.  Rule F3.

    Args:
        clock: Seconds since 1970 (UTC).
    """

    def __init__(self, *, clock: Callable[[], float] = time) -> None:
        self._sessions: dict[str, _Written | _Added] = {}
        self._lock, self._clock = Lock(), clock

    def load(self, session: str, codec: Codec, /) -> Session | None:
        """The session, or None.

        Raises:
            WrongGraph: It is another graph's session.
            CorruptSession: Another version of the graph wrote it, and it does not load as what this one declares.
        """
        found = self._sessions.get(session)
        if found is None:
            return None
        if isinstance(found, _Written) and found.codec is codec:
            return found.session
        return _read(session, found, codec)

    def commit(self, after: Session, _delta: Delta, codec: Codec, /) -> None:
        """Keep `after`, if it builds on what is kept.

        Raises:
            RevisionConflict: It does not.  Rule L2.
            VersionMismatch: A newer version of the graph wrote what is kept.
        """
        now = self._clock()
        self._lock.acquire()  # a step does this, and `with` would cost twice as much
        try:
            found, before = self._sessions.get(after.id), after.revision - 1
            if type(found) is _Written and found.codec is codec:
                there = found.session
                if there.revision == before and there.incarnation == after.incarnation:
                    found.session, found.updated = after, now
                    return
            kept = None if found is None else found.summary()
            if before != (kept.revision if kept else 0) or (found and found.incarnation != after.incarnation):
                raise RevisionConflict(after.id, before, kept.revision if kept else 0)
            if kept and kept.version > codec.version:
                raise VersionMismatch("memory", after.id, stored=kept.version, version=codec.version)
            self._sessions[after.id] = _Written(after, codec, found.created if found else now, now)
        finally:
            self._lock.release()

    def find(self, query: Query, /) -> Sequence[Entry]:
        """The sessions that are meant, in the order of their ids."""
        with self._lock:
            return self._meant(query)

    def entry(self, session: str, /) -> Entry | None:
        """What is listed of one session, or None."""
        with self._lock:
            found = self._sessions.get(session)
            return None if found is None else _entry(session, found, self._clock())

    def export(self, session: str, /) -> Document:
        """A whole session as plain JSON.

        Raises:
            NoSuchSession: There is none.
        """
        found = self._sessions.get(session)
        if found is None:
            raise NoSuchSession("memory", session)
        document: Document = value_of(json_of(found.document()))
        return document

    def add(self, documents: Mapping[str, Document], /) -> None:
        """Keep documents under ids that are free; all of them or none.

        Raises:
            SessionExists: An id is taken.
            InvalidInput: One is no session's id.
            CorruptSession: One is no document of ours.
        """
        now, own = self._clock(), {}
        for session, document in documents.items():
            check_session(session)
            try:
                made = written_as_json(document)
                check(made)
            except Unreadable as error:
                raise CorruptSession("memory", session, [(error.path, str(error))]) from None
            own[session] = _Added(made, now, now, new_incarnation())
        with self._lock:
            for session in own:
                if session in self._sessions:
                    raise SessionExists("memory", session)
            self._sessions |= own

    def copy(self, session: str, to: str, /) -> None:
        """Keep what a session is now under another id."""
        self.add({to: self.export(session)})

    def delete(self, session: str, /) -> bool:
        """Forget a session; whether there was one."""
        with self._lock:
            return self._sessions.pop(session, None) is not None

    def prune(self, query: Query, /) -> int:
        """Forget the sessions that are meant; how many there were."""
        with self._lock:
            meant = self._meant(query)
            for entry in meant:
                del self._sessions[entry.session]
        return len(meant)

    def migrate(self, codec: Codec, /) -> Sequence[str]:
        """Bring every session of the codec's graph to its version, or none; the ids of those that were brought."""
        with self._lock:
            older = [one for one in self._meant(Query(graph=codec.graph)) if one.version != codec.version]
            made = {one.session: _read(one.session, self._sessions[one.session], codec) for one in older}
            for one in older:
                self._sessions[one.session] = _Written(made[one.session], codec, one.created, one.updated)
        return [*made]

    def _meant(self, query: Query) -> list[Entry]:
        now = self._clock()
        entries = (_entry(session, kept, now) for session, kept in sorted(self._sessions.items()))
        return [*islice(filter(query.fits, entries), query.limit)]

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._sessions)} sessions)"


def _read(session: str, kept: _Written | _Added, codec: Codec) -> Session:
    return replace(codec.read(session, kept.document(), store="memory"), incarnation=kept.incarnation)


def _entry(session: str, kept: _Written | _Added, now: float) -> Entry:
    return Entry(session, *kept.summary(), kept.created, kept.updated, max(0.0, now - kept.updated))
