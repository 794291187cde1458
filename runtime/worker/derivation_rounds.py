"""Ranks: the round of a recursion in which each row was first derived, read from the loop's state.

A row's *rank* is the first round, from 0, in which it is in the result. The rows from which it was derived in
that round have lower ranks, because a round reads the results of earlier rounds.
"""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import historytable
from kpg.runtime.kernels import ranks as kernels
from kpg.runtime.operators.exchange import LocalShare, SendExchange
from kpg.runtime.operators.linear import Linear, apply_mfp_to_parts
from kpg.runtime.operators.loop import is_leave
from kpg.runtime.operators.reduce import LoopReduce, ThresholdOutput
from kpg.runtime.operators.topk import TopK
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]


def ranks_of(table: HistoryTable, rows: Words, *, include_deleted: bool = False) -> Words:
    """Return the rank of each row ``int64[w, n]`` of a distinct in a loop, -1 for a missing row.

    With ``include_deleted``, rows count that appeared in some round and disappeared in a later one.
    """
    _check(table)
    result = np.empty(rows.shape[1], np.int64)
    kernels.find(np.ascontiguousarray(rows), table.state, int(include_deleted), result)
    return result


def rows_with_ranks(table: HistoryTable, *, include_deleted: bool = False) -> tuple[Words, Words]:
    """Return all rows ``int64[w, n]`` of a distinct in a loop, and their ranks.

    ``include_deleted`` is as in :func:`ranks_of`.
    """
    _check(table)
    used = int(table.state[historytable.KEYS])
    rows, row_ranks = np.empty((table.key, used), np.int64), np.empty(used, np.int64)
    n = kernels.every(table.state, int(include_deleted), rows, row_ranks)
    return np.ascontiguousarray(rows[:, :n]), row_ranks[:n]


def first_rounds_in_state(updates: Updates) -> tuple[Words, Words]:
    """Return the rows ``int64[w, n]`` that ever existed, each once, and the first round of each.

    The updates' times are (epoch, round), and the epochs are closed.
    """
    rounds = updates.with_time(np.ascontiguousarray(updates.times()[1:])).consolidate()
    if not len(rounds):
        return rounds.data, np.empty(0, np.int64)
    data, times, diffs = rounds.data, rounds.times()[0], rounds.diffs()
    is_first = np.ones(len(rounds), np.bool_)
    is_first[1:] = (data[:, 1:] != data[:, :-1]).any(axis=0)
    # The updates of a row are in order of rounds, and the first one is an insertion.
    first_additions = np.flatnonzero(is_first & (diffs > 0))
    return np.ascontiguousarray(data[:, first_additions]), times[first_additions]


def _check(table: HistoryTable) -> None:
    if table.depth != 2:
        raise InternalError(f"ranks exist only for loops outside other loops, not at depth {table.depth}")


class StateRanks:
    """Ranks of a set that a loop keeps in a history table; implements ``handles.RankLookup``."""

    def __init__(self, table: HistoryTable) -> None:
        self._table = table

    @property
    def width(self) -> int:
        """Number of columns of a row."""
        return self._table.key

    def __len__(self) -> int:
        return len(self._table)

    def ranks_of(self, rows: Words, *, include_deleted: bool = False) -> Words:
        """Return the rank of each row, -1 for a missing row."""
        return ranks_of(self._table, rows, include_deleted=include_deleted)

    def all_ranks(self, *, include_deleted: bool = False) -> tuple[Words, Words]:
        """Return all rows and their ranks."""
        return rows_with_ranks(self._table, include_deleted=include_deleted)


def ranks(output: Operator) -> StateRanks | None:
    """Return the ranks of a set that leaves a loop; None for any other output."""
    result = _loop_result(output)
    if isinstance(result, LoopReduce) and isinstance(result.output, ThresholdOutput):
        return StateRanks(result.table)
    return None


def first_rounds(output: Operator) -> tuple[Words, Words] | None:
    """Return the input rows of a min or max in a loop, and the round of each; None otherwise."""
    result = _loop_result(output)
    chain: list[Linear] = []
    while isinstance(result, Linear):
        chain.insert(0, result)
        (result,) = result.inputs
    if not isinstance(result, TopK):
        return None
    width = chain[-1].width if chain else result.width
    parts = list(result.arrangement.spine.parts())
    for linear in chain:
        parts = list(apply_mfp_to_parts(linear.mfp, parts))
    return first_rounds_in_state(Updates.concat(parts or [Updates.empty(width, 2)]))


def _loop_result(output: Operator) -> Operator | None:
    """Return the operator in the loop whose result leaves as ``output``; None if there is none."""
    if not is_leave(output):
        return None
    result = output.inputs[0]
    while isinstance(result, LocalShare | SendExchange):
        result = result.inputs[0]
    return result
