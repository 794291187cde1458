"""In which round of a recursion its rows came to be there: read from the state that maintains it.

A row's *rank* is the round, from 0 on, at which it is first in the result. What it was derived from in that
round has lower ranks, since a round reads what the rounds before have found.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import historytable, ranks
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]


def ranks_of(table: HistoryTable, rows: Words, *, gone: bool = False) -> Words:
    """The rank of each row ``int64[w, n]`` of a distinct in a loop, -1 where it is not there.

    With ``gone``, rows count that were there in some round and then no more.
    """
    _check(table)
    found = np.empty(rows.shape[1], np.int64)
    ranks.find(np.ascontiguousarray(rows), table.state, int(gone), found)
    return found


def ranked(table: HistoryTable, *, gone: bool = False) -> tuple[Words, Words]:
    """All rows ``int64[w, n]`` of a distinct in a loop, and their ranks; ``gone`` as in :func:`ranks_of`."""
    _check(table)
    used = int(table.state[historytable.KEYS])
    rows, found = np.empty((table.key, used), np.int64), np.empty(used, np.int64)
    n = ranks.every(table.state, int(gone), rows, found)
    return np.ascontiguousarray(rows[:, :n]), found[:n]


def first_rounds(updates: Updates) -> tuple[Words, Words]:
    """The rows ``int64[w, n]`` that were ever there, each once, and the round that each first was there.

    The updates' times are (epoch, round), of which the epochs are closed.
    """
    rounds = updates.with_time(np.ascontiguousarray(updates.times()[1:])).consolidate()
    if not len(rounds):
        return rounds.data, np.empty(0, np.int64)
    data, times, diffs = rounds.data, rounds.times()[0], rounds.diffs()
    fresh = np.ones(len(rounds), np.bool_)
    fresh[1:] = (data[:, 1:] != data[:, :-1]).any(axis=0)
    # Within a row the updates are in order of rounds, and the first of them adds.
    kept = np.flatnonzero(fresh & (diffs > 0))
    return np.ascontiguousarray(data[:, kept]), times[kept]


def _check(table: HistoryTable) -> None:
    if table.depth != 2:
        raise InternalError(f"ranks are those of a loop in no other, not of one at depth {table.depth}")
