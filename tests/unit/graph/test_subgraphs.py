"""Cores and triangles against networkx, after every change."""

import networkx as nx
import pytest

import kpg
from kpg import graph
from tests.unit.collections.watching import watch
from tests.unit.graph.changing import history, once, undirected, weighted_edges


@pytest.fixture
def edges(flow: kpg.Dataflow) -> kpg.Input:
    return weighted_edges(flow)


@pytest.mark.parametrize("per_step", [1, 3])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_core(flow: kpg.Dataflow, edges: kpg.Input, per_step: int, k: int) -> None:
    found = watch(graph.k_core(edges, k))
    for time, now in history(flow, edges, k, nodes=9, times=24, per_step=per_step):
        assert found.at(time) == once(nx.k_core(undirected(now), k))


def test_a_core_needs_a_number(flow: kpg.Dataflow, edges: kpg.Input) -> None:
    with pytest.raises(kpg.InterfaceError, match="positive number of neighbors"):
        graph.k_core(edges, 0)


@pytest.mark.parametrize("per_step", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_triangles(flow: kpg.Dataflow, edges: kpg.Input, per_step: int, seed: int) -> None:
    found = watch(graph.triangles(edges))
    for time, now in history(flow, edges, seed, nodes=7, times=24, per_step=per_step):
        cliques = nx.enumerate_all_cliques(undirected(now))
        assert found.at(time) == once(tuple(sorted(nodes)) for nodes in cliques if len(nodes) == 3)


def test_triangles_keep_no_pairs_of_edges(db: kpg.Database, flow: kpg.Dataflow, edges: kpg.Input) -> None:
    """A star has as many pairs of edges as its rays squared; what is kept is in proportion to the rays."""
    watch(graph.triangles(edges))
    rays = 200
    edges.insert([(0, ray, 0) for ray in range(1, rays + 1)])
    edges.advance_to(edges.time + 1)
    flow.step()
    assert [rows for _, rows, *_ in db.arrangements()] == [rays, rays]
