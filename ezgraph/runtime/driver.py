"""One turn of one session: runs what is ready, settles each outcome, commits, and goes on until nothing is ready.

It takes no decision: what runs is `ready`'s, what an outcome comes to is `settle`'s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from contextvars import Context as Variables, copy_context
from functools import partial
from typing import Any, Never, final

from ezgraph.activations import Place
from ezgraph.algebra.journalling import noting
from ezgraph.algebra.scheduling import Step, follows, held, ready
from ezgraph.algebra.settling import Failed, Outcome, Published, cursor_settled, settle, settle_all
from ezgraph.errors import BranchFailed, EzGraphError, NodeError, StateTypeError, StepFailed, StepLimit
from ezgraph.errors.words import said
from ezgraph.messages import NO_USAGE, Usage, storable
from ezgraph.notes import Note
from ezgraph.plan import Plan
from ezgraph.runtime.awaiting import apart, ended, shielded
from ezgraph.runtime.calling import call_workers
from ezgraph.runtime.context import Context
from ezgraph.runtime.events import Listener, StepPublished, StepRaised, StepStarted
from ezgraph.runtime.journal import Journal
from ezgraph.runtime.steps import context_of, run_node
from ezgraph.session import Delta, Session, Status, Turn, apply, is_completed
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Store


@final
class Drive:
    """The driver of one turn.

    Attributes:
        plan: The compiled graph.
        session: As it was last committed.
        listener: Whom to tell, or None.
        journals: Whether finished calls are written before their step goes on.
        stopping: Whether a failed branch has cancelled its siblings: nothing new starts.  Rule E5.
    """

    def __init__(self, plan: Plan, store: Store, codec: Codec, session: Session, listener: Listener | None) -> None:
        self.plan, self.session, self.listener = plan, session, listener
        self._store, self._codec = store, codec
        self._writing = asyncio.Lock()
        self._spent: list[Usage] = []
        self._failures: dict[Place, NodeError] = {}
        self._limits: list[StepLimit] = []
        self._task: asyncio.Task[Any] | None = None
        self._asked = 0  # how often the turn's task was cancelled before the turn
        self.stopping = False
        self.journals = plan.wiring.durability == "call"

    async def run(self) -> Turn:  # noqa: C901, PLR0912, PLR0915  the loop that all else is for; its checks cost no call
        """Run what is ready until nothing is, and say what the turn came to.

        Raises:
            NodeError: A stage's step failed.  Rule G4.
            BranchFailed: Branches failed.  Rule E5.
            StepLimit: The chain reached the limit.  Rule E9.
            RevisionConflict: Another turn committed first.  Rule L2.
        """
        plan, store, codec, listener = self.plan, self._store, self._codec, self.listener
        reply: str | None = None
        self._task = task = asyncio.current_task()
        self._asked = asked = 0 if task is None else task.cancelling()
        while True:
            steps = ready(plan, self.session)
            if not steps:
                break
            if self.session.activation is not None:
                await _Branches(self, steps).run()
                if self._limits:
                    break  # it waits for a larger limit, and nothing else can run
                continue
            step = steps[0]
            if listener is not None:
                listener(StepStarted(self.session.id, step.node, step.run))
            try:
                outcome = run_node(context_of(self, step))
                if type(outcome) is not Published:
                    outcome = await outcome
                    if task is not None and task.cancelling() > asked:
                        raise asyncio.CancelledError  # the node swallowed it, and it is the caller's (rule G3)
            except StepLimit:
                await self._keep_input(step)
                raise
            except NodeError as error:
                if self.is_cancelled() and _is_of_cancellation(error):
                    raise asyncio.CancelledError from error  # the node raised it in the place of the caller's
                await self._log(step, error)
                raise
            session = self.session
            delta, reply = cursor_settled(plan, session, outcome)
            session = apply(session, delta)
            try:
                pending = store.commit(session, delta, codec)
                if pending is not None:
                    await shielded(pending)
            except StateTypeError as error:
                await self._log(step, error)
                raise
            self.session = session
            if outcome.usage:
                self._spent.extend(outcome.usage.values())
            if listener is not None:
                listener(StepPublished(session.id, step.node, session.revision))
                await asyncio.sleep(0)  # whoever listens may act between two steps that never wait
        self._check_end()
        session = self.session
        status: Status = "completed" if is_completed(session) else "idle"
        spent = sum(self._spent, NO_USAGE)
        return Turn(session.id, status, reply, session.head.cursor, spent, session.revision)

    def is_cancelled(self) -> bool:
        """Whether what runs here was cancelled by the caller, a time limit, or the failure of a sibling.  Rule G3."""
        task = asyncio.current_task()
        asked = self._asked if task is self._task else 0
        return self.stopping or (task is not None and task.cancelling() > asked)

    def failing(self, error: BaseException) -> BaseException | None:
        """What an author's code raised, if that fails its step; None if it is to reach the caller as it is.

        A CancelledError fails the step unless somebody has cancelled it, and a group does if each of its leaves would.
        A coroutine cannot raise StopIteration: Python makes a RuntimeError of it, and here it is itself again.
        """
        match error:
            case RuntimeError(args=("coroutine raised StopIteration",), __cause__=StopIteration() as cause):
                return cause
            case Exception():
                return error
            case asyncio.CancelledError():
                return None if self.is_cancelled() else error
            case BaseExceptionGroup(exceptions=leaves):
                return None if any(self.failing(leaf) is None for leaf in leaves) else error
            case _:
                return None

    async def commit(self, delta: Delta) -> None:
        """Add `delta` to the session, once the store has it.  A commit that has begun is shielded.  Rule G3."""
        after = apply(self.session, delta)
        pending = self._store.commit(after, delta, self._codec)
        if pending is None:
            self.session = after
            return
        writing = asyncio.ensure_future(pending)
        try:
            await ended(writing)
        finally:  # a branch that is cancelled meanwhile has written all the same, and its siblings go on from there
            if not writing.cancelled() and writing.exception() is None:
                self.session = after
        writing.result()

    async def publish(self, outcomes: Sequence[tuple[Step, Outcome]]) -> None:
        """Settle outcomes of branches and commit what they come to, in one write if the store takes it as one.

        The outcome of a branch that it does not take by itself is a failure of that branch.  Rule E5.
        """
        try:
            async with self._writing:
                delta = settle_all(self.plan, self.session, outcomes)
                await self.commit(_stale(outcomes[0][0]) if delta is None else delta)
        except StateTypeError as error:
            if len(outcomes) > 1:
                for one in outcomes:
                    await self.publish([one])
            elif isinstance(outcomes[0][1], Failed):
                raise
            else:
                step = outcomes[0][0]
                await self.publish([(step, self.failed(step, error))])
            return
        for step, outcome in outcomes:
            if type(outcome) is Published:
                if outcome.usage:
                    self._spent.extend(outcome.usage.values())
                if self.listener is not None:
                    self.listener(StepPublished(self.session.id, step.node, self.session.revision, step.item))

    def failed(self, step: Step, error: NodeError) -> Failed:
        """What a branch that raised comes to.  Rule E5."""
        self._failures[step.place] = error
        error.item = step.item
        if self.listener is not None:
            self.listener(StepRaised(self.session.id, step.node, error, step.item))
        return failure(error)

    # ------------------------------------------------------------------------------------------------- inside a step

    def journal(self, ctx: Context[Any, Any]) -> Journal:
        """The journal of a step that runs."""
        return Journal.of(ctx)

    async def note(self, step: Step, notes: tuple[Note, ...]) -> None:
        """Append to the journal of a step that runs; parallel ones write one after another.  Rule F2."""
        async with self._writing:
            await self.commit(noting(self.session, step.place, notes))

    async def call(self, ctx: Context[Any, Any], worker: object, states: Sequence[object]) -> tuple[object, ...]:
        """What `ctx.call` and `ctx.call_all` do.  Rule E11."""
        return await call_workers(ctx, worker, states)

    async def _keep_input(self, step: Step) -> None:
        """A step that the limit stopped inside is work left, with the input it was entered with.  Rule E9."""
        if self.session.head.before is not None and step.place not in self.session.journal:
            await self.note(step, ())

    def hold(self, limit: StepLimit) -> None:
        """A branch that the step limit stopped inside goes on with `arecover`; it did not fail."""
        self._limits.append(limit)

    # ------------------------------------------------------------------------------------------------ how a turn ends

    async def _log(self, step: Step, error: NodeError) -> None:
        """Append a stage's failure to the session's error log.  Rule G4."""
        if self.listener is not None:
            self.listener(StepRaised(self.session.id, step.node, error))
        try:
            delta, _ = settle(self.plan, self.session, step, failure(error)) or _stale(step)
            await self.commit(delta)
        except EzGraphError as unlogged:
            error.add_note(f"It is not in the error log: {unlogged}")

    def _check_end(self) -> None:
        session, waiting, limit = self.session, held(self.plan, self.session), None
        for stopped in self._limits:
            waiting |= dict.fromkeys(stopped.held, stopped.depth)
        if waiting:
            limit = StepLimit(session.id, session.limits.steps, tuple(waiting), max(waiting.values()))
        if self._failures and session.activation is not None:
            position = self.plan.closure(session.activation).position
            named = [self._failures[place] for place in sorted(self._failures, key=position)]
            raise BranchFailed(session.id, named, limit)
        if limit is not None:
            raise limit


def _stale(step: Step) -> Never:
    """A step that this driver dispatched from this very session is enabled in it."""
    raise RuntimeError(f"step {step} was dispatched and is not enabled: a fault of the engine, please report it")


def _is_of_cancellation(error: BaseException) -> bool:
    """Whether an error came up while a cancellation was handled.

    That the task was cancelled says too little: before Python 3.13 a task group one of whose tasks fails while it is
    waited for cancels the task that it is in, and does not take that back.
    """
    chain: list[BaseException] = []
    came: BaseException | None = error
    while came is not None and not any(came is met for met in chain):
        chain.append(came)
        came = came.__cause__ or came.__context__
    return any(isinstance(met, asyncio.CancelledError) for met in chain)


def failure(error: NodeError) -> Failed:
    """A step that raised, as an outcome, in text that every store can keep."""
    return Failed(type(error).__name__, storable(said(error)))


@final
class _Branches:
    """Runs the steps of one activation side by side until none is ready; no task outlives it.  Rules E4, E5, G3.

    One task runs those that are to start, one after another, for as long as none of them waits.  From the first that
    does on, each has a task of its own.
    """

    def __init__(self, drive: Drive, steps: Iterable[Step]) -> None:
        self._drive = drive
        self._waiting = deque(steps)
        loop = asyncio.get_running_loop()  # a task that is named at once costs less than one that the loop names first
        self._create = partial(asyncio.Task, loop=loop) if loop.get_task_factory() is None else loop.create_task
        self._running: dict[Step, asyncio.Task[None]] = {}
        self._starting = deque[Step]()  # behind one another, in one task
        self._ended: list[tuple[Step, Published | BaseException]] = []
        self._woken = asyncio.Event()
        self._fault: BaseException | None = None  # the store's

    async def run(self) -> None:
        limit = self._drive.plan.wiring.max_branches
        try:
            while True:
                while self._waiting and (limit is None or len(self._running) < limit):
                    if (done := self._started(self._waiting.popleft())) is not None:
                        await self._publish([done])
                if not self._running and not self._ended:
                    break
                await self._woken.wait()
                self._woken.clear()
                ended, self._ended = self._ended, []
                outcomes = [done for step, came in ended if (done := self._outcome(step, came)) is not None]
                if outcomes:
                    await self._publish(outcomes)
                if self._fault is not None:
                    raise self._fault
        finally:
            await self._stop()

    def _started(self, step: Step) -> tuple[Step, Outcome] | None:
        """Start a step; the outcome of one that never waits, which is published before the next one starts."""
        drive = self._drive
        if drive.listener is not None:
            drive.listener(StepStarted(drive.session.id, step.node, step.run, step.item))
        if drive.plan.nodes[step.node].waits:
            if not self._starting:
                self._starting = deque()
                self._starter = self._create(self._run(self._starting), name=step.node)
            self._starting.append(step)
            self._running[step] = self._starter
            return None
        variables = copy_context()
        try:
            ran = variables.run(run_node, context_of(drive, step))
        except NodeError as error:
            return step, drive.failed(step, error)
        if type(ran) is Published:
            return step, ran
        self._running[step] = self._create(self._run(deque([step]), ran, variables), name=step.node)
        return None

    async def _run(
        self, steps: deque[Step], ran: Coroutine[Any, Any, Published] | None = None, variables: Variables | None = None
    ) -> None:
        """Run steps one after another, and tell what each came to; once one waits, the others have a task each.

        `ran` is what the first gave already, with these context variables.
        """
        drive, task, spread = self._drive, asyncio.current_task(), partial(self._spread, steps)
        while steps and task is not None:
            step = steps.popleft()
            task.set_name(step.node)
            try:
                work = ran or run_node(context_of(drive, step))
                published = work if type(work) is Published else await apart(work, spread, variables)
            except BaseException as error:  # noqa: BLE001  the driver raises it, where it is no failure
                self._end(step, error)
            else:
                self._end(step, published)
            if task.cancelling():  # by itself: it is not for the next one
                spread()

    def _spread(self, steps: deque[Step]) -> None:
        """Give each of these a task of its own."""
        while steps:
            step = steps.popleft()
            self._running[step] = self._create(self._run(deque([step])), name=step.node)

    def _end(self, step: Step, came: Published | BaseException) -> None:
        del self._running[step]
        if not self._ended:
            self._woken.set()
        self._ended.append((step, came))

    def _outcome(self, step: Step, came: Published | BaseException) -> tuple[Step, Outcome] | None:
        match came:
            case Published():
                return step, came
            case asyncio.CancelledError() if self._drive.stopping:
                return None
            case asyncio.CancelledError():  # its own code has cancelled the task that it is in
                failed = StepFailed(step.node, came)
                failed.__cause__ = came
                return step, self._drive.failed(step, failed)
            case StepLimit():
                self._drive.hold(came)
            case NodeError():
                return step, self._drive.failed(step, came)
            case _:
                self._fault = self._fault or came
        return None

    async def _publish(self, outcomes: Sequence[tuple[Step, Outcome]]) -> None:
        drive = self._drive
        await drive.publish(outcomes)
        opened = drive.session.activation
        if opened is None:
            return
        self._waiting.extend(follows(drive.plan, drive.session, [step for step, _ in outcomes]))
        if opened.marks and drive.plan.closure(opened).policy == "cancel_siblings":
            drive.stopping = True
            self._waiting.clear()
            await self._stop()  # what ended well all the same is kept

    async def _stop(self) -> None:
        tasks = set(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
        self._running.clear()  # those that had not begun
