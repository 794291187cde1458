"""The head of a trace: what is appended, taken back and sealed, and what look-ups through it find."""

import numpy as np
import pytest

from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.kernels import head as kernels
from kpg.runtime.kernels import layout
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace import head
from kpg.runtime.trace import head as heads
from kpg.runtime.trace.head import Head
from kpg.runtime.trace.lookup import Order, lookup
from kpg.runtime.trace.spine import Spine, TraceHandle
from kpg.runtime.trace.updates import Updates
from tests.model import kernels as model

LATER = 1 << 20


def rows(*given: tuple[int, ...], time: int = 0, diff: int = 1) -> Updates:
    return Updates.of(np.array(given, np.int64).T.copy(), (time,), diff)


def end(epoch: int) -> Antichain:
    return Antichain.of((epoch,))


def trace(width: int = 2, key: int = 1) -> tuple[Spine, TraceHandle]:
    """A trace with the one reader that its arrangement is."""
    made = Spine(width, 1, key=key)
    return made, TraceHandle(made)


def found(made: Spine, *keys: int) -> model.Contents:
    """The rows whose first column is one of the keys."""
    stream = Updates.of([keys], (LATER,), 1)
    columns = np.array([0]), np.array([1])
    return model.contents(lookup(stream, (0,), made.lookup_target(), *columns, Order.ANY))


def test_updates_come_out_in_the_order_in_which_they_came() -> None:
    head = Head(2, 1, 1)
    head.append(rows((5, 1), (3, 2)))
    head.append(rows((4, 0), time=2, diff=-1))
    assert model.triples(head.updates()) == [((5, 1), (0,), 1), ((3, 2), (0,), 1), ((4, 0), (2,), -1)]
    assert model.triples(head.updates(1, 2)) == [((3, 2), (0,), 1)]
    assert (len(head), head.has_counts) == (3, True)
    head.truncate(2)
    assert model.triples(head.updates()) == [((5, 1), (0,), 1), ((3, 2), (0,), 1)]
    assert (len(head), head.has_counts) == (2, False)
    head.clear()
    assert (len(head), model.triples(head.updates())) == (0, [])


def test_what_was_taken_out_of_a_head_is_a_copy() -> None:
    head = Head(1, 1, 1)
    head.append(rows((1,), (2,)))
    taken = head.updates()
    head.clear()
    head.append(rows((8,), (9,)))
    assert taken.data.tolist() == [[1, 2]]


def test_a_head_grows_and_is_taken_back_beyond_its_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "FIRST", 2)
    made, _handle = trace()
    made.append(rows((1, 10), (2, 20)), end(1))
    mark = made.mark()
    before = made.bytes
    made.append(rows(*((1, 100 + i) for i in range(50)), time=1), end(2))
    assert made.bytes > before
    made.truncate(mark)
    assert found(made, 1, 2, 3) == {((1, 10), (LATER,)): 1, ((2, 20), (LATER,)): 1}
    made.append(rows((1, 11), time=1), end(2))
    assert found(made, 1) == {((1, 10), (LATER,)): 1, ((1, 11), (LATER,)): 1}


def test_a_head_serves_look_ups_by_fewer_columns_than_it_was_made_for() -> None:
    made, _handle = trace(key=2)
    mark = made.mark()
    made.append(rows((1, 10), (1, 11), (2, 20)), end(1))
    assert made.lookup_target().head is not None
    assert found(made, 1) == {((1, 10), (LATER,)): 1, ((1, 11), (LATER,)): 1}
    made.truncate(mark)
    assert found(made, 1) == {}


def test_a_row_without_columns() -> None:
    made, _handle = trace(0)
    made.append(Updates(np.empty((0, 3), np.int64), np.array([[1]]), np.ones(1, np.int64)), end(2))
    nothing = np.empty(0, np.int64)
    met = lookup(Updates.of([[7]], (2,), 1), (), made.lookup_target(), np.array([0]), nothing, Order.ANY)
    assert model.contents(met) == {((7,), (2,)): 3}
    assert model.contents([batch.updates for batch in made.read_in_order()]) == {((), (1,)): 3}


def test_reading_in_order_seals_the_head_and_makes_the_next_steps_batch() -> None:
    made, _handle = trace()
    made.append(rows((3, 0), (1, 0), (3, 0)), end(1))
    assert (made.batch_count, made.rows, len(made.lookup_target().batches)) == (1, 3, 0)
    (batch,) = made.read_in_order()
    assert model.triples(batch.updates) == [((1, 0), (0,), 1), ((3, 0), (0,), 2)]
    assert (batch.lower, batch.upper) == (end(0), end(1))
    made.append(rows((2, 0), time=1), end(2))
    assert len(made.lookup_target().batches) == 2


def test_sealing_within_a_step_keeps_apart_what_may_be_taken_back() -> None:
    made, _handle = trace()
    made.append(rows((1, 1)), end(1))
    mark = made.mark()
    made.append(rows((1, 2), time=1), end(2))
    older, newer = made.read_in_order()
    assert [(b.lower, b.upper) for b in (older, newer)] == [(end(0), end(1)), (end(1), end(2))]
    made.append(rows((1, 3), time=2), end(3))
    made.truncate(mark)
    assert made.upper == end(1)
    assert found(made, 1) == {((1, 1), (LATER,)): 1}
    with pytest.raises(InternalError, match="merged or marked again"):
        made.truncate(mark - 1)


def test_a_large_step_is_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "SMALL_STEP", 2)
    made, _handle = trace()
    made.append(rows((2, 0), (1, 0)), end(1))
    assert len(made.lookup_target().batches) == 0
    shown = made.append(rows((4, 0), (3, 0), (4, 0), time=1), end(2))
    assert model.triples(shown) == [((3, 0), (1,), 1), ((4, 0), (1,), 2)]
    assert [len(batch) for batch in made.lookup_target().batches] == [2, 2]


def test_a_full_head_is_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "MOST", 3)
    made, _handle = trace()
    for epoch in range(5):
        made.append(rows((epoch, 0), time=epoch), end(epoch + 1))
    assert [len(batch) for batch in made.lookup_target().batches] == [3]
    assert found(made, *range(5)) == {((i, 0), (LATER,)): 1 for i in range(5)}


def test_with_a_second_reader_every_step_is_a_batch() -> None:
    made, handle = trace()
    other = handle.clone()
    made.append(rows((1, 0)), end(1))
    assert len(made.lookup_target().batches) == 1
    other.close()
    made.append(rows((1, 1), time=1), end(2))
    assert len(made.lookup_target().batches) == 1 and made.batch_count == 2


def test_a_key_with_a_history_is_added_up_once_it_is_looked_up_often() -> None:
    """A counter: each step takes the one row away and puts another in its place."""
    made, handle = trace()
    made.append(rows((7, 0)), end(1))
    for epoch in range(1, 1000):
        made.mark()
        change = Updates.of([[7, 7], [epoch - 1, epoch]], (epoch,), [-1, 1])
        made.append(change, end(epoch + 1))
        assert found(made, 7) == {((7, epoch), (LATER,)): 1}
        handle.advance_logical(end(epoch))
        handle.advance_physical(made.upper)
        made.finish_step()
        assert made.rows < 400


def test_a_first_column_that_tells_little_makes_for_batches() -> None:
    made, _handle = trace()
    made.append(rows(*((1, i) for i in range(300))), end(1))
    stream = Updates.of([[1], [5]], (LATER,), 1)
    for _ in range(9):
        met = lookup(stream, (0, 1), made.lookup_target(), np.array([0]), np.array([1]), Order.ANY)
        assert model.contents(met) == {((1, 5), (LATER,)): 1}
    head = made.lookup_target().head
    assert head is not None and head.description[layout.VAIN] > kernels.LEAST
    made.append(rows((2, 0), time=1), end(2))
    made.finish_step()
    assert head.size == 0 and len(made.lookup_target().batches) == 1
    made.append(rows((2, 1), time=2), end(3))
    assert head.size == 0


def test_a_sum_of_diffs_that_does_not_fit_is_an_error() -> None:
    made, _handle = trace()
    with pytest.raises(DataError, match="multiplicity overflow"):
        made.append(Updates.of([[1, 1], [2, 2]], (0,), [2**62, 2**62]), end(1))
    assert (made.rows, made.upper) == (0, end(0))


def test_no_batch_of_a_head_spans_a_frontier_at_which_a_reader_may_cut() -> None:
    spine = Spine(1, 1)
    reader = TraceHandle(spine)
    for epoch in range(3):
        spine.append(Updates.of([[epoch]], (epoch,), 1), Antichain.of((epoch + 1,)))
        if epoch < 2:
            reader.advance_physical(spine.upper)
    (before,) = spine.read_in_order(reader.physical)
    assert before.data.tolist() == [[0, 1]] and before.upper.elements == ((2,),)
    assert [layer.data.tolist() for layer in spine.read_in_order()] == [[[0, 1]], [[2]]]


def test_both_ways_to_append_record_the_same() -> None:
    """``Spine.record_append``, after a compiled call, and ``Recent.record_append``."""
    (called, _reader), (compiled, _other) = trace(), trace()
    for epoch in range(300):
        updates, upper = rows((epoch % 7, 0), time=epoch, diff=1 - epoch % 2 * 2), end(epoch + 1)
        called.append(updates, upper)
        head = compiled.recent.head
        verdict = head.append(updates)
        head.size -= len(updates)  # a compiled call leaves the size to the record
        compiled.record_append(len(updates), verdict, upper)
        states = []
        for spine in (called, compiled):
            recent, ends = spine.recent, spine.recent.ends.words
            assert ends is not None
            states.append(
                (
                    *(recent.size, recent.lower, recent.is_crowded, recent.next_churn_check),
                    *(spine.upper, spine.inserted_rows, [part.tolist() for part in ends]),
                )
            )
        assert states[0] == states[1]
    assert called.recent.is_crowded and called.recent.size
