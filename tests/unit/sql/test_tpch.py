"""All 22 TPC-H queries: the lowered relation, evaluated by its definition, against DuckDB."""

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from kpg.compiler.sql.parse import parse_query
from kpg.compiler.sql.query import lower_query
from kpg.tpch.generate import generate, table_path
from kpg.tpch.schema import QUERIES, TABLES, create_statements, query_text
from tests.unit.sql.oracle import Data, assert_same, catalog_of, model_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tpch")
    generate(0.001, path)
    return path


@pytest.fixture(scope="module")
def data(folder: Path) -> Data:
    tables = {}
    for table in TABLES:
        columns = pq.read_table(table_path(folder, table)).to_pydict()
        tables[table] = list(zip(*columns.values(), strict=True))
    return tables


@pytest.fixture(scope="module")
def database(folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for table in TABLES:
        connection.execute(f"create table {table} as from '{table_path(folder, table)}'")
    return connection


@pytest.mark.parametrize("number", QUERIES)
def test_agrees_with_duckdb(number: int, data: Data, database: duckdb.DuckDBPyConnection) -> None:
    catalog = catalog_of("; ".join(create_statements().values()))
    bound = lower_query(parse_query(query_text(number)), catalog)
    expected = database.execute(query_text(number)).fetchall()
    assert_same(model_rows(bound, data), expected)
