"""The seven responses and their builders: frozen, final values that say what happens next and do nothing themselves.

What each means is table A of the rules; who may return which is table B, `ezgraph.algebra.ownership`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set as AbstractSet
from enum import Enum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Never, Protocol, Self, TypeAlias, cast, final, overload

from attrs import Attribute, evolve, field, fields, frozen
from typing_extensions import TypeVar

from ezgraph.errors import InvalidResponse
from ezgraph.errors.words import quoted
from ezgraph.messages import Message, Usage, check_is_message, instruction, plain

if TYPE_CHECKING:
    from ezgraph.nodes import Stage, Worker

# The names of type variables show in the messages of both checkers, so they are named for people.
State = TypeVar("State")
Output = TypeVar("Output")
Output_co = TypeVar("Output_co", covariant=True, default=Never)
Target_co = TypeVar("Target_co", bound="Stage[Any, Any]", covariant=True, default="Stage[Any, Any]")
Workers_co = TypeVar("Workers_co", bound="Worker[Any, Any, Any]", covariant=True, default="Worker[Any, Any, Any]")
StageType = TypeVar("StageType", bound="Stage[Any, Any]")
W1 = TypeVar("W1", bound="Worker[Any, Any, Any]")
W2 = TypeVar("W2", bound="Worker[Any, Any, Any]")
W3 = TypeVar("W3", bound="Worker[Any, Any, Any]")
W4 = TypeVar("W4", bound="Worker[Any, Any, Any]")
Input = TypeVar("Input")
Input_contra = TypeVar("Input_contra", contravariant=True)


class Scatterable(Protocol[Input_contra, Workers_co]):
    """What a worker's class object is to a type checker: it links the worker to its own state type."""

    def _over(self, inputs: Iterable[Input_contra], /) -> Fanout[Workers_co]: ...


class Unset(Enum):
    """The type of `UNSET`: nothing was given, which is not the same as `None`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET

Placement: TypeAlias = Literal["conversation", "internal"]
"""How a node is run: as an owner of the turn, or scheduled inside one."""

Origin: TypeAlias = Literal["tool", "run", "response hook", "error hook"]
"""Where a response came from."""


def _remade(value: Effects | Builders) -> tuple[Callable[[], object], tuple[()]]:
    """How a response is copied and pickled: by its class, which checks what it is given, as whoever else makes one."""
    given = {one.name: getattr(value, one.name) for one in fields(type(value))}
    return partial(type(value), **given), ()


def _check_usage(usage: object) -> None:
    """Raise of what is no usage."""
    if not isinstance(usage, Usage):
        told = f"{quoted(usage)} is no usage"
        raise InvalidResponse("with_usage", told, "Write with_usage(Usage(input_tokens=...)).")


def _is_usage(_: object, __: object, usage: Any) -> None:
    if usage is not None:
        _check_usage(usage)


def _as_feedback(text: Any) -> str | None:
    return None if text is None else plain("with_tool_feedback", text)


def _as_messages(messages: Any) -> tuple[Message, ...]:
    call, mend = "with_messages", "Pass a list: with_messages([...])."
    if isinstance(messages, Message):
        raise InvalidResponse(call, "one message was given", mend)
    try:
        given = tuple(messages)
    except TypeError as error:
        raise InvalidResponse(call, f"{quoted(messages):.60} cannot be iterated", mend) from error
    for message in given:
        check_is_message(call, message)
    return given


def _are_cleanups(_: object, __: object, cleanups: Any) -> None:
    call, mend = "with_cleanup", "Pass a function of no arguments."
    if type(cleanups) is not tuple:
        raise InvalidResponse(call, f"cleanups={quoted(cleanups):.60} is no tuple", mend)
    for cleanup in cleanups:
        if not callable(cleanup):
            raise InvalidResponse(call, f"{quoted(cleanup)} cannot be called", mend)


@final
@frozen(getstate_setstate=False)
class Effects:
    """What a response carries besides: see the builders.

    Attributes:
        usage: Added to the accounting of the node.
        feedback: From a tool only: what the model reads as the call's result.
        messages: From a tool only: extra messages for the current history, after all results of the batch.
        cleanups: From a tool only: each run once, after the model has seen the result or when the step ends before.
            Process-local: never stored, and outside equality.
    """

    usage: Usage | None = field(default=None, validator=_is_usage)
    feedback: str | None = field(default=None, converter=_as_feedback)
    messages: tuple[Message, ...] = field(default=(), converter=_as_messages)
    cleanups: tuple[Callable[[], object], ...] = field(default=(), eq=False, repr=False, validator=_are_cleanups)

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        return _remade(self)

    @property
    def are_a_tools(self) -> bool:
        """Whether there is one that belongs to a tool's response.  Rule B5."""
        return bool(self.cleanups or self.messages or self.feedback is not None)


NO_EFFECTS: Final = Effects()
"""Of a response that no builder has added to: this very object, so that the hot path asks once."""


def _as_effects(effects: Effects) -> Effects:
    """Effects, those that are none as `NO_EFFECTS` itself."""
    if effects is NO_EFFECTS:
        return NO_EFFECTS
    given: object = effects
    if not isinstance(given, Effects):
        mend = "Write them with with_usage(...), with_messages(...) and so on."
        raise InvalidResponse("effects", f"{quoted(given):.60} is no Effects", mend)
    return effects if effects.cleanups or effects != NO_EFFECTS else NO_EFFECTS


@frozen(getstate_setstate=False)
class Builders:
    """What every response can carry.

    Attributes:
        effects: What its builders have added.
    """

    effects: Effects = field(default=NO_EFFECTS, converter=_as_effects)

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        return _remade(self)

    def __repr__(self) -> str:
        """What it is and what was given, in short: a response may hold a customer's data of any length."""
        told = {one.name: getattr(self, one.name) for one in fields(type(self))}
        given = [f"{one.name}={_named(told[one.name])}" for one in fields(type(self)) if told[one.name] != one.default]
        return f"{type(self).__name__}({', '.join(given)})"

    def with_usage(self, usage: Usage) -> Self:
        """Add `usage` to the accounting of the node that answers."""
        _check_usage(usage)
        spent = self.effects.usage
        return self._with(usage=usage if spent is None else spent + usage)

    def with_tool_feedback(self, text: str) -> Self:
        """Let the model read `text` as the result of this call, in place of the default.  Rule B5: from a tool only."""
        return self._with(feedback=plain("with_tool_feedback", text))

    def with_messages(self, messages: Iterable[Message]) -> Self:
        """Append `messages` to the current history, after all results of the batch.  Rule B5: from a tool only."""
        return self._with(messages=(*self.effects.messages, *_as_messages(messages)))

    def with_cleanup(self, cleanup: Callable[[], object]) -> Self:
        """Call `cleanup` once, when the model has seen the result or the step ends.  Rule B5: from a tool only."""
        return self._with(cleanups=(*self.effects.cleanups, cleanup))

    def _with(self, **more: Any) -> Self:
        return evolve(self, effects=evolve(self.effects, **more))


def _named(value: object) -> str:
    if isinstance(value, tuple) and value and all(isinstance(one, type) for one in value):
        return f"({', '.join(map(_named, value))})"
    return value.__name__ if isinstance(value, type) else f"{quoted(value):.100}"


def _placed(value: object) -> Placement | None:
    """Where a node class stands; None for anything that is not one."""
    placement: Placement | None = getattr(value, "placement", None) if isinstance(value, type) else None
    return placement


def _is_stage(response: Go[Any] | DirectTo[Any], _: Attribute[Any], target: object) -> None:
    if _placed(target) != "conversation":
        call, rest = ("go", "") if isinstance(response, Go) else ("direct_to", ", text")
        mend = f"{call}(Stage{rest}) takes one Conversation or GraphNode class"
        if _placed(target) == "internal":
            mend += "; a worker is reached by fanout(A, B) or an edge"
        raise InvalidResponse(call, f"{_named(target)} is not a stage", mend + ".")


def _are_workers(response: Fanout[Any], _: Attribute[Any], workers: object) -> None:
    if type(workers) is not tuple:
        mend = "Write fanout(A, B, ...) or scatter(Worker, inputs)."
        raise InvalidResponse("fanout", f"workers={quoted(workers):.60} is no tuple", mend)
    if response.inputs is not None:
        if len(workers) != 1 or _placed(workers[0]) != "internal":
            mend = "Write scatter(Worker, inputs) with one Worker class."
            raise InvalidResponse("scatter", f"{', '.join(map(_named, workers))} is not a worker", mend)
        return
    mend = "Write fanout(A, B, ...) with two or more different Worker classes."
    for worker in workers:
        if _placed(worker) != "internal":
            raise InvalidResponse("fanout", f"{_named(worker)} is not a worker", mend)
    if len(workers) < 2:
        raise InvalidResponse("fanout", f"{len(workers)} given", mend)
    if len(set(workers)) < len(workers):
        raise InvalidResponse("fanout", f"a worker is named twice in {', '.join(map(_named, workers))}", mend)


def _is_text(response: object, _: Attribute[Any], text: object) -> None:
    call = type(response).__name__
    if not isinstance(text, str) or not text.strip():
        raise InvalidResponse(call, f"the text is {quoted(text)}", "Say something: the customer reads it. Rule A4.")
    plain(call, text)


def _as_correction(text: Any) -> str:
    return plain("stay", text)


def _is_message(_: object, __: object, message: Any) -> None:
    if message is not None:
        check_is_message("with_message", message)


def _as_message(message: str | Message) -> Message:
    if isinstance(message, str):
        return instruction(message)
    check_is_message("with_message", message)
    return message


def _as_inputs(inputs: Any) -> tuple[object, ...] | None:
    return None if inputs is None else inputs_of("scatter", inputs)


def _as_str(text: Any) -> Any:
    """A subclass of `str` as a `str`; what is none is for the validator."""
    return str.__str__(text) if isinstance(text, str) else text


@final
@frozen(kw_only=True, repr=False, getstate_setstate=False)
class Go(Builders, Generic[Target_co]):
    """The target becomes the cursor, durably, and runs within this turn.  Built by `go`."""

    target: type[Target_co] = field(validator=_is_stage)
    state: object = UNSET
    message: Message | None = field(default=None, validator=_is_message)

    def with_state(self: Go[Stage[State, Any]], state: State) -> Go[Target_co]:
        """Make `state` the target's node state; it must be of the target's own state type."""
        return cast("Go[Target_co]", evolve(self, state=state))

    def with_message(self, message: str | Message) -> Self:
        """Append `message` to the target's history, as its incoming message.  A `str` is an internal instruction."""
        return evolve(self, message=_as_message(message))


@final
@frozen(kw_only=True, repr=False, getstate_setstate=False)
class DirectTo(Builders, Generic[Target_co]):
    """The program's own text is the reply; the target owns the next turn and does not run now.  See `direct_to`."""

    target: type[Target_co] = field(validator=_is_stage)
    text: str = field(converter=_as_str, validator=_is_text)
    state: object = UNSET
    message: Message | None = field(default=None, validator=_is_message)

    def with_state(self: DirectTo[Stage[State, Any]], state: State) -> DirectTo[Target_co]:
        """Make `state` the target's node state; it must be of the target's own state type."""
        return cast("DirectTo[Target_co]", evolve(self, state=state))

    def with_message(self, message: str | Message) -> Self:
        """Append `message` to the target's history.  A `str` is an internal instruction."""
        return evolve(self, message=_as_message(message))


@final
@frozen(kw_only=True, repr=False, getstate_setstate=False)
class Fanout(Builders, Generic[Workers_co]):
    """Branches open for different workers; none of them becomes the cursor.  Built by `fanout` and `scatter`.

    Attributes:
        workers: Their classes; of a scatter, the one.
        inputs: Of a scatter, an input for each run; None for a `fanout`.
    """

    workers: tuple[type[Workers_co], ...] = field(validator=_are_workers)
    inputs: tuple[object, ...] | None = field(default=None, converter=_as_inputs)


@final
@frozen(kw_only=True, repr=False, getstate_setstate=False)
class Stay(Builders):
    """Corrective feedback to the model; its loop goes on.  From a tool handler only.  Built by `stay`."""

    text: str = field(converter=_as_correction)


@final
@frozen(kw_only=True, repr=False, getstate_setstate=False)
class Direct(Builders):
    """The program's own text is the reply; the node keeps the cursor.  Built by `direct`."""

    text: str = field(converter=_as_str, validator=_is_text)


@final
@frozen(kw_only=True, repr=False, getstate_setstate=False)
class Finish(Builders):
    """The graph completes with the program's own text.  Built by `finish`."""

    text: str = field(converter=_as_str, validator=_is_text)


@final
@frozen(kw_only=True, repr=False, getstate_setstate=False)
class TaskResult(Builders, Generic[Output_co]):
    """The tool loop ends with a value of the node's output type; no route.  Built by `task_result`."""

    value: Output_co


def go(target: type[StageType], /) -> Go[StageType]:
    """Make `target` the cursor and run it within this turn.

    Raises:
        InvalidResponse: `target` is not a stage's class.  Rules A3, B4.
    """
    try:
        return _bare_go(target)
    except TypeError:  # not hashable, so no class: the response says what is wrong
        return Go(target=target)


@lru_cache(maxsize=256)
def _bare_go(target: type[StageType]) -> Go[StageType]:
    """A bare `go` is made on most transitions and is equal by value: one is enough."""
    return Go(target=target)


def direct_to(target: type[StageType], text: str, /) -> DirectTo[StageType]:
    """Reply with `text`; `target` owns the next turn and does not run now.

    Raises:
        InvalidResponse: `target` is not a stage's class, or `text` is empty.  Rules A3, A4, B4.
    """
    return DirectTo(target=target, text=text)


@overload
def fanout(first: type[W1], second: type[W2], /) -> Fanout[W1 | W2]: ...
@overload
def fanout(first: type[W1], second: type[W2], third: type[W3], /) -> Fanout[W1 | W2 | W3]: ...
@overload
def fanout(
    first: type[W1], second: type[W2], third: type[W3], fourth: type[W4], /, *rest: type[W4]
) -> Fanout[W1 | W2 | W3 | W4]: ...
def fanout(*workers: type[Worker[Any, Any, Any]]) -> Fanout[Worker[Any, Any, Any]]:
    """Open branches for at least two different workers.

    Raises:
        InvalidResponse: Fewer than two, a repeat, or something that is not a worker's class.  Rules A3, B4.
    """
    return Fanout(workers=workers)


def scatter(worker: Scatterable[Input, W1], inputs: Iterable[Input], /) -> Fanout[W1]:
    """Run `worker` once for each of `inputs`, side by side; each is its state for that run.  Rule E6.

    What leads on from it runs once per item too, until a join of one source gathers the items: `ctx.results(worker)`
    gives the outputs there, in input order.

    Raises:
        InvalidResponse: `worker` is not a worker's class, or `inputs` have no order.
    """
    return Fanout(workers=(cast("type[W1]", worker),), inputs=inputs_of("scatter", inputs))


def inputs_of(call: str, inputs: object) -> tuple[Any, ...]:
    """Inputs in order, from whatever can be iterated and has one.

    Raises:
        InvalidResponse: It has none, or is a text or a mapping.
    """
    if type(inputs) is tuple:
        return inputs
    if isinstance(inputs, str | bytes | Mapping):
        raise InvalidResponse(call, f"one {type(inputs).__name__} was given", "Pass a list of inputs.")
    if isinstance(inputs, AbstractSet):
        raise InvalidResponse(call, f"a {type(inputs).__name__} has no order", "Pass a list, such as sorted(...).")
    try:
        return tuple(cast("Iterable[Any]", inputs))
    except TypeError as error:
        told = f"{quoted(inputs):.60} cannot be iterated"
        raise InvalidResponse(call, told, "Pass a list of inputs.") from error


def stay(text: str, /) -> Stay:
    """Tell the model what is wrong, from a tool handler; its loop goes on."""
    return Stay(text=text)


def direct(text: str, /) -> Direct:
    """Stop model work and reply with `text`.

    Raises:
        InvalidResponse: `text` is empty.  Rule A4.
    """
    return Direct(text=text)


def finish(text: str, /) -> Finish:
    """Reply with `text` and complete the graph.

    Raises:
        InvalidResponse: `text` is empty.  Rule A4.
    """
    return Finish(text=text)


def task_result(value: Output, /) -> TaskResult[Output]:
    """Leave the tool loop with `value`, of the node's output type."""
    return TaskResult(value=value)


# Which responses each origin may give: the face of table B that a type checker reads.  Rule B2.
Route: TypeAlias = Go["Stage[Any, Any]"] | Fanout["Worker[Any, Any, Any]"] | DirectTo["Stage[Any, Any]"] | Finish
StageTool: TypeAlias = Route | Stay | Direct | TaskResult[object]
StageRun: TypeAlias = Route | Direct | None
StageHook: TypeAlias = Route | Direct | str | None
WorkerTool: TypeAlias = Stay | Direct | TaskResult[Output]
WorkerRun: TypeAlias = Direct | TaskResult[Output] | None
WorkerHook: TypeAlias = Direct | TaskResult[Output] | str | None
StageRescue: TypeAlias = (
    Go["Stage[Any, Any]"] | Direct | DirectTo["Stage[Any, Any]"] | Finish | TaskResult[object] | None
)
WorkerRescue: TypeAlias = Direct | TaskResult[Output] | None

Response: TypeAlias = (
    Go["Stage[Any, Any]"]
    | DirectTo["Stage[Any, Any]"]
    | Fanout["Worker[Any, Any, Any]"]
    | Stay
    | Direct
    | Finish
    | TaskResult[Output]
)
"""The closed union, for exhaustive matching.  Rule A2."""

RESPONSES: Final = (Go, DirectTo, Fanout, Stay, Direct, Finish, TaskResult)
