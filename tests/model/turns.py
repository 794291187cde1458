"""Threads that take turns: one runs at a time, from one operation of a file to the next, as a draw decides.

``Turns`` is who draws, and stands in for ``BackgroundWork`` where threads are made: so a history with
threads in it is the same each time. Who is killed never runs again.
"""

import threading
from collections.abc import Callable
from typing import Any

from numpy.random import Generator


class Killed(BaseException):
    """The process of this thread is gone."""


class Turn:
    """Work of a thread that goes on only when it is its turn; as ``background_work.BackgroundWork``."""

    def __init__(self, turns: "Turns", work: Callable[[], object]) -> None:
        self._turns = turns
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self.killed = self.ended = False
        self.thread = threading.Thread(target=self._run, name="kpg files", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self.killed:
                self._result = self._work()
        except BaseException as error:
            self._error = error
        self.ended = True
        self._back.release()

    def step(self) -> None:
        """Let it run up to its next operation, or its end."""
        if not self.ended:
            self._go.release()
            self._back.acquire()

    def pause(self) -> None:
        """Wait for the next turn; called by the thread itself."""
        if not self.killed:
            self._back.release()
            self._go.acquire()
        if self.killed:
            raise Killed

    @property
    def is_done(self) -> bool:
        """Whether it is done, once it has had some turns."""
        self._turns.some(self)
        return self.ended

    def wait(self) -> BaseException | None:
        """When the work is done, what it ended in, if not well."""
        while not self.ended:
            self.step()
        return self._error

    def result(self) -> Any:
        """When the work is done, what it gave; None if it ended in an error."""
        self.wait()
        return self._result


class Turns:
    """The threads of one process. ``pause`` is called before each operation, by whoever begins it."""

    def __init__(self, random: Generator) -> None:
        self._random = random
        self._all: list[Turn] = []

    def ahead(self, work: Callable[[], object]) -> Turn:
        """A thread for some work."""
        self._all = [one for one in self._all if not one.ended]
        self._all.append(Turn(self, work))
        return self._all[-1]

    def pause(self) -> None:
        """Let others have turns, or wait for one."""
        me = threading.current_thread()
        for one in self._all:
            if one.thread is me:
                one.pause()
                return
        for one in list(self._all):
            if self._random.random() < 0.5:
                self.some(one)

    def some(self, one: Turn) -> None:
        """Let one have some turns."""
        for _ in range(int(self._random.integers(4))):
            one.step()

    def kill(self) -> None:
        """The process is gone."""
        for one in self._all:
            one.killed = True
            while not one.ended:
                one.step()
        self._all.clear()
