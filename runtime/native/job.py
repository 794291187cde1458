"""Something that another thread does, and that one may wait for and be interrupted, anywhere, without harm.

Locks and futures of Python's do not promise that: an exception from a signal handler may leave one locked.
"""

import time
from typing import Any, Final

_PAUSE: Final = 0.003
"""Seconds between looks: little against a compilation, and a look is cheap."""


class Job:
    """Done once, with a value or an error; ``begun`` is for who does it."""

    def __init__(self) -> None:
        self.begun = False
        self.done = False
        self._value: Any = None
        self._error: BaseException | None = None

    def finish(self, value: Any) -> None:
        """It is done, and this is what it made."""
        self._value = value
        self.done = True

    def fail(self, error: BaseException) -> None:
        """It cannot be done."""
        self._error = error
        self.done = True

    def wait(self) -> Any:
        """The value, once it is there; raises the error if there is one."""
        while not self.done:
            time.sleep(_PAUSE)
        if self._error is not None:
            raise self._error
        return self._value
