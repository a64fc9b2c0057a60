"""The command line: `check`, `draw`, `chat` and `migrate` for a graph, and `sessions` for what a store keeps.

Answers go to stdout and hints to stderr.  Exit codes: 0 fine, 1 the graph, the run or a session has problems, 2 the
command is wrong.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from io import TextIOWrapper

from ezgraph.cli.chatting import DEFAULT_SESSION, chat
from ezgraph.cli.sessions import add_sessions, migrate
from ezgraph.cli.targets import FINE, MISUSED, PROBLEMS, Refused, Target, compiled_of, hint, target_of
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
    given = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack what a customer wrote
    try:
        code: int = given.run(given)
        sys.stdout.flush()
    except Refused as refused:
        hint(f"ezgraph: {refused}")
        return refused.code
    except (StoreError, InvalidInput) as error:
        hint(f"{type(error).__name__}: {error}")
        return PROBLEMS if isinstance(error, StoreError) else MISUSED
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
    print(mermaid(_plan(target_of(given.target))), end="")
    return FINE


def _plan(target: Target) -> Plan:
    return target.plan if isinstance(target, CompiledGraph) else plan_of(target.definition)


# ----------------------------------------------------------------------------------------------------------------- chat


def _chat(given: Namespace) -> int:
    session: str = given.session
    if not session.strip() or not session.isprintable() or len(session) > 200:
        raise Refused(f"--session {session!r}: a session id is printable text of at most 200 characters.")
    return chat(compiled_of(given.target, "chat"), session)


__all__ = ["chat", "main"]
