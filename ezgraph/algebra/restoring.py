"""What a policy's decision on a session that input comes back to makes of it.  Pure, as all of the algebra."""

from __future__ import annotations

from msgspec.structs import replace

from ezgraph.algebra.scheduling import abandoning
from ezgraph.errors import InvalidResponse
from ezgraph.plan import Plan
from ezgraph.restoring import Change, Keep, StartOver
from ezgraph.session import Delta, ErrorRecord, Head, Limits, Session

_POLICY = "on_restore"


def restoring(plan: Plan, session: Session, decision: object) -> Delta | None:
    """What to commit before the input is looked at; None where nothing changes.

    Raises:
        InvalidResponse: It is no decision.
        StateTypeError: A state is not of its node's type.
        UnknownTarget: The graph has no such node.
    """
    match decision:
        case Keep():
            return None
        case Change():
            return _changing(plan, session, decision)
        case StartOver(warning):
            head, limits = session.head, session.limits
            return Delta(
                session.id,
                session.graph,
                session.revision + 1,
                head=Head(plan.entry, run=head.run + 1),
                limits=Limits(limits.generation + 1, limits.steps),
                errors=_warned(session, warning),
                anew=True,
            )
        case _:
            mend = "Return keep(), change(...) or start_over(...)."
            raise InvalidResponse(_POLICY, f"returned {decision!r:.80}", mend)


def _changing(plan: Plan, session: Session, decision: Change) -> Delta | None:
    cells: dict[str, object] = {}
    for node, state in decision.states.items():
        spec = plan.find(_POLICY, node)
        spec.check_state(_POLICY, state)
        cells[spec.id] = state
    errors = () if decision.warning is None else _warned(session, decision.warning)
    if decision.to is None:
        if not cells and not errors:
            return None
        return Delta(session.id, session.graph, session.revision + 1, cells=cells, errors=errors)
    to = plan.find(_POLICY, decision.to)
    if to.placement != "conversation":
        raise InvalidResponse(_POLICY, f"change(to={to.id}) names a worker", "Name a stage, which can own a turn.")
    head = Head(to.id, run=session.head.run + 1)
    return replace(abandoning(session), head=head, cells=cells, results=(), errors=errors)


def _warned(session: Session, text: str) -> tuple[ErrorRecord, ...]:
    return (ErrorRecord(session.head.run, session.head.cursor, _POLICY, text, "warning"),)
