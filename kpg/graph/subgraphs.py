"""Parts of an undirected graph: cores and triangles."""

from kpg.collections import Collection, case, conjunction
from kpg.graph.components import both_ways
from kpg.runtime.errors import InterfaceError


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
