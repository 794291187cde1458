"""The function that the tasks of a barrier stage run: each task is one worker.

The module is pickled by value to the executors and imports only the standard library, so that it can report
what is missing there.
"""

import platform
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

FAILED: Final = "kpg worker:"
"""How the message of a task that cannot be a worker begins; the rest of the line is the driver's to show."""


def attend(calling: tuple[Any, ...], version: str, _: Iterable[int]) -> Iterator[int]:
    """Be a worker of the driver that calls, until it hangs up; the driver has a version of kpg."""
    from pyspark import BarrierTaskContext  # lazy: an optional dependency

    task = BarrierTaskContext.get()
    here = f"the executor's Python on {platform.node()} ({sys.executable})"
    try:
        from kpg.runtime.cluster.member_process import attend  # lazy: for tasks
        from kpg.runtime.cluster.transfer import StrangerError  # lazy: for tasks
        from kpg.runtime.cluster.transport import Calling, version_here  # lazy: for tasks
    except ImportError as error:
        raise RuntimeError(f"{FAILED} {here} has no kpg, or another version of it: {error}") from error
    if version_here() != version:
        raise RuntimeError(f"{FAILED} {here} has kpg {version_here()}, the driver has {version}")
    called = Calling(*calling)
    try:
        attend(task.partitionId(), called)
    except (OSError, StrangerError) as error:
        # Spark runs a stage again of which a task has failed: then nobody waits for it any more.
        if not task.attemptNumber() and not task.stageAttemptNumber():
            where = f"{called.host}:{called.port}"
            raise RuntimeError(f"{FAILED} {here} does not reach the driver at {where}: {error}") from error
    yield from ()
