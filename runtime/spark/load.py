"""Bulk load through Spark: any source that Spark reads, to columnar files that pyarrow maps, in key order.

All schemas are checked before any table is written; tables are read while later ones are being written.
"""

import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpg.runtime.convert.arrow import encode
from kpg.runtime.convert.files import parquet_chunks
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.spark.own import BRIEF_BYTES
from kpg.runtime.spark.session import opened
from kpg.runtime.spark.source import Source, is_frame
from kpg.runtime.spark.write import write_all
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Progress", "Source", "is_frame", "load", "load_tables"]

Words = NDArray[np.int64]

CHUNK_ROWS: Final = 1 << 16
"""Few enough that a chunk's memory is used again for the next: fresh memory costs more than the copy."""


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
    for _, chunk in load_tables([Source(table, data, schema)], session, progress):
        yield encode(chunk, schema, dictionary)


def load_tables(
    sources: Sequence[Source],
    session: "SparkSession | None" = None,
    progress: Callable[[Progress], None] | None = None,
    directory: str | None = None,
) -> Generator[tuple[str, pa.Table], None, None]:
    """Table names and chunks of their rows, table by table, the largest first, each in the order of its key.

    A key of integers, decimals, dates and timestamps, that is. ``directory`` is where the hand-over files go
    for a while; executors on other machines need one that they share with the driver. Raises, before the
    first chunk, ProgrammingError for a schema that does not match, OperationalError if Spark is missing;
    between tables, where the caller has to take back what it was given, DataError for a value that does not
    fit, OperationalError if Spark fails. Close the iterator when leaving it early: that cancels its jobs.
    """

    def writing(table: str) -> None:
        if progress is not None:
            progress(Progress(table, "writing", 0, 0))

    with (
        tempfile.TemporaryDirectory(prefix="kpg-load-", dir=directory, ignore_cleanup_errors=True) as folder,
        ExitStack() as until_written,
    ):
        frame = next((source.data for source in sources if is_frame(source.data)), None)
        given = session or (frame.sparkSession if frame is not None else None)
        spark = until_written.enter_context(opened(given, brief=_is_brief(sources)))
        if directory is None and not spark.sparkContext.master.startswith("local"):
            raise OperationalError(
                f"the executors of {spark.sparkContext.master} cannot write to a folder of this machine",
                hint="give directory= a folder that driver and executors share",
            )
        for number, (source, files) in enumerate(write_all(spark, sources, Path(folder), writing), 1):
            if number == len(sources):
                until_written.close()
            yield from ((source.table, chunk) for chunk in _read(files, source.table, progress))


def _is_brief(sources: Sequence[Source]) -> bool:
    """Whether all is in local files, and little."""
    sizes = [source.file_bytes for source in sources]
    return None not in sizes and sum(size or 0 for size in sizes) <= BRIEF_BYTES


def _read(
    files: Sequence[Path], table: str, progress: Callable[[Progress], None] | None
) -> Iterator[pa.Table]:
    total = sum(pq.read_metadata(file).num_rows for file in files)
    rows = 0
    for chunk in _joined(chunk for file in files for chunk in parquet_chunks(file, CHUNK_ROWS)):
        yield chunk
        rows += chunk.num_rows
        if progress is not None:
            progress(Progress(table, "reading", rows, total))


def _joined(chunks: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows with the chunks of many small files joined, where they are encoded alike."""
    held: list[pa.Table] = []
    rows = 0
    for chunk in chunks:
        if held and (rows + chunk.num_rows > CHUNK_ROWS or chunk.schema != held[0].schema):
            yield pa.concat_tables(held)
            held, rows = [], 0
        held.append(chunk)
        rows += chunk.num_rows
    if held:
        yield pa.concat_tables(held)
