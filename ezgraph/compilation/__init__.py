"""From a definition to a plan: everything wrong is raised together, and nothing is left to be found while it runs.

`handlers` reads one method, `specs` one node, `ways` judges what leads where; here they are put together.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from ezgraph.annotations import Returns, members, shown
from ezgraph.compilation.specs import NodeReader
from ezgraph.compilation.ways import UNKNOWN, Link, Ways
from ezgraph.errors import DefinitionError, Problem
from ezgraph.errors.words import quoted
from ezgraph.graph import Definition, OnFailure
from ezgraph.nodes import Conversation, Node, Stage, Worker
from ezgraph.plan import NodeSpec, Opening, Plan, Wiring
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
    entry, context = definition.entry, type(definition.context)
    for flaw in flaws(context):
        bare = context in {tuple, frozenset}  # whose value cannot say more
        mend = (
            "Put it into a frozen attrs class, whose field says tuple[X, ...] or frozenset[X]." if bare else flaw.mend
        )
        problems.append(Problem("mutable-state", "context", f"{context.__name__}: {flaw.path} {flaw.what}", mend))
    if not problems and (bad := checker(context)(definition.context)) is not None:
        path, wanted, found = bad
        mend = "Pass an initial context of its own type, to the last field."
        problems.append(Problem("wrong-context", "context", f"{path} must be {wanted}, and is {found}", mend))
    if not _may_begin(entry):
        shown_entry = entry.__name__ if isinstance(entry, type) else quoted(entry)
        mend = "Pass entry=Intake, a Conversation or GraphNode, or for a job a Worker."
        problems.append(Problem("no-entry", "entry", f"{shown_entry} is no node's class", mend))
    nodes: dict[str, NodeSpec] = {}
    ids: dict[type, str] = {}
    returns: dict[str, Mapping[str, Returns]] = {}
    mentions: dict[str, frozenset[str]] = {}
    for node_id, cls, node in _instances(definition, problems):
        reading = NodeReader(node_id, cls, node, wiring, problems).read()
        if not _provides(definition.context, reading.shared):
            what = f"needs a graph context of {shown(reading.shared)}"
            mend = f"This graph's is {shown(context)}: write Graph(..., context=...)."
            problems.append(Problem("wrong-context", cls.__name__, what, mend))
        nodes[node_id], ids[cls] = reading.spec, node_id
        returns[node_id] = reading.returns
        mentions[node_id] = frozenset(name for names in reading.mentions.values() for name in names)
    if wiring is not None:
        _check_end_session(wiring, ids, problems)
        _check_migrations(definition.version, wiring.migrations, problems)
    links = _links(definition, ids, problems)
    ways = Ways(ids.get(entry) if _may_begin(entry) else None, nodes, ids, returns, mentions, links, problems)
    topology = ways.judge()
    if problems:
        raise DefinitionError(definition.name, dict.fromkeys(problems))
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
        openings=tuple(
            Opening(opening.place, opening.scatters, topology.closure(opening.roots, scattered=opening.scatters))
            for opening in ways.openings()
        ),
        arrows=ways.arrows(),
        wiring=wiring or Wiring(),
    )


def _provides(context: object, needed: object) -> bool:
    """Whether the graph's context may be what a node asks for; `object` asks for nothing."""
    for wanted in members(needed):
        try:
            if not isinstance(wanted, type) or isinstance(context, wanted):
                return True
        except TypeError:  # a Protocol that cannot be asked: the type checkers hold it
            return True
    return False


# ------------------------------------------------------------------------------------------------------ the nodes


def _instances(definition: Definition, problems: list[Problem]) -> Iterator[tuple[str, type[Node[Any, Any]], Any]]:
    """Every registered node once with its id, the entry first where it is not registered again.

    Where there can be no instance, or the id is not to be had, that is a problem, and the class stands in, so that the
    rest of it is judged too.
    """
    registered: list[tuple[object, type[Node[Any, Any]], str]] = [
        *((node, Stage, "stages") for node in definition.stages),
        *((node, Worker, "workers") for node in definition.workers),
    ]
    entry = definition.entry
    if _may_begin(entry) and not any(_class(n) is entry for n, _, _ in registered):
        registered.insert(0, (entry, Stage, "stages") if issubclass(entry, Stage) else (entry, Worker, "workers"))
    seen: dict[str, type] = {}
    known: set[type] = set()
    for given, kind, method in registered:
        cls = _class(given)
        if cls is None:
            shown_given = given.__name__ if isinstance(given, type) else quoted(given)
            mend = "Pass classes or instances of your Conversations, GraphNodes and Workers."
            problems.append(Problem("placement", f"{method}({shown_given})", "is no node", mend))
            continue
        if cls in known:
            problems.append(Problem("duplicate-id", cls.__name__, "is registered twice", "Register it once."))
            continue
        if not issubclass(cls, kind):
            mend = f"Register it with {'workers' if kind is Stage else 'stages'}()."
            what = f"is no {kind.__name__.lower()}"
            problems.append(Problem("placement", f"{method}({cls.__name__})", what, mend))
        node_id = _id(cls, seen, problems)
        seen[node_id] = cls
        known.add(cls)
        yield node_id, cls, _instance(given, cls, problems)


def _is_node(given: object) -> TypeGuard[type[Node[Any, Any]]]:
    """Whether it is an author's node class; our own kinds are none."""
    return isinstance(given, type) and issubclass(given, Node) and given.__module__ != Node.__module__


def _may_begin(given: object) -> TypeGuard[type[Stage[Any, Any] | Worker[Any, Any, Any]]]:
    """Whether it can be an entry: a stage's class, or a worker's, for a job.  Rule E12."""
    return _is_node(given) and issubclass(given, Stage | Worker)


def _class(given: object) -> type[Node[Any, Any]] | None:
    """The class of a node given as a class or an instance; None for anything else."""
    cls = given if isinstance(given, type) else type(given)
    return cls if _is_node(cls) else None


def _id(cls: type, seen: dict[str, type], problems: list[Problem]) -> str:
    """A node's id: `id = "..."` in its own class body, else the class's name; another one where it cannot have that."""
    own = vars(cls).get("id", cls.__name__)
    mend = 'Give it its own: `id = "..."` in the class body.'
    if not isinstance(own, str) or own == END or own.startswith("$") or not own.strip():
        what = f"the id {quoted(own)} is " + ("the engine's" if isinstance(own, str) and own.strip() else "no name")
        problems.append(Problem("reserved-id", cls.__name__, what, mend))
    elif own in seen:
        what = f"has the id {quoted(own)} of {seen[own].__name__}"
        problems.append(Problem("duplicate-id", cls.__name__, what, mend))
    else:
        return own
    return cls.__name__ if cls.__name__ not in seen else f"{cls.__name__}#{len(seen)}"


def _instance(given: object, cls: type[Node[Any, Any]], problems: list[Problem]) -> object:
    """The author's instance, or one made here; the class itself where neither can be."""
    if not isinstance(given, type):
        return given
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(cls.__abstractmethods__))
        mend = f"Write `def {missing}(self, ctx)`."
        problems.append(Problem("abstract", cls.__name__, f"does not give {missing}", mend))
        return cls
    try:
        return cls()
    except Exception as error:  # noqa: BLE001  an author's constructor may raise anything
        mend = f"Pass an instance: {cls.__name__}(...)."
        problems.append(Problem("abstract", cls.__name__, f"cannot be made without arguments: {error}", mend))
        return cls


def _check_end_session(wiring: Wiring, ids: dict[type, str], problems: list[Problem]) -> None:
    for cls in wiring.end_session:
        if cls not in ids or not issubclass(cls, Conversation):
            name = getattr(cls, "__name__", quoted(cls))
            known = ", ".join(c.__name__ for c in ids if issubclass(c, Conversation)) or "it has none"
            mend = f"Name conversations of the graph: {known}."
            problems.append(Problem("end-session", f"end_session={name}", "is no conversation of the graph", mend))


def _check_migrations(version: int, steps: frozenset[int], problems: list[Problem]) -> None:
    """They lead without a gap to the graph's version; how far back they begin is the author's to say.  Rule L5."""
    for to in sorted(steps):
        if not 2 <= to <= version:
            mend = f"Write what leads to 2 and on to {version}, or raise Graph(..., version={to})."
            what = f"leads to version {to}, and the graph is of version {version}"
            problems.append(Problem("migration-gap", f"migrations={{{to}: ...}}", what, mend))
    if missing := sorted(set(range(min(steps, default=version + 1), version + 1)) - steps):
        told = " and ".join(map(str, missing))
        mend = f"Write migrations={{{missing[0]}: ...}}, or () where nothing changes."
        problems.append(Problem("migration-gap", "migrations", f"nothing leads to version {told}", mend))


# ------------------------------------------------------------------------------------------------------ the links


def _links(definition: Definition, ids: dict[type, str], problems: list[Problem]) -> list[Link]:
    """Edges and joins between ids; a name that the graph does not have is reported, and left out."""
    links: list[Link] = []
    told: list[tuple[tuple[object, ...], object, bool, OnFailure | None]] = [
        *(((edge.source,), edge.target, False, None) for edge in definition.edges),
        *((join.sources, join.target, True, join.on_failure) for join in definition.joins),
    ]
    for sources, target, is_join, policy in told:
        named = ", ".join(map(_named, sources)) + ("," if is_join and len(sources) == 1 else "")
        to = f"to={_named(target)}" + (f", on_failure={quoted(policy)}" if policy else "")
        place = f"join(({named}), {to})" if is_join else f"edge({named}, {_named(target)})"
        goal = END if target == END else ids.get(target) if isinstance(target, type) else None
        known = tuple(ids[source] for source in sources if isinstance(source, type) and source in ids)
        missing = [source for source in sources if not isinstance(source, type) or source not in ids]
        for node in dict.fromkeys(map(_named, [*missing, *([target] if goal is None else [])])):
            what = f"names {node}, which the graph does not have"
            mend = f"Register {node}, and name its class; it has {', '.join(c.__name__ for c in ids)}."
            problems.append(Problem("unknown-target", place, what, mend))
        if not sources:
            mend = "Name the workers it waits for."
            problems.append(Problem("unfed-join", place, "has no source", mend))
        links.append(Link(known, UNKNOWN if goal is None else goal, is_join, place, policy))
    return links


def _named(node: object) -> str:
    if isinstance(node, type):
        return node.__name__
    return f"{type(node).__name__}()" if isinstance(node, Node) else str(node)
