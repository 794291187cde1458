"""Rows where they lie; that they are found wherever they are is tested with the tables that have them."""

import numpy as np

from kpg.runtime.tables.row_groups import LARGE_PAGE, RowGroups


def test_a_stretch_of_rows_is_not_copied() -> None:
    groups = RowGroups(2, bits=6)
    groups.reserve(200, 0)
    columns = np.array([0, 1], np.int64)
    found = groups.contiguous_rows(70, 80, 10)
    assert found is not None
    found[0, 3] = 99
    assert groups.read(columns, np.array([73]))[0].tolist() == [99]
    assert groups.contiguous_rows(60, 70, 10) is None
    assert groups.contiguous_rows(70, 80, 9) is None


def test_groups_begin_where_large_pages_do() -> None:
    groups = RowGroups(16)
    groups.reserve(300_000, 0)
    held = [group for group in groups.groups if group is not None]
    assert [group.columns.shape for group in held] == 5 * [(16, 65_536)]
    assert [group.columns.ctypes.data % LARGE_PAGE for group in held] == [0, 0, 0, 0, 0]
    assert groups.bytes == 5 * 8 * (16 * 65_536 + 65_536 // 64) + groups.directory.nbytes
