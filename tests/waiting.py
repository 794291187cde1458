"""Waiting for what other threads and processes do: as long as it takes, on any machine."""

import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds after which what is waited for will not come: no test ends by them unless something is wrong."""


def until(so: Callable[[], object], what: object = "it has not come about") -> None:
    """Return once something is so."""
    end = time.monotonic() + PATIENCE
    while not so():
        assert time.monotonic() < end, what
        time.sleep(0.002)


class Clock:
    """Stands in for the module ``time`` where moments are compared; it stands unless it is moved on."""

    def __init__(self) -> None:
        self.looks = 0
        """How often it was looked at."""
        self._now = time.monotonic()

    def monotonic(self) -> float:
        """Seconds from some moment on."""
        self.looks += 1
        return self._now

    def move_on(self, seconds: float) -> None:
        """Have so much time pass."""
        self._now += seconds

    def looked_at(self) -> None:
        """Wait until somebody who looks again and again has done so, and has begun anew."""
        before = self.looks
        until(lambda: self.looks > before + 1)
