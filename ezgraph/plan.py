"""What `compile` makes of a definition: frozen, validated, drawable.  Everything a step needs is resolved here, once.

`ezgraph.compilation` judges a definition and builds the plan; nothing in a plan changes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, final

from attrs import frozen

from ezgraph.arguments import Parameters
from ezgraph.errors import NoState, StateTypeError, UnknownTarget
from ezgraph.graph import AtEnd, OnConflict
from ezgraph.models.contract import Model, ToolSpec
from ezgraph.nodes import Node
from ezgraph.responses import UNSET, Origin, Placement
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
        ways: What its annotation declares: (response type, target class).
        openings: The workers of each `Fanout` that it declares: each an opening by itself.  Rule E2.
        declared: What its annotation declares, as an author writes it.
    """

    name: str
    origin: Origin
    call: Callable[..., Any]
    kinds: frozenset[type]
    awaits: bool
    blocking: bool
    ways: frozenset[tuple[type, type]]
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
    """

    handler: Handler
    spec: ToolSpec
    parameters: Parameters
    timeout: float | None


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
        on_enter: Whether the author gave one.
        on_exit: Whether the author gave one.
        tools: By the name the model calls.
        farewell: The arguments of the tool that ends the session, where its model may.  Rule D5.
        offered: What its model is told of, in order.
        model: What drives it, where a model does.
        rounds: Model messages allowed in one run.
        seed: The instruction that an empty history begins with.
        timeout: Seconds that one run may take, or None.
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
    on_enter: bool
    on_exit: bool
    tools: Mapping[str, Tool]
    farewell: Parameters | None
    offered: tuple[ToolSpec, ...]
    model: Model | None
    rounds: int
    seed: str | None
    timeout: float | None

    def check_state(self, writer: str, value: object) -> None:
        """Refuse a value that is not of the state type.

        Raises:
            StateTypeError: Rule F3.
        """
        if (bad := self.state_check(value)) is not None:
            raise StateTypeError(writer, f"the state of {self.id}", *bad)

    def initial_state(self, reader: str, plan: Plan) -> object:
        """What the state reads as where nothing has written it.

        Raises:
            NoState: Rule F8.
        """
        if self.initial is UNSET:
            raise NoState(reader, self.id, plan.writers(self.id))
        return self.initial


ArrowKind: TypeAlias = Literal["go", "direct_to", "fanout", "finish", "edge", "join"]


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
    """What an activation runs, and what it closes into.  Rule E2.

    Attributes:
        workers: In the plan's order: each after what leads into it, ties in registration order.  Rule E4.
        stage: The stage it closes into, or None.
        before: For each worker and the stage, the workers of the closure that lead into it, in the plan's order.
        ancestors: The same, through all generations.
    """

    workers: tuple[str, ...]
    stage: str | None
    before: Mapping[str, tuple[str, ...]]
    ancestors: Mapping[str, tuple[str, ...]]


@final
@frozen(eq=False)
class Topology:
    """The workers' edges and joins.  `into` and `out` are by id, in registration order; `out` may hold END."""

    into: Mapping[str, tuple[str, ...]]
    out: Mapping[str, tuple[str, ...]]
    rank: Mapping[str, int]

    def closure(self, roots: Iterable[str]) -> Closure:
        """What an opening of `roots` runs; a stage is not walked through."""
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
        ancestors: dict[str, tuple[str, ...]] = {}
        for node in (*workers, *([stage] if stage else ())):
            before[node] = tuple(sorted((w for w in self.into.get(node, ()) if w in seen), key=self.rank.__getitem__))
            line = {w for b in before[node] for w in (b, *ancestors[b])}
            ancestors[node] = tuple(w for w in workers if w in line)
        return Closure(workers, stage, before, ancestors)


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
    """

    model: Model | None = None
    end_session: Sequence[type[Node[Any, Any]]] = ()
    on_conflict: OnConflict = "raise"
    at_end: AtEnd = "complete"
    max_branches: int | None = None


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
    arrows: tuple[Arrow, ...]
    wiring: Wiring

    @cached_property
    def _closures(self) -> dict[tuple[str, ...], Closure]:
        return {}

    def closure(self, roots: tuple[str, ...]) -> Closure:
        """What an opening of `roots` runs; worked out once for each set."""
        found = self._closures.get(roots)
        if found is None:
            found = self._closures[roots] = self.topology.closure(roots)
        return found

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

    def writers(self, node: str) -> tuple[str, ...]:
        """Who could write a node's state, in words."""
        ways = dict.fromkeys(
            f"{a.kind}({node}).with_state(...) in {a.source}.{a.label}"
            for a in self.arrows
            if a.target == node and a.kind in {"go", "direct_to"}
        )
        return (*ways, f"ctx.save(...) in {node}", f"ctx.write({node}, ...) in a stage")
