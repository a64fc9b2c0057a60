"""What a history is made of: messages, the tool calls in them, and what they cost.  Values only."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

from attrs import Attribute, field, frozen

from ezgraph.errors import InvalidResponse
from ezgraph.errors.words import quoted
from ezgraph.numbers import is_kept

Role: TypeAlias = Literal["user", "assistant", "tool"]


def plain(call: str, text: object) -> str:
    """`text` as a `str` that every store and provider can take; a subclass of `str` becomes one.

    Raises:
        InvalidResponse: It is no text, or holds half a surrogate pair.
    """
    if not isinstance(text, str):
        raise InvalidResponse(call, f"its text is {quoted(text)}", "Pass a str.")
    text = str.__str__(text)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            mend = 'Clean it: text.encode("utf-8", "replace").decode().'
            raise InvalidResponse(call, "its text holds half a surrogate pair", mend) from None
    return text


def _is_count(_: Usage, attribute: Attribute[int], count: object) -> None:
    if type(count) is not int or count < 0 or not is_kept(count):
        raise InvalidResponse("Usage", f"{attribute.name}={quoted(count)}", "Pass a whole number, 0 or more.")


def storable(text: str) -> str:
    """A text of anybody's, such as an error's, with `?` for what UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


@final
@frozen
class Usage:
    """What model work cost.

    Attributes:
        input_tokens: Tokens read.
        output_tokens: Tokens written.
        requests: Model requests made.
    """

    input_tokens: int = field(default=0, validator=_is_count)
    output_tokens: int = field(default=0, validator=_is_count)
    requests: int = field(default=0, validator=_is_count)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.requests + other.requests,
        )

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
            self.requests - other.requests,
        )


NO_USAGE: Final = Usage()


def _is_plain(_: object, attribute: Attribute[str], text: object) -> None:
    if type(text) is not str:
        raise InvalidResponse("ToolCall", f"{attribute.name}={quoted(text)}", "Pass a str; arguments are JSON text.")
    plain("ToolCall", text)


@final
@frozen
class ToolCall:
    """A model's wish to call a tool.

    Attributes:
        id: The provider's id of the call; its result message carries the same.
        name: The tool's name.
        arguments: The arguments as JSON text, as the model wrote them; not yet validated.
    """

    id: str = field(validator=_is_plain)
    name: str = field(validator=_is_plain)
    arguments: str = field(default="{}", validator=_is_plain)


def _fits_its_role(message: Message, _: Attribute[Role], role: object) -> None:
    text, calls, call, internal = _held(message)
    if type(text) is not str:
        raise InvalidResponse("Message", f"its text is {quoted(text)}", "Pass a str.")
    plain("Message", text)
    if type(calls) is not tuple or any(type(one) is not ToolCall for one in calls):
        raise InvalidResponse("Message", f"its calls are {quoted(calls)}", "Pass a tuple of ToolCall.")
    if type(internal) is not bool:
        raise InvalidResponse(
            "Message", f"internal={quoted(internal)}", "Write instruction(text) for what is internal."
        )
    if role not in ("user", "assistant", "tool"):
        raise InvalidResponse("Message", f"{quoted(role)} is not a role", "Write user(), assistant() or tool_result().")
    if calls and role != "assistant":
        raise InvalidResponse("Message", f"a {role} message has no calls", "Write assistant(text, calls).")
    if (type(call) is str) != (role == "tool"):
        raise InvalidResponse("Message", "`call` belongs to a tool message", "Write tool_result(call, text).")


def _held(message: Message) -> tuple[object, object, object, object]:
    """What it was given, which need not be what its annotations say."""
    return message.text, message.calls, message.call, message.internal


@final
@frozen
class Message:
    """One message of a history.  Build it with `user`, `assistant` or `tool_result`.

    Attributes:
        role: Who speaks.
        text: What is said; may be empty beside calls.
        calls: The tool calls of an assistant message.
        call: In a tool message: the id of the call it answers.
        internal: Meant for the machine, not said by the customer, and never shown as the customer's.  Rule C3.
    """

    role: Role = field(validator=_fits_its_role)
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call: str | None = None
    internal: bool = False


def user(text: str) -> Message:
    """What the customer says."""
    return Message("user", plain("user", text))


def instruction(text: str) -> Message:
    """What the program tells a model in the customer's place: internal, never shown as the customer's.  Rule C3."""
    return Message("user", plain("instruction", text), internal=True)


def assistant(text: str, calls: tuple[ToolCall, ...] = ()) -> Message:
    """What the model, or the program in its place, says."""
    return Message("assistant", plain("assistant", text), calls)


def tool_result(call: str, text: str) -> Message:
    """The one answer to a tool call.  Rule D1."""
    return Message("tool", plain("tool_result", text), call=call)


def check_is_message(call: str, message: object) -> None:
    """Refuse what is no message."""
    if not isinstance(message, Message):
        mend = "Pass user(...), instruction(...) or assistant(text)."
        raise InvalidResponse(call, f"{quoted(message)} is no message", mend)


def check_message(call: str, message: Message) -> None:
    """Refuse what no history could take by itself: a call without its result, or a result without its call.

    Raises:
        InvalidResponse: Rule D1.
    """
    check_is_message(call, message)
    if message.calls or message.role == "tool":
        problem = "an assistant message with calls" if message.calls else "a tool message"
        mend = "The engine writes calls and results; pass user(...), instruction(...) or assistant(text)."
        raise InvalidResponse(call, f"{problem} was given", mend)
    if not message.text.strip():
        raise InvalidResponse(call, "the message is empty", "Say something, or leave it out.")
