"""Ctrl-C, signals and errors between any two lines: what is told to be committed is kept, nothing else."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.persistence import checkpoints
from kpg.persistence import write_ahead_log as keepers
from kpg.persistence.database_state import ChangeDetector
from kpg.persistence.write_ahead_log import WriteAheadLog
from kpg.runtime.checkpoint.checkpointer import BackgroundCheckpointer
from kpg.runtime.storage.log import Log
from kpg.runtime.storage.packs import PackWriter, read_manifest
from kpg.runtime.worker.base_tables import BaseTables
from tests.model.disk import Sim
from tests.model.durable import opened


def once(patch: pytest.MonkeyPatch, owner: object, name: str, after: Callable[[], object]) -> None:
    """Have something happen right after a function has been called the next time."""
    function = getattr(owner, name)

    def calling(*args: Any) -> Any:
        patch.setattr(owner, name, function)
        found = function(*args)
        after()
        return found

    patch.setattr(owner, name, calling)


class AlarmError(Exception):
    """A statement has taken too long, somebody thinks."""


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def alarm() -> None:
    """What the handler of another signal may do."""
    raise AlarmError


def made(sim: Sim) -> kpg.Database:
    db = opened(sim)
    db.sql("create table t (a int); insert into t values (1)")
    return db


def kept(sim: Sim) -> list[Any]:
    with opened(sim.after_kill()) as found:
        return sorted(found.query("select a from t").fetchall())


def test_ctrl_c_before_steps_that_are_one_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else all later commits would wait for the end of these steps, and never be written."""
    sim = Sim()
    db = made(sim)
    once(monkeypatch, WriteAheadLog, "hold", ctrl_c)
    with pytest.raises(KeyboardInterrupt), db._engine.single_commit():
        pass
    db.sql("insert into t values (2)")
    assert kept(sim) == [(1,), (2,)]


def test_steps_within_steps_are_one_commit() -> None:
    sim = Sim()
    db = made(sim)
    with db._engine.single_commit():
        with db._engine.single_commit():
            db.sql("insert into t values (2)")
        db.sql("insert into t values (3)")
        assert kept(sim) == [(1,)]
    assert kept(sim) == [(1,), (2,), (3,)]


def test_steps_that_could_not_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rows are in memory and not in the log: nothing may be committed on top of them."""
    sim = Sim()
    db = made(sim)
    with pytest.raises(AlarmError), db._engine.single_commit():
        db.sql("insert into t values (2)")
        once(monkeypatch, keepers, "capture_state", alarm)
    with pytest.raises(kpg.OperationalError, match="several steps could not be written; open it again"):
        db.sql("insert into t values (3)")
    assert kept(sim) == [(1,)]


@pytest.mark.parametrize("last", ["mark_recorded", "record"])
def test_a_commit_that_is_written_and_not_final(last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes next would have its rowids: the folder could not be opened any more."""
    sim = Sim()
    db = made(sim)
    db.sql("create sequence s")
    owner = ChangeDetector if last == "mark_recorded" else WriteAheadLog
    once(monkeypatch, owner, last, alarm)
    with pytest.raises(AlarmError):
        db.sql("insert into t values (nextval('s'))")
    assert db.query("select a from t").fetchall() == [(1,)]
    with pytest.raises(kpg.OperationalError, match="has not become final; open it again, which has it"):
        db.sql("insert into t values (7)")
    db.close()
    assert kept(sim) == [(1,), (1,)]


def test_ctrl_c_where_the_log_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kpg.connect(tmp_path) as db:
        db.sql("create table t (a int); insert into t values (1)")
        once(monkeypatch, Log, "close", ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            db.sql("checkpoint")
        db.sql("insert into t values (2)")
    with kpg.connect(tmp_path) as db:
        assert db.query("select a from t").fetchall() == [(1,), (2,)]


def test_ctrl_c_where_a_checkpoint_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child is known: it must not write beside another one that comes later."""
    with kpg.connect(tmp_path) as db:
        db.sql("create table t (a int); insert into t values (1)")
        background = background_of(db)
        while not background.is_ready:
            os.sched_yield()
        monkeypatch.setattr(checkpoints, "MIN_LOG_BYTES", 0)
        fork = os.fork

        def forking() -> int:
            pid = fork()
            if pid:
                ctrl_c()
            return pid

        monkeypatch.setattr(os, "fork", forking)
        with pytest.raises(KeyboardInterrupt):
            db.sql("insert into t values (2)")
        assert background.is_busy
        background.poll(wait=True)
        assert not background.is_busy and not background.failure


def background_of(db: kpg.Database) -> BackgroundCheckpointer:
    keeper = db._engine.write_ahead_log
    assert isinstance(keeper, WriteAheadLog) and keeper.checkpoints is not None
    return keeper.checkpoints._background


def test_a_checkpoint_that_ended_early_is_made_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Sim()
    db = made(sim)
    once(monkeypatch, PackWriter, "finish", alarm)
    with pytest.raises(AlarmError):
        db.sql("checkpoint")
    db.sql("checkpoint")
    manifest = read_manifest(sim)
    assert manifest is not None and manifest.checkpoint is not None


def test_a_commit_is_made_whatever_becomes_of_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Sim()
    db = made(sim)
    monkeypatch.setattr(checkpoints, "MIN_LOG_BYTES", 0)

    def failing() -> None:
        raise MemoryError

    once(monkeypatch, checkpoints, "capture_state", failing)
    db.sql("insert into t values (2)")
    assert kept(sim) == [(1,), (2,)]


def test_what_no_commit_has_is_kept_once() -> None:
    """And a CHECKPOINT behind which nothing has come makes none."""
    sim = Sim()
    db = made(sim)
    db.sql("create sequence s; begin; select nextval('s'); rollback")
    for _ in range(3):
        db.sql("checkpoint")
    packs = [name for name in sim.names if name.startswith("pack")]
    assert packs == ["pack-00000001"]


def test_a_commit_that_is_written_and_half_final(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are taken back in memory, and the next ones would have their rowids in the log."""
    sim = Sim()
    db = made(sim)
    with monkeypatch.context() as patch:
        patch.setattr(BaseTables, "commit", lambda *_: alarm())
        with pytest.raises(AlarmError):
            db.sql("insert into t values (2)")
    with pytest.raises(kpg.OperationalError, match="has not become final; open it again, which has it"):
        db.sql("insert into t values (3)")
    assert kept(sim) == [(1,), (2,)]
