"""Whether the job can load its tables through Spark, and Spark's start beside its other preparations."""

from contextlib import AbstractContextManager

from kpg.runtime.errors import OperationalError
from kpg.runtime.spark.own import Work
from kpg.runtime.spark.session import require_java, require_pyspark, starting


def obstacle() -> str | None:
    """Why Spark cannot run here; None if it can."""
    try:
        require_pyspark()
        require_java()
    except OperationalError as error:
        return error.message
    return None


def starting_spark() -> AbstractContextManager[None]:
    """Spark, which has no obstacle, starts while the block makes data and compiles, and serves its loads."""
    return starting(Work.READING)
