"""Window functions by their definition: for each row of a partition, its frame row by row.

A partition is a list of rows in order, tuples of Python values with None for NULL. Peers are rows that agree
on the ``peers`` columns; literals and columns are all that arguments are.
"""

from collections.abc import Sequence
from typing import Any

from kpg.runtime.plan import Bound, Edge, Exclude, Frame, Unit, WindowCall
from kpg.runtime.scalar import Column, Literal

Row = tuple[Any, ...]


def answers(call: WindowCall, rows: Sequence[Row], peers: Sequence[int]) -> list[Any]:
    """What the call says of each row."""
    return [_answer(call, rows, peers, place) for place in range(len(rows))]


def in_frame(frame: Frame, rows: Sequence[Row], peers: Sequence[int], here: int) -> list[int]:
    """The places in the frame of the row at ``here``."""
    groups = _groups(rows, peers)
    found = [
        place
        for place in range(len(rows))
        if _side(frame.start, frame, rows, groups, here, place) >= 0
        and _side(frame.end, frame, rows, groups, here, place) <= 0
    ]
    match frame.exclude:
        case Exclude.NO_OTHERS:
            return found
        case Exclude.CURRENT_ROW:
            return [place for place in found if place != here]
        case Exclude.GROUP:
            return [place for place in found if groups[place] != groups[here]]
        case Exclude.TIES:
            return [place for place in found if groups[place] != groups[here] or place == here]


def _groups(rows: Sequence[Row], peers: Sequence[int]) -> list[int]:
    keys = [tuple(row[column] for column in peers) for row in rows]
    numbers = [0] * len(rows)
    for place in range(1, len(rows)):
        numbers[place] = numbers[place - 1] + (keys[place] != keys[place - 1])
    return numbers


def _side(
    bound: Bound, frame: Frame, rows: Sequence[Row], groups: Sequence[int], here: int, place: int
) -> int:
    """Negative if a place is before a bound of the row at ``here``, 0 if at it, positive if behind."""
    far = {Edge.UNBOUNDED_PRECEDING: 1, Edge.UNBOUNDED_FOLLOWING: -1}.get(bound.edge)
    if far is not None:
        return far
    distance = {Edge.PRECEDING: -bound.offset, Edge.CURRENT_ROW: 0, Edge.FOLLOWING: bound.offset}[bound.edge]
    if frame.unit is Unit.ROWS:
        return place - (here + distance)
    if frame.unit is Unit.GROUPS or bound.edge is Edge.CURRENT_ROW:
        return groups[place] - (groups[here] + distance)
    by = frame.ranged
    assert by is not None
    own, other = rows[here][by.column], rows[place][by.column]
    if own is None or other is None:
        return groups[place] - groups[here]
    sign = -1 if by.descending else 1
    limit = own + sign * distance if bound.column is None else rows[here][bound.column]
    return sign * ((other > limit) - (other < limit))


def _answer(call: WindowCall, rows: Sequence[Row], peers: Sequence[int], here: int) -> Any:
    groups = _groups(rows, peers)
    before = groups.index(groups[here])
    number = len(rows)

    def value(index: int, place: int) -> Any:
        arg = call.args[index]
        assert isinstance(arg, Column | Literal)
        return rows[place][arg.index] if isinstance(arg, Column) else arg.value

    match call.function:
        case "row_number":
            return here + 1
        case "rank":
            return before + 1
        case "dense_rank":
            return groups[here] + 1
        case "percent_rank":
            return before / (number - 1) if number > 1 else 0.0
        case "cume_dist":
            return sum(1 for group in groups if group <= groups[here]) / number
        case "ntile":
            return _ntile(value(0, 0), here, number)
        case "lag" | "lead":
            distance = value(1, here) if len(call.args) > 1 else 1
            if distance is None:
                return None
            place = here + (distance if call.function == "lead" else -distance)
            if 0 <= place < number:
                return value(0, place)
            return value(2, here) if len(call.args) > 2 else None
    places = in_frame(call.frame, rows, peers, here)
    match call.function:
        case "first_value":
            return value(0, places[0]) if places else None
        case "last_value":
            return value(0, places[-1]) if places else None
        case "nth_value":
            wanted = value(1, here)
            return value(0, places[wanted - 1]) if wanted is not None and wanted <= len(places) else None
    if not call.args:
        return len(places)
    known = [value(0, place) for place in places if value(0, place) is not None]
    return _aggregated(call.function, known)


def _ntile(buckets: int | None, here: int, number: int) -> int | None:
    if buckets is None:
        return None
    sizes = [number // buckets + (bucket < number % buckets) for bucket in range(buckets)]
    ends = [sum(sizes[: bucket + 1]) for bucket in range(buckets)]
    return next(bucket + 1 for bucket, end in enumerate(ends) if here < end)


def _aggregated(function: str, values: Sequence[Any]) -> Any:
    if function == "count":
        return len(values)
    if not values:
        return None
    match function:
        case "sum":
            return sum(values)
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "median":
            middle = sorted(values)
            return (middle[(len(middle) - 1) // 2] + middle[len(middle) // 2]) / 2
        case _:
            raise AssertionError(function)
