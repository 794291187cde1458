"""The Spark jobs of a load: the direct path for parquet row groups, and the path through Spark SQL.

*Direct path.* Plain parquet files on a file system that every executor sees, with columns that need no cast,
are planned as splits of row groups. Spark schedules the tasks; the tasks read with pyarrow (``tasks``).

*Spark SQL.* One job for each source casts, checks and writes it to columnar files. If these are not in key
order (only the key columns are read to find out), a second job sorts them. The driver sees file names only.

:class:`Jobs` runs the jobs of a load side by side and returns the rows as they arrive, the largest source
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

from kpg.runtime.convert.arrow import NOWHERE, SORTED_KINDS, Origin, encode, resolve
from kpg.runtime.convert.files import parquet_chunks, repetitive_columns
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, Error, OperationalError, ProgrammingError
from kpg.runtime.handles import Berth
from kpg.runtime.operators.text_exchange import Owners
from kpg.runtime.records import dataclass
from kpg.runtime.spark import tasks
from kpg.runtime.spark.source import MARKED, Source, first_line, format_of, frame_of, is_frame, label, project
from kpg.runtime.spark.source import resolve as resolve_columns
from kpg.runtime.spark.tasks import FAILED, INT96_UNIT, Split, rows
from kpg.runtime.types import Kind, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


SECONDS_BETWEEN_LOOKS: Final = 0.005
"""How long a finished split may go unnoticed; looking for its file takes some microseconds."""
SECONDS_TO_APPEAR: Final = 60
"""How long a folder on a network may take to show the driver what executors have written."""
MOST_PARTITIONS: Final = 4000
"""Of a job: with more, Spark's driver has more to do for each than the executors."""
log = logging.getLogger("kpg")
TOLD: Final = re.compile(f"{tasks.FAILED} (.*)")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a table, and where they came from."""

    table: str
    rows: pa.Table
    origin: Origin = NOWHERE


@dataclass(frozen=True, slots=True)
class Place(Origin):
    """Rows of a file: ``numbered`` from ``row`` on, unless they were sorted; ``keys`` are their keys."""

    keys: pa.RecordBatch | None = None
    numbered: bool = True

    def place(self, position: int | None, column: str) -> str:
        parts = [self.name]
        if position is not None and self.numbered:
            parts.append(f"row {self.row + position + 1}")
        if position is not None and self.keys is not None:
            names = self.keys.schema.names
            parts += [f"key {name}={self.keys[name][position].as_py()}" for name in names]
        return ", ".join((*parts, f"column {column}"))


def start_readers(spark: "SparkSession") -> None:
    """Have every core's process for tasks start, and import what they need."""
    from pyspark import cloudpickle  # lazy: an optional dependency

    cloudpickle.register_pickle_by_value(tasks)
    context = spark.sparkContext
    context.setJobGroup("kpg-readers", "kpg starts its readers")
    cores = context.defaultParallelism
    context.parallelize(range(cores), cores).foreach(tasks.get_ready)


def can_read(spark: "SparkSession") -> bool:
    """Whether executors can run our tasks: they need the driver's Python, and pyarrow. Logs why not."""
    context = spark.sparkContext
    if context.master.startswith("local") and context.pythonExec == sys.executable:
        return True
    try:
        start_readers(spark)
    except Exception as error:
        why = first_line(error)
        log.warning("parquet files go through Spark SQL, as executors cannot read them by pyarrow: %s", why)
        return False
    return True


def run(spark: "SparkSession", splits: Sequence[tasks.Split], group: str) -> None:
    """Hand the splits over, the first ones first; a job of the group."""
    from pyspark import cloudpickle  # lazy: an optional dependency

    cloudpickle.register_pickle_by_value(tasks)
    context = spark.sparkContext
    context.setJobGroup(group, f"kpg load of {len(splits)} splits of parquet files")
    partitions = min(len(splits), MOST_PARTITIONS)
    try:
        context.parallelize(list(splits), partitions).mapPartitions(tasks.hand_over).count()
    except Exception as error:
        told = TOLD.search(str(error))
        message = f"cannot read {told.group(1)}" if told else f"Spark failed: {first_line(error)}"
        raise OperationalError(message, hint="nothing was loaded") from error


def chunks(splits: Sequence[tasks.Split], job: "Future[None]", table: str, schema: Schema) -> Iterator[Chunk]:
    """The rows of the splits, in order, each as soon as it is there; it is deleted when it has been read.

    Raises DataError for a NULL that may not be, and what the job raises.
    """
    for split in splits:
        target = Path(split["target"])
        _await(target, job, table)
        with pa.memory_map(str(target)) as source, pa.ipc.open_stream(source) as reader:
            yield from _read(reader, split, table, schema)
        target.unlink()


def _await(target: Path, job: "Future[None]", table: str) -> None:
    """Return once the target is there, or raise what the job raises."""
    while not job.done():
        if target.exists():
            return
        wait([job], SECONDS_BETWEEN_LOOKS)
    job.result()
    end = time.monotonic() + SECONDS_TO_APPEAR
    while target.name not in os.listdir(target.parent):
        if time.monotonic() > end:
            hint = "do driver and executors share the folder?"
            raise OperationalError(f"{label(table)}{target} is not there", hint=hint)
        time.sleep(1)


def _read(
    reader: pa.RecordBatchStreamReader, split: tasks.Split, table: str, schema: Schema
) -> Iterator[Chunk]:
    numbered = not (reader.schema.metadata or {}).get(tasks.SORTED)
    key = [split["columns"][i] for i in schema.primary_key]
    row = split["row"]
    for batch in reader:
        keys = batch.select(key) if key else None
        place = Place(f"table {table}, {split['path']}" if table else split["path"], row, keys, numbered)
        require_values(batch, schema, place)
        yield Chunk(table, pa.Table.from_batches([batch]), place)
        row += batch.num_rows


def require_values(batch: pa.RecordBatch, schema: Schema, place: Place) -> None:
    """DataError if there is a NULL where none may be; the columns are in the schema's order."""
    for i, (column, array) in enumerate(zip(schema.columns, batch.columns, strict=True)):
        if array.null_count and (not column.nullable or i in schema.primary_key):
            position = array.is_null().index(True).as_py()
            raise DataError(
                f"{place.place(position, column.name)}: NULL in a NOT NULL column",
                hint="nothing was loaded; correct the value in the source",
            )


Words = NDArray[np.int64]
Key = tuple[int, ...]

ORDER_CHUNK_ROWS: Final = 1 << 18
"""Rows of key columns that are read at a time: a few megabytes."""


def order_key(schema: Schema) -> Schema | None:
    """The columns of the primary key, in its order, if its words have the order of its values."""
    columns = tuple(schema.columns[i] for i in schema.primary_key)
    if not columns or any(column.type.kind not in SORTED_KINDS for column in columns):
        return None
    return Schema(columns)


def in_order(files: Sequence[Path], key: Schema) -> list[Path] | None:
    """The files with rows so ordered that their keys ascend throughout; None if no order does that."""
    bounds: list[tuple[Key, Key, Path]] = []
    for file in files:
        first: Key | None = None
        last: Key | None = None
        for words in _keys(file, key):
            if not ascending(words) or (last is not None and _row(words, 0) < last):
                return None
            first, last = first or _row(words, 0), _row(words, -1)
        if first is not None and last is not None:
            bounds.append((first, last, file))
    bounds.sort()
    if any(earlier[1] > later[0] for earlier, later in pairwise(bounds)):
        return None
    return [file for _, _, file in bounds]


def ascending(words: Words) -> bool:
    """Whether the rows of ``words[ncols, n]`` ascend, compared column by column; equal ones may follow."""
    tie = np.ones(max(0, words.shape[1] - 1), np.bool_)
    for column in words:
        if (tie & (column[1:] < column[:-1])).any():
            return False
        tie &= column[1:] == column[:-1]
    return True


def _keys(file: Path, key: Schema) -> Iterator[Words]:
    with pq.ParquetFile(file, memory_map=True) as opened:
        batches = opened.iter_batches(ORDER_CHUNK_ROWS, columns=list(key.names))
        yield from (encode(batch, key, Dictionary()) for batch in batches if batch.num_rows)


def _row(words: Words, position: int) -> Key:
    return tuple(int(word) for word in words[:, position])


SPLIT_BYTES: Final = 1 << 25
"""Encoded bytes of row groups that a task takes, unless one alone is larger: some 400,000 rows, which take it
a quarter of a second. Starting a task takes 30 ms; the reader waits for the first ones to be complete."""
LISTING: Final = frozenset({"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"})
"""Options of a source that say which files there are, not what is in them."""
REBASED: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""Marks of files whose old dates only Spark reads right: in the hybrid calendar, as are those of Spark 2."""
WRITER: Final = b"org.apache.spark.version"
MOMENTS: Final = frozenset({Kind.DATE, Kind.TIMESTAMP})
INTERVALS: Final = frozenset({Kind.INTERVAL_MONTH, Kind.INTERVAL_DAY})


@dataclass(frozen=True, slots=True)
class Part:
    """A source in splits, in the order in which they are to be read, and its number of rows."""

    splits: list[Split]
    rows: int


def is_direct(source: Source) -> bool:
    """Whether a source looks as if it could be handed over past Spark's rows; only :func:`plan` knows."""
    if is_frame(source.data) or any(column.type.kind in INTERVALS for column in source.schema.columns):
        return False
    return format_of(source) == "parquet" and {name.lower() for name in source.options} <= LISTING


def plan(spark: "SparkSession", source: Source, folder: Path) -> Part | None:
    """The splits of a source, whose targets are in ``folder``; None if it has to go through Spark SQL.

    That it is to go there also means that it is wrong: what is wrong is told there.
    """
    if not is_direct(source):
        return None
    paths = _listed(spark, source)
    if not paths:
        return None
    splits: list[tuple[Any, Split]] = []
    rows = 0
    for path in paths:
        found = _splits(path, source.schema)
        if found is None:
            return None
        splits += found[0]
        rows += found[1]
    ordered = [split for _, split in _by_lowest(splits)]
    for number, split in enumerate(ordered):
        split["target"] = str(folder / f"{number}.arrow")
    return Part(ordered, rows)


def _listed(spark: "SparkSession", source: Source) -> list[Path] | None:
    """The source's files, as Spark finds them; None if they are not local or come with columns of folders."""
    from pyspark.errors import PySparkException  # lazy: an optional dependency
    from pyspark.sql.types import StructType  # lazy: an optional dependency

    name = str(source.data)
    if Path(name).is_file() and _files_are_local(spark):
        return [Path(name).absolute()]
    try:
        frame = spark.read.options(**source.options).schema(StructType([])).parquet(name)
        if frame.columns:
            return None
        found = [urlsplit(file) for file in frame.inputFiles()]
    except PySparkException:
        return None
    if any(file.scheme != "file" for file in found):
        return None
    return sorted(Path(unquote(file.path)) for file in found)


def _files_are_local(spark: "SparkSession") -> bool:
    """Whether a path without scheme means a local file."""
    default = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
    return str(default).startswith("file:")


def _splits(path: Path, schema: Schema) -> tuple[list[tuple[Any, Split]], int] | None:
    """The splits of a file, each with the lowest first word of its key if known, and its rows."""
    try:
        with pq.ParquetFile(path, memory_map=True, coerce_int96_timestamp_unit=INT96_UNIT) as file:
            given, metadata = file.schema_arrow, file.metadata
            columns = [given.names[i] for i in resolve(given, schema)]
            encoded = [name for name in repetitive_columns(file) if name in columns]
    except (OSError, pa.ArrowException, ProgrammingError):
        return None
    if _is_rebased(metadata.metadata or {}, schema):
        return None
    key = _order(schema, given, columns)
    found: list[tuple[Any, Split]] = []
    row, filled = 0, SPLIT_BYTES
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        lowest = _lowest(group, key)
        if group.num_rows and filled + group.total_byte_size > SPLIT_BYTES:
            split = Split(
                target="", path=str(path), groups=[], row=row, columns=columns, key=key, encoded=encoded
            )
            found.append((lowest, split))
            filled = 0
        if group.num_rows:
            before, split = found[-1]
            split["groups"].append(number)
            found[-1] = (None if before is None or lowest is None else min(before, lowest), split)
            filled += group.total_byte_size
        row += group.num_rows
    return found, row


def _order(schema: Schema, given: pa.Schema, columns: Sequence[str]) -> list[str]:
    """The file's names of the columns that rows are to be in the order of."""
    ordering = order_key(schema)
    names = dict(zip(schema.names, columns, strict=True))
    key = [names[column.name] for column in ordering.columns] if ordering else []
    return [] if any(pa.types.is_null(given.field(name).type) for name in key) else key


def _is_rebased(about: dict[bytes, bytes], schema: Schema) -> bool:
    """Whether pyarrow could read other dates than Spark."""
    if not any(column.type.kind in MOMENTS for column in schema.columns):
        return False
    return any(mark in about for mark in REBASED) or about.get(WRITER, b"9")[:2] in (b"1.", b"2.")


def _lowest(group: pq.RowGroupMetaData, key: Sequence[str]) -> Any:
    """The lowest value of the key's first column in a row group; None if that is not written down."""
    for i in range(group.num_columns):
        column = group.column(i)
        if key and column.path_in_schema == key[0]:
            statistics = column.statistics
            return statistics.min if statistics is not None and statistics.has_min_max else None
    return None


def _by_lowest(splits: list[tuple[Any, Split]]) -> list[tuple[Any, Split]]:
    """The splits by their lowest keys; as they are, where those are not known."""
    if any(lowest is None for lowest, _ in splits):
        return splits
    try:
        return sorted(splits, key=lambda split: split[0])
    except TypeError:  # files differ in the type of their keys
        return splits


OWNER: Final = "kpg owner"


def owned(split: Split, schema: Schema, berth: Berth) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in the order of their key, with the number of each one's worker at the end.

    RuntimeError that begins with ``FAILED`` if they cannot be read, or are not of the schema.
    """
    pa.set_cpu_count(1)  # a task has one core
    dictionary = Dictionary()
    owners = Owners(dictionary, len(berth.places), apart=True)
    column = schema.columns[berth.home]
    try:
        for batch in rows(split):
            require_values(batch, schema, Place(split["path"]))
            given = batch.column(split["columns"][berth.home])
            home = pa.RecordBatch.from_arrays([given], names=[column.name])
            words = encode(home, Schema((column,)), dictionary)[0]
            found = owners.of(words, interned=column.type.is_interned)
            yield batch.append_column(OWNER, pa.array(found.astype(np.int32)))
    except (OSError, pa.ArrowException, DataError) as error:
        raise RuntimeError(f"{FAILED} table {berth.table}: {split['path']}: {error}") from error


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
    from pyspark.errors import AnalysisException  # lazy: an optional dependency

    spark.sparkContext.setJobGroup(group, f"kpg load of {source.table}")
    frame = frame_of(spark, source)
    names = resolve_columns(frame, source.schema, source.table)
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
        return chunks(self.part.splits, self.job, self.source.table, self.source.schema)


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
        by_tasks = any(map(is_direct, sources)) and can_read(self._spark)
        plans = list(self._pool.map(partial(self._plan, by_tasks), range(len(ordered)), ordered))
        splits = [split for plan in plans if isinstance(plan, Part) for split in plan.splits]
        handing_over: Future[None] = Future()
        if splits:
            handing_over = self._pool.submit(run, self._spark, splits, self._folder.name)
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
        part = plan(self._spark, source, folder) if by_tasks else None
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
