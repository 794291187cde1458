"""``kpg.connect(workers=n)``, and ``kpg.connect(spark=session, workers=n)``."""

from collections.abc import Mapping
from typing import Any

from kpg.api.database import Database
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.executor_factory import executors, processes
from kpg.session.distribution import Workers


def connect_with_workers(
    count: int,
    spark: Any,
    merge_effort: str,
    options: Mapping[str, object],
    folder_options: Mapping[str, object],
) -> Database:
    """Return a database with ``count`` workers; ``folder_options`` has the options of opening its folder.

    The workers are processes of this machine or, with a session ``spark``, tasks of its executors.
    """
    limit: Any = options["memory_limit"]
    if limit is not None and spark is not None:
        raise NotSupportedError(
            f"a memory limit together with workers={count} of Spark is not supported",
            hint="limit the executors by Spark's setting spark.executor.memoryOverhead",
        )
    history: Any = options["history"]
    folder: dict[str, Any] = (
        {} if options["folder"] is None else {"folder": options["folder"], **folder_options}
    )
    crew = processes(count, merge_effort) if spark is None else executors(spark, count, merge_effort)
    try:
        return Database(merge_effort, limit, history, workers=Workers(crew), **folder)
    except BaseException:
        crew.close()
        raise
