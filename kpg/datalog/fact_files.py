"""``.input``: reads facts from files and databases, and reports errors with their position.

Text files are split into fields by pyarrow if their lines are simple, else one by one as Soufflé splits them.
Parquet is read by pyarrow, or by Spark if it is large. Other columnar formats require ``IO=spark``.
"""

import csv
import gzip
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from kpg.compiler.datalog.core_program import BASE
from kpg.compiler.datalog.types.declarations import is_on, kind_of
from kpg.compiler.rules import core
from kpg.datalog import facts
from kpg.datalog.terms import NARROW, RANGES, SINGLE, STRUCTURED, NoTerm, canonical
from kpg.execute.changes.bulk_load import SPARK_FROM
from kpg.runtime.convert.arrow import arrow_type, encode
from kpg.runtime.convert.files import expand, parquet_chunks
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, NotSupportedError, OperationalError
from kpg.runtime.spark.load import load_tables
from kpg.runtime.spark.session import opened, unavailable
from kpg.runtime.spark.source import Source
from kpg.runtime.types import MAX_WORD, MIN_WORD, Schema
from kpg.session.engine import Engine

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


STDIN: Final = Path("<stdin>")
ZIPPED: Final = b"\x1f\x8b"
OPENING: Final = "[("
CLOSING: Final = "])"


class _Irregular(Exception):
    """A line has other fields than columns."""


def separator(options: Mapping[str, str]) -> str:
    """What stands between fields if the directive alone decides: a tab, or by RFC 4180 a comma."""
    given = options.get("delimiter", "," if is_on(options, "rfc4180") else "\t")
    return {"\\t": "\t", "tab": "\t"}.get(given, given)


def content(path: Path) -> bytes:
    """All of a file, unpacked if it is zipped. OperationalError if it cannot be read."""
    try:
        found = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        return gzip.decompress(found) if found[:2] == ZIPPED else found
    except (OSError, EOFError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> OperationalError:
    """What is said of a file that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return OperationalError(f"cannot read {path}: {reason}")


def fields(
    path: Path, relation: core.Relation, options: Mapping[str, str], given: bytes | None = None
) -> pa.Table:
    """The fields of a relation's columns as strings; DataError for a line with too few.

    ``given`` is the text if it is in no file; ``path`` is then what messages call it.
    """
    source = _source(path) if given is None else given
    delimiter, quoted = _form(path, source, relation, options)
    columns = _columns(relation, options)
    is_plain = len(delimiter) == 1 and delimiter.isascii() and columns == list(range(len(columns)))
    has_commas = any(column.type.domain in STRUCTURED for column in relation.columns) and "," in delimiter
    if is_plain and (quoted or not has_commas):
        try:
            return _plain(path, source, len(columns), delimiter, quoted, is_on(options, "headers"))
        except _Irregular:
            pass
    return _one_by_one(path, source, relation, (delimiter, quoted, columns), is_on(options, "headers"))


def _source(path: Path) -> bytes | None:
    """The content, if it is not for pyarrow to read the file itself."""
    if path == STDIN:
        return content(path)
    try:
        with path.open("rb") as opened:
            start = opened.read(2)
    except OSError as error:
        raise unreadable(path, error) from error
    return content(path) if start == ZIPPED or not start else None


def _form(
    path: Path, source: bytes | None, relation: core.Relation, options: Mapping[str, str]
) -> tuple[str, bool]:
    """The delimiter, and whether fields may be in quotes.

    A ``.csv`` of which the program says nothing has commas and quotes, unless its first line has a tab.
    """
    if path.suffix != ".csv" or is_on(options, "rfc4180"):
        return separator(options), is_on(options, "rfc4180")
    if "delimiter" in options or "rfc4180" in options:
        return separator({"delimiter": ",", **options}), options.get("rfc4180") is None
    with io.BytesIO(source) if source is not None else path.open("rb") as opened:
        line = opened.readline()
    return ("\t", False) if b"\t" in line and len(relation.columns) > 1 else (",", True)


def _columns(relation: core.Relation, options: Mapping[str, str]) -> list[int]:
    """Where in a line the columns are. DataError if ``columns`` is wrong."""
    width = len(relation.columns)
    given = options.get("columns")
    if given is None:
        return list(range(width))
    places = [int(part) if part.isascii() and part.isdecimal() else -1 for part in given.split(":")]
    if len(places) != width or min(places) < 0:
        message = f'columns="{given}" of {relation.name} are not the places of {width} columns'
        raise DataError(message, hint='write numbers from 0 on with colons between them, "0:2"')
    return places


def _plain(
    path: Path, source: bytes | None, width: int, delimiter: str, quoted: bool, has_header: bool
) -> pa.Table:
    names = [str(place) for place in range(width)]
    wrong: list[pyarrow.csv.InvalidRow] = []

    def note(row: pyarrow.csv.InvalidRow) -> str:
        wrong.append(row)
        return "error"

    parse = pyarrow.csv.ParseOptions(
        delimiter=delimiter,
        quote_char='"' if quoted else False,
        newlines_in_values=quoted,
        ignore_empty_lines=False,
        invalid_row_handler=note,
    )
    reading = pyarrow.csv.ReadOptions(column_names=names, skip_rows=int(has_header), use_threads=False)
    kept = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in names}, strings_can_be_null=False
    )
    if source is not None and not source:
        return _table([[] for _ in names])
    try:
        given = path if source is None else io.BytesIO(source)
        return pyarrow.csv.read_csv(given, reading, parse, kept)
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return _table([[] for _ in names])
        if wrong:
            raise _Irregular from error
        raise DataError(f"{path}: {error}") from error


def _table(columns: Sequence[Sequence[str]]) -> pa.Table:
    return pa.table({str(place): pa.array(column, pa.string()) for place, column in enumerate(columns)})


def _one_by_one(
    path: Path,
    source: bytes | None,
    relation: core.Relation,
    form: tuple[str, bool, list[int]],
    has_header: bool,
) -> pa.Table:
    delimiter, quoted, columns = form
    try:
        text = (content(path) if source is None else source).decode()
    except UnicodeDecodeError as error:
        raise unreadable(path, error) from error
    at = dict(zip(columns, relation.columns, strict=True))
    nested = {place for place, column in at.items() if column.type.domain in STRUCTURED}
    found: list[list[str]] = [[] for _ in columns]
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        if number == 1 and has_header:
            continue
        line = line.removesuffix("\r")
        parts = _quoted(line, delimiter) if quoted else _split(line, delimiter, nested, max(columns) + 1)
        if len(parts) <= max(columns):
            message = f"{path} line {number}: {len(parts)} fields for the {len(columns)} columns"
            raise DataError(f"{message} of {relation.name}", hint=f"the line is: {line[:100]}")
        for place, into in zip(columns, found, strict=True):
            into.append(parts[place])
    return _table(found)


def _split(line: str, delimiter: str, nested: set[int], most: int) -> list[str]:
    """The first fields of a line; those that are ``nested`` may have the delimiter inside of brackets."""
    parts: list[str] = []
    start: int | None = 0
    while start is not None and len(parts) < most:
        end = line.find(delimiter, start)
        if len(parts) in nested:
            end = _outside(line, delimiter, start)
        parts.append(line[start:] if end < 0 else line[start:end])
        start = None if end < 0 else end + len(delimiter)
    return parts


def _outside(line: str, delimiter: str, start: int) -> int:
    """The place of the next delimiter that is in no brackets and no quotes; -1 if there is none."""
    depth, place, in_quotes = 0, start, False
    while place < len(line):
        mark = line[place]
        if in_quotes:
            place += mark == "\\"
            in_quotes = mark != '"'
        elif depth == 0 and line.startswith(delimiter, place):
            return place
        elif mark == '"':
            in_quotes = depth > 0
        else:
            depth += (mark in OPENING) - (mark in CLOSING)
        place += 1
    return -1


def _quoted(line: str, delimiter: str) -> list[str]:
    """The fields of a line by RFC 4180, with a delimiter of any length."""
    if len(delimiter) == 1:
        return next(csv.reader([line], delimiter=delimiter), [""])
    parts: list[str] = []
    start = 0
    while True:
        part, end = _field(line, delimiter, start)
        parts.append(part)
        if end >= len(line):
            return parts
        start = end + len(delimiter)


def _field(line: str, delimiter: str, start: int) -> tuple[str, int]:
    """The field from a place on, and where it ends."""
    if not line.startswith('"', start):
        end = line.find(delimiter, start)
        end = len(line) if end < 0 else end
        return line[start:end], end
    place = start + 1
    while True:
        end = line.find('"', place)
        if end < 0:
            return line[start + 1 :].replace('""', '"'), len(line)
        if line.startswith('""', end):
            place = end + 2
            continue
        return line[start + 1 : end].replace('""', '"'), end + 1


SUFFIXES: Final = (".facts", ".tsv", ".csv", ".parquet", ".facts.gz", ".csv.gz")
"""What a relation's file may be called, in this order, if the program does not say."""
TEXTS: Final = ("file", "csv", "stdin")
"""Kinds whose rows are lines."""
OTHERS: Final = {"sqlite": ".sqlite", "json": ".json", "jsonfile": ".json"}
"""Kinds whose files have suffixes of their own."""
ELSEWHERE: Final = ("stdin", "command", "spark")
"""Kinds whose rows are not in a file of a known name."""
WHOLE: Final = (core.Domain.NUMBER, core.Domain.UNSIGNED)
WHOLE_NUMBER: Final = re.compile(r"[+-]?(?:(?P<based>0[xX][0-9a-fA-F]+|0[bB][01]+)|[0-9]{1,30})", re.ASCII)


def load(
    program: core.Program, engine: Engine, folder: str, missing: Callable[[str], None] | None = None
) -> dict[str, int]:
    """Insert the rows of every ``.input`` relation's file; how many were new. Nothing is committed.

    OperationalError for a file that cannot be read, DataError with file, line and column for a bad row. Given
    ``missing``, a file that does not exist is reported to it and its relation is empty.
    """
    counts: dict[str, int] = {}
    inputs = [one for one in program.transfers if one.direction is core.Direction.INPUT]
    with session([one.options for one in inputs]):
        for transfer in inputs:
            kind = kind_of(transfer.options)
            if kind == "command":
                continue
            if missing is not None and kind not in ELSEWHERE:
                paths = candidates(transfer, folder)
                if not any(path.exists() for path in paths):
                    missing(f"there is no file {paths[0]}: relation {transfer.name} is empty")
                    continue
            path = path_of(transfer, folder)
            table = engine.table(transfer.relation)
            relation = program.relations[transfer.relation]
            words = read_facts(path, relation, program, table.schema, table.dictionary, transfer.options)
            counts[transfer.name] = facts.insert(table, words)
    return counts


def path_of(transfer: core.Transfer, folder: str) -> Path:
    """The file of an ``.input``."""
    if kind_of(transfer.options) == "stdin":
        return STDIN
    paths = candidates(transfer, folder)
    found = [path for path in paths if len(paths) == 1 or path.exists()]
    if not found:
        hint = f'or say another: .input {transfer.name}(filename="...")'
        raise OperationalError(
            f"there is no file {paths[0]} for relation {transfer.name}", span=transfer.span, hint=hint
        )
    return found[0]


def candidates(transfer: core.Transfer, folder: str) -> list[Path]:
    """The files that an ``.input`` may mean; only one if the program names it."""
    options, kind = transfer.options, kind_of(transfer.options)
    given = options.get("filename", options.get("dbname"))
    if given is not None:
        return [Path(folder, given)]
    suffixes = (OTHERS[kind],) if kind in OTHERS else SUFFIXES
    return [Path(folder, transfer.name + suffix) for suffix in suffixes]


def rows_as_table(rows: Sequence[tuple[str, ...]], relation: core.Relation) -> pa.Table:
    """Rows of texts by columns."""
    return pa.table(
        {
            str(place): pa.array([row[place] for row in rows], pa.string())
            for place in range(len(relation.columns))
        }
    )


def read_facts(
    path: Path,
    relation: core.Relation,
    program: core.Program,
    schema: Schema,
    dictionary: Dictionary,
    options: Mapping[str, str],
    given: bytes | None = None,
) -> Words:
    """The rows of a file in the columns of a relation of the program, as words ``int64[w, n]``; ``given`` as
    in ``lines.fields``.
    """
    kind = kind_of(options)
    if is_columnar(path, options):
        return read(path, relation, program, schema, dictionary, options)
    if not relation.columns:
        # Any line says that it holds.
        return np.zeros((1, int(bool(content(path) if given is None else given))), np.int64)
    table, where = _fields(path, relation, program, options, given)
    first = 2 if is_on(options, "headers") and kind in TEXTS else 1
    typed = [
        _typed(where, table.column(place), column, first, program)
        for place, column in enumerate(relation.columns)
    ]
    return encode(pa.Table.from_arrays(typed, names=list(schema.names)), schema, dictionary)


def _fields(
    path: Path,
    relation: core.Relation,
    program: core.Program,
    options: Mapping[str, str],
    given: bytes | None,
) -> tuple[pa.Table, str]:
    """The fields as strings, and how the place of a row is named, by its number."""
    match kind_of(options):
        case "sqlite":
            from kpg.datalog.fact_formats import read_table  # lazy: it imports sqlite3

            name = options.get("name", relation.name.removesuffix(BASE))
            return rows_as_table(read_table(path, name, relation), relation), f"{path} row {{}}"
        case "json" | "jsonfile":
            from kpg.datalog.fact_formats import read_rows  # lazy: it imports sqlite3

            return rows_as_table(read_rows(path, relation, program), relation), f"{path} row {{}}"
        case _:
            return fields(path, relation, options, given), f"{path} line {{}}"


def _typed(
    where: str, given: pa.ChunkedArray, column: core.Column, first: int, program: core.Program
) -> pa.ChunkedArray:
    """The fields of a column as values; DataError with line and column for the first that is none."""
    type_ = column.type.type
    if column.type.domain in STRUCTURED:
        return canonical_texts(given, column, program, where, first)
    if type_.is_interned:
        return given
    wanted = arrow_type(type_)
    trimmed = pc.utf8_trim_whitespace(given)
    try:
        values = pc.cast(trimmed, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if column.type.domain not in WHOLE:
            raise _bad(where, trimmed, column, first, _first_misfit(trimmed, wanted)) from None
        values = _whole(where, trimmed, column, first)
    if column.type.name == SINGLE:
        return pc.cast(pc.cast(values, pa.float32(), safe=False), wanted)
    limits = NARROW.get(column.type.name) or RANGES.get((column.type.domain, program.number_size))
    if limits is not None and len(values):
        outside = pc.or_(pc.less(values, limits[0]), pc.greater(values, limits[1]))
        if pc.any(outside).as_py():
            raise _bad(where, trimmed, column, first, pc.index(outside, True).as_py())
    return values


def _whole(where: str, given: pa.ChunkedArray, column: core.Column, first: int) -> pa.ChunkedArray:
    """Numbers some of which are in hexadecimal or binary digits."""
    values: list[int] = []
    for place, text in enumerate(given.to_pylist()):
        found = WHOLE_NUMBER.fullmatch(text)
        number = None if found is None else int(text, 0 if found["based"] else 10)
        if number is None or not MIN_WORD <= number <= MAX_WORD:
            raise _bad(where, given, column, first, place)
        values.append(number)
    return pa.chunked_array([pa.array(values, pa.int64())])


def _first_misfit(fields: pa.ChunkedArray, wanted: pa.DataType) -> int:
    """The position of the first field that is no value, by halving."""
    low, high = 0, len(fields)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            pc.cast(fields.slice(low, middle - low), wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
        else:
            low = middle
    return low


def _bad(where: str, fields: pa.ChunkedArray, column: core.Column, first: int, place: int) -> DataError:
    text = fields[place].as_py()
    named = f"{where.format(place + first)}, column {column.name}"
    return DataError(f'{named}: "{text}" is no {column.type.name}')
