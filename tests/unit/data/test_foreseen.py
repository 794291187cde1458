"""What was said of rows is found by their rowids, all of them or none, and forgotten with them."""

import numpy as np

from kpg.runtime.tables.table import PreparedRows


def made() -> PreparedRows:
    foreseen = PreparedRows()
    foreseen.add(np.arange(10, 15), "first")
    foreseen.add(np.arange(20, 24), "second")
    return foreseen


def test_stretches_are_found_among_other_rowids() -> None:
    assert made().find(np.arange(8, 30)) == [(2, 7, "first"), (12, 16, "second")]
    assert made().find(np.array([3, 20, 21, 22, 23])) == [(1, 5, "second")]


def test_a_stretch_with_a_row_missing_is_none() -> None:
    assert made().find(np.array([10, 11, 13, 14, 20, 21, 22, 23])) == [(4, 8, "second")]
    assert made().find(np.array([11, 12, 13, 14, 15])) == []
    assert made().find(np.array([20, 21, 22])) == []
    assert made().find(np.empty(0, np.int64)) == []


def test_what_is_given_out_again_is_forgotten() -> None:
    foreseen = made()
    foreseen.truncate(23)
    assert foreseen.find(np.arange(30)) == [(10, 15, "first")]
    foreseen.truncate(14)
    assert foreseen.find(np.arange(30)) == []
