"""What happens in a turn, as typed values for a listener.  Without a listener none is made.  Rule G8."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

from attrs import frozen

from ezgraph.messages import ToolCall
from ezgraph.session import Turn


@final
@frozen
class TurnStarted:
    """A call into a session began."""

    session: str


@final
@frozen
class StepStarted:
    """A node run began; `item` is the index of its item in a scatter, else None."""

    session: str
    node: str
    run: int
    item: int | None = None


@final
@frozen
class ModelReplied:
    """A model gave a message of a node's loop."""

    session: str
    node: str
    text: str
    calls: tuple[ToolCall, ...]


@final
@frozen
class ToolCalled:
    """A call is about to be carried out."""

    session: str
    node: str
    call: ToolCall


@final
@frozen
class ToolAnswered:
    """The calls of a message are decided; this is what the model reads as the result of one of them."""

    session: str
    node: str
    call: str
    result: str


@final
@frozen
class StepPublished:
    """A node run ended well, and its commit stands."""

    session: str
    node: str
    revision: int
    item: int | None = None


@final
@frozen
class StepRaised:
    """A node run failed; nothing of it was published."""

    session: str
    node: str
    error: Exception
    item: int | None = None


@final
@frozen
class TurnEnded:
    """The turn came to its end; the last event of a turn that does not raise."""

    turn: Turn


Event: TypeAlias = (
    TurnStarted | StepStarted | ModelReplied | ToolCalled | ToolAnswered | StepPublished | StepRaised | TurnEnded
)
"""The closed union, for exhaustive matching."""

Listener: TypeAlias = Callable[[Event], object]
"""Called while the turn runs, in the order in which things happen; what it raises is logged and harms nothing."""
