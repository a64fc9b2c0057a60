"""The command line: what it prints, where, and its exit codes."""

from __future__ import annotations

import io
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ezgraph.cli import main
from ezgraph.stores.sqlite import SQLiteStore

ROOT = Path(__file__).parent.parent
CLAIMS = str(ROOT / "examples" / "claims.py")

SHOP = '''
from __future__ import annotations
from ezgraph import *
from ezgraph.models import ScriptedModel, call

print("a module may print")

class Talk(Conversation[None]):
    """Talks."""

    @tool
    def leave(self, ctx: StageContext[None]) -> Finish:
        return finish("Goodbye.")

    @tool
    def on(self, ctx: StageContext[None]) -> Go[Think]:
        return go(Think)

class Think(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> DirectTo[Talk] | None:
        return direct_to(Talk, "thought of")

shop = Graph("shop", entry=Talk).stages(Think)
app = shop.compile(model=ScriptedModel("first", ValueError("no connection"), "third", call("on"), call("leave")))
price = 3
'''

WRONG = """
from __future__ import annotations
from ezgraph import *

class Talk(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Go[Lost] | Finish:
        return finish("x")

class Lost(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("x")

class Alone(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Finish:
        return finish("x")

shop = Graph("shop", entry=Talk).stages(Alone)
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder with a shop in it; what a target leaves in the process is taken away again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "notes.txt").write_text("app = 1")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def run(*arguments: str, stdin: bytes = b"", encoding: str = "utf-8") -> subprocess.CompletedProcess[bytes]:
    """`python -m ezgraph` as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ezgraph", *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding},
    )


# ------------------------------------------------------------------------------------------------------- check and draw


@pytest.mark.parametrize("target", ["shop.py:shop", "shop.py:app", "./shop.py:shop", "shop:shop"])
def test_check_tells_the_facts_of_a_right_graph(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", target]) == 0
    told = capsys.readouterr()
    facts = "stages: 2 (Talk, Think)\nworkers: 0\nedges: 3\nopenings: 0\n"
    assert told.out == f"ok: graph 'shop' begins at Talk\n{facts}"
    assert told.err == "a module may print\n"


def test_m3_check_lists_every_problem_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "wrong.py:shop"]) == 1
    told = capsys.readouterr()
    assert told.out.startswith("graph 'shop' has 2 problems:\n")
    assert "may lead to Lost, which the graph does not have" in told.out
    assert "Alone: nothing leads to it from the entry" in told.out
    assert told.err == ""


def test_m3_a_graph_compiled_at_import_is_checked_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "compiled.py").write_text(WRONG + "app = shop.compile()\n")
    assert main(["check", "compiled.py:app"]) == 1
    assert capsys.readouterr().out.startswith("graph 'shop' has 2 problems:\n")


def test_draw_prints_mermaid_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "shop.py:app"]) == 0
    assert (
        capsys.readouterr().out
        == """\
flowchart TD
    n0("Talk")
    n1("Think")
    finish((END))
    n0 -->|leave| finish
    n0 -->|on| n1
    n1 -.->|run| n0
    style n0 stroke-width:3px
"""
    )


def test_draw_of_a_wrong_graph_draws_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "wrong.py:shop"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("graph 'shop' has 2 problems:\n")


# ----------------------------------------------------------------------------------------------------------- the target


@pytest.mark.parametrize(
    ("target", "code", "told"),
    [
        ("shap.py:shop", 2, "ezgraph: there is no file shap.py. Did you mean shop.py?\n"),
        ("elsewhere/shop.py:shop", 2, "ezgraph: there is no file elsewhere/shop.py.\n"),
        ("nowhere:shop", 2, "ezgraph: there is no module nowhere here or among what is installed.\n"),
        ("nowhere.inside:shop", 2, "ezgraph: there is no module nowhere here or among what is installed.\n"),
        ("no-module:shop", 2, "ezgraph: 'no-module' is no module: write module:name or file.py:name"),
        (":shop", 2, "ezgraph: '' is no module: write module:name or file.py:name"),
        ("shop.py:shep", 2, "ezgraph: shop.py has no shep. Did you mean shop?\n"),
        ("shop.py:qqq", 2, "ezgraph: shop.py has no qqq. Its graphs: shop.py:shop, shop.py:app.\n"),
        (
            "shop.py",
            2,
            "ezgraph: shop.py names no graph: write module:name or file.py:name. Its graphs: shop.py:shop, ",
        ),
        ("./shop.py", 2, "ezgraph: ./shop.py names no graph: write module:name or file.py:name. Its graphs: ./shop.py"),
        ("shop.py:price", 2, "ezgraph: shop.py:price is of type int, neither a Graph nor a compiled one. Its graphs: "),
        ("json:loads", 2, "ezgraph: json:loads is of type function, neither a Graph nor a compiled one. json has no "),
        (".", 2, "ezgraph: '.' is no module"),
        ("./notes.txt:app", 2, "ezgraph: notes.txt is no Python file.\n"),
        ("text/:x", 2, "ezgraph: there is no file text/.\n"),
    ],
)
def test_m2_a_target_that_is_not_there_is_told_without_a_traceback(
    target: str, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", target]) == code
    captured = capsys.readouterr()
    assert captured.err.removeprefix("a module may print\n").startswith(told)
    assert captured.out == ""
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "x = 1\nimport nowhere_at_all\n",
            ", line 2\n    import nowhere_at_all\n  ModuleNotFoundError: No module named",
        ),
        ("x = 1 +\n", ", line 1\n    x = 1 +\n  SyntaxError: invalid syntax\n"),
        ("\n\n1 / 0\n", ", line 3\n    1 / 0\n  ZeroDivisionError: division by zero\n"),
        ("from ezgraph import Graph\nGraph('', entry=1)\n", ", line 2\n    Graph('', entry=1)\n  InvalidInput: Graph("),
        ("raise SystemExit(3)\n", "ends the program when it is imported. Put what it runs under `if __name__ =="),
    ],
)
@pytest.mark.parametrize("target", ["broken.py:app", "broken:app"])
def test_m2_a_target_that_fails_is_told_with_its_line(
    target: str, text: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.py").write_text(text)
    assert main(["draw", target]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"ezgraph: {target[:-4]} ")
    assert told in err
    assert "Traceback" not in err


def test_a_file_is_imported_beside_its_neighbours_and_under_a_name_of_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "neighbour.py").write_text("from ezgraph import *\nNAME = 'json'\n")
    text = SHOP.replace('"shop"', "NAME").replace("from ezgraph import *", "from neighbour import *")
    (folder / "sub" / "json.py").write_text(text)
    import json  # noqa: PLC0415  the one that must stay

    assert main(["check", "sub/json.py:shop"]) == 0
    assert capsys.readouterr().out.startswith("ok: graph 'json'")
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    "arguments", [[], ["dance"], ["check"], ["draw", "a:b", "c"], ["chat", "shop.py:app", "--sess"]]
)
def test_a_wrong_command_is_told_with_its_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: ezgraph")


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "0 fine, 1 the graph or the run has problems" in capsys.readouterr().out


# ----------------------------------------------------------------------------------------------------------------- chat


def talk(monkeypatch: pytest.MonkeyPatch, text: str, *options: str, target: str = "shop.py:app") -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    return main(["chat", target, *options])


def test_g4_a_failed_turn_is_told_and_the_chat_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert talk(monkeypatch, "one\n\n  \ntwo\nthree\nfour\nfive\nsix\n") == 1
    told = capsys.readouterr()
    assert told.out == "first\nthird\nthought of\nGoodbye.\n"
    assert told.err == (
        "a module may print\n"
        "(an empty line says nothing: type a message)\n"
        "(an empty line says nothing: type a message)\n"
        "StepFailed: Talk raised ValueError: no connection\n"
        "session 'default' is completed; start another with --session NAME\n"
    )


def test_chat_ends_quietly_with_its_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert talk(monkeypatch, "one") == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("first\n", "a module may print\n")


def test_chat_prompts_on_a_terminal_only_and_names_the_session(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("one\n"))
    assert main(["chat", "shop.py:app", "--session", "mine"]) == 0
    told = capsys.readouterr()
    assert told.out == "first\n"
    assert told.err == "a module may print\nsession 'mine'; Ctrl-D ends the chat\n> > \n"


def test_ctrl_c_ends_a_chat_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    terminal = Terminal()
    monkeypatch.setattr(terminal, "readline", interrupted)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert main(["chat", "shop.py:app"]) == 0
    assert capsys.readouterr().err.endswith("> \n")


def test_ctrl_c_while_a_target_is_imported_is_no_traceback(folder: Path) -> None:
    (folder / "slow.py").write_text("raise KeyboardInterrupt\n")
    assert main(["check", "slow.py:app"]) == 1


@pytest.mark.parametrize("session", ["", " ", "a\nb", "x" * 201])
def test_a_session_id_that_cannot_be_is_a_wrong_command(
    session: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert talk(monkeypatch, "one\n", f"--session={session}") == 2
    assert "a session id is printable text of at most 200 characters" in capsys.readouterr().err


def test_chat_takes_a_compiled_graph(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert talk(monkeypatch, "one\n", target="shop.py:shop") == 2
    assert "shop.py:shop is a Graph, and chat takes a compiled one. Write app = shop.compile(model=...)" in (
        capsys.readouterr().err
    )


KEPT = """
from __future__ import annotations
import atexit
from pathlib import Path
from ezgraph import *
from ezgraph.stores.sqlite import SQLiteStore

class Think(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Fanout[Fetch | Count]:
        return fanout(Fetch, Count)

class Fetch(Worker[None, str]):
    def run(self, ctx: Context[None]) -> TaskResult[str]:
        tries = int(Path("tries").read_text())
        Path("tries").write_text(str(tries - 1))
        if tries > 0:
            raise OSError("the line is dead")
        return task_result("fetched")

class Count(Worker[None, int]):
    def run(self, ctx: Context[None]) -> TaskResult[int]:
        return task_result(1)

class Answer(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> DirectTo[Think] | Finish:
        return finish("at last") if Path("last").exists() else direct_to(Think, ctx.result(Fetch))

kept = Graph("kept", entry=Think).stages(Answer).workers(Fetch, Count).join((Fetch, Count), to=Answer)
app = kept.compile(store=SQLiteStore("kept.db"))
atexit.register(app._executor.store.close)
"""

QUIET = """
from __future__ import annotations
from ezgraph import *

class Quiet(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> None:
        return None

quiet = Graph("quiet", entry=Quiet).compile()
"""

GOING_ON = "(going on with what an earlier turn left unfinished)\n"
COMPLETED = "session 'default' is completed; start another with --session NAME\n"


@pytest.fixture
def kept(folder: Path) -> Path:
    """The folder, with a graph whose session is kept, and whose worker fails as often as the file `tries` says."""
    (folder / "kept.py").write_text(KEPT)
    (folder / "tries").write_text("0")
    return folder


def test_g6_what_an_earlier_run_left_unfinished_is_done_first(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (kept / "tries").write_text("1")
    assert talk(monkeypatch, "one\n", target="kept.py:app") == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("BranchFailed: session 'default': 1 of its branches failed: Fetch raised OSError")

    assert talk(monkeypatch, "two\n", target="kept.py:app") == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("fetched\nfetched\n", GOING_ON)


def test_g6_what_a_turn_left_unfinished_is_done_before_the_next(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (kept / "tries").write_text("2")
    assert talk(monkeypatch, "one\ntwo\nthree\n", target="kept.py:app") == 1
    told = capsys.readouterr()
    assert told.out == "fetched\nfetched\n"
    assert [line.split(":")[0] for line in told.err.splitlines()] == [
        "BranchFailed",
        GOING_ON.strip(),
        "BranchFailed",
        GOING_ON.strip(),
    ]


STAGES = """
from __future__ import annotations
import atexit
from pathlib import Path
from ezgraph import *
from ezgraph.stores.sqlite import SQLiteStore

class Hears(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> Go[Tells]:
        return go(Tells).with_message(f"about {ctx.incoming.text}")

class Tells(GraphNode[None]):
    def run(self, ctx: StageContext[None]) -> DirectTo[Hears]:
        tries = int(Path("tries").read_text())
        Path("tries").write_text(str(tries - 1))
        if tries > 0:
            raise OSError("the line is dead")
        return direct_to(Hears, ctx.incoming.text)

app = Graph("stages", entry=Hears).stages(Tells).compile(store=SQLiteStore("stages.db"))
atexit.register(app._executor.store.close)
"""


@pytest.mark.parametrize(("tries", "out"), [(1, "about one\nabout two\n"), (2, "two\n")])
def test_g6_a_stage_that_failed_runs_again_when_a_chat_begins(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tries: int, out: str
) -> None:
    """Where it fails again the chat goes on: what is typed then takes its place."""
    (folder / "stages.py").write_text(STAGES)
    (folder / "tries").write_text(str(tries))
    assert talk(monkeypatch, "one\n", target="stages.py:app") == 1
    assert capsys.readouterr().err.startswith("StepFailed: Tells raised OSError: the line is dead")
    assert talk(monkeypatch, "two\n", target="stages.py:app") == tries - 1
    told = capsys.readouterr()
    assert (told.out, told.err.startswith(GOING_ON)) == (out, True)


def test_g6_a_session_that_recovery_completes_takes_no_more(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (kept / "tries").write_text("1")
    (kept / "last").touch()
    assert talk(monkeypatch, "one\ntwo\n", target="kept.py:app") == 1
    told = capsys.readouterr()
    assert told.out == "at last\n"
    assert told.err.endswith(f"{GOING_ON}{COMPLETED}")

    assert talk(monkeypatch, "three\n", target="kept.py:app") == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", COMPLETED)


def test_m1_a_store_that_cannot_be_read_is_told(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (kept / "kept.db").write_text("my diary")
    assert talk(monkeypatch, "one\n", target="kept.py:app") == 1
    told = "ForeignFile: kept.db is not a SQLite file. It was not touched; name another file.\n"
    assert capsys.readouterr().err == told + told
    assert (kept / "kept.db").read_text() == "my diary"


def test_a8_a_turn_without_a_reply_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "silent.py").write_text(QUIET)
    assert talk(monkeypatch, "one\n", target="silent.py:quiet") == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "(no reply)\n")


# ------------------------------------------------------------------------------------------------------- as a process


def test_a_stranger_chats_with_the_example_through_a_pipe(folder: Path) -> None:
    said = "hello\n\nLP20406619 und 80,50 €\nnein\nbye\nmore\n"
    done = run("chat", f"{CLAIMS}:app", stdin=said.encode())
    assert done.returncode == 0
    told = done.stdout.decode()
    assert [line[:24] for line in told.splitlines()] == [
        "What is the tracking num",
        "LP20406619 was last seen",
        "Then nothing is paid yet",
        "Goodbye.",
    ]
    assert "We can pay 72.45 EUR." in told
    assert (folder / "claims.db").exists()


def test_input_that_is_no_text_is_survived() -> None:
    done = run("chat", f"{CLAIMS}:app", stdin=b"\xff\xfe80 \xe2\x82\xac?\n80 zl\xf3\n1.234 \xe2\x82\xac\n")
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 3


def test_a_broken_pipe_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        assert main(["draw", "shop.py:shop"]) == 141
        gone.write("what is left over is dropped")


def test_python_m_ezgraph_ends_with_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ezgraph", "check", "wrong.py:shop"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("ezgraph", run_name="__main__")
    assert ended.value.code == 1
    assert capsys.readouterr().out.startswith("graph 'shop' has 2 problems:\n")


def test_importing_the_library_loads_no_command_line_and_no_asyncio() -> None:
    code = "import sys, ezgraph; print([m for m in ('asyncio', 'argparse', 'ezgraph.cli') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT, timeout=60
    )
    assert done.stdout == "[]\n"


def test_m2_a_terminal_that_lacks_a_letter_gets_its_number(folder: Path) -> None:
    """ASCII, as where no locale is set: what is shown is text all the same, and no traceback."""
    with SQLiteStore(folder / "kept.db") as store:
        head = {"cursor": "Intake"}
        store.add(
            {
                "caf\N{LATIN SMALL LETTER E WITH ACUTE}": {
                    "format": 1,
                    "graph": "g",
                    "version": 1,
                    "revision": 1,
                    "head": head,
                }
            }
        )
    told = run("sessions", "list", "kept.db", encoding="ascii")
    assert (told.returncode, told.stderr) == (0, b"")
    assert told.stdout.startswith(b"caf\\xe9\tg\t")
