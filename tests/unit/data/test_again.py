"""A table to which everything is done again is the table that it was done to, rowids and all."""

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import IntegrityError, InternalError
from kpg.runtime.tables.epochs import replay
from kpg.runtime.tables.table import Table
from kpg.runtime.types import INTEGER, ColumnDef, Schema

SCHEMA = Schema((ColumnDef("k", INTEGER, False), ColumnDef("v", INTEGER)), (0,))


def rows(*pairs: tuple[int, int]) -> np.ndarray:
    return np.ascontiguousarray(np.array(pairs, np.int64).reshape(-1, 2).T)


@pytest.mark.parametrize("seed", range(20))
def test_the_same_table(seed: int) -> None:
    random = np.random.default_rng(seed)
    table, again = (Table("t", SCHEMA, Dictionary()) for _ in range(2))
    again.add_unique("u", (1,), nulls_distinct=True)
    table.add_unique("u", (1,), nulls_distinct=True)
    number = 0
    for _ in range(30):
        for _ in range(int(random.integers(4))):
            if random.random() < 0.6:
                count = int(random.integers(1, 5))
                keys = [(int(random.integers(1000)) * 1000 + number + i, number + i) for i in range(count)]
                number += count
                table.insert(rows(*keys))
            elif table.rows:
                table.delete(random.choice(table.live(), 1))
        changes = table.drain()
        gone = next((rowids for rowids, diff in changes if diff < 0), np.empty(0, np.int64))
        came = next((rowids for rowids, diff in changes if diff > 0), np.empty(0, np.int64))
        replay(again, gone, came, table.read(came))
        again.drain()
        table.commit()
        again.commit()
        assert again.live().tolist() == table.live().tolist()
        assert again.read(again.live()).tolist() == table.read(table.live()).tolist()
    table.insert(rows((10**9, 10**9)))
    again.insert(rows((10**9, 10**9)))
    assert again.find(rows((10**9, 0))[:1]).shape == (1,)
    for one in (table, again):
        with pytest.raises(IntegrityError, match="duplicate key"):
            one.insert(rows((10**9, 1)))
        with pytest.raises(IntegrityError, match="duplicate key"):
            one.insert(rows((1, 10**9)))


def test_what_is_there_is_not_overwritten() -> None:
    table = Table("t", SCHEMA, Dictionary())
    nothing = np.empty(0, np.int64)
    replay(table, nothing, np.array([2, 3]), rows((5, 5), (4, 4)))
    assert table.live().tolist() == [2, 3]
    assert table.rows == 2
    with pytest.raises(InternalError, match="has row 3 already"):
        replay(table, nothing, np.array([3]), rows((6, 6)))
    assert table.find(rows((4, 0))[:1]).tolist() == [3]


def test_rows_that_came_and_went_in_one_commit_are_told_to_nobody() -> None:
    table = Table("t", Schema((ColumnDef("a", INTEGER),)), Dictionary())
    replay(table, np.empty(0, np.int64), np.array([2, 5]), np.array([[7, 8]]))
    assert [(change.rowids.tolist(), change.diff) for change in table.drain()] == [([2, 5], 1)]
    assert table.live().tolist() == [2, 5]
