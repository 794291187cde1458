"""The jobs of a load: each source cast, checked and written by one job to columnar files in key order.

The executors write; the driver sees file names. A source that does not come in the order of its key takes a
second job, which sorts the files of the first.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from kpg.runtime.errors import DataError, Error, OperationalError
from kpg.runtime.spark.cast import MARKED, project, resolve
from kpg.runtime.spark.order import in_order, order_key
from kpg.runtime.spark.source import Source, first_line, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOBS_AT_ONCE: Final = 4
"""More than one, since planning a job keeps one core busy and the rest idle; each holds a few row groups."""
ROWS_SORTED_AT_ONCE: Final = 1 << 20
"""Rows of a range that one task sorts: few enough for its memory, and more are not worth a shuffle."""


def write_all(
    spark: "SparkSession", sources: Sequence[Source], folder: Path, waiting: Callable[[str], None]
) -> Iterator[tuple[Source, list[Path]]]:
    """Each source with the parquet files of its rows, in key order; the largest sources first.

    Jobs run beside each other and beside the caller's work; ``waiting`` is told of the table whose files are
    next. Every schema is checked before the first job. An error, or the end of the caller's interest, cancels
    the jobs under way.
    """
    group = folder.name
    jobs: list[Future[list[Path]]] = []
    with ThreadPoolExecutor(JOBS_AT_ONCE, "kpg-spark-job") as pool:
        try:
            prepared = list(pool.map(lambda source: _prepared(spark, source, group), sources))
            # Large ones first: what is read of them meanwhile is most, and small jobs fill the gaps.
            order = sorted(range(len(sources)), key=lambda i: -(sources[i].file_bytes or 0))
            jobs = [
                pool.submit(_ordered_files, spark, prepared[i], sources[i], folder / str(i)) for i in order
            ]
            for i, job in zip(order, jobs, strict=True):
                waiting(sources[i].table)
                yield sources[i], job.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            if not all(job.done() for job in jobs):
                spark.sparkContext.cancelJobGroup(group)
            raise


def _prepared(spark: "SparkSession", source: Source, group: str) -> "DataFrame":
    """The source's rows cast and checked; what jobs that takes are of the group."""
    from pyspark.errors import AnalysisException

    spark.sparkContext.setJobGroup(group, f"kpg load of {source.table}")
    frame = frame_of(spark, source)
    names = resolve(frame, source.schema, source.table)
    try:
        return project(frame, names, source.schema, source.table, with_file=True)
    except AnalysisException:
        return project(frame, names, source.schema, source.table, with_file=False)


def _ordered_files(spark: "SparkSession", frame: "DataFrame", source: Source, folder: Path) -> list[Path]:
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
        frame.write.parquet(folder.as_uri(), mode="overwrite", compression="uncompressed")
    except Exception as error:
        raise _translated(error) from error
    return sorted(folder.glob("part-*.parquet"))


def _translated(error: Exception) -> Error:
    """The message that an executor raised, out of Spark's wrapping."""
    told = MARKED.search(str(error))
    if told:
        hint = "nothing was loaded; correct the value in the source, or widen the column"
        return DataError(told.group(1), hint=hint)
    if "MALFORMED" in str(error):
        return DataError(f"Spark cannot parse the source: {first_line(error)}", hint="nothing was loaded")
    return OperationalError(f"Spark failed: {first_line(error)}", hint="nothing was loaded")
