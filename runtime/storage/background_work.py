"""Background threads for work such as file I/O, and debounced work that runs once after many requests."""

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class Ahead:
    """Work under way, from when this is made."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), name="kpg files", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            self._error = error

    @property
    def done(self) -> bool:
        """Whether it is done, well or not."""
        return not self._thread.is_alive()

    def wait(self) -> BaseException | None:
        """When the work is done, what it ended in, if not well."""
        self._thread.join()
        return self._error


class Task:
    """Work of a :class:`Hand`; as :class:`Ahead`."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self._under_way = threading.Lock()
        self._under_way.acquire()

    def run(self) -> None:
        """Do it; called by the thread."""
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        self._under_way.release()

    def wait(self) -> BaseException | None:
        """When the work is done, what it ended in, if not well."""
        with self._under_way:
            return self._error

    def result(self) -> Any:
        """When the work is done, what it gave; None if it ended in an error."""
        with self._under_way:
            return self._result


class Hand:
    """A thread that does one piece of work after the other: to begin one takes no new thread."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Task | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], object]) -> Task:
        """Have it do some work."""
        if self._thread is None:
            thread = threading.Thread(target=_work, args=(self._waiting,), name="kpg files", daemon=True)
            thread.start()
            self._thread = thread
            # The thread ends with whoever has it.
            weakref.finalize(self, self._waiting.put, None)
        task = Task(work)
        self._waiting.put(task)
        return task


def _work(waiting: "SimpleQueue[Task | None]") -> None:
    while (task := waiting.get()) is not None:
        task.run()
        del task


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
