"""Bulk loads through Spark: any source that Spark reads, into this process or straight to the workers.

:func:`load_tables` checks all schemas before it returns any rows, and reads tables while Spark writes later
ones to columnar files, which pyarrow maps. :func:`send` has Spark tasks read rows, find the owner of each,
and send them there. Parquet row groups without casts are read by pyarrow, those of all tables in one job;
Spark casts and checks all other rows in one job for each source.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.arrow import encode
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import OperationalError
from kpg.runtime.handles import Berth
from kpg.runtime.records import dataclass
from kpg.runtime.spark import landing_task, load_jobs, tasks
from kpg.runtime.spark.landing_task import Landed
from kpg.runtime.spark.load_jobs import (
    JOBS_AT_ONCE,
    MOST_PARTITIONS,
    OWNER,
    Chunk,
    HandedOver,
    Jobs,
    Written,
    is_direct,
    prepared,
    translated,
)
from kpg.runtime.spark.session import BRIEF_BYTES, Work, opened, taken
from kpg.runtime.spark.source import Source, first_line, is_frame
from kpg.runtime.storage.files import LOADS, Scratch
from kpg.runtime.types import Kind, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


LONG_DIGITS: Final = 18
"""Of decimals that are one word."""
Sent = dict[str, list[int]]
"""Of each load the attempts that have sent its rows, in the order of these."""


def send(sources: Sequence[tuple[Source, Berth]]) -> Sent:
    """Have Spark's tasks send the rows to where they go. Raises as ``load.load_tables``."""
    with opened(_session(sources)) as spark, ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        group = f"kpg-load-{sources[0][1].load}"
        plans = list(pool.map(lambda one: load_jobs.plan(spark, one[0], Path()), sources))
        landed: list[Landed] = []
        jobs: list[Future[Sent]] = []
        for (source, berth), part in zip(sources, plans, strict=True):
            if part is not None:
                landed += [Landed(split, source.schema, berth) for split in part.splits]
        try:
            if landed:
                jobs.append(pool.submit(_send_splits, spark, landed, group, [one for one, _ in sources]))
            for (source, berth), part in zip(sources, plans, strict=True):
                if part is None:
                    jobs.append(pool.submit(_send_rows, spark, source, berth, group))
            sent: Sent = {berth.load: [] for _, berth in sources}
            for job in jobs:
                sent |= job.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            spark.sparkContext.cancelJobGroup(group)
            raise
    return sent


def told_by_one(source: Source) -> None:
    """Raise what a single worker says of a source that has something wrong in it, if it has."""
    for chunk in load_tables([source], _session([(source, None)])):
        encode(chunk.rows, source.schema, Dictionary(), chunk.origin)


def _session(sources: "Sequence[tuple[Source, object]]") -> "SparkSession | None":
    """That of a frame, else that of the workers, if they are on one."""
    frame = next((source.data for source, _ in sources if is_frame(source.data)), None)
    if frame is not None:
        found: SparkSession = frame.sparkSession
        return found
    return next(reversed(taken.values())).session if taken else None


def _by_value(spark: "SparkSession", group: str, what: str) -> None:
    from pyspark import cloudpickle  # lazy: an optional dependency

    cloudpickle.register_pickle_by_value(landing_task)
    spark.sparkContext.setJobGroup(group, what)


def _send_splits(
    spark: "SparkSession", landed: Sequence[Landed], group: str, sources: Sequence[Source]
) -> Sent:
    _by_value(spark, group, f"kpg load of {len(landed)} splits of parquet files")
    partitions = min(len(landed), MOST_PARTITIONS)
    sending = spark.sparkContext.parallelize(list(landed), partitions).mapPartitions(landing_task.send_splits)
    try:
        told: list[tuple[str, int]] = sending.collect()
    except Exception as error:
        for source in sources:
            if f"{tasks.FAILED} table {source.table}:" in str(error):
                told_by_one(source)
        raise OperationalError(f"Spark failed: {first_line(error)}", hint="nothing was loaded") from error
    sent: Sent = {}
    for load, attempt in told:
        sent.setdefault(load, []).append(attempt)
    return sent


def _send_rows(spark: "SparkSession", source: Source, berth: Berth, group: str) -> Sent:
    frame = prepared(spark, source, group)
    _by_value(spark, group, f"kpg load of {source.table}")
    owner = owner_of(frame.columns[berth.home], source.schema.columns[berth.home].type, berth)
    sending = partial(landing_task.send, berth.places, berth.secret)
    owned = frame.selectExpr("*", f"{owner} AS `{OWNER}`")
    try:
        told = owned.mapInArrow(sending, "attempt long, rows long").collect()
    except Exception as error:
        raise translated(error) from error
    return {berth.load: [row.attempt for row in told]}


def owner_of(column: str, type_: Type, berth: Berth) -> str:
    """Whose a row is, by its column of a type, as SQL text; 0 where Spark cannot tell."""
    name = "`" + column.replace("`", "``") + "`"
    word = _word(name, type_)
    if word is None:
        return "0"
    hashed = f"CAST(pmod(xxhash64({word}), {len(berth.places)}) AS int)"
    return f"IF({name} IS NULL, {berth.nulls}, {hashed})"


def _word(name: str, type_: Type) -> str | None:
    """What of a column is hashed: what Spark hashes as it would a BIGINT of kpg's word, or the text."""
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
