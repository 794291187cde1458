"""What pg_dump writes of a Postgres is read as it is, and says the same here."""

import subprocess
from pathlib import Path

import psycopg
import pytest

import kpg
from tests.oracle.postgres import plain, serving

DATABASE = """
create type mood as enum ('sad', 'ok');
create table dept (id serial primary key, title varchar(20) not null unique,
    budget numeric(12, 2) default 0 check (budget >= 0));
create table emp (id bigint generated always as identity primary key, name text not null,
    dept int references dept (id) on delete cascade, m mood default 'ok', hired date,
    at timestamptz default now(), tags text[], j jsonb, dbl int generated always as (2 * dept) stored);
create table empty (a int, b text);
create index on emp (dept, name);
create view rich as
    select e.name, d.title from emp e join dept d on d.id = e.dept where d.budget > 10;
create materialized view counts as select dept, count(*) n from emp group by dept;
create function plus(a int, b int default 2) returns int language sql as $$ select a + b $$;
create sequence sq start 7;
create schema other; create table other.t (x int); insert into other.t values (1);
comment on table emp is 'people; all'; comment on column emp.name is 'it''s a name';
insert into dept (title, budget) values ('it', 100), ('hr', 5.5);
insert into emp (name, dept, m, hired, at, tags, j) values
    (E'ann\\tx', 1, 'sad', '2020-01-02', '2020-01-01 00:00+00', '{a,"b c"}', '{"x": [1]}'),
    ('bob\\n', 2, 'ok', null, '2020-01-01 00:00+00', null, null);
refresh materialized view counts;
grant select on emp to public;
"""
QUERIES = (
    "select id, name, dept, m, hired, at, tags, j::text, dbl from emp order by id",
    "select * from dept order by id",
    "select * from rich",
    "select * from counts order by dept",
    "select plus(1), plus(1, 1)",
    "select * from other.t",
    "select * from empty",
    "select obj_description('emp'::regclass), nextval('sq')",
    "insert into dept (title) values ('new') returning id",
    "insert into emp (name, dept, at) values ('cid', 3, '2021-01-01 00:00+00') returning id, m, dbl",
)


@pytest.mark.parametrize("options", [[], ["--inserts"], ["--column-inserts", "--no-owner"]], ids=" ".join)
def test_a_dump_is_read_as_it_is(tmp_path: Path, options: list[str]) -> None:
    with serving(tmp_path) as address, psycopg.connect(address, autocommit=True) as postgres:
        import pgserver

        program = Path(pgserver.__file__).parent / "pginstall" / "bin" / "pg_dump"
        postgres.execute("set timezone to 'UTC'")
        postgres.execute(DATABASE.encode())
        dump = subprocess.run([program, *options, address], capture_output=True, text=True, check=True).stdout
        db = kpg.connect()
        db.sql(dump)
        db.sql("set search_path to public")
        for query in QUERIES:
            found = [plain(row) for row in db.query(query).fetchall()]
            expected = [plain(row) for row in postgres.execute(query.encode()).fetchall()]
            assert found == expected, query
        with pytest.raises(kpg.IntegrityError, match="emp_dept_fkey"):
            db.sql("insert into emp (name, dept) values ('zz', 77)")
        with pytest.raises(kpg.IntegrityError, match="dept_pkey"):
            db.sql("insert into dept (id, title) values (1, 'twice')")
