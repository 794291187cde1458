"""Construction of executors: one worker in this process, or a coordinator of many."""

from typing import TYPE_CHECKING, Any, Final

from kpg.runtime.errors import InterfaceError
from kpg.runtime.executor import DistributedExecutor, Executor
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.trace.merge import EFFORT
from kpg.runtime.worker.worker import Worker

if TYPE_CHECKING:
    from kpg.runtime.cluster.installation import Placer
    from kpg.runtime.cluster.messages import Crew

MERGE_EFFORTS: Final = {"eager": 1 << 40, "default": EFFORT, "lazy": 1}
"""Rows of merge work, for each unfinished merge, per row inserted into an arrangement."""


def processes(count: int, merge_effort: str) -> "Crew":
    """Return workers in processes of this machine."""
    from kpg.runtime.cluster.transport import ProcessMembers  # lazy: most databases have one worker

    return ProcessMembers(count, _effort(merge_effort))


def executors(session: Any, count: int, merge_effort: str) -> "Crew":
    """Return workers that are tasks of one stage of a Spark session."""
    from kpg.runtime.cluster.transport import NetworkMembers  # lazy: most databases have one worker
    from kpg.runtime.spark.stage import BarrierStage  # lazy: most databases have one worker

    return NetworkMembers(count, _effort(merge_effort), BarrierStage(session, count))


def distributed_executor(
    crew: "Crew", placer: "Placer", merge_effort: str, interrupt: DeferredInterrupt
) -> DistributedExecutor:
    """Return an executor whose operators run on the members of a crew.

    ``placer`` adapts plans to them.
    """
    from kpg.runtime.cluster.coordinator import Coordinator  # lazy: most databases have one worker

    return Coordinator(crew, placer, _effort(merge_effort), interrupt)


def local_executor(merge_effort: str, interrupt: DeferredInterrupt) -> Executor:
    """Return an executor in this process; ``interrupt`` defers Ctrl-C during its steps.

    Raises:
        InterfaceError: If the merge effort is unknown.
    """
    return Worker(_effort(merge_effort), interrupt)


def _effort(name: str) -> int:
    if name not in MERGE_EFFORTS:
        raise InterfaceError(
            f'there is no merge effort "{name}"', hint=f"it is one of {', '.join(MERGE_EFFORTS)}"
        )
    return MERGE_EFFORTS[name]
