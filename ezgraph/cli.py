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
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Coroutine
from contextlib import redirect_stdout
from difflib import get_close_matches
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, Final, TypeAlias, final

from ezgraph.compilation import plan_of
from ezgraph.drawing import mermaid
from ezgraph.errors import DefinitionError, EzGraphError, UnfinishedWork, UnknownSession
from ezgraph.graph import Graph
from ezgraph.plan import Closure, Plan
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.session import END, Turn

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
        print(error, file=sys.stdout if given.run is _check else sys.stderr)
        return PROBLEMS
    except BrokenPipeError:
        # Whoever read has gone; what is still buffered must not fail again when the interpreter closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PROBLEMS
    except KeyboardInterrupt:
        return PROBLEMS
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
        ("check", _check, "Say what is wrong with a graph."),
        ("draw", _draw, "Print a graph as a Mermaid flowchart."),
        ("chat", _chat, "Talk to a compiled graph, a line a turn."),
    ):
        command = commands.add_parser(name, help=told, description=told, allow_abbrev=False)
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
    print(f"openings: {len(plan.openings)}")
    for opening in plan.openings:
        print(f"  {opening.place}: {_told(opening.closure)}")
    return FINE


def _told(closure: Closure) -> str:
    """What an opening runs, in the plan's order, and what comes of it."""
    runs = [f"{', '.join(closure.each)} for each input"] * bool(closure.each)
    runs += [", ".join(closure.once)] * bool(closure.once)
    ends = f"joins {closure.stage}" if closure.stage else "ends there"
    cancels = "; a failure cancels the others" if closure.policy == "cancel_siblings" else ""
    return f"{', then '.join(runs)}, then {ends}{cancels}"


def _draw(given: Namespace) -> int:
    print(mermaid(_plan(_target(given.target))), end="")
    return FINE


def _plan(target: Target) -> Plan:
    return target.plan if isinstance(target, CompiledGraph) else plan_of(target.definition)


# ----------------------------------------------------------------------------------------------------------------- chat


def _chat(given: Namespace) -> int:
    session: str = given.session
    if not session.strip() or not session.isprintable() or len(session) > 200:
        raise Refused(f"--session {session!r}: a session id is printable text of at most 200 characters.")
    target = _target(given.target)
    if not isinstance(target, CompiledGraph):
        name = given.target.rpartition(":")[2]
        raise Refused(
            f"{given.target} is a Graph, and chat takes a compiled one. "
            f"Write app = {name}.compile(model=...) beside it, and name app."
        )
    return chat(target, session)


def chat(app: CompiledGraph, session: str = DEFAULT_SESSION) -> int:
    """Bring each line of stdin into a session and print the reply, until the input or the session ends.

    What an earlier run left unfinished is done first.  A turn that fails is told on stderr, and the chat goes on.

    Args:
        app: The graph.
        session: The session's id.

    Returns:
        The exit code: 1 where a turn failed, else 0.

    Raises:
        BrokenPipeError: Nobody reads stdout any more.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if sys.stdin.isatty():
        _hint(f"session {session!r}; Ctrl-D ends the chat")
    with asyncio.Runner() as runner:  # one loop for the whole chat: what a model or a store opens on it stays open
        talk = _Chat(app, session, runner)
        try:
            talk.hold()
        except KeyboardInterrupt:
            _end_line()
    return talk.code


@final
class _Chat:
    """A chat, as far as it went.

    Attributes:
        code: The exit code so far.
        over: Whether the session is completed.
    """

    def __init__(self, app: CompiledGraph, session: str, runner: asyncio.Runner) -> None:
        self.app, self.session, self.runner = app, session, runner
        self.code, self.over = FINE, False

    def hold(self) -> None:
        self._attempt(self._resume())
        while not self.over and (line := _read_line()):
            text = line.strip()
            if text:
                self._attempt(self._say(text))
            else:
                _hint("(an empty line says nothing: type a message)")
        if self.over:
            _hint(f"session {self.session!r} is completed; start another with --session NAME")
        else:
            _end_line()

    def _attempt(self, work: Coroutine[object, object, None]) -> None:
        try:
            self.runner.run(work)
        except EzGraphError as error:
            _hint(f"{type(error).__name__}: {error}")
            self.code = PROBLEMS

    async def _resume(self) -> None:
        """Look where the session stands, and do what is left to do."""
        try:
            found = await self.app.aload(self.session)
        except UnknownSession:  # it is new
            return
        if self.app.unfinished(found):
            await self._recover()
        elif found.head.cursor == END:
            self.over = True

    async def _say(self, text: str) -> None:
        try:
            turn = await self.app.ainvoke(text, session=self.session)
        except UnfinishedWork:  # the turn before failed on the way
            await self._recover()
            if self.over:
                return
            turn = await self.app.ainvoke(text, session=self.session)
        self._show(turn)

    async def _recover(self) -> None:
        _hint("(going on with what an earlier turn left unfinished)")
        self._show(await self.app.arecover(self.session))

    def _show(self, turn: Turn) -> None:
        self.over = turn.status == "completed"
        if turn.reply is None:
            _hint("(no reply)")
        else:
            print(turn.reply, flush=True)


def _read_line() -> str:
    if sys.stdin.isatty():
        print("> ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def _end_line() -> None:
    """Leave the prompt's line."""
    if sys.stdin.isatty():
        _hint("")


# ----------------------------------------------------------------------------------------------------------- the target


def _target(text: str) -> Target:
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
    library = Path(__file__).parent
    frames = [frame for frame in extract_tb(error.__traceback__) if not Path(frame.filename).is_relative_to(library)]
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    shown = (own or frames)[-1]
    return f"  {shown.filename}, line {shown.lineno}\n    {shown.line}\n{said}"
