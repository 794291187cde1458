"""Memory limits of a process and of a statement: a statement that exceeds one is rolled back.

File-backed memory does not count, above all the database's own files: the system can drop it under pressure.
"""

import gc
import os
import re
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from kpg.runtime.errors import InterfaceError, NotSupportedError, OperationalError, ProgrammingError, Span

UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
PROCESSES: Final = Path("/proc")
STATUS: Final = PROCESSES / "self" / "statm"
SIZE_FORM: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*")
PAGE: Final = 4096
GROUPS: Final = Path("/sys/fs/cgroup")
SETTING: Final = "statement_memory_limit"
INTERVAL: Final = 0.02
"""Seconds between two measurements of the process's memory."""
GROWTH: Final = 32 << 20
"""Bytes. A step that takes less never fails, whatever memory other steps have left in use."""


class OutOfMemoryError(OperationalError):
    """A statement needs more memory than the limit or the system allows."""

    sqlstate = "53200"


def parse_limit(limit: int | str) -> int:
    """Return a limit in bytes, from a number or a text such as ``'500 MB'``; InterfaceError if malformed."""
    if isinstance(limit, str):
        found = SIZE_FORM.fullmatch(limit.lower())
        limit = int(float(found[1]) * UNITS[found[2]]) if found is not None else 0
    if limit <= 0:
        raise InterfaceError("the memory limit is a number of bytes, or a text such as '500 MB' or '2GB'")
    return limit


def parse_statement_limit(name: str, text: str, span: Span | None = None) -> int:
    """Return the value of statement_memory_limit in bytes; 0 means no limit. Without a unit it is in kB.

    Raises ProgrammingError if it is malformed.
    """
    found = SIZE_FORM.fullmatch(text.lower())
    if found is None:
        error = ProgrammingError(
            f'invalid value for parameter "{name}": "{text}"',
            span=span,
            hint="write a size with a unit (kB, MB, GB, TB), or 0 for no limit",
        )
        error.sqlstate = "22023"
        raise error
    unit = found[2] or ("b" if "b" in text.lower() else "k")
    limit = int(float(found[1]) * UNITS[unit])
    if limit and not STATUS.exists():
        raise NotSupportedError("a memory limit is supported on Linux only", span=span)
    return limit


def effective_limit(setting: str, bound: int) -> str:
    """Return the limit of a session's statements: its setting, at most ``bound`` bytes; 0 for no bound."""
    own = parse_statement_limit(SETTING, setting)
    return _format_size(bound) if bound and not 0 < own <= bound else setting


def machine_bytes(groups: Path = GROUPS) -> int:
    """Return the memory available to this process: that of the machine or of its control group."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            text = (groups / name).read_text().strip()
        except OSError:
            continue
        found += [int(text)] if text.isdigit() else []
    return min(found)


def used_bytes(process: int | None = None) -> int:
    """Return the memory of a process without file-backed pages, by default of this one; 0 if it has ended."""
    place = STATUS if process is None else PROCESSES / str(process) / "statm"
    try:
        resident, of_files = place.read_bytes().split()[1:3]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(resident) - int(of_files)) * PAGE


class MemoryWatch:
    """Watch of a step: OutOfMemoryError at a safe point once ``measure`` returns more than ``limit``."""

    def __init__(
        self, limit: int, measure: Callable[[], int] = used_bytes, subject: str = "the process has"
    ) -> None:
        if not STATUS.exists():
            raise NotSupportedError("a memory limit is supported on Linux only")
        self._limit = limit
        self._measure = measure
        self._subject = subject
        self._next = 0.0
        self._start_size = 0

    def begin_step(self) -> None:
        """Begin a step."""
        self._next = time.monotonic() + INTERVAL
        self._start_size = 0

    def __call__(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + INTERVAL
        self._check(0)

    def check_room(self, size: int) -> None:
        """Raise OutOfMemoryError if ``size`` more bytes exceed the limit."""
        if size >= GROWTH:
            self._check(size)

    def _check(self, wanted: int) -> None:
        used = self._measure()
        self._start_size = min(self._start_size or used, used)
        if used + wanted > self._limit and used + wanted - self._start_size >= GROWTH:
            raise OutOfMemoryError(
                f"the memory limit of {self._limit >> 20} MB is reached: {self._subject} {used >> 20} MB"
                + (f", and needs {wanted >> 20} MB more" if wanted else ""),
                hint="a recursion or a join may give rows without end; or raise memory_limit of kpg.connect",
            )


class WorkerMemory(Protocol):
    """Worker processes whose memory counts towards the limit of a database."""

    def used_bytes(self) -> int:
        """Memory of this process and of the workers on this machine, in bytes."""


def make_watch(limit: int | str, workers: WorkerMemory | None) -> MemoryWatch:
    """Return the watch of the memory of a database: its process and its workers on this machine."""
    if workers is None:
        return MemoryWatch(parse_limit(limit))
    return MemoryWatch(parse_limit(limit), workers.used_bytes, "the process and its workers have")


class StatementMemory:
    """Memory limit of one statement: OutOfMemoryError once the process has grown by more since its begin."""

    def __init__(self) -> None:
        self.bound = 0
        """Upper bound of every statement's limit in bytes; 0 for none."""
        self._limit = self._first = self._size = 0
        self._next = 0.0

    def begin_step(self, setting: str) -> None:
        """Begin a statement with its session's setting, which may be empty."""
        own = parse_statement_limit(SETTING, setting) if setting else 0
        self._limit = min(own or self.bound, self.bound or own)
        if self._limit:
            self._measure()
            self._first = self._size

    def end(self) -> None:
        """End the statement."""
        self._limit = 0

    def __call__(self) -> None:
        """Raise OutOfMemoryError if the statement exceeds its limit."""
        if self._limit and self._measure():
            self._check(0)

    def check_room(self, size: int) -> None:
        """Raise OutOfMemoryError if ``size`` more bytes exceed the limit."""
        if self._limit and size:
            self._measure()
            self._check(size)

    def _check(self, wanted: int) -> None:
        if (growth := self._size + wanted - self._first) > self._limit:
            raise OutOfMemoryError(
                f"out of memory: the statement takes {_format_size(growth)}, "
                f"and may take {_format_size(self._limit)}",
                hint="a join may lack its condition; SET statement_memory_limit, up to the server's bound",
            )

    def _measure(self) -> bool:
        """Measure the memory of the process, at most once per interval; return whether it did."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + INTERVAL
        self._size = used_bytes()
        self._first = min(self._first, self._size)  # garbage of other statements is freed meanwhile
        return True


def release_memory(error: BaseException) -> BaseException:
    """Return the error of a statement; if it is for lack of memory, clear the frames that hold the data.

    Otherwise the data lives as long as the error, and reference cycles even longer.
    """
    if isinstance(error, MemoryError):
        error = OutOfMemoryError(f"out of memory: {error}", hint="the system gives the process no more")
    if isinstance(error, OutOfMemoryError):
        found: BaseException | None = error
        while found is not None:
            traceback.clear_frames(found.__traceback__)
            found = found.__context__
        error = error.with_traceback(None)
        error.__context__ = None
        gc.collect()
    return error


def _format_size(size: int) -> str:
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} kB"
