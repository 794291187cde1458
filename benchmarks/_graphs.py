"""The graphs of the Datalog and graph experiments, and how many pairs their closures have.

Definitions after K-Pg's section 6.3 and BigDatalog: nodes are numbered from 0, in random order where the
shape would show in the numbers.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Edges = NDArray[np.int64]
"""``int64[2, n]``: sources, targets."""


def grid(size: int, seed: int = 1) -> Edges:
    """``size + 1`` times ``size + 1`` nodes, edges right and down."""
    n = size + 1
    names = np.random.default_rng(seed).permutation(n * n).astype(np.int64).reshape(n, n)
    right = np.stack((names[:, :-1].ravel(), names[:, 1:].ravel()))
    down = np.stack((names[:-1].ravel(), names[1:].ravel()))
    return np.ascontiguousarray(np.concatenate((right, down), axis=1))


def grid_closure(size: int) -> int:
    """Pairs of the transitive closure of a grid."""
    n = size + 1
    return (n * (n + 1) // 2) ** 2 - n * n


def grid_generations(size: int) -> int:
    """Pairs of nodes of the same generation in a grid, ``sg(x, x)`` included where it is derived."""

    def pairs(m: int) -> int:
        return m * (m + 1) * (m - 1) // 3

    return pairs(size + 1) + pairs(size) + size * size


LEVELS_OF_TREE_11 = (1, 2, 10, 19, 47, 85, 220, 547, 1342, 3046, 7306, 17242, 41524)


def tree(levels: tuple[int, ...] = LEVELS_OF_TREE_11, seed: int = 1) -> Edges:
    """Edges from parents to children of a tree with so many nodes on each level, spread at random."""
    rng = np.random.default_rng(seed)
    total = sum(levels)
    names = rng.permutation(total).astype(np.int64)
    parents, first = [], 0
    for above, here in pairwise(levels):
        parents.append(first + rng.integers(0, above, here))
        first += above
    children = np.arange(1, total, dtype=np.int64)
    return np.stack((names[np.concatenate(parents)], names[children]))


def gnp(nodes: int, edges: int, seed: int = 1) -> Edges:
    """A random directed graph with so many distinct edges, loops among them."""
    rng = np.random.default_rng(seed)
    codes = np.unique(rng.integers(0, nodes * nodes, edges + edges // 8 + 64))
    chosen = rng.permutation(codes)[:edges]
    return np.ascontiguousarray(np.stack((chosen // nodes, chosen % nodes)).astype(np.int64))


def uniform(nodes: int, edges: int, seed: int = 1) -> Edges:
    """Edges between random nodes, repetitions allowed."""
    return np.random.default_rng(seed).integers(0, nodes, (2, edges)).astype(np.int64)
