"""Where executors are made: today one worker, in this process."""

from typing import Final

from kpg.runtime.errors import InterfaceError
from kpg.runtime.executor import Executor
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.trace.tiers import EFFORT
from kpg.runtime.worker import Worker

MERGE_EFFORTS: Final = {"eager": 1 << 40, "default": EFFORT, "lazy": 1}
"""For each row that comes to an index so many of each of its unfinished merges are merged: all, 4, or 1."""


def local_executor(merge_effort: str, interrupt: DeferredInterrupt) -> Executor:
    """An executor in this process, whose steps Ctrl-C waits for as ``interrupt`` says.

    InterfaceError if there is no such merge effort.
    """
    if merge_effort not in MERGE_EFFORTS:
        raise InterfaceError(
            f'there is no merge effort "{merge_effort}"', hint=f"it is one of {', '.join(MERGE_EFFORTS)}"
        )
    return Worker(MERGE_EFFORTS[merge_effort], interrupt)
