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
"""A call that notifies a listener of a commit."""
Handler = Callable[[Exception], object]
MAX_FAILURES: Final = 10
"""Consecutive failures after which a callback is unsubscribed."""
log: Final = logging.getLogger("kpg")


class GuardedCallback:
    """A user's callback whose exceptions do not propagate.

    Each exception is logged and passed to ``on_error``. After ``MAX_FAILURES`` consecutive failures the
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
        """Number of consecutive failures."""

    def __call__(self, *args: Any) -> None:
        """Call the callback. Only KeyboardInterrupt and SystemExit in the main thread propagate."""
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
            if self.failures >= MAX_FAILURES:
                log.error("%s is unsubscribed: its last %d calls failed", self._name, self.failures)
                self._end()
        else:
            self.failures = 0


def failure_of(error: BaseException) -> Exception:
    """Return the failure of a callback; raise an exception that has to end the program.

    Ctrl-C arrives in the main thread. In any other thread, SystemExit and KeyboardInterrupt count as
    failures.
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
    """Calls in commit order, each with the name of its listener."""

    def __init__(self) -> None:
        self._queue: deque[tuple[str, Notification]] = deque()
        self._delivering = False
        self._interrupt: BaseException | None = None

    def add(self, notifications: Iterable[tuple[str, Notification]]) -> None:
        """Queue notifications for the next :meth:`deliver`."""
        self._queue.extend(notifications)

    def interrupt(self, error: BaseException) -> None:
        """Make :meth:`deliver` raise an exception that followed a commit, such as Ctrl-C."""
        self._interrupt = self._interrupt or error

    def deliver(self) -> None:
        """Make all calls in order. A nested call returns at once; the outer one delivers its notifications.

        Ctrl-C during a call is raised after the remaining calls.
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
