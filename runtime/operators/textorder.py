"""Exact text order for top-k: strings that agree on the prefix in their order words are compared whole.

Arrangements order text by words that hold its first bytes (``order_word``), so their order is exact
but for strings that agree on these and are longer. A top-k with text in its order therefore reads on
while a row may be before the last one, and puts such a run in order here before it cuts the window.
"""

from functools import cmp_to_key

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions import TEXT_WORDS

Words = NDArray[np.int64]
Text = tuple[int, int, bool]
"""(first order column of the prefix words, column of the code, descending), as in ``plan.TopK.exact``."""


class ExactOrder:
    """The comparison of rows whose order columns include text."""

    def __init__(self, texts: tuple[Text, ...], dictionary: Dictionary) -> None:
        self.texts = {first: (code, descending) for first, code, descending in texts}
        self.first = min(self.texts)
        self.ends = tuple(text + TEXT_WORDS for text in sorted(self.texts))
        self.dictionary = dictionary

    def window(
        self, rows: Words, count: Words, task: Words, offset: int, limit: int | None
    ) -> tuple[Words, Words, Words]:
        """Rows ``offset .. offset + limit`` of each task, in exact order."""
        order = self.order(rows, task)
        rows, count = rows[:, order], count[order]
        before = np.cumsum(count) - count
        start = np.searchsorted(task, task)
        place = before - before[start] if task.shape[0] else before
        low = np.maximum(place, offset)
        high = place + count if limit is None else np.minimum(place + count, offset + limit)
        kept = np.flatnonzero(high > low)
        return np.ascontiguousarray(rows[:, kept]), (high - low)[kept], task[kept]

    def order(self, rows: Words, task: Words) -> Words:
        """Positions in exact order: each run of ties with different strings sorted."""
        order = np.arange(task.shape[0], dtype=np.int64)
        run, unsure = self._runs(rows, task)
        starts = np.append(np.flatnonzero(run), task.shape[0])
        for place in np.unique(np.searchsorted(starts, np.flatnonzero(unsure), "right")).tolist():
            start, end = starts[place - 1 : place + 1].tolist()
            order[start:end] = start + self._sorted_run(rows[:, start:end])
        return order

    def _runs(self, rows: Words, task: Words) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Where runs of rows that tie on the first text's words begin; after which rows words do not tell.

        They do not where all words up to a text's last tie, and the texts are others.
        """
        tied, column = task[1:] == task[:-1], 0
        first, unsure = tied, np.zeros(tied.shape, np.bool_)
        for text, (code, _) in sorted(self.texts.items()):
            after = text + TEXT_WORDS
            tied = tied & (rows[column:after, 1:] == rows[column:after, :-1]).all(axis=0)
            unsure |= tied & (rows[code, 1:] != rows[code, :-1])
            first, column = tied if text == self.first else first, after
        return np.concatenate(([True], ~first)), unsure

    def _sorted_run(self, rows: Words) -> Words:
        columns = rows.tolist()
        texts = {first: self.dictionary.decode(rows[code]) for first, (code, _) in self.texts.items()}

        def compare(a: int, b: int) -> int:
            column = self.first
            while column < len(columns):
                if column in texts:
                    x, y = texts[column][a], texts[column][b]
                    if x != y and x is not None and y is not None:
                        sign = -1 if x.encode() < y.encode() else 1
                        return -sign if self.texts[column][1] else sign
                if columns[column][a] != columns[column][b]:
                    return -1 if columns[column][a] < columns[column][b] else 1
                column += TEXT_WORDS if column in texts else 1
            return 0

        return np.array(sorted(range(rows.shape[1]), key=cmp_to_key(compare)), np.int64)
