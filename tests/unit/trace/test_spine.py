"""Traces: what readers see, how much work merging is, and what handles hold back."""

import gc
import math
import weakref

import numpy as np
import pytest

from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch
from kpg.runtime.trace.merge import TINY_BATCHES
from kpg.runtime.trace.spine import Spine, TraceHandle
from kpg.runtime.trace.updates import Updates
from tests.model.kernels import contents, finish_merges


def at(epoch: int) -> Antichain:
    return Antichain.of((epoch,))


def insert(spine: Spine, keys: object, diff: object = 1, epoch: int | None = None) -> Batch:
    """One batch of one-column rows, for the epoch that is next."""
    (now,) = spine.upper.elements[0]
    epoch = now if epoch is None else epoch
    batch = Batch.build(Updates.of([keys], (epoch,), diff), spine.upper, at(epoch + 1))
    spine.insert(batch)
    return batch


def release(handle: TraceHandle) -> None:
    """Let a handle hold back nothing that is in the trace."""
    handle.advance_logical(handle.spine.upper)
    handle.advance_physical(handle.spine.upper)


def filled(sizes: list[int]) -> tuple[Spine, TraceHandle]:
    """A spine with batches of such sizes, each followed by the work that is due."""
    spine = Spine(1, 1)
    handle = TraceHandle(spine)
    random = np.random.default_rng(0)
    for size in sizes:
        insert(spine, random.integers(0, 2**60, size))
        release(handle)
        spine.finish_step()
    return spine, handle


HISTORIES = {
    "single rows": [1] * 1500,
    "equal batches": [100] * 200,
    "growing": list(range(1, 300)),
    "falling": list(range(300, 0, -1)),
    "one large, then small": [50_000] + [20] * 300,
    "small, then one large": [20] * 300 + [50_000] + [20] * 50,
    "mixed": np.random.default_rng(9).geometric(0.01, 300).tolist(),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_batches_stay_few_at_every_step(name: str) -> None:
    spine = Spine(1, 1)
    handle = TraceHandle(spine)
    random = np.random.default_rng(0)
    for size in HISTORIES[name]:
        insert(spine, random.integers(0, 2**60, size))
        release(handle)
        spine.finish_step()
        assert spine.batch_count <= 2 * math.log2(spine.rows + 1) + TINY_BATCHES


@pytest.mark.parametrize("name", HISTORIES)
def test_merging_is_in_proportion_to_n_log_n(name: str) -> None:
    spine, _ = filled(HISTORIES[name])
    n = sum(HISTORIES[name])
    assert spine.inserted_rows == n
    assert spine.merged_rows <= 3 * n * math.log2(n)


def test_a_compaction_in_parts_does_not_exceed_its_fuel() -> None:
    spine = Spine(1, 1)
    handle = TraceHandle(spine)
    random = np.random.default_rng(0)
    for _ in range(40):
        insert(spine, random.integers(0, 2**60, 1000))
    release(handle)
    for fuel in [1, 10, 100, 1000, 10_000] * 20:
        before = spine.merged_rows
        spine.compact(fuel)
        assert spine.merged_rows - before <= 2 * fuel + 64


def test_work_due_is_in_proportion_to_what_was_inserted() -> None:
    spine, handle = filled([100_000] * 2)
    insert(spine, [1, 2, 3])
    release(handle)
    assert spine.finish_step() <= 10_000


def test_finished_merges_leave_geometric_sizes() -> None:
    spine = Spine(1, 1)
    handle = TraceHandle(spine)
    random = np.random.default_rng(0)
    for size in random.integers(100, 3000, 50):
        insert(spine, random.integers(0, 2**60, size))
    release(handle)
    finish_merges(spine)
    sizes = [len(batch) for batch in spine.read_in_order()]
    assert all(sizes[i] > sum(sizes[i + 1 :]) for i in range(len(sizes)))


def test_sources_are_read_until_their_merge_is_done() -> None:
    spine, handle = filled([])
    insert(spine, range(1000))
    insert(spine, range(1000, 2000))
    release(handle)
    spine.compact(10)
    assert [len(batch) for batch in spine.read_in_order()] == [1000, 1000]
    finish_merges(spine)
    assert [len(batch) for batch in spine.read_in_order()] == [2000]


def test_a_window_that_slides_keeps_memory_flat() -> None:
    spine, handle = filled([])
    window, sizes = 500, []
    for epoch in range(0, 20_000, 50):
        added = np.arange(epoch, epoch + 50)
        keys = np.concatenate([added, added - window])
        insert(spine, keys[keys >= 0], np.repeat([1, -1], 50)[keys >= 0])
        release(handle)
        spine.finish_step()
        sizes.append(spine.bytes)
    assert max(sizes) < 120_000
    assert spine.rows < 4 * window


def test_no_batch_spans_the_physical_frontier_of_a_reader() -> None:
    spine, slow = filled([100, 100])
    fast = slow.clone()
    middle = spine.upper
    for _ in range(10):
        insert(spine, range(100))
        release(fast)
        spine.finish_step()
    assert contents(batch.updates for batch in spine.read_in_order(middle)) == contents(
        batch.updates for batch in spine.read_in_order()[: len(spine.read_in_order(middle))]
    )
    assert sum(len(batch) for batch in spine.read_in_order(middle)) == 200
    release(slow)
    finish_merges(spine)
    with pytest.raises(InternalError, match="within a merged batch"):
        spine.read_in_order(middle)


def test_times_are_kept_from_the_earliest_logical_frontier_on() -> None:
    spine, fast = filled([])
    slow = fast.clone()
    for _ in range(8):
        insert(spine, range(100))
        release(fast)
        slow.advance_physical(spine.upper)
    slow.advance_logical(at(5))
    spine.compact()
    (batch,) = spine.read_in_order()
    assert sorted(set(batch.time[0].tolist())) == [5, 6, 7]
    assert batch.since == at(5) and spine.since == at(5)
    slow.close()
    spine.compact()
    (batch,) = spine.read_in_order()
    assert batch.time.tolist() == [[8]]
    assert batch.diff.tolist() == [8]


def test_compact_drops_rows_that_were_deleted() -> None:
    spine, handle = filled([])
    insert(spine, range(100))
    insert(spine, range(90), -1)
    release(handle)
    spine.compact()
    assert [batch.data.tolist() for batch in spine.read_in_order()] == [[list(range(90, 100))]]
    insert(spine, range(90, 100), -1)
    release(handle)
    spine.compact()
    assert spine.read_in_order() == ()
    assert spine.rows == 0


def held(spine: Spine) -> dict[object, int]:
    """Rows, whenever they came."""
    return dict(contents((batch.updates for batch in spine.read_in_order()), spine.upper))


@pytest.mark.parametrize("fuel", [100, 500])
def test_compacting_in_parts_while_steps_go_on(fuel: int) -> None:
    """What was there when it began is one batch in the end, and contents are right meanwhile."""
    random = np.random.default_rng(fuel)
    spine, handle = filled([2000, 1200, 500, 200, 90])
    rows = list(contents(batch.updates for batch in spine.read_in_order()).items())
    for (key,), _ in [row for row, _ in rows[:400]]:
        insert(spine, [key], -1)
    release(handle)
    finish_merges(spine)
    steps = 0
    while not spine.compact(fuel):
        steps += 1
        insert(spine, random.integers(0, 50, int(random.integers(0, 4))), int(random.choice([-1, 1])))
        if steps % 3 == 0:
            spine.mark()
            insert(spine, [7])
            spine.truncate(spine._last_mark_number)
        release(handle)
        before = held(spine) if steps % 8 == 0 else None
        spine.finish_step()
        assert before is None or held(spine) == before
    assert steps > 5
    found = spine.read_in_order()[0].data[0].tolist()
    assert len(found) == len(set(found))
    spine.compact()
    assert len(spine.read_in_order()) <= 1


def test_a_step_can_be_taken_back() -> None:
    spine, handle = filled([10, 10])
    before = spine.read_in_order(), spine.upper, spine.inserted_rows
    mark = spine.mark()
    for _ in range(2):
        insert(spine, range(5))
        insert(spine, range(7))
        assert [len(batch) for batch in spine.read_in_order()][-2:] == [5, 7]
        spine.truncate(mark)
        assert (spine.read_in_order(), spine.upper, spine.inserted_rows) == before
    insert(spine, range(5))
    release(handle)
    spine.finish_step()
    with pytest.raises(InternalError, match="before it was truncated"):
        spine.truncate(mark)


def test_only_the_last_mark_is_valid() -> None:
    spine, _ = filled([10])
    first = spine.mark()
    second = spine.mark()
    with pytest.raises(InternalError, match="marked again"):
        spine.truncate(first)
    spine.truncate(second)


def rounds(sizes: list[int], before: int = 0) -> tuple[Spine, TraceHandle, int]:
    """A spine with a batch of an earlier step, and then one step with a batch for each round."""
    spine = Spine(1, 2)
    handle = TraceHandle(spine)
    random = np.random.default_rng(0)
    keys = random.integers(0, 2**60, before)
    spine.insert(Batch.build(Updates.of([keys], (0, 0), 1), spine.upper, Antichain.of((1, 0))))
    handle.advance_logical(Antichain.of((0, 0)))
    handle.advance_physical(spine.upper)
    spine.finish_step()
    mark = spine.mark()
    for number, size in enumerate(sizes):
        upper = Antichain(((1, number + 1), (2, 0)))
        updates = Updates.of([random.integers(0, 2**60, size)], (1, number), 1)
        spine.insert(Batch.build(updates, spine.upper, upper))
    return spine, handle, mark


ROUNDS = {
    "single rows": [1] * 600,
    "equal": [300] * 200,
    "growing": list(range(1, 200)),
    "falling": list(range(400, 0, -1)),
    "small among large": [1, 5000] * 30,
    "mixed": np.random.default_rng(9).geometric(0.01, 300).tolist(),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_batches_of_rounds_merge_at_once_and_with_none_that_is_older(name: str) -> None:
    sizes = ROUNDS[name]
    spine, _, mark = rounds(sizes, before=100)
    old, *recent = spine.read_in_order()
    n = sum(sizes)
    assert len(old) == 100
    assert sum(map(len, recent)) == n
    assert len(recent) <= math.log2(n) + TINY_BATCHES
    assert spine.merged_rows <= 3 * n * math.log2(n)
    assert sorted({time for batch in recent for time in batch.time[1].tolist()}) == list(range(len(sizes)))
    spine.truncate(mark)
    assert (
        spine.read_in_order() == (old,) and spine.upper == Antichain.of((1, 0)) and spine.inserted_rows == 100
    )


def test_batches_of_rounds_leave_alone_what_a_reader_keeps_apart() -> None:
    spine = Spine(1, 2)
    handle = TraceHandle(spine)
    for epoch in range(3):
        updates = Updates.of([range(100)], (epoch, 0), 1)
        spine.insert(Batch.build(updates, spine.upper, Antichain.of((epoch + 1, 0))))
    spine.finish_step()
    older = spine.read_in_order()
    spine.mark()
    for number in range(8):
        upper = Antichain(((3, number + 1), (4, 0)))
        spine.insert(Batch.build(Updates.of([range(100)], (3, number), 1), spine.upper, upper))
    assert spine.read_in_order(Antichain.of((3, 0))) == older and len(older) == 3
    assert handle.physical == Antichain.minimum(2)


def test_after_the_step_its_batches_merge_with_older_ones() -> None:
    spine, handle, _ = rounds([100] * 10, before=500)
    handle.advance_logical(Antichain.of((1, 0)))
    handle.advance_physical(spine.upper)
    spine.compact()
    (batch,) = spine.read_in_order()
    assert np.unique(batch.time, axis=1).tolist() == [[1] * 10, list(range(10))]
    assert (batch.lower, batch.upper) == (Antichain.minimum(2), Antichain(((1, 10), (2, 0))))


def test_a_multiplicity_that_does_not_fit_leaves_the_trace_as_it_was() -> None:
    spine, handle = filled([])
    for _ in range(2):
        insert(spine, range(1000), 2**62)
    release(handle)
    before = contents(batch.updates for batch in spine.read_in_order())
    for _ in range(2):
        with pytest.raises(DataError, match="multiplicity overflow"):
            finish_merges(spine)
    assert contents(batch.updates for batch in spine.read_in_order()) == before


@pytest.mark.parametrize(("rows", "count"), [(1, TINY_BATCHES), (1000, 4)])
def test_rounds_whose_multiplicity_does_not_fit_can_be_taken_back(rows: int, count: int) -> None:
    spine, _, mark = rounds([], before=5)
    old = spine.read_in_order()
    for number in range(count):
        updates = Updates.of([range(rows)], (1, 0), 2**61)
        spine.insert(Batch.build(updates, spine.upper, Antichain(((1, number + 1), (2, 0)))))
    for _ in range(2):
        with pytest.raises(DataError, match="multiplicity overflow"):
            spine.read_in_order()
    spine.truncate(mark)
    assert (spine.read_in_order(), spine.upper, spine.inserted_rows) == (old, Antichain.of((1, 0)), 5)


def test_a_batch_must_follow_the_last() -> None:
    spine, _ = filled([10])
    with pytest.raises(InternalError, match="does not follow"):
        spine.insert(Batch.build(Updates.of([[1]], (5,), 1), at(5), at(6)))


def test_empty_batches_move_the_frontier_and_leave_no_layer() -> None:
    spine, handle = filled([10])
    for _ in range(100):
        insert(spine, [])
    release(handle)
    spine.finish_step()
    insert(spine, range(5))
    assert [len(batch) for batch in spine.read_in_order()] == [10, 5]
    assert [len(batch) for batch in spine.read_in_order(at(101))] == [10]


@pytest.mark.parametrize("frontier", ["logical", "physical"])
def test_frontiers_only_advance(frontier: str) -> None:
    _, handle = filled([10])
    with pytest.raises(InternalError, match=f"{frontier} frontier cannot go back"):
        getattr(handle, f"advance_{frontier}")(at(0))


def test_a_clone_holds_what_the_original_held() -> None:
    _, handle = filled([10])
    clone = handle.clone()
    assert (clone.logical, clone.physical) == (handle.logical, handle.physical)
    handle.close()
    insert(clone.spine, range(10))
    clone.spine.compact()
    assert [len(batch) for batch in clone.spine.read_in_order()] == [10, 10]
    clone.close()
    with pytest.raises(InternalError, match="closed trace handle"):
        clone.clone()


def test_dropping_a_handle_closes_it() -> None:
    spine, handle = filled([10])
    clone = handle.clone()
    insert(spine, range(10))
    release(handle)
    spine.compact()
    assert spine.batch_count == 2
    del clone
    spine.compact()
    assert spine.batch_count == 1


def test_the_last_handle_frees_the_trace_at_once() -> None:
    spine, handle = filled([1000] * 5)
    reference = weakref.ref(spine)
    gc.disable()
    try:
        del spine
        assert reference() is not None
        del handle
        assert reference() is None
    finally:
        gc.enable()
