"""Draws whole graphs with what happens in them, and builds them: real classes, whose annotations `compile` reads.

Every graph that is drawn is one that `compile` accepts.  Its workers are cut into areas, each of which leads into one
stage or to END, so that no opening reaches two stages; the areas' sources are all opened by something.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import Any, TypeAlias

from attrs import field, frozen
from hypothesis import strategies as st
from oracle import END, Act, Opened, Pair, Place, Sketch, digest, reckoned

from ezgraph import (
    Context,
    Direct,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    NoResult,
    StageContext,
    TaskResult,
    Worker,
    direct,
    fanout,
    finish,
    go,
    scatter,
    task_result,
)

AnyGo: Any = Go  # targets are made at run time, and no checker knows them
AnyFanout: Any = Fanout
AnyGraph: Any = Graph

Links: TypeAlias = tuple[list[tuple[str, str]], list[tuple[tuple[str, ...], str, str | None]]]
"""Edges and joins."""

Point: TypeAlias = tuple[int, str, int | None]
"""One run of a worker: which activation, who, which item."""


# ------------------------------------------------------------------------------------------------------ what is drawn


@frozen
class Area:
    """Workers that lead into one place.

    Attributes:
        line: Each after what leads into it.
        sink: A stage or END.
        policy: What its joins say of a failure, where they say anything.
        links: Its edges and joins.
    """

    line: tuple[str, ...]
    sink: str
    policy: str | None
    links: Links

    def sources(self) -> tuple[str, ...]:
        """The workers that nothing leads into."""
        edges, joins = self.links
        led = {t for _, t in edges} | {t for _, t, _ in joins}
        return tuple(w for w in self.line if w not in led)


SHAPES: Sequence[Mapping[int, Sequence[int]]] = (
    {},
    {1: [0]},
    {1: [0], 2: [0], 3: [1, 2]},
    {1: [0], 2: [0], 3: [1, 2], 4: [3]},
    {1: [0], 2: [1], 3: [0, 2]},
    {1: [0], 2: [1], 3: [2]},
    {1: [], 2: [0, 1], 3: [], 4: [2, 3]},
)
"""How an area begins: by the place of a worker in its line, what leads into it; the rest is drawn."""


def _subsets(names: Sequence[str], least: int, most: int = 7) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), min_size=least, max_size=min(most, len(names)), unique=True)


@st.composite
def _linked(draw: st.DrawFn, sources: Sequence[str], target: str, policy: str | None) -> Links:
    """Ways from workers into one node: edges, a join of all, joins of one, or a join with edges beside it."""
    if not sources:
        return [], []
    together = draw(
        st.sampled_from(["join", "join", "edges", "ones", "mixed"] if sources[1:] else ["ones", "edges", "edges"])
    )
    said = st.sampled_from([policy, policy, policy, None])
    if together == "edges":
        return [(w, target) for w in sources], []
    if together == "ones":
        return [], [((w,), target, draw(said)) for w in sources]
    joined = len(sources) if together == "join" else len(sources) - 1
    return [(w, target) for w in sources[joined:]], [(tuple(sources[:joined]), target, draw(said))]


@st.composite
def _areas(draw: st.DrawFn, line: tuple[str, ...], sink: str, policy: str | None, sources: int) -> Area:
    """An area of the given workers; with `sources` 1, nothing but the first of them begins it."""
    edges: list[tuple[str, str]] = []
    joins: list[tuple[tuple[str, ...], str, str | None]] = []

    def link(sources: Sequence[str], target: str) -> None:
        more = draw(_linked(sources, target, policy))
        edges.extend(more[0])
        joins.extend(more[1])

    shape = draw(st.sampled_from(SHAPES))
    for at, worker in enumerate(line[1:], 1):
        if at in shape and (shape[at] or sources > 1):
            link([line[before] for before in shape[at]], worker)
        else:
            link(draw(_subsets(line[:at], int(sources == 1 or draw(st.booleans())), 3)), worker)
    on = {s for s, _ in edges} | {s for ss, _, _ in joins for s in ss}
    ends = [w for w in line if w not in on]
    if sink == END:
        edges.extend((w, END) for w in ends)
    else:
        link([*ends, *(w for w in line if w in on and draw(st.integers(0, 5)) == 5)], sink)
    return Area(line, sink, policy, (edges, joins))


@frozen
class Openings:
    """What opens activations, by stage: the `Fanout`s of its annotation, and the workers its edges lead into."""

    fanouts: Mapping[str, list[tuple[str, ...]]]
    edges: dict[str, tuple[str, ...]] = field(factory=dict)

    def cover(self, draw: st.DrawFn, stage: str, area: Area) -> None:
        """Let `stage` open an area, so that all of it is reached."""
        roots = area.sources()
        extra = [w for w in area.line if w not in roots and draw(st.integers(0, 5)) == 5]
        ways = ["edges"] * (stage not in self.edges) + ["fanout"] * 2 * (len(roots) > 1) + ["scatter"] * 2
        way = draw(st.sampled_from(ways))
        if way == "edges":
            self.edges[stage] = (*roots, *extra)
        elif way == "fanout":
            self.fanouts[stage].append((*roots, *extra))
        else:
            self.fanouts[stage].extend((root,) for root in roots)


@st.composite
def _acts(draw: st.DrawFn, sketch: Sketch, stage: str, openings: Openings) -> Act:
    """What a stage does in one run: it opens something more often than not, or goes where something can be opened."""
    ways: list[st.SearchStrategy[Act]] = [st.just(Act(None))] * (stage in openings.edges)
    for roots in openings.fanouts[stage]:
        if len(roots) > 1:
            ways.append(_subsets(roots, 2).map(lambda some: Act(Fanout, tuple(some))))
        else:
            numbers = st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple)
            ways.extend(some.map(partial(Act, Fanout, roots)) for some in (numbers, numbers, st.just(())))
    others = [other for other in sketch.stages if openings.fanouts[other] or other in openings.edges]
    if not ways or draw(st.integers(0, 4)) == 4:
        ways = [st.sampled_from(others or sketch.stages).map(lambda other: Act(Go, (other,)))] * 3
        ways += [st.sampled_from([Act(None), Act(Direct)])]
    act = draw(draw(st.sampled_from(ways)))
    written = draw(st.dictionaries(st.sampled_from(sketch.workers), st.integers(1, 9), max_size=1))
    return Act(act.response, act.targets, act.inputs, tuple(written.items()))


@st.composite
def sketches(draw: st.DrawFn) -> Sketch:
    """A graph of two to seven workers and up to three stages, or a job, and what every run in it does."""
    workers = tuple("ABCDEFG"[: draw(st.sampled_from([5, 2, 3, 4, 5, 6, 6, 7]))])
    line = tuple(draw(st.permutations(workers)))
    stages = tuple("STU"[: draw(st.integers(1, 3))])
    cut = draw(st.sampled_from([len(line), len(line), len(line) // 2, max(2, len(line) - 2)]))
    job = draw(st.integers(0, 5)) == 5
    sinks = st.sampled_from([*stages, *stages, END])
    policies = st.sampled_from(["cancel_siblings", "cancel_siblings", "finish_siblings", None])
    first = draw(_areas(line[:cut], draw(sinks), draw(policies), 1 if job else 2))
    if job and first.sink == END:
        stages, workers = (), tuple(w for w in workers if w in first.line)
    areas = [first]
    if line[cut:] and stages:
        sink, policy = draw(sinks), draw(policies)
        policy = first.policy if sink == first.sink != END else policy  # joins into one node agree
        areas.append(draw(_areas(line[cut:], sink, policy, 2)))
    openings = Openings({stage: [] for stage in stages})
    for at, area in enumerate(areas):
        if stages and (at or not job):
            openings.cover(draw, draw(st.sampled_from(stages)), area)
    for stage in stages:
        _open_more(draw, openings.fanouts[stage], areas)
    edges = [link for area in areas for link in area.links[0]]
    edges += [(stage, worker) for stage, some in openings.edges.items() for worker in some]
    for stage in stages:
        if stage not in openings.edges and draw(st.integers(0, 3)) == 3:
            edges.append((stage, draw(st.sampled_from([END, *stages]))))
    sketch = Sketch(
        entry=line[0] if job else "S",
        workers=workers,
        stages=stages,
        edges=tuple(draw(st.permutations(edges))),
        joins=tuple(draw(st.permutations([join for area in areas for join in area.links[1]]))),
        declared={stage: tuple(found) for stage, found in openings.fanouts.items()},
        scripts={},
        last={stage: Act(draw(st.sampled_from([Direct, Finish]))) for stage in stages},
        savers=draw(st.frozensets(st.sampled_from(workers))),
        sync=draw(st.frozensets(st.sampled_from(workers), max_size=2)),
        turns=draw(st.integers(1, 3)),
    )
    acts = {stage: st.lists(_acts(sketch, stage, openings), min_size=1, max_size=3).map(tuple) for stage in stages}
    sketch = replace(sketch, scripts=draw(st.fixed_dictionaries(acts)))
    points = [p for p in points_of(reckoned(sketch).opened) if not job or p != (0, sketch.entry, None)]
    fails = draw(st.booleans())
    failing = draw(st.lists(st.sampled_from(points), min_size=1, max_size=3)) if points and fails else []
    return replace(sketch, failing=frozenset(failing))


def _open_more(draw: st.DrawFn, found: list[tuple[str, ...]], areas: Sequence[Area]) -> None:
    """Perhaps one more `Fanout` for a stage: a scatter, some of an area, or one of each where that can be."""
    area = draw(st.sampled_from(areas))
    which = draw(st.sampled_from(["none", "scatter", "fanout", "both"]))
    exclusive = all(a.sink != END for a in areas) or len({a.policy for a in areas if a.policy}) > 1
    if which == "scatter":
        found.append((draw(st.sampled_from(area.line)),))
    elif which == "fanout" and len(area.line) > 1:
        found.append(tuple(draw(_subsets(area.line, 2))))
    elif which == "both" and len(areas) > 1 and not exclusive:
        found.append(tuple(draw(st.sampled_from(a.line)) for a in areas))


def points_of(opened: Sequence[Opened]) -> list[Point]:
    """Every run of a worker, activation by activation, in dispatch order."""
    return [(at, *place) for at, one in enumerate(opened) for place in one.places]


# ------------------------------------------------------------------------------------------------- what it is built of


@frozen
class Kept:
    """What every node keeps: a value, and the item that it is for or the number of the run that kept it."""

    n: int = 0
    k: int = -1


@frozen
class Told:
    """What every worker yields: a value, and the item that it is for."""

    n: int
    item: int


class Planned(Exception):  # noqa: N818  what a run is told to raise
    """A worker fails, as was drawn."""

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self.place: Place = point[1:]


class Play:
    """One playing of a sketch: what its nodes do, and in which order workers that wait are let go on.

    Attributes:
        entered: How often each run of a worker began.
        ended: How often each came to its end.
        waiting: The runs that wait to be let go on, in the order in which they began.
        odd: What must not happen: here, a run that could see what it does not come after.
    """

    def __init__(self, sketch: Sketch, classes: Mapping[str, Any]) -> None:
        self.sketch, self.classes = sketch, classes
        self.activation = 0 if sketch.entry in sketch.workers else -1
        self.entered: Counter[Point] = Counter()
        self.ended: Counter[Point] = Counter()
        self.failed: set[Point] = set()
        self.waiting: dict[Point, asyncio.Future[None]] = {}
        self.odd: list[object] = []

    def let_go(self, choice: int) -> None:
        """Let one of the waiting go on."""
        point = list(self.waiting)[choice % len(self.waiting)]
        self.waiting.pop(point).set_result(None)

    def seen(self, ctx: Any) -> tuple[dict[str, Pair], dict[str, Pair], dict[str, tuple[Pair, ...]]]:
        """All that a step can read: states, results, series."""
        cells, results, series = {}, {}, {}
        for name, cls in self.classes.items():
            kept = ctx.read(cls)
            cells[name] = (kept.n, kept.k)
            if name in self.sketch.workers:
                try:
                    series[name] = tuple((one.n, one.item) for one in ctx.results(cls))
                except NoResult:
                    if (told := ctx.result(cls, default=None)) is not None:
                        results[name] = (told.n, told.item)
        return cells, results, series

    def begin(self, name: str, ctx: Any) -> Point:
        """A run of a worker begins; its item is told by its input, or by what it comes after."""
        items = {ctx.state.k, *(item for _, item in self.seen(ctx)[1].values())} - {-1}
        point = (self.activation, name, min(items, default=None))
        self.entered[point] += 1
        return point

    async def work(self, name: str, ctx: Any) -> TaskResult[Told]:
        """A run that is let go on when it is its turn."""
        point, before = self.begin(name, ctx), self.seen(ctx)
        self.waiting[point] = asyncio.get_running_loop().create_future()
        try:
            await self.waiting[point]
        finally:
            self.waiting.pop(point, None)
        if self.seen(ctx) != before:
            self.odd.append((point, before, self.seen(ctx)))
        return self.end(point, ctx)

    def end(self, point: Point, ctx: Any) -> TaskResult[Told]:
        """A run comes to its end: it fails, or yields a digest of all it read."""
        _, name, item = point
        if point in self.sketch.failing and point not in self.failed:
            self.failed.add(point)
            raise Planned(point)
        index = -1 if item is None else item
        value = digest(name, index, *self.seen(ctx))
        if name in self.sketch.savers:
            ctx.save(Kept(value))
        self.ended[point] += 1
        return task_result(Told(value, index))

    def act(self, name: str, ctx: Any) -> Any:
        """A run of a stage."""
        run, script = ctx.state.k + 1, self.sketch.scripts[name]
        act = script[run] if run < len(script) else self.sketch.last[name]
        value = digest(name, -1, *self.seen(ctx))
        ctx.save(Kept(value, run))
        for worker, n in act.writes:
            ctx.write(self.classes[worker], Kept(n))
        leads = [self.classes[target] for target in act.targets]
        along = any(s == name and t in self.sketch.workers for s, t in self.sketch.edges)
        self.activation += act.response is Fanout or (act.response is None and along)
        if act.inputs is not None:
            return scatter(leads[0], [Kept(n, item) for item, n in enumerate(act.inputs)])
        answers: dict[Any, Callable[[], Any]] = {
            Go: lambda: go(leads[0]),
            Fanout: lambda: fanout(*leads),
            Direct: lambda: direct(str(value)),
            Finish: lambda: finish(str(value)),
            None: lambda: None,
        }
        return answers[act.response]()


class Stand:
    """Where a graph's nodes find the play that is on; the graph is made once and played several times."""

    play: Play


def classes_of(sketch: Sketch) -> dict[str, Any]:
    """A class for each node, by name."""

    def made(name: str, kind: Any, run: Any, arguments: Any) -> Any:
        def init(self: Any, stand: Stand) -> None:
            self.stand = stand

        return type(name, (kind,), {"run": run, "__init__": init, "__orig_bases__": (kind[arguments],)})

    classes: dict[str, Any] = {}
    for name in sketch.stages:
        classes[name] = made(name, GraphNode, _stage_run(name), Kept)
    for name in sketch.workers:
        classes[name] = made(name, Worker, _worker_run(name, sync=name in sketch.sync), (Kept, Told))
    for name in sketch.stages:
        leads = AnyGo[_union([classes[stage] for stage in sketch.stages])]
        opens = [AnyFanout[_union([classes[w] for w in roots])] for roots in sketch.declared[name]]
        classes[name].run.__annotations__ = {
            "ctx": StageContext[Kept],
            "return": _union([leads, *opens, Direct, Finish, None]),
        }
    return classes


def _union(members: Sequence[Any]) -> Any:
    return reduce(or_, members)


def _stage_run(name: str) -> Any:
    def run(self: Any, ctx: Any) -> Any:
        return self.stand.play.act(name, ctx)

    return run


def _worker_run(name: str, *, sync: bool) -> Any:
    def at_once(self: Any, ctx: Context[Kept]) -> TaskResult[Told]:
        return self.stand.play.end(self.stand.play.begin(name, ctx), ctx)  # type: ignore[no-any-return]

    async def in_turn(self: Any, ctx: Context[Kept]) -> TaskResult[Told]:
        return await self.stand.play.work(name, ctx)  # type: ignore[no-any-return]

    return at_once if sync else in_turn


def graph_of(sketch: Sketch, classes: Mapping[str, Any], stand: Stand) -> Any:
    """The sketch as a graph, whose nodes do what the play on the stand says."""
    graph = AnyGraph("generated", entry=classes[sketch.entry])
    graph = graph.stages(*(classes[name](stand) for name in sketch.stages))
    graph = graph.workers(*(classes[name](stand) for name in sketch.workers))
    for source, target in sketch.edges:
        graph = graph.edge(classes[source], classes.get(target, END))
    for sources, target, policy in sketch.joins:
        graph = graph.join(tuple(classes[w] for w in sources), to=classes[target], on_failure=policy)
    return graph
