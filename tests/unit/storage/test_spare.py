"""The next segment of the log is there before it is needed: whole, in part, or not at all."""

from collections.abc import Callable

import pytest

from kpg.database import Database
from kpg.runtime.storage import still
from kpg.runtime.storage.files import Bytes, Files
from kpg.runtime.storage.log import Log, Segment
from kpg.runtime.storage.spare import Spare
from tests.model.disk import Sim
from tests.model.durable import opened

SIZE = 1 << 17


def written(log: Log, count: int) -> None:
    for _ in range(count):
        log.write(1, [bytes(SIZE)])
    log.sync()


def numbers(sim: Sim, segment: int) -> list[int]:
    return [record.number for record in Segment(sim, segment, 99).records()]


def test_the_log_goes_on_in_zeros() -> None:
    sim = Sim()
    log, spare = Log.create(sim, 3, 99, 0), Spare(sim)
    assert not spare.tend(log)
    written(log, 2)
    while not spare.tend(log):
        pass
    assert sim.kept["log-00000004"].kept == bytes(1 << 22)
    assert Segment(sim, 4, 99).empty
    new = spare.after(log, 99)
    assert (new.segment, new.number, new.largest) == (4, 2, log.largest)
    before = len(sim.done)
    written(new, 2)
    assert sim.done[before:] == ["write log-00000004", "write log-00000004", "sync log-00000004"]
    assert new.room > 20 * SIZE
    assert (numbers(sim, 3), numbers(sim, 4)) == ([0, 1], [2, 3])
    assert numbers(sim.after_cut(1), 4) == [2, 3]


@pytest.mark.parametrize("fails", ["create", "write", "sync log", "sync folder"])
def test_one_that_cannot_be_made_is_done_without(fails: str) -> None:
    sim = Sim()
    log, spare = Log.create(sim, 3, 99, 0), Spare(sim)
    written(log, 1)
    sim.fails = lambda count, what: 28 * what.startswith(fails)
    spare.tend(log)
    while not spare.tend(log):
        pass
    sim.fails = lambda count, what: 0
    new = spare.after(log, 99)
    written(new, 1)
    assert (new.segment, numbers(sim, 4)) == (4, [1])


def stream(db: Database, first: int, last: int) -> None:
    for n in range(first, last):
        db.insert("t", [(n, i) for i in range(200)])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.durable.keeper.BULK", 100)
    monkeypatch.setattr("kpg.runtime.storage.log.SMALL", 256)
    monkeypatch.setattr("kpg.runtime.storage.spare.CHUNK", 512)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("after", [Sim.after_kill, Sim.after_cut])
def test_commits_are_there_in_whatever_segment(after: Callable[..., Sim]) -> None:
    sim = Sim()
    db = opened(sim)
    db.sql(
        "create table t (n int, i int); create materialized view v as select n, sum(i) s from t group by n"
    )
    for n in range(3, 40, 4):
        stream(db, n - 3, n + 1)
        with opened(after(sim, n)) as again:
            found = again.query("select n, s from v order by n").fetchall()
            assert found == [(m, 19900) for m in range(n + 1)]
    assert sum(what.startswith("create log") for what in sim.done) > 3
    db.close()
    assert len([name for name in sim.names if name.startswith("log")]) == 1
    assert sum(len(one.now) for name, one in sim.names.items() if name.startswith("log")) < 1 << 21


@pytest.mark.usefixtures("small")
def test_a_reader_beside_a_log_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log goes on in another segment after the reader has taken the one before."""
    sim = Sim()
    db = opened(sim)
    db.sql("create table t (n int, i int)")
    stream(db, 0, 2)
    read, segments = still._read, list[int]()

    def reading(files: Files, name: str) -> Bytes:
        found = read(files, name)
        if not segments and name == "log-00000001":
            stream(db, 2, 30)
            segments.append(len([name for name in sim.names if name.startswith("log")]))
        return found

    monkeypatch.setattr(still, "_read", reading)
    with opened(sim, read_only=True) as reader:
        assert segments[0] > 2
        count = reader.query("select count(distinct n), count(*) from t").fetchone()
        assert count in ((2, 400), (30, 6000))
