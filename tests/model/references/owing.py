"""``differences``, ``thresholds``: what keys owe at given rounds, by definition of the mixed difference."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from kpg.runtime.kernels import historytable as kernels
from kpg.runtime.trace.updates import Updates
from tests.model.references import Arguments, Case, Random, reference
from tests.model.references.aggregates import Group, decoded, nothing
from tests.model.references.histories import (
    Record,
    arrays_of,
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


def threshold_cases(random: Random) -> Iterator[Case]:
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
        for later in table.new_rounds:
            due.setdefault(later, None)
    table.accumulate(updates, rounds)
    count = table._begin_evaluation(rounds)
    most = max(count, int(table.state[kernels.STEP_RECORDS]))
    out = np.empty((table.key + table.depth + 1) * most, np.int64)
    owed = np.empty((table.depth, count), np.int64)
    yield Case((np.array(rounds, np.int64), distinct, table.state, out, owed), table)


def seen_threshold(result, rounds, distinct, state, out, owed) -> object:
    table = arrays_of(state)
    columns = table.nk + 2 + len(rounds)
    assert not table.bits.any() and state[kernels.CURRENT] == 0
    updates = out[: columns * result].reshape(columns, result)
    assert (state[kernels.ENTRIES] == 1) == (len(set(updates[-1].tolist())) < 2)
    return sorted(tuples(updates)) if result else []


@reference("thresholds.evaluate", threshold_cases, seen_threshold)
def evaluate(rounds, distinct, state, out, owed) -> object:
    def shown(group: Group) -> int:
        return min(max(group.rows, 0), 1) if distinct else max(group.rows, 0)

    at = tuple(rounds.tolist())
    table = arrays_of(state)
    found = []
    for number in table.current.tolist():
        given = records_of(number, table.nk, len(at), table.keys, table.records, table.spec)
        key = tuple(table.keys[number, 1 : 1 + table.nk].tolist())
        for before, epoch in step_epochs(given, at):
            change = 0
            for sign, corner in corners_below(at):
                after, ago = (sum_at(given, table.spec, corner, one) for one in (epoch, before))
                change += sign * (shown(after) - shown(ago))
            if change:
                found.append((*key, epoch, *at, change))
    return sorted(found)


def corner_cases(random: Random) -> Iterator[Case]:
    table, rounds, updates = begun(random)
    table.accumulate(updates, rounds)
    count = table._begin_evaluation(rounds)
    most = (int(table.state[kernels.STEP_RECORDS]) + 1) << len(rounds)
    entries, sides = np.empty((2, most), np.int64), np.empty((2 * most, table.words), np.int64)
    owed = np.empty((table.depth, count), np.int64)
    yield Case((np.array(rounds, np.int64), 0, table.state, entries, sides, owed), table)


def seen_corners(result, rounds, first, state, entries, sides, owed) -> object:
    table = arrays_of(state)
    found = []
    for entry in range(int(state[kernels.ENTRIES])):
        key = tuple(table.keys[entries[0, entry], 1 : 1 + table.nk].tolist())
        both = (sides[entry], sides[entries.shape[1] + entry])
        shown = (repr(decoded(side.tolist(), table.spec.tolist())) for side in both)
        found.append((key, int(entries[1, entry]), *shown))
    return result, sorted(found)


@reference("differences.corners", corner_cases, seen_corners)
def corners(rounds, first, state, entries, sides, owed) -> object:
    at = tuple(rounds.tolist())
    table = arrays_of(state)
    found = []
    for number in table.current.tolist():
        given = records_of(number, table.nk, len(at), table.keys, table.records, table.spec)
        key = tuple(table.keys[number, 1 : 1 + table.nk].tolist())
        for before, epoch in step_epochs(given, at):
            for sign, corner in corners_below(at):
                ends = [sum_at(given, table.spec, corner, one) for one in (before, epoch)]
                if ends[0] != ends[1]:
                    found.append((key, epoch, *map(repr, ends[::sign])))
    return len(table.current), sorted(found)


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
        np.stack((entry_key, entry_epoch)),
        n,
        np.empty(n, np.int64),
    )


def seen_kept(result, out, diff, entry, entries, n, epochs) -> object:
    kept = zip(tuples(out[:, :result], result), epochs[:result].tolist(), diff[:result].tolist(), strict=True)
    return Counter(kept)


@reference("differences.cancel", cancel_cases, seen_kept)
def cancel(out, diff, entry, entries, n, epochs) -> object:
    sums: Counter[tuple[Any, ...]] = Counter()
    for row, amount, at in zip(tuples(out), diff.tolist(), entry.tolist(), strict=True):
        sums[(row, *entries[:, at].tolist())] += amount
    return Counter((row, epoch, total) for (row, _, epoch), total in sums.items() if total)


def total_cases(random: Random) -> Iterator[Case]:
    table, _ = some_table(random)
    used = int(table.state[kernels.KEYS])
    numbers, acc = np.empty(used, np.int64), np.empty((used, table.words), np.int64)
    yield Case((0, used, table.state, numbers, acc), table)


def seen_totals(result, first, last, state, numbers, acc) -> object:
    spec = arrays_of(state).spec.tolist()
    return [(int(numbers[i]), decoded(acc[i].tolist(), spec)) for i in range(result)]


@reference("differences.totals", total_cases, seen_totals)
def totals(first, last, state, numbers, acc) -> object:
    table = arrays_of(state)
    found = []
    for number in range(first, last):
        if table.keys[number, 1 + table.nk] != kernels.FREE:
            total = nothing(table.spec.tolist())
            given = records_of(number, table.nk, table.rounds, table.keys, table.records, table.spec)
            for _, group in given:
                total = total.plus(group)
            found.append((number, total))
    return found


def most_rows_cases(random: Random) -> Iterator[Case]:
    table, _ = plain(random)
    yield Case((table.state,), table)


@reference("differences.most_rows", most_rows_cases, lambda result, state: result)
def most_rows(state) -> object:
    known = arrays_of(state).contents.values()
    return float(max((sum(abs(group.rows) for _, group in given) for given in known), default=0))
