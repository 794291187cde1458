"""Unique indexes over expressions and of some rows: across transactions and openings."""

import pathlib

import pytest

import kpg

SCHEMA = """
    create table t (a int, b text);
    create unique index tb on t (lower(b)) where a > 0;
"""


def test_indexes_are_kept_when_the_database_is_opened_again(tmp_path: pathlib.Path) -> None:
    with kpg.connect(str(tmp_path / "db")) as db:
        db.sql(SCHEMA)
        db.sql("insert into t values (1, 'x'), (-1, 'X')")
    with kpg.connect(str(tmp_path / "db")) as db:
        with pytest.raises(kpg.IntegrityError, match='unique constraint "tb"'):
            db.sql("insert into t values (2, 'X')")
        with pytest.raises(kpg.IntegrityError, match='unique constraint "tb"'):
            db.sql("update t set a = 5 where a = -1")
        db.sql("delete from t where a = 1; insert into t values (2, 'X')")


def test_indexes_follow_savepoints_and_failures() -> None:
    db = kpg.connect()
    db.sql(SCHEMA)
    db.sql("begin; insert into t values (1, 'x'); savepoint s; delete from t; rollback to s; commit")
    with pytest.raises(kpg.IntegrityError):
        db.sql("insert into t values (9, 'y'), (10, 'x')")
    db.sql("insert into t values (9, 'y')")
    assert db.query("select a from t order by a").fetchall() == [(1,), (9,)]
    listed = db.query("select relname from pg_class where relkind = 'r' and relname like 't%'")
    assert listed.fetchall() == [("t",)]
    db.sql("drop table t")
    assert db.sql("show tables").fetchall() == []
