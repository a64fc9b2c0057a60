"""Return annotations are the list of edges: every spelling reads the same, and none is read as "no edges"."""

import sys
from collections.abc import Awaitable, Coroutine
from types import NoneType
from typing import Annotated, Any, ForwardRef, Generic, Literal, Never, NoReturn, Optional, TypeVar, Union, get_args

import pytest
import spelled_later
import spelled_now
import typing_extensions
from hypothesis import given, strategies as st
from spelled_now import SPELLINGS, Alpha, Beta, Counting, Hub, One, Producing, Saying, ToAlpha, Two
from typing_extensions import TypeAliasType

from ezgraph import (
    Context,
    Conversation,
    DefinitionError,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Graph,
    GraphNode,
    StageContext,
    Stay,
    TaskResult,
    Worker,
    stay,
    tool,
)
from ezgraph.annotations import (
    AnnotationFlaw,
    Returns,
    Way,
    bindings,
    hints_of,
    members,
    mentioned,
    returns_of,
    shown,
    unwrapped,
)
from ezgraph.compilation import plan_of
from ezgraph.graph import Definition
from ezgraph.nodes import Node, Stage
from ezgraph.plan import Arrow
from ezgraph.responses import Direct

T = TypeVar("T")

# The same, for what no checker would let stand.
AnyGo: Any = Go
AnyDirectTo: Any = DirectTo
AnyFanout: Any = Fanout
AnyAnnotated: Any = Annotated
Alias: Any = TypeAliasType
Variable: Any = T
Either: Any = Alias("Either", Variable | Stay, type_params=(T,))

WAYS = {Way(Go, (Alpha,)), Way(Go, (Beta,)), Way(Fanout, (One, Two))}
ARROWS = [("Alpha", "go"), ("Beta", "go"), ("One", "fanout"), ("Two", "fanout")]


def said(annotation: object) -> Returns:
    return returns_of({"return": annotation})


def spoken(annotation: object) -> type[Conversation[None]]:
    """A conversation with one tool of that return annotation."""

    class Hub(Conversation[None]):
        @tool
        def lead(self, ctx: StageContext[None]) -> Stay:
            """Lead."""
            return stay("no")

    lead: Any = Hub.lead
    lead.__annotations__["return"] = annotation
    return Hub


def around(entry: Any) -> Definition:
    return Graph("g", entry=entry).stages(Alpha, Beta).workers(One, Two).join((One, Two), to=Beta).definition


def led(entry: Any, handler: str) -> list[tuple[str, str]]:
    """Where a handler of the entry leads, as the plan draws it."""
    arrows = plan_of(around(entry)).arrows
    return sorted((a.target, str(a.kind)) for a in arrows if (a.source, a.label) == (entry.__name__, handler))


# ------------------------------------------------------------------------------------------ FIELD T2: equal spellings


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_e8_every_spelling_gives_the_same_edges(spelling: str) -> None:
    """FIELD T2: the same plan from all of them."""
    # Text in an annotation is looked up where the function stands: in this module, which has the same names.
    hub = spoken(SPELLINGS[spelling])
    plan = plan_of(around(hub))
    assert led(hub, "lead") == ARROWS
    handler = plan.nodes["Hub"].tools["lead"].handler
    assert handler.goes == {Alpha, Beta}
    assert not handler.directs
    assert frozenset().union(*handler.openings) == {One, Two}
    assert plan.topology.closure(("One", "Two")).stage == "Beta"


@pytest.mark.parametrize("number", range(9))
def test_e8_annotations_that_are_text_give_the_same_edges(number: int) -> None:
    """FIELD T2: under `from __future__ import annotations`, also of names that are defined further down."""
    assert led(spelled_later.Hub, f"t{number}") == ARROWS


@pytest.mark.parametrize("entry", [spelled_now.Hub, spelled_later.Hub])
def test_e8_a_response_hook_is_read_like_a_tool(entry: Any) -> None:
    assert led(entry, "on_response") == [("Beta", "go")]


def test_e8_an_async_tool_and_a_generic_alias_lead_where_they_say() -> None:
    assert led(spelled_now.Hub, "lead") == ARROWS
    assert led(spelled_now.Hub, "slowly") == [("Beta", "go")]


@given(st.permutations([Go[Alpha], Go[Beta], Fanout[One | Two], Stay, Stay]), st.data())
def test_e8_any_nesting_of_unions_reads_the_same(parts: list[Any], data: st.DataObject) -> None:
    """FIELD T2: a union is a set, however it is bracketed, wrapped and named."""
    while len(parts) > 1:
        at = data.draw(st.integers(0, len(parts) - 2))
        joined: Any = Union[parts[at], parts[at + 1]]  # noqa: UP007  built, not written
        wrap = data.draw(st.sampled_from(["plain", "Annotated", "alias", "promise", "generic"]))
        if wrap == "Annotated":
            joined = Annotated[joined, "why"]
        elif wrap == "alias":
            joined = Alias("Named", joined)
        elif wrap == "promise":
            joined = Awaitable[joined]
        elif wrap == "generic":
            joined = Either[joined]
        parts[at : at + 2] = [joined]
    read = said(parts[0])
    assert set(read.ways) == WAYS
    assert read.kinds == {Go, Fanout, Stay}
    assert not read.flaws
    assert not read.others


def test_e2_each_fanout_of_an_annotation_is_an_opening_by_itself() -> None:
    read = said(Fanout[One | Two] | Fanout[Two | Counting])
    assert read.ways == (Way(Fanout, (One, Two)), Way(Fanout, (Two, Counting)))
    assert str(read.ways[0]) == "Fanout[One | Two]"
    assert said(Go[Alpha] | Awaitable[Go[Alpha]]).ways == (Way(Go, (Alpha,)),)  # a way told twice is one


def test_e6_a_fanout_of_one_worker_is_a_scatter() -> None:
    """However it is spelled: a worker named twice is one."""
    both = (Way(Fanout, (One,)), Way(Fanout, (One, Two)))
    assert said(Fanout[One] | Fanout[One | Two] | AnyAnnotated[Fanout[One], "why"] | None).ways == both
    assert said(AnyFanout[Alias("Only", One)]).ways == both[:1]
    assert said(AnyFanout[Union[One, Alias("Only", One)]]).ways == both[:1]  # noqa: UP007  built, not written
    assert [way.scatters for way in both] == [True, False]
    assert not Way(Go, (Alpha,)).scatters
    assert str(both[0]) == "Fanout[One]"


def test_e8_what_may_be_returned_besides_routes() -> None:
    read = said(TaskResult[int] | TaskResult[str] | str | None | int | DirectTo[Alpha | Beta] | Finish)
    assert read.kinds == {TaskResult, str, NoneType, DirectTo, Finish}
    assert (read.outputs, read.others) == ((int, str), ("int",))
    assert read.ways == (Way(DirectTo, (Alpha,)), Way(DirectTo, (Beta,)))
    assert not read.promised


@pytest.mark.parametrize("annotation", [Never, NoReturn, Awaitable[Never]])
def test_e8_a_handler_that_never_returns_leads_nowhere(annotation: object) -> None:
    assert said(annotation) == Returns(promised=annotation == Awaitable[Never])


def test_g7_a_promise_is_told_from_what_it_promises() -> None:
    assert said(Alias("Later", Coroutine[Any, Any, Stay])).promised
    assert not said(Stay).promised


# ------------------------------------------------------------------------------------- generic bases, mixins, diamonds


def test_e8_the_target_of_an_inherited_tool_is_the_subclasss() -> None:
    """FIELD T2: a type variable of the generic base that defines the tool, handed on under the same name."""
    plan = plan_of(Graph("g", entry=ToAlpha).stages(Alpha).definition)
    assert plan.arrows == (Arrow("ToAlpha", "Alpha", "go", "onward"),)


def test_e8_the_output_of_a_generic_worker_is_the_subclasss() -> None:
    class Start(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Fanout[Counting | Saying]:
            raise NotImplementedError

    graph = Graph("g", entry=Start).stages(Alpha).workers(Counting, Saying).join((Counting, Saying), to=Alpha)
    with pytest.raises(DefinitionError) as wrong:
        plan_of(graph.edge(Start, Alpha).definition)
    assert [p.kind for p in wrong.value.problems] == ["forbidden-edge"]  # the outputs are fine
    plan = plan_of(graph.definition)
    assert [plan.nodes[n].output for n in ("Counting", "Saying")] == [int, tuple[str, ...]]


def test_e8_a_worker_base_that_is_left_open_is_told() -> None:
    class Open(Producing):  # type: ignore[type-arg]
        pass

    with pytest.raises(DefinitionError, match=r"Open: the type of its output is not given \[missing-annotation\]"):
        plan_of(Graph("g", entry=Alpha).workers(Open).definition)


class Speaking(Conversation[T], Generic[T]):
    @tool
    def speak(self, ctx: StageContext[T]) -> Go[Alpha] | Stay:
        """Speak."""
        return stay("no")


class Listening(Conversation[T], Generic[T]):
    @tool
    def listen(self, ctx: StageContext[T]) -> Go[Beta] | Stay:
        """Listen."""
        return stay("no")

    @tool
    def speak(self, ctx: StageContext[T]) -> Stay:
        """Speak, without leading on."""
        return stay("no")


class Both(Listening[None], Speaking[None]):
    """A diamond: the first base's `speak` is the one."""


class Unsaid(Listening, Speaking[None]):  # type: ignore[type-arg]
    """One base says what the state is, the other does not."""


@pytest.mark.parametrize("entry", [Both, Unsaid])
def test_e8_a_diamond_of_mixins_has_the_tools_that_python_finds(entry: Any) -> None:
    """FIELD T2: inherited tools, once each, the one that the method resolution order finds."""

    class Start(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> Go[Both | Unsaid | Alpha]:
            raise NotImplementedError

    plan = plan_of(Graph("g", entry=Start).stages(Both, Unsaid, Alpha, Beta).definition)
    arrows = [a for a in plan.arrows if a.source == entry.__name__]
    assert arrows == [Arrow(entry.__name__, "Beta", "go", "listen")]
    assert list(plan.nodes[entry.__name__].tools) == ["speak", "listen"]
    assert plan.nodes[entry.__name__].state is NoneType


def test_bindings_follow_defaults_and_leave_open_what_nothing_says() -> None:
    """Rule E8: what a generic ancestor's variables stand for, seen from the class."""
    first = typing_extensions.TypeVar("first")
    second = typing_extensions.TypeVar("second", default=tuple[first, ...])  # type: ignore[valid-type]

    class Pair(Generic[first, second]):
        pass

    class Of(Pair[int]):
        pass

    class Open(Pair):  # type: ignore[type-arg]
        pass

    assert bindings(Of)[Pair] == {first: int, second: tuple[int, ...]}
    assert bindings(Open)[Pair][first] is first


def test_bindings_keep_a_name_that_does_not_resolve_for_the_report() -> None:
    class Lost(Conversation["Nowhere"]):  # type: ignore[name-defined]
        pass

    class Odd(Conversation["1 + None"]):  # type: ignore[valid-type]
        pass

    assert list(bindings(Lost)[Conversation].values())[0] == ForwardRef("Nowhere")  # noqa: RUF015
    assert isinstance(list(bindings(Odd)[Conversation].values())[0], ForwardRef)  # noqa: RUF015


# -------------------------------------------------------------------------------------------- never read as "no edges"

VAGUE: dict[str, tuple[Any, str]] = {
    "Go[Any]": (AnyGo[Any], r"`Go\[Any\]` does not say where it may lead.*Name the classes.*`Go\[Approval\]`"),
    "Go[Stage]": (AnyGo[Stage], r"`Go\[Stage\]` does not say where"),
    "Go[Stage[...]]": (AnyGo[Stage[None]], r"`Go\[Stage\[None, object\]\]` does not say where"),
    "Go": (Go, r"`Go` does not say where"),
    "DirectTo": (DirectTo, r"`DirectTo` does not say where.*`DirectTo\[Approval\]`"),
    "Fanout": (Fanout, r"`Fanout` does not say where.*`Fanout\[Valuation \| FraudCheck\]`"),
    "Fanout[Worker]": (AnyFanout[Worker], r"`Fanout\[Worker\]` does not say"),
    "Go[Conversation | Alpha]": (AnyGo[Conversation | Alpha], r"`Go\[Conversation \| Alpha\]` does not say where"),
    "Go[T]": (AnyGo[T], r"`Go\[T\]` does not say where"),
    "Any": (Any, r"`Any` does not say where it may lead.*Name the responses one by one"),
    "object": (object, r"`object` does not say where"),
    "Go[int]": (AnyGo[int], r"`Go\[int\]` does not say"),
}


@pytest.mark.parametrize("case", VAGUE)
def test_e8_an_annotation_that_names_no_node_is_refused(case: str) -> None:
    """Rule E8: such a list of edges would be empty, and the graph would not be what it says."""
    annotation, told = VAGUE[case]
    (flaw,) = said(annotation).flaws
    assert flaw.kind == "vague-annotation"
    with pytest.raises(DefinitionError, match=rf"(?s)Hub\.lead: {told}"):
        plan_of(around(spoken(annotation)))


@pytest.mark.parametrize(
    ("annotation", "what", "mend"),
    [
        (AnyGo[One], "Go[One] leads to a worker", "A worker is reached by Fanout[A | B] or an edge."),
        (
            AnyDirectTo[Alpha | One],
            "DirectTo[One] leads to a worker",
            "A worker is reached by Fanout[A | B] or an edge.",
        ),
        (AnyFanout[One | Alpha], "Fanout[Alpha] leads to a stage", "Write Go[Alpha]."),
    ],
)
def test_b4_a_route_to_the_wrong_kind_is_refused(annotation: Any, what: str, mend: str) -> None:
    """Rule B4: `go` and `direct_to` take turn owners, `fanout` and `scatter` workers."""
    assert said(annotation).flaws == (AnnotationFlaw("forbidden-route", what, mend),)


def test_e8_a_missing_return_annotation_is_told() -> None:
    """The checkers infer it; the plan cannot."""

    class Silent(Conversation[None]):
        @tool
        def lead(self, ctx: StageContext[None]):  # type: ignore[no-untyped-def]  # noqa: ANN202
            return Go(target=Alpha)

    with pytest.raises(DefinitionError, match=r"(?s)Silent\.lead: there is no return annotation.*`-> Go\[Approval\]"):
        plan_of(Graph("g", entry=Silent).definition)


def test_e8_a_name_that_is_imported_only_for_typing_is_told() -> None:
    told = r"(?s)Hidden\.pay: the name 'Decimal' in an annotation does not resolve.*Import Decimal at the top"
    with pytest.raises(DefinitionError, match=told):
        plan_of(Graph("g", entry=spelled_later.Hidden).definition)


def test_e8_a_name_that_is_local_to_a_function_is_told() -> None:
    class Local(GraphNode[None]):
        def run(self, ctx: StageContext[None]) -> "Go[Local]":
            raise NotImplementedError

    with pytest.raises(DefinitionError, match=r"the name 'Local' in an annotation does not resolve at run time") as e:
        plan_of(Graph("g", entry=Local).definition)
    assert "not inside a function" in e.value.problems[0].mend


@pytest.mark.parametrize(
    ("annotation", "told"),
    [
        ("Go[", "an annotation does not resolve: "),
        ("Stay.nothing", "has no attribute 'nothing'"),
        ("Stay | 5", "unsupported operand"),
        ("1 / 0", "division by zero"),
        (Alias("Lost", "Go[Nowhere]"), "the name 'Nowhere' in an annotation does not resolve"),
        ([Go[Alpha]], "an annotation does not resolve: unhashable"),
    ],
)
def test_e8_whatever_is_wrong_with_an_annotation_is_one_problem(annotation: Any, told: str) -> None:
    with pytest.raises(DefinitionError) as wrong:
        plan_of(around(spoken(annotation)))
    (problem,) = (p for p in wrong.value.problems if p.place == "Hub.lead")
    assert (problem.kind, told in problem.what) == ("unresolvable-annotation", True)


def test_e8_an_alias_that_holds_itself_is_told() -> None:
    knot = Alias("knot", "knot | Stay")
    vars(sys.modules[__name__])["knot"] = knot
    (flaw,) = said(knot).flaws
    assert flaw.kind == "unresolvable-annotation"


def test_e8_what_an_unreadable_handler_mentions_is_not_called_unreachable() -> None:
    """Rule M3: a problem that only follows from another one is none."""

    class Forgot(Conversation[None]):
        @tool
        def lead(self, ctx: StageContext[None]):  # type: ignore[no-untyped-def]  # noqa: ANN202
            """Lead."""
            return Go(target=Alpha)

        @tool
        def follow(self, ctx: StageContext[None]) -> "Go[Nowhere] | Go[Beta]":  # type: ignore[name-defined]  # noqa: F821
            """Follow."""
            raise NotImplementedError

    with pytest.raises(DefinitionError) as wrong:
        plan_of(Graph("g", entry=Forgot).stages(Alpha, Beta).definition)
    assert [(p.kind, p.place) for p in wrong.value.problems] == [
        ("missing-annotation", "Forgot.lead"),
        ("unresolvable-annotation", "Forgot.follow"),
    ]
    assert {"Alpha", "Go"} <= mentioned(Forgot.lead)
    assert {"Nowhere", "Beta"} <= mentioned(Forgot.follow)
    assert mentioned(len) == frozenset()


# --------------------------------------------------------------------------------------------------------- small parts


def test_hints_fall_back_to_the_class_for_a_function_that_no_class_holds() -> None:
    """Rule E8: a decorated method is not found among a class's attributes; its own names still resolve."""

    def loose(self: object, ctx: Context[None]) -> Stay:
        raise NotImplementedError

    assert hints_of(Hub, loose, bindings(Hub)) == {"self": object, "ctx": Context[None], "return": Stay}


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (None, "None"),
        (NoneType, "None"),
        (Any, "Any"),
        (Optional[int], "int | None"),  # noqa: UP045
        (tuple[int, ...], "tuple[int, ...]"),
        (Go[Alpha], "Go[Alpha]"),
        (T, "T"),
        (ForwardRef("Alpha"), "Alpha"),
        ("Alpha", "Alpha"),
        (Literal["a"], "Literal['a']"),
        (Node, "Node"),
    ],
)
def test_m2_types_are_shown_as_an_author_writes_them(annotation: object, text: str) -> None:
    assert shown(annotation) == text


def test_members_of_a_plain_type_are_the_type() -> None:
    assert list(members(int)) == [int]
    assert list(members(None)) == [NoneType]
    bare: object = typing_extensions.Awaitable
    assert list(members(bare)) == [bare]
    assert unwrapped(Annotated[Alias("Number", Annotated[int, 1]), 2]) is int
    assert get_args(unwrapped(Alias("Many", tuple[Variable, ...], type_params=(T,)))) == (T, ...)
    assert said(bare).others == ("Awaitable",)
    assert said(Direct).kinds == {Direct}
