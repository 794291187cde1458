"""DuckDB's reader of Postgres: reads, by several threads too, writes, changes and defines."""

from pathlib import Path

import psycopg
import pytest

from tests.unit.server.conftest import serving
from tests.unit.server.programs import script

SETUP = """
CREATE SCHEMA shop;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE shop.owner (id INT PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO shop.owner VALUES (1, 'Zoe'), (2, 'Yan');
CREATE TABLE pet (id BIGINT PRIMARY KEY, name VARCHAR(20), owner INT REFERENCES shop.owner, born DATE,
    weight NUMERIC(10, 2), mood mood, seen TIMESTAMPTZ, tags TEXT[]);
INSERT INTO pet VALUES (1, 'Ann', 1, '2021-02-03', 1.50, 'ok', '2024-05-06 07:08:09.5+00', '{a,b}'),
    (2, 'Bob', 1, NULL, 20.25, NULL, NULL, NULL), (3, 'Cyd', 2, '2019-01-01', 3.00, 'sad', NULL, '{}');
CREATE MATERIALIZED VIEW heavy AS SELECT owner, count(*) AS n FROM pet WHERE weight > 2 GROUP BY owner;
CREATE TABLE large (a INT);
INSERT INTO large SELECT i FROM generate_series(1, 10000) g(i);
DELETE FROM large WHERE a % 10 = 0;
"""


SAID = [
    "select ('public', 'heavy', 'owner', 'INTEGER') ('public', 'heavy', 'n', 'BIGINT') "
    "('public', 'large', 'a', 'INTEGER') ('shop', 'owner', 'id', 'INTEGER') ('shop', 'owner',"
    " 'name', 'VARCHAR') ('public', 'pet', 'id', 'BIGINT') ('public', 'pet', 'name', "
    "'VARCHAR') ('public', 'pet', 'owner', 'INTEGER') ('public', 'pet', 'born', 'DATE') "
    "('public', 'pet', 'weight', 'DECIMAL(10,2)') ('public', 'pet', 'mood', \"ENUM('sad', "
    "'ok')\") ('public', 'pet', 'seen', 'TIMESTAMP WITH TIME ZONE') ('public', 'pet', 'tags', "
    "'VARCHAR[]')",
    "select (1, 'Ann', 1, datetime.date(2021, 2, 3), Decimal('1.50'), 'ok', "
    "datetime.datetime(2024, 5, 6, 7, 8, 9, 500000, tzinfo=<StaticTzInfo 'Etc/UTC'>), ['a', "
    "'b']) (2, 'Bob', 1, None, Decimal('20.25'), None, None, None) (3, 'Cyd', 2, "
    "datetime.date(2019, 1, 1), Decimal('3.00'), 'sad', None, [])",
    "select ('Ann', datetime.date(2021, 2, 3))",
    "select (1,)",
    "select ('Yan', 'Cyd') ('Zoe', 'Ann') ('Zoe', 'Bob')",
    "select (1, Decimal('21.75'), datetime.datetime(2024, 5, 6, 7, 8, 9, 500000, "
    "tzinfo=<StaticTzInfo 'Etc/UTC'>)) (2, Decimal('3.00'), None)",
    "select (1, 1) (2, 1)",
    "select (4,)",
    "create",
    "insert (20000,)",
    "select (20000, 199990000, 'v9999', Decimal('199990000.00'))",
    "update (4,)",
    "select (3, 'changed', 2.5) (5003, 'changed', 2502.5) (10003, 'changed', 5002.5) (15003, "
    "'changed', 7502.5)",
    "delete (19990,)",
    "select (0, 'v0', 0.0, Decimal('0.00'), datetime.datetime(2020, 1, 1, 0, 0), [0, 1]) (1, "
    "'v1', 0.5, Decimal('1.00'), datetime.datetime(2020, 1, 1, 0, 0), [1, 2])",
    "select (45, 10)",
    "begin",
    "insert (1,)",
    "update (11,)",
    "select (133,)",
    "rollback",
    "select (45,)",
    "copy (1,)",
    "copy (1,)",
    "copy (2,)",
    "select (9, 'v9') (100, 'copied')",
    "create",
    "alter",
    "alter",
    "select (0, 11)",
    "create",
    "select (1,)",
    "drop",
    "drop",
    "parallel (9000, 45000000, 9000)",
]
"""What it says beside Postgres, too."""


@pytest.mark.clients("python")
def test_duckdb(tmp_path: Path) -> None:
    with serving() as running:
        with psycopg.connect(running.dsn, autocommit=True) as connection:
            connection.execute(SETUP)
        said = script("duck_reader.py", running.dsn, str(tmp_path))
    assert said.splitlines() == SAID
