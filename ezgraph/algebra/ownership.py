"""Who may return what, and lead where: table B as one constant, and the checks that read it.  Rules B1, B5, B6."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, NoneType
from typing import Any, Final, Literal, Never, TypeAlias, final

from attrs import frozen

from ezgraph.errors import OwnershipError, UndeclaredRoute, UnknownTarget
from ezgraph.messages import check_message
from ezgraph.plan import Handler, NodeSpec, Plan
from ezgraph.responses import (
    NO_EFFECTS,
    UNSET,
    Builders,
    Direct,
    DirectTo,
    Fanout,
    Finish,
    Go,
    Origin,
    Placement,
    Stay,
    TaskResult,
)

Nothing: TypeAlias = Literal["refused", "continue", "output stands", "delegates"]
"""What returning nothing comes to."""


@final
@frozen
class Permission:
    """One row of table B.

    Attributes:
        may: The types that may be returned; `str` is text.
        nothing: What returning nothing comes to.
    """

    may: frozenset[type]
    nothing: Nothing

    @property
    def names(self) -> tuple[str, ...]:
        """What may be returned, as an author writes it, in a stable order."""
        told = [_BUILDERS[kind] for kind in _BUILDERS if kind in self.may]
        return tuple(told if self.nothing == "refused" else [*told, "nothing"])


_BUILDERS: Final[Mapping[type, str]] = {
    str: "text",
    Stay: "stay",
    Go: "go",
    Fanout: "fanout",
    Direct: "direct",
    DirectTo: "direct_to",
    Finish: "finish",
    TaskResult: "task_result",
}

_ANSWERS: Final[frozenset[type]] = frozenset((Direct, TaskResult))
_ROUTES: Final[frozenset[type]] = frozenset({Go, Fanout, DirectTo, Finish})

TABLE: Final[Mapping[tuple[Origin, Placement], Permission]] = MappingProxyType(
    {
        ("tool", "conversation"): Permission(_ROUTES | {*_ANSWERS, Stay}, "refused"),
        ("tool", "internal"): Permission(_ANSWERS | {Stay}, "refused"),
        ("run", "conversation"): Permission(_ROUTES | {Direct}, "continue"),
        ("run", "internal"): Permission(_ANSWERS, "continue"),
        ("response hook", "conversation"): Permission(_ROUTES | {Direct, str}, "output stands"),
        ("response hook", "internal"): Permission(_ANSWERS | {str}, "output stands"),
        ("error hook", "conversation"): Permission(frozenset({Go, Direct, DirectTo, Finish, TaskResult}), "delegates"),
        ("error hook", "internal"): Permission(_ANSWERS, "delegates"),
    }
)
"""Table B, for the origins and placements that exist."""


def permits(origin: Origin, placement: Placement, kind: type) -> bool:
    """Whether a value of exactly type `kind` may be returned there; `NoneType` stands for nothing.  Rule B1."""
    permission = TABLE[origin, placement]
    return permission.nothing != "refused" if kind is NoneType else kind in permission.may


def check_ownership(node: str, placement: Placement, origin: Origin, handler: str, response: object) -> None:
    """Refuse what that origin in that placement may not return.

    Raises:
        OwnershipError: Rules B5, B6.
    """
    if not permits(origin, placement, type(response)):
        mend = 'Did you forget "return"?' if response is None else "Return one of these."
        permission = TABLE[origin, placement]
        raise OwnershipError(node, placement, origin, handler, response, permission.names, mend)
    if origin != "tool" and isinstance(response, Builders) and response.effects.are_a_tools:
        raise OwnershipError(
            node,
            placement,
            origin,
            handler,
            response,
            TABLE[origin, placement].names,
            "Feedback, messages and cleanup belong to a tool's response: leave them out here.",
        )


def check_response(  # noqa: C901  an arm for each response that can be wrong
    plan: Plan, spec: NodeSpec, handler: Handler, response: Any
) -> None:
    """Refuse what a handler returned where its row of table B, its annotation or the target's state type forbids it.

    Raises:
        OwnershipError: Rules B5, B6.
        UnknownTarget: The graph does not have a target.  Rule A3.
        UndeclaredRoute: The handler's annotation does not declare the route.
        StateTypeError: `with_state` was given another type than the target's.  Rule F3.
        InvalidResponse: `with_message` was given a call, or the result of one.  Rule D1.
    """
    kind = type(response)
    if kind is Go or kind is DirectTo:  # final classes; the hot path comes first
        target = response.target
        if target not in (handler.goes if kind is Go else handler.directs):
            _refuse(plan, spec, handler, response, (target,))
        if response.state is not UNSET:
            plan.by_class[target].check_state(spec.id, response.state)
        if response.message is not None:
            check_message("with_message", response.message)
    elif kind is Fanout:
        if not _declares(handler, response):
            _refuse(plan, spec, handler, response, response.workers)
        if response.inputs:
            worker = plan.by_class[response.workers[0]]
            check = worker.state_check
            for item, state in enumerate(response.inputs):
                if check(state) is not None:
                    worker.check_state(spec.id, state, item)
    elif kind not in handler.kinds:
        _refuse(plan, spec, handler, response, ())
    elif response is None or kind is str:
        return
    if response.effects is not NO_EFFECTS and handler.origin != "tool":
        check_ownership(spec.id, spec.placement, handler.origin, handler.name, response)


def _declares(handler: Handler, fanout: Fanout[Any]) -> bool:
    """Whether these workers may be opened together; a scatter is an opening by itself.  Rule E2."""
    opened = frozenset(fanout.workers)
    if fanout.inputs is not None:
        return opened in handler.openings
    return any(opened <= opening for opening in handler.openings)


def _refuse(plan: Plan, spec: NodeSpec, handler: Handler, response: object, targets: tuple[type[Any], ...]) -> Never:
    """Say why a response is not allowed: its row of table B, the graph, or the handler's annotation forbids it."""
    check_ownership(spec.id, spec.placement, handler.origin, handler.name, response)
    for target in targets:
        if target not in plan.by_class:
            raise UnknownTarget(spec.id, target.__name__, tuple(plan.nodes))
    named = " | ".join(target.__name__ for target in targets)
    shown = "None" if response is None else type(response).__name__
    route = f"{shown}[{named}]" if named else shown
    if isinstance(response, Fanout) and response.inputs is not None:
        route = f"{route} for a scatter"  # an opening by itself
    raise UndeclaredRoute(spec.id, handler.name, route, handler.declared)
