"""Text of deltas and back: exact, strict, bounded.  Rules L4, L6, F7; the traps of the libraries beneath."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pytest
from attrs import field, frozen
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import replace
from strategies import (
    Colour,
    Kept,
    Level,
    Point,
    Right,
    Tree,
    Word,
    deltas,
    exactly,
    histories,
    kept,
    typed_values,
)

from ezgraph.activations import Activation, Place, Row, Rows
from ezgraph.errors import CorruptSession, EzGraphError, StateTypeError, WrongGraph
from ezgraph.histories import Addition
from ezgraph.messages import Usage, user
from ezgraph.notes import GONE, Note, Said
from ezgraph.session import CONTEXT, Delta, Head, Limits, Session
from ezgraph.shapes import flaws
from ezgraph.stores import codec as codec_module
from ezgraph.stores.codec import Codec

slow = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def codec_of(tp: object) -> Codec:
    """A graph of one stage that keeps `tp` and has a tool that gives it, and one worker that yields it."""
    states = {"Intake": tp, "Check": tp, CONTEXT: None}
    return Codec("claims", states, {"Check": tp}, answers={"Intake.report": tp})


def delta_of(value: object) -> Delta:
    return Delta("c-17", "claims", 1, cells={"Intake": value})


def loaded(codec: Codec, text: str | bytes) -> Delta:
    return codec.decode(text, store="memory", session="c-17")


def back(tp: object, value: object) -> Any:
    codec = codec_of(tp)
    return loaded(codec, codec.encode(delta_of(value))).cells["Intake"]


def load_value(tp: object, text: str) -> Any:
    document = f'{{"format":1,"graph":"claims","revision":1,"cells":{{"Intake":{text}}}}}'
    return loaded(codec_of(tp), document).cells["Intake"]


# ---------------------------------------------------------------------------------------------------------- round trips


@given(typed_values())
@slow
def test_l4_a_value_comes_back_equal_and_of_the_same_types(drawn: tuple[Any, Any]) -> None:
    tp, value = drawn
    assert exactly(back(tp, value)) == exactly(value)


@given(st.data())
@slow
def test_l4_a_delta_comes_back_equal(data: st.DataObject) -> None:
    of: Kept = data.draw(kept())
    delta = data.draw(deltas(of, Session("c-17", "claims", 6, Head(""))))
    text = of.codec.encode(delta)
    again = loaded(of.codec, text)
    assert again == delta
    assert exactly(again.cells.get("Intake")) == exactly(delta.cells.get("Intake"))
    assert of.codec.encode(again) == text


@given(histories())
@slow
def test_l4_a_session_loads_as_the_fold_of_its_deltas(drawn: Any) -> None:
    of, made, session = drawn
    again = of.codec.folded("c-17", [(d.revision, of.codec.encode(d)) for d in made], store="memory")
    assert again == session
    assert (again.limits, again.errors, again.journal) == (session.limits, session.errors, session.journal)


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
    one = codec_of(frozenset[str]).encode(delta_of(frozenset({"c", "a", "b"})))
    assert one == '{"format":1,"graph":"claims","revision":1,"cells":{"Intake":["a","b","c"]}}'


def test_l6_what_a_step_leaves_empty_takes_no_bytes() -> None:
    codec = codec_of(int)
    assert codec.encode(Delta("c-17", "claims", 9)) == '{"format":1,"graph":"claims","revision":9}'
    text = codec.encode(Delta("c-17", "claims", 9, messages={"default": Addition((user("hi"),))}))
    assert '"messages":{"default":{"messages":[{"role":"user","text":"hi"}]}}' in text


def test_l4_marks_taken_off_and_no_marks_are_two_things() -> None:
    codec = codec_of(int)
    every: list[tuple[Place, ...] | None] = [None, (), (("Check", None), ("Check", 2))]
    for marks in every:
        assert loaded(codec, codec.encode(Delta("c-17", "claims", 1, marks=marks))).marks == marks


def test_l4_no_results_and_unchanged_results_are_two_things() -> None:
    codec = codec_of(int)
    every: list[tuple[str, ...] | None] = [None, (), ("Check",)]
    for results in every:
        assert loaded(codec, codec.encode(Delta("c-17", "claims", 1, results=results))).results == results


def test_l4_an_authors_default_is_stored_for_it_may_change() -> None:
    """FIELD T8: and a field that nobody stored gets its default."""

    @frozen
    class Before:
        n: int = 7

    assert '{"n":7}' in codec_of(Before).encode(delta_of(Before()))
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


GOOD = '{"format":1,"graph":"claims","revision":1'
NOTED = GOOD + ',"notes":[{"node":"Intake","item":null,"at":"call 0.0",'
OPENED = GOOD + ',"opened":{"id":1,"parent":"Intake","depth":1,'


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        ("", "$", "is not JSON"),
        ("nothing", "$", "is not JSON"),
        (GOOD, "$", "is not JSON: Input data was truncated"),
        (GOOD + ',"cells":{"Intake":NaN}}', "$", "is not JSON"),
        (GOOD + ',"cells":{"Intake":1e999}}', "$", "is not JSON"),
        (b'{"format":1,"graph":"\xff"}', "$", "is not JSON"),
        ("[]", "$", "is not an object"),
        ("{}", "$.format", "missing, expected 1"),
        ('{"format":"1"}', "$.format", 'expected 1, got "1"'),
        ('{"format":true}', "$.format", "expected 1, got true"),
        ('{"format":2,"graph":"claims"}', "$.format", "expected 1, got 2"),
        ('{"format":1}', "$.graph", "missing, expected"),
        ('{"format":1,"graph":"claims"}', "$.revision", "missing, expected"),
        ('{"format":1,"graph":"claims","revision":0}', "$.revision", "expected an integer of at least 1, got 0"),
        (GOOD + ',"more":1}', "$.more", "unknown, the fields are format, graph, revision"),
        (GOOD + ',"cells":[]}', "$.cells", "expected an object, got a list"),
        (GOOD + ',"cells":{"Gone":1}}', "$.cells.Gone", "this graph has no 'Gone'; it has Intake, Check"),
        (GOOD + ',"results":["Intake"]}', "$.results[0]", 'expected "Check", got "Intake"'),
        (GOOD + ',"results":7}', "$.results", "expected a list or null, got 7"),
        (
            GOOD + ',"head":{"cursor":"Review"}}',
            "$.head.cursor",
            'expected one of "Intake", "END", got "Review"',
        ),
        (
            GOOD + ',"head":{"cursor":"END","incoming":{"role":"system"}}}',
            "$.head.incoming.role",
            'expected one of "user", "assistant", "tool", got "system"',
        ),
        (GOOD + ',"head":{"cursor":"END","incoming":{"role":"tool"}}}', "$.head.incoming", "InvalidResponse"),
        (GOOD + ',"head":{"cursor":"END","extra":1}}', "$.head.extra", "unknown, the fields are cursor"),
        (GOOD + ',"head":{}}', "$.head.cursor", "missing, expected"),
        (GOOD + ',"limits":{"steps":"9"}}', "$.limits.steps", 'expected an integer, got "9"'),
        (GOOD + ',"usage":{"Gone":{}}}', "$.usage.Gone", "this graph has no 'Gone'"),
        (
            GOOD + ',"messages":{"default":{"messages":[{"role":"user","tag":1}]}}}',
            '$.messages["default"].messages[0].tag',
            "unknown",
        ),
        (GOOD + ',"marks":[["Intake",null]]}', "$.marks[0][0]", 'expected "Check", got "Intake"'),
        (GOOD + ',"marks":["Check"]}', "$.marks[0]", 'expected a list of 2, got "Check"'),
        (GOOD + ',"marks":[["Check"]]}', "$.marks[0]", "expected a list of 2, got a list of 1"),
        (GOOD + ',"marks":[["Check",-1]]}', "$.marks[0][1]", "expected an integer of at least 0, got -1"),
        (GOOD + ',"marks":[["Check",true]]}', "$.marks[0][1]", "expected an integer or null, got true"),
        (GOOD + ',"marks":[["Check","0"]]}', "$.marks[0][1]", 'expected an integer or null, got "0"'),
        (GOOD + ',"series":7}', "$.series", "expected a list, got 7"),
        (GOOD + ',"series":["Intake"]}', "$.series[0]", 'expected "Check", got "Intake"'),
        (GOOD + ',"forgets":1}', "$.forgets", "expected true or false, got 1"),
        (GOOD + ',"notes":[{"node":"Gone","item":null,"at":"enter"}]}', "$.notes[0].node", 'got "Gone"'),
        (GOOD + ',"notes":[{"node":"Check","item":-1,"at":"enter"}]}', "$.notes[0].item", "at least 0, got -1"),
        (GOOD + ',"notes":[{"node":"Check","item":null}]}', "$.notes[0].at", "missing, expected"),
        (NOTED + '"outcome":{"kind":"stop"}}]}', "$.notes[0].outcome.kind", 'got "stop"'),
        (NOTED + '"outcome":{"kind":"go","target":"Check"}}]}', "$.notes[0].outcome.target", 'got "Check"'),
        (
            NOTED + '"outcome":{"kind":"fanout","workers":["Intake"]}}]}',
            "$.notes[0].outcome.workers[0]",
            'got "Intake"',
        ),
        (
            NOTED + '"outcome":{"kind":"fanout","workers":["Check"],"inputs":{"Check":["x"]}}}]}',
            "$.notes[0].outcome.inputs.Check[0]",
            'expected an integer, got "x"',
        ),
        (
            NOTED + '"outcome":{"kind":"task_result","value":{"Intake.report":"x"}}}]}',
            '$.notes[0].outcome.value["Intake.report"]',
            'expected an integer, got "x"',
        ),
        (NOTED + '"worker":"Intake"}]}', "$.notes[0].worker", 'got "Intake"'),
        (NOTED + '"output":{"Check":"x"}}]}', "$.notes[0].output.Check", 'expected an integer, got "x"'),
        (GOOD + ',"closed":1}', "$.closed", "expected true or false, got 1"),
        (GOOD + ',"rows":[{"node":"Check","depth":1}]}', "$.rows[0].output", "missing, expected"),
        (
            GOOD + ',"rows":[{"node":"Check","output":"x","depth":1}]}',
            "$.rows[0].output",
            'expected an integer, got "x"',
        ),
        (GOOD + ',"rows":[{"node":"Gone","output":1,"depth":1}]}', "$.rows[0].node", 'expected "Check", got "Gone"'),
        (
            GOOD + ',"rows":[{"node":"Check","output":1,"depth":-1}]}',
            "$.rows[0].depth",
            "expected an integer of at least 0, got -1",
        ),
        (GOOD + ',"rows":[7]}', "$.rows[0]", "expected an object, got 7"),
        (
            GOOD + ',"rows":[{"node":"Check","output":1,"depth":1,"item":-1}]}',
            "$.rows[0].item",
            "at least 0, got -1",
        ),
        (OPENED + '"roots":["Check"],"inputs":["x"]}}', "$.opened.inputs[0]", 'expected an integer, got "x"'),
        (OPENED + '"roots":["Check"],"inputs":7}}', "$.opened.inputs", "expected a list, got 7"),
        (OPENED + '"roots":["Check","Check"],"inputs":[1]}}', "$.opened.inputs", "expected null, got a list"),
        (OPENED + '"roots":["Gone"],"inputs":[1]}}', "$.opened.roots[0]", 'expected "Check", got "Gone"'),
        (
            GOOD + ',"head":{"cursor":"Intake","before":{"cursor":"END"}}}',
            "$.head.before.cursor",
            'expected "Intake", got "END"',
        ),
        (
            GOOD + ',"head":{"cursor":"Intake","before":{"cursor":"Intake","before":{"cursor":"Intake"}}}}',
            "$.head.before.before",
            "expected null, got an object",
        ),
        (
            GOOD + ',"opened":{"id":1,"parent":"Gone"}}',
            "$.opened.parent",
            'expected "Intake", got "Gone"',
        ),
        (GOOD + ',"opened":{"parent":"Intake","roots":["Check"],"depth":1}}', "$.opened.id", "missing, expected"),
        (GOOD + ',"errors":[{"run":1}]}', "$.errors[0].node", "missing, expected"),
    ],
)
def test_l4_bad_documents_are_named_with_their_path(text: str | bytes, path: str, problem: str) -> None:
    """FIELD V1 for the cursor at a node that was renamed."""
    with pytest.raises(CorruptSession, match=problem) as caught:
        loaded(codec_of(int), text)
    assert caught.value.path == path


def test_l5_another_graphs_session_is_refused() -> None:
    with pytest.raises(WrongGraph, match="belongs to graph 'orders', not to 'claims'") as caught:
        loaded(codec_of(int), '{"format":1,"graph":"orders","revision":1,"cells":{"Basket":3}}')
    assert (caught.value.stored, caught.value.expected) == ("orders", "claims")


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
@pytest.mark.parametrize("closed", [True, False])
def test_l4_nesting_is_bounded_before_decoding(opening: str, closed: bool) -> None:  # noqa: FBT001  a parameter of pytest
    closing = "".join({"[": "]", "{": "}"}[c] for c in reversed(opening) if c in "[{")
    deep = opening * 5_000 + ("1" + closing * 5_000 if closed else "")
    with pytest.raises(CorruptSession, match="nested more than 108 deep"):
        loaded(codec_of(int), f'{GOOD},"cells":{{"Intake":{deep}}}}}')


def test_l4_brackets_in_text_are_not_nesting() -> None:
    text = '[{"\\' * 2_000
    assert back(str, text) == text
    assert back(tuple[str, ...], (text,) * 300) == (text,) * 300


def test_l4_the_deepest_value_that_is_saved_is_loaded() -> None:
    deepest = Tree(0)
    for _ in range(98):
        deepest = Tree(1, next=deepest)
    assert back(Tree, deepest) == deepest


def test_l4_what_a_renamed_tool_gave_is_gone_and_the_rest_loads() -> None:
    """Only the replay of that very call needs it, and says so."""
    text = NOTED + '"outcome":{"kind":"task_result","value":{"Intake.gone":{"x":[1]}}}}]}'
    (note,) = loaded(codec_of(int), text).notes
    assert note.outcome is not None
    assert note.outcome.value == {"Intake.gone": GONE}


def test_l4_size_is_bounded_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec_module, "MAX_BYTES", 100)
    codec = codec_of(str)
    with pytest.raises(StateTypeError, match=r"at most 100 bytes of JSON, and is 1.. bytes"):
        codec.encode(delta_of("x" * 100))
    with pytest.raises(CorruptSession, match="is longer than 100 bytes"):
        loaded(codec, codec.encode(delta_of("x")) + " " * 100)


def test_l4_text_that_cannot_be_stored_is_refused_with_its_place() -> None:
    codec = codec_of(str)
    with pytest.raises(StateTypeError, match=r"\$.cells.Intake must be text that UTF-8 can encode") as caught:
        codec.encode(delta_of("\ud800"))
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
    codec = Codec("claims", {"Intake": int, "Check": int}, {"Check": int})
    text = codec.encode(Delta("c-17", "claims", 1, Head("Intake"))).replace('"Intake"', '"Check"')
    with pytest.raises(CorruptSession, match=r"\$.head.cursor: expected one of .Intake., .END., got .Check.") as caught:
        codec.decode(text, store="memory", session="c-17")
    assert (caught.value.path, caught.value.session) == ("$.head.cursor", "c-17")


def test_e12_a_jobs_entry_is_the_one_worker_that_may_be_the_cursor() -> None:
    """Rules B4, E12: also as what opened an activation, and as where input found the session; no other worker may."""
    states = {"Intake": int, "Check": int, "Weigh": int}
    codec = Codec("claims", states, {"Check": int, "Weigh": int}, entry="Check")
    delta = Delta(
        "c-17",
        "claims",
        1,
        Head("Check", owed=True, before=Head("Check")),
        opened=Activation(1, "Check", ("Check",), 0),
    )
    text = codec.encode(delta)
    assert loaded(codec, text) == delta
    for place, path in (("cursor", "$.head.cursor"), ("parent", "$.opened.parent")):
        with pytest.raises(CorruptSession, match='got "Weigh"') as caught:
            loaded(codec, text.replace(f'"{place}":"Check"', f'"{place}":"Weigh"', 1))
        assert caught.value.path == path


def test_l4_a_scatters_inputs_are_of_its_roots_state_type() -> None:
    codec = Codec("claims", {"Intake": int, "Check": str, "Weigh": Decimal}, {"Check": int, "Weigh": str})
    for roots, inputs in ((("Check",), ("a", "b")), (("Weigh",), (Decimal("1.0"),)), (("Check",), ())):
        delta = Delta("c-17", "claims", 1, opened=Activation(1, "Intake", roots, 1, inputs=inputs))
        again = loaded(codec, codec.encode(delta)).opened
        assert again is not None
        assert (again.roots, exactly(again.inputs)) == (roots, exactly(inputs))


def test_l4_no_inputs_and_no_scatter_are_two_things() -> None:
    """Rule E6: a scatter over nothing is one, and closes as one."""
    codec = codec_of(int)
    every: list[tuple[object, ...] | None] = [None, (), (1, 2)]
    for inputs in every:
        opened = Activation(1, "Intake", ("Check",), 1, inputs=inputs)
        again = loaded(codec, codec.encode(Delta("c-17", "claims", 1, opened=opened))).opened
        assert again == opened
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


def test_l4_a_missing_or_misnumbered_delta_is_corrupt() -> None:
    codec = codec_of(int)
    first, third = codec.encode(Delta("s", "claims", 1)), codec.encode(Delta("s", "claims", 3))
    for stored in ([(1, first), (3, third)], [(1, first), (2, third)], [(3, third)]):
        with pytest.raises(CorruptSession, match=r"\$.revision: 3, but the store has it as revision"):
            codec.folded("s", stored, store="memory")
    assert codec.folded("s", [], store="memory") is None


@pytest.mark.parametrize("drop", [1, -1])
def test_l4_messages_that_are_not_there_cannot_be_dropped(drop: int) -> None:
    text = f'{GOOD},"messages":{{"default":{{"messages":[],"drop":{drop}}}}}}}'
    with pytest.raises(CorruptSession, match=r"\$.messages.default.drop: -?1 are not there"):
        codec_of(int).folded("s", [(1, text)], store="memory")


@given(st.data())
@slow
def test_l4_hostile_bytes_give_a_delta_or_a_typed_error(data: st.DataObject) -> None:
    codec = codec_of(Claim)
    row = Row("Check", Claim(), 2, {"Check": Claim()}, {"Check": Usage(1)}, 1)
    given = Said("fanout", workers=("Check",), inputs={"Check": (Claim(),)}, usage=Usage(1), feedback="seen")
    answer = Said("task_result", value={"Intake.report": Claim()}, messages=(user("look"),))
    delta = Delta(
        "c-17",
        "claims",
        1,
        Head("Intake", incoming=user("hello"), before=Head("Intake")),
        Limits(),
        {"Intake": Claim((Line(Decimal("1.5")),), Word.NO)},
        {"default": Addition((user("hello"),))},
        {"Intake": Usage(1, 2, 3)},
        Activation(1, "Intake", ("Check",), 1, Rows([replace(row, item=0)]), frozenset({("Check", 2)}), (Claim(),) * 3),
        (row,),
        (("Check", 2), ("Check", None)),
        results=("Check",),
        series=("Check",),
        notes=(
            Note("Intake", None, "call 0.0", outcome=given, cells={"Check": Claim()}),
            Note("Intake", None, "call 0.1", outcome=answer, adds={"default": Addition((user("more"),))}),
            Note("Check", 2, "call 0.1/0", worker="Check", state={"Check": Claim()}, output={"Check": Claim()}),
        ),
        forgets=True,
    )
    whole = codec.encode(delta)
    if data.draw(st.booleans()):
        text = bytearray(whole.encode())
        for _ in range(data.draw(st.integers(1, 4))):
            text[data.draw(st.integers(0, len(text) - 1))] = data.draw(
                st.integers(0, 255) | st.sampled_from(b'{}[]",:0-')
            )
        hostile = bytes(text[: data.draw(st.integers(0, len(text)) | st.just(len(text)))])
    else:
        hostile = json.dumps(_mutated(data, json.loads(whole))).encode()
    try:
        made = loaded(codec, hostile)
    except EzGraphError as error:
        assert isinstance(error, CorruptSession | WrongGraph)  # noqa: PT017  either outcome is right
    else:
        assert loaded(codec, codec.encode(made)) == made


def _mutated(data: st.DataObject, part: Any) -> Any:
    """The document with one part of it, somewhere, put in place of another."""
    if isinstance(part, dict | list) and part and data.draw(st.integers(0, 5)):
        key = data.draw(st.sampled_from(sorted(part) if isinstance(part, dict) else range(len(part))))
        part[key] = _mutated(data, part[key])
        return part
    return data.draw(st.sampled_from([None, True, 0, -1, 1.5, "", "Intake", [], {}, [1], {"a": 1}, "1.5", 2**70]))
