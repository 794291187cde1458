"""Runs a query on DuckDB and, bound and lowered by kpg, on the model of the algebra."""

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb

from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.sql.frontend import LoweredQuery, lower_query
from kpg.compiler.sql.parse.parser import parse, parse_query
from kpg.compiler.sql.parse.statements import CreateTable
from tests.model.relation import Row, rows_of, sort_rows

Data = Mapping[str, Sequence[Row]]


def catalog_of(script: str) -> Catalog:
    """A catalog with the tables that a script creates."""
    catalog = Catalog()
    for statement in parse(script):
        assert isinstance(statement, CreateTable)
        catalog.add(TableEntry(statement.name, statement.schema))
    return catalog


def database_of(script: str, data: Data) -> duckdb.DuckDBPyConnection:
    """A DuckDB with the tables that a script creates, holding the data."""
    connection = duckdb.connect()
    connection.execute(script)
    for table, rows in data.items():
        if rows:
            marks = ", ".join("?" for _ in rows[0])
            connection.executemany(f"insert into {table} values ({marks})", [list(row) for row in rows])
    return connection


def model_rows(bound: LoweredQuery, data: Data) -> list[Row]:
    """The query's rows, in its order, by the model."""
    rows = rows_of(bound.rel, data)
    assert all(n > 0 for n in rows.values())
    return [row[: bound.visible] for row in sort_rows(rows.elements(), bound.order)]


def check(query: str, catalog: Catalog, data: Data, connection: duckdb.DuckDBPyConnection) -> LoweredQuery:
    """Asserts that both give the same multiset of rows."""
    bound = lower_query(parse_query(query), catalog)
    expected = connection.execute(query).fetchall()
    assert_same(model_rows(bound, data), expected)
    return bound


def assert_same(found: Iterable[Row], expected: Iterable[Row]) -> None:
    """Asserts that the rows are the same, in any order; floats to nine digits."""
    left, right = sorted(map(_plain, found), key=_sort_key), sorted(map(_plain, expected), key=_sort_key)
    assert len(left) == len(right), (left[:20], right[:20])
    for one, other in zip(left, right, strict=True):
        assert len(one) == len(other) and all(map(_equal, one, other)), (one, other)


def _plain(row: Sequence[Any]) -> Row:
    return tuple(value.rstrip(" ") if isinstance(value, str) else value for value in row)


def _sort_key(row: Row) -> tuple[str, ...]:
    return tuple(f"{float(v):.6g}" if isinstance(v, int | float | Decimal) else repr(v) for v in row)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        if one is None or other is None:
            return one is other
        return math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other) and (one is None) == (other is None)
