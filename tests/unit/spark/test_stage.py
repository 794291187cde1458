"""Workers on a Spark session: what one worker says, clear errors, and nothing left behind."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kpg
from kpg.runtime.errors import (
    DataError,
    IntegrityError,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from kpg.runtime.spark import session, stage
from tests.unit.workers.test_processes import TEXT, answer_alike, rows
from tests.waiting import until

pytestmark = pytest.mark.java


def none_runs(spark: Any) -> None:
    """Wait until no job runs: Spark hears that one has ended a moment after its caller does."""
    tracker = spark.sparkContext.statusTracker()
    until(lambda: not list(tracker.getActiveJobsIds()))


def test_answers_changes_and_errors_are_those_of_one(spark: Any) -> None:
    with kpg.connect(spark=spark, workers=2) as db, kpg.connect() as one:
        answer_alike(db, one)
        assert [row[0] for row in db.workers()] == [0, 1]
    none_runs(spark)
    assert not session.occupied_slots


@pytest.mark.soak
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


@pytest.mark.soak
def test_ctrl_c_ends_a_step_and_no_worker(spark: Any) -> None:
    with kpg.connect(spark=spark, workers=2) as db:
        db.sql("create table n(i int primary key); insert into n select generate_series(1, 3000)")
        before = db._engine.executor.crew.processes
        alarm = threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT))
        endless = "with recursive r(i) as (select i from n union select i + 1 from r where i < 100000000)"
        with pytest.raises(KeyboardInterrupt):
            alarm.start()
            db.sql(f"create materialized view v as {endless} select max(i) as m from r")
        db.sql("create materialized view w as select count(*) as n from n; insert into n values (0)")
        assert rows(db, "select * from w") == [(3001,)]
        assert db._engine.executor.crew.processes == before


@pytest.mark.soak
def test_what_cannot_be_is_said_and_does_not_hang(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InterfaceError, match="4 workers are more than the Spark session has slots: it has 3"):
        kpg.connect(spark=spark, workers=4)
    with pytest.raises(InterfaceError, match="spark= is a str, not a SparkSession"):
        kpg.connect(spark="local[2]", workers=2)  # type: ignore[arg-type]
    with pytest.raises(NotSupportedError, match="a memory limit together with workers=1"):
        kpg.connect(spark=spark, memory_limit="1 GB")
    with monkeypatch.context() as patch:
        patch.setattr(stage, "runtime_version", lambda: "0.0")
        with pytest.raises(
            OperationalError, match=r"did not start: the executor's Python .* driver has 0\.0"
        ):
            kpg.connect(spark=spark, workers=2)
    none_runs(spark)


@pytest.mark.soak
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


@pytest.mark.parametrize("workers", [1, 2])
def test_columns_that_a_frame_omits_take_their_defaults(spark: Any, workers: int) -> None:
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "k int, g string")
    with kpg.connect(spark=spark, workers=workers) as db:
        db.sql("create table t (id serial primary key, k int not null, g text, v int default 7, w int)")
        assert db.load_all({"t": frame.repartition(1)}) == {"t": 2}
        assert db.load("t", frame.select("K").limit(1)) == 1
        assert db.query("select * from t order by id").fetchall() == [
            (1, 1, "a", 7, None),
            (2, 2, "b", 7, None),
            (3, 1, None, 7, None),
        ]
        with pytest.raises(ProgrammingError, match="column x of the Spark source is not in the table"):
            db.load("t", frame.withColumnRenamed("g", "x"))
        with pytest.raises(ProgrammingError, match="column k INTEGER is missing in the Spark source"):
            db.load("t", frame.select("g"))


KEYS = {
    "int": "cast(id as int)",
    "smallint": "cast(id as smallint)",
    "bigint": "-id",
    "numeric(12, 2)": "cast(id as decimal(12, 2))",
    "date": "date_add(date '2000-01-01', cast(id as int))",
    "timestamp": "timestamp_micros(id * 1000000007)",
    "text": "concat('\N{LATIN SMALL LETTER A WITH DIAERESIS}', id)",
    "char(8)": "string(id)",
    "boolean": "id % 2 = 0",
}


def far(db: Any, table: str) -> bool:
    """Whether the driver has no rows of a table."""
    return bool(db._engine.executor.tables.by_name[table].ranges)


def test_rows_go_from_tasks_to_the_workers_that_own_them(spark: Any) -> None:
    """Spark's hash is the workers' own, of columns of all types: else rows would come to the driver."""
    with kpg.connect(spark=spark, workers=2) as db:
        for number, (type_, value) in enumerate(KEYS.items()):
            db.sql(f"create table t{number}(k {type_}, v bigint) distributed by (k)")
            frame = spark.range(200).selectExpr(f"if(id % 100 = 99, null, {value}) as k", "id as v")
            assert db.load(f"t{number}", frame.coalesce(1)) == 200
            assert far(db, f"t{number}"), type_
            asked = f"select count(*) as n, count(k) as c, sum(v) as s from t{number}"
            db.sql(f"create materialized view v{number} as {asked}")
            assert db.sql(f"select * from v{number}").fetchall() == [(200, 198, 19900)]
        db.sql("create table d(k double precision primary key, v bigint)")
        assert db.load("d", spark.range(10).selectExpr("double(id) as k", "id as v")) == 10
        assert not far(db, "d") and db.sql("select sum(v) from d").fetchall() == [(45,)]


def test_files_and_tables_of_the_catalog_go_there_too_and_a_bad_value_loads_nothing(
    spark: Any, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([(i, f"g{i % 3}", i) for i in range(1, 101)], "k int, g string, v int")
    frame.write.parquet(str(tmp_path / "t.parquet"))
    frame.selectExpr("k + 100 as k", "g", "if(k = 77, 'x', string(v)) as v").createOrReplaceTempView("bad")
    frame.selectExpr("k + 200 as k", "g", "v").createOrReplaceTempView("good")
    with kpg.connect(spark=spark, workers=2) as db:
        db.sql(TEXT)
        assert db.load("t", str(tmp_path / "t.parquet"), mode="spark") == 100
        before = rows(db, "select * from sums")
        with pytest.raises(DataError, match=r"table t, key k=177, column v: value 'x' does not fit INTEGER"):
            db.load("t", "bad", mode="spark")
        with pytest.raises(IntegrityError, match=r"duplicate key in table t: \(k\) = \(\d+\) exists already"):
            db.load("t", frame)
        assert rows(db, "select * from sums") == before == [("G0", 1683), ("G1", 1717), ("G2", 1650)]
        assert db.load("t", "good", mode="spark") == 100 and far(db, "t")
        assert rows(db, "select * from sums") == [("G0", 3366), ("G1", 3434), ("G2", 3300)]


@pytest.mark.soak
def test_files_are_read_by_tasks_and_what_is_wrong_is_said_as_by_one_worker(
    spark: Any, tmp_path: Path
) -> None:
    """In several files and row groups, out of order."""
    for number, keys in enumerate((range(200, 99, -1), range(100))):
        rows = pa.table({"k": keys, "g": [f"g{k % 3}" for k in keys], "v": [k % 50 for k in keys]})
        pq.write_table(rows, tmp_path / f"{number}.parquet", row_group_size=30)
    wrong = {
        "row 2, key k=2, column g: value 'abcd' does not fit": ([1, 2], ["abc", "abcd"], [1, 1]),
        "row 2, key k=None, column k: NULL in a NOT NULL column": ([1, None], ["abc", "ab"], [1, 1]),
        "(v) = (77) of table t is no row of table u": ([301, 302], ["x", "y"], [1, 77]),
    }
    path = tmp_path / "wrong" / "a.parquet"
    path.parent.mkdir()
    with kpg.connect(spark=spark, workers=2) as db, kpg.connect() as one:
        for each in (db, one):
            each.sql("create table u(v int primary key)")
            each.sql("create table t(k int primary key, g varchar(3) not null, v int references u)")
            each.sql("create materialized view n as select g, count(*) as n, sum(k) as k from t group by g")
            each.sql("insert into u select generate_series(0, 49)")
            assert each.load("t", str(tmp_path / "*.parquet"), mode="spark") == 201
        assert far(db, "t")
        assert rows_of(db) == rows_of(one) == [("g0", 67, 6633), ("g1", 67, 6700), ("g2", 67, 6767)]
        for what, columns in wrong.items():
            pq.write_table(pa.table(dict(zip("kgv", columns, strict=True))), path)
            said = []
            for each in (db, one):
                with pytest.raises(kpg.Error) as error:
                    each.load("t", str(path), mode="spark")
                said.append(str(error.value))
            assert said[0] == said[1] and what in said[0]
        assert far(db, "t") and rows_of(db) == rows_of(one)


def rows_of(db: Any) -> list[Any]:
    return sorted(db.sql("select * from n").fetchall())


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
        db.sql("create materialized view wide as select k % 3 as r, sum(k::bigint) as s from t group by r")
        db.sql("insert into t(k) values (1), (2), (5)")
        assert sorted(tuple(row) for row in db.view("wide").to_spark().collect()) == [(1, 1), (2, 7)]
        assert empty.count() == 0 and empty.columns == ["g", "s", "d", "at"]
        db.sql("create materialized view j as select k, interval '1 month' as i from t")
        with pytest.raises(NotSupportedError, match="Spark does not have a type of the view's"):
            db.view("j").to_spark()


@pytest.mark.soak
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
