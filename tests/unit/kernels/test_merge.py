"""Merging in steps of any size gives what consolidating both sources gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch
from kpg.runtime.trace.merge import Merge
from kpg.runtime.trace.updates import Updates
from tests.model import kernels as model
from tests.model.updates import updates


def merged(older: Updates, newer: Updates, since: Antichain | None, limit: int) -> Batch:
    depth = older.depth
    lower, middle, upper = (Antichain.of((epoch,) + (0,) * (depth - 1)) for epoch in range(3))
    merge = Merge(Batch.build(older, lower, middle), Batch.build(newer, middle, upper), since)
    for _ in range(4 + 4 * len(merge)):
        merge.advance(limit)
        if merge.result is not None:
            return merge.result
    raise AssertionError("the merge does not end")


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_a_merge_is_the_consolidated_sum_with_times_compacted(data: st.DataObject) -> None:
    width, depth = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 2))
    older, newer = data.draw(updates(width, depth)), data.draw(updates(width, depth))
    floor = data.draw(st.none() | st.lists(st.integers(0, 4), min_size=depth, max_size=depth).map(tuple))
    since = None if floor is None else Antichain.of(floor)
    result = merged(older, newer, since, data.draw(st.sampled_from([1, 2, 7, 1000])))
    expected = sorted(
        (row, time, diff) for (row, time), diff in model.contents([older, newer], since).items()
    )
    assert model.triples(result.updates) == expected
    assert all(array.flags.c_contiguous for array in (result.data, result.time, result.diff))


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("kind", ["interleaved", "runs", "appended", "overlapping"])
@pytest.mark.parametrize("limit", [100, 1 << 20])
def test_long_runs(width: int, kind: str, limit: int) -> None:
    n = 3000
    place = np.arange(2 * n)
    side = {
        "interleaved": np.random.default_rng(2).integers(0, 2, 2 * n),
        "runs": place // 500 % 2,
        "appended": place // n,
        "overlapping": place % 2,
    }[kind]
    older, newer = place[side == 0], place[side == 1]
    if kind == "overlapping":
        newer = np.sort(np.concatenate([newer, older[1000:1010]]))
    rows = [np.vstack([keys] * width) // np.arange(width, 0, -1).reshape(-1, 1) for keys in (older, newer)]
    result = merged(Updates.of(rows[0], (0,), 1), Updates.of(rows[1], (1,), 1), Antichain.of((2,)), limit)
    distinct, counts = np.unique(np.concatenate(rows, axis=1), axis=1, return_counts=True)
    assert result.data.tolist() == distinct.tolist()
    assert result.updates.diffs().tolist() == counts.tolist()
    assert result.constant_time and result.time.tolist() == [[2]]


def test_deletes_leave_neither_rows_nor_diffs_behind() -> None:
    older = Updates.of([range(1000), range(1000)], (0,), 1)
    newer = Updates.of([range(0, 1000, 2), range(0, 1000, 2)], (1,), -1)
    result = merged(older, newer, Antichain.of((1,)), 64)
    assert result.data.tolist() == [list(range(1, 1000, 2))] * 2
    assert result.diff.tolist() == [1]
    assert result.data.base is not None and result.data.base.nbytes == result.data.nbytes


def test_gaps_between_times_are_closed_where_they_are_a_part_in_each_step() -> None:
    n = 1000
    older = Updates.of([range(n)], np.stack((np.arange(n) % 3, np.zeros(n, np.int64))), 1)
    newer = Updates.of([range(0, n, 2)], np.stack((np.arange(0, n, 2) % 3, np.zeros(n // 2, np.int64))), -1)
    lower, middle, upper = (Antichain.of((epoch, 0)) for epoch in (0, 5, 9))
    merge = Merge(Batch.build(older, lower, middle), Batch.build(newer, middle, upper), None)
    steps = 0
    while merge.result is None:
        assert merge.advance(10) <= 11
        steps += 1
    result = merge.result
    assert result.data.tolist() == [list(range(1, n, 2))] and result.diff.tolist() == [1]
    assert result.time.tolist() == [[row % 3 for row in range(1, n, 2)], [0] * (n // 2)]
    assert result.time.base is not None and result.time.base.nbytes == result.time.nbytes
    assert steps >= (n + n // 2 + 3 * n // 16) // 11  # rows, and the three columns that are left at 8 a row


def test_a_long_history_of_one_row_is_sorted_after_compaction() -> None:
    n = 200
    random = np.random.default_rng(4)
    older, newer = (Updates.of([[7] * n], random.integers(0, 40, (2, n)), 1) for _ in range(2))
    since = Antichain.of((20, 0))
    expected = model.contents([older, newer], since)
    assert model.contents([merged(older, newer, since, 5).updates]) == expected
    times = merged(older, newer, since, 5).time.T.tolist()
    assert times == sorted(times)


def test_a_directory_is_inherited_by_the_merged_batch() -> None:
    lower, middle, upper = (Antichain.of((epoch,)) for epoch in range(3))
    older = Batch.build(Updates.of([range(1000)], (0,), 1), lower, middle)
    newer = Batch.build(Updates.of([range(1000, 1100)], (1,), 1), middle, upper)
    older.build_directory()
    merge = Merge(older, newer, None)
    while merge.result is None:
        merge.advance(10)
    assert merge.result.has_directory


def test_a_finished_merge_is_freed_without_the_cycle_collector() -> None:
    import gc
    import weakref

    class Watched(Merge):
        pass

    empty = Batch.build(Updates.empty(1, 1), Antichain.of((0,)), Antichain.of((1,)))
    gc.disable()
    try:
        merge = Watched(empty, Batch.build(Updates.of([[1]], (1,), 1), empty.upper, Antichain.of((2,))), None)
        merge.advance(10)
        reference = weakref.ref(merge)
        del merge
        assert reference() is None
    finally:
        gc.enable()
