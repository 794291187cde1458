"""The oracle: DuckDB with the same tables, refreshes and queries, and a comparison of answers.

Exact values must be equal. A floating-point value may differ by a relative 1e-9. If one side is
DOUBLE and the other DECIMAL (systems type divisions differently), half a unit of the DECIMAL's last
digit is allowed too. Rows form a multiset, but ORDER BY keys must be in order.
"""

import re
import time
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeGuard

import duckdb
import pyarrow as pa

from kpg.runtime.errors import InternalError
from kpg.runtime.records import dataclass
from kpg.tpch.data import PRIMARY_KEYS, TABLES, table_path
from kpg.tpch.refresh import Batch

Value = None | bool | int | float | Decimal | str | date | datetime
Row = tuple[Value, ...]

RELATIVE_ERROR: Final = 1e-9
"""Maximum relative difference of floating-point values."""

_ORDER_BY: Final = re.compile(
    r"\border\s+by\s+(?P<keys>[^()]*?)(?:\s+limit\s+(?P<limit>\d+))?\s*;?\s*\Z", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Order:
    """The final ORDER BY and LIMIT of a query. ``keys`` are names of output columns."""

    keys: tuple[str, ...] = ()
    limit: int | None = None

    @staticmethod
    def of(text: str) -> "Order":
        """Return the final ORDER BY and LIMIT of a query's text."""
        match_ = _ORDER_BY.search(text)
        if match_ is None:
            return Order()
        keys = tuple(key.split()[0].lower() for key in match_["keys"].split(","))
        return Order(keys, None if match_["limit"] is None else int(match_["limit"]))


def remove_limit(text: str) -> str:
    """Return the query without its final LIMIT."""
    return re.sub(r"\blimit\s+\d+\s*;?\s*\Z", "", text, flags=re.IGNORECASE)


def find_difference(
    actual: pa.Table, expected: pa.Table, order: Order, unlimited: Callable[[], pa.Table] | None = None
) -> str | None:
    """Return a description of the first difference, or None if the answers agree.

    A LIMIT between rows with equal ORDER BY keys allows several answers. ``unlimited`` then returns the
    answer without LIMIT, which must contain the rows.
    """
    if actual.num_columns != expected.num_columns:
        return f"{actual.num_columns} columns instead of {expected.num_columns}"
    actual_rows, expected_rows = _rows(actual), _rows(expected)
    positions = [expected.column_names.index(key) for key in order.keys if key in expected.column_names]
    disorder = _first_disorder(actual_rows, expected_rows, positions)
    description = _multiset_difference(actual_rows, expected_rows)
    if description is not None and order.limit is not None and unlimited is not None and disorder is None:
        surplus = _first_surplus(actual_rows, _rows(unlimited()))
        same_size = len(actual_rows) == len(expected_rows)
        description = None if same_size and surplus is None else description
    return description or disorder


def _rows(table: pa.Table) -> list[Row]:
    columns = [column.to_pylist() for column in table.columns]
    return [
        tuple(value.rstrip() if isinstance(value, str) else value for value in row)
        for row in zip(*columns, strict=True)
    ]


def _multiset_difference(actual: Sequence[Row], expected: Sequence[Row]) -> str | None:
    left, right = sorted(actual, key=_sort_key), sorted(expected, key=_sort_key)
    for actual_row, expected_row in zip(left, right, strict=False):
        if not _same_row(actual_row, expected_row):
            return f"got {_show(actual_row)}, expected {_show(expected_row)}"
    if len(left) != len(right):
        extra = left[len(right) :] or right[len(left) :]
        adjective = "unexpected" if len(left) > len(right) else "missing"
        return f"{len(left)} rows instead of {len(right)}; {adjective} {_show(extra[0])}"
    return None


def _first_surplus(rows: Sequence[Row], candidates: Sequence[Row]) -> Row | None:
    """Return the first row that is not in ``candidates``, each of which matches one row."""
    ordered = sorted(candidates, key=_sort_key)
    position = 0
    for row in sorted(rows, key=_sort_key):
        while position < len(ordered) and not _same_row(row, ordered[position]):
            position += 1
        if position == len(ordered):
            return row
        position += 1
    return None


def _first_disorder(actual: Sequence[Row], expected: Sequence[Row], keys: Sequence[int]) -> str | None:
    for number, (actual_row, expected_row) in enumerate(zip(actual, expected, strict=False), 1):
        if not all(_same_value(actual_row[key], expected_row[key]) for key in keys):
            return f"out of order at row {number}: got {_show(actual_row)}, expected {_show(expected_row)}"
    return None


def _same_row(left: Row, right: Row) -> bool:
    return all(_same_value(a, b) for a, b in zip(left, right, strict=True))


def _same_value(left: Value, right: Value) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        if not (_is_number(left) and _is_number(right)):
            return False
        tolerance = (
            RELATIVE_ERROR * max(abs(float(left)), abs(float(right))) + _half_unit(left) + _half_unit(right)
        )
        return left == right or abs(float(left) - float(right)) <= tolerance
    return left == right


def _half_unit(value: Value) -> float:
    if not isinstance(value, Decimal):
        return 0.0
    exponent = value.as_tuple().exponent
    return 0.5 * 10.0**exponent if isinstance(exponent, int) else 0.0


def _sort_key(row: Row) -> tuple[tuple[tuple[bool, str], ...], tuple[float, ...]]:
    """Return a sort key with numbers last, so that rounding only orders otherwise equal rows."""
    others = tuple((value is not None, str(value)) for value in row if not _is_number(value))
    return others, tuple(float(value) for value in row if _is_number(value))


def _is_number(value: Value) -> TypeGuard[int | float | Decimal]:
    return isinstance(value, int | float | Decimal)


def _show(row: Row) -> str:
    return "(" + ", ".join(_show_value(value) for value in row) + ")"


def _show_value(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return repr(value)
        case _:
            return str(value)


class Oracle:
    """An in-memory DuckDB database with the eight tables of ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._connection = duckdb.connect()
        for table in TABLES:
            path = str(table_path(folder, table)).replace("'", "''")
            self._connection.execute(f"create table {table} as from read_parquet('{path}')")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    @property
    def version(self) -> str:
        """The version of DuckDB."""
        return str(duckdb.__version__)

    def apply(self, batch: Batch) -> None:
        """Apply a batch to the tables.

        Raises InternalError, and changes nothing, if the batch deletes a missing row.
        """
        self._connection.begin()
        try:
            for table, change in batch.changes.items():
                self._delete(table, change.deletes)
                self._insert(table, change.inserts)
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    def query(self, text: str) -> tuple[pa.Table, float]:
        """Return the answer to a query, and the seconds to compute it from scratch."""
        start = time.perf_counter()
        answer = self._connection.sql(text).to_arrow_table()
        return answer, time.perf_counter() - start

    def _delete(self, table: str, keys: pa.Table) -> None:
        condition = " and ".join(f"{table}.{column} = keys.{column}" for column in PRIMARY_KEYS[table])
        self._connection.register("keys", keys)
        try:
            answer = self._connection.execute(f"delete from {table} using keys where {condition}")
            ((deleted,),) = answer.fetchall()
        finally:
            self._connection.unregister("keys")
        if deleted != keys.num_rows:
            raise InternalError(f"the refresh deletes {keys.num_rows} rows of {table}, but {deleted} match")

    def _insert(self, table: str, rows: pa.Table) -> None:
        self._connection.register("rows", rows)
        try:
            self._connection.execute(f"insert into {table} by name from rows")
        finally:
            self._connection.unregister("rows")
