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
from kpg.runtime.versions import next_version

Words = NDArray[np.int64]
MINIMUM_GROUPS = 64
"""Groups for which an empty table has room; most operators of a small query have few."""
CHUNK_ROWS = 1 << 14
"""Rows accumulated at a time; room is reserved as if each were a new group."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """State layout of one aggregate: kind (``runtime/kernels/accumulators.py``) and operand column."""

    kind: int
    column: int
    second: int = -1
    """Column of the second operand; -1 if there is none."""


def _specification(accumulators: tuple[Accumulator, ...]) -> tuple[Words, int]:
    """Return the kernels' ``spec`` array and the number of accumulator words."""
    spec = np.zeros((len(accumulators), 4), np.int64)
    offset = 1
    for i, accumulator in enumerate(accumulators):
        spec[i] = (accumulator.kind, accumulator.column, offset, accumulator.second)
        offset += state_words(accumulator.kind)
    return spec, offset


def state_words(kind: int) -> int:
    """Return the number of words of an accumulator's state."""
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
    """Accumulators by group; the group key is the first ``key`` columns of the accumulated updates."""

    def __init__(self, key: int, accumulators: tuple[Accumulator, ...]) -> None:
        self.key = key
        self.spec, self.words = _specification(accumulators)
        self.slots = np.zeros(MINIMUM_GROUPS * 2, np.int64)
        self.table: Words = np.empty((MINIMUM_GROUPS, 1 + key + self.words), np.int64)
        self.free = np.empty(MINIMUM_GROUPS, np.int64)
        self.state = np.zeros(kernels.STATE_FIELDS, np.int64)
        self.state[kernels.MARKER] = 1
        self.version = 0
        """Version of the arrays; changes whenever one of them is replaced."""
        self.touched_groups = np.empty(MINIMUM_GROUPS, np.int64)
        self.old: Words = np.empty((MINIMUM_GROUPS, self.words), np.int64)
        self.new: Words = np.empty((0, self.words), np.int64)
        self.when = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Return the number of groups."""
        return int(self.state[kernels.LIVE])

    @property
    def marker(self) -> int:
        """Number that identifies the step in progress."""
        return int(self.state[kernels.MARKER])

    @property
    def bytes(self) -> int:
        """Bytes of all state arrays, including unused room."""
        arrays = (self.slots, self.table, self.free, self.touched_groups, self.old, self.new, self.when)
        return sum(array.nbytes for array in arrays)

    @property
    def entries(self) -> int:
        """Number of (group, time) pairs that this step has touched."""
        return int(self.state[kernels.ENTRIES])

    def accumulate(self, updates: Updates) -> None:
        """Add updates of a step with a single time.

        Raises:
            DataError: If a count does not fit 64 bits.
        """
        n = len(updates)
        for first in range(0, n, CHUNK_ROWS):
            last = min(first + CHUNK_ROWS, n)
            self._reserve(last - first)
            self._accumulate(updates.data, updates.diff, first, last)
        self.check_overflow()

    def _accumulate(self, data: Words, diff: Words, first: int, last: int) -> None:
        kernels.accumulate(
            data, diff, first, last, self.key, self.spec, self.slots, self.table,
            self.marker, self.free, self.touched_groups, self.old, self.state,
        )  # fmt: skip

    def check_overflow(self) -> None:
        """Raise DataError if a count of the step does not fit 64 bits."""
        if self.state[kernels.OVERFLOW]:
            raise multiplicity_overflow()

    def refresh(self, updates: Updates, output_kind: int) -> tuple[Words, Words]:
        """Add all updates of a small step with a single time and return the output changes: (data, diff).

        ``output_kind`` is ``kernels.SUMS``, ``SIGNS`` or ``MULTIPLICITIES``.

        Raises:
            DataError: If a count does not fit 64 bits.
        """
        n = updates.data.shape[1]
        self._reserve(n)
        width = self.key + (self.spec.shape[0] if output_kind == kernels.SUMS else 0)
        out, diff = np.empty(2 * n * width, np.int64), np.empty(2 * n, np.int64)
        count = kernels.refresh(
            updates.data, updates.diff, output_kind, self.key, self.spec, self.slots, self.table, self.marker,
            self.free, self.touched_groups, self.old, self.state, out, diff,
        )  # fmt: skip
        self.check_overflow()
        return out[: width * count].reshape(width, count), diff[:count]

    @property
    def may_be_out_of_range(self) -> bool:
        """Whether a word of the last refresh may be out of its type's range."""
        return bool(self.state[kernels.DOUBTFUL])

    def accumulate_times(self, updates: Updates) -> None:
        """Add all updates of a step with several times, in lexicographic order of time.

        Raises:
            DataError: If a count does not fit 64 bits.
        """
        n = len(updates)
        self._reserve(n)
        times = updates.times()
        order = np.lexsort(times[::-1])
        self.new = np.empty((n, self.words), np.int64)
        self.when = np.empty(n, np.int64)
        self.state[kernels.MARKER] = kernels.accumulate_times(
            updates.data, times, updates.diff, order, self.key, self.spec, self.slots, self.table,
            self.marker, self.free, self.touched_groups, self.old, self.new, self.when, self.state,
        )  # fmt: skip
        self.check_overflow()

    def touch_empty(self) -> None:
        """Create the single group of an empty key, without output so far."""
        if self.entries == 0:
            nothing = np.empty((0, 1), np.int64)
            if self.spec.shape[0]:
                nothing = np.full((int(self.spec[:, (1, 3)].max()) + 1, 1), NULL, np.int64)
            self._accumulate(nothing, np.zeros(1, np.int64), 0, 1)
        self.old[0, 0] = NULL

    def emit(self, single_time: bool) -> tuple[Words, Words, Words]:
        """Return the changes of the output rows: (data, diff, entry of each)."""
        entries = self.entries
        new = self._current(entries) if single_time else self.new
        out = np.empty((self.key + self.spec.shape[0], 2 * entries), np.int64)
        diff = np.empty(2 * entries, np.int64)
        entry = np.empty(2 * entries, np.int64)
        n = kernels.emit(
            self.touched_groups, self.old, new, entries, self.table, self.key, self.spec, out, diff, entry
        )
        return np.ascontiguousarray(out[:, :n]), diff[:n], entry[:n]

    def emit_threshold(self, single_time: bool, distinct: bool) -> tuple[Words, Words, Words]:
        """Return the changes of each key's positive multiplicity, or of its sign if ``distinct``.

        The result is (data, diff, entry of each).
        """
        entries = self.entries
        new = self._current(entries) if single_time else self.new
        out = np.empty((self.key, entries), np.int64)
        diff = np.empty(entries, np.int64)
        entry = np.empty(entries, np.int64)
        n = kernels.emit_threshold(
            self.touched_groups, self.old, new, entries, self.table, self.key, int(distinct), out, diff, entry
        )
        return np.ascontiguousarray(out[:, :n]), diff[:n], entry[:n]

    def counts(self, single_time: bool) -> Words:
        """Return the multiplicity of each touched group after the step, or after each of its times."""
        new = self._current(self.entries) if single_time else self.new
        return new[: self.entries, 0]

    def accumulators(self, numbers: Words) -> Words:
        """Return the current accumulators ``int64[len(numbers), words]`` of the numbered groups."""
        new = np.empty((numbers.shape[0], self.words), np.int64)
        kernels.current(numbers, self.table, self.key, new)
        return new

    def _current(self, entries: int) -> Words:
        return self.accumulators(self.touched_groups[:entries])

    def groups(self) -> Words:
        """Return the numbers of all groups."""
        slots = self.slots[self.slots != 0]
        return slots - 1

    def commit(self) -> None:
        """Make the step's changes final and delete empty groups."""
        self._finish()

    def rollback(self) -> None:
        """Restore the accumulators of every touched group."""
        entries = self.entries
        touched, old = self.touched_groups[:entries][::-1], self.old[:entries][::-1]
        fresh = old[:, 0] == NULL
        self.table[touched, 1 + self.key :] = np.where(fresh[:, None], 0, old) if fresh.any() else old
        self._finish()

    def _finish(self) -> None:
        kernels.finish(
            self.touched_groups, self.spec, self.key, self.slots, self.table, self.free, self.state
        )
        if self.when.shape[0]:
            self.new = np.empty((0, self.words), np.int64)
            self.when = np.empty(0, np.int64)
        if self.touched_groups.shape[0] > 1 << 16:
            self.touched_groups = np.empty(MINIMUM_GROUPS, np.int64)
            self.old = np.empty((MINIMUM_GROUPS, self.words), np.int64)
            self.version = next_version()

    def _reserve(self, n: int) -> None:
        """Reserve room for n more groups and n more entries."""
        allotted, freed, entries, live = self.state[: kernels.SINK].tolist()
        if allotted + n > self.table.shape[0]:
            capacity = max(4 * allotted, allotted + n) + n
            self.table = _enlarge(self.table, capacity, allotted)
            self.free = _enlarge(self.free, capacity, freed)
            self.version = next_version()
        if 2 * (live + n) > self.slots.shape[0]:
            slots = np.zeros(1 << (4 * (live + n) - 1).bit_length(), np.int64)
            kernels.rebuild(self.slots, slots, self.table, self.key)
            self.slots = slots
            self.version = next_version()
        if entries + n > self.touched_groups.shape[0]:
            capacity = max(2 * self.touched_groups.shape[0], entries + n)
            self.touched_groups = _enlarge(self.touched_groups, capacity, entries)
            self.old = _enlarge(self.old, capacity, entries)
            self.version = next_version()


def _enlarge(array: Words, capacity: int, used: int) -> Words:
    """Return an array of ``capacity`` rows with the first ``used`` rows of ``array``."""
    larger = np.empty((capacity, *array.shape[1:]), np.int64)
    larger[:used] = array[:used]
    return larger


def chunks(numbers: Words, size: int = 1 << 18) -> Iterator[Words]:
    """Yield slices of at most ``size`` elements."""
    for start in range(0, numbers.shape[0], size):
        yield numbers[start : start + size]
