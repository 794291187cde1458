"""History tables, the state of reduces, distinct and threshold in loops: accumulators by key and time.

A time is (epoch, round, ...) under the product order. A step feeds the table by rounds in lexicographic
order. For each vector of rounds it accumulates the updates of all epochs and evaluates once. The evaluation
gives the output updates at these rounds, and ``owed`` lists the later rounds to evaluate. The step ends with
a commit, which merges its epochs, or a rollback.
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
MINIMUM = 64
"""Keys of an empty table; a multiple of 64, the bits of a word."""
PORTION = 1 << 14
"""Rows for which room is made, and accumulators that are turned into rows, at a time."""
LARGE = 1 << 20
"""Bytes of an array from which on it grows sixteenfold."""
LONG = 1 << 16
"""Room for so many of a step's keys is kept; more, which a large step took, is given back."""
FEW = 16
"""So many owed evaluations are parted by their rounds without numpy."""
MOST_KEYS = 2**32 - 2
"""Their numbers are half of a slot's word, 0 and the largest being taken."""
NO_STEP: Words = np.array([0, 0, 0, 2**63 - 1, -1, 0])
"""The part of the kernels' ``state`` that describes a step: counts, first and last epoch, ``MIXED``."""


class HistoryTable:
    """Accumulators, by time, of each distinct value of the first ``key`` columns of the updates it is fed.

    ``depth`` >= 2 is the number of coordinates of a time. In ``evaluate*`` and ``*contents`` the table is the
    state of a reduce, or of a distinct or threshold whose rows are the keys.
    """

    def __init__(self, key: int, accumulators: tuple[Accumulator, ...], depth: int) -> None:
        self.key = key
        self.depth = depth
        group = GroupTable(key, accumulators)
        self.words = group.words
        self.state = np.zeros(layout.LENGTH, np.int64)
        self.state[layout.COLUMNS : layout.WORDS + 1] = key, depth - 1, self.words
        self.spec = self._placed(layout.SPEC_AT, group.spec)
        self.slots = self._placed(layout.SLOTS_AT, np.zeros(2 * MINIMUM, np.int64))
        keys, records = (np.empty((MINIMUM, width + depth + self.words), np.int64) for width in (1 + key, 1))
        self.keys = self._placed(layout.KEYS_AT, keys)
        self.records = self._placed(layout.RECORDS_AT, records)
        self.bits = self._placed(layout.BITS_AT, np.zeros(MINIMUM >> 6, np.int64))
        self._list_anew()
        self.owed: list[Rounds] = []
        """Later rounds to be evaluated because of what the last evaluation met, possibly told before."""
        self._due: dict[Rounds, list[Words]] = {}
        self._room = 0
        self._nothing = Updates.empty(key, depth)
        self._evaluated: Rounds = ()
        self._finish()

    def _placed(self, place: int, array: Words) -> Words:
        """The array, which the kernels find from now on: of those that they read, none is set otherwise."""
        self.state[place : place + 2] = array.ctypes.data, array.shape[0]
        return array

    def adopt(self, slots: Words, keys: Words, records: Words) -> None:
        """Have these arrays, as another table of the same kind had them; its counts are set already."""
        self.slots = self._placed(layout.SLOTS_AT, slots)
        self.keys = self._placed(layout.KEYS_AT, keys)
        self.records = self._placed(layout.RECORDS_AT, records)
        self.bits = self._placed(layout.BITS_AT, np.zeros(keys.shape[0] // 64 + 1, np.int64))
        self._room = 0

    def _list_anew(self) -> None:
        """Empty lists of the step's keys."""
        self.touched = self._placed(layout.TOUCHED_AT, np.empty(MINIMUM, np.int64))
        self.current = self._placed(layout.CURRENT_AT, np.empty(MINIMUM, np.int64))

    def __len__(self) -> int:
        """The number of keys held."""
        return int(self.state[layout.LIVE_KEYS])

    @property
    def rows(self) -> int:
        """The number of (key, time) pairs held."""
        return len(self) + int(self.state[layout.LIVE_RECORDS])

    @property
    def bytes(self) -> int:
        """Bytes of all state arrays that are or were in use."""
        keys, records = int(self.state[layout.KEYS]), int(self.state[layout.RECORDS])
        used = keys * self.keys.shape[1] + records * self.records.shape[1]
        return 8 * used + self.slots.nbytes + self.bits.nbytes

    def accumulate(self, updates: Updates, rounds: Rounds) -> None:
        """Add updates that all bear the given rounds, later than any evaluated in this step."""
        if rounds <= self._evaluated:
            raise InternalError(f"updates at rounds {rounds}, after {self._evaluated} were evaluated")
        if updates.time.shape[1] > 1:
            updates = _by_epoch(updates)
        n = updates.data.shape[1]
        for first in range(0, n, PORTION):
            self._accumulate(updates, first, min(first + PORTION, n))

    def _accumulate(self, updates: Updates, first: int, last: int) -> None:
        if last - first > self._room:
            self._reserve(last - first)
        self._room -= last - first
        kernels.accumulate(updates.data, updates.time, updates.diff, first, last, self.state)

    def evaluate(self, rounds: Rounds, *, hydrating: bool = False, epoch: int = 0) -> Updates:
        """The updates at ``rounds`` of the output rows (key..., aggregates...).

        ``hydrating`` says that there was no output before this step, of one ``epoch``: with an empty key, the
        row over nothing appears at it and round 0.
        """
        absent = hydrating and self.key == 0 and not any(rounds)
        if absent:
            self._touch_empty(epoch)
        count = self._begin(rounds)
        width = self.key + self.spec.shape[0]
        if count == 0:
            return Updates.empty(width, self.depth)
        self.state[layout.ABSENT] = absent
        state, at, owed = self.state, np.array(rounds, np.int64), np.empty((self.depth, count), np.int64)
        most = (int(state[layout.STEP_RECORDS]) + 1) << len(rounds)
        capacity, first, parts = min(most, PORTION), 0, []
        while first < count:
            entries: Words = np.empty((2, capacity), np.int64)
            sides: Words = np.empty((2 * capacity, self.words), np.int64)
            reached = differences.corners(at, first, state, entries, sides, owed)
            if reached == first:
                capacity = most
            elif state[layout.ENTRIES]:
                parts.append(self._emit(entries, sides, at))
            first = reached
        self._owe(owed[:, : self.state.item(layout.OWED)])
        return Updates.concat(parts) if parts else Updates.empty(width, self.depth)

    def _emit(self, entries: Words, sides: Words, at: Words) -> Updates:
        """The updates that accumulators before and after make."""
        count = int(self.state[layout.ENTRIES])
        out = np.empty((self.key + self.spec.shape[0], 2 * count), np.int64)
        diff, entry, when = np.empty((3, 2 * count), np.int64)
        old, new = sides[: entries.shape[1]], sides[entries.shape[1] :]
        n = groups.emit(entries[0], old, new, count, self.keys, self.key, self.spec, out, diff, entry)
        n = differences.cancel(out, diff, entry, entries, n, when)
        return Updates(np.ascontiguousarray(out[:, :n]), self._times(when[:n], at), diff[:n])

    def evaluate_threshold(self, rounds: Rounds, distinct: bool) -> Updates:
        """The updates at ``rounds`` of the keys by positive multiplicity, or once each if ``distinct``."""
        count = self._begin(rounds)
        if count == 0:
            return self._nothing
        most, depth, key, state = count, self.depth, self.key, self.state
        first = state.item(layout.FIRST_EPOCH)
        single = first == state.item(layout.LAST_EPOCH)
        if not single:
            most = state.item(layout.STEP_RECORDS)
        stamp = np.array((first, *rounds), np.int64)
        out, owed = np.empty((key + depth + 1) * most, np.int64), np.empty((depth, count), np.int64)
        n = thresholds.evaluate(stamp[1:], distinct, state, out, owed)
        owing = state.item(layout.OWED)
        if owing:
            self._owe(owed[:, :owing])
        if n == 0:
            return self._nothing
        if n < most // 2:
            out = out[: (key + depth + 1) * n].copy()
        end = (key + depth) * n
        time = stamp.reshape(depth, 1) if single else out[key * n : end].reshape(depth, n)
        diff = out[end : end + (1 if state.item(layout.ENTRIES) else n)]
        return Updates(out[: key * n].reshape(key, n), time, diff)

    def _begin(self, rounds: Rounds) -> int:
        """List the keys that are due; the number of keys to evaluate."""
        self.owed = []
        self._evaluated = rounds
        self.state[layout.OWED] = 0
        if self._due and (parts := self._due.pop(rounds, None)) is not None:
            numbers = parts[0] if len(parts) == 1 else np.concatenate(parts)
            used, n = self.state.item(layout.CURRENT), numbers.shape[0]
            if used + n > self.current.shape[0]:
                self.current = self._placed(layout.CURRENT_AT, _grown(self.current, used, n))
            kernels.wake(numbers, self.state)
        return self.state.item(layout.CURRENT)

    def followed(self, rounds: Rounds) -> None:
        """Take note that kernels have accumulated and evaluated updates, last at these rounds."""
        self._evaluated, self._room, self.owed = rounds, 0, []

    def owe(self, owed: Words) -> list[Rounds]:
        """Note keys and the later rounds at which they are due, as ``thresholds.evaluate`` gives them."""
        self._owe(owed)
        return self.owed

    def _owe(self, owed: Words) -> None:
        """Note the keys that are due at later rounds."""
        n = owed.shape[1]
        if n <= FEW:
            parts: dict[Rounds, list[int]] = {}
            for number, *at in owed.T.tolist():
                parts.setdefault(tuple(at), []).append(number)
            for rounds, numbers in parts.items():
                self._due.setdefault(rounds, []).append(np.array(numbers))
            self.owed = list(parts)
            return
        owed = np.ascontiguousarray(owed)
        order, starts, single = np.empty(n, np.int64), np.empty(n + 1, np.int64), np.empty(n, np.bool_)
        count = splitting.split_by_rounds(owed, order, starts, single)
        keys, ends = owed[0, order], starts[: count + 1].tolist()
        self.owed = [tuple(at) for at in owed[1:, order[starts[:count]]].T.tolist()]
        for rounds, (start, end) in zip(self.owed, pairwise(ends), strict=True):
            self._due.setdefault(rounds, []).append(keys[start:end])

    def _times(self, epochs: Words, at: Words) -> Words:
        """Times of the given epochs and rounds; one time if the step is of one epoch."""
        first = self.state[layout.FIRST_EPOCH]
        single = first == self.state[layout.LAST_EPOCH]
        times = np.empty((self.depth, 1 if single else epochs.shape[0]), np.int64)
        times[0] = first if single else epochs
        times[1:] = at[:, None]
        return times

    def _touch_empty(self, epoch: int) -> None:
        """Make the one key of no columns exist at the epoch and round 0."""
        width = max((max(one[1], one[3]) + 1 for one in self.spec.tolist()), default=0)
        time = np.array([[epoch], *([0] for _ in range(self.depth - 1))], np.int64)
        nothing = np.full((width, 1), NULL, np.int64)
        self._accumulate(Updates(nothing, time, 0 * ONE), 0, 1)

    def contents(self) -> Iterator[tuple[Words, Words]]:
        """The output rows over all rounds, and their multiplicities, in chunks; between steps only."""
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
        """The keys of positive multiplicity over all rounds, in chunks; between steps only."""
        for numbers, totals in self._totals():
            positive = totals[:, 0] > 0
            numbers, counts = numbers[positive], totals[positive, 0]
            data = np.ascontiguousarray(self.keys[numbers, 1 : 1 + self.key].T)
            yield data, np.ones_like(counts) if distinct else counts

    def _totals(self) -> Iterator[tuple[Words, Words]]:
        """Key numbers and their accumulators over all times."""
        used = int(self.state[layout.KEYS])
        for first in range(0, used, PORTION):
            last = min(first + PORTION, used)
            numbers = np.empty(last - first, np.int64)
            totals = np.empty((last - first, self.words), np.int64)
            n = differences.totals(first, last, self.state, numbers, totals)
            yield numbers[:n], totals[:n]

    def commit(self) -> None:
        """Keep the step's changes; forget keys and times at which nothing remains."""
        if self.state[layout.TOUCHED]:
            kernels.commit(self.state)
        self._finish()

    def rollback(self) -> None:
        """Forget the step's changes."""
        kernels.rollback(self.state)
        self._finish()

    def _finish(self) -> None:
        self.state[layout.TOUCHED : layout.ENTRIES] = NO_STEP
        self.owed = []
        self._due.clear()
        self._evaluated = ()
        if max(self.touched.shape[0], self.current.shape[0]) > LONG:
            self._list_anew()
            self._room = 0

    def _reserve(self, n: int) -> None:
        """Room for n more keys or records, all of them touched and current; notes how much there is."""
        state = self.state.tolist()
        allotted, live = state[layout.KEYS], state[layout.LIVE_KEYS]
        if allotted + n > self.keys.shape[0]:
            if allotted + n > MOST_KEYS:
                raise OperationalError(f"more than {MOST_KEYS} keys in the state of one operator of a loop")
            self.keys = self._placed(layout.KEYS_AT, _grown(self.keys, allotted, n))
            marks = np.zeros(self.keys.shape[0] // 64 + 1, np.int64)
            marks[: self.bits.shape[0]] = self.bits
            self.bits = self._placed(layout.BITS_AT, marks)
        if state[layout.RECORDS] + n > self.records.shape[0]:
            self.records = self._placed(layout.RECORDS_AT, _grown(self.records, state[layout.RECORDS], n))
        if 3 * (live + n) > 2 * self.slots.shape[0]:
            slots = np.zeros(1 << (3 * (live + n) // 2).bit_length(), np.int64)
            hashing.rebuild(self.slots, slots)
            self.slots = self._placed(layout.SLOTS_AT, slots)
        if state[layout.TOUCHED] + n > self.touched.shape[0]:
            self.touched = self._placed(layout.TOUCHED_AT, _grown(self.touched, state[layout.TOUCHED], n))
        if state[layout.CURRENT] + n > self.current.shape[0]:
            self.current = self._placed(layout.CURRENT_AT, _grown(self.current, state[layout.CURRENT], n))
        self._room = min(
            self.keys.shape[0] - allotted,
            self.records.shape[0] - state[layout.RECORDS],
            2 * self.slots.shape[0] // 3 - live,
            self.touched.shape[0] - state[layout.TOUCHED],
            self.current.shape[0] - state[layout.CURRENT],
        )


def _grown(array: Words, used: int, n: int) -> Words:
    """The first ``used`` rows of the array, with room for n more.

    A copy: numpy asks for large pages for what it allocates anew, not for what it resizes, and the first
    touch of memory costs more than a copy. Room that is not used is never touched, so it may be plentiful.
    """
    rows, wanted = array.shape[0], used + n
    plenty = 16 * rows if array.nbytes >= LARGE else 3 * rows // 2
    try:
        grown = np.empty((max(plenty, wanted), *array.shape[1:]), np.int64)
    except MemoryError:
        grown = np.empty((max(5 * rows // 4, wanted), *array.shape[1:]), np.int64)
    grown[:used] = array[:used]
    return grown


def _by_epoch(updates: Updates) -> Updates:
    """The updates in order of their epochs."""
    order = np.empty(updates.time.shape[1], np.int64)
    return updates if splitting.epoch_order(updates.time, order) else updates.take(order)
