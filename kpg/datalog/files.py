"""``.input``: facts from text files and parquet, with the place of whatever is wrong in them."""

import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from kpg.compiler.rules import core
from kpg.datalog import columnar, facts
from kpg.datalog.terms import RANGES, STRUCTURED
from kpg.engine import Engine
from kpg.runtime.convert.arrow import encode
from kpg.runtime.convert.encoding import arrow_type
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, NotSupportedError, OperationalError
from kpg.runtime.types import Schema

Words = NDArray[np.int64]
SUFFIXES: Final = (".facts", ".tsv", ".csv", ".parquet")
"""What a relation's file may be called, in this order, if the program does not say."""
KINDS: Final = ("file", "csv", "parquet", "spark", "stdin")
"""What IO may be; ``csv`` is what ``file`` is."""
STDIN: Final = Path("<stdin>")
TRUE: Final = ("true", "1", "yes")


def load(program: core.Program, engine: Engine, folder: str) -> dict[str, int]:
    """Insert the rows of every ``.input`` relation's file; how many were new. Nothing is committed.

    OperationalError for a file that cannot be read, DataError with file, line and column for a bad row.
    """
    counts: dict[str, int] = {}
    inputs = [one for one in program.transfers if one.direction is core.Direction.INPUT]
    with columnar.session([one.options for one in inputs]):
        for transfer in inputs:
            path = path_of(transfer, folder)
            table = engine.table(transfer.relation)
            relation = program.relations[transfer.relation]
            words = read(path, relation, program, table.schema, table.dictionary, transfer.options)
            counts[transfer.name] = facts.insert(table, words)
    return counts


def path_of(transfer: core.Transfer, folder: str) -> Path:
    """The file of an ``.input``."""
    kind = transfer.options.get("IO", "file")
    if kind not in KINDS:
        hint = f"the kinds are {', '.join(KINDS)}"
        raise NotSupportedError(f".input with IO={kind} is not supported", hint=hint)
    if kind == "stdin":
        return STDIN
    given = transfer.options.get("filename")
    if given is not None:
        return Path(folder, given)
    candidates = [Path(folder, transfer.name + suffix) for suffix in SUFFIXES]
    found = [path for path in candidates if path.exists()]
    if not found:
        hint = f'or say another: .input {transfer.name}(filename="...")'
        raise OperationalError(f"there is no file {candidates[0]} for relation {transfer.name}", hint=hint)
    return found[0]


def read(
    path: Path,
    relation: core.Relation,
    program: core.Program,
    schema: Schema,
    dictionary: Dictionary,
    options: Mapping[str, str],
) -> Words:
    """The rows of a file in the columns of a relation of the program, as words ``int64[w, n]``."""
    if columnar.is_columnar(path, options):
        return columnar.read(path, relation, program, schema, dictionary, options)
    if not relation.columns:
        return np.zeros((1, int(bool(_text(path).strip()))), np.int64)
    table = _fields(path, relation, options)
    first = 2 if _has_header(options) else 1
    typed = [
        _typed(path, table.column(place), column, first, program)
        for place, column in enumerate(relation.columns)
    ]
    return encode(pa.Table.from_arrays(typed, names=list(schema.names)), schema, dictionary)


def _has_header(options: Mapping[str, str]) -> bool:
    return options.get("headers", "false").lower() in TRUE


def _text(path: Path) -> str:
    if path == STDIN:
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> OperationalError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return OperationalError(f"cannot read {path}: {reason}")


def delimiter_of(path: Path, options: Mapping[str, str]) -> str:
    """What stands between the fields: a tab, or in ``.csv`` a comma, unless the program says otherwise."""
    given = options.get("delimiter", "," if path.suffix == ".csv" else "\t")
    return {"\\t": "\t", "tab": "\t"}.get(given, given)


def _fields(path: Path, relation: core.Relation, options: Mapping[str, str]) -> pa.Table:
    """The fields as strings; DataError for a line with too many or too few."""
    names = [str(place) for place in range(len(relation.columns))]
    delimiter = delimiter_of(path, options)
    if len(delimiter) != 1:
        raise NotSupportedError(f'delimiter "{delimiter}" of {path} is not one character')
    quoted = options.get("rfc4180", "true" if path.suffix == ".csv" else "false").lower() in TRUE

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
    reading = pyarrow.csv.ReadOptions(
        column_names=names, skip_rows=int(_has_header(options)), use_threads=False
    )
    kept = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in names}, strings_can_be_null=False
    )
    try:
        source = io.BytesIO(sys.stdin.buffer.read()) if path == STDIN else path
        if not (source.getbuffer().nbytes if isinstance(source, io.BytesIO) else path.stat().st_size):
            return pa.table({name: pa.array([], pa.string()) for name in names})
        return pyarrow.csv.read_csv(source, reading, parse, kept)
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return pa.table({name: pa.array([], pa.string()) for name in names})
        raise _misshapen(path, relation, wrong[0]) if wrong else DataError(f"{path}: {error}") from error


def _misshapen(path: Path, relation: core.Relation, row: pyarrow.csv.InvalidRow) -> DataError:
    return DataError(
        f"{path} line {row.number}: {row.actual_columns} fields for the {row.expected_columns} columns "
        f"of {relation.name}",
        hint=f"the line is: {row.text[:100]}",
    )


def _typed(
    path: Path, given: pa.ChunkedArray, column: core.Column, first: int, program: core.Program
) -> pa.ChunkedArray:
    """The fields of a column as values; DataError with line and column for the first that is none."""
    type_ = column.type.type
    if column.type.domain in STRUCTURED:
        return columnar.canonical_texts(given, column, program, f"{path} line {{}}", first)
    if type_.is_text:
        return given
    wanted = arrow_type(type_)
    trimmed = pc.utf8_trim_whitespace(given)
    try:
        values = pc.cast(trimmed, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise _bad(path, trimmed, column, first, _first_misfit(trimmed, wanted)) from None
    limits = RANGES.get((column.type.domain, program.number_size))
    if limits is not None and len(values):
        outside = pc.or_(pc.less(values, limits[0]), pc.greater(values, limits[1]))
        if pc.any(outside).as_py():
            raise _bad(path, trimmed, column, first, pc.index(outside, True).as_py())
    return values


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


def _bad(path: Path, fields: pa.ChunkedArray, column: core.Column, first: int, place: int) -> DataError:
    text = fields[place].as_py()
    where = f"{path} line {place + first}, column {column.name}"
    return DataError(f'{where}: "{text}" is no {column.type.name}')
