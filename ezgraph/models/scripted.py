"""A model that plays a script: for tests and demos, and loud when the script does not fit the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeAlias, final

from attrs import frozen

from ezgraph.errors import ScriptError
from ezgraph.errors.words import quoted
from ezgraph.messages import ToolCall, Usage
from ezgraph.models.contract import ModelReply, ModelRequest


@final
@frozen
class Call:
    """A tool call in a script.  Built by `call`."""

    name: str
    arguments: str


def call(name: str, /, **arguments: object) -> Call:
    """A call of tool `name` with JSON arguments."""
    return Call(name, json.dumps(arguments))


ScriptStep: TypeAlias = str | Call | tuple[Call, ...] | ModelReply | Exception | Callable[[ModelRequest], ModelReply]
"""Text; one call or several in one message; a whole reply; an error to raise; or a function of the request."""


@final
class ScriptedModel:
    """Plays its steps in order, one a request.

    A step that is none is a `ScriptError` at once.  As a context manager it also complains at the end when steps were
    left over:

        with ScriptedModel(call("report", tracking="AB123456789"), "Thank you.") as model:
            app = claims.compile(model=model)
            ...

    Attributes:
        requests: Every request so far, for a test to look at.
    """

    def __init__(self, *script: ScriptStep) -> None:
        for number, step in enumerate(script, 1):
            _check_step(number, step)
        self._script, self._played = script, 0
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest, /) -> ModelReply:
        """Play the next step.

        Raises:
            ScriptError: The script is used up, or a function of it gave no reply.
        """
        self.requests.append(request)
        if self._played == len(self._script):
            raise ScriptError(
                request.node,
                0,
                f"{request.node} asked the scripted model for answer {self._played + 1}, and its script has "
                f"{len(self._script)}. Add a step, or find out why the node asks once more.",
            )
        step = self._script[self._played]
        self._played += 1
        match step:
            case Exception():
                raise step
            case str():
                return ModelReply(step, usage=Usage(requests=1))
            case Call():
                return self._calling((step,))
            case tuple():
                return self._calling(step)
            case ModelReply():
                return step
            case _:
                return _replied(self._played, request, step(request))

    def _calling(self, calls: tuple[Call, ...]) -> ModelReply:
        made = tuple(ToolCall(f"s{self._played}.{n}", c.name, c.arguments) for n, c in enumerate(calls, 1))
        return ModelReply(calls=made, usage=Usage(requests=1))

    def close(self) -> None:
        """Complain about what was not played.

        Raises:
            ScriptError: Steps are left over.
        """
        left = len(self._script) - self._played
        if left:
            raise ScriptError(
                None,
                left,
                f"the scripted model has {left} of {len(self._script)} steps left over, the next being "
                f"{self._script[self._played]!r}. Remove them, or find out why no node asked.",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()


def _check_step(number: int, step: object) -> None:
    calls = isinstance(step, tuple) and len(step) > 0 and all(isinstance(one, Call) for one in step)
    function = callable(step) and not isinstance(step, type)
    if not calls and not function and not isinstance(step, str | Call | ModelReply | Exception):
        raise ScriptError(
            None,
            0,
            f"step {number} of the script is {quoted(step)}: write a text, call(...), (call(...), call(...)) for "
            "several in one message, ModelReply(...), an exception to raise, or a function of the request.",
        )


def _replied(number: int, request: ModelRequest, given: object) -> ModelReply:
    if not isinstance(given, ModelReply):
        raise ScriptError(
            request.node,
            0,
            f"step {number} of the script is a function that gave {quoted(given)}: return ModelReply(...).",
        )
    return given
