"""What the last steps took, in quarters of a second."""

import time
from collections import deque
from typing import Final

KEPT: Final = 1_200
"""Quarters of a second in which something happened that are remembered: five minutes at least."""


class Steps:
    """A running record, which costs a step about a microsecond."""

    def __init__(self) -> None:
        self.count = 0
        """The number of steps since the record began."""
        self.seconds = 0.0
        """What all of them took."""
        self.last: deque[list[float]] = deque(maxlen=KEPT)
        """Of each quarter: its number (4 * seconds since 1970), the last epoch, how many steps there were,
        the seconds of all of them and of the longest."""
        self._begun = 0.0

    def begin(self) -> None:
        """A step begins."""
        self._begun = time.perf_counter()

    def note(self, epoch: int) -> None:
        """It is done, and has come to an epoch."""
        took, quarter = time.perf_counter() - self._begun, int(4 * time.time())
        self.count += 1
        self.seconds += took
        if self.last and self.last[-1][0] == quarter:
            found = self.last[-1]
            found[1] = epoch
            found[2] += 1
            found[3] += took
            found[4] = max(found[4], took)
        else:
            self.last.append([quarter, epoch, 1, took, took])

    def since(self, quarter: int) -> list[list[float]]:
        """What is remembered of a quarter and those after it."""
        found = []
        for one in reversed(self.last):
            if one[0] < quarter:
                break
            found.append(list(one))
        return found[::-1]
