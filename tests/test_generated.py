"""Parallel work over generated graphs, against an oracle: every worker once, nothing left, whatever the order.

Rules E1 to E6, E12.  What is drawn is counted; each feature that this is for must be in a twentieth of the examples.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Final

import pytest
from attrs import evolve
from faults import idle, no_other_task
from generated import Planned, Play, Point, Stand, Told, classes_of, graph_of, points_of, sketches
from hypothesis import event, given, settings, strategies as st
from oracle import END, Opened, Pair, Place, Reckoning, Sketch, reckoned

from ezgraph import BranchFailed, StepFailed, Turn
from ezgraph.compilation import plan_of
from ezgraph.plan import Wiring
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.runtime.executor import Executor
from ezgraph.session import Session
from ezgraph.stores.codec import Codec
from ezgraph.stores.memory import MemoryStore

FEATURES: Final = (
    "chained joins",
    "diamond",
    "loop through a stage",
    "branches of unequal length",
    "per-item chain",
    "gather",
    "empty scatter",
    "failing worker, finish_siblings",
    "failing worker, cancel_siblings",
)
"""What the examples must hold, each as something that ran and not only as something that could have."""

SHARE: Final = 0.05

CODEC: Final = Codec("generated", {}, {})
"""For a store that keeps values as they are."""

orders = st.lists(st.integers(0, 20), min_size=1, max_size=12)
"""Which of the waiting workers are let go on, one to three at once, again and again."""


class Piece:
    """A sketch as a graph, to be played again and again."""

    def __init__(self, sketch: Sketch) -> None:
        self.sketch, self.end, self.classes, self.stand = sketch, reckoned(sketch), classes_of(sketch), Stand()
        self.graph = graph_of(sketch, self.classes, self.stand)
        self.plan = plan_of(self.graph.definition, Wiring())

    def compiled(self, limit: int | None) -> CompiledGraph:
        """What `compile(max_branches=limit)` gives, but that the graph is judged once for all limits."""
        plan = evolve(self.plan, wiring=Wiring(max_branches=limit))
        return CompiledGraph(plan, Executor(plan, MemoryStore(), CODEC), None)


class Trial:
    """A piece, played once in one order under one limit, and checked against the oracle as it goes."""

    def __init__(self, piece: Piece, app: CompiledGraph, order: Sequence[int], limit: int | None) -> None:
        self.sketch, self.end, self.order, self.limit = piece.sketch, piece.end, order, limit
        self.play = piece.stand.play = Play(piece.sketch, piece.classes)
        self.app = app
        self.released = 0
        self.tries: Counter[int] = Counter()

    async def run(self) -> Session:
        """All turns, each with as many recoveries as it needs; the session as it stands at the end."""
        cursor = self.sketch.entry
        for reply in self.end.replies:
            text = None if cursor in self.sketch.workers else "go"
            turn = await self._called(self.app.ainvoke(text, session="s", step_limit=200), set())
            while isinstance(turn, BranchFailed):
                kept = self._after_failure(turn, await self.app.aload("s"))
                turn = await self._called(self.app.arecover("s", step_limit=200), kept)
            assert (turn.reply, turn.status) == (reply, "completed" if turn.cursor == END else "idle")
            cursor = turn.cursor
        session: Session = await self.app.aload("s")
        self._judge(session)
        return session

    async def _called(self, call: Awaitable[Turn], kept: set[Point]) -> Turn | BranchFailed:
        """What a call comes to when the workers that wait are let go on in the order; nothing `kept` may run again."""
        play, before = self.play, Counter(self.play.entered)
        failed_before = {*play.failed}
        task = asyncio.ensure_future(call)
        while True:
            await idle(6)
            if task.done():
                break
            self._check_waiting(play.failed - failed_before)
            choice = self.order[self.released % len(self.order)]
            for _ in range(min(1 + choice % 3, len(play.waiting))):
                play.let_go(choice)
            self.released += 1
        assert not play.waiting
        assert no_other_task()
        ran = play.entered - before
        assert not ran.keys() & kept, "what was done ran again"
        assert all(times == 1 for times in ran.values()), "a worker ran twice"
        try:
            return task.result()
        except BranchFailed as error:
            return error

    def _check_waiting(self, failed: set[Point]) -> None:
        """All that can run does, as far as the limit allows: no branch waits for another.  Rules E4, E5."""
        play, at = self.play, self.play.activation
        opened = self.end.opened[at]
        assert not failed or opened.policy == "finish_siblings", "a branch goes on beside one that failed"
        done = {place for place in opened.places if play.ended[at, *place]}
        stopped = {(node, item) for n, node, item in failed if n == at}
        free = {p for p in opened.places if p not in done | stopped and opened.before(*p) <= done}
        waiting = {(node, item) for n, node, item in play.waiting if n == at}
        assert waiting, "nothing runs, and the turn does not end"
        assert len(waiting) == len(play.waiting)
        assert waiting <= free
        assert len(waiting) == min(len(free), self.limit or len(free))

    def _after_failure(self, error: BranchFailed, session: Session) -> set[Point]:
        """What failed is named in dispatch order, what is done is kept, the cursor is the parent.  Rule E5."""
        at = self.play.activation
        opened, activation = self.end.opened[at], session.activation
        named: list[Place] = []
        for failure in error.failures:
            assert isinstance(failure, StepFailed)
            assert isinstance(failure.error, Planned)
            named.append(failure.error.place)
        assert activation is not None
        assert session.head.cursor == opened.parent
        assert activation.marks == {*named}
        done = {*activation.rows}
        failing = {(node, item) for n, node, item in self.sketch.failing if n == at}
        if opened.policy == "finish_siblings":
            assert (named, done) == opened.passes(failing)[self.tries[at]]
        else:
            assert named == [place for place in opened.places if place in named]
            assert {*named} <= failing
            assert all(opened.before(node, item) <= done for node, item in [*done, *named])
        assert done == {place for place in opened.places if self.play.ended[at, *place]}
        self.tries[at] += 1
        return {(at, *place) for place in done}

    def _judge(self, session: Session) -> None:
        """The session and the runs are what the oracle says, and nothing is left undone."""
        play, end = self.play, self.end
        assert play.odd == []
        assert session.head.cursor == end.cursor
        cells = {name: self.app.read(session, cls) for name, cls in play.classes.items()}
        assert {name: (kept.n, kept.k) for name, kept in cells.items()} == end.cells
        assert [(w, _pair(told)) for w, told in session.results.items()] == list(end.results.items())
        assert [(w, tuple(map(_pair, all_of))) for w, all_of in session.series.items()] == list(end.series.items())
        assert (session.activation, session.head.owed, self.app.unfinished(session)) == (None, False, ())
        points = Counter(points_of(end.opened))
        assert play.ended == points
        assert {point for point in self.sketch.failing if end.opened[point[0]].policy} == play.failed
        calm = [point for point in points if end.opened[point[0]].policy == "finish_siblings"]
        assert {p: play.entered[p] for p in calm} == {p: 1 + (p in self.sketch.failing) for p in calm}


def _pair(told: object) -> Pair:
    assert isinstance(told, Told)
    return told.n, told.item


# ---------------------------------------------------------------------------------------------------- what was drawn


def features(sketch: Sketch, end: Reckoning) -> set[str]:
    """What of interest happened in a sketch, as the oracle saw it."""
    found = {feature for opened in end.opened for feature in _shapes(opened)}
    for at, _, _ in sketch.failing:
        found.add(f"failing worker, {end.opened[at].policy}")
    again = [a.parent for a, b in zip(end.opened, end.opened[1:], strict=False) if a.stage == b.parent == a.parent]
    parents = [opened.parent for opened in end.opened]
    joined = [opened.stage for opened in end.opened]
    if again or any(p in joined[i:j] for i, p in enumerate(parents) for j, q in enumerate(parents) if i < j and p == q):
        found.add("loop through a stage")
    found |= {"job"} if sketch.entry in sketch.workers else set()
    found |= {"second turn"} if len(end.replies) > 1 else set()
    return found


def _shapes(opened: Opened) -> set[str]:
    nodes = [*opened.workers, *([opened.stage] if opened.stage else [])]
    joins = [n for n in nodes if len(opened.into[n]) > 1]
    length = {w: 1 + max(map(len, _ways(opened, w))) for w in opened.workers}
    found = set()
    if any({*opened.above[n]} & {*joins} for n in joins):
        found.add("chained joins")
    for node in joins:
        lines = [{w, *opened.above[w]} for w in opened.into[node]]
        if any(a & b and not a <= b and not b <= a for a in lines for b in lines):
            found.add("diamond")
        if len({length[w] for w in opened.into[node]}) > 1:
            found.add("branches of unequal length")
    if opened.inputs is not None:
        found.add("scatter" if opened.inputs else "empty scatter")
    if opened.inputs:
        ones = {t for sources, t, _ in opened.sketch.joins if len(sources) == 1 and sources[0] in opened.each}
        found |= {"gather"} if ones & {*opened.once, opened.stage} else set()
        found |= {"per-item chain"} if len(opened.each) > 1 else set()
        found |= {"per-item diamond"} if {*joins} & {*opened.each} else set()
    return found


def _ways(opened: Opened, worker: str) -> list[list[str]]:
    """Every way to a worker from where its activation opened."""
    return [[*way, before] for before in opened.into[worker] for way in _ways(opened, before)] or [[]]


def test_e_every_order_and_every_limit_comes_to_what_the_oracle_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Rules E1 to E6, E12: over generated graphs, each worker once an activation, nothing undone, one final session."""
    counted: Counter[str] = Counter()

    @settings(max_examples=max(150, settings().max_examples))
    @given(sketches(), orders, orders, st.sampled_from([*[None] * 25, *range(5)]))
    def every(sketch: Sketch, one: list[int], other: list[int], whole: int | None) -> None:
        piece = Piece(sketch)
        sessions: list[Session] = []
        for order, limit in ((one, None), (other, None), (one, 1), (one, 2), (other, 2)):
            compiles = len(sessions) == whole
            app = piece.graph.compile(max_branches=limit) if compiles else piece.compiled(limit)
            sessions.append(asyncio.run(Trial(piece, app, order, limit).run()))
        assert all(session == sessions[0] for session in sessions)
        found = features(sketch, piece.end)
        counted.update(["examples", *found])
        for feature in sorted(found):
            event(feature)

    every()
    total = counted.pop("examples")
    shares = {feature: counted[feature] / total for feature in (*FEATURES, *sorted({*counted} - {*FEATURES}))}
    told = ", ".join(f"{feature} {counted[feature]} ({share:.0%})" for feature, share in shares.items())
    logging.getLogger(__name__).info("%d generated graphs: %s", total, told)
    with capsys.disabled():
        sys.stdout.write(f"\n{total} generated graphs: {told}\n")
    assert [feature for feature in FEATURES if shares[feature] < SHARE] == []
