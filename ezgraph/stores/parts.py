"""A stored session as parts: a row of JSON for each thing that changes by itself, so that a step writes what it added.

A session's *document* is one plain JSON object; its *parts* are the same object, cut.  Both are read and made here
without a graph: what is in them is the codec's.  Rules L4, L6.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from json import dumps
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from msgspec import DecodeError

from ezgraph.numbers import TooLarge, json_of, value_of, without_long
from ezgraph.session import Session, Standing, standing_of
from ezgraph.shapes import MAX_DEPTH

FORMAT: Final = 1
"""The number of the format of documents and parts."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest part that is written or read."""

MOST_COMMITS: Final = 2**62
"""No session has so many, and no graph so many versions: every store can count them."""

MAX_NESTING: Final = 2 * MAX_DEPTH + 8
"""The deepest JSON that is written or read.  A level of a value may be two of JSON (a member of a union with its tag
around it, a pair of a map), and the document stands around it: so what `shapes.checker` accepts can be loaded."""

Document: TypeAlias = dict[str, Any]
"""A session as plain JSON: what `sessions show` prints, an export holds and a migration rewrites."""


class Part(NamedTuple):
    """One row of a session.

    Attributes:
        kind: What it is: `head`, `cell`, `message` and so on.
        name: Of a cell, its node; of a message, its history space; of a row, a mark or a note, its place as JSON.
        at: The index of a message in its space, of a note in its journal, of an error; else 0.
        body: JSON text.
    """

    kind: str
    name: str
    at: int
    body: str


class Drop(NamedTuple):
    """Parts that a step takes away: of a kind, of a name (None: of any), from an index on."""

    kind: str
    name: str | None = None
    at: int = 0


class Changes(NamedTuple):
    """What a step does to the parts of its session: first `drops`, then `puts`, which replace what is there.

    Where the head changes, it is the first of `puts`.  Then the session has `total` parts, of those that are counted.
    """

    drops: list[Drop]
    puts: list[Part]
    total: int


ALONE: Final = {"head": "head", "limits": "limits", "activation": "activation"}
"""The kinds that a session has once, with their key in the document."""

UNCOUNTED: Final = ("head", "limits")
"""The kinds that a session may have or not, whatever else it has; of the others a store counts how many there are."""

NAMED: Final = {"cell": "cells", "usage": "usage", "result": "results"}
"""Those that it has once for each name."""

_INDEXED: Final = {"message": "histories", "item": "series"}
_LISTED: Final = {"row": "rows", "mark": "marks", "error": "errors", "note": "journal"}
_COUNTED: Final = (*_INDEXED, "error", "note")
_IN_ACTIVATION: Final = ("row", "mark")
DROPPED_ANEW: Final = ("cell", "result", "series", "item", "message", "activation", "row", "mark", "note")
"""The kinds of which a session that starts over keeps nothing."""

_INNER: Final = ("rows", "marks")
_OPENED: Final = "activation"
_KEYS: Final = frozenset(
    (
        "format",
        "graph",
        "version",
        "revision",
        "series",
        "histories",
        "errors",
        "journal",
        *ALONE.values(),
        *NAMED.values(),
    )
)

Inner = TypeVar("Inner", dict[str, Any], list[Any])


class Unreadable(ValueError):  # noqa: N818  caught where a refusal is written
    """Stored text is not what was written.

    Attributes:
        path: Where in the document.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(problem)


def place_name(node: Any, item: Any) -> str:
    """The name of a row, a mark or a journal among the parts: its place as JSON."""
    return encoded((node, item))


def encoded(value: Any) -> str:
    """A plain value as JSON text."""
    return json_of(value).decode()


def count_of(session: Session) -> int:
    """How many parts a session has: what a store says beside them, so that it is seen where one is gone."""
    opened = session.activation
    return (
        len(session.cells)
        + len(session.usage)
        + len(session.results)
        + len(session.errors)
        + sum(map(len, session.histories.values()))
        + (len(session.series) + sum(map(len, session.series.values())) if session.series else 0)
        + (sum(map(len, session.journal.values())) if session.journal else 0)
        + (0 if opened is None else 1 + len(opened.rows) + len(opened.marks))
    )


# ------------------------------------------------------------------------------------------------------------ to parts


def parts_of(document: Document) -> Iterator[Part]:  # noqa: C901, PLR0912  an arm for each kind
    """The parts of a document: those of which `document_of` would make it again.

    Raises:
        Unreadable: It is not cut as ours are, or holds what could not be written.
    """
    for key in document.keys() - _KEYS:
        raise Unreadable(f"$.{key}", "is unknown")
    for kind, key in ALONE.items():
        if document.get(key) is not None:
            whole = _inner(document, key, dict)
            yield _part(kind, "", 0, {k: v for k, v in whole.items() if k not in _INNER} if key == _OPENED else whole)
    for kind, key in NAMED.items():
        for name, value in _inner(document, key, dict).items():
            yield _part(kind, name, 0, value)
    for worker, outputs in _inner(document, "series", dict).items():
        yield _part("series", worker, 0, len(_list(outputs, f"$.series.{worker}")))
        for at, output in enumerate(outputs):
            yield _part("item", worker, at, output)
    for space, messages in _inner(document, "histories", dict).items():
        for at, message in enumerate(_list(messages, f"$.histories.{space}")):
            yield _part("message", space, at, message)
    opened = document.get(_OPENED) or {}
    for value in _inner(opened, "rows", list):
        yield _part("row", _placed(value), 0, value)
    for value in _inner(opened, "marks", list):
        yield _part("mark", _placed(value), 0, value)
    for at, value in enumerate(_inner(document, "errors", list)):
        yield _part("error", "", at, value)
    noted: dict[str, int] = {}
    for value in _inner(document, "journal", list):
        place = _placed(value)
        noted[place] = at = noted.get(place, -1) + 1
        yield _part("note", place, at, value)


def _inner(document: Document, key: str, kind: type[Inner]) -> Inner:
    found = document.get(key, kind())
    if not isinstance(found, kind):
        raise Unreadable(f"$.{key}", f"is not {'an object' if kind() == {} else 'a list'}")
    return found


def _list(value: Any, path: str) -> list[Any]:
    if type(value) is not list:
        raise Unreadable(path, "is not a list")
    return value


def _placed(value: Any) -> str:
    """The name of what is of a place: a row or a note, which have it among their fields, or a mark, which is one."""
    match value:
        case {"node": node}:
            return place_name(node, value.get("item"))
        case [node, item]:
            return place_name(node, item)
        case _:
            raise Unreadable("$", "a row, a mark or a note has no place")


def _part(kind: str, name: str, at: int, value: Any) -> Part:
    try:
        body = encoded(value)
        name.encode()
    except UnicodeEncodeError:
        raise Unreadable("$", f"the {kind} of {name!a} has text that UTF-8 cannot encode") from None
    except TooLarge as error:
        raise Unreadable("$", f"the {kind} of {name!a} cannot be kept: {error}") from None
    except RecursionError:
        raise Unreadable("$", f"the {kind} of {name!a} is nested more than {MAX_NESTING} deep") from None
    parsed(body)  # bounded, as whatever is read
    return Part(kind, name, at, body)


class Summary(NamedTuple):
    """What a store lists of a session, and finds it by.

    Attributes:
        graph: The graph's name.
        version: The graph's version.
        revision: How many commits it has had.
        cursor: The id of the node that owns the next turn, or END.
        status: Where it stands.
    """

    graph: str
    version: int
    revision: int
    cursor: str
    status: Standing


def summary_of(document: object) -> Summary:
    """What a store lists of a document's session.

    Raises:
        Unreadable: It is no document of ours; whether its graph can load it, only a codec knows.
    """
    if type(document) is not dict:
        raise Unreadable("$", "is not an object")
    if document.get("format") != FORMAT:
        raise Unreadable("$.format", f"is {document.get('format')!r}, and this version reads format {FORMAT}")
    graph, version, revision = (document.get(key) for key in ("graph", "version", "revision"))
    if type(graph) is not str:
        raise Unreadable("$.graph", "is not the name of a graph")
    for key, number in (("version", version), ("revision", revision)):
        if type(number) is not int or not 1 <= number < MOST_COMMITS:
            raise Unreadable(f"$.{key}", "is not a whole number, 1 or more")
    head = document.get("head")
    if type(head) is not dict or type(cursor := head.get("cursor")) is not str:
        raise Unreadable("$.head.cursor", "is not the id of a node")
    opened = document.get("activation")
    failed = head.get("raised") is True or (type(opened) is dict and bool(opened.get("marks")))
    status = standing_of(cursor, owed=head.get("owed") is True, opened=opened is not None, failed=failed)
    return Summary(graph, cast("int", version), cast("int", revision), cursor, status)


def written_as_json(document: object) -> Any:
    """What somebody's function made of a document, as it would be read again.

    Raises:
        Unreadable: JSON has no form for something in it (bytes, a Decimal, NaN), or it could not be written.
    """
    try:
        text = _dumped(document)
        text.encode()
    except UnicodeEncodeError:
        raise Unreadable("$", "has text that UTF-8 cannot encode") from None
    except RecursionError:
        raise _too_deep("$") from None
    except (TypeError, ValueError) as error:
        raise Unreadable("$", f"is not JSON: {error}") from None
    if is_too_deep(text):
        raise _too_deep("$")
    return _value(text, "$")


def _dumped(document: object) -> str:
    try:
        return dumps(document, allow_nan=False, ensure_ascii=False)
    except UnicodeEncodeError:
        raise
    except ValueError:  # the interpreter's limit of digits, or what is wrong without long numbers, too
        dumps(without_long(document), allow_nan=False)
        return encoded(document)


def check(document: object) -> None:
    """Raise `Unreadable` of what is no document of ours, as far as can be told without its graph."""
    summary_of(document)
    deque(parts_of(cast("Document", document)), maxlen=0)


# ------------------------------------------------------------------------------------------------------ to a document


def document_of(parts: Iterable[tuple[object, object, object, object]], **head: object) -> Document:  # noqa: C901, PLR0912  an arm for each kind
    """The document that stored parts make, with the keys of `head` first.

    Args:
        parts: Kind, name, index and body, ordered by these; whatever may stand in a file.
        **head: Graph, version and revision.

    Raises:
        Unreadable: They are not parts of ours, or one is missing.
    """
    document: Document = {"format": FORMAT, **head}
    inner: dict[str, list[Any]] = {}
    for kind, name, at, body in parts:
        if type(kind) is not str or type(name) is not str or type(at) is not int:
            raise Unreadable("$", f"a part is keyed {kind!r}, {name!r}, {at!r}")
        if at and kind not in _COUNTED:
            raise Unreadable("$", f"the {kind} of {name!a} is there at {at}, too")
        if kind in ALONE:
            document[ALONE[kind]] = parsed(body, f"$.{ALONE[kind]}")
        elif kind in NAMED:
            path = f"$.{NAMED[kind]}.{name}"
            document.setdefault(NAMED[kind], {})[name] = parsed(body, path)
        elif kind in _INDEXED:
            key = _INDEXED[kind]
            _append(document.setdefault(key, {}).setdefault(name, []), at, body, f"$.{key}.{name}")
        elif kind == "series":  # behind its items: there may be none
            there = document.setdefault("series", {}).setdefault(name, [])
            if parsed(body, f"$.series.{name}") != len(there):
                raise Unreadable(f"$.series.{name}[{len(there)}]", "is missing")
        elif kind in _LISTED:
            ordered = inner if kind in _IN_ACTIVATION else document
            listed = ordered.setdefault(_LISTED[kind], [])
            path = f"$.{'activation.' if ordered is inner else ''}{_LISTED[kind]}"
            if kind == "error":
                _append(listed, at, body, path)
            else:
                listed.append(parsed(body, f"{path}[{len(listed)}]"))
        else:
            raise Unreadable("$", f"a part is of the unknown kind {kind!r}")
    if inner:
        opened = document.get("activation")
        if type(opened) is not dict:
            raise Unreadable("$.activation", f"is missing, and there are {' and '.join(inner)} of it")
        document["activation"] = {**opened, **inner}
    return document


def _append(listed: list[Any], at: int, body: object, path: str) -> None:
    if at != len(listed):
        raise Unreadable(f"{path}[{len(listed)}]", "is missing")
    listed.append(parsed(body, f"{path}[{at}]"))


def parsed(text: object, path: str = "$") -> Any:
    """The JSON value of a stored text, bounded in size and depth before it is decoded.

    Raises:
        Unreadable: It is none.
    """
    if not isinstance(text, str | bytes):
        raise Unreadable(path, "is not text")
    if len(text) > MAX_BYTES:
        raise Unreadable(path, f"is longer than {MAX_BYTES} bytes")
    if is_too_deep(text if isinstance(text, str) else text.decode(errors="replace")):
        raise _too_deep(path)
    return _value(text, path)


def _value(text: str | bytes, path: str) -> Any:
    try:
        return value_of(text)
    except TooLarge as error:
        raise Unreadable(path, f"cannot be kept: {error}") from None
    except (DecodeError, UnicodeError, RecursionError) as error:
        raise Unreadable(path, f"is not JSON: {error}") from None


def _too_deep(path: str) -> Unreadable:
    return Unreadable(path, f"is nested more than {MAX_NESTING} deep")


_NOT_BRACKETS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^\[\]{}"]+', re.DOTALL)
_INNERMOST: Final = re.compile(r"\[\]|\{\}")


def is_too_deep(text: str) -> bool:
    """Whether JSON nests too deep, found without parsing: what opens and closes is taken off from the inside out."""
    if text.count("[") + text.count("{") <= MAX_NESTING:
        return False
    brackets = _NOT_BRACKETS.sub("", text)
    for _ in range(MAX_NESTING):
        fewer = _INNERMOST.sub("", brackets)
        if len(fewer) == len(brackets):  # nothing is left, or what is left does not close and is no JSON
            return len(brackets) > MAX_NESTING
        brackets = fewer
    return bool(brackets)
