"""A recorder is shown many rows before they are appended; what it says of them goes where they go."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from kpg.runtime.errors import IntegrityError
from kpg.runtime.executor import MANY, TableChanges, Words
from kpg.runtime.types import BIGINT, ColumnDef, Schema
from kpg.runtime.worker.worker import Worker

SCHEMA = Schema((ColumnDef("k", BIGINT, False),), (0,))


class Recorder:
    """Says the first word of what it was shown; notes what was foreseen of what is recorded."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.shown = list[int]()
        self.told = list[tuple[int, int, int]]()

    def prepare_rows(self, words: Words) -> Callable[[], int]:
        first = int(words[0, 0])
        self.shown.append(first)
        return lambda: first

    def load(self) -> None: ...

    def prepare(self, changed: Sequence[TableChanges]) -> None: ...

    def cancel(self) -> None: ...

    def record(self, epoch: int, changed: Sequence[TableChanges]) -> None:
        for one in changed:
            for rowids, diff in one.changes:
                if diff > 0:
                    self.told += self.worker.tables.prepared_rows(one.table, rowids)


def made() -> tuple[Worker, Recorder]:
    worker = Worker()
    worker.create_table("t", SCHEMA)
    worker.tables.recorder = recorder = Recorder(worker)
    return worker, recorder


def keys(start: int, count: int = MANY) -> Words:
    return np.arange(start, start + count)[None]


def test_what_is_said_comes_back_when_rows_are_recorded_and_then_no_more() -> None:
    worker, recorder = made()
    worker.tables.insert("t", keys(0, MANY - 1))
    worker.tables.insert("t", keys(100_000))
    worker.tables.insert("t", keys(200_000))
    worker.step()
    at = MANY - 1
    assert recorder.shown == [100_000, 200_000]
    assert recorder.told == [(at, at + MANY, 100_000), (at + MANY, at + 2 * MANY, 200_000)]
    assert worker.tables.prepared_rows("t", worker.tables.rowids("t")) == []


def test_rows_that_are_not_appended_leave_nothing() -> None:
    worker, recorder = made()
    worker.tables.insert("t", keys(0))
    with pytest.raises(IntegrityError):
        worker.tables.insert("t", keys(MANY - 1))
    worker.step()
    assert recorder.shown == [0, MANY - 1] and recorder.told == [(0, MANY, 0)]


def test_rowids_that_are_given_out_again_are_of_other_rows() -> None:
    worker, recorder = made()
    worker.tables.insert("t", keys(0))
    before = worker.tables.savepoint()
    worker.tables.insert("t", keys(100_000))
    worker.tables.rollback_to(before)
    worker.tables.insert("t", keys(50_000, 7))
    worker.tables.insert("t", keys(200_000, MANY - 7))
    worker.step()
    assert recorder.told == [(0, MANY, 0)]


def test_rows_of_which_some_are_deleted_again_are_recorded_one_by_one() -> None:
    worker, recorder = made()
    rowids = worker.tables.insert("t", keys(0))
    worker.tables.insert("t", keys(100_000))
    worker.tables.delete("t", rowids[5:6])
    worker.step()
    assert recorder.told == [(MANY - 1, 2 * MANY - 1, 100_000)]
