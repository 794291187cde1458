"""The memory limit of a database: a step that goes beyond it is undone, and the database is as it was.

What is in memory of files, a database's own above all, does not count: the system drops it when it has to.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kpg.runtime.errors import InterfaceError, NotSupportedError, OperationalError

if TYPE_CHECKING:
    from kpg.engine.working import Workers

UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
PROCESSES: Final = Path("/proc")
STATUS: Final = PROCESSES / "self" / "statm"
PAGE: Final = 4096
INTERVAL: Final = 0.02
"""Seconds between two looks at the process's memory."""
GROWTH: Final = 32 << 20
"""A step that takes less than this is let through, whatever other steps have left behind."""


def bytes_of(limit: int | str) -> int:
    """A limit in bytes: a number, or a text such as ``'500 MB'``; InterfaceError if it is neither."""
    if isinstance(limit, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", limit.lower())
        limit = int(float(found[1]) * UNITS[found[2]]) if found is not None else 0
    if limit <= 0:
        raise InterfaceError("the memory limit is a number of bytes, or a text such as '500 MB' or '2GB'")
    return limit


def used_bytes(process: int | None = None) -> int:
    """Memory of a process, or of this one, that is no file's; of one that has ended nothing."""
    place = STATUS if process is None else PROCESSES / str(process) / "statm"
    try:
        resident, of_files = place.read_bytes().split()[1:3]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(resident) - int(of_files)) * PAGE


class MemoryWatch:
    """Called at safe points of a step: OperationalError once ``used`` tells of more than ``limit`` bytes."""

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
        used = self._used()
        self._before = min(self._before or used, used)
        if used > self._limit and used - self._before >= GROWTH:
            raise OperationalError(
                f"the memory limit of {self._limit >> 20} MB is reached: {self._whose} {used >> 20} MB",
                hint="a recursion or a join may give rows without end; or raise memory_limit of kpg.connect",
            )


def watch_of(limit: int | str, workers: "Workers | None") -> MemoryWatch:
    """What looks at the memory of a database: that of its process, and of its workers' on this machine."""
    if workers is None:
        return MemoryWatch(bytes_of(limit))
    return MemoryWatch(bytes_of(limit), workers.used_bytes, "the process and its workers have")
