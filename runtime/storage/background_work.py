"""Background threads for work such as file I/O, and debounced work that runs once after many requests."""

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class BackgroundWork:
    """Work that a thread of its own runs, from the creation of this object on."""

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
    def is_done(self) -> bool:
        """Whether the work has ended, with or without an error."""
        return not self._thread.is_alive()

    def wait(self) -> BaseException | None:
        """Wait for the end of the work and return its error, or None."""
        self._thread.join()
        return self._error


class Task:
    """Work of a :class:`TaskThread`."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self._running = threading.Lock()
        self._running.acquire()

    def run(self) -> None:
        """Run the work; called by the thread."""
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        self._running.release()

    def wait(self) -> BaseException | None:
        """Wait for the end of the work and return its error, or None."""
        with self._running:
            return self._error

    def result(self) -> Any:
        """Wait for the end of the work and return its result; None after an error."""
        with self._running:
            return self._result


class TaskThread:
    """A thread that runs tasks one after the other, so that a task does not need to start a thread."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Task | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], object]) -> Task:
        """Enqueue work and return its task."""
        if self._thread is None:
            thread = threading.Thread(target=_run_tasks, args=(self._queue,), name="kpg files", daemon=True)
            thread.start()
            self._thread = thread
            # The thread ends when this object is garbage.
            weakref.finalize(self, self._queue.put, None)
        task = Task(work)
        self._queue.put(task)
        return task


def _run_tasks(queue: "SimpleQueue[Task | None]") -> None:
    while (task := queue.get()) is not None:
        task.run()
        del task


class DebouncedWork:
    """Runs ``work`` in a thread ``seconds`` after the first request; holds ``lock`` meanwhile."""

    def __init__(self, work: Callable[[], object], seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._timer: threading.Timer | None = None
        self._is_stopped = False
        self.lock = threading.Lock()

    def request(self) -> None:
        """Request a run of the work."""
        if self._timer is None and not self._is_stopped:
            self._timer = threading.Timer(self._seconds, self._run)
            self._timer.name = "kpg sync"
            self._timer.daemon = True
            try:
                self._timer.start()
            except BaseException:  # the system may refuse to start a thread
                self._timer = None
                raise

    def _run(self) -> None:
        # Requests from here on need another run.
        self._timer = None
        with self.lock:
            if not self._is_stopped:
                self._work()

    def stop(self) -> None:
        """Stop: no run begins after this, and none is in progress when this returns."""
        with self.lock:
            self._is_stopped = True
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
