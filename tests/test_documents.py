"""FIELD T4: every Python example in README and docs runs, and type-checks under both checkers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """One fenced block: where its code begins, and the code."""

    document: str
    line: int
    code: str

    @property
    def name(self) -> str:
        return re.sub(r"\W", "_", f"{self.document}_{self.line}")


def examples() -> list[Example]:
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    return [
        Example(str(path.relative_to(ROOT)), text.count("\n", 0, block.start(1)) + 1, block.group(1))
        for path in documents
        for text in [path.read_text(encoding="utf-8")]
        for block in FENCE.finditer(text)
    ]


EXAMPLES = examples()


def test_t4_the_readme_has_examples() -> None:
    assert any(example.document == "README.md" for example in EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.document}:{example.line}")
def test_t4_an_example_runs(example: Example, tmp_path: Path) -> None:
    """In a process and a folder of its own, with warnings as errors; a traceback names the document's line."""
    script = tmp_path / f"{example.name}.py"
    script.write_text("\n" * (example.line - 1) + example.code, encoding="utf-8")
    done = _run(["-W", "error", str(script)], tmp_path)
    assert done.returncode == 0, done.stderr.replace(str(script), example.document)


def test_t4_the_examples_type_check_under_mypy(tmp_path: Path) -> None:
    _write(tmp_path)
    done = _run(["-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), "."], tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_t4_the_examples_type_check_under_pyright(tmp_path: Path) -> None:
    _write(tmp_path)
    done = _run(["-m", "pyright", "--pythonpath", sys.executable, "."], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def _write(folder: Path) -> None:
    for example in EXAMPLES:
        (folder / f"{example.name}.py").write_text("\n" * (example.line - 1) + example.code, encoding="utf-8")


def _run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
