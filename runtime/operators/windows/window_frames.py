"""Window frames as row positions: ROWS, RANGE, GROUPS and EXCLUDE resolved for each row.

A :class:`Layout` holds the rows of several partitions one after the other, each partition in window order,
with the bounds of partitions and peer groups. A position is an index into the layout.
:func:`frame_bounds` gives the start and end of each row's frame; :func:`frame_parts` applies EXCLUDE.
"""

from collections.abc import Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.plan import Bound, Edge, Exclude, Frame, Ranged, Unit
from kpg.runtime.records import dataclass
from kpg.runtime.types import MAX_WORD, MIN_WORD, NULL

Words = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Layout:
    """Rows ``data int64[width, n]`` with, for each row, the bounds of its partition and peer group.

    ``start`` and ``end`` bound its partition, ``peer_start`` and ``peer_end`` its peers. ``group``
    numbers the peer groups of all partitions, which begin at ``group_starts``.
    """

    data: Words
    start: Words
    end: Words
    peer_start: Words
    peer_end: Words
    group: Words
    group_starts: Words
    skipped_rows: int = 0
    """Rows omitted before these, if there is one partition."""
    skipped_groups: int = 0
    """Peer groups omitted before these rows."""
    skipped_behind: int = 0
    """Rows omitted after these, if there is one partition."""

    @property
    def positions(self) -> Words:
        """Position of each row."""
        return np.arange(self.start.shape[0], dtype=np.int64)

    @property
    def sizes(self) -> Words:
        """Number of rows of each row's partition."""
        return self.end - self.start + self.skipped_rows + self.skipped_behind

    @property
    def group_ends(self) -> Words:
        """End of each peer group."""
        return np.append(self.group_starts[1:], self.start.shape[0])


def build_layout(data: Words, partition: Words, peers: Sequence[int]) -> Layout:
    """Return the layout of rows; ``partition`` is the number of each row's partition, ascending."""
    size = partition.shape[0]
    first = np.ones(size, np.bool_)
    first[1:] = partition[1:] != partition[:-1]
    start, end = _runs(first)
    fresh = first.copy()
    for column in peers:
        fresh[1:] |= data[column, 1:] != data[column, :-1]
    peer_start, peer_end = _runs(fresh)
    group = np.cumsum(fresh) - 1
    return Layout(data, start, end, peer_start, peer_end, group, np.flatnonzero(fresh))


def _runs(first: NDArray[np.bool_]) -> tuple[Words, Words]:
    """Return for each element the start and end of its run; ``first`` marks the starts."""
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], first.shape[0])[: starts.shape[0]]
    sizes = ends - starts
    return np.repeat(starts, sizes), np.repeat(ends, sizes)


Part = tuple[Words, Words]
"""For each row a range of positions ``start <= position < end``, which may be empty."""


def frame_parts(layout: Layout, frame: Frame, dictionary: Dictionary) -> tuple[Part, ...]:
    """Return the disjoint ranges that make up each row's frame, in order."""
    start, end = frame_bounds(layout, frame, dictionary)
    place = layout.positions
    match frame.exclude:
        case Exclude.NO_OTHERS:
            return ((start, end),)
        case Exclude.CURRENT_ROW:
            return _exclude(start, end, place, place + 1)
        case Exclude.GROUP:
            return _exclude(start, end, layout.peer_start, layout.peer_end)
        case Exclude.TIES:
            before, behind = _exclude(start, end, layout.peer_start, layout.peer_end)
            return before, _clip(np.maximum(start, place), np.minimum(end, place + 1)), behind
        case _:
            assert_never(frame.exclude)


def _exclude(start: Words, end: Words, first: Words, last: Words) -> tuple[Part, Part]:
    return _clip(start, np.minimum(end, first)), _clip(np.maximum(start, last), end)


def _clip(start: Words, end: Words) -> Part:
    return start, np.maximum(start, end)


def frame_bounds(layout: Layout, frame: Frame, dictionary: Dictionary) -> Part:
    """Return the start and end of each row's frame, before EXCLUDE."""
    match frame.unit:
        case Unit.ROWS:
            start, end = _row_bound(layout, frame.start, 0), _row_bound(layout, frame.end, 1)
        case Unit.GROUPS:
            start, end = _group_start(layout, frame.start), _group_end(layout, frame.end)
        case Unit.RANGE:
            start, end = _range_start(layout, frame, dictionary), _range_end(layout, frame, dictionary)
        case _:
            assert_never(frame.unit)
    start = np.clip(start, layout.start, layout.end)
    return start, np.clip(end, start, np.maximum(layout.end, start))


def _offset(layout: Layout, bound: Bound) -> Words:
    """Return a bound's distance in rows or groups, negative for PRECEDING."""
    max_offset = layout.start.shape[0] + 1
    if bound.column is not None:
        offsets = layout.data[bound.column]
        if (offsets < 0).any():
            raise DataError("the offset of a frame must not be NULL or negative")
        far = np.minimum(offsets, max_offset)
        return -far if bound.edge is Edge.PRECEDING else far
    distance = min(bound.offset, max_offset)
    return np.int64(-distance if bound.edge is Edge.PRECEDING else distance)  # type: ignore[return-value]


def _row_bound(layout: Layout, bound: Bound, after: int) -> Words:
    match bound.edge:
        case Edge.UNBOUNDED_PRECEDING:
            return layout.start
        case Edge.UNBOUNDED_FOLLOWING:
            return layout.end
        case Edge.CURRENT_ROW:
            return layout.positions + after
        case Edge.PRECEDING | Edge.FOLLOWING:
            return layout.positions + (_offset(layout, bound) + after)
        case _:
            assert_never(bound.edge)


def _group_start(layout: Layout, bound: Bound) -> Words:
    match bound.edge:
        case Edge.UNBOUNDED_PRECEDING:
            return layout.start
        case Edge.UNBOUNDED_FOLLOWING:
            return layout.end
        case Edge.CURRENT_ROW:
            return layout.peer_start
        case Edge.PRECEDING | Edge.FOLLOWING:
            group = layout.group + _offset(layout, bound)
            place = layout.group_starts[np.clip(group, 0, layout.group_starts.shape[0] - 1)]
            return np.where(group >= layout.group_starts.shape[0], layout.end, place)
        case _:
            assert_never(bound.edge)


def _group_end(layout: Layout, bound: Bound) -> Words:
    match bound.edge:
        case Edge.UNBOUNDED_PRECEDING:
            return layout.start
        case Edge.UNBOUNDED_FOLLOWING:
            return layout.end
        case Edge.CURRENT_ROW:
            return layout.peer_end
        case Edge.PRECEDING | Edge.FOLLOWING:
            group = layout.group + _offset(layout, bound)
            place = layout.group_ends[np.clip(group, 0, layout.group_starts.shape[0] - 1)]
            return np.where(group < 0, layout.start, place)
        case _:
            assert_never(bound.edge)


def _range_start(layout: Layout, frame: Frame, dictionary: Dictionary) -> Words:
    if frame.start.edge not in (Edge.PRECEDING, Edge.FOLLOWING):
        return _group_start(layout, frame.start)
    start = _find_bound(layout, frame, frame.start, dictionary, after=False)
    return np.where(_is_null(layout, frame), layout.peer_start, start)


def _range_end(layout: Layout, frame: Frame, dictionary: Dictionary) -> Words:
    if frame.end.edge not in (Edge.PRECEDING, Edge.FOLLOWING):
        return _group_end(layout, frame.end)
    end = _find_bound(layout, frame, frame.end, dictionary, after=True)
    return np.where(_is_null(layout, frame), layout.peer_end, end)


def _range_order(frame: Frame) -> Ranged:
    assert frame.ranged is not None
    return frame.ranged


def _is_null(layout: Layout, frame: Frame) -> NDArray[np.bool_]:
    return layout.data[_range_order(frame).column] == NULL


def _find_bound(layout: Layout, frame: Frame, bound: Bound, dictionary: Dictionary, *, after: bool) -> Words:
    """Return the first position whose value is at the bound or, with ``after``, beyond it.

    NULLs never match.
    """
    by = _range_order(frame)
    values = layout.data[by.column]
    if bound.column is not None:
        limit = layout.data[bound.column]
    else:
        limit = _shift_values(values, bound, by, after=after)
    if by.is_interned:
        ranks, _ = rank_strings(np.concatenate((values, limit)), dictionary)
        values, limit = ranks[: values.shape[0]], ranks[values.shape[0] :]
    if by.descending:
        values, limit = ~values, ~limit
    low, high = _non_null_ranges(layout, _is_null(layout, frame))
    return _binary_search(values, low, high, limit, after)


def limit_of(row: list[int], bound: Bound, by: Ranged, *, after: bool) -> int:
    """Return the word of a row's RANGE bound; the row's value must not be NULL."""
    if bound.column is not None:
        return row[bound.column]
    return int(_shift_values(np.array([row[by.column]], np.int64), bound, by, after=after)[0])


def _shift_values(values: Words, bound: Bound, by: Ranged, *, after: bool) -> Words:
    """Return each value minus or plus the bound's offset, clipped to the range of words."""
    down = (bound.edge is Edge.PRECEDING) is not by.descending
    if by.is_float:
        step = words_to_floats(np.array([bound.offset], np.int64))
        with np.errstate(all="ignore"):
            numbers: NDArray[np.float64] = words_to_floats(values)
            moved_floats = numbers + (-step if down else step)
            is_undefined = np.isnan(moved_floats) & ~np.isnan(numbers)
            return floats_to_words(
                np.where(is_undefined, np.inf if after is not by.descending else -np.inf, moved_floats)
            )
    with np.errstate(over="ignore"):
        moved = values - bound.offset if down else values + bound.offset
    if down:
        return np.where((moved > values) | (moved < MIN_WORD), MIN_WORD, moved)
    return np.where(moved < values, MAX_WORD, moved)


def words_to_floats(values: Words) -> NDArray[np.float64]:
    """Return words as doubles."""
    return np.where(values >= 0, values, values ^ MAX_WORD).view(np.float64)


def floats_to_words(values: NDArray[np.float64]) -> Words:
    """Return doubles as words, with one NaN and one zero."""
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    bits = np.where(np.isnan(values), np.int64(0x7FF8000000000000), bits)
    return np.where(bits >= 0, bits, bits ^ np.int64(MAX_WORD))


def rank_strings(codes: Words, dictionary: Dictionary) -> Part:
    """Return the ranks of strings among the distinct ones, NULL for NULL; and the distinct codes by rank."""
    non_null = codes != NULL
    distinct, where = np.unique(codes[non_null], return_inverse=True)
    texts = [(text or "").encode() for text in dictionary.decode(distinct)]
    order = np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.shape[0])
    ranks = np.full_like(codes, NULL)
    ranks[non_null] = rank[where.reshape(-1)]
    return ranks, distinct[order]


def _non_null_ranges(layout: Layout, null: NDArray[np.bool_]) -> Part:
    """Return the range of each partition without its NULLs, which are at one end."""
    before: Words = np.concatenate((np.zeros(1, np.int64), np.cumsum(null)))
    count: Words = before[layout.end] - before[layout.start]
    first = null[layout.start] if null.shape[0] else null
    at_start: Words = np.where(first, count, 0)
    return layout.start + at_start, layout.end - (count - at_start)


def _binary_search(values: Words, low: Words, high: Words, limit: Words, after: bool) -> Words:
    """Return for each row the first position from ``low`` to ``high`` whose value is at least ``limit``.

    With ``after`` the value must be greater.
    """
    low, high = low.copy(), high.copy()
    while True:
        open_ = low < high
        if not open_.any():
            return low
        middle = np.where(open_, (low + high) >> 1, 0)
        here = values[middle]
        right = open_ & ((here <= limit) if after else (here < limit))
        low = np.where(right, middle + 1, low)
        high = np.where(open_ & ~right, middle, high)
