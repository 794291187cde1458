"""Members in processes of this machine, which end when their coordinator does."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

from kpg.runtime.errors import InterfaceError
from kpg.runtime.sharing.memory import Memory
from kpg.runtime.workers.messages import STEPS, Command, MemberGoneError, Reply, sent
from kpg.runtime.workers.wire import GoneError, Line, exchange, pair

POLL: Final = 0.02
"""Seconds after which the coordinator looks whether to go on."""
MOST: Final = 256


class Processes:
    """``messages.Crew``."""

    def __init__(self, count: int, merge_effort: int) -> None:
        """InterfaceError for a number of workers that nobody can have."""
        if not 1 <= count <= MOST:
            raise InterfaceError(f"there cannot be {count} workers", hint=f"1 to {MOST}, as many as cores")
        self.count = count
        self._merge_effort = merge_effort
        self._memory = Memory()
        self._start_all()

    def _start_all(self) -> None:
        self._dead: str | None = None
        self._ends: list[Line] = []
        self._running: list[subprocess.Popen[bytes]] = []
        count = self.count
        own = [pair() for _ in range(count)]
        peers = {(i, j): pair() for i in range(count) for j in range(i + 1, count)}
        try:
            for index in range(count):
                ends = [own[index][1]]
                for other in range(count):
                    if other != index:
                        first, second = peers[min(index, other), max(index, other)]
                        ends.append(first if index < other else second)
                self._start(index, ends)
                self._ends.append(own[index][0])
        finally:
            for _, theirs in own:
                theirs.close()
            for both in peers.values():
                for end in both:
                    end.close()

    def _start(self, index: int, ends: list[Line]) -> None:
        numbers = [end.fileno() for end in ends]
        code = "from kpg.runtime.workers.process import main; main()"
        arguments = [
            str(index),
            str(self.count),
            str(self._merge_effort),
            str(os.getpid()),
            *map(str, (*self._memory.files, *numbers)),
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            pass_fds=(*self._memory.files, *numbers),
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the coordinator
        )
        self._running.append(process)

    @property
    def memory(self) -> Memory:
        """What they have in common."""
        return self._memory

    @property
    def processes(self) -> list[int]:
        """Their ids."""
        return [one.pid for one in self._running]

    def call(self, command: Command, poll: Callable[[], None]) -> tuple[list[Reply], BaseException | None]:
        """See ``messages.Crew``."""
        if self._dead is not None:
            raise MemberGoneError(self._dead)
        stopped: BaseException | None = None

        def look() -> None:
            nonlocal stopped
            for index, process in enumerate(self._running):
                if process.poll() is not None:
                    raise GoneError(index)
            if command.method in STEPS and stopped is None:
                try:
                    poll()
                except BaseException as error:
                    stopped = error
                    for one in self._running:
                        one.send_signal(signal.SIGUSR1)

        pieces = sent(command)
        try:
            replies = exchange([(end, list(pieces)) for end in self._ends], self._ends, look, POLL)
        except GoneError:
            raise self._gone() from None
        return [_reply(found) for found in replies], stopped

    def tell(self, command: Command) -> None:
        """See ``messages.Crew``."""
        if self._dead is not None:
            raise MemberGoneError(self._dead)
        pieces = sent(command)
        try:
            exchange([(end, list(pieces)) for end in self._ends], [])
        except GoneError:
            raise self._gone() from None

    def _gone(self) -> MemberGoneError:
        self._dead = self._obituary()
        self._end()
        hint = "what was committed is there: workers are started again by what comes next"
        return MemberGoneError(self._dead, hint=hint)

    def _obituary(self) -> str:
        for index, process in enumerate(self._running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
            code = process.poll()
            if code is not None:
                how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
                return f"worker {index} (process {process.pid}) {how}"
        return "a worker does not answer"

    def _end(self) -> None:
        for end in self._ends:
            end.close()
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()

    def again(self) -> None:
        """See ``messages.Crew``."""
        self._end()
        self._start_all()

    def close(self) -> None:
        """End all processes."""
        if self._dead is None:
            self._dead = "the database is closed"
            for end in self._ends:
                end.close()
            for process in self._running:
                try:
                    process.wait(2)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._memory.close()


def _reply(found: Any) -> Reply:
    value, delta, error, aside, order = found
    return Reply(value, delta, error, aside, order)
