"""Where executors are made: today one worker, in this process."""

from typing import TYPE_CHECKING, Final

from kpg.runtime.errors import InterfaceError
from kpg.runtime.executor import Executor
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.trace.tiers import EFFORT
from kpg.runtime.worker import Worker

if TYPE_CHECKING:
    from kpg.runtime.workers.coordinator import Place
    from kpg.runtime.workers.messages import Crew

MERGE_EFFORTS: Final = {"eager": 1 << 40, "default": EFFORT, "lazy": 1}
"""For each row that comes to an index so many of each of its unfinished merges are merged: all, 4, or 1."""


def shared_executor(
    crew: "Crew", place: "Place", merge_effort: str, interrupt: DeferredInterrupt
) -> Executor:
    """An executor whose operators are at the members of a crew, of plans that ``place`` makes for them."""
    from kpg.runtime.workers.coordinator import Coordinator

    return Coordinator(crew, place, MERGE_EFFORTS[merge_effort], interrupt)


def local_executor(merge_effort: str, interrupt: DeferredInterrupt) -> Executor:
    """An executor in this process, whose steps Ctrl-C waits for as ``interrupt`` says.

    InterfaceError if there is no such merge effort.
    """
    if merge_effort not in MERGE_EFFORTS:
        raise InterfaceError(
            f'there is no merge effort "{merge_effort}"', hint=f"it is one of {', '.join(MERGE_EFFORTS)}"
        )
    return Worker(MERGE_EFFORTS[merge_effort], interrupt)
