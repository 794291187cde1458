"""``history``, ``differences``, ``ranks``, ``weights``: accumulators by key and time."""

from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np

from kpg.runtime.kernels import groups as aggregates
from kpg.runtime.kernels import history as kernels
from kpg.runtime.state.groups import Accumulator
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.updates import Updates
from tests.model.references import Arguments, Random, reference
from tests.model.references.aggregates import Group, decoded, nothing, operands, some_accumulators
from tests.model.references.texts import found_slots
from tests.model.references.words import Row, Words, size, tuples

Record = tuple[Row, Group]
"""A time, whose epoch is -1 if it is of closed ones, and what came at it."""
COUNTED = (aggregates.COUNT, aggregates.SUM)


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
        for later in table.owed:
            due.setdefault(later, None)


def some_table(
    random: Random, kinds: tuple[int, ...] = (*COUNTED, aggregates.SUM_DOUBLE), depth: int | None = None
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


def accumulate_cases(random: Random) -> Iterator[Arguments]:
    table, _, updates = begun(random, (*COUNTED, aggregates.SUM_DOUBLE))
    n = updates.data.shape[1]
    table._reserve(n)
    yield (
        updates.data, updates.time, updates.diff, 0, n, table.key, table.spec, table.slots, table.keys,
        table.records, table.bits, table.touched, table.current, table.state,
    )  # fmt: skip


def seen_accumulated(
    result, data, time, diff, first, last, nk, spec, slots, keys, records, bits, touched, current, state
) -> object:
    used = int(state[kernels.KEYS])
    found = contents(nk, time.shape[0] - 1, keys, records, spec, used)
    listed = tuples(np.ascontiguousarray(keys[current[: state[kernels.CURRENT]], 1 : 1 + nk].T))
    flagged = [number for number in range(used) if bits[number >> 6] >> (number & 63) & 1]
    assert sorted(current[: state[kernels.CURRENT]].tolist()) == flagged
    assert len(found_slots(slots)) == len(found) == state[kernels.LIVE_KEYS]
    return found, sorted(listed)


@reference("history.accumulate", accumulate_cases, seen_accumulated)
def accumulate(
    data, time, diff, first, last, nk, spec, slots, keys, records, bits, touched, current, state
) -> object:
    found = contents(nk, time.shape[0] - 1, keys, records, spec, int(state[kernels.KEYS]))
    listed = set()
    for row, at, amount in zip(tuples(data), tuples(time, data.shape[1]), diff.tolist(), strict=True):
        listed.add(row[:nk])
        by_time = dict(found.get(row[:nk], []))
        group = by_time.setdefault(at, nothing(spec.tolist()))
        group.add(row, amount, spec.tolist())
        found[row[:nk]] = sorted(by_time.items(), key=lambda one: one[0])
    return found, sorted(listed)


def wake_cases(random: Random) -> Iterator[Arguments]:
    bits, current, state = (
        np.zeros(2, np.int64),
        np.empty(200, np.int64),
        np.zeros(kernels.SINK + 1, np.int64),
    )
    before = random.permutation(128)[: int(random.integers(0, 20))]
    for number in before.tolist():
        bits[number >> 6] |= np.array(1 << (number & 63), np.uint64).astype(np.int64)
    current[: len(before)], state[kernels.CURRENT] = before, len(before)
    yield random.integers(0, 128, int(random.integers(0, 60))), bits, current, state


@reference(
    "history.wake",
    wake_cases,
    lambda result, numbers, bits, current, state: current[: state[kernels.CURRENT]].tolist(),
)
def wake(numbers, bits, current, state) -> object:
    return list(dict.fromkeys([*current[: state[kernels.CURRENT]].tolist(), *numbers.tolist()]))


def rehash_cases(random: Random) -> Iterator[Arguments]:
    table, _ = some_table(random)
    yield table.keys, int(table.state[kernels.KEYS]), table.key, np.zeros_like(table.slots)


def numbers_in(slots: Words) -> list[int]:
    """The keys' numbers that can be found."""
    return sorted((slot & kernels.LOW) - 1 for slot in found_slots(slots))


@reference("history.rehash", rehash_cases, lambda result, keys, used, nk, slots: numbers_in(slots))
def rehash(keys, used, nk, slots) -> object:
    return [number for number in range(used) if keys[number, 1 + nk] != kernels.FREE]


def committed_cases(random: Random) -> Iterator[Arguments]:
    table, width = some_table(random)
    take(table, some_step(random, table, width, int(random.integers(1, 4))))
    yield (
        table.touched, table.key, table.depth - 1, table.spec, table.slots, table.keys, table.records,
        table.state,
    )  # fmt: skip


def seen_committed(result, touched, nk, rounds, spec, slots, keys, records, state) -> object:
    found = contents(nk, rounds, keys, records, spec, int(state[kernels.KEYS]))
    assert len(found_slots(slots)) == len(found) == state[kernels.LIVE_KEYS]
    return found


@reference("history.commit", committed_cases, seen_committed)
def commit(touched, nk, rounds, spec, slots, keys, records, state) -> object:
    found = {}
    for key, given in contents(nk, rounds, keys, records, spec, int(state[kernels.KEYS])).items():
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


def rounds_in(keys: Words, records: Words, nk: int) -> int:
    """The rounds of a time, where nothing is kept but the count of rows."""
    return keys.shape[1] - nk - 3


NO_AGGREGATES = np.zeros((0, 3), np.int64)


def seen_rolled_back(result, touched, current, nk, bits, slots, keys, records, state) -> object:
    assert not bits.any()
    found = contents(nk, rounds_in(keys, records, nk), keys, records, NO_AGGREGATES, int(state[kernels.KEYS]))
    assert len(found_slots(slots)) == len(found) == state[kernels.LIVE_KEYS]
    return found


@reference("history.rollback", lambda random: plain_cases(random), seen_rolled_back)
def rollback(touched, current, nk, bits, slots, keys, records, state) -> object:
    rounds = rounds_in(keys, records, nk)
    found = {}
    for key, given in contents(nk, rounds, keys, records, NO_AGGREGATES, int(state[kernels.KEYS])).items():
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


def plain_cases(random: Random) -> Iterator[Arguments]:
    """A step of a table of counts that is to be rolled back before its last rounds are evaluated."""
    table, width = plain(random)
    *before, (rounds, updates) = some_step(random, table, width, 2)
    for earlier, given in before:
        table.accumulate(given, earlier)
        table.evaluate_threshold(earlier, False)
    table.accumulate(updates, rounds)
    yield (
        table.touched, table.current, table.key, table.bits, table.slots, table.keys, table.records,
        table.state,
    )  # fmt: skip


# differences


def sum_at(given: list[Record], spec: Words, rounds: Row, epoch: int) -> Group:
    """What has accumulated at rounds and an epoch."""
    total = nothing(spec.tolist())
    for time, group in given:
        if time[0] <= epoch and all(a <= b for a, b in zip(time[1:], rounds, strict=True)):
            total = total.plus(group)
    return total


def corners_below(rounds: Row) -> list[tuple[int, Row]]:
    """The corners of the unit cube below, with their signs."""
    offsets = product((0, 1), repeat=len(rounds))
    return [((-1) ** sum(one), tuple(a - b for a, b in zip(rounds, one, strict=True))) for one in offsets]


def step_epochs(given: list[Record], rounds: Row) -> list[tuple[int, int]]:
    """The step's epochs at which something came up to these rounds, each with the one before."""
    some = {
        time[0]
        for time, _ in given
        if time[0] >= 0 and all(a <= b for a, b in zip(time[1:], rounds, strict=True))
    }
    ordered = sorted(some)
    return list(zip([kernels.COMMITTED, *ordered], ordered, strict=False))


def threshold_cases(random: Random) -> Iterator[Arguments]:
    table, width = plain(random)
    distinct = int(random.integers(2))
    *before, (rounds, updates) = some_step(random, table, width, int(random.integers(1, 4)))
    due: dict[Row, Updates | None] = dict(before)
    while due and min(due) < rounds:
        earlier = min(due)
        given = due.pop(earlier)
        if given is not None:
            table.accumulate(given, earlier)
        table.evaluate_threshold(earlier, bool(distinct))
        for later in table.owed:
            due.setdefault(later, None)
    table.accumulate(updates, rounds)
    count = table._begin(rounds)
    most = max(count, int(table.state[kernels.STEP_RECORDS]))
    yield (
        np.array(rounds, np.int64), distinct, table.key, table.keys, table.records, table.bits, table.current,
        np.empty((table.key + table.depth + 1) * most, np.int64), most,
        np.empty((table.depth, count), np.int64),
        table.state,
    )  # fmt: skip


def seen_threshold(
    result, rounds, distinct, nk, keys, records, bits, current, out, most, owed, state
) -> object:
    table = (
        out[: (nk + 2 + len(rounds)) * result].reshape(-1, result)
        if result
        else np.empty((nk + 3, 0), np.int64)
    )
    assert not bits.any() and state[kernels.CURRENT] == 0
    return sorted(tuples(table))


@reference("differences.evaluate_threshold", threshold_cases, seen_threshold)
def evaluate_threshold(rounds, distinct, nk, keys, records, bits, current, out, most, owed, state) -> object:
    def shown(group: Group) -> int:
        return min(max(group.rows, 0), 1) if distinct else max(group.rows, 0)

    at = tuple(rounds.tolist())
    found = []
    for number in current[: state[kernels.CURRENT]].tolist():
        given = records_of(number, nk, len(at), keys, records, NO_AGGREGATES)
        key = tuple(keys[number, 1 : 1 + nk].tolist())
        for before, epoch in step_epochs(given, at):
            change = sum(
                sign
                * (
                    shown(sum_at(given, NO_AGGREGATES, corner, epoch))
                    - shown(sum_at(given, NO_AGGREGATES, corner, before))
                )
                for sign, corner in corners_below(at)
            )
            if change:
                found.append((*key, epoch, *at, change))
    return sorted(found)


def corner_cases(random: Random) -> Iterator[Arguments]:
    table, rounds, updates = begun(random)
    table.accumulate(updates, rounds)
    count = table._begin(rounds)
    most = (int(table.state[kernels.STEP_RECORDS]) + 1) << len(rounds)
    yield (
        np.array(rounds, np.int64), 0, 0, table.key, table.spec, table.keys, table.records, table.bits,
        table.current, *np.empty((2, most), np.int64), *np.empty((2, most, table.words), np.int64),
        np.empty((table.depth, count), np.int64), table.state,
    )  # fmt: skip


def seen_corners(
    result,
    rounds,
    first,
    absent,
    nk,
    spec,
    keys,
    records,
    bits,
    current,
    entry_key,
    entry_epoch,
    old,
    new,
    owed,
    state,
) -> object:
    found = []
    for entry in range(int(state[kernels.ENTRIES])):
        key = tuple(keys[entry_key[entry], 1 : 1 + nk].tolist())
        sides = (repr(decoded(side[entry].tolist(), spec.tolist())) for side in (old, new))
        found.append((key, int(entry_epoch[entry]), *sides))
    return result, sorted(found)


@reference("differences.corners", corner_cases, seen_corners)
def corners(
    rounds,
    first,
    absent,
    nk,
    spec,
    keys,
    records,
    bits,
    current,
    entry_key,
    entry_epoch,
    old,
    new,
    owed,
    state,
) -> object:
    at = tuple(rounds.tolist())
    count = int(state[kernels.CURRENT])
    found = []
    for number in current[:count].tolist():
        given = records_of(number, nk, len(at), keys, records, spec)
        key = tuple(keys[number, 1 : 1 + nk].tolist())
        for before, epoch in step_epochs(given, at):
            for sign, corner in corners_below(at):
                sides = [sum_at(given, spec, corner, one) for one in (before, epoch)]
                if sides[0] != sides[1]:
                    found.append((key, epoch, *map(repr, sides[::sign])))
    return count, sorted(found)


def cancel_cases(random: Random) -> Iterator[Arguments]:
    n, width = size(random), int(random.integers(1, 4))
    entry_key, entry_epoch = np.sort(random.integers(0, 6, n)), np.zeros(n, np.int64)
    for key in range(6):
        own = entry_key == key
        entry_epoch[own] = np.sort(random.integers(0, 3, own.sum()))
    out = random.integers(0, 3, (width, n))
    yield (
        out,
        random.choice([-1, 1], n).astype(np.int64),
        np.arange(n),
        entry_key,
        entry_epoch,
        n,
        np.empty(n, np.int64),
    )


def seen_kept(result, out, diff, entry, entry_key, entry_epoch, n, epochs) -> object:
    kept = zip(tuples(out[:, :result], result), epochs[:result].tolist(), diff[:result].tolist(), strict=True)
    return Counter(kept)


@reference("differences.cancel", cancel_cases, seen_kept)
def cancel(out, diff, entry, entry_key, entry_epoch, n, epochs) -> object:
    sums: Counter[tuple[int, int, Row]] = Counter()
    for row, amount, at in zip(tuples(out), diff.tolist(), entry.tolist(), strict=True):
        sums[int(entry_key[at]), int(entry_epoch[at]), row] += amount
    return Counter((row, epoch, total) for (_, epoch, row), total in sums.items() if total)


def total_cases(random: Random) -> Iterator[Arguments]:
    table, _ = some_table(random)
    used = int(table.state[kernels.KEYS])
    yield (
        0, used, table.key, table.depth - 1, table.spec, table.keys, table.records, np.empty(used, np.int64),
        np.empty((used, table.words), np.int64),
    )  # fmt: skip


def seen_totals(result, first, last, nk, rounds, spec, keys, records, numbers, acc) -> object:
    return [(int(numbers[i]), decoded(acc[i].tolist(), spec.tolist())) for i in range(result)]


@reference("differences.totals", total_cases, seen_totals)
def totals(first, last, nk, rounds, spec, keys, records, numbers, acc) -> object:
    found = []
    for number in range(first, last):
        if keys[number, 1 + nk] != kernels.FREE:
            total = nothing(spec.tolist())
            for _, group in records_of(number, nk, rounds, keys, records, spec):
                total = total.plus(group)
            found.append((number, total))
    return found


# ranks, weights


def first_round(given: list[Record], gone: int) -> int:
    """The first round at which the count is positive, if it is so in the end or ``gone``; else -1."""
    total, found = 0, -1
    for time, group in sorted(given, key=lambda one: one[0]):
        total += group.rows
        if found < 0 and total > 0:
            found = time[1]
    return found if total > 0 or gone else -1


def find_cases(random: Random) -> Iterator[Arguments]:
    table, width = plain(random, depth=2)
    rows = operands(random, table.key, width, size(random))[: table.key]
    used = int(table.state[kernels.KEYS])
    there = table.keys[:used, 1 : 1 + table.key].T
    given = np.ascontiguousarray(np.concatenate((rows, there), axis=1))
    gone = int(random.integers(2))
    yield given, table.slots, table.keys, table.records, gone, np.empty(given.shape[1], np.int64)


@reference("ranks.find", find_cases, lambda result, *arguments: arguments[-1].tolist())
def find(rows, slots, keys, records, gone, ranks) -> object:
    nk = rows.shape[0]
    known = {}
    for number in numbers_in(slots):
        given = records_of(number, nk, 1, keys, records, NO_AGGREGATES)
        known[tuple(keys[number, 1 : 1 + nk].tolist())] = first_round(given, gone)
    return [known.get(row, -1) for row in tuples(rows)]


def every_cases(random: Random) -> Iterator[Arguments]:
    table, _ = plain(random, depth=2)
    used = int(table.state[kernels.KEYS])
    rows, found = np.empty((table.key, used), np.int64), np.empty(used, np.int64)
    yield 0, used, table.key, table.keys, table.records, int(random.integers(2)), rows, found


def seen_every(result, first, last, nk, keys, records, gone, rows, found) -> object:
    return [*zip(tuples(rows[:, :result], result), found[:result].tolist(), strict=True)]


@reference("ranks.every", every_cases, seen_every)
def every(first, last, nk, keys, records, gone, rows, ranks) -> object:
    known = contents(nk, 1, keys, records, NO_AGGREGATES, last)
    found = [(key, first_round(given, gone)) for key, given in known.items()]
    return [(key, rank) for key, rank in found if rank >= 0]


def heaviest_cases(random: Random) -> Iterator[Arguments]:
    table, _ = plain(random)
    yield table.keys, int(table.state[kernels.KEYS]), table.key, table.depth - 1, table.records


@reference("weights.heaviest_key", heaviest_cases, lambda result, *arguments: result)
def heaviest_key(keys, used, nk, rounds, records) -> object:
    known = contents(nk, rounds, keys, records, NO_AGGREGATES, used)
    return float(max((sum(abs(group.rows) for _, group in given) for given in known.values()), default=0))
