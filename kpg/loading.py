"""Bulk loads: files through Spark or pyarrow, data in memory through Arrow; COPY in and out.

A load only appends to the table; its caller commits it, or rolls all of it back.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow
from numpy.typing import NDArray

from kpg.compiler.sql import statements as ast
from kpg.runtime.convert import files
from kpg.runtime.convert.arrow import encode, from_any
from kpg.runtime.errors import InterfaceError, OperationalError, ProgrammingError
from kpg.runtime.spark import load as load_spark
from kpg.runtime.spark.session import unavailable
from kpg.runtime.types import NULL, Schema, Type
from kpg.table import Table

Words = NDArray[np.int64]
Progress = Callable[[str, int], object]
"""Told of a table and the number of its rows that are loaded so far; 0 while Spark is at work on it."""

MODES: Final = ("spark", "arrow")
FORMATS: Final = {".parquet": "parquet", ".csv": "csv"}
SPARK_FROM: Final = 1 << 28
"""Bytes from which a local file is loaded through Spark unless ``mode`` says otherwise."""
log = logging.getLogger("kpg")


def load(table: Table, source: Any, mode: str | None, progress: Progress | None) -> int:
    """Append a source's rows to a table; how many. As :func:`load_all`."""
    return load_all([(table, source)], mode, progress)[table.name]


def load_all(
    sources: Sequence[tuple[Table, Any]], mode: str | None, progress: Progress | None
) -> dict[str, int]:
    """Append each source's rows to its table; how many, by table. Nothing is committed.

    Spark data frames go through Spark; so do files, unless ``mode`` is ``"arrow"``, or there is no mode
    and the file is local and small, or Spark cannot run here, which is logged. What is in memory goes
    through Arrow.
    """
    if mode is not None and mode not in MODES:
        raise InterfaceError(f"unknown load mode {mode!r}", hint="the modes are 'spark' and 'arrow'")
    through_spark = [(table, source) for table, source in sources if _goes_through_spark(source, mode)]
    counts = _load_spark(through_spark, progress) if through_spark else {}
    for table, source in sources:
        if table.name not in counts:
            counts[table.name] = _append(table, _chunks(table, source), progress)
    return counts


def copy_from(table: Table, statement: ast.CopyFrom) -> int:
    """COPY FROM: append a file's rows; columns that are not listed become NULL."""
    schema, places = _chosen(table.schema, statement)
    if statement.format == "parquet":
        if statement.options:
            raise ProgrammingError(
                f'COPY option "{statement.options[0][0]}" is for CSV only', span=statement.span
            )
        chunks = files.read_parquet(statement.path, schema, table.dictionary)
    else:
        options = csv_options(statement)
        if "header" not in dict(statement.options):
            options = replace(options, header=_has_header(statement.path, schema, options))
        chunks = files.read_csv(statement.path, schema, table.dictionary, options)
    return _append(table, (_placed(chunk, places, len(table.schema.columns)) for chunk in chunks), None)


def _has_header(path: str, schema: Schema, options: files.CsvOptions) -> bool:
    """Whether a file's first line has the names of columns; if it cannot be read as it is, it has."""
    try:
        row = files.csv_names(files.expand(path, ".csv")[0], schema, replace(options, header=True))
    except OperationalError:
        return True
    known = {name.lower() for name in schema.names}
    return not row or any(field.strip().lower() in known for field in row)


def copy_to(data: pyarrow.Table, statement: ast.CopyTo) -> None:
    """COPY TO: write rows to a file."""
    if statement.format == "parquet":
        files.write_parquet(data, statement.path)
    else:
        files.write_csv(data, statement.path, csv_options(statement))


def as_texts(data: pyarrow.Table, types: Sequence[Type]) -> pyarrow.Table:
    """The rows with what CSV has no form for, such as arrays and intervals, as Postgres writes it."""
    columns = [
        files.shown(column, type_) if type_.kind in files.SHOWN else column
        for column, type_ in zip(data.columns, types, strict=True)
    ]
    return pyarrow.Table.from_arrays(columns, names=data.column_names)


def csv_options(statement: ast.CopyFrom | ast.CopyTo) -> files.CsvOptions:
    """The CSV options of a COPY; a ``.tsv`` file has tabs unless told otherwise."""
    given = dict(statement.options)
    default = files.CsvOptions()
    header = given.get("header", "true")
    if header not in ("true", "false", "on", "off", "1", "0"):
        raise ProgrammingError(f'COPY option header is "{header}"', span=statement.span, hint="true or false")
    delimiter = given.get("delimiter", "\t" if statement.path.lower().endswith(".tsv") else default.delimiter)
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    for name, value in (("delimiter", delimiter), ("quote", given.get("quote", default.quote))):
        if len(value) != 1:
            raise ProgrammingError(f'COPY option {name} is "{value}", not one character', span=statement.span)
    return files.CsvOptions(
        header=header in ("true", "on", "1"),
        delimiter=delimiter,
        quote=given.get("quote", default.quote),
        null=given.get("null", default.null),
    )


def _goes_through_spark(source: Any, mode: str | None) -> bool:
    if load_spark.is_frame(source):
        if mode == "arrow":
            raise InterfaceError("a Spark data frame cannot be loaded without Spark", hint="leave mode out")
        return True
    if not isinstance(source, str | Path):
        if mode == "spark":
            raise InterfaceError(
                f"Spark cannot load a {type(source).__name__}", hint="give a Spark data frame or a path"
            )
        return False
    if mode == "arrow" or (mode is None and _is_small_file(source)):
        return False
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


def _load_spark(sources: Sequence[tuple[Table, Any]], progress: Progress | None) -> dict[str, int]:
    tables = {table.name: table for table, _ in sources}
    wanted = [load_spark.Source(table.name, source, table.schema) for table, source in sources]
    counts = dict.fromkeys(tables, 0)

    def written(stage: load_spark.Progress) -> None:
        if progress is not None and stage.stage == "writing":
            progress(stage.table, 0)

    with closing(load_spark.load_tables(wanted, progress=written)) as chunks:
        for chunk in chunks:
            table = tables[chunk.table]
            table.insert(encode(chunk.rows, table.schema, table.dictionary, chunk.origin))
            counts[table.name] += chunk.rows.num_rows
            if progress is not None:
                progress(table.name, counts[table.name])
    return counts


def _chunks(table: Table, source: Any) -> Iterator[Words]:
    if not isinstance(source, str | Path):
        return iter([from_any(source, table.schema, table.dictionary)])
    read = files.read_parquet if format_of(source) == "parquet" else files.read_csv
    return read(source, table.schema, table.dictionary)


def format_of(source: str | Path) -> str:
    """``parquet`` or ``csv``, by the ends of the names; OperationalError if they do not tell."""
    path = Path(source)
    found = {path.suffix.lower()}
    if path.is_dir():
        found = {file.suffix.lower() for file in path.rglob("*")}
    known = {FORMATS[suffix] for suffix in found if suffix in FORMATS}
    if len(known) == 1:
        return known.pop()
    raise OperationalError(
        f"cannot tell the format of {source}", hint="name it .parquet or .csv, or load a data frame"
    )


def _append(table: Table, chunks: Iterator[Words], progress: Progress | None) -> int:
    rows = 0
    for words in chunks:
        table.insert(words)
        rows += words.shape[1]
        if progress is not None:
            progress(table.name, rows)
    return rows


def _chosen(schema: Schema, statement: ast.CopyFrom) -> tuple[Schema, tuple[int, ...] | None]:
    """The schema of the listed columns and their places in the table; None if all are there, in order."""
    if not statement.columns:
        return schema, None
    known = [name.lower() for name in schema.names]
    places: list[int] = []
    for name in statement.columns:
        if name.lower() not in known or known.index(name.lower()) in places:
            problem = "named twice" if name.lower() in known else "not in the table"
            raise ProgrammingError(
                f'column "{name}" is {problem}', span=statement.span, hint=f"it has {', '.join(schema.names)}"
            )
        places.append(known.index(name.lower()))
    return Schema(tuple(schema.columns[place] for place in places)), tuple(places)


def _placed(words: Words, places: tuple[int, ...] | None, width: int) -> Words:
    if places is None:
        return words
    result = np.full((width, words.shape[1]), NULL, np.int64)
    result[list(places)] = words
    return result
