"""What catalogs tell of a database, beside a real Postgres with the same one."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import kpg
from kpg.api.result import Result
from kpg.compiler.system.oids import type_facts
from tests.oracle.postgres import serving

DATABASE = (Path(__file__).parent / "catalogs.sql").read_text()
NAMES = (
    "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
    "where n.nspname in ('information_schema', 'pg_catalog') and c.relkind in ('r', 'v') "
    "and c.relname !~ '^_' order by 1, 2"
)
ONLY_THERE = "_pg_statistic"
"""A type of columns that only Postgres has: arrays of rows of one of its relations."""
DIFFERENT = {
    "applicable_roles": "predefined roles are members of each other there",
    "collation_character_set_applicability": "Postgres has the collations of its system",
    "collations": "as before",
    "schemata": "pg_toast, and who owns a schema that was made anew",
    "sql_features": "says what parts of the standard Postgres has",
    "sql_implementation_info": "as before",
    "sql_parts": "as before",
    "sql_sizing": "as before",
    "views": "views keep their text as it was written",
}
"""Relations of information_schema whose rows have to differ, and why."""
SCHEMAS = (
    *("table_schema", "constraint_schema", "routine_schema", "specific_schema", "udt_schema"),
    *("object_schema", "trigger_schema", "domain_schema", "sequence_schema", "view_schema"),
    "user_defined_type_schema",
)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection]:
    with (
        serving(tmp_path_factory.mktemp("postgres")) as address,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        connection.execute("drop schema public cascade; create schema public")
        connection.execute(DATABASE.encode())
        yield connection


@pytest.fixture(scope="module")
def db() -> Iterator[kpg.Database]:
    with kpg.connect() as db:
        db.sql(DATABASE)
        yield db


def answer(db: kpg.Database, query: str) -> Result:
    found = db.sql(query)
    assert isinstance(found, Result)
    return found


def test_relations_have_the_columns_and_types_that_postgres_has(
    postgres: psycopg.Connection, db: kpg.Database
) -> None:
    types = dict(postgres.execute("select oid::int, typname from pg_type").fetchall())
    names = postgres.execute(NAMES).fetchall()
    assert len(names) > 200
    wrong = []
    for schema, name in names:
        described = postgres.execute(f'select * from {schema}."{name}" limit 0'.encode()).description
        assert described is not None
        there = [(one.name, types[one.type_code]) for one in described]
        found = answer(db, f"select * from {schema}.{name} limit 0")
        here = [(one, type_facts(type_)[1]) for one, type_ in zip(found.columns, found.types, strict=True)]
        there = [(one, "_text" if type_ == ONLY_THERE else type_) for one, type_ in there]
        if here != there:
            wrong.append((name, [pair for pair in there if pair not in here]))
    assert wrong == []


def told(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Rows without the numbers of objects and the name of the role, which are others here and there."""
    return Counter(tuple(_same(value) for value in row) for row in rows)


def _same(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    value = re.sub(r"^\d+_\d+_(\d+_not_null)$", r"\1", value)
    return "kpg" if value == "postgres" else re.sub(r"_\d{4,}$", "", value)


def test_information_schema_tells_the_same(postgres: psycopg.Connection, db: kpg.Database) -> None:
    same, different, rows = [], set(), 0
    for schema, name in postgres.execute(NAMES).fetchall():
        if schema != "information_schema":
            continue
        columns = answer(db, f"select * from information_schema.{name} limit 0").columns
        within = next((one for one in SCHEMAS if one in columns), None)
        query = f"select * from information_schema.{name}"
        query += f" where {within} in ('public', 'other')" if within else ""
        there = told(postgres.execute(query.encode()).fetchall())
        here = told(answer(db, query).fetchall())
        if here == there:
            same.append(name)
            rows += there.total()
        else:
            different.add(name)
    assert different == set(DIFFERENT)
    assert rows > 400 and len(same) > 50


def test_vectors_are_written_without_braces(db: kpg.Database) -> None:
    query = (
        "select indkey, indkey::text, indkey[0], array_lower(indkey, 1), indclass::text from pg_index "
        "where indrelid = 'other.visit'::regclass and indisprimary"
    )
    assert answer(db, query).fetchall() == [([1, 2], "1 2", 1, 0, "0 0")]


@pytest.mark.parametrize(
    "query",
    [
        "select rngtypid::int, rngsubtype::int, rngmultitypid::int, rngsubopc::int, rngcanonical::text, "
        "rngsubdiff::text from pg_range order by 1",
        "select oid::int, typname::text, typtype::text, typcategory::text from pg_type "
        "where typtype in ('r', 'm') order by 1",
        "select c.relname::text, c.relkind::text, t.typname::text, t.typtype::text from pg_class c "
        "join pg_type t on c.reltype = t.oid where c.relkind = 'c' order by 1",
    ],
)
def test_types_with_parts_are_found(postgres: psycopg.Connection, db: kpg.Database, query: str) -> None:
    there = postgres.execute(query.encode()).fetchall()
    assert there
    assert answer(db, query).fetchall() == there


def test_words_are_listed(postgres: psycopg.Connection, db: kpg.Database) -> None:
    query = "select word, catcode::text, barelabel, catdesc, baredesc from pg_get_keywords() order by word"
    assert answer(db, query).fetchall() == postgres.execute(query.encode()).fetchall()


QUERIES = [
    line
    for line in (Path(__file__).parent / "dashboards.sql").read_text().splitlines()
    if not line.startswith("--")
]


def test_what_dashboards_and_tools_read(postgres: psycopg.Connection, db: kpg.Database) -> None:
    postgres.execute("vacuum analyze")
    wrong = []
    for query in QUERIES:
        with postgres.cursor() as cursor:
            there = cursor.execute(query.encode()).fetchall()
            assert cursor.description is not None
            names = [one.name for one in cursor.description]
        found = answer(db, query)
        rows = [tuple(map(_plain, row)) for row in found.fetchall()]
        if [name.lower() for name in found.columns] != names:
            wrong.append((query, names, found.columns))
        if Counter(rows) != Counter(tuple(map(_plain, row)) for row in there):
            wrong.append((query, there, rows))
    assert wrong == []
    assert len(QUERIES) > 30


def _plain(value: Any) -> Any:
    """As rows have it: of vectors psycopg knows no more than their texts."""
    return tuple(value) if isinstance(value, list) else _same(value)
