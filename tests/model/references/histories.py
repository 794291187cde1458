"""``history``: accumulators by key and time."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kpg.runtime.kernels import historytable as kernels
from kpg.runtime.kernels.accumulators import COUNT, LOW, SUM, SUM_DOUBLE
from kpg.runtime.state.groups import Accumulator
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.updates import Updates
from tests.model.references import Case, Random, reference
from tests.model.references.aggregates import Group, decoded, nothing, operands, some_accumulators
from tests.model.references.texts import found_slots
from tests.model.references.words import Row, Words, size, tuples

Record = tuple[Row, Group]
"""A time, whose epoch is -1 if it is of closed ones, and what came at it."""
COUNTED = (COUNT, SUM)


@dataclass(frozen=True)
class Arrays:
    """What the array that kernels get says of a table; the table itself has to be kept alive."""

    nk: int
    rounds: int
    used: int
    keys: Words
    records: Words
    slots: Words
    bits: Words
    touched: Words
    current: Words
    spec: Words

    @property
    def contents(self) -> dict[Row, list[Record]]:
        """The records of all keys."""
        return contents(self.nk, self.rounds, self.keys, self.records, self.spec, self.used)

    @property
    def listed(self) -> list[Row]:
        """The keys that are to be evaluated."""
        return tuples(np.ascontiguousarray(self.keys[self.current, 1 : 1 + self.nk].T))


def words_at(address: int, *shape: int) -> Words:
    """The words at an address."""
    kind = ctypes.c_int64
    for length in reversed(shape):
        kind = kind * length
    return np.frombuffer(kind.from_address(address), np.int64).reshape(shape)


def arrays_of(state: Words) -> Arrays:
    """What the layout says."""
    nk, rounds, words = state[kernels.COLUMNS : kernels.WORDS + 1].tolist()

    def rows(place: int, *width: int) -> Words:
        return words_at(int(state[place]), int(state[place + 1]), *width)

    return Arrays(
        nk,
        rounds,
        int(state[kernels.KEYS]),
        rows(kernels.KEYS_AT, 2 + nk + rounds + words),
        rows(kernels.RECORDS_AT, 2 + rounds + words),
        rows(kernels.SLOTS_AT),
        rows(kernels.BITS_AT),
        rows(kernels.TOUCHED_AT)[: state[kernels.TOUCHED]],
        rows(kernels.CURRENT_AT)[: state[kernels.CURRENT]],
        rows(kernels.SPEC_AT, 4),
    )


def records_of(number: int, nk: int, rounds: int, keys: Words, records: Words, spec: Words) -> list[Record]:
    """The records of a key, in no order."""
    found = []
    link, *words = keys[number].tolist()
    words = words[nk:]
    while True:
        time, accumulators = tuple(words[: 1 + rounds]), words[1 + rounds :]
        found.append((time, decoded(accumulators, spec.tolist())))
        if link == 0:
            return found
        link, *words = records[link - 1].tolist()


def contents(
    nk: int, rounds: int, keys: Words, records: Words, spec: Words, used: int
) -> dict[Row, list[Record]]:
    """The records of all keys."""
    found = {}
    for number in range(used):
        if keys[number, 1 + nk] != kernels.FREE:
            some = records_of(number, nk, rounds, keys, records, spec)
            found[tuple(keys[number, 1 : 1 + nk].tolist())] = sorted(some, key=lambda one: one[0])
    return found


def some_step(random: Random, table: HistoryTable, width: int, epochs: int) -> list[tuple[Row, Updates]]:
    """Updates at some rounds, in their order."""
    depth = table.depth - 1
    at = sorted({tuple(random.integers(0, 4, depth).tolist()) for _ in range(int(random.integers(1, 4)))})
    step = []
    for rounds in at:
        n = size(random, 1)
        data = operands(random, table.key, width, n)
        time = np.array([[0], *([one] for one in rounds)]).repeat(n, axis=1)
        time[0] = np.sort(random.integers(5, 5 + epochs, n))
        if (time[0] == time[0, 0]).all():
            time = time[:, :1]
        diff = random.choice([-1, 1, 1, 2], n).astype(np.int64)
        step.append((rounds, Updates(data, np.ascontiguousarray(time), diff)))
    return step


def take(table: HistoryTable, step: list[tuple[Row, Updates]]) -> None:
    """Accumulate and evaluate all rounds of a step, those too that are owed."""
    due = dict(step)
    while due:
        rounds = min(due)
        updates = due.pop(rounds)
        if updates is not None:
            table.accumulate(updates, rounds)
        table.evaluate_threshold(rounds, False)
        for later in table.new_rounds:
            due.setdefault(later, None)


def some_table(
    random: Random, kinds: tuple[int, ...] = (*COUNTED, SUM_DOUBLE), depth: int | None = None
) -> tuple[HistoryTable, int]:
    """A table after some steps, and how wide its rows are."""
    key = int(random.integers(1, 4))
    width = key + int(random.integers(1, 3))
    accumulators: tuple[Accumulator, ...] = ()
    if random.random() < 0.6:
        accumulators = some_accumulators(random, key, width, kinds)
    table = HistoryTable(key, accumulators, depth or int(random.integers(2, 4)))
    for _ in range(int(random.integers(0, 3))):
        take(table, some_step(random, table, width, 2))
        table.commit() if random.random() < 0.7 else table.rollback()
    return table, width


def begun(random: Random, kinds: tuple[int, ...] = COUNTED) -> tuple[HistoryTable, Row, Updates]:
    """A table in the middle of a step, the rounds that it has come to, and the updates there."""
    table, width = some_table(random, kinds)
    *before, (rounds, updates) = some_step(random, table, width, int(random.integers(1, 4)))
    for earlier, given in before:
        table.accumulate(given, earlier)
        table.evaluate_threshold(earlier, False)
    # What the rounds before owe here is not listed: a part of the keys is enough to ask of.
    return table, rounds, updates


# history


def accumulate_cases(random: Random) -> Iterator[Case]:
    table, _, updates = begun(random, (*COUNTED, SUM_DOUBLE))
    n = updates.data.shape[1]
    table._reserve(n)
    yield Case((updates.data, updates.time, updates.diff, 0, n, table.state), table)


def seen_accumulated(result, data, time, diff, first, last, state) -> object:
    table = arrays_of(state)
    flagged = [number for number in range(table.used) if table.bits[number >> 6] >> (number & 63) & 1]
    assert sorted(table.current.tolist()) == flagged
    assert len(found_slots(table.slots)) == len(table.contents) == state[kernels.LIVE_KEYS]
    return table.contents, sorted(table.listed)


@reference("history.accumulate", accumulate_cases, seen_accumulated)
def accumulate(data, time, diff, first, last, state) -> object:
    table = arrays_of(state)
    nk, spec, found = table.nk, table.spec.tolist(), table.contents
    listed = set()
    for row, at, amount in zip(tuples(data), tuples(time, data.shape[1]), diff.tolist(), strict=True):
        listed.add(row[:nk])
        by_time = dict(found.get(row[:nk], []))
        group = by_time.setdefault(at, nothing(spec))
        group.add(row, amount, spec)
        found[row[:nk]] = sorted(by_time.items(), key=lambda one: one[0])
    return found, sorted(listed)


def wake_cases(random: Random) -> Iterator[Case]:
    table, _ = some_table(random)
    used = int(table.state[kernels.KEYS])
    table.current = table._register_array(kernels.CURRENT_AT, np.empty(max(used, 1), np.int64))
    before = random.permutation(used)[: int(random.integers(0, 20))]
    for number in before.tolist():
        table.bits[number >> 6] |= np.array(1 << (number & 63), np.uint64).astype(np.int64)
    table.current[: len(before)], table.state[kernels.CURRENT] = before, len(before)
    numbers = random.integers(0, used, int(random.integers(0, 60))) if used else np.empty(0, np.int64)
    yield Case((numbers, table.state), table)


@reference("history.wake", wake_cases, lambda result, numbers, state: arrays_of(state).current.tolist())
def wake(numbers, state) -> object:
    return list(dict.fromkeys([*arrays_of(state).current.tolist(), *numbers.tolist()]))


def numbers_in(slots: Words) -> list[int]:
    """The keys' numbers that can be found."""
    return sorted((slot & LOW) - 1 for slot in found_slots(slots))


def committed_cases(random: Random) -> Iterator[Case]:
    table, width = some_table(random)
    take(table, some_step(random, table, width, int(random.integers(1, 4))))
    yield Case((table.state,), table)


def seen_contents(result, state) -> object:
    table = arrays_of(state)
    assert len(found_slots(table.slots)) == len(table.contents) == state[kernels.LIVE_KEYS]
    return table.contents


@reference("history.commit", committed_cases, seen_contents)
def commit(state) -> object:
    found = {}
    for key, given in arrays_of(state).contents.items():
        merged: dict[Row, Group] = {}
        for time, group in given:
            at = (kernels.COMMITTED, *time[1:])
            merged[at] = merged[at].plus(group) if at in merged else group
        kept = [
            (at, group) for at, group in sorted(merged.items(), key=lambda one: one[0]) if not group.is_zero
        ]
        if kept:
            found[key] = kept
    return found


def seen_rolled_back(result, state) -> object:
    assert not arrays_of(state).bits.any()
    return seen_contents(result, state)


@reference("history.rollback", lambda random: plain_cases(random), seen_rolled_back)
def rollback(state) -> object:
    found = {}
    for key, given in arrays_of(state).contents.items():
        kept = [(time, group) for time, group in given if time[0] == kernels.COMMITTED]
        if kept:
            found[key] = kept
    return found


def plain(random: Random, depth: int | None = None) -> tuple[HistoryTable, int]:
    """A table of counts only, after some steps."""
    key = int(random.integers(1, 4))
    table = HistoryTable(key, (), depth or int(random.integers(2, 4)))
    for _ in range(int(random.integers(0, 3))):
        take(table, some_step(random, table, key + 1, 2))
        table.commit() if random.random() < 0.7 else table.rollback()
    return table, key + 1


def plain_cases(random: Random) -> Iterator[Case]:
    """A step of a table of counts that is to be rolled back before its last rounds are evaluated."""
    table, width = plain(random)
    *before, (rounds, updates) = some_step(random, table, width, 2)
    for earlier, given in before:
        table.accumulate(given, earlier)
        table.evaluate_threshold(earlier, False)
    table.accumulate(updates, rounds)
    yield Case((table.state,), table)
