"""A merge of two adjacent batches, carried out in steps of bounded work."""

from collections.abc import Callable

import numpy as np

from kpg.runtime.kernels import merge
from kpg.runtime.progress.antichain import Antichain, Time, least_upper_bound, precedes
from kpg.runtime.trace.batch import SMALL, Batch, Directory
from kpg.runtime.trace.updates import Updates, Words, multiplicity_overflow

COPIES_PER_ROW = 8
"""Words moved in the time that merging one row takes."""


class Merge:
    """Merges ``older`` and ``newer`` (``older.upper == newer.lower``) into ``result``.

    ``since`` is the frontier that times are compacted to, fixed when the merge begins; None leaves
    them. The sources stay readable until ``result`` is there. A row's whole history is one unit of work.
    """

    def __init__(self, older: Batch, newer: Batch, since: Antichain | None) -> None:
        self.older = older
        self.newer = newer
        self.result: Batch | None = None
        self._batch: Batch | None = None
        self._since = older.since.join(newer.since)
        self._floor: Time = (0,) * older.time.shape[0]
        floor = since.floor() if since is not None else None
        if since is not None and floor is not None:
            self._since = self._since.join(since)
            self._floor = floor
        self._total = len(older) + len(newer)
        self._data = np.empty(older.data.shape[0] * self._total, np.int64)
        self._state: Words = np.zeros(4, np.int64)
        self._time = self._compacted_time()
        self._times: Words | None = None
        self._diffs: Words | None = None
        self._moved = 0
        self._directory: Directory | None = None
        self._stage: Callable[[Merge, int], int] = self._choose_stage()

    def __len__(self) -> int:
        return self._total

    @property
    def upper(self) -> Antichain:
        """Upper frontier of the result."""
        return self.newer.upper

    @property
    def nbytes(self) -> int:
        """Bytes of the unfinished output."""
        parts = (self._data, self._times, self._diffs)
        return sum(part.nbytes for part in parts if part is not None)

    def advance(self, limit: int) -> int:
        """Spend about ``limit`` rows of work; returns the rows spent. ``result`` is set once it is done.

        Raises DataError, now and ever after, where a sum of diffs does not fit 64 bits.
        """
        spent = 0
        while spent < limit and self.result is None:
            spent += self._stage(self, limit - spent)
        return spent

    def _compacted_time(self) -> Words | None:
        """The one time of all updates after compaction, ``[depth, 1]``; None if there are several."""
        floor = np.array(self._floor, np.int64).reshape(-1, 1)
        if precedes(self.older.latest, self._floor) and precedes(self.newer.latest, self._floor):
            return floor
        if self.older.constant_time and self.newer.constant_time:
            older = np.maximum(self.older.time, floor)
            if (older == np.maximum(self.newer.time, floor)).all():
                return older
        return None

    def _choose_stage(self) -> "Callable[[Merge, int], int]":
        if self._time is None:
            self._times = np.empty(self.older.time.shape[0] * self._total, np.int64)
            self._diffs = np.empty(self._total, np.int64)
            return Merge._merge_histories
        older, newer = self.older, self.newer
        distinct = older.constant_time and newer.constant_time
        if distinct and older.constant_diff and newer.constant_diff and older.diff[0] == newer.diff[0]:
            return Merge._merge_distinct
        self._diffs = np.empty(self._total, np.int64)
        return Merge._merge_rows

    def _output(self) -> Words:
        return self._data.reshape(self.older.data.shape[0], self._total)

    def _merge_distinct(self, limit: int) -> int:
        spent: int = merge.merge_distinct(
            self.older.data, self.newer.data, self._output(), self._state, limit
        )
        if self._state[3] == merge.DUPLICATE:
            self._diffs = np.empty(self._total, np.int64)
            self._diffs[: self._state[2]] = self.older.diff[0]
            self._state[3] = 0
            self._stage = Merge._merge_rows
        return self._merged(spent)

    def _merge_rows(self, limit: int) -> int:
        older, newer = self.older, self.newer
        spent: int = merge.merge_rows(
            older.data, older.diff, newer.data, newer.diff, self._output(), self._diffs, self._state, limit
        )
        return self._merged(spent)

    def _merge_histories(self, limit: int) -> int:
        older, newer = self.older, self.newer
        assert self._times is not None
        spent: int = merge.merge_histories(
            older.data,
            older.time,
            older.diff,
            newer.data,
            newer.time,
            newer.diff,
            np.array(self._floor, np.int64),
            self._output(),
            self._times.reshape(-1, self._total),
            self._diffs,
            self._state,
            limit,
        )
        return self._merged(spent)

    def _merged(self, spent: int) -> int:
        if self._state[3] & merge.OVERFLOW:
            raise multiplicity_overflow()
        if self._state[0] + self._state[1] == self._total:
            self._stage = Merge._trim
        return spent

    def _trim(self, limit: int) -> int:
        """Close the gaps that dropped rows leave between the columns, and between coordinates of times."""
        count = int(self._state[2])
        width = self.older.data.shape[0]
        columns = width if self._times is None else width + self.older.time.shape[0]
        spent = 0
        while count < self._total and self._moved < columns * count and spent < limit:
            column, row = divmod(self._moved, count)
            array, place = (self._data, column) if column < width else (self._times, column - width)
            assert array is not None
            rows = min(count - row, (limit - spent) * COPIES_PER_ROW)
            source, target = place * self._total + row, place * count + row
            array[target : target + rows] = array[source : source + rows]
            self._moved += rows
            spent += -(-rows // COPIES_PER_ROW)
        if count == self._total or self._moved == columns * count:
            self._finish(count)
        return spent

    def _finish(self, count: int) -> None:
        """Have the result, in the arrays that are there: to copy them takes long where there is much."""
        older, newer = self.older, self.newer
        width, depth = older.data.shape[0], older.time.shape[0]
        if count < self._total:
            self._data.resize(width * count, refcheck=False)
            if self._times is not None:
                self._times.resize(depth * count, refcheck=False)
        diff = older.diff
        if self._diffs is not None:
            diff = self._diffs[:1].copy()
            if self._state[3] & merge.UNEQUAL:
                self._diffs.resize(count, refcheck=False)
                diff = self._diffs
        time = self._time
        if time is None:
            assert self._times is not None
            time = self._times.reshape(depth, count)
        latest = least_upper_bound(least_upper_bound(older.latest, newer.latest), self._floor)
        updates = Updates(self._data.reshape(width, count), time, diff)
        self._data = np.empty(0, np.int64)
        self._times = self._diffs = None
        self._batch = Batch(updates, older.lower, newer.upper, self._since, latest)
        if count > SMALL and (older.searched or newer.searched):
            self._directory = Directory(self._batch.data[0])
            self._stage = Merge._build_directory
        else:
            self.result = self._batch

    def _build_directory(self, limit: int) -> int:
        """Sources were searched much, so the result will be: not to be left to the first search."""
        assert self._directory is not None and self._batch is not None
        spent = self._directory.build(limit * COPIES_PER_ROW) // COPIES_PER_ROW
        if self._directory.complete:
            self._batch.install(self._directory)
            self.result = self._batch
        return spent + 1
