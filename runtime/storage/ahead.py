"""Work that a thread does while others go on, files above all."""

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
