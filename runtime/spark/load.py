"""Bulk load through Spark: any source that Spark reads, to columnar files that pyarrow maps, in key order.

The executors check, cast, sort and write; the driver sees file names. All schemas are checked before any
job starts, and nothing is handed out before every table is written.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpg.runtime.convert.arrow import encode
from kpg.runtime.convert.files import parquet_chunks
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, Error, OperationalError
from kpg.runtime.spark.cast import MARKED, label, project, resolve
from kpg.runtime.spark.session import opened
from kpg.runtime.types import INTEGER_KINDS, Kind, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Words = NDArray[np.int64]

SORTED_KINDS: Final = INTEGER_KINDS | {Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP}
FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".orc": "orc"}
JOBS_AT_ONCE: Final = 2
FEW_PARTITIONS: Final = 2
CHUNK_ROWS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """What to load into a table: a Spark DataFrame, a path, or the name of a table in Spark's catalog.

    ``format`` and ``options`` are those of ``spark.read``, for paths; the format is told by the suffix if
    not given. CSV is read with a header unless ``options`` say otherwise.
    """

    table: str
    data: Any
    schema: Schema
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


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
) -> Iterator[tuple[str, pa.Table]]:
    """Table names and chunks of their rows, table by table, each in the order of an integer or date key.

    ``directory`` is where the hand-over files go for a while; executors on other machines need one that
    they share with the driver. Raises, before the first chunk, ProgrammingError for a schema that does not
    match, DataError for a value that does not fit, OperationalError if Spark is missing or fails.
    """
    with tempfile.TemporaryDirectory(prefix="kpg-load-", dir=directory, ignore_cleanup_errors=True) as folder:
        frame = next((source.data for source in sources if is_frame(source.data)), None)
        with opened(session or (frame.sparkSession if frame is not None else None)) as spark:
            if directory is None and not spark.sparkContext.master.startswith("local"):
                raise OperationalError(
                    f"the executors of {spark.sparkContext.master} cannot write to a folder of this machine",
                    hint="give directory= a folder that driver and executors share",
                )
            _write_all(spark, sources, Path(folder), progress)
        for number, source in enumerate(sources):
            for table in _read(Path(folder, str(number)), source.table, progress):
                yield source.table, table


def _write_all(
    spark: "SparkSession",
    sources: Sequence[Source],
    folder: Path,
    progress: Callable[[Progress], None] | None,
) -> None:
    """Write every source's rows to a numbered subfolder, two jobs at a time."""
    prepared = [_prepared(spark, source) for source in sources]
    with ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        jobs = [pool.submit(_write, frame, folder / str(i)) for i, frame in enumerate(prepared)]
        try:
            for source, job in zip(sources, jobs, strict=True):
                if progress is not None:
                    progress(Progress(source.table, "writing", 0, 0))
                job.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def is_frame(data: Any) -> bool:
    """Whether something is a Spark DataFrame, without importing pyspark."""
    return type(data).__module__.startswith("pyspark.sql.") and hasattr(data, "sparkSession")


def _prepared(spark: "SparkSession", source: Source) -> "DataFrame":
    """The source's rows cast, checked, and sorted by an integer or date key.

    Few partitions become one: to find the bounds of ranges, Spark would read the source twice.
    """
    from pyspark.errors import AnalysisException

    frame = _frame(spark, source)
    names = resolve(frame, source.schema, source.table)
    try:
        projected = project(frame, names, source.schema, source.table, with_file=True)
    except AnalysisException:
        projected = project(frame, names, source.schema, source.table, with_file=False)
    key = [source.schema.columns[i] for i in source.schema.primary_key]
    if not key or any(column.type.kind not in SORTED_KINDS for column in key):
        return projected
    keys = [f"`{column.name}`" for column in key]
    partitions = spark.sparkContext.defaultParallelism
    if not is_frame(source.data):
        partitions = frame.rdd.getNumPartitions()
    if partitions <= FEW_PARTITIONS:
        return projected.coalesce(1).sortWithinPartitions(*keys)
    return projected.repartitionByRange(partitions, *keys).sortWithinPartitions(*keys)


def _frame(spark: "SparkSession", source: Source) -> "DataFrame":
    if is_frame(source.data):
        return source.data
    from pyspark.errors import PySparkException

    name = str(source.data)
    form = source.format or FORMATS.get(Path(name).suffix.lower()) or _format_of_folder(Path(name))
    try:
        if form is None:
            return spark.table(name)
        options = {"mode": "FAILFAST", **({"header": "true"} if form == "csv" else {}), **source.options}
        frame = spark.read.format(form).options(**options).load(name)
    except PySparkException as error:
        raise OperationalError(
            f"{label(source.table)}Spark cannot read {name}: {_first_line(error)}",
            hint="give an existing path (and format=), a table of Spark's catalog, or a DataFrame",
        ) from error
    has_names = options.get("header", "true").lower() == "true"
    if has_names or len(frame.columns) != len(source.schema.columns):
        return frame
    return frame.toDF(*source.schema.names)


def _format_of_folder(folder: Path) -> str | None:
    """The format of the first file in a folder whose suffix tells one."""
    if not folder.is_dir():
        return None
    suffixes = (file.suffix.lower() for file in sorted(folder.rglob("*")))
    return next((FORMATS[suffix] for suffix in suffixes if suffix in FORMATS), None)


def _write(frame: "DataFrame", folder: Path) -> None:
    try:
        frame.write.parquet(folder.as_uri(), mode="overwrite", compression="uncompressed")
    except Exception as error:
        raise _translated(error) from error


def _translated(error: Exception) -> Error:
    """The message that an executor raised, out of Spark's wrapping."""
    told = MARKED.search(str(error))
    if told:
        hint = "nothing was loaded; correct the value in the source, or widen the column"
        return DataError(told.group(1), hint=hint)
    if "MALFORMED" in str(error):
        return DataError(f"Spark cannot parse the source: {_first_line(error)}", hint="nothing was loaded")
    return OperationalError(f"Spark failed: {_first_line(error)}", hint="nothing was loaded")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


def _read(folder: Path, table: str, progress: Callable[[Progress], None] | None) -> Iterator[pa.Table]:
    """The written files, in the order of their partitions."""
    files = sorted(folder.glob("part-*.parquet"))
    total = sum(pq.read_metadata(file).num_rows for file in files)
    rows = 0
    for file in files:
        for chunk in parquet_chunks(file, CHUNK_ROWS):
            yield chunk
            rows += chunk.num_rows
            if progress is not None:
                progress(Progress(table, "reading", rows, total))
