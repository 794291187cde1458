"""Rows that bring their columns along: files and frames of which a table can be made.

The types of a CSV file's columns are told by a sample of its rows; if then a value does not fit, by all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpg.compiler.sql.rewrite.external_tables import Files, named_type
from kpg.dml.loading import format_of
from kpg.runtime.convert import files as reading
from kpg.runtime.convert.arrow import encode
from kpg.runtime.convert.csv_format import SAMPLE_ROWS, Given, sniff
from kpg.runtime.convert.files import parquet_columns, schema_of, table_of
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import OperationalError, ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.runtime.types import Schema, Type

Words = NDArray[np.int64]
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
        return _of_csv(files, _given(files))
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
        return _of_csv(files, _given(files, sample=None))

    return Source(first, chunks, None if given.sample is None else with_all_rows)


def _given(files: Files, sample: int | None = SAMPLE_ROWS) -> Given:
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
