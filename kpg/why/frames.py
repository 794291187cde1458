"""Which rows of a sorted partition a window function looks at, from one of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import numpy as np

from kpg.runtime.functions import Answer, window_function
from kpg.runtime.plan.nodes import Bound, Edge, Exclude, Frame, Ranged, Unit, WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Literal
from kpg.runtime.types import NULL
from kpg.why.asking import Words

Ordered = Callable[[int, Words], Words]
"""Words of a column as numbers in the order of its values, both of a row and of all rows."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The rows of a partition in order: columns by their ids, and the number of each row's group of peers."""

    columns: Mapping[int, Words]
    peers: Words
    ordered: Ordered

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.peers.shape[0])


def looked_at(call: WindowCall, partition: Partition, position: int) -> Sequence[int]:
    """The places of the rows that a call's answer for the row at ``position`` depends on most directly."""
    known = window_function(call.function)
    every = range(partition.size)
    if known is None:
        return framed(call.frame, partition, position)
    match known.answer:
        case Answer.ROW_NUMBER:
            return range(position + 1)
        case Answer.RANK | Answer.DENSE_RANK:
            return np.flatnonzero(partition.peers < partition.peers[position]).tolist()
        case Answer.PERCENT_RANK | Answer.CUME_DIST | Answer.NTILE:
            return every
        case Answer.LAG | Answer.LEAD:
            offset = _number(call, partition, position, 1)
            if offset is None:
                return ()
            place = position - offset if known.answer is Answer.LAG else position + offset
            return (place,) if 0 <= place < partition.size else ()
        case Answer.FIRST_VALUE:
            return framed(call.frame, partition, position)[:1]
        case Answer.LAST_VALUE:
            return framed(call.frame, partition, position)[-1:]
        case Answer.NTH_VALUE:
            number = _number(call, partition, position, 1)
            rows = framed(call.frame, partition, position)
            return rows[number - 1 : number] if number else ()
        case _:
            assert_never(known.answer)


def _number(call: WindowCall, partition: Partition, position: int, default: int) -> int | None:
    """The second argument: how far, or which."""
    arg = call.args[1] if len(call.args) > 1 else Literal(default, call.type)
    if isinstance(arg, Column):
        word = int(partition.columns[arg.index][position])
        return None if word == NULL else word
    return arg.value if isinstance(arg, Literal) and isinstance(arg.value, int) else None


def framed(frame: Frame, partition: Partition, position: int) -> list[int]:
    """The places of the rows in the frame of a row."""
    first, last = (_edge(frame, bound, partition, position) for bound in (frame.start, frame.end))
    start, stop = max(first[0], 0), min(last[1], partition.size)
    rows = np.arange(start, max(stop, start))
    others = partition.peers[rows] != partition.peers[position]
    match frame.exclude:
        case Exclude.NO_OTHERS:
            return rows.tolist()
        case Exclude.CURRENT_ROW:
            return rows[rows != position].tolist()
        case Exclude.GROUP:
            return rows[others].tolist()
        case Exclude.TIES:
            return rows[others | (rows == position)].tolist()
        case _:
            assert_never(frame.exclude)


def _edge(frame: Frame, bound: Bound, partition: Partition, position: int) -> tuple[int, int]:
    """Where a bound is: the first place of it, for a start, and the place after it, for an end."""
    if bound.edge is Edge.UNBOUNDED_PRECEDING:
        return 0, 0
    if bound.edge is Edge.UNBOUNDED_FOLLOWING:
        return partition.size, partition.size
    if frame.unit is Unit.ROWS:
        place = position + _distance(bound, partition, position)
        return place, place + 1
    if frame.unit is Unit.RANGE and bound.edge is not Edge.CURRENT_ROW and frame.ranged is not None:
        return _ranged(frame.ranged, bound, partition, position)
    number = int(partition.peers[position])
    if bound.edge is not Edge.CURRENT_ROW:
        number += _distance(bound, partition, position)
    return (
        int(np.searchsorted(partition.peers, number, "left")),
        int(np.searchsorted(partition.peers, number, "right")),
    )


def _distance(bound: Bound, partition: Partition, position: int) -> int:
    if bound.edge is Edge.CURRENT_ROW:
        return 0
    far = bound.offset if bound.column is None else int(partition.columns[bound.column][position])
    return -far if bound.edge is Edge.PRECEDING else far


def _ranged(ranged: Ranged, bound: Bound, partition: Partition, position: int) -> tuple[int, int]:
    """By values: NULLs are peers of each other and nobody's neighbours."""
    words = partition.columns[ranged.column]
    there = np.flatnonzero(words != NULL)
    if words[position] == NULL:
        number = partition.peers[position]
        left = np.searchsorted(partition.peers, number, "left")
        return int(left), int(np.searchsorted(partition.peers, number, "right"))
    if bound.column is not None:
        value = partition.columns[bound.column][position : position + 1]
        both = partition.ordered(ranged.column, np.concatenate((words[there], value)))
        values, limit = both[:-1], int(both[-1])
    else:
        sign = 1 if (bound.edge is Edge.FOLLOWING) != ranged.descending else -1
        values, limit = words[there], int(words[position]) + sign * bound.offset
    if ranged.descending:
        values, limit = -values, -limit
    offset = int(there[0])
    return (
        offset + int(np.searchsorted(values, limit, "left")),
        offset + int(np.searchsorted(values, limit, "right")),
    )
