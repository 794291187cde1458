"""Only tables that something happened to are looked at: savepoints and rollbacks of the others are free."""

import numpy as np

from kpg.runtime.tables.table import Table
from kpg.runtime.types import BIGINT, ColumnDef, Schema
from kpg.runtime.worker.worker import Worker

SCHEMA = Schema((ColumnDef("k", BIGINT),), (0,))


def row(k: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array([[k]], np.int64)


def keys(worker: Worker, name: str) -> list[int]:
    found: list[int] = worker.tables.by_name[name].read(worker.tables.by_name[name].live())[0].tolist()
    return found


def made() -> Worker:
    worker = Worker()
    for number in range(50):
        worker.create_table(f"t{number}", SCHEMA)
    worker.tables.insert("t0", row(1))
    worker.step()
    return worker


def test_savepoints_cost_nothing_for_tables_that_stay_as_they_are(monkeypatch: object) -> None:
    worker = made()
    assert worker.tables.savepoint() == {}
    worker.tables.insert("t7", row(1))
    point = worker.tables.savepoint()
    assert isinstance(point, dict) and [table.name for table in point] == ["t7"]
    worker.tables.insert("t7", row(2))
    worker.tables.insert("t8", row(3))
    worker.tables.delete("t0", np.array([0]))
    assert sorted(worker.tables.tables_with_changes()) == ["t0", "t7", "t8"]
    assert sorted(name for name, *_ in worker.tables.changes_since(point)) == ["t0", "t7", "t8"]
    worker.tables.rollback_to(point)
    assert [keys(worker, name) for name in ("t0", "t7", "t8")] == [[1], [1], []]
    assert [name for name, *_ in worker.tables.changes_since(None)] == ["t7"]
    worker.tables.rollback()
    assert [keys(worker, name) for name in ("t0", "t7")] == [[1], []] and not worker.tables.has_pending


def test_what_was_drained_is_taken_back_too() -> None:
    """Of several epochs in one step, and of what came and went in one."""
    worker = made()
    worker.tables.insert("t1", row(1))
    assert worker.close_epoch()
    worker.tables.insert("t2", row(2))
    point = worker.tables.savepoint()
    assert worker.close_epoch()
    worker.tables.insert("t3", row(3))
    worker.tables.rollback_to(point)
    assert [keys(worker, name) for name in ("t1", "t2", "t3")] == [[1], [2], []]
    worker.tables.rollback()
    assert [keys(worker, name) for name in ("t0", "t1", "t2", "t3")] == [[1], [], [], []]


def test_a_step_settles_what_changed_nothing_in_the_end() -> None:
    worker = made()
    settled: list[str] = []
    commit = Table.commit

    def noted(table: Table) -> None:
        settled.append(table.name)
        commit(table)

    Table.commit = noted  # type: ignore[method-assign]
    try:
        worker.tables.insert("t5", row(1))
        worker.tables.delete("t5", np.array([0]))
        worker.step()
        assert settled == ["t5"] and worker.tables.savepoint() == {}
        worker.step()
        assert settled == ["t5"]
    finally:
        Table.commit = commit  # type: ignore[method-assign]
