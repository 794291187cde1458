"""Labels that spread along edges: components, and communities."""

from kpg.collections import Collection, conjunction
from kpg.graph.labels import least_labels


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
