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
