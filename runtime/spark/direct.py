"""Which sources are read by the executors as row groups of parquet files, and in what splits.

These are plain parquet files on file systems that every executor sees, with columns that need no cast. Spark
lists them and runs the tasks; the tasks read by pyarrow (see ``tasks``). Other sources go through Spark SQL.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from kpg.runtime.convert.arrow import resolve
from kpg.runtime.convert.files import repetitive_columns
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.records import dataclass
from kpg.runtime.spark.order import order_key
from kpg.runtime.spark.source import Source, format_of, is_frame
from kpg.runtime.spark.tasks import INT96_UNIT, Split
from kpg.runtime.types import Kind, Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

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
