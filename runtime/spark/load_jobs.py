"""The Spark jobs of a load: the direct path for parquet row groups, and the path through Spark SQL.

*Direct path.* Plain parquet files, on a file system that every executor sees and with columns that need no
cast,
become splits of row groups. Spark schedules the tasks; the tasks read with pyarrow (``tasks``).

*Spark SQL.* One job for each source casts, checks and writes it to columnar files. If these are not in key
order (only the key columns are read to find out), a second job sorts them. The driver receives only file
names.

:class:`Jobs` runs the jobs of a load concurrently and returns the rows as they arrive, the largest source
first.
"""

import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpg.runtime.convert.arrow import UNKNOWN_ORIGIN, WORD_ORDER_KINDS, Origin, encode_table, match_columns
from kpg.runtime.convert.files import parquet_chunks, repetitive_columns
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, Error, OperationalError, ProgrammingError
from kpg.runtime.handles import LoadTarget
from kpg.runtime.operators.text_exchange import Owners
from kpg.runtime.records import dataclass
from kpg.runtime.spark import tasks
from kpg.runtime.spark.source import (
    MARKED,
    Source,
    cast_columns,
    first_line,
    format_of,
    is_frame,
    message_prefix,
    read_frame,
)
from kpg.runtime.spark.source import resolve as resolve_columns
from kpg.runtime.spark.tasks import FAILED, INT96_UNIT, Split, read_rows
from kpg.runtime.types import Kind, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


POLL_SECONDS: Final = 0.005
"""Delay after which a finished split is noticed; a check for its file takes some microseconds."""
SECONDS_TO_APPEAR: Final = 60
"""Time limit for a file of an executor to become visible to the driver on a network file system."""
MAX_PARTITIONS: Final = 4000
"""Partitions of a job above which the driver's overhead exceeds the executors' work."""
log = logging.getLogger("kpg")
TASK_FAILURE: Final = re.compile(f"{tasks.FAILED} (.*)")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a table with their origin."""

    table: str
    rows: pa.Table
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(frozen=True, slots=True)
class FileRows(Origin):
    """Origin of rows of a file, ``numbered`` from ``row`` on unless they were sorted, with their ``keys``."""

    keys: pa.RecordBatch | None = None
    numbered: bool = True

    def describe(self, position: int | None, column: str) -> str:
        parts = [self.name]
        if position is not None and self.numbered:
            parts.append(f"row {self.row + position + 1}")
        if position is not None and self.keys is not None:
            names = self.keys.schema.names
            parts += [f"key {name}={self.keys[name][position].as_py()}" for name in names]
        return ", ".join((*parts, f"column {column}"))


def start_readers(spark: "SparkSession") -> None:
    """Start a Python process for each core, and import what tasks need."""
    from pyspark import cloudpickle  # lazy: an optional dependency

    cloudpickle.register_pickle_by_value(tasks)
    context = spark.sparkContext
    context.setJobGroup("kpg-readers", "kpg starts its readers")
    cores = context.defaultParallelism
    context.parallelize(range(cores), cores).foreach(tasks.warm_up)


def can_run_tasks(spark: "SparkSession") -> bool:
    """Return whether executors can run our tasks, which need the driver's Python and pyarrow; log why not."""
    context = spark.sparkContext
    if context.master.startswith("local") and context.pythonExec == sys.executable:
        return True
    try:
        start_readers(spark)
    except Exception as error:
        reason = first_line(error)
        log.warning(
            "parquet files go through Spark SQL, as executors cannot read them by pyarrow: %s", reason
        )
        return False
    return True


def run_splits(spark: "SparkSession", splits: Sequence[tasks.Split], group: str) -> None:
    """Read the splits in one job of the group, the first ones first."""
    from pyspark import cloudpickle  # lazy: an optional dependency

    cloudpickle.register_pickle_by_value(tasks)
    context = spark.sparkContext
    context.setJobGroup(group, f"kpg load of {len(splits)} splits of parquet files")
    partitions = min(len(splits), MAX_PARTITIONS)
    try:
        context.parallelize(list(splits), partitions).mapPartitions(tasks.write_splits).count()
    except Exception as error:
        failure = TASK_FAILURE.search(str(error))
        message = f"cannot read {failure.group(1)}" if failure else f"Spark failed: {first_line(error)}"
        raise OperationalError(message, hint="nothing was loaded") from error


def read_splits(
    splits: Sequence[tasks.Split], job: "Future[None]", table: str, schema: Schema
) -> Iterator[Chunk]:
    """Yield the rows of the splits in order, each split when its file is complete.

    Files are deleted after they were read.

    Raises:
        DataError: For a NULL in a NOT NULL column; also the errors of the job.
    """
    for split in splits:
        target = Path(split["target"])
        _wait_for_file(target, job, table)
        with pa.memory_map(str(target)) as source, pa.ipc.open_stream(source) as reader:
            yield from _read_split(reader, split, table, schema)
        target.unlink()


def _wait_for_file(target: Path, job: "Future[None]", table: str) -> None:
    """Wait until the file exists, or raise the error of the job."""
    while not job.done():
        if target.exists():
            return
        wait([job], POLL_SECONDS)
    job.result()
    end = time.monotonic() + SECONDS_TO_APPEAR
    while target.name not in os.listdir(target.parent):
        if time.monotonic() > end:
            hint = "do driver and executors share the folder?"
            raise OperationalError(f"{message_prefix(table)}{target} is not there", hint=hint)
        time.sleep(1)


def _read_split(
    reader: pa.RecordBatchStreamReader, split: tasks.Split, table: str, schema: Schema
) -> Iterator[Chunk]:
    numbered = not (reader.schema.metadata or {}).get(tasks.SORTED)
    key = [split["columns"][i] for i in schema.primary_key]
    row = split["row"]
    for batch in reader:
        keys = batch.select(key) if key else None
        place = FileRows(f"table {table}, {split['path']}" if table else split["path"], row, keys, numbered)
        check_not_null(batch, schema, place)
        yield Chunk(table, pa.Table.from_batches([batch]), place)
        row += batch.num_rows


def check_not_null(batch: pa.RecordBatch, schema: Schema, place: FileRows) -> None:
    """Raise DataError for a NULL in a NOT NULL column; the columns are in the schema's order."""
    for i, (column, array) in enumerate(zip(schema.columns, batch.columns, strict=True)):
        if array.null_count and (not column.nullable or i in schema.primary_key):
            position = array.is_null().index(True).as_py()
            raise DataError(
                f"{place.describe(position, column.name)}: NULL in a NOT NULL column",
                hint="nothing was loaded; correct the value in the source",
            )


Words = NDArray[np.int64]
Key = tuple[int, ...]

ORDER_CHUNK_ROWS: Final = 1 << 18
"""Rows of key columns that are read at a time: a few megabytes."""


def order_key(schema: Schema) -> Schema | None:
    """Return the columns of the primary key if their words are ordered as their values; else None."""
    columns = tuple(schema.columns[i] for i in schema.primary_key)
    if not columns or any(column.type.kind not in WORD_ORDER_KINDS for column in columns):
        return None
    return Schema(columns)


def order_files(files: Sequence[Path], key: Schema) -> list[Path] | None:
    """Return the files in an order in which keys ascend throughout; None if there is none."""
    bounds: list[tuple[Key, Key, Path]] = []
    for file in files:
        first: Key | None = None
        last: Key | None = None
        for words in _read_keys(file, key):
            if not is_ascending(words) or (last is not None and _row_at(words, 0) < last):
                return None
            first, last = first or _row_at(words, 0), _row_at(words, -1)
        if first is not None and last is not None:
            bounds.append((first, last, file))
    bounds.sort()
    if any(earlier[1] > later[0] for earlier, later in pairwise(bounds)):
        return None
    return [file for _, _, file in bounds]


def is_ascending(words: Words) -> bool:
    """Return whether the rows of ``words[ncols, n]`` are in lexicographic order, including equal ones."""
    tie = np.ones(max(0, words.shape[1] - 1), np.bool_)
    for column in words:
        if (tie & (column[1:] < column[:-1])).any():
            return False
        tie &= column[1:] == column[:-1]
    return True


def _read_keys(file: Path, key: Schema) -> Iterator[Words]:
    with pq.ParquetFile(file, memory_map=True) as opened:
        batches = opened.iter_batches(ORDER_CHUNK_ROWS, columns=list(key.names))
        yield from (encode_table(batch, key, Dictionary()) for batch in batches if batch.num_rows)


def _row_at(words: Words, position: int) -> Key:
    return tuple(int(word) for word in words[:, position])


SPLIT_BYTES: Final = 1 << 25
"""Encoded bytes of a split's row groups, unless one alone is larger.

These are some 400,000 rows, which take a task 0.25 s. Starting a task takes 30 ms, and the reader waits for
the
first splits to be complete.
"""
LISTING_OPTIONS: Final = frozenset(
    {"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"}
)
"""Options of a source that select files and do not change their interpretation."""
REBASED_MARKS: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""Metadata of files with dates in the hybrid calendar, which only Spark reads correctly."""
WRITER_VERSION: Final = b"org.apache.spark.version"
DATE_KINDS: Final = frozenset({Kind.DATE, Kind.TIMESTAMP})
INTERVAL_KINDS: Final = frozenset({Kind.INTERVAL_MONTH, Kind.INTERVAL_DAY})


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The splits of a source in reading order, and its number of rows."""

    splits: list[Split]
    rows: int


def is_direct(source: Source) -> bool:
    """Return whether a source may be eligible for the direct path; :func:`plan` decides."""
    if is_frame(source.data) or any(column.type.kind in INTERVAL_KINDS for column in source.schema.columns):
        return False
    return format_of(source) == "parquet" and {name.lower() for name in source.options} <= LISTING_OPTIONS


def plan(spark: "SparkSession", source: Source, folder: Path) -> SplitPlan | None:
    """Return the splits of a source with targets in ``folder``; None if it has to be read by Spark SQL.

    A source with errors has to be read by Spark SQL too, which reports them.
    """
    if not is_direct(source):
        return None
    paths = _list_files(spark, source)
    if not paths:
        return None
    splits: list[tuple[Any, Split]] = []
    rows = 0
    for path in paths:
        planned = _split_file(path, source.schema)
        if planned is None:
            return None
        splits += planned[0]
        rows += planned[1]
    ordered = [split for _, split in _sort_by_min_key(splits)]
    for number, split in enumerate(ordered):
        split["target"] = str(folder / f"{number}.arrow")
    return SplitPlan(ordered, rows)


def _list_files(spark: "SparkSession", source: Source) -> list[Path] | None:
    """Return the source's files as Spark finds them; None for remote files or partition columns."""
    from pyspark.errors import PySparkException  # lazy: an optional dependency
    from pyspark.sql.types import StructType  # lazy: an optional dependency

    name = str(source.data)
    if Path(name).is_file() and _files_are_local(spark):
        return [Path(name).absolute()]
    try:
        frame = spark.read.options(**source.options).schema(StructType([])).parquet(name)
        if frame.columns:
            return None
        urls = [urlsplit(file) for file in frame.inputFiles()]
    except PySparkException:
        return None
    if any(file.scheme != "file" for file in urls):
        return None
    return sorted(Path(unquote(file.path)) for file in urls)


def _files_are_local(spark: "SparkSession") -> bool:
    """Return whether a path without a scheme is a local file."""
    default = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
    return str(default).startswith("file:")


def _split_file(path: Path, schema: Schema) -> tuple[list[tuple[Any, Split]], int] | None:
    """Return the splits of a file, each with its lowest first key word if known, and the row count."""
    try:
        with pq.ParquetFile(path, memory_map=True, coerce_int96_timestamp_unit=INT96_UNIT) as file:
            file_schema, metadata = file.schema_arrow, file.metadata
            columns = [file_schema.names[i] for i in match_columns(file_schema, schema)]
            encoded = [name for name in repetitive_columns(file) if name in columns]
    except (OSError, pa.ArrowException, ProgrammingError):
        return None
    if _is_rebased(metadata.metadata or {}, schema):
        return None
    key = _order_columns(schema, file_schema, columns)
    splits: list[tuple[Any, Split]] = []
    row, split_bytes = 0, SPLIT_BYTES
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        lowest = _min_key(group, key)
        if group.num_rows and split_bytes + group.total_byte_size > SPLIT_BYTES:
            split = Split(
                target="", path=str(path), groups=[], row=row, columns=columns, key=key, encoded=encoded
            )
            splits.append((lowest, split))
            split_bytes = 0
        if group.num_rows:
            before, split = splits[-1]
            split["groups"].append(number)
            splits[-1] = (None if before is None or lowest is None else min(before, lowest), split)
            split_bytes += group.total_byte_size
        row += group.num_rows
    return splits, row


def _order_columns(schema: Schema, file_schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """Return the file's names of the columns by which rows are ordered."""
    ordering = order_key(schema)
    names = dict(zip(schema.names, columns, strict=True))
    key = [names[column.name] for column in ordering.columns] if ordering else []
    return [] if any(pa.types.is_null(file_schema.field(name).type) for name in key) else key


def _is_rebased(metadata: dict[bytes, bytes], schema: Schema) -> bool:
    """Return whether pyarrow might read dates differently from Spark."""
    if not any(column.type.kind in DATE_KINDS for column in schema.columns):
        return False
    return any(mark in metadata for mark in REBASED_MARKS) or metadata.get(WRITER_VERSION, b"9")[:2] in (
        b"1.",
        b"2.",
    )


def _min_key(group: pq.RowGroupMetaData, key: Sequence[str]) -> Any:
    """Return the minimum of the key's first column in a row group; None if the file has no statistics."""
    for i in range(group.num_columns):
        column = group.column(i)
        if key and column.path_in_schema == key[0]:
            statistics = column.statistics
            return statistics.min if statistics is not None and statistics.has_min_max else None
    return None


def _sort_by_min_key(splits: list[tuple[Any, Split]]) -> list[tuple[Any, Split]]:
    """Return the splits sorted by their lowest keys; unchanged if these are unknown."""
    if any(lowest is None for lowest, _ in splits):
        return splits
    try:
        return sorted(splits, key=lambda split: split[0])
    except TypeError:  # files differ in the type of their keys
        return splits


OWNER_COLUMN: Final = "kpg owner"


def read_with_owners(split: Split, schema: Schema, target: LoadTarget) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split in key order, with the number of each row's worker as last column.

    Raises:
        RuntimeError: Beginning with ``FAILED``, if the rows cannot be read or do not fit the schema.
    """
    pa.set_cpu_count(1)  # a task has one core
    dictionary = Dictionary()
    owners = Owners(dictionary, len(target.addresses), has_local_codes=True)
    column = schema.columns[target.home]
    try:
        for batch in read_rows(split):
            check_not_null(batch, schema, FileRows(split["path"]))
            array = batch.column(split["columns"][target.home])
            home_batch = pa.RecordBatch.from_arrays([array], names=[column.name])
            words = encode_table(home_batch, Schema((column,)), dictionary)[0]
            owner_numbers = owners.owners(words, interned=column.type.is_interned)
            yield batch.append_column(OWNER_COLUMN, pa.array(owner_numbers.astype(np.int32)))
    except (OSError, pa.ArrowException, DataError) as error:
        raise RuntimeError(f"{FAILED} table {target.table}: {split['path']}: {error}") from error


SORT_ROWS: Final = 1 << 20
"""Rows of a range that one task sorts: they fit its memory, and a smaller range is not worth a shuffle."""
WRITE_OPTIONS: Final = {
    "compression": "none",
    "parquet.enable.dictionary": "false",
    "parquet.column.statistics.enabled": "false",
}
"""Options of files that are read once: what makes reading faster is not worth its cost of writing."""


def prepare_frame(spark: "SparkSession", source: Source, group: str) -> "DataFrame":
    """Return the source's rows, cast and checked; its jobs belong to the group.

    Raises the errors of :func:`resolve_columns`, and OperationalError if Spark cannot read the source.
    """
    from pyspark.errors import AnalysisException  # lazy: an optional dependency

    spark.sparkContext.setJobGroup(group, f"kpg load of {source.table}")
    frame = read_frame(spark, source)
    names = resolve_columns(frame, source.schema, source.table)
    try:
        return cast_columns(frame, names, source.schema, source.table, with_file=True)
    except AnalysisException:
        return cast_columns(frame, names, source.schema, source.table, with_file=False)


def write_ordered_files(
    spark: "SparkSession", frame: "DataFrame", source: Source, folder: Path
) -> list[Path]:
    """Write the source's rows to parquet files and return these in key order.

    The job group is named like the parent of ``folder``.
    """
    spark.sparkContext.setJobGroup(folder.parent.name, f"kpg load of {source.table}")
    files = _write_files(frame, folder)
    key = order_key(source.schema)
    if key is None:
        return files
    ordered = order_files(files, key)
    if ordered is not None:
        return ordered
    unordered = spark.read.schema(frame.schema).parquet(folder.as_uri())
    keys = [f"`{name}`" for name in key.names]
    ranges = sum(pq.read_metadata(file).num_rows for file in files) // SORT_ROWS + 1
    parts = unordered.coalesce(1) if ranges == 1 else unordered.repartitionByRange(ranges, *keys)
    files = _write_files(parts.sortWithinPartitions(*keys), folder.with_name(f"{folder.name}-sorted"))
    shutil.rmtree(folder, ignore_errors=True)
    return files


def _write_files(frame: "DataFrame", folder: Path) -> list[Path]:
    """Write a frame in one job, and return the files in the order of its partitions."""
    try:
        frame.write.options(**WRITE_OPTIONS).parquet(folder.as_uri(), mode="overwrite")
    except Exception as error:
        raise translate_error(error) from error
    return sorted(folder.glob("part-*.parquet"))


def translate_error(error: Exception) -> Error:
    """Return the error for a failed job, with the message of the executor."""
    marked = MARKED.search(str(error))
    if marked:
        hint = "nothing was loaded; correct the value in the source, or widen the column"
        return DataError(marked.group(1), hint=hint)
    if "MALFORMED" in str(error):
        return DataError(f"Spark cannot parse the source: {first_line(error)}", hint="nothing was loaded")
    return OperationalError(f"Spark failed: {first_line(error)}", hint="nothing was loaded")


MAX_JOBS: Final = 4
"""Maximum number of concurrent jobs; each holds a few row groups in memory.

Several jobs, because planning a job keeps one core busy and the others idle.
"""
CHUNK_ROWS: Final = 1 << 16
"""Rows of a chunk: small enough that memory is reused, since fresh memory costs more than the copy."""


@dataclass(frozen=True, slots=True)
class SqlLoad:
    """A source that a job of its own writes to parquet files."""

    source: Source
    job: "Future[list[Path]]"

    def rows(self) -> int:
        """Wait for the job and return the number of rows."""
        return sum(pq.read_metadata(file).num_rows for file in self.job.result())

    def chunks(self) -> Iterator[Chunk]:
        """Wait for the job and return the rows in chunks."""
        tables = (table for file in self.job.result() for table in parquet_chunks(file, CHUNK_ROWS))
        return (Chunk(self.source.table, table) for table in _join_chunks(tables))


@dataclass(frozen=True, slots=True)
class DirectLoad:
    """A source on the direct path; one job reads the splits of all such sources."""

    source: Source
    plan: SplitPlan
    job: "Future[None]"

    def rows(self) -> int:
        """Return the number of rows."""
        return self.plan.rows

    def chunks(self) -> Iterator[Chunk]:
        """Return the rows in chunks as they arrive."""
        return read_splits(self.plan.splits, self.job, self.source.table, self.source.schema)


class Jobs:
    """The jobs of one load with temporary files in ``folder``; their job group is named like the folder."""

    def __init__(self, spark: "SparkSession", folder: Path, pool: ThreadPoolExecutor) -> None:
        self._spark = spark
        self._folder = folder
        self._pool = pool
        self._running: list[Future[None] | Future[list[Path]]] = []

    def start(self, sources: Sequence[Source]) -> list[SqlLoad | DirectLoad]:
        """Check all sources, then start the jobs; return the loads in the order that their rows arrive in."""
        # Large ones first: most reading overlaps with jobs, and small jobs fill the gaps.
        ordered = sorted(sources, key=lambda source: -(source.file_bytes or 0))
        allows_direct = any(map(is_direct, sources)) and can_run_tasks(self._spark)
        plans = list(self._pool.map(partial(self._plan, allows_direct), range(len(ordered)), ordered))
        splits = [split for plan in plans if isinstance(plan, SplitPlan) for split in plan.splits]
        direct_job: Future[None] = Future()
        if splits:
            direct_job = self._pool.submit(run_splits, self._spark, splits, self._folder.name)
            self._running.append(direct_job)
        loads: list[SqlLoad | DirectLoad] = []
        for number, (source, plan) in enumerate(zip(ordered, plans, strict=True)):
            if isinstance(plan, SplitPlan):
                loads.append(DirectLoad(source, plan, direct_job))
            else:
                folder = self._folder / str(number)
                job = self._pool.submit(write_ordered_files, self._spark, plan, source, folder)
                self._running.append(job)
                loads.append(SqlLoad(source, job))
        return loads

    def cancel(self) -> None:
        """Cancel the running jobs."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if not all(job.done() for job in self._running):
            self._spark.sparkContext.cancelJobGroup(self._folder.name)

    def _plan(self, allows_direct: bool, number: int, source: Source) -> "SplitPlan | DataFrame":
        folder = self._folder / str(number)
        split_plan = plan(self._spark, source, folder) if allows_direct else None
        if split_plan is None:
            return prepare_frame(self._spark, source, self._folder.name)
        folder.mkdir()
        return split_plan


def _join_chunks(chunks: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Join the chunks of many small files where their schemas are equal."""
    pending: list[pa.Table] = []
    rows = 0
    for chunk in chunks:
        if pending and (rows + chunk.num_rows > CHUNK_ROWS or chunk.schema != pending[0].schema):
            yield pa.concat_tables(pending)
            pending, rows = [], 0
        pending.append(chunk)
        rows += chunk.num_rows
    if pending:
        yield pa.concat_tables(pending)
