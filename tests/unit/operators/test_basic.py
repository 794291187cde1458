"""Aggregates computed from a group's rows: their algorithms over Python values, and what they cannot give."""

import numpy as np
import pytest

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.operators.basic_reduce import make_evaluators
from kpg.runtime.plan import BasicAggregate
from kpg.runtime.types import BIGINT, DATE, DOUBLE, NULL, TEXT, Type, decimal, float_to_word, word_to_float

MONEY = decimal(9, 2)


def evaluate(function: str, types: tuple[Type, ...], result: Type, rows: list[list[int]]) -> int:
    (one,) = make_evaluators(
        (BasicAggregate(function, tuple(range(len(types))), types, result),), Dictionary()
    )
    data = np.array(rows, np.int64).reshape(-1, len(types) + 1)
    return one(np.ascontiguousarray(data[:, :-1].T), data[:, -1])


def test_rows_count_as_often_as_they_occur() -> None:
    assert evaluate("sum", (BIGINT,), BIGINT, [[5, 1], [7, 3], [NULL, 2]]) == 26
    assert evaluate("sum", (MONEY,), decimal(18, 2), [[125, 2], [-50, 1]]) == 200
    assert evaluate("max", (DATE,), DATE, [[10, 1], [19000, 1], [NULL, 1]]) == 19000
    halves = [[float_to_word(value), times] for value, times in ((1.0, 1), (2.0, 3), (9.0, 1))]
    assert word_to_float(evaluate("median", (DOUBLE,), DOUBLE, halves)) == 2.0


def test_nothing_but_nulls_is_null() -> None:
    assert evaluate("sum", (BIGINT,), BIGINT, [[NULL, 4]]) == NULL
    assert evaluate("string_agg", (TEXT, TEXT), TEXT, [[NULL, NULL, 1]]) == NULL
    assert evaluate("count", (BIGINT,), BIGINT, [[NULL, 4]]) == 0


def test_what_cannot_be_computed_is_an_error() -> None:
    with pytest.raises(DataError, match="sum of a group cannot be computed"):
        evaluate("sum", (BIGINT,), BIGINT, [[2**62, 2]])
