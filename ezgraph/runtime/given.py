"""What a caller gives, checked before anything is begun: each refusal says what to pass."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ezgraph.errors import InvalidInput, InvalidResponse, RunningLoop
from ezgraph.errors.words import quoted
from ezgraph.messages import Message, user


def as_message(message: object) -> Message:
    """A customer's message, of a text or a message of theirs."""
    if isinstance(message, str):
        try:
            message = user(message)
        except InvalidResponse as error:
            raise InvalidInput("", f"the message cannot be taken: {error}") from None
    if not isinstance(message, Message) or message.role != "user":
        raise InvalidInput("", f"the message is {quoted(message)}: pass a str, or user(...).")
    if not message.text.strip():
        raise InvalidInput("", "the message is empty: pass what the customer says, or do not call.")
    return message


def check_positive(name: str, number: object) -> None:
    """Raise of what is no whole number, 1 or more."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidInput("", f"{name}={quoted(number)}: pass a whole number, 1 or more.")


def check_choice(name: str, given: object, choices: Sequence[str]) -> None:
    """Raise of what is none of the choices."""
    if given not in choices:
        raise InvalidInput("", f"{name}={quoted(given)}: pass one of {', '.join(map(repr, choices))}.")


def check_has(name: str, given: object, methods: Sequence[str], instead: str) -> None:
    """Raise of what lacks a method that will be called."""
    if isinstance(given, type) or not all(callable(getattr(given, method, None)) for method in methods):
        raise InvalidInput("", f"{name}={quoted(given)}: pass {instead}, made and not as a class.")


def check_steps(migrations: object) -> None:
    """Versions, each with a function or several."""
    mend = 'pass a dict such as {2: rename_node("Review", "Approval")}.'
    if not isinstance(migrations, Mapping):
        raise InvalidInput("", f"migrations={quoted(migrations)}: {mend}")
    for to, given in migrations.items():
        several = given if isinstance(given, Sequence) else (given,)
        if type(to) is not int or not all(map(callable, several)):
            raise InvalidInput("", f"migrations={{{quoted(to)}: {quoted(given)}}}: {mend}")


def check_no_loop(call: str, instead: str) -> None:
    """Raise where an event loop runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RunningLoop(call, instead)
