"""What `module:name` or `file.py:name` names on the command line, and how a refusal ends a command."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, Final, TextIO, TypeAlias, final

from ezgraph.errors import DefinitionError
from ezgraph.graph import Graph
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.shapes import is_text

FINE: Final = 0
PROBLEMS: Final = 1
MISUSED: Final = 2
GONE: Final = 141

Target: TypeAlias = Graph[Any] | CompiledGraph


@final
class Refused(Exception):  # noqa: N818  named for what happened, as the library's own errors are
    """A command cannot be carried out.

    Attributes:
        code: The exit code.
    """

    def __init__(self, text: str, code: int = MISUSED) -> None:
        self.code = code
        super().__init__(text)


def hint(text: str) -> None:
    """Say on stderr what is no answer."""
    if sys.stderr is not None:  # else `print` would take it for an answer
        print(text, file=sys.stderr, flush=True)


def answer(text: str, end: str = "\n") -> None:
    """Say on stdout what was asked for.

    Raises:
        Refused: It cannot be written.
        BrokenPipeError: Nobody reads it.
    """
    with output():
        print(text, end=end)


@contextmanager
def output() -> Iterator[None]:
    """Around what is written to stdout: where that cannot be, it is said so."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        forget_output()
        raise Refused(f"standard output cannot be written: {error.strerror or error}.", PROBLEMS) from None


def forget_output() -> None:
    """Drop what is still buffered: it must not fail again when the interpreter closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_TEXTS: Final = {
    "graph": "--graph",
    "cursor": "--cursor",
    "after": "--after",
    "session": "--session",
    "ids": "the session id",
}
"""The arguments that name what stands in a store, where all text is UTF-8."""


def read_texts(given: Namespace) -> None:
    """Make text of the arguments that are: under a locale of another encoding the interpreter has not read them.

    Raises:
        Refused: One is not UTF-8.
    """
    for name, told in _TEXTS.items():
        written = getattr(given, name, None)
        if isinstance(written, str):
            setattr(given, name, _text(told, written))
        elif written:
            setattr(given, name, [_text(told, one) for one in written])


def _text(told: str, written: str) -> str:
    if is_text(written):
        return written
    try:
        return os.fsencode(written).decode()
    except UnicodeError:
        raise Refused(f"{told} {written!a} is not UTF-8 text.") from None


def standard_input() -> TextIO:
    """What a command reads from.

    Raises:
        Refused: It is closed.
    """
    if sys.stdin is None:
        raise Refused("standard input is closed: this command reads from it.", PROBLEMS)
    return sys.stdin


def target_of(text: str) -> Target:
    """What `module:name` or `file.py:name` names.

    Raises:
        Refused: There is no such thing, or it is no graph.
        DefinitionError: The module compiles a wrong graph.
    """
    where, colon, name = text.rpartition(":")
    if not colon or "/" in name or os.sep in name:  # C:\claims.py has a colon, and no name
        where, name = text, ""
    module = _loaded(where)
    graphs = [key for key, value in vars(module).items() if isinstance(value, Graph | CompiledGraph)]
    there = f"Its graphs: {', '.join(f'{where}:{key}' for key in graphs)}." if graphs else f"{where} has no graph."
    if not name:
        raise Refused(f"{text} names no graph: write module:name or file.py:name. {there}")
    if not hasattr(module, name):
        near = get_close_matches(name, vars(module), n=3)
        raise Refused(f"{where} has no {name}. " + (f"Did you mean {' or '.join(near)}?" if near else there))
    found = getattr(module, name)
    if isinstance(found, Graph | CompiledGraph):
        return found
    raise Refused(f"{text} is of type {type(found).__name__}, neither a Graph nor a compiled one. {there}")


def _loaded(where: str) -> ModuleType:
    path = Path(where)
    if path.suffix == ".py" or "/" in where or os.sep in where:
        if not path.is_file():
            near = get_close_matches(path.name, [found.name for found in path.parent.glob("*.py")], n=3)
            raise Refused(f"there is no file {where}." + (f" Did you mean {' or '.join(near)}?" if near else ""))
        return _imported(where, path.resolve().parent, lambda: _of_file(path))
    if not all(part.isidentifier() for part in where.split(".")):
        raise Refused(f"{where!r} is no module: write module:name or file.py:name, such as claims.py:app.")
    folder = Path.cwd()
    return _imported(where, folder, lambda: importlib.import_module(where))


def _of_file(path: Path) -> ModuleType:
    name = f"_target_{path.stem}"  # a file may have the name of a module that something else imports
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise Refused(f"{path} is no Python file.")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _imported(where: str, folder: Path, run: Callable[[], ModuleType]) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        with redirect_stdout(sys.stderr):  # what a module prints is no answer of ours
            return run()
    except (Refused, DefinitionError):
        raise
    except SystemExit as error:
        mend = 'Put what it runs under `if __name__ == "__main__":`.'
        raise Refused(f"{where} ends the program when it is imported. {mend}", PROBLEMS) from error
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{where}.".startswith(f"{error.name}."):
            raise Refused(f"there is no module {error.name} here or among what is installed.") from None
        raise Refused(f"{where} cannot be imported:\n{_place(error, folder)}", PROBLEMS) from error


def _place(error: Exception, folder: Path) -> str:
    """The error with the line that it comes from: the deepest one of the target's own."""
    said = f"  {type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    if isinstance(error, SyntaxError):
        return f"  {error.filename}, line {error.lineno}\n    {(error.text or '').strip()}\n{said}"
    library = Path(__file__).parents[1]
    frames = [frame for frame in extract_tb(error.__traceback__) if not Path(frame.filename).is_relative_to(library)]
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    shown = (own or frames)[-1]
    return f"  {shown.filename}, line {shown.lineno}\n    {shown.line}\n{said}"


def compiled_of(text: str, command: str) -> CompiledGraph:
    """The compiled graph that is named; a graph alone has no store and no model.

    Raises:
        Refused: There is none, or it is not compiled.
        DefinitionError: The module compiles a wrong graph.
    """
    target = target_of(text)
    if isinstance(target, CompiledGraph):
        return target
    name = text.rpartition(":")[2]
    raise Refused(
        f"{text} is a Graph, and {command} takes a compiled one. "
        f"Write app = {name}.compile(model=...) beside it, and name app."
    )
