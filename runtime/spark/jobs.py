"""The jobs of a load beside each other, and each source's rows as they come, the largest source first."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kpg.runtime.convert.files import parquet_chunks
from kpg.runtime.records import dataclass
from kpg.runtime.spark import direct, handing
from kpg.runtime.spark.direct import Part
from kpg.runtime.spark.handing import Chunk
from kpg.runtime.spark.source import Source
from kpg.runtime.spark.write import ordered_files, prepared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOBS_AT_ONCE: Final = 4
"""More than one, since planning a job keeps one core busy and the rest idle; each holds a few row groups."""
CHUNK_ROWS: Final = 1 << 16
"""Few enough that a chunk's memory is used again for the next: fresh memory costs more than the copy."""


@dataclass(frozen=True, slots=True)
class Written:
    """A source that a job of its own writes to parquet files."""

    source: Source
    job: "Future[list[Path]]"

    def rows(self) -> int:
        """How many there are, once they are written."""
        return sum(pq.read_metadata(file).num_rows for file in self.job.result())

    def chunks(self) -> Iterator[Chunk]:
        """The rows, once they are written."""
        tables = (table for file in self.job.result() for table in parquet_chunks(file, CHUNK_ROWS))
        return (Chunk(self.source.table, table) for table in _joined(tables))


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A source whose splits the job for all such sources hands over."""

    source: Source
    part: Part
    job: "Future[None]"

    def rows(self) -> int:
        """How many there will be."""
        return self.part.rows

    def chunks(self) -> Iterator[Chunk]:
        """The rows as they come."""
        return handing.chunks(self.part.splits, self.job, self.source.table, self.source.schema)


class Jobs:
    """The jobs of one load, whose hand-over files are in ``folder``; their group has its name."""

    def __init__(self, spark: "SparkSession", folder: Path, pool: ThreadPoolExecutor) -> None:
        self._spark = spark
        self._folder = folder
        self._pool = pool
        self._under_way: list[Future[None] | Future[list[Path]]] = []

    def start(self, sources: Sequence[Source]) -> list[Written | HandedOver]:
        """Check every source, then start the jobs; the sources in the order in which their rows come."""
        # Large ones first: what is read of them meanwhile is most, and small jobs fill the gaps.
        ordered = sorted(sources, key=lambda source: -(source.file_bytes or 0))
        by_tasks = any(map(direct.is_direct, sources)) and handing.can_read(self._spark)
        plans = list(self._pool.map(partial(self._plan, by_tasks), range(len(ordered)), ordered))
        splits = [split for plan in plans if isinstance(plan, Part) for split in plan.splits]
        handing_over: Future[None] = Future()
        if splits:
            handing_over = self._pool.submit(handing.run, self._spark, splits, self._folder.name)
            self._under_way.append(handing_over)
        coming: list[Written | HandedOver] = []
        for number, (source, plan) in enumerate(zip(ordered, plans, strict=True)):
            if isinstance(plan, Part):
                coming.append(HandedOver(source, plan, handing_over))
            else:
                folder = self._folder / str(number)
                job = self._pool.submit(ordered_files, self._spark, plan, source, folder)
                self._under_way.append(job)
                coming.append(Written(source, job))
        return coming

    def cancel(self) -> None:
        """Stop what is under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if not all(job.done() for job in self._under_way):
            self._spark.sparkContext.cancelJobGroup(self._folder.name)

    def _plan(self, by_tasks: bool, number: int, source: Source) -> "Part | DataFrame":
        folder = self._folder / str(number)
        part = direct.plan(self._spark, source, folder) if by_tasks else None
        if part is None:
            return prepared(self._spark, source, self._folder.name)
        folder.mkdir()
        return part


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
