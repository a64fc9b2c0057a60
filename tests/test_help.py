"""Every public name says what it is, to `help` and to `inspect.signature`."""

from __future__ import annotations

import importlib
import inspect
import pydoc

import pytest

import ezgraph

MODULES = (
    "ezgraph.models",
    "ezgraph.restoring",
    "ezgraph.runtime.events",
    "ezgraph.stores.contract",
    "ezgraph.stores.memory",
    "ezgraph.stores.migrations",
    "ezgraph.stores.sqlite",
)


def public() -> dict[str, object]:
    """The public classes and functions, by their full names."""
    found = {f"ezgraph.{name}": getattr(ezgraph, name) for name in ezgraph.__all__}
    for module in map(importlib.import_module, MODULES):
        mine = {name: value for name, value in vars(module).items() if name[0] != "_"}
        found |= {f"{module.__name__}.{name}": value for name, value in mine.items()}
    return {
        name: value
        for name, value in found.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("ezgraph")
    }


@pytest.mark.parametrize("name", sorted(public()))
def test_m2_every_public_name_has_a_signature_a_help_and_a_docstring(name: str) -> None:
    value = public()[name]
    assert (value.__doc__ or "").strip()
    assert inspect.signature(value) is not None  # type: ignore[arg-type]
    assert name.rpartition(".")[2] in pydoc.render_doc(value)
    for method, function in inspect.getmembers(value, inspect.isfunction):
        if not method.startswith("_") and function.__module__.startswith("ezgraph"):
            assert inspect.signature(function) is not None
            assert (inspect.getdoc(function) or "").strip(), method
