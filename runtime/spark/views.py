"""The contents of a view as a Spark data frame: each partition comes from the worker that has its rows."""

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from kpg.runtime.errors import NotSupportedError, OperationalError
from kpg.runtime.handles import Offered, not_offered
from kpg.runtime.spark import view_task
from kpg.runtime.spark.slots import require_room, taken
from kpg.runtime.spark.source import first_line
from kpg.runtime.workers.offering import in_common

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def frame(offered: Offered, nothing: pa.Table) -> "DataFrame":
    """The rows that are offered, now at Spark's executors; ``nothing`` is a table of no rows like them.

    NotSupportedError for a type that Spark does not have.
    """
    from pyspark import cloudpickle

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
