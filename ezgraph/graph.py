"""The builder an author talks to: an immutable definition, told piece by piece, judged by `compile` alone."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, cast, final, get_args, overload

from attrs import evolve, frozen
from typing_extensions import TypeVar

from ezgraph.errors import InvalidInput
from ezgraph.errors.words import quoted
from ezgraph.models.contract import Model
from ezgraph.nodes import Conversation, Node, Stage, Worker
from ezgraph.session import END

if TYPE_CHECKING:
    from ezgraph.restoring import Policy
    from ezgraph.runtime.compiled import CompiledGraph
    from ezgraph.runtime.events import Listener
    from ezgraph.stores.contract import Store
    from ezgraph.stores.migrations import Steps

NO_STEPS: Final[Steps] = MappingProxyType({})

# The names of type variables show in the messages of both checkers, so they are named for people.
GraphContext = TypeVar("GraphContext", default=None)

End: TypeAlias = Literal["END"]
OnConflict: TypeAlias = Literal["raise", "feedback"]
AtEnd: TypeAlias = Literal["complete", "wait"]
Durability: TypeAlias = Literal["call", "step"]
"""What a crash repeats at most: the calls that had not finished, or the steps that had not published.  Rule F2."""
OnFailure: TypeAlias = Literal["finish_siblings", "cancel_siblings"]
"""What a failed worker means for those beside it: they finish, or are cancelled and run on `arecover`.  Rule E5."""


@final
@frozen
class Edge:
    """`edge(source, target)`: after the source, the target.  Rule E1."""

    source: type[Node[Any, Any]]
    target: type[Node[Any, Any]] | End


@final
@frozen
class Join:
    """`join(sources, to=target)`: when all sources are done, the target, once.  Rules E2, E5."""

    sources: tuple[type[Node[Any, Any]], ...]
    target: type[Node[Any, Any]]
    on_failure: OnFailure | None = None


@final
@frozen
class Definition:
    """What an author has said of a graph, as said: nothing in it has been judged.

    Attributes:
        name: The graph's id; its sessions carry it.
        entry: The stage that a new session begins at, or the worker that a job begins with.
        context: The initial value of the graph's context.
        stages: Registered stages, classes or instances, in order.
        workers: Registered workers, classes or instances, in order.
        edges: Declared edges, in order.
        joins: Declared joins, in order.
        version: What sessions carry besides the name.  Rule L5.
    """

    name: str
    entry: Any
    context: Any = None
    stages: tuple[Any, ...] = ()
    workers: tuple[Any, ...] = ()
    edges: tuple[Edge, ...] = ()
    joins: tuple[Join, ...] = ()
    version: int = 1


@final
class Graph(Generic[GraphContext]):
    """A graph's definition.  Every method returns a new one; `compile` judges it as a whole.

        claims = (
            Graph("claims", entry=Intake)
            .stages(Intake, Settle)
            .workers(Valuation, FraudCheck)
            .join((Valuation, FraudCheck), to=Settle)
        )

    Args:
        name: The graph's id; its sessions carry it.
        entry: The stage's class that a new session begins at; it need not be registered again.  With a worker's class
            the graph is a job: a turn needs no message, and runs from the entry to END.  Rule E12.
        context: The initial value of the graph's context; its type is what nodes of this graph may ask for.
        version: Raised where sessions of the version before would not load, or would mean something else; migrations
            then bring them here (`compile(migrations=...)`).  Rule L5.
    """

    @overload
    def __init__(
        self: Graph[None], name: str, *, entry: type[Stage[Any, None] | Worker[Any, Any, None]], version: int = 1
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        entry: type[Stage[Any, GraphContext] | Worker[Any, Any, GraphContext]],
        context: GraphContext,
        version: int = 1,
    ) -> None: ...
    def __init__(self, name: object, *, entry: Any, context: Any = None, version: int = 1) -> None:
        if not isinstance(name, str) or not name.strip():
            raise InvalidInput(
                "", f'Graph(name={quoted(name)}): a graph needs a name. Write Graph("claims", entry=Intake).'
            )
        if type(version) is not int or version < 1:
            raise InvalidInput(
                "", f"Graph({quoted(name)}, version={quoted(version)}): a version is a whole number, 1 or more."
            )
        self.definition = Definition(name, entry, context, version=version)

    if not TYPE_CHECKING:  # to a type checker a graph that is not compiled has no such thing

        def __getattr__(self, name: str) -> object:
            mend = ""
            if name in {"invoke", "ainvoke", "stream", "astream", "recover", "arecover", "load", "aload", "mermaid"}:
                mend = f": compile it first, graph.compile(...).{name}(...)"
            raise AttributeError(f"a Graph has no {name!r}{mend}", name=name, obj=self)

    def _with(self, definition: Definition) -> Graph[GraphContext]:
        new = cast("Graph[GraphContext]", object.__new__(Graph))
        new.definition = definition
        return new

    def stages(self, *nodes: type[Stage[Any, GraphContext]] | Stage[Any, GraphContext]) -> Graph[GraphContext]:
        """Register stages: classes, or instances where a constructor takes arguments."""
        return self._with(evolve(self.definition, stages=self.definition.stages + nodes))

    def workers(
        self, *nodes: type[Worker[Any, Any, GraphContext]] | Worker[Any, Any, GraphContext]
    ) -> Graph[GraphContext]:
        """Register workers: classes, or instances where a constructor takes arguments."""
        return self._with(evolve(self.definition, workers=self.definition.workers + nodes))

    def edge(
        self, source: type[Node[Any, GraphContext]], target: type[Node[Any, GraphContext]] | End, /
    ) -> Graph[GraphContext]:
        """After `source`, `target`; `END` ends that path.  Rule E1."""
        return self._with(evolve(self.definition, edges=(*self.definition.edges, Edge(source, target))))

    def join(
        self,
        sources: tuple[type[Worker[Any, Any, GraphContext]], ...],
        /,
        *,
        to: type[Node[Any, GraphContext]],
        on_failure: OnFailure | None = None,
    ) -> Graph[GraphContext]:
        """When all of `sources` are done, `to`, once.  A join of one source gathers a scatter's items.

        Args:
            sources: Workers' classes.
            to: A worker's or a stage's class.
            on_failure: What a failure means for the other branches: `finish_siblings` (where no join says anything)
                lets them finish, `cancel_siblings` stops them at their last commit.  Rule E5.

        Raises:
            InvalidInput: `sources` is no tuple or list of classes, or `on_failure` is neither.
        """
        given: object = sources
        if not isinstance(given, tuple | list):
            name = getattr(sources, "__name__", quoted(sources))
            raise InvalidInput("", f"join({name}, to=...): pass a tuple of workers: join(({name}, ...), to=...).")
        if on_failure not in {None, *get_args(OnFailure)}:
            raise InvalidInput("", f"on_failure={quoted(on_failure)}: it is 'finish_siblings' or 'cancel_siblings'.")
        return self._with(evolve(self.definition, joins=(*self.definition.joins, Join(tuple(sources), to, on_failure))))

    def compile(  # noqa: PLR0913  everything a graph is given at once
        self,
        *,
        store: Store | None = None,
        model: Model | None = None,
        end_session: Sequence[type[Conversation[Any, Any]]] = (),
        on_conflict: OnConflict = "raise",
        at_end: AtEnd = "complete",
        max_branches: int | None = None,
        durability: Durability = "call",
        migrations: Steps = NO_STEPS,
        on_restore: Policy | None = None,
        listener: Listener | None = None,
    ) -> CompiledGraph:
        """Judge the definition and make it runnable.

        Args:
            store: Where sessions are kept; by default in memory, for this compiled graph alone.
            model: What drives conversations and model-driven workers that bring none of their own.
            end_session: The conversations whose model may end the session.  Rule D5.
            on_conflict: Whether conflicting tool calls fail the step or are told to the model.  Rule D4.
            at_end: Whether END completes the session, or waits at the entry for more.  Rule H6.
            max_branches: How many branches may run at once; None for no limit.  The result is the same.  Rule E4.
            durability: What a crash repeats at most: calls that had not finished, or steps that had not published.
                Rule F2.
            migrations: What brings sessions of older versions to this one, by the version it leads to: a function of a
                session's plain JSON, or several.  `ezgraph.stores.migrations` has ready-made ones.  Rule L5.
            on_restore: Asked when input comes to a session that exists, before anything else is: to keep it, to change
                it, or to start over.  `ezgraph.restoring` has what it returns, and a ready-made one.
            listener: Called with every event; without one none is made.  Rule G8.

        Raises:
            DefinitionError: Everything that is wrong with the definition, at once.
        """
        from ezgraph.runtime.compiled import CompiledGraph  # noqa: PLC0415  `import ezgraph` loads no asyncio

        return CompiledGraph.of(
            self.definition,
            store=store,
            model=model,
            end_session=end_session,
            on_conflict=on_conflict,
            at_end=at_end,
            max_branches=max_branches,
            durability=durability,
            migrations=migrations,
            on_restore=on_restore,
            listener=listener,
        )


__all__ = ["END", "Definition", "Edge", "End", "Graph", "Join"]
