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

from kpg.compiler.sql.rewrite.external_tables import Files, named_type
from kpg.execute.changes.table_writes import completed, may_omit, new_rows
from kpg.runtime.convert import files
from kpg.runtime.convert import files as reading
from kpg.runtime.convert.arrow import encode
from kpg.runtime.convert.csv_format import SAMPLE_ROWS, Given, sniff
from kpg.runtime.convert.files import parquet_columns, schema_of, table_of
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, InterfaceError, OperationalError, ProgrammingError, Span
from kpg.runtime.executor import Landing
from kpg.runtime.handles import Berth
from kpg.runtime.progress_report import work
from kpg.runtime.records import dataclass
from kpg.runtime.spark import load as load_spark
from kpg.runtime.spark.load import send, told_by_one
from kpg.runtime.spark.session import might_be_there, might_have_format, unavailable
from kpg.runtime.spark.source import Source as LoadSource
from kpg.runtime.spark.source import is_frame
from kpg.runtime.types import Schema, Type
from kpg.session.base_table import Table
from kpg.session.engine import Engine

Words = NDArray[np.int64]


Progress = Callable[[str, int], object]
"""Told of a table and the number of its rows that are loaded so far; 0 while Spark is at work on it."""

MODES: Final = ("spark", "arrow")
FORMATS: Final = {".parquet": "parquet", ".csv": "csv"}
SPARK_FROM: Final = 1 << 28
"""Bytes from which a local file is loaded through Spark unless ``mode`` says otherwise."""
log = logging.getLogger("kpg")


def load(engine: Engine, table: Table, source: Any, mode: str | None, progress: Progress | None) -> int:
    """Append a source's rows to a table; how many. As :func:`load_all`."""
    return load_all(engine, [(table, source)], mode, progress)[table.name]


def load_all(
    engine: Engine, sources: Sequence[tuple[Table, Any]], mode: str | None, progress: Progress | None
) -> dict[str, int]:
    """Append each source's rows to its table; how many, by table. Nothing is committed.

    Spark data frames go through Spark; so do files, unless ``mode`` is ``"arrow"``, or there is no mode
    and the file is local and small, or Spark cannot run here, which is logged. What is in memory goes
    through Arrow.
    """
    if mode is not None and mode not in MODES:
        raise InterfaceError(f"unknown load mode {mode!r}", hint="the modes are 'spark' and 'arrow'")
    through_spark = [(table, source) for table, source in sources if _goes_through_spark(source, mode)]
    landing = through_spark[0][0].landing if through_spark else None
    partial = [
        (table, source)
        for table, source in through_spark
        if _given(engine, table, source) is not table.schema
    ]
    whole = [one for one in through_spark if one not in partial]
    counts = dict[str, int]()
    if whole and landing is not None:
        counts |= _land(landing, whole, progress)
    elif whole:
        counts |= _load_spark(engine, whole, progress)
    if partial:  # workers know no DEFAULTs
        counts |= _load_spark(engine, partial, progress)
    for table, source in sources:
        if table.name not in counts:
            counts[table.name] = _append(table, _chunks(engine, table, source), progress)
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
    if not might_be_there(str(source)):
        raise files.missing(f"no file {source}")  # Spark would start first, and say so seconds later
    if not might_have_format(str(source)):
        raise _unknown(source)
    problem = unavailable()
    if problem is not None and mode == "spark":
        raise problem
    if problem is not None:
        log.warning("loading %s through pyarrow: %s", source, problem.message)
    return problem is None


def _is_small_file(source: str | Path) -> bool:
    """Whether a local file is read sooner than Spark starts."""
    path = Path(source)
    return path.suffix.lower() in FORMATS and path.is_file() and path.stat().st_size < SPARK_FROM


def _given(engine: Engine, table: Table, source: Any) -> Schema:
    """The columns of a table without those that a Spark data frame omits and may omit."""
    schema = table.schema
    if not is_frame(source):
        return schema
    given = {name.lower() for name in source.columns}
    allowed = may_omit(engine, table).allowed
    names = enumerate(schema.names)
    places = [place for place, name in names if name.lower() in given or place not in allowed]
    if len(places) == len(schema.columns):
        return schema
    key = tuple(places.index(place) for place in schema.primary_key if place in places)
    columns = tuple(schema.columns[place] for place in places)
    return Schema(columns, key if len(key) == len(schema.primary_key) else ())


def _load_spark(
    engine: Engine, sources: Sequence[tuple[Table, Any]], progress: Progress | None
) -> dict[str, int]:
    tables = {table.name: table for table, _ in sources}
    wanted = [LoadSource(table.name, source, _given(engine, table, source)) for table, source in sources]
    counts = dict.fromkeys(tables, 0)

    def written(stage: load_spark.Progress) -> None:
        if progress is not None and stage.stage == "writing":
            progress(stage.table, 0)

    with (
        closing(load_spark.load_tables(wanted, progress=written)) as chunks,
        work("loading", "rows") as tell,
    ):
        for chunk in chunks:
            table = tables[chunk.table]
            omitted = may_omit(engine, table)
            words = encode(chunk.rows, table.schema, table.dictionary, chunk.origin, omitted)
            table.load(completed(engine, table, words, omitted))
            counts[table.name] += chunk.rows.num_rows
            tell(sum(counts.values()), note=table.name)
            if progress is not None:
                progress(table.name, counts[table.name])
    return counts


def _land(
    landing: Landing, sources: Sequence[tuple[Table, Any]], progress: Progress | None
) -> dict[str, int]:
    """Have Spark's tasks send rows to the workers that own them."""
    counts: dict[str, int] = {}
    given = [(table, LoadSource(table.name, data, table.schema)) for table, data in sources]
    with ExitStack() as stack:
        coming = []
        for table, source in given:
            berth = landing.open(table.name)
            stack.callback(landing.close, berth)
            coming.append((source, berth))
            if progress is not None:
                progress(table.name, 0)
        sent = send(coming)
        for (table, source), (_, berth) in zip(given, coming, strict=True):
            counts[table.name] = _take(landing, table, source, berth, sent[berth.load])
            if progress is not None:
                progress(table.name, counts[table.name])
    return counts


def _take(landing: Landing, table: Table, source: Any, berth: Berth, attempts: Sequence[int]) -> int:
    try:
        taken = landing.take(berth, attempts, table.rules)
    except DataError:
        told_by_one(source)
        raise
    for words in taken.left:
        table.load(words)
    if taken.rowids is not None:
        table.landed(taken.rowids)
    return taken.rows


def _chunks(engine: Engine, table: Table, source: Any) -> Iterator[Words]:
    if not isinstance(source, str | Path):
        return iter([new_rows(engine, table, source)])
    read = files.read_parquet if format_of(source) == "parquet" else files.read_csv
    omitted = may_omit(engine, table)
    chunks = read(source, table.schema, table.dictionary, omitted=omitted)
    return (completed(engine, table, words, omitted) for words in chunks)


def format_of(source: str | Path) -> str:
    """``parquet`` or ``csv``, by the ends of the names; OperationalError if they do not tell."""
    files.check_path(source)
    path = Path(source)
    found = {path.suffix.lower()}
    if path.is_dir():
        found = {file.suffix.lower() for file in path.rglob("*")}
    known = {FORMATS[suffix] for suffix in found if suffix in FORMATS}
    if len(known) == 1:
        return known.pop()
    raise _unknown(source)


def _unknown(source: str | Path) -> OperationalError:
    return OperationalError(
        f"cannot tell the format of {source}", hint="name it .parquet or .csv, or load a data frame"
    )


def _append(table: Table, chunks: Iterator[Words], progress: Progress | None) -> int:
    rows = 0
    with work(f"loading {table.name}", "rows") as tell:
        for words in chunks:
            table.load(words)
            rows += words.shape[1]
            tell(rows)
            if progress is not None:
                progress(table.name, rows)
    return rows


Chunks = Callable[[Dictionary], Iterator[Words]]

ALWAYS: Final[Mapping[str, tuple[Any, ...]]] = {
    "auto_detect": (True,),
    "compression": ("auto", "gzip", "none"),
    "escape": ('"',),
    "union_by_name": (False,),
}
"""Options of DuckDB's that say what is so in any case, with the values that do."""


@dataclass(frozen=True, slots=True)
class Source:
    """Columns, and the rows as chunks of words ``int64[ncols, n]``."""

    schema: Schema
    chunks: Chunks
    otherwise: "Callable[[], Source] | None" = None
    """Another reading, to be tried if a value does not fit its column."""


def of_data(data: Any, name: str) -> Source:
    """Data in memory: an Arrow table, a frame, a dict of columns, a list of dicts."""
    table: pa.Table = table_of(data)
    schema = schema_of(table.schema, name)
    return Source(schema, lambda dictionary: iter([encode(table, schema, dictionary)]))


def of_path(path: str | Path) -> Source:
    """A file, a folder or glob of files, whose names end in what they are."""
    span = Span(str(path), 0, len(str(path)))
    return of_files(Files((str(path),), format_of(path), (), span))


def of_files(files: Files) -> Source:
    """Files as a statement names them. ProgrammingError for options that there are not."""
    if files.format == "csv":
        return _of_csv(files, _given_source(files))
    for name, _ in files.options:
        raise ProgrammingError(f'option "{name}" is for CSV only', span=files.span)
    schema = parquet_columns(files.paths[0])

    def chunks(dictionary: Dictionary) -> Iterator[Words]:
        for path in files.paths:
            yield from reading.read_parquet(path, schema, dictionary)

    return Source(schema, chunks)


def _of_csv(files: Files, given: Given) -> Source:
    paths = [found for path in files.paths for found in reading.expand(path, ".csv")]
    sniffed = [sniff(path, given) for path in paths]
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
        return _of_csv(files, _given_source(files, sample=None))

    return Source(first, chunks, None if given.sample is None else with_all_rows)


def _given_source(files: Files, sample: int | None = SAMPLE_ROWS) -> Given:
    """What the options of a ``read_csv`` say."""
    said: dict[str, Any] = {"sample": sample}
    for name, value in files.options:
        match name, value:
            case (("delim" | "sep" | "delimiter"), str()) if len(value.replace("\\t", "\t")) == 1:
                said["delimiter"] = value.replace("\\t", "\t")
            case "header", bool():
                said["header"] = value
            case "quote", str() if len(value) == 1:
                said["quote"] = value
            case (("nullstr" | "null"), str()):
                said["null"] = value
            case "skip", int() if value >= 0:
                said["skip"] = value
            case (("names" | "column_names"), tuple()):
                said["names"] = value
            case "columns", tuple():
                said["names"] = tuple(column for column, _ in value)
                said["types"] = _types(value, files)
            case (("types" | "dtypes" | "column_types"), tuple()):
                said["types"] = _types(value, files)
            case "all_varchar", bool():
                said["text_only"] = value
            case "sample_size", int() if value == -1 or value > 0:
                said["sample"] = None if value < 0 or sample is None else value
            case _ if value not in ALWAYS.get(name, ()):
                known = "delim, header, quote, nullstr, skip, names, columns, types, all_varchar, sample_size"
                raise ProgrammingError(
                    f"read_csv does not take {name} = {value!r}", span=files.span, hint=f"it takes {known}"
                )
    return Given(**said)


def _types(pairs: Sequence[tuple[str, str]], files: Files) -> tuple[tuple[str, Type], ...]:
    return tuple((column, named_type(type_, files)) for column, type_ in pairs)
