"""What a generated graph must come to, reckoned one step after another from the rules alone.

Nothing of the engine is used here: no plan, no event loop, no order of ending.  Whatever a node keeps or yields is a
pair of numbers: a state is (value, item or run), an output (value, item), and each value is a digest of all that its
step read.  So one wrong read anywhere changes everything after it.  Rules A5, A8, A9, E1 to E6, E12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from zlib import crc32

from ezgraph import Direct, Fanout, Finish, Go

END = "END"
Pair: TypeAlias = tuple[int, int]
Place: TypeAlias = tuple[str, int | None]
BLANK: Pair = (0, -1)  # a state that nobody has written


@dataclass(frozen=True)
class Act:
    """What a stage does in one run, besides saving its own state; without a response it continues along its edges."""

    response: type | None
    targets: tuple[str, ...] = ()
    inputs: tuple[int, ...] | None = None  # of a scatter
    writes: tuple[tuple[str, int], ...] = ()  # workers' states


@dataclass(frozen=True)
class Sketch:
    """A graph and what happens in it, by name; nodes, edges and joins in the order in which they are told."""

    entry: str  # a stage, or the worker that a job begins with
    workers: tuple[str, ...]
    stages: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    joins: tuple[tuple[tuple[str, ...], str, str | None], ...]  # sources, target, policy
    declared: Mapping[str, tuple[tuple[str, ...], ...]]  # by stage, the workers of each `Fanout` in its annotation
    scripts: Mapping[str, tuple[Act, ...]]  # by stage, what its runs do
    last: Mapping[str, Act]  # by stage, what every later run does
    savers: frozenset[str]  # the workers that save what they saw
    sync: frozenset[str]  # the workers whose `run` is no coroutine
    turns: int  # unless the session completes before
    failing: frozenset[tuple[int, str, int | None]] = frozenset()  # what raises the first time: activation, place

    def leads(self, source: str, target: str) -> bool:
        """Whether an edge or a join leads from one to the other."""
        return (source, target) in self.edges or any(source in s and target == t for s, t, _ in self.joins)

    def order(self) -> list[str]:
        """The workers, each after what leads into it, ties in registration order."""
        found: list[str] = []
        while left := [w for w in self.workers if w not in found]:
            found.append(next(w for w in left if not any(self.leads(b, w) for b in left)))
        return found


def digest(
    node: str, item: int, cells: Mapping[str, Pair], results: Mapping[str, object], series: Mapping[str, object]
) -> int:
    """What a step makes of all it read."""
    return crc32(repr((node, item, sorted(cells.items()), sorted(results.items()), sorted(series.items()))).encode())


class Opened:
    """One activation: what it runs, and what that comes to.

    `into` has, for each worker of it and each stage, what leads there; `above` the same through all generations.
    """

    def __init__(self, sketch: Sketch, parent: str, roots: Sequence[str], inputs: Sequence[int] | None) -> None:
        self.sketch, self.parent, self.roots, self.inputs = sketch, parent, tuple(roots), inputs
        nodes, inside = [*sketch.workers, *sketch.stages], set(roots)
        while more := {n for n in nodes for b in inside & {*sketch.workers} if sketch.leads(b, n)} - inside:
            inside |= more
        self.workers = [w for w in sketch.order() if w in inside]
        self.stage = next((s for s in sketch.stages if s in inside), None)
        self.into = {n: [w for w in self.workers if sketch.leads(w, n)] for n in [*self.workers, *sketch.stages]}
        self.above: dict[str, list[str]] = {}
        for node, near in self.into.items():  # each after what leads into it
            self.above[node] = [w for w in self.workers if w in near or any(w in self.above[b] for b in near)]
        self.policy = next((p for _, t, p in sketch.joins if t in inside and p), "finish_siblings")
        self.items = range(len(inputs or ()))
        self.each = [w for w in self.workers if inputs is not None and self._is_per_item(w)]
        self.once = [w for w in self.workers if w not in self.each]
        self.places: list[Place] = [(w, i) for i in self.items for w in self.each]
        self.places += [(w, None) for w in self.once]
        self.outputs: dict[Place, Pair] = {}
        self.saved: dict[str, Pair] = {}

    def _is_per_item(self, worker: str) -> bool:
        gathers = any(t == worker and len(s) == 1 for s, t, _ in self.sketch.joins)
        return worker in self.roots or (not gathers and all(self._is_per_item(b) for b in self.into[worker]))

    def before(self, node: str, item: int | None) -> set[Place]:
        """What must be done before a run of a node."""
        return {(w, i) for w, i in self.places if w in self.into[node] and (i == item or None in {i, item})}

    def read(self, node: str, item: int | None) -> tuple[dict[str, Pair], dict[str, Pair]]:
        """The states and the results of what a run of a node comes after."""
        above = self.above[node]
        cells = {w: self.saved[w] for w in above if w in self.saved}
        own = {w: self.outputs[w, item] for w in above if w in self.each and item is not None}
        return cells, {**own, **{w: self.outputs[w, None] for w in above if w in self.once}}

    def series(self, node: str) -> dict[str, tuple[Pair, ...]]:
        """By per-item worker, all the outputs that a node which runs once comes after."""
        return {w: tuple(self.outputs[w, i] for i in self.items) for w in self.above[node] if w in self.each}

    def run(self, cells: Mapping[str, Pair]) -> None:
        """Run everything, from the states as they were when it opened."""
        for node, item in self.places:
            written, results = self.read(node, item)
            seen = {**cells, **written}
            if item is not None and self.inputs is not None and node in self.roots:
                seen[node] = (self.inputs[item], item)
            index = -1 if item is None else item
            value = digest(node, index, seen, results, {} if item is not None else self.series(node))
            self.outputs[node, item] = (value, index)
            if item is None and node in self.sketch.savers:
                self.saved[node] = (value, -1)

    def passes(self, failing: set[Place]) -> list[tuple[list[Place], set[Place]]]:
        """Under `finish_siblings`: what fails in each try, in order, and what is done after it."""
        done: set[Place] = set()
        found: list[tuple[list[Place], set[Place]]] = []
        while len(done) < len(self.places):
            failed: list[Place] = []
            for place in self.places:
                if place not in done and self.before(*place) <= done:
                    failed.append(place) if place in failing else done.add(place)
            failing = failing - {*failed}
            found.append((failed, {*done}))
        return found


@dataclass
class Reckoning:
    """Where a session stands, and how it came there."""

    cursor: str
    cells: dict[str, Pair]
    results: dict[str, Pair] = field(default_factory=dict)
    series: dict[str, tuple[Pair, ...]] = field(default_factory=dict)
    replies: list[str | None] = field(default_factory=list)
    opened: list[Opened] = field(default_factory=list)


def reckoned(sketch: Sketch) -> Reckoning:
    """All turns of a session, one after another."""
    now = Reckoning(sketch.entry, dict.fromkeys((*sketch.workers, *sketch.stages), BLANK))
    while len(now.replies) < sketch.turns and now.cursor != END:
        opens = now.cursor in sketch.workers
        goes_on = _opens(sketch, now, (sketch.entry,), None) if opens else _runs(sketch, now)
        while goes_on:
            goes_on = _runs(sketch, now)
    return now


def _runs(sketch: Sketch, now: Reckoning) -> bool:
    """One run of the cursor's stage; whether the turn goes on."""
    stage = now.cursor
    run = now.cells[stage][1] + 1
    act = sketch.scripts[stage][run] if run < len(sketch.scripts[stage]) else sketch.last[stage]
    value = digest(stage, -1, now.cells, now.results, now.series)
    now.cells.update({stage: (value, run), **{worker: (n, -1) for worker, n in act.writes}})
    response, targets = act.response, act.targets
    if response is None:
        targets = tuple(t for s, t in sketch.edges if s == stage)
        response = Fanout if {*targets} & {*sketch.workers} else Go if targets else None
    if response is Fanout:
        return _opens(sketch, now, targets, act.inputs)
    now.cursor = END if response is Finish else targets[0] if response is Go else stage
    if now.cursor != stage:
        now.results, now.series = {}, {}
    if response is Go and now.cursor != END:
        return True
    now.replies.append(str(value) if response in {Direct, Finish} else None)
    return False


def _opens(sketch: Sketch, now: Reckoning, roots: Sequence[str], inputs: Sequence[int] | None) -> bool:
    """One activation, from its opening to its close; whether a stage goes on with the turn."""
    opened = Opened(sketch, now.cursor, roots, inputs)
    opened.run(now.cells)
    now.opened.append(opened)
    now.cells.update(opened.saved)
    stage = opened.stage
    now.results, now.series = (opened.read(stage, None)[1], opened.series(stage)) if stage else ({}, {})
    if stage is None:
        now.replies.append(None)
    now.cursor = stage or (END if now.cursor in sketch.workers else now.cursor)
    return stage is not None
