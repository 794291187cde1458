"""Something that is done a while after it was first wanted, by a thread, however often it was wanted."""

import threading
from collections.abc import Callable


class Lazy:
    """Has a thread do ``work``, ``seconds`` after it was wanted; ``apart`` is held meanwhile."""

    def __init__(self, work: Callable[[], object], seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._timer: threading.Timer | None = None
        self._ended = False
        self.apart = threading.Lock()

    def wanted(self) -> None:
        """It is to be done."""
        if self._timer is None and not self._ended:
            self._timer = threading.Timer(self._seconds, self._run)
            self._timer.name = "kpg sync"
            self._timer.daemon = True
            try:
                self._timer.start()
            except BaseException:  # there may be no thread to be had
                self._timer = None
                raise

    def _run(self) -> None:
        # Whatever is wanted from here on is for the next time.
        self._timer = None
        with self.apart:
            if not self._ended:
                self._work()

    def end(self) -> None:
        """It is not to be done any more; nothing is under way when this returns."""
        with self.apart:
            self._ended = True
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
