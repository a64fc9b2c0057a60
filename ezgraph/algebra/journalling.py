"""What a step's journal keeps, and what an outcome reads like in it.  Rules F2, L3.

A journal makes a step that was stopped go on: what finished is read from it, what did not runs.  It is keyed by place,
seen by nobody, and deleted by the write that publishes the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from ezgraph import errors
from ezgraph.activations import Place
from ezgraph.algebra.scheduling import is_journalled
from ezgraph.errors import NodeError, StepFailed
from ezgraph.histories import Addition
from ezgraph.messages import Usage, storable
from ezgraph.notes import Note, Raised, Said
from ezgraph.numbers import is_kept, json_of, value_of
from ezgraph.plan import Plan, Tool
from ezgraph.responses import UNSET, Builders, Direct, DirectTo, Effects, Fanout, Finish, Go, Response, Stay, TaskResult
from ezgraph.session import Delta, Session

_TEXTS: Final[Mapping[str, Any]] = {"stay": Stay, "direct": Direct, "finish": Finish}
_ERRORS: Final[Mapping[str, type[NodeError]]] = {
    name: cls for name, cls in vars(errors).items() if isinstance(cls, type) and issubclass(cls, NodeError)
}
_NAMES: Final[Mapping[type, str]] = {made: name for name, made in _TEXTS.items()}


def noting(session: Session, place: Place, notes: tuple[Note, ...]) -> Delta:
    """The delta that appends to a step's journal; the first of a turn's first step also keeps the input.  Rule F2."""
    head = session.head
    entered = session.activation is None and head.before is not None and place not in session.journal
    return Delta(
        session.id,
        session.graph,
        session.revision + 1,
        head=head if entered else None,
        limits=session.limits if entered else None,
        notes=notes,
        forgets=entered and is_journalled(session),
    )


def told(plan: Plan, tool: Tool, outcome: Response[Any]) -> Said:
    """A finished call's outcome, as a journal keeps it; its cleanups are of this process and are not kept."""
    effects = outcome.effects
    said = Said("", usage=effects.usage, feedback=effects.feedback, messages=effects.messages)
    match outcome:
        case Go() | DirectTo():
            goal = plan.by_class[outcome.target].id
            state = {} if outcome.state is UNSET else {goal: outcome.state}
            text = outcome.text if isinstance(outcome, DirectTo) else ""
            kind = "direct_to" if isinstance(outcome, DirectTo) else "go"
            return replace(said, kind=kind, target=goal, state=state, message=outcome.message, text=text)
        case Fanout(workers=workers, inputs=inputs):
            names = tuple(plan.by_class[worker].id for worker in workers)
            given = None if inputs is None else {names[0]: inputs}
            return replace(said, kind="fanout", workers=names, inputs=given)
        case TaskResult(value=value):
            return replace(said, kind="task_result", value={tool.key: value})
        case _:
            return replace(said, kind=_NAMES[type(outcome)], text=outcome.text)


def meant(plan: Plan, said: Said) -> Response[Any]:
    """The outcome that `told` wrote down."""
    effects = Effects(said.usage, said.feedback, said.messages)
    made: Builders
    match said.kind:
        case "go" | "direct_to":
            target = type(plan.nodes[said.target].node)
            routed: dict[str, Any] = {"target": target, "state": said.state.get(said.target, UNSET), "effects": effects}
            routed["message"] = said.message
            made = Go(**routed) if said.kind == "go" else DirectTo(text=said.text, **routed)
        case "fanout":
            workers = tuple(type(plan.nodes[name].node) for name in said.workers)
            inputs = None if said.inputs is None else said.inputs[said.workers[0]]
            made = Fanout(workers=workers, inputs=inputs, effects=effects)
        case "task_result":
            made = TaskResult(value=next(iter(said.value.values())), effects=effects)
        case _:
            made = _TEXTS[said.kind](text=said.text, effects=effects)
    return made  # type: ignore[return-value]


def raised(error: NodeError) -> Raised:
    """What a called worker raised, as a journal keeps it."""
    facts = {name: value for name, value in vars(error).items() if _is_fact(value)}
    return Raised(type(error).__name__, storable(str(error)), storable(json_of(facts).decode()))


def _is_fact(value: object) -> bool:
    if isinstance(value, int):
        return is_kept(value)
    return value is None or isinstance(value, str | float)


def recalled(kept: Raised) -> NodeError:
    """The error that `raised` wrote down; of a `StepFailed`, what the worker's code had raised is known by its text."""
    cls = _ERRORS.get(kept.error, StepFailed)
    error = cls.__new__(cls)
    Exception.__init__(error, kept.text)
    vars(error).update({"error": Exception(kept.text)} if cls is StepFailed else {}, **value_of(kept.facts))
    return error


def changes(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, object]:
    """The cells that were staged since."""
    return {key: value for key, value in after.items() if before.get(key, UNSET) is not value}


def spendings(before: Mapping[str, Usage], after: Mapping[str, Usage]) -> dict[str, Usage]:
    """What was spent since."""
    return {
        node: spent - before[node] if node in before else spent
        for node, spent in after.items()
        if before.get(node) is not spent
    }


def additions(before: Mapping[str, Addition], after: Mapping[str, Addition]) -> dict[str, Addition]:
    """The messages that were added since; nothing is dropped once a loop runs."""
    return {
        space: Addition(messages)
        for space, added in after.items()
        if (messages := added.messages[len(before[space].messages) if space in before else 0 :])
    }
