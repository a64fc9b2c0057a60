"""What becomes of a session that input comes back to: a policy decides, before anything else is asked of it.

    app = claims.compile(store=store, on_restore=start_over_after(timedelta(days=7)))

A policy is a function of a `Restored`, sync or async, that returns `keep()`, `change(...)` or `start_over(...)`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeAlias, final

from attrs import field, frozen
from attrs.validators import optional

from ezgraph.errors import InvalidInput, InvalidResponse
from ezgraph.errors.words import quoted
from ezgraph.messages import plain
from ezgraph.nodes import Node, Stage
from ezgraph.session import Session, Standing


@final
@frozen
class Restored:
    """What a policy is asked about.

    Attributes:
        session: As it was last committed, the policy's own.
        status: It waits for input, a step failed, it has other work left, or its graph has ended.
        idle: For how long nothing was written to it.
    """

    session: Session
    status: Standing
    idle: timedelta


def _is_told(_: object, _attribute: object, warning: Any) -> None:
    plain("on_restore", warning)


@final
@frozen
class Keep:
    """The session goes on as it is."""


@final
@frozen
class Change:
    """The session goes on, and first some of it is set anew.

    Attributes:
        states: By the node's class.
        to: The stage that owns the next turn, or None for the one that does.
        warning: Why, for the session's log; nothing is logged without.
    """

    states: Mapping[type[Node[Any, Any]], object]
    to: type[Stage[Any, Any]] | None
    warning: str | None = field(validator=optional(_is_told))


@final
@frozen
class StartOver:
    """The session begins again at the entry; of what was, its log and what it has spent are kept.

    Attributes:
        warning: Why, for the session's log.
    """

    warning: str = field(validator=_is_told)


Decision: TypeAlias = Keep | Change | StartOver
Policy: TypeAlias = Callable[[Restored], Decision | Awaitable[Decision]]

_KEEP: Final = Keep()


def keep() -> Keep:
    """Go on with the session as it is."""
    return _KEEP


def change(
    states: Mapping[type[Node[Any, Any]], object] | None = None,
    *,
    to: type[Stage[Any, Any]] | None = None,
    warning: str | None = None,
) -> Change:
    """Set states anew, or bring the session to another stage.

    Where the session does not take the input all the same (it is completed, or has work left), nothing is changed.

    Args:
        states: By the node's class; of its state type.
        to: A stage of the graph; work that is left is dropped, and a completed session is open again.
        warning: Why, for the session's log.

    Raises:
        InvalidResponse: `states` is no mapping, or `warning` no text.
    """
    given: object = {} if states is None else states
    if not isinstance(given, Mapping):
        raise InvalidResponse("on_restore", f"change({states!r:.80})", "Pass states by class: change({Desk: 40}).")
    return Change(dict(given), to, warning)


def start_over(warning: str = "started over") -> StartOver:
    """Begin the session again, under its id: its states and its history are dropped.

    Args:
        warning: Why, for the session's log.

    Raises:
        InvalidResponse: `warning` is no text.
    """
    return StartOver(warning)


def start_over_after(idle: timedelta) -> Policy:
    """A policy: a session to which nothing was written for so long starts over.

    Raises:
        InvalidInput: `idle` is no span of time, or not a positive one.
    """
    given: object = idle
    if not isinstance(given, timedelta) or given <= timedelta(0):
        raise InvalidInput(
            "", f"start_over_after({quoted(idle)}): pass a positive timedelta, such as timedelta(days=7)."
        )

    def policy(restored: Restored) -> Decision:
        return start_over(f"nothing was said for {restored.idle}") if restored.idle >= idle else keep()

    return policy


__all__ = [
    "Change",
    "Decision",
    "Keep",
    "Policy",
    "Restored",
    "StartOver",
    "change",
    "keep",
    "start_over",
    "start_over_after",
]
