"""Jobs of other threads for which a thread can wait and be interrupted anywhere, without harm.

Python's locks and futures do not guarantee that: an exception from a signal handler may leave one locked.
"""

import time
from typing import Any, Final

_PAUSE: Final = 0.003
"""Seconds between polls: short compared with a compilation, and a poll is cheap."""


class Job:
    """A job that ends with a value or an error; ``has_begun`` is set by the thread that runs it."""

    def __init__(self) -> None:
        self.has_begun = False
        self.is_done = False
        self._value: Any = None
        self._error: BaseException | None = None

    def finish(self, value: Any) -> None:
        """Set the value and end the job."""
        self._value = value
        self.is_done = True

    def fail(self, error: BaseException) -> None:
        """Set the error and end the job."""
        self._error = error
        self.is_done = True

    def wait(self) -> Any:
        """Wait for the end of the job; return the value or raise the error."""
        while not self.is_done:
            time.sleep(_PAUSE)
        if self._error is not None:
            raise self._error
        return self._value
