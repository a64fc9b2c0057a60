"""Rule B2 as type checkers hold it: mypy --strict and pyright refuse exactly the marked lines of `typing/rejected.py`.

A marked line and what stands under it:

    go(Trace)  # E:1j
    # mypy[type-var]: "StageType" of "go" cannot be "Trace"
    # pyright[reportArgumentType]: "Trace" is not assignable to "Stage[Any, Any]"

Everything a checker says of a line is written down, each with its code and a part of its message.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

ROOT = Path(__file__).parent.parent
HERE = ROOT / "tests" / "typing"
ACCEPTED, REJECTED = HERE / "accepted.py", HERE / "rejected.py"

MARK = re.compile(r"  # E:(\w+)$")
TWIN = re.compile(r"  # OK:(\w+)$")
SAYING = re.compile(r"^ *# (mypy|pyright)\[([\w-]+)\]: (.+)$")


@frozen
class Saying:
    """What a checker says of a line: the code, and the message or a part of it."""

    checker: str
    code: str
    text: str

    def fits(self, said: Saying) -> bool:
        return (self.checker, self.code) == (said.checker, said.code) and self.text in said.text

    def __str__(self) -> str:
        return f"{self.checker}[{self.code}]: {self.text}"


@frozen
class Mark:
    case: str
    says: tuple[Saying, ...]


Lines = Mapping[int, Sequence[Saying]]


# ---------------------------------------------------------------------------------------------- marks and comparison


def marks_of(text: str) -> dict[int, Mark]:
    """The marks of a file by line, each with the sayings that stand right under it."""
    lines = text.splitlines()
    marks = {}
    for number, line in enumerate(lines, 1):
        if found := MARK.search(line):
            says = []
            for below in lines[number:]:
                if not (saying := SAYING.match(below)):
                    break
                says.append(Saying(*saying.groups()))
            marks[number] = Mark(found[1], tuple(says))
    return marks


def differences(source: str, marks: Mapping[int, Mark], said: Lines) -> list[str]:
    """Every line where what was said is not what is written there, told so that a person can mend it."""
    lines = source.splitlines()
    told = []
    for number in sorted({*marks, *said}):
        mark = marks.get(number, Mark("no mark", ()))
        left = list(said.get(number, ()))
        missed = []
        for expected in mark.says:
            fitting = next((s for s in left if expected.fits(s)), None)
            if fitting is None:
                missed.append(expected)
            else:
                left.remove(fitting)
        if missed or left:
            told += [f"line {number} ({mark.case}): {lines[number - 1].strip()}"]
            told += [f"    expected  {s}" for s in missed] + [f"    was said  {s}" for s in left]
    return told


# ------------------------------------------------------------------------------------------------------- the checkers


def _run(command: Sequence[str | Path]) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, f"{command} did not get to the end:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _mypy() -> Iterator[tuple[str, int, Saying]]:
    options = ["--strict", "--python-version=3.11", "--follow-imports=silent", "--output=json"]
    # No configuration: what `--strict` alone holds.  A cache of its own: the project's is made with other options.
    apart = ["--config-file=", f"--cache-dir={ROOT / '.mypy_cache' / 'marks'}"]
    for line in _run([sys.executable, "-m", "mypy", *options, *apart, ACCEPTED, REJECTED]).splitlines():
        if line.startswith("{") and (said := json.loads(line))["severity"] == "error":
            yield Path(said["file"]).name, said["line"], Saying("mypy", said["code"], said["message"])


def _pyright() -> Iterator[tuple[str, int, Saying]]:
    # `tests/typing/pyrightconfig.json` says standard mode; given files would be subject to the root's `exclude`.
    pyright = Path(sys.executable).with_name("pyright")
    report: dict[str, Any] = json.loads(
        _run([pyright, "--outputjson", "--pythonpath", sys.executable, "--project", HERE])
    )
    assert report["summary"]["filesAnalyzed"] == 2, report["summary"]
    for said in report["generalDiagnostics"]:
        message = " ".join(said["message"].split())
        place = Path(said["file"]).name, said["range"]["start"]["line"] + 1
        yield *place, Saying("pyright", said.get("rule", said["severity"]), message)


@pytest.fixture(scope="module")
def said() -> dict[str, dict[int, list[Saying]]]:
    """What both checkers say, by file name and line: one run of each, side by side."""
    found: dict[str, dict[int, list[Saying]]] = {ACCEPTED.name: {}, REJECTED.name: {}}
    with ThreadPoolExecutor() as pool:
        for diagnostics in pool.map(lambda checker: list(checker()), [_mypy, _pyright]):
            for name, line, saying in diagnostics:
                found[name].setdefault(line, []).append(saying)
    return found


# ---------------------------------------------------------------------------------------------------------- the tests


def test_b2_both_checkers_refuse_exactly_the_marked_lines(said: dict[str, dict[int, list[Saying]]]) -> None:
    source = REJECTED.read_text()
    told = differences(source, marks_of(source), said[REJECTED.name])
    assert not told, "\n".join([f"{REJECTED.name}:", *told])


def test_b2_both_checkers_accept_the_mended_file(said: dict[str, dict[int, list[Saying]]]) -> None:
    told = differences(ACCEPTED.read_text(), {}, said[ACCEPTED.name])
    assert not told, "\n".join([f"{ACCEPTED.name}:", *told])


def test_b2_the_mended_file_runs() -> None:
    assert runpy.run_path(str(ACCEPTED), run_name="__main__")["parcels"].definition.name == "parcels"


def test_b2_every_marked_line_has_one_mended_twin() -> None:
    wrong = Counter(mark.case for mark in marks_of(REJECTED.read_text()).values())
    right = Counter(m[1] for line in ACCEPTED.read_text().splitlines() if (m := TWIN.search(line)))
    assert (wrong - right, right - wrong) == (Counter(), Counter()), "marks without a twin, twins without a mark"
    assert set(wrong.values()) == {1}


def test_b2_every_mark_names_what_each_checker_says() -> None:
    source = REJECTED.read_text()
    marks = marks_of(source)
    half = [m.case for m in marks.values() if {s.checker for s in m.says} != {"mypy", "pyright"}]
    assert not half
    # A mark or a saying that is written wrongly, or stands in the wrong place, would be read as an ordinary comment.
    code = source.partition("from __future__")[2]
    assert len(marks) == len(re.findall(r"# ?E\b", code))
    assert sum(len(m.says) for m in marks.values()) == len(re.findall(r"(?m)^ *# ?(?:mypy|pyright)\b", code))


# ------------------------------------------------------------------------------------- the comparison itself can fail

SOURCE = """\
go(Trace)  # E:1j
# mypy[type-var]: cannot be "Trace"
# pyright[reportArgumentType]: not assignable
go(Pay)
"""
MYPY = Saying("mypy", "type-var", 'Value of type variable "StageType" of "go" cannot be "Trace"')
PYRIGHT = Saying("pyright", "reportArgumentType", '"Trace" is not assignable to "Stage[Any, Any]"')


@pytest.mark.parametrize(
    ("said", "told"),
    [
        pytest.param({1: [MYPY, PYRIGHT]}, [], id="as marked"),
        pytest.param({1: [PYRIGHT, MYPY]}, [], id="in any order"),
        pytest.param({1: [MYPY]}, ["line 1 (1j)", "expected  pyright"], id="missed by one checker"),
        pytest.param({}, ["line 1 (1j)", "expected  mypy", "expected  pyright"], id="missed by both"),
        pytest.param(
            {1: [MYPY, PYRIGHT], 4: [MYPY]},
            ["line 4 (no mark): go(Pay)", "was said  mypy"],
            id="refused without a mark",
        ),
        pytest.param({1: [MYPY, MYPY, PYRIGHT]}, ["line 1 (1j)", "was said  mypy"], id="one saying too many"),
        pytest.param(
            {1: [Saying("mypy", "arg-type", MYPY.text), PYRIGHT]},
            ["line 1 (1j)", "expected  mypy[type-var]", "was said  mypy[arg-type]"],
            id="another code",
        ),
        pytest.param(
            {1: [MYPY, Saying("pyright", PYRIGHT.code, "is assignable")]},
            ["line 1 (1j)", "expected  pyright[reportArgumentType]: not assignable", "was said  pyright"],
            id="another message",
        ),
    ],
)
def test_b2_a_difference_is_told(said: Lines, told: list[str]) -> None:
    found = differences(SOURCE, marks_of(SOURCE), said)
    assert len(found) == len(told)
    assert all(part in line for part, line in zip(told, found, strict=True))
