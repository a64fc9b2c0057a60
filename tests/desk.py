"""A small desk that the tests of the engine share: nodes to lead to, a store that keeps every delta, and what ran."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from os import PathLike
from typing import Any

from attrs import frozen
from msgspec.structs import replace

from ezgraph import Context, Finish, GraphNode, StageContext, TaskResult, Worker, finish, task_result
from ezgraph.messages import Message, ToolCall
from ezgraph.models import ModelReply
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.runtime.events import Event, StepStarted
from ezgraph.session import Delta, Head, Session, apply
from ezgraph.stores.codec import Codec
from ezgraph.stores.file import KINDS


@frozen
class Note:
    """The state of most nodes here."""

    text: str = ""


class Other(GraphNode[Note]):
    """A stage to be led to: it finishes, and says what its state and its incoming message are."""

    def run(self, ctx: StageContext[Note]) -> Finish:
        said = ctx.incoming.text if ctx.incoming is not None else "-"
        return finish(f"other: {ctx.state.text or '-'}: {said}")


class Left(Worker[None, str]):
    def run(self, ctx: Context[None]) -> TaskResult[str]:
        return task_result("left")


class Right(Worker[None, str]):
    def run(self, ctx: Context[None]) -> TaskResult[str]:
        return task_result("right")


class Joined(GraphNode[None]):
    """Where `Left` and `Right` are joined."""

    def run(self, ctx: StageContext[None]) -> Finish:
        return finish(f"joined: {ctx.result(Left)}, {ctx.result(Right)}")


class Ledger:
    """A store that keeps every delta and every session that it made."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        self.sessions: list[Session] = []

    def load(self, session: str, codec: Codec, /) -> Session | None:
        return next((one for one in reversed(self.sessions) if one.id == session), None)

    def commit(self, after: Session, delta: Delta, codec: Codec, /) -> None:
        before = self.load(after.id, codec) or Session(after.id, after.graph, 0, Head(""))
        assert apply(before, delta).revision == after.revision
        self.deltas.append(delta)
        self.sessions.append(after)


def calls(*pairs: tuple[str, str], arguments: str = "{}") -> ModelReply:
    """One model message that calls tools, each given as (id, name)."""
    return ModelReply(calls=tuple(ToolCall(id_, name, arguments) for id_, name in pairs))


def ran(events: Iterable[Event]) -> list[str]:
    """The nodes that were run, in order."""
    return [event.node for event in events if isinstance(event, StepStarted)]


def file_parts(path: str | PathLike[str]) -> dict[tuple[str, str, str, int], Any]:
    """Every part in a SQLite store's file by session, kind, name and index, as JSON says it."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id, kind, name, at, body FROM part JOIN session ON session = key").fetchall()
        heads = connection.execute("SELECT id, head FROM session").fetchall()
    parts = {(session, KINDS[kind], name, at): json.loads(body) for session, kind, name, at, body in rows}
    return parts | {(session, "head", "", 0): json.loads(head) for session, head in heads}


def published(app: CompiledGraph, session: Session) -> dict[str, Any]:
    """What a session has published, as the codec writes it: all but revision, run numbers, journal and error log."""
    opened = session.activation and replace(session.activation, id=0)
    held = replace(session, head=Head(session.head.cursor), activation=opened, errors=(), journal={})
    return app._executor.codec.document(held) | {"revision": 0}


def spoken(messages: Iterable[Message]) -> list[str]:
    """A history in short: who says what, what is called, and what answers which call."""
    told = []
    for message in messages:
        who = f"{message.role}*" if message.internal else message.role
        called = "".join(f" +{call.name}#{call.id}" for call in message.calls)
        told.append(f"{who}{f'#{message.call}' if message.call is not None else ''}: {message.text}{called}")
    return told


def check_valid(messages: Iterable[Message]) -> None:
    """Assert that a provider accepts this history: each call has its one result, directly after, in call order."""
    waiting: list[str] = []
    for message in messages:
        if waiting:
            assert message.role == "tool", f"{waiting} unanswered before {message}"
            assert message.call == waiting.pop(0), f"{message} is out of order"
        else:
            assert message.role != "tool", f"{message} answers nothing"
        ids = [call.id for call in message.calls]
        assert len(set(ids)) == len([one for one in ids if one]), f"{message} has an id that is not its own"
        waiting = waiting or ids
    assert not waiting, f"{waiting} unanswered at the end"


def history(app: CompiledGraph, space: str = "default", session: str = "s") -> list[str]:
    """One history of a session in short; asserted to be valid."""
    messages = app.load(session).histories[space]
    check_valid(messages)
    return spoken(messages)
