"""`settle` under duplicated, reordered and stale outcomes, where workers run once per item.  Rules E6, L7."""

from __future__ import annotations

from itertools import permutations
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st

from ezgraph import (
    END,
    Context,
    Direct,
    Fanout,
    Graph,
    GraphNode,
    StageContext,
    TaskResult,
    Usage,
    Worker,
    direct,
    fanout,
    scatter,
    task_result,
    user,
)
from ezgraph.activations import Activation, Row, Rows
from ezgraph.algebra.scheduling import (
    Step,
    abandoning,
    begun,
    follows,
    held,
    is_enabled,
    items_of,
    new_session,
    ready,
    recovering,
    work_left,
)
from ezgraph.algebra.settling import CONTINUE, Failed, Outcome, Published, Yielded, settle, settle_all
from ezgraph.compilation import plan_of
from ezgraph.plan import Plan
from ezgraph.session import Session, apply


class Split(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[First]:
        return scatter(First, [])


class First(Worker[int, int]):
    def run(self, ctx: Context[int]) -> TaskResult[int]:
        return task_result(0)


class Second(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(0)


class Third(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(0)


class Gather(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(0)


class Fan(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Second | Third | Gather]:
        return fanout(Second, Third, Gather)


class Over(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct("over")


def _plan(shape: str) -> Plan:
    """A diamond inside each item, a gather beside it, and a stage, END, or a job; or branches that run once."""
    if shape == "job":
        return plan_of(Graph("g", entry=Third).workers(Gather).edge(Third, Gather).edge(Gather, END).definition)
    if shape == "fan":
        fan = Graph("g", entry=Fan).stages(Over).workers(Second, Third, Gather)
        return plan_of(fan.join((Second, Third, Gather), to=Over).definition)
    policy: Any = "cancel_siblings" if shape == "cancel" else None
    graph = Graph("g", entry=Split).workers(First, Second, Third, Gather)
    graph = graph.edge(First, Second).edge(First, Third).join((First,), to=Gather)
    if shape == "ends":
        return plan_of(graph.edge(Second, END).edge(Third, END).edge(Gather, END).definition)
    graph = graph.stages(Over).join((Second, Third, Gather), to=Over, on_failure=policy)
    return plan_of(graph.definition)


PLANS: Final = {shape: _plan(shape) for shape in ("stage", "ends", "cancel", "job", "fan")}


def opened(plan: Plan, items: int) -> Session:
    session = begun(new_session(plan, "s", 0), None if plan.is_job else user("hi"), 25)
    (step,) = ready(plan, session)
    if plan.is_job:
        return after(plan, session, step, outcome(step))
    answer = fanout(Second, Third, Gather) if plan.entry == "Fan" else scatter(First, list(range(items)))
    return after(plan, session, step, Published(answer, {step.node: items, "Shared": "stage"}, {}))


def outcome(step: Step) -> Published:
    """What a step comes to, always: a pure function of where it stands.

    It stages its own state, and that of a worker which all of them call.
    """
    item = -1 if step.item is None else step.item
    cells: dict[str, object] = {step.node: 100 * item + 7, "Shared": step.node}
    return Published(Yielded(100 * item + len(step.node)), cells, {}, {step.node: Usage(requests=1)})


CELLS: Final = {
    "stage": {"Gather": -93, "Shared": "Gather"},
    "ends": {"Gather": -93, "Shared": "Gather"},
    "cancel": {"Gather": -93, "Shared": "Gather"},
    "job": {"Third": -93, "Gather": -93, "Shared": "Gather"},
    "fan": {"Second": -93, "Third": -93, "Gather": -93, "Shared": "Gather"},
}
"""What an activation leaves: the states of those that run once, the last in dispatch order where they say the same."""


def after(plan: Plan, session: Session, step: Step, given: Outcome) -> Session:
    transition = settle(plan, session, step, given)
    assert transition is not None
    return apply(session, transition[0])


def straight(plan: Plan, session: Session) -> Session:
    """The end, one outcome after another in dispatch order."""
    while session.activation is not None:
        step = ready(plan, session)[0]
        session = after(plan, session, step, outcome(step))
    return session


shapes = st.sampled_from(["stage", "ends", "cancel", "job", "fan"])


@given(shapes, st.integers(0, 3), st.data())
def test_l7_duplicated_reordered_and_stale_outcomes_give_one_session(
    shape: str, items: int, data: st.DataObject
) -> None:
    """Rules E5, E6, L7: whatever comes, however often and in whatever order and company, there is one end."""
    plan = PLANS[shape]
    session = opened(plan, items)
    end, generation = straight(plan, session), 0
    past: list[tuple[Step, Outcome]] = []
    while session.activation is not None:
        steps = ready(plan, session)
        if not steps:
            assert session.activation.marks
            assert work_left(plan, session)
            session, generation = apply(session, recovering(session, 25)), generation + 1
            continue
        batch: list[tuple[Step, Outcome]] = []
        for step in data.draw(st.lists(st.sampled_from(steps), min_size=1, max_size=4)):
            fails = generation < 2 and data.draw(st.integers(0, 9)) == 0
            batch.append((step, Failed("ValueError", "no") if fails else outcome(step)))
        noise = [*past, *((Step(s.run, s.node, s.generation + 1, s.item), o) for s, o in batch)]
        noise += [(Step(s.run + 7, s.node, s.generation, s.item), o) for s, o in batch]
        noise += [(Step(s.run, s.node, s.generation, 99), o) for s, o in batch]
        for wrong in noise:
            assert not is_enabled(plan, session, wrong[0])
        mixed = data.draw(st.permutations([*noise, *batch]))
        first = {pair[0]: pair[1] for pair in reversed(mixed) if pair in batch}  # the first of a step counts
        delta = settle_all(plan, session, mixed)
        assert delta is not None
        one_by_one = session
        for step, told in first.items():
            one_by_one = after(plan, one_by_one, step, told)
        now = apply(session, delta)
        assert now == one_by_one
        if now.activation is not None:
            more = set(ready(plan, session)) - set(first) | set(follows(plan, now, list(first)))
            cancelled = now.activation.marks and plan.closure(now.activation).policy == "cancel_siblings"
            assert set(ready(plan, now)) == (set() if cancelled else more)
            assert held(plan, now) == {}
        past += first.items()
        session = now
    assert session == end
    assert session.cells == ({} if plan.is_job else {plan.entry: items}) | CELLS[shape]
    assert settle_all(plan, session, past) is None
    assert not any(is_enabled(plan, session, step) or settle(plan, session, step, told) for step, told in past)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_e6_results_are_in_input_order_whatever_ends_first(order: tuple[int, ...]) -> None:
    plan = PLANS["stage"]
    session = opened(plan, 3)
    for node in ("First", "Third", "Second"):
        for item in order:
            (step,) = [s for s in ready(plan, session) if (s.node, s.item) == (node, item)]
            session = after(plan, session, step, outcome(step))
    (gather,) = ready(plan, session)
    session = after(plan, session, gather, outcome(gather))
    assert session.series == {"First": (5, 105, 205), "Second": (6, 106, 206), "Third": (5, 105, 205)}
    assert session.results == {"Gather": -94}
    assert list(session.usage) == ["First", "Second", "Third", "Gather"]
    assert [spent.requests for spent in session.usage.values()] == [3, 3, 3, 1]
    assert session.cells == {"Split": 3, "Gather": -93, "Shared": "Gather"}, "what an item saved was its own"


@pytest.mark.parametrize("order", list(permutations(("Second", "Third", "Gather"))), ids="-".join)
def test_e4_states_are_merged_in_dispatch_order_whatever_ends_first(order: tuple[str, ...]) -> None:
    """Rule E4: where several say of one worker that they called, the last in the plan's order is kept."""
    plan = PLANS["fan"]
    session = opened(plan, 0)
    for node in order:
        (step,) = [s for s in ready(plan, session) if s.node == node]
        assert session.cells == {"Fan": 0, "Shared": "stage"}, "nothing of a branch is seen before all have ended"
        session = after(plan, session, step, outcome(step))
    assert session.cells == {"Fan": 0, **CELLS["fan"]}
    assert list(session.cells) == ["Fan", "Shared", "Second", "Third", "Gather"]


def test_e9_a_gather_is_one_deeper_than_its_deepest_item() -> None:
    plan = PLANS["stage"]
    session = begun(new_session(plan, "s", 0), user("hi"), 2)
    (step,) = ready(plan, session)
    session = after(plan, session, step, Published(scatter(First, [1, 2]), {}, {}))
    while steps := ready(plan, session):
        session = after(plan, session, steps[0], outcome(steps[0]))
    assert held(plan, session) == {"Second": 3, "Third": 3, "Gather": 3}
    assert work_left(plan, session) == (
        "of the 2 items of Second, opened by Split, 2 have not finished",
        "of the 2 items of Third, opened by Split, 2 have not finished",
        "branch Gather, opened by Split, has not finished",
        "Over waits to be joined",
    )


@pytest.mark.parametrize(("shape", "waiting"), [("stage", {"Second": 3, "Third": 3}), ("cancel", {})])
def test_e9_the_limit_holds_nothing_that_a_failure_has_cancelled(shape: str, waiting: dict[str, int]) -> None:
    """Rules E5, E9: under `cancel_siblings` it is the failed branch that the others wait for, and no larger limit."""
    plan = PLANS[shape]
    session = begun(new_session(plan, "s", 0), user("hi"), 2)
    (step,) = ready(plan, session)
    session = after(plan, session, step, Published(scatter(First, [1, 2]), {}, {}))
    first, second = ready(plan, session)
    session = after(plan, session, first, outcome(first))
    session = after(plan, session, second, Failed("ValueError", "no"))
    assert ready(plan, session) == ()
    assert held(plan, session) == waiting


def test_g6_abandoning_makes_what_is_under_way_stale() -> None:
    plan = PLANS["stage"]
    session = opened(plan, 2)
    steps = ready(plan, session)
    left = apply(session, abandoning(session))
    assert (left.activation, left.head.cursor, left.head.owed) == (None, "Split", False)
    assert left.head.run > session.head.run
    assert all(settle(plan, left, step, outcome(step)) is None for step in steps)
    assert settle_all(plan, left, [(step, outcome(step)) for step in steps]) is None


def test_a8_a_stage_that_continues_is_no_scatter() -> None:
    plan = PLANS["job"]
    assert opened(plan, 0).activation is not None
    assert items_of(Activation(1, "Split", ("First",), 1)) == 0
    session = begun(new_session(PLANS["stage"], "s", 0), user("hi"), 25)
    (step,) = ready(PLANS["stage"], session)
    assert after(PLANS["stage"], session, step, Published(CONTINUE, {}, {})).activation is None


# -------------------------------------------------------------------------------------------------------------- Rows


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=14))
def test_f7_rows_are_a_mapping_whatever_views_are_grown(growths: list[tuple[int, int]]) -> None:
    """Each view keeps what it had, whichever of them grows, and two that grow otherwise stay apart."""
    views: list[tuple[Rows, dict[Any, Row]]] = [(Rows(), {})]
    for at, item in growths:
        rows, known = views[at % len(views)]
        row = Row("W", item, 1, item=item)
        if row.place not in known:
            views.append((rows.with_rows((row,)), {**known, row.place: row}))
        for view, told in views:
            assert dict(view) == told
            assert (len(view), list(view), list(view.values())) == (len(told), list(told), list(told.values()))
            assert view.count("W") == len(told)
            assert view.count("V") == 0
            assert all((("W", n) in view) == (("W", n) in told) for n in range(6))
            assert view == Rows(told.values())
    with pytest.raises(KeyError):
        views[0][0]["W", 0]
    assert repr(Rows([Row("W", 1, 1)])).startswith("Rows([Row(node='W'")


def test_f7_the_same_row_twice_is_one() -> None:
    row = Row("W", 1, 1)
    rows = Rows()
    assert rows.with_rows((row,)) == rows.with_rows((row,)) == Rows([row])
