"""Graph computations kept up to date while edges come and go, as collections of collections.

Edges are a collection with columns ``src`` and ``dst`` (``weight`` where it is said), nodes one with a column
``node``; each of any type. Other columns are left aside, and an edge that occurs twice counts once unless
it is said. Arrangements by ``src`` or ``dst`` are shared: give ``edges.arrange_by_key("src")`` to several.
``paths`` follows edges, ``components`` labels nodes, ``ranking`` and ``subgraphs`` weigh and cut, and
``interactive`` has the queries whose arguments are collections too.
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
