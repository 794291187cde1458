"""Answers that nobody subscribes to, as far as they are worth remembering: bounded in number and in rows."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.records import dataclass

Words = NDArray[np.int64]
Seed = tuple[int, ...]
Rows = tuple[Words, Words]
MOST: Final = 64
"""Questions whose answers are remembered."""
MOST_ROWS: Final = 1 << 18
"""Rows of all of them together."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """An answer as it was at an epoch."""

    epoch: int
    rows: Rows

    @property
    def size(self) -> int:
        return self.rows[0].shape[1]


class AnswerCache:
    """The answers to the questions asked last, the oldest first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Seed, Remembered] = OrderedDict()
        self._rows = 0

    def find(self, seed: Seed) -> Remembered | None:
        """The last answer to a question, however old."""
        return self._answers.get(seed)

    def put(self, seed: Seed, found: Remembered) -> None:
        """Remember an answer, and forget others for it; one that is too large is not remembered."""
        self.forget(seed)
        if found.size > MOST_ROWS:
            return
        self._answers[seed] = found
        self._rows += found.size
        while len(self._answers) > MOST or self._rows > MOST_ROWS:
            self.forget(next(iter(self._answers)))

    def forget(self, seed: Seed) -> None:
        """Forget an answer, if it is there."""
        found = self._answers.pop(seed, None)
        if found is not None:
            self._rows -= found.size


class Kept:
    """Seeds that are maintained because they were asked for again after a change; the least recent first."""

    def __init__(self, most: int, patience: int) -> None:
        self._most = most
        self._patience = patience
        self._asked: OrderedDict[Seed, int] = OrderedDict()
        self._commits = 0

    def __contains__(self, seed: object) -> bool:
        return seed in self._asked

    def __iter__(self) -> Iterator[Seed]:
        return iter(tuple(self._asked))

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, seed: Seed) -> None:
        """Keep a seed that is asked for now."""
        self._asked[seed] = self._commits
        self._asked.move_to_end(seed)

    def forget(self, seed: Seed) -> None:
        """Keep it no more."""
        self._asked.pop(seed, None)

    def committed(self) -> None:
        """Note that there was a commit."""
        self._commits += 1

    def surplus(self) -> list[Seed]:
        """Those that are too many or were not asked for in a number of commits."""
        many = len(self._asked) - self._most
        old = self._commits - self._patience
        return [seed for place, (seed, at) in enumerate(self._asked.items()) if place < many or at < old]
