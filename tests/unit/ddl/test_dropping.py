"""DROP SCHEMA takes all that is in a schema, and nothing else."""

import pytest

import kpg


@pytest.mark.parametrize(
    ("definition", "has"),
    [
        ("create table far.t (a int)", "far.t"),
        ("create view far.v as select 1 as x", "far.v"),
        ("create sequence far.s", "far.s"),
        ("create function far.f(int) returns int language sql as 'select 1'", "function far.f"),
        ("create type far.mood as enum ('sad')", "type far.mood"),
        ("create domain far.small as int", "type far.small"),
    ],
)
def test_a_schema_with_something_in_it_stays(definition: str, has: str) -> None:
    with kpg.connect() as db:
        db.sql(f"create schema far; {definition}")
        with pytest.raises(kpg.Error, match=f'schema "far" cannot be dropped: it has {has}'):
            db.sql("drop schema far")
        db.sql("drop schema far cascade; create schema far; drop schema far")


def test_what_uses_a_schema_from_outside_goes_with_it() -> None:
    with kpg.connect() as db:
        db.sql("create schema far")
        db.sql("create function far.f(int) returns int language sql immutable as 'select $1'")
        db.sql("create table far.t (a int); create function far.tf() returns trigger language plpgsql as "
               "$$ begin return null; end $$")  # fmt: skip
        db.sql("create table q (a int default far.f(10), b int check (far.f(b) < 10))")
        db.sql("create trigger g before insert on q for each row execute function far.tf()")
        db.sql("create view v as select a from far.t; create view w as select far.f(a) as x from q")
        db.sql("drop schema far cascade; insert into q values (default, 100)")
        assert db.query("select * from q").fetchall() == [(None, 100)]
        names = db.query("select relname from pg_class where relname in ('v', 'w', 't', 'q')").fetchall()
        assert names == [("q",)]
