"""Compilation of kernels in processes of their own, several at a time.

The first missing kernel starts the processes, which then also compile the kernels of nearly every program
(``USUAL``). A thread that waits for a kernel moves it to the front. A process holds a lock for the kernel
that it compiles, so programs that start together share the work. It writes its result to the cache
atomically, so stopping it does no harm. Signals to the program do not reach it.

A caller may be interrupted at any point: ordering a kernel takes no lock, and can be repeated.
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
from kpg.runtime.native.link import cache_path, call_module, compiler_command, processor

_logger = logging.getLogger("kpg")

MAX_PROCESSES: Final = 8
"""More would be idle: a few kernels take most of the time."""

LINE_WIDTH: Final = 60
"""Characters of the progress line on a terminal."""

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
"""Kernels that a table, a view and a query need, the slowest to compile first."""


class CompilerPool:
    """Compiler processes, each with a thread that feeds it; they start when there is work."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._orders: SimpleQueue[tuple[Kernel, bool]] = SimpleQueue()
        self._queue_lock = threading.Lock()
        self._queue: list[Kernel] = []
        self._threads: list[threading.Thread] = []
        self._processes: list[subprocess.Popen[str]] = []
        self._finished_count = 0
        self._is_stopping = False
        self._has_waiter = False
        atexit.register(self._stop)

    def wait(self, kernel: Kernel) -> None:
        """Compile a kernel before others and wait for it. The wait may be interrupted; compilation continues.

        Raises:
            NoCompilerError: If there is no C compiler.
            InternalError: If numba rejects the kernel.
        """
        compiler_command()
        (job,) = self._order([kernel], is_urgent=True)
        if not job.is_done:
            self.begin(usual_kernels())
        self._has_waiter = True
        try:
            self._show_progress()
            job.wait()
        finally:
            self._has_waiter = False
            if sys.stderr.isatty():
                print(f"\r{'':{LINE_WIDTH}}\r", end="", file=sys.stderr, flush=True)

    def begin(self, kernels: Iterable[Kernel]) -> list[Job]:
        """Start to compile kernels that are not in the cache, in this order."""
        target = processor()
        return self._order([kernel for kernel in kernels if not cache_path(kernel, target).is_file()])

    def _order(self, kernels: Sequence[Kernel], is_urgent: bool = False) -> list[Job]:
        jobs = []
        for kernel in kernels:
            jobs.append(self._jobs.setdefault(kernel.symbol, Job()))
            self._orders.put((kernel, is_urgent))  # again if it was before: that may have been interrupted
        for _ in range(len(self._threads), min(MAX_PROCESSES, available_processors(), len(self._jobs))):
            thread = threading.Thread(target=self._feed, name="kpg compiles", daemon=True)
            thread.start()
            self._threads.append(thread)
        return jobs

    def _take_order(self) -> tuple[Kernel, Job]:
        """Wait for an order and return it; called by the pool's threads, which are not interrupted."""
        while True:
            with self._queue_lock:
                try:
                    while True:
                        kernel, first = self._orders.get_nowait()
                        self._queue.insert(0 if first else len(self._queue), kernel)
                except Empty:
                    pass
                while self._queue:
                    kernel = self._queue.pop(0)
                    job = self._jobs.get(kernel.symbol)
                    if job is not None and not job.has_begun:
                        job.has_begun = True
                        return kernel, job
            self._orders.put(self._orders.get())  # waits for an order

    def _feed(self) -> None:
        """Compile kernels with one process until the program ends."""
        process = self._start_process()
        while not self._is_stopping:
            kernel, job = self._take_order()
            try:
                self._compile(process, kernel)
            except BaseException as error:
                del self._jobs[kernel.symbol]  # may be tried again
                job.fail(error)
                if process.poll() is not None and not self._is_stopping:
                    process = self._start_process()
            else:
                job.finish(None)
            self._finished_count += 1
            self._show_progress()

    def _start_process(self) -> subprocess.Popen[str]:
        """Start a process that compiles the kernels that it reads; it ends with its input."""
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
        order = (kernel.function.__module__, kernel.__name__, target, str(cache_path(kernel, target)))
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

    def _show_progress(self) -> None:
        """Show the progress: on a terminal while a caller waits, in an erased line; else in the log."""
        message = f"kpg compiles kernels, once on a machine: {self._finished_count} of {len(self._jobs)}"
        if not sys.stderr.isatty():
            _logger.info(message)
        elif self._has_waiter:
            print(f"\r{message}", end="", file=sys.stderr, flush=True)

    def _stop(self) -> None:
        """Stop the processes. One that is just being started ends with its input when this process ends."""
        self._is_stopping = True
        for process in list(self._processes):
            process.terminate()
            process.wait()


@cache
def compiler_pool() -> CompilerPool:
    """Return this process's pool."""
    call_module()  # fails without a C compiler, before anything is started
    return CompilerPool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=compiler_pool.cache_clear)  # its parent's threads are not there


def usual_kernels() -> list[Kernel]:
    """Return the kernels that nearly every program needs and this process has not loaded."""
    by_name = {f"{kernel.file}.{kernel.__name__}": kernel for kernel in every_kernel()}
    return [by_name[name] for name in USUAL if name in by_name]


def available_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
