"""Numbers as text and back, whatever a thread and an interpreter were set to.  Rules L4, M2."""

from __future__ import annotations

import decimal
import json
import sys
from collections.abc import Iterator
from decimal import Context as DecimalContext, Decimal
from enum import IntFlag
from typing import Any, Literal

import pytest
from attrs import frozen
from immutables import Map

from ezgraph import (
    CorruptSession,
    Graph,
    GraphNode,
    InvalidResponse,
    StageContext,
    StateTypeError,
    StepFailed,
    Usage,
    go,
    task_result,
)
from ezgraph.algebra.acceptance import _as_text
from ezgraph.arguments import parameters_of
from ezgraph.errors.words import quoted
from ezgraph.numbers import MAX_BITS
from ezgraph.session import CONTEXT, Delta, Head, Session
from ezgraph.shapes import explain, flaws
from ezgraph.stores.codec import Codec
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore
from ezgraph.structuring import found

SETTINGS = {
    "small letters": DecimalContext(capitals=0),
    "no traps": DecimalContext(traps=[], prec=1, Emax=1, Emin=-1),
    "all traps": DecimalContext(traps=[*decimal.getcontext().flags], prec=1),
}
LARGEST = (1 << MAX_BITS) - 1
PRICES = (Decimal("1E+3"), Decimal("1.50E-20"), Decimal("0.10"), Decimal("-0"), Decimal("1234567890123456789.5"))


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest) -> DecimalContext:
    return SETTINGS[request.param]


@pytest.fixture(params=[640, 4300, 0])
def limit(request: pytest.FixtureRequest) -> Iterator[int]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(request.param)
    yield request.param
    sys.set_int_max_str_digits(before)


@frozen
class Picked:
    one: Literal[1, 2] = 1


def codec_of(tp: object) -> Codec:
    return Codec("claims", {"Intake": tp, CONTEXT: None}, {})


def session_of(value: object) -> Session:
    return Session("c-17", "claims", 1, Head("Intake"), cells={"Intake": value})


def loaded(tp: object, document: Any) -> object:
    return codec_of(tp).read("c-17", document, store="memory").cells["Intake"]


@pytest.mark.parametrize("price", PRICES, ids=str)
def test_l4_a_decimal_is_written_and_read_alike_under_every_context(price: Decimal, setting: DecimalContext) -> None:
    tp, value = Map[Decimal, frozenset[Decimal]], Map({price: frozenset({price, Decimal(7)})})
    document = codec_of(tp).document(session_of(value))
    with decimal.localcontext(setting):
        assert codec_of(tp).document(session_of(value)) == document
        assert loaded(tp, document) == value
    assert str(price) in json.dumps(document)
    assert loaded(tp, document) == value


@pytest.mark.parametrize("text", ["x", "1e3", "NaN", "", "1e99999999999999999999", "1 000", "٣"])
def test_l4_a_text_that_is_no_decimal_is_refused_alike_under_every_context(text: str, setting: DecimalContext) -> None:
    document = codec_of(Decimal).document(session_of(Decimal(1)))
    document["cells"]["Intake"] = text
    with pytest.raises(CorruptSession) as plainly:
        loaded(Decimal, document)
    with decimal.localcontext(setting), pytest.raises(CorruptSession) as refused:
        loaded(Decimal, document)
    assert str(refused.value) == str(plainly.value)


@pytest.mark.parametrize("arguments", ['{"value": 1e99999999999999999999}', '{"value": "1e3x"}', '{"value": 1E400000}'])
def test_d2_a_models_number_is_refused_alike_under_every_context(arguments: str, setting: DecimalContext) -> None:
    def handler(self: object, ctx: object, value: Decimal) -> None: ...

    parameters, _ = parameters_of(handler, {"value": Decimal})
    assert parameters is not None
    with pytest.raises(Exception, match="The tool was not called") as plainly:
        parameters.structure(arguments)
    with decimal.localcontext(setting), pytest.raises(Exception, match="The tool was not called") as refused:
        parameters.structure(arguments)
    assert str(refused.value) == str(plainly.value)


def test_d2_a_decimal_is_told_alike_under_every_context(setting: DecimalContext) -> None:
    def handler(self: object, ctx: object, value: Decimal = Decimal("1E+3")) -> None: ...

    with decimal.localcontext(setting):
        parameters, _ = parameters_of(handler, {"value": Decimal})
        assert parameters is not None
        assert '"1E+3"' in json.dumps(parameters.schema)
        assert found(Decimal("1E+30")) == "1E+30"


def test_a6_a_task_result_is_replied_alike_under_every_context(setting: DecimalContext) -> None:
    spec: Any = None
    value = {"prices": Map({Decimal("1E+3"): Decimal("1E+30")})}
    with decimal.localcontext(setting):
        assert _as_text(spec, value) == '{"prices":[["1E+3","1E+30"]]}'


# --------------------------------------------------------------------------------------------------- whole numbers


@pytest.mark.parametrize(
    "number", [LARGEST, -LARGEST, 10**639, 10**640, -(10**640), 10**3999, 2**64, -(2**63) - 1], ids=int.bit_length
)
def test_l4_a_number_that_can_be_kept_is_kept_whatever_the_limit_of_digits(number: int, limit: int) -> None:
    value = Map({number: (number, 1)})
    tp = Map[int, tuple[int, ...]]
    codec = codec_of(tp)
    document = codec.document(session_of(value))
    assert loaded(tp, document) == value
    store = MemoryStore()
    store.add({"c-17": document})
    read = store.load("c-17", codec)
    assert read is not None
    assert read.cells["Intake"] == value
    assert store.export("c-17") == document


def test_l4_both_stores_take_and_give_the_same_numbers(limit: int, tmp_path: Any) -> None:
    codec = codec_of(tuple[int, ...])
    document = codec.document(session_of((LARGEST, -LARGEST)))
    with SQLiteStore(tmp_path / "claims.db") as store:
        store.add({"c-17": document})
        assert store.export("c-17") == document
        read = store.load("c-17", codec)
        assert read is not None
        assert read.cells["Intake"] == (LARGEST, -LARGEST)


@pytest.mark.parametrize("number", [LARGEST + 1, -LARGEST - 1, 10**4200, 10**4400, 10**100_000], ids=int.bit_length)
def test_l4_both_stores_refuse_the_same_numbers(number: int, limit: int, tmp_path: Any) -> None:
    document = codec_of(int).document(session_of(1))
    document["cells"]["Intake"] = number
    with SQLiteStore(tmp_path / "claims.db") as store:
        for archive in (MemoryStore(), store):
            with pytest.raises(CorruptSession):
                archive.add({"c-17": document})
            assert archive.entry("c-17") is None
    with pytest.raises(CorruptSession, match=r"\$\.cells\.Intake: expected an integer, got a number of more than 40"):
        loaded(int, document)


@pytest.mark.parametrize("tp", [int, Literal[1, 2], int | None, tuple[int, ...], Literal["a"], str])
def test_m2_a_number_of_any_length_is_refused_by_name(tp: object, limit: int) -> None:
    for number in (LARGEST + 1, 10**100_000):
        wrong = explain(tp, (number,) if tp == tuple[int, ...] else number)
        assert wrong is not None
        assert wrong[0] in ("$", "$[0]")
        assert len(wrong[2]) < 100


def test_f3_a_long_number_in_a_literal_state_is_a_state_type_error() -> None:
    class Ask(GraphNode[Picked]):
        def run(self, ctx: StageContext[Picked]) -> None:
            ctx.save(Picked(10**100_000))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    app = Graph("asks", entry=Ask).compile()
    with pytest.raises(StateTypeError, match=r"\$\.one must be Literal\[1, 2\], and is a number of 332,193 bits"):
        app.invoke("hello", session="c-17")


def test_l4_a_type_of_longer_numbers_cannot_be_kept() -> None:
    flag: Any = IntFlag("flag", {"A": 1, "B": 1 << MAX_BITS})
    literal: Any = Literal[10**100_000]
    for tp in (flag, literal):
        (flaw,) = flaws(tp)
        assert "numbers of more" in flaw.what or "a number of more" in flaw.what


def test_m2_what_an_error_quotes_never_raises() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert quoted(Broken()) == "a Broken whose repr() raises RuntimeError"
    assert quoted([10**5000]) == "a list whose repr() raises ValueError"
    assert quoted(10**39) == "1" + "0" * 39
    with pytest.raises(InvalidResponse, match="a number of 16,610 bits"):
        Usage(input_tokens=10**5000)
    with pytest.raises(InvalidResponse, match="a number of 16,610 bits is not a stage"):
        go(10**5000)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert "a number of 16,610 bits" in repr(task_result(10**5000))
    assert str(StepFailed("Ask", ValueError(10**5000))) == "Ask raised ValueError"


def test_m2_a_response_of_a_long_number_is_refused_by_name() -> None:
    class Ask(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> None:
            return {"it": 10**5000}  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    app = Graph("asks", entry=Ask).compile()
    with pytest.raises(Exception, match=r"Ask\.run returned a dict whose repr\(\) raises ValueError"):
        app.invoke("hello", session="c-17")


def test_l4_a_number_that_no_type_checked_is_refused_by_the_codec_too(limit: int) -> None:
    """What a codec is handed past the check of a step: it names where the number stands."""
    codec = codec_of(int)
    after = session_of(10**5000)
    with pytest.raises(StateTypeError, match=r"\$\.cells\.Intake must be of whole numbers of at most 13,287 bits"):
        codec.changes(after, Delta("c-17", "claims", 1, cells=after.cells))
