"""Where the job's tables are loaded from: Spark DataFrames, or files where Spark cannot run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kpg.runtime.errors import OperationalError
from kpg.runtime.spark.session import opened, require_java, require_pyspark
from kpg.tpch.generate import table_path


def obstacle() -> str | None:
    """Why Spark cannot run here; None if it can."""
    try:
        require_pyspark()
        require_java()
    except OperationalError as error:
        return error.message
    return None


@contextmanager
def sources(folder: Path, *, spark: bool) -> Iterator[Callable[[str], object]]:
    """A function from a table's name to what ``Database.load`` takes, good for as long as the block lasts."""
    if not spark:
        yield lambda table: table_path(folder, table)
        return
    with opened(None) as session:
        yield lambda table: session.read.parquet(str(table_path(folder, table)))
