"""What the caller of a session must mend or wait for: input, sessions, unfinished work, another writer."""

# ruff: noqa: N818  an error is named for what happened, and its root says that it is one

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ezgraph.errors.nodes import NodeError
from ezgraph.errors.root import EzGraphError


class CallerError(EzGraphError):
    """A call into a session cannot be carried out.

    Attributes:
        session: The session's id, empty where none is concerned.
    """

    def __init__(self, session: str, text: str) -> None:
        self.session = session
        super().__init__(text)


class InvalidInput(CallerError):
    """An argument of a call is not what it must be."""


class UnknownSession(CallerError):
    """Nothing was ever committed under that id in this store."""

    def __init__(self, session: str) -> None:
        super().__init__(session, f"there is no session {session!r} in this store. Begin it with ainvoke(...).")


class RunningLoop(CallerError):
    """A blocking call was made where an event loop runs.  Rule G5."""

    def __init__(self, call: str, instead: str) -> None:
        self.call, self.instead = call, instead
        super().__init__("", f"{call}() was called inside a running event loop. Write `{instead}`.")


class SessionCompleted(CallerError):
    """Input came to a session that is completed.  Rule G6."""

    def __init__(self, session: str) -> None:
        super().__init__(session, f"session {session!r} is completed. Use another session id to start anew.")


class UnfinishedWork(CallerError):
    """New input came while work of an earlier turn is unfinished.  Rule G6.

    Attributes:
        work: What is left, in words.
    """

    def __init__(self, session: str, work: Sequence[str]) -> None:
        self.work = tuple(work)
        super().__init__(
            session,
            f"session {session!r} has unfinished work: {'; '.join(work)}. Call arecover({session!r}) first; "
            f"aabandon({session!r}) drops it.",
        )


_TOLD: Final = 5
"""Of many failures, how many are told in full; all are in `failures`."""


def _limit(steps: int) -> str:
    return f"limit of {steps} step{'s' if steps > 1 else ''}"


class StepLimit(CallerError):
    """A turn's chain of node runs reached the step limit; what was published stands.  Rule E9.

    Attributes:
        limit: Node runs allowed in a row.
        held: The nodes that did not start.
        depth: How many runs in a row the turn would come to with the next of them.
    """

    def __init__(self, session: str, limit: int, held: Sequence[str], depth: int) -> None:
        self.limit, self.held, self.depth = limit, tuple(held), depth
        super().__init__(
            session,
            f"session {session!r}: {', '.join(held)} did not start: the turn reached its {_limit(limit)}. "
            f"Go on with arecover({session!r}, step_limit={depth * 2}), or look for a loop.",
        )


class BranchFailed(CallerError):
    """Branches of a turn failed; finished ones are kept and `arecover` runs only what is missing.  Rule E5.

    Attributes:
        failures: The errors, each with its `node`, in dispatch order.
        limit: The step limit that held other steps back besides, or None.  Rule E9.
    """

    def __init__(self, session: str, failures: Sequence[NodeError], limit: StepLimit | None = None) -> None:
        self.failures, self.limit = tuple(failures), limit
        first = [
            str(error).removesuffix(".") + ("" if error.item is None else f" (item {error.item})")
            for error in self.failures[:_TOLD]
        ]
        told = "; ".join(first) + (f"; and {more} more" if (more := len(failures) - _TOLD) > 0 else "")
        held = f". Besides, the {_limit(limit.limit)} held back {', '.join(limit.held)}" if limit else ""
        super().__init__(
            session,
            f"session {session!r}: {len(failures)} of its branches failed: {told}{held}. "
            f"Call arecover({session!r}) to run what is missing, or aabandon({session!r}) to drop it.",
        )


class RevisionConflict(CallerError):
    """Another writer committed to the session first, or deleted it; this commit changed nothing.  Rule L2.

    Attributes:
        expected: The revision this turn built on.
        found: The revision the store has, if it is known.  Not a later one: of a session that was begun anew.
    """

    def __init__(self, session: str, expected: int, found: int | None) -> None:
        self.expected, self.found = expected, found
        now = "a later one" if found is None else str(found)
        if found is None or found > expected:
            why = "Another turn committed first"
        elif found:
            why = "The session was deleted meanwhile, and begun anew"
        else:
            why = "The session was deleted meanwhile"
        super().__init__(
            session,
            f"session {session!r}: this turn built on revision {expected}, and the store has {now}. "
            f"{why}; nothing of this step was written. Call again.",
        )
