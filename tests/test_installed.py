"""Tests whose programs are missing are not run, which the report says; in CI they fail."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import tiers

ROOT = Path(__file__).parents[1]


def ran(where: Path, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    """pytest with an empty PATH and without what .ci/clients installs: its exit code and its report."""
    names = ("server/test_jdbc.py", "server/test_duckdb.py", "spark/test_jobs.py")
    tests = [f"tests/unit/{name}" for name in names]
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "JAVA_HOME")}
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, *tests],
        cwd=ROOT,
        env=kept | {"PATH": str(where), "KPG_CLIENTS": str(where), "PYTEST_ADDOPTS": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return finished.returncode, finished.stdout.splitlines()


def test_what_is_not_run_is_said(tmp_path: Path) -> None:
    code, lines = ran(tmp_path, "--numprocesses", "2")
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED
    assert [line for line in lines if line.startswith("not run: ")] == [
        "not run: 3 tests marked clients (no Python clients: install with .ci/clients; "
        "no java, javac, postgresql.jar: install with .ci/clients)",
        "not run: 7 tests marked java (Spark needs Java 17 or newer, and there is no java on PATH)",
    ]


def test_in_ci_it_is_an_error(tmp_path: Path) -> None:
    code, lines = ran(tmp_path, CI="true")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert not [line for line in lines if line.startswith("not run: ")]
    assert "marked clients: no java, javac, postgresql.jar: install with .ci/clients" in lines


def test_a_tier_says_what_it_leaves_out(tmp_path: Path) -> None:
    code, lines = ran(tmp_path, "-m", tiers.QUICK)
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED
    assert [line for line in lines if line.startswith("not run: ")] == [
        "not run: 10 tests marked slow (make test)"
    ]
    left = Counter({("tests", "slow"): 2, ("files", "slow"): 1, ("files", "soak"): 3})
    assert tiers.line(left) == (
        "not run: 2 tests and 1 files marked slow (make test), 3 files marked soak (make full)"
    )
    assert tiers.line(Counter()) == ""


def test_the_tables_of_tiers_name_tests() -> None:
    paths = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/**/test_*.py")]
    assert {*tiers.FAST, *tiers.SOAK, *tiers.SAMPLED} <= set(paths)
    assert all(any(path.startswith(beginning) for path in paths) for beginning in tiers.SLOW)
