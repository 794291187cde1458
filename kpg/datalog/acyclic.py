"""Whether steps from one column of a table to another can come back to where they began, as it is now."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.engine.table import Table

Words = NDArray[np.int64]
MOST_ROUNDS: Final = 1024
"""Longer chains count as cycles: counting by levels would not go that far."""


class Acyclic:
    """The pairs of single columns (table, from, to) without cycles, found out when one is looked for."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables

    def __contains__(self, pair: object) -> bool:
        if not isinstance(pair, tuple) or len(pair) != 3:
            return False
        name, start, end = pair
        table = self._tables.get(name)
        if table is None or len(start) != 1 or len(end) != 1:
            return False
        return is_acyclic(*table.scan((start[0], end[0])))


def is_acyclic(start: Words, end: Words, most: int = MOST_ROUNDS) -> bool:
    """Whether the edges ``start[i] -> end[i]`` have no cycle, nor a path of more than ``most`` edges.

    Takes away nodes that no edge leads to until none is left: O(n log n), and ``most`` rounds.
    """
    nodes, places = np.unique(np.concatenate((start, end)), return_inverse=True)
    source, target = places[: start.shape[0]], places[start.shape[0] :]
    order = np.argsort(source, kind="stable")
    target = target[order]
    first = np.searchsorted(source[order], np.arange(nodes.shape[0] + 1))
    incoming = np.bincount(target, minlength=nodes.shape[0])
    free = np.flatnonzero(incoming == 0)
    left = nodes.shape[0]
    for _ in range(most + 1):
        left -= free.shape[0]
        counts = first[free + 1] - first[free]
        total = int(counts.sum())
        if not left or not total:
            break
        offsets = np.repeat(first[free] - np.cumsum(counts) + counts, counts)
        reached, times = np.unique(target[offsets + np.arange(total)], return_counts=True)
        incoming[reached] -= times
        free = reached[incoming[reached] == 0]
    return left == 0
