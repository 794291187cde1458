"""Paths, closures and generations against networkx and plain Python, after every change."""

import networkx as nx
import pytest

import kpg
from kpg import graph
from tests.unit.collections.watching import step, watch
from tests.unit.graph.changing import Bag, directed, history, lengths, once, weighted_edges

pytestmark = pytest.mark.parametrize("per_step", [1, 3])
ROOTS = (0, 3)


@pytest.fixture
def edges(flow: kpg.Dataflow) -> kpg.Input:
    return weighted_edges(flow)


@pytest.fixture
def roots(flow: kpg.Dataflow) -> kpg.Input:
    given = flow.input("roots", node=int)
    given.insert(list(ROOTS))
    given.close()
    return given


@pytest.mark.parametrize("seed", range(2))
def test_from_roots(flow: kpg.Dataflow, edges: kpg.Input, roots: kpg.Input, per_step: int, seed: int) -> None:
    reached = watch(graph.reachability(edges, roots))
    steps = watch(graph.distances(edges, roots))
    far = watch(graph.shortest_paths(edges, roots))
    for time, now in history(flow, edges, seed, per_step=per_step):
        near = lengths(now, ROOTS, None)
        assert reached.at(time) == once(near)
        assert steps.at(time) == once(near.items())
        assert far.at(time) == once(lengths(now, ROOTS, "weight").items())


def test_roots_come_and_go(flow: kpg.Dataflow, edges: kpg.Input, per_step: int) -> None:
    """A root that is given twice is a root until it is taken twice."""
    changing = flow.input("changing", node=int)
    edges.insert([(0, 1, 1), (1, 2, 1), (5, 2, 1)])
    edges.close()
    steps = watch(graph.distances(edges, changing))
    changes = [(0, 1), (0, 1), (5, 1), (0, -1), (0, -1), (5, -1)]
    first = changing.time
    for place, (root, diff) in enumerate(changes):
        changing.update((root,), diff, first + place)
    if per_step == 1:
        for place in range(len(changes)):
            changing.advance_to(first + place + 1)
            flow.step()
    changing.advance_to(first + len(changes))
    flow.step()
    one = {(0, 0): 1, (1, 1): 1, (2, 2): 1}
    both = {(0, 0): 1, (1, 1): 1, (2, 1): 1, (5, 0): 1}
    expected = [one, one, both, both, {(5, 0): 1, (2, 1): 1}, {}]
    assert [steps.at(first + place) for place in range(len(changes))] == expected


@pytest.mark.parametrize("seed", range(2))
def test_transitive_closure(flow: kpg.Dataflow, edges: kpg.Input, per_step: int, seed: int) -> None:
    pairs = watch(graph.transitive_closure(edges))
    for time, now in history(flow, edges, seed, nodes=7, per_step=per_step):
        assert pairs.at(time) == once(nx.transitive_closure(directed(now), reflexive=False).edges)


def generations(edges: Bag) -> set[tuple[int, int]]:
    pairs = {(src, dst) for src, dst, _ in edges}
    found = {(x, y) for p, x in pairs for q, y in pairs if p == q and x != y}
    while more := {(x, y) for a, x in pairs for b, y in pairs if (a, b) in found} - found:
        found |= more
    return found


@pytest.mark.parametrize("seed", range(2))
def test_same_generation(flow: kpg.Dataflow, edges: kpg.Input, per_step: int, seed: int) -> None:
    same = watch(graph.same_generation(edges))
    for time, now in history(flow, edges, seed, nodes=9, per_step=per_step):
        assert same.at(time) == once(generations(now))


def test_t44_a_cycle_does_not_support_itself(flow: kpg.Dataflow, edges: kpg.Input, per_step: int) -> None:
    starts = flow.input("starts", node=int)
    reached, steps = watch(graph.reachability(edges, starts)), watch(graph.distances(edges, starts))
    starts.insert(0)
    edges.insert([(0, 1, 1), (1, 2, 1), (2, 1, 1)])
    before = step(flow, edges, starts)
    edges.remove((0, 1, 1))
    after = step(flow, edges, starts)
    assert (reached.at(before), reached.at(after)) == (once([0, 1, 2]), once([0]))
    assert (steps.at(before), steps.at(after)) == (once([(0, 0), (1, 1), (2, 2)]), once([(0, 0)]))
