"""Ranks: the round of a recursion in which each row was first derived, read from the loop's state.

A row's *rank* is the first round, from 0, in which it is in the result. The rows that it was derived from in
that round have lower ranks, because a round reads the results of earlier rounds.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import historytable
from kpg.runtime.kernels import ranks as kernels
from kpg.runtime.operators.exchange import Sending, Share
from kpg.runtime.operators.linear import Linear, apply_all
from kpg.runtime.operators.loop import ArrangedLeave, Leave
from kpg.runtime.operators.reduce import LoopDistinct
from kpg.runtime.operators.topk import TopK
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]


def ranks_of(table: HistoryTable, rows: Words, *, gone: bool = False) -> Words:
    """The rank of each row ``int64[w, n]`` of a distinct in a loop, -1 where it is not there.

    With ``gone``, rows count that were there in some round and then no more.
    """
    _check(table)
    found = np.empty(rows.shape[1], np.int64)
    kernels.find(np.ascontiguousarray(rows), table.state, int(gone), found)
    return found


def ranked(table: HistoryTable, *, gone: bool = False) -> tuple[Words, Words]:
    """All rows ``int64[w, n]`` of a distinct in a loop, and their ranks; ``gone`` as in :func:`ranks_of`."""
    _check(table)
    used = int(table.state[historytable.KEYS])
    rows, found = np.empty((table.key, used), np.int64), np.empty(used, np.int64)
    n = kernels.every(table.state, int(gone), rows, found)
    return np.ascontiguousarray(rows[:, :n]), found[:n]


def first_rounds_in_state(updates: Updates) -> tuple[Words, Words]:
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


class StateRanks:
    """The ranks of a set that a loop keeps in a history table: an ``executor.RankLookup``."""

    def __init__(self, table: HistoryTable) -> None:
        self._table = table

    @property
    def width(self) -> int:
        """The columns of a row."""
        return self._table.key

    def __len__(self) -> int:
        return len(self._table)

    def of(self, rows: Words, *, gone: bool = False) -> Words:
        """The rank of each row, -1 where it is not there."""
        return ranks_of(self._table, rows, gone=gone)

    def every(self, *, gone: bool = False) -> tuple[Words, Words]:
        """All rows and their ranks."""
        return ranked(self._table, gone=gone)


def ranks(output: Operator) -> StateRanks | None:
    """The ranks of what leaves a loop as a set; None for any other output."""
    result = _result(output)
    return StateRanks(result.table) if isinstance(result, LoopDistinct) else None


def first_rounds(output: Operator) -> tuple[Words, Words] | None:
    """The rows that a least or greatest value in a loop was taken of, and the round that each came in.

    None for any other output.
    """
    result = _result(output)
    chain: list[Linear] = []
    while isinstance(result, Linear):
        chain.insert(0, result)
        (result,) = result.inputs
    if not isinstance(result, TopK):
        return None
    width = chain[-1].width if chain else result.width
    parts = list(result.arrangement.spine.parts())
    for linear in chain:
        parts = list(apply_all(linear.mfp, parts))
    return first_rounds_in_state(Updates.concat(parts or [Updates.empty(width, 2)]))


def _result(output: Operator) -> Operator | None:
    """What leaves a loop as ``output``, wherever it is sent; None if that is not what a loop gives."""
    if not isinstance(output, Leave | ArrangedLeave):
        return None
    result = output.inputs[0]
    while isinstance(result, Share | Sending):
        result = result.inputs[0]
    return result
