"""History tables, the state of reduces, distinct and threshold in loops: accumulators by key and time.

A time is (epoch, round, ...) under the product order. A step feeds the table by rounds in
lexicographic order. For each vector of rounds it accumulates the updates of all epochs and
evaluates once. The evaluation returns the output updates at these rounds, and ``new_rounds`` lists
the later rounds to evaluate. The step ends with a commit, which merges its epochs, or a rollback.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import InternalError, OperationalError
from kpg.runtime.kernels import differences, groups, thresholds
from kpg.runtime.kernels import history as kernels
from kpg.runtime.kernels import historytable as layout
from kpg.runtime.kernels import rounds as splitting
from kpg.runtime.kernels import slots as hashing
from kpg.runtime.kernels.accumulators import NULL
from kpg.runtime.state.groups import Accumulator, GroupTable
from kpg.runtime.trace.updates import ONE, Updates

Words = NDArray[np.int64]
Rounds = tuple[int, ...]
MINIMUM_KEYS = 64
"""Keys for which an empty table has room; a multiple of 64, the bits of a word."""
CHUNK_ROWS = 1 << 14
"""Rows that are accumulated, or turned from accumulators to output, at a time."""
LARGE_BYTES = 1 << 20
"""Size in bytes from which an array grows sixteenfold."""
MAX_LIST_LENGTH = 1 << 16
"""Length of the step's key lists that is kept between steps; longer lists are released."""
FEW_KEYS = 16
"""Scheduled keys up to which Python groups them by round faster than numpy."""
MAX_KEYS = 2**32 - 2
"""Limit of key numbers: they take half of a slot's word, and 0 and the largest value are reserved."""
NO_STEP: Words = np.array([0, 0, 0, 2**63 - 1, -1, 0])
"""Initial step fields of the kernels' ``state``: counts, first and last epoch, ``MIXED``."""


class HistoryTable:
    """Accumulators by key and time; the key is the first ``key`` columns of the accumulated updates.

    ``depth`` >= 2 is the number of coordinates of a time. ``evaluate`` and ``contents`` treat the table
    as the state of a reduce; ``*_threshold`` and ``threshold_contents`` as that of a distinct or
    threshold, whose rows are the keys.
    """

    def __init__(self, key: int, accumulators: tuple[Accumulator, ...], depth: int) -> None:
        self.key = key
        self.depth = depth
        group = GroupTable(key, accumulators)
        self.words = group.words
        self.state = np.zeros(layout.LENGTH, np.int64)
        self.state[layout.COLUMNS : layout.WORDS + 1] = key, depth - 1, self.words
        self.spec = self._register_array(layout.SPEC_AT, group.spec)
        self.slots = self._register_array(layout.SLOTS_AT, np.zeros(2 * MINIMUM_KEYS, np.int64))
        keys, records = (
            np.empty((MINIMUM_KEYS, width + depth + self.words), np.int64) for width in (1 + key, 1)
        )
        self.keys = self._register_array(layout.KEYS_AT, keys)
        self.records = self._register_array(layout.RECORDS_AT, records)
        self.bits = self._register_array(layout.BITS_AT, np.zeros(MINIMUM_KEYS >> 6, np.int64))
        self._reset_key_lists()
        self.new_rounds: list[Rounds] = []
        """Later rounds that the last evaluation has scheduled; some may have been scheduled already."""
        self._scheduled_keys: dict[Rounds, list[Words]] = {}
        self._room = 0
        self._nothing = Updates.empty(key, depth)
        self._last_rounds: Rounds = ()
        self._finish()

    def _register_array(self, place: int, array: Words) -> Words:
        """Write the array's address and length to ``state[place:]`` for kernels; return the array.

        Every array that kernels read must be set through this method.
        """
        self.state[place : place + 2] = array.ctypes.data, array.shape[0]
        return array

    def adopt_arrays(self, slots: Words, keys: Words, records: Words) -> None:
        """Use the arrays of another table of the same kind; the caller has set the counts."""
        self.slots = self._register_array(layout.SLOTS_AT, slots)
        self.keys = self._register_array(layout.KEYS_AT, keys)
        self.records = self._register_array(layout.RECORDS_AT, records)
        self.bits = self._register_array(layout.BITS_AT, np.zeros(keys.shape[0] // 64 + 1, np.int64))
        self._room = 0

    def _reset_key_lists(self) -> None:
        self.touched_keys = self._register_array(layout.TOUCHED_AT, np.empty(MINIMUM_KEYS, np.int64))
        self.current = self._register_array(layout.CURRENT_AT, np.empty(MINIMUM_KEYS, np.int64))

    def __len__(self) -> int:
        """Return the number of keys."""
        return int(self.state[layout.LIVE_KEYS])

    @property
    def rows(self) -> int:
        """Number of (key, time) pairs."""
        return len(self) + int(self.state[layout.LIVE_RECORDS])

    @property
    def bytes(self) -> int:
        """Bytes of the used parts of all state arrays."""
        keys, records = int(self.state[layout.KEYS]), int(self.state[layout.RECORDS])
        used = keys * self.keys.shape[1] + records * self.records.shape[1]
        return 8 * used + self.slots.nbytes + self.bits.nbytes

    def accumulate(self, updates: Updates, rounds: Rounds) -> None:
        """Add updates at ``rounds``, which must be later than those evaluated in this step."""
        if rounds <= self._last_rounds:
            raise InternalError(f"updates at rounds {rounds}, after {self._last_rounds} were evaluated")
        if updates.time.shape[1] > 1:
            updates = _sort_by_epoch(updates)
        n = updates.data.shape[1]
        for first in range(0, n, CHUNK_ROWS):
            self._accumulate(updates, first, min(first + CHUNK_ROWS, n))

    def _accumulate(self, updates: Updates, first: int, last: int) -> None:
        if last - first > self._room:
            self._reserve(last - first)
        self._room -= last - first
        kernels.accumulate(updates.data, updates.time, updates.diff, first, last, self.state)

    def evaluate(self, rounds: Rounds, *, hydrating: bool = False, epoch: int = 0) -> Updates:
        """Return the updates at ``rounds`` of the output rows (key..., aggregates...).

        ``hydrating`` means that there was no output before this step, which has the single epoch ``epoch``.
        With an empty key, the row of the empty group then appears at that epoch and round 0.
        """
        absent = hydrating and self.key == 0 and not any(rounds)
        if absent:
            self._touch_empty(epoch)
        count = self._begin_evaluation(rounds)
        width = self.key + self.spec.shape[0]
        if count == 0:
            return Updates.empty(width, self.depth)
        self.state[layout.ABSENT] = absent
        state, at, owed = self.state, np.array(rounds, np.int64), np.empty((self.depth, count), np.int64)
        max_entries = (int(state[layout.STEP_RECORDS]) + 1) << len(rounds)
        capacity, first, parts = min(max_entries, CHUNK_ROWS), 0, []
        while first < count:
            entries: Words = np.empty((2, capacity), np.int64)
            sides: Words = np.empty((2 * capacity, self.words), np.int64)
            reached = differences.corners(at, first, state, entries, sides, owed)
            if reached == first:
                capacity = max_entries
            elif state[layout.ENTRIES]:
                parts.append(self._emit(entries, sides, at))
            first = reached
        self._schedule_keys(owed[:, : self.state.item(layout.OWED)])
        return Updates.concat(parts) if parts else Updates.empty(width, self.depth)

    def _emit(self, entries: Words, sides: Words, at: Words) -> Updates:
        """Return the updates between the accumulators before and after."""
        count = int(self.state[layout.ENTRIES])
        out = np.empty((self.key + self.spec.shape[0], 2 * count), np.int64)
        diff, entry, when = np.empty((3, 2 * count), np.int64)
        old, new = sides[: entries.shape[1]], sides[entries.shape[1] :]
        n = groups.emit(entries[0], old, new, count, self.keys, self.key, self.spec, out, diff, entry)
        n = differences.cancel(out, diff, entry, entries, n, when)
        return Updates(np.ascontiguousarray(out[:, :n]), self._times(when[:n], at), diff[:n])

    def evaluate_threshold(self, rounds: Rounds, distinct: bool) -> Updates:
        """Return the updates at ``rounds`` of keys by positive multiplicity, or once each if ``distinct``."""
        count = self._begin_evaluation(rounds)
        if count == 0:
            return self._nothing
        max_rows, depth, key, state = count, self.depth, self.key, self.state
        first = state.item(layout.FIRST_EPOCH)
        single = first == state.item(layout.LAST_EPOCH)
        if not single:
            max_rows = state.item(layout.STEP_RECORDS)
        stamp = np.array((first, *rounds), np.int64)
        out, owed = np.empty((key + depth + 1) * max_rows, np.int64), np.empty((depth, count), np.int64)
        n = thresholds.evaluate(stamp[1:], distinct, state, out, owed)
        owing = state.item(layout.OWED)
        if owing:
            self._schedule_keys(owed[:, :owing])
        if n == 0:
            return self._nothing
        if n < max_rows // 2:
            out = out[: (key + depth + 1) * n].copy()
        end = (key + depth) * n
        time = stamp.reshape(depth, 1) if single else out[key * n : end].reshape(depth, n)
        diff = out[end : end + (1 if state.item(layout.ENTRIES) else n)]
        return Updates(out[: key * n].reshape(key, n), time, diff)

    def _begin_evaluation(self, rounds: Rounds) -> int:
        """Add the keys scheduled for ``rounds`` and return the number of keys to evaluate."""
        self.new_rounds = []
        self._last_rounds = rounds
        self.state[layout.OWED] = 0
        if self._scheduled_keys and (parts := self._scheduled_keys.pop(rounds, None)) is not None:
            numbers = parts[0] if len(parts) == 1 else np.concatenate(parts)
            used, n = self.state.item(layout.CURRENT), numbers.shape[0]
            if used + n > self.current.shape[0]:
                self.current = self._register_array(layout.CURRENT_AT, _enlarge(self.current, used, n))
            kernels.wake(numbers, self.state)
        return self.state.item(layout.CURRENT)

    def record_rounds(self, rounds: Rounds) -> None:
        """Record that a compiled call has accumulated and evaluated updates, ``rounds`` last."""
        self._last_rounds, self._room, self.new_rounds = rounds, 0, []

    def schedule_keys(self, owed: Words) -> list[Rounds]:
        """Schedule keys at later rounds and return these rounds.

        ``owed int64[depth, n]`` has the key number, then its rounds, as ``thresholds.evaluate`` writes
        them.
        """
        self._schedule_keys(owed)
        return self.new_rounds

    def _schedule_keys(self, owed: Words) -> None:
        n = owed.shape[1]
        if n <= FEW_KEYS:
            parts: dict[Rounds, list[int]] = {}
            for number, *at in owed.T.tolist():
                parts.setdefault(tuple(at), []).append(number)
            for rounds, numbers in parts.items():
                self._scheduled_keys.setdefault(rounds, []).append(np.array(numbers))
            self.new_rounds = list(parts)
            return
        owed = np.ascontiguousarray(owed)
        order, starts, single = np.empty(n, np.int64), np.empty(n + 1, np.int64), np.empty(n, np.bool_)
        count = splitting.split_by_rounds(owed, order, starts, single)
        keys, ends = owed[0, order], starts[: count + 1].tolist()
        self.new_rounds = [tuple(at) for at in owed[1:, order[starts[:count]]].T.tolist()]
        for rounds, (start, end) in zip(self.new_rounds, pairwise(ends), strict=True):
            self._scheduled_keys.setdefault(rounds, []).append(keys[start:end])

    def _times(self, epochs: Words, at: Words) -> Words:
        """Return the times of ``epochs`` at rounds ``at``; a single time if the step has one epoch."""
        first = self.state[layout.FIRST_EPOCH]
        single = first == self.state[layout.LAST_EPOCH]
        times = np.empty((self.depth, 1 if single else epochs.shape[0]), np.int64)
        times[0] = first if single else epochs
        times[1:] = at[:, None]
        return times

    def _touch_empty(self, epoch: int) -> None:
        """Create the single key of no columns at the epoch and round 0."""
        width = max(
            (max(accumulator[1], accumulator[3]) + 1 for accumulator in self.spec.tolist()), default=0
        )
        time = np.array([[epoch], *([0] for _ in range(self.depth - 1))], np.int64)
        nothing = np.full((width, 1), NULL, np.int64)
        self._accumulate(Updates(nothing, time, 0 * ONE), 0, 1)

    def contents(self) -> Iterator[tuple[Words, Words]]:
        """Yield the output rows over all rounds with their multiplicities, in chunks; only between steps."""
        for numbers, totals in self._totals():
            n = numbers.shape[0]
            nothing = np.zeros_like(totals)
            if self.key == 0:
                nothing[:, 0] = NULL
            out = np.empty((self.key + self.spec.shape[0], 2 * n), np.int64)
            diff, entry = np.empty((2, 2 * n), np.int64)
            n = groups.emit(numbers, nothing, totals, n, self.keys, self.key, self.spec, out, diff, entry)
            yield np.ascontiguousarray(out[:, :n]), diff[:n]

    def threshold_contents(self, distinct: bool) -> Iterator[tuple[Words, Words]]:
        """Yield the keys of positive multiplicity over all rounds, in chunks; only between steps."""
        for numbers, totals in self._totals():
            positive = totals[:, 0] > 0
            numbers, counts = numbers[positive], totals[positive, 0]
            data = np.ascontiguousarray(self.keys[numbers, 1 : 1 + self.key].T)
            yield data, np.ones_like(counts) if distinct else counts

    def _totals(self) -> Iterator[tuple[Words, Words]]:
        """Yield key numbers and their accumulators over all times."""
        used = int(self.state[layout.KEYS])
        for first in range(0, used, CHUNK_ROWS):
            last = min(first + CHUNK_ROWS, used)
            numbers = np.empty(last - first, np.int64)
            totals = np.empty((last - first, self.words), np.int64)
            n = differences.totals(first, last, self.state, numbers, totals)
            yield numbers[:n], totals[:n]

    def commit(self) -> None:
        """Make the step's changes final; delete keys and times whose accumulators are zero."""
        if self.state[layout.TOUCHED]:
            kernels.commit(self.state)
        self._finish()

    def rollback(self) -> None:
        """Undo the step's changes."""
        kernels.rollback(self.state)
        self._finish()

    def _finish(self) -> None:
        self.state[layout.TOUCHED : layout.ENTRIES] = NO_STEP
        self.new_rounds = []
        self._scheduled_keys.clear()
        self._last_rounds = ()
        if max(self.touched_keys.shape[0], self.current.shape[0]) > MAX_LIST_LENGTH:
            self._reset_key_lists()
            self._room = 0

    def _reserve(self, n: int) -> None:
        """Reserve room for n more keys or records, all touched and current, and set ``_room``."""
        state = self.state.tolist()
        allotted, live = state[layout.KEYS], state[layout.LIVE_KEYS]
        if allotted + n > self.keys.shape[0]:
            if allotted + n > MAX_KEYS:
                raise OperationalError(f"more than {MAX_KEYS} keys in the state of one operator of a loop")
            self.keys = self._register_array(layout.KEYS_AT, _enlarge(self.keys, allotted, n))
            marks = np.zeros(self.keys.shape[0] // 64 + 1, np.int64)
            marks[: self.bits.shape[0]] = self.bits
            self.bits = self._register_array(layout.BITS_AT, marks)
        if state[layout.RECORDS] + n > self.records.shape[0]:
            self.records = self._register_array(
                layout.RECORDS_AT, _enlarge(self.records, state[layout.RECORDS], n)
            )
        if 3 * (live + n) > 2 * self.slots.shape[0]:
            slots = np.zeros(1 << (3 * (live + n) // 2).bit_length(), np.int64)
            hashing.rebuild(self.slots, slots)
            self.slots = self._register_array(layout.SLOTS_AT, slots)
        if state[layout.TOUCHED] + n > self.touched_keys.shape[0]:
            self.touched_keys = self._register_array(
                layout.TOUCHED_AT, _enlarge(self.touched_keys, state[layout.TOUCHED], n)
            )
        if state[layout.CURRENT] + n > self.current.shape[0]:
            self.current = self._register_array(
                layout.CURRENT_AT, _enlarge(self.current, state[layout.CURRENT], n)
            )
        self._room = min(
            self.keys.shape[0] - allotted,
            self.records.shape[0] - state[layout.RECORDS],
            2 * self.slots.shape[0] // 3 - live,
            self.touched_keys.shape[0] - state[layout.TOUCHED],
            self.current.shape[0] - state[layout.CURRENT],
        )


def _enlarge(array: Words, used: int, n: int) -> Words:
    """Return the first ``used`` rows of the array, with room for at least n more.

    It copies instead of resizing: numpy requests large pages only for new allocations, and the first
    touch of memory costs more than a copy. Unused room is never touched, so it may be ample.
    """
    rows, needed = array.shape[0], used + n
    ample = 16 * rows if array.nbytes >= LARGE_BYTES else 3 * rows // 2
    try:
        larger = np.empty((max(ample, needed), *array.shape[1:]), np.int64)
    except MemoryError:
        larger = np.empty((max(5 * rows // 4, needed), *array.shape[1:]), np.int64)
    larger[:used] = array[:used]
    return larger


def _sort_by_epoch(updates: Updates) -> Updates:
    """Return the updates sorted by epoch."""
    order = np.empty(updates.time.shape[1], np.int64)
    return updates if splitting.epoch_order(updates.time, order) else updates.take(order)
