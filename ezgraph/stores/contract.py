"""The store contract.  Its laws stand in `tests/store_laws.py` and run over every store."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from ezgraph.session import Delta, Session
from ezgraph.stores.codec import Codec


class Store(Protocol):
    """Keeps sessions of any number of graphs.  A method answers at once or returns an awaitable, as a handler may.

    Laws: a session loads as the fold of its committed deltas; a commit that does not build on the session's last
    revision raises `RevisionConflict` and changes nothing; a commit is whole or not there.
    """

    def load(self, session: str, codec: Codec, /) -> Session | Awaitable[Session | None] | None:
        """The session, or None where nothing was ever committed.

        Raises:
            CorruptSession: What is stored does not load as what the graph declares.  Rule L4.
            WrongGraph: It is another graph's session.
            StoreError: The store cannot be read.
        """
        ...

    def commit(self, after: Session, delta: Delta, codec: Codec, /) -> Awaitable[None] | None:
        """Add `delta` to its session, durably, if `delta.revision` is one more than the stored revision.

        Args:
            after: The session as `apply` makes it of `delta`; a store may keep it, or leave it.
            delta: What is new.
            codec: How the graph's values become bytes.

        Raises:
            RevisionConflict: Another commit came first.  Nothing was written.
            StateTypeError: The delta holds what could not be loaded again, or too much.  Nothing was written.
            StoreError: The store cannot be written.  Nothing was written.
        """
        ...
