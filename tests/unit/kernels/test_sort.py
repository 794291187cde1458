"""Sorting and grouping against Python's own sort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpg.runtime.errors import DataError
from kpg.runtime.kernels import sort
from kpg.runtime.trace.updates import Updates
from tests.model import kernels as model
from tests.model.updates import WORDS, updates

ANY_UPDATES = st.tuples(st.integers(0, 3), st.integers(1, 2)).flatmap(
    lambda shape: updates(*shape, words=WORDS)
)


def order_of(rows: Updates) -> tuple[list[int], int]:
    order = np.empty(len(rows), np.int64)
    flags = sort.sort_order(rows.data, rows.time, order)
    return order.tolist(), flags


@given(ANY_UPDATES.filter(len))
def test_short_inputs_sort_as_python_does(rows: Updates) -> None:
    order, flags = order_of(rows)
    assert order == model.sort_order(rows)
    keys = [(row, time) for row, time, _ in model.triples(rows)]
    assert bool(flags & sort.IDENTITY) == (keys == sorted(keys))
    assert bool(flags & sort.DISTINCT) == (len(set(keys)) == len(keys))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reach", [2, 60, 5000, 2**40, 2**62])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_long_inputs_sort_as_numpy_does(seed: int, reach: int, width: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(60, 3000))
    data = random.integers(-reach, reach, (width, n))
    data[:, random.random(n) < 0.05] = -(2**63)
    time = random.integers(0, 3, (2, n))
    order, flags = order_of(Updates(data, time, np.ones(1, np.int64)))
    columns = np.vstack([data, time])
    assert order == np.lexsort(columns[::-1]).tolist()
    assert bool(flags & sort.DISTINCT) == (np.unique(columns, axis=1).shape[1] == n)


def test_a_long_run_of_one_value_sorts_by_the_next_column() -> None:
    n = 20_000
    second = np.random.default_rng(1).permutation(n)
    data = np.vstack([np.zeros(n, np.int64), second])
    order, flags = order_of(Updates.of(data, (0,), 1))
    assert order == np.argsort(second).tolist()
    assert flags == sort.DISTINCT


def test_sorted_input_is_recognised() -> None:
    assert order_of(Updates.of([range(1000), range(1000)], (3,), 1)) == (
        list(range(1000)),
        sort.IDENTITY + sort.DISTINCT,
    )


@settings(max_examples=200)
@given(ANY_UPDATES)
def test_consolidate_adds_up_equal_rows_and_times(rows: Updates) -> None:
    assert model.triples(rows.consolidate()) == model.consolidated(rows)


def test_a_sum_of_diffs_that_does_not_fit_is_an_error() -> None:
    rows = Updates.of([[1, 1]], (0,), [2**62, 2**62])
    with pytest.raises(DataError, match="multiplicity overflow"):
        rows.consolidate()
