"""A real Postgres in DuckDB's place beside kpg, for random views and histories.

``python -m tests.properties.postgres_twin --seed 1000 --minutes 60`` goes on for an hour, a seed at a time,
and prints the seeds that fail.
"""

import argparse
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, cast

import duckdb
import psycopg

from tests.oracle.postgres import serving
from tests.properties.sql_twins import Row, Twins


class PostgresSide:
    """A connection with as much of DuckDB's interface as twins use, its errors included.

    What fails in a transaction is undone alone, so that the transaction goes on as in DuckDB.
    """

    def __init__(self, address: str) -> None:
        self._connection = psycopg.connect(address, autocommit=True)
        self._within = False
        self.execute("drop schema public cascade")
        self.execute("create schema public")
        self.execute("set statement_timeout to 10000")

    def execute(self, text: str) -> "PostgresSide":
        """Run a statement."""
        if self._within and text not in ("commit", "rollback"):
            self._connection.execute("savepoint here")
        try:
            self._cursor = self._connection.execute(text.encode())
        except psycopg.Error as error:
            if self._within:
                self._connection.execute("rollback to here")
            raise duckdb.Error(str(error)) from None
        self._within = text == "begin" or (self._within and text not in ("commit", "rollback"))
        return self

    def fetchall(self) -> list[Row]:
        """The rows of the last statement."""
        return self._cursor.fetchall()

    def fetchone(self) -> Row | None:
        """A row of the last statement."""
        return self._cursor.fetchone()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def in_order_of_bytes(address: str) -> str:
    """The address of a new database there whose texts order by their bytes."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("drop database if exists twin")
        connection.execute("create database twin template template0 lc_collate 'C' lc_ctype 'C.UTF-8'")
    return address.replace("/postgres?", "/twin?")


def twins(address: str) -> Twins:
    """An empty kpg and an empty Postgres."""
    side: Any = PostgresSide(address)
    return Twins(duck=cast(duckdb.DuckDBPyConnection, side))


def main() -> None:
    """Random histories until the time is over."""
    from tests.properties.test_random_sql import live

    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    seed, end = options.seed, time.monotonic() + options.minutes * 60
    with serving(Path(tempfile.mkdtemp())) as server:
        address = in_order_of_bytes(server)
        while time.monotonic() < end:
            try:
                live(seed, views=4, steps=8, twins=twins(address))
            except Exception:
                print(f"seed {seed}\n{traceback.format_exc(limit=-3)}", flush=True)
            seed += 1
    print(f"seeds {options.seed} to {seed - 1}")


if __name__ == "__main__":
    main()
