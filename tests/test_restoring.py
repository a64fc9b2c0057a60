"""Input that comes back to a session: a policy keeps it, changes it or starts it over.  Rules G4, G6."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from faults import Clock
from msgspec.structs import replace

from ezgraph import (
    BranchFailed,
    Context,
    Direct,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    InvalidInput,
    InvalidResponse,
    RevisionConflict,
    SessionCompleted,
    StageContext,
    StateTypeError,
    TaskResult,
    UnfinishedWork,
    UnknownTarget,
    Worker,
    direct,
    fanout,
    finish,
    go,
    task_result,
)
from ezgraph.algebra.restoring import restoring
from ezgraph.notes import Note
from ezgraph.restoring import Decision, Policy, Restored, change, keep, start_over, start_over_after
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.session import END, Session, apply
from ezgraph.stores.contract import Archive
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore


class Desk(GraphNode[int]):
    def run(self, ctx: StageContext[int]) -> Direct | Finish | Go[Night] | Fanout[Fetch | Count]:
        ctx.save(ctx.state + 1)
        match ctx.incoming.text if ctx.incoming else "":
            case "bye":
                return finish("bye")
            case "fetch":
                return fanout(Fetch, Count)
            case "night":
                return go(Night)
            case _:
                return direct(f"{ctx.state}")


class Fetch(Worker[None, str]):
    def run(self, ctx: Context[None]) -> TaskResult[str]:
        raise OSError("the line is dead")


class Count(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(1)


class Night(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct("we are closed")


class Stray(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct("nobody comes here")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Archive]:
    if request.param == "memory":
        yield MemoryStore(clock=clock)
    else:
        with closing(SQLiteStore(tmp_path / "s.db", clock=clock)) as made:
            yield made


def app_of(store: Archive, policy: Policy | None = None) -> CompiledGraph:
    graph = Graph("desk", entry=Desk).stages(Night).workers(Fetch, Count).join((Fetch, Count), to=Night)
    return graph.compile(store=store, on_restore=policy)


def always(decision: Any) -> Policy:
    def policy(_: Restored) -> Decision:
        return decision  # type: ignore[no-any-return]

    return policy


def log(session: Session) -> list[tuple[str, str]]:
    return [(record.level, record.text) for record in session.errors]


def test_g6_the_policy_is_asked_about_what_is_there_and_of_nothing_else(store: Archive, clock: Clock) -> None:
    asked: list[Restored] = []

    async def policy(restored: Restored) -> Decision:
        asked.append(restored)
        return keep()

    app = app_of(store, policy)
    assert app.invoke("hi", session="s").reply == "1"
    assert asked == [], "a new session is not restored"
    before = app.load("s")
    clock.now += 90
    assert app.invoke("hi", session="s").reply == "2"
    (restored,) = asked
    assert (restored.session, restored.status, restored.idle) == (before, "idle", timedelta(seconds=90))
    app.invoke("bye", session="s")
    with pytest.raises(SessionCompleted):
        app.invoke("more", session="s")
    assert asked[-1].status == "completed"
    with pytest.raises(SessionCompleted):
        list(app.stream("hi", session="s"))
    assert len(asked) == 4, "a stream asks as well"
    assert app.load("s").revision == 3, "to keep it writes nothing"


def test_g6_a_session_that_was_idle_for_too_long_starts_over(store: Archive, clock: Clock) -> None:
    app = app_of(store, start_over_after(timedelta(days=7)))
    app.invoke("hi", session="s")
    clock.now += 86400 * 7 - 1
    assert app.invoke("hi", session="s").reply == "2"
    clock.now += 86400 * 7
    spent = app.load("s").usage
    assert app.invoke("hi", session="s").reply == "1"
    after = app.load("s")
    assert [message.text for message in after.histories["default"]] == ["hi", "1"]
    assert log(after) == [("warning", "nothing was said for 7 days, 0:00:00")]
    assert (after.cells, after.usage) == ({"Desk": 1}, spent)
    assert app_of(store).load("s") == after


def test_g6_a_completed_session_can_begin_again(store: Archive) -> None:
    """Before the completed check."""
    app_of(store).invoke("bye", session="s")
    assert app_of(store, always(start_over("they came back"))).invoke("hi", session="s").reply == "1"
    assert log(app_of(store).load("s")) == [("warning", "they came back")]
    app_of(store).invoke("bye", session="s")
    assert app_of(store, always(change(to=Night))).invoke("hi", session="s").reply == "we are closed"


def test_g6_what_is_left_is_dropped_where_the_policy_moves_on(store: Archive) -> None:
    app = app_of(store)
    for session in ("over", "moved", "kept", "changed"):
        with pytest.raises(BranchFailed):
            app.invoke("fetch", session=session)
    assert app_of(store, always(start_over())).invoke("hi", session="over").reply == "1"
    to_night = always(change(to=Night, warning="at night"))
    assert app_of(store, to_night).invoke("hi", session="moved").reply == "we are closed"
    for session, decision in (("kept", keep()), ("changed", change({Desk: 40}, warning="set"))):
        before = store.export(session)
        with pytest.raises(UnfinishedWork):
            app_of(store, always(decision)).invoke("hi", session=session)
        assert store.export(session) == before, "what refuses the input changes nothing"
    assert app.load("moved").activation is None
    assert log(app.load("moved"))[-1] == ("warning", "at night")


def test_g6_a_change_sets_states_and_goes_on(store: Archive) -> None:
    app_of(store).invoke("hi", session="s")
    app = app_of(store, always(change({Desk: 40})))
    assert app.invoke("hi", session="s").reply == "41"
    assert app.load("s").errors == ()
    revision = app.load("s").revision
    app_of(store, always(change())).invoke("hi", session="s")
    assert app.load("s").revision == revision + 1, "a change of nothing writes nothing"


@pytest.mark.parametrize(
    ("decision", "error", "told"),
    [
        (None, InvalidResponse, r"on_restore: returned None. Return keep\(\), change\(...\) or start_over\(...\)"),
        ("keep", InvalidResponse, "returned 'keep'"),
        (change({Desk: "x"}), StateTypeError, "must be int, and is str"),
        (change({Stray: None}), UnknownTarget, "Stray"),
        (change(to=Stray), UnknownTarget, "Stray"),
        (change(to=Fetch), InvalidResponse, r"change\(to=Fetch\) names a worker"),  # type: ignore[arg-type]
    ],
)
def test_m2_what_is_no_decision_changes_nothing(
    store: Archive, decision: Any, error: type[Exception], told: str
) -> None:
    app_of(store).invoke("hi", session="s")
    before = store.export("s")
    with pytest.raises(error, match=told):
        app_of(store, always(decision)).invoke("hi", session="s")
    assert store.export("s") == before


def test_g6_a_policy_that_raises_changes_nothing(store: Archive) -> None:
    def policy(_: Restored) -> Decision:
        raise LookupError("no calendar")

    app_of(store).invoke("hi", session="s")
    before = store.export("s")
    with pytest.raises(LookupError, match="no calendar") as caught:
        app_of(store, policy).invoke("hi", session="s")
    assert caught.value.__notes__ == ["in on_restore, of session 's'; nothing was changed"]
    assert store.export("s") == before


def test_l2_of_two_that_restore_at_once_one_conflicts(store: Archive) -> None:
    async def policy(_: Restored) -> Decision:
        await app_of(store).ainvoke("meanwhile", session="s")
        return start_over()

    app_of(store).invoke("hi", session="s")
    with pytest.raises(RevisionConflict):
        app_of(store, policy).invoke("hi", session="s")
    assert app_of(store).load("s").cells == {"Desk": 2}


def test_f3_what_a_policy_is_handed_is_its_own(store: Archive) -> None:
    def policy(restored: Restored) -> Decision:
        cells: Any = restored.session.cells
        cells["Desk"] = 99
        return keep()

    app_of(store).invoke("hi", session="s")
    assert app_of(store, policy).invoke("hi", session="s").reply == "2"


@pytest.mark.parametrize("warning", [None, 5, b"x", "\ud800"])
def test_l4_a_warning_that_could_not_be_loaded_is_refused_where_it_is_made(warning: Any) -> None:
    with pytest.raises(InvalidResponse, match="its text"):
        start_over(warning)
    if warning is not None:
        with pytest.raises(InvalidResponse, match="its text"):
            change(warning=warning)
    states: Any = "x"
    with pytest.raises(InvalidResponse, match=r"change\('x'\).*Pass states by class"):
        change(states)


def test_g6_a_completed_session_that_a_change_does_not_open_stays_as_it_is(store: Archive) -> None:
    app_of(store).invoke("bye", session="s")
    before = store.export("s")
    with pytest.raises(SessionCompleted):
        app_of(store, always(change({Desk: 40}, warning="set"))).invoke("hi", session="s")
    assert store.export("s") == before


def test_g6_who_moves_on_keeps_no_results_and_no_journal(store: Archive) -> None:
    app = app_of(store)
    app.invoke("hi", session="s")
    held = replace(
        app.load("s"),
        results={"Count": 1},
        series={"Fetch": ("a",)},
        journal={("Desk", None): (Note("Desk", None, "call 0.0"),)},
    )
    delta = restoring(app.plan, held, change(to=Night))
    assert delta is not None
    after = apply(held, delta)
    assert (after.results, after.series, after.journal, after.head.cursor) == ({}, {}, {}, "Night")
    assert delta.forgets
    anew = restoring(app.plan, held, start_over())
    assert anew is not None
    for then in (after, apply(held, anew)):  # what is still under way is stale
        assert (then.head.run, then.limits.generation) == (held.head.run + 1, held.limits.generation + 1)
        assert then.limits.steps == held.limits.steps


def test_m2_what_is_no_policy_is_told() -> None:
    wrong: Any = "keep"
    with pytest.raises(InvalidInput, match="on_restore='keep': pass a function of one Restored"):
        Graph("desk", entry=Night).compile(on_restore=wrong)
    bare: Any = type("Bare", (), {"load": print, "commit": print})()
    with pytest.raises(InvalidInput, match="a store that says how long a session was idle"):
        Graph("desk", entry=Night).compile(store=bare, on_restore=always(keep()))
    for idle in (timedelta(0), timedelta(-1), 7):
        span: Any = idle
        with pytest.raises(InvalidInput, match="pass a positive timedelta"):
            start_over_after(span)


def test_b4_a_session_that_starts_over_stands_at_the_entry(store: Archive) -> None:
    app_of(store).invoke("bye", session="s")
    assert app_of(store).load("s").head.cursor == END
    app_of(store, always(start_over())).invoke("hi", session="s")
    assert app_of(store).load("s").head.cursor == "Desk"
