"""What a provider accepts as a conversation, written down apart from the engine.  Rules D1, G9, FIELD H3, H10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ezgraph import Message
from ezgraph.histories import History
from ezgraph.models import ModelReply, ModelRequest
from ezgraph.session import Session


def valid_for_a_provider(messages: Sequence[Message]) -> bool:
    """Whether each call has its one result, at once and in call order, and no result lacks its call."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            if not waiting or waiting.pop(0) != message.call:
                return False
        elif waiting:
            return False
        else:
            waiting = [call.id for call in message.calls]
            if len(set(waiting)) < len(waiting):
                return False
            if message.role == "assistant" and not message.calls and not message.text.strip():
                return False
    return not waiting


def askable(request: ModelRequest) -> bool:
    """Whether a provider would answer: a valid history that ends with something to answer."""
    return valid_for_a_provider(request.messages) and request.messages[-1].role in {"user", "tool"}


def said(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """A history as (role, text)."""
    return [(message.role, message.text) for message in messages]


def told(session: Session, space: str = "default") -> list[tuple[str, str]]:
    """A history space of a session as (role, text), once it is known to be valid."""
    history = session.histories.get(space, History())
    assert valid_for_a_provider(history)
    return said(history)


def all_told(session: Session) -> Mapping[str, list[tuple[str, str]]]:
    """Every history space of a session that holds anything."""
    return {space: told(session, space) for space, history in session.histories.items() if len(history)}


class Asked:
    """A model that passes each request on, once it is known to be one that a provider would answer."""

    def __init__(self, model: object) -> None:
        self.model = model

    async def respond(self, request: ModelRequest, /) -> ModelReply:
        assert askable(request), said(request.messages)
        reply: ModelReply = await self.model.respond(request)  # type: ignore[attr-defined]
        return reply
