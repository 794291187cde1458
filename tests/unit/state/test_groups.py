"""The group table against a dictionary: accumulate, emit, commit, roll back, forget."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpg.runtime.errors import DataError
from kpg.runtime.kernels.accumulators import COUNT, SUM, SUM_DOUBLE
from kpg.runtime.state.groups import Accumulator, GroupTable
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import ERROR, NULL, float_to_word, word_to_float

COUNT_AND_SUM = (
    Accumulator(COUNT, -1),
    Accumulator(COUNT, 1),
    Accumulator(SUM, 1),
)


def feed(table: GroupTable, rows: list[tuple[int, ...]], diffs: list[int]) -> dict[tuple[int, ...], int]:
    """Accumulate rows at one time; the emitted changes as a multiset."""
    table.accumulate(Updates.of(np.array(rows, np.int64).T, (1,), diffs))
    return emitted(table)


def emitted(table: GroupTable, single_time: bool = True) -> dict[tuple[int, ...], int]:
    data, diff, _ = table.emit(single_time)
    result: dict[tuple[int, ...], int] = {}
    for row, d in zip(data.T.tolist(), diff.tolist(), strict=True):
        result[tuple(row)] = result.get(tuple(row), 0) + d
    return {row: d for row, d in result.items() if d}


def test_a_group_appears_changes_and_goes() -> None:
    table = GroupTable(1, COUNT_AND_SUM)
    assert feed(table, [(7, 10), (7, NULL), (8, 5)], [1, 1, 1]) == {(7, 2, 1, 10): 1, (8, 1, 1, 5): 1}
    table.commit()
    assert feed(table, [(7, 10)], [-1]) == {(7, 2, 1, 10): -1, (7, 1, 0, NULL): 1}
    table.commit()
    assert feed(table, [(7, NULL), (8, 5)], [-1, -1]) == {(7, 1, 0, NULL): -1, (8, 1, 1, 5): -1}
    table.commit()
    assert len(table) == 0


def test_what_cancels_within_a_step_emits_nothing() -> None:
    table = GroupTable(1, COUNT_AND_SUM)
    assert feed(table, [(7, 10), (7, 10)], [1, -1]) == {}
    table.commit()
    assert len(table) == 0


def test_rollback_restores_the_accumulators() -> None:
    table = GroupTable(1, COUNT_AND_SUM)
    feed(table, [(7, 10)], [1])
    table.commit()
    feed(table, [(7, 5), (9, 1)], [3, 1])
    table.rollback()
    assert len(table) == 1
    assert feed(table, [(7, 1)], [1]) == {(7, 1, 1, 10): -1, (7, 2, 2, 11): 1}


def test_each_time_of_a_step_gets_its_own_change() -> None:
    table = GroupTable(1, COUNT_AND_SUM)
    updates = Updates.of([[7, 7, 7], [1, 2, 4]], [[5, 3, 5]], [1, 1, 1])
    table.accumulate_times(updates)
    data, diff, entry = table.emit(False)
    times = updates.times()[0, table.when[entry]].tolist()
    assert list(zip(times, map(tuple, data.T.tolist()), diff.tolist(), strict=True)) == [
        (3, (7, 1, 1, 2), 1),
        (5, (7, 1, 1, 2), -1),
        (5, (7, 3, 3, 7), 1),
    ]


def test_the_global_group_exists_over_nothing() -> None:
    table = GroupTable(0, (Accumulator(COUNT, -1), Accumulator(SUM, 0)))
    table.touch_empty()
    assert emitted(table) == {(0, NULL): 1}
    table.commit()
    assert feed(table, [(4,)], [2]) == {(0, NULL): -1, (2, 8): 1}


@pytest.mark.parametrize(
    ("values", "diffs", "expected"),
    [
        ([2**62, 2**62], [1, 1], ERROR),
        ([2**62, 2**62, -(2**62)], [1, 1, 1], 2**62),
        ([2**62], [1000], ERROR),
        ([-(2**63) + 2], [1], -(2**63) + 2),
        ([-(2**62)], [2], ERROR),
        ([3 * 10**18, -3 * 10**18], [4, 4], 0),
        ([2**40 + 1], [-(2**20)], -(2**60) - 2**20),
    ],
)
def test_sums_are_exact_in_128_bits(values: list[int], diffs: list[int], expected: int) -> None:
    table = GroupTable(0, (Accumulator(SUM, 0),))
    table.accumulate(Updates.of([values], (1,), diffs))
    data, _, _ = table.emit(True)
    assert sum(diffs) < 0 or data[0, -1] == expected


finite = st.floats(allow_nan=False, allow_infinity=False)


diffs = st.integers(-3, 3) | st.sampled_from([2**28 + 1, -(2**30), 2**33, -(2**45) - 1, 2**58 + 7])


@settings(max_examples=300)
@given(st.lists(st.tuples(finite, diffs), min_size=1, max_size=12))
def test_float_sums_are_correctly_rounded(terms: list[tuple[float, int]]) -> None:
    table = GroupTable(0, (Accumulator(SUM_DOUBLE, 0),))
    terms = [*terms, (0.5, 1 + abs(sum(diff for _, diff in terms)))]
    words = [float_to_word(value) for value, _ in terms]
    table.accumulate(Updates.of([words], (1,), [diff for _, diff in terms]))
    data, _, _ = table.emit(True)
    exact = sum((Fraction(value) * diff for value, diff in terms), Fraction(0))
    try:
        expected = float_to_word(float(exact))
    except OverflowError:
        expected = ERROR
    assert data[0, -1] == expected


@pytest.mark.parametrize("times", [(1,), [[1, 2, 3]]])
def test_more_rows_than_64_bits_count_are_refused(times: object) -> None:
    table = GroupTable(1, COUNT_AND_SUM)
    feed(table, [(7, 1)], [2**62])
    table.commit()
    more = Updates.of([[7, 7, 8], [2, 3, 1]], times, [2**61, 2**61, 1])
    for _ in range(2):
        with pytest.raises(DataError, match="multiplicity overflow"):
            (table.accumulate if more.constant_time else table.accumulate_times)(more)
        table.rollback()
    assert feed(table, [(7, 1)], [-(2**62)]) == {(7, 2**62, 2**62, 2**62): -1}


def test_a_retracted_float_leaves_no_trace() -> None:
    table = GroupTable(1, (Accumulator(SUM_DOUBLE, 1),))
    small, large = float_to_word(0.1), float_to_word(1e300)
    feed(table, [(1, small)], [1])
    table.commit()
    feed(table, [(1, large)], [1])
    table.commit()
    assert feed(table, [(1, large)], [-1]) == {(1, large): -1, (1, small): 1}
    table.commit()
    feed(table, [(1, small)], [-1])
    table.commit()
    assert len(table) == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([math.inf, 1.0], math.inf),
        ([-math.inf], -math.inf),
        ([math.inf, -math.inf], None),
        ([math.nan], None),
    ],
)
def test_sums_of_special_floats(values: list[float], expected: float | None) -> None:
    table = GroupTable(0, (Accumulator(SUM_DOUBLE, 0),))
    table.accumulate(Updates.of([[float_to_word(v) for v in values]], (1,), [1] * len(values)))
    data, _, _ = table.emit(True)
    result = word_to_float(int(data[0, -1]))
    assert math.isnan(result) if expected is None else result == expected


operations = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(-2, 2)), max_size=8), max_size=12
)


@settings(max_examples=150)
@given(operations, st.lists(st.booleans(), min_size=12, max_size=12))
def test_random_steps_match_a_dictionary(steps: list[list[tuple[int, int, int]]], keep: list[bool]) -> None:
    table = GroupTable(1, COUNT_AND_SUM)
    truth: dict[tuple[int, int], int] = {}
    output: dict[tuple[int, ...], int] = {}
    for rows, committed in zip(steps, keep, strict=False):
        if not rows:
            continue
        change = feed(table, [(k, v) for k, v, _ in rows], [d for _, _, d in rows])
        if not committed:
            table.rollback()
            continue
        table.commit()
        for k, v, d in rows:
            truth[k, v] = truth.get((k, v), 0) + d
        for row, d in change.items():
            output[row] = output.get(row, 0) + d
        expected = {}
        for key in {k for k, _ in truth}:
            count = sum(d for (k, _), d in truth.items() if k == key)
            total = sum(v * d for (k, v), d in truth.items() if k == key)
            if count > 0:
                expected[key, count, count, total] = 1
        assert {row: d for row, d in output.items() if d} == expected
