"""The function that the tasks of a barrier stage run: each task is one worker.

The module is pickled by value to the executors and imports only the standard library, so that it can report
what
is missing there.
"""

import platform
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

FAILED: Final = "kpg worker:"
"""Prefix of the message of a task that cannot be a worker; the rest of the line is shown by the driver."""


def run_worker(config_fields: tuple[Any, ...], version: str, _: Iterable[int]) -> Iterator[int]:
    """Run a worker of the driver until it disconnects; ``version`` is the driver's."""
    from pyspark import BarrierTaskContext  # lazy: an optional dependency

    task = BarrierTaskContext.get()
    here = f"the executor's Python on {platform.node()} ({sys.executable})"
    try:
        from kpg.runtime.cluster.member_process import run_member  # lazy: for tasks
        from kpg.runtime.cluster.transfer import AuthenticationError  # lazy: for tasks
        from kpg.runtime.cluster.transport import MemberConfig, runtime_version  # lazy: for tasks
    except ImportError as error:
        raise RuntimeError(f"{FAILED} {here} has no kpg, or another version of it: {error}") from error
    if runtime_version() != version:
        raise RuntimeError(f"{FAILED} {here} has kpg {runtime_version()}, the driver has {version}")
    config = MemberConfig(*config_fields)
    try:
        run_member(task.partitionId(), config)
    except (OSError, AuthenticationError) as error:
        # Spark retries a stage after a failed task; the driver does not wait for a retry.
        if not task.attemptNumber() and not task.stageAttemptNumber():
            where = f"{config.host}:{config.port}"
            raise RuntimeError(f"{FAILED} {here} does not reach the driver at {where}: {error}") from error
    yield from ()
