"""Rows of partitions one after the other, and where partitions and groups of peers begin and end.

Places are positions among all rows, those of a partition being adjacent and in its order.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.records import dataclass

Words = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Layout:
    """Rows ``data int64[width, n]``; all others have an element for each row.

    ``start`` and ``end`` bound its partition, ``peer_start`` and ``peer_end`` its peers. ``group`` numbers
    the groups of peers of all partitions, which begin at ``group_starts``.
    """

    data: Words
    start: Words
    end: Words
    peer_start: Words
    peer_end: Words
    group: Words
    group_starts: Words
    skipped: int = 0
    """Rows of the partition (the only one) that are before these and are left out; of the groups of peers,"""
    skipped_groups: int = 0
    """as many."""
    skipped_behind: int = 0
    """Rows of the partition that are behind these and are left out."""

    @property
    def places(self) -> Words:
        """The place of each row."""
        return np.arange(self.start.shape[0], dtype=np.int64)

    @property
    def sizes(self) -> Words:
        """How many rows the partition of each row has."""
        return self.end - self.start + self.skipped + self.skipped_behind

    @property
    def group_ends(self) -> Words:
        """Where each group of peers ends."""
        return np.append(self.group_starts[1:], self.start.shape[0])


def laid_out(data: Words, partition: Words, peers: Sequence[int]) -> Layout:
    """The layout of rows, given the number of each one's partition, ascending."""
    size = partition.shape[0]
    first = np.ones(size, np.bool_)
    first[1:] = partition[1:] != partition[:-1]
    start, end = _runs(first)
    fresh = first.copy()
    for column in peers:
        fresh[1:] |= data[column, 1:] != data[column, :-1]
    peer_start, peer_end = _runs(fresh)
    group = np.cumsum(fresh) - 1
    return Layout(data, start, end, peer_start, peer_end, group, np.flatnonzero(fresh))


def _runs(first: NDArray[np.bool_]) -> tuple[Words, Words]:
    """For each element, where its run begins and ends; ``first`` marks the beginnings."""
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], first.shape[0])[: starts.shape[0]]
    sizes = ends - starts
    return np.repeat(starts, sizes), np.repeat(ends, sizes)
