"""Programs beside the project's own packages that some tests need: which of them this machine has.

A mark names what its test needs: ``clients("jdbc")``, ``browser``, ``java``. Where that is missing the test
is deselected, and the report says so in one line for each mark. With ``CI=true`` such a test fails instead.
Tests marked ``mounts`` run only with ``-m mounts``.
"""

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from kpg.runtime.spark.session import unavailability_error

INSTALLED: Final = Path(os.environ.get("KPG_CLIENTS") or os.path.expanduser("~/.cache/kpg/clients"))
"""Where .ci/clients puts what it installs."""
DRIVER: Final = INSTALLED / "postgresql.jar"
PYTHON: Final = INSTALLED / "python"
"""The environment of the Python clients."""
MARKS: Final = ("browser", "clients", "java")


def missing(item: pytest.Item) -> tuple[str, str] | None:
    """The mark of a test whose programs are missing here, and what is missing; None if all are there."""
    for name in MARKS:
        for mark in item.iter_markers(name):
            for need in mark.args or (name,):
                lacking = _lacking(need)
                if lacking:
                    return name, lacking
    return None


def lines(counted: Mapping[tuple[str, str], int]) -> list[str]:
    """What the report says about tests that are not run: for each mark how many, and what is missing."""
    told = []
    for name in sorted({mark for mark, _ in counted}):
        count = sum(tests for (mark, _), tests in counted.items() if mark == name)
        what = "; ".join(sorted({lacking for mark, lacking in counted if mark == name}))
        tests = "1 test" if count == 1 else f"{count} tests"
        told.append(f"not run: {tests} marked {name} ({what})")
    return told


def part(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item], Counter[tuple[str, str]]]:
    """The tests to run, the others, and how many others there are of each mark for each reason."""
    kept, left, counted = list[pytest.Item](), list[pytest.Item](), Counter[tuple[str, str]]()
    for item in items:
        reason = missing(item)
        if item.get_closest_marker("mounts") and "mounts" not in item.config.option.markexpr:
            reason = "mounts", "run with -m mounts, with the right to mount"
        elif os.environ.get("CI") == "true":
            reason = None
        if reason is None:
            kept.append(item)
        else:
            left.append(item)
            counted[reason] += 1
    return kept, left, counted


@cache
def _lacking(need: str) -> str:
    """What is missing for a need of a mark and how to get it, or nothing."""
    hint = "install with .ci/clients"
    if need == "java":
        obstacle = unavailability_error()
        return "" if obstacle is None else str(obstacle).split("\n")[0]
    if need == "browser":
        programs = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    elif need == "jdbc":
        programs = [name for name in ("java", "javac") if shutil.which(name) is None]
        programs += [] if DRIVER.is_file() else [DRIVER.name]
    elif need == "python":
        programs = [] if (PYTHON / "installed").is_file() else ["Python clients"]
    elif need == "psql":
        programs = [] if shutil.which("psql") else ["psql"]
    else:
        raise ValueError(f"no test can need {need!r}")
    return f"no {', '.join(programs)}: {hint}" if programs else ""
