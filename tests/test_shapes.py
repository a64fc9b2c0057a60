"""Which types a session can keep, and the check of a value against one.  Rules F3, F8, L4."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypeVar
from zoneinfo import ZoneInfo

import attrs
import pytest
from attrs import field, frozen
from hypothesis import given, settings
from strategies import Colour, Level, Point, Right, Tree, Word, typed, typed_values
from typing_extensions import TypeAliasType

from ezgraph.messages import Message, ToolCall, Usage
from ezgraph.responses import UNSET
from ezgraph.shapes import MAX_DEPTH, Flaw, _Tests, checker, describe, explain, flaws, initial

T = TypeVar("T")
U = TypeVar("U")
Cents = NewType("Cents", int)
Alias = TypeAliasType("Alias", tuple[int, ...])


@frozen
class Line:
    price: Decimal
    count: int = 1


@frozen
class Claim:
    tracking: str = ""
    lines: tuple[Line, ...] = ()
    word: Word | None = None


@frozen
class Box(Generic[T]):
    inside: T
    more: tuple[T, ...] = ()


@frozen
class IntBox(Box[int]):
    label: str = ""


@frozen
class Pair(Box[U], Generic[T, U]):
    left: T | None = None


class Named(NamedTuple, Generic[T]):
    value: T


@attrs.define
class Changeable:
    n: int = 0


class Base:
    pass


class Sub(Claim):
    pass


@dataclasses.dataclass(frozen=True)
class Data:
    n: int


@frozen(eq=False)
class Unequal:
    n: int = 0


@frozen
class Computed:
    n: int
    double: int = field(init=False, default=2)


@frozen
class Converted:
    n: int = field(converter=int)


@frozen(init=False)
class OwnInit:
    n: int


@frozen
class Unresolved:
    n: Missing  # type: ignore[name-defined]  # noqa: F821  pyright: ignore[reportUndefinedVariable]


@frozen
class BadDefault:
    n: int = "7"  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    price: float = 1
    line: Line = Line(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@frozen
class Order:
    items: tuple[Line, ...]
    owner: dict[str, int]
    next: Order | None
    pair: tuple[int, list[str]]


class Empty(Enum):
    pass


Bare = namedtuple("Bare", ["n"])  # noqa: PYI024


def nested(depth: int) -> Tree:
    tree = Tree(0)
    for _ in range(depth):
        tree = Tree(1, next=tree)
    return tree


# --------------------------------------------------------------------------------------------------------------- flaws


@pytest.mark.parametrize(
    "tp",
    [
        *(None, bool, int, float, str, bytes, Decimal, datetime, time, timedelta),
        *(Word, Level, Colour, Right, Point, Tree, Claim, IntBox, Box[int], Box[Box[str]], Pair[int, str], Named[int]),
        *(Message, ToolCall, Usage, Cents, Alias, Annotated[int, ["metadata"]], Literal["a", None]),  # noqa: PYI061  people do
        *(tuple[int, ...], tuple[int, str], tuple[()], frozenset[str], frozenset[Word], int | None),
        *(Literal["a", "b"] | None, tuple[Annotated[Claim, "x"], ...] | None),
    ],
)
def test_f3_what_a_session_can_keep(tp: object) -> None:
    assert flaws(tp) == ()


@pytest.mark.parametrize(
    ("tp", "what", "mend"),
    [
        (list[int], "list[int] can be changed", "Write tuple[int, ...]."),
        (list, "list can be changed", "Write tuple[X, ...]."),
        (Sequence[Claim], "Sequence[Claim] can be changed", "Write tuple[Claim, ...]."),
        (set[str], "set[str] can be changed", "Write frozenset[str]."),
        (
            dict[str, int],
            "dict[str, int] can be changed",
            "Write immutables.Map[str, int], or a frozen attrs class.",
        ),
        (Mapping, "Mapping can be changed", "Write immutables.Map[X, Y], or a frozen attrs class."),
        (bytearray, "bytearray can be changed", "Write bytes."),
        (tuple, "tuple does not say what it holds", "Write tuple[X, ...]."),
        (frozenset, "frozenset does not say what it holds", "Write frozenset[X]."),
        (Any, "Any is not a type that can be loaded", "Name the type."),
        (object, "object is not a type that can be loaded", "Name the type."),
        (Base, "Base is a plain class", "Make it a frozen attrs class: @attrs.frozen."),
        (Data, "Data is a dataclass", "Make it a frozen attrs class: @attrs.frozen."),
        (Changeable, "Changeable can be changed", "Make it frozen: @attrs.frozen."),
        (Sub, "Sub is not an attrs class itself, only its base is", "Decorate it with @attrs.frozen too."),
        (Unequal, "Unequal is not equal by value", "Leave eq on, and let it be no exception."),
        (OwnInit, "OwnInit has its own __init__, which a load could not call", "Write a classmethod in its place."),
        (
            Computed,
            "Computed.double is init=False, so that a load could not give it",
            "Make it a property, or let init on.",
        ),
        (
            Converted,
            "Converted.n has a converter, which a load would run once more",
            "Convert where the value is made, for example in a classmethod.",
        ),
        (
            tuple[int, ...] | tuple[str, int],
            "in tuple[int, ...] | tuple[str, int] a tuple could be of two members",
            "Write one frozen class with an optional field for each.",
        ),
        (
            Literal[Word.YES],
            "Literal[<Word.YES: 'yes'>] is not of str, int, bool or None",
            "Name the Enum class itself.",
        ),
        (Box, "Box is generic", "Name its type arguments: Box[int]."),
        (T, "the type variable ~T is left open", "Name the type: Box[int], not Box."),
        (Empty, "Empty has no members", "Name the Enum that has them."),
        (Bare, "Bare has fields without a type", "Write a typing.NamedTuple with annotations."),
        ("Claim", "'Claim' is not resolved", "Name the type itself, defined at a module's top level."),
        (frozenset[Claim], "frozenset[Claim] has members that are not plain values", "Write tuple[Claim, ...]."),
        (
            Unresolved,
            "an annotation of Unresolved cannot be resolved: name 'Missing' is not defined",
            "Name types that stand at a module's top level, imported outside `if TYPE_CHECKING`.",
        ),
    ],
)
def test_f3_what_it_cannot_keep_is_told_with_a_mend(tp: object, what: str, mend: str) -> None:
    assert flaws(tp) == (Flaw("$", what, mend),)


def test_f3_all_flaws_are_found_with_their_paths() -> None:
    """Rule M3."""

    @frozen
    class Whole:
        claim: Claim
        orders: tuple[Box[list[int]], ...]
        pair: tuple[int, Base] | None
        bag: frozenset[Any]

    whole = attrs.resolve_types(Whole, None, {**globals(), **locals()})
    assert [flaw.path for flaw in flaws(whole)] == [
        "$.orders[*].inside",
        "$.orders[*].more[*]",
        "$.pair[1]",
        "$.bag[*]",
    ]
    assert [flaw.path for flaw in flaws(Order)] == ["$.owner", "$.pair[1]"]


def test_f3_a_default_is_checked_too() -> None:
    """FIELD T6."""
    assert [(flaw.path, flaw.what) for flaw in flaws(BadDefault)] == [
        ("$.n", "the default is str, and the type is int"),
        ("$.price", "the default is int (write 1.0), and the type is float"),
        ("$.line.price", "the default is int, and the type is Decimal"),
    ]


# --------------------------------------------------------------------------------------------------------------- check


@given(typed_values())
@settings(max_examples=150, deadline=None)
def test_f3_a_value_of_the_type_passes(drawn: tuple[Any, Any]) -> None:
    tp, value = drawn
    assert checker(tp)(value) is None


@given(typed, typed_values())
@settings(max_examples=150, deadline=None)
def test_f3_the_fast_check_and_the_telling_one_agree(drawn: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    tp, (_, value) = drawn[0], other
    assert _Tests().compiled(tp)(value) is (explain(tp, value) is None)


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


BEYOND = "a subclass that a load could not tell from it"


@pytest.mark.parametrize(
    ("tp", "value", "mismatch"),
    [
        (int, True, ("$", "int", "bool")),
        (bool, 1, ("$", "bool", "int")),
        (float, 3, ("$", "float", "int (write 3.0)")),
        (float, 10**9, ("$", "float", "int (write float(...))")),
        (float, float("nan"), ("$", "float, a finite number", "nan")),
        (float, float("-inf"), ("$", "float, a finite number", "-inf")),
        (Decimal, Decimal("NaN"), ("$", "Decimal, a finite number", "Decimal('NaN')")),
        (int, 1 << 13288, ("$", "int, of less than 13,288 bits", "longer")),
        (str, "\ud800", ("$", "str, text that UTF-8 can encode", r"'\ud800'")),
        (str, Text("a"), ("$", "str", f"Text, {BEYOND}")),
        (int, Whole(1), ("$", "int", f"Whole, {BEYOND}")),
        (str, Word.YES, ("$", "str", f"Word, {BEYOND}")),
        (Word, "yes", ("$", "Word", "'yes'")),
        (None, 0, ("$", "None", "int")),
        (Literal["a", 1], True, ("$", "Literal['a', 1]", "True")),
        (Literal["a", 1], [], ("$", "Literal['a', 1]", "list")),
        (int | None, "x", ("$", "int | None", "str")),
        (Claim, None, ("$", "Claim", "None")),
        (Claim, Sub(), ("$", "Claim", f"Sub, {BEYOND}")),
        (Claim, Claim(lines=[]), ("$.lines", "tuple[Line, ...]", "list")),  # type: ignore[arg-type]
        (Claim, Claim(lines=(Line(Decimal(1)), Line(2))), ("$.lines[1].price", "Decimal", "int")),  # type: ignore[arg-type]
        (Claim, Claim(word="no"), ("$.word", "Word | None", "'no'")),  # type: ignore[arg-type]
        (Point, (1, "a", 1.0), ("$", "Point", "tuple")),
        (Point, Point(1, "a", 1), ("$.weight", "float", "int (write 1.0)")),
        (tuple[int, str], (1,), ("$", "tuple[int, str]", "a tuple of 1")),
        (tuple[int, str], [1, "a"], ("$", "tuple[int, str]", "list")),
        (tuple[int, str], (1, 2), ("$[1]", "str", "int")),
        (tuple[int, ...], Point(1, "a"), ("$", "tuple[int, ...]", "Point")),
        (frozenset[int], {1}, ("$", "frozenset[int]", "set")),
        (frozenset[int], frozenset({True}), ("$[*]", "int", "bool")),
        (Box[int], Box("a"), ("$.inside", "int", "str")),
        (IntBox, IntBox(1, ("a",)), ("$.more[0]", "int", "str")),  # type: ignore[arg-type]
        (Pair[int, str], Pair("a", ("b",), left="c"), ("$.left", "int | None", "str")),
        (Named[str], Named(1), ("$.value", "str", "int")),
        (Tree, Tree(1, next=Tree(2, (Tree("3"),))), ("$.next.children[0].value", "int", "str")),  # type: ignore[arg-type]
    ],
)
def test_f3_a_value_is_of_its_type_to_the_last_field(tp: object, value: object, mismatch: object) -> None:
    """FIELD S2, S6, T6."""
    assert checker(tp)(value) == mismatch


def test_l4_a_moment_keeps_an_offset_not_the_rules_of_a_zone() -> None:
    check = checker(datetime)
    assert check(datetime(2024, 1, 1)) is None  # noqa: DTZ001  naive is meant
    assert check(datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET"))) is None
    zoned = datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC"))
    assert check(zoned) == (
        "$",
        "datetime, naive or with a fixed offset in seconds (write moment.astimezone(timezone.utc))",
        "datetime.datetime(2024, 1, 1, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC'))"[:60],
    )
    assert check(zoned.astimezone(UTC)) is None
    assert check(datetime(2024, 1, 1, fold=1)) is not None  # noqa: DTZ001  naive is meant
    assert checker(time)(time(1, tzinfo=ZoneInfo("UTC"))) is not None
    assert checker(time)(time(1, tzinfo=timezone(timedelta(microseconds=1)))) is not None


def test_l4_a_value_that_nests_too_deep_is_refused_when_it_is_saved() -> None:
    check = checker(Tree)
    assert check(nested(MAX_DEPTH - 2)) is None
    for depth in (MAX_DEPTH, 100_000):
        assert check(nested(depth)) == ("$", "nested at most 100 deep", "nested deeper")
    assert checker(tuple[Tree, ...])((nested(MAX_DEPTH),)) is not None


def test_f3_a_type_with_flaws_has_no_check() -> None:
    with pytest.raises(TypeError, match=r"Order: \$.owner: dict\[str, int\] can be changed. Write immutables"):
        checker(Order)


def test_f3_records_in_records_are_checked_at_any_depth() -> None:
    tp: Any = Box[int]
    value: Any = Box(1)
    wrong: Any = Box("x")
    for _ in range(8):
        tp, value, wrong = Box[tp], Box(value), Box(wrong)
    assert checker(tp)(value) is None
    assert checker(tp)(wrong) == (f"${'.inside' * 9}", "int", "str")


# --------------------------------------------------------------------------------------------------- value and its name


def is_not_zero(_: object, __: object, n: int) -> None:
    if not n:
        raise LookupError("not zero")


@frozen
class Picky:
    n: int = field(default=0, validator=is_not_zero)


@pytest.mark.parametrize(
    ("tp", "value"),
    [
        (None, None),
        (int, 0),
        (bool, False),
        (str, ""),
        (Decimal, Decimal(0)),
        (int | None, None),
        (Claim, Claim()),
        (tuple[int, ...], ()),
        (tuple[()], UNSET),
        (tuple[int, str], UNSET),
        (frozenset[int], frozenset()),
        (Line, UNSET),
        (Point, UNSET),
        (Usage, Usage()),
        (Word, UNSET),
        (Literal["a"], UNSET),
        (datetime, UNSET),
        (BadDefault, UNSET),
        (Picky, UNSET),
        (Cents, 0),
    ],
)
def test_f8_the_value_of_a_type_built_with_no_arguments(tp: object, value: object) -> None:
    assert initial(tp) == value


@pytest.mark.parametrize(
    ("tp", "name"),
    [
        (None, "None"),
        (int | None, "int | None"),
        (tuple[Claim, ...], "tuple[Claim, ...]"),
        (tuple[()], "tuple[()]"),
        (Box[tuple[int, str]], "Box[tuple[int, str]]"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Cents, "Cents"),
        (Annotated[int, 1], "int"),
        (Any, "Any"),
        (T, "T"),
    ],
)
def test_m2_a_type_reads_as_it_is_written(tp: object, name: str) -> None:
    assert describe(tp) == name
