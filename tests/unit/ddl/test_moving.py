"""ALTER SCHEMA ... RENAME TO: what follows, what does not, and what is refused."""

from pathlib import Path

import pytest

import kpg


@pytest.fixture
def db(tmp_path: Path) -> kpg.Database:
    db = kpg.connect(tmp_path / "db")
    db.sql("create schema far; create table far.t (a int primary key, b int)")
    db.sql("insert into far.t values (1, 1), (2, 1)")
    return db


def test_kept_views_and_indexes_go_on(db: kpg.Database, tmp_path: Path) -> None:
    db.sql("create materialized view far.n as select b, count(*) as n from far.t group by b")
    db.sql("create index i on far.t (b)")
    db.sql("alter schema far rename to near")
    db.sql("insert into near.t values (3, 1)")
    assert db.sql("select * from near.n").fetchall() == [(1, 3)]
    db.close()
    with kpg.connect(tmp_path / "db") as again:
        again.sql("insert into near.t values (4, 2)")
        assert again.sql("select * from near.n order by b").fetchall() == [(1, 3), (2, 1)]
        assert again.sql("select indexname from pg_indexes where tablename = 't' order by 1").fetchall() == [
            ("i",),
            ("t_pkey",),
        ]
        with pytest.raises(kpg.ProgrammingError, match='schema "far" does not exist'):
            again.sql("alter schema far rename to x")


def test_what_a_session_has_set_stays_as_it_is(db: kpg.Database) -> None:
    db.sql("set search_path = far")
    db.sql("alter schema far rename to near")
    assert db.sql("show search_path").fetchall() == [("far",)]
    with pytest.raises(kpg.ProgrammingError, match='relation "t" does not exist'):
        db.sql("select * from t")
    db.close()


def test_a_kept_view_that_others_read_is_refused(db: kpg.Database) -> None:
    db.sql("create materialized view far.n as select b from far.t; create view v as select b from far.n")
    with pytest.raises(kpg.NotSupportedError, match='schema far is not supported while "v" uses far'):
        db.sql("alter schema far rename to near")
    assert db.sql("select count(*) from far.t").fetchall() == [(2,)]
    with pytest.raises(kpg.NotSupportedError, match="renaming schema public is not supported"):
        db.sql("alter schema public rename to private")
    db.close()
