"""Programs that end at any point, and start again from the bytes alone: what a crash is, and what it must not do.

A *life* is one run of the program: a loop, a compiled graph, a store, the nodes.  It counts its *points*, which are
every suspension of any of its tasks, both sides of every commit, and both sides of every SQLite statement; at the one
it is told to, it is killed: nothing that it does afterwards reaches the bytes or the record of what was entered.  The
*bytes* outlive it.  Every body says in its output that it was done, so the bytes alone tell what must not run again.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import pytest
from faults import Await, Crash

from ezgraph.errors import RevisionConflict, UnknownSession
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.runtime.executor import Executor
from ezgraph.session import Delta, Session, Turn
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Store
from ezgraph.stores.sqlite import SQLiteStore

Kind: TypeAlias = Literal["await", "before commit", "after commit", "before statement", "after statement"]
Key: TypeAlias = tuple[str, str, int]
"""Kind, name and index of a part."""

Build: TypeAlias = Callable[["Now", Store], CompiledGraph]

AWAITS: tuple[Kind, ...] = ("await",)
COMMITS: tuple[Kind, ...] = ("before commit", "after commit")
STATEMENTS: tuple[Kind, ...] = ("before statement", "after statement")

_connect = sqlite3.connect


def token(key: str) -> str:
    """What a body that is done leaves in the bytes."""
    return f"<{key}>"


class Bytes(Protocol):
    """What outlives a life."""

    def text(self) -> str:
        """All that was ever committed, as text: what is done stays done, also where it was replaced since."""
        ...

    def opened(self, life: Life) -> AbstractContextManager[Store]:
        """A store over it, for one life."""
        ...


# ------------------------------------------------------------------------------------------------------------ the bytes


class InMemory:
    """Bytes in memory: the parts of every session.  Its store takes awaits of its own around a commit."""

    def __init__(self) -> None:
        self.sessions: dict[str, tuple[int, dict[Key, str]]] = {}
        self.kept: list[str] = []

    def text(self) -> str:
        return "\n".join(self.kept)

    def opened(self, life: Life) -> AbstractContextManager[Store]:
        return nullcontext(PartStore(self, life))


class PartStore:
    """Keeps what the codec writes, in a dict."""

    def __init__(self, bytes_: InMemory, life: Life) -> None:
        self.parts, self.kept, self.life = bytes_.sessions, bytes_.kept, life

    async def load(self, session: str, codec: Codec, /) -> Session | None:
        await Await()
        revision, parts = self.parts.get(session, (0, {}))
        if not revision:
            return None
        stored = [(*key, parts[key]) for key in sorted(parts)]
        return codec.loaded(session, stored, store="parts", graph=codec.graph, version=1, revision=revision)

    async def commit(self, after: Session, delta: Delta, codec: Codec, /) -> None:
        await Await()
        drops, puts, _ = codec.changes(after, delta)
        self.life.point("before commit")
        self.life.check()
        revision, parts = self.parts.get(after.id, (0, {}))
        if after.revision != revision + 1:
            raise RevisionConflict(after.id, after.revision - 1, revision)
        gone = {
            key
            for key in parts
            for kind, name, at in drops
            if key[0] == kind and name in (None, key[1]) and key[2] >= at
        }
        kept = {key: body for key, body in parts.items() if key not in gone}
        self.parts[after.id] = after.revision, kept | {part[:3]: part.body for part in puts}
        self.kept += [part.body for part in puts]
        self.life.commits += 1
        self.life.point("after commit")
        self.life.check()
        await Await()


class File:
    """Bytes in a SQLite file.  A new life gets what a killed one left on the disk, its log and journal beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lives = folder, count()
        self.path = folder / f"{next(self.lives)}.db"
        self.kept: list[str] = []

    def text(self) -> str:
        return "\n".join(self.kept)

    @contextmanager
    def opened(self, life: Life) -> Iterator[Store]:
        def connect(*args: Any, **options: Any) -> sqlite3.Connection:
            made: sqlite3.Connection = _connect(*args, **options, factory=Statements)
            assert isinstance(made, Statements)
            made.life, made.kept = life, self.kept
            return made

        with pytest.MonkeyPatch.context() as patched, SQLiteStore(self.path) as store:
            patched.setattr(sqlite3, "connect", connect)
            yield store
            if life.killed:  # before the connection is closed, which tidies up
                left = self.path
                self.path = self.folder / f"{next(self.lives)}.db"
                for file in self.folder.glob(f"{left.name}*"):
                    shutil.copy(file, f"{self.path}{file.name.removeprefix(left.name)}")


class Statements(sqlite3.Connection):
    """A connection that a life may end at, before or after each statement."""

    life: Life
    kept: list[str]
    writing: tuple[str, ...] | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return self._between(sql, lambda: super(Statements, self).execute(sql, parameters))

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        cursor = self._between(sql, lambda: super(Statements, self).executemany(sql, parameters))
        if "INSERT INTO part" in sql:
            self.writing = (*(self.writing or ()), *(body for *_, body in parameters))
        return cursor

    def _between(self, sql: str, run: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        self.life.point("before statement")
        self.life.check()
        cursor = run()
        if sql.strip().startswith(("INSERT INTO session", "UPDATE session")):
            self.writing = ()
        if sql == "COMMIT" and self.writing is not None:
            self.life.commits += 1
            self.kept += self.writing
        if sql in ("COMMIT", "ROLLBACK"):
            self.writing = None
        self.life.point("after statement")
        self.life.check()
        return cursor


# ------------------------------------------------------------------------------------------------------------- a life


class Life:
    """One run of the program, over what earlier ones left.

    Args:
        bytes_: What there is.
        at: The point at which it ends, from 1; 0 for none.
        kinds: The kinds of points that count.
        durability: That of the graph.
        cancels: Whether the turn is cancelled there, in the place of the kill.
        inside: Bodies whose step may keep nothing of them: the bodies that say in their place that they are done.

    Attributes:
        points: How many of them there were.
        entered: The bodies that were entered, with how often.
        wrong: What must not have happened, in words.
        killed: Nothing of it counts from here on.
        commits: How many commits stand.
        order: Of two bodies at once, which is to be kept first.
        broken: The bodies that raise when they are entered.
        outcome: What the call came to.
    """

    def __init__(  # noqa: PLR0913  facts of one life
        self,
        bytes_: Bytes,
        at: int = 0,
        *,
        kinds: tuple[Kind, ...] = AWAITS + COMMITS + STATEMENTS,
        durability: Literal["call", "step"] = "call",
        cancels: bool = False,
        inside: Mapping[str, str] | None = None,
    ) -> None:
        self.bytes, self.at, self.kinds, self.cancels = bytes_, at, kinds, cancels
        self.durability: Literal["call", "step"] = durability
        self.inside = inside or {}
        self.points: Counter[Kind] = Counter()
        self.entered: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.killed = self.struck = False
        self.commits = 0
        self.order: tuple[str, ...] = ()
        self.broken: set[str] = set()
        self.outcome: Any = None
        self.main: asyncio.Task[Any] | None = None

    # -------------------------------------------------------------------------------------------------- what bodies do

    def enters(self, key: str) -> None:
        """A body is entered: it must not be one that the bytes say is done."""
        if self.killed:
            return
        self.entered[key] += 1
        if self.entered[key] > 1:
            self.wrong.append(f"{key} was entered twice in one life")
        if self.is_kept(key):
            self.wrong.append(f"{key} was done, and entered again")
        if key in self.broken:
            raise LookupError(f"{key} is broken")

    async def body(self, key: str) -> str:
        """Enter a body that waits, and give what says that it is done."""
        self.enters(key)
        await self.in_order(key)
        await Await()
        return token(key)

    async def in_order(self, key: str) -> None:
        """Let those that are to be kept before this one go first."""
        if key in self.order:
            for other in self.order[: self.order.index(key)]:
                while not (self.is_kept(other) or self.killed):
                    await Await()

    def is_kept(self, key: str) -> bool:
        """Whether the bytes say that a body is done."""
        text = self.bytes.text()
        return token(key) in text or (key in self.inside and token(self.inside[key]) in text)

    @property
    def lost(self) -> list[str]:
        """What was entered, and is not done."""
        return [key for key in self.entered if not self.is_kept(key)]

    def relies_on(self, *keys: str, of: Literal["call", "step"] = "call") -> None:
        """Say what must be durable where this stands; what is a call's, under `durability="call"` alone."""
        if not self.killed and (of == "step" or self.durability == "call"):
            self.wrong.extend(f"{key} is done, and not in the bytes" for key in keys if not self.is_kept(key))

    # ------------------------------------------------------------------------------------------------- how it may end

    def point(self, kind: Kind) -> None:
        if self.killed or kind not in self.kinds:
            return
        self.points[kind] += 1
        if self.points.total() == self.at:
            self.struck = True
            if self.cancels:
                assert self.main is not None
                self.main.cancel()
            else:
                self.killed = True
                asyncio.get_running_loop().stop()

    def check(self) -> None:
        """Raises: Crash, once the life is over: the store answers no more."""
        if self.killed:
            raise Crash

    def live(
        self, build: Callable[[Life, Store], CompiledGraph], call: Callable[[CompiledGraph], Coroutine[Any, Any, Any]]
    ) -> None:
        """Make a call over the bytes, to its end or to that of this life."""
        loop = asyncio.new_event_loop()
        loop.set_task_factory(self._watched)  # type: ignore[arg-type]
        loop.set_exception_handler(self._overheard)
        with closing(loop), self.bytes.opened(self) as store:
            self.main = loop.create_task(call(build(self, store)))
            self.main.add_done_callback(lambda _: None if self.killed else loop.stop())
            loop.run_forever()
            if not self.killed:
                self.wrong.extend(f"{task!r} outlived the turn" for task in asyncio.all_tasks(loop))
                self.outcome = self.main.exception() if not self.main.cancelled() else asyncio.CancelledError()
                self.outcome = self.outcome or self.main.result()
            while left := asyncio.all_tasks(loop):  # a real kill drops these: what they do reaches nothing
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(left))

    def _watched(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any) -> Any:
        return asyncio.Task(_Watched(work, self), loop=loop, **options)

    def _overheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self.killed:
            self.wrong.append(f"the loop was told: {context}")


class _Watched(Coroutine[Any, Any, Any]):
    """A task's work, whose every suspension is a point of its life."""

    def __init__(self, work: Coroutine[Any, Any, Any], life: Life) -> None:
        self.work, self.life = work, life

    def send(self, value: Any, /) -> Any:
        waits_for = self.work.send(value)
        self.life.point("await")
        return waits_for

    def throw(self, *error: Any) -> Any:
        waits_for = self.work.throw(*error)
        self.life.point("await")
        return waits_for

    def close(self) -> None:
        self.work.close()

    def __await__(self) -> Any:
        return self.work.__await__()


# ------------------------------------------------------------------------------------------------------ life after life


class Now:
    """Where nodes find the life that runs them."""

    def __init__(self, life: Life) -> None:
        self.life = life


class Program:
    """Makes the compiled graph of a life: an executor of its own over a store of its own.

    To compile takes longer than to run.  A plan and a codec are values, so lives may have them in common; the stories
    told with `anew` have nothing in common but the bytes.
    """

    def __init__(self, build: Build) -> None:
        self.build = build
        self._made: dict[str, tuple[Now, Executor]] = {}

    def app(self, life: Life, store: Store, *, anew: bool = False) -> CompiledGraph:
        if anew:
            return self.build(Now(life), store)
        if life.durability not in self._made:
            now = Now(life)
            self._made[life.durability] = now, self.build(now, store)._executor
        now, made = self._made[life.durability]
        now.life = life
        return CompiledGraph(made.plan, Executor(made.plan, store, made.codec), None)


class Story:
    """The lives of one session until its turn has come to its end.

    Args:
        program: Makes the graph of each life.
        bytes_: What there is.
        message: What the customer says; None for a job.
        anew: Whether each life but the first compiles the graph.
        options: Those of every life.

    Attributes:
        lives: In order.
        lost: What was entered in a life that was struck, and was not done in the end of it.
        found: The bytes as text, after each life.
    """

    def __init__(
        self, program: Program, bytes_: Bytes, message: str | None = "go", *, anew: bool = False, **options: Any
    ) -> None:
        self.program, self.bytes, self.message, self.anew, self.options = program, bytes_, message, anew, options
        self.lives: list[Life] = []
        self.found: list[str] = []
        self.lost: Counter[str] = Counter()

    async def goes_on(self, app: CompiledGraph) -> Turn:
        """What a caller does who knows nothing but the session's id."""
        try:
            await app.aload("s")
        except UnknownSession:
            return await app.ainvoke(self.message, session="s")
        return await app.arecover("s")

    def told(self, *ends: int, prepare: Callable[[Life, int], None] | None = None) -> Story:
        """Live until struck at each of `ends`, then to the end.  What is entered is judged as it happens."""
        for at in (*ends, 0):
            if not self.begin(at, prepare).struck:
                break
        return self

    def begin(self, at: int, prepare: Callable[[Life, int], None] | None = None) -> Life:
        """One more life; `prepare` is given it and how many there were."""
        life = Life(self.bytes, at, **self.options)
        if prepare is not None:
            prepare(life, len(self.lives))
        life.live(partial(self.program.app, anew=self.anew and bool(self.lives)), self.goes_on)
        self.lives.append(life)
        self.found.append(self.bytes.text())
        if life.struck:
            self.lost.update(life.lost)
        assert life.wrong == [], (f"struck at {[one.at for one in self.lives]}", life.wrong)
        return life

    def look(self) -> tuple[Session | None, tuple[str, ...]]:
        """The session, and what it says is unfinished: as one more life finds it."""
        looking = Life(self.bytes, **self.options)

        async def load(app: CompiledGraph) -> tuple[Session | None, tuple[str, ...]]:
            session = await app._executor.load("s")  # with the journals, which a reader does not see
            return session, () if session is None else app.unfinished(session)

        looking.live(self.program.app, load)
        found = looking.outcome
        assert isinstance(found, tuple)
        return found

    @property
    def entered(self) -> Counter[str]:
        """The bodies that were entered, over all lives."""
        return sum((life.entered for life in self.lives), Counter[str]())
