"""Ctrl-C during a step: noticed between operators, so that no state is left half changed."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class DeferredInterrupt:
    """Context in which SIGINT only sets a flag; :meth:`check` raises KeyboardInterrupt if it is set.

    Outside the main thread, where Python delivers no signals, it does nothing. An interrupt that
    arrives after the last check is delivered on leaving.
    """

    __slots__ = ("_depth", "_previous", "pending")

    def __init__(self) -> None:
        self.pending = False
        self._previous: Any = None
        self._depth = 0

    def __enter__(self) -> "DeferredInterrupt":
        self._depth += 1
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0 and self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None
            if self.pending and error is None:
                self.check()
            self.pending = False

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self.pending:
            self.pending = False
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.pending = True
