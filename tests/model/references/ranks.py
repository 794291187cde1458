"""``ranks``: what is read off a history table between steps."""

from collections.abc import Iterator

import numpy as np

from kpg.runtime.kernels import historytable as kernels
from tests.model.references import Case, Random, reference
from tests.model.references.aggregates import operands
from tests.model.references.histories import Record, arrays_of, numbers_in, plain, records_of
from tests.model.references.words import size, tuples


def first_round(given: list[Record], gone: int) -> int:
    """The first round at which the count is positive, if it is so in the end or ``gone``; else -1."""
    total, found = 0, -1
    for time, group in sorted(given, key=lambda one: one[0]):
        total += group.rows
        if found < 0 and total > 0:
            found = time[1]
    return found if total > 0 or gone else -1


def find_cases(random: Random) -> Iterator[Case]:
    table, width = plain(random, depth=2)
    rows = operands(random, table.key, width, size(random))[: table.key]
    used = int(table.state[kernels.KEYS])
    there = table.keys[:used, 1 : 1 + table.key].T
    given = np.ascontiguousarray(np.concatenate((rows, there), axis=1))
    yield Case((given, table.state, int(random.integers(2)), np.empty(given.shape[1], np.int64)), table)


@reference("ranks.find", find_cases, lambda result, rows, state, gone, ranks: ranks.tolist())
def find(rows, state, gone, ranks) -> object:
    table = arrays_of(state)
    known = {}
    for number in numbers_in(table.slots):
        given = records_of(number, table.nk, 1, table.keys, table.records, table.spec)
        known[tuple(table.keys[number, 1 : 1 + table.nk].tolist())] = first_round(given, gone)
    return [known.get(row, -1) for row in tuples(rows)]


def every_cases(random: Random) -> Iterator[Case]:
    table, _ = plain(random, depth=2)
    used = int(table.state[kernels.KEYS])
    rows, found = np.empty((table.key, used), np.int64), np.empty(used, np.int64)
    yield Case((table.state, int(random.integers(2)), rows, found), table)


def seen_every(result, state, gone, rows, found) -> object:
    return [*zip(tuples(rows[:, :result], result), found[:result].tolist(), strict=True)]


@reference("ranks.every", every_cases, seen_every)
def every(state, gone, rows, ranks) -> object:
    found = [(key, first_round(given, gone)) for key, given in arrays_of(state).contents.items()]
    return [(key, rank) for key, rank in found if rank >= 0]
