"""Which columns of relations the columns of a result are, as the server tells it."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.unit.server.conftest import Running

QUERIES = {
    "select * from pet": ["pet 1", "pet 2", "pet 3"],
    "select name, p.id, id + 1, 'x' from pet p": ["pet 2", "pet 1", "", ""],
    "select o.*, pet.name from pet join owner o on o.id = pet.id": ["owner 1", "owner 2", "pet 2"],
    "select n as renamed from seen": ["seen 2"],
    "select * from pet join owner using (id)": ["", "", "", ""],
    "select id from (select id from pet) pet": [""],
    "with owner as (select 1 as id) select id from owner": [""],
    "select id from pet union select id from owner": [""],
    "select max(weight), weight::numeric(5, 1) from pet group by weight": ["", ""],
    "select generate_series(1, 2), p.id from pet p, lateral (select 1) x": ["", "pet 1"],
}


@pytest.fixture(scope="module")
def connection(running: Running) -> Iterator[psycopg.Connection]:
    running.db.sql(
        "create table pet (id int primary key, name varchar(20) not null, weight numeric(8, 3));"
        "create table owner (id int primary key, called text);"
        "create view seen as select id, name as n from pet"
    )
    with psycopg.connect(running.dsn, autocommit=True) as one:
        yield one


@pytest.mark.parametrize("query", QUERIES)
def test_origins(connection: psycopg.Connection, query: str) -> None:
    names = dict(connection.execute("select oid, relname from pg_class").fetchall()) | {0: ""}
    for parameters in (None, ()):  # by the simple and by the extended protocol, asked again, too
        for _ in range(3):
            told = connection.execute(query.encode(), parameters).pgresult
            assert told is not None
            places = range(told.nfields)
            found = [f"{names[told.ftable(one)]} {told.ftablecol(one) or ''}".strip() for one in places]
            assert found == QUERIES[query]


def test_computed_values_have_no_length(connection: psycopg.Connection) -> None:
    query = b"select weight, sum(weight), weight::numeric(5, 1), 1.25 from pet group by weight"
    told = connection.execute(query).pgresult
    assert told is not None
    assert [told.fmod(place) for place in range(4)] == [(8 << 16 | 3) + 4, -1, (5 << 16 | 1) + 4, -1]
