"""PageRank against whole numbers in Python, and against the equations it approximates."""

from collections import Counter

import pytest

import kpg
from kpg import graph
from tests.unit.collections.watching import step, watch
from tests.unit.graph.changing import Bag, history, once, weighted_edges


@pytest.fixture
def edges(flow: kpg.Dataflow) -> kpg.Input:
    return weighted_edges(flow)


def ranks(edges: Bag, rounds: int | None, damping: int) -> dict[int, int]:
    """By the definition, from ranks of 0, round by round."""
    base = 1_000_000 * (100 - damping) // 100
    degree: Counter[int] = Counter()
    for (src, _, _), count in edges.items():
        degree[src] += count
    nodes = {node for src, dst, _ in edges for node in (src, dst)}
    rank = dict.fromkeys(nodes, 0)
    while rounds is None or rounds > 0:
        after = dict.fromkeys(nodes, base)
        for (src, dst, _), count in edges.items():
            after[dst] += count * (rank[src] * damping // (100 * degree[src]))
        if rounds is None and after == rank:
            break
        rank, rounds = after, None if rounds is None else rounds - 1
    return rank


@pytest.mark.parametrize("per_step", [1, 3])
@pytest.mark.parametrize(("rounds", "damping"), [(1, 85), (4, 85), (None, 85), (None, 50)])
def test_after_every_change(
    flow: kpg.Dataflow, edges: kpg.Input, per_step: int, rounds: int | None, damping: int
) -> None:
    found = watch(graph.pagerank(edges, rounds, damping))
    for time, now in history(flow, edges, 1, nodes=6, times=9, per_step=per_step):
        assert found.at(time) == once(ranks(now, rounds, damping).items())


def test_ranks_solve_the_equations(flow: kpg.Dataflow, edges: kpg.Input) -> None:
    """On a ring with a chord each edge passes 85% of its source's share; the sum is a million a node."""
    found = watch(graph.pagerank(edges))
    edges.insert([(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 0, 0), (0, 2, 0)])
    step(flow, edges)
    rank = dict(row for row in found.at())
    assert sum(rank.values()) == pytest.approx(4_000_000, abs=100)
    assert rank[1] == pytest.approx(150_000 + 0.85 * rank[0] / 2, abs=2)
    assert rank[2] == pytest.approx(150_000 + 0.85 * (rank[1] + rank[0] / 2), abs=2)
    assert rank[3] == pytest.approx(150_000 + 0.85 * rank[2], abs=2)


def test_damping_is_a_share(flow: kpg.Dataflow, edges: kpg.Input) -> None:
    for damping in (-1, 100):
        with pytest.raises(kpg.InterfaceError, match="damping is a percentage"):
            graph.pagerank(edges, damping=damping)
