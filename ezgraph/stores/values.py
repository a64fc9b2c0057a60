"""What a session keeps, as plain JSON parts and back, by declared types and by nothing that stands in the data.

Every hook is strict: what it would not dump it does not load.  The text around it is the codec's.  Rule L4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal, NewType, NoReturn

from attrs import NOTHING
from cattrs.gen import make_dict_unstructure_fn_from_attrs
from msgspec import Meta

from ezgraph.activations import Activation, Place, Row, Rows
from ezgraph.fields import attributes, named_fields
from ezgraph.histories import Addition, History
from ezgraph.messages import Message, ToolCall, Usage
from ezgraph.notes import Gone, Note, Raised, Said
from ezgraph.session import CONTEXT, END, ErrorRecord, Head, Limits, Session
from ezgraph.stores.parts import FORMAT, MOST_COMMITS
from ezgraph.stores.plain import Dump, Plain, tuple_of
from ezgraph.structuring import MOST_NAMES, Hook, Misfit, Name, each

_LOADS: Final[dict[object, Hook]] = {}
_DUMPS: Final[dict[object, Dump]] = {}


class Values(Plain):
    """Dump and load of one graph's sessions, by the declared types of its cells and outputs.

    `load` takes a document and gives the arguments of a `Session` but for its id; `dump` takes a session; `dumps` has
    the dump of each thing in it by the name of its field, or of its kind.

    Args:
        states: The state type of every node by its id, and the context's type under `session.CONTEXT`.
        outputs: The output type of every worker by its id.
        entry: The worker that a job begins with: the one that may be a cursor.  Rule E12.
        answers: What tools give as task results, by `Tool.key`.
    """

    ours = frozenset((Message, ToolCall, Usage, ErrorRecord))

    def __init__(
        self, states: Mapping[str, Any], outputs: Mapping[str, Any], *, entry: str | None, answers: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self._records.update(_LOADS)
        self._dumps.update(_DUMPS)
        self._register_parts(states, outputs, entry, answers)
        for tp in (*self.ours, Addition, Limits):  # they are the same for every graph
            _LOADS.setdefault(tp, self._records[tp])
            _DUMPS.setdefault(tp, self._dumps[tp])

    def _register_parts(
        self, states: Mapping[str, Any], outputs: Mapping[str, Any], entry: str | None, answers: Mapping[str, Any]
    ) -> None:
        """The parts of a session, whose own annotations say less than this graph knows."""
        cells, usage, results, series, inputs, values, rows, journal, before = (
            _field(name)
            for name in ("cells", "usage", "results", "series", "inputs", "values", "rows", "journal", "before")
        )
        given: dict[str, Any] = {name: tuple_of(states[name], ...) for name in outputs}
        every: dict[str, Any] = {name: tuple_of(tp, ...) for name, tp in outputs.items()}
        spending = dict.fromkeys(states, Usage)
        for tp, types in (
            (cells, states),
            (usage, spending),
            (results, outputs),
            (series, every),
            (inputs, given),
        ):
            self._register_by_name(tp, types)
        self._register_by_name(
            values, answers, lambda value, _: Gone(value)
        )  # of a renamed tool: only a replay needs it
        stages = [name for name in states if name != CONTEXT and (name not in outputs or name == entry)]  # rule B4
        stage, worker, count = Literal[(*stages,)], Literal[(*outputs,)], Annotated[int, Meta(ge=0)]
        load_before, dump_before = self._part(Head, cursor=stage, before=None)
        self.register_structure_hook(before, _whole_head(load_before))
        self.register_unstructure_hook(before, dump_before)
        load_head, _ = self._part(Head, cursor=Literal[(*stages, END)], before=_maybe(before))
        self.register_structure_hook(Head, _whole_head(load_head))
        kinds = _Made(
            outputs,
            lambda name, tp: self._hooks(
                Row, node=Literal[name], output=tp, depth=count, cells=cells, usage=usage, item=_maybe(count)
            ),
        )
        unread = _field("unread")
        self.register_structure_hook(unread, lambda value, _: value)
        nameless = self._part(Row, node=worker, output=unread, cells=cells)[0]  # what is wrong is the name

        def load_row(value: Any, tp: Any) -> Any:
            name = value.get("node") if type(value) is dict else None
            return (kinds[name][0] if type(name) is str and name in outputs else nameless)(value, tp)

        self.register_structure_hook(Row, load_row)
        self.register_unstructure_hook(Row, lambda row: kinds[row.node][1](row))
        self._register_sequence(rows, Row, lambda loaded: Rows(_each_once(loaded)), lambda value: value.values())
        place = tuple_of(worker, _maybe(count))
        parts: dict[str, Any] = {"id": count, "parent": stage, "depth": count, "rows": rows}
        parts |= {"roots": tuple_of(worker, ...), "marks": frozenset[place]}  # type: ignore[valid-type]
        plain = self._part(Activation, **parts, inputs=None)
        scattered = _Made(given, lambda _, tp: self._hooks(Activation, **parts, inputs=tp))

        def load_activation(value: Any, tp: Any) -> Any:
            root = _root_of(value)
            return (scattered[root][0] if root in given else plain[0])(value, tp)

        def dump_activation(value: Any) -> Any:
            return (plain if value.inputs is None else scattered[value.roots[0]])[1](value)

        self.register_structure_hook(Activation, load_activation)
        self.register_unstructure_hook(Activation, dump_activation)
        node: Any = Literal[(*states,)]
        self._part(
            Said,
            target=Literal[(*stages, "")],
            state=cells,
            workers=tuple_of(worker, ...),
            inputs=_maybe(inputs),
            value=values,
        )
        self._part(
            Note,
            node=node,
            item=_maybe(count),
            outcome=_maybe(Said),
            worker=_maybe(worker),
            state=cells,
            output=results,
            raised=_maybe(Raised),
            cells=cells,
            usage=usage,
        )
        self._register_sequence(journal, Note, _by_place, _in_a_row)
        self._register_sequence(History, Message, History, tuple)
        types = {
            "head": Head,
            "limits": Limits,
            "cells": cells,
            "histories": Mapping[str, History],
            "usage": usage,
            "activation": _maybe(Activation),
            "results": results,
            "series": series,
            "errors": tuple[ErrorRecord, ...],
            "journal": journal,
        }
        self.load, self.dump = self._session(types)
        singles = {"activation": Activation, "row": Row, "mark": place, "message": Message}
        singles |= {"error": ErrorRecord, "note": Note}
        self.dumps = {name: self.get_unstructure_hook(tp) for name, tp in {**types, **singles}.items()}

    def _session(self, types: Mapping[str, Any]) -> tuple[Hook, Dump]:
        """Load (as the arguments of a `Session`, but for its id) and dump of a whole session, its document."""
        count = Annotated[int, Meta(ge=1, lt=MOST_COMMITS)]
        form: dict[str, Any] = {"format": Literal[FORMAT], "graph": str, "version": count, "revision": count}
        first = [one.evolve(type=form[one.name]) for one in named_fields(dict.fromkeys(form, NOTHING))]
        parts = [one.evolve(type=types[one.name]) for one in attributes(Session) if one.name in types]
        load = self.record(
            object(),
            [*first, *parts],
            lambda format, version, **given: given,  # noqa: A006, ARG005
        )
        dump: Dump = make_dict_unstructure_fn_from_attrs(
            parts, Session, self, _cattrs_omit_if_default=True, _cattrs_use_linecache=False
        )
        return load, dump

    def _part(self, cls: type, **types: Any) -> tuple[Hook, Dump]:
        """Load and dump of one of the engine's Structs, wherever it stands."""
        load, dump = self._hooks(cls, **types)
        self.register_structure_hook(cls, load)
        self.register_unstructure_hook(cls, dump)
        return load, dump

    def _hooks(self, cls: type, **types: Any) -> tuple[Hook, Dump]:
        """Load and dump of one of the engine's Structs; what is left empty takes no bytes."""
        parts = [part.evolve(type=types.get(part.name, part.type)) for part in attributes(cls)]
        load = self.record(object(), parts, cls)
        dump: Dump = make_dict_unstructure_fn_from_attrs(
            parts, cls, self, _cattrs_omit_if_default=True, _cattrs_use_linecache=False
        )
        return load, dump

    def _register_sequence(
        self, tp: Any, item: Any, build: Callable[[Any], object], parts: Callable[[Any], Iterable[Any]]
    ) -> None:
        """A list in JSON that is no tuple in memory."""
        load, dump = self.get_structure_hook(tuple[item, ...]), self.get_unstructure_hook(item)
        self.register_structure_hook(tp, lambda value, _: build(load(value, tuple[item, ...])))
        self.register_unstructure_hook(tp, lambda value: [dump(one) for one in parts(value)])

    def _register_by_name(self, tp: Any, types: Mapping[str, Any], unknown: Hook | None = None) -> None:
        """An object with a value for each of some names, each of its own type; `unknown` loads those of others."""
        loads = {name: (inner, self.get_structure_hook(inner)) for name, inner in types.items()}
        dumps = {name: self.get_unstructure_hook(inner) for name, inner in types.items()}

        def load(value: Any, _: Any) -> Any:
            if type(value) is not dict:
                raise Misfit("an object", value)
            parts = [loads.get(name) or (name, unknown or partial(_refuse, types)) for name in value]
            return dict(
                zip(value, each(tp, ((Name(name), one) for name, one in value.items()), parts, MOST_NAMES), strict=True)
            )

        def dump(value: Any) -> dict[str, Any]:  # what `unknown` loads is `Gone`
            return {name: dumps[name](one) if name in dumps else one.plain for name, one in value.items()}

        self.register_structure_hook(tp, load)
        self.register_unstructure_hook(tp, dump)


class _Made(dict[str, "tuple[Hook, Dump]"]):
    """Load and dump by a worker's name, made when one is first met: a graph may have many, and a process meet few."""

    def __init__(self, types: Mapping[str, Any], make: Callable[[str, Any], tuple[Hook, Dump]]) -> None:
        super().__init__()
        self._types, self._make = types, make

    def __missing__(self, name: str) -> tuple[Hook, Dump]:
        self[name] = made = self._make(name, self._types[name])
        return made


def _each_once(rows: Sequence[Row]) -> Sequence[Row]:
    if len({row.place for row in rows}) != len(rows):
        raise Misfit("one row for each place", list(rows))
    return rows


def _whole_head(load: Hook) -> Hook:
    """A head, refused where what it says of its cursor's run goes with no other."""

    def whole(value: Any, tp: Any) -> Any:
        head = load(value, tp)
        if head.owed and head.cursor == END:
            raise Misfit("no run owed at END", value)
        if head.raised and not head.owed:
            raise Misfit("a run owed where the last one raised", value)
        return head

    return whole


def _by_place(notes: Sequence[Note]) -> dict[Place, tuple[Note, ...]]:
    made: dict[Place, list[Note]] = {}
    for note in notes:
        made.setdefault((note.node, note.item), []).append(note)
    return {place: tuple(listed) for place, listed in made.items()}


def _in_a_row(journal: Mapping[Place, tuple[Note, ...]]) -> list[Note]:
    return [note for notes in journal.values() for note in notes]


def _field(name: str) -> Any:
    """A type of its own for one of the session's fields, to register a hook by."""
    return NewType(name, dict)  # pyright: ignore[reportArgumentType]


def _maybe(tp: Any) -> Any:
    return tp | None


def _root_of(activation: Any) -> str | None:
    """The one root of what may be a scatter's activation."""
    if type(activation) is not dict or activation.get("inputs") is None:
        return None
    match activation.get("roots"):
        case [str(root)]:
            return root
        case _:
            return None


def _refuse(known: Mapping[str, Any], _: Any, name: str) -> NoReturn:
    raise ValueError(f"this graph has no {name!r}; it has {', '.join(known)}")
