"""A reading room of old harbour books: asks those that fit a question side by side, the weak ones again, and reports.

    python examples/research.py                             on a terminal a chat, otherwise a conversation from a script
    python -m ezgraph chat examples/research.py:app         the same desk, line by line
    python -m ezgraph draw examples/research.py:research    its drawing

Sessions are kept in `research.db`, in the current folder: stop it anywhere, and the next run goes on from there.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Mapping
from typing import Final, final

from attrs import frozen
from reader import LONGEST, understood

from ezgraph import (
    END,
    Context,
    Conversation,
    DirectTo,
    Fanout,
    Go,
    Graph,
    GraphNode,
    StageContext,
    Stay,
    TaskResult,
    ToolCall,
    UnknownSession,
    Worker,
    direct_to,
    go,
    scatter,
    stay,
    task_result,
    tool,
)
from ezgraph.cli import chat
from ezgraph.models import Call, ModelReply, ModelRequest, call
from ezgraph.stores.sqlite import SQLiteStore

# ------------------------------------------------------------------------------------------------- what the room holds


@frozen
class Book:
    """A source: the subjects it deals with, and its lines; None where its pages are stuck together."""

    subjects: frozenset[str]
    lines: tuple[str, ...] | None


SHELF: Final[Mapping[str, Book]] = {
    "the pilot's log": Book(
        frozenset({"ship", "storm", "lost", "pilot"}),
        ("March 1887: the ship Amalia lost on the sands in a storm, ten saved.", "May 1890: a calm month."),
    ),
    "the newspaper": Book(
        frozenset({"ship", "storm", "lost", "fire", "market"}),
        ("The gale of 1887 took a barque and the roof of the fish hall.", "A fire in the market, 1902."),
    ),
    "the harbour accounts": Book(
        frozenset({"ship", "toll", "market"}), ("Toll of the market, 1902: 340 crowns.", "Toll of the quay: 12 crowns.")
    ),
    "the tide tables": Book(frozenset({"storm", "tide"}), None),
}
KIN: Final[Mapping[str, tuple[str, ...]]] = {"storm": ("gale", "tempest"), "ship": ("barque", "vessel")}
SMALL: Final = "a an and are did do i in is it me my of on or our please tell that the this to was we were"
QUESTION: Final = "What would you like to know of our harbour?"
LOOKS: Final = 1
"""How often weak sources are asked again."""


def told(text: str) -> tuple[str, ...]:
    """The words of a text that say something, each once, in the singular."""
    words = (word.removesuffix("s") for word in re.findall(r"\w+", text.casefold()) if word not in SMALL.split())
    return tuple(dict.fromkeys(word for word in words if len(word) > 2))


def best(name: str, words: tuple[str, ...]) -> tuple[str, int]:
    """The line of a book that has most of the words, and how many those are.

    Raises:
        OSError: The book cannot be opened.
    """
    lines = SHELF[name].lines
    if lines is None:
        raise OSError(f"the pages of {name} are stuck together")
    found = max(lines, key=lambda line: len(set(words) & set(told(line))))
    return found, len(set(words) & set(told(found)))


@frozen
class Inquiry:
    """What the reader wants to know."""

    words: tuple[str, ...] = ()


@frozen
class Lead:
    """A book, and what to look for in it."""

    book: str
    words: tuple[str, ...]


@frozen
class Passage:
    """What stands in a book; None where it could not be read."""

    book: str
    line: str | None
    hits: int = 0


@frozen
class Finding:
    """A passage, and what it is worth."""

    passage: Passage
    weak: bool


@frozen
class Dossier:
    """What was found so far, and how often the weak ones were asked again."""

    findings: tuple[Finding, ...] = ()
    looks: int = 0


# ----------------------------------------------------------------------------------------------------------- the stages


class Ask(Conversation[Inquiry]):
    """Takes a question."""

    def prompt(self, ctx: Context[Inquiry]) -> str:
        return f"Call look_up with what the reader wants to know.\n{QUESTION}"

    @tool
    def look_up(self, ctx: Context[Inquiry], question: str) -> Fanout[Find] | Stay:
        """Look a question up in every book that deals with its subject.

        Args:
            question: In the reader's own words.
        """
        words = told(question)
        if not words or len(question) > LONGEST:
            return stay("Ask in a few plain words, please, such as: which ships were lost in a storm?")
        ctx.save(Inquiry(words))
        return scatter(Find, [Lead(name, words) for name, book in SHELF.items() if book.subjects & set(words)])


class Assess(GraphNode[Dossier]):
    """Lets the weak sources be asked again, with words that mean the same, and no oftener than agreed."""

    def run(self, ctx: StageContext[Dossier]) -> Fanout[Reread] | Go[Report] | DirectTo[Ask]:
        first = ctx.result(Digest, default=None)
        if first == ():  # a scatter over nothing comes here at once
            subjects = sorted({subject for book in SHELF.values() for subject in book.subjects})
            return direct_to(Ask, f"None of our books deals with that. They deal with: {', '.join(subjects)}.")
        before = Dossier() if first is not None else ctx.state  # else these are the answers of a second look
        fresh = first or tuple(Finding(passage, passage.hits == 0) for passage in ctx.results(Reread))
        findings = (*(known for known in before.findings if not known.weak), *fresh)
        ctx.save(Dossier(findings, before.looks + 1))
        words = ctx.read(Ask).words
        wider = tuple(dict.fromkeys(kin for word in words for kin in KIN.get(word, ())))
        weak = [Lead(one.passage.book, wider) for one in findings if one.weak]
        if weak and wider and before.looks < LOOKS:
            return scatter(Reread, weak)
        return go(Report)


class Report(GraphNode[None]):
    """Tells what was found, strongest first."""

    async def run(self, ctx: StageContext[None]) -> DirectTo[Ask]:
        return direct_to(Ask, await ctx.call(Editor, ctx.read(Assess)))


# ---------------------------------------------------------------------------------------------------------- the workers


class Find(Worker[Lead, Passage]):
    """Finds the best line of one book."""

    async def run(self, ctx: Context[Lead]) -> TaskResult[Passage]:
        return task_result(Passage(ctx.state.book, *best(ctx.state.book, ctx.state.words)))

    def on_error(self, ctx: Context[Lead], error: Exception) -> TaskResult[Passage] | None:
        """A book that cannot be opened is a result as well; any other error stands."""
        return task_result(Passage(ctx.state.book, None)) if isinstance(error, OSError) else None


class Grade(Worker[None, Finding]):
    """Judges what was found in one book, before the other books are done."""

    def run(self, ctx: Context[None]) -> TaskResult[Finding]:
        passage = ctx.result(Find)
        enough = min(2, len(ctx.read(Ask).words))
        return task_result(Finding(passage, passage.line is not None and passage.hits < enough))


class Digest(Worker[None, tuple[Finding, ...]]):
    """Puts the findings of all books in order."""

    def run(self, ctx: Context[None]) -> TaskResult[tuple[Finding, ...]]:
        return task_result(tuple(sorted(ctx.results(Grade), key=lambda one: -one.passage.hits)))


class Reread(Worker[Lead, Passage]):
    """Looks into one book again."""

    async def run(self, ctx: Context[Lead]) -> TaskResult[Passage]:
        return task_result(Passage(ctx.state.book, *best(ctx.state.book, ctx.state.words)))


class Editor(Worker[Dossier, str]):
    """Words a report; called by a stage, so no edge leads to it."""

    def run(self, ctx: Context[Dossier]) -> TaskResult[str]:
        known = [(one, f"{one.passage.book[0].upper()}{one.passage.book[1:]}") for one in ctx.state.findings]
        lines = [f'{book}: "{one.passage.line}"' for one, book in known if one.passage.line and not one.weak]
        lines += [f"{book} could not be opened." for one, book in known if one.passage.line is None]
        lines += [f"{book}: nothing of use." for one, book in known if one.weak]
        return task_result(" ".join(lines))


@final
class Listener:
    """Stands in for a model: a greeting is answered, a farewell ends the session, all else is a question to look up."""

    async def respond(self, request: ModelRequest, /) -> ModelReply:
        last, question = request.messages[-1], request.prompt.splitlines()[-1]
        if last.role == "tool":
            return ModelReply(last.text)  # the tool's own words say what is wrong
        meant = understood(last.text)
        if not meant:
            return ModelReply(question)
        if not isinstance(meant, Call) or meant.name != "end_session":
            meant = call("look_up", question=last.text)
        return ModelReply(calls=(ToolCall(f"call-{len(request.messages)}", meant.name, meant.arguments),))


research = (
    Graph("research", entry=Ask)
    .stages(Ask, Assess, Report)
    .workers(Find, Grade, Digest, Reread, Editor)
    .edge(Find, Grade)
    .join((Grade,), to=Digest, on_failure="finish_siblings")
    .edge(Digest, Assess)
    .join((Reread,), to=Assess)
)
app = research.compile(store=SQLiteStore("research.db"), model=Listener(), end_session=[Ask])

# ----------------------------------------------------------------------------------------------------------- the script

SCRIPT: Final = (
    "Hello!",
    "Which ships were lost in the storm?",  # one book is strong, one is weak at first, two give nothing
    "What was the toll of the market in 1902?",
    "???",  # nothing to look up
    "Wo steht der alte Leuchtturm?",  # no book deals with it
    "bye",
)


async def play(session: str) -> None:
    """Play the script from where the session stands."""
    try:
        found = await app.aload(session)
    except UnknownSession:
        played = 0
    else:
        if app.unfinished(found):
            print("(going on with what was interrupted)")
            print(f"desk:   {(await app.arecover(session)).reply}")
            found = await app.aload(session)
        messages = [message for history in found.histories.values() for message in history]
        played = sum(message.role == "user" and not message.internal for message in messages)
        if found.head.cursor == END:
            print(f"Inquiry {session!r} is completed. Start another: python examples/research.py --session NAME")
            return
    for line in SCRIPT[played:]:
        print(f"reader: {line}")
        print(f"desk:   {(await app.ainvoke(line, session=session)).reply}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="A reading room of old harbour books.")
    arguments.add_argument("--session", default="inquiry-1", help="which inquiry; a new name begins a new one")
    name: str = arguments.parse_args().session
    if sys.stdin.isatty():
        sys.exit(chat(app, name))
    asyncio.run(play(name))
