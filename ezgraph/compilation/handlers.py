"""One method of a node: whether it can be called as it will be, what it is handed, what it may return.

What pyright's basic mode misses in an override is found here.  Rules B2, E8.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import NoneType
from typing import Any, Final, Literal, LiteralString, get_args, get_origin

from attrs import field, frozen

from ezgraph.algebra.ownership import TABLE, permits
from ezgraph.annotations import (
    AnnotationFlaw,
    Bindings,
    Returns,
    hints_of,
    is_open,
    members,
    mentioned,
    returns_of,
    shown,
)
from ezgraph.errors import Problem
from ezgraph.fields import without_remarks
from ezgraph.messages import Message
from ezgraph.nodes import Node, Worker
from ezgraph.plan import Handler
from ezgraph.responses import DirectTo, Fanout, Go, Origin
from ezgraph.runtime.context import Context, StageContext

Hints = dict[str, object]

TAKES: Final[Mapping[str, tuple[str, ...]]] = {
    "run": ("ctx",),
    "prompt": ("ctx",),
    "on_enter": ("ctx", "message"),
    "on_response": ("ctx", "output"),
    "on_exit": ("ctx", "outcome"),
    "on_error": ("ctx", "error"),
}
"""What the methods that the engine calls are handed."""

_GIVES: Final[Mapping[str, tuple[type, ...]]] = {
    "prompt": (str,),
    "on_enter": (Message, str, NoneType),
    "on_exit": (NoneType,),
}
"""What those that do not route return."""

_HOOK: Final = re.compile(r"on(?=_|[A-Z])|on(?=enter|response|exit|error)")
"""How the name of a method begins that its author takes for a hook."""


@frozen(eq=False)
class MethodReader:
    """Reads the methods of one class; problems go to `problems`.

    Attributes:
        cls: The node's class.
        node: The author's instance; the class itself where there can be none.
        known: What the type variables of its ancestors stand for.
        problems: Where to put what is wrong.
        state: The type of its state.
        shared: What it needs of the graph's context.
        output: A worker's output type.
        returns: By handler, what its return annotation says.
        mentions: By handler whose annotation cannot be read, the names it mentions.
    """

    cls: type[Node[Any, Any]]
    node: Any
    known: Bindings
    problems: list[Problem]
    state: object
    shared: object
    output: object
    returns: dict[str, Returns] = field(init=False, factory=dict)
    mentions: dict[str, frozenset[str]] = field(init=False, factory=dict)

    def problem(self, kind: str, place: str, what: str, mend: str) -> None:
        """Put one problem of this class, or of its method `place`, where problems go."""
        where = f"{self.cls.__name__}.{place}" if place else self.cls.__name__
        self.problems.append(Problem(kind, where, what, mend))

    def overrides(self, name: str) -> bool:
        """Whether the author gave this method: one found in a class that is not one of our kinds."""
        owner = next((c for c in self.cls.__mro__ if name in vars(c)), None)
        return owner is not None and owner.__module__ != Node.__module__

    def handler(self, name: str, origin: Origin, *, blocking: bool = False) -> tuple[Handler, Hints | None]:
        """A method whose response may route, and its annotations; None where they cannot be read."""
        function, placement = getattr(self.cls, name), self.cls.placement
        hints = self._read(name, TAKES.get(name))
        said = self.returns[name] = returns_of(hints) if isinstance(hints, dict) else Returns(flaws=(hints,))
        for flaw in said.flaws:
            self.problem(flaw.kind, name, flaw.what, flaw.mend)
        if said.flaws:
            self.mentions[name] = mentioned(function)
        self._check_placement(name, origin, said)
        if blocking and inspect.iscoroutinefunction(function):
            self.problem("signature", name, "is async and blocking", "Leave out `blocking`: what is async awaits.")
        handler = Handler(
            name,
            origin,
            getattr(self.node, name),
            frozenset(kind for kind in said.kinds if permits(origin, placement, kind)),
            inspect.iscoroutinefunction(function),
            blocking,
            frozenset(target for way in said.ways if way.response is Go for target in way.targets),
            frozenset(target for way in said.ways if way.response is DirectTo for target in way.targets),
            tuple(frozenset(way.targets) for way in said.ways if way.response is Fanout),
            said.declared,
        )
        return handler, hints if isinstance(hints, dict) else None

    def hook(self, name: str) -> None:
        """A method that the engine calls and that does not route."""
        hints = self._read(name, TAKES[name])
        if isinstance(hints, AnnotationFlaw):
            self.problem(hints.kind, name, hints.what, hints.mend)
            return
        gives = _GIVES[name]
        for given in members(hints.get("return", Any)):
            if not _is_one_of(given, gives):
                wanted = " | ".join(map(shown, gives))
                self.problem("override", name, f"may return {shown(given)}", f"Write `-> {wanted}`, or one of these.")

    def strays(self, hooks: Sequence[str], tools: Container[str]) -> None:
        """Methods that are named like hooks and are none: nothing would ever call them."""
        owners = [c for c in reversed(self.cls.__mro__) if issubclass(c, Node) and c.__module__ != Node.__module__]
        own = {name: getattr(value, "__func__", value) for owner in owners for name, value in vars(owner).items()}
        for name in (n for n, value in own.items() if callable(value) and _HOOK.match(n)):
            if name not in TAKES and name not in tools:
                near = get_close_matches(name.lower(), hooks, n=1)
                mend = f"Write {near[0]}" if near else f"Its hooks are {', '.join(hooks)}"
                told = "is named like a hook, and nothing calls it"
                self.problem("unknown-hook", name, told, f"{mend}; a method of your own needs another name.")

    def awaits(self, name: str) -> bool:
        """Whether what it does can be interrupted: a coroutine function, or one annotated with a promise."""
        return inspect.iscoroutinefunction(getattr(self.cls, name)) or self.returns[name].promised

    # -------------------------------------------------------------------------------- what it is handed

    def _read(self, name: str, taking: tuple[str, ...] | None) -> Hints | AnnotationFlaw:
        """The resolved annotations of a method; one that cannot be called, or takes what it is not given, is a problem.

        Args:
            name: Its name.
            taking: What it is handed after `self`; None for a tool, which is handed `ctx` and its own arguments.
        """
        function = getattr(self.cls, name)
        names = self._parameters(name, function, taking)
        hints = hints_of(self.cls, function, self.known)
        if isinstance(hints, AnnotationFlaw):
            return hints
        hints = {given: without_remarks(hint) for given, hint in hints.items()}
        if names:
            self._check_context(name, hints.get(names[0], Any))
            if taking is not None and len(names) > 1:
                self._check_taken(name, names[1], hints.get(names[1], Any))
        return hints

    def _parameters(self, name: str, function: Any, taking: tuple[str, ...] | None) -> list[str]:
        """The names of the parameters after `self`; none where it cannot be called as it will be."""
        handed = taking or ("ctx",)
        right = f"Write `def {name}(self, {', '.join(handed) if taking else 'ctx, ...'})`."
        if isinstance(inspect.getattr_static(self.cls, name), staticmethod | classmethod):
            self.problem("signature", name, "is a static or class method", right)
            return []
        if not callable(function):
            self.problem("signature", name, f"is a {type(function).__name__}, not a method", right)
            return []
        signature = inspect.signature(function)
        try:
            (signature.bind if taking else signature.bind_partial)(self.cls, *handed)
        except TypeError as error:
            told = f"takes {signature}, and is called with {', '.join(handed)}: {error}"
            self.problem("signature", name, told, right)
            return []
        return list(signature.parameters)[1:]

    def _check_context(self, name: str, annotation: object) -> None:
        """The context is of its own state and placement, and of as much of the graph's as the class asks for."""
        worker = issubclass(self.cls, Worker)
        given = list(members(annotation))
        if any(self._is_context(one, worker) for one in given):
            return
        kind = "Context" if worker else "StageContext"
        right = f"{kind}[{shown(self.state)}]"
        why = f"its state is {shown(self.state)}"
        states, shares = {shown(a) for c in given for a in get_args(c)[:1]}, [a for c in given for a in get_args(c)[1:]]
        if worker and any((get_origin(c) or c) is StageContext for c in given):
            why = "a worker may not write elsewhere"
        elif shares and states == {shown(self.state)}:
            needs = "nothing" if self.shared is object else shown(self.shared)
            why = f"it asks for {shown(shares[0])} of the graph's context (this node: {needs})"
            right = f"{right}`, or `class {self.cls.__name__}({self.kind()}[..., {shown(shares[0])}])"
        self.problem("wrong-context", name, f"takes {shown(annotation)}, and {why}", f"Write `ctx: {right}`.")

    def _is_context(self, annotation: object, worker: bool) -> bool:  # noqa: FBT001  follows from the class
        if annotation is Any or annotation is object:
            return True
        kinds = (Context,) if worker else (Context, StageContext)
        given = get_args(annotation)
        state, shared = given[0] if given else Any, given[1] if len(given) > 1 else object
        return (
            (get_origin(annotation) or annotation) in kinds
            and (state is Any or is_open(state) or state == self.state)
            and (is_open(shared) or all(_is_one_of(one, members(shared)) for one in members(self.shared)))
        )

    def kind(self) -> str:
        """The name of our kind that the class is of."""
        return next(c.__name__ for c in self.cls.__mro__ if c.__module__ == Node.__module__)

    def _check_taken(self, name: str, parameter: str, annotation: object) -> None:
        """The message, the output or the error that a hook is handed must be one that it takes."""
        worker = issubclass(self.cls, Worker)
        handed: tuple[object, ...] = {
            "on_enter": (Message, NoneType),
            "on_response": (str, *members(self.output)) if worker else (),
            "on_exit": tuple(members(self.output)) if worker else (),
            "on_error": (Exception,),
        }.get(name, ())
        takes = tuple(members(annotation))
        missed = [one for one in dict.fromkeys(handed) if Any not in takes and not _is_one_of(one, takes)]
        if missed:
            told = f"takes {parameter}: {shown(annotation)}, and may be handed {' or '.join(map(shown, missed))}"
            wanted = " | ".join(map(shown, dict.fromkeys(handed)))
            self.problem("override", name, told, f"Write `{parameter}: {wanted}`.")

    # -------------------------------------------------------------------------------- what it may return

    def _check_placement(self, name: str, origin: Origin, said: Returns) -> None:
        placement = self.cls.placement
        refused = [kind.__name__ for kind in said.kinds if not permits(origin, placement, kind)]
        role = f"{'an' if origin == 'error hook' else 'a'} {origin}"
        for kind in (*("None" if kind == "NoneType" else kind for kind in sorted(refused)), *said.others):
            self.problem(
                "placement",
                name,
                f"may return {kind}, which {role} in {placement} placement may not",
                f"It may return: {', '.join(TABLE[origin, placement].names)}.",
            )


def _is_one_of(given: object, wanted: Iterable[object]) -> bool:
    """Whether a value of type `given` may stand where one of the types `wanted` is asked for."""
    wanted = tuple(wanted)
    if given is Any or given in wanted or object in wanted:
        return True
    if get_origin(given) is Literal:
        return all(type(value) in wanted for value in get_args(given))
    plain = str if given is LiteralString else getattr(given, "__supertype__", given)
    return isinstance(plain, type) and any(isinstance(one, type) and issubclass(plain, one) for one in wanted)
