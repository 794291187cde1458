"""DROP SCHEMA takes all that is in a schema, and nothing else."""

from pathlib import Path

import pytest

import kpg
from kpg.postgres.sqlstate import sqlstate_of
from kpg.session.distribution import DISTRIBUTION, declared_distribution

TABLE = """
create table t (id int primary key, a int, b text, c int);
insert into t values (1, 1, 'x', 7), (2, 1, 'y', 8);
create view v1 as select id, a from t;
create materialized view m1 as select a, count(*) n from v1 group by a;
create materialized view m3 as select c, count(*) n from t group by c;
"""


def relations(db: kpg.Database) -> list[str]:
    names = db.query("select relname from pg_class where relkind in ('r', 'v', 'm') and relnamespace = "
                     "'public'::regnamespace order by 1").fetchall()  # fmt: skip
    return [name for (name,) in names]


def test_a_column_takes_the_views_that_use_it_and_no_others() -> None:
    with kpg.connect() as db:
        db.sql(TABLE)
        seen: list[object] = []
        db.view("m1").subscribe(seen.append)
        with pytest.raises(kpg.ProgrammingError, match='c of "t" cannot be dropped: materialized view m3 us'):
            db.sql("alter table t drop column c")
        db.sql("alter table t drop column b")
        assert db.notices == []
        db.sql("alter table t drop column c cascade")
        assert db.notices == [("NOTICE", "drop cascades to materialized view m3")]
        assert relations(db) == ["m1", "t", "v1"]
        assert db.query("table m1").fetchall() == [(1, 2)]
        db.sql("insert into t values (3, 2); update t set a = 2 where id = 1")
        assert sorted(db.query("table m1").fetchall()) == [(1, 1), (2, 2)]
        assert sorted(db.query("table v1").fetchall()) == [(1, 2), (2, 1), (3, 2)]
        with pytest.raises(kpg.Error, match="cannot be dropped: view v1, materialized view m1 use it"):
            db.sql("alter table t drop column a")
        db.sql("alter table t drop column a cascade")
        assert relations(db) == ["t"]


USES = [
    "select a from t",
    "select * from t",
    "select t.* from t join u on t.id = u.id",
    "select t from t",
    "select id from t where a > 1",
    "select id from t order by a",
    "select count(*) from t group by a",
    "select t.id from t join u using (a)",
    "select id from t natural join u",
    "select id from (select id, a from t) q",
    "with q as (select * from t) select id from q",
    "select id from u where exists (select 1 from t where t.a = u.a)",
    "select (select max(a) from t) as x from u",
    "select sum(id) over (partition by a) as x from t",
    "with recursive r (n) as (select a from t union select n + 1 from r where n < 3) select n from r",
    "select distinct on (a) id from t",
    "select id from t union select a from t",
]
USES_NOT = [
    "select id from t",
    "select count(*) as n from t",
    "select t.id, u.a from t join u on t.id = u.id",
    "select u.* from u, t where t.id = u.id",
    "select id from u where exists (select 1 from t where t.id = u.id)",
    "select a from (select b as a from t) q",
    "select distinct id from t",
    "with recursive r (n) as (select id from t union select n + 1 from r where n < 3) select n from r",
]


@pytest.mark.parametrize("kind", ["view", "materialized view"])
@pytest.mark.parametrize("query", [*USES, *USES_NOT])
def test_which_queries_use_a_column(kind: str, query: str) -> None:
    with kpg.connect() as db:
        db.sql("create table u (id int, a int); insert into u values (1, 3), (2, 4)")
        db.sql("create table t (a int, id int, b int); insert into t values (1, 2, 3), (4, 1, 5)")
        db.sql(f"create {kind} v as {query}")
        rows = sorted(db.query("table v").fetchall())
        if query in USES:
            with pytest.raises(kpg.Error, match=f'column a of "t" cannot be dropped: {kind} v uses it'):
                db.sql("alter table t drop column a")
        else:
            db.sql("alter table t drop column a")
        assert sorted(db.query("table v").fetchall()) == rows


@pytest.mark.parametrize(
    ("definitions", "drop", "gone"),
    [
        ("create table t (a int); create view v as select a from t", "drop table t cascade", "view v"),
        (
            "create table t (a int primary key); create table u (a int constraint k references t)",
            "drop table t cascade",
            "constraint k on table u",
        ),
        (
            "create table t (a int primary key, b int); create table u (a int constraint k references t)",
            "alter table t drop column a cascade",
            "constraint k on table u",
        ),
        (
            "create table t (a int, b int generated always as (a + 1) stored, c int)",
            "alter table t drop column a cascade",
            "column b of table t",
        ),
        ("create schema s; create table s.t (a int)", "drop schema s cascade", "table s.t"),
        (
            "create sequence s; create table t (a int default nextval('s'))",
            "drop sequence s cascade",
            "default value for column a of table t",
        ),
        (
            "create domain d as int; create table t (a d, b int)",
            "drop domain d cascade",
            "column a of table t",
        ),
        (
            "create function f(int) returns int language sql immutable as 'select $1'; "
            "create table t (a int); create view v as select f(a) as x from t",
            "drop function f cascade",
            "view v",
        ),
    ],
)
def test_cascade_says_what_it_takes_along(definitions: str, drop: str, gone: str) -> None:
    with kpg.connect() as db:
        db.sql(definitions)
        db.sql(drop)
        assert db.notices == [("NOTICE", f"drop cascades to {gone}")]


def test_cascade_to_several_names_them_in_the_detail() -> None:
    with kpg.connect() as db:
        db.sql(TABLE)
        db.sql("drop table t cascade")
        (notice,) = db._engine.notices
        assert notice.message == "drop cascades to 3 other objects"
        assert set((notice.detail or "").splitlines()) == {
            "drop cascades to materialized view m1",
            "drop cascades to materialized view m3",
            "drop cascades to view v1",
        }


def test_drop_materialized_view_refuses_a_plain_view() -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int); create view v as select a from t")
        with pytest.raises(kpg.ProgrammingError, match='"v" is not a materialized view') as e:
            db.sql("drop materialized view v")
        assert (sqlstate_of(e.value), e.value.hint) == ("42809", "use DROP VIEW")
        db.sql("drop view v; create materialized view v as select a from t; drop materialized view v")


def test_the_distribution_of_a_table_follows_its_changes_and_ends_with_it() -> None:
    with kpg.connect() as db:
        engine = db._engine

        def distribution() -> str | None:
            return declared_distribution(engine.extras, engine.executor.tables.table_number("t"))

        db.sql("create table t (a int, b int) distributed by (b)")
        db.sql("alter table t add c int")
        assert distribution() == "b"
        db.sql("begin; drop table t; rollback")
        assert distribution() == "b"
        db.sql("begin; alter table t drop column a; rollback")
        assert distribution() == "b"
        db.sql("drop table t")
        assert DISTRIBUTION not in engine.extras


def test_a_unique_index_takes_the_foreign_keys_that_use_it() -> None:
    with kpg.connect() as db:
        db.sql(
            "create table t (a text, up text); create unique index i on t (a); create unique index j on t (a)"
        )
        db.sql("alter table t add foreign key (up) references t (a)")
        db.sql("create table u (b text primary key references t (a)); insert into t values ('y', 'y')")
        db.sql("drop index j")  # the foreign keys use the first index
        with pytest.raises(
            kpg.ProgrammingError, match='index "i" cannot be dropped: FOREIGN KEY t_up_fkey'
        ) as e:
            db.sql("drop index i")
        assert sqlstate_of(e.value) == "2BP01"
        db.sql("begin; drop index i cascade; rollback")
        with pytest.raises(kpg.IntegrityError, match="u_b_fkey"):
            db.sql("insert into u values ('z')")
        db.sql("drop index i cascade")
        assert {text for _, text in db.notices} == {
            "drop cascades to constraint t_up_fkey on table t",
            "drop cascades to constraint u_b_fkey on table u",
        }
        db.sql("insert into t values ('y', 'n'); insert into u values ('z')")
        assert db.query("select count(*) from pg_constraint where contype = 'f'").fetchall() == [(0,)]


def test_a_column_takes_the_foreign_keys_of_its_table_that_refer_to_it() -> None:
    with kpg.connect() as db:
        db.sql("create table t (c int unique, d int references t (c), e int); insert into t values (1, 1, 2)")
        with pytest.raises(kpg.ProgrammingError, match="c cannot be dropped: FOREIGN KEY t_d_fkey") as e:
            db.sql("alter table t drop column c")
        assert sqlstate_of(e.value) == "2BP01"
        db.sql("alter table t drop column c cascade")
        assert db.notices == [("NOTICE", "drop cascades to constraint t_d_fkey on table t")]
        db.sql("insert into t values (5, 6)")
        assert sorted(db.query("table t").fetchall()) == [(1, 2), (5, 6)]


def test_a_column_takes_its_own_foreign_key_and_those_over_an_index_that_includes_it() -> None:
    with kpg.connect() as db:
        db.sql("create table t (c int unique references t (c), d int); alter table t drop column c")
        db.sql(
            "create table u (a int, b int, unique (a) include (b)); create table w (a int references u (a))"
        )
        with pytest.raises(kpg.ProgrammingError, match="b cannot be dropped: FOREIGN KEY w_a_fkey") as e:
            db.sql("alter table u drop column b")
        assert sqlstate_of(e.value) == "2BP01"
        db.sql("alter table u drop column b cascade; insert into u values (1), (1); insert into w values (7)")
        assert db.query("select count(*) from pg_constraint where contype in ('f', 'u')").fetchall() == [(0,)]


def test_a_primary_key_added_under_a_view_is_one_for_foreign_keys(tmp_path: Path) -> None:
    with kpg.connect(str(tmp_path / "db")) as db:
        db.sql("create table t (e bigint, a text); create view v as select distinct e as x from t")
        db.sql("alter table t add primary key (e); create table u (d bigint references t)")
        with pytest.raises(kpg.IntegrityError, match="u_d_fkey"):
            db.sql("insert into u values (1)")
        db.sql("drop view v")
        with pytest.raises(kpg.ProgrammingError, match='"e" is in the primary key'):
            db.sql("alter table t alter e drop not null")
    with kpg.connect(str(tmp_path / "db")) as db:
        db.sql("create table w (d bigint references t); insert into t values (1); insert into w values (1)")
        with pytest.raises(kpg.ProgrammingError, match="cannot be dropped: FOREIGN KEY") as e:
            db.sql("alter table t drop constraint t_pkey")
        assert sqlstate_of(e.value) == "2BP01"
        db.sql("alter table t drop constraint t_pkey cascade; alter table t alter e drop not null")
        with pytest.raises(kpg.ProgrammingError, match='"t" has no primary key'):
            db.sql("create table x (d bigint references t)")
