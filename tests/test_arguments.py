"""A tool's parameters: the schema a model is shown, and what of its answer reaches a handler.  Rule D2."""

# ruff: noqa: D417, PLR0913, PLR0917, PYI030, PYI051, PYI061  signatures and types are what is tested here

from __future__ import annotations

import functools
import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
    cast,
    get_type_hints,
)
from uuid import UUID

import attrs
import msgspec
import pytest
from attrs import define, field, frozen
from hypothesis import example, given, strategies as st
from msgspec import Meta

from ezgraph.arguments import DEEPEST, LONGEST, ArgumentsRefused, Flaw, Parameters, parameters_of

T = TypeVar("T")
U = TypeVar("U")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Urgency(StrEnum):
    LOW = "low"
    HIGH = "high"
    AVERAGE = "average"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


Tracking = NewType("Tracking", str)
Count = NewType("Count", Annotated[int, Meta(ge=1)])  # pyright: ignore[reportGeneralTypeIssues]
Clashing = NewType("Clashing", str | date)  # type: ignore[valid-newtype]  # pyright: ignore[reportGeneralTypeIssues]
Either = NewType("Either", int | str)  # type: ignore[valid-newtype]  # pyright: ignore[reportGeneralTypeIssues]


def _positive(line: object, attribute: attrs.Attribute[int], count: int) -> None:
    if count < 1:
        raise ValueError(f"{attribute.name} must be positive, got {count}")


def _lowered(tag: str) -> str:
    return tag.lower()


@frozen
class Line:
    """A line of an order."""

    sku: str
    price: Decimal
    count: int = field(default=1, validator=_positive)


@define
class Basket:
    lines: list[Line]
    notes: dict[str, str] = field(factory=dict)
    tag: str = field(default="none", converter=_lowered)


@frozen
class Tree:
    value: int
    children: list[Tree] = field(factory=list)
    parent: Tree | None = None


@frozen
class Box(Generic[T]):
    content: T


@frozen
class Labelled(Box[int], Generic[T]):
    """Its own T is not that of Box."""

    label: T


@frozen
class Stack(Box[list[U]], Generic[U]):
    top: U


@frozen
class Chain(Generic[T]):
    value: T
    rest: Chain[T] | None = None


@frozen
class Keywords:
    """Names that a code generator may use for its own."""

    cl: int
    converter: int
    self_: int = 0


class Plain:
    pass


def read(kind: object, **more: object) -> tuple[Parameters | None, tuple[Flaw, ...]]:
    """The parameters of a handler with one parameter `value` of that kind."""

    def handler(self: object, ctx: object, value: Any) -> None: ...

    return parameters_of(handler, {"value": kind, **more})


def taking(kind: object) -> Parameters:
    parameters, flaws = read(kind)
    assert flaws == ()
    assert parameters is not None
    return parameters


def of(handler: Callable[..., object]) -> Parameters:
    parameters, flaws = parameters_of(handler, get_type_hints(handler, include_extras=True))
    assert flaws == ()
    assert parameters is not None
    return parameters


def flaws_of(handler: Callable[..., object]) -> tuple[Flaw, ...]:
    parameters, flaws = parameters_of(handler, get_type_hints(handler, include_extras=True))
    assert parameters is None
    return flaws


def structured(kind: object, text: str) -> object:
    return taking(kind).structure(f'{{"value": {text}}}')["value"]


def shape(kind: object) -> object:
    properties = taking(kind).schema["properties"]
    assert isinstance(properties, dict)
    return properties["value"]


def problems(kind: object, text: str) -> tuple[str, ...]:
    with pytest.raises(ArgumentsRefused) as refused:
        taking(kind).structure(f'{{"value": {text}}}')
    return refused.value.problems


# ------------------------------------------------------------------------------------------------------------- schema


def report(
    self: object, ctx: object, tracking: str, value: Decimal, lines: list[Line], colour: Colour = Colour.RED
) -> None:
    """Record a damaged parcel.

    Ask for the number first.

    Args:
        tracking: The number on the label,
            2 letters and 9 digits: no spaces.
        value (Decimal, optional): What the sender declared (in euros): an amount.
        lines: Each article.
        ctx: The context.

    Returns:
        tracking: not a description of a parameter.
    """


def test_d2_the_schema_holds_properties_descriptions_required_and_definitions() -> None:
    parameters = of(report)
    assert parameters.description == "Record a damaged parcel.\n\nAsk for the number first."
    assert parameters.schema == {
        "type": "object",
        "properties": {
            "tracking": {
                "type": "string",
                "description": "The number on the label, 2 letters and 9 digits: no spaces.",
            },
            "value": {
                "type": "string",
                "format": "decimal",
                "description": "What the sender declared (in euros): an amount.",
            },
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}, "description": "Each article."},
            "colour": {"$ref": "#/$defs/Colour", "default": "red"},
        },
        "required": ["tracking", "value", "lines"],
        "additionalProperties": False,
        "$defs": {
            "Line": {
                "title": "Line",
                "description": "A line of an order.",
                "type": "object",
                "properties": {
                    "sku": {"type": "string"},
                    "price": {"type": "string", "format": "decimal"},
                    "count": {"type": "integer", "default": 1},
                },
                "required": ["sku", "price"],
                "additionalProperties": False,
            },
            "Colour": {"title": "Colour", "enum": ["red", "blue"]},
        },
    }
    assert json.loads(json.dumps(parameters.schema)) == parameters.schema


def test_d2_a_handler_without_parameters_has_an_empty_schema() -> None:
    def handler(self: object, ctx: object) -> None: ...

    parameters = of(handler)
    assert parameters.description == ""
    assert parameters.schema == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert parameters.structure("") == {}
    with pytest.raises(ArgumentsRefused, match="x: unknown, there are no fields"):
        parameters.structure('{"x": 1}')


def test_d2_a_schema_stands_alone() -> None:
    """Every reference leads into the schema's own definitions, also of classes of one name."""

    def handler(self: object, ctx: object, tree: Tree, box: Box[Box[int]], same: Box[Line] | None = None) -> None: ...

    schema = of(handler).schema
    text = json.dumps(schema)
    named = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    assert named == set(definitions)
    assert "(arguments)" not in text


def test_d2_the_docstring_beats_the_annotation_and_the_annotation_beats_nothing() -> None:
    def handler(
        self: object,
        ctx: object,
        a: Annotated[int, Meta(description="from Meta")],
        b: Annotated[int, Meta(description="b")],
    ) -> None:
        """Do.

        Args:
            a: From the docstring.
        """

    properties = of(handler).schema["properties"]
    assert properties == {
        "a": {"type": "integer", "description": "From the docstring."},
        "b": {"type": "integer", "description": "b"},
    }


def test_d2_a_docstring_is_read_section_by_section() -> None:
    def handler(self: object, ctx: object, first: int, second: int, third: int) -> None:
        """Do it: at once.

        Note:
            This is said to the model.

        Returns:
            first: Not here.

        Arguments:
            a line that names nothing
            first (dict[str, int], optional): One (1): of
              three, and
                so on.

            second: Two
            and on the same indent.
            third:
                Three.

        Afterwards: not an argument.
            second: Nor is this.
        """

    parameters = of(handler)
    assert parameters.description == "Do it: at once.\n\nNote:\n    This is said to the model."
    assert parameters.schema["properties"] == {
        "first": {"type": "integer", "description": "One (1): of three, and so on."},
        "second": {"type": "integer", "description": "Two and on the same indent."},
        "third": {"type": "integer", "description": "Three."},
    }


def test_d2_a_default_that_json_cannot_show_is_not_shown_and_still_optional() -> None:
    odd = object()

    def handler(self: object, ctx: object, a: int = odd, b: str = "x", c: int | None = None) -> None: ...  # type: ignore[assignment]

    parameters = of(handler)
    assert parameters.schema["required"] == []
    assert parameters.schema["properties"] == {
        "a": {"type": "integer"},
        "b": {"type": "string", "default": "x"},
        "c": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    }
    assert parameters.structure("{}") == {}


def test_d2_enum_values_stand_in_the_order_of_their_definition() -> None:
    assert taking(Urgency).schema["$defs"] == {"Urgency": {"title": "Urgency", "enum": ["low", "high", "average"]}}


LINE = '{"sku": "a", "price": 1}'
MOMENT = {"type": "string", "format": "date-time"}
MARKED = {"type": "integer", "title": "n", "examples": [1], "x": 2}
BY_URGENCY = {
    "type": "object",
    "additionalProperties": {"type": "integer"},
    "propertyNames": {"$ref": "#/$defs/Urgency"},
}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (date, {"type": "string", "format": "date"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (time, {"type": "string", "format": "time"}),
        (list[datetime | None], {"type": "array", "items": {"anyOf": [MOMENT, {"type": "null"}]}}),
        (Annotated[datetime, Meta(tz=False)], {"type": "string"}),
        (Annotated[datetime, Meta(tz=True)], {"type": "string", "format": "date-time"}),
        (Annotated[time, Meta(tz=True)], {"type": "string", "format": "time"}),
        (Annotated[time, Meta(tz=False)], {"type": "string", "format": "partial-time"}),
        (timedelta, {"type": "string", "format": "duration"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Tracking, {"type": "string"}),
        (Count, {"type": "integer", "minimum": 1}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (Annotated[str, Meta(min_length=1, max_length=3)], {"type": "string", "minLength": 1, "maxLength": 3}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (int | Decimal, {"anyOf": [{"type": "integer"}, {"type": "string", "format": "decimal"}]}),
        (None | int, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Optional[Either], {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}),  # noqa: UP045
        (Tracking | str, {"anyOf": [{"type": "string"}]}),
        (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}),
        (Final[int], {"type": "integer"}),
        (Literal["b", 1, "a"], {"enum": ["b", 1, "a"]}),
        (Annotated[int, Meta(title="n", examples=[1], extra_json_schema={"x": 2})], MARKED),
        (Annotated[Count, Meta(description="said")], {"type": "integer", "minimum": 1, "description": "said"}),
        (dict[Urgency, int] | None, {"anyOf": [BY_URGENCY, {"type": "null"}]}),
    ],
)
def test_d2_each_type_has_its_schema(kind: object, expected: object) -> None:
    assert shape(kind) == expected


def test_d2_decorated_and_async_handlers_are_read_alike() -> None:
    @functools.wraps(report)
    def wrapped(*args: object, **more: object) -> None: ...

    async def later(self: object, ctx: object, n: int) -> None:
        """Later."""

    assert of(wrapped) == of(report)
    assert of(later).structure('{"n": 1}') == {"n": 1}


def test_d2_the_types_are_those_the_caller_resolved() -> None:
    """A parameter of a generic base is what the subclass made of it."""
    assert structured(Box[int], '{"content": 3}') == Box(3)


# --------------------------------------------------------------------------------------------------------------- flaws


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Any, "anything"),
        (T, "anything"),
        (list, "anything"),
        (dict, "keys"),
        (Box, "anything"),
        (dict[str, Any], "anything"),
        (object, "object is no type"),
        (Plain, "Plain is no type"),
        (list[Plain], "Plain is no type"),
        (bytes, "bytes is no type"),
        (complex, "complex is no type"),
        (Callable[[], int], "Callable is no type"),
        (msgspec.Raw, "Raw is no type"),
        (Literal[Colour.RED], "Literal[<Colour.RED: 'red'>] is not of str, int, bool or None"),
        (Literal[[]], "unhashable"),
        (dict[int, str], "keys"),
        (dict[date, str], "keys"),
        (Line | dict[str, int], "Line and dict[str, int] are both objects in JSON, and nothing tells which is meant"),
        (dict[str, int] | Mapping[str, str], "are both objects"),
        (list[int] | tuple[int, ...], "list[int] and tuple[int, ...] are both lists in JSON"),
        (Line | Plain, "Plain is no type"),
        (str | bytes, "bytes is no type"),
        (set[list[int]], "set cannot hold"),
        (set[tuple[list[int], ...]], "set cannot hold"),
        (frozenset[tuple[int, list[int]]], "set cannot hold"),
        (set[Basket], "set cannot hold"),
        (set[int | dict[str, int]], "set cannot hold"),
        (Annotated[Decimal, Meta(gt=0)], "gt=0 is no limit of Decimal"),
        (Annotated[date, Meta(tz=True)], "tz=True is no limit of date"),
        (Annotated[tuple[int, str], Meta(min_length=1)], "min_length=1 is no limit of tuple[int, str]"),
        (Annotated[Colour, Meta(min_length=1)], "min_length=1 is no limit of Colour"),
        (Annotated[int | None, Meta(ge=1)], "ge=1 is no limit of int | None"),
        (Optional[Annotated[Either, Meta(ge=1)]], "ge=1 is no limit of int | str"),  # noqa: UP045
        (Annotated[int, Meta(ge=1), Meta(ge=2)], "ge is given twice"),
        (Enum("Mixed", {"A": 1, "B": "b"}), "the values of Mixed are not all str, or all int"),
        (Enum("Bare", {}), "the values of Bare are not all str, or all int"),
    ],
)
def test_d2_a_type_that_is_not_unmistakable_json_is_a_flaw(kind: object, what: str) -> None:
    parameters, flaws = read(kind)
    assert parameters is None
    assert what in flaws[0].what
    assert flaws[0].path.startswith("parameter value")
    assert flaws[0].mend


class Pair(NamedTuple):
    a: int


class Row(TypedDict):
    a: int


@dataclass
class Data:
    a: int


@pytest.mark.parametrize("kind", [Pair, Row, Data, Box[Data]])
def test_d2_a_class_that_is_not_of_attrs_is_a_flaw(kind: object) -> None:
    _, (flaw,) = read(kind)
    assert flaw.what in {f"{name} is no type of an argument" for name in ("Pair", "Row", "Data")}
    assert flaw.mend == "Write an attrs class, or a type that JSON has a form for."


def test_d2_every_flaw_of_a_signature_is_found_at_once() -> None:
    def handler(self, ctx, bare, later: int, shared: list[int] = [], *rest: int, named: Plain, **more: int) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001, B006
        """Do.

        Args:
            latter: Misspelt.
            bare: Fine.
            nothing of the kind: not an entry.
        """

    assert [(flaw.path, flaw.what) for flaw in flaws_of(handler)] == [
        ("parameter bare", "it has no annotation"),
        ("parameter shared", "its default [] can be changed, and would be shared by all calls"),
        ("parameter rest", "a model cannot be told what * and ** take"),
        ("parameter named", "Plain is no type of an argument"),
        ("parameter more", "a model cannot be told what * and ** take"),
        ("docstring, Args: latter", "there is no parameter latter"),
    ]


def test_d2_positional_only_is_a_flaw_and_the_slash_after_ctx_is_not() -> None:
    def wrong(self: object, ctx: object, value: int, /) -> None: ...

    def right(self: object, ctx: object, /, value: int, *, other: int) -> None: ...

    assert flaws_of(wrong) == (
        Flaw(
            "parameter value",
            "it is positional only, and arguments are given by name",
            "Remove the `/`, or move it before.",
        ),
    )
    assert of(right).structure('{"value": 1, "other": 2}') == {"value": 1, "other": 2}


def test_d2_a_decorator_that_hides_the_signature_is_a_flaw() -> None:
    def hidden(*args: int, **more: int) -> None: ...

    assert [flaw.path for flaw in flaws_of(hidden)] == ["parameter args", "parameter more"]
    assert "functools.wraps" in flaws_of(hidden)[0].mend


def test_d2_a_documented_parameter_that_is_not_there_is_a_flaw() -> None:
    def handler(self: object, ctx: object, value: int) -> None:
        """Do.

        Args:
            self: The node.
            valve: Misspelt.
            quite_other: Gone.
        """

    assert flaws_of(handler) == (
        Flaw(
            "docstring, Args: quite_other",
            "there is no parameter quite_other",
            "Remove it, or indent it deeper if it continues the line above.",
        ),
        Flaw("docstring, Args: valve", "there is no parameter valve", "Write value."),
    )


@frozen
class Hidden:
    _secret: int
    computed: int = field(init=False, default=3)
    renamed: int = field(default=1, alias="other")


@define
class Shared:
    lines: list[int] = []  # noqa: RUF008


@define
class Loose:
    anything: Any = field(default=1)


@frozen
class Dependent:
    a: int
    b: int = attrs.Factory(lambda self: self.a, takes_self=True)


def test_d2_fields_that_json_cannot_give_are_flaws_at_any_depth() -> None:
    _, flaws = read(dict[str, list[Hidden | None]])
    assert [(flaw.path, flaw.what) for flaw in flaws] == [
        ("parameter value, field Hidden._secret", "the constructor calls it secret"),
        ("parameter value, field Hidden.computed", "it is not given to the constructor (init=False)"),
        ("parameter value, field Hidden.renamed", "the constructor calls it other"),
    ]
    _, (flaw,) = read(Box[Shared])
    assert flaw == Flaw(
        "parameter value, field Box.content, field Shared.lines",
        "its default [] can be changed, and would be shared",
        "Write factory=...",
    )
    _, (flaw,) = read(Loose)
    _, (untyped,) = read(attrs.make_class("Loose", ["anything"]))
    assert untyped == flaw
    assert (flaw.path, flaw.what) == (
        "parameter value, field Loose.anything",
        "it may hold anything, so nothing can be checked",
    )
    _, (flaw,) = read(Dependent)
    assert "takes_self=True" in flaw.what


def test_d2_an_abstract_class_and_names_of_a_function_are_flaws() -> None:
    @frozen
    class Shape(ABC):
        size: int

        @abstractmethod
        def area(self) -> int: ...

    @frozen
    class Local:
        inner: Loc  # type: ignore[name-defined]  # noqa: F821

    _, (flaw,) = read(Shape)
    assert flaw.what == "Shape is abstract"
    _, (flaw,) = read(Local)
    assert flaw.path == "parameter value"
    assert flaw.what.endswith("Local cannot be resolved: name 'Loc' is not defined")
    assert flaw.mend == "Define the classes of arguments at module level."


def test_d2_a_nested_default_that_json_cannot_show_is_a_flaw() -> None:
    @frozen
    class Odd:
        a: int = object()  # type: ignore[assignment]

    _, (flaw,) = read(Odd)
    assert flaw.path == "parameter value, field Odd.a"
    assert "object" in flaw.what
    assert "has no form in JSON" in flaw.what


def test_d2_annotations_that_raise_and_types_without_end_are_flaws() -> None:
    @frozen
    class Raising:
        a: 1 / 0  # type: ignore[valid-type]  # pyright: ignore[reportInvalidTypeForm]

    _, (flaw,) = read(Raising)
    assert (flaw.path, flaw.what) == ("parameter value", "division by zero")
    _, (flaw,) = read(Endless[int])
    assert flaw.what == "its classes hold ever other classes in each other"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (str | date, "Write str and parse it, or date alone."),
        (Decimal | str, "Write str and parse it, or Decimal alone."),
        (UUID | str, "Write str and parse it, or UUID alone."),
        (str | datetime | None, "Write str and parse it, or datetime alone."),
        (time | str, "Write str and parse it, or time alone."),
        (Clashing, "Write str and parse it, or date alone."),
        (timedelta | str, "Write str and parse it, or timedelta alone."),
        (Colour | str, "Write str and parse it, or Colour alone."),
        (str | Colour, "Write str and parse it, or Colour alone."),
        (date | Literal["2024-01-01"], "Write str and parse it, or one of them alone."),
        (date | datetime, "Write str and parse it, or one of them alone."),
        (Tracking | date, "Write str and parse it, or one of them alone."),
        (Decimal | UUID, "Write str and parse it, or one of them alone."),
        (Literal["5"] | Decimal, "Write str and parse it, or one of them alone."),
        (Colour | Literal["red"], "Write str and parse it, or one of them alone."),
        (Size | int, "Write int and parse it, or Size alone."),
        (Size | Literal[1], "Write int and parse it, or one of them alone."),
    ],
)
def test_d2_two_types_that_are_one_in_json_are_a_flaw_wherever_they_stand(kind: Any, expected: str) -> None:
    for place in (kind, list[kind], dict[str, kind], Optional[kind], tuple[int, kind]):  # noqa: UP045
        _, (flaw,) = read(place)
        assert flaw.path == "parameter value"
        assert " in JSON, and nothing tells which is meant" in flaw.what
        assert flaw.mend == expected
    _, (flaw,) = read(Box[kind])
    assert flaw.path == "parameter value, field Box.content"


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (int | float, ("5", "5.0")),
        (int | Decimal, ("5", "5.0", '"5"')),
        (float | Decimal, ("5.5", '"5.5"')),
        (Size | float, ("1", "1.5")),
        (int | str, ("5", '"5"')),
        (date | None, ('"2024-02-29"', "null")),
        (date | int, ('"2024-02-29"', "5")),
        (list[Line] | Line, ("[]", '{"sku": "a", "price": 1}')),
        (Literal["today"] | date, ('"today"', '"2024-02-29"')),
        (Colour | Urgency, ('"red"', '"low"')),
        (Colour | Literal["none"], ('"red"', '"none"')),
        (Size | Literal[7], ("1", "7")),
        (list[int] | Literal["none"], ("[1]", '"none"')),
        (Line | Colour, (LINE, '"red"')),
    ],
)
def test_d2_a_union_whose_json_tells_its_types_apart_takes_each(kind: Any, texts: tuple[str, ...]) -> None:
    """A whole number is the int, any other the float or the Decimal; a value with a name is what bears it."""
    kinds = [type(structured(kind, text)) for text in texts]
    assert len(set(kinds)) == min(len(texts), 2)


# ----------------------------------------------------------------------------------------------- one of several classes


@frozen
class Card:
    """Paid by card."""

    number: str
    kind: Literal["card"] = "card"


@frozen
class Cash:
    """Paid in cash.

    Over the counter.

    Attributes:
        amount: Not said to the model.
    """

    amount: Decimal
    kind: Literal["cash", "coins"] = "cash"


@frozen
class Voucher:
    kind: Literal["voucher"]


@frozen
class Basis:
    """What its heirs are made of."""

    when: datetime


@frozen
class Heir(Basis):
    at: time


@frozen
class Fork:
    left: Fork | Line
    payments: list[Card | Cash | Voucher] = field(factory=list)
    refund: Card | Cash | None = None


Payment = NewType("Payment", Card | Cash)  # type: ignore[valid-newtype]  # pyright: ignore[reportGeneralTypeIssues]


@frozen
class Endless(Generic[T]):
    rest: Endless[list[T]] | None = None


def test_d2_a_union_of_classes_is_any_of_closed_references_and_its_tag_is_required() -> None:
    schema = taking(list[Card | Cash] | None).schema
    definitions = schema["$defs"]
    properties = schema["properties"]
    assert isinstance(definitions, dict)
    assert properties == {
        "value": {
            "anyOf": [
                {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/Card"}, {"$ref": "#/$defs/Cash"}]}},
                {"type": "null"},
            ]
        }
    }
    assert definitions["Card"] == {
        "title": "Card",
        "description": "Paid by card.",
        "type": "object",
        "properties": {"number": {"type": "string"}, "kind": {"enum": ["card"]}},
        "required": ["number", "kind"],
        "additionalProperties": False,
    }
    assert definitions["Cash"]["required"] == ["amount", "kind"]
    alone = taking(Card).schema["$defs"]
    assert isinstance(alone, dict)
    assert alone["Card"]["required"] == ["number"]
    assert alone["Card"]["properties"]["kind"] == {"enum": ["card"], "default": "card"}


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Card | Cash, '{"kind": "card", "number": "1"}', Card("1")),
        (Card | Cash, '{"kind": "coins", "amount": 1}', Cash(Decimal(1), "coins")),
        (Card | Cash | Voucher | None, '{"kind": "voucher"}', Voucher("voucher")),
        (Card | Cash | Voucher | None, "null", None),
        (Optional[Payment], '{"kind": "card", "number": "1"}', Card("1")),  # noqa: UP045
        (Annotated[Card, Meta(description="said")] | Cash, '{"kind": "card", "number": "1"}', Card("1")),
        (list[Card | Cash], '[{"kind": "card", "number": "1"}]', [Card("1")]),
        (Card | list[Card | Cash], '{"number": "1"}', Card("1")),
        (dict[str, Card | str], '{"a": {"number": "1"}, "b": "c"}', {"a": Card("1"), "b": "c"}),
        (Line | Tree, LINE, Line("a", Decimal(1))),
        (Line | Tree, '{"value": 1}', Tree(1)),
        (Box[int] | Line | int, '{"content": 1}', Box(1)),
        (
            Fork,
            f'{{"left": {{"left": {LINE}}}, "payments": [{{"kind": "voucher"}}], "refund": null}}',
            Fork(Fork(Line("a", Decimal(1))), [Voucher("voucher")]),
        ),
    ],
)
def test_d2_an_object_is_of_the_class_that_its_tag_or_its_own_fields_tell(
    kind: object, text: str, expected: object
) -> None:
    made = structured(kind, text)
    assert made == expected
    assert type(made) is type(expected)


TELLING = "expected an object with sku and price, or with value"
KINDS = 'one of "card", "cash", "coins"'


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (Card | Cash, "{}", [f"value.kind: missing, expected {KINDS}"]),
        (Card | Cash, '{"number": "1"}', [f"value.kind: missing, expected {KINDS}"]),
        (Card | Cash, '{"kind": "check"}', [f'value.kind: expected {KINDS}, got "check"']),
        (Card | Cash, '{"kind": ["card"]}', [f"value.kind: expected {KINDS}, got a list of 1"]),
        (Card | Cash, "5", ["value: expected an object, got 5"]),
        (Card | Cash | None, "[]", ["value: expected an object or null, got a list of 0"]),
        (
            Card | Cash,
            '{"kind": "card", "numbr": "1"}',
            ["value.number: missing, expected a string", "value.numbr: unknown, did you mean number?"],
        ),
        (
            list[Card | Cash],
            '[{"kind": "cash", "amount": "x"}, {"kind": 1}]',
            [
                'value[0].amount: expected a number, or its digits as a string, got "x"',
                f"value[1].kind: expected {KINDS}, got 1",
            ],
        ),
        (
            Line | Tree,
            "{}",
            [f"value: {TELLING}, got one with none of these"],
        ),
        (Line | Tree, '{"sku": 1, "value": 1}', [f"value: {TELLING}, got one with sku and value"]),
        (
            Line | Tree,
            '{"sku": 1}',
            [
                "value.sku: expected a string, got 1",
                "value.price: missing, expected a number, or its digits as a string",
            ],
        ),
        (
            Fork,
            '{"left": {"left": {"sku": 1, "price": 2}}, "payments": [{"kind": "x"}]}',
            [
                "value.left.left.sku: expected a string, got 1",
                'value.payments[0].kind: expected one of "card", "cash", "coins", "voucher", got "x"',
            ],
        ),
    ],
)
def test_d2_an_object_of_none_of_the_classes_is_told_what_would_tell(kind: object, text: str, said: list[str]) -> None:
    assert list(problems(kind, text)) == said


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Box[int] | Box[str], "Box[int] and Box[str]"),
        (Line | Box[int] | Labelled[str], "Line and Box[int] and Labelled[str]"),
        (Basis | Heir, "Basis and Heir"),
        (Voucher | Box[int] | Box[str], "Voucher and Box[int] and Box[str]"),
    ],
)
def test_d2_classes_that_no_field_tells_apart_are_a_flaw(kind: Any, told: str) -> None:
    for place in (kind, list[kind], Optional[kind]):  # noqa: UP045
        assert read(place) == (
            None,
            (
                Flaw(
                    "parameter value",
                    f"{told} are objects in JSON, and no field tells which is meant",
                    'Give each a field of its own text: kind: Literal["..."].',
                ),
            ),
        )


NAMES_OF_FIELDS = st.sampled_from(["a", "b", "c", "d", "kind"])


@given(st.lists(st.text(min_size=1).filter(str.isprintable), min_size=2, max_size=5, unique=True), st.booleans())
def test_d2_texts_of_their_own_tell_any_classes_apart(texts: list[str], given_default: bool) -> None:  # noqa: FBT001
    classes = [
        attrs.make_class(
            f"C{n}",
            {
                "kind": field(type=cast("Any", Literal[text]), default=text if given_default else attrs.NOTHING),
                "count": field(type=int, default=0),
            },
        )
        for n, text in enumerate(texts)
    ]
    parameters = taking(functools.reduce(operator.or_, classes))
    for cls, text in zip(classes, texts, strict=True):
        made = parameters.structure(json.dumps({"value": {"kind": text, "count": 1}}))["value"]
        assert made == cls(kind=text, count=1)
        with pytest.raises(ArgumentsRefused, match=r"value\.count: expected an integer, got null"):
            parameters.structure(json.dumps({"value": {"kind": text, "count": None}}))
    with pytest.raises(ArgumentsRefused, match=r"value\.kind: missing, expected one of"):
        parameters.structure('{"value": {"count": 1}}')
    with pytest.raises(ArgumentsRefused, match=r'value\.kind: expected one of .*, got ""'):
        parameters.structure('{"value": {"kind": ""}}')


@given(st.lists(st.dictionaries(NAMES_OF_FIELDS, st.booleans(), min_size=1), min_size=2, max_size=4))
def test_d2_classes_are_accepted_just_where_each_requires_what_no_other_has(drawn: list[dict[str, bool]]) -> None:
    """A class is drawn as its fields, and whether each is required."""
    classes = [
        attrs.make_class(
            f"C{n}",
            {
                name: field(type=int, kw_only=True, default=attrs.NOTHING if required else 0)
                for name, required in fields.items()
            },
        )
        for n, fields in enumerate(drawn)
    ]
    others = [{name for other in drawn if other is not fields for name in other} for fields in drawn]
    own = [
        {name for name, required in fields.items() if required and name not in taken}
        for fields, taken in zip(drawn, others, strict=True)
    ]
    parameters, flaws = read(functools.reduce(operator.or_, classes))
    if not all(own):
        assert len(flaws) == 1
        assert "no field tells which is meant" in flaws[0].what
        return
    assert parameters is not None
    for cls, fields in zip(classes, drawn, strict=True):
        for names in (fields, [name for name, required in fields.items() if required]):
            given_fields = dict.fromkeys(names, 1)
            made = parameters.structure(json.dumps({"value": given_fields}))["value"]
            assert made == cls(**given_fields)


def test_d2_moments_inside_classes_have_their_format_and_only_an_authors_words_describe_a_class() -> None:
    @frozen
    class Silent:
        basis: Basis
        heir: Heir | None = None

    definitions = taking(Silent).schema["$defs"]
    cash = taking(Cash).schema["$defs"]
    assert isinstance(definitions, dict)
    assert isinstance(cash, dict)
    assert definitions["Heir"]["properties"] == {"when": MOMENT, "at": {"type": "string", "format": "time"}}
    told = {name: definition.get("description") for name, definition in definitions.items()}
    assert told == {"Silent": None, "Basis": "What its heirs are made of.", "Heir": None}
    assert cash["Cash"]["description"] == "Paid in cash.\n\nOver the counter."
    assert "attrs" not in json.dumps(taking(attrs.make_class("Made", {"a": field(type=int)})).schema)


def test_d2_classes_of_one_name_have_definitions_of_their_own() -> None:
    def make(kind: type) -> type:
        return attrs.make_class("Same", {"a": field(type=kind)})

    schema = taking(tuple[make(int), make(str), Box[make(int)]]).schema  # type: ignore[misc]
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    assert list(definitions) == ["Same", "Same_2", "Box_Same_", "Same_3"]
    assert [definition["title"] for definition in definitions.values()] == ["Same", "Same", "Box[Same]", "Same"]


# -------------------------------------------------------------------------------------------------------- structuring


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (str, '"5"', "5"),
        (int, "5", 5),
        (int, "5.0", 5),
        (int, "-0", 0),
        (int, "5e3", 5000),
        (int, "9" * 400, int("9" * 400)),
        (float, "5", 5.0),
        (float, "0.1", 0.1),
        (float, "1e-999999", 0.0),
        (bool, "true", True),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, '"1.10"', Decimal("1.10")),
        (Decimal, "0.1000000000000000055511151231257827", Decimal("0.1000000000000000055511151231257827")),
        (Decimal, "7", Decimal(7)),
        (Decimal, "1E+2", Decimal("1E+2")),
        (date, '"2024-02-29"', date(2024, 2, 29)),
        (datetime, '"2024-02-29T01:02:03Z"', datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
        (datetime, '"2024-02-29T01:02:03"', datetime(2024, 2, 29, 1, 2, 3)),  # noqa: DTZ001
        (time, '"09:30:00"', time(9, 30)),
        (timedelta, '"P1DT2H"', timedelta(days=1, hours=2)),
        (UUID, '"00000000-0000-0000-0000-000000000007"', UUID(int=7)),
        (Colour, '"blue"', Colour.BLUE),
        (Urgency, '"low"', Urgency.LOW),
        (Size, "2", Size.LARGE),
        (Size, "2.0", Size.LARGE),
        (Literal["a", 1, None], "null", None),
        (Literal["a", 1], "1", 1),
        (Literal[True, 0], "true", True),
        (Tracking, '"AB1"', "AB1"),
        (list[int], "[1, 2]", [1, 2]),
        (Sequence[int], "[1, 2]", [1, 2]),
        (tuple[int, ...], "[1, 2]", (1, 2)),
        (tuple[int, str], '[1, "2"]', (1, "2")),
        (set[int], "[1, 2, 1]", {1, 2}),
        (frozenset[str], '["a"]', frozenset({"a"})),
        (dict[str, Decimal], '{"a": 1.0}', {"a": Decimal("1.0")}),
        (Mapping[str, int], '{"a": 1}', {"a": 1}),
        (dict[Urgency, int], '{"low": 1}', {Urgency.LOW: 1}),
        (Line, '{"sku": "a", "price": 1.5}', Line("a", Decimal("1.5"))),
        (Basket, '{"lines": [], "tag": "LOUD"}', Basket([], {}, "loud")),
        (Tree, '{"value": 1, "children": [{"value": 2}], "parent": {"value": 0}}', Tree(1, [Tree(2)], Tree(0))),
        (Box[int], '{"content": 1}', Box(1)),
        (Box[Box[str]], '{"content": {"content": "a"}}', Box(Box("a"))),
        (Labelled[str], '{"content": 1, "label": "a"}', Labelled(1, "a")),
        (Stack[str], '{"content": ["a"], "top": "b"}', Stack(["a"], "b")),
        (Chain[str], '{"value": "a", "rest": {"value": "b"}}', Chain("a", Chain("b"))),
        (Keywords, '{"cl": 1, "converter": 2}', Keywords(1, 2)),
        (int | Decimal, "5", 5),
        (int | Decimal, "5.0", Decimal("5.0")),
        (int | Decimal, '"5"', Decimal(5)),
        (int | float, "5", 5),
        (int | float, "5.0", 5.0),
        (float | Decimal, "5.5", 5.5),
        (float | Decimal, '"5.5"', Decimal("5.5")),
        (int | bool, "true", True),
        (int | bool, "1", 1),
        (str | list[str], '["a"]', ["a"]),
        (str | list[str], '"a"', "a"),
        (Line | None, "null", None),
        (list[Line] | None, '[{"sku": "a", "price": 1}]', [Line("a", Decimal(1))]),
        (Line | str | int | None, '{"sku": "a", "price": 1}', Line("a", Decimal(1))),
        (Literal["a"] | str, '"b"', "b"),
        (Literal["a"] | Literal["b"], '"b"', "b"),
        (Size | None, "2.0", Size.LARGE),
        (Tracking | int, "1", 1),
        (Either, '"a"', "a"),
        (Optional[Either], "1", 1),  # noqa: UP045  a NewType of a union
        (set[Annotated[int, Meta(description="said")]], "[1]", {1}),
        (dict[Annotated[str, Meta(description="said")], int], '{"a": 1}', {"a": 1}),
        (Optional[Annotated[Line, Meta(description="said")]], '{"sku": "a", "price": 1}', Line("a", Decimal(1))),  # noqa: UP045  pyright
    ],
)
def test_d2_a_value_becomes_what_its_type_says(kind: object, text: str, expected: object) -> None:
    """FIELD S2: the exact type, not only an equal value."""
    made = structured(kind, text)
    assert made == expected
    assert repr(made) == repr(expected)
    assert type(made) is type(expected)


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (str, "5", "expected a string, got 5"),
        (str, "null", "expected a string, got null"),
        (int, "true", "expected an integer, got true"),
        (int, '"5"', 'expected an integer, got "5"'),
        (int, "5.7", "expected an integer, got 5.7"),
        (int, "1e999999", "expected an integer, got 1E+999999"),
        (bool, "1", "expected true or false, got 1"),
        (bool, '"no"', 'expected true or false, got "no"'),
        (float, '"1"', 'expected a number, got "1"'),
        (float, "true", "expected a number, got true"),
        (float, "1e999999", "expected a number, got 1E+999999"),
        (float, "9" * 400, "expected a number, got a number of more than 40 digits"),
        (Decimal, '"abc"', 'expected a number, or its digits as a string, got "abc"'),
        (Decimal, '"NaN"', 'expected a number, or its digits as a string, got "NaN"'),
        (Decimal, '"1_0"', 'expected a number, or its digits as a string, got "1_0"'),
        (Decimal, '" 1"', 'expected a number, or its digits as a string, got " 1"'),
        (Decimal, '"1e99999999999999999999"', "expected a number, or its digits"),
        (Decimal, "1e999999", "expected a number, or its digits as a string, got 1E+999999"),
        (Decimal, "true", "expected a number, or its digits as a string, got true"),
        (date, '"29.02.2024"', 'expected a date such as 2024-12-31, got "29.02.2024"'),
        (date, "20240229", "expected a date such as 2024-12-31, got 20240229"),
        (datetime, '"2024-02-29"', "expected a date and time such as 2024-12-31T09:30:00Z, got"),
        (datetime, "1700000000", "expected a date and time"),
        (time, '"25:00:00"', "expected a time such as 09:30:00"),
        (timedelta, '"two days"', "expected a duration such as P1DT2H"),
        (timedelta, '"P99999999999D"', "expected a duration such as P1DT2H"),
        (timedelta, "5", "expected a duration such as P1DT2H, got 5"),
        (UUID, '"x"', 'expected a UUID, got "x"'),
        (Colour, '"green"', 'expected one of "red", "blue", got "green"'),
        (Colour, '["red"]', 'expected one of "red", "blue", got a list of 1'),
        (Size, "true", "expected one of 1, 2, got true"),
        (Size, "3", "expected one of 1, 2, got 3"),
        (Literal["a"], '"b"', 'expected "a", got "b"'),
        (Literal[1], "true", "expected 1, got true"),
        (list[str], '"abc"', 'expected a list, got "abc"'),
        (list[str], '{"a": 1}', "expected a list, got an object"),
        (set[int], "5", "expected a list, got 5"),
        (tuple[int, str], "[1]", "expected a list of 2, got a list of 1"),
        (dict[str, int], "[]", "expected an object, got a list of 0"),
        (Line, "[]", "expected an object, got a list of 0"),
        (Line | None, '"x"', 'expected an object or null, got "x"'),
        (int | Decimal, "null", "expected an integer or a number, or its digits as a string, got null"),
        (Literal["a"] | Literal["b"], '"c"', 'expected "a" or "b", got "c"'),
        (str, '["' + "x" * 100 + '"]', "got a list of 1"),
        (int, '"' + "x" * 100 + '"', 'got "' + "x" * 40 + '…"'),
    ],
)
def test_d2_a_value_of_another_kind_is_refused_and_named(kind: object, text: str, said: str) -> None:
    (problem,) = problems(kind, text)
    assert problem.startswith("value: ")
    assert said in problem


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (Annotated[int, Meta(ge=3)], "2", "value: expected an integer of at least 3, got 2"),
        (Annotated[int, Meta(gt=3)], "3", "value: expected an integer greater than 3, got 3"),
        (Annotated[int, Meta(lt=3)], "3", "value: expected an integer less than 3, got 3"),
        (Annotated[float, Meta(le=3)], "3.5", "value: expected a number of at most 3, got 3.5"),
        (Annotated[int, Meta(multiple_of=5)], "7", "value: expected an integer that is a multiple of 5, got 7"),
        (Annotated[str, Meta(min_length=2)], '"a"', 'value: expected a string of length 2 or more, got "a"'),
        (Annotated[str, Meta(max_length=1)], '"ab"', 'value: expected a string of length 1 or less, got "ab"'),
        (Annotated[str, Meta(pattern="^[A-Z]+$")], '"ab"', 'value: expected a string that matches ^[A-Z]+$, got "ab"'),
        (Annotated[list[int], Meta(min_length=1)], "[]", "value: expected a list of length 1 or more, got a list of 0"),
        (Annotated[dict[str, int], Meta(max_length=0)], '{"a": 1}', "value: expected an object of length 0 or less"),
        (Annotated[datetime, Meta(tz=True)], '"2024-01-01T00:00:00"', "T09:30:00Z with an offset, got"),
        (Annotated[datetime, Meta(tz=False)], '"2024-01-01T00:00:00Z"', "T09:30:00Z without an offset, got"),
        (list[Annotated[int, Meta(ge=0)]], "[1, -1]", "value[1]: expected an integer of at least 0, got -1"),
        (Optional[Annotated[int, Meta(ge=3)]], "2", "value: expected an integer of at least 3, got 2"),  # noqa: UP045  pyright
        (Annotated[int, Meta(ge=1), Meta(le=2)], "3", "value: expected an integer of at most 2, got 3"),
        (Annotated[int, Meta(ge=1, description="said")], "0", "value: expected an integer of at least 1, got 0"),
        (Optional[Annotated[int, Meta(ge=1, description="said")]], "0", "expected an integer of at least 1, got 0"),  # noqa: UP045  pyright
        (Count, "0", "value: expected an integer of at least 1, got 0"),
        (dict[Annotated[str, Meta(max_length=1)], int], '{"ab": 1}', 'value["ab"]: expected a string of length 1'),
    ],
)
def test_d2_constraints_are_enforced(kind: object, text: str, said: str) -> None:
    (problem,) = problems(kind, text)
    assert said in problem


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Annotated[int, Meta(ge=3, le=3, multiple_of=3)], "3"),
        (Annotated[str, Meta(min_length=1, max_length=1, pattern="a")], '"a"'),
        (Annotated[datetime, Meta(tz=True)], '"2024-01-01T00:00:00Z"'),
        (Annotated[int, "not a constraint"], "1"),
        (Optional[Annotated[int, Meta(description="said")]], "null"),  # noqa: UP045  pyright
    ],
)
def test_d2_what_holds_a_constraint_passes(kind: object, text: str) -> None:
    assert taking(kind).structure(f'{{"value": {text}}}').keys() == {"value"}


def test_d2_everything_wrong_is_said_by_field_in_one_refusal() -> None:
    def handler(
        self: object, ctx: object, items: list[Line], prices: dict[str, Decimal], tree: Tree, other: int = 0
    ) -> None: ...

    with pytest.raises(ArgumentsRefused) as refused:
        of(handler).structure(
            '{"items": [{"sku": 1, "price": "abc"}, {"sku": "b", "pric": 1}, 5, {"sku": "c", "price": 1, "count": 0}],'
            ' "prices": {"a b": "x"}, "othr": 1,'
            ' "tree": {"value": 1, "children": [{"value": 2, "parent": {"valu": 3}}]}}'
        )
    assert refused.value.problems == (
        "items[0].sku: expected a string, got 1",
        'items[0].price: expected a number, or its digits as a string, got "abc"',
        "items[1].price: missing, expected a number, or its digits as a string",
        "items[1].pric: unknown, did you mean price?",
        "items[2]: expected an object, got 5",
        "items[3]: count must be positive, got 0",
        'prices["a b"]: expected a number, or its digits as a string, got "x"',
        "tree.children[0].parent.value: missing, expected an integer",
        "tree.children[0].parent.valu: unknown, did you mean value?",
        "othr: unknown, did you mean other?",
    )
    text = str(refused.value)
    assert text.startswith("The tool was not called, because its arguments are wrong:\n- items[0].sku: expected")
    assert all(f"\n- {problem}" in text for problem in refused.value.problems)


def test_d2_missing_and_unknown_fields_are_named() -> None:
    parameters = taking(int)
    with pytest.raises(ArgumentsRefused, match="value: missing, expected an integer"):
        parameters.structure("")
    with pytest.raises(ArgumentsRefused, match="zzz: unknown, the fields are value"):
        parameters.structure('{"value": 1, "zzz": 2}')
    with pytest.raises(ArgumentsRefused, match=r'\["a b"\]: unknown'):
        parameters.structure('{"value": 1, "a b": 2}')


def test_d2_a_refusal_is_of_bounded_length() -> None:
    many = problems(list[int], json.dumps(["x" * 100] * 5000))
    assert len(many) == 21
    assert many[-1] == "and more beside these"
    strange = problems(int, '1, "' + '": 1, "'.join(str(n) * 10000 for n in range(30)) + '": 1')
    assert len(strange) == 21
    assert sum(map(len, strange)) < 3000


def _explode(line: object, attribute: object, value: int) -> None:
    raise KeyError("bang")


@frozen
class Explosive:
    a: int = field(validator=_explode)


@frozen
class Silent:
    a: int | str = field(validator=attrs.validators.instance_of(str))


def test_d2_whatever_an_authors_class_raises_is_a_refusal() -> None:
    assert problems(Explosive, '{"a": 1}') == ("value: KeyError: bang",)
    (problem,) = problems(Silent, '{"a": 1}')
    assert problem.startswith("value: 'a' must be <class 'str'> (got 1 that is a <class 'int'>)")


def test_d2_a_pause_inside_an_authors_class_is_no_refusal() -> None:
    class Pause(BaseException):
        pass

    def pause(line: object, attribute: object, value: int) -> None:
        raise Pause

    @frozen
    class Pausing:
        a: int = field(validator=pause)

    with pytest.raises(Pause):
        structured(Pausing, '{"a": 1}')


def test_d2_a_handler_gets_fresh_values_on_each_call() -> None:
    """FIELD S7: nothing is shared between calls, with defaults or with what was decoded."""
    parameters = taking(Basket)
    text = '{"value": {"lines": [{"sku": "a", "price": 1}]}}'
    first = parameters.structure(text)["value"]
    assert isinstance(first, Basket)
    first.lines.clear()
    first.notes["changed"] = "yes"
    assert parameters.structure(text)["value"] == Basket([Line("a", Decimal(1))])
    assert json.loads(json.dumps(parameters.schema))["$defs"]["Basket"]["properties"]["notes"]["default"] == {}


# ------------------------------------------------------------------------------------------------------- hostile text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "must be a JSON object, got a list of 0"),
        ('"{}"', "must be a JSON object, got"),
        ("null", "must be a JSON object, got null"),
        ("{", "not JSON"),
        ("{'value': 1}", "not JSON"),
        ('{"value": 1} extra', "not JSON"),
        ('{"value": NaN}', "not JSON"),
        ('{"value": Infinity}', "not JSON"),
        ('{"value": -Infinity}', "not JSON"),
        ("\x00", "not JSON"),
        ("\ufeff{}", "not JSON"),
        ('{"value": "\\ud800"}', "not JSON"),
        ('{"value": "\ud800"}', "not Unicode text: half a character at 11"),
        ('{"value": 1e99999999999999999999}', "a number that is out of range"),
        ('{"value": ' + "9" * 5000 + "}", "not JSON: Integer value out of range"),
        ("[" * 200_000, "more than 64 deep"),
        ('{"value":' * 200 + "1" + "}" * 200, "more than 64 deep"),
        (" " * (LONGEST + 1), "have 1000001 characters, and 1000000 are allowed"),
    ],
)
def test_d2_text_that_is_no_json_object_is_refused(text: str, said: str) -> None:
    with pytest.raises(ArgumentsRefused) as refused:
        taking(int).structure(text)
    (problem,) = refused.value.problems
    assert said in problem


def test_d2_the_depth_limit_is_exact() -> None:
    """The object of the arguments is the first level; many lists beside each other are not deep."""

    def nested(levels: int) -> str:
        return '{"value": 1, "children": [' * levels + '{"value": 0}' + "]}" * levels

    fits = (DEEPEST - 2) // 2
    assert isinstance(structured(Tree, nested(fits)), Tree)
    with pytest.raises(ArgumentsRefused, match="more than 64 deep"):
        structured(Tree, nested(fits + 1))
    assert len(structured(list[list[int]], json.dumps([[1]] * 1000))) == 1000  # type: ignore[arg-type]


def test_d2_empty_text_is_no_arguments() -> None:
    def handler(self: object, ctx: object, value: int = 5) -> None: ...

    assert of(handler).structure("") == of(handler).structure(" \n") == of(handler).structure("{}") == {}


def everything(
    self: object,
    ctx: object,
    tree: Tree,
    basket: Basket,
    number: int | Decimal | None,
    ratio: Annotated[float, Meta(ge=0)],
    when: datetime,
    long: timedelta,
    names: set[str] | str,
    pair: tuple[int, Colour],
    paid: Card | Cash | None,
    fork: list[Fork] | Line | Tree,
    by_name: dict[Urgency, Line],
    size: Size | Literal["none"] | None = None,
) -> None:
    """Take one of each."""


EVERYTHING = of(everything)
NAMES = [
    *get_type_hints(everything),
    *("value", "children", "parent", "lines", "sku", "price", "count", "low", "kind", "number", "left", "payments"),
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["red", "low", "card", "cash", "2024-01-01T00:00:00Z", "P1D", "1.5", "1e999999"])
)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner), max_leaves=30
)


@given(st.text() | st.text(st.characters(categories=["Cs", "Nd", "Ps", "Pe", "Po"])))
@example("1e999999")
@example('{"number": 1e999999999999999999, "ratio": 1e-999999999999999999}')
@example('{"number": -0.0, "ratio": -0.0}')
def test_d2_no_text_raises_anything_but_a_refusal(text: str) -> None:
    with pytest.raises(ArgumentsRefused):
        EVERYTHING.structure(text)


@given(st.dictionaries(st.sampled_from(NAMES) | st.text(), TREES))
def test_d2_no_json_raises_anything_but_a_refusal(tree: dict[str, object]) -> None:
    with suppress(ArgumentsRefused):
        assert EVERYTHING.structure(json.dumps(tree)).keys() == tree.keys()


# --------------------------------------------------------------------------------------------- what the schema admits

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LINES = st.builds(Line, TEXT, DECIMALS, st.integers(min_value=1))
SUBTREES = st.recursive(
    st.builds(Tree, st.integers()),
    lambda inner: st.builds(Tree, st.integers(), st.lists(inner, max_size=3), st.none() | inner),
    max_leaves=8,
)
PAYMENTS = st.builds(Card, TEXT) | st.builds(Cash, DECIMALS, st.sampled_from(["cash", "coins"]))
DRAWN: dict[object, st.SearchStrategy[object]] = {
    str: TEXT,
    int: st.integers(-(2**63), 2**63 - 1),
    float: FLOATS,
    bool: st.booleans(),
    Decimal: DECIMALS,
    date: st.dates(),
    datetime: st.datetimes(timezones=st.none() | st.just(UTC)).map(lambda drawn: drawn.replace(fold=0)),
    time: st.times().map(lambda drawn: drawn.replace(fold=0)),
    timedelta: st.timedeltas(),
    UUID: st.uuids(),
    Colour: st.sampled_from(Colour),
    Urgency: st.sampled_from(Urgency),
    Size: st.sampled_from(Size),
    Literal["a", 1, None]: st.sampled_from(["a", 1, None]),
    Tracking: TEXT,
    Annotated[int, Meta(ge=1, lt=9)]: st.integers(1, 8),
    Line: LINES,
    Basket: st.builds(Basket, st.lists(LINES), st.dictionaries(TEXT, TEXT), st.just("x")),
    Tree: SUBTREES,
    Box[Decimal]: st.builds(Box, DECIMALS),
    Labelled[str]: st.builds(Labelled, st.integers(0, 9), TEXT),
    list[float]: st.lists(FLOATS),
    tuple[int, ...]: st.lists(st.integers(0, 9)).map(tuple),
    tuple[int, str]: st.tuples(st.integers(0, 9), TEXT),
    set[date]: st.sets(st.dates()),
    frozenset[tuple[str, int]]: st.frozensets(st.tuples(TEXT, st.integers(0, 9))),
    dict[str, Line]: st.dictionaries(TEXT, LINES),
    dict[Colour, bool]: st.dictionaries(st.sampled_from(Colour), st.booleans()),
    int | Decimal: st.integers(0, 9) | DECIMALS,
    int | float: st.integers(0, 9) | FLOATS,
    str | list[str]: TEXT | st.lists(TEXT),
    list[Line] | None: st.none() | st.lists(LINES),
    Line | bool | None: st.none() | st.booleans() | LINES,
    Card | Cash: PAYMENTS,
    list[Card | Cash] | Card | None: st.none() | st.lists(PAYMENTS) | st.builds(Card, TEXT),
    Fork: st.recursive(
        st.builds(Fork, LINES, st.lists(PAYMENTS), st.none() | PAYMENTS),
        lambda inner: st.builds(Fork, inner, st.lists(PAYMENTS)),
        max_leaves=5,
    ),
    Line | Tree: LINES | SUBTREES,
    Literal["today"] | date: st.just("today") | st.dates(),
    Colour | Urgency | None: st.none() | st.sampled_from(Colour) | st.sampled_from(Urgency),
}
TAKING = {kind: taking(kind) for kind in DRAWN}


@given(st.sampled_from(list(DRAWN)).flatmap(lambda kind: st.tuples(st.just(kind), DRAWN[kind])))
def test_d2_what_the_schema_admits_is_structured_to_the_same_value(drawn: tuple[object, object]) -> None:
    """What msgspec writes for a value is what its schema says; `repr` tells 1 from True, 1.0 and Decimal(1)."""
    kind, value = drawn
    made = TAKING[kind].structure(msgspec.json.encode({"value": value}).decode())["value"]
    assert made == value
    assert type(made) is type(value)
    if not isinstance(value, set | frozenset):
        assert repr(made) == repr(value)


def _comparable(schema: Any) -> Any:
    """A schema without what we say and msgspec does not: closed objects, formats of moments; without order."""
    if isinstance(schema, list):
        return sorted(map(_comparable, schema), key=repr)
    if not isinstance(schema, dict):
        return schema
    ours = {("additionalProperties", False), ("format", "date-time"), ("format", "time")}
    return {
        name: _comparable(said)
        for name, said in schema.items()
        if isinstance(said, dict | list) or (name, said) not in ours
    }


@pytest.mark.parametrize("kind", DRAWN)
def test_d2_the_schema_is_the_one_that_msgspec_would_write_where_it_writes_one(kind: Any) -> None:
    """Two readers of one annotation: what they agree on is not ours alone."""
    ours = dict(taking(kind).schema)
    try:
        (theirs,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    except TypeError:
        assert "anyOf" in json.dumps(ours)  # a union of more than msgspec can tell apart
        return
    assert _comparable(shape(kind)) == _comparable(theirs)
    assert _comparable(ours.get("$defs", {})) == _comparable(definitions)
