"""Our own Spark session: started early, shared by the loads that follow, gone afterwards."""

import signal

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
