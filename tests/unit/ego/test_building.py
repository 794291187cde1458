"""Every construction, on random graphs and on the paper's."""

import numpy as np
import pytest

from kpg.runtime.ego.construction import Construction, build
from kpg.runtime.ego.overlay import group_edges
from kpg.runtime.kernels import covering
from tests.model.overlays import check_overlay

Pairs = set[tuple[int, int]]


def built(construction: Construction, pairs: Pairs, writers: int, readers: int):
    array = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    lists = group_edges(np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1]), readers)
    return build(construction, writers, readers, lists)


def communities(random: np.random.Generator) -> tuple[Pairs, int, int]:
    """Groups of readers that have nearly the same writers."""
    writers, readers = int(random.integers(1, 40)), int(random.integers(1, 60))
    pairs: Pairs = set()
    for _ in range(int(random.integers(1, 8))):
        some = random.choice(writers, int(random.integers(1, min(writers, 12) + 1)), replace=False)
        who = random.choice(readers, int(random.integers(1, min(readers, 25) + 1)), replace=False)
        pairs |= {(int(r), int(w)) for r in who for w in some if random.random() < 0.93}
    return pairs, writers, readers


@pytest.mark.parametrize("construction", Construction)
def test_each_reader_has_its_writers(construction: Construction) -> None:
    shared = 0.0
    for seed in range(25):
        pairs, writers, readers = communities(np.random.default_rng(seed))
        overlay, report = built(construction, pairs, writers, readers)
        wanted: dict[int, set[int]] = {}
        for reader, writer in pairs:
            wanted.setdefault(writers + reader, set()).add(writer)
        check_overlay(overlay, wanted, repeats=construction is Construction.VNM_D)
        place, found = overlay.writers_of(np.arange(writers, writers + readers))
        assert set(zip(place.tolist(), found.tolist(), strict=True)) == pairs
        assert overlay.edges <= overlay.pair_count == len(pairs)
        assert report.construction is construction
        shared += overlay.sharing
    assert (shared > 5) is (construction is not Construction.NONE)


@pytest.mark.parametrize("construction", [one for one in Construction if one is not Construction.NONE])
def test_a_biclique_becomes_one_node(construction: Construction) -> None:
    """Six writers and four readers: 24 edges become 10."""
    overlay, _ = built(construction, {(r, w) for r in range(4) for w in range(6)}, 6, 4)
    assert overlay.edges == 10
    assert overlay.sharing == 1 - 10 / 24


def test_a_missing_edge_costs_a_negative_one() -> None:
    """Four by four but for one: 15 edges become 9, as the mended formula has it, one of them negative."""
    pairs = {(r, w) for r in range(4) for w in range(4)} - {(3, 3)}
    overlay, _ = built(Construction.VNM_N, pairs, 4, 4)
    assert overlay.edges == 9
    assert (overlay.inputs.items & 1).sum() == 1


def test_the_papers_example() -> None:
    """The input lists that its text gives: e has a to d, g has a to f; they share a node."""
    lists = {"a": "cdef", "e": "abcd", "g": "abcdef"}
    nodes = "abcdefg"
    pairs = {(nodes.index(reader), nodes.index(one)) for reader, of in lists.items() for one in of}
    overlay, _ = built(Construction.IOB, pairs, 7, 7)
    wanted = {7 + nodes.index(reader): {nodes.index(one) for one in of} for reader, of in lists.items()}
    check_overlay(overlay, wanted, repeats=False)
    shared = set(overlay.inputs.items_of(7 + nodes.index("e")).tolist())
    assert shared & set(overlay.inputs.items_of(7 + nodes.index("g")).tolist())


def test_rounds_make_levels() -> None:
    """Halves of one community have a node each over what all have in common."""
    pairs = {(r, w) for r in range(40) for w in range(20 if r < 20 else 12)}
    for construction in (Construction.VNM_A, Construction.IOB):
        overlay, _ = built(construction, pairs, 20, 40)
        check_overlay(overlay, {20 + r: set(range(20 if r < 20 else 12)) for r in range(40)}, repeats=False)
        assert overlay.edges <= 40 + 20 + 20 + 2
        assert overlay.levels().max() >= 2


def test_an_item_has_places_for_about_as_many_nodes_as_have_it() -> None:
    """A power of two above how often it is there: one of none, two of one, and 32 at most."""
    items = [1] + 3 * [2] + 4 * [3] + 100 * [4]
    slots = np.zeros(6, np.int64)
    assert covering.share_out(2 * np.array(items, np.int32), slots) == 47
    assert np.diff(slots).tolist() == [1, 2, 4, 8, 32]
