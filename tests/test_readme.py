"""The README's example does what the README says."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.markdown import blocks

ROOT = Path(__file__).parents[1]


TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = [block.code for block in blocks(TEXT) if block.language == "python"]
OUTPUTS = [block.code for block in blocks(TEXT) if block.language == "text"]


@pytest.mark.parametrize(("example", "expected"), list(zip(EXAMPLES, OUTPUTS, strict=True)))
def test_example_prints_what_stands_below_it(example: str, expected: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.stdout, finished.returncode) == (expected, 0), finished.stderr


def test_the_first_example_has_ten_lines() -> None:
    assert len([line for line in EXAMPLES[0].splitlines() if line]) == 10


def test_first_screen_has_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:24]
    commands = [line.split("#")[0].strip() for line in lines if line.startswith("    make")]
    assert commands == ["make demo", "make test"]
