"""Members in processes of this machine, which end when their coordinator does."""

import contextlib
import os
import signal
import subprocess
import sys
from typing import Final

from kpg.runtime.sharing.memory import Memory
from kpg.runtime.workers.crew import Lined
from kpg.runtime.workers.wire import GoneError, Line, pair

THREADS: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""How many threads libraries start in a worker, which is one of as many as there are cores; users may say."""


class Processes(Lined):
    """``messages.Crew``."""

    def __init__(self, count: int, merge_effort: int) -> None:
        """InterfaceError for a number of workers that nobody can have."""
        super().__init__(count)
        self._merge_effort = merge_effort
        self._memory = Memory()
        self._start_all()

    def _start_all(self) -> None:
        self._begin()
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
        path = os.pathsep.join(filter(None, sys.path))
        environment = {**dict.fromkeys(THREADS, "1"), **os.environ, "PYTHONPATH": path}
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

    def _check(self) -> None:
        for index, process in enumerate(self._running):
            if process.poll() is not None:
                raise GoneError(index)

    def _interrupt(self) -> None:
        for one in self._running:
            one.send_signal(signal.SIGUSR1)

    def _obituary(self) -> str:
        ended: list[tuple[int, int]] = []
        for index, process in enumerate(self._running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                ended.append((index, process.wait(0.2)))
        # Those whose neighbour has gone end by themselves.
        for index, code in sorted(ended, key=lambda one: one[1] == 0)[:1]:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
            return f"worker {index} (process {self._running[index].pid}) {how}"
        return "a worker does not answer"

    def _end(self) -> None:
        for end in self._ends:
            end.close()
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()

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
