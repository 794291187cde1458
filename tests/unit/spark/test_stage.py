"""Workers on a Spark session: what one worker says, clear errors, and nothing left behind."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.runtime.errors import InterfaceError, NotSupportedError, OperationalError
from kpg.runtime.spark import own, slots, stage
from tests.unit.workers.test_processes import TEXT, answer_alike, rows

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session of three slots."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(own.SETTINGS, "spark.master", "local[3]")
        patch.setitem(own.SETTINGS, "spark.driver.memory", "1g")
        with own.own_session(own.Work.BRIEF) as mine:
            yield mine.get()


def left_running(spark: Any) -> list[int]:
    """The jobs that run: Spark hears that one has ended a moment after its caller does."""
    tracker, until = spark.sparkContext.statusTracker(), time.monotonic() + 10
    while (found := list(tracker.getActiveJobsIds())) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def test_answers_changes_and_errors_are_those_of_one(spark: Any) -> None:
    with kpg.connect(spark=spark, workers=2) as db, kpg.connect() as one:
        answer_alike(db, one)
        assert [row[0] for row in db.workers()] == [0, 1]
    assert not left_running(spark)
    assert not slots.taken


def test_a_worker_that_is_lost_is_started_again_and_nobody_misses_anything(spark: Any) -> None:
    with kpg.connect(spark=spark, workers=2) as db:
        db.sql(TEXT)
        told: list[list[tuple[object, int, int]]] = []
        db.view("sums").subscribe(told.append)
        db.sql("insert into t values (1, 'x', 2), (2, 'y', 1)")
        os.kill(db._engine.executor.crew.processes[1], signal.SIGKILL)
        with pytest.raises(OperationalError, match=r"Python worker exited unexpectedly|has broken"):
            db.sql("insert into t values (3, 'x', 3)")
        assert rows(db, "select * from sums") == [("X", 2), ("Y", 1)]
        db.sql("insert into t values (4, 'y', 4)")
        changes = [sorted(((row, diff) for row, _, diff in each), key=repr) for each in told]
        assert changes == [[(("X", 2), 1), (("Y", 1), 1)], [(("Y", 1), -1), (("Y", 5), 1)]]


def test_ctrl_c_ends_a_step_and_no_worker(spark: Any) -> None:
    with kpg.connect(spark=spark, workers=2) as db:
        db.sql("create table n(i int primary key); insert into n select generate_series(1, 3000)")
        before = db._engine.executor.crew.processes
        threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        endless = "with recursive r(i) as (select i from n union select i + 1 from r where i < 100000000)"
        with pytest.raises(KeyboardInterrupt):
            db.sql(f"create materialized view v as {endless} select max(i) as m from r")
        db.sql("create materialized view w as select count(*) as n from n; insert into n values (0)")
        assert rows(db, "select * from w") == [(3001,)]
        assert db._engine.executor.crew.processes == before


def test_what_cannot_be_is_said_and_does_not_hang(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InterfaceError, match="4 workers are more than the Spark session has slots: it has 3"):
        kpg.connect(spark=spark, workers=4)
    with pytest.raises(InterfaceError, match="spark= is a str, not a SparkSession"):
        kpg.connect(spark="local[2]", workers=2)  # type: ignore[arg-type]
    with pytest.raises(NotSupportedError, match="a memory limit together with workers=1"):
        kpg.connect(spark=spark, memory_limit="1 GB")
    with monkeypatch.context() as patch:
        patch.setattr(stage, "version_here", lambda: "0.0")
        with pytest.raises(
            OperationalError, match=r"did not start: the executor's Python .* driver has 0\.0"
        ):
            kpg.connect(spark=spark, workers=2)
    assert not left_running(spark)


def test_spark_reads_beside_workers_if_it_has_a_slot(spark: Any) -> None:
    frame = spark.createDataFrame([(i, f"g{i % 3}", i) for i in range(1, 101)], "k int, g string, v int")
    with kpg.connect(spark=spark, workers=2) as db:
        db.sql(TEXT)
        assert db.load("t", frame) == 100
        assert rows(db, "select * from sums") == [("G0", 1683), ("G1", 1717), ("G2", 1650)]
    with kpg.connect(spark=spark, workers=3) as db:
        db.sql(TEXT)
        with pytest.raises(OperationalError, match="all 3 slots of its session run workers"):
            db.load("t", frame)


def test_a_view_is_a_frame_partition_by_partition(spark: Any) -> None:
    with kpg.connect(spark=spark, workers=2) as db:
        db.sql("create table t(k int primary key, g text, v numeric(10, 2), d date, at timestamp)")
        db.sql("create materialized view v as select g, sum(v) s, max(d) d, max(at) at from t group by g")
        empty = db.view("v").to_spark()
        db.sql(
            "insert into t select i, nullif('g' || i % 50, 'g7'), i / 8.0, date '2026-01-01' + i,"
            " timestamp '2026-01-01 00:00:00' + i * interval '1 second' from generate_series(1, 500) g(i)"
        )
        frame = db.view("v").to_spark()
        expected = sorted(map(repr, db.sql("select * from v").fetchall()))
        db.sql("delete from t")
        assert frame.rdd.getNumPartitions() == 2
        assert sorted(repr(tuple(row)) for row in frame.collect()) == expected
        assert len(expected) == 50 and frame.where("d > date '2027-05-01'").count() > 0
        assert empty.count() == 0 and empty.columns == ["g", "s", "d", "at"]
        db.sql("create materialized view j as select k, interval '1 month' as i from t")
        with pytest.raises(NotSupportedError, match="Spark does not have a type of the view's"):
            db.view("j").to_spark()


def test_each_micro_batch_of_a_stream_is_one_commit_and_none_is_taken_twice(
    spark: Any, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for number in range(3):
        lines = [json.dumps({"k": 10 * number + i, "g": f"g{i % 2}", "v": i}) for i in range(10)]
        (files / f"{number}.json").write_text("\n".join(lines))
    with kpg.connect(tmp_path / "db", spark=spark, workers=2) as db:
        db.sql(TEXT)
        told: list[Any] = []
        db.view("sums").subscribe(told.append)
        take = db.foreach_batch("t", "files")

        def run(checkpoint: str) -> None:
            stream = spark.readStream.schema("k int, g string, v int").option("maxFilesPerTrigger", 1)
            writer = stream.json(str(files)).writeStream.foreachBatch(take).trigger(availableNow=True)
            writer.option("checkpointLocation", str(tmp_path / checkpoint)).start().awaitTermination()

        run("one")
        assert len(told) == 3 and db.positions() == {"files": 2}
        assert rows(db, "select * from sums") == [("G0", 60), ("G1", 75)]
        run("another")
        assert len(told) == 3 and db.sql("select count(*) from t").fetchall() == [(30,)]
        more = spark.createDataFrame([(5, "g0", 100), (99, "g0", 1)], "k int, g string, v int")
        db.foreach_batch("t", "other", "upsert")(more, 0)
        assert rows(db, "select * from sums") == [("G0", 161), ("G1", 70)]
        db.foreach_batch("t", "other", "delete")(more.select("k"), 1)
        db.foreach_batch("t", "other", "delete")(more.select("k"), 1)
        assert db.positions() == {"files": 2, "other": 1}
        assert db.sql("select count(*) from t").fetchall() == [(29,)]
        with pytest.raises(InterfaceError, match='there is no change "merge"'):
            db.foreach_batch("t", "other", "merge")


def test_a_stopped_session_is_named(spark: Any) -> None:
    """The last test here."""
    with kpg.connect(spark=spark, workers=2) as db:
        db.sql("create table t(k int primary key); create materialized view n as select count(*) as n from t")
        spark.stop()
        with pytest.raises(OperationalError, match="worker"):
            db.sql("insert into t values (1)")
        with pytest.raises(OperationalError, match="session of the workers has been stopped"):
            db.sql("insert into t values (1)")
