"""What a model reads as the result of each call of a batch, once the batch is decided.  Rules D1, D4, D5."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Final

from attrs import evolve

from ezgraph.algebra.batch import Conflict, Ended, Routing
from ezgraph.messages import Message, ToolCall
from ezgraph.responses import Response, Stay, TaskResult

NEUTRAL: Final = "Done."
"""The result of a call that routes."""

ACCEPTED: Final = "accepted"
CONFLICT: Final = "Refused: the calls of this message exclude each other. Choose one of them and call it alone."
ENDED: Final = "Refused: the session was ended in the same message."


def results_of(
    outcomes: Sequence[Response[Any] | Ended], decision: Ended | Conflict | Routing | None
) -> tuple[str, ...]:
    """One result for each call, in call order."""
    return tuple(_result(outcome, decision) for outcome in outcomes)


def _result(outcome: Response[Any] | Ended, decision: Ended | Conflict | Routing | None) -> str:
    if isinstance(outcome, Ended):
        return NEUTRAL
    routes = not isinstance(outcome, Stay)
    if routes and isinstance(decision, Conflict):
        return CONFLICT
    if routes and isinstance(decision, Ended):
        return ENDED
    if outcome.effects.feedback is not None:
        return outcome.effects.feedback
    if isinstance(outcome, Stay):
        return outcome.text
    return ACCEPTED if isinstance(outcome, TaskResult) else NEUTRAL


def extra_messages(
    outcomes: Sequence[Response[Any] | Ended], decision: Ended | Conflict | Routing | None
) -> tuple[Message, ...]:
    """What `with_messages` appends after the results, in call order; a route that is refused appends nothing."""
    refused = isinstance(decision, Conflict | Ended)
    return tuple(
        message
        for outcome in outcomes
        if not isinstance(outcome, Ended) and (isinstance(outcome, Stay) or not refused)
        for message in outcome.effects.messages
    )


def fresh_ids(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls, each with an id of its own: a repeated or empty one is replaced.  Rule D1."""
    taken = {call.id for call in calls}
    seen: set[str] = set()
    fresh: list[ToolCall] = []
    for call in calls:
        name = call.id
        if not name or name in seen:
            name = next(n for k in count(2) if (n := f"{call.id or 'call'}.{k}") not in taken)
            taken.add(name)
        seen.add(name)
        fresh.append(call if name == call.id else evolve(call, id=name))
    return tuple(fresh)
