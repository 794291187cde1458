"""Row level security beyond what a script beside Postgres shows: views that follow, folders, whole tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.runtime.errors import PrivilegeError
from kpg.session.session import Session

SETUP = """
create role ann; create role bob;
create table t (a int primary key, o text);
grant all on t to ann, bob;
grant create on schema public to ann;
alter table t enable row level security;
create policy p on t using (o = current_user);
insert into t values (1, 'ann'), (2, 'bob');
"""


@pytest.fixture
def db() -> Iterator[kpg.Database]:
    with kpg.connect() as opened:
        opened.sql(SETUP)
        yield opened


def rows(session: Session, text: str, *values: Any) -> list[Any]:
    found = session.sql(text, list(values) or None)
    assert found is not None
    return sorted(found.fetchall())


def test_a_materialized_view_follows_what_its_owner_may_see(db: kpg.Database) -> None:
    ann = db.session("ann")
    ann.sql("create materialized view v as select count(*) as n, max(a) as m from t")
    db.sql("insert into t values (3, 'ann'), (4, 'bob'); update t set o = 'bob' where a = 1")
    assert rows(ann, "select * from v") == [(1, 3)]
    db.sql("update t set o = 'ann' where a in (2, 4); delete from t where a = 3")
    assert rows(ann, "select * from v") == [(2, 4)]
    db.verify("v")
    for text in (
        "create policy q on t using (true)",
        "drop policy p on t",
        "alter table t force row level security",
    ):
        with pytest.raises(kpg.NotSupportedError, match="while view v reads it"):
            db.sql(text)
    ann.sql("drop materialized view v")
    db.sql("drop policy p on t")
    assert rows(ann, "select * from t") == []
    with pytest.raises(kpg.NotSupportedError, match="whose policies read settings"):
        db.sql("create policy s on t using (o = current_setting('app.who', true))")
        ann.sql("create materialized view v as select * from t")


def test_plans_are_of_who_asks_and_of_policies_as_they_are(db: kpg.Database) -> None:
    ann, bob = db.session("ann"), db.session("bob")
    for _ in range(3):
        assert rows(ann, "select a from t where a < $1", 9) == [(1,)]
        assert rows(bob, "select a from t where a < $1", 9) == [(2,)]
        assert rows(db.session(), "select a from t where a < $1", 9) == [(1,), (2,)]
        for session in (ann, bob):
            assert session.sql("update t set o = o where a = $1", [1]).rowcount == (session is ann)  # type: ignore[union-attr]
        with pytest.raises(PrivilegeError, match='violates row-level security policy for table "t"'):
            ann.sql("insert into t values ($1, $2)", [5, "bob"])
    db.sql("alter policy p on t using (a > 1)")
    assert rows(ann, "select a from t where a < $1", 9) == [(2,)]


def test_no_error_of_a_hidden_row_is_seen(db: kpg.Database) -> None:
    ann = db.session("ann")
    assert rows(ann, "select a from t where 1 / (a - 2) <> 0") == [(1,)]
    assert rows(ann, "select 1 / (a - 2) from t") == [(-1,)]


def test_where_all_of_a_table_is_asked_for_it_is_refused(db: kpg.Database) -> None:
    ann = db.session("ann")
    ann.sql("create materialized view v as select a from t")
    with pytest.raises(PrivilegeError, match="would be affected by row-level security policy"):
        ann.sql("explain row v values (1)")
    ann.sql("drop materialized view v")
    with pytest.raises(kpg.ProgrammingError, match='policy "p" of table "t" uses it'):
        db.sql("alter table t drop column o")
    db.sql("alter table t rename column o to owner")
    assert rows(ann, "select distinct owner from t") == [("ann",)]


def test_a_policy_and_the_views_that_it_filters_are_dropped_with_its_column(db: kpg.Database) -> None:
    db.session("ann").sql("create materialized view v as select count(*) as n from t")
    with pytest.raises(kpg.ProgrammingError, match="materialized view v uses it"):
        db.sql("alter table t drop column o")
    db.sql("alter table t drop column o cascade")
    assert db.query("select polname from pg_policy").fetchall() == []
    assert db.query("select matviewname from pg_matviews").fetchall() == []


def test_policies_are_there_when_a_folder_is_opened_again(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql(SETUP)
        db.session("ann").sql("create view plain as select a from t")
        db.session("ann").sql("create materialized view v as select count(*) as n from t")
    with kpg.connect(tmp_path / "db") as db:
        ann = db.session("ann")
        db.sql("insert into t values (7, 'ann'), (8, 'bob')")
        assert rows(ann, "select a from t") == rows(ann, "select * from plain") == [(1,), (7,)]
        assert rows(ann, "select * from v") == [(2,)]
