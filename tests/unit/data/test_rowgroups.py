"""Rows where they lie; that they are found wherever they are is tested with the tables that have them."""

import numpy as np

from kpg.runtime.data.rowgroups import RowGroups


def test_a_stretch_of_rows_is_not_copied() -> None:
    groups = RowGroups(2, bits=6)
    groups.reserve(200, 0)
    columns = np.array([0, 1], np.int64)
    found = groups.stretch(70, 80, 10)
    assert found is not None
    found[0, 3] = 99
    assert groups.read(columns, np.array([73]))[0].tolist() == [99]
    assert groups.stretch(60, 70, 10) is None
    assert groups.stretch(70, 80, 9) is None
