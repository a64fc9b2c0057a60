"""One call into a session, from what is refused at the door to what the customer is told.  Sections E9, G, J4, L2."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from copy import deepcopy
from itertools import chain, count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, assert_type

import pytest
from faults import Await, Awaits, PatientStore, idle, no_other_task, stopped_when
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from puppets import W1, W2, W3, A, B, C, J, Note, Play, Stranger, app
from test_machine import Actors, programs, seen_in
from transcripts import Asked, all_told, said, told, valid_for_a_provider

from ezgraph import (
    BranchFailed,
    CallerError,
    Conversation,
    Direct,
    EzGraphError,
    ForeignFile,
    Go,
    Graph,
    GraphNode,
    InvalidInput,
    NodeError,
    RevisionConflict,
    RunningLoop,
    SessionCompleted,
    StageContext,
    StateTypeError,
    StepFailed,
    StepLimit,
    StepOver,
    StepTimeout,
    StoreUnavailable,
    ToolCall,
    Turn,
    UnknownSession,
    UnknownTarget,
    Usage,
    WrongGraph,
    assistant,
    direct,
    direct_to,
    fanout,
    finish,
    go,
    stay,
    task_result,
    tool_result,
    user,
)
from ezgraph.models import ModelReply, ModelRequest, ScriptedModel
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.runtime.events import TurnEnded
from ezgraph.session import Session
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore


def raising(ctx: Any) -> Any:
    raise LookupError("on purpose")


def anything(value: object) -> Any:
    """A value that no checker looks at."""
    return value


def saying(text: str) -> Callable[[Any], Direct]:
    return lambda ctx: direct(text)


def chain_of(length: int) -> Callable[[Any], Any]:
    """A stage that goes to itself until it has run `length` times."""
    steps = count(1)
    return lambda ctx: go(A) if next(steps) < length else direct("done")


def calling(*ks: int) -> Callable[[Any], ModelReply]:
    """What C's model says: call `do` with each of `ks`."""
    return lambda request: ModelReply(calls=tuple(ToolCall(f"c{k}", "do", f'{{"k": {k}}}') for k in ks))


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("session", ["", "  ", None, 7, b"s", "a\nb", "a\0b", "x" * 201, "\ud800"])
@pytest.mark.parametrize("method", ["invoke", "recover", "load", "stream"])
def test_m1_a_session_id_is_a_printable_text(method: str, session: Any) -> None:
    graph = app(Play())
    calls: dict[str, Callable[[], object]] = {
        "invoke": lambda: graph.invoke("hello", session=session),
        "recover": lambda: graph.recover(session),
        "load": lambda: graph.load(session),
        "stream": lambda: list(graph.stream("hello", session=session)),
    }
    with pytest.raises(InvalidInput, match="session id"):
        calls[method]()


@pytest.mark.parametrize("message", ["", " \n", None, 7, b"hello", ["hello"], assistant("hi"), tool_result("c", "r")])
def test_m1_a_message_is_what_the_customer_says(message: Any) -> None:
    play = Play()
    graph = app(play)
    with pytest.raises(InvalidInput, match="message is"):
        graph.invoke(message, session="s")
    with pytest.raises(UnknownSession, match="'s'"):
        graph.load("s")
    assert not play.runs


@pytest.mark.parametrize("limit", [0, -1, True, 2.0, "3", None])
def test_m1_a_step_limit_is_a_whole_number(limit: Any) -> None:
    graph = app(Play())
    with pytest.raises(InvalidInput, match=r"step_limit=.* 1 or more"):
        graph.invoke("hello", session="s", step_limit=limit)
    graph.invoke("hello", session="s")
    with pytest.raises(InvalidInput, match=r"step_limit=.* 1 or more"):
        graph.recover("s", step_limit=limit)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_branches": 0}, "max_branches=0"),
        ({"max_branches": True}, "max_branches=True"),
        ({"on_conflict": "ask"}, "on_conflict='ask'"),
        ({"at_end": "stop"}, "at_end='stop'"),
    ],
)
def test_f6_an_option_of_compile_is_checked_at_the_door(options: Any, named: str) -> None:
    """FIELD F6: a limit of 0 is refused."""
    with pytest.raises(InvalidInput, match=named):
        app(Play(), **options)


def test_g6_input_on_a_completed_session_is_refused_and_changes_nothing() -> None:
    play = Play(A=lambda ctx: finish("bye"))
    graph = app(play)
    assert graph.invoke("hello", session="s").status == "completed"
    before = graph.load("s")
    with pytest.raises(SessionCompleted, match="another session id") as caught:
        graph.invoke("again", session="s")
    assert caught.value.session == "s"
    assert graph.load("s") == before
    assert graph.recover("s").status == "completed"
    assert play.runs["A"] == 1


def test_m1_an_unknown_session_is_named_with_its_mend() -> None:
    graph = app(Play())
    for call in (graph.load, graph.recover):
        with pytest.raises(UnknownSession, match=r"no session 'nobody'.*ainvoke") as caught:
            call("nobody")
        assert caught.value.session == "nobody"


def test_l4_a_foreign_file_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "letters.txt"
    path.write_bytes(b"dear sir, " * 40)
    with SQLiteStore(path) as store:
        graph = app(Play(), store=store)
        with pytest.raises(ForeignFile, match="not a SQLite file"):
            graph.invoke("hello", session="s")
    assert path.read_bytes() == b"dear sir, " * 40
    assert list(tmp_path.iterdir()) == [path]


def test_m1_a_missing_folder_is_named_with_its_mend(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "no" / "claims.db") as store, pytest.raises(StoreUnavailable, match="Make the folder"):
        app(Play(), store=store).invoke("hello", session="s")


def test_l5_a_session_of_another_graph_is_refused(tmp_path: Path) -> None:
    other = Graph("other", entry=Stranger)
    with SQLiteStore(tmp_path / "s.db") as store:
        app(Play(), store=store).invoke("hello", session="s")
        with pytest.raises(WrongGraph, match="'puppets', not to 'other'"):
            other.compile(store=store).invoke("hello", session="s")
        assert told(app(Play(), store=store).load("s")) == [("user", "hello"), ("assistant", "ok")]


def test_m1_every_error_of_a_caller_is_one_of_ours() -> None:
    for error in (InvalidInput, RunningLoop, SessionCompleted, StepLimit, BranchFailed, RevisionConflict):
        assert issubclass(error, CallerError)
        assert issubclass(error, EzGraphError)


# ------------------------------------------------------------------------------------------------------- a failed turn


def test_g4_a_failed_turn_raises_is_logged_and_may_be_sent_again() -> None:
    play = Play(A=[saying("one"), raising, saying("two")])
    graph = app(play)
    graph.invoke("first", session="s")
    before = seen_in(graph.load("s"))
    with pytest.raises(StepFailed, match="A raised LookupError: on purpose") as caught:
        graph.invoke("second", session="s")
    assert isinstance(caught.value.error, LookupError)
    assert caught.value.__cause__ is caught.value.error
    assert caught.value.node == "A"
    failed = graph.load("s")
    assert seen_in(failed) == before
    (record,) = failed.errors
    assert (record.node, record.error, record.text) == ("A", "StepFailed", str(caught.value))
    assert graph.unfinished(failed) == ()
    graph.invoke("second", session="s")
    assert told(graph.load("s")) == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("assistant", "two"),
    ]


def test_g4_the_error_log_is_outside_session_equality() -> None:
    graph = app(Play(A=raising))
    with pytest.raises(StepFailed):
        graph.invoke("hello", session="s")
    session = graph.load("s")
    assert session.errors
    assert replace(session, errors=()) == session


def test_g4_the_first_turn_of_a_session_may_fail_and_be_sent_again() -> None:
    graph = app(Play(A=[raising, saying("two")]))
    with pytest.raises(StepFailed):
        graph.invoke("hello", session="s")
    assert all_told(graph.load("s")) == {}
    assert graph.invoke("hello", session="s").reply == "two"


def test_a5_after_a_go_the_writes_and_the_cursor_stand_though_the_target_failed() -> None:
    def moves(ctx: Any) -> Any:
        ctx.save(Note(3))
        return go(B)

    graph = app(Play(A=moves, B=raising))
    with pytest.raises(StepFailed, match="B raised"):
        graph.invoke("hello", session="s")
    session = graph.load("s")
    assert (session.cells, session.head.cursor) == ({"A": Note(3)}, "B")
    assert told(session) == [("user", "hello")]


@pytest.mark.parametrize("way", [go, lambda target: direct_to(target, "over")])
def test_c2_an_unknown_target_names_source_target_and_the_valid_names(way: Any) -> None:
    """FIELD C2: the write is not kept, and the next call works."""

    def strays(ctx: Any) -> Any:
        ctx.save(Note(3))
        return way(Stranger)

    graph = app(Play(A=[strays, saying("here")]))
    with pytest.raises(UnknownTarget, match=r"^A.* Stranger.* A, B, C, D, J, W1, W2, W3, W4, X1, X2") as caught:
        graph.invoke("hello", session="s")
    assert (caught.value.node, caught.value.target) == ("A", "Stranger")
    assert caught.value.known == ("A", "B", "C", "D", "J", "W1", "W2", "W3", "W4", "X1", "X2")
    assert dict(graph.load("s").cells) == {}
    assert graph.invoke("hello", session="s").reply == "here"


def test_t6_a_value_of_another_type_is_refused_at_the_node_that_wrote_it(tmp_path: Path) -> None:
    """FIELD T6: the session before it still loads."""

    def writes(ctx: Any) -> Any:
        ctx.write(B, Note("three"))  # type: ignore[arg-type]

    with SQLiteStore(tmp_path / "s.db") as store:
        graph = app(Play(A=[saying("one"), writes]), store=store)
        graph.invoke("hello", session="s")
        before = seen_in(graph.load("s"))
        with pytest.raises(StateTypeError, match=r"A wrote the state of B: \$\.n must be int") as caught:
            graph.invoke("again", session="s")
        assert (caught.value.node, caught.value.path) == ("A", "$.n")
        assert seen_in(graph.load("s")) == before


def test_t8_a_field_that_nobody_supplied_reads_as_its_default() -> None:
    """FIELD T8; rule F8: a cell is absent until written."""
    graph = app(Play(A=lambda ctx: direct(f"{ctx.state.n} {ctx.read(W1).n} {ctx.shared.n}")))
    assert graph.invoke("hello", session="s").reply == "0 0 0"
    assert dict(graph.load("s").cells) == {}


@pytest.mark.parametrize("kept", ["memory", "disk"])
@pytest.mark.parametrize(
    "gives",
    [
        pytest.param(lambda ctx: anything(go(B)).with_message(5), id="with_message(5)"),
        pytest.param(lambda ctx: anything(direct("x")).with_usage(5), id="with_usage(5)"),
        pytest.param(lambda ctx: ctx.append(C, "text"), id="append(C, 'text')"),
        pytest.param(lambda ctx: ctx.append(C, user(5)), id="append(C, user(5))"),  # type: ignore[arg-type]
    ],
)
def test_t6_what_is_no_message_or_usage_is_refused_at_the_node_that_gave_it(
    kept: str, gives: Callable[[Any], Any], tmp_path: Path
) -> None:
    """FIELD T6, rule F3: checked to the last field, whatever the store; the session before it still loads."""
    with SQLiteStore(tmp_path / "s.db") as disk:
        graph = app(Play(A=[saying("one"), gives]), store=MemoryStore() if kept == "memory" else disk)
        graph.invoke("hello", session="s")
        before = seen_in(graph.load("s"))
        with pytest.raises(NodeError, match="A") as caught:
            graph.invoke("again", session="s")
        assert caught.value.node == "A"
        assert seen_in(graph.load("s")) == before


@pytest.mark.parametrize("kept", ["memory", "disk"])
def test_s7_a_node_cannot_change_what_was_saved(kept: str, tmp_path: Path) -> None:
    """FIELD S7: session, earlier snapshots and the caller's input are unchanged, in memory and on disk alike."""

    def meddles(ctx: Any) -> None:
        for value in (ctx.history, ctx.incoming, ctx.state, ctx.shared):
            for name in ("append", "extend", "clear", "text", "n"):
                with pytest.raises((AttributeError, TypeError)):
                    getattr(value, name)("x") if name in {"append", "extend"} else setattr(value, name, 9)

    given = user("hello")
    with SQLiteStore(tmp_path / "s.db") as disk:
        graph = app(Play(A=[saying("one"), meddles]), store=MemoryStore() if kept == "memory" else disk)
        graph.invoke("first", session="s")
        snapshot = graph.load("s")
        seen = seen_in(snapshot)
        graph.invoke(given, session="s")
        assert given == user("hello")
        assert seen_in(snapshot) == seen
        after = graph.load("s")
        assert told(after)[:2] == told(snapshot)
        assert after.cells == {}


def rows_of(session: Session) -> list[object]:
    """What the finished branches of the open activation did, spent and said: a copy of it all."""
    assert session.activation is not None
    return [deepcopy(row) for row in session.activation.rows.values()]


@pytest.mark.parametrize("kept", ["memory", "disk"])
def test_s7_a_caller_cannot_change_what_was_saved(kept: str, tmp_path: Path) -> None:
    """FIELD S7: what a caller does to a loaded session stays with the caller."""

    def saves(ctx: Any) -> Any:
        ctx.save(Note(3))
        return fanout(W1, W2)

    def saves_and_spends(ctx: Any) -> Any:
        ctx.save(Note(4))
        return task_result(1).with_usage(Usage(1))

    with SQLiteStore(tmp_path / "s.db") as disk:
        play = Play(A=saves, W1=saves_and_spends, W2=raising)
        graph = app(play, store=MemoryStore() if kept == "memory" else disk)
        with pytest.raises(BranchFailed):
            graph.invoke("hello", session="s")
        before, kept_rows = seen_in(graph.load("s")), rows_of(graph.load("s"))
        loaded: Any = graph.load("s")
        row = loaded.activation.rows["W1", None]
        assert (row.cells, row.usage) == ({"W1": Note(4)}, {"W1": Usage(1)})
        for part in (loaded.cells, loaded.histories, loaded.usage, loaded.results, loaded.series):
            part.clear()
        for part in (row.cells, row.usage):
            part.clear()
        assert seen_in(graph.load("s")) == before
        assert rows_of(graph.load("s")) == kept_rows


# ----------------------------------------------------------------------------------------------------------- step limit


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_r1_a_chain_of_n_finishes_and_one_of_n_plus_1_raises_and_resumes(limit: int) -> None:
    """FIELD R1; rule E9."""
    for length in (limit, limit + 1):
        play = Play(A=chain_of(length))
        graph = app(play)
        if length == limit:
            assert graph.invoke("go", session="s", step_limit=limit).reply == "done"
            continue
        with pytest.raises(StepLimit, match=f"limit of {limit} steps?.*step_limit={(limit + 1) * 2}") as caught:
            graph.invoke("go", session="s", step_limit=limit)
        assert (caught.value.limit, caught.value.held) == (limit, ("A",))
        assert play.runs["A"] == limit
        assert graph.unfinished(graph.load("s")) == ("A was entered and has not finished",)
        assert graph.recover("s", step_limit=limit + 1).reply == "done"
        assert play.runs["A"] == limit + 1


def test_e9_the_limit_goes_on_over_a_recovery_and_starts_again_with_input() -> None:
    play = Play(A=[lambda ctx: go(B), saying("end")], B=[raising, lambda ctx: go(A)])
    graph = app(play)
    with pytest.raises(StepFailed):
        graph.invoke("go", session="s", step_limit=2)
    with pytest.raises(StepLimit):
        graph.recover("s", step_limit=2)
    assert graph.recover("s", step_limit=3).reply == "end"
    play.let(A=[lambda ctx: go(B), saying("end")], B=lambda ctx: go(A))
    assert graph.invoke("go", session="s", step_limit=3).reply == "end"


@pytest.mark.parametrize(("limit", "held"), [(1, ("W1", "W3")), (2, ("W4",)), (3, ("J",)), (4, ())])
def test_e9_a_joined_node_is_one_deeper_than_its_deepest_source(limit: int, held: tuple[str, ...]) -> None:
    play = Play(A=lambda ctx: fanout(W1, W3), J=saying("joined"))
    graph = app(play)
    if not held:
        assert graph.invoke("go", session="s", step_limit=limit).reply == "joined"
        return
    with pytest.raises(StepLimit) as caught:
        graph.invoke("go", session="s", step_limit=limit)
    assert caught.value.held == held
    assert graph.recover("s", step_limit=4).reply == "joined"
    assert play.runs == dict.fromkeys(("A", "W1", "W3", "W4", "J"), 1)


# --------------------------------------------------------------------------------------------------------- cancellation


def deep(play: Play, awaits: Awaits) -> Play:
    """A turn with every kind of await in it: C's model and tool, a go, branches, a join."""

    def waits(answer: Any) -> Callable[[Any], Any]:
        async def act(ctx: Any) -> Any:
            await awaits.here()
            ctx.save(Note(5))
            await awaits.here()
            return answer

        return act

    play.let(
        A=waits(go(C)),
        C=[calling(1), calling(2)],
        C1=waits(stay("once more")),
        C2=waits(fanout(W1, W3)),
        W1=waits(task_result(1)),
        W3=waits(task_result(3)),
        W4=waits(task_result(4)),
        J=waits(direct("joined")),
    )
    return play


def test_g3_a_cancellation_at_every_await_leaves_the_last_commit_and_reaches_the_caller() -> None:
    """Rule G3, L3: then recovery and new input end as if nothing had happened."""

    async def trial(at: int) -> bool:
        awaits = Awaits()
        store = PatientStore(MemoryStore(), awaits)
        play = deep(Play(), awaits)
        graph = app(play, store=store, model=Asked(play))
        task = asyncio.ensure_future(graph.ainvoke("hello", session="s"))
        awaits.watch(task, at)
        await asyncio.wait({task})
        assert no_other_task()
        awaits.watch(None, 0)
        if not task.cancelled():
            assert task.result().reply == "joined"
            return False
        if store.commits == 0:
            deep(play, awaits)
            turn = await graph.ainvoke("hello", session="s")
        else:
            found = await graph.aload("s")
            assert found.revision == store.commits
            assert all(map(valid_for_a_provider, found.histories.values()))
            turn = await graph.arecover("s")
        after = await graph.aload("s")
        assert after.head.cursor == "J"
        assert turn.reply == ("joined" if play.runs["J"] else None) or store.commits
        assert after.histories["side"][-1] == assistant("joined")
        assert dict(after.results) == {"W1": 1, "W3": 3, "W4": 4}
        assert told(after)[0] == ("user", "hello")
        return True

    trials = 0
    with asyncio.Runner() as runner:
        for at in count(1):
            if not runner.run(trial(at)):
                break
            trials += 1
    assert trials > 20


def test_g3_a_commit_that_has_begun_is_shielded() -> None:
    """Rule G3: the cancellation comes after it and the step stands."""

    async def main() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        class Slow(PatientStore):
            async def commit(self, *args: Any) -> None:
                begun.set()
                await may_end.wait()
                await super().commit(*args)

        graph = app(Play(A=saying("one")), store=Slow(MemoryStore()))
        task = asyncio.ensure_future(graph.ainvoke("hello", session="s"))
        await begun.wait()
        for _ in range(3):
            task.cancel()
            await Await()
            assert not task.done()
        may_end.set()
        await asyncio.wait({task})
        assert task.cancelled()
        assert told(await graph.aload("s")) == [("user", "hello"), ("assistant", "one")]
        assert no_other_task()

    asyncio.run(main())


def test_g3_a_cancellation_that_a_handler_swallows_still_reaches_the_caller() -> None:
    """Rule G3: a cancelled step publishes nothing, whatever its handler catches."""

    async def main() -> None:
        entered = asyncio.Event()

        async def swallows(ctx: Any) -> Any:
            ctx.save(Note(3))
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return direct("never mind")

        graph = app(Play(A=swallows))
        task = await stopped_when(entered.wait(), lambda: graph.ainvoke("hello", session="s"))
        assert task.cancelled()
        with pytest.raises(UnknownSession, match="'s'"):
            await graph.aload("s")

    asyncio.run(main())


def test_h10_cancelled_between_a_tool_result_and_the_models_text_the_next_turn_is_valid() -> None:
    """FIELD H10."""

    async def main() -> None:
        asked = asyncio.Event()
        play = Play(A=lambda ctx: go(C), C1=lambda ctx: stay("the result"))
        play.let(C=[calling(1), lambda request: "hi again"])

        class Stalls(Asked):
            async def respond(self, request: Any, /) -> ModelReply:
                if request.messages[-1].role == "tool" and not asked.is_set():
                    asked.set()
                    await asyncio.Event().wait()
                return await super().respond(request)

        graph = app(play, model=Stalls(play))
        task = await stopped_when(asked.wait(), lambda: graph.ainvoke("hello", session="s"))
        assert task.cancelled()
        assert told(await graph.aload("s")) == [("user", "hello")]
        assert (await graph.arecover("s")).reply == "hi again"
        assert said(play.requests[-1].messages) == [("user", "hello"), ("assistant", ""), ("tool", "the result")]
        assert (play.runs["C1"], len(play.requests)) == (1, 2), "what had finished came from the journal: rule L3"
        play.let(C=lambda request: "and again")
        assert (await graph.ainvoke("still there?", session="s")).reply == "and again"
        assert told(await graph.aload("s")) == [
            ("user", "hello"),
            ("assistant", ""),
            ("tool", "the result"),
            ("assistant", "hi again"),
            ("user", "still there?"),
            ("assistant", "and again"),
        ]

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------------------- timeouts


class Timed(GraphNode[Note]):
    """Takes as long as it is let."""

    timeout = 0.002
    kept: list[Any] = []

    async def run(self, ctx: StageContext[Note]) -> Go[Timed] | Direct:
        if ctx.incoming is not None and ctx.incoming.text == "at once":
            return direct("done")
        ctx.save(Note(4))
        self.kept.append(ctx)
        if ctx.incoming is not None and ctx.incoming.text == "stubborn":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return direct("too late")
        await asyncio.Event().wait()
        return direct("never")


@pytest.mark.parametrize("how", ["slowly", "stubborn"])
def test_g7_a_node_past_its_timeout_publishes_nothing(how: str) -> None:
    graph = Graph("timed", entry=Timed).compile()
    with pytest.raises(StepTimeout, match=r"Timed took longer than its timeout of 0\.002 s") as caught:
        graph.invoke(how, session="s")
    assert (caught.value.node, caught.value.seconds, caught.value.tool) == ("Timed", 0.002, None)
    assert dict(graph.load("s").cells) == {}
    assert graph.invoke("at once", session="s").reply == "done"
    kept = Timed.kept.pop()
    with pytest.raises(StepOver, match="step is over"):
        kept.save(Note(5))
    with pytest.raises(StepOver, match="step is over"):
        kept.append(Timed, user("late"))
    assert dict(graph.load("s").cells) == {}


@pytest.mark.parametrize(
    "write",
    [
        lambda ctx: ctx.save(Note(1)),
        lambda ctx: ctx.write(B, Note(1)),
        lambda ctx: ctx.share(Note(1)),
        lambda ctx: ctx.append(A, user("x")),
    ],
)
def test_g7_a_context_that_was_kept_cannot_write(write: Callable[[Any], None]) -> None:
    kept: list[Any] = []

    def keeps(ctx: Any) -> Any:
        kept.append(ctx)
        return direct("kept")

    graph = app(Play(A=keeps))
    graph.invoke("hello", session="s")
    before = graph.load("s")
    failures: list[BaseException] = []

    def late() -> None:
        try:
            write(kept[0])
        except StepOver as error:
            failures.append(error)

    thread = threading.Thread(target=late)
    thread.start()
    thread.join()
    assert len(failures) == 1
    assert graph.load("s") == before


# ------------------------------------------------------------------------------------------ invoke, stream, their twins


def test_g5_blocking_calls_inside_a_running_loop_say_what_to_await() -> None:
    async def main() -> None:
        graph = app(Play())
        for call, instead in (
            (lambda: graph.invoke("x", session="s"), "await app.ainvoke"),
            (lambda: graph.stream("x", session="s"), "async with app.astream"),
            (lambda: graph.recover("s"), "await app.arecover"),
            (lambda: graph.load("s"), "await app.aload"),
        ):
            with pytest.raises(RunningLoop, match=instead):
                call()
        assert (await graph.ainvoke("x", session="s")).reply == "ok"

    asyncio.run(main())


def _invoke(graph: CompiledGraph, text: str) -> Turn:
    return graph.invoke(text, session="s")


def _ainvoke(graph: CompiledGraph, text: str) -> Turn:
    return asyncio.run(graph.ainvoke(text, session="s"))


def _stream(graph: CompiledGraph, text: str) -> Turn:
    last = list(graph.stream(text, session="s"))[-1]
    assert isinstance(last, TurnEnded)
    return last.turn


def _astream(graph: CompiledGraph, text: str) -> Turn:
    async def main() -> Turn:
        async with graph.astream(text, session="s") as events:
            last = [event async for event in events][-1]
            assert isinstance(last, TurnEnded)
            return last.turn

    return asyncio.run(main())


def _tried(way: Callable[[CompiledGraph, str], Turn], graph: CompiledGraph, text: str) -> object:
    try:
        return way(graph, text)
    except EzGraphError as error:
        return type(error), str(error)


@given(conversation=st.lists(programs, min_size=1, max_size=4))
def test_j4_invoke_stream_and_their_twins_are_one_engine(conversation: list[Any]) -> None:
    """Equal sessions, equal replies, equal errors."""
    outcomes: list[list[object]] = []
    for way in (_invoke, _ainvoke, _stream, _astream):
        actors = Actors()
        graph = app(actors)
        outcomes.append([])
        for n, program in enumerate(conversation):
            actors.given(program)
            outcomes[-1].append(_tried(way, graph, f"in{n}"))
            outcomes[-1].append(graph.load("s"))
            outcomes[-1].append(graph.load("s").errors)
    assert outcomes[0] == outcomes[1] == outcomes[2] == outcomes[3]


# ------------------------------------------------------------------------------------------------------------ G9 and L2


@pytest.mark.parametrize("target", [C, J])
def test_g9_the_reply_is_the_last_message_of_the_node_that_gave_it(target: Any) -> None:
    play = Play(A=lambda ctx: direct_to(target, "over to you"))
    graph = app(play, model=Asked(play))
    assert graph.invoke("hello", session="s").reply == "over to you"
    session = graph.load("s")
    assert told(session) == [("user", "hello"), ("assistant", "over to you")]
    assert told(session, "side") == ([("assistant", "over to you")] if target is J else [])
    assert play.runs == {"A": 1}
    graph.invoke("and now", session="s")
    assert told(graph.load("s"), "side" if target is J else "default")[-3:] == [
        ("assistant", "over to you"),
        ("user", "and now"),
        ("assistant", "ok"),
    ]


@pytest.mark.parametrize("late", ["reply", "raise", "branch"])
def test_l2_of_two_turns_from_one_revision_one_wins(late: str, tmp_path: Path) -> None:
    """FIELD X1: the other gets a typed conflict and has changed nothing."""

    async def main() -> None:
        entered, may_go_on = asyncio.Event(), asyncio.Event()

        async def waits(ctx: Any) -> Any:
            ctx.save(Note(9))
            entered.set()
            await may_go_on.wait()
            if late == "raise":
                raise LookupError("on purpose")
            return fanout(W1, W2) if late == "branch" else direct("late")

        with SQLiteStore(tmp_path / "s.db") as one, SQLiteStore(tmp_path / "s.db") as other:
            slow, fast = app(Play(A=waits), store=one), app(Play(A=saying("fast")), store=other)
            await fast.ainvoke("begin", session="s")
            task = asyncio.ensure_future(slow.ainvoke("mine", session="s"))
            await entered.wait()
            assert (await fast.ainvoke("yours", session="s")).reply == "fast"
            before = await fast.aload("s")
            may_go_on.set()
            await asyncio.wait({task})
            error = task.exception()
            if late == "raise":
                assert isinstance(error, StepFailed)
                assert any("Another turn committed first" in note for note in error.__notes__)
            else:
                assert isinstance(error, RevisionConflict)
                assert (error.session, error.expected, error.found) == ("s", 1, 2)
            assert await fast.aload("s") == before

    asyncio.run(main())


def test_l2_of_many_turns_at_once_exactly_one_wins() -> None:
    async def main() -> None:
        entered = asyncio.Barrier(6)

        async def together(ctx: Any) -> Any:
            await entered.wait()
            return direct(ctx.incoming.text)

        graph = app(Play(A=together))
        turns = await asyncio.gather(*(graph.ainvoke(f"in{n}", session="s") for n in range(6)), return_exceptions=True)
        won = [turn for turn in turns if isinstance(turn, Turn)]
        assert len(won) == 1
        assert sum(isinstance(turn, RevisionConflict) for turn in turns) == 5
        text = won[0].reply
        assert told(await graph.aload("s")) == [("user", text), ("assistant", text)]

    asyncio.run(main())


# --------------------------------------------------------------------------------------------------------- interleaving


class Doors:
    """Holds whoever comes, until a test lets one of a session through."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[asyncio.Event]] = {}

    async def wait(self, session: str) -> None:
        door = asyncio.Event()
        self.waiting.setdefault(session, []).append(door)
        await door.wait()

    def let_through(self, session: str) -> None:
        if doors := self.waiting.get(session):
            doors.pop(0).set()


@settings(max_examples=max(100, settings().max_examples))
@given(order=st.lists(st.sampled_from(["a", "bcd"]), max_size=30), disk=st.booleans())
def test_x3_two_sessions_of_one_graph_never_mix(order: list[str], disk: bool) -> None:  # noqa: FBT001
    """FIELD X3: sync and async handlers, interleaved in a hundred ways."""

    async def main(store: Any) -> None:
        doors = Doors()

        def sync(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def act(ctx: Any) -> Any:
                ctx.save(Note(ctx.state.n + len(ctx.session)))
                return answer(ctx)

            return act

        def slow(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
            async def act(ctx: Any) -> Any:
                await doors.wait(ctx.session)
                given = sync(answer)(ctx)
                await doors.wait(ctx.session)
                return given

            return act

        play = Play(
            A=slow(lambda ctx: fanout(W1, W2)),
            W1=slow(lambda ctx: task_result(ctx.read(A).n)),
            W2=sync(lambda ctx: task_result(ord(ctx.session[0]))),
            J=slow(lambda ctx: direct(f"{ctx.session} {ctx.result(W1)} {ctx.result(W2)}")),
        )
        graph = app(play, store=store)
        tasks = {name: asyncio.ensure_future(graph.ainvoke(f"from {name}", session=name)) for name in ("a", "bcd")}
        turns = chain(order, cycle(tasks))
        while not all(task.done() for task in tasks.values()):
            await idle(4)
            doors.let_through(next(turns))
        for name, task in tasks.items():
            size = len(name)
            assert task.result().reply == f"{name} {size} {ord(name[0])}"
            found = await graph.aload(name)
            assert told(found) == [("user", f"from {name}")]
            assert dict(found.cells) == {node: Note(size) for node in ("A", "W1", "W2", "J")}

    with TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "s.db") as store:
        asyncio.run(main(store if disk else MemoryStore()))


def test_m2_what_is_no_store_model_or_listener_is_told_at_compile() -> None:
    graph: Any = Graph("g", entry=C)
    for wrong, text in (
        ({"store": "x.db"}, r"store='x\.db': pass SQLiteStore\("),
        ({"store": MemoryStore}, r"store=<class .*MemoryStore'>: pass SQLiteStore"),
        ({"model": 3}, r"model=3: pass an object with `async def respond"),
        ({"model": ScriptedModel("x"), "listener": 3}, r"listener=3: pass a function of one event"),
        ({"model": ScriptedModel("x"), "end_session": C}, r"end_session=C: pass a list: \[C\]"),
    ):
        with pytest.raises(InvalidInput, match=text):
            graph.compile(**wrong)


def test_f5_a_loaded_session_is_read_by_a_nodes_own_type() -> None:
    def saves(ctx: Any) -> Any:
        ctx.save(Note(3))
        return direct("one")

    graph = app(Play(A=[saves]))
    graph.invoke("hello", session="s")
    session = graph.load("s")
    assert_type(graph.read(session, A), Note)
    assert (graph.read(session, A), graph.read(session, B)) == (Note(3), Note())
    with pytest.raises(UnknownTarget, match="Stranger"):
        graph.read(session, Stranger)


@pytest.mark.parametrize("reply", ["hi", None, 3])
def test_m2_a_model_that_gives_no_reply_is_told_what_to_return(reply: Any) -> None:
    class Wrong:
        async def respond(self, request: ModelRequest, /) -> Any:
            return reply

    class Talks(Conversation[None]):
        """Talk."""

    graph = Graph("g", entry=Talks).compile(model=Wrong())
    with pytest.raises(StepFailed, match=r"the model's respond\(\) gave .*: return ModelReply\(text=\.\.\.\)"):
        graph.invoke("hello", session="s")
    assert graph.load("s").histories == {}
