"""Kernels compiled to libraries: what they take and return, when they are compiled again, interruption."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kpg.runtime.kernels import ranks
from kpg.runtime.native import identity, link
from kpg.runtime.native.link import NoCompilerError
from tests.unit.native.running import KERNELS, output, run, write

ALL = """
print(mine.total(np.array([3, 4]), 1), mine.total(np.array([3, 4]), np.int64(1)))
print(mine.scalars(True, 1.5, 0), mine.scalars(np.bool_(False), 1.5, 2**63))
a, b, c = np.zeros((2, 3), np.int64), np.array([7, 8], np.uint8), np.zeros(1, np.int32)
b.flags.writeable = False
print(mine.shapes(a, b, c), a[0].tolist(), c.tolist())
"""
ANSWERS = ["15 15", "-1.5 9.223372036854776e+18", "None [2, 3, 0] [7]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where ``mine`` is, compiled."""
    made = tmp_path_factory.mktemp("compiled")
    write(made)
    assert output(made, ALL) == ANSWERS
    return made


def test_numba_is_not_imported(folder: Path) -> None:
    assert output(folder, ALL + "print('numba' in sys.modules)") == [*ANSWERS, "False"]


@pytest.mark.parametrize("mode", ["numba", "python"])
def test_the_other_ways_agree(folder: Path, mode: str) -> None:
    assert output(folder, ALL, KPG_KERNELS=mode) == ANSWERS


REFUSED = (
    "np.zeros(4, np.int64)[::2], 1",
    "np.zeros(4, np.int32), 1",
    "np.zeros((2, 2), np.int64), 1",
    "np.zeros(4, np.dtype('>i8')), 1",
    "np.zeros(4, np.uint64), 1",
    "np.frombuffer(bytes(8), np.int64), 1",
    "[1, 2], 1",
    "None, 1",
    "np.zeros(4, np.int64), 1.5",
    "np.zeros(4, np.int64), 'a'",
    "np.zeros(4, np.int64), None",
    "np.zeros(4, np.int64)",
    "np.zeros(4, np.int64), 1, 2",
    "np.zeros(4, np.int64), more=1",
)


def test_what_a_kernel_does_not_take(folder: Path) -> None:
    program = "mine.total.prepare()\n" + "".join(
        f"try: mine.total({arguments})\nexcept TypeError as error: print('mine.total' in str(error))\n"
        for arguments in REFUSED
    )
    assert output(folder, program) == ["True"] * len(REFUSED)


def test_a_number_that_is_no_word_is_refused(folder: Path) -> None:
    program = """
mine.divided.prepare()
for x in (2**63, -2**63 - 1, 2**63 - 1, -1):
    try:
        print(mine.divided(x, 1))
    except OverflowError:
        print("too large")
"""
    assert output(folder, program) == ["too large", "too large", str(2**63 - 1), "-1"]


def test_an_error_of_numba_s_is_raised(folder: Path) -> None:
    program = """
try:
    mine.divided(1, 0)
except ZeroDivisionError as error:
    print(error)
print(mine.divided(-7, 2))
"""
    assert output(folder, program) == ["integer division by zero", "-4"]


def test_other_threads_run_beside_a_kernel(folder: Path) -> None:
    """Eight threads call one kernel: nothing is shared between calls."""
    program = """
from concurrent.futures import ThreadPoolExecutor
mine.total(np.arange(1), 0)
def work(n):
    return all(mine.total(np.arange(n), n) == n * n for _ in range(2000))
with ThreadPoolExecutor(8) as pool:
    print(all(pool.map(work, range(8))))
"""
    assert output(folder, program) == ["True"]


def libraries(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "cache").glob("mine.divided.*.so")}


def test_what_is_compiled_is_kept_and_what_has_changed_is_compiled_again(tmp_path: Path) -> None:
    write(tmp_path)
    assert output(tmp_path, "print(mine.divided(7, 2))") == ["3"]
    first = libraries(tmp_path)
    assert output(tmp_path, "print(mine.divided(7, 2))") == ["3"]
    assert libraries(tmp_path) == first and len(first) == 1
    write(tmp_path, KERNELS.replace("return x // y", "return x * y"))
    assert output(tmp_path, "print(mine.divided(7, 2))") == ["14"]
    assert len(libraries(tmp_path)) == 2
    write(tmp_path)
    assert output(tmp_path, "print(mine.divided(7, 2))") == ["3"]
    assert first.items() <= libraries(tmp_path).items()


def test_without_a_c_compiler_numba_compiles_and_it_is_said(tmp_path: Path) -> None:
    write(tmp_path)
    program = """
import logging
logging.basicConfig()
print(mine.divided(7, 2), 'numba' in sys.modules)
"""
    done = run(tmp_path, program, CC="/nowhere/cc")
    assert done.stdout == "3 True\n"
    assert "kernels are compiled by numba, one at a time" in done.stderr
    assert "/nowhere/cc not found" in done.stderr


def test_a_kernel_that_numba_refuses_is_named(tmp_path: Path) -> None:
    write(tmp_path, KERNELS.replace("return x // y", "return x.nothing"))
    done = run(tmp_path, "mine.divided(7, 2)")
    assert "kernel kpg_mine_divided is not compiled: TypingError" in done.stderr


def test_an_unknown_way_is_refused(folder: Path) -> None:
    done = run(folder, "mine.divided(7, 2)", KPG_KERNELS="fortran")
    assert "KPG_KERNELS is 'fortran'" in done.stderr


@pytest.mark.parametrize("mode", ["native", "numba"])
def test_interrupted_while_it_compiles(tmp_path: Path, mode: str) -> None:
    """Whoever presses Ctrl-C has control back at once, and the kernel is there when it is called again."""
    write(tmp_path)
    program = """
import signal
waits, pressed = False, 0

def press(*_):
    if waits:
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGALRM, press)
while True:
    try:
        waits = True
        if pressed < 4:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
        result = mine.total(np.array([3, 4]), 1)
        waits = False
        break
    except KeyboardInterrupt:
        pressed += 1
print(result, pressed > 0)
"""
    assert output(tmp_path, program, KPG_KERNELS=mode) == ["15 True"]


def test_a_user_without_a_home_has_a_folder_that_nobody_else_writes_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(identity, "HERE", tmp_path / "none" / "native")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("KPG_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/dev/null/nowhere")
    found = link.cache_folder.__wrapped__()
    assert found == tmp_path / f"kpg-{os.getuid()}"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    assert link.cache_folder.__wrapped__() == found
    found.chmod(0o777)
    with pytest.raises(NoCompilerError, match="others can write to"):
        link.cache_folder.__wrapped__()
    found.rmdir()
    found.symlink_to(tmp_path)
    with pytest.raises(NoCompilerError, match="others can write to"):
        link.cache_folder.__wrapped__()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert link.cache_folder.__wrapped__() == tmp_path / "home" / ".cache" / "kpg"


def test_a_compiler_whose_program_was_killed_says_nothing(tmp_path: Path) -> None:
    """What it answers nobody reads."""
    order = [ranks.__name__, "find", "none", str(tmp_path / "there.so")]
    (tmp_path / "there.so").write_bytes(b"")
    with subprocess.Popen(
        [sys.executable, "-m", "kpg.runtime.native"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
