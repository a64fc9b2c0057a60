"""This library, with every check on: ownership, routes, state types, step limit, revision, and its memory store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, cast

from attrs import frozen
from workloads import KILO, NODES, START, TEXT, Rec, advance

from ezgraph import (
    Context,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    StageContext,
    TaskResult,
    Worker,
    finish,
    go,
    scatter,
    task_result,
    user,
)
from ezgraph.stores.contract import Store
from ezgraph.stores.sqlite import SQLiteStore

Job = Callable[[], Awaitable[int]]
Following = Go[Any] | Finish


class Ring(NamedTuple):
    """The state of W1."""

    done: int = 0
    rec: Rec = START
    pad: str = ""


def _ring(length: int, *, sync: bool, store: Store | None = None, pad: str = "") -> Job:
    following: list[list[Any]] = [[] for _ in range(NODES)]  # where each leads, once there are classes

    def make(i: int) -> Any:
        ahead = following[i]

        def turns(_: Any, ctx: StageContext[None, Ring]) -> Following:
            done, rec = advance(*ctx.shared[:2])
            ctx.share(Ring(done, rec, pad))
            return finish("done") if done >= length else go(ahead[0])

        async def waits(_: Any, ctx: StageContext[None, Ring]) -> Following:
            done, rec = advance(*ctx.shared[:2])
            ctx.share(Ring(done, rec, pad))
            return finish("done") if done >= length else go(ahead[0])

        run = turns if sync else waits
        return type(f"N{i}", (GraphNode,), {"run": run, "__orig_bases__": (GraphNode[None, Ring],)})

    classes = [make(i) for i in range(NODES)]
    for i, cls in enumerate(classes):
        following[i].append(classes[(i + 1) % NODES])
        leads = cast("Any", Go)[following[i][0]]
        cls.run.__annotations__ = {"ctx": StageContext[None, Ring], "return": leads | Finish}
    app = Graph("ring", entry=classes[0], context=Ring(pad=pad)).stages(*classes[1:]).compile(store=store)
    sessions = count()

    async def once() -> int:
        turn = await app.ainvoke("go", session=f"s{next(sessions)}", step_limit=length + 1)
        return (await app.aload(turn.session)).cells["$context"].done  # type: ignore[no-any-return, attr-defined]

    return once


def ring(length: int) -> Job:
    """W1 with async nodes."""
    return _ring(length, sync=False)


def ring_sync(length: int) -> Job:
    """W1 with sync nodes."""
    return _ring(length, sync=True)


def ring_sqlite(length: int, folder: Path) -> Job:
    """W4: every transition a commit of a state of 1 KB."""
    return _ring(length, sync=False, store=SQLiteStore(folder / "ezgraph.db", keep=8), pad=KILO)


def ring_full_sqlite(length: int, folder: Path) -> Job:
    """W4, so that a power failure loses nothing."""
    return _ring(length, sync=False, store=SQLiteStore(folder / "full.db", sync="commit", keep=8), pad=KILO)


@frozen
class Said:
    """The state of W2."""

    length: int
    count: int = 0


class Loop(GraphNode[None, Said]):
    """Says one more thing, until it has said enough."""

    async def run(self, ctx: StageContext[None, Said]) -> Go[Loop] | Finish:
        said = ctx.shared
        ctx.append(Loop, user(TEXT))
        ctx.share(Said(said.length, said.count + 1))
        return finish("done") if said.count + 1 >= said.length else go(Loop)


def _messages(length: int, store: Store | None) -> Job:
    app = Graph("loop", entry=Loop, context=Said(length)).compile(store=store)
    sessions = count()

    async def once() -> int:
        turn = await app.ainvoke("go", session=f"s{next(sessions)}", step_limit=length + 1)
        history = (await app.aload(turn.session)).histories["default"]
        return len(history) - 2  # but for the input and the reply

    return once


def messages(length: int) -> Job:
    """W2: a self-loop that appends one message a transition."""
    return _messages(length, None)


def messages_sqlite(length: int, folder: Path) -> Job:
    """W4h: as W2, every transition a commit."""
    return _messages(length, SQLiteStore(folder / "ezgraph.db", keep=8))


class Work(Worker[int, int]):
    """Does nothing, and gives what it was handed."""

    async def run(self, ctx: Context[int]) -> TaskResult[int]:
        return task_result(ctx.state)


class Opens(GraphNode[None, int]):
    """Opens as many branches as the graph's context says."""

    def run(self, ctx: StageContext[None, int]) -> Fanout[Work]:
        return scatter(Work, range(ctx.shared))


class Gathers(GraphNode[None]):
    """Says how many outputs came in."""

    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(str(len(ctx.results(Work))))


def _fan(width: int, store: Store | None) -> Job:
    graph = Graph("fan", entry=Opens, context=width).stages(Gathers).workers(Work).join((Work,), to=Gathers)
    app = graph.compile(store=store)
    sessions = count()

    async def once() -> int:
        return int((await app.ainvoke("go", session=f"s{next(sessions)}")).reply or 0)

    return once


def fan(width: int) -> Job:
    """W3: a scatter over `width` inputs, gathered in a stage."""
    return _fan(width, None)


def fan_sqlite(width: int, folder: Path) -> Job:
    """W3 on disk: every branch is a commit."""
    return _fan(width, SQLiteStore(folder / "ezgraph.db", keep=8))
