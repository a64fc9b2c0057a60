"""The command line: `check`, `draw`, `chat` and `migrate` for a graph, and `sessions` for what a store keeps.

Answers go to stdout and hints to stderr.  Exit codes: 0 fine, 1 the graph, the run or a session has problems, 2 the
command is wrong, 141 whoever read the answer has gone (as a shell says of a program that SIGPIPE ended).
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from io import TextIOWrapper

from ezgraph.cli.chatting import DEFAULT_SESSION, chat
from ezgraph.cli.sessions import add_sessions, migrate
from ezgraph.cli.targets import (
    FINE,
    GONE,
    MISUSED,
    PROBLEMS,
    Refused,
    Target,
    answer,
    compiled_of,
    forget_output,
    hint,
    output,
    read_texts,
    standard_input,
    target_of,
)
from ezgraph.compilation import plan_of
from ezgraph.drawing import mermaid
from ezgraph.errors import DefinitionError, InvalidInput, StoreError
from ezgraph.plan import Closure, Plan
from ezgraph.runtime.compiled import CompiledGraph


def main(arguments: list[str] | None = None) -> int:
    """Carry out a command and return its exit code.

    Args:
        arguments: What stands after the program's name; by default the process's own.

    Raises:
        SystemExit: The arguments are wrong (code 2), or ask for help (code 0).
    """
    if sys.stdout is None:  # what would be told would be lost, and a command must not be done untold
        hint("ezgraph: standard output is closed: send it to /dev/null where nobody reads it.")
        return PROBLEMS
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack what a customer wrote
    try:
        try:
            return _carried_out(arguments)
        finally:
            with output():
                sys.stdout.flush()
    except Refused as refused:
        hint(f"ezgraph: {refused}")
        return refused.code
    except BrokenPipeError:
        forget_output()
        return GONE
    except OSError as error:
        hint(f"ezgraph: {error}")
        return PROBLEMS
    except KeyboardInterrupt:
        return PROBLEMS


def _carried_out(arguments: list[str] | None) -> int:
    given = _parser().parse_args(arguments)
    try:
        read_texts(given)
        code: int = given.run(given)
    except (StoreError, InvalidInput) as error:
        hint(f"{type(error).__name__}: {error}")
        return PROBLEMS if isinstance(error, StoreError) else MISUSED
    except DefinitionError as error:
        (answer if given.run is _check else hint)(str(error))
        return PROBLEMS
    return code


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="ezgraph",
        description="Check, draw or try a graph.",
        epilog="Exit codes: 0 fine, 1 the graph or the run has problems, 2 the command is wrong, 141 nobody reads on.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, told in (
        ("check", _check, "Say what is wrong with a graph."),
        ("draw", _draw, "Print a graph as a Mermaid flowchart."),
        ("chat", _chat, "Talk to a compiled graph, a line a turn."),
        ("migrate", migrate, "Bring a store's sessions to the graph's version, all or none."),
    ):
        command = commands.add_parser(name, help=told, description=told, allow_abbrev=False)
        command.add_argument("target", metavar="TARGET", help="module:name or file.py:name")
        command.set_defaults(run=run)
        if run is _chat:
            command.add_argument("--session", metavar="ID", default=DEFAULT_SESSION, help="default: %(default)s")
        if run is migrate:
            command.add_argument("--check", action="store_true", help="say what would fail, and change nothing")
    add_sessions(commands)
    return parser


# ------------------------------------------------------------------------------------------------------- check and draw


def _check(given: Namespace) -> int:
    plan = _plan(target_of(given.target))
    workers = [node for node, spec in plan.nodes.items() if spec.placement == "internal"]
    stages = [node for node in plan.nodes if node not in workers]
    answer(f"ok: graph {plan.graph!r} begins at {plan.entry}")
    for what, names in (("stages", stages), ("workers", workers)):
        answer(f"{what}: {len(names)}" + (f" ({', '.join(names)})" if names else ""))
    answer(f"edges: {len(plan.arrows)}")
    answer(f"openings: {len(plan.openings)}")
    for opening in plan.openings:
        answer(f"  {opening.place}: {_told(opening.closure)}")
    return FINE


def _told(closure: Closure) -> str:
    """What an opening runs, in the plan's order, and what comes of it."""
    runs = [f"{', '.join(closure.each)} for each input"] * bool(closure.each)
    runs += [", ".join(closure.once)] * bool(closure.once)
    ends = f"joins {closure.stage}" if closure.stage else "ends there"
    cancels = "; a failure cancels the others" if closure.policy == "cancel_siblings" else ""
    return f"{', then '.join(runs)}, then {ends}{cancels}"


def _draw(given: Namespace) -> int:
    answer(mermaid(_plan(target_of(given.target))), end="")
    return FINE


def _plan(target: Target) -> Plan:
    return target.plan if isinstance(target, CompiledGraph) else plan_of(target.definition)


# ----------------------------------------------------------------------------------------------------------------- chat


def _chat(given: Namespace) -> int:
    session: str = given.session
    if not session.strip() or not session.isprintable() or len(session) > 200:
        raise Refused(f"--session {session!r}: a session id is printable text of at most 200 characters.")
    standard_input()
    return chat(compiled_of(given.target, "chat"), session)


__all__ = ["chat", "main"]
