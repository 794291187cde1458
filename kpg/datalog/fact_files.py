"""``.input``: reads facts from files and databases, and reports errors with their position.

If the lines of a text file are simple, pyarrow splits them into fields. Otherwise they are split
one by one, as Soufflé splits them. pyarrow reads Parquet, or Spark if it is large. Other columnar
formats require ``IO=spark``.
"""

import csv
import gzip
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from kpg.compiler.datalog.core_program import BASE_SUFFIX
from kpg.compiler.datalog.types.declarations import io_kind, is_on
from kpg.compiler.rules import core
from kpg.datalog import facts
from kpg.datalog.terms import FLOAT32_TYPE, FLOWLOG_RANGES, RANGES, STRUCTURED, TermError, canonical_term
from kpg.execute.changes.bulk_load import SPARK_MIN_BYTES
from kpg.runtime.convert.arrow import arrow_type, encode_table
from kpg.runtime.convert.files import expand_path, parquet_chunks
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, NotSupportedError, OperationalError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.spark.load import load_tables
from kpg.runtime.spark.session import open_session, unavailability_error
from kpg.runtime.spark.source import Source
from kpg.runtime.types import MAX_WORD, MIN_WORD, Schema
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.datalog import fact_formats
else:
    fact_formats = LazyModule("kpg.datalog.fact_formats")

Words = NDArray[np.int64]


SPARK: Final = "spark"
"""The kind of input that Spark reads."""


def shared_spark_session(inputs: Sequence[Mapping[str, str]]) -> AbstractContextManager[object]:
    """Return a context with one Spark session for all inputs, if Spark reads several of them."""
    several = sum(io_kind(options) == SPARK for options in inputs) > 1
    return open_session(None) if several else nullcontext()


def is_columnar(path: Path, options: Mapping[str, str]) -> bool:
    """Return whether the file has named and typed columns instead of lines of text."""
    return io_kind(options) in ("parquet", SPARK) or path.suffix == ".parquet"


def read_columnar(
    path: Path,
    relation: core.Relation,
    program: core.Program,
    schema: Schema,
    dictionary: Dictionary,
    options: Mapping[str, str],
) -> Words:
    """Return the rows of a columnar file as words ``int64[w, n]``. Columns are matched by name.

    Spark reads the file with ``IO=spark``, or if it is large and Spark can run here.

    Raises:
      DataError: for a value that does not belong to its column's type, with its row.
      OperationalError: if the options require Spark and it cannot run.
    """
    row, parts = 0, [np.empty((len(schema.columns), 0), np.int64)]
    for chunk in _read_chunks(path, relation, schema, options):
        where = f"{path} row {{}}"
        words = encode_table(
            _canonicalize_structures(chunk, relation, program, where, row + 1), schema, dictionary
        )
        _check_ranges(words, relation, program, where, row)
        parts.append(words)
        row += chunk.num_rows
    return np.concatenate(parts, axis=1)


def _read_chunks(
    path: Path, relation: core.Relation, schema: Schema, options: Mapping[str, str]
) -> Iterator[pa.Table]:
    if io_kind(options) == SPARK or (_is_large(path) and unavailability_error() is None):
        source = Source(relation.name, str(path), schema, _spark_format(path), _spark_options(path, options))
        return (chunk.rows for chunk in load_tables([source]))
    return (chunk for file in expand_path(path, ".parquet") for chunk in parquet_chunks(file))


def _is_large(path: Path) -> bool:
    return sum(file.stat().st_size for file in expand_path(path, ".parquet")) >= SPARK_MIN_BYTES


def _spark_format(path: Path) -> str | None:
    """Return the format to pass to Spark: Parquet for a folder. Spark detects other formats itself."""
    return "parquet" if path.is_dir() else None


def _spark_options(path: Path, options: Mapping[str, str]) -> dict[str, str]:
    if path.suffix != ".csv":
        return {}
    if options.get("headers", "false").lower() != "true":
        hint = "write headers=true if the file has names, or omit IO=spark"
        raise NotSupportedError(f"Spark finds columns by name, and {path} has none", hint=hint)
    return {"sep": options.get("delimiter", ",")}


def _canonicalize_structures(
    chunk: pa.Table, relation: core.Relation, program: core.Program, where: str, row: int
) -> pa.Table:
    """Return the chunk with records and ADT values in canonical form."""
    for column in relation.columns:
        if column.type.domain in STRUCTURED and column.name in chunk.column_names:
            position = chunk.column_names.index(column.name)
            texts = canonicalize_texts(chunk.column(position), column, program, where, row)
            chunk = chunk.set_column(position, column.name, texts)
    return chunk


def canonicalize_texts(
    texts: pa.ChunkedArray, column: core.Column, program: core.Program, where: str, first: int
) -> pa.ChunkedArray:
    """Return records and ADT values in canonical form. Each distinct text is parsed once.

    ``where`` is a format string for the position of a row, whose numbers begin at ``first``. Raises
    DataError for a text that is not a value of the column's type.
    """
    encoded = texts.cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = (
            pa.concat_arrays(encoded.chunks)
            if encoded.num_chunks
            else pa.array([], pa.string()).dictionary_encode()
        )
    canonical_values: list[str] = []
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            canonical_values.append(
                canonical_term(text, column.type, program.structures, program.number_size)
            )
        except TermError as error:
            position = encoded.indices.to_pylist().index(number)
            location = f"{where.format(position + first)}, column {column.name}"
            raise DataError(f'{location}: "{text[:100]}" is no {column.type.name}: {error}') from None
    return pa.chunked_array([pa.array(canonical_values, pa.string()).take(encoded.indices)])


def _check_ranges(words: Words, relation: core.Relation, program: core.Program, where: str, row: int) -> None:
    for position, column in enumerate(relation.columns):
        limits = RANGES.get((column.type.domain, program.number_size))
        if limits is None:
            continue
        outside = (words[position] < limits[0]) | (words[position] > limits[1])
        if outside.any():
            first = int(outside.argmax())
            location = f"{where.format(row + first + 1)}, column {column.name}"
            raise DataError(f"{location}: {words[position, first]} is no {column.type.name}")


STDIN: Final = Path("<stdin>")
"""The path that stands for standard input."""
GZIP_MAGIC: Final = b"\x1f\x8b"
"""The first bytes of a gzip file."""
OPENING: Final = "[("
CLOSING: Final = "])"


class _IrregularLine(Exception):
    """Raised if the number of a line's fields is not the number of columns."""


def field_delimiter(options: Mapping[str, str]) -> str:
    """Return the delimiter by the options alone: a tab by default, a comma by RFC 4180."""
    delimiter = options.get("delimiter", "," if is_on(options, "rfc4180") else "\t")
    return {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)


def read_content(path: Path) -> bytes:
    """Return a file's bytes, decompressed if it is a gzip file.

    Raises OperationalError if it is unreadable.
    """
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        return gzip.decompress(data) if data[:2] == GZIP_MAGIC else data
    except (OSError, EOFError) as error:
        raise unreadable_error(path, error) from error


def unreadable_error(path: Path, error: Exception) -> OperationalError:
    """Return the error for a file that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return OperationalError(f"cannot read {path}: {reason}")


def split_fields(
    path: Path, relation: core.Relation, options: Mapping[str, str], data: bytes | None = None
) -> pa.Table:
    """Return the fields of a relation's columns as strings.

    ``data`` is the text if it is not in a file; ``path`` is then its name in messages. Raises
    DataError for a line with too few fields.
    """
    source = _content_unless_plain(path) if data is None else data
    delimiter, quoted = _detect_format(path, source, relation, options)
    columns = _column_positions(relation, options)
    is_plain = len(delimiter) == 1 and delimiter.isascii() and columns == list(range(len(columns)))
    has_commas = any(column.type.domain in STRUCTURED for column in relation.columns) and "," in delimiter
    if is_plain and (quoted or not has_commas):
        try:
            return _read_with_pyarrow(
                path, source, len(columns), delimiter, quoted, is_on(options, "headers")
            )
        except _IrregularLine:
            pass
    return _split_lines(path, source, relation, (delimiter, quoted, columns), is_on(options, "headers"))


def _content_unless_plain(path: Path) -> bytes | None:
    """Return the content of a stream, or of an empty or compressed file. pyarrow reads other files itself."""
    if path == STDIN:
        return read_content(path)
    try:
        with path.open("rb") as opened:
            start = opened.read(2)
    except OSError as error:
        raise unreadable_error(path, error) from error
    return read_content(path) if start == GZIP_MAGIC or not start else None


def _detect_format(
    path: Path, source: bytes | None, relation: core.Relation, options: Mapping[str, str]
) -> tuple[str, bool]:
    """Return the delimiter, and whether fields may be quoted.

    Without options, a ``.csv`` file has commas and quotes, unless its first line has a tab.
    """
    if path.suffix != ".csv" or is_on(options, "rfc4180"):
        return field_delimiter(options), is_on(options, "rfc4180")
    if "delimiter" in options or "rfc4180" in options:
        return field_delimiter({"delimiter": ",", **options}), options.get("rfc4180") is None
    with io.BytesIO(source) if source is not None else path.open("rb") as opened:
        line = opened.readline()
    return ("\t", False) if b"\t" in line and len(relation.columns) > 1 else (",", True)


def _column_positions(relation: core.Relation, options: Mapping[str, str]) -> list[int]:
    """Return the position of each column in a line. Raises DataError if the option ``columns`` is wrong."""
    width = len(relation.columns)
    option = options.get("columns")
    if option is None:
        return list(range(width))
    positions = [int(part) if part.isascii() and part.isdecimal() else -1 for part in option.split(":")]
    if len(positions) != width or min(positions) < 0:
        message = f'columns="{option}" of {relation.name} are not the places of {width} columns'
        raise DataError(message, hint='write numbers from 0, separated by colons, "0:2"')
    return positions


def _read_with_pyarrow(
    path: Path, source: bytes | None, width: int, delimiter: str, quoted: bool, has_header: bool
) -> pa.Table:
    names = [str(position) for position in range(width)]
    invalid_rows: list[pyarrow.csv.InvalidRow] = []

    def record_invalid(row: pyarrow.csv.InvalidRow) -> str:
        invalid_rows.append(row)
        return "error"

    parse = pyarrow.csv.ParseOptions(
        delimiter=delimiter,
        quote_char='"' if quoted else False,
        newlines_in_values=quoted,
        ignore_empty_lines=False,
        invalid_row_handler=record_invalid,
    )
    reading = pyarrow.csv.ReadOptions(column_names=names, skip_rows=int(has_header), use_threads=False)
    conversion = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in names}, strings_can_be_null=False
    )
    if source is not None and not source:
        return _strings_as_table([[] for _ in names])
    try:
        file = path if source is None else io.BytesIO(source)
        return pyarrow.csv.read_csv(file, reading, parse, conversion)
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable_error(path, error) from error
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return _strings_as_table([[] for _ in names])
        if invalid_rows:
            raise _IrregularLine from error
        raise DataError(f"{path}: {error}") from error


def _strings_as_table(columns: Sequence[Sequence[str]]) -> pa.Table:
    return pa.table({str(position): pa.array(column, pa.string()) for position, column in enumerate(columns)})


def _split_lines(
    path: Path,
    source: bytes | None,
    relation: core.Relation,
    format_: tuple[str, bool, list[int]],
    has_header: bool,
) -> pa.Table:
    delimiter, quoted, columns = format_
    try:
        text = (read_content(path) if source is None else source).decode()
    except UnicodeDecodeError as error:
        raise unreadable_error(path, error) from error
    columns_by_position = dict(zip(columns, relation.columns, strict=True))
    structured = {place for place, column in columns_by_position.items() if column.type.domain in STRUCTURED}
    result: list[list[str]] = [[] for _ in columns]
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        if number == 1 and has_header:
            continue
        line = line.removesuffix("\r")
        parts = (
            _split_quoted_line(line, delimiter)
            if quoted
            else _split_line(line, delimiter, structured, max(columns) + 1)
        )
        if len(parts) <= max(columns):
            message = f"{path} line {number}: {len(parts)} fields for the {len(columns)} columns"
            raise DataError(f"{message} of {relation.name}", hint=f"the line is: {line[:100]}")
        for position, values in zip(columns, result, strict=True):
            values.append(parts[position])
    return _strings_as_table(result)


def _split_line(line: str, delimiter: str, structured: set[int], count: int) -> list[str]:
    """Return the first ``count`` fields of a line.

    The fields at the positions ``structured`` may have the delimiter inside brackets.
    """
    parts: list[str] = []
    start: int | None = 0
    while start is not None and len(parts) < count:
        end = line.find(delimiter, start)
        if len(parts) in structured:
            end = _find_outside_brackets(line, delimiter, start)
        parts.append(line[start:] if end < 0 else line[start:end])
        start = None if end < 0 else end + len(delimiter)
    return parts


def _find_outside_brackets(line: str, delimiter: str, start: int) -> int:
    """Return the position of the next delimiter outside brackets and quotes, or -1."""
    depth, position, in_quotes = 0, start, False
    while position < len(line):
        mark = line[position]
        if in_quotes:
            position += mark == "\\"
            in_quotes = mark != '"'
        elif depth == 0 and line.startswith(delimiter, position):
            return position
        elif mark == '"':
            in_quotes = depth > 0
        else:
            depth += (mark in OPENING) - (mark in CLOSING)
        position += 1
    return -1


def _split_quoted_line(line: str, delimiter: str) -> list[str]:
    """Return the fields of a line by RFC 4180, with a delimiter of any length."""
    if len(delimiter) == 1:
        return next(csv.reader([line], delimiter=delimiter), [""])
    parts: list[str] = []
    start = 0
    while True:
        part, end = _quoted_field(line, delimiter, start)
        parts.append(part)
        if end >= len(line):
            return parts
        start = end + len(delimiter)


def _quoted_field(line: str, delimiter: str, start: int) -> tuple[str, int]:
    """Return the field that begins at ``start``, and the position of its end."""
    if not line.startswith('"', start):
        end = line.find(delimiter, start)
        end = len(line) if end < 0 else end
        return line[start:end], end
    position = start + 1
    while True:
        end = line.find('"', position)
        if end < 0:
            return line[start + 1 :].replace('""', '"'), len(line)
        if line.startswith('""', end):
            position = end + 2
            continue
        return line[start + 1 : end].replace('""', '"'), end + 1


SUFFIXES: Final = (".facts", ".tsv", ".csv", ".parquet", ".facts.gz", ".csv.gz")
"""Suffixes of a relation's file, in the order of the search, if the program names no file."""
LINE_KINDS: Final = ("file", "csv", "stdin")
"""Kinds of inputs whose rows are lines of text."""
KIND_SUFFIXES: Final = {"sqlite": ".sqlite", "json": ".json", "jsonfile": ".json"}
"""Suffixes of the kinds that have their own."""
KINDS_WITHOUT_FILE: Final = ("stdin", "command", "spark")
"""Kinds of inputs whose rows are not in a file with a fixed name."""
INTEGER_DOMAINS: Final = (core.Domain.NUMBER, core.Domain.UNSIGNED)
INTEGER: Final = re.compile(r"[+-]?(?:(?P<based>0[xX][0-9a-fA-F]+|0[bB][01]+)|[0-9]{1,30})", re.ASCII)


def load_inputs(
    program: core.Program, engine: Engine, folder: str, report_missing: Callable[[str], None] | None = None
) -> dict[str, int]:
    """Insert the rows of all ``.input`` files and return the numbers of new rows. Does not commit.

    With ``report_missing``, a missing file is reported to it and its relation is empty.

    Raises:
      OperationalError: for a file that cannot be read.
      DataError: for a bad row, with file, line and column.
    """
    counts: dict[str, int] = {}
    inputs = [directive for directive in program.transfers if directive.direction is core.TransferKind.INPUT]
    with shared_spark_session([directive.options for directive in inputs]):
        for transfer in inputs:
            kind = io_kind(transfer.options)
            if kind == "command":
                continue
            if report_missing is not None and kind not in KINDS_WITHOUT_FILE:
                paths = candidate_paths(transfer, folder)
                if not any(path.exists() for path in paths):
                    report_missing(f"there is no file {paths[0]}: relation {transfer.name} is empty")
                    continue
            path = input_path(transfer, folder)
            table = engine.table(transfer.relation)
            relation = program.relations[transfer.relation]
            words = read_facts(path, relation, program, table.schema, table.dictionary, transfer.options)
            counts[transfer.name] = facts.insert(table, words)
    return counts


def input_path(transfer: core.Transfer, folder: str) -> Path:
    """Return the file of an ``.input``. Raises OperationalError if there is none."""
    if io_kind(transfer.options) == "stdin":
        return STDIN
    paths = candidate_paths(transfer, folder)
    existing = [path for path in paths if len(paths) == 1 or path.exists()]
    if not existing:
        hint = f'or name another file: .input {transfer.name}(filename="...")'
        raise OperationalError(
            f"there is no file {paths[0]} for relation {transfer.name}", span=transfer.span, hint=hint
        )
    return existing[0]


def candidate_paths(transfer: core.Transfer, folder: str) -> list[Path]:
    """Return the files that an ``.input`` may read, only one if the program names it."""
    options, kind = transfer.options, io_kind(transfer.options)
    filename = options.get("filename", options.get("dbname"))
    if filename is not None:
        return [Path(folder, filename)]
    suffixes = (KIND_SUFFIXES[kind],) if kind in KIND_SUFFIXES else SUFFIXES
    return [Path(folder, transfer.name + suffix) for suffix in suffixes]


def rows_as_table(rows: Sequence[tuple[str, ...]], relation: core.Relation) -> pa.Table:
    """Return rows of texts as a table, with the positions of the columns as their names."""
    return pa.table(
        {
            str(position): pa.array([row[position] for row in rows], pa.string())
            for position in range(len(relation.columns))
        }
    )


def read_facts(
    path: Path,
    relation: core.Relation,
    program: core.Program,
    schema: Schema,
    dictionary: Dictionary,
    options: Mapping[str, str],
    data: bytes | None = None,
) -> Words:
    """Return the rows of a file as words ``int64[w, n]``, in the relation's columns.

    ``data`` is the text if it is not in a file, as in :func:`split_fields`.
    """
    kind = io_kind(options)
    if is_columnar(path, options):
        return read_columnar(path, relation, program, schema, dictionary, options)
    if not relation.columns:
        # A relation without columns holds if there is any line.
        return np.zeros((1, int(bool(read_content(path) if data is None else data))), np.int64)
    table, where = _read_fields(path, relation, program, options, data)
    first = 2 if is_on(options, "headers") and kind in LINE_KINDS else 1
    columns = [
        _parse_column(where, table.column(position), column, first, program)
        for position, column in enumerate(relation.columns)
    ]
    return encode_table(pa.Table.from_arrays(columns, names=list(schema.names)), schema, dictionary)


def _read_fields(
    path: Path,
    relation: core.Relation,
    program: core.Program,
    options: Mapping[str, str],
    data: bytes | None,
) -> tuple[pa.Table, str]:
    """Return the fields as strings, and a format string for the position of a row."""
    match io_kind(options):
        case "sqlite":
            name = options.get("name", relation.name.removesuffix(BASE_SUFFIX))
            return rows_as_table(fact_formats.read_sqlite(path, name, relation), relation), f"{path} row {{}}"
        case "json" | "jsonfile":
            return rows_as_table(
                fact_formats.read_json(path, relation, program), relation
            ), f"{path} row {{}}"
        case _:
            return split_fields(path, relation, options, data), f"{path} line {{}}"


def _parse_column(
    where: str, texts: pa.ChunkedArray, column: core.Column, first: int, program: core.Program
) -> pa.ChunkedArray:
    """Return the values of a column. Raises DataError with line and column for the first bad field."""
    type_ = column.type.type
    if column.type.domain in STRUCTURED:
        return canonicalize_texts(texts, column, program, where, first)
    if type_.is_interned:
        return texts
    target_type = arrow_type(type_)
    trimmed = pc.utf8_trim_whitespace(texts)
    try:
        values = pc.cast(trimmed, target_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if column.type.domain not in INTEGER_DOMAINS:
            raise _bad_field_error(
                where, trimmed, column, first, _find_first_bad(trimmed, target_type)
            ) from None
        values = _parse_integers(where, trimmed, column, first)
    if column.type.name == FLOAT32_TYPE:
        return pc.cast(pc.cast(values, pa.float32(), safe=False), target_type)
    limits = FLOWLOG_RANGES.get(column.type.name) or RANGES.get((column.type.domain, program.number_size))
    if limits is not None and len(values):
        outside = pc.or_(pc.less(values, limits[0]), pc.greater(values, limits[1]))
        if pc.any(outside).as_py():
            raise _bad_field_error(where, trimmed, column, first, pc.index(outside, True).as_py())
    return values


def _parse_integers(where: str, texts: pa.ChunkedArray, column: core.Column, first: int) -> pa.ChunkedArray:
    """Return the values of integers in decimal, hexadecimal or binary digits."""
    values: list[int] = []
    for position, text in enumerate(texts.to_pylist()):
        match_ = INTEGER.fullmatch(text)
        number = None if match_ is None else int(text, 0 if match_["based"] else 10)
        if number is None or not MIN_WORD <= number <= MAX_WORD:
            raise _bad_field_error(where, texts, column, first, position)
        values.append(number)
    return pa.chunked_array([pa.array(values, pa.int64())])


def _find_first_bad(fields: pa.ChunkedArray, target_type: pa.DataType) -> int:
    """Return the position of the first field that cannot be cast, by binary search."""
    low, high = 0, len(fields)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            pc.cast(fields.slice(low, middle - low), target_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
        else:
            low = middle
    return low


def _bad_field_error(
    where: str, fields: pa.ChunkedArray, column: core.Column, first: int, position: int
) -> DataError:
    text = fields[position].as_py()
    location = f"{where.format(position + first)}, column {column.name}"
    return DataError(f'{location}: "{text}" is no {column.type.name}')
