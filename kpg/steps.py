"""What the last steps took: epochs, and when and how long they went through the views."""

import time
from collections import deque
from typing import Final

KEPT: Final = 2_000
"""Steps that are remembered one by one."""


class Steps:
    """A running record, which costs a step less than a microsecond."""

    def __init__(self) -> None:
        self.count = 0
        """The number of steps since the record began."""
        self.seconds = 0.0
        """What all of them took."""
        self.last: deque[tuple[int, int, float, float]] = deque(maxlen=KEPT)
        """The number of each step, its last epoch, when it ended (``time.time()``), and its seconds."""
        self._begun = 0.0

    def begin(self) -> None:
        """A step begins."""
        self._begun = time.perf_counter()

    def note(self, epoch: int) -> None:
        """It is done, and has come to an epoch."""
        took = time.perf_counter() - self._begun
        self.count += 1
        self.seconds += took
        self.last.append((self.count, epoch, time.time(), took))

    def after(self, number: int) -> list[tuple[int, int, float, float]]:
        """The steps that are remembered after that of a number."""
        missed = min(self.count - number, len(self.last))
        return (
            [self.last[place] for place in range(len(self.last) - missed, len(self.last))]
            if missed > 0
            else []
        )
