"""The delta join theorem: updates processed by rounds, then epochs, meet each other exactly once.

Each update of relation i looks up, along its path, what comes before it in the other relations, and in
those of a lower number also what is of the same time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.batch import Batch, Layers
from kpg.runtime.trace.lookup import Order, lookup
from kpg.runtime.trace.updates import Updates
from tests.model import kernels as model

Time = tuple[int, ...]
Row = tuple[int, int]
"""A join key and the row's number."""
Update = tuple[Row, Time, int]

KEY, VALUE = (0,), np.array([1])
EVERYTHING = Antichain.of((99, 0, 0))


def batch(updates: Sequence[Update], depth: int) -> Batch:
    data = np.array([row for row, _, _ in updates], np.int64).reshape(-1, 2).T
    times = np.array([time[:depth] for _, time, _ in updates], np.int64).reshape(-1, depth).T
    diffs = np.array([diff for _, _, diff in updates], np.int64)
    return Batch.build(Updates.of(data.copy(), times.copy(), diffs), EVERYTHING, EVERYTHING)


def merged(layers: Sequence[Batch], closed: int | None = None) -> list[Batch]:
    """The layers as one; with ``closed``, compacted to the last closed epoch."""
    parts = []
    for layer in layers:
        times = layer.time.copy()
        if closed is not None:
            times[0] = np.maximum(times[0], closed - 1)
        parts.append(Updates(layer.data, times, layer.diff))
    return [Batch.build(Updates.concat(parts), EVERYTHING, EVERYTHING)] if parts else []


@dataclass
class Relation:
    """A relation's updates, all of them with every coordinate, and its arrangement of ``depth`` of these."""

    updates: list[Update]
    depth: int
    layers: list[Batch] = field(default_factory=list)
    in_step: list[Batch] = field(default_factory=list)

    def at(self, epochs: range, rounds: Time) -> list[Update]:
        return [u for u in self.updates if u[1][0] in epochs and u[1][1:] == rounds]


@st.composite
def relations(draw: st.DrawFn, depth: int) -> list[Relation]:
    found = []
    for _ in range(draw(st.integers(2, 3))):
        own_depth = draw(st.integers(1, depth))
        times = draw(
            st.lists(st.tuples(st.integers(1, 4), *[st.integers(0, 2)] * (own_depth - 1)), max_size=6)
        )
        updates = [
            (
                (draw(st.integers(0, 1)), i),
                (*time, *(0,) * (depth - own_depth)),
                draw(st.sampled_from([1, -1, 2])),
            )
            for i, time in enumerate(times)
        ]
        found.append(Relation(updates, own_depth))
    return found


def follow(
    delta: Sequence[Update], i: int, all_: Sequence[Relation], depth: int, closed: int, floor: int
) -> list[Updates]:
    """The results of relation i's updates, as (key, the rows' numbers in order of the path)."""
    start = batch(delta, depth).updates
    stream = [Updates(start.data, np.concatenate((start.time, start.time)), start.diff)]
    for j, other in enumerate(all_):
        if j == i:
            continue
        order = Order.THROUGH if j < i else Order.BEFORE
        layers = Layers(other.layers + other.in_step)
        stream = [
            found
            for part in stream
            for found in lookup(
                part, KEY, layers, np.arange(part.width), VALUE, order,
                closed=closed, floor=floor, origin=depth, chunk=5,
            )
        ]  # fmt: skip
    path = [0, 1, *(2 + k for k in range(len(all_) - 1))]
    position = {relation: 1 + k for k, relation in enumerate([i, *(j for j in range(len(all_)) if j != i)])}
    columns = [path[0], *(position[j] for j in range(len(all_)))]
    return [Updates(part.data[columns], part.time[:depth], part.diff) for part in stream]


def every_pair(all_: Sequence[Relation], epoch: int | None = None) -> model.Contents:
    """Each choice of one update per relation with one key, at the least upper bound of their times."""
    found: model.Contents = {}
    for choice in product(*(relation.updates for relation in all_)):
        if len({row[0] for row, _, _ in choice}) > 1:
            continue
        time = tuple(max(coordinates) for coordinates in zip(*(time for _, time, _ in choice), strict=True))
        time = time if epoch is None else (epoch, *time[1:])
        row = (choice[0][0][0], *(row[1] for row, _, _ in choice))
        diff = 1
        for _, _, factor in choice:
            diff *= factor
        found[row, time] = found.get((row, time), 0) + diff
    return {key: diff for key, diff in found.items() if diff}


@settings(max_examples=150)
@given(st.data())
def test_updates_of_steps_with_several_epochs_meet_once_at_their_bounds(data: st.DataObject) -> None:
    depth = data.draw(st.integers(1, 3))
    all_ = data.draw(relations(depth))
    cuts = sorted({1, 5, *data.draw(st.lists(st.integers(2, 4), max_size=3))})
    results = []
    for lower, upper in pairwise(cuts):
        for rounds in product(range(3), repeat=depth - 1):
            deltas = [relation.at(range(lower, upper), rounds) for relation in all_]
            for relation, delta in zip(all_, deltas, strict=True):
                relation.in_step.append(batch(delta, relation.depth))
                if data.draw(st.booleans()):
                    relation.in_step = merged(relation.in_step)
            for i, delta in enumerate(deltas):
                results += follow(delta, i, all_, depth, lower, lower - 1)
        for relation in all_:
            relation.layers += relation.in_step
            relation.in_step = []
            if data.draw(st.booleans()):
                relation.layers = merged(relation.layers, upper)
    assert model.contents(results) == every_pair(all_)


@settings(max_examples=100)
@given(st.data())
def test_updates_of_a_step_that_hydrates_meet_once_at_the_last_closed_epoch(data: st.DataObject) -> None:
    depth, epoch = data.draw(st.integers(1, 3)), 4
    all_ = data.draw(relations(depth))
    results = []
    for relation in all_:
        if relation.depth == 1:  # it was there before, with the history that it has
            relation.layers = [batch(relation.updates[:2], 1), batch(relation.updates[2:], 1)]
    for rounds in product(range(3), repeat=depth - 1):
        deltas = [
            [(row, (epoch, *rounds), diff) for row, _, diff in relation.at(range(5), rounds)]
            for relation in all_
        ]
        for relation, delta in zip(all_, deltas, strict=True):
            if relation.depth > 1:
                relation.in_step.append(batch(delta, relation.depth))
        for i, delta in enumerate(deltas):
            results += follow(delta, i, all_, depth, epoch, epoch)
    assert model.contents(results) == every_pair(all_, epoch)


def test_the_time_that_an_update_set_out_with_is_the_one_compared() -> None:
    """Of a's (1, 2), b's (3, 1) and c's (2, 2) the last is c's, though it is before the bound of a and b."""
    all_ = [Relation([((0, 0), time, 1)], 2) for time in ((1, 2), (3, 1), (2, 2))]
    for relation in all_:
        relation.layers = [batch(relation.updates, 2)]
    found = [follow(relation.updates, i, all_, 2, 1, 0) for i, relation in enumerate(all_)]
    assert [model.contents(parts) for parts in found] == [{}, {}, {((0, 0, 0, 0), (3, 2)): 1}]
