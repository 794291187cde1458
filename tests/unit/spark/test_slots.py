"""How many tasks a session runs at once, by its settings."""

from typing import Any

import pytest

from kpg.runtime.errors import InterfaceError, OperationalError
from kpg.runtime.spark import session as slots


class Context:
    """What is asked of a ``SparkContext``."""

    def __init__(self, master: str, cores: int = 0, **settings: str) -> None:
        self.master = master
        self.defaultParallelism = cores
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}

    def getConf(self) -> dict[str, str]:
        return self._settings


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (Context("local"), 1),
        (Context("local[3]"), 3),
        (Context("local[3, 2]", cores=8, spark_default_parallelism="8"), 3),
        (Context("local[4]", spark_task_cpus="2"), 2),
        (Context("spark://host:7077", cores=12), 12),
        (Context("spark://host:7077", cores=12, spark_task_cpus="5"), 2),
        (Context("yarn", cores=12, spark_default_parallelism="12"), None),
    ],
)
def test_slots(context: Any, expected: int | None) -> None:
    assert slots.count_slots(context) == expected


def test_more_workers_than_slots_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    local: Any = Context("local[2]")
    slots.require_slots(local, 2)
    with pytest.raises(InterfaceError, match="3 workers are more than the Spark session has slots: it has 2"):
        slots.require_slots(local, 3)
    monkeypatch.setattr(slots, "SECONDS_TO_REGISTER", 0)
    cluster: Any = Context("spark://host:7077", cores=4)
    with pytest.raises(InterfaceError, match="it has 4"):
        slots.require_slots(cluster, 5)


def test_reading_needs_a_slot_without_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    local: Any = Context("local[2]")
    session: Any = None
    slots.require_free_slot(local)
    monkeypatch.setitem(slots.occupied_slots, "a group", slots.OccupiedSlots(1, session))
    slots.require_free_slot(local)
    monkeypatch.setitem(slots.occupied_slots, "another", slots.OccupiedSlots(1, session))
    with pytest.raises(OperationalError, match="all 2 slots of its session run workers"):
        slots.require_free_slot(local)
