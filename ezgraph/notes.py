"""What the journal of an unfinished step keeps, as values.  `algebra.journalling` reads and writes them.  Rule F2."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from ezgraph.histories import Addition
from ezgraph.messages import Message, ToolCall, Usage


class Gone(Struct, frozen=True, gc=False):
    """What a tool gave that the graph no longer has: nothing says of what type it is, so it stays the JSON it was.

    Attributes:
        plain: As it was stored.
    """

    plain: Any


class Said(Struct, frozen=True, gc=False):
    """A finished tool call's outcome, as a journal keeps it: nodes by id, values by what they are of.

    Attributes:
        kind: Which response.
        text: Of `stay`, `direct`, `direct_to`, `finish`.
        target: Of a `go` or `direct_to`.
        state: What `with_state` was given, by the target's id.
        message: What `with_message` was given.
        workers: Of a `fanout` or `scatter`.
        inputs: Of a `scatter`, by the worker's id.
        value: Of a `task_result`, by the tool; `Gone` where the graph no longer has it.
        usage: What `with_usage` was given.
        feedback: What `with_tool_feedback` was given.
        messages: What `with_messages` was given.
    """

    kind: Literal["stay", "go", "fanout", "direct", "direct_to", "finish", "task_result", ""]
    text: str = ""
    target: str = ""
    state: dict[str, object] = {}
    message: Message | None = None
    workers: tuple[str, ...] = ()
    inputs: dict[str, tuple[object, ...]] | None = None
    value: dict[str, object] = {}
    usage: Usage | None = None
    feedback: str | None = None
    messages: tuple[Message, ...] = ()


class Raised(Struct, frozen=True, gc=False):
    """What a called worker raised, as a journal keeps it: a step that went on did so because of it.

    Attributes:
        error: The name of the error's class.
        text: What it said.
        facts: Those of its attributes that are texts or numbers, as JSON.
    """

    error: str
    text: str
    facts: str = "{}"


class Note(Struct, frozen=True, gc=False):
    """One entry of a step's journal.  Rule F2.

    Attributes:
        node: The node's id.
        item: The index of its item, or None.
        at: Where in the step: `enter`, `prompt`, `reply 0`, `call 0.1`, or the k-th worker called there, `call 0.1/0`;
            inside that worker, `call 0.1/0/reply 0` and so on.
        text: The prompt, or what the model said.
        calls: What the model called.
        outcome: Of a finished tool call.
        worker: Of a called worker, its id.
        state: What it was called with, by its id.
        output: What it yielded, by its id.
        raised: What it raised instead.
        cells: What was staged.
        adds: What was added to histories.
        usage: What was spent, by node id.
    """

    node: str
    item: int | None
    at: str
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    outcome: Said | None = None
    worker: str | None = None
    state: dict[str, object] = {}
    output: dict[str, object] = {}
    raised: Raised | None = None
    cells: dict[str, object] = {}
    adds: dict[str, Addition] = {}
    usage: dict[str, Usage] = {}
