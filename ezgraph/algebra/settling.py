"""What an outcome publishes: `settle` gives the delta and the reply.  Rules A5, A8, A9, C2, G9.

Pure and idempotent: the outcome of a stale, finished or never enabled step settles to nothing.  Rule L7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, final

from attrs import frozen
from msgspec import Struct
from msgspec.structs import replace

from ezgraph.algebra.scheduling import Step, depth_of, is_enabled
from ezgraph.messages import Message, Usage, assistant, instruction
from ezgraph.plan import NodeSpec, Plan
from ezgraph.responses import UNSET, DirectTo, Fanout, Finish, Go
from ezgraph.session import END, Activation, Addition, Delta, ErrorRecord, Head, Row, Session


@final
@frozen
class Continue:
    """The engine's answer of a stage whose edges own what follows.  Rule A2."""


@final
@frozen
class Reply:
    """The engine's answer of a stage that replies and keeps the cursor: accepted text.  Rule A6."""

    text: str


@final
@frozen
class Yielded:
    """The engine's answer of a worker: its output."""

    output: object


CONTINUE: Final = Continue()

Answer: TypeAlias = Go[Any] | DirectTo[Any] | Fanout[Any] | Finish | Reply | Continue | Yielded
"""What a node run came to, once its loop and hooks are done.  `Yielded` is a worker's, all else a stage's."""


class Published(Struct, frozen=True, gc=False):
    """The outcome of a step that ended well.

    Attributes:
        answer: What it came to.
        cells: What it staged, by cell.
        adds: What it adds, by history space.
        usage: What it cost, or None.
    """

    answer: Answer
    cells: dict[str, object]
    adds: dict[str, Addition]
    usage: Usage | None = None


class Failed(Struct, frozen=True, gc=False):
    """The outcome of a step that raised: what goes into the error log."""

    error: str
    text: str


Outcome: TypeAlias = Published | Failed


class Transition(Struct, frozen=True, gc=False):
    """What an outcome comes to.

    Attributes:
        delta: What to commit.
        reply: What the customer is told, or None.
    """

    delta: Delta
    reply: str | None = None


def settle(plan: Plan, session: Session, step: Step, outcome: Outcome) -> Transition | None:
    """The transition that `outcome` makes of `session`; None where it changes nothing.  Rule L7."""
    activation = session.activation
    if not is_enabled(plan, session, step):
        return None
    if activation is None:
        if isinstance(outcome, Failed):
            return Transition(_stage_failed(session, step, outcome))
        return _stage_settled(plan, session, step.node, outcome)
    if isinstance(outcome, Failed):
        record = ErrorRecord(step.run, step.node, outcome.error, outcome.text)
        return Transition(_delta(session, marks=(step.node,), errors=(record,)))
    return Transition(_worker_settled(plan, session, activation, step.node, outcome))


def _delta(session: Session, **parts: Any) -> Delta:
    return Delta(session.id, session.graph, session.revision + 1, **parts)


def _stage_failed(session: Session, step: Step, outcome: Failed) -> Delta:
    """The error is logged; all else stays as the last commit left it.  Rules G4, G6."""
    head = session.head
    kept = replace(head, raised=True) if head.before is None else replace(head.before, run=head.run)
    record = ErrorRecord(step.run, step.node, outcome.error, outcome.text)
    return _delta(session, head=kept, errors=(record,))


def _stage_settled(  # noqa: C901  an arm for each answer
    plan: Plan, session: Session, node: str, outcome: Published
) -> Transition:
    """Input's limits go with its first step; results last as long as the cursor stays."""
    head = session.head
    answer: Answer | Opening | AtEnd = outcome.answer
    if type(answer) is Continue:
        answer = _along_edges(plan, node)
    cells, adds, after = outcome.cells, outcome.adds, head
    reply: str | None = None
    opened: Activation | None = None
    if type(answer) is Go:  # the hot path comes first
        goal = plan.by_class[answer.target]
        if answer.state is not UNSET or answer.message is not None:
            cells, adds = _seeding(session, goal, answer, cells, adds)
        after = Head(goal.id, True, False, head.run + 1, head.depth + 1, answer.message)  # noqa: FBT003  owed, not raised
    else:
        cursor, space = head.cursor, plan.nodes[node].space
        match answer:
            case DirectTo(target=target):
                goal = plan.by_class[target]
                cells, adds = _seeding(session, goal, answer, cells, adds)
                cursor, reply = goal.id, answer.text
                if goal.seed is not None and goal.space != space and _last(session, goal.space, adds) is None:
                    adds = _adding(
                        adds, goal.space, instruction(goal.seed)
                    )  # no history begins with an answer (rule G2)
                for told in dict.fromkeys((space, goal.space)):
                    adds = _adding(adds, told, assistant(reply))
            case Finish() | Reply():
                reply = answer.text
                adds = _adding(adds, space, assistant(reply))
                cursor = END if isinstance(answer, Finish) else cursor
            case Fanout(workers=workers):
                roots = tuple(spec.id for cls, spec in plan.by_class.items() if cls in workers)
                opened = Activation(head.run + 1, node, roots, head.depth)
            case Opening(roots=roots):
                opened = Activation(head.run + 1, node, roots, head.depth)
            case AtEnd():
                cursor = END if plan.wiring.at_end == "complete" else plan.entry
            case _:
                pass  # Continue: the turn ends with no reply
        after = Head(cursor, run=head.run + 1)
    delta = Delta(
        session.id,
        session.graph,
        session.revision + 1,
        after,
        None if head.before is None else session.limits,
        cells,
        adds,
        {} if outcome.usage is None else {node: outcome.usage},
        opened,
        results={} if session.results and after.cursor != head.cursor else None,
    )
    return Transition(delta, reply)


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
    cells: dict[str, object],
    adds: dict[str, Addition],
) -> tuple[dict[str, object], dict[str, Addition]]:
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


def _adding(adds: dict[str, Addition], space: str, message: Message) -> dict[str, Addition]:
    added = adds.get(space)
    if added is None:
        return {**adds, space: Addition((message,))}
    return {**adds, space: Addition((*added.messages, message), added.drop)}


def _worker_settled(plan: Plan, session: Session, activation: Activation, node: str, outcome: Published) -> Delta:
    """A row is inserted; the last row of a closure closes the activation in the same write.  Rules A9, E2, E4."""
    closure = plan.closure(activation.roots)
    output = outcome.answer.output if isinstance(outcome.answer, Yielded) else None
    row = Row(node, output, depth_of(closure, activation, node), outcome.cells, outcome.usage)
    rows = {**activation.rows, node: row}
    if len(rows) < len(closure.workers):
        return _delta(session, rows=(row,))
    cells: dict[str, object] = {}
    usage: dict[str, Usage] = {}
    for worker in closure.workers:
        cells.update(rows[worker].cells)
        if (spent := rows[worker].usage) is not None:
            usage[worker] = spent
    run, stage = session.head.run + 1, closure.stage
    if stage is None:
        return _delta(session, head=Head(activation.parent, run=run), cells=cells, usage=usage, closed=True, results={})
    depth = depth_of(closure, replace(activation, rows=rows), stage)
    results = {worker: rows[worker].output for worker in closure.ancestors[stage]}
    head = Head(stage, owed=True, run=run, depth=depth)
    return _delta(session, head=head, cells=cells, usage=usage, closed=True, results=results)
