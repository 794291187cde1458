"""Names and types of columns, as users write them."""

import datetime
import decimal
import re
import types as python
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kpg.compiler.catalog.entries import did_you_mean
from kpg.runtime.errors import InterfaceError, ProgrammingError
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    REAL,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    ColumnDef,
    Kind,
    Schema,
    Type,
)
from kpg.runtime.types import decimal as decimal_type

ColumnType = Any
"""A Python type (int, str, float, bool, Decimal, date, datetime, timedelta), ``int | None`` where a value
may be None, a ``kpg.types.Type``, or a SQL name such as "DECIMAL(10, 2)"."""
Names = str | Sequence[str]

PYTHON: Final[Mapping[Any, Type]] = {
    int: BIGINT,
    str: TEXT,
    float: DOUBLE,
    bool: BOOLEAN,
    decimal.Decimal: decimal_type(18, 3),
    datetime.date: DATE,
    datetime.datetime: TIMESTAMP,
    datetime.timedelta: INTERVAL_DAY,
}
SQL: Final = {
    "BOOLEAN": BOOLEAN,
    "SMALLINT": SMALLINT,
    "INT": INTEGER,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "REAL": REAL,
    "DOUBLE": DOUBLE,
    "DOUBLE PRECISION": DOUBLE,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TEXT": TEXT,
    "VARCHAR": TEXT,
}
SIZED: Final = re.compile(r"(DECIMAL|NUMERIC|CHAR|VARCHAR) *\( *(\d+) *(?:, *(\d+) *)?\)")


def column_of(name: str, given: ColumnType) -> ColumnDef:
    """A column of the type that the user wrote; ProgrammingError if that is none."""
    if isinstance(given, python.UnionType) or str(typing.get_origin(given)) == "typing.Union":
        parts = [part for part in typing.get_args(given) if part is not type(None)]
        if len(parts) == 1:
            return ColumnDef(name, type_of(name, parts[0]))
    return ColumnDef(name, type_of(name, given), nullable=False)


def type_of(name: str, given: ColumnType) -> Type:
    """The type that the user wrote for a column."""
    found: Type | None = None
    if isinstance(given, Type):
        found = given
    elif isinstance(given, str):
        found = _named(given.strip().upper())
    elif isinstance(given, type):
        found = PYTHON.get(given)
    if found is None:
        raise ProgrammingError(
            f"column {name} has no type {given!r}",
            hint='use int, str, float, bool, Decimal, date, datetime, a kpg type, or "DECIMAL(10, 2)"',
        )
    return found


def _named(text: str) -> Type | None:
    sized = SIZED.fullmatch(text)
    if sized is None:
        return SQL.get(text)
    word, size, scale = sized.groups()
    if word in ("CHAR", "VARCHAR"):
        return None if scale else Type(Kind[word], int(size))
    return decimal_type(int(size), int(scale or 0))


def schema_of(columns: Mapping[str, ColumnType]) -> Schema:
    """The columns that the user named with their types."""
    if not columns:
        raise InterfaceError(
            "a collection needs columns", hint="name them with their types: src=int, dst=int"
        )
    return Schema(tuple(column_of(name, given) for name, given in columns.items()))


def comparable(left: Type, right: Type) -> bool:
    """Whether equal values of both types are equal words."""
    if left.kind is Kind.DECIMAL or right.kind is Kind.DECIMAL:
        return left.kind is right.kind and left.scale == right.scale
    same = (
        left.is_integer and right.is_integer,
        left.is_float and right.is_float,
        left.is_text and right.is_text,
    )
    return left.kind is right.kind or any(same)


def listed(names: Names) -> tuple[str, ...]:
    """One name, or several."""
    return (names,) if isinstance(names, str) else tuple(names)


def place_of(name: str, names: Sequence[str]) -> int:
    """The position of a column; ProgrammingError with a suggestion if there is none."""
    if name not in names:
        hint = did_you_mean(name, names) or f"the columns are {', '.join(names)}"
        raise ProgrammingError(f'there is no column "{name}"', hint=hint)
    return list(names).index(name)


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The names; ProgrammingError if two are equal."""
    found = tuple(names)
    for place, name in enumerate(found):
        if name in found[:place]:
            raise ProgrammingError(
                f'two columns are called "{name}"', hint="rename one, or say what the result is"
            )
    return found
