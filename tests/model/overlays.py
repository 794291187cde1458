"""What overlays must be, by definition: sums over paths, costs of labels, aggregates by brute force."""

from collections import Counter
from itertools import product
from math import log2

import numpy as np

from kpg.runtime.ego.overlay import READER, WRITER, Overlay


def paths_to(overlay: Overlay, node: int) -> Counter[int]:
    """For each writer, the sum over its paths to a node of the products of their signs."""
    if overlay.kinds[node] == WRITER:
        return Counter({node: 1})
    total: Counter[int] = Counter()
    for item in overlay.inputs.items_of(node).tolist():
        for writer, count in paths_to(overlay, item >> 1).items():
            total[writer] += -count if item & 1 else count
    return Counter({writer: count for writer, count in total.items() if count})


def check_overlay(overlay: Overlay, wanted: dict[int, set[int]], *, repeats: bool) -> None:
    """Each reader has each of its writers once, or at least once; edges agree both ways; labels are legal."""
    for node in range(overlay.count):
        for item in overlay.inputs.items_of(node).tolist():
            assert 2 * node + (item & 1) in overlay.outputs.items_of(item >> 1)
            assert overlay.pushed[item >> 1] or not overlay.pushed[node]
        below = [bool(overlay.pushed[item >> 1]) for item in overlay.outputs.items_of(node).tolist()]
        assert below == sorted(below, reverse=True) and sum(below) == overlay.pushed_outputs[node]
        if overlay.kinds[node] == WRITER:
            assert overlay.pushed[node]
        elif overlay.kinds[node] == READER:
            found = paths_to(overlay, node)
            if repeats:
                assert set(found) == wanted.get(node, set()) and min(found.values(), default=1) > 0
            else:
                assert found == dict.fromkeys(wanted.get(node, set()), 1)
    assert overlay.inputs.size.sum() == overlay.outputs.size.sum()


def every_labelling(inputs: list[list[int]], writers: int) -> list[list[bool]]:
    """All labellings in which writers, and what feeds a pushed node, are pushed; nodes come after inputs."""
    rest = len(inputs) - writers
    found = []
    for chosen in product([False, True], repeat=rest):
        pushed = [True] * writers + list(chosen)
        if all(pushed[source] for node, of in enumerate(inputs) if pushed[node] for source in of):
            found.append(pushed)
    return found


def least_cost(inputs: list[list[int]], writers: int, weight: "np.ndarray") -> float:
    """The least sum over labellings of what pulling costs more than pushing."""
    return min(
        sum(weight[node] if not on else 0.0 for node, on in enumerate(pushed) if node >= writers)
        for pushed in every_labelling(inputs, writers)
    )


def best_split(push: list[float], pull: float, costs: tuple[float, float, float, float]) -> tuple[int, float]:
    """The l, and its cost, by the mended formula (digest, 1.4f): of inputs by ascending push frequency."""
    one, doubled, none, each = costs
    ranked, size = sorted(push), len(push)
    return min(
        (
            (
                count,
                sum(ranked[:count]) * (one + doubled * log2(count))
                + pull * (none + each * (size - count + 1)),
            )
            for count in range(1, size)
        ),
        key=lambda found: found[1],
    )
