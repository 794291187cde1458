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
    "an heir": "create table c (z int) inherits (t)",
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


def test_rights_of_what_a_program_has_are_kept() -> None:
    sim = Sim()
    db = opened(sim)
    db.datalog("""
        .decl e(a: number, b: number) .input e .decl tc(a: number, b: number) .output tc
        tc(a, b) :- e(a, b).
    """)
    db.sql("create role r; grant select on tc to r; comment on view tc is 'what is reached'")
    expected = contents(db)
    assert ("RELATION", "tc") in expected["rights: lists"]
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
