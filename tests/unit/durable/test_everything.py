"""One of every kind of thing, and it is there again: opened, after a kill, in a backup, in a branch.

All that SQL shows of the catalogs is compared, and what queries, goals and views answer,
        before and after the
same changes are made everywhere.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kpg

START = """
    create schema shop; create type mood as enum ('sad', 'happy'); create type pair as (a int, b text);
    create domain positive as int check (value > 0);
    create sequence numbers start 5 increment 3; select nextval('numbers');
    create role reader; create role writer login password 'secret'; grant reader to writer;
    create table "Ünï cödé" ("wéird ""name"" x" int primary key, "Ω" text default 'ω');
    create table customers (id serial primary key, name text not null unique, how mood default 'happy',
        born date, tags text[], facts jsonb, amount numeric(12, 2), code positive, two pair, at timestamptz,
        long interval, raw bytea, id2 uuid, span int4range, net inet, card macaddr, exact numeric);
    insert into customers (name, how, born, tags, facts, amount, code, two, at, long, raw, id2, span,
        net, card, exact)
        values ('ada', 'sad', '1815-12-10', '{x,"y z"}', '{"a": [1, null]}', 12.50, 3, row(1, 'b'),
            '2024-02-29 12:00+01', '1 mon 2 days', '\\xdeadbeef',
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '[1,5)',
            '10.0.0.1/8', '08:00:2b:01:02:03', 1e40), ('bob', default, null, '{}',
        null,
            null, null, null, null, null, null, null, 'empty', null, null, 'NaN');
    create table shop.orders (id int generated always as identity primary key,
        customer int references customers (id) on delete cascade, cents bigint check (cents >= 0),
        twice bigint generated always as (cents * 2) stored, constraint few check (cents < 1000000));
    insert into shop.orders (customer, cents) values (1, 100), (1, 250), (2, 1);
    create index by_customer on shop.orders (customer);
        create unique index by_lower on customers (lower(name));
    create unique index some_only on shop.orders (cents) where cents > 5000;
    create table rooms (room int, during int4range);
    insert into rooms values (1, '[1,5)');
    create table parts (k int, g int) partition by range (k);
    create table parts_low partition of parts for values from (0) to (10);
    create table parts_rest partition of parts default;
    insert into parts values (1, 1), (11, 1), (12, 2);
    create table base (a int);
    insert into base values (1);
    create table audit (what text, n int);
    create function twice(x int) returns int language sql return x * 2;
    create aggregate product (bigint) (sfunc = int8mul, stype = bigint, initcond = '1');
    create view plain as select id, name from customers where how = 'happy' with check option;
    create materialized view totals as select c.name, sum(o.cents) s, count(*) n, max(o.twice) m
        from customers c join shop.orders o on o.customer = c.id group by c.name;
    create materialized view over_it as select name, s, rank() over (order by s desc) r from totals;
    create materialized view products as select g, product(k::bigint) p from parts group by g;
    create materialized view family as select count(*) n, sum(a) s from base;
    create materialized view found as select id,
        name from customers where trunc(card) = '08:00:2b:00:00:00';
    create materialized view doubled as select id, twice(id) t, cents from shop.orders;
    create materialized view reach as with recursive r(x) as
        (select min(k) from parts union select k from parts,
        r where k = x + 1 or k = x + 10) select x from r;
    create materialized view lately as select id from customers where at > now() - interval '1 day';
    create materialized view ranked as select customer, cents from shop.orders order by cents desc limit 2;
    create table follows (who int, whom int); insert into follows values (1, 2), (2, 1), (3, 1);
    create ego view feed as sum(value) from (select customer, id,
        cents from shop.orders) last 2 over follows;
    comment on table customers is 'who buys'; comment on column customers.name is 'unique';
        comment on view plain is 'p';
    grant select on customers to reader; grant insert (cents),
        select on shop.orders to writer with grant option;
    alter table base owner to writer; alter default privileges in schema shop grant select on tables to
        reader;
    alter table shop.orders enable row level security; alter table rooms force row level security;
    create policy mine on shop.orders for select to reader using (cents < 200);
    create policy small on shop.orders as restrictive for insert to writer with check (cents < 10);
    grant usage on schema shop to reader; grant select on shop.orders to reader;
    set position 'topic' = 41
"""
PROGRAM = """
.decl arc(a: number, b: number) .input arc
.decl far(a: number, b: number) .output far
far(a, b) :- arc(a, b). far(a, c) :- far(a, b), arc(b, c).
.decl size(n: number) .output size
size(n) :- n = count : { far(_, _) }.
"""
CHANGES = """
    insert into shop.orders (customer, cents) values (2, 7000), (1, 33);
        delete from customers where id = 2;
    insert into customers (name, card) values ('eve', '08:00:2b:04:05:06');
        select nextval('numbers');
    insert into parts values (2, 1), (13, 3); insert into base values (4);
    insert into "Ünï cödé" values (1); update parts set k = 14 where k = 1;
        insert into follows values (3, 2);
    insert into arc values (2, 3); delete from arc where a = 7
"""
REFUSED = (
    "insert into customers (name) values ('Ada')",
    "insert into customers (name, code) values ('x', 0)",
    "insert into shop.orders (customer, cents) values (99, 1)",
    "insert into shop.orders (customer, cents) values (1, -1)",
    "insert into plain (id, name) select 5000, 'p' where false; update plain set name = null",
    "create table customers (a int)",
    "drop type mood",
    "drop sequence customers_id_seq",
)
CATALOGS = (
    "select table_schema, table_name, column_name, data_type, column_default, is_nullable, is_generated "
    "from information_schema.columns where table_schema not in ('pg_catalog', 'information_schema')",
    "select constraint_schema, constraint_name, table_name, constraint_type "
    "from information_schema.table_constraints",
    "select n.nspname, relname, relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace "
    "where nspname not in ('pg_catalog', 'information_schema')",
    "select schemaname, indexname, indexdef from pg_indexes where schemaname <> 'pg_catalog'",
    "select rolname, rolcanlogin from pg_roles",
    "select grantee, table_name, privilege_type, is_grantable from information_schema.role_table_grants",
    "select proname, prokind, pronargs from pg_proc where proname in ('twice', 'product')",
    "select polname, polcmd, polpermissive from pg_policy",
    "select sequencename, last_value from pg_sequences",
    "select obj_description('customers'::regclass), col_description('customers'::regclass, 2)",
    "select typname, enumlabel from pg_enum e join pg_type t on t.oid = e.enumtypid",
    "select typname, typtype from pg_type where typname in ('mood', 'pair', 'positive')",
)


RELATIONS = (
    '"Ünï cödé"',
    "customers",
    "shop.orders",
    "rooms",
    "parts",
    "parts_low",
    "base",
    "audit",
    "follows",
    "plain",
    "totals",
    "over_it",
    "products",
    "family",
    "found",
    "doubled",
    "reach",
    "lately",
    "ranked",
    "feed",
    "arc",
    "far",
    "size",
    "numbers",
    "kpg_positions",
)


def made(db: Any) -> Any:
    db.advance_to("2024-02-29 20:00")
    db.sql(START)
    db.datalog(PROGRAM)
    db.sql("insert into arc values (1, 2), (7, 8), (8, 9)")
    return db


def answers(db: Any) -> dict[str, Any]:
    """What catalogs, relations, goals and positions give, as text; views are what their queries give."""
    asked = (*CATALOGS, *(f"select * from {name}" for name in RELATIONS))
    found = {text: sorted(map(repr, db.query(text).fetchall())) for text in asked}
    goal = db.prepare("?- far($start, x).")
    found["goal"] = sorted(map(repr, goal(start=1).fetchall()))
    for name in db._engine.views:
        db.verify(name)
    db.sql("set role reader")
    found["seen"] = sorted(map(repr, db.query("select id, cents from shop.orders").fetchall()))
    db.sql("reset role")
    found["kept"] = sorted(db._engine.views)
    return found


def closed(db: Any, folder: Path) -> Any:
    db.close()
    return kpg.connect(folder)


def killed(db: Any, folder: Path) -> Any:
    copy = folder.with_name("killed")
    shutil.copytree(folder, copy)
    db.close()
    return kpg.connect(copy)


def backed_up(db: Any, folder: Path) -> Any:
    copy = folder.with_name("backup")
    db.backup(copy).wait()
    db.close()
    return kpg.connect(copy)


def after_checkpoint(db: Any, folder: Path) -> Any:
    db.sql("checkpoint; insert into audit values ('more', 1); delete from audit where what = 'more'")
    return killed(db, folder)


def branched(db: Any, folder: Path) -> Any:
    return db.branch()


@pytest.fixture(scope="module")
def expected() -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """What a database in memory gives, before and after changes, and how it refuses others."""
    with made(kpg.connect()) as db:
        before = answers(db)
        db.sql(CHANGES)
        return before, answers(db), refusals(db)


def refusals(db: Any) -> list[str]:
    found = []
    for text in REFUSED:
        with pytest.raises(kpg.Error) as caught:
            db.sql(text)
        found.append(f"{type(caught.value).__name__}: {caught.value.message}")
    return found


@pytest.mark.parametrize("again", [closed, killed, backed_up, after_checkpoint, branched])
def test_everything_is_there(again: Callable[..., Any], expected: tuple[Any, ...], tmp_path: Path) -> None:
    before, after, refused = expected
    db = made(kpg.connect(tmp_path / "db"))
    assert answers(db) == before
    there = again(db, tmp_path / "db")
    assert answers(there) == before
    there.sql(CHANGES)
    assert answers(there) == after
    assert refusals(there) == refused
    if again is branched:
        assert answers(db) == before
    db.close()
    there.close()
