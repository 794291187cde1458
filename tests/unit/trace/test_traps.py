"""How traces go wrong: a test for each of their traps in docs/explanation/traps.md, by its number."""

import gc
import math
import weakref
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import seek
from kpg.runtime.progress.antichain import Antichain, Time
from kpg.runtime.trace.batch import Batch, Layers
from kpg.runtime.trace.lookup import Order, lookup
from kpg.runtime.trace.merge import Merge
from kpg.runtime.trace.spine import Spine, TraceHandle
from kpg.runtime.trace.updates import Updates
from tests.model.kernels import Contents, contents, finish_merges, triples

SQUARE = list(product(range(2), repeat=2))
ONE_COLUMN = np.array([0])


def at(*time: int) -> Antichain:
    return Antichain.of(time)


def trace(*parts: Updates) -> tuple[Spine, TraceHandle]:
    """A trace of batches for epochs 0, 1, ..., nothing merged, and a handle that holds everything back."""
    depth = parts[0].depth
    spine = Spine(parts[0].width, depth)
    handle = TraceHandle(spine)
    for epoch, part in enumerate(parts):
        upper = at(epoch + 1, *(0,) * (depth - 1))
        spine.insert(Batch.build(part, spine.upper, upper))
    return spine, handle


def everything(spine: Spine) -> Contents:
    return contents(batch.updates for batch in spine.read_in_order())


def compacted(times: list[Time], frontier: Antichain) -> dict[int, Time]:
    """Where one merge moves updates: by number, the time at which each is found."""
    numbers = Updates.of([range(len(times))], np.array(times).T.copy(), 1)
    empty = Batch.build(Updates.empty(1, len(times[0])), at(0, 0), at(0, 0))
    merge = Merge(empty, Batch.build(numbers, at(0, 0), at(9, 9)), frontier)
    while merge.result is None:
        merge.advance(1000)
    return {row[0]: time for row, time, _ in triples(merge.result.updates)}


@pytest.mark.parametrize(
    ("frontier", "expected"),
    [
        ([(0, 3), (1, 2), (2, 0)], [(0, 0), (0, 1), (1, 0), (1, 1)]),
        ([(1, 2), (2, 0)], [(1, 0), (1, 1), (1, 0), (1, 1)]),
        ([(0, 3), (1, 1)], [(0, 1), (0, 1), (1, 1), (1, 1)]),
        ([(1, 1)], [(1, 1)] * 4),
    ],
)
def test_t6_times_move_to_their_representatives(frontier: list[Time], expected: list[Time]) -> None:
    assert compacted(SQUARE, Antichain.of(*frontier)) == dict(enumerate(expected))


def test_t7_the_maximum_with_the_floor_is_the_general_representative() -> None:
    times = list(product(range(4), repeat=2))
    for frontier in (Antichain.of(*pair) for pair in combinations(times, 2)):
        general = {i: frontier.representative(time) for i, time in enumerate(times)}
        assert compacted(times, frontier) == general


def test_t8_what_meets_a_representative_comes_out_at_a_legal_time() -> None:
    frontier = Antichain.of((0, 3), (1, 1))
    spine, handle = trace(Updates.of([[7]], (0, 0), 1))
    handle.advance_logical(frontier)
    handle.advance_physical(spine.upper)
    spine.compact()
    (layer,) = spine.read_in_order()
    assert layer.time.T.tolist() == [[0, 1]] and not frontier.less_equal((0, 1))
    for time in [(0, 3), (1, 1), (2, 2)]:
        (met,) = lookup(Updates.of([[7]], time, 1), (0,), Layers([layer]), ONE_COLUMN, ONE_COLUMN, Order.ANY)
        assert met.time.T.tolist() == [list(time)] and frontier.less_equal(time)


def test_t9_compacting_in_two_steps_is_compacting_in_one() -> None:
    times = list(product(range(4), repeat=2))
    first, last = Antichain.of((0, 2), (1, 0)), Antichain.of((1, 3), (2, 1))
    once = compacted(times, last)
    halfway = compacted(times, first)
    assert compacted([halfway[i] for i in range(len(times))], last) == once
    assert compacted([once[i] for i in range(len(times))], last) == once


def test_t10_an_empty_frontier_moves_no_time() -> None:
    assert compacted(SQUARE, Antichain()) == dict(enumerate(SQUARE))
    spine, handle = trace(Updates.of([[1]], (0,), 1), Updates.of([[1]], (1,), 1))
    handle.advance_logical(Antichain())
    handle.advance_physical(spine.upper)
    spine.compact()
    assert everything(spine) == {((1,), (0,)): 1, ((1,), (1,)): 1}


def test_t11_frontier_is_captured_when_a_merge_begins() -> None:
    spine, handle = trace(*(Updates.of([range(1000)], (epoch,), 1) for epoch in range(2)))
    other = handle.clone()
    for reader in (handle, other):
        reader.advance_physical(spine.upper)
    handle.advance_logical(at(2))
    spine.compact(10)
    other.advance_logical(at(2))
    finish_merges(spine)
    (batch,) = spine.read_in_order()
    assert batch.since == at(0) and np.unique(batch.time).tolist() == [0, 1]
    spine.compact()
    assert [layer.time.tolist() for layer in spine.read_in_order()] == [[[2]]]


def test_t11_the_earliest_of_all_readers_counts() -> None:
    spine, handle = trace(*(Updates.of([[7]], (epoch,), 1) for epoch in range(4)))
    slow = handle.clone()
    for reader in (handle, slow):
        reader.advance_physical(spine.upper)
    handle.advance_logical(at(4))
    slow.advance_logical(at(2))
    spine.compact()
    assert everything(spine) == {((7,), (2,)): 3, ((7,), (3,)): 1}
    with pytest.raises(InternalError, match="cannot go back"):
        slow.advance_logical(at(1))
    slow.close()
    spine.compact()
    assert everything(spine) == {((7,), (4,)): 4}


def test_t12_compaction_may_move_times_beyond_the_upper_frontier() -> None:
    spine, handle = trace(*(Updates.of([[epoch]], (epoch,), 1) for epoch in range(2)))
    handle.advance_logical(at(7))
    handle.advance_physical(spine.upper)
    spine.compact()
    (batch,) = spine.read_in_order()
    assert (batch.lower, batch.upper, batch.since) == (at(0), at(2), at(7))
    spine.insert(Batch.build(Updates.of([[0]], (2,), -1), spine.upper, at(3)))
    handle.advance_physical(spine.upper)
    spine.compact()
    assert everything(spine) == {((1,), (7,)): 1}


def test_t13_memory_is_that_of_the_distinct_rows_however_many_updates() -> None:
    spine = Spine(1, 1)
    handle = TraceHandle(spine)
    window, most = 200, 0
    for epoch in range(3000):
        keys, diffs = [epoch, epoch - window], [1, -1]
        upper = at(epoch + 1)
        spine.insert(Batch.build(Updates.of([keys], (epoch,), diffs), spine.upper, upper))
        handle.advance_logical(upper)
        handle.advance_physical(upper)
        spine.finish_step()
        most = max(most, spine.rows)
    assert most <= 6 * window


def test_t13_a_trace_at_rest_can_be_compacted() -> None:
    spine, handle = trace(Updates.of([range(100)], (0,), 1), Updates.of([range(99)], (1,), -1))
    handle.advance_logical(spine.upper)
    handle.advance_physical(spine.upper)
    spine.finish_step()
    assert spine.rows == 199  # nothing new came, and the sizes are geometric
    spine.compact()
    assert everything(spine) == {((99,), (2,)): 1}


def test_t14_rows_whose_diffs_cancel_vanish() -> None:
    assert len(Batch.build(Updates.of([[1, 1]], (0,), [1, -1]), at(0), at(1))) == 0
    spine, handle = trace(Updates.of([[1, 2], [5, 5]], (0,), 1), Updates.of([[1, 2], [5, 5]], (1,), -1))
    assert spine.rows == 4
    handle.advance_logical(spine.upper)
    handle.advance_physical(spine.upper)
    spine.compact()
    assert spine.read_in_order() == () and spine.rows == 0


def test_t14_a_history_that_cancels_in_part_keeps_the_rest() -> None:
    history = Updates.of([[1, 1, 1, 2]], [[0, 1, 3, 3]], [1, -1, 1, 1])
    spine, handle = trace(history, Updates.of([[2]], (3,), -1))
    handle.advance_logical(at(2))
    handle.advance_physical(spine.upper)
    spine.compact()
    (batch,) = spine.read_in_order()
    assert triples(batch.updates) == [((1,), (3,), 1)]


def test_t17_merges_keep_up_and_only_neighbours_merge() -> None:
    spine = Spine(1, 1)
    handle = TraceHandle(spine)
    random = np.random.default_rng(3)
    for epoch, size in enumerate(random.geometric(0.02, 400).tolist()):
        keys = random.integers(0, 2**60, size)
        spine.insert(Batch.build(Updates.of([keys], (epoch,), 1), spine.upper, at(epoch + 1)))
        handle.advance_logical(spine.upper)
        handle.advance_physical(spine.upper)
        spine.finish_step()
        layers = spine.read_in_order()
        assert len(layers) <= 2 * math.log2(spine.rows) + 4
        assert all(older.upper == newer.lower for older, newer in pairwise(layers))
        assert (layers[0].lower, layers[-1].upper) == (at(0), spine.upper)


def test_t18_an_unfinished_merge_shows_its_sources_and_a_finished_one_its_result() -> None:
    spine, handle = trace(*(Updates.of([range(1000)], (epoch,), 1) for epoch in range(2)))
    handle.advance_logical(spine.upper)
    handle.advance_physical(spine.upper)
    seen = []
    is_done = False
    while not is_done:
        is_done = spine.compact(50)
        assert contents((b.updates for b in spine.read_in_order()), at(2)) == {
            ((i,), (2,)): 2 for i in range(1000)
        }
        seen.append([len(batch) for batch in spine.read_in_order()])
    assert seen == sorted(seen, key=len, reverse=True) and len(seen) > 5
    assert (seen[0], seen[-1]) == ([1000, 1000], [1000])


def test_t19_the_trace_goes_with_its_last_handle_and_batches_outlive_it() -> None:
    spine, handle = trace(Updates.of([[1, 2]], (0,), 1))
    layers, reference = spine.read_in_order(), weakref.ref(spine)
    gc.disable()
    try:
        del spine
        assert reference() is not None
        del handle
        assert reference() is None
    finally:
        gc.enable()
    assert layers[0].data.tolist() == [[1, 2]]


def test_t20_the_frontier_moves_without_updates() -> None:
    spine, handle = trace(Updates.of([[1]], (0,), 1), Updates.empty(1, 1), Updates.empty(1, 1))
    assert spine.upper == at(3)
    assert [len(batch) for batch in spine.read_in_order()] == [1]
    assert [len(batch) for batch in spine.read_in_order(at(2))] == [1]
    handle.advance_physical(spine.upper)
    spine.finish_step()
    assert [batch.upper for batch in spine.read_in_order()] == [at(3)]


def test_t21_a_slow_reader_sees_the_trace_only_through_what_it_has_acknowledged() -> None:
    """A self-join of each batch with the trace as acknowledged, while another reader has it merged."""
    spine = Spine(1, 1)
    fast = TraceHandle(spine)
    slow, batches = fast.clone(), []
    for epoch in range(12):
        batch = Batch.build(Updates.of([[epoch % 3, 5]], (epoch,), 1), spine.upper, at(epoch + 1))
        spine.insert(batch)
        batches.append(batch)
    fast.advance_logical(spine.upper)
    fast.advance_physical(spine.upper)
    found = []
    for batch in batches:
        finish_merges(spine)
        for layers in (spine.read_in_order(slow.physical), spine.read_in_order(batch.upper)):
            found += list(lookup(batch.updates, (0,), layers, ONE_COLUMN, ONE_COLUMN, Order.ANY))
        slow.advance_physical(batch.upper)
        slow.advance_logical(batch.upper)
    truth: Contents = {}
    for one, other in product([triple for batch in batches for triple in triples(batch.updates)], repeat=2):
        if one[0] == other[0]:
            key = (one[0] * 2, max(one[1], other[1]))
            truth[key] = truth.get(key, 0) + 1
    assert contents(found) == truth
    spine.compact()
    assert spine.batch_count == 1


def test_t23_compaction_for_one_reader_cancels_nothing_that_another_reads() -> None:
    spine, fast = trace(Updates.of([[7]], (0,), 1), Updates.of([[7]], (1,), -1))
    slow = fast.clone()
    for handle in (fast, slow):
        handle.advance_physical(spine.upper)
    fast.advance_logical(at(9))
    spine.compact()
    assert everything(spine) == {((7,), (0,)): 1, ((7,), (1,)): -1}
    slow.advance_logical(at(1))
    spine.compact()
    assert spine.read_in_order() == ()


def compared(stream: Updates, layer: Batch) -> int:
    """Rows that galloping compares to find all pairs on the first column."""
    state = np.zeros(seek.EARLIEST + stream.depth, np.int64)
    state[seek.LAYER] = -1
    starts, pairs = np.empty(2, np.int64), np.empty((2, 1 << 14), np.int64)
    seek.match(
        stream.data, ONE_COLUMN, stream.time, 0, Layers([layer]).addresses, seek.ANY, True, 0, 0, state,
        starts, pairs,
    )  # fmt: skip
    assert state[seek.LAYER] == 1
    return int(state[seek.COMPARED])


@pytest.mark.parametrize("small", [1, 16, 256, 4096])
def test_t31_seeks_gallop_from_the_smaller_side_whichever_it_is(small: int) -> None:
    n = 1 << 17
    random = np.random.default_rng(1)
    large = Batch.build(Updates.of([range(0, 2 * n, 2)], (0,), 1), at(0), at(1))
    few = Batch.build(Updates.of([random.choice(2 * n, small, replace=False)], (0,), 1), at(0), at(1))
    most = small * (2 * math.log2(n / small) + 6)
    assert small <= compared(large.updates, few) <= most
    list(lookup(few.updates, (0,), Layers([large]), ONE_COLUMN, ONE_COLUMN, Order.ANY))
    assert large.probes == small


def test_t31_a_lookup_of_a_large_sorted_stream_gallops() -> None:
    stream = Batch.build(Updates.of([range(10_000)], (1,), 1), at(1), at(2)).updates
    layer = Batch.build(Updates.of([[3, 4, 5000]], (0,), 1), at(0), at(1))
    unsorted = Updates(stream.data, stream.time, stream.diff)
    for updates, searched in ((stream, False), (unsorted, True)):
        (met,) = lookup(updates, (0,), Layers([layer]), ONE_COLUMN, ONE_COLUMN, Order.BEFORE, closed=1)
        assert met.data.tolist() == [[3, 4, 5000]] * 2
        assert layer.needs_directory is searched  # whether every row of the stream was looked up in it
