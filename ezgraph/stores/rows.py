"""Sessions as rows of a file: a row for each session, whose revision is the optimistic lock, and one for each part.

Each function is called inside a transaction.  Rules L1, L2, L6.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ezgraph.errors import CorruptSession, RevisionConflict, VersionMismatch
from ezgraph.session import Session, standing
from ezgraph.stores.codec import Codec
from ezgraph.stores.file import KINDS
from ezgraph.stores.group import Refusal, Write
from ezgraph.stores.parts import UNCOUNTED, Drop, Part, Summary, count_of, parts_of

_COLUMNS: Final = "graph, version, revision, cursor, status, created, updated, head, incarnation, parts"
_INSERT: Final = f"INSERT INTO session (id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608  our own words
_UPDATE: Final = """
    UPDATE session SET revision = ?, cursor = ?, status = ?, updated = ?, parts = ?, head = coalesce(?, head)
    WHERE key = ? AND id = ? AND incarnation = ? AND revision = ? AND version = ?
"""
_UPGRADE: Final = """
    UPDATE session SET version = ?, revision = ?, cursor = ?, status = ?, updated = ?, head = ?, parts = ? WHERE key = ?
"""
_STAMP: Final = "SELECT version, incarnation, revision, updated FROM session WHERE id = ?"
_KEY: Final = "SELECT key, version, incarnation, revision FROM session WHERE id = ?"
_HEAD: Final = "SELECT key, graph, version, revision, updated, incarnation, parts, head FROM session WHERE id = ?"
_LISTED: Final = """
    SELECT id, graph, CAST(version AS INTEGER), CAST(revision AS INTEGER), cursor, status,
        max(0.0, min(CAST(created AS REAL), 253402300799.0)), max(0.0, min(CAST(updated AS REAL), 253402300799.0))
    FROM session
"""  # whoever wrote the file: no time outside of what a `datetime` holds
_OLDER: Final = "SELECT id FROM session WHERE graph = ? AND version <> ? ORDER BY id"
_PARTS: Final = "SELECT kind, name, at, body FROM part WHERE session = ? ORDER BY kind, name, at"
_PUT: Final = """
    INSERT INTO part VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (session, kind, name, at) DO UPDATE SET body = excluded.body
"""
_DROP: Final = "DELETE FROM part WHERE session = ? AND kind = ?"
_DROP_NAMED: Final = f"{_DROP} AND name = ? AND at >= ?"
_FORGET: Final = "DELETE FROM part WHERE session = ?"
_CODES: Final[Mapping[str, int]] = {kind: code for code, kind in enumerate(KINDS)}


class Stored(NamedTuple):
    """A session as it stands in the file."""

    key: int
    incarnation: int
    updated: float
    head: dict[str, object]
    parts: list[tuple[object, object, object, object]]


def stored(connection: sqlite3.Connection, session: str, path: str) -> Stored | None:
    """A session as it stands in the file, read inside a transaction.

    Raises:
        CorruptSession: It has not as many parts as it had when it was written.
    """
    found = connection.execute(_HEAD, (session,)).fetchone()
    if found is None:
        return None
    key, graph, version, revision, updated, incarnation, count, head = found
    rows = connection.execute(_PARTS, (key,)).fetchall()
    parts = [(_kind(kind), text(name), at, body) for kind, name, at, body in rows]
    there = sum(kind not in UNCOUNTED for kind, *_ in parts)
    if there != count or type(incarnation) is not int:
        raise CorruptSession(path, session, [("$", f"has {there} parts, and was written with {text(count)}")])
    if head is not None:
        parts.append(("head", "", 0, head))
    stands = {"graph": text(graph), "version": version, "revision": revision}
    return Stored(key, incarnation, updated, stands, parts)


def written(connection: sqlite3.Connection, write: Write, path: str) -> int | Refusal:
    """Write one commit and give the session's key, or say why not."""
    after, codec, changes, now, key = write
    before = after.revision - 1
    if before == 0:
        head, puts = _apart(changes.puts)
        stands = (after.revision, after.head.cursor, standing(after), now, now, head, after.incarnation, changes.total)
        made = connection.execute(_INSERT, (after.id, codec.graph, codec.version, *stands))
        if made.rowcount == 1:
            _put(connection, made.lastrowid, puts)
            return made.lastrowid or 0
    elif key and _is_updated(connection, key, write):
        return key
    found = connection.execute(_KEY, (after.id,)).fetchone()
    if found is None:
        return RevisionConflict(after.id, before, 0)
    key, stored, incarnation, revision = found
    if (incarnation, revision) != (after.incarnation, before):
        return RevisionConflict(after.id, before, revision if type(revision) is int else None)
    if type(stored) is int and stored > codec.version:
        return VersionMismatch(path, after.id, stored=stored, version=codec.version)
    if not _is_updated(connection, key, write):
        rewrite(connection, key, after, codec, now)  # another version of the graph wrote it
    return int(key)


def _is_updated(connection: sqlite3.Connection, key: int, write: Write) -> bool:
    """Whether the session's row was as the commit builds on it; then its parts are changed."""
    after, codec, changes, now, _ = write
    head, puts = _apart(changes.puts)
    stands = (after.revision, after.head.cursor, standing(after), now, changes.total, head)
    known = (key, after.id, after.incarnation, after.revision - 1, codec.version)
    if connection.execute(_UPDATE, (*stands, *known)).rowcount != 1:
        return False
    _drop(connection, key, changes.drops)
    _put(connection, key, puts)
    return True


def rewrite(connection: sqlite3.Connection, key: int, session: Session, codec: Codec, now: float) -> None:
    """Write a session whole, as this version of its graph has it."""
    head, puts = _apart([*parts_of(codec.document(session))])
    stands = (session.revision, session.head.cursor, standing(session), now, head, count_of(session))
    connection.execute(_UPGRADE, (codec.version, *stands, key))
    connection.execute(_FORGET, (key,))
    _put(connection, key, puts)


def inserted(  # noqa: PLR0913, PLR0917  a row's columns
    connection: sqlite3.Connection, session: str, summary: Summary, parts: Sequence[Part], now: float, incarnation: int
) -> bool:
    """Write a session whole, under an id that is free; whether it is."""
    head, others = _apart(parts)
    count = sum(part.kind not in UNCOUNTED for part in others)
    row = connection.execute(_INSERT, (session, *summary, now, now, head, incarnation, count))
    if row.rowcount == 1:
        _put(connection, row.lastrowid, others)
        return True
    return False


def listed(connection: sqlite3.Connection, where: str, given: Sequence[object]) -> list[tuple[Any, ...]]:
    """What is listed of sessions: id, graph, version, revision, cursor, status, created, updated.

    Args:
        connection: To the file.
        where: What stands behind WHERE, with a `?` for each value.
        given: The values.
    """
    found = connection.execute(f"{_LISTED} WHERE {where}", given)
    return [tuple(map(text, row)) for row in found]


def forgotten(connection: sqlite3.Connection, where: str, given: Sequence[object]) -> int:
    """Delete sessions with all their parts; how many there were."""
    found = connection.execute(f"SELECT key FROM session WHERE {where}", given).fetchall()  # noqa: S608  our own words
    connection.executemany(_FORGET, found)
    connection.executemany("DELETE FROM session WHERE key = ?", found)
    return len(found)


def older(connection: sqlite3.Connection, codec: Codec) -> list[str]:
    """The ids of a graph's sessions that are not of the codec's version."""
    found = connection.execute(_OLDER, (codec.graph, codec.version))
    return [text(session) for (session,) in found]


def is_as_kept(connection: sqlite3.Connection, session: Session, version: int, updated: float) -> bool:
    """Whether the file has nothing newer than a session in memory, which was written at `updated`."""
    found = connection.execute(_STAMP, (session.id,)).fetchone()
    return bool(found == (version, session.incarnation, session.revision, updated))


def _apart(puts: Sequence[Part]) -> tuple[str | None, Sequence[Part]]:
    """The head's body, where it is among them, which stands in the session's row; and the others."""
    return (puts[0].body, puts[1:]) if puts and puts[0].kind == "head" else (None, puts)


def _drop(connection: sqlite3.Connection, key: int, drops: Sequence[Drop]) -> None:
    if drops:
        coded = [(key, _CODES[kind], name, at) for kind, name, at in drops]
        connection.executemany(_DROP, [drop[:2] for drop in coded if drop[2] is None])
        connection.executemany(_DROP_NAMED, [drop for drop in coded if drop[2] is not None])


def _put(connection: sqlite3.Connection, key: int | None, parts: Sequence[Part]) -> None:
    if parts:
        connection.executemany(_PUT, [(key, _CODES[kind], name, at, body) for kind, name, at, body in parts])


def _kind(code: object) -> object:
    """What a number in the file stands for; the codec refuses what is none."""
    return KINDS[code] if type(code) is int and 0 <= code < len(KINDS) else text(code)


def text(value: object) -> Any:
    """Text as it stands in the file, which may not be ours; the codec refuses what is none."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
