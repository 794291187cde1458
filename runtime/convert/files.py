"""Parquet and CSV files in and out, through pyarrow, in chunks; schemas of files without a declaration.

The schemas of all files are checked before the first chunk is returned. A value that does not fit is
reported with its file, row (from 1) and column. The caller rolls back the chunks that it received
earlier.
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

from kpg.runtime.convert.arrow import (
    Origin,
    UnrepresentableAt,
    arrow_type,
    encode_table,
    frame_table,
    is_text,
    match_columns,
)
from kpg.runtime.convert.python_values import OmittedColumns
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
from kpg.runtime.values.words import BLANKS, FALSE_WORDS, REAL_UNDERFLOW, TRUE_WORDS

Words = NDArray[np.int64]

CHUNK_ROWS: Final = 1 << 18
"""Rows read and encoded at a time: 42 MB of words for a table of twenty columns."""
CSV_BLOCK_BYTES: Final = 1 << 24
"""Bytes of text parsed at a time, about as many rows as a chunk."""
REPETITIVE_BYTES: Final = 4
"""Bytes per value below which text must be dictionary encoded. A plain value's length alone has four."""
INT96_UNIT: Final = "us"
"""Unit of INT96 timestamps of old writers such as Spark. Nanoseconds would wrap from 2262 on."""
TEXT_OUTPUT_KINDS: Final = VALUE_KINDS | {Kind.TIMESTAMPTZ, Kind.INTERVAL_DAY}
"""Kinds that CSV has in Postgres' text form."""
BOOLEAN_WORDS: Final = {"true": sorted(TRUE_WORDS), "false": sorted(FALSE_WORDS)}
"""Texts that Postgres accepts for each boolean."""
INTERVALS: Final = (Kind.INTERVAL_MONTH, Kind.INTERVAL_DAY)
MAX_ROW_TEXT: Final = 60
"""Characters of a row in a message."""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """Options of a CSV file. Without a header its columns are those of the table, in order.

    An unquoted field that equals ``null`` is NULL. The first ``skip`` lines are ignored.
    """

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    null: str = ""
    skip: int = 0


DEFAULT_CSV: Final = CsvOptions()


def expand_path(source: str | Path, suffix: str) -> list[Path]:
    """Return the sorted files of a path: a file, the files of a folder with the suffix, or those of a glob.

    Raises:
        OperationalError: There are none.
    """
    check_path(source)
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.rglob(f"*{suffix}") if not file.name.startswith((".", "_")))
    elif path.exists():
        files = [path]
    else:
        files = sorted(Path(name) for name in glob.glob(str(source), recursive=True) if Path(name).is_file())
    if not files:
        raise missing_file_error(
            f"no file {source}" if not path.is_dir() else f"no *{suffix} file in folder {source}"
        )
    return files


def check_path(source: str | Path) -> None:
    """Raise OperationalError for an impossible path, such as one that is too long."""
    try:
        Path(source).exists()
    except OSError as error:
        raise missing_file_error(f"no file {str(source)[:100]}: {error.strerror}") from None


def missing_file_error(message: str) -> OperationalError:
    """Return the error of a missing file."""
    return OperationalError(
        message, hint="give an existing file, a folder, or a pattern such as 'data/*.parquet'"
    )


def read_parquet(
    source: str | Path,
    schema: Schema,
    dictionary: Dictionary,
    chunk_rows: int = CHUNK_ROWS,
    omitted: OmittedColumns | None = None,
) -> Iterator[Words]:
    """Yield the rows of a parquet file, folder or glob as words ``int64[ncols, n]``, in file order."""
    files = expand_path(source, ".parquet")
    for path in files:
        with _open_parquet(path) as file:
            match_columns(file.schema_arrow, schema, Origin(str(path)), omitted)
    for path in files:
        row = 0
        for table in parquet_chunks(path, chunk_rows):
            yield encode_table(table, schema, dictionary, Origin(str(path), row), omitted)
            row += table.num_rows


def parquet_chunks(path: Path, chunk_rows: int = CHUNK_ROWS) -> Iterator[pa.Table]:
    """Yield the rows of a memory-mapped parquet file. Text of few distinct values stays dictionary-coded."""
    with _open_parquet(path) as probe:
        repetitive = repetitive_columns(probe)
    with _open_parquet(path, repetitive) as file:
        try:
            for batch in file.iter_batches(chunk_rows, use_threads=True):
                yield pa.Table.from_batches([batch])
        except pa.ArrowException as error:
            raise OperationalError(f"cannot read {path}: {error}", hint="is the file damaged?") from error


def parquet_schema(path: Path) -> pa.Schema:
    """Return the Arrow schema of a parquet file."""
    with _open_parquet(path) as file:
        return file.schema_arrow


def _open_parquet(path: Path, repetitive: Sequence[str] = ()) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(
            path, memory_map=True, read_dictionary=list(repetitive), coerce_int96_timestamp_unit=INT96_UNIT
        )
    except (OSError, pa.ArrowException) as error:
        raise OperationalError(
            f"cannot read {path} as parquet: {error}", hint="is it a parquet file?"
        ) from error


def repetitive_columns(file: pq.ParquetFile) -> list[str]:
    """Return the text columns with so few bytes per value that they must be dictionary encoded on disk."""
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
    omitted: OmittedColumns | None = None,
) -> Iterator[Words]:
    """Yield the rows of a CSV file, folder or glob as words ``int64[ncols, n]``, in file order."""
    for column in schema.columns:
        if column.type.kind in INTERVALS:
            raise NotSupportedError(
                f"column {column.name}: {column.type} cannot be read from CSV", hint="load it from parquet"
            )
    files = expand_path(source, ".csv")
    targets = _csv_types(files, schema, options, omitted)
    for path in files:
        row = 0
        for batch in _csv_batches(path, schema, options):
            table = cast_columns(batch, targets, Origin(str(path), row))
            yield encode_table(table, schema, dictionary, Origin(str(path), row), omitted)
            row += batch.num_rows


def _csv_types(
    files: Sequence[Path], schema: Schema, options: CsvOptions, omitted: OmittedColumns | None
) -> dict[str, Type]:
    """Check the columns of all files, and return each column's type by lower-case name."""
    for path in files:
        names = csv_names(path, schema, options)
        source = pa.schema([(name, pa.null()) for name in names])
        match_columns(source, schema, Origin(str(path)), omitted)
    return {column.name.lower(): column.type for column in schema.columns}


def csv_names(path: Path, schema: Schema, options: CsvOptions) -> list[str]:
    """Return the names in a file's header, or the schema's names for a file without one.

    Raises:
        OperationalError: The file cannot be read as CSV.
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
    """Yield the fields of a CSV file as strings."""
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
            uneven = _first_uneven_row(path, options, len(names))
            raise DataError(uneven or f"{path}: {error}", hint=hint) from error
    except OSError as error:
        raise OperationalError(f"cannot read {path}: {error}") from error


@contextmanager
def open_lines(path: Path, skip: int) -> Iterator[Iterator[str]]:
    """Open a text file, gzipped or not, and iterate over its lines after the first ``skip``."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", newline="", encoding="utf-8-sig") as file:
        yield islice(iter(file), skip, None)


def _first_uneven_row(path: Path, options: CsvOptions, width: int) -> str | None:
    """Return the message on the first row with a wrong number of fields. pyarrow does not know its line."""
    with suppress(OSError, UnicodeDecodeError, csv.Error), open_lines(path, options.skip) as lines:
        reader = csv.reader(lines, delimiter=options.delimiter, quotechar=options.quote)
        for row in reader:
            if row and len(row) != width:
                return uneven_row_message(path, options.skip + reader.line_num, row, width, options.delimiter)
    return None


def uneven_row_message(path: Path, line: int, row: Sequence[str], width: int, delimiter: str) -> str:
    """Return the message about a row with a wrong number of fields."""
    text = delimiter.join(row).replace("\n", " ")
    excerpt = text if len(text) <= MAX_ROW_TEXT else f"{text[:MAX_ROW_TEXT]}..."
    columns = "1 column" if len(row) == 1 else f"{len(row)} columns"
    return f"{path}, line {line}: {columns} instead of {width}: {excerpt}"


def cast_columns(batch: pa.RecordBatch, targets: dict[str, Type], origin: Origin) -> pa.Table:
    """Cast columns of strings to the Arrow types of the schema.

    Raises:
        DataError: A string is not a value of its type. The message has the first one.
    """
    columns = []
    for name, text in zip(batch.schema.names, batch.columns, strict=True):
        type_ = targets[name.lower()]
        if type_.is_interned or type_.kind in (
            *(Kind.ENUM, Kind.EXTENSION, Kind.TID, Kind.TIME, Kind.TIMESTAMPTZ),
        ):
            columns.append(text)
            continue
        stripped = pc.utf8_trim(text, BLANKS)
        try:
            columns.append(_cast_strings(stripped, type_))
        except pa.ArrowInvalid:
            position = _first_invalid(stripped, type_)
            invalid = text[position].as_py()
            if input_errors.is_valid_input(invalid, type_):  # pyarrow accepts fewer forms and does not round
                try:
                    columns.append(_parse_one_by_one(text, type_))
                    continue
                except UnrepresentableAt as unfit:
                    position = unfit.position
                    invalid = text[position].as_py()
            sqlstate = input_errors.input_error(invalid, type_).sqlstate
            error = DataError(f"{origin.describe(position, name)}: value {invalid!r} is not a {type_}")
            error.sqlstate = sqlstate
            raise error from None
    return pa.Table.from_arrays(columns, names=batch.schema.names)


def _cast_strings(text: pa.Array, type_: Type) -> pa.Array:
    """Cast strings to numbers, dates and other types. ArrowInvalid if one is invalid or out of range."""
    if type_.is_float:
        values = text.cast(pa.float64())
        has_infinity = pc.match_substring(text, "inf", ignore_case=True)
        if pc.any(pc.and_(pc.is_inf(values), pc.invert(has_infinity))).as_py():
            raise pa.ArrowInvalid("overflow")
        least = REAL_UNDERFLOW if type_.kind is Kind.REAL else 0.0
        small = pc.less_equal(pc.abs(values), least)
        if (
            pc.any(small).as_py()
            and pc.any(pc.and_(small, pc.match_substring_regex(text, "^[^eE]*[1-9]"))).as_py()
        ):
            raise pa.ArrowInvalid("underflow")
        return values
    if type_.kind is Kind.BOOLEAN:
        text = pc.utf8_lower(text)
        for canonical, words in BOOLEAN_WORDS.items():
            text = pc.if_else(pc.is_in(text, pa.array(words, text.type)), canonical, text)
    return text.cast(pa.decimal128(38, type_.scale) if type_.kind is Kind.DECIMAL else arrow_type(type_))


def _parse_one_by_one(text: pa.Array, type_: Type) -> pa.Array:
    """Parse the strings. Dates stay strings and are parsed later.

    Raises:
        UnrepresentableAt: A string is invalid.
    """
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        return text
    codec, values = codec_of(type_), list[Any]()
    for position, one in enumerate(text.to_pylist()):
        try:
            values.append(None if one is None else codec.to_python(codec.parse(one)))
        except (ValueError, ArithmeticError):
            raise UnrepresentableAt(position) from None
    return pa.array(values, arrow_type(type_))


def _first_invalid(text: pa.Array, type_: Type) -> int:
    """Return the position of the first string that cannot be cast, by bisection."""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast_strings(text.slice(low, middle - low), type_)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Write a query's result to a parquet file.

    Raises:
        NotSupportedError: A column is an INTERVAL.
    """
    _require_storable(table, "parquet")
    try:
        pq.write_table(table, path)
    except OSError as error:
        raise OperationalError(f"cannot write {path}: {error}") from error


def write_csv(table: pa.Table, path: str | Path, options: CsvOptions = DEFAULT_CSV) -> None:
    """Write a result as CSV that :func:`read_csv` reads back.

    NULL is ``options.null``. Text is quoted where it would be read differently otherwise.
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


def show_column(column: pa.ChunkedArray, type_: Type) -> pa.Array:
    """Format the values of a column like Postgres."""
    codec = codec_of(type_)
    texts = [None if v is None else codec.show(codec.from_python(v)) for v in column.to_pylist()]
    return pa.array(texts, pa.large_string())


def _csv_fields(column: pa.Array, options: CsvOptions) -> pa.Array:
    """Format a column as large strings."""
    fields = column.cast(pa.large_string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        special = "".join(re.escape(mark) for mark in (options.delimiter, options.quote))
        needs_quotes = pc.match_substring_regex(
            fields, rf"[{special}\r\n]|^\\\.$|^{re.escape(options.null)}$"
        )
        if pc.any(needs_quotes).as_py():
            doubled = pc.replace_substring(fields, options.quote, options.quote * 2)
            mark = pa.scalar(options.quote, pa.large_string())
            quoted = pc.binary_join_element_wise(mark, doubled, mark, pa.scalar("", pa.large_string()))
            fields = pc.if_else(needs_quotes, quoted, fields)
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


INTEGER_TYPES = ((16, SMALLINT), (32, INTEGER), (64, BIGINT))
"""Width in bits, including the sign, and the narrowest type of that width."""


def type_of(source: pa.DataType) -> Type | None:
    """Return the type that holds the values of an Arrow type, or None.

    An unsigned type becomes the next wider one. 64 unsigned bits become BIGINT, which lacks the largest
    values.
    """
    if pa.types.is_dictionary(source):
        return type_of(source.value_type)
    if pa.types.is_integer(source):
        bits = source.bit_width + int(pa.types.is_unsigned_integer(source))
        return next((type_ for width, type_ in INTEGER_TYPES if bits <= width), BIGINT)
    if pa.types.is_floating(source):
        return DOUBLE if pa.types.is_float64(source) else REAL
    if pa.types.is_decimal(source):
        fits = source.precision <= MAX_DECIMAL_PRECISION and source.scale >= 0
        return decimal(source.precision, source.scale) if fits else NUMERIC
    if pa.types.is_boolean(source):
        return BOOLEAN
    if is_text(source) or pa.types.is_null(source):
        return TEXT
    return _type_of_times(source) or _type_of_parts(source)


def _type_of_times(source: pa.DataType) -> Type | None:
    if pa.types.is_date(source):
        return DATE
    if pa.types.is_timestamp(source):
        return TIMESTAMP if source.tz is None else TIMESTAMPTZ
    if pa.types.is_time(source):
        return TIME
    return INTERVAL if pa.types.is_duration(source) or pa.types.is_interval(source) else None


def _type_of_parts(source: pa.DataType) -> Type | None:
    if (
        pa.types.is_binary(source)
        or pa.types.is_large_binary(source)
        or pa.types.is_fixed_size_binary(source)
    ):
        return BYTEA
    if pa.types.is_list(source) or pa.types.is_large_list(source):
        element = type_of(source.value_type)
        return None if element is None else array(element)
    if pa.types.is_struct(source):
        fields = [type_of(field.type) for field in source]
        known = [field for field in fields if field is not None]
        return record(known, [field.name for field in source]) if len(known) == len(fields) else None
    return None


def schema_of(source: pa.Schema, origin: str) -> Schema:
    """Return the columns of an Arrow schema.

    Raises:
        NotSupportedError: A type has no counterpart in kpg.
    """
    columns = []
    for field in source:
        type_ = type_of(field.type)
        if type_ is None:
            raise NotSupportedError(
                f"{origin}: column {field.name} has type {field.type}",
                hint="convert it before, or leave it out",
            )
        columns.append(ColumnDef(field.name, type_))
    return Schema(tuple(columns))


def parquet_columns(source: str | Path) -> Schema:
    """Return the columns of the first parquet file of a path."""
    first = expand_path(source, ".parquet")[0]
    return schema_of(parquet_schema(first), str(first))


def table_of(data: Any) -> pa.Table:
    """Convert data in memory to an Arrow table: a frame, a dict of columns, or a list of dicts.

    Raises:
        InterfaceError: The data has another form, or a column has values of different types.
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
