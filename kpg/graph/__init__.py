"""Incremental graph algorithms, as functions from collections to collections.

Edges are a collection with columns ``src`` and ``dst`` (``weight`` where documented). Nodes are a collection
with a column ``node``. The columns may have any type, and other columns are ignored. A repeated edge counts
once unless documented otherwise. Arrangements by ``src`` or ``dst`` are shared: pass
``edges.arrange_by_key("src")`` to several algorithms.
"""

from kpg.collections import conjunction
from kpg.graph.algorithms import (
    connected_components,
    distances,
    four_hop_path,
    k_core,
    label_propagation,
    look_up,
    one_hop,
    pagerank,
    reachability,
    same_generation,
    shortest_paths,
    strongly_connected_components,
    transitive_closure,
    triangles,
    two_hops,
)

__all__ = [
    "conjunction",
    "connected_components",
    "distances",
    "four_hop_path",
    "k_core",
    "label_propagation",
    "look_up",
    "one_hop",
    "pagerank",
    "reachability",
    "same_generation",
    "shortest_paths",
    "strongly_connected_components",
    "transitive_closure",
    "triangles",
    "two_hops",
]
