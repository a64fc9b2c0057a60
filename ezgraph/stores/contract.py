"""The store contract.  Its laws stand in `tests/store_laws.py` and run over every store."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from os import urandom
from typing import Any, Protocol, final

from attrs import Attribute, field, frozen

from ezgraph.errors import InvalidInput
from ezgraph.errors.words import quoted
from ezgraph.session import Delta, Session, Standing
from ezgraph.shapes import is_text
from ezgraph.stores.codec import Codec
from ezgraph.stores.parts import Document


def new_incarnation() -> int:
    """A number for a session that begins here: of no other, in whatever process, that had or will have its id."""
    return int.from_bytes(urandom(7), "big")


@final
@frozen
class Entry:
    """What a store lists of a session.

    Attributes:
        session: Its id.
        graph: The graph it belongs to.
        version: The version of the graph that wrote it.
        revision: How many commits it has had.
        cursor: The id of the node that owns the next turn, or END.
        status: It waits for input, a step failed, it has other work left, or its graph has ended.
        created: When it began, in seconds since 1970 (UTC).
        updated: When it was last written.
        idle: How long ago that was by the store's clock, in seconds, and 0 where the clock went back; outside equality.
    """

    session: str
    graph: str
    version: int
    revision: int
    cursor: str
    status: Standing
    created: float
    updated: float
    idle: float = field(eq=False)


def _is_countable(_: object, attribute: Attribute[Any], given: Any) -> None:
    whole = attribute.name == "limit"
    if given is not None and (type(given) not in ((int,) if whole else (int, float)) or not 0 <= given < 2**62):
        number = "a whole number" if whole else "a number"
        raise InvalidInput("", f"Query({attribute.name}={quoted(given)}): pass {number}, 0 or more.")


def _is_name(_: object, attribute: Attribute[Any], given: Any) -> None:
    if given is not None and (not isinstance(given, str) or not is_text(given)):
        raise InvalidInput("", f"Query({attribute.name}={quoted(given)}): pass a text that UTF-8 can encode.")


@final
@frozen(kw_only=True)
class Query:
    """Which sessions are meant: those that fit all that is given.

    Attributes:
        graph: Of this graph.
        cursor: Whose next turn this node owns, or END.
        status: That stand so.
        idle: Not written for so many seconds, by the store's clock.
        after: Whose id sorts behind this: the last one of the page before.
        limit: At most so many, in the order of their ids.
    """

    graph: str | None = field(default=None, validator=_is_name)
    cursor: str | None = field(default=None, validator=_is_name)
    status: Standing | None = None
    idle: float | None = field(default=None, validator=_is_countable)
    after: str | None = field(default=None, validator=_is_name)
    limit: int | None = field(default=None, validator=_is_countable)

    def fits(self, entry: Entry) -> bool:
        """Whether a session is meant, leaving `limit` aside."""
        return (
            self.graph in (None, entry.graph)
            and self.cursor in (None, entry.cursor)
            and self.status in (None, entry.status)
            and (self.idle is None or entry.idle >= self.idle)
            and (self.after is None or entry.session > self.after)
        )


class Store(Protocol):
    """Keeps sessions of any number of graphs: what a graph runs on.

    A method answers at once or returns an awaitable, as a handler may.  Laws: a session loads as the fold of its
    committed deltas; a commit that does not build on the last revision of the session, of the same incarnation, raises
    `RevisionConflict` and changes nothing; a commit is whole or not there.
    """

    def load(self, session: str, codec: Codec, /) -> Session | Awaitable[Session | None] | None:
        """The session, of the incarnation that it was begun as, or None where nothing was ever committed.

        Raises:
            CorruptSession: What is stored does not load as what the graph declares.  Rule L4.
            WrongGraph: It is another graph's session.
            StoreError: The store cannot be read.
        """
        ...

    def commit(self, after: Session, delta: Delta, codec: Codec, /) -> Awaitable[None] | None:
        """Add `delta` to its session, durably, if `delta.revision` is one more than the stored revision.

        And if what is stored is of the same incarnation as `after`.

        A session that an older version of the graph wrote is written whole, as `after` has it.

        Args:
            after: The session as `apply` makes it of `delta`; a store may keep it, or leave it.
            delta: What is new.
            codec: How the graph's values become bytes.

        Raises:
            RevisionConflict: Another commit came first, or the session was deleted.  Nothing was written.
            StateTypeError: The delta holds what could not be loaded again, or too much.  Nothing was written.
            StoreError: The store cannot be written.  Nothing was written.
        """
        ...


class Archive(Store, Protocol):
    """A store whose sessions can be found, moved and forgotten, without the graphs they are of.

    Laws: what is exported and added elsewhere loads equal; what is deleted leaves nothing behind.
    """

    def find(self, query: Query, /) -> Sequence[Entry] | Awaitable[Sequence[Entry]]:
        """The sessions that `query` means, in the order of their ids."""
        ...

    def entry(self, session: str, /) -> Entry | Awaitable[Entry | None] | None:
        """What is listed of one session, or None where there is none."""
        ...

    def export(self, session: str, /) -> Document | Awaitable[Document]:
        """A whole session as plain JSON, without its id: the caller's own.

        Raises:
            NoSuchSession: There is none.
            CorruptSession: It is not JSON of ours.
        """
        ...

    def add(self, documents: Mapping[str, Document], /) -> Awaitable[None] | None:
        """Keep sessions that were exported, by ids that are free; all of them or none.  A load judges what is in them.

        Each is of a new incarnation: no turn that began before goes on in it.

        Raises:
            SessionExists: An id is taken.
            InvalidInput: One is no session's id.
            CorruptSession: One is no document of ours.
        """
        ...

    def copy(self, session: str, to: str, /) -> Awaitable[None] | None:
        """Keep what a session is now under another id, which is free.

        Raises:
            NoSuchSession: There is none.
            SessionExists: The id is taken.
        """
        ...

    def delete(self, session: str, /) -> bool | Awaitable[bool]:
        """Forget a session, leaving nothing behind; whether there was one."""
        ...

    def prune(self, query: Query, /) -> int | Awaitable[int]:
        """Delete all sessions that `query` means, or none where that fails; how many there were."""
        ...

    def migrate(self, codec: Codec, /) -> Sequence[str] | Awaitable[Sequence[str]]:
        """Write every session of the codec's graph that an older version wrote as the codec's writes it, or none.

        Returns:
            The ids of those that were written.

        Raises:
            StoreError: One of them does not load, or a migration raised.  Nothing was changed.
        """
        ...
