"""Our own Spark session: started early, shared by the loads that follow, gone afterwards."""

import signal
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kpg
from kpg.runtime.errors import OperationalError
from kpg.runtime.spark import own
from kpg.runtime.spark.session import starting


@pytest.mark.java
def test_an_early_start_serves_the_loads_that_follow(tmp_path, monkeypatch):
    started = []

    class Counted(own.OwnSession):
        def __init__(self, work):
            super().__init__(work)
            started.append(self)

    monkeypatch.setattr(own, "OwnSession", Counted)
    handler = signal.getsignal(signal.SIGINT)
    db = kpg.connect()
    for number, name in enumerate(("a", "b", "c"), 1):
        db.sql(f"create table {name} (k bigint primary key)")
        pq.write_table(pa.table({"k": range(number)}), tmp_path / f"{name}.parquet")
    with starting(own.Work.READING):
        assert db.load("a", tmp_path / "a.parquet", mode="spark") == 1
        others = {name: tmp_path / f"{name}.parquet" for name in ("b", "c")}
        assert db.load_all(others, mode="spark") == {"b": 2, "c": 3}
        assert own.is_running()
    assert len(started) == 1
    assert not own.is_running()
    assert started[0]._gateway.proc.poll() is not None
    assert signal.getsignal(signal.SIGINT) is handler
    assert db.sql("select * from c").fetchall() == [(0,), (1,), (2,)]


def test_who_interrupts_does_not_wait_for_the_start(monkeypatch):
    """A thread ends the session; who asks for one meanwhile waits for that, and has another."""
    goes_on = threading.Event()
    made = []

    class Slow:
        def __init__(self, work):
            self.users, self.stopped = 0, False
            made.append(self)

        def stop(self):
            goes_on.wait()
            self.stopped = True

    monkeypatch.setattr(own, "OwnSession", Slow)
    with pytest.raises(KeyboardInterrupt), own.own_session(own.Work.LONG):
        raise KeyboardInterrupt
    assert not made[0].stopped
    assert own.is_running()
    goes_on.set()
    with own.own_session(own.Work.LONG) as second:
        assert made == [made[0], second] if made[0].stopped else made[0] is second
    assert made[-1].stopped
    with pytest.raises(ValueError), own.own_session(own.Work.LONG):
        raise ValueError
    assert not own.is_running()
    assert all(one.stopped for one in made)


@pytest.mark.java
def test_a_failed_start_is_told_to_every_load_and_leaves_nothing(tmp_path, monkeypatch):
    def fail(conf, log):
        raise OperationalError("Spark did not start: no memory")

    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(own, "_quiet_gateway", fail)
    with own.own_session(own.Work.BRIEF) as first, own.own_session(own.Work.LONG) as second:
        assert first is second
        for _ in range(2):
            with pytest.raises(OperationalError, match="no memory"):
                first.get()
    assert not own.is_running()
    assert list(tmp_path.iterdir()) == []
