"""The queue of what listeners are still to be told of commits."""

from collections import deque
from collections.abc import Callable, Iterable

from kpg.runtime.errors import OperationalError

Notification = Callable[[], object]
"""A call that tells somebody of a commit."""


class Notifications:
    """Calls in the order of the commits that they tell of, each with a name for whom it tells."""

    def __init__(self) -> None:
        self._queue: deque[tuple[str, Notification]] = deque()
        self._delivering = False

    def add(self, notifications: Iterable[tuple[str, Notification]]) -> None:
        """Queue some, to be delivered by the next :meth:`deliver`."""
        self._queue.extend(notifications)

    def deliver(self) -> None:
        """Make all calls in order. Those of a commit that one of them makes wait until it has returned.

        Whatever a callback raises, Ctrl-C too, the others are told before it is raised on.
        """
        if self._queue and not self._delivering:
            self._deliver()

    def _deliver(self) -> None:
        failure: tuple[str, BaseException] | None = None
        self._delivering = True
        try:
            while self._queue:
                name, notification = self._queue[0]
                try:
                    notification()
                except BaseException as error:
                    failure = failure or (name, error)
                self._queue.popleft()
        finally:
            self._delivering = False
        if failure is None:
            return
        name, cause = failure
        if not isinstance(cause, Exception):
            raise cause
        raise OperationalError(
            f"{name} raised {type(cause).__name__}: {cause}",
            hint="the commit itself succeeded, and the other subscribers were told",
        ) from cause
