"""A small step meets a trace in one call, and finds what ``lookup`` finds."""

import tracemalloc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kpg.runtime.kernels.links import MOST_ROOM
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace import lookup
from kpg.runtime.trace.batch import Batch, Layers, LookupTarget
from kpg.runtime.trace.head import Head
from kpg.runtime.trace.lookup import KeyMatcher, Order
from kpg.runtime.trace.updates import Updates
from tests.model import kernels as model
from tests.model.updates import updates

BOTH = np.arange(2)


def batch(given: Updates) -> Batch:
    return Batch.build(given, Antichain.minimum(given.depth), Antichain.of((9,) * given.depth))


def head_of(*parts: Updates) -> Head:
    made = Head(parts[0].width, parts[0].depth, parts[0].width)
    for part in parts:
        made.append(part)
    return made


def met(
    stream: Updates, sought: LookupTarget, order: Order = Order.ANY, key: tuple[int, ...] = (0,)
) -> Updates | None:
    return KeyMatcher(key, BOTH, BOTH[1:]).match(stream, sought, order, 0, 0, 0)


@settings(max_examples=300)
@given(st.data())
def test_every_pair_comes_once(data: st.DataObject) -> None:
    width, depth = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    inner, stream_width = data.draw(st.integers(1, depth)), data.draw(st.integers(1, 3))
    stream = data.draw(updates(stream_width, depth, most=10))
    batched = data.draw(st.lists(updates(width, inner, most=10), max_size=2))
    parts = data.draw(st.lists(updates(width, inner, most=10), min_size=1, max_size=2))
    key = tuple(data.draw(st.lists(st.integers(0, stream_width - 1), max_size=width)))
    if data.draw(st.booleans()):
        stream, key = stream.consolidate(), tuple(range(min(stream_width, len(key))))
    if not len(stream):
        return
    keep_stream = data.draw(st.lists(st.integers(0, stream_width - 1), max_size=3))
    keep_batch = data.draw(st.lists(st.integers(0, width - 1), max_size=3)) if width else []
    order, closed = data.draw(st.sampled_from(Order)), data.draw(st.integers(0, 4))
    floor = data.draw(st.sampled_from([closed - 1, closed]))
    expected = model.lookup(stream, key, [*batched, *parts], keep_stream, keep_batch, order, closed, floor)
    columns = np.array(keep_stream, np.int64), np.array(keep_batch, np.int64)
    sought = LookupTarget(Layers(map(batch, batched)), head_of(*parts))
    result = KeyMatcher(key, *columns).match(stream, sought, order, closed, floor, 0)
    if result is None:
        pairs = sum(map(len, batched)) + sum(map(len, parts))
        assert len(stream) * pairs > 2 * len(stream) + lookup.LEAST_ROOM
    else:
        assert model.contents([result]) == expected


def test_the_short_forms_stay_where_nothing_varies() -> None:
    sought = LookupTarget(Layers(), head_of(Updates.of([[1, 1], [5, 6]], (3,), 1)))
    result = met(Updates.of([[1], [0]], (4,), -1), sought)
    assert result is not None
    assert (result.data.tolist(), result.time.tolist(), result.diff.tolist()) == (
        [[1, 1], [0, 0], [6, 5]],
        [[4]],
        [-1],
    )
    later = met(Updates.of([[1], [0]], (2,), 1), sought)
    assert later is not None and later.time.tolist() == [[3]]


def test_without_a_match_there_are_no_updates() -> None:
    result = met(
        Updates.of([[7], [0]], (4,), 1), LookupTarget(Layers(), head_of(Updates.of([[1], [5]], (3,), 1)))
    )
    assert result is not None and result.data.shape == (3, 0)


def test_too_many_pairs_take_a_lookup() -> None:
    many = Updates.of([[1] * 3 * MOST_ROOM, range(3 * MOST_ROOM)], (3,), 1)
    assert met(Updates.of([[1], [0]], (4,), 1), LookupTarget(Layers(), head_of(many))) is None


def test_many_matches_of_one_row_reserve_no_room_for_as_many_of_each_later_one() -> None:
    many = MOST_ROOM - 1
    sought = LookupTarget(Layers(), head_of(Updates.of([[1] * many, range(many)], (3,), 1)))
    meets = KeyMatcher((0,), BOTH, BOTH[1:])
    found = meets.match(Updates.of([[1], [0]], (4,), 1), sought, Order.ANY, 0, 0, 0)
    assert found is not None and len(found) == many
    stream = Updates.of([[2] * lookup.MAX_MATCHER_ROWS, range(lookup.MAX_MATCHER_ROWS)], (4,), 1)
    tracemalloc.start()
    try:
        nothing = meets.match(stream, sought, Order.ANY, 0, 0, 0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert nothing is not None and not len(nothing)
    assert most < 100 * MOST_ROOM


def test_too_many_stream_rows_take_a_lookup() -> None:
    n = lookup.MAX_MATCHER_ROWS + 1
    stream = Updates.of([[1] * n, range(n)], (4,), 1)
    assert met(stream, LookupTarget(Layers(), head_of(Updates.of([[7], [5]], (3,), 1)))) is None


def test_a_product_of_diffs_that_does_not_fit_takes_a_lookup_which_says_so() -> None:
    sought = LookupTarget(Layers(), head_of(Updates.of([[1], [5]], (3,), 2**40)))
    assert met(Updates.of([[1], [0]], (4,), 2**40), sought) is None
    fits = met(Updates.of([[1], [0]], (4,), 2**20), sought)
    assert fits is not None and fits.diff.tolist() == [2**60]


def test_a_batch_that_wants_a_directory_takes_a_lookup() -> None:
    large = batch(Updates.of([range(12800), range(12800)], (3,), 1))
    sought = LookupTarget(Layers([large]), None)
    stream = Updates.of([range(99), range(99)], (4,), 1)
    small = met(stream, sought)
    assert small is not None and small.data.shape == (3, 99)
    assert met(stream, sought) is None
    large.build_directory()
    again = met(stream, sought)
    assert again is not None and model.contents([again]) == model.contents([small])
