"""Our own Spark session: started early, shared by the loads that follow, gone afterwards."""

import signal
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kpg
from kpg.runtime.errors import OperationalError
from kpg.runtime.spark import session
from kpg.runtime.spark.load import Progress, load_tables
from kpg.runtime.spark.session import start_early
from kpg.runtime.spark.source import Source
from kpg.runtime.types import BIGINT, ColumnDef, Schema

NUMBERS = Schema((ColumnDef("k", BIGINT, False),), (0,))


@pytest.mark.java
def test_an_early_start_serves_the_loads_that_follow(tmp_path, monkeypatch, capfd):
    """Several loads have one session, which is quiet, and afterwards nothing is left."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    for name, numbers in (("late", [30, 10]), ("early", [20, 40])):
        pq.write_table(pa.table({"K": pa.array(numbers, pa.int32())}), tmp_path / f"number {name}.parquet")
    started, told = [], []

    class Counted(session.OwnSession):
        def __init__(self, work):
            super().__init__(work)
            started.append(self)

    monkeypatch.setattr(session, "OwnSession", Counted)
    handler = signal.getsignal(signal.SIGINT)
    db = kpg.connect()
    for number, name in enumerate(("a", "b", "c"), 1):
        db.sql(f"create table {name} (k bigint primary key)")
        pq.write_table(pa.table({"k": range(number)}), tmp_path / f"{name}.parquet")
    with start_early(session.SessionWork.READING):
        assert db.load("a", tmp_path / "a.parquet", mode="spark") == 1
        others = {name: tmp_path / f"{name}.parquet" for name in ("b", "c")}
        assert db.load_all(others, mode="spark") == {"b": 2, "c": 3}
        source = Source("number", f"{tmp_path}/number*.parquet", NUMBERS)
        chunks = list(load_tables([source], None, told.append))
        assert session.has_own_session()
    assert [row for chunk in chunks for row in chunk.rows.column(0).to_pylist()] == [10, 30, 20, 40]
    assert told[0] == Progress("number", "writing", 0, 0)
    assert told[-1] == Progress("number", "reading", 4, 4)
    assert len(started) == 1
    assert SparkSession.getActiveSession() is None
    assert SparkContext._active_spark_context is SparkContext._gateway is None
    assert list((tmp_path / "tmp").iterdir()) == []
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert not session.has_own_session()
    assert started[0]._gateway.proc.poll() is not None
    assert signal.getsignal(signal.SIGINT) is handler
    assert db.sql("select * from c").fetchall() == [(0,), (1,), (2,)]


def test_who_interrupts_does_not_wait_for_the_start(monkeypatch):
    """A thread ends the session; who asks for one meanwhile waits for that, and has another."""
    goes_on = threading.Event()
    made = []

    class Slow:
        def __init__(self, work):
            self.user_count, self.stopped = 0, False
            made.append(self)

        def stop(self):
            goes_on.wait()
            self.stopped = True

    monkeypatch.setattr(session, "OwnSession", Slow)
    with pytest.raises(KeyboardInterrupt), session.own_session(session.SessionWork.LONG):
        raise KeyboardInterrupt
    assert not made[0].stopped
    assert session.has_own_session()
    goes_on.set()
    with session.own_session(session.SessionWork.LONG) as second:
        assert made == [made[0], second] if made[0].stopped else made[0] is second
    assert made[-1].stopped
    with pytest.raises(ValueError), session.own_session(session.SessionWork.LONG):
        raise ValueError
    assert not session.has_own_session()
    assert all(one.stopped for one in made)


@pytest.mark.java
def test_a_failed_start_is_told_to_every_load_and_leaves_nothing(tmp_path, monkeypatch):
    def fail(conf, log):
        raise OperationalError("Spark did not start: no memory")

    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(session, "_launch_gateway", fail)
    with (
        session.own_session(session.SessionWork.BRIEF) as first,
        session.own_session(session.SessionWork.LONG) as second,
    ):
        assert first is second
        for _ in range(2):
            with pytest.raises(OperationalError, match="no memory"):
                first.get()
    assert not session.has_own_session()
    assert list(tmp_path.iterdir()) == []
