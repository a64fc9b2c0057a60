"""What a step's journal keeps, and what an outcome reads like in it.  Rules F2, L3.

A journal makes a step that was stopped go on: what finished is read from it, what did not runs.  It is keyed by place,
seen by nobody, and deleted by the write that publishes the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from ezgraph.activations import Place
from ezgraph.algebra.scheduling import is_journalled
from ezgraph.histories import Addition
from ezgraph.notes import Note, Said
from ezgraph.plan import Plan, Tool
from ezgraph.responses import UNSET, Builders, Direct, DirectTo, Effects, Fanout, Finish, Go, Response, Stay, TaskResult
from ezgraph.session import Delta, Session

_TEXTS: Final[Mapping[str, Any]] = {"stay": Stay, "direct": Direct, "finish": Finish}
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


def changes(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, object]:
    """The cells that were staged since."""
    return {key: value for key, value in after.items() if before.get(key, UNSET) is not value}


def additions(before: Mapping[str, Addition], after: Mapping[str, Addition]) -> dict[str, Addition]:
    """The messages that were added since; nothing is dropped once a loop runs."""
    return {
        space: Addition(messages)
        for space, added in after.items()
        if (messages := added.messages[len(before[space].messages) if space in before else 0 :])
    }
