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


@pytest.mark.parametrize("index", ["(g) where e is not null", "((g + 1))"])
def test_a_generated_column_is_added_to_rows_with_an_index(index: str) -> None:
    with kpg.connect() as db:
        db.sql(
            f"create table t (e int, g int); insert into t values (1, 2); create unique index i on t {index}"
        )
        db.sql("alter table t add column h int generated always as (e) stored, add check (g > 0)")
        assert db.query("table t").fetchall() == [(1, 2, 1)]
        db.sql("alter table t alter g type bigint")
        with pytest.raises(kpg.IntegrityError, match='unique constraint "i"'):
            db.sql("insert into t values (3, 2)")
        db.sql("delete from t; insert into t values (3, 2)")


def test_a_partition_with_an_index_of_its_own_follows_its_parent() -> None:
    with kpg.connect() as db:
        db.sql("create table p (a int, b int) partition by range (a)")
        db.sql("create table p1 partition of p for values from (0) to (9); insert into p values (1, 2)")
        db.sql("create unique index i on p1 ((b + 1))")
        db.sql("alter table p add column c int generated always as (a) stored")
        db.sql("alter table p alter b type bigint")
        with pytest.raises(kpg.IntegrityError, match='unique constraint "i"'):
            db.sql("insert into p values (2, 2)")
        db.sql("insert into p values (2, 3)")
        assert sorted(db.query("table p").fetchall()) == [(1, 2, 1), (2, 3, 2)]
