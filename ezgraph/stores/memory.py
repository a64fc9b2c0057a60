"""Sessions in memory, for as long as the store lives."""

from __future__ import annotations

from threading import Lock
from typing import final

from ezgraph.errors import RevisionConflict, WrongGraph
from ezgraph.session import Delta, Session
from ezgraph.stores.codec import Codec


@final
class MemoryStore:
    """Keeps each session's last value.  Values cannot be changed, so nobody needs a copy.  Rule F3."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._lock = Lock()

    def load(self, session: str, codec: Codec, /) -> Session | None:
        """The session, or None.

        Raises:
            WrongGraph: It is another graph's session.
        """
        found = self._sessions.get(session)
        if found is not None and found.graph != codec.graph:
            raise WrongGraph("memory", session, found.graph, codec.graph)
        return found

    def commit(self, after: Session, _delta: Delta, _codec: Codec, /) -> None:
        """Keep `after`, if it builds on what is kept.

        Raises:
            RevisionConflict: It does not.  Rule L2.
        """
        self._lock.acquire()  # a step does this, and `with` would cost twice as much
        try:
            found = self._sessions.get(after.id)
            revision = 0 if found is None else found.revision
            if after.revision != revision + 1:
                raise RevisionConflict(after.id, after.revision - 1, revision)
            self._sessions[after.id] = after
        finally:
            self._lock.release()

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._sessions)} sessions)"
