"""The ways out of `spelled_now`, in annotations that are text until somebody asks."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeAlias, Union

from typing_extensions import TypeAliasType

from ezgraph import Conversation, Fanout, Go, StageContext, Stay, stay, tool

Ways: TypeAlias = "Go[Alpha | Beta] | Fanout[One | Two] | Stay"
Lazy = TypeAliasType("Lazy", "Go[Alpha] | Fanout[One | Two] | Go[Beta] | Stay")

if TYPE_CHECKING:
    from decimal import Decimal


class Hub(Conversation[None]):
    """The same ways out from each tool."""

    @tool
    def t0(self, ctx: StageContext[None]) -> Go[Alpha | Beta] | Fanout[One | Two] | Stay:
        """Lead."""
        return stay("no")

    @tool
    def t1(self, ctx: StageContext[None]) -> Go[Alpha] | Go[Beta] | Fanout[One | Two] | Stay:
        """Lead."""
        return stay("no")

    @tool
    def t2(self, ctx: StageContext[None]) -> Union[Go[Union[Alpha, Beta]], Fanout[One | Two], Stay]:  # noqa: UP007
        """Lead."""
        return stay("no")

    @tool
    async def t3(self, ctx: StageContext[None]) -> Ways:
        """Lead."""
        return stay("no")

    @tool
    def t4(self, ctx: StageContext[None]) -> Lazy:
        """Lead."""
        return stay("no")

    @tool
    def t5(self, ctx: StageContext[None]) -> Annotated[Ways, "where it may lead"]:
        """Lead."""
        return stay("no")

    @tool
    def t6(self, ctx: StageContext[None]) -> Awaitable[Ways]:
        """Lead."""
        raise NotImplementedError

    @tool
    def t7(self, ctx: StageContext[None]) -> Coroutine[Any, Any, Lazy]:
        """Lead."""
        raise NotImplementedError

    @tool
    def t8(self, ctx: StageContext[None]) -> "Go[Alpha | Beta] | Fanout[One | Two] | Stay":  # noqa: UP037
        """Lead."""
        return stay("no")

    def on_response(self, ctx: StageContext[None], output: Any) -> Optional[Go[Beta]]:  # noqa: UP045
        return None


class Hidden(Conversation[None]):
    """Its tools name what is there for type checkers only."""

    @tool
    def pay(self, ctx: StageContext[None], amount: Decimal) -> Stay:
        """Pay."""
        return stay(str(amount))


# At the end: an annotation may name what comes after it.
from spelled_now import Alpha, Beta, One, Two  # noqa: E402
