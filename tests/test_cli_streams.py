"""The command line where its streams are full, closed or not UTF-8, and arguments are not either.  Rules L1, M2."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from store_laws import commit

from ezgraph import InvalidInput
from ezgraph.cli import main
from ezgraph.session import Delta, Head
from ezgraph.stores.contract import Query
from ezgraph.stores.sqlite import SQLiteStore

ROOT = Path(__file__).parent.parent
CAFE = "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
SHOP = """
from ezgraph import *
from ezgraph.stores.sqlite import SQLiteStore

class Ask(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Direct:
        return direct("yes")

shop = Graph("shop", entry=Ask)
app = shop.compile(store=SQLiteStore("kept.db"))
"""
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
COMMANDS = (
    "sessions list kept.db",
    "sessions show kept.db c-17",
    "sessions export kept.db",
    "sessions prune kept.db --graph none",
    "check shop.py:shop",
    "draw shop.py:shop",
    "--help",
    "sessions --help",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    with SQLiteStore(tmp_path / "kept.db") as store:
        for session in ("c-17", CAFE):
            commit(store, None, Delta(session, "claims", 1, Head("Intake")))
    return tmp_path


def shell(command: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
    """`command` in a shell, with `ez` for `python -m ezgraph`."""
    program = f"{shlex.quote(sys.executable)} -m ezgraph"
    return subprocess.run(
        ["bash", "-c", f'ez() {{ {program} "$@"; }}; {command}'],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "", **settings},
    )


def told(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one line of stderr."""
    (line,) = done.stderr.decode().splitlines()
    return line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
@pytest.mark.parametrize("command", COMMANDS)
def test_m2_a_full_output_is_one_line(command: str) -> None:
    done = shell(f"ez {command} > /dev/full")
    assert (done.returncode, done.stdout) == (1, b"")
    assert told(done) == "ezgraph: standard output cannot be written: No space left on device."


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_m2_a_full_output_is_one_line_unbuffered_too() -> None:
    done = shell(
        "ez sessions list kept.db > /dev/full; ez chat shop.py:app <<< hello > /dev/full", PYTHONUNBUFFERED="1"
    )
    line = b"ezgraph: standard output cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (1, line * 2)


@pytest.mark.parametrize("command", [*COMMANDS, "sessions delete kept.db c-17", "chat shop.py:app"])
def test_m2_a_closed_output_is_one_line_and_nothing_is_done(command: str) -> None:
    done = shell(f"ez {command} >&- < /dev/null")
    assert (done.returncode, done.stdout) == (1, b"")
    assert told(done) == "ezgraph: standard output is closed: send it to /dev/null where nobody reads it."
    with SQLiteStore("kept.db") as store:
        assert store.entry("c-17") is not None


def test_m2_who_reads_no_further_is_told_nothing() -> None:
    with SQLiteStore("kept.db") as store:
        document = store.export("c-17")
        document["histories"] = {"default": [{"role": "user", "text": "x" * 1000}] * 300}
        store.add({"long": document})
    done = shell("set -o pipefail; ez sessions show kept.db long | head -1")
    assert (done.returncode, done.stdout, done.stderr) == (141, b"{\n", b"")


@pytest.mark.parametrize("command", ["chat shop.py:app", "sessions import other.db"])
def test_m2_a_closed_input_is_one_line(command: str) -> None:
    done = shell(f"ez {command} <&-")
    assert (done.returncode, done.stdout) == (1, b"")
    assert told(done) == "ezgraph: standard input is closed: this command reads from it."


def test_m2_what_is_imported_is_utf_8_whatever_the_locale(folder: Path) -> None:
    exported = shell("ez sessions export kept.db").stdout
    assert exported.isascii()
    (folder / "lines").write_bytes(exported + b'{"session": "\xff"}\n')
    done = shell("ez sessions import other.db < lines")
    assert (done.returncode, told(done)) == (1, "ezgraph: line 3 is not UTF-8 text.")
    raw = [json.dumps(json.loads(line), ensure_ascii=False) for line in exported.splitlines()]
    (folder / "lines").write_bytes("\n".join(raw).encode())
    assert told(shell("ez sessions import other.db < lines", **PLAIN)) == "imported 2"
    assert shell("ez sessions export other.db").stdout == exported


@pytest.mark.parametrize(
    ("command", "argument"),
    [
        (r"sessions list kept.db --graph $'\xff'", "--graph"),
        (r"sessions list kept.db --after $'\xff'", "--after"),
        (r"sessions export kept.db --cursor $'a\xff'", "--cursor"),
        (r"sessions prune kept.db --graph $'\xff'", "--graph"),
        (r"sessions show kept.db $'\xff'", "the session id"),
        (r"sessions export kept.db c-17 $'\xff'", "the session id"),
        (r"sessions copy kept.db c-17 $'\xff'", "the session id"),
        (r"sessions delete kept.db $'\xff'", "the session id"),
        (r"chat --session $'\xff' shop.py:app", "--session"),
    ],
)
def test_m2_an_argument_that_is_not_utf_8_is_named(command: str, argument: str) -> None:
    for settings in ({}, PLAIN):
        done = shell(f"ez {command} < /dev/null", **settings)
        assert (done.returncode, done.stdout) == (2, b"")
        assert told(done).startswith(f"ezgraph: {argument} '")
        assert told(done).endswith("\\udcff' is not UTF-8 text.")


def test_l1_an_id_of_any_letters_is_found_whatever_the_locale() -> None:
    shown = shell(f"ez sessions show kept.db {CAFE}", **PLAIN)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert json.loads(shown.stdout)["graph"] == "claims"
    assert shell(f"ez sessions list kept.db --after {CAFE}", **PLAIN).stdout == b""
    assert shell(f"ez sessions list kept.db --graph {CAFE}", **PLAIN).stderr == b""
    assert shell(f"ez sessions delete kept.db {CAFE}", **PLAIN).returncode == 0


@pytest.mark.parametrize("name", ["graph", "cursor", "after"])
def test_l1_a_query_is_text(name: str) -> None:
    for wrong in ("\udcff", 7):
        given: Any = {name: wrong}
        with pytest.raises(InvalidInput, match=rf"Query\({name}=.*\): pass a text that UTF-8 can encode"):
            Query(**given)


@pytest.mark.parametrize("filters", ["--graph g", "--status idle", "--limit 1", "--after a", "--idle-days 1"])
def test_l1_export_takes_ids_or_filters(filters: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "export", "kept.db", "c-17", *filters.split()]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("ezgraph: export takes ids, or what the sessions are that are meant")


@pytest.mark.parametrize(
    "command",
    ["list", "show c-17", "export", "export c-17", "copy c-17 c-18", "delete c-17", "prune --graph none", "migrate"],
)
def test_l1_an_empty_file_is_not_written_into(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty.db").touch()
    (folder / "empty.py").write_text(SHOP.replace("kept.db", "empty.db"))
    before = sorted(folder.iterdir())
    name, *rest = command.split()
    given = ["migrate", "--check", "empty.py:app"] if name == "migrate" else ["sessions", name, "empty.db", *rest]
    assert main(given) == 2
    assert "empty.db is empty: name a SQLite file, or module:name of a compiled graph." in capsys.readouterr().err
    assert [path for path in sorted(folder.iterdir()) if path.name != "__pycache__"] == before
    assert (folder / "empty.db").stat().st_size == 0


def test_m2_a_file_that_cannot_be_looked_at_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "list", "x" * 5000]) == 1
    assert "File name too long" in capsys.readouterr().err


def test_m2_a_hint_is_no_answer_where_stderr_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["sessions", "show", "kept.db", "missing"]) == 1
    assert out.getvalue() == ""
