"""What runs next, over random plans and every order of outcomes: each worker once, after what leads into it, one end.

No event loop and no node runs here: `ready` and `settle` are driven as the pure functions they are.  Rules E1, E2, E4,
E9, L7, A9, H6.  The oracle below is worked out from the declarations alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from types import new_class
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, strategies as st
from msgspec.structs import replace

from ezgraph import (
    END,
    Context,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    StageContext,
    TaskResult,
    Worker,
    fanout,
    finish,
    go,
)
from ezgraph.activations import Rows
from ezgraph.algebra.scheduling import (
    Step,
    begun,
    follows,
    held,
    is_enabled,
    is_owed,
    new_session,
    ready,
    recovering,
    seen_by,
    work_left,
)
from ezgraph.algebra.settling import CONTINUE, Answer, Failed, Outcome, Published, Reply, Yielded, settle
from ezgraph.compilation import plan_of
from ezgraph.messages import Usage, user
from ezgraph.plan import Plan, Wiring
from ezgraph.session import Session, apply, is_completed

NAMES = ("A", "B", "C", "D", "E")


@frozen
class Mark:
    """What a worker saves: which it was."""

    by: str = ""


class Join(GraphNode[None]):
    """The stage that activations close into."""

    def run(self, ctx: StageContext[None]) -> Finish | None:
        return finish("joined")


class Work(Worker[Mark, str]):
    """What every worker here is made from; it never runs."""

    def run(self, ctx: Context[Mark]) -> TaskResult[str]:
        raise NotImplementedError


CLASSES: dict[str, Any] = {name: new_class(name, (Work,)) for name in NAMES}


class Start(GraphNode[None]):
    """Opens any of the workers, as `graph` annotates it."""

    def run(self, ctx: StageContext[None]) -> Go[Join] | None:
        return go(Join)


# ------------------------------------------------------------ declarations and the oracle


@frozen
class Declared:
    """Workers in registration order, what each leads to (empty: END), and which of the links into the stage are joins.

    Attributes:
        workers: In registration order.
        out: By worker, the workers it leads to.
        last: The workers that lead into the stage, or to END where there is no stage.
        joins: Groups of `last` that are declared as a join; the rest has edges.
        stage: Whether there is a stage to close into.
    """

    workers: tuple[str, ...]
    out: Mapping[str, tuple[str, ...]]
    last: tuple[str, ...]
    joined: int
    stage: bool

    def before(self, node: str, inside: Iterable[str]) -> set[str]:
        """The workers of `inside` that lead into a worker, or into the stage."""
        return {w for w in inside if (w in self.last if node == "Join" else node in self.out[w])}

    def inside(self, roots: Iterable[str]) -> set[str]:
        """What an opening of `roots` runs."""
        found = set(roots)
        while more := {after for w in found for after in self.out[w]} - found:
            found |= more
        return found

    def order(self, inside: set[str]) -> list[str]:
        """The merge order: each worker after what leads into it, ties in registration order."""
        found: list[str] = []
        left = list(self.workers)
        while left:
            free = next(w for w in left if not self.before(w, left))
            left.remove(free)
            found.append(free)
        return [w for w in found if w in inside]

    def depth(self, node: str, inside: set[str], start: int) -> int:
        """Node runs in the longest chain up to a worker or the stage."""
        return 1 + max((self.depth(w, inside, start) for w in self.before(node, inside)), default=start)

    def ancestors(self, node: str, inside: set[str]) -> set[str]:
        near = self.before(node, inside)
        return near | {far for w in near for far in self.ancestors(w, inside)}


@st.composite
def declarations(draw: st.DrawFn, most: int = 5) -> Declared:
    """Chains, diamonds, trees: any acyclic shape, told in any order of registration."""
    workers = tuple(draw(st.permutations(NAMES[: draw(st.integers(1, most))])))
    ranked = draw(st.permutations(workers))
    out = {
        worker: tuple(draw(st.sets(st.sampled_from(ranked[at + 1 :]), max_size=2))) if at + 1 < len(ranked) else ()
        for at, worker in enumerate(ranked)
    }
    out = {worker: tuple(sorted(targets)) for worker, targets in out.items()}
    stage: bool = draw(st.booleans())
    ends = [w for w in workers if not out[w]]
    last = (*ends, *(w for w in workers if stage and out[w] and draw(st.integers(0, 3)) == 0))
    return Declared(workers, out, last, draw(st.integers(0, len(last))), stage)


def graph(declared: Declared, *, by_edges: Sequence[str] = ()) -> Any:  # noqa: C901  a branch for each way to say it
    """The same as a graph; `by_edges` are the workers that the start opens where it continues."""
    returns: Any = Go[Join] | None
    for pair in combinations(declared.workers, 2):
        union: Any = CLASSES[pair[0]] | CLASSES[pair[1]]
        returns |= Fanout[union]
    if len(declared.workers) > 2:
        union = CLASSES[declared.workers[0]]
        for worker in declared.workers[1:]:
            union |= CLASSES[worker]
        returns |= Fanout[union]

    def run(self: object, ctx: StageContext[None]) -> None: ...

    run.__annotations__["return"] = returns
    start: Any = new_class("Start", (Start,), exec_body=lambda body: body.update(run=run))
    made: Any = Graph("g", entry=start).stages(start, Join).workers(*(CLASSES[w] for w in declared.workers))
    for worker, targets in declared.out.items():
        for at, target in enumerate(targets):  # an edge and a join of one are the same
            one, other = CLASSES[worker], CLASSES[target]
            made = made.edge(one, other) if at % 2 == 0 else made.join((one,), to=other)
    if not declared.stage:
        for worker in declared.last:
            made = made.edge(CLASSES[worker], END)
    else:
        joined, rest = declared.last[: declared.joined], declared.last[declared.joined :]
        if joined:
            made = made.join(tuple(CLASSES[w] for w in joined), to=Join)
        for worker in rest:
            made = made.edge(CLASSES[worker], Join)
    for worker in by_edges:
        made = made.edge(start, CLASSES[worker])
    return made.edge(Join, END)


def plan(declared: Declared, *, by_edges: Sequence[str] = (), at_end: Any = "complete") -> Plan:
    return plan_of(graph(declared, by_edges=by_edges).definition, Wiring(at_end=at_end))


# ------------------------------------------------------------ driving


def published(answer: Answer, node: str = "Start", **cells: object) -> Published:
    return Published(answer, dict(cells), {}, {node: Usage(requests=1)})


def worked(name: str) -> Published:
    return published(Yielded(name.lower()), name, **{name: Mark(name)})


def settled(on: Plan, session: Session, step: Step, outcome: Outcome) -> Session:
    """After an outcome; what `follows` says of it is what `ready` says more than before.  Rule L7."""
    transition = settle(on, session, step, outcome)
    assert transition is not None
    assert transition[0].revision == session.revision + 1
    after = apply(session, transition[0])
    if session.activation is not None and not after.head.raised:
        more = set(ready(on, session)) - {step} | set(follows(on, after, [step]))
        assert set(ready(on, after)) == (more if after.activation is not None else set(follows(on, after, [step])))
    return after


def started(on: Plan, step_limit: int = 25) -> Session:
    return begun(new_session(on, "s", 0), user("hi"), step_limit)


def opened(on: Plan, declared: Declared, roots: Sequence[str], *, step_limit: int = 25) -> Session:
    """A session whose start has opened `roots`: by a fan-out, or along its edges where there is one only."""
    session = started(on, step_limit)
    (step,) = ready(on, session)
    answer: Answer = CONTINUE
    if len(roots) > 1:
        some: Any = fanout
        answer = some(*(CLASSES[root] for root in roots))
    return settled(on, session, step, published(answer))


@st.composite
def openings(draw: st.DrawFn, most: int = 5) -> tuple[Declared, tuple[str, ...]]:
    declared = draw(declarations(most))
    roots = draw(st.sets(st.sampled_from(declared.workers), min_size=1))
    return declared, tuple(sorted(roots, key=declared.workers.index))


def opening(declared: Declared, roots: Sequence[str], **options: Any) -> tuple[Plan, Session]:
    on = plan(declared, by_edges=roots if len(roots) == 1 else ())
    # Every annotated pair and all together are declared; any other set is one that the algebra does not mind.
    return on, opened(on, declared, roots, **options)


def check_state(declared: Declared, on: Plan, session: Session, roots: Sequence[str], done: set[str]) -> None:
    """What is ready, and what each ready step sees, is what the oracle says.  Rules E1, E2, E4."""
    inside = declared.inside(roots)
    activation = session.activation
    assert activation is not None
    assert set(activation.rows) == {(node, None) for node in done}
    expected = [w for w in declared.order(inside) if w not in done and declared.before(w, inside) <= done]
    steps = ready(on, session)
    assert [step.node for step in steps] == expected
    assert {(step.run, step.generation) for step in steps} <= {(activation.id, 0)}
    for worker in inside:
        step = Step(activation.id, worker, 0)
        assert is_enabled(on, session, step) == (worker in expected)
    for worker in expected:
        seen = seen_by(on, session, Step(activation.id, worker, 0))
        cells, results = seen.cells, seen.results
        assert not seen.series
        line = declared.ancestors(worker, inside)
        assert dict(results) == {w: w.lower() for w in line}
        assert dict(cells) == {w: Mark(w) for w in line}
        assert list(results) == [w for w in declared.order(inside) if w in line]


def check_closed(declared: Declared, on: Plan, session: Session, roots: Sequence[str]) -> None:
    """The activation closed once, into the stage or nowhere.  Rules A9, E2, E4, E9."""
    inside = declared.inside(roots)
    assert session.activation is None
    assert dict(session.cells) == {w: Mark(w) for w in inside}
    assert list(session.cells) == declared.order(inside)
    assert dict(session.usage) == {n: Usage(requests=1) for n in ("Start", *inside)}
    if not declared.stage:
        assert (session.head.cursor, session.head.owed, dict(session.results)) == ("Start", False, {})
        assert ready(on, session) == ()
        return
    assert (session.head.cursor, session.head.owed) == ("Join", True)
    assert session.head.depth == declared.depth("Join", inside, 1)
    assert dict(session.results) == {w: w.lower() for w in inside}
    assert [step.node for step in ready(on, session)] + list(held(on, session)) == ["Join"]


# ------------------------------------------------------------ the laws


@given(openings(4))
def test_e4_every_order_of_outcomes_ends_in_the_same_session(opening_of: tuple[Declared, tuple[str, ...]]) -> None:
    """Rules E1, E2: all interleavings of a small plan: every worker once, after all that leads into it, one end."""
    declared, roots = opening_of
    on, session = opening(declared, roots)
    ends: list[Session] = []
    seen: dict[frozenset[str], Session] = {}

    def explore(session: Session, done: frozenset[str]) -> None:
        if session.activation is None:
            check_closed(declared, on, session, roots)
            ends.append(session)
            return
        if (known := seen.setdefault(done, session)) is not session:
            assert known == session  # by whatever order it was reached
            return
        check_state(declared, on, session, roots, set(done))
        for step in ready(on, session):
            explore(settled(on, session, step, worked(step.node)), done | {step.node})

    explore(session, frozenset())
    assert ends
    assert all(end == ends[0] for end in ends)


@given(openings(), st.data())
def test_l7_duplicated_stale_and_reordered_outcomes_change_nothing(
    opening_of: tuple[Declared, tuple[str, ...]], data: st.DataObject
) -> None:
    """Rule L7: any outcome of any worker may arrive at any time; only one that is enabled settles, and once."""
    declared, roots = opening_of
    on, session = opening(declared, roots)
    number, inside, done, closings = session.head.run, declared.inside(roots), set[str](), 0
    while session.activation is not None:
        allowed = {step.node for step in ready(on, session)}
        for node in data.draw(st.lists(st.sampled_from([*declared.workers, "Join", "Start"]), max_size=3)):
            run, generation = data.draw(st.sampled_from([(number, 0), (number, 1), (number - 1, 0), (number + 1, 0)]))
            if (run, generation) == (number, 0) and node in allowed:
                continue
            assert settle(on, session, Step(run, node, generation), worked(node)) is None
        node = data.draw(st.sampled_from(sorted(allowed)))
        step = Step(number, node, 0)
        session = settled(on, session, step, worked(node))
        done.add(node)
        closings += int(session.activation is None)
        assert settle(on, session, step, worked(node)) is None  # delivered twice
    assert (done, closings) == (inside, 1)
    check_closed(declared, on, session, roots)
    for worker in inside:
        assert settle(on, session, Step(number, worker, 0), worked(worker)) is None


@given(openings(), st.data())
def test_e5_failures_leave_their_marks_and_recovery_runs_what_is_missing(
    opening_of: tuple[Declared, tuple[str, ...]], data: st.DataObject
) -> None:
    """Rules E5, G6, L7: a mark holds back what comes after it and nothing else; each row is written once."""
    declared, roots = opening_of
    on, session = opening(declared, roots)
    inside, rows, failed = declared.inside(roots), list[str](), set[str]()
    generation = 0
    while session.activation is not None:
        steps = ready(on, session)
        if not steps:
            assert failed
            assert session.activation.marks == {(node, None) for node in failed}
            blocked = {w for w in inside if w not in rows}
            assert all(w in failed or declared.ancestors(w, inside) & failed for w in blocked)
            left = work_left(on, session)
            assert [line for line in left if "failed" in line] == [
                f"branch {w}, opened by Start, failed" for w in declared.order(inside) if w in failed
            ]
            stale = Step(session.activation.id, min(failed), generation)
            session, generation, failed = apply(session, recovering(session, 25)), generation + 1, set()
            assert settle(on, session, stale, worked(stale.node)) is None
            continue
        step = data.draw(st.sampled_from(steps))
        assert step.generation == generation
        if generation < 2 and data.draw(st.booleans()):
            session = settled(on, session, step, Failed("ValueError", "no"))
            failed.add(step.node)
            assert settle(on, session, step, worked(step.node)) is None
        else:
            session = settled(on, session, step, worked(step.node))
            rows.append(step.node)
    assert sorted(rows) == sorted(inside)
    check_closed(declared, on, session, roots)
    assert len(session.errors) == session.revision - 1 - len(inside) - generation


@given(openings(), st.integers(1, 6))
def test_e9_the_limit_bounds_the_longest_chain(opening_of: tuple[Declared, tuple[str, ...]], limit: int) -> None:
    """Exactly N finishes; a step past the limit is held, stops its own branch only, and runs with a larger limit."""
    declared, roots = opening_of
    on, session = opening(declared, roots, step_limit=limit)
    inside = declared.inside(roots)
    deep = {w for w in inside if declared.depth(w, inside, 1) > limit}
    while session.activation is not None and (steps := ready(on, session)):
        session = settled(on, session, steps[-1], worked(steps[-1].node))
    if deep:
        assert session.activation is not None
        assert {node for node, _ in session.activation.rows} == inside - deep
        assert tuple(held(on, session)) == tuple(
            w for w in declared.order(inside) if w in deep and not declared.before(w, inside) & deep
        )
        assert is_owed(session)
        session = apply(session, recovering(session, 25))
        assert held(on, session) == {}
        while session.activation is not None:
            step = ready(on, session)[0]
            session = settled(on, session, step, worked(step.node))
    elif declared.stage:
        past = declared.depth("Join", inside, 1) > limit
        assert tuple(held(on, session)) == (("Join",) if past else ())
        assert [s.node for s in ready(on, session)] == ([] if past else ["Join"])
    check_closed(declared, on, session, roots)


# ------------------------------------------------------------ single shapes

CHAIN = Declared(("A", "B"), {"A": ("B",), "B": ()}, ("B",), 1, stage=True)
DIAMOND = Declared(("D", "C", "B", "A"), {"A": ("B", "C"), "B": ("D",), "C": ("D",), "D": ()}, ("D",), 1, stage=True)
LOOSE = Declared(("A", "B"), {"A": (), "B": ()}, ("A", "B"), 0, stage=False)


def test_e1_a_diamond_runs_its_foot_once() -> None:
    on, session = opening(DIAMOND, ("A",))
    ran = []
    while session.activation is not None:
        step = ready(on, session)[-1]
        ran.append(step.node)
        session = settled(on, session, step, worked(step.node))
    assert ran == ["A", "B", "C", "D"]
    assert list(session.results) == ["A", "C", "B", "D"]  # ties in registration order
    assert session.head.depth == 5


def test_e4_a_slow_sibling_does_not_delay_the_next_node_of_a_fast_branch() -> None:
    declared = Declared(("A", "B", "C"), {"A": (), "B": ("C",), "C": ()}, ("A", "C"), 2, stage=True)
    on, session = opening(declared, ("A", "B"))
    assert [s.node for s in ready(on, session)] == ["A", "B"]
    session = settled(on, session, ready(on, session)[1], worked("B"))
    assert [s.node for s in ready(on, session)] == ["A", "C"]
    assert work_left(on, session) == (
        "branch A, opened by Start, has not finished",
        "branch C, opened by Start, has not finished",
        "Join waits to be joined",
    )
    assert session.activation is not None
    assert work_left(on, replace(session, activation=replace(session.activation, rows=Rows()))) == (
        "branch A, opened by Start, has not finished",
        "branch B, opened by Start, has not finished",
        "C waits for B",
        "Join waits to be joined",
    )


def test_a9_branches_that_end_leave_the_cursor_with_the_parent() -> None:
    on, session = opening(LOOSE, ("A", "B"))
    for step in reversed(ready(on, session)):
        session = settled(on, session, step, worked(step.node))
    check_closed(LOOSE, on, session, ("A", "B"))
    assert work_left(on, session) == ()
    assert not is_owed(session)


@pytest.mark.parametrize(("at_end", "cursor", "completed"), [("complete", "END", True), ("wait", "Start", False)])
def test_h6_end_completes_or_waits_at_the_entry(at_end: str, cursor: str, *, completed: bool) -> None:
    on = plan(CHAIN, at_end=at_end)
    session = settled(on, started(on), ready(on, started(on))[0], published(go(Join)))
    assert (session.head.cursor, session.head.depth) == ("Join", 2)
    (step,) = ready(on, session)
    session = settled(on, session, step, published(CONTINUE))
    assert (session.head.cursor, is_completed(session), is_owed(session)) == (cursor, completed, False)
    assert settle(on, session, step, published(CONTINUE)) is None


def test_l7_a_stages_outcome_settles_once_and_in_its_own_run() -> None:
    on = plan(CHAIN)
    session = started(on)
    (step,) = ready(on, session)
    for wrong in (Step(step.run + 1, "Start", 0), Step(step.run, "Join", 0), Step(step.run, "Start", 1)):
        assert not is_enabled(on, session, wrong)
        assert settle(on, session, wrong, published(Reply("no"))) is None
    after = settled(on, session, step, published(Reply("yes")))
    assert settle(on, after, step, published(Reply("again"))) is None
    assert (after.head.cursor, ready(on, after), work_left(on, after)) == ("Start", (), ())


def test_g6_a_stage_that_raised_is_owed_only_where_no_input_entered_it() -> None:
    """Rule G4: the input is not kept; a `go` is."""
    on = plan(CHAIN)
    session = started(on)
    (step,) = ready(on, session)
    failed = settled(on, session, step, Failed("ValueError", "no"))
    assert (is_owed(failed), work_left(on, failed), ready(on, failed)) == (False, (), ())
    session = settled(on, session, step, published(go(Join)))
    assert work_left(on, session) == ("Join was entered and has not finished",)
    (step,) = ready(on, session)
    failed = settled(on, session, step, Failed("ValueError", "no"))
    assert (is_owed(failed), ready(on, failed), held(on, failed), work_left(on, failed)) == (True, (), {}, ())
    again = apply(failed, recovering(failed, 25))
    assert [(s.node, s.generation) for s in ready(on, again)] == [("Join", 1)]
    assert settle(on, again, step, published(CONTINUE)) is None


def test_e9_a_stage_past_the_limit_is_held() -> None:
    on = plan(CHAIN)
    session = started(on, step_limit=1)
    session = settled(on, session, ready(on, session)[0], published(go(Join)))
    assert (ready(on, session), tuple(held(on, session))) == ((), ("Join",))
    larger = apply(session, recovering(session, 2))
    assert (len(ready(on, larger)), held(on, larger)) == (1, {})
