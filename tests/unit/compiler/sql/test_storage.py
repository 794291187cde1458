"""Options that change nothing here: Postgres' own are taken, any other is refused by its name."""

import random
import string

import pytest

import kpg

TABLES = "create table t (a int, b text, c jsonb); create materialized view m as select a from t"
PLACES = [
    "create table n (a int) with ({} = 1)",
    "create table n (a int) with ({})",
    "create table n (a int) with (fillfactor = 70, {} = 'x')",
    "create table n (a int) with (toast.{} = 1)",
    "create table n (a int) with ({}.fillfactor = 1)",
    "create table n with ({} = 1) as select 1 as a",
    "create table n (a int primary key with ({} = 1))",
    "create table n (a int, unique (a) with ({} = 1))",
    "create table n (a int) using {}",
    "create table n (a int) tablespace {}",
    "create table n (a int primary key using index tablespace {})",
    "create table n (a text storage {})",
    "create table n (a text compression {})",
    "create table n (a text collate {})",
    "create view n with ({} = 1) as select 1 as a",
    "create materialized view n with ({} = 1) as select 1 as a",
    "create materialized view n using {} as select 1 as a",
    "create materialized view n tablespace {} as select 1 as a",
    "create index on t using {} (a)",
    "create index on t (a {})",
    "create index on t using gin (c {})",
    "create index on t (a) with ({} = 1)",
    "create index on t (a) tablespace {}",
    "create index on t (b collate {})",
    "alter table t set ({} = 1)",
    "alter table t reset ({})",
    "alter table t set tablespace {}",
    "alter table t set access method {}",
    "alter table t set {}",
    "alter table t replica identity {}",
    "alter table t alter b set storage {}",
    "alter table t alter b set compression {}",
    "alter table t alter b set ({} = 1)",
    "refresh materialized view m with ({} = 1)",
    "refresh materialized view {} m",
    "vacuum ({}) t",
    "analyze ({}) t",
    "reindex ({}) table t",
    "cluster ({}) t",
    "explain ({}) select 1",
    "copy t from stdin with ({})",
    "copy t to stdout with (format {})",
    "set {} = 1",
    "create role n {}",
    "alter role kpg {}",
    "create schema n {}",
    "create database n {} 1",
    "create sequence n {} 1",
    "create extension {}",
    "create function n() returns int language sql {} as 'select 1'",
]
TAKEN = [
    "create table n (a int) with (fillfactor = 70, autovacuum_enabled = false)",
    "create table n (a int) with (toast.autovacuum_enabled = 'false', parallel_workers = 4)",
    "create table n (a int) with (oids = false)",
    "create table n (a text storage external compression pglz) using heap tablespace pg_default",
    "create materialized view n using heap with (fillfactor = 50) as select 1 as a",
    "create view n with (security_barrier) as select a from t",
    "create view n with (security_barrier = true, check_option = local) as select a from t",
    "create index on t using btree (a int4_ops desc nulls last) with (fillfactor = 80)",
    "create index on t using btree (b text_pattern_ops, b collate \"C\" pg_catalog.text_ops)",
    "create index on t using hash (b)",
    "create index on t using gin (c jsonb_path_ops) with (fastupdate = off)",
    "create index on t using brin (a int4_minmax_ops) with (pages_per_range = 32)",
    "alter table t set (autovacuum_vacuum_scale_factor = 0.01)",
    "alter table t alter b set statistics 100",
    "alter table t alter b set storage extended",
    "alter table t set without cluster",
    "alter table t replica identity full",
    "vacuum (full, analyze false, parallel 2) t",
    "analyze (verbose) t",
    "reindex (verbose) table t",
    "cluster t",
    "set default_tablespace = ''",
    "set default_table_access_method = heap",
    "create extension if not exists pgcrypto with schema public",
    'create extension if not exists "uuid-ossp"',
    "create extension plpgsql version '1.0' cascade",
    "drop extension if exists hstore",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_an_unknown_name_is_refused_where_it_stands(place: str) -> None:
    chance = random.Random(place)
    with kpg.connect() as db:
        db.sql(TABLES)
        before = db.query("select relname from pg_class order by 1").fetchall()
        for _ in range(5):
            name = "".join(chance.choices(string.ascii_lowercase, k=chance.randint(3, 12))) + "_x"
            with pytest.raises(kpg.Error) as caught:
                db.sql(place.format(name))
            span = caught.value.span
            assert name in str(caught.value)
            assert span is None or span.source == place.format(name)
        assert db.query("select relname from pg_class order by 1").fetchall() == before


@pytest.mark.parametrize("text", TAKEN)
def test_what_postgres_knows_is_taken(text: str) -> None:
    with kpg.connect() as db:
        db.sql(TABLES)
        db.sql(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("create table n (a int) with (connector = 'kafka')", 'unrecognized parameter "connector"'),
        ("create index on t using hnsw (a)", 'access method "hnsw" does not exist'),
        (
            "create index on t using gin (b gin_trgm_ops)",
            'operator class "gin_trgm_ops" does not exist for access method "gin"',
        ),
        ("create table n (a int) with (oids)", "tables declared WITH OIDS are not supported"),
        ("create index on t (b text_ops (siglen = 1))", "operator class text_ops has no options"),
        ("create extension hstore", 'extension "hstore" is not available'),
    ],
)
def test_what_errors_say(text: str, message: str) -> None:
    with kpg.connect() as db:
        db.sql(TABLES)
        with pytest.raises(kpg.Error) as caught:
            db.sql(text)
        assert caught.value.message == message


def test_texts_between_dollars_and_names_with_the_database() -> None:
    with kpg.connect() as db:
        db.sql('create table "kpg"."public"."t" (a int); insert into kpg.public.t values (1), (2)')
        db.sql("comment on table kpg.public.t is $tag$it's$tag$; comment on column t.a is E'a\\tb'")
        assert db.query("select obj_description('t'::regclass)").fetchall() == [("it's",)]
        assert db.query("select col_description('t'::regclass, 1)").fetchall() == [("a\tb",)]
        db.sql('create view "kpg"."public"."v" as select t.a from "kpg"."public"."t" as t')
        db.sql("update kpg.public.t set a = 3 where a = 2; delete from kpg.public.t where a = 1")
        assert db.query("select * from kpg.public.v").fetchall() == [(3,)]
        db.sql('drop view "kpg"."public"."v"; alter table "kpg"."public"."t" rename to "u"')
        for text in ("select * from other.public.u", "drop table other.public.u", "table a.b.c.d"):
            with pytest.raises(kpg.NotSupportedError, match="cross-database references are not implemented"):
                db.sql(text)
