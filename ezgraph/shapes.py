"""Which types a state, an output or a graph's context may have, and the check of a value against one.

A type is read one level at a time, as a shape; what is asked of a type here (flaws, check, initial value) and in the
codec (dump, load) are folds over its shapes.  How a type is read is `ezgraph.records`'s.  Rules F3, F8, L4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, time, timezone
from decimal import Decimal
from typing import Any, Final, TypeAlias, final

from attrs import NOTHING, Factory, frozen
from immutables import Map
from typing_extensions import TypeAliasType

from ezgraph.errors.words import quoted
from ezgraph.fields import Wrong, describe
from ezgraph.numbers import MAX_BITS, is_kept
from ezgraph.records import Bag, Choice, Enumeration, Leaf, Many, Maybe, OneOf, Pack, Record, Table, kinds_of, shape_of
from ezgraph.responses import UNSET

MAX_DEPTH: Final = 100
"""Values nested in a value, one in another.  A type that holds itself could give more than can be loaded.  Rule L4."""

Mismatch: TypeAlias = tuple[str, str, str]
"""Where (from `$`), what is expected there, what was found."""

Test: TypeAlias = Callable[[Any], bool]


@final
@frozen
class Flaw:
    """One part of a type that a session cannot keep.

    Attributes:
        path: Where in the type, from `$`: `$.items[*].price`.
        what: What is wrong.
        mend: What to write instead.
    """

    path: str
    what: str
    mend: str


def flaws(tp: object) -> tuple[Flaw, ...]:
    """Everything in `tp` that a session cannot keep; empty where it can keep all values of it.  Rules F3, L4."""
    return tuple(_flaws(tp, "$", []))


def _flaws(  # noqa: C901, PLR0912  an arm for each shape
    tp: object, path: str, seen: list[object], above: tuple[object, ...] = ()
) -> Iterable[Flaw]:
    """Flaws of a type within the aliases `above`, up to the next record."""
    if isinstance(tp, TypeAliasType):
        if tp in above:
            yield Flaw(path, f"{describe(tp)} holds itself outside a class", "Write a frozen attrs class that does.")
            return
        above = (*above, tp)
    shape = shape_of(tp)
    match shape:
        case Wrong():
            yield Flaw(path, shape.what, shape.mend)
        case Maybe(item):
            yield from _flaws(item, path, seen, above)
        case Many(item):
            yield from _flaws(item, f"{path}[*]", seen, above)
        case OneOf(items):
            for item in items.values():
                yield from _flaws(item, path, seen, above)
        case Table(key, item):
            if not isinstance(shape_of(key), Leaf | Enumeration | Choice | Wrong):
                told = f"{describe(tp)} has keys that are not plain values"
                yield Flaw(path, told, f"Write tuple[tuple[{describe(key)}, {describe(item)}], ...].")
            else:
                yield from _flaws(key, f"{path}[key]", seen, above)
            yield from _flaws(item, f"{path}[*]", seen, above)
        case Bag(item):
            if not isinstance(shape_of(item), Leaf | Enumeration | Choice | Wrong):
                told = f"frozenset[{describe(item)}] has members that are not plain values"
                yield Flaw(path, told, f"Write tuple[{describe(item)}, ...].")
            else:
                yield from _flaws(item, f"{path}[*]", seen, above)
        case Pack(items):
            for index, item in enumerate(items):
                yield from _flaws(item, f"{path}[{index}]", seen, above)
        case Record() if shape not in seen:
            seen.append(shape)
            for field in shape.fields:
                inner = tuple(_flaws(field.type, f"{path}.{field.name}", seen))
                yield from inner
                plain = field.default is not NOTHING and not isinstance(field.default, Factory)  # type: ignore[arg-type]
                if plain and not inner and (wrong := explain(field.type, field.default)):
                    told = f"the default is {wrong[2]}, and the type is {wrong[1]}"
                    yield Flaw(f"{path}.{field.name}{wrong[0][1:]}", told, "Give a default of that type.")
        case _:
            pass


def initial(tp: object) -> object:
    """The value of `tp` built with no arguments, None for an optional type, `UNSET` where there is none.  Rule F8."""
    shape = shape_of(tp)
    match shape:
        case Maybe():
            return None
        case Leaf(cls) | Record(cls):
            make: Callable[[], object] = type(None) if cls is type(None) else cls
        case Many():
            make = tuple
        case Bag():
            make = frozenset
        case Table():
            make = Map
        case _:
            return UNSET
    try:
        value = make()
    except Exception:  # noqa: BLE001  an author's validator may raise anything; it means there is no such value
        return UNSET
    return UNSET if explain(tp, value) else value


# ------------------------------------------------------------------------------------------------------------ the check


def checker(tp: object) -> Callable[[object], Mismatch | None]:
    """A function that says where a value is not of `tp`, or None.  Exact to the last field.  Rule F3.

    A subclass is not its base: a load could not tell.  Nor are a bool an int, an int a float, a NaN a number.

    Args:
        tp: A type without flaws.

    Raises:
        TypeError: It has some.
    """
    if wrong := flaws(tp):
        raise TypeError(f"{describe(tp)}: {wrong[0].path}: {wrong[0].what}. {wrong[0].mend}")
    return _Tests().explained(tp)


def is_text(text: str) -> bool:
    """Whether UTF-8 can encode it: a lone surrogate cannot be stored."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_fixed(moment: datetime | time) -> bool:
    zone = moment.tzinfo
    if zone is None or zone is UTC:
        return not moment.fold
    # Python writes an offset of less than a second, and does not read it.
    return not moment.fold and type(zone) is timezone and not zone.utcoffset(None).microseconds


# What a value of a scalar type must be besides, to come back equal.
LEAF_TESTS: Final[dict[type, tuple[Test, str]]] = {
    int: (is_kept, f"of less than {MAX_BITS + 1:,} bits"),
    str: (is_text, "text that UTF-8 can encode"),
    float: (math.isfinite, "a finite number"),
    Decimal: (Decimal.is_finite, "a finite number"),
    datetime: (_is_fixed, "naive or with a fixed offset in seconds (write moment.astimezone(timezone.utc))"),
    time: (_is_fixed, "naive or with a fixed offset in seconds"),
}


@final
class _Tests:
    """Builds the test of a type as one Python expression: several times faster than a closure for each field.

    The source holds nothing of the author's but names of fields; classes and values stand in its namespace.
    """

    def __init__(self) -> None:
        self._names: dict[str, object] = {"all": all, "len": len, "map": map, "tuple": tuple, "type": type}
        self._functions: dict[object, str] = {}
        self._variables = 0

    def compiled(self, tp: object) -> Test:
        """A function that says whether its argument is of `tp`."""
        test: Test = eval(f"lambda value: {self._source(tp, 'value', 'value', 0)}", self._names)  # noqa: S307
        return test

    def explained(self, tp: object) -> Callable[[object], Mismatch | None]:
        """A function that says where its argument is not of `tp`, or None."""
        shallow = f"not {self._named(_too_deep)}(value) and " if _holds_itself(tp, []) else ""
        why = f"{self._named(explain)}({self._named(tp)}, value)"
        source = f"lambda value: None if {shallow}{self._source(tp, 'value', 'value', 0)} else {why}"
        check: Callable[[object], Mismatch | None] = eval(source, self._names)  # noqa: S307
        return check

    def _further(self, cls: type, of: str) -> str:
        """The test of a scalar besides its type; a float, and most text, passes without a call."""
        if cls is float:
            return f"{of} - {of} == 0"  # neither infinite nor NaN
        test = f"{self._named(LEAF_TESTS[cls][0])}({of})"
        return f"({of}.isascii() or {test})" if cls is str else test

    def _named(self, value: object) -> str:
        name = f"_{len(self._names)}"
        self._names[name] = value
        return name

    def _source(self, tp: object, first: str, of: str, level: int) -> str:  # noqa: C901, PLR0911, PLR0912  an arm for each
        """An expression that tests the variable `of`, first mentioned as `first`, with `level` records around it."""
        shape = shape_of(tp)
        match shape:
            case Leaf(cls) if cls is int:
                return f"type({first}) is {self._named(int)} and {of}.bit_length() <= {MAX_BITS}"
            case Leaf(cls):
                further = f" and {self._further(cls, of)}" if cls in LEAF_TESTS else ""
                return f"type({first}) is {self._named(cls)}{further}"
            case Enumeration(cls):
                return f"type({first}) is {self._named(cls)}"
            case Choice(values):
                kinds = self._named(frozenset(map(type, values)))
                pairs = self._named(frozenset((type(value), value) for value in values))
                return f"type({first}) in {kinds} and (type({of}), {of}) in {pairs}"
            case Maybe(item):
                return f"(({first}) is None or {self._source(item, of, of, level)})"
            case Many(item):
                return f"type({first}) is tuple and all(map({self._function(item)}, {of}))"
            case Bag(item):
                return f"type({first}) is {self._named(frozenset)} and all(map({self._function(item)}, {of}))"
            case OneOf(items):
                inner = [
                    self._source(item, first if at == 0 else of, of, level) for at, item in enumerate(items.values())
                ]
                return f"({' or '.join(inner)})"
            case Table(key, item):
                tests = (
                    f"all(map({self._function(key)}, {of}.keys())) and all(map({self._function(item)}, {of}.values()))"
                )
                return f"type({first}) is {self._named(Map)} and {tests}"
            case Pack(items):
                places = [(f"{of}[{at}]", item) for at, item in enumerate(items)]
                return f"type({first}) is tuple and len({of}) == {len(items)}{self._parts(places, level)}"
            case Record() if level >= 3:  # deeper ones are called, so that the source stays in proportion
                return f"{self._function(tp)}({first})"
            case Record():
                places = [
                    (f"{of}[{at}]" if shape.is_tuple else f"{of}.{field.name}", field.type)
                    for at, field in enumerate(shape.fields)
                ]
                return f"type({first}) is {self._named(shape.cls)}{self._parts(places, level)}"
            case Wrong():
                raise TypeError(shape.what)

    def _parts(self, places: Iterable[tuple[str, object]], level: int) -> str:
        tests = []
        for place, tp in places:
            self._variables += 1
            variable = f"v{self._variables}"
            tests.append(f" and {self._source(tp, f'{variable} := {place}', variable, level + 1)}")
        return "".join(tests)

    def _function(self, tp: object) -> str:
        """The name of a function that tests `tp`; of a type that holds itself, it may be in the making."""
        shape = shape_of(tp)
        key = shape.tag if isinstance(shape, Record) else tp if _is_hashable(tp) else object()
        if key not in self._functions:
            self._functions[key] = name = self._named(None)
            self._names[name] = self.compiled(tp)
        return self._functions[key]


def _is_hashable(tp: object) -> bool:
    """What `Annotated` says of a type need not be; in the fields of a record, which may hold itself, it is left out."""
    try:
        hash(tp)
    except TypeError:
        return False
    return True


def _holds_itself(tp: object, above: list[object]) -> bool:
    shape = shape_of(tp)
    match shape:
        case Maybe(item) | Many(item) | Bag(item) | Table(_, item):
            return _holds_itself(item, above)
        case OneOf(items):
            return any(_holds_itself(item, above) for item in items.values())
        case Pack(items):
            return any(_holds_itself(item, above) for item in items)
        case Record():
            inner = [*above, shape.tag]
            return shape.tag in above or any(_holds_itself(field.type, inner) for field in shape.fields)
        case _:
            return False


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [inner for outer in level for inner in _parts(outer)]
    return bool(level)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, tuple):
        return value
    if isinstance(value, Map):
        return value.values()
    return [getattr(value, a.name, None) for a in getattr(type(value), "__attrs_attrs__", ())]


# ------------------------------------------------------------------------------------------------ why it is refused


def explain(  # noqa: C901, PLR0911, PLR0912  an arm for each shape
    tp: object, value: object, path: str = "$"
) -> Mismatch | None:
    """Where `value` is not of `tp`, slowly: what a checker asks once it knows that something is wrong."""
    if path == "$" and _holds_itself(tp, []) and _too_deep(value):
        return path, f"nested at most {MAX_DEPTH} deep", "nested deeper"
    shape = shape_of(tp)
    match shape:
        case Leaf(cls):
            return _explain_leaf(cls, value, path)
        case Maybe(item):
            wrong = None if value is None else explain(item, value, path)
            return (
                (path, describe(tp), wrong[2]) if wrong and wrong[0] == path and wrong[1] == describe(item) else wrong
            )
        case Choice(values):
            kept = any(type(v) is type(value) and v == value for v in values)
            return None if kept else (path, describe(tp), _value(value))
        case Many(item) | Bag(item):
            container = tuple if isinstance(shape, Many) else frozenset
            if type(value) is not container:
                return path, describe(tp), found(value)
            inner = enumerate(value) if container is tuple else (("*", v) for v in value)
            return _first(explain(item, v, f"{path}[{at}]") for at, v in inner)
        case OneOf(items):
            fitting = next((item for item in items.values() if type(value) in kinds_of(shape_of(item))), None)
            return (path, describe(tp), found(value)) if fitting is None else explain(fitting, value, path)
        case Table(key, item):
            if type(value) is not Map:
                return path, describe(tp), found(value)
            return _first(
                explain(key, k, f"{path}[key]") or explain(item, v, f"{path}[{_value(k)}]") for k, v in value.items()
            )
        case Pack(items):
            if type(value) is not tuple:
                return path, describe(tp), found(value)
            if len(value) != len(items):
                return path, describe(tp), f"a tuple of {len(value)}"
            return _first(
                explain(item, v, f"{path}[{at}]") for at, (item, v) in enumerate(zip(items, value, strict=True))
            )
        case Record():
            if type(value) is not shape.cls:
                return path, describe(tp), _found_instead(shape.cls, value)
            return _first(explain(f.type, getattr(value, f.name), f"{path}.{f.name}") for f in shape.fields)
        case Enumeration(cls):
            return None if type(value) is cls else (path, describe(tp), _value(value))
        case Wrong():
            return path, shape.mend, found(value)


def found(value: object) -> str:
    """What stands there, for a message: the type, and the value where that is short and plain."""
    return "None" if value is None else type(value).__name__


def _value(value: object) -> str:
    plain = value is None or type(value) in (str, int, bool, float)
    return f"{quoted(value):.60}" if plain else found(value)


def _explain_leaf(cls: type, value: object, path: str) -> Mismatch | None:
    name = "None" if cls is type(None) else cls.__name__
    if type(value) is not cls:
        if cls is float and type(value) is int:
            return path, name, f"int (write {value}.0)" if abs(value) < 10**6 else "int (write float(...))"
        return path, name, _found_instead(cls, value)
    if cls in LEAF_TESTS and not LEAF_TESTS[cls][0](value):
        return path, f"{name}, {LEAF_TESTS[cls][1]}", "longer" if cls is int else ascii(value)[:60]
    return None


def _found_instead(cls: type, value: object) -> str:
    beneath = isinstance(value, cls) and type(value) is not bool
    return f"{found(value)}, a subclass that a load could not tell from it" if beneath else found(value)


def _first(answers: Iterable[Mismatch | None]) -> Mismatch | None:
    return next((answer for answer in answers if answer), None)


__all__ = ["MAX_DEPTH", "Flaw", "Mismatch", "checker", "describe", "explain", "flaws", "initial", "is_text"]
