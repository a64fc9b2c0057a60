"""What a class says in its annotations: its type arguments through generic bases, and where its handlers may lead.

Everything here reads classes and returns values or flaws; whether a flaw is an error is for `ezgraph.compilation`.
"""

from __future__ import annotations

import collections.abc
import typing
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, TypeAlias, Union, final, get_args, get_origin, get_type_hints

import typing_extensions
from attrs import frozen

from ezgraph.nodes import Node, Stage, Worker
from ezgraph.responses import RESPONSES, DirectTo, Fanout, Go, TaskResult

Bindings: TypeAlias = Mapping[type, Mapping[object, object]]
"""For each class among a class's ancestors, what its type variables stand for, seen from that class."""

_ALIASES = (typing_extensions.TypeAliasType, getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType))
_PROMISES = (collections.abc.Awaitable, collections.abc.Coroutine)


@final
@frozen
class AnnotationFlaw:
    """Why an annotation cannot be read.

    Attributes:
        kind: A short stable name.
        what: What is wrong.
        mend: What to write instead.
    """

    kind: Literal["missing-annotation", "unresolvable-annotation", "vague-annotation"]
    what: str
    mend: str


@final
@frozen
class Way:
    """One way out that a return annotation declares: a `Go[T]`, a `DirectTo[T]`, or a whole `Fanout[A | B]`."""

    response: type
    targets: tuple[type[Node[Any, Any]], ...]

    def __str__(self) -> str:
        return f"{self.response.__name__}[{' | '.join(t.__name__ for t in self.targets)}]"


@final
@frozen
class Returns:
    """What a return annotation says.

    Attributes:
        kinds: The types that may be returned: responses, `str`, `NoneType`.
        ways: The ways out, in the order written.
        outputs: The types that a `TaskResult` may carry.
        others: Members that are no response at all, as text.
        flaws: What cannot be read.
    """

    kinds: frozenset[type]
    ways: tuple[Way, ...]
    outputs: tuple[object, ...]
    others: tuple[str, ...]
    flaws: tuple[AnnotationFlaw, ...]


def bindings(cls: type) -> Bindings:
    """What the type variables of every generic ancestor stand for, seen from `cls`."""
    found: dict[type, Mapping[object, object]] = {}

    def walk(owner: type, known: Mapping[object, object]) -> None:
        for base in vars(owner).get("__orig_bases__", owner.__bases__):
            origin = get_origin(base) or base
            parameters = getattr(origin, "__parameters__", ())
            arguments = [substituted(_resolved(owner, a), known) for a in get_args(base)]
            defaults = [getattr(p, "__default__", p) for p in parameters[len(arguments) :]]
            mine = dict(zip(parameters, [*arguments, *defaults], strict=False))
            if origin is not typing_extensions.Generic and isinstance(origin, type):
                found.setdefault(origin, mine)
                walk(origin, mine)

    walk(cls, {})
    return found


def _resolved(owner: type, annotation: object) -> object:
    """A type argument written as a string, looked up where the class stands; left as it is where that fails."""
    if not isinstance(annotation, str | ForwardRef):
        return annotation
    holder = type("holder", (), {"__module__": owner.__module__, "__annotations__": {"it": annotation}})
    try:
        return get_type_hints(holder, include_extras=True)["it"]
    except (NameError, AttributeError, SyntaxError, TypeError):
        return annotation


def substituted(annotation: object, known: Mapping[object, object]) -> object:
    """`annotation` with type variables replaced by what they stand for."""
    if isinstance(annotation, typing.TypeVar | typing_extensions.TypeVar):
        return known.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if parameters and not isinstance(annotation, type) and any(p in known for p in parameters):
        return annotation[tuple(known.get(p, p) for p in parameters)]  # type: ignore[index]
    return annotation


def hints_of(cls: type, function: Callable[..., object], known: Bindings) -> dict[str, object] | AnnotationFlaw:
    """The resolved annotations of a method, with the type variables of the class that defines it replaced."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        return AnnotationFlaw(
            "unresolvable-annotation",
            f"the name {error.name!r} in an annotation does not resolve at run time",
            f"Import {error.name} at the top of the module, not only for typing, and not inside a function.",
        )
    except (AttributeError, SyntaxError, TypeError) as error:
        return AnnotationFlaw(
            "unresolvable-annotation", f"an annotation does not resolve: {error}", "Write a type that exists."
        )
    owner = next((c for c in cls.__mro__ if function in vars(c).values()), cls)
    mine = known.get(owner, {})
    return {name: substituted(hint, mine) for name, hint in hints.items()} if mine else hints


def returns_of(hints: Mapping[str, object]) -> Returns:
    """What the return annotation among `hints` says, in whatever equivalent spelling."""
    if "return" not in hints:
        flaw = AnnotationFlaw(
            "missing-annotation",
            "there is no return annotation, so where it may lead cannot be read",
            "Write what it returns, such as `-> Go[Approval] | Stay`.",
        )
        return Returns(frozenset(), (), (), (), (flaw,))
    kinds: list[type] = []
    ways: list[Way] = []
    outputs: list[object] = []
    others: list[str] = []
    flaws: list[AnnotationFlaw] = []
    for member in members(hints["return"]):
        origin = get_origin(member) or member
        if origin is TaskResult:
            outputs.extend(get_args(member) or (Any,))
        if origin in {Go, DirectTo, Fanout}:
            _read_ways(origin, member, ways, flaws)
        if origin in {*RESPONSES, str, NoneType}:
            kinds.append(origin)
        elif origin in {Any, object}:
            flaws.append(_vague(shown(member), "the responses one by one"))
        else:
            others.append(shown(member))
    return Returns(frozenset(kinds), tuple(dict.fromkeys(ways)), tuple(outputs), tuple(others), tuple(flaws))


def _read_ways(origin: Any, member: object, ways: list[Way], flaws: list[AnnotationFlaw]) -> None:
    kind: type = Worker if origin is Fanout else Stage
    targets: list[type[Node[Any, Any]]] = []
    for target in [t for argument in get_args(member) for t in members(argument)]:
        if isinstance(target, type) and issubclass(target, Node) and not _is_kind(target):
            targets.append(target)
        else:
            example = "Fanout[Valuation | FraudCheck]" if kind is Worker else f"{origin.__name__}[Approval]"
            flaws.append(_vague(shown(member), f"the classes it may lead to, such as `{example}`"))
            return
    if not targets:
        flaws.append(_vague(origin.__name__, f"the classes it may lead to, such as `{origin.__name__}[...]`"))
    elif origin is Fanout:
        ways.append(Way(origin, tuple(dict.fromkeys(targets))))
    else:
        ways.extend(Way(origin, (target,)) for target in targets)


def _is_kind(target: type) -> bool:
    """Whether it is one of our own kinds, which names no node."""
    return target.__module__ == Node.__module__


def _vague(text: str, instead: str) -> AnnotationFlaw:
    return AnnotationFlaw("vague-annotation", f"`{text}` does not say where it may lead", f"Name {instead}.")


def members(annotation: object) -> Iterator[object]:
    """The members of a union, through aliases, `Annotated`, promises and nested unions; a single type gives itself."""
    origin = get_origin(annotation)
    if origin in {Union, UnionType}:
        for member in get_args(annotation):
            yield from members(member)
    elif origin is Annotated:
        yield from members(get_args(annotation)[0])
    elif isinstance(annotation, _ALIASES):
        yield from members(annotation.__value__)
    elif isinstance(origin, _ALIASES):
        yield from members(
            substituted(origin.__value__, dict(zip(origin.__parameters__, get_args(annotation), strict=True)))
        )
    elif origin in _PROMISES:
        yield from members(get_args(annotation)[-1])
    else:
        yield NoneType if annotation is None else annotation


def shown(annotation: object) -> str:
    """An annotation as an author writes it."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return "None" if annotation is NoneType else annotation.__name__
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, UnionType}:
        return " | ".join(map(shown, arguments))
    if isinstance(origin, type) and arguments:
        return f"{origin.__name__}[{', '.join(map(shown, arguments))}]"
    return str(annotation).removeprefix("typing.")
