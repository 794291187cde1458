"""Rows that do not change, found by the values of any of their columns."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]
Places = tuple[int, ...]
SCANS: Final = 24
"""So many lookups by the same columns scan all rows; then an index pays."""
PIECE: Final = 1 << 14
"""Matches given at a time, about."""
MIXER: Final = np.uint64(0xFF51AFD7ED558CCD)


class Rows:
    """Rows ``data int64[w, n]``. An index is made of the columns that are often looked up."""

    def __init__(self, data: Words, ranks: Words | None = None) -> None:
        self.data = data
        self.ranks = ranks
        self._scans: dict[Places, int] = {}
        self._indexes: dict[Places, tuple[NDArray[np.uint64], Words]] = {}

    def __len__(self) -> int:
        return self.data.shape[1]

    def matches(self, places: Places, values: Words) -> Iterator[tuple[Words, Words]]:
        """Pairs of a position in ``values[k, m]`` and a row with those values at ``places``, in pieces."""
        m = values.shape[1]
        if not places:
            yield from self._product(m)
            return
        done = self._scans.get(places, 0)
        if places not in self._indexes and done + m <= SCANS:
            self._scans[places] = done + m
            for position in range(m):
                rows = self._scan(places, values[:, position])
                for start in range(0, rows.shape[0], PIECE):
                    piece = rows[start : start + PIECE]
                    yield np.full(piece.shape[0], position, np.int64), piece
            return
        yield from self._by_index(places, values)

    def _product(self, m: int) -> Iterator[tuple[Words, Words]]:
        n = len(self)
        for position in range(m):
            for start in range(0, n, PIECE):
                piece = np.arange(start, min(start + PIECE, n), dtype=np.int64)
                yield np.full(piece.shape[0], position, np.int64), piece

    def _scan(self, places: Places, values: Words) -> Words:
        found = self.data[places[0]] == values[0]
        for place, value in zip(places[1:], values[1:], strict=True):
            found &= self.data[place] == value
        return np.flatnonzero(found)

    def _by_index(self, places: Places, values: Words) -> Iterator[tuple[Words, Words]]:
        hashes, order = self._index(places)
        wanted = _hashes(values)
        first = np.searchsorted(hashes, wanted, "left")
        counts = np.searchsorted(hashes, wanted, "right") - first
        ends = np.cumsum(counts)
        start = 0
        while start < values.shape[1]:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + PIECE, "right")))
            for part in range(0, int(ends[stop - 1]) - before, PIECE):
                yield self._verified(places, values, order, first, counts, (start, stop), part)
            start = stop

    def _verified(
        self,
        places: Places,
        values: Words,
        order: Words,
        first: Words,
        counts: Words,
        span: tuple[int, int],
        part: int,
    ) -> tuple[Words, Words]:
        """The matches from ``part`` on of the values in ``span``, without those that share a hash only."""
        start, stop = span
        sizes = counts[start:stop]
        total = int(sizes.sum())
        within = np.arange(part, min(part + PIECE, total), dtype=np.int64)
        ends = np.cumsum(sizes)
        which = np.searchsorted(ends, within, "right")
        left = which + start
        right = order[first[left] + within - (ends - sizes)[which]]
        same = np.ones(right.shape[0], np.bool_)
        for place, row in zip(places, values, strict=True):
            same &= self.data[place][right] == row[left]
        return left[same], right[same]

    def _index(self, places: Places) -> tuple[NDArray[np.uint64], Words]:
        found = self._indexes.get(places)
        if found is None:
            hashes = _hashes(self.data[list(places)])
            order = np.argsort(hashes, kind="stable")
            found = self._indexes[places] = hashes[order], order
        return found


def _hashes(columns: Words) -> NDArray[np.uint64]:
    """A hash of each row ``int64[k, n]``."""
    found = np.zeros(columns.shape[1], np.uint64)
    for column in columns:
        found = (found ^ column.view(np.uint64)) * MIXER
        found ^= found >> np.uint64(32)
    return found
