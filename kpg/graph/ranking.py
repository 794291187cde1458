"""PageRank in whole numbers."""

from kpg.collections import Collection
from kpg.graph.components import nodes_of
from kpg.runtime.errors import InterfaceError

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
