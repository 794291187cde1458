"""Sets of updates: their short forms, and what keeps them."""

import numpy as np

from kpg.runtime.trace.updates import Updates
from tests.model.kernels import triples


def test_one_time_and_one_diff_are_stored_once() -> None:
    updates = Updates.of([[3, 1], [4, 2]], (5,), 1)
    assert updates.constant_time and updates.constant_diff
    assert triples(updates) == [((3, 4), (5,), 1), ((1, 2), (5,), 1)]
    assert updates.times().tolist() == [[5, 5]]
    assert updates.diffs().tolist() == [1, 1]


def test_take_selects_in_the_order_of_the_index() -> None:
    updates = Updates.of([[7, 8, 9]], [[0, 1, 2]], [1, -1, 2])
    assert triples(updates.take(np.array([2, 0]))) == [((9,), (2,), 2), ((7,), (0,), 1)]


def test_negate_leaves_rows_and_times() -> None:
    assert triples(Updates.of([[7, 8]], (0,), [1, -2]).negate()) == [((7,), (0,), -1), ((8,), (0,), 2)]


def test_concat_keeps_what_is_equal_in_all_parts_short() -> None:
    joined = Updates.concat([Updates.of([[1]], (0,), 1), Updates.empty(1, 1), Updates.of([[2, 3]], (0,), 1)])
    assert joined.constant_time and joined.constant_diff
    assert joined.data.tolist() == [[1, 2, 3]]


def test_concat_spells_out_what_differs() -> None:
    joined = Updates.concat([Updates.of([[1, 2]], (0,), 1), Updates.of([[3]], (4,), -1)])
    assert triples(joined) == [((1,), (0,), 1), ((2,), (0,), 1), ((3,), (4,), -1)]


def test_concat_of_nothing_is_empty() -> None:
    assert len(Updates.concat([Updates.empty(2, 1), Updates.empty(2, 1)])) == 0


def test_rows_without_columns_are_counted() -> None:
    updates = Updates.of(np.empty((0, 3), np.int64), (1,), [1, 1, -5])
    assert triples(updates.consolidate()) == [((), (1,), -3)]


def test_consolidate_of_what_cancels_is_empty() -> None:
    result = Updates.of([[4, 4], [2, 2]], (1,), [1, -1]).consolidate()
    assert len(result) == 0 and result.width == 2 and result.depth == 1


def test_consolidate_stores_equal_diffs_once() -> None:
    result = Updates.of([[4, 3, 4, 3]], (1,), [1, 2, 1, 0]).consolidate()
    assert result.data.tolist() == [[3, 4]]
    assert result.diff.tolist() == [2]
