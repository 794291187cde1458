"""The columns of data that come without a schema: of Arrow's types, and of parquet files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kpg.runtime.convert.arrow import frame_table
from kpg.runtime.convert.encoding import is_text
from kpg.runtime.convert.files import expand, parquet_schema
from kpg.runtime.dictionary import utf8
from kpg.runtime.errors import InterfaceError, NotSupportedError
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
    ColumnDef,
    Schema,
    Type,
    array,
    decimal,
    record,
)

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
