"""The memory limit of a database: a step that goes beyond it is undone, and the database is as it was.

What is in memory of files, a database's own above all, does not count: the system drops it when it has to.
"""

import re
import time
from pathlib import Path
from typing import Final

from kpg.runtime.errors import InterfaceError, NotSupportedError, OperationalError

UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
STATUS: Final = Path("/proc/self/statm")
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


def used_bytes() -> int:
    """Memory of this process that is no file's."""
    resident, of_files = STATUS.read_bytes().split()[1:3]
    return (int(resident) - int(of_files)) * PAGE


class MemoryWatch:
    """Called at safe points of a step: OperationalError once the process has more than ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        if not STATUS.exists():
            raise NotSupportedError("a memory limit is supported on Linux only")
        self._limit = limit
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
        used = used_bytes()
        self._before = min(self._before or used, used)
        if used > self._limit and used - self._before >= GROWTH:
            raise OperationalError(
                f"the memory limit of {self._limit >> 20} MB is reached: the process has {used >> 20} MB",
                hint="a recursion or a join may give rows without end; or raise memory_limit of kpg.connect",
            )
