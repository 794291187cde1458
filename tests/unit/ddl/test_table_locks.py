"""Definitions wait for who has changed or locked what they are about: each pair as a real Postgres has it."""

from collections.abc import Iterator

import pytest

import kpg
from kpg.runtime.errors import PrivilegeError
from kpg.session.locks import DeadlockError, LockNotAvailableError
from tests.unit.sessions.test_row_locks import Asking, asked

TABLES = """
    create table t (id int primary key, x int); insert into t values (1, 0), (2, 0), (3, 0);
    create table u (id int primary key, y int); create index tx on t (x);
    create table p (id int primary key); insert into p values (1), (2);
    create table c (id int primary key, p int references p (id));
    create table q (a int, b int) partition by range (a);
    create table q1 partition of q for values from (0) to (10);
    create schema s; create table s.a (i int);
"""
CHANGES = (
    "insert into t values (10, 1)",
    "update t set x = 1 where id = 1",
    "delete from t where id = 1",
    "select * from t where id = 1 for update",
    "insert into c values (1, 1)",
    "delete from p where id = 2",
    "insert into q values (1, 1)",
    "insert into s.a values (1)",
    "insert into u values (9, 9)",
)
WAITS = (
    ("alter table t add column z int", "0123"),
    ("alter table t rename to t9", "0123"),
    ("alter table t rename x to y", "0123"),
    ("create index on t (id, x)", "012"),
    ("create unique index on t (x, id)", "012"),
    ("drop index tx", "0123"),
    ("drop table t", "0123"),
    ("truncate t", "0123"),
    ("create view w as select * from t", ""),
    ("create table k as select * from t", ""),
    ("create materialized view mw as select * from t", ""),
    ("alter table c add foreign key (id) references p (id)", "45"),
    ("create table n (i int references p (id))", "5"),
    ("create table n (i int references t (id))", "012"),
    ("drop table c", "45"),
    ("drop table p cascade", "45"),
    ("truncate p cascade", "45"),
    ("alter table p drop constraint p_pkey cascade", "45"),
    ("alter table c drop constraint c_p_fkey", "45"),
    ("create table q2 partition of q for values from (20) to (30)", "6"),
    ("drop table q1", "6"),
    ("alter table q detach partition q1", "6"),
    ("drop schema s cascade", "7"),
    ("comment on table t is 'x'", ""),
    ("alter table t alter x set default 3", "0123"),
    ("alter table t alter x type bigint", "0123"),
    ("alter table t set schema s", "0123"),
    ("alter table t enable row level security", "0123"),
    ("create policy y on t using (true)", "0123"),
    ("alter table t add check (x >= 0)", "0123"),
    ("create table n (like t)", ""),
    ("alter table u add column w int", "8"),
    ("drop table if exists u", "8"),
)
"""Definitions, and the places of the changes that they wait for."""


@pytest.fixture
def db() -> Iterator[kpg.Database]:
    with kpg.connect() as opened:
        opened.sql(TABLES)
        _ = opened.hub
        yield opened
        assert not opened.hub.engine.tables.change_hooks


@pytest.mark.parametrize("place", range(len(CHANGES)))
def test_definitions_wait_for_what_they_exclude(db: kpg.Database, place: int) -> None:
    # One that cannot wait says at once that it would have to.
    one = db.session()
    found = []
    for text, _ in WAITS:
        one.sql("begin; " + CHANGES[place])
        db.sql("begin")
        try:
            db.sql(text)
        except LockNotAvailableError as error:
            assert "could not obtain lock on relation" in error.message
            found.append(text)
        db.sql("rollback")
        one.sql("rollback")
    assert found == [text for text, waits in WAITS if str(place) in waits]


@pytest.mark.parametrize("begin", ["begin", "select 1"])
def test_who_has_waited_defines_what_others_have_left(db: kpg.Database, begin: str) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; insert into t values (7, 7)")
    other.sql(begin)
    waiting = Asking(other, "alter table t add column z int default 5; select z from t where id = 7")
    assert asked(one, "select mode, granted from pg_locks where relation = 't'::regclass order by 2") == [
        ("AccessExclusiveLock", False),
        ("RowExclusiveLock", True),
    ]
    one.sql("insert into t values (8, 8); commit")
    assert waiting.rows() == [(5,)]
    if begin == "begin":
        adding = Asking(one, "insert into t values (9, 9) returning z")
        other.sql("rollback")
        with pytest.raises(kpg.ProgrammingError, match="z"):
            adding.rows()
    else:
        assert asked(one, "insert into t values (9, 9) returning z") == [(5,)]


def test_what_a_definition_does_to_other_tables_waits_too(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    db.sql("create sequence n; create table m (i int, o int default nextval('n'))")
    one.sql("begin; insert into m values (1)")
    waiting = Asking(other, "drop sequence n cascade; select * from m")
    one.sql("insert into m values (2); commit")
    assert sorted(waiting.rows()) == [(1, 1), (2, 2)]
    one.sql("begin; insert into s.a values (1)")
    waiting = Asking(other, "alter schema s rename to s2; select * from s2.a")
    one.sql("commit")
    assert waiting.rows() == [(1,)]


def test_who_changes_comes_after_a_definition_that_waits(db: kpg.Database) -> None:
    one, other, third = db.session(), db.session(), db.session()
    one.sql("begin; insert into t values (7, 7)")
    waiting = Asking(other, "alter table t add column z int default 5; select count(*) from t")
    assert asked(third, "select count(*) from t") == [(3,)]  # readers have not to wait
    adding = Asking(third, "insert into t (id) values (8) returning id")
    one.sql("update t set x = 9 where id = 1; commit")
    assert waiting.rows() in ([(4,)], [(5,)])
    assert adding.rows() == [(8,)]
    assert asked(one, "select z from t where id in (7, 8)") == [(5,), (5,)]


def test_a_definition_does_not_wait_for_ever(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; insert into t values (7, 7)")
    for setting, message in (("lock_timeout", "lock timeout"), ("statement_timeout", "statement timeout")):
        other.sql(f"set {setting} = '20ms'")
        for text in ("truncate t", "create index on t (x)", "alter table t drop column x"):
            with pytest.raises(kpg.Error, match=message):
                other.sql(text)
        other.sql(f"reset {setting}")
    waiting = Asking(other, "drop table t")
    other.cancel()
    with pytest.raises(kpg.Error, match="user request"):
        waiting.rows()
    one.sql("commit")
    assert asked(other, "select x from t where id = 7") == [(7,)]


def test_definitions_that_wait_for_each_other_are_told(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; insert into t values (7, 7)")
    other.sql("begin; insert into u values (7, 7)")
    waiting = Asking(one, "alter table u add column z int default 1; select z from u")
    with pytest.raises(DeadlockError):
        other.sql("truncate t")
    assert waiting.rows() == []
    one.sql("commit")
    other.sql("rollback")
    # Nobody else can do anything before who has defined something ends: it is not to wait for them.
    other.sql("begin; insert into t values (8, 8)")
    one.sql("begin; create table k (i int)")
    with pytest.raises(DeadlockError) as raised:
        one.sql("truncate t")
    assert "has changed definitions" in (raised.value.detail or "")
    one.sql("rollback")
    other.sql("commit")


def test_what_is_taken_back_to_a_savepoint_keeps_nobody_out(db: kpg.Database) -> None:
    one, other = db.session(), db.session()
    one.sql("begin; insert into t values (7, 7); savepoint a; create table k (i int); rollback to a")
    assert asked(other, "insert into t values (8, 8) returning id") == [(8,)]
    one.sql("create table k (i int); insert into k values (1); savepoint b; drop table k; rollback to b")
    waiting = Asking(other, "select i from k")
    one.sql("commit")
    assert waiting.rows() == [(1,)]
    assert asked(one, "select count(*) from t") == [(5,)]


def test_only_who_may_define_waits(db: kpg.Database) -> None:
    db.sql("create role ann; grant insert on t to ann; create role bob")
    one, other = db.session(), db.session("bob")
    one.sql("begin; insert into t values (7, 7)")
    for text in (
        "alter table t add column z int",
        "drop table t",
        "truncate t",
        "alter table t owner to bob",
    ):
        with pytest.raises(PrivilegeError):
            other.sql(text)
    one.sql("commit")
