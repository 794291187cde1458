"""A checkpoint describes what has changed, however much there is; what stays is right, and found again."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kpg
from kpg.runtime.checkpoint.captured_state import leaves_of
from kpg.runtime.checkpoint.checkpointer import CheckpointStore
from kpg.runtime.checkpoint.worker_state import TABLES_PER_LEAF
from kpg.runtime.storage.packs import read_manifest
from kpg.runtime.types import BIGINT, ColumnDef, Schema
from kpg.runtime.worker.worker import Worker
from tests.model.disk import Sim
from tests.model.durable import contents, opened
from tests.properties import test_checkpoints as of_workers

SCHEMA = Schema((ColumnDef("k", BIGINT), ColumnDef("v", BIGINT)), (0,))


def described(db: kpg.Database) -> int:
    """Leaves that one CHECKPOINT describes."""
    keeper: Any = db._engine.write_ahead_log
    packer = keeper.checkpoints._store
    before = packer.described_leaves
    db.sql("checkpoint")
    found: int = packer.described_leaves - before
    return found


def test_work_is_in_proportion_to_what_changed() -> None:
    """Of 200 tables and 20 views: one row is two leaves, its table's and its clock's definitions' none."""
    sim = Sim()
    db = opened(sim)
    for number in range(200):
        db.sql(f"create table t{number} (k int primary key, v int)")
    for number in range(20):
        db.sql(f"create materialized view v{number} as select v, count(*) c from t{number} group by v")
    whole = described(db)
    assert whole > 200 // TABLES_PER_LEAF + 220 // 32
    db.sql("insert into t100 values (1, 1)")
    assert described(db) == 1
    assert described(db) == 0  # nothing is new
    db.sql("insert into t100 values (2, 1); insert into t101 values (2, 1); delete from t100 where k = 1")
    assert described(db) == 1  # they are neighbours
    db.sql("insert into t3 values (1, 1)")  # with v3's operators, of which each may be in a leaf of its own
    assert 2 <= described(db) <= 3
    db.sql("comment on table t150 is 'one definition'")
    assert described(db) == 1
    db = opened(sim.after_kill())
    assert db.query("select c from v3").fetchall() == [(1,)]
    db.sql("insert into t100 values (3, 1)")
    assert described(db) == 1
    assert db.query("select k from t100 order by k").fetchall() == [(2,), (3,)]


def test_what_a_replay_has_changed_is_described() -> None:
    """Of a database that was opened with a log behind its checkpoint, and again without one."""
    sim = Sim()
    db = opened(sim)
    for number in range(100):
        db.sql(f"create table t{number} (k int primary key, v int unique)")
    db.sql("checkpoint")
    db.sql("insert into t7 values (1, 5); insert into t70 values (1, 5)")
    killed = sim.after_kill()
    db = opened(killed)
    assert described(db) == 2
    db = opened(killed.after_kill())
    assert db.query("select t7.v, t70.v from t7, t70").fetchall() == [(5, 5)]
    assert described(db) == 0


def test_a_view_that_is_made_again_is_not_taken_for_the_one_before() -> None:
    """With as many rows inserted into its traces as the one before had."""
    sim = Sim()
    db = opened(sim)
    db.sql("create table t (k int primary key, v int); insert into t values (1, 1), (2, 2), (3, 3)")
    text = "create materialized view m as select v, max(k) k from t group by v"
    db.sql(text)
    db.sql("checkpoint")
    db.sql("drop materialized view m; delete from t where k = 1; insert into t values (4, 4)")
    db.sql(text)
    db.sql("checkpoint")
    again = opened(sim.after_kill())
    assert sorted(again.query("select v, k from m").fetchall()) == [(2, 2), (3, 3), (4, 4)]
    again.sql("delete from t where k = 4")
    assert sorted(again.query("select v, k from m").fetchall()) == [(2, 2), (3, 3)]
    again.verify("m")


@pytest.mark.parametrize("seed", range(3))
def test_checkpoints_of_many_tables_in_many_lives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs come and go: what is in those that go is described again, whoever has not been asked for."""
    monkeypatch.setattr("kpg.runtime.checkpoint.pack_store.MAX_INLINE_BYTES", 16)
    monkeypatch.setattr("kpg.runtime.checkpoint.checkpointer.MAX_PACKS", 3)
    monkeypatch.setattr("kpg.runtime.checkpoint.worker_state.TABLES_PER_LEAF", 4)
    monkeypatch.setattr("kpg.persistence.checkpoints.GROUP_SIZE", 3)
    rng = random.Random(seed)
    sim = Sim()
    db = opened(sim)
    for number in range(20):
        db.sql(f"create table t{number} (k int primary key, g text, v int, unique (g, v))")
        if number % 4 == 0:
            db.sql(f"create materialized view v{number} as select g, sum(v) s from t{number} group by g")
    for round in range(25):
        for _ in range(rng.randrange(4)):
            table, k = rng.randrange(20), rng.randrange(50)
            db.sql(f"delete from t{table} where k = {k} or v < {rng.randrange(10)}")
            db.sql(
                f"insert into t{table} values ({k}, 'g{k % 5}', {rng.randrange(100)}) on conflict do nothing"
            )
        if rng.random() < 0.2:
            db.sql(
                f"drop table if exists extra; create table extra (a int); insert into extra values ({round})"
            )
        if rng.random() < 0.2:
            db.sql("vacuum")
        db.sql("checkpoint")
        if rng.random() < 0.4:
            before = contents(db)
            sim = sim.after_kill()
            db = opened(sim)
            assert contents(db) == before
            for number in range(0, 20, 4):
                db.verify(f"v{number}")


def test_leaves_of_a_checkpoint(tmp_path: Path) -> None:
    """They stay where they are, byte by byte, until what they refer to goes."""
    sim = Sim()
    worker, keeper = Worker(), CheckpointStore(sim, 7)
    for number in range(3 * TABLES_PER_LEAF):
        worker.create_table(f"t{number}", SCHEMA)
    of_workers.checkpoint(worker, keeper)

    def leaves() -> Any:
        manifest = read_manifest(sim)
        assert manifest is not None and manifest.checkpoint is not None
        return leaves_of(CheckpointStore(sim, 7).open(manifest.checkpoint))

    before = leaves()
    assert sorted(before) == ["/tables/0", "/tables/1", "/tables/2", "/tables/3"]  # numbers begin with 1
    worker.tables.insert("t0", np.array([[1], [2]]))
    worker.step()
    of_workers.checkpoint(worker, keeper)
    after = leaves()
    assert {path for path in after if after[path] != before[path]} == {"/tables/0"}
    assert after["/tables/0"].pack > before["/tables/0"].pack
