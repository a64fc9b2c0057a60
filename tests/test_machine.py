"""The state machine, tested by a state machine: the real executor against a reckoning with dicts and sets.

Turns, failures, cancellations at every await, crashes at every commit and recoveries, over one SQLite file; what a
journal keeps is the business of `test_crashes`.  Rules A5, A8, A9, C2, D3, E2 to E5, E9, F5, G3, G4, G6, G9, L3; FIELD
K2, H10.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest
import reckoning
from faults import Awaits, Crash, PatientStore, no_other_task
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from puppets import STAGES, WORKERS, Note, Play, Stranger, app as compiled
from reckoning import CELLS, SHARED, Action, Program, State
from transcripts import all_told, askable

from ezgraph import (
    BranchFailed,
    NodeError,
    SessionCompleted,
    StepLimit,
    ToolCall,
    Turn,
    UnfinishedWork,
    direct,
    direct_to,
    fanout,
    finish,
    go,
    stay,
    task_result,
    user,
)
from ezgraph.models import ModelReply, ModelRequest
from ezgraph.session import CONTEXT, END, Session, standing
from ezgraph.stores.sqlite import SQLiteStore

Call = Callable[[], Awaitable[Turn]]
Fault = tuple[int, Literal["before", "after"]]

# --------------------------------------------------------------------------------------------------- what nodes may do

numbers = st.integers(1, 9)
few = st.sampled_from([None, None, 3, 4])
asides = st.sampled_from([None, None, "m1", "m2"])
fans = st.sampled_from([("W1", "W2"), ("W3", "W1"), ("W2", "W3"), ("W1", "W2", "W3")])
breaches = [("raise",), ("stranger",), ("bad state",)]

ways: dict[str, dict[str, Any]] = {
    "A": {"go": "ABCDJ", "direct to": "ABCDJ", "fanout": fans},
    "B": {"go": "ACJ", "direct to": "A", "fanout": st.just(("X1", "X2"))},
    "C": {"go": "ABD", "direct to": "ABCDJ", "fanout": fans},
    "D": {"go": "AB"},
    "J": {"go": "ABJ", "direct to": "AJ", "fanout": fans},
}


def writes_of(node: str) -> st.SearchStrategy[Any]:
    # What a tool appends to the history it is called from is the business of test_turns.
    spaces = "J" if node == "C" else "ABCDJ"
    one = st.one_of(
        st.tuples(st.just("save"), numbers),
        st.tuples(st.just("write"), st.sampled_from([*STAGES, *WORKERS]), numbers),
        st.tuples(st.just("share"), numbers),
        st.tuples(st.just("append"), st.sampled_from(spaces), st.sampled_from(["ap1", "ap2"])),
    )
    return st.lists(one, max_size=2).map(tuple)


def responses_of(node: str) -> st.SearchStrategy[Any]:
    way = ways[node]
    some: list[st.SearchStrategy[Any]] = [
        st.tuples(st.just("direct"), st.sampled_from(["yes", "no"])),
        st.tuples(st.just("go"), st.sampled_from(way["go"]), few, asides),
        st.sampled_from(breaches if node == "C" else [*breaches, ("wrong",)]),
    ]
    if "direct to" in way:
        some.append(st.tuples(st.just("direct to"), st.sampled_from(way["direct to"]), st.just("over"), few, asides))
    if "fanout" in way:
        some.extend([st.tuples(st.just("fanout"), way["fanout"])] * 2)
    some.append(st.tuples(st.just("finish"), st.just("bye")))
    return st.one_of(*some, *([] if node == "C" else [st.just(("continue",))]))


def acts_of(node: str) -> st.SearchStrategy[Action]:
    return st.tuples(writes_of(node), responses_of(node))


tool_acts = st.tuples(
    writes_of("C"),
    st.tuples(st.just("stay"), st.sampled_from(["again", "more"]))
    | st.tuples(st.just("task result"), numbers)
    | responses_of("C"),
)
talks = st.lists(st.lists(tool_acts, min_size=1, max_size=2), max_size=2)
jobs = st.tuples(
    st.none() | numbers,
    st.one_of(*[st.tuples(st.just("result"), numbers)] * 3, st.sampled_from([("raise",), ("wrong",), ("bad output",)])),
)
programs: st.SearchStrategy[Program] = st.fixed_dictionaries(
    {"A": st.lists(acts_of("A"), min_size=1, max_size=2)},
    optional={
        **{node: st.lists(acts_of(node), min_size=1, max_size=2) for node in "BDJ"},
        "C": st.lists(talks, min_size=1, max_size=2),
        **{worker: st.lists(jobs, min_size=1, max_size=2) for worker in WORKERS},
    },
)
limits = st.sampled_from([25, 25, 25, 1, 2, 3])
sessions = st.sampled_from(["s1", "s2"])


# --------------------------------------------------------------------------------------------------- how nodes do it


class Actors(Play):
    """Plays a program of tuples; takes an await of its own before and after each thing it does."""

    def __init__(self) -> None:
        super().__init__()
        self.awaits = Awaits()
        self.told: dict[str, list[Action]] = {}
        self.talk: list[list[Action]] = []
        self.round = 0

    def given(self, program: Program) -> None:
        self.told = {node: list(acts) for node, acts in program.items()}

    def _next(self, node: str) -> Action:
        acts = self.told.get(node)
        return acts.pop(0) if acts else None

    def run(self, node: str, ctx: Any) -> Any:
        if node == "prompt":
            self.talk, self.round = self._next("C") or [], 0
            return "Talk."
        if node in WORKERS:
            return self._work(self._next(node), ctx)
        if node in STAGES:
            return self._own(self._next(node), ctx)
        return self._own(self.talk[self.round - 1][int(node[1:])], ctx)

    async def respond(self, request: ModelRequest, /) -> ModelReply:
        assert askable(request)
        await self.awaits.here()
        if self.round == len(self.talk):
            return ModelReply("said")
        self.round += 1
        calls = range(len(self.talk[self.round - 1]))
        return ModelReply(calls=tuple(ToolCall(f"{self.round}.{k}", "do", f'{{"k": {k}}}') for k in calls))

    async def _work(self, action: Action, ctx: Any) -> Any:
        save, (kind, *rest) = action or (None, ("result", 0))
        await self.awaits.here()
        if save is not None:
            ctx.save(Note(save))
        seen = self._seen(ctx)
        await self.awaits.here()
        if kind == "raise":
            raise LookupError("on purpose")
        if kind == "wrong":
            return go(STAGES["A"])
        return task_result("text" if kind == "bad output" else rest[0] + seen % 1000)

    async def _own(self, action: Action, ctx: Any) -> Any:
        writes, response = action or ((), ("direct", "ok"))
        for write in writes:
            await self.awaits.here()
            self._write(ctx, *write)
        await self.awaits.here()
        return self._response(ctx, response)

    @staticmethod
    def _write(ctx: Any, what: str, *rest: Any) -> None:
        match what, *rest:
            case "save", n:
                ctx.save(Note(n))
            case "write", node, n:
                ctx.write((STAGES | WORKERS)[node], Note(n))
            case "share", n:
                ctx.share(Note(n))
            case "append", stage, text:
                ctx.append(STAGES[stage], user(text))

    @staticmethod
    def _seen(ctx: Any) -> int:
        cells = {name: ctx.read((STAGES | WORKERS)[name]).n for name in CELLS if name != SHARED}
        results = {name: ctx.result(cls, default=0) for name, cls in WORKERS.items()}
        return reckoning.view({**cells, SHARED: ctx.shared.n}, results)

    def _response(self, ctx: Any, response: Any) -> Any:  # noqa: C901, PLR0911  a line for each
        match response:
            case ("direct", text):
                incoming = ctx.incoming.text if ctx.incoming else None
                return direct(f"{text}:{self._seen(ctx)}:{incoming}")
            case ("stay", text):
                return stay(text)
            case ("finish", text):
                return finish(text)
            case ("task result", value):
                return task_result(value)
            case ("go", target, written, message):
                return _built(go(STAGES[target]), written, message)
            case ("direct to", target, text, written, message):
                return _built(direct_to(STAGES[target], text), written, message)
            case ("fanout", workers):
                return fanout(*(WORKERS[w] for w in workers))
            case ("raise",):
                raise LookupError("on purpose")
            case ("wrong",):
                return stay("not here")
            case ("stranger",):
                return go(Stranger)
            case ("bad state",):
                ctx.save("text")
        return None


def _built(response: Any, written: int | None, message: str | None) -> Any:
    if written is not None:
        response = response.with_state(Note(written))
    return response if message is None else response.with_message(message)


def seen_in(session: Session | None) -> dict[str, Any]:
    """What `reckoning.shown` shows, of a loaded session."""
    state = reckoning.fresh()
    if session is None:
        return reckoning.shown(state)
    head, opened = session.head, session.activation
    assert head.before is None
    state.update(
        cursor=head.cursor,
        owed=head.owed,
        raised=head.raised,
        cells=_cells(session.cells),
        spaces=all_told(session),
        results=dict(session.results),
    )
    if opened is not None:
        rows = {row.node: (row.output, _cells(row.cells), row.depth) for row in opened.rows.values()}
        state["open"] = {"parent": opened.parent, "rows": rows, "marks": frozenset(node for node, _ in opened.marks)}
    return reckoning.shown(state)


def _cells(cells: Any) -> dict[str, int]:
    return {SHARED if name == CONTEXT else name: note.n for name, note in cells.items()}


class Machine(RuleBasedStateMachine):
    """Two sessions in one file, and a reckoning of each."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.expected: dict[str, State] = {"s1": reckoning.fresh(), "s2": reckoning.fresh()}
        self.begun = {"s1": False, "s2": False}
        self.inputs = 0

    def teardown(self) -> None:
        self.file.close()
        self.runner.close()
        self.folder.cleanup()

    @initialize(max_branches=st.sampled_from([None, 1, 2]))
    def opens(self, max_branches: int | None) -> None:
        self.max_branches = max_branches
        self._build()

    @rule()
    def everything_is_dropped_but_the_file(self) -> None:
        self.file.close()
        self._build()

    def _build(self) -> None:
        self.actors = Actors()
        self.file = SQLiteStore(Path(self.folder.name) / "sessions.db")
        self.store = PatientStore(self.file, self.actors.awaits)
        self.app = compiled(self.actors, store=self.store, max_branches=self.max_branches, durability="step")

    # ------------------------------------------------------------------------------------------------------- the rules

    @rule(session=sessions, program=programs, limit=limits)
    def turn(self, session: str, program: Program, limit: int) -> None:
        self._turn(session, program, limit, None, 0)

    @rule(session=sessions, program=programs, limit=limits, at=st.integers(1, 25))
    def turn_cancelled(self, session: str, program: Program, limit: int, at: int) -> None:
        self._turn(session, program, limit, None, at)

    @rule(session=sessions, program=programs, commit=st.integers(1, 6), when=st.sampled_from(["before", "after"]))
    def turn_crashed(self, session: str, program: Program, commit: int, when: Literal["before", "after"]) -> None:
        self._turn(session, program, 25, (commit, when), 0)

    @rule(session=sessions, program=programs, limit=limits)
    def recovery(self, session: str, program: Program, limit: int) -> None:
        self._recovery(session, program, limit, None, 0)

    @rule(session=sessions, program=programs, at=st.integers(1, 12))
    def recovery_cancelled(self, session: str, program: Program, at: int) -> None:
        self._recovery(session, program, 25, None, at)

    @rule(session=sessions, program=programs, commit=st.integers(1, 4), when=st.sampled_from(["before", "after"]))
    def recovery_crashed(self, session: str, program: Program, commit: int, when: Literal["before", "after"]) -> None:
        self._recovery(session, program, 25, (commit, when), 0)

    # ----------------------------------------------------------------------------------------------------- how they run

    def _turn(self, session: str, program: Program, limit: int, fault: Fault | None, at: int) -> None:
        self.inputs += 1
        text = f"in{self.inputs}"
        before = self.expected[session]
        left = reckoning.work_left(before)
        call: Call = lambda: self.app.ainvoke(text, session=session, step_limit=limit)  # noqa: E731
        if left or before["cursor"] == END:
            self._refused(session, call, left)
            return
        found = reckoning.levels(reckoning.begun(before, text, limit), program)
        found[0] = [before]  # input commits with its first step, rule G4
        self._ran(session, call, program, found, fault, at)

    def _recovery(self, session: str, program: Program, limit: int, fault: Fault | None, at: int) -> None:
        if not self.begun[session]:
            return
        before = self.expected[session]
        call: Call = lambda: self.app.arecover(session, step_limit=limit)  # noqa: E731
        after = reckoning.recovering(before, limit)
        found = reckoning.levels(after, program)
        if before["owed"] or before["open"] is not None:
            found.insert(0, [before])
        self._ran(session, call, program, found, fault, at)

    def _refused(self, session: str, call: Call, left: list[str]) -> None:
        refusal = UnfinishedWork if left else SessionCompleted
        with pytest.raises(refusal, match=session) as caught:
            self.runner.run(self._alone(call, 0))
        if isinstance(caught.value, UnfinishedWork):
            told = caught.value.work
            assert len(told) == len(left)
            assert all(node in line for node, line in zip(left, told, strict=True))

    def _ran(  # noqa: PLR0913, PLR0917  one call and what may become of it
        self, session: str, call: Call, program: Program, found: list[list[State]], fault: Fault | None, at: int
    ) -> None:
        self.actors.given(program)
        self.store.arm(fault)
        outcome = self.runner.run(self._alone(call, at))
        commits = self.store.commits
        # A commit publishes a step, or all branches that ended meanwhile: never less than a step.
        reached = [state for level in found[commits:] for state in level]
        if isinstance(outcome, asyncio.CancelledError | Crash):
            possible = reached
        else:
            assert not at or self.actors.awaits.seen < at, "the cancellation did not reach the caller"
            possible = [end for end in reckoning.ends(found, program) if end in reached]
            assert len({repr(reckoning.shown(end)) for end in possible}) == 1, "an order of branches decided"
            self._judge(outcome, possible[0])
        if isinstance(outcome, Crash):
            self.everything_is_dropped_but_the_file()
        self.begun[session] = self.begun[session] or commits > 0
        loaded = seen_in(self._load(session))
        matching = [state for state in possible if reckoning.shown(state) == loaded]
        assert matching, (loaded, [reckoning.shown(state) for state in possible])
        self.expected[session] = deepcopy(matching[0])

    async def _alone(self, call: Call, at: int) -> Turn | BaseException:
        """What the call came to; refusals of the caller are raised.  No task may be left."""
        task = asyncio.ensure_future(call())
        self.actors.awaits.watch(task, at)
        await asyncio.wait({task})
        assert no_other_task()
        if task.cancelled():
            return asyncio.CancelledError()
        error = task.exception()
        if isinstance(error, UnfinishedWork | SessionCompleted):
            raise error
        return task.result() if error is None else error

    @staticmethod
    def _judge(outcome: Turn | BaseException, end: State) -> None:
        held = reckoning.held(end)
        if end["error"] is not None:
            assert isinstance(outcome, NodeError)
            assert (type(outcome).__name__, outcome.node.partition(".")[0]) == (end["error"], end["cursor"])
        elif end["failed"]:
            assert isinstance(outcome, BranchFailed)
            assert [failure.node for failure in outcome.failures] == end["failed"]
            assert (list(outcome.limit.held) if outcome.limit else []) == held
        elif held:
            assert isinstance(outcome, StepLimit)
            assert list(outcome.held) == held
        else:
            assert isinstance(outcome, Turn), outcome
            completed = end["cursor"] == END
            assert (outcome.reply, outcome.cursor) == (end["reply"], end["cursor"])
            assert outcome.status == ("completed" if completed else "idle")

    def _load(self, session: str) -> Session | None:
        found = self.file.load(session, self.app._executor.codec)
        assert (found is not None) == self.begun[session]
        return found

    # --------------------------------------------------------------------------------------------------- what must hold

    @invariant()
    def each_session_is_what_was_reckoned(self) -> None:
        for session, expected in self.expected.items():
            found = self._load(session)
            assert seen_in(found) == reckoning.shown(expected)
            if found is not None:
                assert found.head.cursor in {*STAGES, END}
                assert len(self.app.unfinished(found)) == len(reckoning.to_recover(expected))
                assert standing(found) == reckoning.standing(expected)
                assert (found.failure is None) == (standing(found) != "failed")


TestMachine = Machine.TestCase
