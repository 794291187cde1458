"""Checkpoints of databases in folders: what they begin with, and what the log says since."""

import errno
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.storage.packs import read_manifest
from tests.model.disk import Sim
from tests.model.durable import contents, opened

SCRIPT = """
    create table t (k int primary key, g text, v int, unique (g, v));
    create table u (g text references t2 (g), n numeric);
    create materialized view sums as select g, sum(v) s, count(*) c from t group by g;
    create materialized view top as select g, v from t order by v desc, k limit 3;
    create materialized view both as select t.k, u.n from t join u on t.g = u.g;
    create materialized view reach as
        with recursive r(x) as (select 0 union select t.v from t join r on t.k = r.x) select x from r;
    create materialized view words as
        select string_agg(g, ',' order by k) w, avg(v) a from t where g like 'g%';
"""


def filled(db: Database) -> Database:
    db.sql("create table t2 (g text primary key)")
    db.sql(SCRIPT)
    db.sql("insert into t2 values ('g0'), ('g1'), ('g2')")
    change(db, random.Random(0), 60)
    return db


def change(db: Database, rng: random.Random, count: int) -> None:
    for _ in range(count):
        k = rng.randrange(100)
        db.sql(f"delete from t where k = {k} or v = {rng.randrange(50)}")
        db.sql(
            f"insert into t values ({k}, 'g{rng.randrange(3)}', {rng.randrange(100)}) on conflict do nothing"
        )
    db.sql(f"insert into u values ('g{rng.randrange(3)}', {rng.random()})")


def computed(files: Sim, monkeypatch: pytest.MonkeyPatch) -> tuple[Database, list[str]]:
    """The database, and what had to be computed when it was opened."""
    found: list[str] = []
    with monkeypatch.context() as patch:
        from kpg.runtime.worker.worker import Worker

        restored = Worker.finish_restore

        def noted(worker: Worker) -> list[str]:
            found.extend(restored(worker))
            return found

        patch.setattr(Worker, "finish_restore", noted)
        return opened(files), found


def test_what_is_opened_from_a_checkpoint_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """At close, by CHECKPOINT, and with commits since; nothing is computed but what is new."""
    sim, rng = Sim(), random.Random(5)
    db = filled(opened(sim))
    for round in range(4):
        db.sql("checkpoint")
        before = contents(db)
        again, made = computed(sim.after_kill(), monkeypatch)
        assert contents(again) == before and made == []
        change(db, rng, 5)
        db.sql(f"create materialized view v{round} as select g, max(v) m from t where v > {round} group by g")
        db.sql(f"drop materialized view {'sums' if round == 1 else f'v{round}'}")
        db.sql("alter table t2 add column extra int default 3" if round == 2 else "select 1")
        change(db, rng, 5)
        killed = sim.after_kill()
        again, made = computed(killed, monkeypatch)
        assert contents(again) == contents(db)
        change(again, rng, 5)
        again.close()
        db, made = computed(killed, monkeypatch)
        assert contents(db) == contents(again_of(killed)) and made == []
        sim = killed
        db.close()
        db = opened(sim)


def again_of(sim: Sim) -> Database:
    return opened(sim.after_kill())


def test_constraints_hold_after_it() -> None:
    sim = Sim()
    with filled(opened(sim)) as db:
        db.sql("delete from t")
        db.sql("insert into t values (1, 'g1', 1)")
    with opened(sim) as db:
        for wrong in (
            "insert into t values (1, 'x', 5)",
            "insert into t values (2, 'g1', 1)",
            "insert into u values ('nobody', 1)",
            "delete from t2 where g in (select g from u)",
        ):
            with pytest.raises(kpg.IntegrityError):
                db.sql(wrong)
        db.sql("alter table t drop constraint t_g_v_key")
    with opened(sim) as db:
        db.sql("insert into t values (2, 'g1', 1)")
        assert db.query("select * from sums").fetchall() == [("g1", 2, 2)]


def test_checkpoint_is_for_the_time_between_transactions() -> None:
    with opened(Sim()) as db:
        db.sql("create table t (a int); begin; insert into t values (1)")
        with pytest.raises(kpg.Error, match="CHECKPOINT"):
            db.sql("checkpoint")
        db.sql("rollback")
    kpg.connect().sql("checkpoint")


def test_a_large_log_brings_one_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.persistence.checkpoints.MIN_LOG_BYTES", 20_000)
    db = filled(kpg.connect(tmp_path / "db"))
    rng = random.Random(1)
    for _ in range(6):
        change(db, rng, 20)
    names = sorted(one.name for one in (tmp_path / "db").iterdir())
    assert "log-00000001" not in names and any(name.startswith("pack") for name in names)
    expected = contents(db)
    db._engine.write_ahead_log._lock.release()  # type: ignore[union-attr]
    other = kpg.connect(tmp_path / "db")
    assert contents(other) == expected
    other.close()


def test_one_that_fails_leaves_the_database_as_it_was() -> None:
    """The disk is full whenever a pack is written: commits go on, CHECKPOINT says why, close is silent."""
    sim = Sim()
    db = filled(opened(sim))
    db.sql("checkpoint")
    manifest = read_manifest(sim)
    full = "write pack"
    sim.fails = lambda count, what: errno.ENOSPC if what.startswith(full) else 0
    db.sql("insert into t values (1000, 'g1', 1000)")
    with pytest.raises(kpg.OperationalError, match=r"no checkpoint could be made: \[Errno 28\]") as error:
        db.sql("checkpoint")
    assert "nothing is lost" in str(error.value)
    with pytest.raises(kpg.OperationalError, match="no checkpoint could be made"):
        db.sql("checkpoint")
    db.sql("insert into t values (1001, 'g1', 1001)")
    assert read_manifest(sim) == manifest
    expected = contents(db)
    db.close()
    assert read_manifest(sim) == manifest
    assert contents(opened(sim.after_kill())) == expected
    sim.fails = lambda count, what: 0
    with opened(sim) as again:
        assert contents(again) == expected
    assert read_manifest(sim) != manifest
    assert contents(opened(sim)) == expected


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_at_any_moment_of_one(seed: int) -> None:
    """What was committed is there, whether the checkpoint came to count or not."""
    first = Sim(seed)
    db = filled(opened(first))
    db.sql("checkpoint")
    change(db, random.Random(seed), 3)
    expected = contents(db)
    db._engine.write_ahead_log._lock = None  # type: ignore[union-attr]
    start = first.count
    db.sql("checkpoint")
    for cut in range(start + 2 * seed, first.count, 7):
        sim = Sim(seed)
        other = filled(opened(sim))
        other.sql("checkpoint")
        change(other, random.Random(seed), 3)
        sim.cut_at = cut - start + sim.count
        with pytest.raises(BaseException):  # noqa: B017
            other.sql("checkpoint")
            raise KeyboardInterrupt
        found = sim.after_cut(seed * 100 + cut)
        with opened(found) as again:
            assert contents(again) == expected
        with opened(found) as again:
            assert contents(again) == expected


def test_reading_beside_the_one_who_writes(tmp_path: Path) -> None:
    db = filled(kpg.connect(tmp_path / "db"))
    db.sql("checkpoint")
    expected = contents(db)
    reader = kpg.connect(tmp_path / "db", read_only=True)
    for _ in range(3):
        change(db, random.Random(2), 10)
        db.sql("checkpoint")
    assert contents(reader) == expected
    reader.close()
    db.close()


def test_a_process_that_has_compiled_nothing_opens_it(tmp_path: Path) -> None:
    """What only planning brings along, such as building blocks of functions, is found by plans too."""
    texts = (
        "select k, v from t x where v < (select 0.2 * avg(v) from t y where y.g = x.g)",
        "select g, stddev(v) s, corr(v, k) c, count(distinct v) d, max(g) m from t group by g",
        "select k, sum(v) over (partition by g order by k) s, rank() over (order by v) r from t",
        "select k, upper(g) || 'x' u, g like '%1' l, v::numeric / 3 q, date '2024-01-01' + k d from t",
        "select g, array_agg(v order by v) a, json_agg(v) j from t group by g",
        "select k, interval '1 day' * v i, extract(year from date '2024-01-01' + v) y from t",
    )
    with kpg.connect(tmp_path / "db") as db:
        db.sql("create table t (k int primary key, g text, v int)")
        db.sql("insert into t select n, 'g' || n % 3, n % 11 from generate_series(1, 50) s(n)")
        for place, text in enumerate(texts):
            db.sql(f"create materialized view v{place} as {text}")
    code = (
        "import kpg\n"
        f"db = kpg.connect({str(tmp_path / 'db')!r})\n"
        "db.sql('delete from t where k = 7'); db.sql(\"insert into t values (70, 'g1', 3)\")\n"
        f"for place in range({len(texts)}):\n"
        "    db.verify(f'v{place}'); print(db.view(f'v{place}').arrow().num_rows)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    rows = [int(one) for one in found.stdout.split()]
    assert rows[1:] == [3, 50, 50, 3, 50] and rows[0] > 0


def test_what_memory_held_before_is_written_nowhere() -> None:
    """A group of rows has room, in which there may be anything."""
    sim = Sim()
    db = opened(sim)
    db.sql("create table t (a int); insert into t values (1), (2), (3)")
    mark = 0x5EC2E75EC2E7
    worker: Any = db._engine.executor
    (group,) = worker.tables.by_name["t"].groups.groups
    group.columns[:, 3:] = mark
    db.sql("checkpoint")
    assert not [name for name, node in sim.names.items() if mark.to_bytes(8, "little") in node.now]
    db.sql("insert into t values (4)")
    db.close()
    assert again_of(sim).query("select a from t").fetchall() == [(1,), (2,), (3,), (4,)]
