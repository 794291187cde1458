"""Arrow tables to words and back: the way in and out for everything columnar.

What comes in is matched with a schema by column name, in any case, and converted by value: nothing
that does not fit is cut or wrapped, and numbers are rounded only to the scale of a NUMERIC, as in SQL. Rows
are numbered from 1 in messages.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpg.runtime.convert.encoding import accepts, decode_array, encode_array, is_text
from kpg.runtime.convert.texts import UnfitAt
from kpg.runtime.convert.values import Omitted, encode_records, encode_rows, encode_values
from kpg.runtime.dictionary import Dictionary, utf8
from kpg.runtime.errors import DataError, InterfaceError, InternalError, ProgrammingError
from kpg.runtime.records import dataclass
from kpg.runtime.types import ERROR, Kind, Schema, Type
from kpg.runtime.values import complaints

__all__ = ["Origin", "decode", "encode", "encode_records", "encode_rows", "from_any", "resolve"]

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a batch came from, for messages: a file (or nothing), and how many of its rows came before."""

    name: str = ""
    row: int = 0

    def place(self, position: int | None, column: str) -> str:
        parts = [self.name] if self.name else []
        if position is not None:
            parts.append(f"row {self.row + position + 1}")
        return ", ".join((*parts, f"column {column}"))


NOWHERE = Origin()


def resolve(
    given: pa.Schema, schema: Schema, origin: Origin = NOWHERE, omitted: Omitted | None = None
) -> list[int]:
    """For each column of the schema, its position in the given one; the types are checked, not the values.

    -1 stands for a column that is omitted.

    Raises ProgrammingError for a column that is missing, extra, ambiguous or of a type that does not convert.
    """
    where = f"{origin.name}: " if origin.name else ""
    positions: dict[str, list[int]] = {}
    for i, name in enumerate(given.names):
        positions.setdefault(name.lower(), []).append(i)
    result = []
    for place, column in enumerate(schema.columns):
        found = positions.pop(column.name.lower(), [])
        if not found and omitted is not None and place in omitted.allowed:
            omitted.found = True
            result.append(-1)
            continue
        if len(found) != 1:
            what = "ambiguous" if found else "missing"
            hint = f"found {', '.join(given.names)}" if given.names else "there are no columns at all"
            raise ProgrammingError(f"{where}column {column.name} {column.type} is {what}", hint=hint)
        if not accepts(column.type, given.types[found[0]]):
            raise ProgrammingError(
                f"{where}column {column.name} has type {given.types[found[0]]}, expected {column.type}",
                hint=f"convert {column.name} to {column.type} before loading it",
            )
        result.append(found[0])
    if positions:
        extra = given.names[next(iter(positions.values()))[0]]
        raise ProgrammingError(
            f"{where}column {extra} is not in the table", hint=f"the columns are {', '.join(schema.names)}"
        )
    return result


def encode(
    data: "pa.Table | pa.RecordBatch",
    schema: Schema,
    dictionary: Dictionary,
    origin: Origin = NOWHERE,
    omitted: Omitted | None = None,
) -> Words:
    """The rows as words ``int64[ncols, n]`` in the order of the schema's columns.

    Raises as :func:`resolve`, and DataError, naming row, column and value, for a value that does not fit its
    column's type. NULLs are let through: NOT NULL is the table's to check.
    """
    words = np.empty((len(schema.columns), data.num_rows), np.int64)
    for i, position in enumerate(resolve(data.schema, schema, origin, omitted)):
        if position < 0:
            words[i] = ERROR
            continue
        source = data.column(position)
        chunks = source.chunks if isinstance(source, pa.ChunkedArray) else [source]
        chunks = [chunk for chunk in chunks if len(chunk)]
        start = 0
        for chunk in chunks:
            try:
                _encode_chunk(chunk, schema.columns[i].type, dictionary, words[i, start : start + len(chunk)])
            except UnfitAt as unfit:
                place, value = (
                    origin.place(start + unfit.position, schema.columns[i].name),
                    chunk[unfit.position],
                )
                error = DataError(
                    f"{place}: value {_shown(value)} does not fit {schema.columns[i].type}",
                    hint="nothing of this batch was taken in; correct the value or widen the column",
                )
                error.sqlstate = _state(value, schema.columns[i].type)
                raise error from None
            start += len(chunk)
    return words


def _encode_chunk(chunk: pa.Array, type_: Type, dictionary: Dictionary, out: Words) -> None:
    encode_array(chunk, type_, dictionary, out)
    if type_.kind is Kind.BIGINT or type_.kind in (Kind.TIMESTAMP, Kind.INTERVAL_DAY):
        reserved = out <= ERROR
        if chunk.null_count:
            reserved &= chunk.is_valid().to_numpy(zero_copy_only=False)
        if reserved.any():
            raise UnfitAt(int(np.argmax(reserved)))


def _state(value: pa.Scalar, type_: Type) -> str | None:
    """The SQLSTATE of a text that is not taken; None if it is another value."""
    return complaints.complaint(value.as_py(), type_).sqlstate if is_text(value.type) else None


def _shown(scalar: pa.Scalar) -> str:
    try:
        return repr(scalar.as_py())
    except (OverflowError, ValueError):
        return f"{scalar.value} {scalar.type}"


def decode(words: Words, names: Sequence[str], types: Sequence[Type], dictionary: Dictionary) -> pa.Table:
    """The rows ``words[ncols, n]`` as an Arrow table with the given column names and types."""
    arrays = []
    for i, type_ in enumerate(types):
        column = np.ascontiguousarray(words[i])
        if (column == ERROR).any():
            raise InternalError(f"column {names[i]} holds the result of a failed operation")
        arrays.append(decode_array(column, type_, dictionary))
    return pa.Table.from_arrays(arrays, names=list(names))


def is_frame(data: object) -> bool:
    """Whether an object is columns with names: an Arrow table, a data frame, or what streams as one."""
    return hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def _is_pandas(data: object) -> bool:
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")


def frame_table(data: Any) -> "pa.Table | None":
    """A frame as an Arrow table; None for what :func:`is_frame` says is none."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if _is_pandas(data):
        return pa.Table.from_pandas(data, preserve_index=False)
    return pa.RecordBatchReader.from_stream(data).read_all() if is_frame(data) else None


def from_any(data: Any, schema: Schema, dictionary: Dictionary, omitted: Omitted | None = None) -> Words:
    """The words ``int64[ncols, n]`` of rows in any shape that Python users have them.

    An Arrow table, batch or reader, a pandas or polars data frame, anything with the Arrow C stream
    protocol, a dict of columns, a list of tuples or a list of dicts. Tuples give all columns. Raises
    InterfaceError for anything else.
    """
    table = frame_table(data)
    if table is not None:
        return encode(table, schema, dictionary, omitted=omitted)
    if isinstance(data, Mapping):
        return _encode_columns(data, schema, dictionary, omitted)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        if not data or isinstance(data[0], (tuple, list)):
            return encode_rows(data, schema, dictionary)
        if isinstance(data[0], Mapping):
            return encode_records(data, schema, dictionary, omitted)
    listed = isinstance(data, Sequence) and not isinstance(data, (str, bytes))
    held = f" of {type(data[0]).__name__}" if listed else ""
    raise InterfaceError(
        f"cannot read rows from a {type(data).__name__}{held}",
        hint="give an Arrow table, a data frame, a dict of columns, or a list of tuples or dicts",
    )


def _encode_columns(
    data: Mapping[str, Any], schema: Schema, dictionary: Dictionary, omitted: Omitted | None
) -> Words:
    """A dict of columns: lists by Python's types, arrays by Arrow's."""
    names = list(data)
    for name in names:
        utf8(str(name))  # which is an error for what is no Unicode
    given = [pa.nulls(0) if isinstance(data[name], (list, tuple)) else pa.array(data[name]) for name in names]
    positions = resolve(
        pa.schema([(str(n), array.type) for n, array in zip(names, given, strict=True)]),
        schema,
        omitted=omitted,
    )
    lengths = {name: len(data[name]) for name in names}
    if len(set(lengths.values())) > 1:
        raise InterfaceError(f"the columns differ in length: {lengths}")
    words = np.empty((len(positions), next(iter(lengths.values()), 0)), np.int64)
    for i, position in enumerate(positions):
        if position < 0:
            words[i] = ERROR
            continue
        column, values = schema.columns[i], data[names[position]]
        if isinstance(values, (list, tuple)):
            words[i] = encode_values(values, column, dictionary)
        else:
            one = Schema((column,))
            words[i] = encode(pa.table({column.name: given[position]}), one, dictionary)[0]
    return words
