"""Kernels compiled in processes of their own, several at a time.

The first kernel that is missing starts the processes, and has them compile what nearly every program
needs (``USUAL``) beside it; who needs another kernel puts that before the rest. A process that compiles holds a lock for
the kernel, so that programs that start together share the work, and puts its result into the cache in one piece: so it
matters to nobody when it is stopped, and signals to the program do not reach it.
"""

import atexit
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Final

import kpg
from kpg.runtime.errors import InternalError
from kpg.runtime.native.declare import Kernel
from kpg.runtime.native.link import compiler
from kpg.runtime.native.load import cached, call, processor

_logger = logging.getLogger("kpg")

MOST_PROCESSES: Final = 8
"""More would wait for each other: a few kernels take most of the time."""

USUAL: Final = (
    "vm.run",
    "groups.accumulate",
    "groups.emit",
    "rows.key_insert",
    "text.intern",
    "rows.key_remove",
    "sort.consolidate_few",
    "groups.purge",
    "groups.current",
    "rows.ascending",
    "rows.highest_key",
    "rows.first_null",
    "rows.append",
    "rows.kill",
    "text.measure",
    "text.gather",
    "sort.gather",
)
"""What a table, a view and a query need, the slowest to compile first."""


class Workers:
    """Processes that compile, and a thread for each that feeds it; they start when there is something to do."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._waiting: list[Kernel] = []
        self._jobs: dict[str, Future[None]] = {}
        self._threads: list[threading.Thread] = []
        self._processes: list[subprocess.Popen[str]] = []
        self._finished = 0
        atexit.register(self._stop)

    def wait(self, kernel: Kernel) -> None:
        """Have a kernel compiled before others. May be interrupted: compiling goes on.

        Raises ``CannotLink`` if there is no C compiler, ``InternalError`` if numba refuses the kernel.
        """
        compiler()
        job = self._begin(kernel, first=True)
        if not job.done():
            self.begin(usual())
        job.result()

    def begin(self, kernels: Iterable[Kernel]) -> list[Future[None]]:
        """Have kernels compiled that are not in the cache, in this order; does not wait for them."""
        target = processor()
        return [self._begin(kernel) for kernel in kernels if not cached(kernel, target).is_file()]

    def _begin(self, kernel: Kernel, first: bool = False) -> Future[None]:
        with self._lock:
            job = self._jobs.get(kernel.symbol)
            if job is None:
                job = self._jobs[kernel.symbol] = Future()
                self._waiting.append(kernel)
            if first and kernel in self._waiting:
                self._waiting.remove(kernel)
                self._waiting.insert(0, kernel)
            self._grow()
            self._lock.notify()
        return job

    def _grow(self) -> None:
        """Have as many threads as there is work for, and processors."""
        most = min(MOST_PROCESSES, processors())
        if len(self._threads) < min(most, len(self._waiting)):
            thread = threading.Thread(target=self._feed, name="kpg compiles", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _feed(self) -> None:
        """Give one process kernels to compile, as long as there are some."""
        process = self._start()
        while True:
            with self._lock:
                while not self._waiting:
                    self._lock.wait()
                kernel = self._waiting.pop(0)
            job = self._jobs[kernel.symbol]
            try:
                self._compile(process, kernel)
            except BaseException as error:
                with self._lock:
                    del self._jobs[kernel.symbol]  # may be tried again
                job.set_exception(error)
                if process.poll() is not None:
                    process = self._start()
            else:
                job.set_result(None)
            self._finished += 1
            self._show()

    def _start(self) -> subprocess.Popen[str]:
        """A process that reads kernels' names and compiles them; it ends with its input."""
        root = str(Path(kpg.__file__).parents[1])
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        process = subprocess.Popen(
            [sys.executable, "-m", "kpg.runtime.native"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def _compile(self, process: subprocess.Popen[str], kernel: Kernel) -> None:
        target = processor()
        assert process.stdin is not None and process.stdout is not None
        order = (kernel.function.__module__, kernel.__name__, target, str(cached(kernel, target)))
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise InternalError(
                f"kernel {kernel.symbol} is not compiled: the process that should do it ended"
            )
        error = json.loads(answer)
        if error:
            raise InternalError(f"kernel {kernel.symbol} is not compiled: {error}")

    def _show(self) -> None:
        """Say how far it is: on a terminal in a line that goes away, else in the log."""
        total = len(self._jobs)
        message = f"kpg compiles kernels, once on a machine: {self._finished} of {total}"
        if not sys.stderr.isatty():
            _logger.info(message)
        elif self._finished < total:
            print(f"\r{message}", end="", file=sys.stderr, flush=True)
        else:
            print(f"\r{'':{len(message)}}\r", end="", file=sys.stderr, flush=True)

    def _stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


@cache
def workers() -> Workers:
    """This process's workers."""
    call()  # which starts nothing if there is no C compiler
    return Workers()


def usual() -> list[Kernel]:
    """The kernels that nearly every program needs, less those that this process has loaded."""
    from kpg.runtime.kernels import every_kernel

    known = {f"{kernel.file}.{kernel.__name__}": kernel for kernel in every_kernel()}
    return [known[name] for name in USUAL if name in known]


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
