"""What accepted output comes to: a reply, a worker's output, or the route that a hook chose instead.  Rule A6."""

from __future__ import annotations

from typing import Any, TypeAlias

from immutables import Map

from ezgraph.algebra.settling import CONTINUE, Answer, Reply, Yielded
from ezgraph.errors import OutputError
from ezgraph.errors.words import quoted
from ezgraph.numbers import json_of, json_of_any
from ezgraph.plan import NodeSpec, Tool
from ezgraph.responses import Direct, TaskResult

Accepted: TypeAlias = str | TaskResult[Any]
"""What left a model's loop without a route: a text (the model's, or `direct`), or a `task_result`."""


def of_run(spec: NodeSpec, response: Any) -> Answer:
    """What a `run` came to; table B has allowed `response`.

    Raises:
        OutputError: A worker's output is not of its type.
    """
    if spec.placement == "conversation":
        if response is None:
            return CONTINUE
        answer: Answer = Reply(response.text) if type(response) is Direct else response
        return answer
    if type(response) is TaskResult:
        return yielded(spec, response.value)
    return yielded(spec, response.text if type(response) is Direct else None)


def of_loop(spec: NodeSpec, accepted: Accepted, hooked: Any) -> Answer:
    """What a model's loop came to, once its hook has seen the output; table B has allowed `hooked`.

    Args:
        spec: The node.
        accepted: What left the loop.
        hooked: What the hook returned; None lets the output stand.

    Raises:
        OutputError: A worker's output is not of its type, or a stage's is empty or has no JSON.
    """
    match accepted if hooked is None else hooked:
        case TaskResult(value=output):
            return _replied(spec, _as_text(spec, output)) if spec.placement == "conversation" else yielded(spec, output)
        case Direct(text=text) | str(text):
            return _replied(spec, text) if spec.placement == "conversation" else yielded(spec, text)
        case route:
            answer: Answer = route
            return answer


def check_answer(spec: NodeSpec, tool: Tool, value: object) -> None:
    """Refuse a tool's task result that is not of the type it declares.  Rules F2, L4.

    Raises:
        OutputError: It is not.
    """
    if spec.placement == "internal":
        yielded(spec, value)
    elif (bad := tool.answer_check(value)) is not None:
        path, expected, found = bad
        raise OutputError(
            spec.id,
            f"{spec.id}.{tool.handler.name} declares a task_result of {expected} at {path}, and gave {found}. "
            "Give what its return annotation says.",
        )


def yielded(spec: NodeSpec, output: object) -> Yielded:
    """A worker's output, checked.

    Raises:
        OutputError: It is not of the output type.
    """
    if spec.output_check is not None and (bad := spec.output_check(output)) is not None:
        path, expected, found = bad
        raise OutputError(
            spec.id,
            f"{spec.id} must yield {expected} at {path}, and gave {found}. "
            "Give task_result(...) of the output type; a text is an output only where that type is str.",
        )
    return Yielded(output)


def _replied(spec: NodeSpec, text: str) -> Reply:
    """A reply, which no history takes where it is empty."""
    if not text.strip():
        raise OutputError(spec.id, f"{spec.id} came to an empty reply. Say something: the customer reads it.")
    return Reply(text)


def _as_text(spec: NodeSpec, value: object) -> str:
    """A stage's task result as its reply: as it is if a text, else as its JSON."""
    if isinstance(value, str):
        return value
    try:
        return json_of_any(value, _plain, "deterministic").decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise OutputError(
            spec.id,
            f"{spec.id} gave task_result({quoted(value)}), which has no JSON to reply with: {error}. "
            "Let its on_response return a text for it.",
        ) from error


def _plain(value: object) -> object:
    """What JSON lacks: a mapping, as a store keeps it."""
    if not isinstance(value, Map):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
    if all(type(key) is str for key in value):
        return dict(value)
    return sorted(value.items(), key=lambda pair: json_of(pair[0]))
