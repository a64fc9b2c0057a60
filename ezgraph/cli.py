"""The command line: `check`, `draw` and `chat`, for a graph in a module or a file.

Answers go to stdout and hints to stderr.  Exit codes: 0 fine, 1 the graph or the run has problems, 2 the command is
wrong.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import io
import os
import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Final, TypeAlias, final

from ezgraph.compilation import plan_of
from ezgraph.drawing import mermaid
from ezgraph.errors import DefinitionError, EzGraphError, InvalidInput, UnfinishedWork
from ezgraph.graph import Graph
from ezgraph.plan import Plan
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.session import END, Session, Turn

FINE: Final = 0
PROBLEMS: Final = 1
MISUSED: Final = 2

DEFAULT_SESSION: Final = "default"

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


def main(arguments: list[str] | None = None) -> int:
    """Carry out a command and return its exit code.

    Args:
        arguments: What stands after the program's name; by default the process's own.

    Raises:
        SystemExit: The arguments are wrong (code 2), or ask for help (code 0).
    """
    given = _parser().parse_args(arguments)
    try:
        code: int = given.run(given)
        sys.stdout.flush()
    except Refused as refused:
        _hint(f"ezgraph: {refused}")
        return refused.code
    except DefinitionError as error:
        print(error)
        return PROBLEMS
    except BrokenPipeError:
        # Whoever read has gone.  What is still buffered must not fail again when the interpreter closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PROBLEMS
    except KeyboardInterrupt:
        return FINE
    return code


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="ezgraph",
        description="Check, draw or try a graph.",
        epilog="Exit codes: 0 fine, 1 the graph or the run has problems, 2 the command is wrong.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, told in (
        ("check", _check, "say what is wrong with a graph"),
        ("draw", _draw, "print a graph as a Mermaid flowchart"),
        ("chat", _chat, "talk to a compiled graph, a line a turn"),
    ):
        command = commands.add_parser(name, help=told, description=told.capitalize(), allow_abbrev=False)
        command.add_argument("target", metavar="TARGET", help="module:name or file.py:name")
        command.set_defaults(run=run)
        if run is _chat:
            command.add_argument("--session", metavar="ID", default=DEFAULT_SESSION, help="default: %(default)s")
    return parser


def _hint(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------------------------- check and draw


def _check(given: Namespace) -> int:
    plan = _plan(_target(given.target))
    workers = [node for node, spec in plan.nodes.items() if spec.placement == "internal"]
    stages = [node for node in plan.nodes if node not in workers]
    print(f"ok: graph {plan.graph!r} begins at {plan.entry}")
    for what, names in (("stages", stages), ("workers", workers)):
        print(f"{what}: {len(names)}" + (f" ({', '.join(names)})" if names else ""))
    print(f"edges: {len(plan.arrows)}")
    return FINE


def _draw(given: Namespace) -> int:
    print(mermaid(_plan(_target(given.target))), end="")
    return FINE


def _plan(target: Target) -> Plan:
    return target.plan if isinstance(target, CompiledGraph) else plan_of(target.definition)


# ----------------------------------------------------------------------------------------------------------------- chat


def _chat(given: Namespace) -> int:
    target = _target(given.target)
    if not isinstance(target, CompiledGraph):
        name = given.target.rpartition(":")[2]
        raise Refused(f"{given.target} is a Graph, and chat takes a compiled one: app = {name}.compile(model=...).")
    return chat(target, given.session)


def chat(app: CompiledGraph, session: str = DEFAULT_SESSION) -> int:
    """Bring every line of stdin into a session and print the replies, until input, session or patience ends.

    Work that an earlier run left unfinished is done first.  A turn that fails is told on stderr, and the chat goes on.

    Args:
        app: The graph.
        session: The session's id.

    Returns:
        The exit code: 1 where a turn failed.

    Raises:
        BrokenPipeError: Nobody reads stdout any more.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with asyncio.Runner() as runner:  # one loop for all turns: what a model or a store opens stays usable
        conversation = _Chat(app, session, runner)
        try:
            conversation.hold()
        except KeyboardInterrupt:
            if sys.stdin.isatty():
                _hint("")
        return conversation.code


@final
class _Chat:
    """One chat; `code` is its exit code so far."""

    def __init__(self, app: CompiledGraph, session: str, runner: asyncio.Runner) -> None:
        self.app, self.session, self.runner = app, session, runner
        self.code = FINE

    def hold(self) -> None:
        if sys.stdin.isatty():
            _hint(f"session {self.session!r}; end with Ctrl-D")
        if self._attempt(self._resumed) is True:
            return
        while line := self._line():
            text = line.strip()
            if not text:
                _hint("(an empty line is not sent)")
            elif self._attempt(lambda text=text: self._turn(text)) is True:
                return

    @staticmethod
    def _line() -> str:
        if sys.stdin.isatty():
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line and sys.stdin.isatty():
            _hint("")
        return line
