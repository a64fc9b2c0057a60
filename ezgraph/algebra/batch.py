"""What the tool calls of one model message come to: collected without order, decided once.  Rules D3, D5.

Laws, held in `tests/test_laws.py`: `collect` is associative and commutative with `NOTHING`, the summary of `stay`, its
identity; the decision does not depend on order; conflict absorbs all but ended, and ended absorbs all.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any, Final, TypeAlias, cast, final

from attrs import evolve, field, frozen

from ezgraph.responses import (
    NO_EFFECTS,
    UNSET,
    Builders,
    Direct,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Response,
    Stay,
    TaskResult,
)

Exclusive: TypeAlias = Go[Any] | DirectTo[Any] | Direct | Finish | TaskResult[Any]
Bare: TypeAlias = Go[Any] | Fanout[Any]
Routing: TypeAlias = Exclusive | Fanout[Any]
"""A response that leaves the tool loop."""


@final
@frozen
class Ended:
    """The customer ended the session: what the built-in tool gives.  The engine's own, as no author may.  Rule D5."""

    farewell: str


@final
@frozen
class Conflict:
    """The routes of a batch exclude each other.  Rule D4."""


def _as_bag(routes: tuple[Exclusive, ...]) -> tuple[str, ...]:
    return tuple(sorted(map(repr, routes)))


@final
@frozen
class Summary:
    """The route parts of some calls of a batch.

    Attributes:
        farewells: What the calls that ended the session said; empty where none did.
        bare: The distinct bare routes: a `go` without state and message, or a `fanout` (a `scatter` is exclusive).
        exclusive: All other routes, a bag: equal ones count apart.
    """

    farewells: frozenset[str] = frozenset()
    bare: frozenset[Bare] = frozenset()
    exclusive: tuple[Exclusive, ...] = field(default=(), eq=_as_bag)


NOTHING: Final = Summary()


def summary_of(outcome: Response[Any] | Ended) -> Summary:
    """The summary of one call.  Its effects (feedback, messages, usage, cleanup) are kept elsewhere, per call."""
    match outcome:
        case Stay():
            return NOTHING
        case Ended(farewell=farewell):
            return Summary(farewells=frozenset({farewell}))
        case Go(state=state, message=message) if state is UNSET and message is None:
            return Summary(bare=frozenset({_route_part(outcome)}))
        case Fanout(workers=workers, inputs=None):
            same = evolve(outcome, workers=tuple(sorted(workers, key=lambda w: (w.__module__, w.__qualname__, id(w)))))
            return Summary(bare=frozenset({_route_part(same)}))
        case _:
            return Summary(exclusive=(_route_part(outcome),))


def _route_part(response: Builders) -> Any:
    return evolve(cast("Any", response), effects=NO_EFFECTS)


def collect(one: Summary, other: Summary) -> Summary:
    """Both together."""
    return Summary(
        one.farewells | other.farewells,
        one.bare | other.bare,
        one.exclusive + other.exclusive,
    )


def summarise(outcomes: Iterable[Response[Any] | Ended]) -> Summary:
    """The summary of a whole batch."""
    return reduce(collect, map(summary_of, outcomes), NOTHING)


def decide(summary: Summary) -> Ended | Conflict | Routing | None:
    """Ended, else conflict, else the one route, else None: the loop goes on.

    Several farewells are one end; the first of them in alphabetical order is said, so that no order decides.
    """
    if summary.farewells:
        return Ended(min(summary.farewells))
    routes = (*summary.bare, *summary.exclusive)
    if len(routes) > 1:
        return Conflict()
    return routes[0] if routes else None
