"""``differences``: what keys owe at given rounds, by the definition of the mixed difference."""

from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np

from kpg.runtime.kernels import history as kernels
from kpg.runtime.trace.updates import Updates
from tests.model.references import Arguments, Random, reference
from tests.model.references.aggregates import Group, decoded, nothing
from tests.model.references.histories import (
    NO_AGGREGATES,
    Record,
    begun,
    plain,
    records_of,
    some_step,
    some_table,
)
from tests.model.references.words import Row, Words, size, tuples


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
