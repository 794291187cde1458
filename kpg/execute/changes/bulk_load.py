"""Bulk loads: files through Spark or pyarrow, data in memory through Arrow.

A load only appends rows. Its caller commits it or rolls all of it back. ``Source`` also derives the columns
of a new table from a file or a data frame. The column types of a CSV file are inferred from a sample of its
rows, and from all rows if a value does not fit the sample's types.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpg.compiler.sql.rewrite.external_tables import Files, option_type
from kpg.execute.changes.table_pipeline import load_rows, load_rules
from kpg.execute.changes.table_writes import encode_rows, fill_omitted, omissible_columns
from kpg.runtime.convert import files
from kpg.runtime.convert import files as reading
from kpg.runtime.convert.arrow import encode_table
from kpg.runtime.convert.csv_format import SAMPLE_ROWS, CsvHints, sniff
from kpg.runtime.convert.files import parquet_columns, schema_of, table_of
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InterfaceError, OperationalError, ProgrammingError, Span
from kpg.runtime.executor import LoadStaging
from kpg.runtime.handles import LoadTarget
from kpg.runtime.progress_report import report_progress
from kpg.runtime.records import dataclass
from kpg.runtime.spark import load as load_spark
from kpg.runtime.spark.load import raise_load_error, send_tables
from kpg.runtime.spark.session import may_exist, may_have_format, unavailability_error
from kpg.runtime.spark.source import Source as LoadSource
from kpg.runtime.spark.source import is_frame
from kpg.runtime.types import Schema, Type
from kpg.session.base_table import Table
from kpg.session.engine import Engine

Words = NDArray[np.int64]


Progress = Callable[[str, int], object]
"""Callback with a table and its number of rows loaded so far; 0 while Spark runs."""

MODES: Final = ("spark", "arrow")
FORMATS: Final = {".parquet": "parquet", ".csv": "csv"}
SPARK_MIN_BYTES: Final = 1 << 28
"""Size from which a local file is loaded through Spark, unless ``mode`` is given."""
log = logging.getLogger("kpg")


def load(engine: Engine, table: Table, source: Any, mode: str | None, progress: Progress | None) -> int:
    """Append a source's rows to a table and return their number; see :func:`load_all`."""
    return load_all(engine, [(table, source)], mode, progress)[table.name]


def load_all(
    engine: Engine, sources: Sequence[tuple[Table, Any]], mode: str | None, progress: Progress | None
) -> dict[str, int]:
    """Append each source's rows to its table and return the row counts by table. Nothing is committed.

    Spark data frames are loaded through Spark. So are files, unless ``mode`` is ``"arrow"``, the file
    is local and small, or Spark is not available, which is logged. Data in memory is loaded through
    Arrow.
    """
    if mode is not None and mode not in MODES:
        raise InterfaceError(f"unknown load mode {mode!r}", hint="the modes are 'spark' and 'arrow'")
    spark_sources = [(table, source) for table, source in sources if _goes_through_spark(source, mode)]
    staging = spark_sources[0][0].load_staging if spark_sources else None
    incomplete = [
        (table, source)
        for table, source in spark_sources
        if _present_columns(engine, table, source) is not table.schema
    ]
    complete = [pair for pair in spark_sources if pair not in incomplete]
    counts = dict[str, int]()
    if complete and staging is not None:
        counts |= _load_staged(engine, staging, complete, progress)
    elif complete:
        counts |= _load_spark(engine, complete, progress)
    if incomplete:  # workers cannot compute DEFAULTs
        counts |= _load_spark(engine, incomplete, progress)
    for table, source in sources:
        if table.name not in counts:
            counts[table.name] = _append(engine, table, _chunks(engine, table, source), progress)
    return counts


def _goes_through_spark(source: Any, mode: str | None) -> bool:
    if is_frame(source):
        if mode == "arrow":
            raise InterfaceError("a Spark data frame cannot be loaded without Spark", hint="leave mode out")
        return True
    if not isinstance(source, str | Path):
        if mode == "spark":
            raise InterfaceError(
                f"Spark cannot load a {type(source).__name__}", hint="give a Spark data frame or a path"
            )
        return False
    files.check_path(source)
    if mode == "arrow" or (mode is None and _is_small_file(source)):
        return False
    if not may_exist(str(source)):
        raise files.missing_file_error(f"no file {source}")  # Spark reports this only after it has started
    if not may_have_format(str(source)):
        raise _unknown_format(source)
    problem = unavailability_error()
    if problem is not None and mode == "spark":
        raise problem
    if problem is not None:
        log.warning("loading %s through pyarrow: %s", source, problem.message)
    return problem is None


def _is_small_file(source: str | Path) -> bool:
    """Whether reading a local file takes less time than starting Spark."""
    path = Path(source)
    return path.suffix.lower() in FORMATS and path.is_file() and path.stat().st_size < SPARK_MIN_BYTES


def _present_columns(engine: Engine, table: Table, source: Any) -> Schema:
    """Return the table's columns without the omissible ones that a Spark data frame lacks."""
    schema = table.schema
    if not is_frame(source):
        return schema
    present = {name.lower() for name in source.columns}
    allowed = omissible_columns(engine, table).allowed
    names = enumerate(schema.names)
    places = [place for place, name in names if name.lower() in present or place not in allowed]
    if len(places) == len(schema.columns):
        return schema
    key = tuple(places.index(place) for place in schema.primary_key if place in places)
    columns = tuple(schema.columns[place] for place in places)
    return Schema(columns, key if len(key) == len(schema.primary_key) else ())


def _load_spark(
    engine: Engine, sources: Sequence[tuple[Table, Any]], progress: Progress | None
) -> dict[str, int]:
    tables = {table.name: table for table, _ in sources}
    load_sources = [
        LoadSource(table.name, source, _present_columns(engine, table, source)) for table, source in sources
    ]
    counts = dict.fromkeys(tables, 0)

    def report_writing(stage: load_spark.Progress) -> None:
        if progress is not None and stage.stage == "writing":
            progress(stage.table, 0)

    with (
        closing(load_spark.load_tables(load_sources, progress=report_writing)) as chunks,
        report_progress("loading", "rows") as report,
    ):
        for chunk in chunks:
            table = tables[chunk.table]
            omitted = omissible_columns(engine, table)
            words = encode_table(chunk.rows, table.schema, table.dictionary, chunk.origin, omitted)
            load_rows(engine, table, fill_omitted(engine, table, words, omitted))
            counts[table.name] += chunk.rows.num_rows
            report(sum(counts.values()), note=table.name)
            if progress is not None:
                progress(table.name, counts[table.name])
    return counts


def _load_staged(
    engine: Engine, staging: LoadStaging, sources: Sequence[tuple[Table, Any]], progress: Progress | None
) -> dict[str, int]:
    """Load rows from Spark's tasks directly into the workers that own them."""
    counts: dict[str, int] = {}
    load_sources = [(table, LoadSource(table.name, data, table.schema)) for table, data in sources]
    with ExitStack() as stack:
        targets = []
        for table, source in load_sources:
            target = staging.open(table.name)
            stack.callback(staging.close, target)
            targets.append((source, target))
            if progress is not None:
                progress(table.name, 0)
        sent = send_tables(targets)
        for (table, source), (_, target) in zip(load_sources, targets, strict=True):
            counts[table.name] = _commit_staged(engine, staging, table, source, target, sent[target.load])
            if progress is not None:
                progress(table.name, counts[table.name])
    return counts


def _commit_staged(
    engine: Engine,
    staging: LoadStaging,
    table: Table,
    source: Any,
    target: LoadTarget,
    attempts: Sequence[int],
) -> int:
    try:
        loaded = staging.commit_load(target, attempts, load_rules(engine, table))
    except DataError:
        raise_load_error(source)
        raise
    for words in loaded.remaining:
        load_rows(engine, table, words)
    if loaded.rowids is not None:
        table.record_load(loaded.rowids)
    return loaded.rows


def _chunks(engine: Engine, table: Table, source: Any) -> Iterator[Words]:
    if not isinstance(source, str | Path):
        return iter([encode_rows(engine, table, source)])
    read = files.read_parquet if format_of(source) == "parquet" else files.read_csv
    omitted = omissible_columns(engine, table)
    chunks = read(source, table.schema, table.dictionary, omitted=omitted)
    return (fill_omitted(engine, table, words, omitted) for words in chunks)


def format_of(source: str | Path) -> str:
    """Return ``parquet`` or ``csv`` by the file names; OperationalError if they do not say."""
    files.check_path(source)
    path = Path(source)
    found = {path.suffix.lower()}
    if path.is_dir():
        found = {file.suffix.lower() for file in path.rglob("*")}
    known = {FORMATS[suffix] for suffix in found if suffix in FORMATS}
    if len(known) == 1:
        return known.pop()
    raise _unknown_format(source)


def _unknown_format(source: str | Path) -> OperationalError:
    return OperationalError(
        f"cannot tell the format of {source}", hint="name it .parquet or .csv, or load a data frame"
    )


def _append(engine: Engine, table: Table, chunks: Iterator[Words], progress: Progress | None) -> int:
    rows = 0
    with report_progress(f"loading {table.name}", "rows") as report:
        for words in chunks:
            rows += load_rows(engine, table, words)
            report(rows)
            if progress is not None:
                progress(table.name, rows)
    return rows


Chunks = Callable[[Dictionary], Iterator[Words]]

FIXED_OPTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "auto_detect": (True,),
    "compression": ("auto", "gzip", "none"),
    "escape": ('"',),
    "union_by_name": (False,),
}
"""DuckDB options that are accepted with the values that describe the fixed behaviour."""


@dataclass(frozen=True, slots=True)
class Source:
    """Columns, and the rows as chunks of words ``int64[ncols, n]``."""

    schema: Schema
    chunks: Chunks
    fallback: "Callable[[], Source] | None" = None
    """Alternative source, for a value that does not fit its column."""


def source_from_data(data: Any, name: str) -> Source:
    """Return a source for data in memory: an Arrow table, a frame, a dict of columns, or a list of dicts."""
    table: pa.Table = table_of(data)
    schema = schema_of(table.schema, name)
    return Source(schema, lambda dictionary: iter([encode_table(table, schema, dictionary)]))


def source_from_path(path: str | Path) -> Source:
    """Return a source for a file, or for a folder or glob of files, in the format of their extension."""
    span = Span(str(path), 0, len(str(path)))
    return source_from_files(Files((str(path),), format_of(path), (), span))


def source_from_files(files: Files) -> Source:
    """Return a source for the files of a statement; ProgrammingError for unknown options."""
    if files.format == "csv":
        return _csv_source(files, _parse_csv_options(files))
    for name, _ in files.options:
        raise ProgrammingError(f'option "{name}" is for CSV only', span=files.span)
    schema = parquet_columns(files.paths[0])

    def chunks(dictionary: Dictionary) -> Iterator[Words]:
        for path in files.paths:
            yield from reading.read_parquet(path, schema, dictionary)

    return Source(schema, chunks)


def _csv_source(files: Files, options: CsvHints) -> Source:
    paths = [found for path in files.paths for found in reading.expand_path(path, ".csv")]
    sniffed = [sniff(path, options) for path in paths]
    first = sniffed[0].schema
    for path, other in zip(paths, sniffed, strict=True):
        if len(other.schema.columns) != len(first.columns):
            raise OperationalError(
                f"{path} has {len(other.schema.columns)} columns, {paths[0]} has {len(first.columns)}",
                hint="read them one by one",
            )
    if not first.columns:
        raise OperationalError(f"{paths[0]} is empty: its columns cannot be told", hint="say columns = {...}")

    def chunks(dictionary: Dictionary) -> Iterator[Words]:
        for path, found in zip(paths, sniffed, strict=True):
            yield from reading.read_csv(path, first, dictionary, found.options)

    def with_all_rows() -> Source:
        return _csv_source(files, _parse_csv_options(files, sample=None))

    return Source(first, chunks, None if options.sample is None else with_all_rows)


def _parse_csv_options(files: Files, sample: int | None = SAMPLE_ROWS) -> CsvHints:
    """Return the options of a ``read_csv`` call."""
    options: dict[str, Any] = {"sample": sample}
    for name, value in files.options:
        match name, value:
            case (("delim" | "sep" | "delimiter"), str()) if len(value.replace("\\t", "\t")) == 1:
                options["delimiter"] = value.replace("\\t", "\t")
            case "header", bool():
                options["header"] = value
            case "quote", str() if len(value) == 1:
                options["quote"] = value
            case (("nullstr" | "null"), str()):
                options["null"] = value
            case "skip", int() if value >= 0:
                options["skip"] = value
            case (("names" | "column_names"), tuple()):
                options["names"] = value
            case "columns", tuple():
                options["names"] = tuple(column for column, _ in value)
                options["types"] = _types(value, files)
            case (("types" | "dtypes" | "column_types"), tuple()):
                options["types"] = _types(value, files)
            case "all_varchar", bool():
                options["text_only"] = value
            case "sample_size", int() if value == -1 or value > 0:
                options["sample"] = None if value < 0 or sample is None else value
            case _ if value not in FIXED_OPTIONS.get(name, ()):
                known = "delim, header, quote, nullstr, skip, names, columns, types, all_varchar, sample_size"
                raise ProgrammingError(
                    f"read_csv does not take {name} = {value!r}", span=files.span, hint=f"it takes {known}"
                )
    return CsvHints(**options)


def _types(pairs: Sequence[tuple[str, str]], files: Files) -> tuple[tuple[str, Type], ...]:
    return tuple((column, option_type(type_, files)) for column, type_ in pairs)
