"""Queries with changing arguments, against plain Python."""

import random
from collections import Counter

import pytest

import kpg
from kpg import graph
from tests.unit.collections.watching import step, watch
from tests.unit.graph.changing import Bag, history, lengths, weighted_edges

NODES = 8


@pytest.fixture
def edges(flow: kpg.Dataflow) -> kpg.Input:
    return weighted_edges(flow)


@pytest.fixture
def state(flow: kpg.Dataflow) -> kpg.Input:
    """Nodes with states; the last has none."""
    given = flow.input("state", node=int, title=str)
    given.insert([(node, f"n{node}") for node in range(NODES - 1)])
    given.close()
    return given


def hops(edges: Bag, found: Counter[tuple[int, int]]) -> Counter[tuple[int, int]]:
    """From (asked, node), one edge further."""
    further: Counter[tuple[int, int]] = Counter()
    for (asked, node), times in found.items():
        for (src, dst, _), count in edges.items():
            if src == node:
                further[asked, dst] += times * count
    return further


def states(found: Counter[tuple[int, int]]) -> dict[tuple[object, ...], int]:
    return {(a, node, f"n{node}"): times for (a, node), times in found.items() if node < NODES - 1}


@pytest.mark.parametrize("per_step", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_hops(flow: kpg.Dataflow, edges: kpg.Input, state: kpg.Input, per_step: int, seed: int) -> None:
    asked = flow.input("asked", node=int)
    here = watch(graph.look_up(state, asked))
    near, far = watch(graph.one_hop(edges, state, asked)), watch(graph.two_hops(edges, state, asked))
    rng = random.Random(seed)
    questions: dict[int, Counter[int]] = {}
    standing: Counter[int] = Counter()
    for time in range(asked.time, asked.time + 18):
        node = rng.randrange(NODES)
        diff = -1 if standing[node] else 1
        asked.update((node,), diff, time)
        standing[node] += diff
        questions[time] = +standing
    asked.close()
    for time, now in history(flow, edges, seed, nodes=NODES, per_step=per_step):
        start = Counter({(node, node): count for node, count in questions[time].items()})
        expected = {(node, name): times for (_, node, name), times in states(start).items()}
        assert here.at(time) == expected
        one = hops(now, start)
        assert near.at(time) == states(one)
        assert far.at(time) == states(hops(now, one))


@pytest.mark.parametrize("per_step", [1, 3])
def test_four_hops(flow: kpg.Dataflow, edges: kpg.Input, per_step: int) -> None:
    asked = flow.input("asked", src=int, dst=int)
    found = watch(graph.four_hop_path(edges, asked))
    pairs = [(0, 1), (2, 2), (3, 8), (5, 4), (9, 0)]
    asked.insert([*pairs, (0, 1)])
    asked.close()
    for time, now in history(flow, edges, 4, nodes=10, times=30, per_step=per_step):
        near = {(src, dst): lengths(now, [src], None).get(dst, 5) for src, dst in pairs}
        assert found.at(time) == {(*pair, far): 1 for pair, far in near.items() if far <= 4}


def test_a_question_costs_its_answer(db: kpg.Database, flow: kpg.Dataflow, edges: kpg.Input) -> None:
    """All queries read two indexes of the edges and one of the states."""
    forward = edges.arrange_by_key("src")
    forward.arrange_by_key("dst")
    state = flow.input("state", node=int, value=int)
    kept = state.arrange_by_key("node")
    one, pair = flow.input("one", node=int), flow.input("pair", src=int, dst=int)
    watch(graph.look_up(kept, one))
    watch(graph.two_hops(forward, kept, one))
    watch(graph.one_hop(forward, kept, one))
    answer = watch(graph.four_hop_path(forward, pair))
    edges.insert([(node, node + 1, 0) for node in range(100)])
    state.insert([(node, node) for node in range(100)])
    step(flow, edges, state, one, pair)
    assert sorted(rows for _, rows, *_ in db.arrangements() if rows) == [100, 100, 100]
    pair.insert(7, 11)
    step(flow, edges, state, one, pair)
    assert answer.at() == {(7, 11, 4): 1}
    pair.remove(7, 11)
    step(flow, edges, state, one, pair)
    assert sorted(rows for _, rows, *_ in db.arrangements() if rows > 20) == [100, 100, 100]
