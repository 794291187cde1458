"""From words to rows."""

import numpy as np
import pytest

from kpg.compiler.algebra.rel import OrderBy
from kpg.execute.queries.result_rows import Reader, expand, permutation
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import BIGINT, DOUBLE, NULL, TEXT, float_to_word


def words(*columns: list[int]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array(columns, np.int64)


@pytest.mark.parametrize(
    ("descending", "nulls_first", "expected"),
    [
        (False, False, [2, 0, 3, 1]),
        (False, True, [1, 2, 0, 3]),
        (True, False, [3, 0, 2, 1]),
        (True, True, [1, 3, 0, 2]),
    ],
)
def test_nulls_go_where_they_are_told(descending: bool, nulls_first: bool, expected: list[int]) -> None:
    order = [OrderBy(0, descending, nulls_first)]
    found = permutation(words([5, NULL, -(2**62), 2**63 - 1]), order, [BIGINT], Dictionary())
    assert found.tolist() == expected


def test_text_sorts_by_code_point() -> None:
    dictionary = Dictionary()
    texts = ["b", "Z", "é", "", None, "a", "𐀀", "\uffff", "b"]
    codes = dictionary.intern(texts)
    found = permutation(np.array([codes]), [OrderBy(0, False, False)], [TEXT], dictionary)
    assert [texts[index] for index in found] == ["", "Z", "a", "b", "b", "é", "\uffff", "𐀀", None]


def test_later_keys_break_ties_and_equal_rows_keep_their_order() -> None:
    data = words([1, 1, 0, 1], [float_to_word(x) for x in (2.0, -1.5, 9.0, 2.0)])
    order = [OrderBy(0, True, True), OrderBy(1, False, False)]
    assert permutation(data, order, [BIGINT, DOUBLE], Dictionary()).tolist() == [1, 0, 3, 2]


def test_multiplicities_are_spelled_out() -> None:
    assert expand(words([7, 8]), np.array([2, 1])).tolist() == [[7, 7, 8]]
    assert expand(words([7, 8]), np.array([1])).tolist() == [[7, 8]]


def test_hidden_columns_sort_and_are_dropped() -> None:
    dictionary = Dictionary()
    reader = Reader(("name",), (TEXT, BIGINT), (OrderBy(1, True, True),), dictionary)
    data = np.array([dictionary.intern(["a", "b", "c"]), [1, 3, 2]])
    result = reader.result(data, np.array([1, 1, 2]))
    assert result.columns == ["name"]
    assert result.fetchall() == [("b",), ("c",), ("c",), ("a",)]


def test_changes_are_in_order_of_time() -> None:
    reader = Reader(("n",), (BIGINT,), (), Dictionary())
    updates = [Updates.of([[3, 1]], [[2, 1]], [1, 1]), Updates.of([[1]], (3,), -1)]
    assert reader.changes(updates) == [((1,), 1, 1), ((3,), 2, 1), ((1,), 3, -1)]
    assert reader.changes([]) == []


def test_change_of_a_hidden_column_only_is_no_change() -> None:
    reader = Reader(("n",), (BIGINT, BIGINT), (OrderBy(1, False, False),), Dictionary())
    assert reader.changes([Updates.of([[1, 1, 2], [5, 6, 7]], (4,), [-1, 1, 1])]) == [((2,), 4, 1)]
