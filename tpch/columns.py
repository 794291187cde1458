"""Arrow columns from numpy arrays, in the types of the TPC-H files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kpg.tpch.generate import table_path

Integers = npt.NDArray[np.int64]

MONEY: Final = pa.decimal128(15, 2)


def money(cents: Integers) -> pa.Array:
    """A DECIMAL(15, 2) column of amounts given in hundredths."""
    words = np.empty((len(cents), 2), dtype=np.int64)
    words[:, 0] = cents
    words[:, 1] = cents >> 63
    return pa.Array.from_buffers(MONEY, len(cents), [None, pa.py_buffer(words)])


def cents(column: pa.Array | pa.ChunkedArray) -> Integers:
    """The hundredths of a DECIMAL(15, 2) column without NULLs: the inverse of :func:`money`."""
    scaled = column.cast(pa.decimal128(17, 2)).cast(pa.float64()).to_numpy(zero_copy_only=False) * 100
    result: Integers = np.rint(scaled).astype(np.int64)
    return result


def dates(days: Integers) -> pa.Array:
    """A DATE column of days since 1970-01-01."""
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def text(vocabulary: Sequence[str] | pa.Array, codes: Integers) -> pa.Array:
    """The strings that ``codes`` index in ``vocabulary``."""
    return pa.array(vocabulary, pa.string()).take(pa.array(codes))


def file_schema(folder: Path, table: str) -> pa.Schema:
    """The Arrow schema of a table's file, with plain strings."""
    schema = pq.read_schema(table_path(folder, table)).remove_metadata()
    return pa.schema([_plain(field) for field in schema])


def build(schema: pa.Schema, columns: Mapping[str, pa.Array | Integers]) -> pa.Table:
    """A table of the given schema from columns by name."""
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _plain(field: pa.Field) -> pa.Field:
    is_text = pa.types.is_string_view(field.type) or pa.types.is_large_string(field.type)
    return pa.field(field.name, pa.string() if is_text else field.type, nullable=field.nullable)
