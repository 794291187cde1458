"""Bulk load through Spark: any source that Spark reads, to columnar files that pyarrow maps.

All schemas are checked before any table is handed over; tables are read while later ones are being written.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.arrow import encode
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.spark.direct import is_direct
from kpg.runtime.spark.handing import Chunk
from kpg.runtime.spark.jobs import JOBS_AT_ONCE, HandedOver, Jobs, Written
from kpg.runtime.spark.own import BRIEF_BYTES, Work
from kpg.runtime.spark.session import opened
from kpg.runtime.spark.source import Source, is_frame
from kpg.runtime.storage.scratch import LOADS, Scratch
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Chunk", "Progress", "Source", "is_frame", "load", "load_tables"]

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a load is: ``stage`` is "writing" (Spark at work) or "reading"; ``rows`` read of ``total``."""

    table: str
    stage: str
    rows: int
    total: int


def load(
    data: Any,
    schema: Schema,
    dictionary: Dictionary,
    table: str = "",
    session: "SparkSession | None" = None,
    progress: Callable[[Progress], None] | None = None,
) -> Iterator[Words]:
    """The rows of one source as chunks of words ``int64[ncols, n]``; ``data`` as in :class:`Source`.

    Raises as :func:`load_tables`.
    """
    for chunk in load_tables([Source(table, data, schema)], session, progress):
        yield encode(chunk.rows, schema, dictionary, chunk.origin)


def load_tables(
    sources: Sequence[Source],
    session: "SparkSession | None" = None,
    progress: Callable[[Progress], None] | None = None,
    directory: str | None = None,
) -> Generator[Chunk, None, None]:
    """Chunks of rows, table by table, the largest first, in the order of a key as far as the source allows.

    A key of integers, decimals, dates and timestamps, that is. Each split of a parquet file is in order, and
    splits follow by their lowest keys; all rows that come through Spark SQL are. ``directory`` is where the
    hand-over files go for a while; executors on other machines need one that they share with the driver.

    Raises, before the first chunk, ProgrammingError for a schema that does not match, OperationalError if
    Spark is missing; later, when the caller has to take back what it was given, DataError for a value that
    does not fit, OperationalError if Spark fails. :func:`encode`, given the chunk's origin, raises DataError
    for values that are not checked yet. Close the iterator when leaving it early: that cancels its jobs.
    """
    with Scratch(LOADS, directory) as folder:
        frame = next((source.data for source in sources if is_frame(source.data)), None)
        given = session or (frame.sparkSession if frame is not None else None)
        with opened(given, _work(sources)) as spark, ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
            if directory is None and not spark.sparkContext.master.startswith("local"):
                raise OperationalError(
                    f"the executors of {spark.sparkContext.master} cannot write to a folder of this machine",
                    hint="give directory= a folder that driver and executors share",
                )
            jobs = Jobs(spark, Path(folder), pool)
            try:
                for coming in jobs.start(sources):
                    yield from _read(coming, progress or _untold)
            except BaseException:
                jobs.cancel()
                raise


def _work(sources: Sequence[Source]) -> Work:
    """What Spark has to do for the sources."""
    through_sql = [source for source in sources if not is_direct(source)]
    sizes = [source.file_bytes for source in through_sql]
    if None in sizes or sum(size or 0 for size in sizes) > BRIEF_BYTES:
        return Work.LONG
    return Work.BRIEF if len(through_sql) == len(sources) else Work.READING


def _read(coming: Written | HandedOver, progress: Callable[[Progress], None]) -> Iterator[Chunk]:
    table = coming.source.table
    progress(Progress(table, "writing", 0, 0))
    total, rows = coming.rows(), 0
    for chunk in coming.chunks():
        yield chunk
        rows += chunk.rows.num_rows
        progress(Progress(table, "reading", rows, total))


def _untold(_: Progress) -> None:
    """Nobody wants to know."""
