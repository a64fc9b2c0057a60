"""Deltas as JSON text and back, by a closed registry made of one graph's annotations.  Values are `stores.values`'s.

There is one format, and one way to read it: no import by a stored name, no pickle, no second format.  Rules L4, L6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, final

from msgspec import MsgspecError, json

from ezgraph.errors import CorruptSession, StateTypeError, WrongGraph
from ezgraph.messages import Usage
from ezgraph.session import (
    END,
    Activation,
    Addition,
    Delta,
    ErrorRecord,
    Head,
    History,
    Limits,
    Row,
    Session,
    apply,
)
from ezgraph.shapes import MAX_DEPTH, is_text
from ezgraph.stores.values import Dump, Load, Misfit, Values, misfit_at

FORMAT: Final = 1
"""The format's number, in every document."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest document that is written or read."""

_DEPTH: Final = MAX_DEPTH + 8  # the document around a value

_PARTS: Final = (
    "format",
    "graph",
    "revision",
    "head",
    "limits",
    "cells",
    "messages",
    "usage",
    "opened",
    "rows",
    "marks",
    "closed",
    "results",
    "errors",
)


@final
class Codec:
    """The text of one graph's deltas.

    Args:
        graph: The graph's name.
        states: The state type of every node by its id, and the context's type under `session.CONTEXT`.
        outputs: The output type of every worker by its id.

    Raises:
        TypeError: A type has flaws; `shapes.flaws` lists them.
    """

    def __init__(self, graph: str, states: Mapping[str, object], outputs: Mapping[str, object]) -> None:
        self.graph = graph
        values = Values()
        self._states = _Registry("node", states, values)
        self._outputs = _Registry("worker", outputs, values)
        self._dump = {tp: values.dumper(tp) for tp in (Head, Limits, Addition, Usage, ErrorRecord)}
        self._load = {tp: values.loader(tp) for tp in (Head, Limits, Addition, Usage, ErrorRecord)}

    # ---------------------------------------------------------------------------------------------------------- encode

    def encode(self, delta: Delta) -> str:  # noqa: C901, PLR0912  a line for each part
        """The text of `delta`: deterministic, and without the parts that it leaves empty.

        Raises:
            StateTypeError: Something in it could not be loaded again (a lone surrogate, more than `MAX_BYTES`).
        """
        document: dict[str, Any] = {"format": FORMAT, "graph": self.graph, "revision": delta.revision}
        dump = self._dump
        if delta.head is not None:
            document["head"] = dump[Head](delta.head)
        if delta.limits is not None:
            document["limits"] = dump[Limits](delta.limits)
        if delta.cells:
            document["cells"] = self._states.dump(delta.cells)
        if delta.messages:
            document["messages"] = {space: dump[Addition](added) for space, added in delta.messages.items()}
        if delta.usage:
            document["usage"] = {node: dump[Usage](spent) for node, spent in delta.usage.items()}
        if delta.opened is not None:
            document["opened"] = self._dump_activation(delta.opened)
        if delta.rows:
            document["rows"] = [self._dump_row(row) for row in delta.rows]
        if delta.marks is None or delta.marks:
            document["marks"] = delta.marks
        if delta.closed:
            document["closed"] = True
        if delta.results is not None:
            document["results"] = self._outputs.dump(delta.results)
        if delta.errors:
            document["errors"] = [dump[ErrorRecord](error) for error in delta.errors]
        try:
            text = json.encode(document)
        except UnicodeEncodeError:
            path = next(_surrogates(document, "$"), "$")
            raise self._refused(delta, path, "text that UTF-8 can encode", "text with a lone surrogate") from None
        if len(text) > MAX_BYTES:
            raise self._refused(delta, "$", f"at most {MAX_BYTES} bytes of JSON", f"{len(text)} bytes")
        return text.decode()

    def _refused(self, delta: Delta, path: str, expected: str, found: str) -> StateTypeError:
        _, part, name, *_rest = [*path.split("."), "", ""]
        writer = name if part == "cells" else (delta.head.cursor if delta.head else self.graph)
        return StateTypeError(writer, f"session {delta.session!r}", path, expected, found)

    def _dump_row(self, row: Row) -> dict[str, Any]:
        dumped: dict[str, Any] = {
            "node": row.node,
            "output": self._outputs.dump({row.node: row.output})[row.node],
            "depth": row.depth,
        }
        if row.cells:
            dumped["cells"] = self._states.dump(row.cells)
        if row.usage is not None:
            dumped["usage"] = self._dump[Usage](row.usage)
        return dumped

    def _dump_activation(self, opened: Activation) -> dict[str, Any]:
        dumped: dict[str, Any] = {
            "id": opened.id,
            "parent": opened.parent,
            "roots": opened.roots,
            "depth": opened.depth,
        }
        if opened.rows:
            dumped["rows"] = [self._dump_row(row) for row in opened.rows.values()]
        if opened.marks:
            dumped["marks"] = sorted(opened.marks)
        return dumped

    # ---------------------------------------------------------------------------------------------------------- decode

    def decode(self, text: str | bytes, *, store: str, session: str) -> Delta:
        """The delta that `text` was made of.

        Args:
            text: What `encode` gave.
            store: The store's name, for errors.
            session: The id of the session, which its text does not hold.

        Raises:
            CorruptSession: It is not what this graph's `encode` gives.  Rule L4.
            WrongGraph: Another graph wrote it.
        """
        try:
            document = _parsed(text)
            _of_format(document)
            graph = _strict(document.get("graph"), str, "$.graph")
            if graph == self.graph:
                _known_keys(document, _PARTS, "$")
                return self._delta(document, session)
        except Misfit as wrong:
            raise CorruptSession(store, session, wrong.path, wrong.problem) from None
        raise WrongGraph(store, session, graph, self.graph)

    def _delta(self, document: dict[str, Any], session: str) -> Delta:
        head = self._one(Head, document, "head", "$")
        if head is not None and head.cursor != END:
            self._states.known(head.cursor, "$.head.cursor")
        usage = _object(document, "usage", "$")
        for node in usage:
            self._states.known(node, f"$.usage.{node}")
        marks = document.get("marks", ())
        return Delta(
            session,
            self.graph,
            _count(document, "revision", "$", least=1),
            head,
            self._one(Limits, document, "limits", "$"),
            self._states.load(_object(document, "cells", "$"), "$.cells"),
            self._each(Addition, _object(document, "messages", "$"), "$.messages"),
            self._each(Usage, usage, "$.usage"),
            self._activation(document["opened"]) if "opened" in document else None,
            self._rows(document.get("rows", []), "$.rows"),
            None if marks is None else self._nodes(document.get("marks", []), "$.marks"),
            _strict(document.get("closed", False), bool, "$.closed"),
            self._outputs.load(_object(document, "results", "$"), "$.results") if "results" in document else None,
            tuple(
                self._loaded(ErrorRecord, one, f"$.errors[{at}]")
                for at, one in enumerate(_strict(document.get("errors", []), list, "$.errors"))
            ),
        )

    def _loaded(self, tp: Any, value: Any, path: str) -> Any:
        return _load(self._load[tp], value, path)

    def _one(self, tp: Any, document: dict[str, Any], key: str, path: str) -> Any:
        return self._loaded(tp, document[key], f"{path}.{key}") if key in document else None

    def _each(self, tp: Any, part: dict[str, Any], path: str) -> dict[str, Any]:
        return {key: self._loaded(tp, value, f"{path}.{key}") for key, value in part.items()}

    def _nodes(self, names: Any, path: str) -> tuple[str, ...]:
        for at, name in enumerate(_strict(names, list, path)):
            self._outputs.known(_strict(name, str, f"{path}[{at}]"), f"{path}[{at}]")
        return tuple(names)

    def _rows(self, rows: Any, path: str) -> tuple[Row, ...]:
        return tuple(self._row(row, f"{path}[{at}]") for at, row in enumerate(_strict(rows, list, path)))

    def _row(self, row: Any, path: str) -> Row:
        _known_keys(row, ("node", "output", "depth", "cells", "usage"), path)
        node = _strict(row.get("node"), str, f"{path}.node")
        self._outputs.known(node, f"{path}.node")
        if "output" not in row:
            raise Misfit("is missing", f"{path}.output")
        return Row(
            node,
            self._outputs.load_one(node, row["output"], f"{path}.output"),
            _count(row, "depth", path),
            self._states.load(_object(row, "cells", path), f"{path}.cells"),
            self._one(Usage, row, "usage", path),
        )

    def _activation(self, opened: Any) -> Activation:
        path = "$.opened"
        _known_keys(opened, ("id", "parent", "roots", "depth", "rows", "marks"), path)
        parent = _strict(opened.get("parent"), str, f"{path}.parent")
        self._states.known(parent, f"{path}.parent")
        rows = self._rows(opened.get("rows", []), f"{path}.rows")
        return Activation(
            _count(opened, "id", path),
            parent,
            self._nodes(opened.get("roots"), f"{path}.roots"),
            _count(opened, "depth", path),
            {row.node: row for row in rows},
            frozenset(self._nodes(opened.get("marks", []), f"{path}.marks")),
        )

    # ------------------------------------------------------------------------------------------------------------ fold

    def folded(
        self, session: str, rows: Iterable[tuple[int, str | bytes]], before: Session | None = None, *, store: str
    ) -> Session | None:
        """The session that stored deltas make, or None where there are none.

        Args:
            session: The session's id.
            rows: Revision and text of each delta, in order.
            before: The session that the first of them builds on, or None for a new one.
            store: The store's name, for errors.

        Raises:
            CorruptSession: A delta is missing, or does not load.
            WrongGraph: Another graph wrote them.
        """
        made = before
        for revision, text in rows:
            delta = self.decode(text, store=store, session=session)
            known = made or Session(session, self.graph, 0, Head(""))
            if not delta.revision == revision == known.revision + 1:
                told = f"the store has it as revision {revision}, after revision {known.revision}"
                raise CorruptSession(store, session, "$.revision", f"{delta.revision}, but {told}")
            for space, added in delta.messages.items():
                if not 0 <= added.drop <= len(known.histories.get(space, _EMPTY)):
                    raise CorruptSession(store, session, f"$.messages.{space}.drop", f"{added.drop} are not there")
            made = apply(known, delta)
        return made


_EMPTY: Final = History()


class _Registry:
    """The types of one kind of name: cells by node, or outputs by worker."""

    def __init__(self, kind: str, types: Mapping[str, object], values: Values) -> None:
        self._kind = kind
        self._dumps: dict[str, Dump] = {name: values.dumper(tp) for name, tp in types.items()}
        self._loads: dict[str, Load] = {name: values.loader(tp) for name, tp in types.items()}

    def known(self, name: str, path: str) -> None:
        if name not in self._loads:
            raise Misfit(f"this graph has no {self._kind} {name!r}; it has {', '.join(self._loads)}", path)

    def dump(self, values: Mapping[str, object]) -> dict[str, Any]:
        return {name: self._dumps[name](value) for name, value in values.items()}

    def load(self, part: dict[str, Any], path: str) -> dict[str, object]:
        return {name: self.load_one(name, value, f"{path}.{name}") for name, value in part.items()}

    def load_one(self, name: str, value: Any, path: str) -> object:
        self.known(name, path)
        return _load(self._loads[name], value, path)


def _load(loader: Load, value: Any, path: str) -> Any:
    try:
        return loader(value)
    except Exception as error:  # noqa: BLE001  an author's validator may raise anything: it is told with its path
        raise misfit_at(path, error) from None


# ------------------------------------------------------------------------------------------------------ the document


def _parsed(text: str | bytes) -> dict[str, Any]:
    if not isinstance(text, str | bytes):
        raise Misfit("is not text", "$")
    if len(text) > MAX_BYTES:
        raise Misfit(f"is longer than {MAX_BYTES} bytes", "$")
    if _too_deep(text if isinstance(text, bytes) else text.encode(errors="replace")):
        raise Misfit(f"is nested more than {_DEPTH} deep", "$")
    try:
        document = json.decode(text)
    except (MsgspecError, UnicodeError, RecursionError) as error:
        raise Misfit(f"is not JSON: {error}", "$") from None
    if type(document) is not dict:
        raise Misfit("is not an object", "$")
    return document


def _of_format(document: dict[str, Any]) -> None:
    if _strict(document.get("format"), int, "$.format") != FORMAT:
        raise Misfit(f"{document['format']} is a format that this version does not read: it reads {FORMAT}", "$.format")


_NOT_BRACKETS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[^\[\]{}"]+', re.DOTALL)
_INNERMOST: Final = re.compile(rb"\[\]|\{\}")


def _too_deep(text: bytes) -> bool:
    """Whether JSON nests too deep, found without parsing: what opens and closes is taken off from the inside out."""
    if text.count(b"[") + text.count(b"{") <= _DEPTH:
        return False
    brackets = _NOT_BRACKETS.sub(b"", text)
    for _ in range(_DEPTH):
        fewer = _INNERMOST.sub(b"", brackets)
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    return len(brackets) > _DEPTH if brackets else False


_JSON: Final = {str: "string", int: "integer", bool: "boolean", list: "list", dict: "object"}


def _strict(value: Any, tp: type, path: str) -> Any:
    if type(value) is not tp:
        raise Misfit("is missing" if value is None else f"is not of type {_JSON[tp]}", path)
    return value


def _count(part: dict[str, Any], key: str, path: str, least: int = 0) -> int:
    value: int = _strict(part.get(key), int, f"{path}.{key}")
    if value < least:
        raise Misfit(f"{value} is less than {least}", f"{path}.{key}")
    return value


def _object(part: dict[str, Any], key: str, path: str) -> dict[str, Any]:
    made: dict[str, Any] = _strict(part.get(key, {}), dict, f"{path}.{key}")
    return made


def _known_keys(part: Any, known: tuple[str, ...], path: str) -> None:
    if unknown := sorted(_strict(part, dict, path).keys() - set(known)):
        raise Misfit(f"has unknown keys: {', '.join(unknown)}", path)


def _surrogates(part: Any, path: str) -> Iterator[str]:
    """The places of text that UTF-8 cannot encode."""
    if isinstance(part, str):
        if not is_text(part):
            yield path
    elif isinstance(part, dict):
        for key, value in part.items():
            yield from _surrogates(key, path)
            yield from _surrogates(value, f"{path}.{key}")
    elif isinstance(part, list | tuple):
        for at, value in enumerate(part):
            yield from _surrogates(value, f"{path}[{at}]")


__all__ = ["FORMAT", "MAX_BYTES", "Codec"]
