"""Workers as the tasks of one barrier stage on the user's Spark session, and views as data frames.

Spark starts and ends the workers, all at once; all other communication uses their own connections to the
driver. A thread waits for the stage: if the stage ends unexpectedly, a worker has ended.

:func:`make_frame` makes a Spark data frame of a view: each partition comes from the worker that has its rows.
"""

import re
import sys
import threading
import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kpg.runtime.cluster.transfer import common_schema
from kpg.runtime.cluster.transport import MemberConfig, runtime_version
from kpg.runtime.errors import InterfaceError, NotSupportedError, OperationalError
from kpg.runtime.handles import ExportLocations, export_error
from kpg.runtime.spark import member_task, view_task
from kpg.runtime.spark.session import (
    OccupiedSlots,
    get_setting,
    match_python,
    occupied_slots,
    require_free_slot,
    require_pyspark,
    require_slots,
)
from kpg.runtime.spark.source import first_line

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession


TASK_FAILURE: Final = re.compile(f"{member_task.FAILED} (.*)")
SPARK_MESSAGE: Final = re.compile(r"\n: (?:[\w.$]+: )?(.*)")
"""Spark's message, after that of Py4J."""
CRASH_MESSAGE: Final = "Python worker exited unexpectedly"
VERSION_MISMATCH: Final = re.compile(
    r"Python in worker has different version.*|\[PYTHON_VERSION_MISMATCH\].*"
)
SECONDS_TO_END: Final = 10.0
"""Time limit for the stage to end after the coordinator has disconnected; then it is cancelled."""


class BarrierStage:
    """Starts members as tasks of a barrier stage; implements ``transport.MemberStarter``."""

    def __init__(self, session: "SparkSession", count: int) -> None:
        """Check that the session can run the workers.

        Raises:
            InterfaceError: If the session has too few slots.
            NotSupportedError: If it is of another kind.
        """
        require_pyspark()
        if type(session).__module__.startswith("pyspark.sql.connect"):
            raise NotSupportedError(
                "a Spark Connect session cannot run workers",
                hint="use a session whose driver is this process",
            )
        if not hasattr(session, "sparkContext"):
            raise InterfaceError(
                f"spark= is a {type(session).__name__}, not a SparkSession",
                hint="give SparkSession.builder...getOrCreate()",
            )
        self._session = session
        self._context: SparkContext = session.sparkContext
        self._group = f"kpg-workers-{uuid.uuid4().hex}"
        self._thread: threading.Thread | None = None
        self._has_ended = True
        self._error: Exception | None = None
        _check_running(self._context)
        if get_setting(self._context, "spark.dynamicAllocation.enabled", "false").lower() == "true":
            raise NotSupportedError(
                "workers on a Spark session with dynamic allocation are not supported",
                hint="Spark does not run barrier stages then: set spark.dynamicAllocation.enabled to false",
            )
        require_slots(self._context, count)
        match_python(self._context)

    @property
    def addresses(self) -> tuple[str, str]:
        """Address where Spark's driver listens, and address at which executors reach it."""
        reach_address = get_setting(self._context, "spark.driver.host", "127.0.0.1").strip("[]")
        return get_setting(self._context, "spark.driver.bindAddress", reach_address).strip(
            "[]"
        ), reach_address

    def start(self, config: MemberConfig) -> None:
        """Start the members in a job of their own."""
        from pyspark import InheritableThread  # lazy: an optional dependency

        _check_running(self._context)
        require_slots(self._context, config.workers)
        self._has_ended, self._error = False, None
        run = partial(self._run, tuple(config), config.workers)
        occupied_slots[self._group] = OccupiedSlots(config.workers, self._session)
        self._thread = InheritableThread(target=run, name="kpg-workers", daemon=True)
        self._thread.start()

    def _run(self, config_fields: tuple[object, ...], count: int) -> None:
        from pyspark import cloudpickle  # lazy: an optional dependency

        cloudpickle.register_pickle_by_value(member_task)
        try:
            self._context.setJobGroup(self._group, f"{count} workers of a kpg database")
            run_worker = partial(member_task.run_worker, config_fields, runtime_version())
            self._context.parallelize(range(count), count).barrier().mapPartitions(run_worker).collect()
        except Exception as error:
            self._error = error
        finally:
            occupied_slots.pop(self._group, None)
            self._has_ended = True

    def failure(self) -> str | None:
        """Return why the stage has ended; None while it runs."""
        if not self._has_ended:
            return None
        if self._error is None:
            return "the Spark stage of the workers has ended"
        return _failure_message(self._error)

    def end(self) -> None:
        """Wait for the end of the stage, and cancel it after a time limit."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.join(SECONDS_TO_END)
        if thread.is_alive():
            with suppress(Exception):  # the session may have been stopped
                self._context.cancelJobGroup(self._group)
            thread.join(SECONDS_TO_END)


def _check_running(context: "SparkContext") -> None:
    """Raise OperationalError for a stopped session."""
    try:
        _ = context.defaultParallelism
    except Exception:
        raise OperationalError(
            "the Spark session of the workers has been stopped", hint="open the database with another one"
        ) from None


def _failure_message(error: Exception) -> str:
    """Return the message of the failed task, or of Spark."""
    text = str(error)
    task_failure = TASK_FAILURE.search(text)
    if task_failure is not None:
        return task_failure[1]
    mismatch = VERSION_MISMATCH.search(text)
    if mismatch is not None:
        return f"{mismatch[0].strip()} Set PYSPARK_PYTHON to the driver's Python, here {sys.executable}"
    spark_message = SPARK_MESSAGE.search(text)
    cause = spark_message[1] if spark_message else first_line(error)
    suffix = f" {CRASH_MESSAGE}" if CRASH_MESSAGE in text else ""
    return f"the Spark stage of the workers has failed: {cause}{suffix}"


def make_frame(export: ExportLocations, empty: pa.Table) -> "DataFrame":
    """Return a data frame with the exported rows, stored at Spark's executors.

    ``empty`` is a table of the same types without rows.

    Raises:
        NotSupportedError: For a type that Spark does not have.
    """
    from pyspark import cloudpickle  # lazy: an optional dependency

    if not occupied_slots:
        raise export_error()
    session = next(reversed(occupied_slots.values())).session
    require_free_slot(session.sparkContext)
    cloudpickle.register_pickle_by_value(view_task)
    try:
        types = common_schema(export.schemas, empty.schema)
        schema = session.createDataFrame(types.empty_table()).schema
    except Exception as error:
        raise NotSupportedError(f"Spark does not have a type of the view's: {first_line(error)}") from error
    count = len(export.addresses)
    fetch = partial(view_task.fetch, export.addresses, export.secret, types)
    try:
        return session.range(0, count, 1, count).mapInArrow(fetch, schema).localCheckpoint(eager=True)
    except Exception as error:
        raise OperationalError(f"Spark cannot read the view: {first_line(error)}") from error
