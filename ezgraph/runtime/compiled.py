"""A graph that runs: the calls a caller makes into sessions.  Each is checked here and driven by one engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar, cast, final

from attrs import frozen

from ezgraph.algebra.restoring import restoring
from ezgraph.algebra.scheduling import (
    abandoning,
    begun,
    is_owed,
    new_session,
    recovering,
    to_recover,
    work_left,
)
from ezgraph.compilation import plan_of
from ezgraph.drawing import mermaid
from ezgraph.errors import (
    InvalidInput,
    SessionCompleted,
    StoreError,
    UnfinishedWork,
    UnknownSession,
)
from ezgraph.errors.words import quoted
from ezgraph.graph import AtEnd, Definition, Durability, OnConflict
from ezgraph.messages import Message
from ezgraph.models.contract import Model
from ezgraph.nodes import Conversation, Node
from ezgraph.plan import Plan, Wiring
from ezgraph.restoring import Policy, Restored
from ezgraph.runtime.awaiting import apart, settled
from ezgraph.runtime.events import Event, Listener, TurnEnded, TurnStarted
from ezgraph.runtime.executor import Executor
from ezgraph.runtime.given import (
    as_message,
    check_choice,
    check_has,
    check_no_loop,
    check_positive,
    check_steps,
)
from ezgraph.runtime.stream import Stream
from ezgraph.session import CONTEXT, Delta, Session, Turn, apply, check_session, is_completed, standing, unshared
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Archive, Query, Store, new_incarnation
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.migrations import Steps

Value = TypeVar("Value")

_LOG: Final = logging.getLogger("ezgraph")
_STEP_LIMIT: Final = 25


@final
@frozen(eq=False, repr=False)
class CompiledGraph:
    """What `Graph.compile` returns.  One of them serves any number of sessions at once.

    Attributes:
        plan: The validated graph.
    """

    plan: Plan
    _executor: Executor
    _listener: Listener | None

    def __repr__(self) -> str:
        plan = self.plan
        told = f"{len(plan.nodes)} nodes, entry {plan.entry}, store {self._executor.store!r}"
        return f"CompiledGraph({plan.graph!r}, {told})"

    @classmethod
    def of(  # noqa: PLR0913  what compile() was given
        cls,
        definition: Definition,
        *,
        store: Store | None,
        model: Model | None,
        end_session: Sequence[type[Conversation[Any, Any]]],
        on_conflict: OnConflict,
        at_end: AtEnd,
        max_branches: int | None,
        durability: Durability,
        migrations: Steps,
        on_restore: Policy | None,
        listener: Listener | None,
    ) -> CompiledGraph:
        """What `Graph.compile` does."""
        check_choice("on_conflict", on_conflict, ("raise", "feedback"))
        check_choice("at_end", at_end, ("complete", "wait"))
        check_choice("durability", durability, ("call", "step"))
        if max_branches is not None:
            check_positive("max_branches", max_branches)
        if store is not None:
            check_has("store", store, ("load", "commit"), 'SQLiteStore("sessions.db")')
        if model is not None:
            check_has("model", model, ("respond",), "an object with `async def respond(self, request)`")
        if on_restore is not None and not callable(on_restore):
            raise InvalidInput("", f"on_restore={quoted(on_restore)}: pass a function of one Restored.")
        if on_restore is not None and store is not None:
            check_has("store", store, ("entry",), "a store that says how long a session was idle")
        if listener is not None and not callable(listener):
            raise InvalidInput("", f"listener={quoted(listener)}: pass a function of one event.")
        if isinstance(end_session, type):
            raise InvalidInput("", f"end_session={end_session.__name__}: pass a list: [{end_session.__name__}].")
        check_steps(migrations)
        wiring = Wiring(
            model, tuple(end_session), on_conflict, at_end, max_branches, durability, frozenset(migrations), on_restore
        )
        plan = plan_of(definition, wiring)
        states = {spec.id: spec.state for spec in plan.nodes.values()}
        outputs = {spec.id: spec.output for spec in plan.nodes.values() if spec.placement == "internal"}
        job = plan.entry if plan.is_job else None
        tools = [tool for spec in plan.nodes.values() for tool in spec.tools.values()]
        answers = {tool.key: tool.answer for tool in tools if tool.answer is not None}
        codec = Codec(
            plan.graph,
            {**states, CONTEXT: plan.context_type},
            outputs,
            entry=job,
            answers=answers,
            version=definition.version,
            migrations=migrations,
        )
        return cls(plan, Executor(plan, MemoryStore() if store is None else store, codec), listener)

    # ---------------------------------------------------------------------------------------------------------- a turn

    async def ainvoke(
        self, message: str | Message | None = None, *, session: str, step_limit: int = _STEP_LIMIT
    ) -> Turn:
        """Bring the customer's message into a session and run the turn to its end.

        Args:
            message: What the customer says; left out where a worker is the cursor: a job needs none.  Rule E12.
            session: The session's id; a new one begins at the entry.
            step_limit: Node runs allowed in a row.  Rule E9.

        Raises:
            InvalidInput: An argument is not what it must be.
            SessionCompleted: The session has ended.
            UnfinishedWork: An earlier turn is unfinished: call `arecover` first.  Rule G6.
            NodeError: A stage's step failed; the session stays at its last commit.  Rule G4.
            BranchFailed: Branches failed; `arecover` runs what is missing.  Rule E5.
            StepLimit: The chain reached the limit.
            RevisionConflict: Another turn committed first.
            StoreError: The store failed.
        """
        return await self._turn(message, session, step_limit, None)

    async def _turn(self, message: str | Message | None, session: str, step_limit: int, extra: Listener | None) -> Turn:
        check_session(session)
        check_positive("step_limit", step_limit)
        incoming = None if message is None else as_message(message)
        stored = await self._executor.load(session) or new_session(self.plan, session, new_incarnation())
        delta = await self._restoring(stored)
        found = stored if delta is None else apply(stored, delta)
        if left := work_left(self.plan, found):
            raise UnfinishedWork(session, left)
        if is_completed(found):
            raise SessionCompleted(session)
        self._check_wanted(found, incoming)
        if delta is not None:  # the input is taken: what the policy wants is written
            found = await self._executor.commit(stored, delta)
        return await self._driven(begun(found, incoming, step_limit), extra)

    async def _restoring(self, found: Session) -> Delta | None:
        """What the policy, which is asked before anything else is, makes of a session that input comes back to."""
        policy = self.plan.wiring.on_restore
        if policy is None or (entry := await settled(self.archive.entry(found.id))) is None:
            return None
        restored = Restored(unshared(found), standing(found), timedelta(seconds=entry.idle))
        try:
            decision = await settled(policy(restored))
        except Exception as error:
            error.add_note(f"in on_restore, of session {found.id!r}; nothing was changed")
            raise
        return restoring(self.plan, found, decision)

    def _check_wanted(self, session: Session, incoming: Message | None) -> None:
        """A stage is brought a message, the entry of a job is not."""
        cursor = session.head.cursor
        if self.plan.nodes[cursor].placement == "internal" and incoming is not None:
            told = f"{cursor} is a worker, which reads its state and no message: leave the message out."
            raise InvalidInput(session.id, told)
        if self.plan.nodes[cursor].placement == "conversation" and incoming is None:
            told = f"the message is None, and {cursor} waits for one: pass what the customer says."
            raise InvalidInput(session.id, told)

    async def arecover(self, session: str, *, step_limit: int = _STEP_LIMIT) -> Turn:
        """Go on where an earlier turn stopped: a failed, killed or held step goes on from its journal.  Rules F2, G6.

        Does nothing where nothing is owed.

        Raises:
            UnknownSession: There is no such session.
            InvalidInput: An argument is not what it must be.
            NodeError: A step failed again.  Otherwise as `ainvoke`.
        """
        check_session(session)
        check_positive("step_limit", step_limit)
        found = await self._existing(session)
        if is_owed(found):
            found = await self._executor.commit(found, recovering(found, step_limit))
        return await self._driven(found, None)

    async def aabandon(self, session: str) -> Session:
        """Drop what an earlier turn left undone; the cursor stays, and the session takes new input.  Rule G6.

        Branches that finished are dropped with the others: nothing of an activation is merged but as a whole.

        Returns:
            The session as it then stands.

        Raises:
            UnknownSession: There is no such session.
            RevisionConflict: Another turn committed first.
        """
        check_session(session)
        found = await self._existing(session)
        if is_owed(found):
            found = await self._executor.commit(found, abandoning(found))
        return unshared(found)

    async def _driven(self, session: Session, extra: Listener | None) -> Turn:
        """The turn, with context variables of its own: what its nodes set is not the caller's."""
        listener = _guarded([call for call in (self._listener, extra) if call is not None])
        if listener is None:
            return await apart(self._executor.drive(session, None))
        return await apart(self._listened(session, listener))

    async def _listened(self, session: Session, listener: Listener) -> Turn:
        listener(TurnStarted(session.id))
        turn = await self._executor.drive(session, listener)
        listener(TurnEnded(turn))
        return turn

    def astream(self, message: str | Message | None = None, *, session: str, step_limit: int = _STEP_LIMIT) -> Stream:
        """As `ainvoke`, as a stream of events.  Use it as an async context manager: leaving it cancels the turn."""
        return Stream(lambda listener: self._turn(message, session, step_limit, listener))

    # ------------------------------------------------------------------------------------------------- without a loop

    def invoke(self, message: str | Message | None = None, *, session: str, step_limit: int = _STEP_LIMIT) -> Turn:
        """As `ainvoke`, blocking.

        Raises:
            RunningLoop: An event loop runs here: await `ainvoke`.  Rule G5.
        """
        check_no_loop("invoke", "await app.ainvoke(...)")
        return asyncio.run(self.ainvoke(message, session=session, step_limit=step_limit))

    def recover(self, session: str, *, step_limit: int = _STEP_LIMIT) -> Turn:
        """As `arecover`, blocking.

        Raises:
            RunningLoop: An event loop runs here: await `arecover`.
        """
        check_no_loop("recover", "await app.arecover(...)")
        return asyncio.run(self.arecover(session, step_limit=step_limit))

    def abandon(self, session: str) -> Session:
        """As `aabandon`, blocking.

        Raises:
            RunningLoop: An event loop runs here: await `aabandon`.
        """
        check_no_loop("abandon", "await app.aabandon(...)")
        return asyncio.run(self.aabandon(session))

    def stream(
        self, message: str | Message | None = None, *, session: str, step_limit: int = _STEP_LIMIT
    ) -> Generator[Event, None, None]:
        """As `astream`, blocking.  The turn runs while an event is waited for; closing the iterator cancels it.

        Raises:
            RunningLoop: An event loop runs here: use `astream`.
        """
        check_no_loop("stream", "async with app.astream(...) as events")
        return self._streamed(self.astream(message, session=session, step_limit=step_limit))

    @staticmethod
    def _streamed(events: Stream) -> Generator[Event, None, None]:
        with asyncio.Runner() as runner:
            try:
                while (event := runner.run(_next_of(events))) is not None:
                    yield event
            finally:
                runner.run(events.aclose())

    def load(self, session: str) -> Session:
        """As `aload`, blocking.

        Raises:
            RunningLoop: An event loop runs here: await `aload`.
        """
        check_no_loop("load", "await app.aload(...)")
        return asyncio.run(self.aload(session))

    # ------------------------------------------------------------------------------------------------------- to look at

    async def aload(self, session: str) -> Session:
        """The session as it was last committed: a frozen value, and the caller's own.  Rule F3.

        Raises:
            UnknownSession: Nothing was ever committed under that id.
            CorruptSession: What is stored does not load.
        """
        check_session(session)
        return unshared(await self._existing(session))

    async def _existing(self, session: str) -> Session:
        found = await self._executor.load(session)
        if found is None:
            raise UnknownSession(session)
        return found

    @property
    def archive(self) -> Archive:
        """The store, to list, move and forget sessions in.

        Raises:
            InvalidInput: It can only load and commit.
        """
        check_has("store", self._executor.store, ("find", "export", "migrate"), "a store that can do that")
        return cast("Archive", self._executor.store)

    async def aunfit(self) -> tuple[StoreError, ...]:
        """Why sessions of this graph would not load, one error each, those that load left out.  Changes nothing."""
        wrong: list[StoreError] = []
        codec = self._executor.codec
        for entry in await settled(self.archive.find(Query(graph=self.plan.graph))):
            try:
                document = await settled(self.archive.export(entry.session))
                codec.read(entry.session, document, store=repr(self.archive))
            except StoreError as error:
                wrong.append(error)
        return tuple(wrong)

    async def amigrate(self) -> tuple[str, ...]:
        """Write every session that an older version of this graph wrote as this one does, all or none.  Rule L5.

        Not needed: a session that is loaded is migrated, and its next commit writes it so.

        Returns:
            The ids of the sessions that were written.

        Raises:
            StoreError: One of them does not load, or a migration raised.  Nothing was changed.
        """
        return tuple(await settled(self.archive.migrate(self._executor.codec)))

    def read(self, session: Session, node: type[Node[Value, Any]]) -> Value:
        """A node's state in a loaded session, by its own type.  Rules F5, F8.

        Raises:
            NoState: Nothing has written it, and its type has no value without arguments.
            UnknownTarget: The graph has no such node.
        """
        spec = self.plan.find("read()", node)
        state = session.cells[spec.id] if spec.id in session.cells else spec.initial_state("read()", self.plan)
        return cast("Value", state)

    def unfinished(self, session: Session) -> tuple[str, ...]:
        """What `arecover` would go on with in a loaded session, in words; empty where nothing is left.  Rule G6.

        New input is refused as long as there is any, but for a stage's step that failed: that is dropped for it.
        """
        return to_recover(self.plan, session)

    def mermaid(self) -> str:
        """The graph as a Mermaid flowchart, with exactly the edges it has."""
        return mermaid(self.plan)


async def _next_of(events: Stream) -> Event | None:
    return await anext(events, None)


def _guarded(listeners: Sequence[Listener]) -> Listener | None:
    """One listener that calls all, in order; what one raises is logged and harms nothing.  Rule G8."""
    if not listeners:
        return None

    def tell(event: Event) -> None:
        for listener in listeners:
            try:
                listener(event)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001  whatever it is, it is told; it awaits nothing
                _LOG.exception("a listener raised on %s", type(event).__name__)

    return tell
