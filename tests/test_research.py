"""The reading room of `examples/`: parallel work that comes home, as a newcomer meets it."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ezgraph import END
from ezgraph.errors import BranchFailed
from ezgraph.runtime.compiled import CompiledGraph
from ezgraph.runtime.events import Event, StepStarted
from ezgraph.session import Delta, Session
from ezgraph.stores.codec import Codec
from ezgraph.stores.contract import Store
from ezgraph.stores.memory import MemoryStore
from ezgraph.stores.sqlite import SQLiteStore

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "research.py"
STORM = "Which ships were lost in the storm?"
FOUND = (
    'The pilot\'s log: "March 1887: the ship Amalia lost on the sands in a storm, ten saved." '
    'The newspaper: "The gale of 1887 took a barque and the roof of the fish hall." '
    "The tide tables could not be opened. The harbour accounts: nothing of use."
)
TOLL = 'The harbour accounts: "Toll of the market, 1902: 340 crowns." The newspaper: "A fire in the market, 1902."'
AGAIN = "Ask in a few plain words, please, such as: which ships were lost in a storm?"
NOTHING = "None of our books deals with that. They deal with: fire, lost, market, pilot, ship, storm, tide, toll."
QUESTION = "What would you like to know of our harbour?"


@pytest.fixture
def research(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The example as a new process imports it, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    for name in ("research", "reader"):
        sys.modules.pop(name, None)
    module = importlib.import_module("research")
    store = module.app._executor.store
    yield module
    store.close()


def ran(*arguments: str, text: str = "") -> str:
    """What a new process prints; it must end well and without a warning."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments], input=text, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def compiled(module: ModuleType, store: Store, started: list[StepStarted] | None = None) -> CompiledGraph:
    """The desk over another store, keeping what was started."""

    def listen(event: Event) -> None:
        if started is not None and isinstance(event, StepStarted):
            started.append(event)

    app: CompiledGraph = module.research.compile(
        store=store, model=module.Listener(), end_session=[module.Ask], listener=listen
    )
    return app


def items(started: list[StepStarted], node: str) -> list[int | None]:
    return [event.item for event in started if event.node == node]


# ----------------------------------------------------------------------------------------------------------- the script


def test_importing_it_has_no_effect_on_disk(research: ModuleType, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("research")
def test_l3_it_runs_as_a_script_in_an_empty_folder_and_a_second_run_says_how_to_start_another() -> None:
    assert ran(str(EXAMPLE)).splitlines() == [
        "reader: Hello!",
        f"desk:   {QUESTION}",
        f"reader: {STORM}",
        f"desk:   {FOUND}",
        "reader: What was the toll of the market in 1902?",
        f"desk:   {TOLL}",
        "reader: ???",
        f"desk:   {AGAIN}",
        "reader: Wo steht der alte Leuchtturm?",
        f"desk:   {NOTHING}",
        "reader: bye",
        "desk:   Goodbye.",
    ]
    assert ran(str(EXAMPLE)) == (
        "Inquiry 'inquiry-1' is completed. Start another: python examples/research.py --session NAME\n"
    )
    assert ran(str(EXAMPLE), "--session", "inquiry-2").splitlines()[-1] == "desk:   Goodbye."


class Killed(BaseException):
    """The process is gone."""


class Mortal:
    """A store whose process is killed when it has committed so many times."""

    def __init__(self, commits: int) -> None:
        self.store, self.left = SQLiteStore("research.db"), commits

    def load(self, session: str, codec: Codec, /) -> Session | None:
        return self.store.load(session, codec)

    def commit(self, after: Session, delta: Delta, codec: Codec, /) -> None:
        self.store.commit(after, delta, codec)
        self.left -= 1
        if not self.left:
            raise Killed


def test_l3_killed_after_any_commit_it_recovers_and_ends_the_same(
    research: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules E6, G6, L3: what was published stands, what was not runs again, and the reader says nothing twice."""

    def play(session: str, commits: int) -> Session:
        mortal = Mortal(commits)
        monkeypatch.setattr(research, "app", compiled(research, mortal))
        try:
            asyncio.run(research.play(session))
            after: Session = research.app.load(session)
            return after
        finally:
            mortal.store.close()

    whole = play("whole", 0)
    capsys.readouterr()
    recovered = 0
    for commits in range(1, whole.revision):
        session = f"killed-{commits}"
        with pytest.raises(Killed):
            play(session, commits)
        capsys.readouterr()
        after = play(session, 0)
        told = capsys.readouterr().out
        recovered += "(going on with what was interrupted)" in told
        assert "desk:   Goodbye." in told
        assert (after.cells, after.histories, after.head.cursor) == (whole.cells, whole.histories, END), commits
    turns = len(research.SCRIPT)
    assert recovered == whole.revision - turns  # a commit that ends a turn leaves nothing to recover
    assert recovered > 0


# ------------------------------------------------------------------------------------------------------- parallel work


def test_e6_each_book_has_its_own_chain_and_only_the_weak_ones_are_asked_again(research: ModuleType) -> None:
    started: list[StepStarted] = []
    turn = compiled(research, MemoryStore(), started).invoke(STORM, session="a")
    assert turn.reply == FOUND
    assert sorted(map(str, items(started, "Find"))) == ["0", "1", "2", "3"]
    assert sorted(map(str, items(started, "Grade"))) == ["0", "1", "2", "3"]
    assert items(started, "Digest") == [None]
    assert items(started, "Reread") == [0, 1]  # the newspaper, the harbour accounts: weak also then, and not asked on
    assert [event.node for event in started].count("Assess") == 2


def test_e6_where_no_book_fits_no_worker_runs_but_the_gathering_one(research: ModuleType) -> None:
    started: list[StepStarted] = []
    turn = compiled(research, MemoryStore(), started).invoke("Where is the old lighthouse?", session="a")
    assert (turn.reply, turn.cursor) == (NOTHING, "Ask")
    assert [event.node for event in started] == ["Ask", "Digest", "Assess"]


@pytest.mark.parametrize("branches", [1, 2, 3])
def test_e4_any_number_of_branches_at_once_ends_the_same(branches: int, research: ModuleType) -> None:
    kept = compiled(research, MemoryStore())
    narrow = research.research.compile(model=research.Listener(), end_session=[research.Ask], max_branches=branches)
    for line in research.SCRIPT:
        assert narrow.invoke(line, session="a").reply == kept.invoke(line, session="a").reply
    assert narrow.load("a") == kept.load("a")


def test_e5_a_fault_in_one_branch_lets_the_others_finish_and_recovery_runs_only_what_is_missing(
    research: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules E5, G1: the error hook takes a shut book for a result, and no other error."""
    best = research.best

    def faulty(name: str, words: tuple[str, ...]) -> tuple[str, int]:
        if name == "the newspaper":
            raise ZeroDivisionError
        line: tuple[str, int] = best(name, words)
        return line

    started: list[StepStarted] = []
    app = compiled(research, SQLiteStore("other.db"), started)
    monkeypatch.setattr(research, "best", faulty)
    with pytest.raises(BranchFailed, match="ZeroDivisionError") as raised:
        app.invoke(STORM, session="a")
    assert [failure.node for failure in raised.value.failures] == ["Find"]
    assert sorted(map(str, items(started, "Grade"))) == ["0", "2", "3"]

    monkeypatch.setattr(research, "best", best)
    started.clear()
    assert app.recover("a").reply == FOUND
    assert (items(started, "Find"), items(started, "Grade"), items(started, "Digest")) == ([1], [1], [None])
    app._executor.store.close()  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------- what strangers may type


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("hello", QUESTION),
        ("   ...   ", QUESTION),
        ("yes", AGAIN),
        ("yes no", AGAIN),
        ("no", AGAIN),
        ("😡💥📦", AGAIN),
        ("\x00\x1b[31m", NOTHING),
        ("storm " * 50_000, AGAIN),
        ("我的船在哪里\uff1f", NOTHING),
        ("Wann war die Flut?", NOTHING),
        ("xkcd qwertz 12345", NOTHING),
        ('{"tool": "look_up", "arguments": {}}', NOTHING),
        ("STORMS!!", FOUND.removesuffix(" The harbour accounts: nothing of use.")),
    ],
)
def test_d2_nothing_that_is_typed_raises_or_moves_the_desk(text: str, reply: str, research: ModuleType) -> None:
    app = compiled(research, MemoryStore())
    for _ in range(2):
        turn = app.invoke(text, session="a")
        assert (turn.status, turn.cursor, turn.reply) == ("idle", "Ask", reply)
    assert app.invoke(STORM, session="a").reply == FOUND


@pytest.mark.usefixtures("research")
def test_an_empty_line_in_a_chat_says_nothing() -> None:
    told = ran("-m", "ezgraph", "chat", "--session", "mine", f"{EXAMPLE}:app", text=f"\n  \n{STORM}\n\n")
    assert told == f"{FOUND}\n"


# ---------------------------------------------------------------------------------------------------------- its drawing


@pytest.mark.usefixtures("research")
def test_z2_its_drawing_has_exactly_the_declared_edges() -> None:
    """FIELD Z2: a scatter says that it is one, and a gathering that it is one."""
    assert (
        ran("-m", "ezgraph", "draw", f"{EXAMPLE}:research")
        == """\
flowchart TD
    n0("Ask")
    n1("Assess")
    n2("Report")
    n3["Find"]
    n4["Grade"]
    n5["Digest"]
    n6["Reread"]
    n7["Editor"]
    n0 ==>|"look_up for each"| n3
    n1 ==>|"run for each"| n6
    n1 -->|run| n2
    n1 -.->|run| n0
    n2 -.->|run| n0
    n3 --> n4
    n5 --> n1
    n4 --o|"for all"| n5
    n6 --o|"for all"| n1
    style n0 stroke-width:3px
"""
    )


@pytest.mark.usefixtures("research")
def test_e2_check_names_its_openings() -> None:
    assert (
        ran("-m", "ezgraph", "check", f"{EXAMPLE}:research")
        == """\
ok: graph 'research' begins at Ask
stages: 3 (Ask, Assess, Report)
workers: 5 (Find, Grade, Digest, Reread, Editor)
edges: 9
openings: 2
  Ask.look_up: Find, Grade for each input, then Digest, then joins Assess
  Assess.run: Reread for each input, then joins Assess
"""
    )
