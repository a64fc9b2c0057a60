"""What the operator must mend: files, and what stands in them."""

# ruff: noqa: N818  an error is named for what happened, and its root says that it is one

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from ezgraph.errors.root import EzGraphError


class StoreError(EzGraphError):
    """A store cannot do its work.

    Attributes:
        store: The store, as text: a path, or `memory`.
    """

    def __init__(self, store: str, text: str) -> None:
        self.store = store
        super().__init__(text)


class StoreUnavailable(StoreError):
    """The file cannot be opened, read or written (missing folder, read-only, locked, full)."""


class ForeignFile(StoreError):
    """The file is not a store of ours, or one of a format this version does not know.  It was not touched."""


Wrong: TypeAlias = tuple[str, str]
"""Where in a stored document, from `$`, and why it does not load there."""

_MOST: Final = 20


def _told(problems: Sequence[Wrong]) -> str:
    """The first of them in full, and where the others stand: a deploy that renamed a node is told of every place."""
    more = [path for path, _ in problems[_MOST:]]
    told = "; ".join(f"{path}: {problem}" for path, problem in problems[:_MOST])
    return f"{told}; and at {', '.join(more)}" if more else told


class CorruptSession(StoreError):
    """What is stored for a session does not load as what the graph declares.  Rule L4.

    Attributes:
        session: The session's id.
        problems: Everything that does not load, with where it stands.
        path: Where the first of them stands.
        problem: What the first of them is.
    """

    def __init__(self, store: str, session: str, problems: Sequence[Wrong], mend: str = "") -> None:
        self.session, self.problems = session, tuple(problems)
        self.path, self.problem = self.problems[0]
        told = f"session {session!r} in {store} does not load: {_told(problems)}. It was not changed."
        super().__init__(store, f"{told} {mend}".rstrip())


class VersionMismatch(StoreError):
    """Another version of the graph wrote the session, and nothing leads from there to this one.  Rule L5.

    Attributes:
        session: The session's id.
        stored: The version that wrote it.
        version: The graph's.
        missing: The versions to which no migration leads; none where the session is the newer one.
        problems: What of it does not load as it is, with where it stands.
    """

    def __init__(  # noqa: PLR0913  what happened, all of it
        self,
        store: str,
        session: str,
        *,
        stored: int,
        version: int,
        missing: Sequence[int] = (),
        problems: Sequence[Wrong] = (),
    ) -> None:
        self.session, self.stored, self.version = session, stored, version
        self.missing, self.problems = tuple(missing), tuple(problems)
        if missing:
            gaps = " and ".join(map(str, missing))
            told = f"and no migration leads to version {gaps}. "
            told += f"As it is, this does not load: {_told(problems)}. " if problems else "It would load as it is. "
            told += f"Write compile(migrations={{{', '.join(f'{number}: ...' for number in missing)}}})."
        else:
            told = "which is newer. Run the newer version of the program."
        super().__init__(
            store,
            f"session {session!r} in {store} is of version {stored} and the graph of version {version}, {told} "
            "It was not changed.",
        )


class MigrationFailed(StoreError):
    """A migration raised, or what it gave is no document.  Nothing was changed.  Rule L5.

    Attributes:
        session: The session's id.
        to: The version that it leads to.
        migration: Its name.
    """

    def __init__(self, store: str, session: str, *, to: int, migration: str, problem: str) -> None:
        self.session, self.to, self.migration = session, to, migration
        super().__init__(
            store,
            f"session {session!r} in {store}: the migration {migration} to version {to} {problem}. It was not changed.",
        )


class NoSuchSession(StoreError):
    """A store was asked to copy or export what it does not have.

    Attributes:
        session: The session's id.
    """

    def __init__(self, store: str, session: str) -> None:
        self.session = session
        super().__init__(store, f"there is no session {session!r} in {store}. Look with `sessions list`.")


class SessionExists(StoreError):
    """A session cannot be copied or imported to an id that is taken.

    Attributes:
        session: The session's id.
    """

    def __init__(self, store: str, session: str) -> None:
        self.session = session
        super().__init__(
            store, f"there is a session {session!r} in {store} already. It was not changed; take another id."
        )


class WrongGraph(StoreError):
    """The session belongs to another graph.  Rule L5.

    Attributes:
        session: The session's id.
        stored: The graph that wrote it.
        expected: The graph that asked.
    """

    def __init__(self, store: str, session: str, stored: str, expected: str) -> None:
        self.session, self.stored, self.expected = session, stored, expected
        super().__init__(
            store,
            f"session {session!r} in {store} belongs to graph {stored!r}, not to {expected!r}. "
            "Use another session id or another file.",
        )
