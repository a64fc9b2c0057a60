"""`sessions` and `migrate`: what a store keeps, seen and moved by who runs it."""

from __future__ import annotations

import asyncio
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from io import TextIOWrapper
from json import dumps
from math import inf
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from msgspec import DecodeError, json

from ezgraph.cli.targets import FINE, PROBLEMS, Refused, answer, compiled_of, hint, standard_input
from ezgraph.numbers import json_of, value_of
from ezgraph.runtime.awaiting import settled
from ezgraph.session import Standing
from ezgraph.shapes import is_text
from ezgraph.stores.contract import Archive, Query
from ezgraph.stores.parts import Document, Unreadable, check
from ezgraph.stores.sqlite import SQLiteStore

Answer = TypeVar("Answer")


def add_sessions(commands: Any) -> None:
    """Add `sessions` and its commands to those of the command line."""
    told = "List, show, move or forget a store's sessions."
    sessions = commands.add_parser("sessions", help=told, description=told, allow_abbrev=False)
    inner = sessions.add_subparsers(required=True, metavar="COMMAND")
    for name, run, told, arguments in (
        ("list", _list, "List sessions, one a line: id, graph, version, revision, cursor, status, last written.", ()),
        ("show", _show, "Print a session as JSON.", ("ID",)),
        (
            "export",
            _export,
            "Write sessions to stdout, one JSON object a line: the named, or all that fit; not both.",
            ("[ID]",),
        ),
        ("import", _import, "Read what `export` wrote from stdin; nothing is read in unless all of it can be.", ()),
        ("copy", _copy, "Keep what a session is now under another id, too.", ("ID", "TO")),
        ("delete", _delete, "Forget sessions.", ("ID...",)),
        ("prune", _prune, "Forget all sessions that fit, and print how many there were.", ()),
    ):
        command = inner.add_parser(name, help=told, description=told, allow_abbrev=False)
        command.add_argument("store", metavar="STORE", help="a SQLite file, or module:name of a compiled graph")
        for argument in arguments:
            count = {"[ID]": "*", "ID...": "+"}.get(argument)
            command.add_argument("ids", metavar=argument.strip("[]."), nargs=count or len(arguments))
            if count is None:
                break
        if name in ("list", "export", "prune"):
            _add_query(command)
        if name == "prune":
            command.add_argument("--all", action="store_true", help="needed where nothing else says which")
        command.set_defaults(run=_with(_archive if run is _import else _filled, run))


def _add_query(command: ArgumentParser) -> None:
    command.add_argument("--graph", metavar="NAME", help="of this graph")
    command.add_argument("--cursor", metavar="NODE", help="whose next turn this node owns, or END")
    command.add_argument("--status", choices=get_args(Standing), help="that stand so")
    command.add_argument("--idle-days", metavar="DAYS", type=float, help="not written for so long")
    command.add_argument("--after", metavar="ID", help="whose id sorts behind this one")
    command.add_argument("--limit", metavar="COUNT", type=int, help="so many at most, in the order of their ids")


def _query(given: Namespace) -> Query:
    if given.limit is not None and not 0 <= given.limit < 2**62:
        raise Refused(f"--limit {given.limit}: pass a whole number, 0 or more.")
    if given.idle_days is not None and not 0 <= given.idle_days < inf:
        raise Refused(f"--idle-days {given.idle_days}: pass a number of days, 0 or more.")
    return Query(
        graph=given.graph,
        cursor=given.cursor,
        status=given.status,
        idle=None if given.idle_days is None else given.idle_days * 86400,
        after=given.after,
        limit=given.limit,
    )


_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")

Command = Callable[[Archive, Namespace], int]


def _with(opened: Callable[[str], AbstractContextManager[Archive]], run: Command) -> Callable[[Namespace], int]:
    def command(given: Namespace) -> int:
        with opened(given.store) as archive:
            return run(archive, given)

    return command


@contextmanager
def _archive(where: str) -> Iterator[Archive]:
    """The store that is meant: a SQLite file, or that of a compiled graph."""
    if ":" in where and not Path(where).exists():
        yield compiled_of(where, "sessions").archive
    else:
        with SQLiteStore(where) as store:
            yield store


@contextmanager
def _filled(where: str) -> Iterator[Archive]:
    """The same, for who asks about sessions that are there already: it makes no file."""
    with _archive(where) as archive:
        _check_filled(archive)
        yield archive


def _check_filled(archive: object) -> None:
    """Refuse a file in which nobody has kept anything, which a store would make its own when it looks into it."""
    if not isinstance(archive, SQLiteStore):
        return
    path, told = Path(archive.path), "name a SQLite file, or module:name of a compiled graph."
    if not path.exists():
        raise Refused(f"there is no file {path}: {told}")
    if path.stat().st_size == 0 and not Path(f"{path}-wal").exists():
        raise Refused(f"the file {path} is empty: {told}")


def _now(answer: Answer | Awaitable[Answer]) -> Answer:
    """What a store answers, at once or later."""
    return asyncio.run(settled(answer))


# ---------------------------------------------------------------------------------------------------------- commands


def _list(archive: Archive, given: Namespace) -> int:
    for entry in _now(archive.find(_query(given))):
        written = datetime.fromtimestamp(entry.updated, UTC).isoformat(timespec="seconds")
        told = (entry.session, entry.graph, entry.version, entry.revision, entry.cursor, entry.status, written)
        answer("\t".join(map(str, told)))
    return FINE


def _show(archive: Archive, given: Namespace) -> int:
    document = json_of(_now(archive.export(given.ids[0])))
    answer(json.format(document, indent=2).decode())
    return FINE


def _export(archive: Archive, given: Namespace) -> int:
    query = _query(given)
    if given.ids and query != Query():
        raise Refused("export takes ids, or what the sessions are that are meant (--graph and so on), and not both.")
    for session in given.ids or [entry.session for entry in _now(archive.find(query))]:
        line = json_of({"session": session, "document": _now(archive.export(session))}).decode()
        answer(_NOT_ASCII.sub(lambda found: dumps(found[0])[1:-1], line))  # JSON whatever the terminal lacks
    return FINE


def _import(archive: Archive, _given: Namespace) -> int:
    read: dict[str, Document] = {}
    lines = standard_input()
    if isinstance(lines, TextIOWrapper):
        lines.reconfigure(encoding="utf-8", errors="surrogateescape")  # JSON is UTF-8, whatever the locale
    for number, line in enumerate(lines, 1):
        match _parsed(line, number):
            case {"session": str(session), "document": document, **rest} if not rest:
                if session in read:
                    raise Refused(f"line {number}: session {session!r} is there twice.", PROBLEMS)
                try:
                    check(document)
                except Unreadable as error:
                    raise Refused(f"line {number}: session {session!r}: {error.path} {error}.", PROBLEMS) from None
                read[session] = document
            case _:
                raise Refused(f"line {number} is no session: write what `sessions export` wrote.", PROBLEMS)
    _now(archive.add(read))
    hint(f"imported {len(read)}")
    return FINE


def _parsed(line: str, number: int) -> object:
    try:
        if not is_text(line):
            raise Refused(f"line {number} is not UTF-8 text.", PROBLEMS)
        return value_of(line)
    except (ValueError, DecodeError, RecursionError) as error:
        raise Refused(f"line {number} is not JSON: {error}", PROBLEMS) from None


def _copy(archive: Archive, given: Namespace) -> int:
    session, to = given.ids
    _now(archive.copy(session, to))
    return FINE


def _delete(archive: Archive, given: Namespace) -> int:
    missing = [session for session in given.ids if not _now(archive.delete(session))]
    for session in missing:
        hint(f"there is no session {session!r}")
    return PROBLEMS if missing else FINE


def _prune(archive: Archive, given: Namespace) -> int:
    query = _query(given)
    if query == Query(after=query.after, limit=query.limit) and not given.all:
        raise Refused("prune would forget every session: say which, or --all.")
    answer(str(_now(archive.prune(query))))
    return FINE


def migrate(given: Namespace) -> int:
    """Bring a store's sessions to the graph's version, or say what would fail."""
    app = compiled_of(given.target, "migrate")
    _check_filled(app.archive)
    if not given.check:
        for session in asyncio.run(app.amigrate()):
            answer(session)
        return FINE
    unfit = asyncio.run(app.aunfit())
    for error in unfit:
        answer(f"{type(error).__name__}: {error}")
    hint(f"{len(unfit)} would not load" if unfit else "all sessions load")
    return PROBLEMS if unfit else FINE
