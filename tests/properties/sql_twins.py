"""The same database twice: kpg and DuckDB, taken through the same statements and compared."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import duckdb

import kpg
from kpg.api.database import Database
from kpg.api.result import Rows
from kpg.runtime.errors import IntegrityError
from tests.model.lives import Lives

Row = tuple[Any, ...]


def oracle() -> duckdb.DuckDBPyConnection:
    """A DuckDB without the rewrites that make DuckDB 2.0 take an EXISTS over an outer join for empty."""
    connection = duckdb.connect()
    connection.execute("set disabled_optimizers = 'statistics_propagation'")
    return connection


@dataclass
class Twins:
    """One kpg database and one DuckDB, and the queries that kpg keeps as views."""

    db: Database = field(default_factory=kpg.connect)
    duck: duckdb.DuckDBPyConnection = field(default_factory=oracle)
    views: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    lives: Lives | None = None
    """Where kpg's database is closed and opened again from time to time."""

    @classmethod
    def in_folder(cls, seed: int) -> "Twins":
        """Twins of which kpg's database has several lives."""
        lives = Lives(seed)
        return cls(lives.db, lives=lives)

    def live_again(self) -> None:
        """Perhaps go on in the next life."""
        if self.lives is not None:
            self.db = self.lives.perhaps()

    def close(self) -> None:
        self.db.close()
        self.duck.close()

    def create(self, table: str, columns: Sequence[str], key: str | None) -> None:
        """A table in both. DuckDB's has no key: it checks keys too early inside a transaction."""
        clause = [f"primary key ({key})"] if key else []
        self.db.sql(f"create table {table} ({', '.join([*columns, *clause])})")
        self.duck.execute(f"create table {table} ({', '.join(columns)})")
        if key:
            self.keys[table] = key

    def install(self, name: str, query: str, expanded: bool = False) -> None:
        """A view in both, maintained by kpg unless it is to be ``expanded`` where it is used."""
        self.duck.execute(f"create view {name} as {query}")
        try:
            self.db.sql(f"create {'' if expanded else 'materialized '}view {name} as {query}")
        except BaseException:
            self.duck.execute(f"drop view {name}")
            raise
        if not expanded:
            self.views[name] = query

    def drop(self, name: str) -> None:
        """Drop a view that no other uses."""
        self.db.sql(f"drop view {name}")
        self.duck.execute(f"drop view {name}")
        self.views.pop(name, None)

    def run(self, statement: str) -> bool:
        """Change both inside a transaction; False if a key would be violated, which kpg has refused."""
        self.duck.execute(statement)
        fits = not self.violated()
        try:
            self.db.sql(statement)
        except IntegrityError:
            assert not fits, statement
            return False
        assert fits, statement
        return True

    def violated(self) -> bool:
        """Whether DuckDB has taken rows that violate a key."""
        return any(self._violates(table, key) for table, key in self.keys.items())

    def compare(self, name: str) -> None:
        """Assert that a view is DuckDB's answer, in its order if it has one."""
        query = self.views[name]
        expected = self.duck.execute(query).fetchall()
        assert_same(self.db.view(name), expected, query)

    def compare_query(self, query: str) -> None:
        """Assert that a one-off query gives DuckDB's answer."""
        found = self.db.sql(query)
        assert isinstance(found, Rows)
        assert_same(found, self.duck.execute(query).fetchall(), query)

    def _violates(self, table: str, key: str) -> bool:
        text = f"select 1 from {table} group by {key} having count(*) > 1"
        nulls = " or ".join(f"{column} is null" for column in key.split(", "))
        found = self.duck.execute(f"{text} union all select 1 from {table} where {nulls}").fetchone()
        return found is not None


def assert_same(found: Iterable[Row], expected: Iterable[Row], what: str) -> None:
    """Assert that two multisets of rows are equal, numbers to nine digits."""
    left, right = Counter(map(plain, found)), Counter(map(plain, expected))
    assert left == right, f"{what}\n  too many: {dict(left - right)}\n  missing: {dict(right - left)}"


def plain(row: Sequence[Any]) -> Row:
    """A row with all numbers in one form, rounded to nine digits."""
    return tuple(_number(value) for value in row)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    return float(f"{float(value):.9g}") + 0.0
