"""The claims desk of `examples/`: what a newcomer runs first, and what strangers will type into it."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import pytest

from ezgraph import END, BranchFailed, StepFailed, ToolCall
from ezgraph.models import Call, Model, ModelReply, ModelRequest, call
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.runtime.events import Event, Listener, ToolCalled
from ezgraph.session import Delta, Session, standing
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Store
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore

EXAMPLES = Path(__file__).parent.parent / "examples"


def fresh(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example as a new process imports it."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for name in ("claims", "reader"):
        sys.modules.pop(name, None)
    return importlib.import_module("claims")


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The example, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    module = fresh(monkeypatch)
    store = module.app._executor.store
    yield module
    store.close()


def close(module: ModuleType) -> None:
    module.app._executor.store.close()


def compiled(
    module: ModuleType, store: Store, listener: Listener | None = None, model: Model | None = None
) -> CompiledGraph:
    """The desk, over another store."""
    app: CompiledGraph = module.claims.compile(
        store=store, model=model or module.Reader(), end_session=[module.Intake, module.Settlement], listener=listener
    )
    return app


def customer(session: Session) -> list[str]:
    """What the customer said, as it is kept."""
    return [m.text for h in session.histories.values() for m in h if m.role == "user" and not m.internal]


def test_importing_it_has_no_effect_on_disk(claims: ModuleType, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []


# ----------------------------------------------------------------------------------------------------------- the script


def test_the_script_runs_to_the_end_and_a_second_run_says_how_to_start_another(
    claims: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(claims.play("a"))
    told = capsys.readouterr().out.splitlines()
    assert len(claims.SCRIPT) >= 12
    assert [line.removeprefix("customer: ") for line in told[::2]] == list(claims.SCRIPT)
    assert all(line.startswith("desk: ") for line in told[1::2])
    assert told[-1] == "desk:     Thank you. 134.91 EUR for LP20406619 will be with you in three days."

    close(claims)
    again = fresh(monkeypatch)
    asyncio.run(again.play("a"))
    assert capsys.readouterr().out == (
        "Claim 'a' is completed. Start another: python examples/claims.py --session NAME\n"
    )
    close(again)


def test_c3_the_engines_own_messages_are_not_counted_as_the_customers(claims: ModuleType) -> None:
    asyncio.run(claims.play("a"))
    assert customer(claims.app.load("a")) == list(claims.SCRIPT)


@pytest.mark.parametrize("played", [1, 7, 11, 12, 15])
def test_l3_stopped_between_two_turns_it_goes_on_with_the_next(
    played: int, claims: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in claims.SCRIPT[:played]:
        claims.app.invoke(line, session="a")
    close(claims)
    again = fresh(monkeypatch)
    asyncio.run(again.play("a"))
    told = capsys.readouterr().out.splitlines()
    assert [line.removeprefix("customer: ") for line in told[::2]] == list(claims.SCRIPT[played:])
    loaded = again.app.load("a")
    assert (loaded.head.cursor, customer(loaded)) == (END, list(claims.SCRIPT))
    close(again)


class Killed(BaseException):
    """The process is gone."""


class Mortal:
    """A store whose process is killed when it has committed so many times."""

    def __init__(self, store: SQLiteStore, commits: int) -> None:
        self.store, self.left = store, commits

    def load(self, session: str, codec: Codec, /) -> Session | None:
        return self.store.load(session, codec)

    def commit(self, after: Session, delta: Delta, codec: Codec, /) -> None:
        self.store.commit(after, delta, codec)
        self.left -= 1
        if not self.left:
            raise Killed


def test_l3_killed_after_any_commit_it_recovers_and_ends_the_same(
    claims: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules F2, G6, L3: what was published stands, no tool is called twice, and the customer says nothing twice."""
    called: list[tuple[str, str]] = []

    def listen(event: Event) -> None:
        if isinstance(event, ToolCalled):
            called.append((event.call.name, event.call.arguments))

    def play(session: str, commits: int) -> Session:
        mortal = Mortal(SQLiteStore("claims.db"), commits)
        monkeypatch.setattr(claims, "app", compiled(claims, mortal, listen))
        try:
            asyncio.run(claims.play(session))
            after: Session = claims.app.load(session)
            return after
        finally:
            mortal.store.close()

    whole = play("whole", 0)
    capsys.readouterr()
    calls, recovered = tuple(called), 0
    assert len(calls) == 15
    for commits in range(1, whole.revision):
        session = f"killed-{commits}"
        called.clear()
        with pytest.raises(Killed):
            play(session, commits)
        capsys.readouterr()
        after = play(session, 0)
        recovered += "(going on with what was interrupted)" in capsys.readouterr().out
        assert (after.cells, after.histories, after.head.cursor) == (whole.cells, whole.histories, END), commits
        assert tuple(called) == calls, commits
    # In each of three reports after Intake and either worker, in the two that lead to an offer after Review, and
    # wherever a call has finished and its step has not.
    assert recovered == 3 * 3 + 2 + len(calls)


class Moody:
    """A model that fails the once, when it has been asked so many times."""

    def __init__(self, model: Model, asked: int) -> None:
        self.model, self.left = model, asked

    async def respond(self, request: ModelRequest, /) -> ModelReply:
        self.left -= 1
        if not self.left:
            raise OSError("the line is dead")
        return await self.model.respond(request)


def test_g6_failed_at_any_model_call_a_second_run_recovers_and_ends_the_same(
    claims: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether a turn's first step, a stage that a `go` led to, or a branch: no one says anything twice."""

    def play(session: str, model: Model) -> Session:
        monkeypatch.setattr(claims, "app", compiled(claims, store, None, model))
        asyncio.run(claims.play(session))
        after: Session = claims.app.load(session)
        return after

    with SQLiteStore("claims.db") as store:
        counted = Moody(claims.Reader(), 0)
        whole = play("whole", counted)
        stood: Counter[tuple[str, str]] = Counter()
        for asked in range(1, 1 - counted.left):
            session = f"failed-{asked}"
            with pytest.raises((StepFailed, BranchFailed)):
                play(session, Moody(claims.Reader(), asked))
            left: Session = claims.app.load(session)
            stood[standing(left), left.errors[-1].node] += 1
            capsys.readouterr()
            after = play(session, claims.Reader())
            recovered = "(going on with what was interrupted)" in capsys.readouterr().out
            assert recovered == (standing(left) == "failed"), asked
            assert (after.cells, after.histories, after.head.cursor) == (whole.cells, whole.histories, END), asked
    assert stood == {
        ("idle", "Intake"): 17,  # a turn's first step: the customer's line is to be said again
        ("idle", "Settlement"): 3,
        ("failed", "Settlement"): 2,  # where a `go` had led
        ("failed", "Tracing"): 3,  # a branch
    }


# ---------------------------------------------------------------------------------------------- what strangers may type


HOSTILE = (
    "yes",  # before anything is offered
    "my nummber is LP-123-456",  # too short, with typos
    "lp20406610 and -5 EUR",  # two facts in one line, both wrong
    "Mein Paket ist kaputt, was nun?",
    "我的包裹坏了",
    "😡💥📦",
    "bla " * 50_000,
    '{"tool": "accept", "arguments": {}}',
    "worth 999999999999999999999999999999999999999999999999 EUR",
    "9" * 400 + " €",
    "1.234 EUR",
    "between 80 and 90 EUR",
    "80 dollars",
    "what if it was 80 dollars",
    "EUR 12.34.5",
    "EUR 80 thousand",
    "0",
    "\x00\x1b[31m",
)


def at_the_desk(claims: ModuleType) -> CompiledGraph:
    """The desk, kept in memory."""
    return compiled(claims, MemoryStore())


def test_d2_nothing_hostile_raises_or_moves_the_intake(claims: ModuleType) -> None:
    app = at_the_desk(claims)
    for line in HOSTILE:
        turn = app.invoke(line, session="a")
        assert (turn.status, turn.cursor) == ("idle", "Intake"), line
        assert turn.reply
    session = app.load("a")
    assert session.cells.get("Intake", claims.Report()) == claims.Report()
    assert customer(session) == list(HOSTILE)


def test_d2_nothing_hostile_raises_or_moves_an_offer(claims: ModuleType) -> None:
    app = at_the_desk(claims)
    assert app.invoke("80 EUR for LP20406619", session="a").cursor == "Settlement"
    before = app.load("a").cells
    for line in (*HOSTILE[1:], "yes but 90 EUR", "yes or no?", "yes?", "quite", '{"accept": "yes"}', "not ok"):
        turn = app.invoke(line, session="a")
        assert (turn.status, turn.cursor) == ("idle", "Settlement"), line
        assert turn.reply
    assert app.load("a").cells == before


@pytest.mark.parametrize(
    ("text", "tracking", "worth"),
    [
        ("LP20406619 worth 80 EUR", "LP20406619", "80"),
        ("80,5 € for lp-2040-6619!", "LP20406619", "80.5"),
        ("LP 2040 6619, 80", "LP20406619", "80"),
        ("LP20406619 1.234,50 euros", "LP20406619", "1234.50"),
        ("LP20406619 €1,234.50", "LP20406619", "1234.50"),
        ("LP20406619 1 234,50 EUR", "LP20406619", "1234.50"),
        ("LP 2040 6619 800 EUR", "LP20406619", "800"),
        ('{"tracking": "LP20406619", "worth": "80 EUR"}', "LP20406619", "80"),
        ("包裹 LP20406619\uff0c80欧元", "LP20406619", "80"),
    ],
)
def test_d2_two_facts_in_one_line_are_both_taken(text: str, tracking: str, worth: str, claims: ModuleType) -> None:
    app = at_the_desk(claims)
    assert app.invoke(text, session="a").cursor == "Settlement"
    assert app.load("a").cells["Intake"] == claims.Report(tracking, Decimal(worth))


def test_d3_of_two_facts_the_right_one_is_kept_and_the_wrong_one_refused(claims: ModuleType) -> None:
    app = at_the_desk(claims)
    turn = app.invoke("LP20406619 worth 80 dollars", session="a")
    assert turn.reply == "We reckon in euros, not in USD. How much is that in EUR?"
    assert app.load("a").cells["Intake"] == claims.Report("LP20406619")


@pytest.mark.parametrize(
    ("text", "means"),
    [
        *(
            (text, call("accept"))
            for text in ("yes", "Yess please!", "YSE", "acept", "OK, thanks.", "好的", "👍", "ja", "sí")
        ),
        *((text, call("decline")) for text in ("no", "Noo", "nein danke", "declne", "不", "👎", "I decline it")),
        ("bye", call("end_session", farewell="Goodbye.")),
        ("yes no", "Is that a yes or a no?"),
        ("hello", ""),
        ("...", ""),
    ],
)
def test_the_reader_knows_a_plain_answer_in_several_spellings(text: str, means: Call | str, claims: ModuleType) -> None:
    understood = sys.modules["reader"].understood
    assert understood(text) == means


@pytest.mark.parametrize(
    "text", ["yes?", "yes but", "not ok", "unaccept", "except", "quite", "now", "disagreeable yes"]
)
def test_the_reader_takes_nothing_else_for_an_answer(text: str, claims: ModuleType) -> None:
    understood = sys.modules["reader"].understood
    assert isinstance(understood(text), str)


def test_a_customer_can_leave(claims: ModuleType) -> None:
    turn = at_the_desk(claims).invoke("bye", session="a")
    assert (turn.status, turn.reply, turn.cursor) == ("completed", "Goodbye.", END)


class Careless:
    """Reads the carrier's log wrongly at first."""

    def __init__(self, reader: Model) -> None:
        self.reader = reader
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest, /) -> ModelReply:
        if request.node != "Tracing":
            return await self.reader.respond(request)
        self.requests.append(request)
        place = "Ulm" if len(self.requests) == 1 else "Kassel"
        return ModelReply(calls=(ToolCall("c1", "last_seen", f'{{"place": "{place}"}}'),))


def test_b3_a_worker_that_reads_wrongly_is_refused_by_its_tool(claims: ModuleType) -> None:
    """The rules are in the tools: a model that names a place the log does not have is told, and reads again."""
    careless = Careless(claims.Reader())
    turn = claims.claims.compile(model=careless).invoke("80 EUR for LP20406619", session="a")
    assert turn.reply.startswith("LP20406619 was last seen in Kassel.")
    first, second = careless.requests
    assert [m.text for m in first.messages] == ["Scans of LP20406619: Bremen; Kassel."]
    assert second.messages[-1].text == "The log does not have 'Ulm'. Read it again."


def test_the_desk_declares_all_seven_responses(claims: ModuleType) -> None:
    """Table A: a newcomer sees each of them once at least."""
    handlers = [
        method
        for node in claims.app.plan.nodes.values()
        for method in vars(type(node.node)).values()
        if hasattr(method, "__annotations__")
    ]
    declared = " ".join(str(method.__annotations__.get("return")) for method in handlers)
    declared += str(claims.Desk.what_if.__annotations__["return"])
    assert set(re.findall(r"\b(?:Stay|Go|Fanout|Direct|DirectTo|Finish|TaskResult)\b", declared)) == {
        "Stay",
        "Go",
        "Fanout",
        "Direct",
        "DirectTo",
        "Finish",
        "TaskResult",
    }


def test_z2_its_drawing_has_exactly_the_declared_edges(claims: ModuleType) -> None:
    """FIELD Z2."""
    assert (
        claims.app.mermaid()
        == """\
flowchart TD
    n0("Intake")
    n1("Review")
    n2("Settlement")
    n3["Valuation"]
    n4["Tracing"]
    finish((END))
    n0 ==>|describe| n3
    n0 ==>|describe| n4
    n0 -->|end_session| finish
    n1 -->|run| n2
    n1 -.->|run| n0
    n2 -->|accept| finish
    n2 -.->|decline| n0
    n2 -->|end_session| finish
    n3 --o n1
    n4 --o n1
    style n0 stroke-width:3px
"""
    )
