"""What `compile` makes of a definition: frozen, validated, drawable.  Everything a step needs is resolved here, once.

`ezgraph.compilation` judges a definition and builds the plan; nothing in a plan changes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, final

from attrs import Factory, field, frozen

from ezgraph.activations import Activation, Place
from ezgraph.arguments import Parameters
from ezgraph.errors import NoState, StateTypeError, UnknownTarget
from ezgraph.graph import AtEnd, Durability, OnConflict, OnFailure
from ezgraph.models.contract import Model, ToolSpec
from ezgraph.nodes import Node
from ezgraph.responses import UNSET, Origin, Placement
from ezgraph.restoring import Policy
from ezgraph.session import END
from ezgraph.shapes import Mismatch

Check: TypeAlias = Callable[[object], Mismatch | None]
Driver: TypeAlias = Literal["code", "model"]
"""What a node runs: its own `run`, or a model with tools."""


END_SESSION: Final = "end_session"
"""The name of the built-in tool that lets a customer end the session.  Rule D5."""


@final
@frozen(eq=False)
class Handler:
    """A method whose response may route, with what it may return.

    Attributes:
        name: The method's name.
        origin: Its row of table B.
        call: The bound method.
        kinds: The exact types that its annotation declares and table B allows; `NoneType` for nothing.
        awaits: Whether it is a coroutine function.
        blocking: Whether it runs in a worker thread.  Rule G5.
        goes: The targets of each `Go` that its annotation declares.
        directs: The same of `DirectTo`.
        openings: The workers of each `Fanout` that it declares: each an opening by itself.  Rules E2, E6.
        declared: What its annotation declares, as an author writes it.
    """

    name: str
    origin: Origin
    call: Callable[..., Any]
    kinds: frozenset[type]
    awaits: bool
    blocking: bool
    goes: frozenset[type]
    directs: frozenset[type]
    openings: tuple[frozenset[type], ...]
    declared: tuple[str, ...]


@final
@frozen(eq=False)
class Tool:
    """A tool of a node.

    Attributes:
        handler: The method.
        spec: What the model is told of it.
        parameters: How what the model wrote becomes arguments.
        timeout: Seconds that one call may take, or None.
        answer: The type of a `task_result` of it, which a journal keeps; None where it gives none.  Rule F2.
        answer_check: The check of a value against it.
        key: Its name among the tools of the graph: `node.tool`.
    """

    handler: Handler
    spec: ToolSpec
    parameters: Parameters
    timeout: float | None
    answer: object
    answer_check: Check
    key: str


def _is_tended(spec: NodeSpec) -> bool:
    return spec.on_exit or spec.timeout is not None or spec.rescue is not None


def _is_waiting(spec: NodeSpec) -> bool:
    return spec.run is None or spec.run.awaits or spec.run.blocking or spec.tended


@final
@frozen(eq=False)
class NodeSpec:
    """One node, resolved.

    Attributes:
        id: Its id.
        node: The author's instance.
        placement: How it is run.
        driver: What it runs.
        space: The history space of a stage; empty for a worker, whose messages are private to a run.
        state: The type of its state.
        state_check: The check of a value against that type.
        initial: What an absent state reads as, or UNSET.  Rule F8.
        output: A worker's output type.
        output_check: The check of a value against it; None for a stage.
        run: `run`, where code drives it.
        hook: `on_response`, where the author gave one.
        rescue: `on_error`, where the author gave one.
        on_enter: Whether the author gave one.
        on_exit: Whether the author gave one.
        tools: By the name the model calls.
        farewell: The arguments of the tool that ends the session, where its model may.  Rule D5.
        offered: What its model is told of, in order.
        model: What drives it, where a model does.
        rounds: Model messages allowed in one run.
        seed: The instruction that an empty history begins with.
        timeout: Seconds that one run may take, or None.
        tended: Whether something is to be done around its work: an end, an error hook, `on_exit`.
        waits: Whether a run is a coroutine; a plain function that needs no tending is just called.
    """

    id: str
    node: Any
    placement: Placement
    driver: Driver
    space: str
    state: object
    state_check: Check
    initial: object
    output: object
    output_check: Check | None
    run: Handler | None
    hook: Handler | None
    rescue: Handler | None
    on_enter: bool
    on_exit: bool
    tools: Mapping[str, Tool]
    farewell: Parameters | None
    offered: tuple[ToolSpec, ...]
    model: Model | None
    rounds: int
    seed: str | None
    timeout: float | None
    tended: bool = field(init=False, default=Factory(_is_tended, takes_self=True))
    waits: bool = field(init=False, default=Factory(_is_waiting, takes_self=True))

    def check_state(self, writer: str, value: object, item: int | None = None) -> None:
        """Refuse a value that is not of the state type, where it is written or, with `item`, given as an input.

        Raises:
            StateTypeError: Rule F3.
        """
        if (bad := self.state_check(value)) is not None:
            what = "the state" if item is None else f"input {item}"
            raise StateTypeError(writer, f"{what} of {self.id}", *bad)

    def initial_state(self, reader: str, plan: Plan) -> object:
        """What the state reads as where nothing has written it.

        Raises:
            NoState: Rule F8.
        """
        if self.initial is UNSET:
            raise NoState(reader, self.id, plan.writers(self.id))
        return self.initial


ArrowKind: TypeAlias = Literal["go", "direct_to", "fanout", "scatter", "finish", "edge", "join"]


@final
@frozen
class Arrow:
    """One drawn edge.

    Attributes:
        source: A node's id.
        target: A node's id, or END.
        kind: What leads there.
        label: The handler that routes; empty for edges and joins.
    """

    source: str
    target: str
    kind: ArrowKind
    label: str = ""


@final
@frozen(eq=False)
class Closure:
    """What an activation runs, and what it closes into.  Rules E2, E6.

    Attributes:
        each: The workers that run once per item of a scatter; none for any other opening.
        once: The workers that run once.
        stage: The stage it closes into, or None.
        before: For each worker and the stage, the workers of the closure that lead into it.
        after: For each worker, the workers of the closure that it leads into.
        policy: What a failure means for its siblings.  Rule E5.
        order: The place of each worker among those of `each`, or among those of `once`.
        items: The workers of `each`, to ask for one.

    All are in the plan's order: each worker after what leads into it, ties in registration order.  Rule E4.
    """

    each: tuple[str, ...]
    once: tuple[str, ...]
    stage: str | None
    before: Mapping[str, tuple[str, ...]]
    after: Mapping[str, tuple[str, ...]]
    policy: OnFailure
    order: Mapping[str, int] = field(init=False)
    items: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        order = {worker: i for runs in (self.each, self.once) for i, worker in enumerate(runs)}
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "items", frozenset(self.each))

    def places(self, items: int) -> Iterator[Place]:
        """Every run of the activation, in dispatch order: item by item, then what runs once."""
        for item in range(items):
            for worker in self.each:
                yield worker, item
        for worker in self.once:
            yield worker, None

    def size(self, items: int) -> int:
        """How many runs the activation has."""
        return items * len(self.each) + len(self.once)

    def position(self, place: Place) -> tuple[bool, int, int]:
        """Where a run stands in dispatch order, for sorting."""
        worker, item = place
        return (True, 0, self.order[worker]) if item is None else (False, item, self.order[worker])

    def ancestors(self, node: str) -> tuple[str, ...]:
        """What leads into a worker or the stage, through all generations.

        Worked out when it is asked for: kept for each worker of a chain, it is half the square of its length.
        """
        line = dict.fromkeys(self.before[node])
        for worker in (todo := list(line)):
            for before in self.before[worker]:
                if before not in line:
                    line[before] = None
                    todo.append(before)
        return tuple(w for w in (*self.each, *self.once) if w in line)


@final
@frozen(eq=False)
class Opening:
    """One declared way of opening an activation.  Rule E2.

    Attributes:
        place: Where it is declared: `Intake.run`, `the edges of Intake`, or `the entry`.
        scatters: Whether its one root runs for each input.
        closure: What it runs, where all of its workers are opened.
    """

    place: str
    scatters: bool
    closure: Closure


@final
@frozen(eq=False)
class Topology:
    """The workers' edges and joins.

    Attributes:
        into: By id, the workers that lead into it, in registration order.
        out: By worker, what it leads to, in registration order; may hold END.
        rank: By worker, its place in the plan's order.
        gathers: The workers and stages that a join of one source leads into: they run once for all items.  Rule E6.
        policies: By join target, the failure policy that a join names.  Rule E5.
    """

    into: Mapping[str, tuple[str, ...]]
    out: Mapping[str, tuple[str, ...]]
    rank: Mapping[str, int]
    gathers: frozenset[str] = frozenset()
    policies: Mapping[str, OnFailure] = {}

    def closure(self, roots: Iterable[str], *, scattered: bool = False) -> Closure:
        """What an opening of `roots` runs; a stage is not walked through."""
        roots = dict.fromkeys(roots)
        seen: dict[str, None] = {}
        todo = list(roots)
        while todo:
            node = todo.pop()
            if node not in seen and node != END:
                seen[node] = None
                todo.extend(self.out.get(node, ()))
        workers = tuple(sorted((n for n in seen if n in self.rank), key=self.rank.__getitem__))
        stage = next((n for n in seen if n not in self.rank), None)
        before: dict[str, tuple[str, ...]] = {}
        after: dict[str, list[str]] = {worker: [] for worker in workers}
        each: dict[str, None] = {}
        for node in (*workers, *([stage] if stage else ())):
            before[node] = tuple(sorted((w for w in self.into.get(node, ()) if w in seen), key=self.rank.__getitem__))
            if node != stage:
                for worker in before[node]:
                    after[worker].append(node)
            inside = node != stage and node not in self.gathers and all(b in each for b in before[node])
            if scattered and (node in roots or inside):
                each[node] = None
        once = tuple(w for w in workers if w not in each)
        named: list[OnFailure] = [self.policies[n] for n in seen if n in self.policies]
        policy: OnFailure = named[0] if named else "finish_siblings"
        return Closure(tuple(each), once, stage, before, {w: tuple(after[w]) for w in workers}, policy)


@final
@frozen(eq=False)
class Wiring:
    """What `compile` was given besides the definition.

    Attributes:
        model: The model of nodes that bring none.
        end_session: The classes whose model may end the session.
        on_conflict: What becomes of conflicting tool calls.
        at_end: What END means.
        max_branches: How many branches may run at once, or None.
        durability: Whether a finished call is in the store before the step goes on, or only whole steps are.  Rule F2.
        migrations: The versions to which a migration leads.  Rule L5.
        on_restore: What becomes of a session that input comes back to.
    """

    model: Model | None = None
    end_session: Sequence[type[Node[Any, Any]]] = ()
    on_conflict: OnConflict = "raise"
    at_end: AtEnd = "complete"
    max_branches: int | None = None
    durability: Durability = "call"
    migrations: frozenset[int] = frozenset()
    on_restore: Policy | None = None


@final
@frozen(eq=False, slots=False)
class Plan:
    """A graph, ready to run.

    Attributes:
        graph: Its name.
        entry: The id of the stage that a session begins at.
        context: The initial value of its context.
        context_type: The type of its context.
        context_check: The check of a value against it.
        nodes: By id, in registration order.
        by_class: The same, by class.
        edges: What a stage that continues leads to: one stage, END, or workers.
        topology: The workers' edges and joins.
        openings: Every declared way of opening an activation.
        arrows: What is drawn, in a stable order.
        wiring: What `compile` was given besides.
    """

    graph: str
    entry: str
    context: Any
    context_type: object
    context_check: Check
    nodes: Mapping[str, NodeSpec]
    by_class: Mapping[type, NodeSpec]
    edges: Mapping[str, tuple[str, ...]]
    topology: Topology
    openings: tuple[Opening, ...]
    arrows: tuple[Arrow, ...]
    wiring: Wiring

    @cached_property
    def _closures(self) -> dict[tuple[tuple[str, ...], bool], Closure]:
        return {}

    def closure(self, activation: Activation) -> Closure:
        """What an activation runs; worked out once for each way of opening one."""
        key = activation.roots, activation.inputs is not None
        found = self._closures.get(key)
        if found is None:
            found = self._closures[key] = self.topology.closure(key[0], scattered=key[1])
        return found

    @property
    def is_job(self) -> bool:
        """Whether its entry is a worker: a turn at the entry needs no message.  Rule E12."""
        return self.nodes[self.entry].placement == "internal"

    def find(self, asker: str, node: object) -> NodeSpec:
        """The spec of a node's class.

        Raises:
            UnknownTarget: The graph has no such node.  Rule A3.
        """
        spec = self.by_class.get(node) if isinstance(node, type) else None
        if spec is None:
            name = node.__name__ if isinstance(node, type) else repr(node)
            raise UnknownTarget(asker, name, tuple(self.nodes))
        return spec

    def in_order(self, classes: Collection[type]) -> tuple[str, ...]:
        """The ids of some of its nodes, in the plan's order."""
        return tuple(spec.id for cls, spec in self.by_class.items() if cls in classes)

    def writers(self, node: str) -> tuple[str, ...]:
        """Who could write a node's state, in words."""
        ways = dict.fromkeys(
            f"{a.kind}({node}).with_state(...) in {a.source}.{a.label}"
            for a in self.arrows
            if a.target == node and a.kind in {"go", "direct_to"}
        )
        return (*ways, f"ctx.save(...) in {node}", f"ctx.write({node}, ...) in a stage")
