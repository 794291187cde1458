"""The past of a table: what it was after each epoch, and whose places are given up."""

import numpy as np

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.tables.row_groups import TableHistory
from kpg.runtime.tables.table import Table
from kpg.runtime.types import BIGINT, ColumnDef, Schema


def words(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_an_epoch_has_a_number_of_rowids_and_those_that_went_later() -> None:
    past = TableHistory(3)
    past.record_epoch(4, words(0, 1, 2), words())
    past.record_epoch(6, words(), words(1))
    past.record_epoch(7, words(3, 5), words(0))
    assert past.state_at(3) == (0, []) or past.state_at(3)[0] == 0
    assert [
        (past.state_at(epoch)[0], [gone.tolist() for gone in past.state_at(epoch)[1]])
        for epoch in (4, 5, 6, 7, 8)
    ] == [
        (3, [[1], [0]]),
        (3, [[1], [0]]),
        (3, [[0]]),
        (6, []),
        (6, []),
    ]
    assert past.rows == 2


def test_what_is_forgotten_gives_the_places_of_its_rows() -> None:
    past = TableHistory(0)
    past.record_epoch(1, words(0, 1), words())
    past.retain([])
    past.record_epoch(2, words(), words(0))
    past.retain([words(0)])
    past.record_epoch(3, words(), words(1))
    past.retain([words(1)])
    assert past.drop_before(1) == []
    assert [freed.tolist() for freed in past.drop_before(2)] == [[0]]
    assert past.since == 2
    assert (past.state_at(2)[0], [gone.tolist() for gone in past.state_at(2)[1]]) == (2, [[1]])
    assert [freed.tolist() for freed in past.drop_before(9)] == [[1]]
    assert past.state_at(9) == (2, [])


def test_a_table_gives_up_places_once_they_are_forgotten() -> None:
    table = Table("t", Schema((ColumnDef("a", BIGINT),)), Dictionary())
    table.groups.bits = 6
    table.groups.directory[0, 0] = 6
    table.history = TableHistory(0)
    for epoch in range(1, 5):
        rowids = table.insert(np.arange(64, dtype=np.int64).reshape(1, -1))
        (change,) = table.drain()
        table.history.record_epoch(epoch, change.rowids, words())
        table.commit()
        assert rowids.shape[0] == 64
    table.delete(np.arange(128, dtype=np.int64))
    (change,) = table.drain()
    table.history.record_epoch(5, words(), change.rowids)
    table.commit()
    assert (table.reclaimed_rows, table.dead_rows) == (0, 128)
    assert table.live_as_of(4).tolist() == list(range(256))
    assert table.read(table.live_as_of(4)).tolist() == [list(range(64)) * 4]
    assert table.live_as_of(5).tolist() == list(range(128, 256))
    table.drop_history_before(5)
    assert (table.reclaimed_rows, table.dead_rows) == (128, 0)
