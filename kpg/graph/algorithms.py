"""Graph algorithms: reachability, distances, components, PageRank, cores, triangles, and interactive queries.

The interactive queries are the four of section 6.2 of McSherry et al., "Shared Arrangements" (VLDB 2020):
``look_up``, ``one_hop``, ``two_hops`` and ``four_hop_path``. Their arguments are a collection: insert a
question, read its answer, delete it. All questions share the edges arranged by ``src`` (and ``dst``, for
paths) and the states arranged by ``node``, so another question costs only its answer.

Label propagation releases integer labels by the length of their binary representation, the small ones some
rounds earlier. Most later labels then find their nodes taken, which saves updates that would be retracted.
The result is the same. The paper's programs do likewise.
"""

from collections.abc import Callable
from typing import Final

from kpg.collections import Collection, Expression, LoopScope, case, conjunction, literal, recursive
from kpg.runtime.errors import InterfaceError


def look_up(state: Collection, questions: Collection) -> Collection:
    """(node, ...): the rows of ``state`` whose ``node`` is asked for, as often as it is."""
    return questions.project("node").join(state, "node")


def one_hop(edges: Collection, state: Collection, questions: Collection) -> Collection:
    """(asked, node, ...): for each ``node`` asked for the states of those that its edges lead to.

    As often as edges and questions occur.
    """
    return _states(_hop(edges, _asked(questions)), state)


def two_hops(edges: Collection, state: Collection, questions: Collection) -> Collection:
    """(asked, node, ...): as :func:`one_hop`, two edges away, once for each way there."""
    return _states(_hop(edges, _hop(edges, _asked(questions))), state)


def four_hop_path(edges: Collection, questions: Collection) -> Collection:
    """(src, dst, hops): for each pair asked for the least number of edges on a path, if it is 4 or less.

    Two hops forward from ``src`` meet two backward from ``dst``. What occurs twice counts once.
    """
    pairs = questions.project("src", "dst").distinct()
    start = pairs.map(lambda p: {"src": p.src, "dst": p.dst, "node": p.src, "hops": 0})
    end = pairs.map(lambda p: {"src": p.src, "dst": p.dst, "node": p.dst, "hops": 0})
    forward = _within_two(start, lambda near: _step(near, edges, "src", "dst"))
    backward = _within_two(end, lambda near: _step(near, edges, "dst", "src"))
    met = forward.join(
        backward,
        ("src", "dst", "node"),
        lambda f, b: {"src": f.src, "dst": f.dst, "hops": f.hops + b.hops},
    )
    return met.min("hops", key=("src", "dst"))


def _asked(questions: Collection) -> Collection:
    return questions.map(lambda q: {"asked": q.node, "node": q.node})


def _hop(edges: Collection, found: Collection) -> Collection:
    return found.join(edges, {"node": "src"}, lambda f, e: {"asked": f.asked, "node": e.dst})


def _states(found: Collection, state: Collection) -> Collection:
    return found.join(state, "node")


def _step(near: Collection, edges: Collection, here: str, there: str) -> Collection:
    return near.join(
        edges,
        {"node": here},
        lambda n, e: {"src": n.src, "dst": n.dst, "node": e[there], "hops": n.hops + 1},
    )


def _within_two(near: Collection, step: Callable[[Collection], Collection]) -> Collection:
    """What is at most two steps away."""
    one = step(near)
    return near.concat(one, step(one))


SPACING: Final = 2
"""Rounds between labels of one length and those of the next."""


def least_labels(nodes: Collection, *edges: Collection) -> Collection:
    """(node, label): the least of the labels given in ``nodes`` (node, label) that come to a node."""
    ordered = nodes.types[1].is_integer

    def body(labels: Collection, loop: LoopScope) -> Collection:
        passed = [
            labels.join(some, {"node": "src"}, lambda a, e: {"node": e.dst, "label": a.label})
            for some in edges
        ]
        released = loop.enter_at(nodes, lambda n: _round(n.label)) if ordered else nodes
        return released.concat(*passed).min("label", key="node")

    return recursive(nodes, body)


def _round(label: Expression, least: int = 0, most: int = 63) -> Expression:
    """The round at which a label is let go: SPACING times the length of its binary number."""
    if least == most:
        return literal(least * SPACING)
    middle = (least + most) // 2
    return case(label < 2**middle, _round(label, least, middle), _round(label, middle + 1, most))


def both_ways(edges: Collection) -> Collection:
    """(src, dst): each edge and its reverse, once."""
    forth = edges.project("src", "dst")
    return forth.concat(forth.rename(src="dst", dst="src")).distinct()


def nodes_of(edges: Collection) -> Collection:
    """(node): the ends of edges."""
    sources = edges.map(lambda e: {"node": e.src})
    return sources.concat(edges.map(lambda e: {"node": e.dst})).distinct()


def connected_components(edges: Collection) -> Collection:
    """(node, component): nodes that paths connect, whichever way edges lead, with the least node of theirs.

    Nodes are the ends of edges. Each round a node takes its neighbours' least label.
    """
    nodes = nodes_of(edges).map(lambda n: {"node": n.node, "label": n.node})
    return least_labels(nodes, edges, edges.rename(src="dst", dst="src")).rename(label="component")


def strongly_connected_components(edges: Collection) -> Collection:
    """(src, dst): the edges whose ends reach each other, as often as they occur.

    The outer loop takes away the edges whose ends differ in the least node that reaches them, or that they
    reach, until none is left to take: two nested loops, not monotone ("Differential dataflow", CIDR 2013).
    """
    return edges.project("src", "dst").iterate(lambda kept: _trimmed(_trimmed(kept)))


def _trimmed(edges: Collection) -> Collection:
    """The reversed edges whose two ends have the same label, passed along edges from the least node."""
    nodes = edges.map(lambda e: {"node": e.dst, "label": e.dst}).distinct()
    labels = least_labels(nodes, edges)
    kept = conjunction("ba", (edges, "ab"), (labels, ("a", "label")), (labels, ("b", "label")))
    return kept.rename(b="src", a="dst")


def label_propagation(edges: Collection, rounds: int) -> Collection:
    """(node, label): communities after ``rounds`` rounds, in each of which all nodes change at once.

    A node begins with itself as label, and takes the label that most of its neighbours have, itself among
    them; of several the least. Edges lead both ways. As in Raghavan, Albert and Kumara (2007), whose nodes
    change one after the other; its own vote keeps a node from changing to and fro in most graphs.
    """
    both = both_ways(edges)
    nodes = both.project("src").distinct()
    voters = both.concat(nodes.map(lambda n: {"src": n.src, "dst": n.src})).distinct()

    def body(labels: Collection) -> Collection:
        votes = labels.join(voters, {"node": "src"}, lambda a, e: {"node": e.dst, "label": a.label})
        counted = votes.count(("node", "label"), "votes")
        return counted.top_k(1, ("-votes", "label"), key="node").project("node", "label")

    return nodes.map(lambda n: {"node": n.src, "label": n.src}).iterate(body, limit=rounds)


def reachability(edges: Collection, roots: Collection) -> Collection:
    """(node): the roots, and the nodes to which a path leads from one of them."""
    start = roots.project("node")

    def body(reached: Collection, _: LoopScope) -> Collection:
        further = reached.join(edges, {"node": "src"}, lambda r, e: {"node": e.dst})
        return further.concat(start).distinct()

    return recursive(start, body)


def distances(edges: Collection, roots: Collection) -> Collection:
    """(node, distance): the least number of edges from a root; 0 for roots, no row for who is not reached."""
    start = roots.map(lambda r: {"node": r.node, "distance": 0})

    def body(found: Collection, _: LoopScope) -> Collection:
        further = found.join(edges, {"node": "src"}, lambda f, e: {"node": e.dst, "distance": f.distance + 1})
        return further.concat(start).min("distance", key="node")

    return recursive(start, body)


def shortest_paths(edges: Collection, roots: Collection) -> Collection:
    """(node, distance): the least sum of the edges' ``weight``, a BIGINT, from a root.

    Weights are not negative: along a cycle whose sum is negative distances fall until they overflow.
    Bellman's equations (1958), solved by rounds of as many edges.
    """
    start = roots.map(lambda r: {"node": r.node, "distance": 0})

    def body(found: Collection, _: LoopScope) -> Collection:
        further = found.join(
            edges, {"node": "src"}, lambda f, e: {"node": e.dst, "distance": f.distance + e.weight}
        )
        return further.concat(start).min("distance", key="node")

    return recursive(start, body)


def transitive_closure(edges: Collection) -> Collection:
    """(src, dst): the pairs with a path of at least one edge from src to dst."""
    start = edges.project("src", "dst")

    def body(closed: Collection, _: LoopScope) -> Collection:
        longer = closed.join(edges, {"dst": "src"}, lambda c, e: {"src": c.src, "dst": e.dst})
        return longer.concat(start).distinct()

    return recursive(start, body)


def same_generation(edges: Collection) -> Collection:
    """(x, y): different children of one parent, and children of parents of the same generation.

    Edges lead from parents to children. So a node can be of its own generation where its parents are
    (as in BigDatalog's program, SIGMOD 2016).
    """
    children = edges if edges.columns == ["src", "dst"] else edges.project("src", "dst")
    siblings = children.join(children, {"src": "src"}, lambda a, b: {"x": a.dst, "y": b.dst})
    start = siblings.filter(lambda r: r.x != r.y)

    def body(same: Collection, _: LoopScope) -> Collection:
        cousins = conjunction("xy", (children, "ax"), (same, "ab"), (children, "by"))
        return cousins.concat(start).distinct()

    return recursive(start, body)


UNIT = 1_000_000
"""The rank of a node that others rank as the average."""


def pagerank(edges: Collection, rounds: int | None = None, damping: int = 85) -> Collection:
    """(node, rank): PageRank in millionths of the average, after ``rounds`` rounds or, without, at the end.

    ``damping`` is in percent. A node's rank is ``(100 - damping)%`` of a million and ``damping%`` of what
    it gets: each edge carries its source's rank divided by the source's edges, twice if it occurs twice.
    Divisions round down. Ranks begin at 0 and only rise, so the rounds come to an end, at 85% in about 40 for
    each three digits. A node without edges out passes nothing on (Brin and Page 1998, unscaled).
    """
    if not 0 <= damping < 100:
        raise InterfaceError(f"damping is a percentage below 100, not {damping!r}")
    nodes = nodes_of(edges)
    degrees = edges.count("src", "degree")
    fixed = UNIT * (100 - damping) // 100
    base = nodes.map(lambda n: {"node": n.node, "rank": fixed})

    def body(ranks: Collection) -> Collection:
        shares = ranks.join(
            degrees,
            {"node": "src"},
            lambda r, d: {"node": r.node, "rank": r.rank * damping / (100 * d.degree)},
        )
        sent = shares.join(edges, {"node": "src"}, lambda s, e: {"node": e.dst, "rank": s.rank})
        total = sent.concat(base).sum("rank", key="node")
        return total.map(lambda r: {"node": r.node, "rank": r.rank.cast(int)})

    return base.filter(lambda r: r.rank < 0).iterate(body, limit=rounds)


def k_core(edges: Collection, k: int) -> Collection:
    """(node): the nodes of the largest part in which each has at least ``k`` neighbours, itself not counted.

    Nodes with fewer are taken away, and their edges, until none is left to take (Seidman 1983).
    """
    if k < 1:
        raise InterfaceError(f"the core of a graph takes a positive number of neighbours, not {k!r}")

    def body(left: Collection) -> Collection:
        nodes = left.count("src", "degree").filter(lambda r: r.degree >= k).project("src")
        outgoing = left.join(nodes, {"src": "src"}, lambda e, _: e)
        return outgoing.join(nodes, {"dst": "src"}, lambda e, _: e)

    both = both_ways(edges.filter(lambda e: e.src != e.dst))
    return both.iterate(body).map(lambda e: {"node": e.src}).distinct()


def triangles(edges: Collection) -> Collection:
    """(a, b, c), a < b < c: three nodes joined by edges, whichever way these lead.

    One delta join: a change of an edge is looked up in indexes of the others; no paths of two edges are kept.
    """
    apart = edges.filter(lambda e: e.src != e.dst)
    upward = apart.map(
        lambda e: {"src": case(e.src < e.dst, e.src, e.dst), "dst": case(e.src < e.dst, e.dst, e.src)}
    ).distinct()
    return conjunction("abc", (upward, "ab"), (upward, "bc"), (upward, "ac"))
