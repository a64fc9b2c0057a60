"""The ways out of `spelled_later`, in annotations that are evaluated as they are read: no `__future__` import here."""

from collections.abc import Awaitable, Coroutine
from typing import Annotated, Any, Generic, Optional, TypeAlias, TypeVar, Union

from typing_extensions import TypeAliasType

from ezgraph import (
    Context,
    Conversation,
    Fanout,
    Go,
    GraphNode,
    StageContext,
    Stay,
    TaskResult,
    Worker,
    direct,
    go,
    stay,
    task_result,
    tool,
)
from ezgraph.nodes import Stage
from ezgraph.responses import Direct

S = TypeVar("S")
T = TypeVar("T", bound="Stage[Any, Any]")
O = TypeVar("O")  # noqa: E741  the output of a worker


class Alpha(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct("alpha")


class Beta(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct("beta")


class One(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(1)


class Two(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(2)


Ways: TypeAlias = Go[Alpha | Beta] | Fanout[One | Two] | Stay
Lazy = TypeAliasType("Lazy", Ways)
LazyText = TypeAliasType("LazyText", "Go[Beta] | Fanout[One | Two] | Go[Alpha] | Stay")
Leading = TypeAliasType("Leading", Go[T] | Stay, type_params=(T,))
Written: TypeAlias = "Go[Alpha | Beta] | Fanout[One | Two] | Stay"

SPELLINGS: dict[str, Any] = {
    "one union in Go": Go[Alpha | Beta] | Fanout[One | Two] | Stay,
    "a union of Gos": Go[Alpha] | Go[Beta] | Fanout[One | Two] | Stay,
    "Union": Union[Go[Union[Alpha, Beta]], Fanout[Union[One, Two]], Stay],  # noqa: UP007
    "nested unions": Union[Union[Go[Alpha], Stay], Union[Go[Beta], Fanout[One | Two]]],  # noqa: UP007
    "TypeAlias": Ways,
    "TypeAlias of text": Written,
    "TypeAliasType": Lazy,
    "TypeAliasType of text": LazyText,
    "a generic TypeAliasType": Leading[Alpha | Beta] | Fanout[One | Two],
    "a generic one, twice": Leading[Alpha] | Leading[Beta] | Fanout[One | Two],
    "Annotated": Annotated[Ways, "where it may lead"],
    "Annotated members": Annotated[Go[Alpha | Beta], "a"] | Annotated[Fanout[One | Two] | Stay, "b"],
    "Awaitable": Awaitable[Ways],
    "Coroutine": Coroutine[Any, Any, Lazy],
    "a union of promises": Awaitable[Go[Alpha | Beta]] | Awaitable[Fanout[One | Two]] | Stay,
    "text": "Go[Alpha | Beta] | Fanout[One | Two] | Stay",
    "text in Go": Go["Alpha"] | Go["Beta"] | Fanout["One | Two"] | Stay,
    "text in Union": Union[Go["Alpha"], "Go[Beta]", "Fanout[One | Two]", Stay],
}
"""The same ways out, in every equivalent spelling."""


class Hub(Conversation[None]):
    """A tool that leads everywhere, a hook that leads to Beta."""

    @tool
    def lead(self, ctx: StageContext[None]) -> Go[Alpha | Beta] | Fanout[One | Two] | Stay:
        """Lead."""
        return stay("no")

    @tool
    async def slowly(self, ctx: StageContext[None]) -> Leading[Beta]:
        """Lead, asynchronously."""
        return go(Beta)

    def on_response(self, ctx: StageContext[None], output: Any) -> Optional[Go[Beta]]:  # noqa: UP045
        return None


class Leader(Conversation[S], Generic[S, T]):
    """A tool whose target a subclass names."""

    @tool
    def onward(self, ctx: StageContext[S]) -> "Go[T] | Leading[T]":
        """Go on."""
        raise NotImplementedError


class Brief(Leader[None, T], Generic[T]):
    """Gives the state, and hands the target on under the same variable's name."""


class ToAlpha(Brief["Alpha"]):
    """Fills in the target as text."""


class Producing(Worker[None, O]):
    """A worker whose output a subclass names."""

    @tool
    def give(self, ctx: Context[None], text: str) -> TaskResult[O] | Stay:
        """Give it."""
        return stay(text)


class Counting(Producing[int]):
    """Yields a number."""


class Saying(Producing["tuple[str, ...]"]):
    """Yields texts."""
