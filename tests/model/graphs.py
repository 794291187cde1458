"""Small graphs as sets of edges, and what is known of them in closed form."""

import random

Edges = frozenset[tuple[int, int]]


def grid(size: int) -> Edges:
    """Points (0..size)², edges to the right and down; the point (i, j) is i * (size + 1) + j."""
    side = size + 1
    right = {(i * side + j, i * side + j + 1) for i in range(side) for j in range(size)}
    down = {(i * side + j, (i + 1) * side + j) for i in range(size) for j in range(side)}
    return frozenset(right | down)


def binary_tree(levels: int) -> Edges:
    """From parent to child; the root is 1, the children of n are 2n and 2n + 1."""
    return frozenset((child // 2, child) for child in range(2, 2 ** (levels + 1)))


def chain(length: int) -> Edges:
    return frozenset((node, node + 1) for node in range(length))


def any_graph(nodes: int, edges: int, seed: int) -> Edges:
    """At most so many random edges, loops among them."""
    choice = random.Random(seed)
    return frozenset((choice.randrange(nodes), choice.randrange(nodes)) for _ in range(edges))


def acyclic(nodes: int, edges: int, seed: int) -> Edges:
    """As :func:`any_graph`, from greater to smaller numbers only."""
    return frozenset((max(e), min(e)) for e in any_graph(nodes, edges, seed) if e[0] != e[1])


def grid_tc(size: int) -> int:
    """How many pairs the transitive closure of a grid has."""
    side = size + 1
    return (side * (side + 1) // 2) ** 2 - side**2


def grid_sg(size: int) -> int:
    """How many pairs of the same generation a grid has: those of one parent being different."""

    def pairs(m: int) -> int:
        return m * (m + 1) * (m - 1) // 3

    return pairs(size + 1) + pairs(size) + size**2
