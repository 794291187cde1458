"""Construction of executors: one worker in this process, or a coordinator of many."""

from typing import TYPE_CHECKING, Any, Final

from kpg.runtime.errors import InterfaceError
from kpg.runtime.executor import DistributedExecutor, Executor
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.trace.merge import EFFORT
from kpg.runtime.worker.worker import Worker

if TYPE_CHECKING:
    from kpg.runtime.cluster import coordinator as coordinators
    from kpg.runtime.cluster import transport
    from kpg.runtime.cluster.installation import Placer
    from kpg.runtime.cluster.messages import Crew
    from kpg.runtime.spark import stage as spark_stage
else:
    transport = LazyModule("kpg.runtime.cluster.transport")
    spark_stage = LazyModule("kpg.runtime.spark.stage")
    coordinators = LazyModule("kpg.runtime.cluster.coordinator")

MERGE_EFFORTS: Final = {"eager": 1 << 40, "default": EFFORT, "lazy": 1}
"""Rows of merge work, for each unfinished merge, per row inserted into an arrangement."""


def processes(count: int, merge_effort: str) -> "Crew":
    """Return workers in processes of this machine."""
    return transport.ProcessMembers(count, _effort(merge_effort))


def executors(session: Any, count: int, merge_effort: str) -> "Crew":
    """Return workers that are tasks of one stage of a Spark session."""
    return transport.NetworkMembers(count, _effort(merge_effort), spark_stage.BarrierStage(session, count))


def distributed_executor(
    crew: "Crew", placer: "Placer", merge_effort: str, interrupt: DeferredInterrupt
) -> DistributedExecutor:
    """Return an executor whose operators run on the members of a crew.

    ``placer`` adapts plans to them.
    """
    return coordinators.Coordinator(crew, placer, _effort(merge_effort), interrupt)


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
