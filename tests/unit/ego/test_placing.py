"""The numbers of nodes, by how often these are visited."""

import numpy as np

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.construction import Construction
from kpg.runtime.ego.decisions import order_by_traffic
from kpg.runtime.ego.families import make_family
from kpg.runtime.ego.overlay import Overlay, group_edges
from kpg.runtime.ego.overlay_engine import Change, OverlayEngine
from kpg.runtime.plan import EgoCall, EgoFamily
from kpg.runtime.types import BIGINT
from tests.model.overlays import check_overlay
from tests.unit.ego.test_engine import COSTS

# Readers 3, 4 and 5 of writers 0, 1 and 2: item 2 * writer, for each reader (by its place among all nodes).
LISTS = {3: [0], 4: [1, 2], 5: [2]}


def example() -> Overlay:
    pairs = [(reader, writer) for reader, writers in LISTS.items() for writer in writers]
    keys, values = np.array(pairs).T
    return Overlay(3, 3, group_edges(keys, values, 6), 4)


def test_nothing_observed_changes_nothing() -> None:
    overlay = example()
    overlay.write_counts[:3] = 1
    assert order_by_traffic(overlay) is None


def test_what_is_visited_often_comes_first() -> None:
    """Writer 2 is written often, and so visits its readers 4 and 5; nodes that are alike stay in order."""
    overlay = example()
    overlay.write_counts[2] = 1000
    overlay.read_counts[3] = 40
    order = order_by_traffic(overlay)
    assert order is not None and order.tolist() == [2, 4, 5, 0, 3, 1]
    number = overlay.renumber(order)
    assert number.tolist() == [3, 5, 0, 4, 1, 2]
    assert overlay.write_counts.tolist() == [1000, 0, 0, 0, 0, 0]
    assert overlay.read_counts.tolist() == [0, 0, 0, 0, 40, 0]
    assert overlay.kinds.tolist() == [0, 1, 1, 0, 1, 0]
    assert [overlay.inputs.items_of(node).tolist() for node in range(6)] == [[], [10, 0], [0], [], [6], []]
    check_overlay(overlay, {4: {3}, 1: {5, 0}, 2: {0}}, repeats=False)
    assert order_by_traffic(overlay).tolist() == [0, 1, 2, 3, 4, 5]


def test_answers_are_the_same_afterwards() -> None:
    """And words are written, read and patched by their new nodes; places for later nodes stay last."""
    family = make_family(EgoFamily.SUMS, (EgoCall("sum", (0,), (BIGINT,), BIGINT),), 0, Dictionary())
    engine = OverlayEngine(family, Construction.VNM_A, "auto", COSTS)
    random = np.random.default_rng(3)
    pairs = np.unique(random.integers(0, 40, (2, 300)), axis=1)
    values = random.integers(1, 100, 40)
    nothing = np.empty((2, 0), np.int64)
    engine.apply(
        Change(
            pairs, np.ones(pairs.shape[1], np.int64), np.stack((np.arange(40), values)), np.ones(40, np.int64)
        )
    )
    engine.apply(Change(nothing, nothing[0], np.array([[70], [5]]), np.array([1])))  # a node more, and room
    for node in (39, 17):
        engine.read(np.full(5000, node))
    before = engine._readers.find(np.array([39, 17]))
    engine.relabel()
    after = engine._readers.find(np.array([39, 17]))
    assert after.max() < before.min() and engine.overlay.kinds.shape[0] > engine.overlay.count
    values[7] += 1000
    engine.apply(
        Change(
            np.array([[39], [70]]),
            np.array([1]),
            np.array([[7, 7], [values[7] - 1000, values[7]]]),
            np.array([-1, 1]),
        )
    )
    there, words = engine.read(np.arange(40))
    wanted = [int(values[pairs[1, pairs[0] == node]].sum()) + 5 * (node == 39) for node in range(40)]
    assert there.all() and words[0].tolist() == wanted
