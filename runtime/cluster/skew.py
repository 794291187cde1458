"""Detection of skewed keys, which give one worker more than its share, from samples of its indexes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from kpg.runtime.convert.python_values import show_word
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.handles import SkewedKey, WorkerStatistics
from kpg.runtime.operators.arrange import Arrange

SAMPLE_ROWS: Final = 1024
"""Rows sampled per batch, evenly; this estimates a share to about a thousandth."""
MIN_KEY_ROWS: Final = 1000
"""Rows of a key from which it is reported."""
REPORTED_SHARE: Final = 32
"""A worker reports keys that have at least 1/REPORTED_SHARE of its rows in an index."""
SKEWED_SHARE: Final = 4
"""A key is skewed if it has more than 1/SKEWED_SHARE of the rows that a worker has on average."""


class IndexSample(NamedTuple):
    """Rows of an index at one worker, and approximate numbers of rows of its frequent keys."""

    name: str
    rows: int
    keys: dict[str, int]


def sample_index(arrange: Arrange, dictionary: Dictionary) -> IndexSample:
    """Sample an index; keys are values of its first column, by which rows are distributed."""
    counts = Counter[int]()
    name, rows, type_ = _display_name(arrange), arrange.rows, arrange.leading_type
    if type_ is None or rows < MIN_KEY_ROWS:
        return IndexSample(name, rows, {})
    for part in arrange.spine.parts():
        stride = max(1, len(part) // SAMPLE_ROWS)
        words = part.data[0, stride // 2 :: stride]
        diffs = np.sign(part.diffs()[stride // 2 :: stride])
        for sign in (1, -1):
            words_found, occurrences = np.unique(words[diffs == sign], return_counts=True)
            for word, count in zip(words_found.tolist(), occurrences.tolist(), strict=True):
                counts[word] += sign * count * stride
    min_rows = max(MIN_KEY_ROWS, rows // REPORTED_SHARE)
    keys = {show_word(word, type_, dictionary): count for word, count in counts.items() if count >= min_rows}
    return IndexSample(name, rows, keys)


def _display_name(arrange: Arrange) -> str:
    """Return the name of the table and its columns, or those of the views that use the index."""
    text = arrange.place.description
    return text if text.endswith(")") else f"an index of {', '.join(sorted(arrange.owners))}"


def with_skewed_keys(
    works: Sequence[WorkerStatistics], samples: Sequence[Sequence[IndexSample]]
) -> list[WorkerStatistics]:
    """Return the workers' statistics with the skewed keys of each worker.

    A key that several workers have is not what the rows are distributed by, or is replicated.
    """
    skewed: list[list[SkewedKey]] = [[] for _ in works]
    for each in zip(*samples, strict=True):
        total, workers_with_key = (
            sum(one.rows for one in each),
            Counter(key for one in each for key in one.keys),
        )
        for worker, one in enumerate(each):
            for key, rows in sorted(one.keys.items(), key=lambda item: -item[1]):
                if workers_with_key[key] == 1 and len(works) > 1 and SKEWED_SHARE * len(works) * rows > total:
                    skewed[worker].append(SkewedKey(one.name, key, min(rows, one.rows), total))
    # A view may have several indexes with the same first column.
    return [
        replace(work, skewed_keys=tuple(dict.fromkeys(some)))
        for work, some in zip(works, skewed, strict=True)
    ]
