"""What a recorder has made of rows while they were appended, before they are committed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]


class Foreseen:
    """By the rowids of the rows, which never change; but rowids are given out again after a rollback."""

    def __init__(self) -> None:
        self._said: list[tuple[int, int, Any]] = []

    def add(self, rowids: Words, said: Any) -> None:
        """Something of rows that have come, whose rowids follow each other and all others."""
        self._said.append((int(rowids[0]), int(rowids[-1]) + 1, said))

    def cut(self, count: int) -> None:
        """Forget rows whose rowids are given out again."""
        self._said = [one for one in self._said if one[1] <= count]

    def among(self, rowids: Words) -> list[tuple[int, int, Any]]:
        """What was said of rows that are all among ascending rowids: from which place to which, and it."""
        found = []
        for first, end, said in self._said:
            at = int(np.searchsorted(rowids, first))
            beyond = at + end - first
            if beyond <= rowids.shape[0] and rowids[at] == first and rowids[beyond - 1] == end - 1:
                found.append((at, beyond, said))
        return found
