"""The kinds of node, for subclassing, and `@tool`.  What a node may do is in its context; when it runs, in the plan."""

# ruff: noqa: ARG002  a hook's default does nothing with what it is handed

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    overload,
)

from attrs import frozen
from typing_extensions import TypeVar

from ezgraph.errors import InvalidInput
from ezgraph.errors.words import quoted
from ezgraph.messages import Message
from ezgraph.models.contract import Model
from ezgraph.responses import (
    Fanout,
    Placement,
    Route,
    StageHook,
    StageRescue,
    StageRun,
    StageTool,
    WorkerHook,
    WorkerRescue,
    WorkerRun,
    WorkerTool,
)
from ezgraph.runtime.context import Context, StageContext

# The names of type variables show in the messages of both checkers, so they are named for people.
State = TypeVar("State")
Output = TypeVar("Output")
Value = TypeVar("Value")
Params = ParamSpec("Params")
Shared = TypeVar("Shared")
Shared_contra = TypeVar("Shared_contra", contravariant=True, default=object)
"""What a node needs of the graph's context.  `object`: nothing, so it fits every graph."""

Maybe: TypeAlias = Value | Awaitable[Value]
"""A value, or the promise of one: a handler may be sync or async.  Rule G5."""

StageOutcome: TypeAlias = Route | str | None
"""What a stage's `on_exit` sees: the route, the reply's text, or None where it continues."""


class _Inherited(ABCMeta):
    """Abstract methods, without the rest of `abc`: a node is one by inheritance, and no class is registered as one.

    To say that a class is none, `ABCMeta` asks each subclass there is: a graph's square, of its nodes.
    """

    __subclasscheck__ = type.__subclasscheck__
    __instancecheck__ = type.__instancecheck__


class Node(Generic[State, Shared_contra], metaclass=_Inherited):
    """A place in a graph.  Not for subclassing: use `Conversation`, `GraphNode` or `Worker`.

    An instance is built by the author and shared by all sessions; what belongs to a turn goes into its state.
    Its id is `id = "..."` in the class body, else the class's name.

    Attributes:
        timeout: Seconds that one run may take, or None.  Rule G7.
    """

    id: ClassVar[str]
    placement: ClassVar[Placement]
    timeout: float | None = None


class Stage(Node[State, Shared_contra]):
    """A node that can own the conversation: the only target of `go` and `direct_to`.

    Attributes:
        history: The history space it reads and appends to.  Rule F4.
    """

    placement: ClassVar[Placement] = "conversation"
    history: str = "default"

    def on_exit(self, ctx: StageContext[State, Shared_contra], outcome: StageOutcome) -> Maybe[None]:
        """See the final outcome, and perhaps save state; an error here publishes nothing.  Rule G2."""
        return None

    def on_error(self, ctx: StageContext[State, Shared_contra], error: Exception) -> Maybe[StageRescue]:
        """See why the step raised, and perhaps return what it comes to instead; None lets the error stand.  Rule G1.

        What the step staged is gone.  A breach of the rules (ownership, routes, conflicting calls) does not come here.
        """
        return None


class Conversation(Stage[State, Shared_contra]):
    """A stage driven by a model with tools.  Its subclass gives a `prompt`, `@tool` methods, and hooks where needed.

    Attributes:
        model: Its own model; None takes the one given to `compile`.
        rounds: Model messages allowed in one run.  Rule G3.
        seed: The instruction an empty history begins with, so that a provider accepts it; None for no such message.
    """

    model: Model | None = None
    rounds: int = 8
    seed: str | None = "Begin."

    def prompt(self, ctx: StageContext[State, Shared_contra]) -> Maybe[str]:
        """The system prompt of this run."""
        return self.__doc__ or ""

    def on_enter(self, ctx: StageContext[State, Shared_contra], message: Message | None) -> Maybe[Message | str | None]:
        """See the incoming message, and perhaps return what to use in its place; None lets it stand.  Rule G2."""
        return None

    def on_response(self, ctx: StageContext[State, Shared_contra], output: Any) -> Maybe[StageHook]:
        """See the accepted output once, and perhaps replace it or route; None lets it stand.  Rule A6."""
        return None


class GraphNode(Stage[State, Shared_contra]):
    """A deterministic stage: code decides.  `ctx.incoming` is the message it was entered with, if any.

    Attributes:
        blocking: Run a sync `run` in a worker thread, so that it does not hold up other sessions.  Rule G5.
    """

    blocking: bool = False

    @abstractmethod
    def run(self, ctx: StageContext[State, Shared_contra]) -> Maybe[StageRun]:
        """Return a route or a reply; None continues along the stage's edge.  Rule A8."""


class Worker(Node[State, Shared_contra], Generic[State, Output, Shared_contra]):
    """A node that is scheduled inside a turn, yields an `Output`, and never routes.

    A subclass gives `run`, or tools for a model to work with.  Its input is its state; its messages are private to one
    run.

    Attributes:
        model: Its own model; None takes the one given to `compile`.
        rounds: Model messages allowed in one run.  Rule G3.
        seed: The instruction its history begins with where `on_enter` gives no task; None for no such message.
        blocking: Run a sync `run` in a worker thread, so that it does not hold up other sessions.  Rule G5.
    """

    placement: ClassVar[Placement] = "internal"
    model: Model | None = None
    rounds: int = 8
    seed: str | None = "Begin."
    blocking: bool = False

    def run(self, ctx: Context[State, Shared_contra]) -> Maybe[WorkerRun[Output]]:
        """Do the work; where a subclass does not give this, a model with tools does it."""
        return None

    def prompt(self, ctx: Context[State, Shared_contra]) -> Maybe[str]:
        """The system prompt of this run."""
        return self.__doc__ or ""

    def on_enter(self, ctx: Context[State, Shared_contra], message: Message | None) -> Maybe[Message | str | None]:
        """Return the task of this run.  `message` is None: a worker's history starts empty.  Rule B3."""
        return None

    def on_response(self, ctx: Context[State, Shared_contra], output: str | Output) -> Maybe[WorkerHook[Output]]:
        """See the accepted output once, and perhaps replace it; None lets it stand.  Rule A6."""
        return None

    def on_exit(self, ctx: Context[State, Shared_contra], output: Output) -> Maybe[None]:
        """See what the worker yields, and perhaps save state; an error here publishes nothing.  Rule G2."""
        return None

    def on_error(self, ctx: Context[State, Shared_contra], error: Exception) -> Maybe[WorkerRescue[Output]]:
        """See why the run raised, and perhaps give an output instead; None lets the error stand.  Rules E5, G1."""
        return None

    @classmethod
    def _over(cls, inputs: Iterable[State], /) -> Fanout[Self]:
        """Links the class to its state type, for the checkers of `scatter`."""
        return Fanout(workers=(cls,), inputs=inputs)

    if TYPE_CHECKING:

        @classmethod
        def _yields(cls, state: State, /) -> Output:
            """Links the class to its state and output types, for the checkers of `ctx.call` and `ctx.result`."""
            raise NotImplementedError


@frozen
class ToolOptions:
    """What `@tool` was given.

    Attributes:
        name: What the model calls it; None takes the method's name.
        timeout: Seconds that one call may take, or None.  Rule G7.
        blocking: Run this sync handler in a worker thread, so that it does not hold up other sessions.  Rule G5.
    """

    name: str | None = None
    timeout: float | None = None
    blocking: bool = False


TOOL_MARK: Final = "__ezgraph_tool__"

NodeWithTools = TypeVar("NodeWithTools", bound=Conversation[Any, Any] | Worker[Any, Any, Any])
AnyConversation = TypeVar("AnyConversation", bound=Conversation[Any, Any])
WorkerToolAnswer = TypeVar("WorkerToolAnswer", bound=Maybe[WorkerTool[object]])
ToolAnswer = TypeVar("ToolAnswer", bound=Maybe[StageTool])


class ToolDecorator(Protocol):
    """`@tool(...)`, once its options are given."""

    @overload
    def __call__(
        self, handler: Callable[Concatenate[NodeWithTools, Context[State, Shared], Params], WorkerToolAnswer], /
    ) -> Callable[Concatenate[NodeWithTools, Context[State, Shared], Params], WorkerToolAnswer]: ...
    @overload
    def __call__(
        self, handler: Callable[Concatenate[AnyConversation, StageContext[State, Shared], Params], ToolAnswer], /
    ) -> Callable[Concatenate[AnyConversation, StageContext[State, Shared], Params], ToolAnswer]: ...
    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload]
        self, handler: Callable[Concatenate[NodeWithTools, Context[State, Shared], Params], WorkerToolAnswer], /
    ) -> Callable[Concatenate[NodeWithTools, Context[State, Shared], Params], WorkerToolAnswer]: ...


# A checker explains a refusal by one overload: mypy by the first, pyright by the last.  Both are the one that holds a
# worker; what a worker's tool may answer, a conversation's may too.
@overload
def tool(
    handler: Callable[Concatenate[NodeWithTools, Context[State, Shared], Params], WorkerToolAnswer], /
) -> Callable[Concatenate[NodeWithTools, Context[State, Shared], Params], WorkerToolAnswer]: ...
@overload
def tool(
    handler: Callable[Concatenate[AnyConversation, StageContext[State, Shared], Params], ToolAnswer], /
) -> Callable[Concatenate[AnyConversation, StageContext[State, Shared], Params], ToolAnswer]: ...
@overload
def tool(*, name: str | None = ..., timeout: float | None = ..., blocking: bool = ...) -> ToolDecorator: ...
@overload
def tool(  # pyright: ignore[reportOverlappingOverload]
    handler: Callable[Concatenate[NodeWithTools, Context[State, Shared], Params], WorkerToolAnswer], /
) -> Callable[Concatenate[NodeWithTools, Context[State, Shared], Params], WorkerToolAnswer]: ...
def tool(
    handler: Any = None, /, *, name: str | None = None, timeout: float | None = None, blocking: bool = False
) -> Any:
    """Offer a method of a `Conversation` or a `Worker` to its model.

    The parameters after `ctx` are the tool's arguments: their annotations give the JSON Schema, the docstring's first
    lines the description, its `Args:` the description of each.  They are structured and validated before the handler
    is called.  The return annotation says where the call may lead.

    Args:
        handler: The method, sync or async.
        name: What the model calls it; by default the method's name.
        timeout: Seconds that one call may take.  Rule G7.
        blocking: Run a sync method in a worker thread.  Rule G5.

    Raises:
        InvalidInput: What is decorated is no method.
    """
    if handler is not None and not callable(getattr(handler, "__func__", handler)):
        raise InvalidInput(
            "", f"@tool({quoted(handler)}): write @tool, or give options by name: @tool(name={quoted(handler)})."
        )
    options = ToolOptions(name, timeout, blocking)

    def marked(handler: Any) -> Any:
        setattr(handler, TOOL_MARK, options)
        return handler

    return marked if handler is None else marked(handler)
