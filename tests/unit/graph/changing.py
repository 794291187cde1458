"""Graphs whose edges come and go, and what is true of them by networkx and plain Python."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator

import networkx as nx

import kpg

Edge = tuple[int, int, int]
Bag = Counter[Edge]
Answer = dict[tuple[object, ...], int]


def weighted_edges(flow: kpg.Dataflow) -> kpg.Input:
    """An input of edges with weights."""
    return flow.input("edges", src=int, dst=int, weight=int)


def history(
    flow: kpg.Dataflow, edges: kpg.Input, seed: int, *, nodes: int = 8, times: int = 18, per_step: int = 1
) -> Iterator[tuple[int, Bag]]:
    """Insert and remove some edges at each time; give the times with their edges, after their step."""
    rng = random.Random(seed)
    present: Bag = Counter()
    waiting = []
    for time in range(edges.time, edges.time + times):
        for _ in range(rng.randrange(1, 5)):
            if present and rng.random() < 0.2 + 0.03 * present.total():
                gone = rng.choice(sorted(present.elements()))
                edges.remove(gone)
                present -= Counter([gone])
            else:
                new = (rng.randrange(nodes), rng.randrange(nodes), rng.randrange(4))
                edges.insert(new)
                present[new] += 1
        edges.advance_to(time + 1)
        waiting.append((time, Counter(present)))
        if len(waiting) == per_step:
            flow.step()
            yield from waiting
            waiting.clear()


def once(rows: Iterable[object]) -> Answer:
    """Each row once; values that are no tuples are rows of one column."""
    return {row if isinstance(row, tuple) else (row,): 1 for row in rows}


def directed(edges: Bag) -> "nx.DiGraph":
    """The graph, parallel edges being one of the least weight."""
    graph = nx.DiGraph()
    for src, dst, weight in sorted(edges, reverse=True):
        graph.add_edge(src, dst, weight=weight)
    return graph


def undirected(edges: Bag) -> "nx.Graph":
    """The graph without directions and loops; nodes that have but loops are there."""
    graph = nx.Graph(directed(edges))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def lengths(edges: Bag, roots: Iterable[int], weight: str | None) -> dict[int, int]:
    """The distances of all nodes from the nearest root."""
    graph = directed(edges)
    graph.add_nodes_from(roots)
    if weight is None:
        nx.set_edge_attributes(graph, 1, "one")
    found, _ = nx.multi_source_dijkstra(graph, set(roots), weight=weight or "one")
    return found
