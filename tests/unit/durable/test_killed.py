"""What the last commit before a kill has defined is so when the folder is opened, and views follow it."""

import os
import shutil
from pathlib import Path

import pytest

import kpg
from tests.model.disk import Sim
from tests.model.durable import contents, opened

START = """
    create table p (k int, g int, name text) partition by range (k);
    create table p1 partition of p for values from (0) to (20);
    create table rest partition of p default;
    create table t (k int primary key, g int, name text);
    insert into t values (1, 1, 'a'), (2, 2, 'b');
    create view w as select g, name from t;
    create materialized view parts as select g, count(*) n, max(name) m from p group by g;
    create materialized view v as select g, count(*) n, max(name) m from w group by g;
"""
LAST = {
    "a partition": "create table p2 partition of p for values from (20) to (30)",
    "one attached": """
        create table p2 (k int, g int, name text);
        alter table p attach partition p2 for values from (20) to (30)
    """,
    "one detached": "alter table p detach partition p1",
    "another name": "alter table t rename to u; alter table u rename to t",
    "a column": "alter table t add column y int default 3",
    "a column's name": "alter table p rename column name to nick; alter table p rename column nick to name",
    "a view below": "create or replace view w as select g, name || '!' as name from t where g > 1",
}


@pytest.mark.parametrize("last", LAST)
def test_views_follow_the_last_commit(last: str) -> None:
    sim = Sim()
    db = opened(sim)
    db.sql(START)
    db.sql(LAST[last])
    expected = contents(db)
    with opened(sim.after_kill()) as again:
        assert contents(again) == expected
        again.sql("insert into t (k, g, name) select n, n % 4, 'n' from generate_series(17, 42) s(n)")
        again.sql("insert into p select n, n % 4, 'n' from generate_series(20, 45) s(n)")
        again.sql("delete from t where k % 3 = 0")
        again.sql("delete from p where k % 3 = 0")
        assert contents(again)["kept"] == ["parts", "v"]  # and both are what their queries give
        found = again.query("select g, n from parts order by g").fetchall()
        assert found == [(0, 5), (1, 4), (2, 4), (3, 4)]


MADE = "create materialized view m as select g, count(*) n from t group by g;"
IN_TRANSACTION = {
    "made": ("begin; {made} commit", "m"),
    "made with rows": (
        "begin; insert into t values (3, 3, 'c'); {made} insert into t values (4, 3, 'd'); commit",
        "m",
    ),
    "its table renamed": (
        "begin; {made} alter table t rename to t2; alter table t2 rename to t; commit",
        "m",
    ),
    "its table with a column": ("begin; {made} alter table t add column z int default 1; commit", "m"),
    "renamed": ("begin; {made} alter materialized view m rename to n; alter view n rename to m; commit", "m"),
    "renamed later": ("{made} begin; alter view m rename to n; alter view n rename to m; commit", "m"),
    "owned by another": ("create role r; begin; {made} alter materialized view m owner to r; commit", "m"),
    "a view over it": ("begin; {made} create view over_m as select * from m; commit", "m"),
    "made anew": ("begin; {made} drop view m; {made} commit", "m"),
    "replaced": (
        "{made} begin; create or replace materialized view m as select g, max(k) n from t group by g; commit",
        "m",
    ),
    "plain after all": ("begin; {made} drop view m; create view m as select k g, 1 n from t; commit", "v"),
    "plain after a savepoint": (
        "begin; savepoint p; {made} rollback to p; create view m as select k g, 1 n from t; commit",
        "v",
    ),
    "dropped and back": ("begin; {made} savepoint p; drop view m; rollback to p; commit", "m"),
    "moved and undone": (
        "{made} begin; savepoint p; alter table t add column z int; rollback to p; commit",
        "m",
    ),
}


@pytest.mark.parametrize("text", IN_TRANSACTION)
def test_a_view_made_in_a_transaction_is_of_its_kind(text: str) -> None:
    """It is materialized, or not, in the session that made it, after a kill and after it was closed."""
    statements, kind = IN_TRANSACTION[text]
    kinds = "select relkind from pg_class where relname = 'm'"
    kept = [kind == "m"]
    sim = Sim()
    with opened(sim) as db:
        db.sql(START)
        db.sql(statements.format(made=MADE))
        expected = contents(db)
        assert db.query(kinds).fetchall() == [(kind,)]
        killed = sim.after_kill()
    for found in (killed, killed.after_kill(), sim.after_kill()):
        with opened(found) as again:
            assert contents(again) == expected
            assert again.query(kinds).fetchall() == [(kind,)]
            assert ["m" in contents(again)["kept"]] == kept
            again.sql("insert into t (k, g, name) values (50, 1, 'z')")
            contents(again)  # views are what their queries give
            if kind == "m":
                again.sql("create index i on m (g)")


def test_rights_of_what_a_program_has_are_kept() -> None:
    sim = Sim()
    db = opened(sim)
    db.datalog("""
        .decl e(a: number, b: number) .input e .decl tc(a: number, b: number) .output tc
        tc(a, b) :- e(a, b).
    """)
    db.sql("create role r; grant select on tc to r; comment on view tc is 'what is reached'")
    expected = contents(db)
    assert ("RELATION", "tc") in expected["rights: acls"]
    with opened(sim.after_kill()) as again:
        assert contents(again) == expected


def test_a_folder_stays_the_same_wherever_it_and_the_process_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is what has its name meanwhile touched."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with kpg.connect("other/db") as other, kpg.connect("db") as db:
        other.sql("create table o (a int)")
        db.sql("create table t (a int); insert into t values (1)")
        monkeypatch.chdir("other")
        db.sql("checkpoint; insert into t values (2)")
        shutil.move(tmp_path / "db", tmp_path / "moved")
        with kpg.connect(tmp_path / "db") as new:
            new.sql("create table n (a int)")
            before = sorted(os.listdir(tmp_path / "db"))
            db.sql("insert into t values (3); checkpoint; insert into t values (4)")
            assert sorted(os.listdir(tmp_path / "db")) == before
    with kpg.connect(tmp_path / "moved") as db, kpg.connect("db") as other:
        assert db.query("select sum(a) from t").fetchall() == [(10,)]
        assert other.query("select count(*) from o").fetchall() == [(0,)]
    with kpg.connect(tmp_path / "db") as new:
        assert new.query("select count(*) from n").fetchall() == [(0,)]


@pytest.mark.parametrize("name", ["", "nul\0", "x" * 300])
def test_names_that_no_folder_has(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kpg.OperationalError, match=r"cannot be (opened|made)"):
        kpg.connect(name)
    assert os.listdir(tmp_path) == []
