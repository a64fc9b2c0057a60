"""What a class says in its annotations: its type arguments through generic bases, and where its handlers may lead.

Everything here reads classes and returns values or flaws; whether a flaw is an error is for `ezgraph.compilation`.
"""

from __future__ import annotations

import collections.abc
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Literal,
    Never,
    NoReturn,
    TypeAlias,
    Union,
    cast,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

import typing_extensions
from attrs import frozen

from ezgraph.nodes import Node, Stage, Worker
from ezgraph.responses import RESPONSES, DirectTo, Fanout, Go, TaskResult

Bindings: TypeAlias = Mapping[type, Mapping[object, object]]
"""For each class among a class's ancestors, what its type variables stand for, seen from that class."""

_ALIASES = (typing_extensions.TypeAliasType, getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType))
_PROMISES = (collections.abc.Awaitable, collections.abc.Coroutine)
_VARIABLES = (typing.TypeVar, typing_extensions.TypeVar)


@final
@frozen
class AnnotationFlaw:
    """Why an annotation cannot be read.

    Attributes:
        kind: A short stable name.
        what: What is wrong.
        mend: What to write instead.
    """

    kind: Literal["missing-annotation", "unresolvable-annotation", "vague-annotation", "forbidden-route"]
    what: str
    mend: str


@final
@frozen
class Way:
    """One way out that a return annotation declares: a `Go[T]`, a `DirectTo[T]`, or a whole `Fanout[A | B]`.

    A `Fanout` is an opening by itself; of one worker, `Fanout[A]`, it is a scatter's.  Rules E2, E6.
    """

    response: type
    targets: tuple[type[Node[Any, Any]], ...]

    @property
    def scatters(self) -> bool:
        """Whether it opens one worker, once for each input."""
        return self.response is Fanout and len(self.targets) == 1

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
        flaws: What cannot be read, or leads where it may not.
        promised: Whether it is a promise of what it says, such as `Awaitable[Go[Approval]]`.
    """

    kinds: frozenset[type] = frozenset()
    ways: tuple[Way, ...] = ()
    outputs: tuple[object, ...] = ()
    others: tuple[str, ...] = ()
    flaws: tuple[AnnotationFlaw, ...] = ()
    promised: bool = False

    @property
    def declared(self) -> tuple[str, ...]:
        """What it says, as an author writes it."""
        plain = [shown(kind) for kind in (*RESPONSES, str, NoneType) if kind in self.kinds and kind not in _LEADING]
        return (*map(str, self.ways), *plain)


_LEADING = frozenset({Go, DirectTo, Fanout})


def bindings(cls: type) -> Bindings:
    """What the type variables of every generic ancestor stand for, seen from `cls`; one that is left open, itself."""
    found: dict[type, Mapping[object, object]] = {}

    def walk(owner: type, known: Mapping[object, object]) -> None:
        for base in vars(owner).get("__orig_bases__", owner.__bases__):
            origin = get_origin(base) or base
            if origin is typing.Generic or not isinstance(origin, type):
                continue
            mine: dict[object, object] = {}
            given = get_args(base)
            for index, parameter in enumerate(getattr(origin, "__parameters__", ())):
                default = _default(parameter)
                if index >= len(given) or (default is not parameter and given[index] == default):
                    mine[parameter] = substituted(default, mine)  # left out, or filled in by `typing` as it stands
                else:
                    mine[parameter] = substituted(_looked_up(owner, given[index]), known)
            if origin not in found or is_open(*found[origin].values()):
                found[origin] = mine
            walk(origin, mine)

    walk(cls, {})
    return found


def _default(parameter: Any) -> object:
    """What a type variable stands for where nothing is given: its default, else itself."""
    has_default: Callable[[], bool] = getattr(parameter, "has_default", lambda: False)
    return parameter.__default__ if has_default() else parameter


def is_open(*annotations: object) -> bool:
    """Whether one of them is a type variable that nothing is known of."""
    return any(isinstance(annotation, _VARIABLES) for annotation in annotations)


def _looked_up(owner: type, annotation: object) -> object:
    """A type argument with the names in its strings looked up where the class stands; a `ForwardRef` where that fails.

    Reading a class never raises: what does not resolve is for the caller to report.
    """
    try:
        return _resolved(annotation, owner.__module__)
    except Exception as error:  # noqa: BLE001  an annotation is an expression, and may raise anything
        return ForwardRef(error.name if isinstance(error, NameError) and error.name else shown(annotation))


def _resolved(annotation: object, module: str) -> object:
    """`annotation` with the names in its strings looked up in a module; raises whatever that raises."""
    holder = type("holder", (), {"__module__": module, "__annotations__": {"it": annotation}})
    return get_type_hints(holder, localns={}, include_extras=True)["it"]


def substituted(annotation: object, known: Mapping[object, object]) -> object:
    """`annotation` with type variables replaced by what they stand for."""
    if isinstance(annotation, _VARIABLES):
        return known.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if parameters and not isinstance(annotation, type) and any(p in known for p in parameters):
        return annotation[tuple(known.get(p, p) for p in parameters)]  # type: ignore[index]
    return annotation


def hints_of(cls: type, function: Callable[..., object], known: Bindings) -> dict[str, object] | AnnotationFlaw:
    """The resolved annotations of a method, with the type variables of the class that defines it replaced."""
    try:
        # `typing` keeps what a string once meant, in whatever module; names of its own make it look again.
        hints = get_type_hints(function, localns={}, include_extras=True)
    except Exception as error:  # noqa: BLE001  an annotation is an expression, and may raise anything
        return _unresolvable(error)
    owner = next((c for c in cls.__mro__ if any(v is function for v in vars(c).values())), cls)
    mine = known.get(owner, {})
    return {name: substituted(hint, mine) for name, hint in hints.items()} if mine else hints


def _unresolvable(error: Exception) -> AnnotationFlaw:
    kind: Literal["unresolvable-annotation"] = "unresolvable-annotation"
    if isinstance(error, NameError) and error.name:
        return AnnotationFlaw(
            kind,
            f"the name {error.name!r} in an annotation does not resolve at run time",
            f"Import {error.name} at the top of the module, not only for typing, and not inside a function.",
        )
    return AnnotationFlaw(kind, f"an annotation does not resolve: {error}", "Write a type that exists.")


def returns_of(hints: Mapping[str, object]) -> Returns:
    """What the return annotation among `hints` says, in whatever equivalent spelling."""
    if "return" not in hints:
        flaw = AnnotationFlaw(
            "missing-annotation",
            "there is no return annotation, so where it may lead cannot be read",
            "Write what it returns, such as `-> Go[Approval]` in a stage or `-> TaskResult[str]` in a worker.",
        )
        return Returns(flaws=(flaw,))
    reader = _ReturnReader()
    promised = False
    try:
        for member in members(hints["return"]):
            reader.read(member)
        promised = get_origin(unwrapped(hints["return"])) in _PROMISES
    except Exception as error:  # noqa: BLE001  the value of an alias is an expression, and may raise anything
        reader.flaws.append(_unresolvable(error))
    return Returns(
        frozenset(reader.kinds),
        tuple(dict.fromkeys(reader.ways)),
        tuple(reader.outputs),
        tuple(reader.others),
        tuple(reader.flaws),
        promised,
    )


class _ReturnReader:
    """Collects what the members of one return annotation say."""

    def __init__(self) -> None:
        self.kinds: list[type] = []
        self.ways: list[Way] = []
        self.outputs: list[object] = []
        self.others: list[str] = []
        self.flaws: list[AnnotationFlaw] = []

    def read(self, member: object) -> None:
        """Read one member: a response, a text, nothing, or what is none of them."""
        origin: Any = get_origin(member) or member
        if origin is TaskResult:
            self.outputs.extend(get_args(member) or (Any,))
        if origin in _LEADING:
            self._read_way(origin, member)
        if origin in {*RESPONSES, str, NoneType}:
            self.kinds.append(origin)
        elif origin in {Any, object}:
            self.flaws.append(_vague(shown(member), "the responses one by one"))
        else:
            self.others.append(shown(member))

    def _read_way(self, origin: Any, member: object) -> None:
        named = tuple(dict.fromkeys(t for argument in get_args(member) for t in members(argument)))
        example = "Fanout[Valuation | FraudCheck]" if origin is Fanout else f"{origin.__name__}[Approval]"
        if not named or not all(_is_node(target) for target in named):
            self.flaws.append(_vague(shown(member), f"the classes it may lead to, such as `{example}`"))
            return
        nodes = cast("tuple[type[Node[Any, Any]], ...]", named)
        kind, other = (Worker, Stage) if origin is Fanout else (Stage, Worker)
        for stray in (target for target in nodes if not issubclass(target, kind)):
            mend = (
                "A worker is reached by Fanout[A | B] or an edge." if kind is Stage else f"Write Go[{stray.__name__}]."
            )
            told = f"{origin.__name__}[{stray.__name__}] leads to a {other.__name__.lower()}"
            self.flaws.append(AnnotationFlaw("forbidden-route", told, mend))
        self.ways.extend([Way(origin, nodes)] if origin is Fanout else [Way(origin, (node,)) for node in nodes])


def _is_node(target: object) -> bool:
    """Whether it is an author's node: our own kinds name none."""
    return isinstance(target, type) and issubclass(target, Node) and target.__module__ != Node.__module__


def mentioned(function: Callable[..., object]) -> frozenset[str]:
    """The names in a handler's return annotation, as it is written, and in its code.

    Where an annotation cannot be read, these are the nodes it may lead to, as far as anybody can tell.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    written = re.findall(r"\w+", str(getattr(function, "__annotations__", {}).get("return", "")))
    return frozenset((*written, *code.co_names, *code.co_freevars) if code else written)


def _vague(text: str, instead: str) -> AnnotationFlaw:
    return AnnotationFlaw("vague-annotation", f"`{text}` does not say where it may lead", f"Name {instead}.")


def unwrapped(annotation: object) -> object:
    """An annotation without aliases and `Annotated` around it."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return unwrapped(get_args(annotation)[0])
    alias: Any = origin if isinstance(origin, _ALIASES) else annotation
    if not isinstance(alias, _ALIASES):
        return annotation
    value = _resolved(alias.__value__, str(alias.__module__))
    given = dict(zip(alias.__type_params__, get_args(annotation), strict=False))
    return unwrapped(substituted(value, {p: given.get(p, _default(p)) for p in alias.__type_params__}))


def members(annotation: object) -> Iterator[object]:
    """The members of a union, through aliases, `Annotated`, promises and nested unions; a single type gives itself."""
    annotation = unwrapped(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, UnionType}:
        for member in arguments:
            yield from members(member)
    elif origin in _PROMISES and arguments:
        yield from members(arguments[-1])
    elif annotation is not Never and annotation is not NoReturn:  # they are the union of nothing
        yield NoneType if annotation is None else annotation


def shown(annotation: object) -> str:
    """An annotation as an author writes it."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return "None" if annotation is NoneType else annotation.__name__
    if isinstance(annotation, ForwardRef | str):
        return annotation if isinstance(annotation, str) else annotation.__forward_arg__
    if annotation is Ellipsis:
        return "..."
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, UnionType}:
        return " | ".join(map(shown, arguments))
    if isinstance(origin, type) and arguments:
        return f"{origin.__name__}[{', '.join(map(shown, arguments))}]"
    return str(annotation).removeprefix("typing.").removeprefix("~")
