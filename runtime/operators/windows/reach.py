"""How far a change in a partition reaches: which rows around it have other answers.

A change is a stretch of places; the rows before and behind it are the same as ever. It reaches some rows,
groups of peers or values before it and behind it, or is *carried* on to the end of the partition, or as far
as what is carried is not what it was.
"""

from collections.abc import Callable, Sequence

from kpg.runtime.functions import Hierarchical, aggregate_named, window_function
from kpg.runtime.functions.windowing import Answer
from kpg.runtime.operators.windows.frames import limit_of
from kpg.runtime.operators.windows.index import Index
from kpg.runtime.plan import Bound, Edge, Exclude, Unit, WindowCall
from kpg.runtime.scalar import Literal
from kpg.runtime.types import NULL

NUMBERING = (Answer.ROW_NUMBER, Answer.RANK, Answer.DENSE_RANK, Answer.PERCENT_RANK)
SHARES = (Answer.PERCENT_RANK, Answer.CUME_DIST)
"""What depends on how many rows there are: it changes in all rows with that."""
PLACED = (*NUMBERING, Answer.CUME_DIST, Answer.NTILE)
"""What places alone tell."""
PEERS = (Exclude.GROUP, Exclude.TIES)
PRECEDING, FOLLOWING = Edge.UNBOUNDED_PRECEDING, Edge.UNBOUNDED_FOLLOWING


def answer_of(call: WindowCall) -> Answer | None:
    """What the call tells if it is no aggregate."""
    function = window_function(call.function)
    return None if function is None else function.answer


def stays_near(call: WindowCall) -> bool:
    """Whether what a change does to the call's answers ends near it, but for new extreme values.

    If not (row numbers, running totals), changes that make up for each other are best seen together.
    """
    answer, frame = answer_of(call), call.frame
    if answer is not None:
        return answer not in (*NUMBERING, Answer.CUME_DIST)
    closed = frame.start.edge is not PRECEDING and frame.end.edge is not FOLLOWING
    return closed or isinstance(aggregate_named(call.function).maintenance, Hierarchical)


def distance_of(call: WindowCall) -> int:
    """How far a lag looks ahead (a lead), or, negative, back; which row of its frame an nth_value is of."""
    value = call.args[1] if len(call.args) > 1 else None
    number = value.value if isinstance(value, Literal) else 1
    number = number if isinstance(number, int) else 0
    return -number if answer_of(call) is Answer.LAG else number


def before(index: Index, calls: Sequence[WindowCall], at: int, rows: Sequence[list[int]]) -> int:
    """From where on answers before the place ``at`` may differ, if ``rows`` there have come or gone."""
    found = at
    for call in calls:
        answer, frame = answer_of(call), call.frame
        if answer is Answer.CUME_DIST:
            found = min(found, *(peers_before(index, at, row) for row in rows))
        if answer in PLACED:
            continue
        if answer in (Answer.LAG, Answer.LEAD):
            found = min(found, at - max(distance_of(call), 0))
            continue
        edges = [frame.end]
        if frame.end.edge is FOLLOWING:
            edges = [frame.start]
        for bound in edges:
            for row in rows:
                found = min(found, _reached_before(index, call, bound, at, row))
        if frame.exclude in PEERS:
            found = min(found, *(peers_before(index, at, row) for row in rows))
        if _is_carried_before(call):
            found = min(found, at - 1)
    return max(found, 0)


def behind(index: Index, calls: Sequence[WindowCall], at: int, rows: Sequence[list[int]]) -> int:
    """Up to where answers from the place ``at`` on may differ, if ``rows`` before it have come or gone."""
    found = at
    for call in calls:
        answer, frame = answer_of(call), call.frame
        if answer in NUMBERING:
            found = max(found, at + 1)
        if answer in PLACED:
            continue
        if answer in (Answer.LAG, Answer.LEAD):
            found = max(found, at - min(distance_of(call), 0))
            continue
        bound = frame.end if frame.start.edge is PRECEDING else frame.start
        for row in rows:
            found = max(found, _reached_behind(index, call, bound, at, row))
        if frame.exclude in PEERS:
            found = max(found, *(peers_behind(index, at, row) for row in rows))
        if _is_carried_behind(call):
            found = max(found, at + 1)
    return min(found, index.size)


def peers_before(index: Index, at: int, row: list[int]) -> int:
    """Where those rows before ``at`` begin that are next to it and peers of a row."""
    peers = index.shape.peers
    own = [row[column] for column in peers]
    return index.first(0, at, lambda other: [other[column] for column in peers] == own)


def peers_behind(index: Index, at: int, row: list[int]) -> int:
    """Where those rows from ``at`` on end that are next to it and peers of a row."""
    peers = index.shape.peers
    own = [row[column] for column in peers]
    return index.first(at, index.size, lambda other: [other[column] for column in peers] != own)


def _reached_before(index: Index, call: WindowCall, bound: Bound, at: int, row: list[int]) -> int:
    """The first row before ``at`` whose frame, that ends so, may have the row."""
    unit = call.frame.unit
    if bound.edge in (Edge.PRECEDING, PRECEDING, FOLLOWING):
        return at
    if unit is Unit.ROWS:
        return at - (bound.offset if bound.edge is Edge.FOLLOWING else 0)
    start = peers_before(index, at, row)
    if bound.edge is Edge.CURRENT_ROW or at == 0:
        return start
    if unit is Unit.GROUPS:
        return min(start, index.group_start(max(index.groups(start) - bound.offset, 0)))
    return min(start, index.first(0, at, _reaches(call, bound, row, forwards=True)))


def _reached_behind(index: Index, call: WindowCall, bound: Bound, at: int, row: list[int]) -> int:
    """Where the rows from ``at`` on end whose frames, that start so, may have the row."""
    unit = call.frame.unit
    if bound.edge in (Edge.FOLLOWING, PRECEDING, FOLLOWING):
        return at
    if unit is Unit.ROWS:
        return at + (bound.offset if bound.edge is Edge.PRECEDING else 0)
    end, size = peers_behind(index, at, row), index.size
    if bound.edge is Edge.CURRENT_ROW or at == size:
        return end
    if unit is Unit.GROUPS:
        return max(end, index.group_start(min(index.groups(at) + bound.offset + 1, size)))
    reaches = _reaches(call, bound, row, forwards=False)
    return max(end, index.first(at, size, lambda other: not reaches(other)))


def _reaches(
    call: WindowCall, bound: Bound, row: list[int], *, forwards: bool
) -> Callable[[list[int]], bool]:
    """Whether a row's bound is at a value or beyond it; where a NULL is one of them, never."""
    by = call.frame.ranged
    assert by is not None
    value = row[by.column]

    def test(other: list[int]) -> bool:
        if value == NULL or other[by.column] == NULL:
            return False
        limit = limit_of(other, bound, by)
        beyond = limit >= value if forwards is not by.descending else limit <= value
        return bool(beyond)

    return test


def _is_carried_before(call: WindowCall) -> bool:
    answer = answer_of(call)
    return answer not in (*PLACED, Answer.LAG, Answer.LEAD) and call.frame.end.edge is FOLLOWING


def _is_carried_behind(call: WindowCall) -> bool:
    answer = answer_of(call)
    return answer not in (*PLACED, Answer.LAG, Answer.LEAD) and call.frame.start.edge is PRECEDING
