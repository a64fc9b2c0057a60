"""The model contract: what a node's loop sends to a model and what it takes back.  No provider is known here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, final, get_args

from attrs import field, frozen

from ezgraph.errors import InvalidResponse
from ezgraph.errors.words import quoted
from ezgraph.messages import NO_USAGE, Message, ToolCall, Usage, plain

StopReason: TypeAlias = Literal["complete", "length", "filtered"]
"""Why a model stopped: it was done (with text, calls or both), it ran out of tokens, or it was cut off by a filter."""


@final
@frozen
class ToolSpec:
    """A tool as a model is told of it.

    Attributes:
        name: What to call.
        description: What it does.
        parameters: The JSON Schema of its arguments, an object schema.
    """

    name: str
    description: str
    parameters: Mapping[str, object]


@final
@frozen
class ModelRequest:
    """One request of a node's loop.

    Attributes:
        node: The id of the node that asks.
        session: The id of the session it asks for.
        prompt: The system prompt.
        messages: The history so far, oldest first; valid for a provider: every call has its one result.
        tools: What may be called, in a stable order.
    """

    node: str
    session: str
    prompt: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...]


def _as_plain(text: object) -> str:
    return plain("ModelReply", text)


def _are_calls(_: object, __: object, calls: object) -> None:
    if type(calls) is not tuple or any(type(call) is not ToolCall for call in calls):
        raise InvalidResponse("ModelReply", f"its calls are {quoted(calls)}", "Pass a tuple of ToolCall.")


def _is_usage(_: object, __: object, usage: object) -> None:
    if type(usage) is not Usage:
        raise InvalidResponse("ModelReply", f"its usage is {quoted(usage)}", "Pass Usage(input_tokens=..., ...).")


def _is_reason(_: object, __: object, stop: object) -> None:
    if stop not in get_args(StopReason):
        raise InvalidResponse("ModelReply", f"stop={quoted(stop)}", f"Pass one of {get_args(StopReason)}.")


@final
@frozen
class ModelReply:
    """One message of a model.

    Attributes:
        text: What it says; may be empty beside calls.
        calls: The tools it wants called, in order.
        usage: What the request cost.
        stop: Why it stopped; anything but `complete` fails the step.
    """

    text: str = field(default="", converter=_as_plain)
    calls: tuple[ToolCall, ...] = field(default=(), validator=_are_calls)
    usage: Usage = field(default=NO_USAGE, validator=_is_usage)
    stop: StopReason = field(default="complete", validator=_is_reason)


class Model(Protocol):
    """Anything that answers a request.  One instance serves many sessions at once."""

    async def respond(self, request: ModelRequest, /) -> ModelReply:
        """Answer `request`; what it raises fails the step, and the session stays at its last commit."""
        ...
