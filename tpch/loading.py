"""Whether the job can load its tables through Spark."""

from kpg.runtime.errors import OperationalError
from kpg.runtime.spark.session import require_java, require_pyspark


def obstacle() -> str | None:
    """Why Spark cannot run here; None if it can."""
    try:
        require_pyspark()
        require_java()
    except OperationalError as error:
        return error.message
    return None
