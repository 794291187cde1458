"""Ranking and offset functions: what only the places of rows, and values at other places, tell."""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import DataError, InternalError
from kpg.runtime.functions import Answer
from kpg.runtime.operators.windows.frames import Part, words
from kpg.runtime.operators.windows.layout import Layout
from kpg.runtime.types import NULL

Words = NDArray[np.int64]


def answered(
    layout: Layout, answer: Answer, args: tuple[Words, ...], parts: tuple[Part, ...], shown: slice
) -> Words:
    """The function's value in each row that is shown; ``parts`` are of its frame, where it has one."""
    match answer:
        case Answer.FIRST_VALUE:
            return _nth(args[0], np.ones(parts[0][0].shape[0], np.int64), parts)
        case Answer.LAST_VALUE:
            return _last(args[0], parts)
        case Answer.NTH_VALUE:
            number = args[1][shown]
            if ((number <= 0) & (number != NULL)).any():
                raise DataError("the argument of nth_value must be greater than zero")
            return _nth(args[0], number, parts)
        case _:
            return _placed(layout, answer, args)[shown]


def _placed(layout: Layout, answer: Answer, args: tuple[Words, ...]) -> Words:
    """Of all rows, what their places in the partition tell."""
    match answer:
        case Answer.ROW_NUMBER:
            return layout.places - layout.start + 1 + layout.skipped
        case Answer.RANK:
            return _rank(layout)
        case Answer.DENSE_RANK:
            return layout.group - layout.group[layout.start] + 1 + layout.skipped_groups
        case Answer.PERCENT_RANK:
            others = layout.sizes - 1
            return words(np.where(others > 0, (_rank(layout) - 1) / np.maximum(others, 1), 0.0))
        case Answer.CUME_DIST:
            return words((layout.peer_end - layout.start + layout.skipped) / layout.sizes)
        case Answer.NTILE:
            return _bucket(layout, args[0])
        case Answer.LAG:
            return _neighbour(layout, args, -1)
        case Answer.LEAD:
            return _neighbour(layout, args, 1)
        case Answer.FIRST_VALUE | Answer.LAST_VALUE | Answer.NTH_VALUE:
            raise InternalError(f"{answer.name} is told by the frame")
        case _:
            assert_never(answer)


def _rank(layout: Layout) -> Words:
    return layout.peer_start - layout.start + 1 + layout.skipped


def _bucket(layout: Layout, buckets: Words) -> Words:
    """Of the first ``rows % n`` buckets each has one row more; ``n`` is that of the partition's first row."""
    number = buckets[layout.start]
    if ((number <= 0) & (number != NULL)).any():
        raise DataError("the argument of ntile must be greater than zero")
    known = np.maximum(number, 1)
    size, larger = np.divmod(layout.sizes, known)
    place = layout.places - layout.start + layout.skipped
    border = larger * (size + 1)
    bucket = np.where(place < border, place // (size + 1), larger + (place - border) // np.maximum(size, 1))
    return np.where(number == NULL, NULL, bucket + 1)


def bucket_starts(rows: int, buckets: int, most: int) -> Words:
    """Where each bucket but the first, up to so many, begins among so many rows."""
    size, larger = divmod(rows, buckets)
    number = np.arange(1, min(buckets, most), dtype=np.int64)
    return number * size + np.minimum(number, larger)


def _neighbour(layout: Layout, args: tuple[Words, ...], direction: int) -> Words:
    values = args[0]
    far = np.int64(values.shape[0])
    distance = args[1] if len(args) > 1 else np.ones_like(layout.start)
    place = layout.places + direction * np.clip(distance, -far, far)
    inside = (place >= layout.start) & (place < layout.end)
    default = args[2] if len(args) > 2 else np.full_like(layout.start, NULL)
    found = np.where(inside, values[np.where(inside, place, 0)], default)
    return np.where(distance == NULL, NULL, found)


def _nth(values: Words, number: Words, parts: tuple[Part, ...]) -> Words:
    """The value of the ``number``-th row of the parts together; NULL where there are fewer."""
    left = number - 1
    result = np.full_like(number, NULL)
    missing = number != NULL
    for start, end in parts:
        here = missing & (left < end - start)
        result = np.where(here, values[np.where(here, start + left, 0)], result)
        missing = missing & ~here
        left = left - (end - start)
    return result


def _last(values: Words, parts: tuple[Part, ...]) -> Words:
    result = np.full(parts[0][0].shape[0], NULL, np.int64)
    for start, end in parts:
        result = np.where(end > start, values[np.where(end > start, end - 1, 0)], result)
    return result
