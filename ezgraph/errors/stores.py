"""What the operator must mend: files, and what stands in them."""

# ruff: noqa: N818  an error is named for what happened, and its root says that it is one

from __future__ import annotations

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


class CorruptSession(StoreError):
    """What is stored for a session does not load as what the graph declares.  Rule L4.

    Attributes:
        session: The session's id.
        path: Where in the stored document.
        problem: Why it does not load there.
    """

    def __init__(self, store: str, session: str, path: str, problem: str) -> None:
        self.session, self.path, self.problem = session, path, problem
        super().__init__(
            store,
            f"session {session!r} in {store} does not load: {path}: {problem}. It was not changed.",
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
