"""Edges, joins and routes together: what leads where, and every way in which that cannot work.  Rules E1 to E8."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, final

from attrs import field, frozen

from ezgraph.annotations import Returns, Way
from ezgraph.errors import Problem
from ezgraph.graph import OnFailure
from ezgraph.plan import END_SESSION, Arrow, ArrowKind, NodeSpec, Topology
from ezgraph.responses import UNSET, DirectTo, Fanout, Finish, Go
from ezgraph.session import END


@final
@frozen
class Link:
    """An edge or a join between ids that the graph has.

    Attributes:
        sources: One for an edge, one or more for a join; those that the graph has.
        target: An id, END, or `UNKNOWN`.
        join: Whether it was declared by `join`.
        place: As an author writes it.
        policy: The failure policy that a join names, or None.
    """

    sources: tuple[str, ...]
    target: str
    join: bool
    place: str
    policy: OnFailure | None = None


UNKNOWN: Final = "$unknown"
"""Stands for a target that the graph does not have, once that is told: something follows, nothing is known of it."""


@final
@frozen
class DeclaredOpening:
    """One declared way of opening an activation.

    Attributes:
        place: Where it is declared.
        roots: The workers it opens with, in registration order.
        head: What a path of it begins with: the handler, the stage, or nothing before a job's entry.
        scatters: Whether it is a scatter's: its root takes its state from the inputs.
    """

    place: str
    roots: tuple[str, ...]
    head: tuple[str, ...]
    scatters: bool = False

    def paths(self, goals: Iterable[str], out: Mapping[str, Sequence[str]]) -> list[str]:
        """The shortest ways from it to nodes that it reaches, as they are told."""
        came: dict[str, str | None] = dict.fromkeys(self.roots)
        for node in (todo := list(came)):
            for after in out.get(node, ()):
                if after not in came:
                    came[after] = node
                    todo.append(after)
        return [" → ".join((*self.head, *reversed(_back(goal, came)))) for goal in goals]


def _back(goal: str, came: Mapping[str, str | None]) -> list[str]:
    """The way back from a node, by what each was come to from."""
    way, before = [goal], came[goal]
    while before is not None:
        way.append(before)
        before = came[before]
    return way


@final
@frozen(eq=False)
class Ways:
    """Judges what leads where; problems go to `problems`.

    Attributes:
        entry: The entry's id, or None where it is no node of the graph.
        nodes: By id, in registration order.
        ids: By class, the id.
        returns: By id and handler, what its annotation says.
        mentions: By id, the names that its handlers mention whose annotations cannot be read.
        links: Edges and joins, in the order of the definition.
        problems: Where to put what is wrong.

    A graph may have ten thousand nodes: nothing here asks each node about each other one.
    """

    entry: str | None
    nodes: Mapping[str, NodeSpec]
    ids: Mapping[type, str]
    returns: Mapping[str, Mapping[str, Returns]]
    mentions: Mapping[str, frozenset[str]]
    links: Sequence[Link]
    problems: list[Problem]
    workers: Mapping[str, None] = field(init=False)
    _order: Mapping[str, int] = field(init=False)
    _targets: Mapping[str, tuple[str, ...]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        workers = dict.fromkeys(n for n, spec in self.nodes.items() if spec.placement == "internal")
        targets: dict[str, dict[str, None]] = {}
        for link in self.links:
            if len(link.sources) == 1 and not link.join:
                targets.setdefault(link.sources[0], {})[link.target] = None
        object.__setattr__(self, "workers", workers)
        object.__setattr__(self, "_order", {n: i for i, n in enumerate((*self.nodes, END, UNKNOWN))})
        object.__setattr__(self, "_targets", {source: tuple(found) for source, found in targets.items()})

    def judge(self) -> Topology:
        """Everything that is wrong, and the workers' topology (of use only where nothing is)."""
        for node, handlers in self.returns.items():
            for name, said in handlers.items():
                self._check_targets(node, name, said.ways)
        for link in self.links:
            self._check_link(link)
        pairs = self._pairs()
        into = self._by(self.nodes, ((target, source) for source, target in pairs if source in self.workers))
        out = self._by(self.workers, pairs)
        gathers = frozenset(link.target for link in self.links if link.join and len(set(link.sources)) == 1)
        policies = self._policies()
        named: dict[str, OnFailure] = {target: next(iter(told)) for target, told in policies.items()}
        topology = Topology(into, out, self._rank(into), gathers, named)
        self._check_ends(out)
        openings = self.openings()
        self._check_openings(openings, out, {t: named[t] for t, told in policies.items() if len(told) == 1})
        if self.entry is not None:
            self._check_reached(self.entry, into, out)
        self._check_initial(into, openings)
        return topology

    # -------------------------------------------------------------------------------- what leads where

    def _pairs(self) -> set[tuple[str, str]]:
        """What leads where; a join that is its own source leads on to nobody knows where."""
        return {
            (source, UNKNOWN if link.join and link.target == source else link.target)
            for link in self.links
            for source in link.sources
        }

    def _by(self, nodes: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
        """For each of `nodes`, what it is paired with, in registration order."""
        found: dict[str, list[str]] = {node: [] for node in nodes}
        for node, other in pairs:
            if node in found:
                found[node].append(other)
        return {node: self._in_order(others) for node, others in found.items()}

    def _in_order(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Nodes in registration order; END and UNKNOWN last."""
        return tuple(sorted(nodes, key=self._order.__getitem__))

    def edges_of(self, stage: str) -> tuple[str, ...]:
        """What a stage that continues leads to, in declaration order."""
        return self._targets.get(stage, ())

    def _known(self, ways: Iterable[Way]) -> Iterable[tuple[Way, tuple[str, ...]]]:
        """Ways with the ids of their targets, in registration order, as far as the graph has them."""
        for way in ways:
            yield way, self._in_order({self.ids[t] for t in way.targets if t in self.ids})

    def openings(self) -> list[DeclaredOpening]:
        """Every declared way of opening an activation."""
        found = [
            DeclaredOpening(f"{node}.{name}", roots, (f"{node}.{name}",), scatters=way.scatters)
            for node, handlers in self.returns.items()
            for name, said in handlers.items()
            for way, targets in self._known(said.ways)
            if way.response is Fanout and (roots := tuple(t for t in targets if t in self.workers))
        ]
        found += [
            DeclaredOpening(f"the edges of {stage}", roots, (stage,))
            for stage in self.nodes
            if stage not in self.workers
            and (roots := self._in_order(t for t in self.edges_of(stage) if t in self.workers))
        ]
        if self.entry is not None and self.entry in self.workers:
            found.append(DeclaredOpening("the entry", (self.entry,), ()))
        return found

    def _policies(self) -> dict[str, dict[OnFailure, str]]:
        """By join target, the failure policies that its joins name, each with a place; they must agree.  Rule E1."""
        found: dict[str, dict[OnFailure, str]] = {}
        for link in self.links:
            if link.policy is not None and link.target in self.nodes:
                found.setdefault(link.target, {}).setdefault(link.policy, link.place)
        for target, named in found.items():
            if len(named) > 1:
                self._problem(
                    "two-policies",
                    ", ".join(named.values()),
                    f"all that leads into {target} is one join of it, and here it has two failure policies",
                    "Name one of them, in one of the joins or in all.",
                )
        return found

    def _rank(self, into: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
        """The plan's order of the workers; each cycle among them is reported."""
        order: list[str] = []
        out = self._by(self.workers, ((b, w) for w in self.workers for b in into[w]))
        waits = {worker: len(into[worker]) for worker in self.workers}
        names, left, first = tuple(self.workers), dict(self.workers), 0
        place = {worker: i for i, worker in enumerate(names)}
        free = [place[worker] for worker in names if not waits[worker]]  # a heap: who was registered first comes first
        while left:
            if free:
                ranked: tuple[str, ...] = (names[heappop(free)],)
            else:
                while names[first] not in left:
                    first += 1
                cycle = self._cycle(names[first], left, into)
                self._problem(
                    "cycle",
                    " → ".join(cycle),
                    "workers lead round in a cycle, and nothing in it is conditional",
                    "Loop through a stage: join into it, and let it fan out again.",
                )
                ranked = tuple(dict.fromkeys(cycle))
            order += ranked
            for node in ranked:
                del left[node]
            for after in (after for node in ranked for after in out[node]):
                waits[after] -= 1
                if not waits[after] and after in left:
                    heappush(free, place[after])
        return {worker: i for i, worker in enumerate(order)}

    @staticmethod
    def _cycle(first: str, left: Container[str], into: Mapping[str, tuple[str, ...]]) -> list[str]:
        path = {first: 0}
        node = first
        while (node := next(b for b in into[node] if b in left)) not in path:
            path[node] = len(path)
        return [node, *reversed(tuple(path)[path[node] :])]

    # -------------------------------------------------------------------------------- what is wrong

    def _problem(self, kind: str, place: str, what: str, mend: str) -> None:
        self.problems.append(Problem(kind, place, what, mend))

    def _check_targets(self, node: str, name: str, ways: Sequence[Way]) -> None:
        for way in ways:
            for target in way.targets:
                if target not in self.ids:
                    verb = "workers" if way.response is Fanout else "stages"
                    self._problem(
                        "unknown-target",
                        f"{node}.{name}",
                        f"may lead to {target.__name__}, which the graph does not have",
                        f"Add .{verb}({target.__name__}); it has {', '.join(c.__name__ for c in self.ids)}.",
                    )

    def _check_link(self, link: Link) -> None:
        if link.join:
            for stage in (s for s in link.sources if s not in self.workers):
                self._forbid(link, f"{stage} is a stage, and a join waits for workers", "Use an edge.")
            if link.target in link.sources:
                self._forbid(link, f"{link.target} is its own source", "Join into another node.")
            if link.target == END:
                self._forbid(link, "END is no node", "Join into a stage that finishes, or write .edge(..., END).")
            return
        if not link.sources or link.sources[0] in self.workers:
            return
        source = self.nodes[link.sources[0]]
        if source.driver == "model":
            self._forbid(
                link,
                f"{source.id} is a Conversation, which never continues, so its edge never fires",
                "Let a tool or on_response of it return go(...), or make it a GraphNode.",
            )
        elif type(None) not in self._kinds(source.id):
            self._forbid(
                link,
                f"{source.id}.run never returns None, so its edge never fires",
                "Add `| None` to its return annotation, or remove the edge.",
            )
        targets = self.edges_of(source.id)
        if link.target != targets[0] or len(targets) == 1 or UNKNOWN in targets:
            return  # told once for all its edges
        if not all(t in self.workers for t in targets):
            place = ", ".join(other.place for other in self.links if other.sources == (source.id,) and not other.join)
            self._problem(
                "forbidden-edge",
                place,
                f"{source.id} has edges to {', '.join(targets)}",
                "A stage's edges lead to one stage, to END, or to workers only; choose with go(...).",
            )

    def _forbid(self, link: Link, what: str, mend: str) -> None:
        self._problem("forbidden-edge", link.place, what, mend)

    def _kinds(self, node: str) -> frozenset[type]:
        said = self.returns.get(node, {}).get("run")
        return frozenset({type(None)}) if said is None or said.flaws else said.kinds

    def _check_ends(self, out: Mapping[str, tuple[str, ...]]) -> None:
        for worker, targets in out.items():
            others = ", ".join(t for t in targets if t not in {END, UNKNOWN})
            if END in targets and others:
                self._problem(
                    "end-beside-others",
                    f"edge({worker}, END)",
                    f"{worker} also leads to {others}, and all ways out of a worker fire",
                    "Remove one of them.",
                )

    def _check_openings(
        self, openings: Sequence[DeclaredOpening], out: Mapping[str, tuple[str, ...]], policies: Mapping[str, OnFailure]
    ) -> None:
        dead: dict[str, list[str]] = {}
        for opening in openings:
            inside = [n for n in self._in_order(_closure(opening.roots, out)) if n not in {END, UNKNOWN}]
            stages = [n for n in inside if n not in self.workers]
            if len(stages) > 1:
                self._problem(
                    "two-stages",
                    opening.place,
                    f"reaches {len(stages)} stages: {', '.join(opening.paths(stages, out))}",
                    "From one opening at most one stage can be reached: join into one of them.",
                )
            joins = {policies[n]: n for n in reversed(inside) if n in policies}
            if len(joins) > 1:
                ways = dict(zip(joins, opening.paths(joins.values(), out), strict=True))
                told = ", ".join(f"{policy!r} by {way}" for policy, way in sorted(ways.items()))
                self._problem(
                    "two-policies",
                    opening.place,
                    f"reaches joins with two failure policies: {told}",
                    "What opens together fails together: let the joins agree, or name a policy in one of them.",
                )
            if ends := [w for w in inside if w in self.workers and not out[w]]:
                for worker, path in zip(ends, opening.paths(ends, out), strict=True):
                    dead.setdefault(worker, []).append(path)
        for worker, paths in dead.items():
            self._problem(
                "dead-end",
                worker,
                f"is reached by {' and '.join(dict.fromkeys(paths))}, and nothing follows it",
                f"Write .join(({worker}, ...), to=...), .edge({worker}, ...) or .edge({worker}, END).",
            )

    def _leads_to(self, node: str, out: Mapping[str, tuple[str, ...]], called: Mapping[str, Sequence[str]]) -> set[str]:
        """What a node leads to by any way: routes, edges, joins, and whatever it mentions where that cannot be read."""
        said = self.returns.get(node, {}).values()
        routes = {t for returns in said for _, targets in self._known(returns.ways) for t in targets}
        mentioned = {i for name in self.mentions.get(node, ()) for i in called.get(name, ())}
        return {*routes, *mentioned, *out.get(node, ()), *(() if node in out else self.edges_of(node))}

    def _check_reached(
        self, entry: str, into: Mapping[str, tuple[str, ...]], out: Mapping[str, tuple[str, ...]]
    ) -> None:
        """What nothing leads to; a join whose sources nothing leads to is told as one fault, with what comes after."""
        called: dict[str, list[str]] = {}
        for cls, node in self.ids.items():
            called.setdefault(cls.__name__, []).append(node)
        leads = {node: self._leads_to(node, out, called) for node in self.nodes}
        led = {target for node, targets in leads.items() for target in targets if target != node}
        reached = _closure([entry], leads)
        # From a link that names an unknown source, something unknown leads to the target.
        reached |= _closure([link.target for link in self.links if not link.sources and link.target in leads], leads)
        unfed: list[str] = []
        for link in self.links:
            if link.join and link.sources and not any(s in reached or s in led for s in link.sources):
                self._problem(
                    "unfed-join",
                    link.place,
                    f"nothing ever runs {' or '.join(link.sources)}",
                    "Lead to its sources by an edge, a fanout or a scatter, or remove the join.",
                )
                unfed += link.sources
        told = _closure(unfed, leads)
        for node, spec in self.nodes.items():
            callable_only = node in out and not into[node] and not out[node] and node not in led
            if node in reached or node in told or callable_only:
                continue
            worker = spec.placement == "internal"
            how = "an edge, a fanout or a scatter" if worker else "a go, a direct_to, an edge or a join"
            mend = f"Lead to it by {how}, or remove it."
            self._problem("unreachable", node, "nothing leads to it from the entry", mend)

    def _check_initial(self, into: Mapping[str, tuple[str, ...]], openings: Sequence[DeclaredOpening]) -> None:
        opened = {root for opening in openings if not opening.scatters for root in opening.roots}
        refused = self._refused()
        for node, spec in self.nodes.items():
            starts = node == self.entry or (node in self.workers and (node in opened or into[node]))
            name = (spec.node if isinstance(spec.node, type) else type(spec.node)).__name__
            if starts and spec.initial is UNSET and name not in refused:
                self._problem(
                    "no-initial-state",
                    node,
                    "begins with a state that nothing has written, and its type cannot be built without arguments",
                    "Give its fields defaults, or declare `... | None`.",
                )

    def _refused(self) -> set[str]:
        """The classes whose state's type is refused itself."""
        kinds = {"mutable-state", "missing-annotation", "unresolvable-annotation"}
        return {p.place for p in self.problems if p.kind in kinds}

    # -------------------------------------------------------------------------------- what is drawn

    def arrows(self) -> tuple[Arrow, ...]:
        """Every way out that is declared, in a stable order: by node, then handlers, then edges and joins."""
        found: list[Arrow] = []
        for node in self.nodes:
            for name, said in self.returns.get(node, {}).items():
                for way, targets in self._known(said.ways):
                    way_kind = "scatter" if way.scatters else _KINDS[way.response]
                    found.extend(Arrow(node, target, way_kind, name) for target in targets)
                if Finish in said.kinds:
                    found.append(Arrow(node, END, "finish", name))
            if self.nodes[node].farewell is not None:
                found.append(Arrow(node, END, "finish", END_SESSION))
        for link in self.links:
            kind: ArrowKind = "join" if link.join else "edge"
            found.extend(Arrow(source, link.target, kind) for source in link.sources)
        return tuple(dict.fromkeys(found))


_KINDS: Final[Mapping[type, ArrowKind]] = {Go: "go", DirectTo: "direct_to", Fanout: "fanout"}


def _closure(roots: Iterable[str], leads: Mapping[str, Iterable[str]]) -> set[str]:
    """The roots and what they lead to, directly or not."""
    seen: set[str] = set()
    todo = list(roots)
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo.extend(leads.get(node, ()))
    return seen
