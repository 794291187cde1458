"""``.input``: facts from files and databases, with the place of whatever is wrong in them."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kpg.compiler.datalog.core_program import BASE
from kpg.compiler.datalog.types.declarations import is_on, kind_of
from kpg.compiler.rules import core
from kpg.datalog import columnar, facts
from kpg.datalog.lines import STDIN, content, fields
from kpg.datalog.spelling import SINGLE
from kpg.datalog.terms import NARROW, RANGES, STRUCTURED
from kpg.engine.engine import Engine
from kpg.runtime.convert.arrow import arrow_type, encode
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, OperationalError
from kpg.runtime.types import MAX_WORD, MIN_WORD, Schema

Words = NDArray[np.int64]
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
    with columnar.session([one.options for one in inputs]):
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
            words = read(path, relation, program, table.schema, table.dictionary, transfer.options)
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


def read(
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
    if columnar.is_columnar(path, options):
        return columnar.read(path, relation, program, schema, dictionary, options)
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
            from kpg.datalog.sqlite_tables import read_table

            name = options.get("name", relation.name.removesuffix(BASE))
            return rows_as_table(read_table(path, name, relation), relation), f"{path} row {{}}"
        case "json" | "jsonfile":
            from kpg.datalog.json_rows import read_rows

            return rows_as_table(read_rows(path, relation, program), relation), f"{path} row {{}}"
        case _:
            return fields(path, relation, options, given), f"{path} line {{}}"


def _typed(
    where: str, given: pa.ChunkedArray, column: core.Column, first: int, program: core.Program
) -> pa.ChunkedArray:
    """The fields of a column as values; DataError with line and column for the first that is none."""
    type_ = column.type.type
    if column.type.domain in STRUCTURED:
        return columnar.canonical_texts(given, column, program, where, first)
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
