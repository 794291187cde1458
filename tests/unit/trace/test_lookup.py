"""Lookups against every pair tried; and the directories that must not change them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpg.runtime.errors import DataError
from kpg.runtime.kernels import directory
from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch, Layers
from kpg.runtime.trace.lookup import Order, lookup
from kpg.runtime.trace.updates import Updates
from tests.model import kernels as model
from tests.model.updates import updates

ALL_COLUMNS = np.arange(2)
NOTHING = np.empty(0, np.int64), np.empty(0, np.int64)


def batch(rows: Updates, upper: tuple[int, ...] = (9, 9)) -> Batch:
    depth = rows.depth
    return Batch.build(rows, Antichain.minimum(depth), Antichain.of(upper[:depth]))


def pairs(
    stream: Updates, key: tuple[int, ...], layers: list[Batch], order: Order = Order.ANY
) -> model.Contents:
    keep_stream, keep_batch = np.arange(stream.width), np.arange(layers[0].data.shape[0])
    return model.contents(lookup(stream, key, Layers(layers), keep_stream, keep_batch, order))


@settings(max_examples=400)
@given(st.data())
def test_every_pair_comes_once(data: st.DataObject) -> None:
    width, depth = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    arranged_depth = data.draw(st.integers(1, depth))
    stream_width = data.draw(st.integers(1, 3))
    stream = data.draw(updates(stream_width, depth, most=12))
    layers = Layers(batch(rows) for rows in data.draw(st.lists(updates(width, arranged_depth), max_size=3)))
    key = tuple(data.draw(st.lists(st.integers(0, stream_width - 1), max_size=width)))
    if data.draw(st.booleans()):
        stream, key = stream.consolidate(), tuple(range(min(width, stream_width, len(key))))
    keep_stream = data.draw(st.lists(st.integers(0, stream_width - 1), max_size=3))
    keep_batch = data.draw(st.lists(st.integers(0, width - 1), max_size=3)) if width else []
    order, chunk = data.draw(st.sampled_from(Order)), data.draw(st.sampled_from([1, 3, 1 << 20]))
    closed = data.draw(st.integers(0, 4))
    floor = data.draw(st.sampled_from([closed - 1, closed]))
    columns = np.array(keep_stream, np.int64), np.array(keep_batch, np.int64)
    found = list(lookup(stream, key, layers, *columns, order, closed=closed, floor=floor, chunk=chunk))
    assert all(1 <= len(part) <= chunk for part in found)
    arranged = [layer.updates for layer in layers]
    expected = model.lookup(stream, key, arranged, keep_stream, keep_batch, order, closed, floor)
    assert model.contents(found) == expected


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("ordered", [False, True])
def test_all_chunks_but_the_last_are_full(order: Order, ordered: bool) -> None:
    layers = Layers([batch(Updates.of([[1] * 5, range(5)], (0,), 1), (1,))])
    stream = Updates.of([[1, 1, 2, 3, 4], [7, 8, 9, 9, 9]], (1,), 1)
    stream.ordered = ordered
    found = lookup(stream, (0,), layers, ALL_COLUMNS, ALL_COLUMNS, order, chunk=4)
    assert [len(part) for part in found] == [4, 4, 2]


def test_an_update_of_a_closed_epoch_is_met_whatever_its_rounds() -> None:
    layers = Layers([batch(Updates.of([[1]], (4, 9), 1))])
    stream = Updates.of([[1]], (5, 2), 1)
    columns = np.array([0]), np.array([0])
    met = lookup(stream, (0,), layers, *columns, Order.BEFORE, closed=5, floor=4)
    assert model.contents(met) == {((1, 1), (5, 9)): 1}
    assert list(lookup(stream, (0,), layers, *columns, Order.BEFORE, closed=4, floor=3)) == []
    mixed = Layers([batch(Updates.of([[1, 1]], [[4, 5], [9, 9]], 1))])
    met = lookup(stream, (0,), mixed, *columns, Order.BEFORE, closed=5, floor=4)
    assert model.contents(met) == {((1, 1), (5, 9)): 1}


def test_rounds_decide_before_epochs() -> None:
    stream = Updates.of([[1]], (5, 2), 1)
    later_epoch, later_round = (batch(Updates.of([[1]], time, 1)) for time in ((6, 1), (4, 3)))
    assert pairs(stream, (0,), [later_epoch], Order.BEFORE) == {((1, 1), (6, 2)): 1}
    assert pairs(stream, (0,), [later_round], Order.THROUGH) == {}


def test_hydration_takes_all_history_as_of_one_epoch() -> None:
    layers = Layers([batch(Updates.of([[1, 1, 1]], [[2, 3, 1], [0, 1, 2]], 1))])
    stream = Updates.of([[1]], (3, 1), 1)
    columns = np.array([0]), np.array([0])
    before = lookup(stream, (0,), layers, *columns, Order.BEFORE, closed=3, floor=3)
    assert model.contents(before) == {((1, 1), (3, 1)): 1}
    through = lookup(stream, (0,), layers, *columns, Order.THROUGH, closed=3, floor=3)
    assert model.contents(through) == {((1, 1), (3, 1)): 2}


def test_rounds_that_an_outer_arrangement_lacks_are_zero() -> None:
    layers = [batch(Updates.of([[1]], (5,), 1), (6,))]
    assert pairs(Updates.of([[1]], (5, 0), 1), (0,), layers, Order.BEFORE) == {}
    assert pairs(Updates.of([[1]], (4, 1), 1), (0,), layers, Order.BEFORE) == {((1, 1), (5, 1)): 1}


def test_updates_of_the_same_time_meet_only_through() -> None:
    layers = [batch(Updates.of([[1]], (5,), 1))]
    stream = Updates.of([[1]], (5,), 1)
    assert pairs(stream, (0,), layers, Order.BEFORE) == {}
    assert pairs(stream, (0,), layers, Order.THROUGH) == {((1, 1), (5,)): 1}


def test_a_long_lookup_without_pairs_can_be_interrupted() -> None:
    layers = Layers([batch(Updates.of([range(1 << 13)], (5,), 1), (6,))])
    stream = Updates.of([range(1 << 13)], (5,), 1)
    calls = []
    for part in lookup(stream, (), layers, *NOTHING, Order.BEFORE, poll=lambda: calls.append(1)):
        raise AssertionError(part)
    assert not calls  # times that are all equal need no pair tried
    stream = Updates.of([range(1 << 13)], [[5, 4] * (1 << 12)], 1)
    for part in lookup(stream, (), layers, *NOTHING, Order.BEFORE, poll=lambda: calls.append(1)):
        raise AssertionError(part)
    assert 2 <= len(calls) <= 8


def test_a_cross_product_comes_in_chunks() -> None:
    layers = Layers(batch(Updates.of([range(n)], (0,), 1), (1,)) for n in (1000, 7))
    stream = Updates.of([range(100)], (1,), 1)
    found = [len(part) for part in lookup(stream, (), layers, *NOTHING, Order.ANY, chunk=4096)]
    assert sum(found) == 100_700 and set(found[:-1]) == {4096}


NULL, ERROR = -(2**63), 1 - 2**63
SKEWED = {
    "dense": np.arange(5000),
    "nulls": np.concatenate([np.full(500, NULL), np.full(3, ERROR), np.arange(4000)]),
    "outliers": np.concatenate([np.arange(5000), [2**62, 2**63 - 1]]),
    "two clusters": np.concatenate([np.arange(2500), 2**61 + np.arange(2500)]),
    "one value": np.full(700, 42),
    "all null": np.full(700, NULL),
    "whole range": np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 4000),
    "exponential": (2.0 ** np.linspace(0, 62, 4000)).astype(np.int64),
}


@pytest.mark.parametrize("name", SKEWED)
def test_a_directory_finds_what_searching_finds(name: str) -> None:
    keys = np.sort(SKEWED[name])
    random = np.random.default_rng(5)
    wanted = np.concatenate([random.choice(keys, 300), random.integers(-(2**63), 2**63 - 1, 50)])
    wanted = np.concatenate([wanted, [NULL, ERROR, 0, 2**63 - 1], random.choice(keys, 50) ^ 1])
    layer = batch(Updates.of([keys, np.arange(keys.shape[0])], (0,), 1), (1,))
    stream = Updates.of([wanted, np.arange(wanted.shape[0])], (1,), 1)
    columns = np.array([1]), np.array([1])
    found = [part.data for part in lookup(stream, (0,), Layers([layer]), *columns, Order.ANY)]
    assert layer.has_directory
    got = set(map(tuple, np.concatenate(found, axis=1).T.tolist()))
    low, high = np.searchsorted(keys, wanted), np.searchsorted(keys, wanted, side="right")
    expected = {(i, position) for i in range(wanted.shape[0]) for position in range(low[i], high[i])}
    assert got == expected


def test_a_directory_is_of_the_batch_that_built_it() -> None:
    old = batch(Updates.of([range(12800)], (0,), 1), (1,))
    assert pairs(Updates.of([[7]], (1,), 1), (0,), [old])
    new = old.with_frontiers(old.lower, Antichain.of((2,)))
    old.build_directory()
    assert old.has_directory and not new.has_directory
    assert old.description[directory.OFFSETS] and not new.description[directory.OFFSETS]
    assert new.address != old.address
    assert pairs(Updates.of([[7]], (2,), 1), (0,), [new]) == pairs(Updates.of([[7]], (2,), 1), (0,), [old])


def test_a_batch_builds_its_directory_only_once_it_is_searched_enough() -> None:
    layer = batch(Updates.of([range(12800)], (0,), 1), (1,))
    for _ in range(99):
        assert pairs(Updates.of([[7]], (1,), 1), (0,), [layer]) and not layer.has_directory
    before = layer.nbytes
    assert pairs(Updates.of([[7]], (1,), 1), (0,), [layer]) and layer.has_directory
    assert layer.nbytes > before


def test_a_product_of_diffs_that_does_not_fit_is_an_error() -> None:
    layers = [batch(Updates.of([[1]], (0,), 2**40), (1,))]
    with pytest.raises(DataError, match="multiplicity overflow"):
        pairs(Updates.of([[1]], (1,), 2**40), (0,), layers)


def test_updates_know_that_they_are_sorted() -> None:
    rows = Updates.of([[3, 1, 2]], (0,), 1)
    assert not rows.ordered
    ordered = rows.consolidate()
    assert ordered.ordered and ordered.negate().ordered and ordered.with_data(ordered.data).ordered
    assert not ordered.with_data(ordered.data[:, ::-1].copy()).ordered
    assert not Updates.concat([ordered, ordered]).ordered
    assert batch(rows).updates.ordered
