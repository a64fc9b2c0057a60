"""`chat`: a line a turn."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Coroutine
from typing import Final, final

from ezgraph.cli.targets import FINE, PROBLEMS, hint, output
from ezgraph.errors import EzGraphError, UnfinishedWork, UnknownSession
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.session import END, Turn

DEFAULT_SESSION: Final = "default"


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
        hint(f"session {session!r}; Ctrl-D ends the chat")
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
                hint("(an empty line says nothing: type a message)")
        if self.over:
            hint(f"session {self.session!r} is completed; start another with --session NAME")
        else:
            _end_line()

    def _attempt(self, work: Coroutine[object, object, None]) -> None:
        try:
            self.runner.run(work)
        except EzGraphError as error:
            hint(f"{type(error).__name__}: {error}")
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
        hint("(going on with what an earlier turn left unfinished)")
        self._show(await self.app.arecover(self.session))

    def _show(self, turn: Turn) -> None:
        self.over = turn.status == "completed"
        if turn.reply is None:
            hint("(no reply)")
        else:
            with output():
                print(turn.reply, flush=True)


def _read_line() -> str:
    if sys.stdin.isatty():
        print("> ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def _end_line() -> None:
    """Leave the prompt's line."""
    if sys.stdin.isatty():
        hint("")
