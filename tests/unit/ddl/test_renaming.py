"""Types, tables and functions with other names: what is kept of them follows."""

from pathlib import Path

import kpg
from kpg.execute.definitions.rename import substitute_type
from kpg.runtime.types import Kind, Type, array


def test_a_kept_view_goes_on_with_a_type_of_another_name(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql("create type mood as enum ('sad', 'happy'); create table t (m mood, many mood[])")
        db.sql("insert into t values ('sad', '{happy}')")
        db.sql(
            "create materialized view v as select m, count(*) as n from t where m <> 'happy'::mood group by m"
        )
        db.sql("alter type mood rename to moods")
        db.sql("insert into t values ('sad', null), ('happy', null)")
        assert db.sql("select m, n from v").fetchall() == [("sad", 2)]
    with kpg.connect(tmp_path / "db") as db:
        db.sql("insert into t values ('sad', array['sad'::moods])")
        assert db.sql("select m, n, pg_typeof(m)::text from v").fetchall() == [("sad", 3, "moods")]
        assert db.sql("select many::text from t order by 1").fetchall()[:2] == [("{happy}",), ("{sad}",)]


def test_a_rename_that_is_rolled_back_is_none() -> None:
    with kpg.connect() as db:
        db.sql("create type mood as enum ('sad', 'happy'); create table t (m mood default 'sad'::mood)")
        db.sql("create materialized view v as select m from t")
        db.sql("begin; alter type mood rename to moods; rollback")
        db.sql("insert into t default values")
        assert db.sql("select m, 'happy'::mood from v").fetchall() == [("sad", "happy")]


def test_only_the_type_of_that_name_is_another() -> None:
    old, new = Type(Kind.ENUM, labels=("a",), name="x"), Type(Kind.ENUM, labels=("a",), name="y")
    other = Type(Kind.ENUM, labels=("a",), name="z")
    assert substitute_type((array(old), other, "x"), old, new) == (array(new), other, "x")
    some = (other, 1)
    assert substitute_type(some, old, new) is some
