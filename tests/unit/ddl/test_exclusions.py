"""Unique indexes over expressions and of some rows, and EXCLUDE: across transactions and openings."""

import pathlib

import pytest

import kpg

SCHEMA = """
    create table t (a int, b text, r int4range, exclude using gist (r with &&) where (a > 0));
    create unique index tb on t (lower(b)) where a > 0;
"""


def test_rules_are_kept_when_the_database_is_opened_again(tmp_path: pathlib.Path) -> None:
    with kpg.connect(str(tmp_path / "db")) as db:
        db.sql(SCHEMA)
        db.sql("insert into t values (1, 'x', '[1,5)'), (-1, 'X', '[1,5)')")
    with kpg.connect(str(tmp_path / "db")) as db:
        with pytest.raises(kpg.IntegrityError, match='unique constraint "tb"'):
            db.sql("insert into t values (2, 'X', '[7,8)')")
        with pytest.raises(kpg.IntegrityError, match='exclusion constraint "t_r_excl"'):
            db.sql("update t set a = 5, b = 'z' where a = -1")
        db.sql("delete from t where a = 1; insert into t values (2, 'X', '[2,3)')")


def test_rules_follow_savepoints_and_failures() -> None:
    db = kpg.connect()
    db.sql(SCHEMA)
    db.sql("begin; insert into t values (1, 'x', '[1,5)'); savepoint s; delete from t; rollback to s; commit")
    with pytest.raises(kpg.IntegrityError):
        db.sql("insert into t values (9, 'y', '[20,30)'), (10, 'x', null)")
    db.sql("insert into t values (9, 'y', '[20,30)')")
    assert db.query("select a from t order by a").fetchall() == [(1,), (9,)]
    listed = db.query("select relname from pg_class where relkind = 'r' and relname like 't%'")
    assert listed.fetchall() == [("t",)]
    db.sql("drop table t")
    assert db.sql("show tables").fetchall() == []
