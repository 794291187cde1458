"""Which process of several runs which tests, and in what order.

A file's tests are one process's: what they share, a server or a Spark session, is started once. What takes
longest comes first, so that no process has much left to do when the others are done.
"""

from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

UNIT: Final = "tests/unit"
SHARING: Final = tuple(f"{UNIT}/spark/test_{name}.py" for name in ("handing", "jobs", "load", "stage"))
"""These share one Spark session."""
LONGEST: Final = (
    f"{UNIT}/spark",
    "tests/properties/test_crashes.py",
    f"{UNIT}/spark/test_member_task.py",
    f"{UNIT}/spark/test_cluster.py",
    f"{UNIT}/native/test_compiled.py",
    f"{UNIT}/spark/test_own.py",
    "tests/properties/test_incremental_is_batch.py",
    f"{UNIT}/server/test_operating.py",
    f"{UNIT}/server/test_steady.py",
    f"{UNIT}/statements/test_planned.py",
    "tests/properties/test_saved.py",
    "tests/properties/test_checkpoints.py",
    "tests/properties/test_why_at_random.py",
    "tests/properties/test_tpch_checkpoints.py",
    "tests/properties/test_past_is_its_model.py",
    "tests/properties/test_workers_proofs.py",
    "tests/properties/test_lattice.py",
    "tests/properties/test_proofs.py",
    "tests/properties/test_random_histories.py",
    f"{UNIT}/native/test_interpret.py",
    "tests/oracle/test_datalog_examples.py",
    f"{UNIT}/state/test_history.py",
    f"{UNIT}/statements/test_inserting.py",
    f"{UNIT}/server/test_metadata.py",
    f"{UNIT}/server/test_alembic.py",
    f"{UNIT}/server/test_duckdb.py",
    f"{UNIT}/server/test_killed.py",
    "tests/test_docs.py",
)
"""Units of work, the longest first."""


def unit_of(test: str) -> str:
    """What a test is done together with."""
    return f"{UNIT}/spark" if test.startswith(SHARING) else test.partition("::")[0]


def ordered(tests: list[pytest.Item]) -> list[pytest.Item]:
    """Tests in the order in which they are begun."""
    places = {unit: place for place, unit in enumerate(LONGEST)}
    return sorted(tests, key=lambda test: places.get(unit_of(test.nodeid), len(places)))


class Units(LoadScopeScheduling):
    """Has processes take units of work in their order."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
