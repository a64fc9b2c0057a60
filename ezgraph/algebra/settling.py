"""What an outcome publishes: `settle` gives the delta and the reply.  Rules A5, A8, A9, C2, G9.

Pure and idempotent: the outcome of a stale, finished or never enabled step settles to nothing.  Rule L7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, final

from attrs import frozen
from msgspec import Struct
from msgspec.structs import replace

from ezgraph.activations import Activation, Place, Row
from ezgraph.algebra.scheduling import Step, depth_of, is_enabled, is_journalled, is_open, is_whole, items_of
from ezgraph.histories import Addition
from ezgraph.messages import Message, Usage, assistant, instruction
from ezgraph.plan import Closure, NodeSpec, Plan
from ezgraph.responses import UNSET, DirectTo, Fanout, Finish, Go
from ezgraph.session import END, Delta, ErrorRecord, Head, Session


@final
class Continue(Struct, frozen=True, gc=False):
    """The engine's answer of a stage whose edges own what follows.  Rule A2."""


@final
class Reply(Struct, frozen=True, gc=False):
    """The engine's answer of a stage that replies and keeps the cursor: accepted text.  Rule A6."""

    text: str


@final
class Yielded(Struct, frozen=True, gc=False):
    """The engine's answer of a worker: its output."""

    output: object


CONTINUE: Final = Continue()

Answer: TypeAlias = Go[Any] | DirectTo[Any] | Fanout[Any] | Finish | Reply | Continue | Yielded
"""What a node run came to, once its loop and hooks are done.  `Yielded` is a worker's, all else a stage's."""


@final
class Published(Struct, frozen=True, gc=False):
    """The outcome of a step that ended well.

    Attributes:
        answer: What it came to.
        cells: What it staged, by cell.
        adds: What it adds, by history space.
        usage: What was spent, by node id.
    """

    answer: Answer
    cells: Mapping[str, object]
    adds: Mapping[str, Addition]
    usage: Mapping[str, Usage] = {}


@final
class Failed(Struct, frozen=True, gc=False):
    """The outcome of a step that raised: what goes into the error log."""

    error: str
    text: str


Outcome: TypeAlias = Published | Failed

Transition: TypeAlias = tuple[Delta, str | None]
"""What an outcome comes to: what to commit, and what the customer is told."""


def settle(plan: Plan, session: Session, step: Step, outcome: Outcome) -> Transition | None:
    """The transition that `outcome` makes of `session`; None where it changes nothing.  Rule L7."""
    if session.activation is not None:
        delta = settle_all(plan, session, ((step, outcome),))
        return None if delta is None else (delta, None)
    if not is_enabled(plan, session, step):
        return None
    if isinstance(outcome, Failed):
        return _stage_failed(session, step, outcome), None
    return cursor_settled(plan, session, outcome)


def settle_all(plan: Plan, session: Session, outcomes: Iterable[tuple[Step, Outcome]]) -> Delta | None:
    """What outcomes of one activation come to together: the same as one after another, in one delta.  Rule L7.

    Args:
        plan: The plan.
        session: With the activation that they are of, or none where it has closed.
        outcomes: In any order; those that change nothing are left out.

    Returns:
        None where none of them changes anything.
    """
    activation = session.activation
    if activation is None:
        return None
    closure, run, generation = plan.closure(activation), activation.id, session.limits.generation
    rows, marks, errors = dict[Place, Row](), list[Place](), list[ErrorRecord]()
    for step, outcome in outcomes:
        place = step.node, step.item
        if step.run != run or step.generation != generation or place in rows or place in marks:
            continue  # stale, or delivered twice
        if not is_open(closure, activation, place):
            continue
        if type(outcome) is Failed:
            marks.append(place)
            errors.append(ErrorRecord(step.run, step.node, outcome.error, outcome.text))
        else:
            rows[place] = _row(closure, activation, place, outcome)
    if not rows and not marks:
        return None
    new = tuple(rows.values())
    if len(activation.rows) + len(new) == closure.size(items_of(activation)):
        grown = replace(activation, rows=activation.rows.with_rows(new))
        return replace(_closed(plan, session, grown, session.head.run), rows=new, closed=True)
    return Delta(session.id, session.graph, session.revision + 1, rows=new, marks=tuple(marks), errors=tuple(errors))


def _delta(session: Session, **parts: Any) -> Delta:
    return Delta(session.id, session.graph, session.revision + 1, **parts)


def _stage_failed(session: Session, step: Step, outcome: Failed) -> Delta:
    """The error is logged; all else stays as the last commit left it.  Rules G4, G6."""
    head = session.head
    record = ErrorRecord(step.run, step.node, outcome.error, outcome.text)
    if head.before is None:
        return _delta(session, head=replace(head, raised=True), errors=(record,))
    return _delta(session, head=replace(head.before, run=head.run), errors=(record,), forgets=is_journalled(session))


def cursor_settled(  # noqa: C901, PLR0912  an arm for each answer
    plan: Plan, session: Session, outcome: Published
) -> Transition:
    """The transition that the cursor's node makes, for who has its step from `ready` of this very session.

    Input's limits go with its first step; results last as long as the cursor stays.
    """
    head, answer, cells, adds = session.head, outcome.answer, outcome.cells, outcome.adds
    reply: str | None = None
    opened: Activation | None = None
    chosen = _along_edges(plan, head.cursor) if type(answer) is Continue else answer
    if type(chosen) is Go:  # the hot path comes first
        goal = plan.by_class[chosen.target]
        if chosen.state is not UNSET or chosen.message is not None:
            cells, adds = _seeding(session, goal, chosen, cells, adds)
        after = Head(goal.id, True, False, head.run + 1, head.depth + 1, chosen.message)  # noqa: FBT003  owed, not raised
    else:
        cursor, space = head.cursor, plan.nodes[head.cursor].space
        match chosen:
            case Yielded():
                return _job_opened(plan, session, outcome), None
            case DirectTo(target=target):
                goal = plan.by_class[target]
                cells, adds = _seeding(session, goal, chosen, cells, adds)
                cursor, reply = goal.id, chosen.text
                if goal.seed is not None and goal.space != space and _last(session, goal.space, adds) is None:
                    adds = _adding(
                        adds, goal.space, instruction(goal.seed)
                    )  # no history begins with an answer (rule G2)
                for told in dict.fromkeys((space, goal.space)):
                    adds = _adding(adds, told, assistant(reply))
            case Finish() | Reply():
                reply = chosen.text
                adds = _adding(adds, space, assistant(reply))
                cursor = END if isinstance(chosen, Finish) else cursor
            case Fanout(workers=workers, inputs=inputs):
                opened = Activation(head.run + 1, cursor, plan.in_order(workers), head.depth, inputs=inputs)
            case Opening(roots=roots):
                opened = Activation(head.run + 1, cursor, roots, head.depth)
            case AtEnd():
                cursor = END if plan.wiring.at_end == "complete" else plan.entry
            case _:
                pass  # Continue: the turn ends with no reply
        after = Head(cursor, run=head.run + 1)
    delta = Delta(session.id, session.graph, session.revision + 1, after, None, cells, adds, outcome.usage, opened)
    if opened is not None and is_whole(plan, opened):
        closed = _closed(plan, session, opened, opened.id)
        delta = replace(closed, cells=cells, messages=adds, usage=outcome.usage)
    elif (session.results or session.series) and after.cursor != head.cursor:
        delta = replace(delta, results=())
    if head.before is not None:
        delta = replace(delta, limits=session.limits, forgets=is_journalled(session))
    elif session.journal:
        delta = replace(delta, forgets=True)
    return delta, reply


@final
@frozen
class Opening:
    """What the plan makes of a stage that continues into workers."""

    roots: tuple[str, ...]


@final
@frozen
class AtEnd:
    """What the plan makes of a stage that continues along an edge to END.  Rule H6."""


def _along_edges(plan: Plan, node: str) -> Go[Any] | Opening | AtEnd | Continue:
    """What the plan makes of a stage that continues: a `go`, an opening, the end, or nothing.  Rule A8."""
    targets = plan.edges[node]
    if not targets:
        return CONTINUE
    if targets == (END,):
        return AtEnd()
    if plan.nodes[targets[0]].placement == "conversation":
        return Go(target=type(plan.nodes[targets[0]].node))
    return Opening(tuple(n for n in plan.nodes if n in targets))


def _seeding(
    session: Session,
    goal: NodeSpec,
    answer: Go[Any] | DirectTo[Any],
    cells: Mapping[str, object],
    adds: Mapping[str, Addition],
) -> tuple[Mapping[str, object], Mapping[str, Addition]]:
    """With the builder's writes: they come last, after what the node itself staged.  Rule C2."""
    if answer.state is not UNSET:
        cells = {**cells, goal.id: answer.state}
    if answer.message is not None and answer.message != _last(session, goal.space, adds):
        adds = _adding(adds, goal.space, answer.message)
    return cells, adds


def _last(session: Session, space: str, adds: Mapping[str, Addition]) -> Message | None:
    """The last message of a history space, as this step leaves it."""
    added = adds.get(space)
    if added is not None and added.messages:
        return added.messages[-1]
    history = session.histories.get(space)
    return history[-1] if history else None


def _adding(adds: Mapping[str, Addition], space: str, message: Message) -> Mapping[str, Addition]:
    added = adds.get(space)
    if added is None:
        return {**adds, space: Addition((message,))}
    return {**adds, space: Addition((*added.messages, message), added.drop)}


# -------------------------------------------------------------------------------------------------------- activations


def _row(closure: Closure, activation: Activation, place: Place, outcome: Published) -> Row:
    """A worker's outcome; what a per-item worker saved does not outlast its run.  Rule E6."""
    node, item = place
    output = outcome.answer.output if type(outcome.answer) is Yielded else None
    cells = outcome.cells if item is None else {}
    return Row(node, output, depth_of(closure, activation, place), cells, outcome.usage, item)


def _job_opened(plan: Plan, session: Session, outcome: Published) -> Delta:
    """A job's activation opens in the write that publishes its entry, which is its first row.  Rule E12."""
    head, node = session.head, session.head.cursor
    opened = Activation(head.run + 1, node, (node,), head.depth - 1)
    row = _row(plan.closure(opened), opened, (node, None), outcome)
    grown = replace(opened, rows=opened.rows.with_rows((row,)))
    limits = None if head.before is None else session.limits
    if is_whole(plan, grown):
        return replace(_closed(plan, session, grown, opened.id), limits=limits, opened=grown, closed=True)
    forgets = is_journalled(session)
    return _delta(session, head=Head(node, run=opened.id), limits=limits, opened=grown, forgets=forgets)


def _closed(plan: Plan, session: Session, activation: Activation, run: int) -> Delta:
    """The delta that closes a whole activation, merged in the plan's order.  Rules A9, E2, E4, E6.

    Args:
        plan: The plan.
        session: As it stands; the activation may not be in it yet.
        activation: With its last row.
        run: The last run number that was taken.
    """
    closure = plan.closure(activation)
    cells: dict[str, object] = {}
    usage: dict[str, Usage] = {}
    wrote = [row for row in activation.rows.values() if row.cells or row.usage]
    for row in sorted(wrote, key=lambda row: closure.position(row.place)):
        cells.update(row.cells)
        for node, spent in row.usage.items():
            usage[node] = usage[node] + spent if node in usage else spent
    stage = closure.stage
    joined: tuple[str, ...] = ()
    if stage is None:
        head = Head(_after_all(plan, activation.parent), run=run + 1)
    else:
        head = Head(stage, owed=True, run=run + 1, depth=depth_of(closure, activation, (stage, None)))
        joined = closure.ancestors(stage)
    return _delta(
        session,
        head=head,
        cells=cells,
        usage=usage,
        results=tuple(worker for worker in joined if worker not in closure.each),
        series=tuple(worker for worker in joined if worker in closure.each),
        forgets=is_journalled(session),
    )


def _after_all(plan: Plan, parent: str) -> str:
    """The cursor once every branch has ended and no stage was joined: rule A9, and in a job H6, whoever opened it."""
    if plan.nodes[plan.entry].placement == "conversation":
        return parent
    return END if plan.wiring.at_end == "complete" else plan.entry
