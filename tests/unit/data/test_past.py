"""The past of a table: what it was after each epoch, and whose places are given up."""

import numpy as np

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.tables.row_groups import TablePast
from kpg.runtime.tables.table import Table
from kpg.runtime.types import BIGINT, ColumnDef, Schema


def words(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_an_epoch_has_a_number_of_rowids_and_those_that_went_later() -> None:
    past = TablePast(3)
    past.note(4, words(0, 1, 2), words())
    past.note(6, words(), words(1))
    past.note(7, words(3, 5), words(0))
    assert past.at(3) == (0, []) or past.at(3)[0] == 0
    assert [
        (past.at(epoch)[0], [gone.tolist() for gone in past.at(epoch)[1]]) for epoch in (4, 5, 6, 7, 8)
    ] == [
        (3, [[1], [0]]),
        (3, [[1], [0]]),
        (3, [[0]]),
        (6, []),
        (6, []),
    ]
    assert past.rows == 2


def test_what_is_forgotten_gives_the_places_of_its_rows() -> None:
    past = TablePast(0)
    past.note(1, words(0, 1), words())
    past.keep([])
    past.note(2, words(), words(0))
    past.keep([words(0)])
    past.note(3, words(), words(1))
    past.keep([words(1)])
    assert past.forget(1) == []
    assert [freed.tolist() for freed in past.forget(2)] == [[0]]
    assert past.since == 2
    assert (past.at(2)[0], [gone.tolist() for gone in past.at(2)[1]]) == (2, [[1]])
    assert [freed.tolist() for freed in past.forget(9)] == [[1]]
    assert past.at(9) == (2, [])


def test_a_table_gives_up_places_once_they_are_forgotten() -> None:
    table = Table("t", Schema((ColumnDef("a", BIGINT),)), Dictionary())
    table.groups.bits = 6
    table.groups.directory[0, 0] = 6
    table.past = TablePast(0)
    for epoch in range(1, 5):
        rowids = table.insert(np.arange(64, dtype=np.int64).reshape(1, -1))
        (change,) = table.drain()
        table.past.note(epoch, change.rowids, words())
        table.commit()
        assert rowids.shape[0] == 64
    table.delete(np.arange(128, dtype=np.int64))
    (change,) = table.drain()
    table.past.note(5, words(), change.rowids)
    table.commit()
    assert (table.reclaimed, table.dead) == (0, 128)
    assert table.live_then(4).tolist() == list(range(256))
    assert table.read(table.live_then(4)).tolist() == [list(range(64)) * 4]
    assert table.live_then(5).tolist() == list(range(128, 256))
    table.forget(5)
    assert (table.reclaimed, table.dead) == (128, 0)
