"""What a node is handed: a view of the session as its step may see it, and a place to stage what it writes.

Nothing here is published; the step's staged writes become part of its outcome when it ends well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast, overload

from msgspec import Struct
from typing_extensions import TypeVar

from ezgraph.errors import EzGraphError, InvalidResponse, NoResult, StateTypeError, StepOver
from ezgraph.histories import Addition, History
from ezgraph.messages import Message, Usage, check_message
from ezgraph.responses import UNSET, Unset, inputs_of
from ezgraph.session import CONTEXT, NOTHING, Session

if TYPE_CHECKING:
    from ezgraph.algebra.scheduling import Seen, Step
    from ezgraph.nodes import Node, Stage
    from ezgraph.plan import NodeSpec, Plan
    from ezgraph.runtime.calling import Calls
    from ezgraph.runtime.driver import Drive
    from ezgraph.runtime.journal import Journal
else:  # what a signature evaluates must be there; the engine alone makes a context
    Seen = Step = NodeSpec = Plan = Calls = Drive = Journal = Any

# The names of type variables show in the messages of both checkers, so they are named for people.
State = TypeVar("State")
NodeState = TypeVar("NodeState")
Output = TypeVar("Output")
NodeState_contra = TypeVar("NodeState_contra", contravariant=True)
Output_co = TypeVar("Output_co", covariant=True)
Shared = TypeVar("Shared")
Default = TypeVar("Default")
Shared_co = TypeVar("Shared_co", covariant=True, default=object)


class WorkerClass(Protocol[NodeState_contra, Output_co]):
    """What a worker's class object is to a type checker: it links the worker to its state and its output."""

    def _yields(self, state: NodeState_contra, /) -> Output_co: ...


class Context(Struct, Generic[State, Shared_co], eq=False):
    """What any node may do: read everything, save its own state.  One context serves one step and is not kept."""

    _drive: Drive
    _plan: Plan
    _session: Session
    _spec: NodeSpec
    _step: Step
    _seen: Seen | Session
    _incoming: Message | None = None
    _staged: dict[str, Any] = {}
    _adds: Mapping[str, Addition] = NOTHING  # replaced, never changed: most steps add nothing
    _spent: Mapping[str, Usage] = NOTHING
    _over: bool = False
    _called: bool = False
    _section: str = "run"  # where in the step its code is: a hook, `run`, or a tool call
    _journal: Journal | None = None
    _calls: Calls | None = None
    _fault: EzGraphError | None = None  # what ends the run and is not the node's: a limit, or a journal not written

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._spec.id}, session={self.session!r})"

    @property
    def session(self) -> str:
        """The session's id."""
        return self._session.id

    @property
    def incoming(self) -> Message | None:
        """The message this run was entered with, or None.  Rule B4."""
        return self._incoming

    @property
    def state(self) -> State:
        """This node's own state, with what this step saved.

        Raises:
            NoState: Nothing has written it, and its type has no value without arguments.  Rule F8.
        """
        spec = self._spec
        state: State = self._cell(spec.id, spec)
        return state

    @property
    def shared(self) -> Shared_co:
        """The graph's context, with what this step shared."""
        shared: Shared_co
        if CONTEXT in self._staged:
            shared = self._staged[CONTEXT]
        else:
            cells: Mapping[str, Any] = self._seen.cells
            shared = cells.get(CONTEXT, self._plan.context)
        return shared

    def save(self, state: State) -> None:
        """Replace this node's state; published when the step is.

        Raises:
            StateTypeError: `state` is not of the declared type, to the last field.  Rule F3.
        """
        self._stage(self._spec.id, self._spec, state)

    def read(self, node: type[Node[NodeState, Any]]) -> NodeState:
        """Another node's state, in the version that this step may see.  Rules E4, F5.

        Raises:
            NoState: Nothing has written it, and its type has no value without arguments.
            UnknownTarget: The graph has no such node.
        """
        spec = self._plan.find(self._spec.id, node)
        state: NodeState = self._cell(spec.id, spec)
        return state

    @overload
    def result(self, worker: WorkerClass[Any, Output]) -> Output: ...
    @overload
    def result(self, worker: WorkerClass[Any, Output], *, default: Default) -> Output | Default: ...
    def result(self, worker: WorkerClass[Any, Output], *, default: Default | Unset = UNSET) -> Output | Default:
        """The output of a worker that this step comes after.  Rule E2.

        Args:
            worker: Its class.
            default: Returned where it did not run.

        Raises:
            NoResult: There is none, and no default was given; or it ran once for each item.
            UnknownTarget: The graph has no such worker.
        """
        spec, seen = self._plan.find(self._spec.id, worker), self._seen
        if spec.id in seen.results:
            return cast("Output", seen.results[spec.id])
        if isinstance(default, Unset) or spec.id in seen.series:
            raise NoResult(self._spec.id, spec.id, tuple(seen.results), tuple(seen.series))
        return default

    def results(self, worker: WorkerClass[Any, Output]) -> tuple[Output, ...]:
        """The outputs of a worker that ran once for each input of a scatter, in input order.  Rule E6.

        Args:
            worker: Its class: the scattered one, or one that ran after it inside each item.

        Raises:
            NoResult: This step does not come after such a worker.
            UnknownTarget: The graph has no such worker.
        """
        spec, seen = self._plan.find(self._spec.id, worker), self._seen
        if spec.id not in seen.series:
            raise NoResult(self._spec.id, spec.id, tuple(seen.results), tuple(seen.series))
        return cast("tuple[Output, ...]", seen.series[spec.id])

    async def call(self, worker: WorkerClass[NodeState, Output], state: NodeState) -> Output:
        """Run a worker inside this step, with `state` as its state, and give its output.  Rule E11.

        What it saves and spends is staged into this step.

        Raises:
            InvalidResponse: It is no worker, this node itself, or this is a called worker.
            StateTypeError: `state` is not of the worker's state type.
            NodeError: The worker's run failed.
        """
        (output,) = await self._drive.call(self, worker, (state,))
        return cast("Output", output)

    async def call_all(self, worker: WorkerClass[NodeState, Output], states: Iterable[NodeState]) -> tuple[Output, ...]:
        """Run a worker once for each of `states` side by side, and give the outputs in order.  Rule E11.

        All that were started have ended before an error is raised.

        Raises:
            InvalidResponse: It is no worker, this node itself, or this is a called worker; `states` are in no order.
            StateTypeError: A state is not of the worker's state type.
            NodeError: A run failed; of several, the first in order.
        """
        return cast("tuple[Output, ...]", await self._drive.call(self, worker, inputs_of("call_all", states)))

    @property
    def history(self) -> Sequence[Message]:
        """The messages of this node's history space, with what this step added.  A worker's is private to its run."""
        space = self._spec.space
        published = self._session.histories.get(space) if space else None
        added = self._adds.get(space)
        if added is None:
            return published or ()
        return (published or History()).extended(added.messages, added.drop)

    # ---------------------------------------------------------------------------------------------- the engine's side

    def _cell(self, key: str, spec: NodeSpec) -> Any:
        if key in self._staged:
            return self._staged[key]
        cells = self._seen.cells
        if key in cells:
            return cells[key]
        return spec.initial_state(self._spec.id, self._plan)

    def _stage(self, key: str, spec: NodeSpec, state: object) -> None:
        if self._over:
            raise StepOver(self._spec.id)
        spec.check_state(self._spec.id, state)
        self._staged[key] = state

    def _add(self, space: str, *messages: Message) -> None:
        added = self._adds.get(space)
        self._put(space, Addition((*added.messages, *messages), added.drop) if added else Addition(messages))

    def _put(self, space: str, added: Addition) -> None:
        self._adds = {**self._adds, space: added}

    def _replace_last(self, message: Message) -> None:
        """Put `message` in the place of the last one of this node's history, published or not."""
        space = self._spec.space
        added = self._adds.get(space, Addition(()))
        drop = added.drop if added.messages else added.drop + 1
        self._put(space, Addition((*added.messages[:-1], message), drop))

    def _spend(self, usage: Usage | None) -> None:
        if usage is not None:
            self._spend_for(self._spec.id, usage)

    def _journalled(self) -> Journal:
        """The journal of this run; most steps need none."""
        if self._journal is None:
            self._journal = self._drive.journal(self)
        return self._journal

    def _check_fault(self) -> None:
        """Raise what ends the run, where code of the node's author has caught it."""
        if self._fault is not None:
            raise self._fault

    def _spend_for(self, node: str, usage: Usage) -> None:
        self._spent = {**self._spent, node: self._spent[node] + usage if node in self._spent else usage}


class StageContext(Context[State, Shared_co], eq=False):
    """What a turn owner may do besides: write other nodes' state, the graph's context, and other histories."""

    def write(self, node: type[Node[NodeState, Any]], state: NodeState) -> None:
        """Replace another node's state; published when the step is.  Rule F5.

        Raises:
            StateTypeError: `state` is not of that node's declared type.
            UnknownTarget: The graph has no such node.
        """
        spec = self._plan.find(self._spec.id, node)
        self._stage(spec.id, spec, state)

    def share(self: StageContext[Any, Shared], shared: Shared) -> None:
        """Replace the graph's context; published when the step is.

        Raises:
            StateTypeError: `shared` is not of the type of the graph's context.
        """
        if self._over:
            raise StepOver(self._spec.id)
        if (bad := self._plan.context_check(shared)) is not None:
            raise StateTypeError(self._spec.id, "the graph's context", *bad)
        self._staged[CONTEXT] = shared

    def append(self, stage: type[Stage[Any, Any]], message: Message) -> None:
        """Append a message to the history that `stage` reads; published when the step is.  Rule F4.

        Raises:
            UnknownTarget: The graph has no such stage.
            InvalidResponse: It is empty, a call or the result of one, or `stage` is a worker.
        """
        if self._over:
            raise StepOver(self._spec.id)
        check_message("append", message)
        spec = self._plan.find(self._spec.id, stage)
        if not spec.space:
            what = f"{spec.id} is a worker, whose messages are private to a run"
            raise InvalidResponse("append", what, "Name a stage, or write the worker's state.")
        self._add(spec.space, message)
