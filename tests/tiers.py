"""The tiers of the suite: which tests ``make quick`` and ``make test`` leave out.

``make quick`` runs the tests with neither mark, ``make test`` those that are not marked ``soak``, and
``make full`` runs all. A test is marked by its path, from the tables below; a test that is costly beside its
neighbours bears the mark itself. A tier does not import a file that it leaves out.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
QUICK: Final = "not slow and not soak"
TEST: Final = "not soak"
"""The expressions of marks by which ``make`` selects the two tiers."""
TARGETS: Final = {"slow": "make test", "soak": "make full"}
"""The smallest tier that runs the tests of a mark."""
SLOW: Final = (
    "tests/oracle/",
    "tests/properties/",
    "tests/test_",
    "tests/unit/compiler/datalog/test_fuzz.py",
    "tests/unit/compiler/sql/test_random_queries.py",
    "tests/unit/ddl/test_egos.py",
    "tests/unit/durable/",
    "tests/unit/kpg/test_alchemy.py",
    "tests/unit/kpg/test_ego_continuous.py",
    "tests/unit/kpg/test_ego_lives.py",
    "tests/unit/kpg/test_hostile_arguments.py",
    "tests/unit/native/",
    "tests/unit/operators/test_windows",
    "tests/unit/plan/test_columns.py",
    "tests/unit/saved/",
    "tests/unit/security/",
    "tests/unit/server/",
    "tests/unit/sessions/test_row_locks.py",
    "tests/unit/spark/",
    "tests/unit/state/test_history.py",
    "tests/unit/tpch/test_refresh.py",
    "tests/unit/workers/",
)
"""Beginnings of paths that are not in ``make quick``: oracles, properties, processes, clients, Spark."""
FAST: Final = ("tests/oracle/test_postgres.py", "tests/test_lint.py")
"""Exceptions of these: SQL as data, and the lint."""
SOAK: Final = (
    "tests/properties/test_client_kills.py",
    "tests/properties/test_definitions.py",
    "tests/properties/test_shard_kills.py",
    "tests/properties/test_tpch_checkpoints.py",
    "tests/unit/native/test_compiled.py",
    "tests/unit/server/test_killed.py",
    "tests/unit/spark/test_member_task.py",
    "tests/unit/spark/test_own.py",
    "tests/unit/workers/test_shelving.py",
)
"""Simulators, long lives, compilers and clusters: files that only ``make full`` runs."""
SAMPLED: Final = {
    "tests/oracle/test_datalog_examples.py": 3,
    "tests/properties/test_branches_are_their_model.py": 3,
    "tests/properties/test_checkpoints.py": 3,
    "tests/properties/test_crashes.py": 8,
    "tests/properties/test_damage.py": 4,
    "tests/properties/test_datalog_selections.py": 4,
    "tests/properties/test_head_is_its_model.py": 4,
    "tests/properties/test_lattice.py": 6,
    "tests/properties/test_loops.py": 6,
    "tests/properties/test_magic.py": 6,
    "tests/properties/test_names_at_random.py": 3,
    "tests/properties/test_past_is_its_model.py": 4,
    "tests/properties/test_proofs.py": 6,
    "tests/properties/test_random_recursion.py": 4,
    "tests/properties/test_random_sql.py": 3,
    "tests/properties/test_reopened.py": 8,
    "tests/properties/test_saved.py": 3,
    "tests/properties/test_sessions.py": 4,
    "tests/properties/test_sql_texts.py": 4,
    "tests/properties/test_why_at_random.py": 4,
    "tests/properties/test_worker_kills.py": 8,
    "tests/properties/test_workers.py": 4,
    "tests/properties/test_workers_collections.py": 6,
    "tests/properties/test_workers_loops.py": 3,
    "tests/properties/test_workers_proofs.py": 3,
    "tests/unit/compiler/datalog/test_fuzz.py": 3,
    "tests/unit/ddl/test_egos.py": 3,
    "tests/unit/ego/test_engine.py": 3,
    "tests/unit/server/test_binary_at_random.py": 4,
    "tests/unit/operators/test_windows_locally.py": 2,
    "tests/unit/server/test_portals.py": 2,
}
"""Of the generated cases of a test in these files, such as seeds and programs, ``make test`` runs one in so
many, ``make full`` all."""


def mark(items: list[pytest.Item], selected: str) -> Counter[tuple[str, str]]:
    """Mark the tests by their paths; return how many tests of each mark the expression leaves out."""
    cases, left = Counter[str](), Counter[tuple[str, str]]()
    for item in items:
        path, _, name = item.nodeid.partition("::")
        test = f"{path}::{name.partition('[')[0]}"
        found = "soak" if cases[test] % SAMPLED.get(path, 1) else mark_of(path)
        if found:
            item.add_marker(found)
        cases[test] += 1
        marks = [mark for mark in TARGETS if item.get_closest_marker(mark) is not None]
        if marks and f"not {marks[-1]}" in selected:
            left["tests", marks[-1]] += 1
    return left


def mark_of(path: str) -> str:
    """Return the mark of a whole file, or nothing."""
    if path in SOAK:
        return "soak"
    return "slow" if path.startswith(SLOW) and not path.startswith(FAST) else ""


def left_out(path: Path, selected: str) -> str:
    """Return the mark of a file that an expression of marks leaves out whole, or nothing."""
    if selected not in (QUICK, TEST) or not path.is_relative_to(ROOT) or not path.name.startswith("test_"):
        return ""
    found = mark_of(path.relative_to(ROOT).as_posix())
    return found if found and f"not {found}" in selected and path.is_file() else ""


def line(left: Counter[tuple[str, str]]) -> str:
    """Return the line of the report about the tests that a tier leaves out, or nothing."""
    parts = []
    for mark, target in TARGETS.items():
        tests, files = left["tests", mark], left["files", mark]
        numbers = [f"{tests} tests"] * (tests > 0) + [f"{files} files"] * (files > 0)
        parts += [f"{' and '.join(numbers)} marked {mark} ({target})"] if numbers else []
    return f"not run: {', '.join(parts)}" if parts else ""
