"""The members of a union, and what tells its classes apart in JSON: a tag, or fields that no other has.  Rule D2."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

from attrs import NOTHING, Attribute

from ezgraph.fields import bare

Classes: TypeAlias = "Mapping[Any, Sequence[Attribute[Any]]]"
"""The classes of a union, each with its fields."""


def is_union(tp: Any) -> bool:
    """Whether it is a union, as it is written."""
    return get_origin(tp) in (Union, types.UnionType)


def members_of(tp: Any) -> list[Any]:
    """The members of a union, those of unions in it (behind a NewType) too."""
    if is_union(bare(tp)):
        return [one for member in get_args(bare(tp)) for one in members_of(member)]
    return [tp]


def tag_of(classes: Classes) -> tuple[str, dict[str, Any]] | None:
    """The field by which each class is told: its name, and the class of each of its texts.

    It is the first that every class has as a `Literal` of texts that no other class has there, with a default or not.
    """
    tags = [{one.name: _texts(one.type) for one in fields} for fields in classes.values()]
    for name in tags[0]:
        texts = [(text, cls) for cls, of in zip(classes, tags, strict=True) for text in of.get(name, ())]
        if all(of.get(name) for of in tags) and len(dict(texts)) == len(texts):
            return name, dict(texts)
    return None


def own_fields(classes: Classes) -> dict[Any, list[str]] | None:
    """The required fields of each class that no other has at all; None where one class has none."""
    names = {cls: {one.name for one in fields} for cls, fields in classes.items()}
    own = {
        cls: [
            one.name
            for one in fields
            if one.default is NOTHING and not any(one.name in names[other] for other in classes if other is not cls)
        ]
        for cls, fields in classes.items()
    }
    return own if all(own.values()) else None


def _texts(tp: Any) -> tuple[str, ...]:
    """What a literal of nothing but texts allows."""
    values = get_args(bare(tp)) if get_origin(bare(tp)) is Literal else ()
    return values if all(type(value) is str for value in values) else ()
