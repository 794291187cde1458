"""Construction of executors: one worker in this process, or a coordinator of many."""

from typing import TYPE_CHECKING, Any, Final

from kpg.runtime.errors import InterfaceError
from kpg.runtime.executor import Executor, SharedExecutor
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.trace.merge import EFFORT
from kpg.runtime.worker.worker import Worker

if TYPE_CHECKING:
    from kpg.runtime.cluster.installation import Placer
    from kpg.runtime.cluster.messages import Crew

MERGE_EFFORTS: Final = {"eager": 1 << 40, "default": EFFORT, "lazy": 1}
"""For each row that comes to an index so many of each of its unfinished merges are merged: all, 4, or 1."""


def processes(count: int, merge_effort: str) -> "Crew":
    """So many workers in processes of this machine."""
    from kpg.runtime.cluster.transport import Processes  # lazy: most databases have one worker

    return Processes(count, _effort(merge_effort))


def executors(session: Any, count: int, merge_effort: str) -> "Crew":
    """So many workers, each a task of one stage of a Spark session."""
    from kpg.runtime.cluster.transport import Network  # lazy: most databases have one worker
    from kpg.runtime.spark.stage import Stage  # lazy: most databases have one worker

    return Network(count, _effort(merge_effort), Stage(session, count))


def shared_executor(
    crew: "Crew", placer: "Placer", merge_effort: str, interrupt: DeferredInterrupt
) -> SharedExecutor:
    """An executor whose operators are at the members of a crew, of plans that ``placer`` makes for them."""
    from kpg.runtime.cluster.coordinator import Coordinator  # lazy: most databases have one worker

    return Coordinator(crew, placer, _effort(merge_effort), interrupt)


def local_executor(merge_effort: str, interrupt: DeferredInterrupt) -> Executor:
    """An executor in this process, whose steps Ctrl-C waits for as ``interrupt`` says.

    InterfaceError if there is no such merge effort.
    """
    return Worker(_effort(merge_effort), interrupt)


def _effort(name: str) -> int:
    if name not in MERGE_EFFORTS:
        raise InterfaceError(
            f'there is no merge effort "{name}"', hint=f"it is one of {', '.join(MERGE_EFFORTS)}"
        )
    return MERGE_EFFORTS[name]
