"""VACUUM: places of deleted rows and earlier times of traces are given up at once, and nothing changes."""

import numpy as np
import pytest

import kpg
from kpg.runtime.errors import InterfaceError, ProgrammingError
from kpg.runtime.operators.arrange import Arrange
from kpg.runtime.worker.worker import Worker


def worker_of(db: kpg.Database) -> Worker:
    worker = db._engine.executor
    assert isinstance(worker, Worker)
    return worker


def filled(monkeypatch: pytest.MonkeyPatch) -> kpg.Database:
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 16 << 6)
    db = kpg.connect()
    db.sql("create table t (id int primary key, a int); create table u (id int primary key, a int)")
    db.sql("create materialized view v as select a, max(id) m from t group by a")
    for table in "tu":
        db.sql(f"insert into {table} select g, g % 7 from generate_series(1, 1000) g")
        db.sql(f"delete from {table} where id % 4 = 0")
    return db


def test_vacuum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fourth of each group is dead, which no commit would give up."""
    db = filled(monkeypatch)
    tables = worker_of(db).tables.by_name
    before = sorted(db.query("select * from v").fetchall())
    assert [(tables[name].dead_rows, tables[name].reclaimed_rows) for name in "tu"] == [(250, 0)] * 2
    full = tables["t"].count >> tables["t"].groups.bits << tables["t"].groups.bits
    db.sql("vacuum t")
    assert (tables["t"].reclaimed_rows, tables["u"].reclaimed_rows) == (full // 4, 0)
    db.sql("vacuum")
    assert tables["u"].reclaimed_rows == full // 4
    assert sorted(db.query("select * from v").fetchall()) == before
    assert db.query("select count(*), sum(id) from t").fetchall() == [(750, 375000)]
    db.sql("insert into t values (4, 1), (2000, 3); delete from t where id < 100")
    db.sql("update t set a = 9 where id > 900")
    db.verify("v")
    assert db.query("select a from t where id in (101, 901, 2000) order by id").fetchall() == [
        (3,),
        (9,),
        (9,),
    ]


def test_traces_become_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    db = filled(monkeypatch)
    rng = np.random.default_rng(0)
    for _ in range(60):
        low = int(rng.integers(0, 900))
        db.sql(f"update t set a = a + 1 where id between {low} and {low + 40}")
    worker = worker_of(db)
    traces = {
        operator: None
        for view in worker.views.values()
        for operator in view.operators
        if isinstance(operator, Arrange)
    }
    before = sum(trace.spine.rows for trace in traces)
    expected = sorted(db.query("select * from v").fetchall())
    db.sql("vacuum")
    assert all(trace.spine.batch_count == 1 for trace in traces)
    assert sum(trace.spine.rows for trace in traces) <= before
    assert sorted(db.query("select * from v").fetchall()) == expected
    db.sql("update t set a = 1 where id < 50")
    db.verify("v")


def test_forms_and_refusals() -> None:
    db = kpg.connect()
    db.sql("create table t (id int primary key); create view p as select 1 x; insert into t values (1)")
    for text in (
        "vacuum", "vacuum t", "vacuum full t", "vacuum (full, analyze off) t (id)", "vacuum verbose analyze",
        "vacuum freeze t, t", "analyze", "analyze t (id)", "analyze verbose", "analyse t",
    ):  # fmt: skip
        db.sql(text)
    version = db._engine.catalog.version
    db.sql("vacuum; vacuum (analyze false)")
    assert db._engine.catalog.version == version
    db.sql("vacuum analyze")
    assert db._engine.catalog.version == version + 1  # plans are made anew
    for text in ("vacuum nothing", "analyze nothing"):
        with pytest.raises(ProgrammingError, match='relation "nothing" does not exist'):
            db.sql(text)
    db.sql("begin; insert into t values (2)")
    with pytest.raises(InterfaceError, match="VACUUM cannot run inside a transaction block"):
        db.sql("vacuum")
    db.sql("rollback")
    assert db.query("select * from t").fetchall() == [(1,)]


def test_roles_tidy_up_what_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    db = filled(monkeypatch)
    tables = worker_of(db).tables.by_name
    db.sql("create role ann; alter table u owner to ann; set role ann")
    db.sql("vacuum t")
    assert tables["t"].reclaimed_rows == 0
    assert ("WARNING", 'permission denied to vacuum "t", skipping it') in db.notices
    db.sql("vacuum")
    assert tables["t"].reclaimed_rows == 0 and tables["u"].reclaimed_rows > 200


def test_the_log_of_a_folder_is_folded(tmp_path: object) -> None:
    db = kpg.connect(tmp_path)
    db.sql("create table t (id int primary key)")
    for number in range(20):
        db.sql(f"insert into t values ({number})")
    keeper = db._engine.write_ahead_log
    epoch = db._engine.executor.epoch
    db.sql("vacuum t")
    assert keeper.checkpoints._store.checkpoint is None
    db.sql("vacuum")
    assert keeper.checkpoints._store.checkpoint.epoch == epoch
    db.close()
