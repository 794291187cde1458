"""Detection of skewed keys, of which one worker has more than its share, from samples of its indexes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from kpg.runtime.convert.python_values import show
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.handles import Heavy, Work
from kpg.runtime.operators.arrange import Arrange

SAMPLE: Final = 1024
"""Rows that are looked at of each batch, evenly, which tells a share to a thousandth."""
LEAST: Final = 1000
"""So many rows of one key are worth telling of."""
PART: Final = 32
"""A worker tells of keys that have one of so many of its rows in an index,"""
SHARE: Final = 4
"""and those are heavy that have one of so many rows of those that would be a worker's share."""


class Sampled(NamedTuple):
    """What one worker has in an index: its rows, and of some keys about how many."""

    name: str
    rows: int
    keys: dict[str, int]


def sampled(arrange: Arrange, dictionary: Dictionary) -> Sampled:
    """What an index has; keys are values of its first column, of which workers part it."""
    counts = Counter[int]()
    name, rows, type_ = _name(arrange), arrange.rows, arrange.leading
    if type_ is None or rows < LEAST:
        return Sampled(name, rows, {})
    for part in arrange.spine.parts():
        stride = max(1, len(part) // SAMPLE)
        words = part.data[0, stride // 2 :: stride]
        diffs = np.sign(part.diffs()[stride // 2 :: stride])
        for sign in (1, -1):
            found, times = np.unique(words[diffs == sign], return_counts=True)
            for word, count in zip(found.tolist(), times.tolist(), strict=True):
                counts[word] += sign * count * stride
    many = max(LEAST, rows // PART)
    keys = {show(word, type_, dictionary): count for word, count in counts.items() if count >= many}
    return Sampled(name, rows, keys)


def _name(arrange: Arrange) -> str:
    """That of the table and its columns, or of the views that have it."""
    text = arrange.place.description
    return text if text.endswith(")") else f"an index of {', '.join(sorted(arrange.owners))}"


def with_heavy(works: Sequence[Work], found: Sequence[Sequence[Sampled]]) -> list[Work]:
    """What workers have done, with the keys that make one of them have more than its share.

    What several have rows of is not parted by it, or held by all.
    """
    heavy: list[list[Heavy]] = [[] for _ in works]
    for each in zip(*found, strict=True):
        total, having = sum(one.rows for one in each), Counter(key for one in each for key in one.keys)
        for worker, one in enumerate(each):
            for key, rows in sorted(one.keys.items(), key=lambda item: -item[1]):
                if having[key] == 1 and len(works) > 1 and SHARE * len(works) * rows > total:
                    heavy[worker].append(Heavy(one.name, key, min(rows, one.rows), total))
    # One view may have several indexes that differ in columns behind the first.
    return [replace(work, heavy=tuple(dict.fromkeys(some))) for work, some in zip(works, heavy, strict=True)]
