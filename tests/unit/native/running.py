"""Programs with kernels of their own, in processes of their own, with a cache of their own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
KERNELS = '''
"""Kernels under test."""
import numpy as np
from kpg.runtime.kernels import device, kernel

@device
def twice(x):
    return 2 * x

@kernel("int64(int64[::1], int64)")
def total(values, more):
    scratch = np.empty(values.shape[0], np.int64)
    scratch[:] = values
    result = more
    for i in range(scratch.shape[0]):
        result += twice(scratch[i])
    return result

@kernel("int64(int64, int64)")
def divided(x, y):
    return x // y

@kernel("float64(boolean, float64, uint64)")
def scalars(negative, x, y):
    return -x if negative else x + np.float64(y)

@kernel("void(int64[:, ::1], Array(uint8, 1, 'C', True), int32[::1])")
def shapes(a, b, c):
    a[0, 0] = a.shape[0]
    a[0, 1] = a.shape[1]
    c[0] = b[0]
'''
BEGIN = "import sys\nimport numpy as np\nimport mine\n"


def environment(folder: Path, **more: str) -> dict[str, str]:
    """That of a process whose kernels are in ``folder/mine.py``, and whose cache is there too."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "KPG_CACHE_DIR": str(folder / "cache"), **more}


def write(folder: Path, kernels: str = KERNELS) -> Path:
    """``folder/mine.py`` with these kernels."""
    path = folder / "mine.py"
    path.write_text(kernels, encoding="utf-8")
    return path


def run(folder: Path, program: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``program`` after ``import numpy as np, mine``."""
    return subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        check=False,
    )


def output(folder: Path, program: str, **more: str) -> list[str]:
    """The lines that a program prints."""
    done = run(folder, program, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
