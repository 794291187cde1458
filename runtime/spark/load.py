"""Bulk loads through Spark: any source that Spark reads, into this process or directly to the workers.

:func:`load_tables` checks all schemas before it returns any rows, and reads tables while Spark writes later
ones to columnar files, which pyarrow maps. :func:`send_tables` lets Spark tasks read rows, find the owner of
each, and send them there. Parquet row groups without casts are read by pyarrow, those of all tables in one
job; Spark casts and checks all other rows in one job for each source.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.arrow import encode_table
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import OperationalError
from kpg.runtime.handles import LoadTarget
from kpg.runtime.records import dataclass
from kpg.runtime.spark import landing_task, load_jobs, tasks
from kpg.runtime.spark.landing_task import SplitTarget
from kpg.runtime.spark.load_jobs import (
    MAX_JOBS,
    MAX_PARTITIONS,
    OWNER_COLUMN,
    Chunk,
    DirectLoad,
    Jobs,
    SqlLoad,
    is_direct,
    prepare_frame,
    translate_error,
)
from kpg.runtime.spark.session import BRIEF_BYTES, SessionWork, occupied_slots, open_session
from kpg.runtime.spark.source import Source, first_line, is_frame
from kpg.runtime.storage.files import LOAD_FOLDER_PREFIX, ScratchFolder
from kpg.runtime.types import Kind, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a load: ``rows`` of ``total`` have been read.

    ``stage`` is "writing" while Spark is running, else "reading".
    """

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
    """Yield the rows of one source in chunks of words ``int64[ncols, n]``.

    ``data`` is as in :class:`Source`. Raises the errors of :func:`load_tables`.
    """
    for chunk in load_tables([Source(table, data, schema)], session, progress):
        yield encode_table(chunk.rows, schema, dictionary, chunk.origin)


def load_tables(
    sources: Sequence[Source],
    session: "SparkSession | None" = None,
    progress: Callable[[Progress], None] | None = None,
    directory: str | None = None,
) -> Generator[Chunk, None, None]:
    """Yield chunks of rows, table by table, the largest table first, ordered by primary key where possible.

    Keys of integers, decimals, dates and timestamps are ordered: within each split of a parquet file, whose
    splits follow by their lowest keys, and throughout for rows that pass through Spark SQL. ``directory``
    holds the temporary files; executors on other machines need one that they share with the driver.

    :func:`encode_table`, with the chunk's origin, raises DataError for values that are not checked yet. Close
    the iterator to leave it early: that cancels its jobs.

    Raises:
        ProgrammingError: Before the first chunk, for a schema that does not match.
        OperationalError: Before the first chunk if Spark is missing, later if Spark fails.
        DataError: Later, for a value that does not fit; the caller has to undo its inserts.
    """
    with ScratchFolder(LOAD_FOLDER_PREFIX, directory) as folder:
        frame = next((source.data for source in sources if is_frame(source.data)), None)
        existing = session or (frame.sparkSession if frame is not None else None)
        with open_session(existing, _session_work(sources)) as spark, ThreadPoolExecutor(MAX_JOBS) as pool:
            if directory is None and not spark.sparkContext.master.startswith("local"):
                raise OperationalError(
                    f"the executors of {spark.sparkContext.master} cannot write to a folder of this machine",
                    hint="set directory= to a folder that driver and executors share",
                )
            jobs = Jobs(spark, Path(folder), pool)
            try:
                for table_load in jobs.start(sources):
                    yield from _read_table(table_load, progress or _ignore_progress)
            except BaseException:
                jobs.cancel()
                raise


def _session_work(sources: Sequence[Source]) -> SessionWork:
    """Return what Spark has to do for the sources."""
    through_sql = [source for source in sources if not is_direct(source)]
    sizes = [source.file_bytes for source in through_sql]
    if None in sizes or sum(size or 0 for size in sizes) > BRIEF_BYTES:
        return SessionWork.LONG
    return SessionWork.BRIEF if len(through_sql) == len(sources) else SessionWork.READING


def _read_table(table_load: SqlLoad | DirectLoad, progress: Callable[[Progress], None]) -> Iterator[Chunk]:
    table = table_load.source.table
    progress(Progress(table, "writing", 0, 0))
    total, rows = table_load.rows(), 0
    for chunk in table_load.chunks():
        yield chunk
        rows += chunk.rows.num_rows
        progress(Progress(table, "reading", rows, total))


def _ignore_progress(_: Progress) -> None:
    """Do nothing."""


LONG_DIGITS: Final = 18
"""Maximum digits of a decimal that is one word."""
SentAttempts = dict[str, list[int]]
"""For each load the attempts that have sent its rows, in their order."""


def send_tables(sources: Sequence[tuple[Source, LoadTarget]]) -> SentAttempts:
    """Send the rows to their workers by Spark tasks. Raises the errors of :func:`load_tables`."""
    with open_session(_existing_session(sources)) as spark, ThreadPoolExecutor(MAX_JOBS) as pool:
        group = f"kpg-load-{sources[0][1].load}"
        plans = list(pool.map(lambda one: load_jobs.plan(spark, one[0], Path()), sources))
        split_targets: list[SplitTarget] = []
        jobs: list[Future[SentAttempts]] = []
        for (source, target), part in zip(sources, plans, strict=True):
            if part is not None:
                split_targets += [SplitTarget(split, source.schema, target) for split in part.splits]
        try:
            if split_targets:
                jobs.append(
                    pool.submit(_send_splits, spark, split_targets, group, [one for one, _ in sources])
                )
            for (source, target), part in zip(sources, plans, strict=True):
                if part is None:
                    jobs.append(pool.submit(_send_rows, spark, source, target, group))
            sent: SentAttempts = {berth.load: [] for _, berth in sources}
            for job in jobs:
                sent |= job.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            spark.sparkContext.cancelJobGroup(group)
            raise
    return sent


def raise_load_error(source: Source) -> None:
    """Load a source into this process, without keeping rows, to raise the error of a single worker."""
    for chunk in load_tables([source], _existing_session([(source, None)])):
        encode_table(chunk.rows, source.schema, Dictionary(), chunk.origin)


def _existing_session(sources: "Sequence[tuple[Source, object]]") -> "SparkSession | None":
    """Return the session of a data frame, else that of the workers, if they run on one."""
    frame = next((source.data for source, _ in sources if is_frame(source.data)), None)
    if frame is not None:
        found: SparkSession = frame.sparkSession
        return found
    return next(reversed(occupied_slots.values())).session if occupied_slots else None


def _set_up_job(spark: "SparkSession", group: str, description: str) -> None:
    from pyspark import cloudpickle  # lazy: an optional dependency

    cloudpickle.register_pickle_by_value(landing_task)
    spark.sparkContext.setJobGroup(group, description)


def _send_splits(
    spark: "SparkSession", split_targets: Sequence[SplitTarget], group: str, sources: Sequence[Source]
) -> SentAttempts:
    _set_up_job(spark, group, f"kpg load of {len(split_targets)} splits of parquet files")
    partitions = min(len(split_targets), MAX_PARTITIONS)
    rdd = spark.sparkContext.parallelize(list(split_targets), partitions).mapPartitions(
        landing_task.send_splits
    )
    try:
        attempts: list[tuple[str, int]] = rdd.collect()
    except Exception as error:
        for source in sources:
            if f"{tasks.FAILED} table {source.table}:" in str(error):
                raise_load_error(source)
        raise OperationalError(f"Spark failed: {first_line(error)}", hint="nothing was loaded") from error
    sent: SentAttempts = {}
    for load, attempt in attempts:
        sent.setdefault(load, []).append(attempt)
    return sent


def _send_rows(spark: "SparkSession", source: Source, target: LoadTarget, group: str) -> SentAttempts:
    frame = prepare_frame(spark, source, group)
    _set_up_job(spark, group, f"kpg load of {source.table}")
    owner_sql = owner_expression(frame.columns[target.home], source.schema.columns[target.home].type, target)
    send_part = partial(landing_task.send_rows, target.addresses, target.secret)
    rows_with_owners = frame.selectExpr("*", f"{owner_sql} AS `{OWNER_COLUMN}`")
    try:
        attempts = rows_with_owners.mapInArrow(send_part, "attempt long, rows long").collect()
    except Exception as error:
        raise translate_error(error) from error
    return {target.load: [row.attempt for row in attempts]}


def owner_expression(column: str, type_: Type, target: LoadTarget) -> str:
    """Return SQL text of a row's worker number by its home column; 0 where Spark cannot compute it."""
    name = "`" + column.replace("`", "``") + "`"
    word = _hashed_expression(name, type_)
    if word is None:
        return "0"
    hashed = f"CAST(pmod(xxhash64({word}), {len(target.addresses)}) AS int)"
    return f"IF({name} IS NULL, {target.nulls}, {hashed})"


def _hashed_expression(name: str, type_: Type) -> str | None:
    """Return SQL text that Spark hashes like kpg's word as a BIGINT, or like the text; else None."""
    match type_.kind:
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return f"CAST({name} AS bigint)"
        case Kind.DECIMAL if (type_.precision or LONG_DIGITS) <= LONG_DIGITS:
            return name
        case Kind.DATE:
            return f"CAST(unix_date({name}) AS bigint)"
        case Kind.BOOLEAN:
            return f"CAST(CAST({name} AS int) AS bigint)"
        case Kind.TIMESTAMP | Kind.CHAR | Kind.VARCHAR:
            return name
        case _:
            return None
