"""What runs next, as a function of plan and session; what begins, is left over, or recovers.  Rules E2 to E5, E9.

Nothing here is stored: `ready(plan, apply(session, delta))` is the only answer to "what now?".
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from ezgraph.messages import Message
from ezgraph.plan import Closure, Plan
from ezgraph.session import END, Activation, Delta, Head, Limits, Session


class Step(Struct, frozen=True, gc=False):
    """The identity of one node run.  Rule L7.

    Attributes:
        run: The run number, or the activation's.
        node: The node's id.
        generation: In which it was dispatched; an outcome of an older one is stale.
    """

    run: int
    node: str
    generation: int


def new_session(plan: Plan, session: str) -> Session:
    """A session that nothing has been committed to."""
    return Session(session, plan.graph, 0, Head(plan.entry))


def begun(session: Session, message: Message, step_limit: int) -> Session:
    """The session as input finds it: the cursor's stage is owed a run.  Committed with its first step.  Rule G4."""
    before = session.head
    head = Head(before.cursor, owed=True, run=before.run + 1, incoming=message, before=before)
    return replace(session, head=head, limits=replace(session.limits, steps=step_limit))


def recovering(session: Session, step_limit: int) -> Delta:
    """What `arecover` commits before anything runs: a new generation, marks off, the cursor's step owed again."""
    return Delta(
        session.id,
        session.graph,
        session.revision + 1,
        head=replace(session.head, raised=False) if session.head.raised else None,
        limits=Limits(session.limits.generation + 1, step_limit),
        marks=None,
    )


def is_owed(session: Session) -> bool:
    """Whether `arecover` has anything to run."""
    return session.activation is not None or session.head.owed


def ready(plan: Plan, session: Session) -> tuple[Step, ...]:
    """The steps that can run now, in dispatch order.  Rules E4, E5, E9."""
    head, limits, activation = session.head, session.limits, session.activation
    if activation is None:
        if head.owed and not head.raised and head.depth <= limits.steps:
            return (Step(head.run, head.cursor, limits.generation),)
        return ()
    return tuple(
        Step(activation.id, node, limits.generation)
        for node, depth in _enabled(plan.closure(activation.roots), activation)
        if depth <= limits.steps
    )


def held(plan: Plan, session: Session) -> dict[str, int]:
    """The nodes that only the step limit holds back, each with the depth it would run at.  Rule E9."""
    head, activation, limit = session.head, session.activation, session.limits.steps
    if activation is None:
        return {head.cursor: head.depth} if head.owed and not head.raised and head.depth > limit else {}
    return {node: depth for node, depth in _enabled(plan.closure(activation.roots), activation) if depth > limit}


def is_enabled(plan: Plan, session: Session, step: Step) -> bool:
    """Whether an outcome of `step` still changes anything: not stale, not delivered twice, and its turn.  Rule L7."""
    activation = session.activation
    if step.generation != session.limits.generation:
        return False
    if activation is None:
        head = session.head
        return head.owed and step.run == head.run and step.node == head.cursor and not head.raised
    if step.run != activation.id:
        return False
    return any(step.node == node for node, _ in _enabled(plan.closure(activation.roots), activation))


def _enabled(closure: Closure, activation: Activation) -> list[tuple[str, int]]:
    """The workers with no row and no mark whose sources are all done, each with the depth it would run at."""
    rows, marks = activation.rows, activation.marks
    return [
        (node, depth_of(closure, activation, node))
        for node in closure.workers
        if node not in rows and node not in marks and all(source in rows for source in closure.before[node])
    ]


def depth_of(closure: Closure, activation: Activation, node: str) -> int:
    """One more than the deepest row before `node`, or than the step that opened the activation.  Rule E9."""
    return 1 + max((activation.rows[source].depth for source in closure.before[node]), default=activation.depth)


def seen_by(
    plan: Plan, session: Session, activation: Activation, worker: str
) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """The cells and the results that a worker reads: what stood when its activation opened, and what it comes after.

    Rule E4.  It reads the rows of its ancestors and of nothing else, whatever else has landed.
    """
    line = plan.closure(activation.roots).ancestors[worker]
    if not line:
        return session.cells, {}
    cells = dict(session.cells)
    for source in line:
        cells.update(activation.rows[source].cells)
    return cells, {source: activation.rows[source].output for source in line}


def work_left(plan: Plan, session: Session) -> tuple[str, ...]:
    """What new input would run over, in words; empty where nothing is left.  Rule G6."""
    head, activation = session.head, session.activation
    if activation is None:
        return (f"{head.cursor} was entered and has not finished",) if head.owed and not head.raised else ()
    closure = plan.closure(activation.roots)
    left = []
    for node in closure.workers:
        if node in activation.marks:
            left.append(f"branch {node}, opened by {activation.parent}, failed")
        elif node not in activation.rows:
            waits = [source for source in closure.before[node] if source not in activation.rows]
            left.append(
                f"{node} waits for {', '.join(waits)}"
                if waits
                else f"branch {node}, opened by {activation.parent}, has not finished"
            )
    if closure.stage is not None:
        left.append(f"{closure.stage} waits to be joined")
    return tuple(left)


def is_completed(session: Session) -> bool:
    """Whether the graph has ended for this session."""
    return session.head.cursor == END
