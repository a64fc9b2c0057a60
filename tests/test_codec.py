"""Text of sessions and back: exact, strict, bounded.  Rules L4, L6, F7; the traps of the libraries beneath."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import hostile
import msgspec
import pytest
from attrs import field, frozen
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import replace
from strategies import (
    Colour,
    Level,
    Point,
    Right,
    Tree,
    Word,
    exactly,
    histories,
    typed_values,
)

from ezgraph.activations import Activation, Row
from ezgraph.algebra.scheduling import abandoning, recovering
from ezgraph.errors import CorruptSession, StateTypeError, WrongGraph
from ezgraph.histories import Addition, History
from ezgraph.messages import Usage, user
from ezgraph.notes import Gone
from ezgraph.session import CONTEXT, Delta, ErrorRecord, Head, Session, apply
from ezgraph.shapes import flaws
from ezgraph.stores import parts as parts_module
from ezgraph.stores.codec import Codec
from ezgraph.stores.parts import UNCOUNTED, Drop, Part, parts_of

slow = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def codec_of(tp: object) -> Codec:
    """A graph of one stage that keeps `tp` and has a tool that gives it, and one worker that yields it."""
    states = {"Intake": tp, "Check": tp, CONTEXT: None}
    return Codec("claims", states, {"Check": tp}, answers={"Intake.report": tp})


def session_of(**parts: Any) -> Session:
    return Session("c-17", "claims", 1, Head("Intake"), **parts)


def read(codec: Codec, document: Any) -> Session:
    return codec.read("c-17", document, store="memory")


def back(tp: object, value: object) -> Any:
    codec = codec_of(tp)
    text = msgspec.json.encode(codec.document(session_of(cells={"Intake": value})))
    return read(codec, msgspec.json.decode(text)).cells["Intake"]


def stored(codec: Codec, session: Session, parts: Iterable[Part]) -> Session:
    """The session that parts make, as a store has them."""
    rows = sorted(parts, key=lambda part: part[:3])
    head = {"graph": "claims", "version": 1, "revision": session.revision}
    return codec.loaded(session.id, rows, store="memory", **head)


def load_value(tp: object, text: str) -> Any:
    """What a stored text of a cell loads as."""
    parts = [Part("head", "", 0, '{"cursor":"Intake"}'), Part("cell", "Intake", 0, text)]
    return stored(codec_of(tp), session_of(), parts).cells["Intake"]


def text_of(value: Any, tp: object) -> str:
    """The text of the cell that a step wrote."""
    session = session_of(cells={"Intake": value})
    (part,) = codec_of(tp).changes(session, Delta("c-17", "claims", 1, cells={"Intake": value})).puts
    return part.body


# ---------------------------------------------------------------------------------------------------------- round trips


@given(typed_values())
@slow
def test_l4_a_value_comes_back_equal_and_of_the_same_types(drawn: tuple[Any, Any]) -> None:
    tp, value = drawn
    assert exactly(back(tp, value)) == exactly(value)


@given(histories())
@slow
def test_l4_a_session_loads_as_the_fold_of_its_deltas(drawn: Any) -> None:
    """From the parts that its steps wrote one after another, and from its document; both are one."""
    of, deltas, session = drawn
    parts: dict[tuple[str, str, int], Part] = {}
    made = Session("c-17", "claims", 0, Head(""))
    for delta in deltas:
        made = apply(made, delta)
        drops, puts, count = of.codec.changes(made, delta)
        for kind, name, at in drops:
            for key in [key for key in parts if key[0] == kind and name in (None, key[1]) and key[2] >= at]:
                del parts[key]
        parts |= {part[:3]: part for part in puts}
        assert count == sum(kind not in UNCOUNTED for kind, *_ in parts)
    document = of.codec.document(session)
    assert {part[:3]: part for part in parts_of(document)} == parts
    for again in (stored(of.codec, session, parts.values()), read(of.codec, document)):
        assert again == session
        assert (again.limits, again.errors, again.journal) == (session.limits, session.errors, session.journal)
        assert {n: exactly(v) for n, v in again.cells.items()} == {n: exactly(v) for n, v in session.cells.items()}


@pytest.mark.parametrize(
    ("tp", "value"),
    [
        (Word, Word.YES),
        (Level, Level.HIGH),
        (Colour, Colour.GREEN),
        (Right, Right.READ | Right.WRITE),
        (tuple[bool, int], (True, 1)),
        (Point, Point(1, "a", 2.0)),
        (tuple[date, datetime], (date(2024, 2, 29), datetime(2024, 2, 29, 1, 2, 3, 4))),  # noqa: DTZ001  naive is meant
        (datetime, datetime(2024, 1, 1, 1, 1, 1, 1, timezone(timedelta(hours=-3, minutes=-30, seconds=-7)))),
        (time, time(1, 2, 3, 4, UTC)),
        (timedelta, timedelta(days=-3, microseconds=1)),
        (Decimal, Decimal("-0.10")),
        (Decimal, Decimal("1E+999999")),
        (UUID, UUID(int=7)),
        (bytes, bytes(range(256))),
        (frozenset[str], frozenset({"b", "a"})),
        (int, 2**64),
        (int, -(10**3999)),
        (float, 1e22),
        (float, 5e-324),
        (Tree | None, None),
        (Tree | None, Tree(1, (Tree(2), Tree(3, next=Tree(4))))),
        (Literal["a", 1, True], True),
    ],
)
def test_l4_each_kind_of_value_comes_back_exactly(tp: object, value: object) -> None:
    """FIELD S2."""
    assert exactly(back(tp, value)) == exactly(value)


def test_l4_minus_zero_keeps_its_sign() -> None:
    assert str(back(float, -0.0)) == "-0.0"


def test_l4_a_field_may_be_named_like_anything() -> None:
    """FIELD S10: nothing of ours stands among an author's keys."""

    @frozen
    class Odd:
        type: str
        format: int
        cls: str
        _private: str = field(alias="given")

    assert back(Odd, Odd("t", 1, "c", given="p")) == Odd("t", 1, "c", given="p")


def test_l4_text_is_plain_and_deterministic() -> None:
    assert text_of(frozenset({"c", "a", "b"}), frozenset[str]) == '["a","b","c"]'


def test_l6_a_step_writes_what_it_adds_and_no_more() -> None:
    codec = codec_of(int)
    before = session_of(histories={"default": History([user("hi")] * 1000)}, usage={"Intake": Usage(1)})
    assert codec.changes(before, Delta("c-17", "claims", 2)) == ([], [], 1001)
    delta = Delta(
        "c-17", "claims", 2, messages={"default": Addition((user("ho"),), drop=1)}, usage={"Intake": Usage(0, 2)}
    )
    assert codec.changes(apply(before, delta), delta) == (
        [Drop("message", "default", 999)],
        [
            Part("usage", "Intake", 0, '{"input_tokens":1,"output_tokens":2}'),
            Part("message", "default", 999, '{"role":"user","text":"ho"}'),
        ],
        1001,
    )


def test_l4_an_authors_default_is_stored_for_it_may_change() -> None:
    """FIELD T8: and a field that nobody stored gets its default."""

    @frozen
    class Before:
        n: int = 7

    assert text_of(Before(), Before) == '{"n":7}'
    assert load_value(Before, "{}") == Before(7)


# ----------------------------------------------------------------------------------------------------------- strictness


@frozen
class Line:
    price: Decimal
    count: int = 1


@frozen
class Claim:
    lines: tuple[Line, ...] = ()
    word: Word | None = None


@pytest.mark.parametrize(
    ("tp", "text", "path", "problem"),
    [
        (int, '"5"', "$.cells.Intake", 'expected an integer, got "5"'),
        (int, "5.0", "$.cells.Intake", "expected an integer, got 5.0"),
        (int, "true", "$.cells.Intake", "expected an integer, got true"),
        (float, "1", "$.cells.Intake", "expected a number with a point, got 1"),
        (float, "null", "$.cells.Intake", "expected a number with a point, got null"),
        (str, "5", "$.cells.Intake", "expected a string, got 5"),
        (bool, '"no"', "$.cells.Intake", 'expected true or false, got "no"'),
        (bool, "0", "$.cells.Intake", "expected true or false, got 0"),
        (None, "0", "$.cells.Intake", "expected null, got 0"),
        (Decimal, "1.5", "$.cells.Intake", "expected a decimal number as a string, got 1.5"),
        (Decimal, '"NaN"', "$.cells.Intake", 'expected a decimal number as a string, got "NaN"'),
        (Decimal, '" 1"', "$.cells.Intake", "expected a decimal number as a string"),
        (Decimal, '"1_0"', "$.cells.Intake", "expected a decimal number as a string"),
        (UUID, '"00000000000000000000000000000007"', "$.cells.Intake", "expected a UUID, got"),
        (date, '"20240229"', "$.cells.Intake", "expected a date as YYYY-MM-DD, got"),
        (date, '"2024-02-29T00:00:00"', "$.cells.Intake", "expected a date as YYYY-MM-DD, got"),
        (datetime, '"2024-02-29"', "$.cells.Intake", "expected a date and time in ISO 8601, got"),
        (time, '"25:00:00"', "$.cells.Intake", "expected a time in ISO 8601, got"),
        (timedelta, "[0,0]", "$.cells.Intake", "expected .days, seconds, microseconds., got a list of"),
        (timedelta, "[0,86400,0]", "$.cells.Intake", "expected .days, seconds, microseconds., got a list of"),
        (timedelta, '[0,"1",0]', "$.cells.Intake", "expected .days, seconds, microseconds., got a list of"),
        (bytes, '"YQ"', "$.cells.Intake", "expected base64, got"),
        (bytes, '"YR=="', "$.cells.Intake", "expected base64, got"),
        (Word, '"yes"', "$.cells.Intake", 'expected one of "YES", "NO", "AYE", got "yes"'),
        (Word, "[]", "$.cells.Intake", 'expected one of "YES", "NO", "AYE", got a list'),
        (Right, "8", "$.cells.Intake", "expected a combination of Right, got 8"),
        (Right, "true", "$.cells.Intake", "expected a combination of Right, got true"),
        (Literal["a", 1], "true", "$.cells.Intake", 'expected one of "a", 1, got true'),
        (Literal["a", 1], "{}", "$.cells.Intake", 'expected one of "a", 1, got an object'),
        (tuple[str, ...], '"abc"', "$.cells.Intake", 'expected a list, got "abc"'),
        (tuple[str, ...], '{"a":1}', "$.cells.Intake", "expected a list, got an object"),
        (tuple[int, int], "[1]", "$.cells.Intake", "expected a list of 2, got a list of 1"),
        (tuple[int, str], "[1,2]", "$.cells.Intake[1]", "expected a string, got 2"),
        (frozenset[int], "[1,1]", "$.cells.Intake", "expected each member once"),
        (Point, '[1,"a",2.0]', "$.cells.Intake", "expected an object, got a list"),
        (Point, '{"x":1}', "$.cells.Intake.label", "missing, expected"),
        (Claim, "[]", "$.cells.Intake", "expected an object, got a list"),
        (
            Claim,
            '{"lines":[{"price":"1"},{"price":1}]}',
            "$.cells.Intake.lines[1].price",
            "expected a decimal number as a string, got 1",
        ),
        (Claim, '{"lines":[{"count":1}]}', "$.cells.Intake.lines[0].price", "missing, expected"),
        (Claim, '{"lines":[{"price":"1","rice":1}]}', "$.cells.Intake.lines[0].rice", "unknown, did you mean price"),
        (Claim, '{"word":"MAYBE"}', "$.cells.Intake.word", 'expected one of "YES", "NO", "AYE", got "MAYBE"'),
        (
            Tree,
            '{"value":1,"next":{"value":1,"next":[]}}',
            "$.cells.Intake.next.next",
            "expected an object or null, got a list",
        ),
    ],
)
def test_l4_nothing_is_loaded_that_would_not_be_saved(tp: object, text: str, path: str, problem: str) -> None:
    with pytest.raises(CorruptSession, match=problem) as caught:
        load_value(tp, text)
    assert (caught.value.path, caught.value.session, caught.value.store) == (path, "c-17", "memory")


HEADED: dict[str, Any] = {"format": 1, "graph": "claims", "version": 1, "revision": 1, "head": {"cursor": "Intake"}}
NOTED: dict[str, Any] = {"node": "Intake", "item": None, "at": "call 0.0"}
OPENED: dict[str, Any] = {"id": 1, "parent": "Intake", "roots": ["Check"], "depth": 1}
ROW: dict[str, Any] = {"node": "Check", "output": 1, "depth": 1}


def noted(**more: Any) -> dict[str, Any]:
    return {**HEADED, "journal": [NOTED | more]}


def opened(**more: Any) -> dict[str, Any]:
    return {**HEADED, "activation": OPENED | more}


def answered(**outcome: Any) -> dict[str, Any]:
    return noted(outcome=outcome)


@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        ([], "$", "expected an object"),
        ({}, "$.format", "missing, expected 1"),
        ({**HEADED, "format": "1"}, "$.format", 'expected 1, got "1"'),
        ({**HEADED, "format": True}, "$.format", "expected 1, got true"),
        ({**HEADED, "format": 2}, "$.format", "expected 1, got 2"),
        ({"format": 1, "version": 1, "revision": 1, "head": {"cursor": "END"}}, "$.graph", "missing, expected"),
        ({**HEADED, "version": 0}, "$.version", "expected an integer of at least 1, got 0"),
        ({**HEADED, "revision": 0}, "$.revision", "expected an integer of at least 1, got 0"),
        ({**HEADED, "more": 1}, "$.more", "unknown, the fields are format, graph, version, revision"),
        ({**HEADED, "cells": []}, "$.cells", "expected an object, got a list"),
        ({**HEADED, "cells": {"Gone": 1}}, "$.cells.Gone", "this graph has no 'Gone'; it has Intake, Check"),
        ({**HEADED, "results": {"Intake": 1}}, "$.results.Intake", "this graph has no 'Intake'; it has Check"),
        ({**HEADED, "results": {"Check": "x"}}, "$.results.Check", 'expected an integer, got "x"'),
        ({**HEADED, "series": {"Check": 1}}, "$.series.Check", "expected a list, got 1"),
        ({**HEADED, "series": {"Check": ["x"]}}, "$.series.Check[0]", 'expected an integer, got "x"'),
        ({**HEADED, "head": {"cursor": "Review"}}, "$.head.cursor", 'expected one of "Intake", "END", got "Review"'),
        (
            {**HEADED, "head": {"cursor": "END", "incoming": {"role": "system"}}},
            "$.head.incoming.role",
            'expected one of "user", "assistant", "tool", got "system"',
        ),
        ({**HEADED, "head": {"cursor": "END", "incoming": {"role": "tool"}}}, "$.head.incoming", "InvalidResponse"),
        ({**HEADED, "head": {"cursor": "END", "extra": 1}}, "$.head.extra", "unknown, the fields are cursor"),
        ({**HEADED, "head": {}}, "$.head.cursor", "missing, expected"),
        ({**HEADED, "head": {"cursor": "END", "owed": True}}, "$.head", "expected no run owed at END, got an object"),
        ({**HEADED, "limits": {"steps": "9"}}, "$.limits.steps", 'expected an integer, got "9"'),
        ({**HEADED, "usage": {"Gone": {}}}, "$.usage.Gone", "this graph has no 'Gone'"),
        ({**HEADED, "histories": {"default": 7}}, '$.histories["default"]', "expected a list, got 7"),
        (
            {**HEADED, "histories": {"default": [{"role": "user", "tag": 1}]}},
            '$.histories["default"][0].tag',
            "unknown",
        ),
        (opened(marks=[["Intake", None]]), "$.activation.marks[0][0]", 'expected "Check", got "Intake"'),
        (opened(marks=["Check"]), "$.activation.marks[0]", 'expected a list of 2, got "Check"'),
        (opened(marks=[["Check"]]), "$.activation.marks[0]", "expected a list of 2, got a list of 1"),
        (opened(marks=[["Check", -1]]), "$.activation.marks[0][1]", "expected an integer of at least 0, got -1"),
        (opened(marks=[["Check", True]]), "$.activation.marks[0][1]", "expected an integer or null, got true"),
        (opened(marks=[["Check", "0"]]), "$.activation.marks[0][1]", 'expected an integer or null, got "0"'),
        (opened(rows=[ROW, ROW]), "$.activation.rows", "expected one row for each place"),
        (noted(node="Gone"), "$.journal[0].node", 'got "Gone"'),
        (noted(item=-1), "$.journal[0].item", "at least 0, got -1"),
        ({**HEADED, "journal": [{"node": "Check", "item": None}]}, "$.journal[0].at", "missing, expected"),
        (answered(kind="stop"), "$.journal[0].outcome.kind", 'got "stop"'),
        (answered(kind="go", target="Check"), "$.journal[0].outcome.target", 'got "Check"'),
        (answered(kind="fanout", workers=["Intake"]), "$.journal[0].outcome.workers[0]", 'got "Intake"'),
        (
            answered(kind="fanout", workers=["Check"], inputs={"Check": ["x"]}),
            "$.journal[0].outcome.inputs.Check[0]",
            'expected an integer, got "x"',
        ),
        (
            answered(kind="task_result", value={"Intake.report": "x"}),
            '$.journal[0].outcome.value["Intake.report"]',
            'expected an integer, got "x"',
        ),
        (noted(worker="Intake"), "$.journal[0].worker", 'got "Intake"'),
        (noted(output={"Check": "x"}), "$.journal[0].output.Check", 'expected an integer, got "x"'),
        (opened(rows=[{"node": "Check", "depth": 1}]), "$.activation.rows[0].output", "missing, expected"),
        (opened(rows=[ROW | {"output": "x"}]), "$.activation.rows[0].output", 'expected an integer, got "x"'),
        (opened(rows=[ROW | {"node": "Gone"}]), "$.activation.rows[0].node", 'expected "Check", got "Gone"'),
        (opened(rows=[ROW | {"depth": -1}]), "$.activation.rows[0].depth", "an integer of at least 0, got -1"),
        (opened(rows=[7]), "$.activation.rows[0]", "expected an object, got 7"),
        (opened(rows=[ROW | {"item": -1}]), "$.activation.rows[0].item", "at least 0, got -1"),
        (opened(inputs=["x"]), "$.activation.inputs[0]", 'expected an integer, got "x"'),
        (opened(inputs=7), "$.activation.inputs", "expected a list, got 7"),
        (opened(roots=["Check", "Check"], inputs=[1]), "$.activation.inputs", "expected null, got a list"),
        (opened(roots=["Gone"], inputs=[1]), "$.activation.roots[0]", 'expected "Check", got "Gone"'),
        (
            {**HEADED, "head": {"cursor": "Intake", "before": {"cursor": "END"}}},
            "$.head.before.cursor",
            'expected "Intake", got "END"',
        ),
        (
            {**HEADED, "head": {"cursor": "Intake", "before": {"cursor": "Intake", "before": {"cursor": "Intake"}}}},
            "$.head.before.before",
            "expected null, got an object",
        ),
        (opened(parent="Gone"), "$.activation.parent", 'expected "Intake", got "Gone"'),
        ({**HEADED, "activation": {"parent": "Intake"}}, "$.activation.id", "missing, expected"),
        ({**HEADED, "errors": [{"run": 1}]}, "$.errors[0].node", "missing, expected"),
    ],
)
def test_l4_bad_documents_are_named_with_their_path(document: Any, path: str, problem: str) -> None:
    """FIELD V1 for the cursor at a node that was renamed."""
    with pytest.raises(CorruptSession, match=problem) as caught:
        read(codec_of(int), document)
    assert caught.value.path == path


def test_l6_what_a_delta_takes_away_is_taken_from_the_parts() -> None:
    """Of a session in which everything is set: what stands in the parts is what `apply` says, log and journal too."""
    codec, document = hostile.subject()
    session = codec.read("c-17", document, store="here")
    left = abandoning(session)
    log = (ErrorRecord(1, "Intake", "on_restore", "why", "warning"),)
    opened = Activation(9, "Intake", ("Check",), 1)
    shrunk = {"default": Addition((user("instead"),), 2), "own": Addition((), 1)}
    for delta in (
        replace(left, head=Head("Intake", run=5), closed=False, forgets=False, anew=True, errors=log),
        left,
        replace(left, results=(), errors=log),
        replace(left, closed=False, opened=opened, results=None),
        replace(left, closed=False, forgets=False, messages=shrunk),
        recovering(session, 7),
        Delta("c-17", "claims", 10, rows=(Row("Check", session.results["Check"], 2, item=2),)),
        Delta("c-17", "claims", 10, forgets=True),
    ):
        after = apply(session, delta)
        drops, puts, _ = codec.changes(after, delta)
        parts = {part[:3]: part.body for part in parts_of(document)}
        for kind, name, at in drops:
            parts = {
                key: body
                for key, body in parts.items()
                if not (key[0] == kind and name in (None, key[1]) and key[2] >= at)
            }
        parts |= {part[:3]: part.body for part in puts}
        rows = sorted((*key, body) for key, body in parts.items())
        made = codec.loaded("c-17", rows, store="here", graph="claims", version=1, revision=10)
        assert (made, made.journal, made.errors) == (after, after.journal, after.errors)


@pytest.mark.parametrize(
    ("key", "body", "path", "problem"),
    [
        (("cell", "Intake", 0), "", "$.cells.Intake", "is not JSON"),
        (("cell", "Intake", 0), "{", "$.cells.Intake", "is not JSON: Input data was truncated"),
        (("cell", "Intake", 0), "NaN", "$.cells.Intake", "is not JSON"),
        (("cell", "Intake", 0), "1e999", "$.cells.Intake", "is not JSON"),
        (("cell", "Intake", 0), b'"\xff"', "$.cells.Intake", "is not JSON"),
        (("cell", "Intake", 0), None, "$.cells.Intake", "is not text"),
        (("cell", "Intake", 0), 7, "$.cells.Intake", "is not text"),
        (("head", "", 0), "[]", "$.head", "expected an object, got a list"),
        (("message", "default", 1), "{}", "$.histories.default[0]", "is missing"),
        (("message", "default", -1), "{}", "$.histories.default[0]", "is missing"),
        (("error", "", 1), "{}", "$.errors[0]", "is missing"),
        (("row", '["Check",null]', 0), "{}", "$.activation", "is missing, and there are rows of it"),
        (("note", "x", 0), "7", "$.journal[0]", "expected an object, got 7"),
        (("more", "", 0), "7", "$", "a part is of the unknown kind 'more'"),
        (("cell", None, 0), "7", "$", "a part is keyed 'cell', None, 0"),
        (("cell", "Intake", 1.5), "7", "$", "a part is keyed 'cell', 'Intake', 1.5"),
    ],
)
def test_l4_bad_parts_are_named_with_their_path(key: Any, body: Any, path: str, problem: str) -> None:
    rows = [("head", "", 0, '{"cursor":"Intake"}'), (*key, body)]
    with pytest.raises(CorruptSession, match=problem) as caught:
        codec_of(int).loaded("c-17", rows, store="memory", graph="claims", version=1, revision=1)
    assert caught.value.path == path


def test_l5_another_graphs_session_is_refused() -> None:
    with pytest.raises(WrongGraph, match="belongs to graph 'orders', not to 'claims'") as caught:
        read(codec_of(int), {**HEADED, "graph": "orders"})
    assert (caught.value.stored, caught.value.expected) == ("orders", "claims")


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
@pytest.mark.parametrize("closed", [True, False])
def test_l4_nesting_is_bounded_before_decoding(opening: str, closed: bool) -> None:  # noqa: FBT001  a parameter of pytest
    closing = "".join({"[": "]", "{": "}"}[c] for c in reversed(opening) if c in "[{")
    deep = opening * 5_000 + ("1" + closing * 5_000 if closed else "")
    with pytest.raises(CorruptSession, match="nested more than 208 deep"):
        load_value(int, deep)


def test_l4_brackets_in_text_are_not_nesting() -> None:
    text = '[{"\\' * 2_000
    assert back(str, text) == text
    assert back(tuple[str, ...], (text,) * 300) == (text,) * 300


def test_l4_the_deepest_value_that_is_saved_is_loaded() -> None:
    deepest = Tree(0)
    for _ in range(98):
        deepest = Tree(1, next=deepest)
    assert back(Tree, deepest) == deepest


def test_l4_what_a_renamed_tool_gave_is_kept_as_it_was_and_the_rest_loads() -> None:
    """Only the replay of that very call needs it, and says so; and a session that is written whole loses none of it."""
    document = answered(kind="task_result", value={"Intake.gone": {"x": [1]}})
    codec = codec_of(int)
    session = read(codec, document)
    ((note,),) = session.journal.values()
    assert note.outcome is not None
    assert note.outcome.value == {"Intake.gone": Gone({"x": [1]})}
    assert codec.document(session) == document


def test_l4_size_is_bounded_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "MAX_BYTES", 100)
    with pytest.raises(StateTypeError, match=r"at most 100 bytes of JSON, and is 1.. bytes"):
        text_of("x" * 100, str)
    with pytest.raises(CorruptSession, match="is longer than 100 bytes"):
        load_value(str, '"x"' + " " * 100)


def test_l4_text_that_cannot_be_stored_is_refused_with_its_place() -> None:
    with pytest.raises(StateTypeError, match=r"\$.cells.Intake must be text that UTF-8 can encode") as caught:
        text_of("\ud800", str)
    assert (caught.value.node, caught.value.path) == ("Intake", "$.cells.Intake")


def test_l4_a_class_that_could_change_what_was_saved_is_refused_at_compile() -> None:
    @frozen
    class Rising:
        n: int

        def __attrs_post_init__(self) -> None:
            object.__setattr__(self, "n", self.n + 1)

    (flaw,) = flaws(Rising)
    assert "has __attrs_post_init__, which a load would run once more" in flaw.what
    assert flaw.mend == "Check in a field's validator; compute in a property."


def test_b4_no_worker_can_become_the_cursor_by_way_of_the_file() -> None:
    """Rules B4, L4: whatever somebody wrote into a row."""
    with pytest.raises(CorruptSession, match=r"\$.head.cursor: expected one of .Intake., .END., got .Check.") as caught:
        read(codec_of(int), {**HEADED, "head": {"cursor": "Check"}})
    assert (caught.value.path, caught.value.session) == ("$.head.cursor", "c-17")


def test_e12_a_jobs_entry_is_the_one_worker_that_may_be_the_cursor() -> None:
    """Rules B4, E12: also as what opened an activation, and as where input found the session; no other worker may."""
    states = {"Intake": int, "Check": int, "Weigh": int}
    codec = Codec("claims", states, {"Check": int, "Weigh": int}, entry="Check")
    head = Head("Check", owed=True, before=Head("Check"))
    session = Session("c-17", "claims", 1, head, activation=Activation(1, "Check", ("Check",), 0))
    document = codec.document(session)
    assert read(codec, document) == session
    weighed = {"cursor": "Weigh", "owed": True}
    for wrong, path in (
        ({"head": weighed}, "$.head.cursor"),
        ({"head": document["head"] | {"before": weighed}}, "$.head.before.cursor"),
        ({"activation": document["activation"] | {"parent": "Weigh"}}, "$.activation.parent"),
    ):
        with pytest.raises(CorruptSession, match='got "Weigh"') as caught:
            read(codec, document | wrong)
        assert caught.value.path == path


def test_l4_a_scatters_inputs_are_of_its_roots_state_type() -> None:
    codec = Codec("claims", {"Intake": int, "Check": str, "Weigh": Decimal}, {"Check": int, "Weigh": str})
    for roots, inputs in ((("Check",), ("a", "b")), (("Weigh",), (Decimal("1.0"),)), (("Check",), ())):
        session = session_of(activation=Activation(1, "Intake", roots, 1, inputs=inputs))
        again = read(codec, codec.document(session)).activation
        assert again is not None
        assert (again.roots, exactly(again.inputs)) == (roots, exactly(inputs))


def test_l4_no_inputs_and_no_scatter_are_two_things() -> None:
    """Rule E6: a scatter over nothing is one, and closes as one."""
    codec = codec_of(int)
    every: list[tuple[object, ...] | None] = [None, (), (1, 2)]
    for inputs in every:
        activation = Activation(1, "Intake", ("Check",), 1, inputs=inputs)
        again = read(codec, codec.document(session_of(activation=activation))).activation
        assert again == activation
        assert again is not None
        assert again.inputs == inputs


def test_l4_an_authors_validator_is_told_with_its_path() -> None:
    def is_even(_: object, __: object, n: int) -> None:
        if n % 2:
            raise LookupError("odd")

    @frozen
    class Even:
        n: int = field(validator=is_even)

    with pytest.raises(CorruptSession, match="LookupError: odd") as caught:
        load_value(tuple[Even, ...], '[{"n":2},{"n":3}]')
    assert caught.value.path == "$.cells.Intake[1]"


@given(st.data())
@slow
def test_l4_hostile_documents_give_a_session_or_a_typed_error(data: st.DataObject) -> None:
    """`scripts/fuzz` does this 100,000 times and more."""
    codec, document = hostile.subject()
    mutant = hostile.mutated(random.Random(data.draw(st.integers(0, 2**32))), document)
    hostile.check(codec, mutant)
