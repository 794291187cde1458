"""Inheritance where it is refused; what it gives is compared with Postgres."""

import pytest

import kpg


def test_a_view_over_a_table_that_is_inherited_has_the_rows_of_its_heirs() -> None:
    with kpg.connect() as db:
        db.sql("create table p (a int); create materialized view v as select a from p")
        db.sql("create table c (b int) inherits (p); insert into c values (1, 2); insert into p values (3)")
        assert db.query("select a from v").fetchall() == [(1,), (3,)]
        db.sql("delete from p where a = 1")
        assert db.query("select a from v").fetchall() == [(3,)]


def test_a_table_that_is_inherited_goes_with_its_heirs() -> None:
    with kpg.connect() as db:
        db.sql("create table p (a int); create table c (b int) inherits (p)")
        with pytest.raises(kpg.ProgrammingError, match='"p" cannot be dropped: table "c" inherits it'):
            db.sql("drop table p")
        db.sql("insert into c values (1, 2); drop table p cascade")
        with pytest.raises(kpg.ProgrammingError, match='relation "c" does not exist'):
            db.sql("select * from c")


def test_columns_of_a_table_that_is_inherited_stay() -> None:
    with kpg.connect() as db:
        db.sql("create table p (a int); create table c (b int) inherits (p)")
        for text in ("alter table p rename to q", "alter table c drop column a"):
            with pytest.raises(kpg.NotSupportedError, match="is not supported"):
                db.sql(text)
        db.sql(
            "insert into c values (1, 2); alter table p add column d int default 7; insert into p values (3)"
        )
        assert db.query("select * from p order by a").fetchall() == [(1, 7), (3, 7)]
        assert db.query("select * from c").fetchall() == [(1, 2, 7)]
