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
SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*")
PAGE: Final = 4096
GROUPS: Final = Path("/sys/fs/cgroup")
SETTING: Final = "statement_memory_limit"
INTERVAL: Final = 0.02
"""Seconds between two looks at the process's memory."""
GROWTH: Final = 32 << 20
"""A step that takes less than this is let through, whatever other steps have left behind."""


class OutOfMemoryError(OperationalError):
    """A statement takes more memory than it may, or than there is."""

    sqlstate = "53200"


def bytes_of(limit: int | str) -> int:
    """A limit in bytes: a number, or a text such as ``'500 MB'``; InterfaceError if it is neither."""
    if isinstance(limit, str):
        found = SIZE.fullmatch(limit.lower())
        limit = int(float(found[1]) * UNITS[found[2]]) if found is not None else 0
    if limit <= 0:
        raise InterfaceError("the memory limit is a number of bytes, or a text such as '500 MB' or '2GB'")
    return limit


def statement_limit(name: str, text: str, span: Span | None = None) -> int:
    """A limit for statements in bytes, as SET takes it: with a unit, or in kB; 0 for none.

    ProgrammingError if it is neither.
    """
    found = SIZE.fullmatch(text.lower())
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


def in_force(given: str, most: int) -> str:
    """The limit of statements whose session has set one, up to ``most`` bytes, 0 for no such bound."""
    own = statement_limit(SETTING, given)
    return _shown(most) if most and not 0 < own <= most else given


def machine_bytes(groups: Path = GROUPS) -> int:
    """The memory that this process may have: of the machine, or of its control group if that has less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            text = (groups / name).read_text().strip()
        except OSError:
            continue
        found += [int(text)] if text.isdigit() else []
    return min(found)


def used_bytes(process: int | None = None) -> int:
    """Memory of a process, or of this one, that is no file's; of one that has ended nothing."""
    place = STATUS if process is None else PROCESSES / str(process) / "statm"
    try:
        resident, of_files = place.read_bytes().split()[1:3]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(resident) - int(of_files)) * PAGE


class MemoryWatch:
    """Called at safe points of a step: OutOfMemoryError once ``used`` tells of more than ``limit`` bytes."""

    def __init__(
        self, limit: int, used: Callable[[], int] = used_bytes, whose: str = "the process has"
    ) -> None:
        if not STATUS.exists():
            raise NotSupportedError("a memory limit is supported on Linux only")
        self._limit = limit
        self._used = used
        self._whose = whose
        self._next = 0.0
        self._before = 0

    def begin(self) -> None:
        """Note that a step begins."""
        self._next = time.monotonic() + INTERVAL
        self._before = 0

    def __call__(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + INTERVAL
        self._check(0)

    def room(self, wanted: int) -> None:
        """Raise if so many bytes more were too many."""
        if wanted >= GROWTH:
            self._check(wanted)

    def _check(self, wanted: int) -> None:
        used = self._used()
        self._before = min(self._before or used, used)
        if used + wanted > self._limit and used + wanted - self._before >= GROWTH:
            raise OutOfMemoryError(
                f"the memory limit of {self._limit >> 20} MB is reached: {self._whose} {used >> 20} MB"
                + (f", and needs {wanted >> 20} MB more" if wanted else ""),
                hint="a recursion or a join may give rows without end; or raise memory_limit of kpg.connect",
            )


class WorkerMemory(Protocol):
    """Worker processes whose memory counts towards the limit of a database."""

    def used_bytes(self) -> int:
        """Memory of this process and of the workers on this machine, in bytes."""


def watch_of(limit: int | str, workers: WorkerMemory | None) -> MemoryWatch:
    """What looks at the memory of a database: that of its process, and of its workers' on this machine."""
    if workers is None:
        return MemoryWatch(bytes_of(limit))
    return MemoryWatch(bytes_of(limit), workers.used_bytes, "the process and its workers have")


class StatementMemory:
    """How much a statement may take: OutOfMemoryError once the process has grown by more since it began."""

    def __init__(self) -> None:
        self.most = 0
        """What no statement may go beyond, whatever its session has set; 0 for no such limit."""
        self._limit = self._first = self._used = 0
        self._next = 0.0

    def begin(self, given: str) -> None:
        """A statement begins; ``given`` is what its session has set, if anything."""
        own = statement_limit(SETTING, given) if given else 0
        self._limit = min(own or self.most, self.most or own)
        if self._limit:
            self._look()
            self._first = self._used

    def end(self) -> None:
        """It is over."""
        self._limit = 0

    def __call__(self) -> None:
        """Raise if the present statement has taken too much."""
        if self._limit and self._look():
            self._check(0)

    def room(self, wanted: int) -> None:
        """Raise if so many bytes more were too many."""
        if self._limit and wanted:
            self._look()
            self._check(wanted)

    def _check(self, wanted: int) -> None:
        if (taken := self._used + wanted - self._first) > self._limit:
            raise OutOfMemoryError(
                f"out of memory: the statement takes {_shown(taken)}, and may take {_shown(self._limit)}",
                hint="a join may lack its condition; SET statement_memory_limit, up to the server's bound",
            )

    def _look(self) -> bool:
        """Note what the process has, unless that has just been done; whether it was noted."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + INTERVAL
        self._used = used_bytes()
        self._first = min(self._first, self._used)  # garbage of others goes meanwhile
        return True


def relieved(error: BaseException) -> BaseException:
    """An error of a statement; where memory was short, what the statement had is let go of.

    Else it would be there for as long as the error is, and as cycles of frames are not looked for.
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


def _shown(size: int) -> str:
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} kB"
