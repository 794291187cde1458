"""Whether the job can load its tables through Spark, and Spark's start beside its other preparations."""

from contextlib import AbstractContextManager
from typing import Final

from kpg.runtime.errors import OperationalError
from kpg.runtime.spark.own import BRIEF_BYTES
from kpg.runtime.spark.session import require_java, require_pyspark, starting

BYTES_OF_SCALE: Final = 360_000_000
"""About what the eight parquet files take at scale factor 1."""


def obstacle() -> str | None:
    """Why Spark cannot run here; None if it can."""
    try:
        require_pyspark()
        require_java()
    except OperationalError as error:
        return error.message
    return None


def starting_spark(scale: float) -> AbstractContextManager[None]:
    """Spark, which has no obstacle, starts while the block makes data and compiles, and serves its loads."""
    return starting(brief=scale * BYTES_OF_SCALE <= BRIEF_BYTES)
