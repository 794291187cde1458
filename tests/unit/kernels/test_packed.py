"""Rows packed into words: consolidation against numpy, whatever their ranges, diffs and times."""

import numpy as np
import pytest
from numpy.typing import NDArray

from kpg.runtime.errors import DataError
from kpg.runtime.kernels import packed
from kpg.runtime.kernels.links import MANY
from kpg.runtime.trace.updates import Updates
from tests.model.kernels import triples

Words = NDArray[np.int64]
SHORT = np.ones(1, np.int64)


def expected(rows: Updates) -> tuple[Words, Words]:
    """The distinct (row, time) columns in order and the sums of their diffs other than zero, by numpy."""
    columns = np.vstack([rows.data, rows.times()])
    distinct, place = np.unique(columns, axis=1, return_inverse=True)
    sums = np.zeros(distinct.shape[1], np.int64)
    np.add.at(sums, place.ravel(), rows.diffs())
    return distinct[:, sums != 0], sums[sums != 0]


def check(rows: Updates) -> None:
    before = [rows.data.copy(), rows.time.copy(), rows.diff.copy()]
    columns, sums = expected(rows)
    result = rows.consolidate()
    assert np.array_equal(np.vstack([result.data, result.times()]), columns)
    assert np.array_equal(result.diffs(), sums)
    assert result.constant_diff == (np.unique(sums).shape[0] == 1 and sums.shape[0] != 0) or len(result) == 1
    assert result.ordered or not len(result)
    for array, kept in zip((rows.data, rows.time, rows.diff), before, strict=True):
        assert np.array_equal(array, kept)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("reach", [1, 3, 300, 20_000, 2**22, 2**40])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("timed", [False, True])
def test_rows_are_sorted_and_added_up(seed: int, reach: int, width: int, timed: bool) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(MANY, 4 * MANY))
    data = random.integers(-reach, reach, (width, n))
    time = random.integers(5, 7, (2, n)) if timed else np.array([[3], [1]])
    check(Updates(data, time, SHORT))
    check(Updates(data, time, random.integers(-1, 2, n)))


@pytest.mark.parametrize("n", [MANY, 300_000])
def test_skewed_rows(n: int) -> None:
    """One value has half of the rows, most others few: buckets of all sizes."""
    random = np.random.default_rng(1)
    values = (random.pareto(0.5, n) * 3).clip(0, 2**35).astype(np.int64)
    values[random.random(n) < 0.5] = 17
    data = np.stack([values, random.integers(0, 3, n)])
    check(Updates(data, np.array([[1]]), SHORT))
    check(Updates(data, np.array([[1]]), random.integers(-2, 3, n)))


def test_what_does_not_fit_a_word_is_sorted_otherwise() -> None:
    random = np.random.default_rng(2)
    data = random.integers(-50, 50, (2, 2 * MANY))
    data[0, 5] = -(2**63)
    data[1, 9] = 2**62
    rows = Updates(data, np.array([[1]]), SHORT)
    fields = np.empty((2, 2), np.int64)
    assert packed.measure(rows.data, rows.time, fields) > packed.ROOM
    check(rows)
    assert rows.consolidate_if_smaller() is rows


def test_sorted_rows_stay_as_they_are() -> None:
    rows = Updates(np.arange(2 * MANY).reshape(1, -1), np.array([[1]]), SHORT)
    assert rows.consolidate() is rows and rows.ordered
    once = Updates(rows.data, rows.time, np.where(rows.data[0] == 7, 0, 1))
    assert len(once.consolidate()) == 2 * MANY - 1


def test_what_cancels_leaves_nothing() -> None:
    data = np.tile(np.arange(MANY), 2).reshape(1, -1)
    diff = np.repeat(np.array([2, -2]), MANY)
    result = Updates(data, np.array([[1], [2]]), diff).consolidate()
    assert len(result) == 0 and result.width == 1 and result.depth == 2


@pytest.mark.parametrize("copies", [1, MANY])
def test_a_sum_beyond_64_bits_is_an_error(copies: int) -> None:
    """Where rows are counted, and where a bucket is sorted."""
    data = np.repeat(np.arange(MANY // copies) * 2**20, 2 * copies).reshape(1, -1)
    with pytest.raises(DataError, match="multiplicity overflow"):
        Updates(data, np.array([[0]]), np.array([2**62])).consolidate()
    with pytest.raises(DataError, match="multiplicity overflow"):
        Updates(data, np.array([[0]]), np.full(data.shape[1], 2**62)).consolidate()


def test_only_crowded_rows_are_combined() -> None:
    random = np.random.default_rng(3)
    crowded = Updates(random.integers(0, 100, (1, MANY)), np.array([[0]]), SHORT)
    assert sum(diff for _, _, diff in triples(crowded.consolidate_if_smaller())) == MANY
    assert len(crowded.consolidate_if_smaller()) == 100
    sparse = Updates(random.integers(0, 100 * MANY, (1, MANY)), np.array([[0]]), SHORT)
    assert sparse.consolidate_if_smaller() is sparse
    few = Updates.of([[4, 4]], (0,), 1)
    assert few.consolidate_if_smaller() is few
