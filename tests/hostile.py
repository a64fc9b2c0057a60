"""A session in which everything is set, and mutants of it: what a file that somebody else wrote may hold.  Rule L4."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

from attrs import frozen
from strategies import Level, Tree, Word

from ezgraph.activations import Activation, Row, Rows
from ezgraph.errors import CorruptSession, VersionMismatch, WrongGraph
from ezgraph.histories import History
from ezgraph.messages import ToolCall, Usage, assistant, user
from ezgraph.notes import Note, Said
from ezgraph.session import CONTEXT, ErrorRecord, Head, Limits, Session
from ezgraph.stores.codec import Codec
from ezgraph.stores.parts import Document

WORDS = (None, True, False, 0, -1, 1, 7, 1.5, -0.0, 1e308, 2**63, 2**70, "", "Intake", "Check", "END", "$context")
PLAIN: tuple[Any, ...] = (
    *WORDS,
    "1.5",
    "1E+9",
    "2024-02-29",
    "builtins.eval",
    "\x00",
    "é",
    [],
    {},
    [1],
    [[]],
    {"a": 1},
)
BYTES = b'{}[]",:0-9eE.\\\x00\xff tfn'


@frozen
class Line:
    price: Decimal
    on: date | None = None
    count: int = 1


@frozen
class Claim:
    lines: tuple[Line, ...] = ()
    word: Word | None = None
    level: Level = Level.LOW
    tree: Tree | None = None
    raw: bytes = b""


def subject() -> tuple[Codec, Document]:
    """A codec, and the document of a session in which everything is set."""
    states = {"Intake": Claim, "Check": Claim, CONTEXT: int}
    codec = Codec("claims", states, {"Check": Claim}, answers={"Intake.report": Claim})
    claim = Claim((Line(Decimal("1.5"), date(2024, 2, 29)),), Word.NO, Level.HIGH, Tree(1, (Tree(2),)), b"raw")
    given = Said("fanout", workers=("Check",), inputs={"Check": (claim,)}, usage=Usage(1), feedback="seen")
    answer = Said("task_result", value={"Intake.report": claim}, messages=(user("look"),))
    row = Row("Check", claim, 2, {"Check": claim}, {"Check": Usage(1)}, 1)
    notes = (
        Note("Intake", None, "call 0.0", outcome=given, cells={"Check": claim}),
        Note("Intake", None, "x", outcome=answer),
    )
    inner = Note("Check", 2, "call 0.1/0", worker="Check", state={"Check": claim}, output={"Check": claim})
    session = Session(
        "c-17",
        "claims",
        9,
        Head("Intake", owed=True, run=4, incoming=user("hello"), before=Head("Intake")),
        Limits(2, 9),
        {"Intake": claim, CONTEXT: 7},
        {
            "default": History([user("hello"), assistant("hi", calls=(ToolCall("1", "look", "{}"),))]),
            "own": History([user("x")]),
        },
        {"Intake": Usage(1, 2, 3)},
        Activation(3, "Intake", ("Check",), 1, Rows([row]), frozenset({("Check", 2)}), (claim,) * 3),
        {"Check": claim},
        {"Check": (claim, claim)},
        (ErrorRecord(1, "Intake", "StepFailed", "no"),),
        {("Intake", None): notes, ("Check", 2): (inner,)},
    )
    document = codec.document(session)
    assert codec.read("c-17", document, store="hostile") == session
    return codec, document


def mutated(chance: Random, document: Document) -> object:
    """The document with a few of its places, or of the bytes of its text, put in place of others."""
    if chance.random() < 0.5:
        text = bytearray(json.dumps(document).encode())
        for _ in range(chance.randint(1, 3)):
            text[chance.randrange(len(text))] = chance.choice(BYTES)
        try:
            return json.loads(text.decode())
        except (ValueError, RecursionError):
            return bytes(text)
    made: Any = json.loads(json.dumps(document))
    for _ in range(chance.randint(1, 3)):
        made = _changed(chance, made)
    return made


def _changed(chance: Random, part: Any) -> Any:
    if not isinstance(part, dict | list) or not part or chance.random() < 0.1:
        return json.loads(json.dumps(chance.choice(PLAIN)))  # its own: it may be changed in its turn
    keys: list[Any] = [*part] if isinstance(part, dict) else [*range(len(part))]
    key = chance.choice(keys)
    match chance.random():
        case luck if luck < 0.06:
            del part[key]
        case luck if luck < 0.1 and isinstance(part, dict):
            part[
                chance.choice(("Intake", "Check", "END", "more", "node", "")) if chance.random() < 0.5 else f"{key}x"
            ] = part.pop(key)
        case luck if luck < 0.13 and isinstance(part, list):
            part.append(json.loads(json.dumps(part[key])))
        case _:
            part[key] = _changed(chance, part[key])
    return part


def check(codec: Codec, mutant: object) -> str:
    """Assert that a mutant is refused with a typed error, or means what it is written back as; which of the two.

    Raises:
        AssertionError: It loads as what is not written back as the same.
    """
    try:
        if isinstance(mutant, bytes):
            rows: Any = [("head", "", 0, '{"cursor":"Intake"}'), ("cell", "Intake", 0, mutant)]
            made = codec.loaded("c-17", rows, store="hostile", graph="claims", version=1, revision=1)
        else:
            made = codec.read("c-17", mutant, store="hostile")
    except (CorruptSession, VersionMismatch, WrongGraph):
        return "refused"
    document = codec.document(made)
    again = codec.read("c-17", document, store="hostile")
    assert again == made
    assert codec.document(again) == document, "its journal or its log is another"  # which equality leaves out
    return "loaded"
