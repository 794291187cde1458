"""A definition that is refused leaves nothing behind: the catalog is what it was before."""

from collections.abc import Callable
from typing import Any

import pytest

import kpg

BEFORE = """
create table t (id int primary key, a int, b text, at timestamptz);
insert into t values (1, -1, 'x', '2000-01-01'), (2, -1, 'y', '2001-01-01');
create table e (src int, dst int);
create table u (id int references t, c int);
create view v as select id, a from t;
create materialized view m as select a, count(*) as n from t group by a;
create function f(int) returns int language sql immutable as 'select $1 + 1';
create type mood as enum ('sad', 'ok');
create domain small as int check (value < 10);
create sequence s;
create schema far;
"""
REFUSED = [
    "create table n (a int, a int)",
    "create table n (a int primary key, b int references nosuch)",
    "create table n (a serial, b int references t (b))",
    "create table n (a serial, b int check (nosuch > 1))",
    "create table n (a serial, b int default nosuch())",
    "create table n (a serial, b int generated always as (c + 1) stored)",
    "create table n (like t including all, id int)",
    "create table n as select nosuch from t",
    "create table n as select 1 / a - 1 / (a + 1) as x from t",
    "create table n (a int) partition by range (nosuch)",
    "create table n partition of t for values in (1)",
    "create view n as select nosuch from t",
    "create view n (x, y, z) as select id from t",
    "create or replace view v as select id from t",
    "create or replace view v as select b as id, a from t",
    "create materialized view n as select random() as x from t",
    "create materialized view n as select nosuch from t where at < now()",
    "create materialized view n as select 1 / (a + 1) as x from t",
    "create materialized view n as select at < now() as x, 1 / (a + 1) as y from t",
    "create index n on t (nosuch)",
    "create unique index n on t (a)",
    "create unique index n on t ((a + 1))",
    "create unique index n on m (n)",
    "create sequence n increment 0",
    "create sequence n minvalue 5 maxvalue 1",
    "create type n as enum ('a', 'a')",
    "create type n as (a nosuch)",
    "create function n(int) returns int language sql as 'select nosuch from t'",
    "create function n(int) returns int language sql as 'select $2'",
    "create or replace function f(int) returns text language sql immutable as 'select 1::text'",
    "create schema n create table t (a int) create table w (a nosuch)",
    "create policy n on t using (nosuch > 1)",
    "create role n in role nosuch",
    "alter table t add column n int not null",
    "alter table t add column n serial check (n > 1)",
    "alter table t add column n int default 1 check (n > 1)",
    "alter table t add column n int unique references nosuch",
    "alter table t add column n int, drop column nosuch",
    "alter table t rename column b to n, drop column nosuch",
    "alter table t drop column a",
    "alter table t drop column b, drop column a",
    "alter table t add constraint n unique (a)",
    "alter table t add constraint n check (a > 0)",
    "alter table t add constraint n foreign key (a) references t (id)",
    "alter table t alter b type int using b::int",
    "alter table t alter a set default 'x'",
    "alter table t alter a add generated always as identity",
    "alter table t rename to u",
    "alter table t rename column a to b",
    "alter type mood add value 'ok'",
    "alter sequence s maxvalue 0",
    "alter schema far rename to public",
    "drop table t",
    "drop table e, t",
    "drop view v, nosuch",
    "drop function f(text)",
    "drop schema public",
    "comment on column t.nosuch is 'x'",
    "grant select on t, nosuch to public",
]


class Summed:
    """An aggregate by EAGr's interface."""

    def initialize(self) -> int:
        return 0

    def update(self, state: int, value: int) -> int:
        return state + value

    def merge(self, state: int, other: int) -> int:
        return state + other

    def finalize(self, state: int) -> int:
        return state


CALLS: dict[str, Callable[[kpg.Database], object]] = {
    "ego over edges that are not there": lambda db: db.ego(
        "n", edges="nosuch", writes="t", aggregate=Summed()
    ),
    "ego of readers that are no condition": lambda db: db.ego(
        "n", edges="e", writes="select id, src, id from t, e", aggregate=Summed(), readers="node in ("
    ),
    "ego in an unknown mode": lambda db: db.ego("n", edges="e", writes="t", aggregate=Summed(), mode="x"),
    "ego with a window of nothing": lambda db: db.ego(
        "n", edges="e", writes="t", aggregate=Summed(), window=0
    ),
    "function without types": lambda db: db.create_function("n", lambda x: x),
    "function of a known name": lambda db: db.create_function(
        "upper", lambda x: x, args=["int"], returns="int"
    ),
    "program with an unknown relation": lambda db: db.datalog("n(X) :- nosuch(X)."),
}


def state(db: "kpg.Database") -> dict[str, Any]:
    """All that definitions change."""
    engine = db._engine
    catalog = engine.catalog
    names = (
        *("sequences", "schemas", "comments", "indexes", "types", "routines", "aggregates", "functions"),
        *("policies", "row_security", "partitions", "partitioned", "unique_indexes"),
    )
    found: dict[str, Any] = {name: dict(getattr(catalog, name)) for name in names}
    found["relations"] = {entry.name: entry for entry in catalog if entry.name != "kpg_clock"}
    found["uses"] = dict(engine.views.read_pairs())
    found["views"] = sorted(engine.views)
    found["given"] = sorted(engine.function_records)
    found["rows"] = {name: sorted(db.query(f"table {name}").fetchall()) for name in ("t", "v", "m")}
    found["roles"] = db.query("select rolname from pg_roles order by 1").fetchall()
    found["classes"] = db.query("select relname, relkind from pg_class order by 1").fetchall()
    found["columns"] = db.query(
        "select attrelid::regclass::text, attname from pg_attribute order by 1, 2"
    ).fetchall()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("within", ["", "begin; insert into t values (3, 3, 'z')", "begin; savepoint x"])
@pytest.mark.parametrize("text", REFUSED)
def test_a_refused_statement_leaves_nothing(text: str, within: str) -> None:
    with kpg.connect() as db:
        db.sql(BEFORE)
        before = state(db)
        if within:
            db.sql(within)
        with pytest.raises(kpg.Error):
            db.sql(text)
        if within:
            db.sql("rollback")
        assert state(db) == before


@pytest.mark.parametrize("what", CALLS)
def test_a_refused_call_leaves_nothing(what: str) -> None:
    with kpg.connect() as db:
        db.sql(BEFORE)
        before = state(db)
        with pytest.raises((kpg.Error, TypeError)):
            CALLS[what](db)
        assert state(db) == before
