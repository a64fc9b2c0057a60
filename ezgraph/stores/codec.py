"""Deltas as JSON text and back, by a closed registry made of one graph's annotations.  Values are `stores.values`'s.

There is one format, and one way to read it: no import by a stored name, no pickle, no second format.  Rules L4, L6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, final

from msgspec import MsgspecError, json

from ezgraph.errors import CorruptSession, StateTypeError, WrongGraph
from ezgraph.histories import History
from ezgraph.session import Delta, Head, Session, apply
from ezgraph.shapes import MAX_DEPTH, describe, flaws, is_text
from ezgraph.stores.values import FORMAT, Values
from ezgraph.structuring import shown

MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest document that is written or read."""

_DEPTH: Final = MAX_DEPTH + 8  # the document around a value


@final
class Codec:
    """The text of one graph's deltas.

    Args:
        graph: The graph's name.
        states: The state type of every node by its id, and the context's type under `session.CONTEXT`.
        outputs: The output type of every worker by its id.
        entry: The worker that a job begins with, or None.
        answers: What tools give as task results, by `Tool.key`.

    Raises:
        TypeError: A type has flaws; `shapes.flaws` lists them.
    """

    def __init__(
        self,
        graph: str,
        states: Mapping[str, object],
        outputs: Mapping[str, object],
        *,
        entry: str | None = None,
        answers: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        for tp in (*states.values(), *outputs.values()):
            if wrong := flaws(tp):
                raise TypeError(f"{describe(tp)}: {wrong[0].what}")
        self.graph, self._values = graph, Values(states, outputs, entry=entry, answers=answers)

    # ---------------------------------------------------------------------------------------------------------- encode

    def encode(self, delta: Delta) -> str:
        """The text of `delta`: deterministic, and without the parts that it leaves empty.

        Raises:
            StateTypeError: Something in it could not be loaded again (a lone surrogate, more than `MAX_BYTES`).
        """
        document = {"format": FORMAT, **self._values.dump(delta)}
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
        others = delta.rows[0].node if delta.rows else delta.head.cursor if delta.head else self.graph
        writer = name if part == "cells" else others
        return StateTypeError(writer, f"session {delta.session!r}", path, expected, found)

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
            graph = document.get("graph")
            if type(graph) is not str or graph == self.graph:
                return Delta(session, **self._values.load(document, Delta))
        except Exception as error:  # noqa: BLE001  an author's validator may raise anything: it is told with its path
            path, wrong = next(self._values.wrongs(error))
            told = str(wrong) if isinstance(wrong, ValueError) else f"{type(wrong).__name__}: {wrong}"
            raise CorruptSession(store, session, f"${shown(path)}", told) from None
        raise WrongGraph(store, session, str(graph), self.graph)

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
            try:
                made = apply(known, delta)
            except KeyError as missing:
                told = f"the activation has no row of {missing}"
                raise CorruptSession(store, session, "$.results", told) from None
        return made


_EMPTY: Final = History()


# ------------------------------------------------------------------------------------------------------ the document


def _parsed(text: str | bytes) -> dict[str, Any]:
    if not isinstance(text, str | bytes):
        raise ValueError("is not text")  # noqa: TRY004  told as what is wrong with the document
    if len(text) > MAX_BYTES:
        raise ValueError(f"is longer than {MAX_BYTES} bytes")
    if _too_deep(text if isinstance(text, bytes) else text.encode(errors="replace")):
        raise ValueError(f"is nested more than {_DEPTH} deep")
    try:
        document = json.decode(text)
    except (MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if type(document) is not dict:
        raise ValueError("is not an object")
    return document


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
