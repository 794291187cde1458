"""Graph algorithms: reachability, distances, components, PageRank, cores, triangles, lookups.

The interactive queries are the four of section 6.2 of McSherry et al., "Shared Arrangements" (VLDB
2020): ``look_up``, ``one_hop``, ``two_hops`` and ``four_hop_path``. Their arguments are a
collection: insert an argument, read its answer, delete it. All queries share the edges arranged by
``src`` (and ``dst``, for paths) and the states arranged by ``node``, so another query costs only
its answer.

Label propagation introduces integer labels by the length of their binary representation, small ones
some rounds earlier. Most later labels then reach nodes that have a smaller label, which saves
updates that would be retracted. The result is the same. The paper's programs do likewise.
"""

from collections.abc import Callable
from typing import Final

from kpg.collections import Collection, Expression, LoopScope, case, conjunction, literal, recursive
from kpg.runtime.errors import InterfaceError


def look_up(state: Collection, questions: Collection) -> Collection:
    """Return (node, ...): the rows of ``state`` for each ``node`` in ``questions``.

    Multiplicities of both multiply.
    """
    return questions.project("node").join(state, "node")


def one_hop(edges: Collection, state: Collection, questions: Collection) -> Collection:
    """Return (asked, node, ...): the states of the targets of the edges of each ``node`` in ``questions``.

    Multiplicities of edges, states and questions multiply.
    """
    return _join_states(_hop(edges, _starting_points(questions)), state)


def two_hops(edges: Collection, state: Collection, questions: Collection) -> Collection:
    """Return (asked, node, ...): like :func:`one_hop` over two edges; each path counts."""
    return _join_states(_hop(edges, _hop(edges, _starting_points(questions))), state)


def four_hop_path(edges: Collection, questions: Collection) -> Collection:
    """Return (src, dst, hops): the length of the shortest path of each pair asked for, if at most 4.

    Two hops forward from ``src`` meet two backward from ``dst``. Duplicates count once.
    """
    pairs = questions.project("src", "dst").distinct()
    start = pairs.map(lambda p: {"src": p.src, "dst": p.dst, "node": p.src, "hops": 0})
    end = pairs.map(lambda p: {"src": p.src, "dst": p.dst, "node": p.dst, "hops": 0})
    forward = _within_two(start, lambda near: _step(near, edges, "src", "dst"))
    backward = _within_two(end, lambda near: _step(near, edges, "dst", "src"))
    paths = forward.join(
        backward,
        ("src", "dst", "node"),
        lambda f, b: {"src": f.src, "dst": f.dst, "hops": f.hops + b.hops},
    )
    return paths.min("hops", key=("src", "dst"))


def _starting_points(questions: Collection) -> Collection:
    return questions.map(lambda q: {"asked": q.node, "node": q.node})


def _hop(edges: Collection, positions: Collection) -> Collection:
    return positions.join(edges, {"node": "src"}, lambda f, e: {"asked": f.asked, "node": e.dst})


def _join_states(positions: Collection, state: Collection) -> Collection:
    return positions.join(state, "node")


def _step(positions: Collection, edges: Collection, source: str, target: str) -> Collection:
    return positions.join(
        edges,
        {"node": source},
        lambda n, e: {"src": n.src, "dst": n.dst, "node": e[target], "hops": n.hops + 1},
    )


def _within_two(positions: Collection, step: Callable[[Collection], Collection]) -> Collection:
    """Return the positions at most two steps away."""
    neighbors = step(positions)
    return positions.concat(neighbors, step(neighbors))


SPACING: Final = 2
"""Rounds between the labels of one binary length and those of the next."""


def least_labels(nodes: Collection, *edges: Collection) -> Collection:
    """Return (node, label): the least label in ``nodes`` that reaches a node along the edges."""
    are_integers = nodes.types[1].is_integer

    def body(labels: Collection, loop: LoopScope) -> Collection:
        propagated = [
            labels.join(edge_collection, {"node": "src"}, lambda a, e: {"node": e.dst, "label": a.label})
            for edge_collection in edges
        ]
        introduced = loop.enter_at(nodes, lambda n: _introduction_round(n.label)) if are_integers else nodes
        return introduced.concat(*propagated).min("label", key="node")

    return recursive(nodes, body)


def _introduction_round(label: Expression, low: int = 0, high: int = 63) -> Expression:
    """Return the round that introduces a label: SPACING times the length of its binary representation."""
    if low == high:
        return literal(low * SPACING)
    middle = (low + high) // 2
    return case(
        label < 2**middle,
        _introduction_round(label, low, middle),
        _introduction_round(label, middle + 1, high),
    )


def symmetric_edges(edges: Collection) -> Collection:
    """Return (src, dst): each edge and its reverse, without duplicates."""
    forward = edges.project("src", "dst")
    return forward.concat(forward.rename(src="dst", dst="src")).distinct()


def nodes_of(edges: Collection) -> Collection:
    """Return (node): the end points of edges, without duplicates."""
    sources = edges.map(lambda e: {"node": e.src})
    return sources.concat(edges.map(lambda e: {"node": e.dst})).distinct()


def connected_components(edges: Collection) -> Collection:
    """Return (node, component): each node with the least node of its connected component.

    Nodes are the end points of edges, whose direction does not matter. In each round a node takes the
    least label of its neighbors.
    """
    nodes = nodes_of(edges).map(lambda n: {"node": n.node, "label": n.node})
    return least_labels(nodes, edges, edges.rename(src="dst", dst="src")).rename(label="component")


def strongly_connected_components(edges: Collection) -> Collection:
    """Return (src, dst): the edges whose end points reach each other, with their multiplicities.

    The outer loop removes edges whose end points differ in the least node that reaches them, or that
    they reach, until a fixed point. Two nested loops, not monotone ("Differential dataflow", CIDR
    2013).
    """
    return edges.project("src", "dst").iterate(lambda kept: _trim_edges(_trim_edges(kept)))


def _trim_edges(edges: Collection) -> Collection:
    """Return the reversed edges whose end points have the same least label, propagated along the edges."""
    nodes = edges.map(lambda e: {"node": e.dst, "label": e.dst}).distinct()
    labels = least_labels(nodes, edges)
    remaining = conjunction("ba", (edges, "ab"), (labels, ("a", "label")), (labels, ("b", "label")))
    return remaining.rename(b="src", a="dst")


def label_propagation(edges: Collection, rounds: int) -> Collection:
    """Return (node, label): communities after ``rounds`` synchronous rounds of label propagation.

    A node's first label is itself. In each round it takes the most frequent label among its neighbors
    and itself, the least of several. Edges are undirected. In Raghavan, Albert and Kumara (2007) nodes
    change one after the other; here a node's own vote prevents most oscillations.
    """
    both = symmetric_edges(edges)
    nodes = both.project("src").distinct()
    voters = both.concat(nodes.map(lambda n: {"src": n.src, "dst": n.src})).distinct()

    def body(labels: Collection) -> Collection:
        votes = labels.join(voters, {"node": "src"}, lambda a, e: {"node": e.dst, "label": a.label})
        counted = votes.count(("node", "label"), "votes")
        return counted.top_k(1, ("-votes", "label"), key="node").project("node", "label")

    return nodes.map(lambda n: {"node": n.src, "label": n.src}).iterate(body, limit=rounds)


def reachability(edges: Collection, roots: Collection) -> Collection:
    """Return (node): the roots and the nodes that are reachable from them."""
    start = roots.project("node")

    def body(reached: Collection, _: LoopScope) -> Collection:
        successors = reached.join(edges, {"node": "src"}, lambda r, e: {"node": e.dst})
        return successors.concat(start).distinct()

    return recursive(start, body)


def distances(edges: Collection, roots: Collection) -> Collection:
    """Return (node, distance): the least number of edges from a root, for the nodes that are reachable."""
    start = roots.map(lambda r: {"node": r.node, "distance": 0})

    def body(reached: Collection, _: LoopScope) -> Collection:
        successors = reached.join(
            edges, {"node": "src"}, lambda f, e: {"node": e.dst, "distance": f.distance + 1}
        )
        return successors.concat(start).min("distance", key="node")

    return recursive(start, body)


def shortest_paths(edges: Collection, roots: Collection) -> Collection:
    """Return (node, distance): the least sum of the edges' ``weight``, a BIGINT, from a root.

    Weights must not be negative: distances decrease along a negative cycle until they overflow. After
    round n, paths of up to n edges have been considered (Bellman 1958).
    """
    start = roots.map(lambda r: {"node": r.node, "distance": 0})

    def body(reached: Collection, _: LoopScope) -> Collection:
        successors = reached.join(
            edges, {"node": "src"}, lambda f, e: {"node": e.dst, "distance": f.distance + e.weight}
        )
        return successors.concat(start).min("distance", key="node")

    return recursive(start, body)


def transitive_closure(edges: Collection) -> Collection:
    """Return (src, dst): the pairs with a path of at least one edge."""
    start = edges.project("src", "dst")

    def body(closure: Collection, _: LoopScope) -> Collection:
        longer = closure.join(edges, {"dst": "src"}, lambda c, e: {"src": c.src, "dst": e.dst})
        return longer.concat(start).distinct()

    return recursive(start, body)


def same_generation(edges: Collection) -> Collection:
    """Return (x, y): different children of one parent, and children of parents of the same generation.

    Edges lead from parents to children. A node can be of its own generation if its parents are (as in
    BigDatalog's program, SIGMOD 2016).
    """
    children = edges if edges.columns == ["src", "dst"] else edges.project("src", "dst")
    siblings = children.join(children, {"src": "src"}, lambda a, b: {"x": a.dst, "y": b.dst})
    start = siblings.filter(lambda r: r.x != r.y)

    def body(pairs: Collection, _: LoopScope) -> Collection:
        cousins = conjunction("xy", (children, "ax"), (pairs, "ab"), (children, "by"))
        return cousins.concat(start).distinct()

    return recursive(start, body)


UNIT = 1_000_000
"""Rank of an average node."""


def pagerank(edges: Collection, rounds: int | None = None, damping: int = 85) -> Collection:
    """Return (node, rank): PageRank in millionths, after ``rounds`` rounds or at the fixed point.

    ``damping`` is in percent. A node's rank is ``(100 - damping)%`` of a million plus ``damping%`` of
    the rank that it receives. Each edge carries its source's rank divided by the source's number of
    edges, with multiplicities. Divisions round down. Ranks begin at 0 and only rise, so a fixed point
    exists; at 85% it takes about 40 rounds for each three digits. A node without outgoing edges passes
    no rank on (Brin and Page 1998, unscaled).
    """
    if not 0 <= damping < 100:
        raise InterfaceError(f"damping is a percentage below 100, not {damping!r}")
    nodes = nodes_of(edges)
    degrees = edges.count("src", "degree")
    base_rank = UNIT * (100 - damping) // 100
    base = nodes.map(lambda n: {"node": n.node, "rank": base_rank})

    def body(ranks: Collection) -> Collection:
        shares = ranks.join(
            degrees,
            {"node": "src"},
            lambda r, d: {"node": r.node, "rank": r.rank * damping / (100 * d.degree)},
        )
        contributions = shares.join(edges, {"node": "src"}, lambda s, e: {"node": e.dst, "rank": s.rank})
        total = contributions.concat(base).sum("rank", key="node")
        return total.map(lambda r: {"node": r.node, "rank": r.rank.cast(int)})

    return base.filter(lambda r: r.rank < 0).iterate(body, limit=rounds)


def k_core(edges: Collection, k: int) -> Collection:
    """Return (node): the nodes of the largest subgraph in which each has at least ``k`` other neighbors.

    Nodes with fewer neighbors are removed, with their edges, until a fixed point (Seidman 1983).
    """
    if k < 1:
        raise InterfaceError(f"k must be a positive number of neighbors, not {k!r}")

    def body(remaining: Collection) -> Collection:
        nodes = remaining.count("src", "degree").filter(lambda r: r.degree >= k).project("src")
        outgoing = remaining.join(nodes, {"src": "src"}, lambda e, _: e)
        return outgoing.join(nodes, {"dst": "src"}, lambda e, _: e)

    undirected = symmetric_edges(edges.filter(lambda e: e.src != e.dst))
    return undirected.iterate(body).map(lambda e: {"node": e.src}).distinct()


def triangles(edges: Collection) -> Collection:
    """Return (a, b, c) with a < b < c: three nodes that are pairwise connected, in any direction.

    One delta join: a changed edge is looked up in indexes of the other two; paths of two edges are not
    stored.
    """
    proper_edges = edges.filter(lambda e: e.src != e.dst)
    upward = proper_edges.map(
        lambda e: {"src": case(e.src < e.dst, e.src, e.dst), "dst": case(e.src < e.dst, e.dst, e.src)}
    ).distinct()
    return conjunction("abc", (upward, "ab"), (upward, "bc"), (upward, "ac"))
