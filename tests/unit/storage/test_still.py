"""A folder that is read beside a process that goes on with it."""

from collections.abc import Callable

import numpy as np
import pytest

import kpg
from tests.model.disk import Sim
from tests.model.durable import contents, opened


@pytest.mark.parametrize("what", ["map manifest", "open log", "read log", "map pack", "list"])
def test_a_checkpoint_comes_between(what: str) -> None:
    """Whatever the reader is about to do, files that it knows of are removed, and others count."""
    sim = Sim()
    db = opened(sim)
    db.sql("create table t (a int); create materialized view v as select count(*) n from t; checkpoint")
    db.sql("insert into t values (1)")
    waiting = [what]
    before = sim.look

    def look(done: str) -> None:
        if waiting and done.startswith(waiting[0]):
            waiting.clear()
            db.sql("insert into t values (2)")
            db.sql("checkpoint")
            db.sql("insert into t values (3)")

    sim.look = look
    with opened(sim, read_only=True) as reader:
        sim.look = before
        assert not waiting
        assert contents(reader)["t"][0] in ([(1,)], [(1,), (2,)], [(1,), (2,), (3,)])
        db.sql("delete from t; checkpoint")
        assert reader.query("select n from v").fetchall() == [(len(contents(reader)["t"][0]),)]


def test_a_record_that_is_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it is there when it is looked at first; that is no damage."""
    sim = Sim()
    db = opened(sim)
    db.sql("create table t (a int)")
    whole = bytes(sim.names["log-00000001"].now)
    db.sql("insert into t select i from generate_series(1, 500) s(i)")
    then = bytes(sim.names["log-00000001"].now)
    end = max(
        place for place in range(len(then)) if then[place] != (whole[place] if place < len(whole) else 0)
    )
    half = bytearray(then)
    half[end - 100 : end - 50] = bytes(range(1, 51))
    take: Callable[[str], np.ndarray] = sim.map
    looked: list[str] = []

    def mapped(name: str) -> np.ndarray:
        looked.append(name)
        if name.startswith("log") and looked.count(name) < 3:
            return np.frombuffer(half, np.uint8)
        return take(name)

    monkeypatch.setattr(sim, "map", mapped)
    with opened(sim, read_only=True) as reader:
        assert reader.query("select count(*) from t").fetchall() == [(500,)]


def test_what_is_damaged_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.runtime.storage.snapshot.PAUSE", 0.0)
    sim = Sim()
    with opened(sim) as db:
        db.sql("create table t (a int)")
    sim.names["manifest"].now[40] ^= 1
    with pytest.raises(kpg.OperationalError, match="manifest is damaged"):
        opened(sim, read_only=True)
