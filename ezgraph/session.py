"""A session as a value, and the delta that a step adds to it.  `apply` folds one into the other; nothing here decides.

These are the engine's own values, made once a step: frozen `msgspec.Struct`, which is several times cheaper to make
than an attrs class.  What an author or a caller gets (`Turn`, `ErrorRecord`) is attrs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, final

from attrs import field as attribute, frozen
from msgspec import Struct
from msgspec.structs import replace

from ezgraph.activations import Activation, Place, Row, Rows
from ezgraph.errors import InvalidInput
from ezgraph.errors.words import quoted
from ezgraph.histories import Addition, History
from ezgraph.messages import Message, Usage
from ezgraph.notes import Note

END: Final = "END"
"""The cursor of a completed session, and an edge's target that ends its path."""

CONTEXT: Final = "$context"
"""The key of the graph's context cell among the cells.  No node may have an id that begins with `$`."""

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
"""An empty mapping, for where most have nothing to say."""

Status: TypeAlias = Literal["idle", "completed"]

Standing: TypeAlias = Literal["idle", "failed", "unfinished", "completed"]
"""Where a stored session stands: it waits for input; a step failed, and `arecover` runs it again; it has other work
left, under way or broken off (rule G6); or its graph has ended."""


class Head(Struct, frozen=True, gc=False):
    """Where a session stands, rewritten whole by the few steps that change it.

    Attributes:
        cursor: The id of the stage that owns the next turn, or END.
        owed: The cursor's stage was entered and has not published.  Rule L7.
        before: Where input found the session, which waits to be published; None but in a turn's first step.  Rule G4.
        raised: Its last run raised; only `arecover` or new input enters it again.
        run: Rises with every input, publication and recovery, and is never reused.
        depth: Node runs in the turn's longest chain so far, this one included.  Rule E9.
        incoming: The message that the owed step is handed.  Rule B4.
    """

    cursor: str
    owed: bool = False
    raised: bool = False
    run: int = 0
    depth: int = 1
    incoming: Message | None = None
    before: Head | None = None


class Limits(Struct, frozen=True, gc=False):
    """What outcomes are checked against and session equality leaves out.  Rule L7.

    Attributes:
        generation: Rises with every recovery; an outcome of an older one is stale.
        steps: The step limit of the turn.  Rule E9.
    """

    generation: int = 0
    steps: int = 25


@final
@frozen
class ErrorRecord:
    """One failed step, or a warning, in the session's error log.  Rule G4.

    Attributes:
        run: The run or activation number in which it failed.
        node: The node's id.
        error: The error's class name; of a warning, what it is about.
        text: What it said.
        level: Which of the two.
    """

    run: int
    node: str
    error: str
    text: str
    level: Literal["error", "warning"] = "error"


def check_session(session: object) -> None:
    """Raise of what is no session's id."""
    if not isinstance(session, str) or not session.strip():
        raise InvalidInput("", f'the session id is {quoted(session)}: pass a text such as session="c-17".')
    if not session.isprintable() or len(session) > 200:
        raise InvalidInput(session, "a session id is printable and at most 200 characters long.")


class Session(Struct, frozen=True, eq=False, gc=False):
    """One durable conversation or job, as it stands after a commit.

    Attributes:
        id: Chosen by the caller.
        graph: The name of the graph it belongs to.
        revision: How many commits it has had.
        head: Where it stands.
        limits: Generation and step limit, outside equality.
        cells: State by node id, and the graph's context under `CONTEXT`; absent until written.  Rules F1, F8.
        histories: Messages by history space.  Rule F4.
        usage: What was spent, by node id.
        activation: The parallel work that is open.
        results: What the workers joined into the cursor's stage yielded, by worker id.  Rule E2.
        series: The same for workers that ran once for each item: their outputs in input order.  Rule E6.
        errors: The error log, outside equality.
        journal: What unfinished steps have done so far, by place; outside equality, and empty for readers.  Rule F2.
        incarnation: Tells it from other sessions that had its id, and were deleted; outside equality, and the store's
            own where the session came from elsewhere.  Rule L2.
    """

    id: str
    graph: str
    revision: int
    head: Head
    limits: Limits = Limits()
    cells: Mapping[str, object] = {}
    histories: Mapping[str, History] = {}
    usage: Mapping[str, Usage] = {}
    activation: Activation | None = None
    results: Mapping[str, object] = {}
    series: Mapping[str, tuple[object, ...]] = {}
    errors: tuple[ErrorRecord, ...] = ()
    journal: Mapping[Place, tuple[Note, ...]] = {}
    incarnation: int = 0

    @property
    def failure(self) -> ErrorRecord | None:
        """What failed last, where the session stands as `failed`; None where it does not."""
        if standing(self) != "failed":
            return None
        return next((record for record in reversed(self.errors) if record.level == "error"), None)

    def __eq__(self, other: object) -> bool:
        """Equal where what they hold is.

        Revision, run numbers, generation, step limit, error log and journal count commits and tries, and an incarnation
        names a life.  Rules G4, L7.
        """
        if not isinstance(other, Session):
            return NotImplemented
        return self._held() == other._held()

    def __ne__(self, other: object) -> bool:
        """As `==` says; a `Struct` has its own."""
        return not self == other

    def _held(self) -> tuple[object, ...]:
        activation = self.activation and replace(self.activation, id=0)
        before = self.head.before
        head = replace(self.head, run=0, before=None if before is None else replace(before, run=0))
        return (
            self.id,
            self.graph,
            head,
            self.cells,
            self.histories,
            self.usage,
            activation,
            self.results,
            self.series,
        )

    def __hash__(self) -> int:
        return hash((self.id, self.graph))


def standing(session: Session) -> Standing:
    """Where a session stands, for who lists them."""
    head, opened = session.head, session.activation
    failed = head.raised or (opened is not None and bool(opened.marks))
    return standing_of(head.cursor, owed=head.owed, opened=opened is not None, failed=failed)


def standing_of(cursor: object, *, owed: bool, opened: bool, failed: bool) -> Standing:
    """Where a session stands, by its cursor, whether that is owed a run, open work, and whether a step of it failed."""
    if owed or opened:
        return "failed" if failed else "unfinished"
    return "completed" if cursor == END else "idle"


def is_completed(session: Session) -> bool:
    """Whether the graph has ended for this session."""
    return session.head.cursor == END


class Delta(Struct, frozen=True, gc=False):
    """What one commit adds to a session: the unit that `settle` returns and a store writes.

    Attributes:
        session: The session's id.
        graph: The graph's name.
        revision: The revision it makes: one more than the one it builds on.
        head: The new head, where it changes.
        limits: The new limits, where they change.
        cells: Cells replaced, by id.
        messages: What is added, by history space.
        usage: What is added, by node id.
        opened: The activation this opens.
        rows: Outcomes inserted into the open activation.
        marks: Failed steps of the open activation; None takes all marks off.
        closed: The open activation (or the one just opened) is dropped.
        results: Of the activation that this closes, the workers that ran once and whose outputs the cursor's stage can
            read; none where it can read none any more; None where that does not change.
        series: The same of workers that ran for each item; it changes where `results` does.
        errors: Appended to the error log.
        notes: Appended to the journals of their steps.
        forgets: All journals are dropped, before `notes` are appended; a row drops its own.
        anew: The session starts over, before all else: nothing is left of it but what it spent and its error log.
    """

    session: str
    graph: str
    revision: int
    head: Head | None = None
    limits: Limits | None = None
    cells: Mapping[str, object] = {}
    messages: Mapping[str, Addition] = {}
    usage: Mapping[str, Usage] = {}
    opened: Activation | None = None
    rows: tuple[Row, ...] = ()
    marks: tuple[Place, ...] | None = ()
    closed: bool = False
    results: tuple[str, ...] | None = None
    series: tuple[str, ...] = ()
    errors: tuple[ErrorRecord, ...] = ()
    notes: tuple[Note, ...] = ()
    forgets: bool = False
    anew: bool = False


def apply(session: Session, delta: Delta) -> Session:  # noqa: C901  an arm for each field of a delta
    """The session after `delta`.  Costs what the delta holds, never what the session does.

    Args:
        session: At the revision that the delta builds on.
        delta: At most one activation is opened or closed in it.
    """
    if delta.anew:
        session = replace(session, cells={}, histories={}, activation=None, results={}, series={}, journal={})
    cells, histories, usage, activation = session.cells, session.histories, session.usage, session.activation
    results, series = session.results, session.series
    if delta.opened is not None:
        activation = delta.opened
    if activation is not None:
        activation = _activation_after(activation, delta)
    if delta.results is not None:
        results, series = _outputs(activation, delta.results, delta.series)
    if delta.closed:
        activation = None
    if delta.cells:
        cells = {**cells, **delta.cells}
    if delta.messages:
        histories = {**histories}
        for space, added in delta.messages.items():
            history = (histories.get(space) or History()).extended(added.messages, added.drop)
            if history:
                histories[space] = history
            else:
                histories.pop(space, None)  # a space without messages is none
    if delta.usage:
        usage = {**usage}
        for node, spent in delta.usage.items():
            usage[node] = usage[node] + spent if node in usage else spent
    return Session(
        session.id,
        session.graph,
        delta.revision,
        delta.head or session.head,
        delta.limits or session.limits,
        cells,
        histories,
        usage,
        activation,
        results,
        series,
        session.errors + delta.errors if delta.errors else session.errors,
        _journal_after(session.journal, delta) if session.journal or delta.notes or delta.forgets else session.journal,
        session.incarnation,
    )


def _journal_after(journal: Mapping[Place, tuple[Note, ...]], delta: Delta) -> Mapping[Place, tuple[Note, ...]]:
    after = {} if delta.forgets else {**journal}
    for row in delta.rows:
        after.pop(row.place, None)
    for note in delta.notes:
        place = note.node, note.item
        after[place] = (*after.get(place, ()), note)
    return after


def _outputs(
    activation: Activation | None, once: tuple[str, ...], each: tuple[str, ...]
) -> tuple[Mapping[str, object], Mapping[str, tuple[object, ...]]]:
    """What workers of a whole activation yielded, and in input order what those yielded that ran for each item."""
    if activation is None:
        return {}, dict.fromkeys(each, ())  # a scatter over nothing, opened and closed at once
    rows, items = activation.rows, len(activation.inputs or ())
    results = {worker: rows[worker, None].output for worker in once}
    return results, {worker: tuple([row.output for row in rows.each(worker, items)]) for worker in each}


def _activation_after(activation: Activation, delta: Delta) -> Activation:
    rows, marks = activation.rows, activation.marks
    if delta.rows:
        rows = rows.with_rows(delta.rows)
    marks = frozenset() if delta.marks is None else marks.union(delta.marks) if delta.marks else marks
    return Activation(
        activation.id, activation.parent, activation.roots, activation.depth, rows, marks, activation.inputs
    )


def unshared(session: Session) -> Session:
    """The session with mappings of its own, as a store may go on with those it has, and without journals.  Rule F2."""
    opened = session.activation
    if opened is not None:
        opened = replace(
            opened, rows=Rows(replace(row, cells={**row.cells}, usage={**row.usage}) for row in opened.rows.values())
        )
    return replace(
        session,
        cells={**session.cells},
        histories={**session.histories},
        usage={**session.usage},
        activation=opened,
        results={**session.results},
        series={**session.series},
        journal={},
    )


@final
@frozen
class Turn:
    """What one call into a session came to.

    Attributes:
        session: The session's id.
        status: `idle` (the cursor waits for input) or `completed`.
        reply: What the customer is told, or None.
        cursor: The id of the node that owns the next turn, or END.
        usage: What this turn spent.
        revision: The session's revision after it: how many commits it has had, which is outside equality.
    """

    session: str
    status: Status
    reply: str | None
    cursor: str
    usage: Usage
    revision: int = attribute(eq=False)
