"""The jobs of a load through Spark SQL: each source cast, checked and written by one job to columnar files.

The executors write; the driver sees file names. A source that does not come in the order of its key takes a
second job, which sorts the files of the first.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from kpg.runtime.errors import DataError, Error, OperationalError
from kpg.runtime.spark.cast import MARKED, project, resolve
from kpg.runtime.spark.order import in_order, order_key
from kpg.runtime.spark.source import Source, first_line, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_SORTED_AT_ONCE: Final = 1 << 20
"""Rows of a range that one task sorts: few enough for its memory, and more are not worth a shuffle."""
PLAIN: Final = {
    "compression": "none",
    "parquet.enable.dictionary": "false",
    "parquet.column.statistics.enabled": "false",
}
"""Options of files that are read once: what saves reading some of them is not worth writing."""


def prepared(spark: "SparkSession", source: Source, group: str) -> "DataFrame":
    """The source's rows cast and checked; what jobs that takes are of the group.

    Raises as :func:`resolve`, and OperationalError if Spark cannot read the source.
    """
    from pyspark.errors import AnalysisException

    spark.sparkContext.setJobGroup(group, f"kpg load of {source.table}")
    frame = frame_of(spark, source)
    names = resolve(frame, source.schema, source.table)
    try:
        return project(frame, names, source.schema, source.table, with_file=True)
    except AnalysisException:
        return project(frame, names, source.schema, source.table, with_file=False)


def ordered_files(spark: "SparkSession", frame: "DataFrame", source: Source, folder: Path) -> list[Path]:
    """The parquet files of the source's rows, in key order; the jobs are of the group named as its parent."""
    spark.sparkContext.setJobGroup(folder.parent.name, f"kpg load of {source.table}")
    files = _write(frame, folder)
    key = order_key(source.schema)
    if key is None:
        return files
    ordered = in_order(files, key)
    if ordered is not None:
        return ordered
    again = spark.read.schema(frame.schema).parquet(folder.as_uri())
    keys = [f"`{name}`" for name in key.names]
    ranges = sum(pq.read_metadata(file).num_rows for file in files) // ROWS_SORTED_AT_ONCE + 1
    parts = again.coalesce(1) if ranges == 1 else again.repartitionByRange(ranges, *keys)
    files = _write(parts.sortWithinPartitions(*keys), folder.with_name(f"{folder.name}-sorted"))
    shutil.rmtree(folder, ignore_errors=True)
    return files


def _write(frame: "DataFrame", folder: Path) -> list[Path]:
    """The files that one job makes of a frame, in the order of its partitions."""
    try:
        frame.write.options(**PLAIN).parquet(folder.as_uri(), mode="overwrite")
    except Exception as error:
        raise translated(error) from error
    return sorted(folder.glob("part-*.parquet"))


def translated(error: Exception) -> Error:
    """The message that an executor raised, out of Spark's wrapping."""
    told = MARKED.search(str(error))
    if told:
        hint = "nothing was loaded; correct the value in the source, or widen the column"
        return DataError(told.group(1), hint=hint)
    if "MALFORMED" in str(error):
        return DataError(f"Spark cannot parse the source: {first_line(error)}", hint="nothing was loaded")
    return OperationalError(f"Spark failed: {first_line(error)}", hint="nothing was loaded")
