"""From a definition to a plan: everything wrong is raised together, and nothing is left to be found while it runs.

`specs` reads one node, `ways` judges what leads where; here they are put together.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from ezgraph.annotations import Returns
from ezgraph.compilation.specs import NodeReader, id_of
from ezgraph.compilation.ways import Link, Ways
from ezgraph.errors import DefinitionError, Problem
from ezgraph.graph import Definition
from ezgraph.nodes import Conversation, Node, Stage, Worker
from ezgraph.plan import NodeSpec, Plan, Wiring
from ezgraph.session import END
from ezgraph.shapes import checker, flaws


def plan_of(definition: Definition, wiring: Wiring | None = None) -> Plan:
    """Judge a definition and make it a plan.

    Args:
        definition: What the author said.
        wiring: What `compile` was given; None judges the definition alone, where a model may come later.

    Raises:
        DefinitionError: Everything that is wrong.  Rules E8, M3.
    """
    problems: list[Problem] = []
    entry = definition.entry
    context = type(definition.context)
    problems.extend(
        Problem("mutable-state", "context", f"{context.__name__}: {flaw.path} {flaw.what}", flaw.mend)
        for flaw in flaws(context)
    )
    nodes: dict[str, NodeSpec] = {}
    ids: dict[type, str] = {}
    returns: dict[str, dict[str, Returns]] = {}
    for cls, node in _instances(definition, problems):
        reading = NodeReader(cls, node, wiring, problems).read()
        if not _provides(definition.context, reading.shared):
            problems.append(
                Problem(
                    "wrong-context",
                    cls.__name__,
                    f"needs a graph context of {getattr(reading.shared, '__name__', reading.shared)}",
                    f"This graph's is {context.__name__}: write Graph(..., context=...).",
                )
            )
        nodes[reading.spec.id] = reading.spec
        ids[cls] = reading.spec.id
        returns[reading.spec.id] = dict(reading.returns)
    if not (isinstance(entry, type) and issubclass(entry, Stage)):
        shown = entry.__name__ if isinstance(entry, type) else repr(entry)
        problems.append(
            Problem(
                "no-entry", "entry", f"{shown} is no stage's class", "Pass entry=Intake, a Conversation or GraphNode."
            )
        )
    if wiring is not None:
        _check_end_session(wiring, ids, problems)
    links = _links(definition, ids, problems)
    ways = Ways(ids.get(entry) if isinstance(entry, type) else None, nodes, ids, returns, links, problems)
    topology = ways.judge()
    if problems:
        raise DefinitionError(definition.name, problems)
    return Plan(
        graph=definition.name,
        entry=ids[entry],
        context=definition.context,
        context_type=context,
        context_check=checker(context),
        nodes=nodes,
        by_class={cls: nodes[node] for cls, node in ids.items()},
        edges={n: ways.edges_of(n) for n, spec in nodes.items() if spec.placement == "conversation"},
        topology=topology,
        arrows=ways.arrows(),
        wiring=wiring or Wiring(),
    )


def _provides(context: object, needed: object) -> bool:
    """Whether the graph's context is what a node asks for; `object` asks for nothing."""
    needed = type(None) if needed is None else needed
    return not isinstance(needed, type) or isinstance(context, needed)


def _instances(
    definition: Definition, problems: list[Problem]
) -> Iterable[tuple[type[Node[Any, Any]], Node[Any, Any]]]:
    """Every registered node once, the entry first where it is not registered again."""
    registered = [
        *((node, Stage, "stages") for node in definition.stages),
        *((node, Worker, "workers") for node in definition.workers),
    ]
    entry = definition.entry
    if isinstance(entry, type) and issubclass(entry, Stage) and not any(_class(n) is entry for n, _, _ in registered):
        registered.insert(0, (entry, Stage, "stages"))
    seen: dict[str, type] = {}
    for given, kind, method in registered:
        cls = _class(given)
        place = cls.__name__ if cls is not None else repr(given)
        if cls is None or not issubclass(cls, kind):
            mend = f"Register it with {'workers' if kind is Stage else 'stages'}()."
            if not _is_node(cls):
                mend = "Pass classes or instances of Conversation, GraphNode or Worker."
            problems.append(Problem("placement", f"{method}({place})", f"is no {kind.__name__.lower()}", mend))
            continue
        node_id = id_of(cls)
        if node_id in seen:
            what = (
                "is registered twice" if seen[node_id] is cls else f"has the id {node_id!r} of {seen[node_id].__name__}"
            )
            problems.append(Problem("duplicate-id", place, what, 'Give it its own: `id = "..."` in the class body.'))
            continue
        if node_id == END or node_id.startswith("$") or not node_id.strip():
            problems.append(Problem("reserved-id", place, f"the id {node_id!r} is the engine's", "Choose another id."))
            continue
        seen[node_id] = cls
        node = _instance(given, cls, problems)
        if node is not None:
            yield cls, node


def _is_node(cls: object) -> bool:
    return isinstance(cls, type) and issubclass(cls, Node)


def _class(given: object) -> type | None:
    if isinstance(given, type):
        return given
    return type(given) if isinstance(given, Node) else None


def _instance(given: object, cls: type[Node[Any, Any]], problems: list[Problem]) -> Node[Any, Any] | None:
    if isinstance(given, Node):
        return given
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(cls.__abstractmethods__))
        problems.append(
            Problem("abstract", cls.__name__, f"does not give {missing}", f"Write `def {missing}(self, ctx)`.")
        )
        return None
    try:
        return cls()
    except TypeError as error:
        mend = f"Pass an instance: {cls.__name__}(...)."
        problems.append(Problem("abstract", cls.__name__, f"cannot be made without arguments: {error}", mend))
        return None


def _check_end_session(wiring: Wiring, ids: dict[type, str], problems: list[Problem]) -> None:
    for cls in wiring.end_session:
        if cls not in ids or not issubclass(cls, Conversation):
            name = getattr(cls, "__name__", repr(cls))
            mend = (
                f"Name conversations of the graph: {', '.join(c.__name__ for c in ids if issubclass(c, Conversation))}."
            )
            problems.append(Problem("end-session", f"end_session={name}", "is no conversation of the graph", mend))


def _links(definition: Definition, ids: dict[type, str], problems: list[Problem]) -> list[Link]:
    """Edges and joins between ids; one that names a node that is not there is reported and left out."""
    links: list[Link] = []
    told: list[tuple[tuple[object, ...], object, bool]] = [
        *(((edge.source,), edge.target, False) for edge in definition.edges),
        *((join.sources, join.target, True) for join in definition.joins),
    ]
    for sources, target, is_join in told:
        names = [n.__name__ if isinstance(n, type) else str(n) for n in (*sources, target)]
        place = f"join(({', '.join(names[:-1])}), to={names[-1]})" if is_join else f"edge({', '.join(names)})"
        ends = [ids.get(n) if isinstance(n, type) else END if n == END else None for n in (*sources, target)]
        for name in (n for n, end in zip(names, ends, strict=True) if end is None):
            what = f"names {name}, which the graph does not have"
            mend = f"Register {name}; it has {', '.join(ids.values())}."
            problems.append(Problem("unknown-target", place, what, mend))
        known = [end for end in ends if end is not None]
        if len(known) == len(ends):
            links.append(Link(tuple(known[:-1]), known[-1], is_join))
    return links
