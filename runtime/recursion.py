"""In which round of a recursion its rows came, asked of the operator whose output is the recursion's."""

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.operators.exchange import Sending, Share
from kpg.runtime.operators.history import LoopDistinct
from kpg.runtime.operators.linear import Linear, apply_all
from kpg.runtime.operators.loop import ArrangedLeave, Leave
from kpg.runtime.operators.topk import TopK
from kpg.runtime.state import ranks as state
from kpg.runtime.state.history import HistoryTable
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]


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
        return state.ranks_of(self._table, rows, gone=gone)

    def every(self, *, gone: bool = False) -> tuple[Words, Words]:
        """All rows and their ranks."""
        return state.ranked(self._table, gone=gone)


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
    return state.first_rounds(Updates.concat(parts or [Updates.empty(width, 2)]))


def _result(output: Operator) -> Operator | None:
    """What leaves a loop as ``output``, wherever it is sent; None if that is not what a loop gives."""
    if not isinstance(output, Leave | ArrangedLeave):
        return None
    result = output.inputs[0]
    while isinstance(result, Share | Sending):
        result = result.inputs[0]
    return result
