"""Group tables, the state of accumulable reduces: a hash table from group key to accumulators.

Accumulators hold sums and counts, so a group takes O(1) words whatever its size. A step accumulates its
updates, emits the changes, then commits, or rolls back to the previous accumulators of each touched group.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels import groups as kernels
from kpg.runtime.kernels import moments
from kpg.runtime.kernels.accumulators import NULL, SUM_DOUBLE_WORDS
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates, multiplicity_overflow
from kpg.runtime.versions import replaced

Words = NDArray[np.int64]
MINIMUM = 64
"""Groups of an empty table: most operators of a small query have few."""
PORTION = 1 << 14
"""Rows for which room is made at a time, as if each were a new group."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One aggregate's state: its kind (see ``runtime/kernels/accumulators.py``) and operand column."""

    kind: int
    column: int
    second: int = -1
    """The column of the second operand, of those that have two."""


def _specification(accumulators: tuple[Accumulator, ...]) -> tuple[Words, int]:
    """The kernels' ``spec`` array and the number of accumulator words."""
    spec = np.zeros((len(accumulators), 4), np.int64)
    offset = 1
    for i, accumulator in enumerate(accumulators):
        spec[i] = (accumulator.kind, accumulator.column, offset, accumulator.second)
        offset += state_words(accumulator.kind)
    return spec, offset


def state_words(kind: int) -> int:
    """How many words the state of an accumulator has."""
    double = kind in (moments.SPREAD_DOUBLE, moments.COMOMENT_DOUBLE)
    sums = moments.DOUBLE_LIMBS if double else moments.SUM_LIMBS
    products = moments.DOUBLE_PRODUCT_LIMBS if double else moments.PRODUCT_LIMBS
    match kind:
        case kernels.COUNT:
            return 1
        case kernels.SUM:
            return 3
        case kernels.SUM_DOUBLE:
            return SUM_DOUBLE_WORDS
        case moments.SPREAD | moments.SPREAD_DOUBLE:
            return 2 + sums + products
        case moments.COMOMENT | moments.COMOMENT_DOUBLE:
            return 2 + 2 * sums + products
        case _:
            return 1 + moments.BITS


class GroupTable:
    """Accumulators of each distinct value of the first ``key`` columns of the updates it is fed."""

    def __init__(self, key: int, accumulators: tuple[Accumulator, ...]) -> None:
        self.key = key
        self.spec, self.words = _specification(accumulators)
        self.slots = np.zeros(MINIMUM * 2, np.int64)
        self.table: Words = np.empty((MINIMUM, 1 + key + self.words), np.int64)
        self.free = np.empty(MINIMUM, np.int64)
        self.state = np.zeros(kernels.STATE_FIELDS, np.int64)
        self.state[kernels.MARKER] = 1
        self.version = 0
        """Another whenever one of the arrays is replaced."""
        self.touched = np.empty(MINIMUM, np.int64)
        self.old: Words = np.empty((MINIMUM, self.words), np.int64)
        self.new: Words = np.empty((0, self.words), np.int64)
        self.when = np.empty(0, np.int64)

    def __len__(self) -> int:
        """The number of groups held."""
        return int(self.state[kernels.LIVE])

    @property
    def marker(self) -> int:
        """What tells the step in progress from others."""
        return int(self.state[kernels.MARKER])

    @property
    def bytes(self) -> int:
        """Bytes of all state arrays, in use or reserved."""
        arrays = (self.slots, self.table, self.free, self.touched, self.old, self.new, self.when)
        return sum(array.nbytes for array in arrays)

    @property
    def entries(self) -> int:
        """How many (group, time) pairs this step has touched."""
        return int(self.state[kernels.ENTRIES])

    def accumulate(self, updates: Updates) -> None:
        """Add updates that all bear the step's one time. DataError if a count does not fit 64 bits."""
        n = len(updates)
        for first in range(0, n, PORTION):
            last = min(first + PORTION, n)
            self._reserve(last - first)
            self._accumulate(updates.data, updates.diff, first, last)
        self.check()

    def _accumulate(self, data: Words, diff: Words, first: int, last: int) -> None:
        kernels.accumulate(
            data, diff, first, last, self.key, self.spec, self.slots, self.table,
            self.marker, self.free, self.touched, self.old, self.state,
        )  # fmt: skip

    def check(self) -> None:
        """DataError if a count of the step does not fit 64 bits."""
        if self.state[kernels.OVERFLOW]:
            raise multiplicity_overflow()

    def refresh(self, updates: Updates, what: int) -> tuple[Words, Words]:
        """Add all updates of a step, few and at one time, and say what changes: (data, diff).

        ``what`` is ``kernels.SUMS``, ``SIGNS`` or ``MULTIPLICITIES``. DataError if a count does
        not fit 64 bits.
        """
        n = updates.data.shape[1]
        self._reserve(n)
        width = self.key + (self.spec.shape[0] if what == kernels.SUMS else 0)
        out, diff = np.empty(2 * n * width, np.int64), np.empty(2 * n, np.int64)
        count = kernels.refresh(
            updates.data, updates.diff, what, self.key, self.spec, self.slots, self.table, self.marker,
            self.free, self.touched, self.old, self.state, out, diff,
        )  # fmt: skip
        self.check()
        return out[: width * count].reshape(width, count), diff[:count]

    @property
    def doubtful(self) -> bool:
        """Whether a word that the last refresh put out may be out of its type's range."""
        return bool(self.state[kernels.DOUBTFUL])

    def accumulate_times(self, updates: Updates) -> None:
        """Add updates of several times, all of this step's, in time order (lexicographic).

        DataError if a count does not fit 64 bits.
        """
        n = len(updates)
        self._reserve(n)
        times = updates.times()
        order = np.lexsort(times[::-1])
        self.new = np.empty((n, self.words), np.int64)
        self.when = np.empty(n, np.int64)
        self.state[kernels.MARKER] = kernels.accumulate_times(
            updates.data, times, updates.diff, order, self.key, self.spec, self.slots, self.table,
            self.marker, self.free, self.touched, self.old, self.new, self.when, self.state,
        )  # fmt: skip
        self.check()

    def touch_empty(self) -> None:
        """Make the one group of an empty key exist, as not yet output."""
        if self.entries == 0:
            nothing = np.empty((0, 1), np.int64)
            if self.spec.shape[0]:
                nothing = np.full((int(self.spec[:, (1, 3)].max()) + 1, 1), NULL, np.int64)
            self._accumulate(nothing, np.zeros(1, np.int64), 0, 1)
        self.old[0, 0] = NULL

    def emit(self, single_time: bool) -> tuple[Words, Words, Words]:
        """The change of the output rows: (data, diff, entry of each)."""
        entries = self.entries
        new = self._current(entries) if single_time else self.new
        out = np.empty((self.key + self.spec.shape[0], 2 * entries), np.int64)
        diff = np.empty(2 * entries, np.int64)
        entry = np.empty(2 * entries, np.int64)
        n = kernels.emit(
            self.touched, self.old, new, entries, self.table, self.key, self.spec, out, diff, entry
        )
        return np.ascontiguousarray(out[:, :n]), diff[:n], entry[:n]

    def emit_threshold(self, single_time: bool, distinct: bool) -> tuple[Words, Words, Words]:
        """The change of each key's (sign of) positive multiplicity: (data, diff, entry of each)."""
        entries = self.entries
        new = self._current(entries) if single_time else self.new
        out = np.empty((self.key, entries), np.int64)
        diff = np.empty(entries, np.int64)
        entry = np.empty(entries, np.int64)
        n = kernels.emit_threshold(
            self.touched, self.old, new, entries, self.table, self.key, int(distinct), out, diff, entry
        )
        return np.ascontiguousarray(out[:, :n]), diff[:n], entry[:n]

    def counts(self, single_time: bool) -> Words:
        """The multiplicity of each touched group after the step, or after each of its times."""
        new = self._current(self.entries) if single_time else self.new
        return new[: self.entries, 0]

    def accumulators(self, numbers: Words) -> Words:
        """The present accumulators ``int64[len(numbers), words]`` of the given groups."""
        new = np.empty((numbers.shape[0], self.words), np.int64)
        kernels.current(numbers, self.table, self.key, new)
        return new

    def _current(self, entries: int) -> Words:
        return self.accumulators(self.touched[:entries])

    def groups(self) -> Words:
        """The numbers of all groups held."""
        listed = self.slots[self.slots != 0]
        return listed - 1

    def commit(self) -> None:
        """Keep the step's changes and forget groups that have become empty."""
        self._finish()

    def rollback(self) -> None:
        """Give every touched group the accumulators it had before the step."""
        entries = self.entries
        touched, old = self.touched[:entries][::-1], self.old[:entries][::-1]
        fresh = old[:, 0] == NULL
        self.table[touched, 1 + self.key :] = np.where(fresh[:, None], 0, old) if fresh.any() else old
        self._finish()

    def _finish(self) -> None:
        kernels.finish(self.touched, self.spec, self.key, self.slots, self.table, self.free, self.state)
        if self.when.shape[0]:
            self.new = np.empty((0, self.words), np.int64)
            self.when = np.empty(0, np.int64)
        if self.touched.shape[0] > 1 << 16:
            self.touched = np.empty(MINIMUM, np.int64)
            self.old = np.empty((MINIMUM, self.words), np.int64)
            self.version = replaced()

    def _reserve(self, n: int) -> None:
        """Room for n more groups and n more entries."""
        allotted, freed, entries, live = self.state[: kernels.SINK].tolist()
        if allotted + n > self.table.shape[0]:
            capacity = max(4 * allotted, allotted + n) + n
            self.table = _grown(self.table, capacity, allotted)
            self.free = _grown(self.free, capacity, freed)
            self.version = replaced()
        if 2 * (live + n) > self.slots.shape[0]:
            slots = np.zeros(1 << (4 * (live + n) - 1).bit_length(), np.int64)
            kernels.rebuild(self.slots, slots, self.table, self.key)
            self.slots = slots
            self.version = replaced()
        if entries + n > self.touched.shape[0]:
            capacity = max(2 * self.touched.shape[0], entries + n)
            self.touched = _grown(self.touched, capacity, entries)
            self.old = _grown(self.old, capacity, entries)
            self.version = replaced()


def _grown(array: Words, capacity: int, used: int) -> Words:
    """Room for ``capacity`` rows, with the first ``used`` of the array."""
    larger = np.empty((capacity, *array.shape[1:]), np.int64)
    larger[:used] = array[:used]
    return larger


def chunks(numbers: Words, size: int = 1 << 18) -> Iterator[Words]:
    """The array in slices of at most ``size``."""
    for start in range(0, numbers.shape[0], size):
        yield numbers[start : start + size]
