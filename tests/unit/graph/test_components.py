"""Components and communities against networkx and plain Python, after every change."""

from collections import Counter, defaultdict

import networkx as nx
import pytest

import kpg
from kpg import graph
from tests.unit.collections.watching import step, watch
from tests.unit.graph.changing import Answer, Bag, directed, history, once, weighted_edges


@pytest.fixture
def edges(flow: kpg.Dataflow) -> kpg.Input:
    return weighted_edges(flow)


@pytest.mark.parametrize("per_step", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_connected(flow: kpg.Dataflow, edges: kpg.Input, per_step: int, seed: int) -> None:
    found = watch(graph.connected_components(edges))
    for time, now in history(flow, edges, seed, nodes=12, per_step=per_step):
        parts = nx.weakly_connected_components(directed(now))
        assert found.at(time) == once((node, min(part)) for part in parts for node in part)


def strongly(edges: Bag) -> Answer:
    parts = enumerate(nx.strongly_connected_components(directed(edges)))
    part = {node: number for number, nodes in parts for node in nodes}
    inside: Counter[tuple[object, ...]] = Counter()
    for (src, dst, _), count in edges.items():
        if part[src] == part[dst]:
            inside[src, dst] += count
    return dict(inside)


@pytest.mark.parametrize("per_step", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_strongly_connected(flow: kpg.Dataflow, edges: kpg.Input, per_step: int, seed: int) -> None:
    found = watch(graph.strongly_connected_components(edges))
    for time, now in history(flow, edges, seed, nodes=7, per_step=per_step):
        assert found.at(time) == strongly(now)


@pytest.mark.parametrize("numbers", [[-5, -4, 0, 2**62, -(2**62)], [300, 70, 2, 9_000_000, 10]])
def test_labels_of_any_size(flow: kpg.Dataflow, edges: kpg.Input, numbers: list[int]) -> None:
    """Labels are let go by their size, and the least wins, whatever comes first."""
    found, strong = (
        watch(graph.connected_components(edges)),
        watch(graph.strongly_connected_components(edges)),
    )
    ring = list(zip(numbers, [*numbers[1:], numbers[0]], strict=True))
    edges.insert([(a, b, 0) for a, b in ring])
    step(flow, edges)
    assert found.at() == once((node, min(numbers)) for node in numbers)
    assert strong.at() == once(ring)
    (a, b), *rest = ring
    edges.remove((a, b, 0))
    step(flow, edges)
    assert found.at() == once((node, min(numbers)) for node in numbers)
    assert strong.at() == {}
    for a, b in rest:
        edges.remove((a, b, 0))
        step(flow, edges)
    assert found.at() == {}


def test_names_as_nodes(flow: kpg.Dataflow) -> None:
    edges = flow.input("edges", src=str, dst=str)
    found, strong = (
        watch(graph.connected_components(edges)),
        watch(graph.strongly_connected_components(edges)),
    )
    edges.insert([("ann", "bob"), ("bob", "ann"), ("bob", "cy"), ("eve", "dan")])
    step(flow, edges)
    assert found.at() == once([("ann", "ann"), ("bob", "ann"), ("cy", "ann"), ("eve", "dan"), ("dan", "dan")])
    assert strong.at() == once([("ann", "bob"), ("bob", "ann")])
    edges.remove("bob", "ann")
    step(flow, edges)
    assert strong.at() == {}


def test_the_edges_of_a_table_whose_columns_can_be_null(db: kpg.Database, flow: kpg.Dataflow) -> None:
    db.sql("CREATE TABLE edge (src INT, dst INT)")
    db.sql("INSERT INTO edge VALUES (1, 2), (2, NULL), (7, 8)")
    edges = flow.import_("edge")
    found = watch(graph.connected_components(edges))
    strong = watch(graph.strongly_connected_components(edges))
    assert found.at() == {(1, 1): 1, (2, 1): 1, (None, 1): 1, (7, 7): 1, (8, 7): 1}
    db.sql("INSERT INTO edge VALUES (NULL, 1)")
    assert strong.at() == {(1, 2): 1, (2, None): 1, (None, 1): 1}


def communities(edges: Bag, rounds: int) -> dict[int, int]:
    near = defaultdict(set)
    for src, dst, _ in edges:
        near[src] |= {src, dst}
        near[dst] |= {src, dst}
    labels = {node: node for node in near}
    for _ in range(rounds):
        votes = {node: Counter(labels[other] for other in others) for node, others in near.items()}
        labels = {node: min(count, key=lambda label: (-count[label], label)) for node, count in votes.items()}
    return labels


@pytest.mark.parametrize("per_step", [1, 3])
@pytest.mark.parametrize("rounds", [1, 3])
def test_label_propagation(flow: kpg.Dataflow, edges: kpg.Input, per_step: int, rounds: int) -> None:
    found = watch(graph.label_propagation(edges, rounds))
    for time, now in history(flow, edges, rounds, nodes=9, per_step=per_step):
        assert found.at(time) == once(communities(now, rounds).items())


def test_two_cliques_are_two_communities(flow: kpg.Dataflow, edges: kpg.Input) -> None:
    found = watch(graph.label_propagation(edges, 5))
    edges.insert([(a, b, 0) for a in range(4) for b in range(a)])
    edges.insert([(a, b, 0) for a in range(10, 14) for b in range(10, a)])
    edges.insert((3, 10, 0))
    step(flow, edges)
    assert found.at() == once([(node, 10 * (node // 10)) for node in (*range(4), *range(10, 14))])
