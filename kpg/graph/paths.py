"""Following edges: who is reached, by how many or how heavy edges, and which pairs are related."""

from kpg.collections import Collection, LoopScope, conjunction, recursive


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
