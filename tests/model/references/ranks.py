"""``ranks``, ``weights``: what is read off a history table between steps."""

from collections.abc import Iterator

import numpy as np

from kpg.runtime.kernels import history as kernels
from tests.model.references import Arguments, Random, reference
from tests.model.references.aggregates import operands
from tests.model.references.histories import (
    NO_AGGREGATES,
    Record,
    contents,
    numbers_in,
    plain,
    records_of,
)
from tests.model.references.words import size, tuples


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
