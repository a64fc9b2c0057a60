"""`sessions` and `migrate` on the command line: what a store keeps, seen and moved.  Rules L1, L5, M2."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from store_laws import CODEC, commit, following

from ezgraph.cli import main
from ezgraph.session import END, Delta, Head
from ezgraph.stores.sqlite import SQLiteStore

BILLS = """
from __future__ import annotations
from attrs import frozen
from ezgraph import *
from ezgraph.stores.migrations import rename_node
from ezgraph.stores.sqlite import SQLiteStore

class Ask(GraphNode[int]):
    id = "{id}"
    def run(self, ctx: StageContext[int]) -> Direct:
        ctx.save(ctx.state + 1)
        return direct("yes")

bills = Graph("bills", entry=Ask, version={version})
app = bills.compile(store=SQLiteStore("bills.db"), migrations={migrations})
bare = bills.compile(store=type("Bare", (), dict(load=lambda *_: None, commit=lambda *_: None))())
"""


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def say(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    def run(command: str, stdin: str = "") -> Said:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            code = main(command.split())
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run


@pytest.fixture
def kept(folder: Path) -> Path:
    """A file with three sessions: one waits, one has work left, one is over."""
    clock = iter(range(1_700_000_000, 1_800_000_000, 86_400))
    with SQLiteStore(folder / "kept.db", clock=lambda: float(next(clock))) as store:
        waits = commit(store, None, following(None, "one"))
        commit(store, waits, following(waits, "two"))
        commit(store, None, Delta("c-18", "claims", 1, Head("Intake", owed=True)))
        commit(store, None, Delta("c-19", "claims", 1, Head(END)))
    return folder / "kept.db"


def test_l1_sessions_are_listed_one_a_line(say: Any, kept: Path) -> None:
    said = say("sessions list kept.db")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        "c-17\tclaims\t1\t2\tIntake\tidle\t2023-11-15T22:13:20+00:00",
        "c-18\tclaims\t1\t1\tIntake\tunfinished\t2023-11-16T22:13:20+00:00",
        "c-19\tclaims\t1\t1\tEND\tcompleted\t2023-11-17T22:13:20+00:00",
    ]
    for options, ids in (
        ("--status idle", ["c-17"]),
        ("--status unfinished", ["c-18"]),
        ("--status failed", []),
        ("--cursor END", ["c-19"]),
        ("--graph orders", []),
        ("--after c-17 --limit 1", ["c-18"]),
        ("--idle-days 1", ["c-17", "c-18", "c-19"]),
        ("--idle-days 36500", []),
    ):
        assert [line.split("\t")[0] for line in say(f"sessions list kept.db {options}").out.splitlines()] == ids


def test_l1_sessions_whose_step_failed_are_listed_apart(say: Any, kept: Path) -> None:
    """They wait for someone to mend what failed, not for input, and not because a process died."""
    with SQLiteStore(kept) as store:
        commit(store, None, Delta("c-20", "claims", 1, Head("Intake", owed=True, raised=True)))
    assert say("sessions list kept.db --status failed").out.startswith("c-20\tclaims\t1\t1\tIntake\tfailed\t")
    assert say("sessions list kept.db --status unfinished").out.startswith("c-18\t")


def test_l1_a_session_is_shown_as_plain_json(say: Any, kept: Path) -> None:
    shown = json.loads(say("sessions show kept.db c-17").out)
    assert (shown["cells"], shown["head"], shown["revision"]) == ({"Intake": 1}, {"cursor": "Intake", "run": 1}, 2)
    assert [message["text"] for message in shown["histories"]["default"]] == ["one", "two"]


def test_l1_what_is_exported_is_imported_elsewhere(say: Any, kept: Path, folder: Path) -> None:
    exported = say("sessions export kept.db").out
    assert say("sessions import other.db", exported) == (0, "", "imported 3\n")
    assert say("sessions export other.db").out == exported
    assert say("sessions export kept.db c-18 c-17").out.splitlines() == exported.splitlines()[1::-1]
    assert say("sessions export kept.db --status completed").out == exported.splitlines()[2] + "\n"
    with SQLiteStore(kept) as one, SQLiteStore(folder / "other.db") as other:
        assert one.load("c-17", CODEC) == other.load("c-17", CODEC)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 4 is not JSON"),
        ("7", "line 4 is no session: write what `sessions export` wrote."),
        ('{"session":"x"}', "line 4 is no session"),
        ('{"session":"x","document":{},"more":1}', "line 4 is no session"),
        ('{"session":"x","document":{}}', "line 4: session 'x': $.format is None, and this version reads format 1."),
    ],
)
def test_l4_all_is_imported_or_nothing(say: Any, kept: Path, line: str, told: str) -> None:
    exported = say("sessions export kept.db").out
    said = say("sessions import other.db", exported + line + "\n")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("ezgraph: ")
    assert told in said.err
    assert say("sessions list other.db").out == ""
    assert say("sessions import kept.db", exported.replace("c-17", "c-20")).code == 1
    assert "c-20" not in say("sessions list kept.db").out
    twice = exported.splitlines(keepends=True)[0] * 2
    assert "line 2: session 'c-17' is there twice" in say("sessions import other.db", twice).err


def test_l1_sessions_are_copied_and_deleted(say: Any, kept: Path) -> None:
    assert say("sessions copy kept.db c-17 c-20") == (0, "", "")
    assert say("sessions show kept.db c-20") == say("sessions show kept.db c-17")
    taken = say("sessions copy kept.db c-17 c-20")
    assert (taken.code, taken.out) == (1, "")
    assert taken.err.startswith("SessionExists: there is a session 'c-20' in kept.db already")
    assert say("sessions show kept.db c-99").err.startswith("NoSuchSession: there is no session 'c-99' in kept.db")
    assert say("sessions delete kept.db c-17 c-99 c-20") == (1, "", "there is no session 'c-99'\n")
    assert say("sessions delete kept.db c-18") == (0, "", "")
    assert [line.split("\t")[0] for line in say("sessions list kept.db").out.splitlines()] == ["c-19"]


def test_l6_prune_wants_to_be_told_which(say: Any, kept: Path) -> None:
    assert say("sessions prune kept.db") == (
        2,
        "",
        "ezgraph: prune would forget every session: say which, or --all.\n",
    )
    for some in ("--limit 1", "--after a", "--after c-17 --limit 9"):
        assert say(f"sessions prune kept.db {some}").err.startswith("ezgraph: prune would forget every session")
    for days in ("-5", "nan", "inf"):
        assert say(f"sessions prune kept.db --idle-days {days}").err.startswith(f"ezgraph: --idle-days {float(days)}")
    assert say("sessions copy kept.db c-17 x" + "y" * 200).err.startswith("InvalidInput: a session id")
    assert say("sessions prune kept.db --status completed --idle-days 30") == (0, "1\n", "")
    assert say("sessions prune kept.db --all") == (0, "2\n", "")
    assert say("sessions list kept.db").out == ""


def test_m2_what_is_wrong_with_the_command_is_told(say: Any, folder: Path) -> None:
    absent = say("sessions list none.db")
    assert absent == (
        2,
        "",
        "ezgraph: there is no file none.db: name a SQLite file, or module:name of a compiled graph.\n",
    )
    assert list(folder.iterdir()) == []
    (folder / "foreign.db").write_text("not a database, and long enough to have a header of a hundred bytes" * 3)
    assert say("sessions list foreign.db").err.startswith("ForeignFile: foreign.db is not a SQLite file")
    assert say("sessions list foreign.db --limit -1").err.startswith("ezgraph: --limit -1")
    assert say("sessions list").code == 2
    assert say("sessions copy kept.db c-17").code == 2
    assert say("sessions list nowhere.py:app").err.startswith("ezgraph: there is no file nowhere.py")


def bills(folder: Path, name: str, **options: Any) -> None:
    told = {"id": "Ask", "version": 1, "migrations": "{}"} | options
    (folder / f"{name}.py").write_text(BILLS.format(**told))


def test_l5_migrate_says_what_would_fail_and_then_does_it(say: Any, folder: Path) -> None:
    bills(folder, "first")
    bills(folder, "without", id="Query", version=2)
    bills(folder, "second", id="Query", version=2, migrations='{2: rename_node("Ask", "Query")}')
    assert say("chat first.py:app --session a", "hi\n").out == "yes\n"
    assert say("chat first.py:app --session b", "hi\n").out == "yes\n"
    before = say("sessions export first.py:app").out
    said = say("migrate --check without.py:app")
    assert (said.code, said.err) == (1, "2 would not load\n")
    assert [line.split(":")[0] for line in said.out.splitlines()] == ["VersionMismatch"] * 2
    assert "no migration leads to version 2" in said.out
    assert "$.cells.Ask" in said.out
    failed = say("migrate without.py:app")
    assert (failed.code, failed.out) == (1, "")
    assert failed.err.startswith("VersionMismatch: session 'a'")
    assert say("migrate --check second.py:app") == (0, "", "all sessions load\n")
    assert say("sessions export first.py:app").out == before
    assert say("migrate second.py:app") == (0, "a\nb\n", "")
    assert say("migrate second.py:app") == (0, "", "")
    assert json.loads(say("sessions show bills.db a").out)["cells"] == {"Query": 1}
    assert "takes a compiled one" in say("migrate second.py:bills").err


def test_m2_a_store_that_keeps_no_list_is_told(say: Any, folder: Path) -> None:
    bills(folder, "first")
    said = say("sessions list first.py:bare")
    assert said.code == 2
    assert "pass a store that can do that" in said.err


def test_l1_a_store_of_a_program_is_its_own(say: Any, folder: Path) -> None:
    """`module:name` stands for the store of that graph, whatever it is."""
    (folder / "memory.py").write_text(
        BILLS.format(id="Ask", version=1, migrations="{}").replace('SQLiteStore("bills.db")', "None")
    )
    assert say("sessions list memory.py:app") == (0, "", "")
