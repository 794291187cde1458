"""``.input`` from parquet, by pyarrow or, if it is much, by Spark; from other formats if asked for Spark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpg.compiler.datalog.types.declarations import kind_of
from kpg.compiler.rules import core
from kpg.datalog.terms import RANGES, STRUCTURED, NoTerm, canonical
from kpg.dml.loading import SPARK_FROM
from kpg.runtime.convert.arrow import encode
from kpg.runtime.convert.files import expand, parquet_chunks
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, NotSupportedError
from kpg.runtime.spark.load import load_tables
from kpg.runtime.spark.session import opened, unavailable
from kpg.runtime.spark.source import Source
from kpg.runtime.types import Schema

Words = NDArray[np.int64]
SPARK: Final = "spark"


def session(inputs: Sequence[Mapping[str, str]]) -> AbstractContextManager[object]:
    """What the files of these options are read in: if Spark is to read several, one session for all."""
    several = sum(kind_of(options) == SPARK for options in inputs) > 1
    return opened(None) if several else nullcontext()


def is_columnar(path: Path, options: Mapping[str, str]) -> bool:
    """Whether the rows have columns with names and types, not lines of text."""
    return kind_of(options) in ("parquet", SPARK) or path.suffix == ".parquet"


def read(
    path: Path,
    relation: core.Relation,
    program: core.Program,
    schema: Schema,
    dictionary: Dictionary,
    options: Mapping[str, str],
) -> Words:
    """The rows as words ``int64[w, n]``; columns are found by name.

    Through Spark with ``IO=spark``, or if the files are large and Spark can run here. DataError for a value
    that is none of its column's type, with its row; OperationalError if Spark is asked for and cannot run.
    """
    row, parts = 0, [np.empty((len(schema.columns), 0), np.int64)]
    for chunk in _chunks(path, relation, schema, options):
        where = f"{path} row {{}}"
        words = encode(_canonical(chunk, relation, program, where, row + 1), schema, dictionary)
        _check_ranges(words, relation, program, where, row)
        parts.append(words)
        row += chunk.num_rows
    return np.concatenate(parts, axis=1)


def _chunks(
    path: Path, relation: core.Relation, schema: Schema, options: Mapping[str, str]
) -> Iterator[pa.Table]:
    if kind_of(options) == SPARK or (_is_large(path) and unavailable() is None):
        source = Source(relation.name, str(path), schema, _format(path), _spark_options(path, options))
        return (chunk.rows for chunk in load_tables([source]))
    return (chunk for file in expand(path, ".parquet") for chunk in parquet_chunks(file))


def _is_large(path: Path) -> bool:
    return sum(file.stat().st_size for file in expand(path, ".parquet")) >= SPARK_FROM


def _format(path: Path) -> str | None:
    """What Spark is told to read: a folder is of parquet files, the rest it sees."""
    return "parquet" if path.is_dir() else None


def _spark_options(path: Path, options: Mapping[str, str]) -> dict[str, str]:
    if path.suffix != ".csv":
        return {}
    if options.get("headers", "false").lower() != "true":
        hint = "write headers=true if there are names, or leave IO=spark out"
        raise NotSupportedError(f"Spark finds columns by name, and {path} has none", hint=hint)
    return {"sep": options.get("delimiter", ",")}


def _canonical(
    chunk: pa.Table, relation: core.Relation, program: core.Program, where: str, row: int
) -> pa.Table:
    """The chunk with records and ADT values as the program has them."""
    for column in relation.columns:
        if column.type.domain in STRUCTURED and column.name in chunk.column_names:
            place = chunk.column_names.index(column.name)
            texts = canonical_texts(chunk.column(place), column, program, where, row)
            chunk = chunk.set_column(place, column.name, texts)
    return chunk


def canonical_texts(
    texts: pa.ChunkedArray, column: core.Column, program: core.Program, where: str, first: int
) -> pa.ChunkedArray:
    """Records and ADT values as the program has them; each different text is read once.

    DataError for one that is no value; ``where`` names its place by a number that counts from ``first``.
    """
    encoded = texts.cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = (
            pa.concat_arrays(encoded.chunks)
            if encoded.num_chunks
            else pa.array([], pa.string()).dictionary_encode()
        )
    made: list[str] = []
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            made.append(canonical(text, column.type, program.structures, program.number_size))
        except NoTerm as error:
            place = encoded.indices.to_pylist().index(number)
            named = f"{where.format(place + first)}, column {column.name}"
            raise DataError(f'{named}: "{text[:100]}" is no {column.type.name}: {error}') from None
    return pa.chunked_array([pa.array(made, pa.string()).take(encoded.indices)])


def _check_ranges(words: Words, relation: core.Relation, program: core.Program, where: str, row: int) -> None:
    for place, column in enumerate(relation.columns):
        limits = RANGES.get((column.type.domain, program.number_size))
        if limits is None:
            continue
        outside = (words[place] < limits[0]) | (words[place] > limits[1])
        if outside.any():
            first = int(outside.argmax())
            named = f"{where.format(row + first + 1)}, column {column.name}"
            raise DataError(f"{named}: {words[place, first]} is no {column.type.name}")
