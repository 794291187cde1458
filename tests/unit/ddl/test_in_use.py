"""Tables that an open query of the session reads: 55006, as Postgres has it (see also test_portals)."""

import pytest

import kpg
from kpg.postgres.sqlstate import sqlstate_of

SHARED = """
create table t (a int primary key, b text);
insert into t values (1, 'x');
create view v as select a from t;
create materialized view m as select a from t;
create temporary table passing (a int) on commit drop;
begin
"""
CHANGES = (
    "drop table t cascade",
    "truncate t",
    "alter table t add column c int",
    "alter table t drop constraint t_pkey",
    "create index on t (b)",
    "drop schema public cascade",
)


@pytest.fixture
def db() -> kpg.Database:
    db = kpg.connect()
    db.sql(SHARED)
    return db


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("query", ["select a from t", "select 1 from v", "select (select max(a) from v)"])
def test_what_an_open_cursor_reads_stays(db: kpg.Database, query: str, change: str) -> None:
    with db:
        db.sql(f"declare c cursor for {query}; savepoint s")
        with pytest.raises(
            kpg.ProgrammingError, match="being used by active queries in this session"
        ) as told:
            db.sql(change)
        assert sqlstate_of(told.value) == "55006"
        db.sql("rollback to s")
        assert db.query("fetch c").fetchall() == [(1,)]


def test_others_cursors_are_no_hindrance(db: kpg.Database) -> None:
    with db:
        db.sql("rollback; begin; rollback")
        with db.session() as one, db.session() as other:
            one.sql("begin; declare c cursor for select a from t")
            other.sql("create index on t (b)")
