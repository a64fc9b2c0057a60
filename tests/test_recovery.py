"""A process that ends anywhere loses no published step and repeats no finished one.  Rules E5, G4, G6, L3."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest
from faults import Crash, PatientStore
from puppets import W1, W2, W3, A, B, C, J, Note, Play, app
from test_machine import seen_in
from transcripts import Asked, all_told, told

from ezgraph import (
    StepFailed,
    StepLimit,
    ToolCall,
    UnfinishedWork,
    direct,
    direct_to,
    fanout,
    go,
    stay,
    task_result,
)
from ezgraph.models import ModelReply
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore


def raising(ctx: Any) -> Any:
    raise LookupError("on purpose")


def saving(answer: Any, n: int) -> Callable[[Any], Any]:
    def act(ctx: Any) -> Any:
        ctx.save(Note(n))
        return answer

    return act


def journey() -> Play:
    """A, then C with a tool, then branches with a chain, then the joined stage, then A again."""
    return Play(
        A=[saving(go(C).with_message("look").with_state(Note(2)), 1), lambda ctx: direct(f"end {ctx.read(J).n}")],
        C=[lambda request: ModelReply(calls=(ToolCall("c1", "do", '{"k": 1}'), ToolCall("c2", "do", '{"k": 2}')))],
        C1=lambda ctx: stay("seen"),
        C2=saving(fanout(W1, W2, W3), 3),
        W1=saving(task_result(1), 4),
        W2=lambda ctx: task_result(2),
        W3=saving(task_result(3), 5),
        W4=lambda ctx: task_result(ctx.result(W3) + ctx.read(W3).n),
        J=lambda ctx: go(A).with_message(f"{ctx.result(W1)} {ctx.read(W3).n}") if not ctx.save(Note(6)) else None,
    )


NODES = ("A", "C", "W1", "W2", "W3", "W4", "J", "A")


CALLS = ("C1", "C2")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize(("durability", "notes"), [("call", len(CALLS)), ("step", 0)])
def test_l3_a_process_that_ends_at_any_commit_goes_on_to_the_same_end(
    when: Literal["before", "after"], limit: int | None, durability: str, notes: int, tmp_path: Path
) -> None:
    """Only the bytes are left; what was published is not run again, and the end is as if nothing had happened.

    Nor is a call that had finished, where calls are journalled, or the model message that asked for it: rule F2.
    """
    with SQLiteStore(tmp_path / "whole.db") as file:
        whole = app(journey(), store=file, durability=durability)
        expected = whole.invoke("hello", session="s").reply
        wanted = seen_in(whole.load("s"))
        commits = whole.load("s").revision
    assert (expected, commits) == ("end 6", len(NODES) + notes)
    for at in range(1, commits + 1):
        path = tmp_path / f"{at}.db"
        with SQLiteStore(path) as file:
            store = PatientStore(file)
            store.arm((at, when))
            first = journey()
            with pytest.raises(Crash):
                app(first, store=store, model=Asked(first), max_branches=limit, durability=durability).invoke(
                    "hello", session="s"
                )
        published = at if when == "after" else at - 1
        with SQLiteStore(path) as file:
            second = journey()
            done = [node for delta in store.deltas for node in delta_nodes(delta)]
            if "A" in done:
                second.acts["A"].pop(0)
            graph = app(second, store=file, model=Asked(second), max_branches=limit, durability=durability)
            if published == 0:
                assert graph.invoke("hello", session="s").reply == expected
            else:
                left = graph.unfinished(graph.load("s"))
                assert bool(left) == (published < commits)
                if left:
                    with pytest.raises(UnfinishedWork):
                        graph.invoke("hello?", session="s")
                turn = graph.recover("s")
                assert turn.reply == (expected if published < commits else None)
            assert seen_in(graph.load("s")) == wanted
            again = [node for node in second.runs if node in done and node != "A"]
            assert not again
            asked = [request.node for request in second.requests]
            assert asked == ([] if {"C", *CALLS} & set(done) else ["C"]), "the model's message is in the journal"
            assert ("prompt" in second.runs) == bool(asked)


def delta_nodes(delta: Any) -> list[str]:
    """The nodes whose outcome a delta publishes, as far as it tells, and the calls that it says have finished."""
    if delta.notes:
        return [CALLS[int(note.at.partition(".")[2])] for note in delta.notes if note.outcome is not None]
    if delta.opened:
        return ["C"]
    if delta.closed:
        return ["W1", "W2", "W3", "W4"]
    if delta.rows:
        return [row.node for row in delta.rows]
    return [node for node in delta.cells if node in {"A", "J"}]


def test_g6_recovery_does_nothing_where_nothing_is_owed() -> None:
    play = Play()
    graph = app(play)
    graph.invoke("hello", session="s")
    before = graph.load("s")
    turn = graph.recover("s")
    assert (turn.status, turn.reply, turn.cursor, turn.revision) == ("idle", None, "A", before.revision)
    assert graph.load("s") == before
    assert play.runs == {"A": 1}


def test_g6_recovery_enters_the_stage_that_a_go_led_to_and_nothing_else() -> None:
    play = Play(A=saving(go(B).with_message("for you"), 1), B=[raising, lambda ctx: direct(ctx.incoming.text)])
    graph = app(play)
    with pytest.raises(StepFailed):
        graph.invoke("hello", session="s")
    session = graph.load("s")
    left = ("B failed, and runs again unless new input comes first",)
    assert (session.head.cursor, graph.unfinished(session)) == ("B", left)
    assert session.failure == session.errors[-1]
    assert session.errors[-1].node == "B"
    assert graph.recover("s").reply == "for you"
    assert graph.load("s").failure is None
    assert play.runs == {"A": 1, "B": 2}
    assert told(graph.load("s")) == [("user", "hello"), ("user", "for you"), ("assistant", "for you")]
    assert graph.recover("s").reply is None


def test_g6_new_input_goes_over_a_stages_step_that_raised() -> None:
    play = Play(A=lambda ctx: go(B), B=[raising, lambda ctx: direct(ctx.incoming.text)])
    graph = app(play)
    with pytest.raises(StepFailed):
        graph.invoke("hello", session="s")
    assert graph.invoke("are you there?", session="s").reply == "are you there?"
    assert graph.recover("s").reply is None
    assert play.runs == {"A": 1, "B": 2}


def test_g6_recovery_may_fail_again_and_stays_owed() -> None:
    play = Play(A=lambda ctx: go(B), B=[raising, raising, raising, lambda ctx: direct("at last")])
    graph = app(play)
    with pytest.raises(StepFailed):
        graph.invoke("hello", session="s")
    for _ in range(2):
        with pytest.raises(StepFailed, match="B raised"):
            graph.recover("s")
    assert graph.recover("s").reply == "at last"
    assert len(graph.load("s").errors) == 3


def test_l7_the_generation_rises_with_every_recovery_and_is_outside_equality() -> None:
    play = Play(A=lambda ctx: go(B), B=[raising, raising, lambda ctx: direct("at last")])
    graph = app(play)
    with pytest.raises(StepFailed):
        graph.invoke("hello", session="s")
    generations = [graph.load("s").limits.generation]
    with pytest.raises(StepFailed):
        graph.recover("s")
    generations.append(graph.load("s").limits.generation)
    graph.recover("s")
    generations.append(graph.load("s").limits.generation)
    assert generations == [0, 1, 2]


def test_g6_two_recoveries_at_once_run_each_missing_step_into_the_session_once() -> None:
    async def main() -> None:
        together = asyncio.Barrier(2)

        async def meets(ctx: Any) -> Any:
            await together.wait()
            return direct("done")

        play = Play(A=lambda ctx: go(B), B=[raising, meets])
        graph = app(play)
        with pytest.raises(StepFailed):
            await graph.ainvoke("hello", session="s")
        first = asyncio.ensure_future(graph.arecover("s"))
        second = asyncio.ensure_future(graph.arecover("s"))
        done = await asyncio.gather(first, second, return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in done) == ["RevisionConflict", "Turn"]
        assert told(await graph.aload("s")) == [("user", "hello"), ("assistant", "done")]

    asyncio.run(main())


def test_r1_a_limit_that_was_too_small_is_raised_until_it_fits() -> None:
    steps = count(1)
    graph = app(Play(A=lambda ctx: go(A) if next(steps) < 6 else direct("done")))
    with pytest.raises(StepLimit, match="limit of 2 steps"):
        graph.invoke("go", session="s", step_limit=2)
    with pytest.raises(StepLimit, match="limit of 4 steps"):
        graph.recover("s", step_limit=4)
    with pytest.raises(UnfinishedWork, match="A was entered and has not finished"):
        graph.invoke("go", session="s")
    assert graph.recover("s", step_limit=6).reply == "done"


@pytest.mark.parametrize("kept", ["memory", "disk"])
def test_k2_a_commit_that_fails_leaves_the_old_state_all_of_it(kept: str, tmp_path: Path) -> None:
    """FIELD K2: an exception while the new state is built or written."""

    def unwritable(ctx: Any) -> Any:
        ctx.save(Note(3))
        ctx.share(Note(4))
        return direct_to(C, "two")

    with SQLiteStore(tmp_path / "s.db") as disk:
        inner = disk if kept == "disk" else MemoryStore()
        store = PatientStore(inner)
        graph = app(Play(A=[lambda ctx: direct("one"), unwritable]), store=store)
        graph.invoke("hello", session="s")
        before = graph.load("s")
        store.arm((1, "before"))
        with pytest.raises(Crash):
            graph.invoke("again", session="s")
        store.arm()
        assert seen_in(graph.load("s")) == seen_in(before)
        assert graph.load("s").revision == before.revision
        assert all_told(before) == {"default": [("user", "hello"), ("assistant", "one")]}


def test_f7_a_commit_that_failed_leaves_no_message_behind_in_memory() -> None:
    """Histories share their lists; what was never committed must not show through them."""
    store = PatientStore(MemoryStore())
    graph = app(Play(A=lambda ctx: direct(ctx.incoming.text)), store=store)
    graph.invoke("one", session="s")
    store.arm((1, "before"))
    with pytest.raises(Crash):
        graph.invoke("lost", session="s")
    store.arm()
    graph.invoke("two", session="s")
    assert told(graph.load("s")) == [("user", "one"), ("assistant", "one"), ("user", "two"), ("assistant", "two")]
