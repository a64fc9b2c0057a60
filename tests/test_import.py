"""What `import ezgraph` loads, and what it offers: a guarded public surface."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import ezgraph

FORBIDDEN = ("asyncio", "sqlite3", "socket", "http", "ssl", "email", "urllib.request", "pytest", "hypothesis", "mypy")
MODULES = sorted(m.name for m in pkgutil.walk_packages(ezgraph.__path__, "ezgraph.") if not m.name.endswith("__main__"))
PACKAGES = ("ezgraph", "ezgraph.models", "ezgraph.errors")


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after `statement`."""
    script = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import ezgraph", "import ezgraph.models", "from ezgraph import *"])
def test_importing_it_loads_nothing_that_nobody_asked_for(statement: str) -> None:
    loaded = loaded_by(statement)
    assert "ezgraph" in loaded
    assert not {name for name in loaded if name in FORBIDDEN or name.partition(".")[0] in FORBIDDEN}


def test_importing_it_writes_nothing_and_starts_nothing() -> None:
    script = "import threading, ezgraph; print(threading.active_count())"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize("package", PACKAGES)
def test_the_public_names_are_sorted_complete_and_importable(package: str) -> None:
    module = importlib.import_module(package)
    names: list[str] = list(module.__all__)
    constants = [name for name in names if name.isupper()]
    classes = [name for name in names if name[0].isupper() and not name.isupper()]
    functions = [name for name in names if name[0].islower()]
    assert names == sorted(constants) + sorted(classes) + sorted(functions)
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(module, name, None) is not None, name
    imported = {
        alias.asname or alias.name
        for node in ast.parse(Path(str(module.__file__)).read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    }
    defined = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == package}
    assert {name for name in imported | defined if not name.startswith("_")} == set(names)


def test_every_public_name_says_what_it_is() -> None:
    for name in ezgraph.__all__:
        value = getattr(ezgraph, name)
        if isinstance(value, type) or inspect.isfunction(value):
            assert (value.__doc__ or "").strip(), name


def test_every_error_is_public_and_one_of_ours() -> None:
    errors = importlib.import_module("ezgraph.errors")
    for name in errors.__all__:
        value = getattr(errors, name)
        assert getattr(ezgraph, name) is value
        if isinstance(value, type) and issubclass(value, BaseException):
            assert issubclass(value, ezgraph.EzGraphError)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_can_be_imported_first(module: str) -> None:
    """No import order is needed, so no cycle is hidden by one."""
    assert module in loaded_by(f"import {module}")
