"""Labels: the minimum cut is the best there is, and splits pay as the mended formula says."""

import numpy as np

from kpg.runtime.ego import decisions
from kpg.runtime.ego.decisions import Costs
from kpg.runtime.ego.overlay import Edges, Overlay
from kpg.runtime.kernels import deciding as kernels
from tests.model.overlays import best_split, least_cost

COSTS = Costs(push=1.0, push_log=0.0, pull=0.0, pull_each=1.0)


def layered(random: np.random.Generator) -> tuple[Overlay, list[list[int]], int]:
    """A random overlay of writers, partial aggregates and readers."""
    writers, others = int(random.integers(1, 5)), int(random.integers(1, 9))
    inputs: list[list[int]] = [[] for _ in range(writers)]
    readers = int(random.integers(1, others + 1))
    for node in range(writers, writers + others):
        below = min(node, writers + others - readers)
        count = int(random.integers(1, min(below, 4) + 1))
        inputs.append(sorted(random.choice(below, count, replace=False).tolist()))
    order = [*range(writers), *range(writers + others - readers, writers + others)]
    order += range(writers, writers + others - readers)
    place = {old: new for new, old in enumerate(order)}
    renamed = [[place[one] for one in inputs[old]] for old in order]
    size = np.array([len(one) for one in renamed], np.int64)
    items = np.array([2 * one for of in renamed for one in of], np.int32)
    overlay = Overlay(writers, readers, Edges(np.cumsum(size) - size, size, items), int(size.sum()))
    return overlay, inputs, writers


def cost(overlay: Overlay, weight: np.ndarray, decided: np.ndarray) -> float:
    return float(weight[(decided == kernels.PULL) & (overlay.kinds != 0)].sum())


def test_a_cut_is_the_best_labelling() -> None:
    cuts = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        overlay, inputs, writers = layered(random)
        order = overlay.topological_order()
        weight = random.integers(-20, 21, overlay.room).astype(np.float64)
        decided, left, _ = decisions.choose_labels(overlay, order, weight)
        cuts += left > 0
        for node in range(overlay.count):
            if decided[node] == kernels.PUSH:
                assert (decided[overlay.inputs.items_of(node) >> 1] == kernels.PUSH).all()
        old = [*range(writers)]
        readers = int((overlay.kinds == 1).sum())
        old += range(overlay.count - readers, overlay.count)
        old += range(writers, overlay.count - readers)
        by_old = np.zeros(overlay.count)
        by_old[old] = weight
        assert cost(overlay, weight, decided) == least_cost(inputs, writers, by_old)
        greedy = np.where(overlay.kinds == 0, kernels.PUSH, kernels.UNDECIDED).astype(np.uint8)
        edges = overlay.inputs
        kernels.greedy(order, weight, edges.start, edges.size, edges.items, greedy)
        assert set(greedy.tolist()) <= {kernels.PUSH, kernels.PULL}
        for node in np.flatnonzero(greedy == kernels.PUSH).tolist():
            assert (greedy[overlay.inputs.items_of(node) >> 1] == kernels.PUSH).all()
        assert cost(overlay, weight, greedy) >= cost(overlay, weight, decided)
    assert cuts > 8


def test_the_papers_cut() -> None:
    """A node that is cheaper to pull by 4 feeds a reader that is cheaper to push by 50: both are pushed."""
    size = np.array([0, 1, 1], np.int64)
    overlay = Overlay(1, 1, Edges(np.cumsum(size) - size, size, np.array([4, 0], np.int32)), 2)
    decided, left, method = decisions.choose_labels(
        overlay, overlay.topological_order(), np.array([0.0, 50.0, -4.0])
    )
    assert decided.tolist() == [kernels.PUSH, kernels.PUSH, kernels.PUSH]
    assert (left, method) == (2, "minimum cut")


def test_the_formula_of_splits() -> None:
    """The digest's example: 50 without, 51, 42, 33, and 24 at four."""
    assert best_split([1.0, 100.0, 1.0, 1.0, 1.0], 10.0, (1.0, 0.0, 0.0, 1.0)) == (4, 24.0)


def test_splits_are_the_best_there_are() -> None:
    """Of random nodes, some of whose inputs are pulled themselves: no other prefix costs less."""
    random, divided = np.random.default_rng(4), 0
    costs = np.array([0.7, 0.3, 0.2, 0.9])
    for _ in range(200):
        size = int(random.integers(2, 12))
        often = np.round(random.exponential(5.0, size + 1), 2)
        often[random.random(size + 1) < 0.3] *= 30
        asked = np.array([0.0] * size + [float(random.integers(1, 60))])
        pushed = (random.random(size + 1) < 0.8).astype(np.uint8)
        items = 2 * random.permutation(size).astype(np.int32)
        before, counts = sorted(items.tolist()), np.zeros(1, np.int64)
        sizes = np.array([0] * size + [size])
        kernels.divide(
            np.array([size]), often, asked, costs, 1.25, 0.5, np.zeros(size + 1, np.int64), sizes, items,
            pushed, counts,
        )  # fmt: skip
        assert sorted(items.tolist()) == before
        kept = [float(often[one]) for one in range(size) if pushed[one]]
        count, cost = best_split(kept, asked[-1], tuple(costs)) if len(kept) > 1 else (0, 0.0)
        pays = count > 1 and 1.25 * cost < asked[-1] * (0.2 + 0.9 * len(kept))
        pays = pays and asked[-1] * (0.2 + 0.9 * size) - cost > 0.5
        assert counts[0] == (count if pays else 0)
        chosen = items[: counts[0]] >> 1
        assert sorted(often[chosen].tolist()) == sorted(kept)[: counts[0]] and pushed[chosen].all()
        divided += bool(pays)
    assert 40 < divided < 160


def test_a_split_is_made() -> None:
    size = np.array([0, 0, 0, 0, 0, 5], np.int64)
    overlay = Overlay(5, 1, Edges(np.zeros(6, np.int64), size, np.arange(0, 10, 2, dtype=np.int32)), 5)
    overlay.write_counts[:5] = [0, 0, 0, 0, 99]
    overlay.read_counts[5] = 9
    assert decisions.split(overlay, COSTS) == 1
    assert sorted(overlay.inputs.items_of(6).tolist()) == [0, 2, 4, 6]
    assert sorted(overlay.inputs.items_of(5).tolist()) == [8, 12]
    assert overlay.pushed[6] == 1 and overlay.pushed[5] == 0


def test_frequencies_flow_both_ways() -> None:
    """Two writers, a node over both, and two readers of it."""
    size = np.array([0, 0, 1, 1, 2], np.int64)
    items = np.array([8, 8, 0, 2], np.int32)
    overlay = Overlay(2, 2, Edges(np.cumsum(size) - size, size, items), 4)
    overlay.write_counts[:2] = [4, 16]
    overlay.read_counts[2:4] = [10, 30]
    often = decisions.observed_frequencies(overlay, overlay.topological_order())
    assert often.push.tolist() == [5, 17, 22, 22, 22]
    assert often.pull.tolist() == [44, 44, 12, 32, 44]


def test_what_was_observed_flips_the_frontier() -> None:
    size = np.array([0, 0, 2], np.int64)
    overlay = Overlay(2, 1, Edges(np.zeros(3, np.int64), size, np.array([0, 2], np.int32)), 2)
    overlay.write_counts[0], overlay.read_counts[2] = 100, 500
    assert next(decisions.find_flips(overlay, COSTS)).tolist() == [
        2
    ]  # it would be told 100 times, and is asked 500
    overlay.pushed[2] = 1
    assert list(decisions.find_flips(overlay, COSTS)) == []
    overlay.write_counts[1] = 10000
    assert next(decisions.find_flips(overlay, COSTS)).tolist() == [2]


def test_the_frontier_moves_with_labels_that_change() -> None:
    """Two writers, a node over both, and a reader of it, which are asked often: one after the other."""
    size = np.array([0, 0, 1, 2], np.int64)
    overlay = Overlay(2, 1, Edges(np.cumsum(size) - size, size, np.array([6, 0, 2], np.int32)), 2)
    overlay.write_counts[:2], overlay.read_counts[2] = 50, 900
    found = decisions.find_flips(overlay, COSTS)
    for node in (3, 2):
        assert next(found).tolist() == [node]
        overlay.pushed[node] = 1
    assert next(found, None) is None


def test_nodes_that_save_nothing_as_labels_are_dissolved() -> None:
    """Two writers, two nodes over both, and two readers of each node."""
    size = np.array([0, 0, 1, 1, 1, 1, 2, 2], np.int64)
    items = np.array([12, 12, 14, 15, 0, 2, 0, 3], np.int32)
    overlay = Overlay(2, 4, Edges(np.cumsum(size) - size, size, items), 8)
    overlay.pushed[[6, 2, 3]] = 1
    overlay.order_outputs(all_nodes=True)
    assert decisions.dissolve(overlay, COSTS) == 2  # one has pushed readers only, the other is pulled
    assert [sorted(overlay.inputs.items_of(node).tolist()) for node in range(8)] == [
        [], [], [0, 2], [0, 2], [0, 3], [1, 2], [], [],
    ]  # fmt: skip
    assert sorted(overlay.outputs.items_of(0).tolist()) == [4, 6, 8, 11]
    overlay.order_outputs(all_nodes=True)
    assert overlay.pushed_outputs[:2].tolist() == [2, 2]


def test_a_node_that_is_pushed_and_pulled_from_stays() -> None:
    size = np.array([0, 0, 1, 1, 2], np.int64)
    overlay = Overlay(2, 2, Edges(np.cumsum(size) - size, size, np.array([8, 8, 0, 2], np.int32)), 4)
    overlay.pushed[[4, 2]] = 1
    overlay.read_counts[3] = 9
    overlay.order_outputs(all_nodes=True)
    assert decisions.dissolve(overlay, COSTS) == 0
    assert overlay.inputs.items_of(3).tolist() == [8]
