"""Kernels run as Python agree with compiled ones: some tests, and an example, with the compiler off."""

import os
import subprocess
import sys
from pathlib import Path

from tests.markdown import blocks

ROOT = Path(__file__).parents[3]
FOLDER = "tests/unit/data"
TESTS = (
    *(
        f"{FOLDER}/test_{name}.py"
        for name in ("again", "foreseen", "holes", "loose", "past", "rowgroups", "table")
    ),
    *(f"{FOLDER}/test_vacuum.py::test_random_histories[{case}]" for case in ("0-0-schema1", "3-7-schema0")),
    "tests/unit/kernels/test_merge.py",
    *("-k", "not many_equal_rows and not compacted"),
)
"""Tests of kernels that take a second or two in Python; all of them are run so before a release."""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "KPG_KERNELS": "python"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_kernels_pass_their_tests() -> None:
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *TESTS)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_the_readme_s_example() -> None:
    example, expected = (block.code for block in blocks((ROOT / "README.md").read_text(encoding="utf-8"))[:2])
    done = python("-c", example + "import sys\nassert 'numba' not in sys.modules")
    assert (done.stdout, done.returncode) == (expected, 0), done.stderr


def test_hashes_wrap_around() -> None:
    """Interning hashes with products of 64 bits: interpreted, a string is where compiled code put it."""
    program = """
import numpy as np
from kpg.runtime.kernels import text
from kpg.runtime.native.interpret import interpret_kernel
find = interpret_kernel(text.find)
arena, offsets, slots = np.zeros(64, np.uint8), np.zeros(8, np.int64), np.full(16, -1, np.int64)
source = np.frombuffer(b"somewhat longer", np.uint8)
out = np.zeros(1, np.int64)
text.intern(source, np.array([0, 15]), np.zeros(0, np.uint8), arena, offsets, slots, 0, out, 0, 1)
print(find(source, arena, offsets, slots), find(source[1:], arena, offsets, slots))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "0 -1\n", done.stderr
