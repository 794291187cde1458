"""Workers as the tasks of one barrier stage on the user's Spark session, and views as data frames.

Spark starts and ends the workers, all at once; all other communication uses their own connections to the
driver. A thread waits for the stage: if the stage ends unexpectedly, a worker has ended.

:func:`frame` makes a Spark data frame of a view: each partition comes from the worker that has its rows.
"""

import re
import sys
import threading
import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kpg.runtime.cluster.transfer import in_common
from kpg.runtime.cluster.transport import Calling, version_here
from kpg.runtime.errors import InterfaceError, NotSupportedError, OperationalError
from kpg.runtime.handles import Offered, not_offered
from kpg.runtime.spark import member_task, view_task
from kpg.runtime.spark.session import (
    Taken,
    conf,
    match_python,
    require_pyspark,
    require_room,
    require_slots,
    taken,
)
from kpg.runtime.spark.source import first_line

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession


TOLD: Final = re.compile(f"{member_task.FAILED} (.*)")
SAID: Final = re.compile(r"\n: (?:[\w.$]+: )?(.*)")
"""What Spark says, behind what Py4J does."""
CRASHED: Final = "Python worker exited unexpectedly"
VERSIONS: Final = re.compile(r"Python in worker has different version.*|\[PYTHON_VERSION_MISMATCH\].*")
SECONDS_TO_END: Final = 10.0
"""For the stage to end once its tasks have been hung up on; then it is cancelled."""


class Stage:
    """A ``network.Starter``."""

    def __init__(self, session: "SparkSession", count: int) -> None:
        """InterfaceError if the session has not so many slots, NotSupportedError if it is of another kind."""
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
        self._over = True
        self._error: Exception | None = None
        _require_running(self._context)
        if conf(self._context, "spark.dynamicAllocation.enabled", "false").lower() == "true":
            raise NotSupportedError(
                "workers on a Spark session with dynamic allocation are not supported",
                hint="Spark runs no barrier stage there: set spark.dynamicAllocation.enabled to false",
            )
        require_slots(self._context, count)
        match_python(self._context)

    @property
    def host(self) -> tuple[str, str]:
        """See ``network.Starter``: where Spark's own driver listens."""
        reach = conf(self._context, "spark.driver.host", "127.0.0.1").strip("[]")
        return conf(self._context, "spark.driver.bindAddress", reach).strip("[]"), reach

    def start(self, calling: Calling) -> None:
        """See ``network.Starter``."""
        from pyspark import InheritableThread  # lazy: an optional dependency

        _require_running(self._context)
        require_slots(self._context, calling.workers)
        self._over, self._error = False, None
        run = partial(self._run, tuple(calling), calling.workers)
        taken[self._group] = Taken(calling.workers, self._session)
        self._thread = InheritableThread(target=run, name="kpg-workers", daemon=True)
        self._thread.start()

    def _run(self, calling: tuple[object, ...], count: int) -> None:
        from pyspark import cloudpickle  # lazy: an optional dependency

        cloudpickle.register_pickle_by_value(member_task)
        try:
            self._context.setJobGroup(self._group, f"{count} workers of a kpg database")
            attend = partial(member_task.attend, calling, version_here())
            self._context.parallelize(range(count), count).barrier().mapPartitions(attend).collect()
        except Exception as error:
            self._error = error
        finally:
            taken.pop(self._group, None)
            self._over = True

    def failure(self) -> str | None:
        """See ``network.Starter``."""
        if not self._over:
            return None
        if self._error is None:
            return "the Spark stage of the workers has ended"
        return _why(self._error)

    def end(self) -> None:
        """See ``network.Starter``."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.join(SECONDS_TO_END)
        if thread.is_alive():
            with suppress(Exception):  # the session may have been stopped
                self._context.cancelJobGroup(self._group)
            thread.join(SECONDS_TO_END)


def _require_running(context: "SparkContext") -> None:
    """OperationalError for a session that has been stopped."""
    try:
        _ = context.defaultParallelism
    except Exception:
        raise OperationalError(
            "the Spark session of the workers has been stopped", hint="open the database with another one"
        ) from None


def _why(error: Exception) -> str:
    """What Spark says of the stage, or what a task has."""
    text = str(error)
    told = TOLD.search(text)
    if told is not None:
        return told[1]
    versions = VERSIONS.search(text)
    if versions is not None:
        return f"{versions[0].strip()} Set PYSPARK_PYTHON to the driver's Python, here {sys.executable}"
    said = SAID.search(text)
    crashed = f" {CRASHED}" if CRASHED in text else ""
    return f"the Spark stage of the workers has failed: {said[1] if said else first_line(error)}{crashed}"


def frame(offered: Offered, nothing: pa.Table) -> "DataFrame":
    """The rows that are offered, now at Spark's executors; ``nothing`` is a table of no rows like them.

    NotSupportedError for a type that Spark does not have.
    """
    from pyspark import cloudpickle  # lazy: an optional dependency

    if not taken:
        raise not_offered()
    session = next(reversed(taken.values())).session
    require_room(session.sparkContext)
    cloudpickle.register_pickle_by_value(view_task)
    try:
        types = in_common(offered.schemas, nothing.schema)
        schema = session.createDataFrame(types.empty_table()).schema
    except Exception as error:
        raise NotSupportedError(f"Spark does not have a type of the view's: {first_line(error)}") from error
    count = len(offered.places)
    fetch = partial(view_task.fetch, offered.places, offered.secret, types)
    try:
        return session.range(0, count, 1, count).mapInArrow(fetch, schema).localCheckpoint(eager=True)
    except Exception as error:
        raise OperationalError(f"Spark cannot read the view: {first_line(error)}") from error
