"""Kernels compiled in processes of their own, several at a time.

The first kernel that is missing starts the processes, and has them compile what nearly every program needs
(``USUAL``) beside it; who needs another kernel puts that before the rest. A process that compiles holds a
lock for the kernel, so that programs that start together share the work, and puts its result into the cache
in one piece, so that stopping it harms nobody. Signals to the program do not reach it.

Whoever asks may be interrupted at any place: asking takes no lock, and may be done again.
"""

import atexit
import importlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from kpg.runtime.errors import InternalError
from kpg.runtime.native.declare import Kernel, every_kernel
from kpg.runtime.native.job import Job
from kpg.runtime.native.link import cached, call, compiler, processor

_logger = logging.getLogger("kpg")

MOST_PROCESSES: Final = 8
"""More would wait for each other: a few kernels take most of the time."""

WIDTH: Final = 60
"""Of the line on a terminal."""

USUAL: Final = (
    "vm.run",
    "groups.refresh",
    "groups.emit",
    "rows.key_insert",
    "text.intern",
    "rowgroups.append",
    "rowgroups.live_rows",
    "rows.key_remove",
    "sort.consolidate_few",
    "head.append",
    "rowgroups.kill",
    "rowgroups.bury",
    "groups.finish",
    "groups.current",
    "head.rehash",
    "sort.gather",
)
"""What a table, a view and a query need, the slowest to compile first."""


class Workers:
    """Processes that compile, and for each a thread that feeds it; they start when there is work."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._orders: SimpleQueue[tuple[Kernel, bool]] = SimpleQueue()
        self._among_threads = threading.Lock()
        self._waiting: list[Kernel] = []
        self._threads: list[threading.Thread] = []
        self._processes: list[subprocess.Popen[str]] = []
        self._finished = 0
        self._stopping = False
        self._watched = False
        atexit.register(self._stop)

    def wait(self, kernel: Kernel) -> None:
        """Have a kernel compiled before others. May be interrupted: compiling goes on.

        Raises ``CannotLink`` if there is no C compiler, ``InternalError`` if numba refuses the kernel.
        """
        compiler()
        (job,) = self._order([kernel], first=True)
        if not job.done:
            self.begin(usual())
        self._watched = True
        try:
            self._show()
            job.wait()
        finally:
            self._watched = False
            if sys.stderr.isatty():
                print(f"\r{'':{WIDTH}}\r", end="", file=sys.stderr, flush=True)

    def begin(self, kernels: Iterable[Kernel]) -> list[Job]:
        """Have kernels compiled that are not in the cache, in this order; does not wait for them."""
        target = processor()
        return self._order([kernel for kernel in kernels if not cached(kernel, target).is_file()])

    def _order(self, kernels: Sequence[Kernel], first: bool = False) -> list[Job]:
        jobs = []
        for kernel in kernels:
            jobs.append(self._jobs.setdefault(kernel.symbol, Job()))
            self._orders.put((kernel, first))  # again if it was before: that may have been interrupted
        for _ in range(len(self._threads), min(MOST_PROCESSES, processors(), len(self._jobs))):
            thread = threading.Thread(target=self._feed, name="kpg compiles", daemon=True)
            thread.start()
            self._threads.append(thread)
        return jobs

    def _next(self) -> tuple[Kernel, Job]:
        """What to compile next: the order of the threads that compile, which nothing interrupts."""
        while True:
            with self._among_threads:
                try:
                    while True:
                        kernel, first = self._orders.get_nowait()
                        self._waiting.insert(0 if first else len(self._waiting), kernel)
                except Empty:
                    pass
                while self._waiting:
                    kernel = self._waiting.pop(0)
                    job = self._jobs.get(kernel.symbol)
                    if job is not None and not job.begun:
                        job.begun = True
                        return kernel, job
            self._orders.put(self._orders.get())  # waits

    def _feed(self) -> None:
        """Give one process kernels to compile, for good."""
        process = self._start()
        while not self._stopping:
            kernel, job = self._next()
            try:
                self._compile(process, kernel)
            except BaseException as error:
                del self._jobs[kernel.symbol]  # may be tried again
                job.fail(error)
                if process.poll() is not None and not self._stopping:
                    process = self._start()
            else:
                job.finish(None)
            self._finished += 1
            self._show()

    def _start(self) -> subprocess.Popen[str]:
        """A process that reads kernels' names and compiles them; it ends with its input."""
        root = Path(str(importlib.import_module("kpg").__file__)).parents[1]
        path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
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
        """Say how far it is: on a terminal, while somebody waits, in a line that goes; else in the log."""
        message = f"kpg compiles kernels, once on a machine: {self._finished} of {len(self._jobs)}"
        if not sys.stderr.isatty():
            _logger.info(message)
        elif self._watched:
            print(f"\r{message}", end="", file=sys.stderr, flush=True)

    def _stop(self) -> None:
        """End the processes. One that is just being started ends with its input, as soon as this one does."""
        self._stopping = True
        for process in list(self._processes):
            process.terminate()
            process.wait()


@cache
def workers() -> Workers:
    """This process's workers."""
    call()  # which starts nothing if there is no C compiler
    return Workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=workers.cache_clear)  # its parent's threads are not there


def usual() -> list[Kernel]:
    """The kernels that nearly every program needs, less those that this process has loaded."""
    known = {f"{kernel.file}.{kernel.__name__}": kernel for kernel in every_kernel()}
    return [known[name] for name in USUAL if name in known]


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
