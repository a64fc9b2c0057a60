"""What runs next, as a function of plan and session; what begins, is left over, or recovers.  Rules E2 to E5, E9.

Nothing here is stored: `ready(plan, apply(session, delta))` is the only answer to "what now?".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ezgraph.activations import Activation, Place
from ezgraph.algebra.lines import Line, LineCells, LineResults, LineSeries
from ezgraph.messages import Message
from ezgraph.plan import Closure, Plan
from ezgraph.session import NOTHING, Delta, Head, Limits, Session


class Step(Struct, frozen=True, gc=False):
    """The identity of one node run.  Rule L7.

    Attributes:
        run: The run number, or the activation's.
        node: The node's id.
        generation: In which it was dispatched; an outcome of an older one is stale.
        item: The index of its item, where it runs once per item of a scatter.  Rule E6.
    """

    run: int
    node: str
    generation: int
    item: int | None = None

    @property
    def place(self) -> Place:
        """Where it stands in its activation."""
        return self.node, self.item


def new_session(plan: Plan, session: str, incarnation: int) -> Session:
    """A session that nothing has been committed to; no other that ever had its id is of this incarnation.  Rule L2."""
    return Session(session, plan.graph, 0, Head(plan.entry), incarnation=incarnation)


def begun(session: Session, message: Message | None, step_limit: int) -> Session:
    """The session as input finds it: the cursor's node is owed a run.  Committed with its first step.  Rule G4."""
    before = session.head
    head = Head(before.cursor, owed=True, run=before.run + 1, incoming=message, before=before)
    return replace(session, head=head, limits=replace(session.limits, steps=step_limit), journal={})


def is_journalled(session: Session) -> bool:
    """Whether the store may keep a journal: of a step under way, or of one that raised before this input came."""
    before = session.head.before
    return bool(session.journal) or (before is not None and before.raised)


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


def abandoning(session: Session) -> Delta:
    """What `aabandon` commits: nothing is owed, and the cursor stays.  Outcomes that are still under way are stale."""
    head, limits = session.head, session.limits
    return Delta(
        session.id,
        session.graph,
        session.revision + 1,
        head=Head(head.cursor, run=head.run + 1),
        limits=Limits(limits.generation + 1, limits.steps),
        closed=session.activation is not None,
        forgets=is_journalled(session),
    )


def is_owed(session: Session) -> bool:
    """Whether `arecover` has anything to run."""
    return session.activation is not None or session.head.owed


# ------------------------------------------------------------------------------------------------------- what can run


def ready(plan: Plan, session: Session) -> tuple[Step, ...]:
    """The steps that can run now, in dispatch order.  Rules E4, E5, E9."""
    if session.activation is not None:
        return _ready_of(plan.closure(session.activation), session.activation, session.limits)
    head, limits = session.head, session.limits
    if head.owed and not head.raised and head.depth <= limits.steps:
        return (Step(head.run, head.cursor, limits.generation),)
    return ()


def _ready_of(closure: Closure, activation: Activation, limits: Limits) -> tuple[Step, ...]:
    if activation.marks and closure.policy == "cancel_siblings":
        return ()
    run, generation, items = activation.id, limits.generation, items_of(activation)
    if not activation.rows and not activation.marks and (items or activation.inputs is None):
        # just opened, and not over nothing: what nothing leads into
        if activation.depth >= limits.steps:
            return ()
        each = [node for node in closure.each if not closure.before[node]]
        once = [node for node in closure.once if not closure.before[node]]
        each_item = [Step(run, node, generation, item) for item in range(items) for node in each]
        return (*each_item, *[Step(run, node, generation) for node in once])
    return tuple(
        Step(run, place[0], generation, place[1])
        for place in closure.places(items)
        if is_free(closure, activation, place) and depth_of(closure, activation, place) <= limits.steps
    )


def follows(plan: Plan, after: Session, settled: Iterable[Step]) -> tuple[Step, ...]:
    """The steps that became ready when others of their activation were settled: what `ready` says more than before.

    Costs what was settled and what follows, not what the activation holds.  In dispatch order.
    """
    activation = after.activation
    if activation is None:
        return ready(plan, after)
    closure, limits = plan.closure(activation), after.limits
    if activation.marks and closure.policy == "cancel_siblings":
        return ()
    places = {
        (node, step.item if node in closure.each else None) for step in settled for node in closure.after[step.node]
    }
    return tuple(
        Step(activation.id, place[0], limits.generation, place[1])
        for place in sorted(places, key=closure.position)
        if is_free(closure, activation, place) and depth_of(closure, activation, place) <= limits.steps
    )


def held(plan: Plan, session: Session) -> dict[str, int]:
    """The nodes that only the step limit holds back, each with the depth it would run at.  Rule E9."""
    head, activation, limit = session.head, session.activation, session.limits.steps
    if activation is None:
        return {head.cursor: head.depth} if head.owed and not head.raised and head.depth > limit else {}
    closure = plan.closure(activation)
    if activation.marks and closure.policy == "cancel_siblings":
        return {}
    waiting: dict[str, int] = {}
    for place in closure.places(items_of(activation)):
        if is_free(closure, activation, place) and (depth := depth_of(closure, activation, place)) > limit:
            waiting[place[0]] = max(depth, waiting.get(place[0], 0))
    return waiting


def is_enabled(plan: Plan, session: Session, step: Step) -> bool:
    """Whether an outcome of `step` still changes anything: not stale, not delivered twice, and its turn.  Rule L7."""
    activation = session.activation
    if step.generation != session.limits.generation:
        return False
    if activation is None:
        head = session.head
        return head.owed and step.run == head.run and step.node == head.cursor and not head.raised
    return step.run == activation.id and is_open(plan.closure(activation), activation, step.place)


def items_of(activation: Activation) -> int:
    """How many items a scatter has; none for any other opening."""
    return 0 if activation.inputs is None else len(activation.inputs)


def is_whole(plan: Plan, activation: Activation) -> bool:
    """Whether every run of it has its row: an opening may have it at once, a scatter over nothing."""
    return len(activation.rows) == plan.closure(activation).size(items_of(activation))


def is_open(closure: Closure, activation: Activation, place: Place) -> bool:
    """Whether a place is one of the activation's at all, and free."""
    node, item = place
    if item is None:
        known = node in closure.once
    else:
        known = activation.inputs is not None and node in closure.each and 0 <= item < len(activation.inputs)
    return known and is_free(closure, activation, place)


def is_free(closure: Closure, activation: Activation, place: Place) -> bool:
    """Whether a worker of the closure has no row and no mark, and all that lead into it are done."""
    rows, marks = activation.rows, activation.marks
    if place in rows or (marks and place in marks):
        return False
    node, item = place
    for source in closure.before[node]:
        if source not in closure.each:
            done = (source, None) in rows
        elif item is not None:
            done = (source, item) in rows
        else:
            done = rows.count(source) == items_of(activation)
        if not done:
            return False
    return True


def depth_of(closure: Closure, activation: Activation, place: Place) -> int:
    """One more than the deepest row before it, or than the step that opened the activation.  Rule E9."""
    node, item = place
    before = closure.before[node]
    if not before:
        return 1 + activation.depth
    rows, deepest = activation.rows, activation.depth
    for source in before:
        if source not in closure.each:
            deepest = max(deepest, rows[source, None].depth)
        elif item is not None:
            deepest = max(deepest, rows[source, item].depth)
        else:
            deepest = max([deepest, *[row.depth for row in rows.each(source, items_of(activation))]])
    return 1 + deepest


def depth_at(plan: Plan, session: Session, step: Step) -> int:
    """How deep in the turn's chain a step that runs is.  Rule E9."""
    activation = session.activation
    return session.head.depth if activation is None else depth_of(plan.closure(activation), activation, step.place)


# ---------------------------------------------------------------------------------------------------- what a step sees


class Seen(Struct, frozen=True, gc=False):
    """What a step may read.  Rule E4.

    Attributes:
        cells: State by node id.
        results: Outputs of the workers it comes after, by id.
        series: The same of workers that ran once per item: all their outputs, in input order.
    """

    cells: Mapping[str, object]
    results: Mapping[str, object]
    series: Mapping[str, tuple[object, ...]]


def seen_by(plan: Plan, session: Session, step: Step) -> Seen | Session:
    """What stood when the activation opened, what the step comes after, and its own input; nothing else that landed.

    Where no activation is open that is the session as it is.  Rules E4, E6.  What a per-item worker saves is for its
    own run, and its input is for nobody else.
    """
    activation = session.activation
    if activation is None:
        return session
    closure, node, item, cells = plan.closure(activation), step.node, step.item, session.cells
    if not closure.before[node]:
        if item is not None and activation.inputs is not None:
            cells = {**cells, node: activation.inputs[item]}
        return Seen(cells, NOTHING, NOTHING)
    line = Line(closure, activation.rows, items_of(activation), node, item)
    return Seen(LineCells(line, cells), LineResults(line), LineSeries(line))


# -------------------------------------------------------------------------------------------------------- what is left


def to_recover(plan: Plan, session: Session) -> tuple[str, ...]:
    """What `arecover` would go on with, in words: the work left, or a stage's step that failed.  Rule G6."""
    head = session.head
    if head.raised:
        return (f"{head.cursor} failed, and runs again unless new input comes first",)
    return work_left(plan, session)


def work_left(plan: Plan, session: Session) -> tuple[str, ...]:
    """What new input would run over, in words; empty where nothing is left.  Rule G6."""
    head, activation = session.head, session.activation
    if activation is None:
        return (f"{head.cursor} was entered and has not finished",) if head.owed and not head.raised else ()
    closure, items = plan.closure(activation), items_of(activation)
    rows, marks = activation.rows, activation.marks
    left = []
    for node in closure.each:
        failed = sum(1 for marked, _ in marks if marked == node)
        missing = items - rows.count(node) - failed
        has = "has" if missing == 1 else "have"
        told = [f"{failed} failed"] * bool(failed) + [f"{missing} {has} not finished"] * bool(missing)
        if told:
            left.append(f"of the {items} items of {node}, opened by {activation.parent}, {' and '.join(told)}")
    for node in closure.once:
        waits = [source for source in closure.before[node] if not _is_done(closure, activation, source)]
        if (node, None) in marks:
            left.append(f"branch {node}, opened by {activation.parent}, failed")
        elif (node, None) not in rows:
            left.append(
                f"{node} waits for {', '.join(waits)}"
                if waits
                else f"branch {node}, opened by {activation.parent}, has not finished"
            )
    if closure.stage is not None:
        left.append(f"{closure.stage} waits to be joined")
    return tuple(left)


def _is_done(closure: Closure, activation: Activation, worker: str) -> bool:
    return activation.rows.count(worker) == (items_of(activation) if worker in closure.each else 1)
