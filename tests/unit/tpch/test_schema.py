"""The schema against DuckDB's reading of it and against the generated files."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from kpg.tpch.data import PRIMARY_KEYS, QUERIES, TABLES, create_statements, query_text, table_path


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for statement in create_statements().values():
            connection.execute(statement)
        yield connection


def test_statements_are_the_tables_in_order() -> None:
    assert tuple(create_statements()) == TABLES
    assert len(TABLES) == 8


@pytest.mark.parametrize("table", TABLES)
def test_primary_key_is_that_of_the_statement(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    (columns,) = connection.execute(
        "select constraint_column_names from duckdb_constraints() "
        "where table_name = ? and constraint_type = 'PRIMARY KEY'",
        [table],
    ).fetchall()
    assert tuple(columns[0]) == PRIMARY_KEYS[table]


@pytest.mark.parametrize("table", TABLES)
def test_columns_are_those_of_the_files(
    connection: duckdb.DuckDBPyConnection, folder: Path, table: str
) -> None:
    described = connection.execute(f"describe {table}").fetchall()
    read = connection.execute(
        f"describe select * from read_parquet('{table_path(folder, table)}')"
    ).fetchall()
    assert [column[:2] for column in described] == [column[:2] for column in read]
    assert all(column[2] == "NO" for column in described)


@pytest.mark.parametrize("table", TABLES)
def test_generated_rows_satisfy_the_statement(
    connection: duckdb.DuckDBPyConnection, folder: Path, table: str
) -> None:
    connection.execute(f"insert into {table} from read_parquet('{table_path(folder, table)}')")
    counted = connection.execute(f"select count(*) from {table}").fetchall()
    assert counted == [(pq.ParquetFile(table_path(folder, table)).metadata.num_rows,)]


def test_there_are_22_queries_without_a_final_semicolon() -> None:
    texts = [query_text(number) for number in QUERIES]
    assert len(set(texts)) == 22
    assert not any(text.endswith(";") for text in texts)
