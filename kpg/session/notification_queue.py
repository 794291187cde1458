"""Notification queue: the callbacks to run after commits.

Callbacks run after the commit point, so they cannot change what a commit returns or raises. An exception of a
callback goes to its own handler and to the log. Ctrl-C is raised again once all callbacks have run.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from kpg.runtime.errors import InterfaceError

Notification = Callable[[], object]
"""A call that tells a listener of a commit."""
Handler = Callable[[Exception], object]
MOST_FAILURES: Final = 10
"""Calls in a row that a callback may fail before it is called no more."""
log: Final = logging.getLogger("kpg")


class Guarded:
    """A callback of the user's whose exceptions stay its own.

    Each exception is logged and given to ``on_error``. After ``MOST_FAILURES`` failing calls in a row the
    callback is unsubscribed by ``end``.
    """

    __slots__ = ("_callback", "_end", "_name", "_on_error", "failures")

    def __init__(
        self,
        name: str,
        callback: Callable[..., object],
        end: Callable[[], object],
        on_error: Handler | None = None,
    ) -> None:
        for function in (callback, on_error or callback):
            if not callable(function):
                raise InterfaceError(
                    f"a {type(function).__name__} cannot be called with changes",
                    hint="give a function of one argument, such as print",
                )
        self._name = name
        self._callback = callback
        self._end = end
        self._on_error = on_error
        self.failures = 0
        """The number of the last calls that have failed."""

    def __call__(self, *args: Any) -> None:
        """Call the callback. Raises only what ends the process: KeyboardInterrupt in the main thread."""
        try:
            self._callback(*args)
        except BaseException as error:
            failure = failure_of(error)
            self.failures += 1
            report(self._name, failure)
            if self._on_error is not None:
                try:
                    self._on_error(failure)
                except BaseException as second:
                    report(f"the error handler of {self._name}", failure_of(second))
            if self.failures >= MOST_FAILURES:
                log.error("%s is unsubscribed: its last %d calls failed", self._name, self.failures)
                self._end()
        else:
            self.failures = 0


def failure_of(error: BaseException) -> Exception:
    """The failure of a callback; an exception that has to end the program is raised on.

    Ctrl-C arrives in the main thread. In another thread, which serves other sessions too, a callback that
    raises SystemExit or KeyboardInterrupt has failed like any other.
    """
    if isinstance(error, Exception):
        return error
    if threading.current_thread() is threading.main_thread():
        raise error
    failure = RuntimeError(f"{type(error).__name__} in a callback")
    failure.__cause__ = error
    return failure


def report(name: str, error: Exception) -> None:
    """Log the exception of a callback."""
    log.error("%s raised %s: %s", name, type(error).__name__, error, exc_info=error)


class Notifications:
    """Calls in the order of the commits that they tell of, each with a name for its listener."""

    def __init__(self) -> None:
        self._queue: deque[tuple[str, Notification]] = deque()
        self._delivering = False
        self._interrupt: BaseException | None = None

    def add(self, notifications: Iterable[tuple[str, Notification]]) -> None:
        """Queue some, to be delivered by the next :meth:`deliver`."""
        self._queue.extend(notifications)

    def interrupt(self, error: BaseException) -> None:
        """Have :meth:`deliver` raise what came between a commit and its callbacks, Ctrl-C above all."""
        self._interrupt = self._interrupt or error

    def deliver(self) -> None:
        """Make all calls in order. Those of a commit that one of them makes wait until it has returned.

        Ctrl-C during a call is raised on after the others were called.
        """
        if (self._queue or self._interrupt is not None) and not self._delivering:
            self._deliver()

    def _deliver(self) -> None:
        self._delivering = True
        try:
            while self._queue:
                name, notification = self._queue[0]
                try:
                    notification()
                except BaseException as error:
                    try:
                        report(name, failure_of(error))
                    except BaseException as last:
                        self.interrupt(last)
                self._queue.popleft()
        finally:
            self._delivering = False
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            raise interrupt
