"""The in-process driver: runs what is ready, settles each outcome, commits, and goes on until nothing is ready.

It takes no decision: what runs is `ready`'s, what an outcome comes to is `settle`'s.
"""

from __future__ import annotations

import asyncio
from typing import Never, final

from attrs import field, frozen

from ezgraph.algebra.scheduling import Step, held, is_completed, ready
from ezgraph.algebra.settling import Failed, Outcome, Published, Transition, settle
from ezgraph.errors import BranchFailed, EzGraphError, NodeError, StepLimit
from ezgraph.messages import Usage
from ezgraph.plan import Plan
from ezgraph.runtime.awaiting import shielded
from ezgraph.runtime.events import Listener, StepPublished, StepRaised, StepStarted
from ezgraph.runtime.steps import run_step
from ezgraph.session import Delta, Session, Status, Turn, apply
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Store


@final
@frozen(eq=False)
class Executor:
    """Drives one turn at a time for any number of sessions; keeps nothing between turns.

    Attributes:
        plan: The compiled graph.
        store: Where sessions are kept.
        codec: How their values become bytes.
    """

    plan: Plan
    store: Store
    codec: Codec

    async def load(self, session: str) -> Session | None:
        """The session as it was last committed."""
        found = self.store.load(session, self.codec)
        return found if found is None or isinstance(found, Session) else await found

    async def commit(self, session: Session, delta: Delta) -> Session:
        """The session after `delta`, once the store has it.  A commit that has begun is shielded.  Rule G3."""
        after = apply(session, delta)
        pending = self.store.commit(after, delta, self.codec)
        if pending is not None:
            await shielded(pending)
        return after

    async def drive(self, session: Session, listener: Listener | None) -> Turn:
        """Run what is ready until nothing is, and say what the turn came to.

        Raises:
            NodeError: A stage's step failed.  Rule G4.
            BranchFailed: Branches failed.  Rule E5.
            StepLimit: The chain reached the limit.  Rule E9.
            RevisionConflict: Another turn committed first.  Rule L2.
        """
        plan, store, codec = self.plan, self.store, self.codec
        spent: list[Usage] = []
        reply: str | None = None
        task = asyncio.current_task()
        asked = 0 if task is None else task.cancelling()
        failures: dict[str, NodeError] = {}
        while steps := ready(plan, session):
            if session.activation is not None:
                session = await _Branches(self, listener, failures, spent).drive(session)
                continue
            step = steps[0]
            if listener is not None:
                listener(StepStarted(session.id, step.node, step.run))
            try:
                outcome = run_step(plan, session, step, listener)
                if not isinstance(outcome, Published):
                    outcome = await outcome
                    if task is not None and task.cancelling() > asked:
                        raise asyncio.CancelledError  # the node swallowed it, and it is the caller's (rule G3)
            except NodeError as error:
                await self._log(session, step, error, listener)
                raise
            transition = settle(plan, session, step, outcome) or _stale(step)
            delta, reply = transition.delta, transition.reply
            session = apply(session, delta)
            pending = store.commit(session, delta, codec)
            if pending is not None:
                await shielded(pending)
            if outcome.usage is not None:
                spent.append(outcome.usage)
            if listener is not None:
                listener(StepPublished(session.id, step.node, session.revision))
                await asyncio.sleep(0)  # whoever listens may act between two steps that never wait
        self._check_end(session, failures)
        head = session.head
        status: Status = "completed" if is_completed(session) else "idle"
        return Turn(session.id, status, reply, head.cursor, sum(spent, Usage()), session.revision)

    async def _log(self, session: Session, step: Step, error: NodeError, listener: Listener | None) -> None:
        """Append a stage's failure to the session's error log.  Rule G4."""
        if listener is not None:
            listener(StepRaised(session.id, step.node, error))
        try:
            await self.commit(session, _settled(self.plan, session, step, failure(error)).delta)
        except EzGraphError as unlogged:
            error.add_note(f"It is not in the error log: {unlogged}")

    def _check_end(self, session: Session, failures: dict[str, NodeError]) -> None:
        waiting = held(self.plan, session)
        limit = None
        if waiting:
            limit = StepLimit(session.id, session.limits.steps, tuple(waiting), max(waiting.values()))
        if failures:
            rank = self.plan.topology.rank
            named = [failures[node] for node in sorted(failures, key=rank.__getitem__)]
            raise BranchFailed(session.id, named, limit)
        if limit is not None:
            raise limit


def _settled(plan: Plan, session: Session, step: Step, outcome: Outcome) -> Transition:
    return settle(plan, session, step, outcome) or _stale(step)


def _stale(step: Step) -> Never:
    """A step that this driver dispatched from this very session is enabled in it."""
    raise RuntimeError(f"step {step} was dispatched and is not enabled: a fault of the engine, please report it")


def failure(error: NodeError) -> Failed:
    """A step that raised, as an outcome, in text that every store can keep."""
    return Failed(type(error).__name__, str(error).encode("utf-8", "replace").decode())


@final
@frozen(eq=False)
class _Branches:
    """Runs the steps of one activation side by side until none is ready; no task outlives it.  Rules E4, E5, G3."""

    executor: Executor
    listener: Listener | None
    failures: dict[str, NodeError]
    spent: list[Usage]
    running: dict[str, asyncio.Task[None]] = field(init=False, factory=dict)
    finished: asyncio.Queue[tuple[Step, Outcome | BaseException]] = field(init=False, factory=asyncio.Queue)

    async def drive(self, session: Session) -> Session:
        try:
            while session.activation is not None:
                self._start(session)
                if not self.running:
                    break
                step, outcome = await self.finished.get()
                await self.running.pop(step.node)
                session = await self._settle(session, step, outcome)
        finally:
            for task in self.running.values():
                task.cancel()
            await asyncio.gather(*self.running.values(), return_exceptions=True)
        return session

    def _start(self, session: Session) -> None:
        limit = self.executor.plan.wiring.max_branches
        for step in ready(self.executor.plan, session):
            if limit is not None and len(self.running) >= limit:
                return
            if step.node not in self.running:
                self.running[step.node] = asyncio.create_task(self._branch(session, step))

    async def _branch(self, session: Session, step: Step) -> None:
        outcome: Outcome | BaseException
        try:
            if self.listener is not None:
                self.listener(StepStarted(session.id, step.node, step.run))
            ran = run_step(self.executor.plan, session, step, self.listener)
            outcome = ran if isinstance(ran, Published) else await ran
        except NodeError as error:
            outcome = error
        except BaseException as error:
            self.finished.put_nowait((step, error))
            raise
        self.finished.put_nowait((step, outcome))

    async def _settle(self, session: Session, step: Step, outcome: Outcome | BaseException) -> Session:
        if isinstance(outcome, NodeError):
            self.failures[step.node] = outcome
            if self.listener is not None:
                self.listener(StepRaised(session.id, step.node, outcome))
            outcome = failure(outcome)
        if isinstance(outcome, BaseException):
            raise outcome
        delta = _settled(self.executor.plan, session, step, outcome).delta
        session = await self.executor.commit(session, delta)
        if isinstance(outcome, Published) and outcome.usage is not None:
            self.spent.append(outcome.usage)
        if self.listener is not None and not isinstance(outcome, Failed):
            self.listener(StepPublished(session.id, step.node, session.revision))
        return session
