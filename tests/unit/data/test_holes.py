"""Tables that have some of all rowids: those of others take no memory, and are taken back as own ones are."""

import numpy as np
import pytest

from kpg.runtime.cluster.table_shards import SparseTable
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.types import BIGINT, ColumnDef, Schema

SIZE = 1 << 10
"""Rows of a group here."""


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> SparseTable:
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 8 * 2 * SIZE)
    columns = tuple(ColumnDef(name, BIGINT, True) for name in ("k", "v"))
    return SparseTable("t", Schema(columns, ()), Dictionary())


def words(first: int, end: int) -> np.ndarray:
    return np.stack((np.arange(first, end), 2 * np.arange(first, end)))


def step(table: SparseTable) -> list[list[int]]:
    """Have everything be final: what the dataflow is told of."""
    told = [change.rowids.tolist() for change in table.drain()]
    table.commit()
    return told


def test_whole_groups_of_others_take_no_memory(table: SparseTable) -> None:
    start = 10 * SIZE + 17
    table.append_range(start, [words(0, 30)], 50 * SIZE + 3)
    assert step(table) == [list(range(start, start + 30))]
    assert (table.rows, table.count, table.groups.allocated_groups) == (30, 50 * SIZE + 3, 2)
    assert table.live().tolist() == list(range(start, start + 30))
    assert table.read(table.live()).tolist() == words(0, 30).tolist()
    table.append_range(50 * SIZE + 3, [words(30, 40)], 50 * SIZE + 13)
    assert (table.rows, table.read(table.live()).tolist()) == (40, words(0, 40).tolist())


@pytest.mark.parametrize("before", [0, 5, SIZE, SIZE + 5])
@pytest.mark.parametrize("start", [0, 3, SIZE, 3 * SIZE + 7])
def test_a_block_is_taken_back(table: SparseTable, before: int, start: int) -> None:
    table.append_range(0, [words(0, before)], before)
    step(table)
    kept = table.savepoint()
    for _ in range(2):
        table.append_range(before + start, [words(before, before + 2000)], before + 9 * SIZE)
        assert table.rows == before + 2000
        table.rollback(kept)
        assert (table.rows, table.count, table.reclaimed_rows, table.dead_rows) == (before, before, 0, 0)
    table.append_range(before + start, [words(before, before + 2000)], before + 9 * SIZE)
    table.append_range(table.count, [words(before + 2000, before + 2001)], table.count + 1)
    step(table)
    assert table.read(table.live()).tolist() == words(0, before + 2001).tolist()
    table.delete(table.live()[::2])
    step(table)
    assert table.read(table.live()).tolist() == words(0, before + 2001)[:, 1::2].tolist()
