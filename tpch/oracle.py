"""The second opinion: DuckDB over the same tables, given the same refreshes, asked the same queries."""

import time
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa

from kpg.runtime.errors import InternalError
from kpg.tpch.batch import Batch
from kpg.tpch.generate import table_path
from kpg.tpch.schema import PRIMARY_KEYS, TABLES


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
        """Bring the tables to the state after ``batch``.

        Raises InternalError, and changes nothing, when the batch deletes a row that is not there.
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
        """The answer to a query, and the seconds that it took to compute it from scratch."""
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
