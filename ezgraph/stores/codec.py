"""Sessions as JSON text and back, by a closed registry made of one graph's annotations.  Values are `stores.values`'s.

There is one format, and one way to read it: no import by a stored name, no pickle, no second format.  Rules L4, L6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast, final

from msgspec.structs import replace

from ezgraph.activations import Place, Row, Rows
from ezgraph.errors import CorruptSession, MigrationFailed, StateTypeError, VersionMismatch, WrongGraph
from ezgraph.errors.stores import Wrong
from ezgraph.notes import Note
from ezgraph.numbers import MAX_BITS, TooLarge, json_of, value_of
from ezgraph.session import Delta, Session
from ezgraph.shapes import describe, flaws, is_text
from ezgraph.stores import parts as form
from ezgraph.stores.migrations import Steps, missing_steps, steps_of
from ezgraph.stores.parts import FORMAT, Changes, Document, Drop, Part, Unreadable, document_of, place_name
from ezgraph.stores.values import Values
from ezgraph.structuring import shown

_MEND: Final = (
    "If the graph has changed since, raise its version= and say with compile(migrations=...) how to get there."
)


@final
class Codec:
    """The text of one graph's sessions.

    Args:
        graph: The graph's name.
        states: The state type of every node by its id, and the context's type under `session.CONTEXT`.
        outputs: The output type of every worker by its id.
        entry: The worker that a job begins with, or None.
        answers: What tools give as task results, by `Tool.key`.
        version: The graph's version.
        migrations: What leads from older versions to it.

    Raises:
        TypeError: A type has flaws; `shapes.flaws` lists them.
    """

    def __init__(  # noqa: PLR0913  keywords, but for the first three
        self,
        graph: str,
        states: Mapping[str, object],
        outputs: Mapping[str, object],
        *,
        entry: str | None = None,
        answers: Mapping[str, object] = MappingProxyType({}),
        version: int = 1,
        migrations: Steps = MappingProxyType({}),
    ) -> None:
        for tp in (*states.values(), *outputs.values()):
            if wrong := flaws(tp):
                raise TypeError(f"{describe(tp)}: {wrong[0].what}")
        self.graph, self.version = graph, version
        self._steps = {to: steps_of(given) for to, given in migrations.items()}
        self._values = Values(states, outputs, entry=entry, answers=answers)

    # ---------------------------------------------------------------------------------------------------------- encode

    def changes(self, after: Session, delta: Delta) -> Changes:  # noqa: C901  an arm for each field of a delta
        """What `delta` does to the parts of its session.  Costs what the delta holds, whatever the session does.

        Args:
            after: The session as `apply` makes it of the delta.
            delta: What is new.

        Raises:
            StateTypeError: Something in it could not be loaded again (a lone surrogate, more than `MAX_BYTES`).
        """
        cut = _Cut(self._values.dumps, delta)
        if delta.anew:
            cut.drops += [Drop(kind) for kind in form.DROPPED_ANEW]
        if delta.head is not None:
            cut.put("head", "head", delta.head)
        if delta.limits is not None:
            cut.put("limits", "limits", delta.limits)
        if delta.cells:
            cut.put_named("cell", "cells", delta.cells)
        if delta.usage:
            cut.put_named("usage", "usage", {node: after.usage[node] for node in delta.usage})
        for space, added in delta.messages.items():
            first = len(after.histories.get(space, ())) - len(added.messages)
            if added.drop:
                cut.drops.append(Drop("message", space, first))
            cut.put_listed("message", space, first, added.messages)
        if delta.opened is not None or delta.closed or delta.rows or delta.marks != ():
            _cut_activation(cut, after, delta)
        if delta.results is not None:
            cut.drops += [Drop("result"), Drop("series"), Drop("item")]
            cut.put_named("result", "results", after.results)
            cut.put_series(after.series)
        if delta.errors:
            cut.put_listed("error", "", len(after.errors) - len(delta.errors), delta.errors)
        if delta.forgets:
            cut.drops.append(Drop("note"))
        if delta.notes:
            _cut_notes(cut, after, delta)
        return Changes(cut.drops, cut.puts, form.count_of(after))

    def document(self, session: Session) -> Document:
        """A whole session as plain JSON, without its id."""
        head = {"format": FORMAT, "graph": self.graph, "version": self.version, "revision": session.revision}
        document: Document = _own({**head, **self._values.dump(session)})
        return document

    # ---------------------------------------------------------------------------------------------------------- decode

    def loaded(
        self, session: str, stored: Iterable[tuple[object, object, object, object]], *, store: str, **head: object
    ) -> Session:
        """The session that stored parts make.

        Args:
            session: The session's id.
            stored: Kind, name, index and body of each part, ordered by these.
            store: The store's name, for errors.
            head: Graph, version and revision, as they are stored.

        Raises:
            CorruptSession: They are not what this graph's `changes` gives.  Rule L4.
            WrongGraph: Another graph wrote them.
        """
        try:
            document = document_of(stored, **head)
        except Unreadable as error:
            raise CorruptSession(store, session, [(error.path, str(error))]) from None
        return self.read(session, document, store=store)

    def read(self, session: str, document: object, *, store: str) -> Session:
        """The session that a document says, brought to this version of the graph.

        Raises:
            CorruptSession: It is not what this graph's `document` gives.  Rule L4.
            WrongGraph: Another graph wrote it.
            VersionMismatch: Another version wrote it, and no migrations lead from there.  Rule L5.
            MigrationFailed: One that leads there does not.
        """
        if isinstance(document, dict) and type(graph := document.get("graph")) is str and graph != self.graph:
            raise WrongGraph(store, session, graph, self.graph)
        version = document.get("version") if isinstance(document, dict) else None
        if type(version) is not int or version < 1 or version == self.version:
            return self._read(session, document, store)
        if version > self.version:
            raise VersionMismatch(store, session, stored=version, version=self.version)
        if missing := missing_steps(version, self.version, self._steps):
            problems: Sequence[Wrong] = ()
            try:
                self._read(session, document, store)
            except CorruptSession as error:
                problems = error.problems
            raise VersionMismatch(
                store, session, stored=version, version=self.version, missing=missing, problems=problems
            )
        return self._read(session, self._migrated(session, cast("Document", document), version, store), store)

    def _migrated(self, session: str, document: Document, version: int, store: str) -> Document:
        """The document as this version of the graph would have written it, the given one left as it is."""
        made: object = _own(document)
        for to in range(version + 1, self.version + 1):
            for migration in self._steps[to]:
                name = getattr(migration, "__qualname__", repr(migration))
                try:
                    made = form.written_as_json(migration(cast("Document", made)))
                    form.check(made)
                except Unreadable as wrong:
                    told = f"gave what is no session: {wrong.path} {wrong}"
                    raise MigrationFailed(store, session, to=to, migration=name, problem=told) from None
                except Exception as error:
                    told = f"raised {type(error).__name__}: {error}"
                    raise MigrationFailed(store, session, to=to, migration=name, problem=told) from error
        own = {"graph": self.graph, "version": self.version, "revision": document["revision"]}
        return {**cast("Document", made), **own}

    def _read(self, session: str, document: object, store: str) -> Session:
        try:
            return Session(session, **self._values.load(document, Session))
        except Exception as error:  # noqa: BLE001  an author's validator may raise anything: it is told with its path
            problems = []
            for path, wrong in self._values.wrongs(error):
                told = str(wrong) if isinstance(wrong, ValueError) else f"{type(wrong).__name__}: {wrong}"
                problems.append((f"${shown(path)}", told))
            raise CorruptSession(store, session, problems, _MEND) from None


@final
class _Cut:
    """Collects what a delta comes to, and says of what cannot be written where it stands."""

    def __init__(self, dumps: Mapping[str, Any], delta: Delta) -> None:
        self._dumps, self._delta = dumps, delta
        self.drops: list[Drop] = []
        self.puts: list[Part] = []

    def put(self, kind: str, field: str, value: object, name: str = "", at: int = 0) -> None:
        self._add(kind, name, at, self._dumps[field](value), f"$.{field}")

    def put_named(self, kind: str, field: str, values: Mapping[str, object]) -> None:
        for name, plain in self._dumps[field](values).items():
            self._add(kind, name, 0, plain, f"$.{field}.{name}")

    def put_series(self, series: Mapping[str, tuple[object, ...]]) -> None:
        for worker, outputs in self._dumps["series"](series).items():
            self._add("series", worker, 0, len(outputs), "$.series")
            for at, plain in enumerate(outputs):
                self._add("item", worker, at, plain, f"$.series.{worker}[{at}]")

    def put_listed(self, kind: str, name: str, first: int, values: Iterable[object]) -> None:
        dump = self._dumps[kind]
        for at, value in enumerate(values, first):
            self._add(kind, name, at, dump(value), f"$.{kind}")

    def _add(self, kind: str, name: str, at: int, plain: Any, path: str) -> None:
        try:
            body = form.encoded(plain)
        except UnicodeEncodeError:
            place = next(_surrogates(plain, path), path)
            raise self._refused(place, "text that UTF-8 can encode", "text with a lone surrogate") from None
        except TooLarge:
            found = "one with a longer number"
            raise self._refused(path, f"of whole numbers of at most {MAX_BITS:,} bits", found) from None
        if len(body) > form.MAX_BYTES:
            raise self._refused(path, f"at most {form.MAX_BYTES} bytes of JSON", f"{len(body)} bytes")
        if form.is_too_deep(body):
            raise self._refused(path, f"nested at most {form.MAX_NESTING} deep as JSON", "nested deeper")
        self.puts.append(Part(kind, name, at, body))

    def _refused(self, path: str, expected: str, found: str) -> StateTypeError:
        _, part, name, *_rest = [*path.split("."), "", ""]
        delta = self._delta
        others = delta.rows[0].node if delta.rows else delta.head.cursor if delta.head else delta.graph
        return StateTypeError(name if part == "cells" else others, f"session {delta.session!r}", path, expected, found)


def _cut_activation(cut: _Cut, after: Session, delta: Delta) -> None:
    """A row drops the journal of its step; what is closed leaves nothing."""
    if delta.opened is not None or delta.closed:
        cut.drops += [Drop("activation"), Drop("row"), Drop("mark")]
    elif delta.marks is None:
        cut.drops.append(Drop("mark"))
    cut.drops += [Drop("note", place_name(*row.place)) for row in delta.rows]
    activation = after.activation
    if activation is None:
        return
    rows: Iterable[Row] = delta.rows
    marks: Iterable[Place] = delta.marks or ()
    if delta.opened is not None:
        rows, marks = activation.rows.values(), activation.marks
        cut.put("activation", "activation", replace(activation, rows=Rows(), marks=frozenset()))
    for row in rows:
        cut.put("row", "row", row, place_name(*row.place))
    for mark in marks:
        cut.put("mark", "mark", mark, place_name(*mark))


def _cut_notes(cut: _Cut, after: Session, delta: Delta) -> None:
    """Each journal's new notes behind those that it has."""
    new: dict[Place, list[Note]] = {}
    for note in delta.notes:
        new.setdefault((note.node, note.item), []).append(note)
    for place, notes in new.items():
        cut.put_listed("note", place_name(*place), len(after.journal[place]) - len(notes), notes)


def _own(document: Document) -> Document:
    """A copy that is JSON all the way down, and shares nothing."""
    made: Document = value_of(json_of(document))
    return made


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


__all__ = ["Codec"]
