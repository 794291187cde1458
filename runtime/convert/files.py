"""Parquet and CSV files in and out, through pyarrow, in chunks; schemas of files without a declaration.

The schemas of all files are checked before the first chunk is returned. A value that does not fit is reported
with its file, row (from 1) and column. The caller rolls back the chunks it received before.
"""

import csv
import glob
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kpg.runtime.convert.arrow import Origin, UnfitAt, arrow_type, encode, frame_table, is_text, resolve
from kpg.runtime.convert.python_values import Omitted
from kpg.runtime.dictionary import Dictionary, utf8
from kpg.runtime.errors import (
    DataError,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from kpg.runtime.records import dataclass
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    MAX_DECIMAL_PRECISION,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    VALUE_KINDS,
    ColumnDef,
    Kind,
    Schema,
    Type,
    array,
    decimal,
    record,
)
from kpg.runtime.values import codec_of, input_errors
from kpg.runtime.values.words import BLANKS, FALSE_WORDS, SMALLEST_REAL, TRUE_WORDS

Words = NDArray[np.int64]

CHUNK_ROWS: Final = 1 << 18
"""Rows read and encoded at a time: 42 MB of words for a table of twenty columns, whatever its size."""
CSV_BLOCK_BYTES: Final = 1 << 24
"""Bytes of text that are parsed at a time, of about as many rows."""
REPETITIVE_BYTES: Final = 4
"""A text of fewer bytes a value can only be stored as codes; four are the length of a plain value alone."""
INT96_UNIT: Final = "us"
"""What the timestamps of old writers are read in, Spark's among them; nanoseconds would wrap from 2262 on."""
SHOWN: Final = VALUE_KINDS | {Kind.TIMESTAMPTZ, Kind.INTERVAL_DAY}
"""Kinds of types that CSV has as Postgres' texts."""
BOOLEANS: Final = {"true": sorted(TRUE_WORDS), "false": sorted(FALSE_WORDS)}
"""What Postgres takes for truth values besides what Arrow does."""
INTERVALS: Final = (Kind.INTERVAL_MONTH, Kind.INTERVAL_DAY)
ROW_SHOWN: Final = 60
"""Letters of a row that is shown in a message."""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How a CSV file is written: without a header its columns are those of the table, in order.

    A field that equals ``null`` and is not quoted is NULL. ``skip`` lines come before everything else.
    """

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    null: str = ""
    skip: int = 0


DEFAULT_CSV: Final = CsvOptions()


def expand(source: str | Path, suffix: str) -> list[Path]:
    """The files that a path means: itself, a folder's with the suffix, or those that match a glob; sorted.

    Raises OperationalError if there are none.
    """
    check_path(source)
    path = Path(source)
    if path.is_dir():
        found = sorted(file for file in path.rglob(f"*{suffix}") if not file.name.startswith((".", "_")))
    elif path.exists():
        found = [path]
    else:
        found = sorted(Path(name) for name in glob.glob(str(source), recursive=True) if Path(name).is_file())
    if not found:
        raise missing(f"no file {source}" if not path.is_dir() else f"no *{suffix} file in folder {source}")
    return found


def check_path(source: str | Path) -> None:
    """OperationalError for a path that none can be, such as one that is too long."""
    try:
        Path(source).exists()
    except OSError as error:
        raise missing(f"no file {str(source)[:100]}: {error.strerror}") from None


def missing(what: str) -> OperationalError:
    """That there is no such file."""
    return OperationalError(
        what, hint="give an existing file, a folder, or a pattern such as 'data/*.parquet'"
    )


def read_parquet(
    source: str | Path,
    schema: Schema,
    dictionary: Dictionary,
    chunk_rows: int = CHUNK_ROWS,
    omitted: Omitted | None = None,
) -> Iterator[Words]:
    """The rows of a parquet file, folder or glob as chunks of words ``int64[ncols, n]``, in file order."""
    files = expand(source, ".parquet")
    for path in files:
        with _opened(path) as file:
            resolve(file.schema_arrow, schema, Origin(str(path)), omitted)
    for path in files:
        row = 0
        for table in parquet_chunks(path, chunk_rows):
            yield encode(table, schema, dictionary, Origin(str(path), row), omitted)
            row += table.num_rows


def parquet_chunks(path: Path, chunk_rows: int = CHUNK_ROWS) -> Iterator[pa.Table]:
    """The rows of one memory-mapped parquet file; text of few distinct values stays dictionary encoded."""
    with _opened(path) as probe:
        repetitive = repetitive_columns(probe)
    with _opened(path, repetitive) as file:
        try:
            for batch in file.iter_batches(chunk_rows, use_threads=True):
                yield pa.Table.from_batches([batch])
        except pa.ArrowException as error:
            raise OperationalError(f"cannot read {path}: {error}", hint="is the file damaged?") from error


def parquet_schema(path: Path) -> pa.Schema:
    """The Arrow schema of a parquet file."""
    with _opened(path) as file:
        return file.schema_arrow


def _opened(path: Path, repetitive: Sequence[str] = ()) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(
            path, memory_map=True, read_dictionary=list(repetitive), coerce_int96_timestamp_unit=INT96_UNIT
        )
    except (OSError, pa.ArrowException) as error:
        raise OperationalError(
            f"cannot read {path} as parquet: {error}", hint="is it a parquet file?"
        ) from error


def repetitive_columns(file: pq.ParquetFile) -> list[str]:
    """Text columns that take so few bytes a value that they must be dictionary encoded on disk."""
    if not file.metadata.num_row_groups:
        return []
    group = file.metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    return [
        chunk.path_in_schema
        for chunk in chunks
        if chunk.physical_type == "BYTE_ARRAY"
        and chunk.total_uncompressed_size < REPETITIVE_BYTES * max(1, chunk.num_values)
    ]


def read_csv(
    source: str | Path,
    schema: Schema,
    dictionary: Dictionary,
    options: CsvOptions = DEFAULT_CSV,
    omitted: Omitted | None = None,
) -> Iterator[Words]:
    """The rows of a CSV file, folder or glob as chunks of words ``int64[ncols, n]``, in file order."""
    for column in schema.columns:
        if column.type.kind in INTERVALS:
            raise NotSupportedError(
                f"column {column.name}: {column.type} cannot be read from CSV", hint="load it from parquet"
            )
    files = expand(source, ".csv")
    targets = _csv_types(files, schema, options, omitted)
    for path in files:
        row = 0
        for batch in _csv_batches(path, schema, options):
            table = typed(batch, targets, Origin(str(path), row))
            yield encode(table, schema, dictionary, Origin(str(path), row), omitted)
            row += batch.num_rows


def _csv_types(
    files: Sequence[Path], schema: Schema, options: CsvOptions, omitted: Omitted | None
) -> dict[str, Type]:
    """The type of each column by its lower-case name; raises if some file's columns are not the schema's."""
    for path in files:
        names = csv_names(path, schema, options)
        found = pa.schema([(name, pa.null()) for name in names])
        resolve(found, schema, Origin(str(path)), omitted)
    return {column.name.lower(): column.type for column in schema.columns}


def csv_names(path: Path, schema: Schema, options: CsvOptions) -> list[str]:
    """The names in a file's header, or, if the options say that it has none, the schema's.

    Raises OperationalError for a file that cannot be read as CSV.
    """
    if not options.header:
        return list(schema.names)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter=options.delimiter, quotechar=options.quote)
            return next(reader, [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise OperationalError(
            f"cannot read {path} as CSV: {error}", hint="is it a UTF-8 CSV file?"
        ) from error


def _csv_batches(path: Path, schema: Schema, options: CsvOptions) -> Iterator[pa.RecordBatch]:
    """The fields of a CSV file as strings."""
    names = csv_names(path, schema, options)
    read = pyarrow.csv.ReadOptions(
        column_names=names,
        skip_rows=options.skip + int(options.header),
        block_size=CSV_BLOCK_BYTES,
        use_threads=False,
    )
    parse = pyarrow.csv.ParseOptions(
        delimiter=options.delimiter,
        quote_char=options.quote,
        newlines_in_values=True,
        ignore_empty_lines=len(names) > 1,
    )
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in names},
        null_values=[options.null],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        if path.stat().st_size:
            yield from pyarrow.csv.open_csv(path, read, parse, convert)
    except pa.ArrowInvalid as error:
        if "Empty CSV" not in str(error):
            hint = f"expected {len(names)} columns: {', '.join(names)}"
            uneven = _first_uneven(path, options, len(names))
            raise DataError(uneven or f"{path}: {error}", hint=hint) from error
    except OSError as error:
        raise OperationalError(f"cannot read {path}: {error}") from error


@contextmanager
def lines_of(path: Path, skip: int) -> Iterator[Iterator[str]]:
    """The lines of a text file, gzipped or not, after the first ``skip``."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", newline="", encoding="utf-8-sig") as file:
        yield islice(iter(file), skip, None)


def _first_uneven(path: Path, options: CsvOptions, width: int) -> str | None:
    """What is told of the first row with more or fewer fields, with its line, which pyarrow does not know."""
    with suppress(OSError, UnicodeDecodeError, csv.Error), lines_of(path, options.skip) as lines:
        reader = csv.reader(lines, delimiter=options.delimiter, quotechar=options.quote)
        for row in reader:
            if row and len(row) != width:
                return uneven(path, options.skip + reader.line_num, row, width, options.delimiter)
    return None


def uneven(path: Path, line: int, row: Sequence[str], width: int, delimiter: str) -> str:
    """That a row has not as many fields as it should have."""
    text = delimiter.join(row).replace("\n", " ")
    shown = text if len(text) <= ROW_SHOWN else f"{text[:ROW_SHOWN]}..."
    columns = "1 column" if len(row) == 1 else f"{len(row)} columns"
    return f"{path}, line {line}: {columns} instead of {width}: {shown}"


def typed(batch: pa.RecordBatch, targets: dict[str, Type], origin: Origin) -> pa.Table:
    """The columns of strings cast to the Arrow types of the schema; raises DataError for the first misfit."""
    columns = []
    for name, text in zip(batch.schema.names, batch.columns, strict=True):
        type_ = targets[name.lower()]
        if type_.is_interned or type_.kind in (Kind.ENUM, Kind.TID, Kind.TIME, Kind.TIMESTAMPTZ):
            columns.append(text)
            continue
        stripped = pc.utf8_trim(text, BLANKS)
        try:
            columns.append(_parsed(stripped, type_))
        except pa.ArrowInvalid:
            position = _first_refused(stripped, type_)
            refused = text[position].as_py()
            if input_errors.means(refused, type_):  # pyarrow knows fewer forms, and does not round
                try:
                    columns.append(_one_by_one(text, type_))
                    continue
                except UnfitAt as unfit:
                    position = unfit.position
                    refused = text[position].as_py()
            wrong = input_errors.complaint(refused, type_).sqlstate
            error = DataError(f"{origin.place(position, name)}: value {refused!r} is not a {type_}")
            error.sqlstate = wrong
            raise error from None
    return pa.Table.from_arrays(columns, names=batch.schema.names)


def _parsed(text: pa.Array, type_: Type) -> pa.Array:
    """The strings as numbers, dates and so on; raises ArrowInvalid if one is none, or overflows."""
    if type_.is_float:
        values = text.cast(pa.float64())
        spelled = pc.match_substring(text, "inf", ignore_case=True)
        if pc.any(pc.and_(pc.is_inf(values), pc.invert(spelled))).as_py():
            raise pa.ArrowInvalid("overflow")
        least = SMALLEST_REAL if type_.kind is Kind.REAL else 0.0
        small = pc.less_equal(pc.abs(values), least)
        if (
            pc.any(small).as_py()
            and pc.any(pc.and_(small, pc.match_substring_regex(text, "^[^eE]*[1-9]"))).as_py()
        ):
            raise pa.ArrowInvalid("underflow")
        return values
    if type_.kind is Kind.BOOLEAN:
        text = pc.utf8_lower(text)
        for meant, words in BOOLEANS.items():
            text = pc.if_else(pc.is_in(text, pa.array(words, text.type)), meant, text)
    return text.cast(pa.decimal128(38, type_.scale) if type_.kind is Kind.DECIMAL else arrow_type(type_))


def _one_by_one(text: pa.Array, type_: Type) -> pa.Array:
    """The strings as values; dates as they are, which are read later; UnfitAt if one is none."""
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        return text
    codec, values = codec_of(type_), list[Any]()
    for position, one in enumerate(text.to_pylist()):
        try:
            values.append(None if one is None else codec.to_python(codec.parse(one)))
        except (ValueError, ArithmeticError):
            raise UnfitAt(position) from None
    return pa.array(values, arrow_type(type_))


def _first_refused(text: pa.Array, type_: Type) -> int:
    """Position of the first string that cannot be cast, by bisection."""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _parsed(text.slice(low, middle - low), type_)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Write a query's result as one parquet file. Raises NotSupportedError for INTERVAL columns."""
    _require_storable(table, "parquet")
    try:
        pq.write_table(table, path)
    except OSError as error:
        raise OperationalError(f"cannot write {path}: {error}") from error


def write_csv(table: pa.Table, path: str | Path, options: CsvOptions = DEFAULT_CSV) -> None:
    """Write a result as CSV that :func:`read_csv` reads back: NULL as ``options.null``, text in quotes where
    it would be read otherwise without.
    """
    _require_storable(table, "CSV")
    names = _csv_fields(pa.array(table.column_names, pa.string()), options).to_pylist()
    try:
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            if options.header:
                file.write(options.delimiter.join(names) + "\n")
            for batch in table.to_batches(CHUNK_ROWS):
                fields = [_csv_fields(column, options) for column in batch.columns]
                lines = pc.binary_join_element_wise(*fields, pa.scalar(options.delimiter, pa.large_string()))
                file.write("".join(f"{line}\n" for line in lines.to_pylist()))
    except OSError as error:
        raise OperationalError(f"cannot write {path}: {error}") from error


def shown(column: pa.ChunkedArray, type_: Type) -> pa.Array:
    """The values of a column as Postgres writes them."""
    codec = codec_of(type_)
    texts = [None if v is None else codec.show(codec.from_python(v)) for v in column.to_pylist()]
    return pa.array(texts, pa.large_string())


def _csv_fields(column: pa.Array, options: CsvOptions) -> pa.Array:
    """The column as it is written, in large strings."""
    fields = column.cast(pa.large_string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        special = "".join(re.escape(mark) for mark in (options.delimiter, options.quote))
        needs = pc.match_substring_regex(fields, rf"[{special}\r\n]|^\\\.$|^{re.escape(options.null)}$")
        if pc.any(needs).as_py():
            doubled = pc.replace_substring(fields, options.quote, options.quote * 2)
            mark = pa.scalar(options.quote, pa.large_string())
            quoted = pc.binary_join_element_wise(mark, doubled, mark, pa.scalar("", pa.large_string()))
            fields = pc.if_else(needs, quoted, fields)
    return fields.fill_null(options.null)


def _require_storable(table: pa.Table, form: str) -> None:
    for field in table.schema:
        if pa.types.is_interval(field.type) or (form == "CSV" and pa.types.is_duration(field.type)):
            raise NotSupportedError(
                f"column {field.name}: an INTERVAL cannot be written to {form}",
                hint="convert it to a number in the query",
            )
        if form == "CSV" and pa.types.is_nested(field.type):
            raise ProgrammingError(f"column {field.name} of type {field.type} cannot be written to {form}")


INTEGERS = ((16, SMALLINT), (32, INTEGER), (64, BIGINT))
"""Bits with a sign, and the narrowest type that has them."""


def type_of(given: pa.DataType) -> Type | None:
    """The type whose values an Arrow array of the given type can hold; None if there is none.

    An unsigned type becomes the next wider one; of 64 bits BIGINT, in which the largest do not fit.
    """
    if pa.types.is_dictionary(given):
        return type_of(given.value_type)
    if pa.types.is_integer(given):
        bits = given.bit_width + int(pa.types.is_unsigned_integer(given))
        return next((type_ for width, type_ in INTEGERS if bits <= width), BIGINT)
    if pa.types.is_floating(given):
        return DOUBLE if pa.types.is_float64(given) else REAL
    if pa.types.is_decimal(given):
        fits = given.precision <= MAX_DECIMAL_PRECISION and given.scale >= 0
        return decimal(given.precision, given.scale) if fits else NUMERIC
    if pa.types.is_boolean(given):
        return BOOLEAN
    if is_text(given) or pa.types.is_null(given):
        return TEXT
    return _of_times(given) or _of_parts(given)


def _of_times(given: pa.DataType) -> Type | None:
    if pa.types.is_date(given):
        return DATE
    if pa.types.is_timestamp(given):
        return TIMESTAMP if given.tz is None else TIMESTAMPTZ
    if pa.types.is_time(given):
        return TIME
    return INTERVAL if pa.types.is_duration(given) or pa.types.is_interval(given) else None


def _of_parts(given: pa.DataType) -> Type | None:
    if pa.types.is_binary(given) or pa.types.is_large_binary(given) or pa.types.is_fixed_size_binary(given):
        return BYTEA
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        element = type_of(given.value_type)
        return None if element is None else array(element)
    if pa.types.is_struct(given):
        fields = [type_of(field.type) for field in given]
        known = [field for field in fields if field is not None]
        return record(known, [field.name for field in given]) if len(known) == len(fields) else None
    return None


def schema_of(given: pa.Schema, where: str) -> Schema:
    """The columns of an Arrow schema; NotSupportedError for a type that kpg has none for."""
    columns = []
    for field in given:
        type_ = type_of(field.type)
        if type_ is None:
            raise NotSupportedError(
                f"{where}: column {field.name} has type {field.type}",
                hint="convert it before, or leave it out",
            )
        columns.append(ColumnDef(field.name, type_))
    return Schema(tuple(columns))


def parquet_columns(source: str | Path) -> Schema:
    """The columns of a parquet file, or of the first of several."""
    first = expand(source, ".parquet")[0]
    return schema_of(parquet_schema(first), str(first))


def table_of(data: Any) -> pa.Table:
    """Data in memory as an Arrow table: a frame, a dict of columns, or a list of dicts.

    Raises InterfaceError for anything else, and for columns whose values are of different types.
    """
    try:
        table = frame_table(data)
        if table is not None:
            return table
        if isinstance(data, Mapping):
            return pa.table(dict(data))
        if isinstance(data, Sequence) and data and all(isinstance(row, Mapping) for row in data):
            return pa.Table.from_pylist(list(data))
    except UnicodeEncodeError as error:
        utf8(error.object)
        raise
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InterfaceError(
            f"the columns' types cannot be told: {error}", hint="create the table first, and load the data"
        ) from error
    raise InterfaceError(
        f"the columns of a {type(data).__name__} cannot be told",
        hint="give an Arrow table, a data frame, a dict of columns, a list of dicts, or a file",
    )
