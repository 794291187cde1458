"""The README's example does what the README says."""

import subprocess
import sys
from pathlib import Path

from tests.markdown import blocks

ROOT = Path(__file__).parents[1]


def test_example_prints_what_stands_below_it() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = [block for block in blocks(text) if block.language == "python"]
    (expected,) = [block for block in blocks(text) if block.language == "text"]
    assert len([line for line in example.code.splitlines() if line]) == 10
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", example.code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.stdout, finished.returncode) == (expected.code, 0), finished.stderr


def test_first_screen_has_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:24]
    commands = [line.split("#")[0].strip() for line in lines if line.startswith("    make")]
    assert commands == ["make demo", "make test"]
