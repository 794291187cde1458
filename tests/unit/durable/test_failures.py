"""What failed leaves nothing behind: found by random lives (``tests.properties.crashes``), one by one."""

import errno
import os
import signal
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.persistence.backup import FileCopier, _files_to_copy
from kpg.persistence.inspection import check
from kpg.persistence.write_ahead_log import WriteAheadLog
from kpg.runtime.storage.files import Disk
from tests.model.disk import Sim
from tests.model.durable import contents, opened

PROGRAM = ".decl p(a: number) .input p\n.decl q(a: number) .output q\nq(a) :- p(a).\np(1)."


def failing(sim: Sim, *operations: str) -> None:
    """Have operations that begin so fail, the first one of each."""
    waiting = list(operations)

    def fails(count: int, what: str) -> int:
        if waiting and what.startswith(waiting[0]):
            waiting.pop(0)
            return errno.EIO
        return 0

    sim.fails = fails


def doubled(x: int) -> int:
    return 2 * x


def test_a_program_that_could_not_be_kept_takes_no_number() -> None:
    sim = Sim()
    db = opened(sim)
    failing(sim, "sync log")
    with pytest.raises(kpg.OperationalError, match="the commit was refused"):
        db.datalog(PROGRAM)
    assert db.names() == set()
    sim.fails = lambda count, what: 0
    db = opened(sim.after_kill())
    assert db.datalog(PROGRAM).label == "Datalog program 1"


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (lambda db: db.create_function("doubled", doubled), "functions"),
        (lambda db: db.drop_function("there"), "functions"),
        (lambda db: db.advance_to("2999-01-01"), "moment"),
    ],
)
def test_what_could_not_be_kept_is_not_there(step: Callable[[kpg.Database], None], what: str) -> None:
    sim = Sim()
    db = opened(sim)
    db.create_function("there", doubled)
    db.sql("create table t (a int); insert into t values (3)")
    failing(sim, "write log")
    with pytest.raises(kpg.OperationalError, match="nothing has changed"):
        step(db)
    assert sorted(db._engine.catalog.functions) == ["there"], what
    assert db.query("select there(a) from t where now() < '2998-01-01'").fetchall() == [(6,)], what
    step(db)


def test_a_database_that_cannot_be_closed_well_is_closed() -> None:
    """In full, all is there already; else it is told that commits may be lost."""
    for mode, word in (("full", ""), ("off", "is lost if the power goes now")):
        sim = Sim()
        db = opened(sim, mode)
        db.sql("create table t (a int)")
        db.sql("checkpoint; insert into t values (1)")
        sim.fails = lambda count, what: errno.EIO
        error = ""
        try:
            db.close()
        except kpg.OperationalError as raised:
            error = str(raised)
        assert word in error and bool(word) == bool(error)
        sim.fails = lambda count, what: 0
        assert db.closed and sim.holder is None
        assert opened(sim).query("select a from t").fetchall() == [(1,)]


def test_a_sync_that_failed_before_a_restart_is_made_good() -> None:
    """What only memory has is written again: no later commit stands on what is lost when power goes."""
    sim = Sim(3)
    db = opened(sim, "off")
    db.sql("create table t (a int)")
    for number in range(5):
        db.sql(f"insert into t values ({number})")
    failing(sim, "write log", "sync log")
    with pytest.raises(kpg.OperationalError):
        db.sql("insert into t values (99)")
    sim.holder = None
    sim.fails = lambda count, what: 0
    db = opened(sim)
    db.sql("insert into t values (5)")
    for seed in range(20):
        with opened(sim.after_cut(seed)) as found:
            assert sorted(found.query("select a from t").fetchall()) == [(n,) for n in range(6)]


def test_what_rows_written_ahead_could_not_be_synced_with_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sync that failed may have lost what no commit had waited for: no later commit stands on that."""
    monkeypatch.setattr("kpg.persistence.write_ahead_log.MANY", 2)
    sim = Sim(3)
    db = opened(sim)
    db.sql("create table t (a int); create sequence s; insert into t values (1)")
    db.sql("begin; select nextval('s'); rollback")
    keeper = db._engine.write_ahead_log
    assert isinstance(keeper, WriteAheadLog)
    keeper.record_pending()  # as a backup does
    failing(sim, "sync log")
    with pytest.raises(kpg.OperationalError, match="the commit was refused"):
        db.sql("insert into t values (8), (9)")
    sim.fails = lambda count, what: 0
    with pytest.raises(kpg.OperationalError, match="takes no changes any more: its disk failed"):
        db.sql("insert into t values (2)")
    assert db.query("select * from t").fetchall() == [(1,)]
    sim.holder = None
    with opened(sim) as db:
        db.sql("insert into t values (2)")
        for seed in range(20):
            with opened(sim.after_cut(seed)) as found:
                assert sorted(found.query("select * from t").fetchall()) == [(1,), (2,)]


def test_a_copy_that_failed_at_its_last_sync_is_no_database() -> None:
    db = opened(Sim())
    db.sql("create table t (a int)")
    keeper = db._engine.write_ahead_log
    assert isinstance(keeper, WriteAheadLog)
    target = Sim()
    copying = FileCopier(keeper.files, _files_to_copy(keeper), target)
    target.fails = lambda count, what: errno.EIO if "manifest" in target.names else 0
    with pytest.raises(OSError, match="EIO"):
        copying.run()
    assert "manifest" in target.names  # nothing could be removed either
    target.fails = lambda count, what: 0
    assert contents(opened(target.after_kill())) == contents(db)
    target, syncs = Sim(), iter((0, errno.EIO, 0, 0))
    copying = FileCopier(keeper.files, _files_to_copy(keeper), target)
    target.fails = lambda count, what: (
        next(syncs, 0) if what == "sync folder" else errno.EIO if what == "remove manifest" else 0
    )
    with pytest.raises(OSError, match="EIO"):
        copying.run()
    assert contents(opened(target.after_kill())) == contents(db)
    target = Sim()
    copying = FileCopier(keeper.files, _files_to_copy(keeper), target)
    syncs = iter((0, errno.EIO))
    target.fails = lambda count, what: next(syncs, 0) if what == "sync folder" else 0
    with pytest.raises(OSError, match="EIO"):
        copying.run()
    assert target.names == {}


def test_a_copy_beside_a_segment_that_could_not_be_made() -> None:
    """It has what was there when it began, not what came while it was copied."""
    sim, target = Sim(), Sim()
    db = opened(sim)
    db.sql("create table t (a int)")
    failing(sim, "sync folder")
    with pytest.raises(kpg.OperationalError, match="no checkpoint could be made"):
        db.sql("checkpoint")
    assert "log-00000002" in sim.names
    db.sql("insert into t values (1)")
    keeper = db._engine.write_ahead_log
    assert isinstance(keeper, WriteAheadLog)
    copying = FileCopier(sim, _files_to_copy(keeper), target)
    expected = contents(db)
    db.sql("insert into t values (2)")
    copying.run()
    assert contents(opened(target)) == expected


def test_a_copy_beside_a_log_that_is_opened_again() -> None:
    """Who opens the folder goes on in the segment before one that no commit came to."""
    sim, target = Sim(), Sim()
    db = opened(sim)
    db.sql("create table t (a int); insert into t values (1)")
    keeper = db._engine.write_ahead_log
    assert isinstance(keeper, WriteAheadLog)
    keeper.start_segment()
    expected = contents(db)
    copying = FileCopier(sim, _files_to_copy(keeper), target)
    sim.holder = None
    with opened(sim) as again:
        assert "log-00000002" not in sim.names
        again.sql("insert into t values (2)")
        copying.run()
    assert contents(opened(target)) == expected


def test_a_copy_while_a_checkpoint_comes_to_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread swaps manifests: the copy has one and the files that it names, not some of each."""
    go, swapping = threading.Event(), threading.Event()
    rename = Disk.rename

    def late(self: Disk, old: str, new: str) -> None:
        swapping.set()
        assert go.wait(60)
        rename(self, old, new)

    db = kpg.connect(tmp_path / "db")
    db.sql("create table t (a int); insert into t values (1)")
    db.sql("checkpoint")
    keeper = db._engine.write_ahead_log
    assert isinstance(keeper, WriteAheadLog) and keeper.checkpoints is not None
    monkeypatch.setattr(Disk, "rename", late)
    db.sql("insert into t values (2)")
    keeper.checkpoints.begin(in_background=True)
    while not swapping.is_set():
        db.sql("insert into t values (3)")
        swapping.wait(0.01)
    expected = contents(db)

    def copying(*given: Any) -> FileCopier:
        """By now a thread that was not waited for would have swapped them."""
        adopting: Any = keeper.checkpoints._background._adoption  # type: ignore[union-attr]
        adopting.wait()
        return FileCopier(*given)

    monkeypatch.setattr("kpg.persistence.backup.FileCopier", copying)
    threading.Timer(0.05, go.set).start()
    db.backup(tmp_path / "copy")
    assert list(check(tmp_path / "copy")) == []
    with kpg.connect(tmp_path / "copy") as copy:
        assert contents(copy) == expected
    db.close()


def test_a_database_that_takes_no_more_leaves_nobody_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closed while a child writes a checkpoint, which it could not finish: others may have the folder."""
    db = kpg.connect(tmp_path / "db")
    db.sql("create table t (a int); insert into t values (1)")
    keeper = db._engine.write_ahead_log
    assert isinstance(keeper, WriteAheadLog) and keeper.checkpoints is not None
    monkeypatch.setattr("kpg.runtime.checkpoint.checkpointer.write_manifest", lambda *given: signal.pause())
    keeper.checkpoints.begin(in_background=True)
    writing = keeper.checkpoints._background._process
    assert writing is not None
    keeper.refuses = "the disk has failed"
    db.close()
    with pytest.raises(ProcessLookupError):
        os.kill(writing._pid, 0)
    monkeypatch.undo()
    with kpg.connect(tmp_path / "db") as again:
        assert again.query("select a from t").fetchall() == [(1,)]


def test_a_group_that_was_filled_up_after_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint has all its rows, not those alone that it had when it was read."""
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 1 << 14)  # 1,024 rows of two columns
    sim = Sim()
    with opened(sim) as db:
        db.sql("create table t (a bigint, b bigint)")
        for start in (0, 300):
            db.sql(f"insert into t select {start} + i, i from generate_series(0, 299) s(i)")
    for _ in range(3):
        with opened(sim) as db:
            db.sql("insert into t select (select max(a) from t) + i, i from generate_series(1, 700) s(i)")
            expected = contents(db)["t"]
        with opened(sim) as db:
            assert contents(db)["t"] == expected
    assert len(expected[0]) == 600 + 3 * 700


@pytest.mark.parametrize("folder", [False, True])
def test_rows_of_the_past_stay_where_a_group_is_mostly_dead(
    folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vacuum takes a group only once all that is dead in it is forgotten."""
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 1 << 10)  # 64 rows of two columns
    path = tmp_path / "db" if folder else None
    db = kpg.connect(path, history=4)
    db.sql("create table t (a int, b int)")
    versions = {}
    for round in range(24):
        db.sql(f"insert into t select i, {round} from generate_series(1, 40) s(i)")
        db.sql(f"delete from t where a % 4 = {round % 4}")
        versions[db.epoch] = sorted(db.query("select a, b from t").fetchall())
        if folder and round % 5 == 4:
            db.close()
            db = kpg.connect(path, history=4)
        for epoch in [epoch for epoch in versions if epoch >= db.epoch - 4]:
            assert sorted(db.query(f"select a, b from t as of {epoch}").fetchall()) == versions[epoch]
    assert db._engine.executor.tables.by_name["t"].reclaimed_rows > 0
    with suppress(kpg.Error):
        db.close()


def test_a_forked_process_leaves_the_folder_alone(tmp_path: Path) -> None:
    db = kpg.connect(tmp_path / "db")
    db.sql("create table t (a int); insert into t values (1)")
    before = {one.name: one.read_bytes() for one in (tmp_path / "db").iterdir()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        code = 1
        with suppress(BaseException):
            for text in ("insert into t values (2)", "checkpoint"):
                try:
                    db.sql(text)
                except kpg.OperationalError as error:
                    code = 0 if "which this one was forked from" in str(error) else 2
            db.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert {one.name: one.read_bytes() for one in (tmp_path / "db").iterdir()} == before
    db.sql("insert into t values (3)")
    db.close()
    with kpg.connect(tmp_path / "db") as again:
        assert again.query("select a from t").fetchall() == [(1,), (3,)]


def test_no_two_tables_have_one_number() -> None:
    """A program's goal has a table of its own, which is made when the database is opened."""
    sim = Sim()
    with opened(sim) as db:
        db.datalog(
            ".decl edge(a: number, b: number) .input edge\n.decl tc(a: number, b: number)\n"
            "tc(a, b) :- edge(a, b). tc(a, c) :- tc(a, b), edge(b, c).\nedge(1, 2).\n?- tc(1, x)."
        )
    for life in range(3):
        with opened(sim) as db:
            db.sql(f"create table t{life} (a int primary key); insert into t{life} values (1), (2), (3)")
            executor = db._engine.executor
            numbers = [executor.tables.table_number(name) for name in executor.tables.by_name]
            assert len(numbers) == len(set(numbers))
            db.branch().discard()
            db.sql(f"checkpoint; insert into t{life} values (4)")
            expected = contents(db)
        with opened(sim) as db:
            assert contents(db) == expected


def test_a_lock_that_somebody_has_removed_still_holds(tmp_path: Path) -> None:
    db = kpg.connect(tmp_path / "db")
    db.sql("create table t (a int)")
    (tmp_path / "db" / "lock").unlink()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "db")
    for path in (tmp_path / "db", link):
        with pytest.raises(kpg.OperationalError, match="is in use by"):
            kpg.connect(path)
    db.close()
    kpg.connect(link).close()


def test_the_first_view_of_the_present_time_that_could_not_be_kept() -> None:
    sim = Sim()
    db = opened(sim)
    db.sql("create table t (a int); insert into t values (1)")
    view = "create materialized view v as select a from t where now() < timestamptz '2999-01-01'"
    failing(sim, "write log")
    with pytest.raises(kpg.OperationalError, match="nothing has changed"):
        db.sql(view)
    assert db.names() == {"t", "a"}
    db.sql("insert into t values (2)")
    assert contents(opened(sim.after_kill()))["kept"] == []
    db.sql(view)
    assert contents(opened(sim.after_kill()))["v"][0] == [(1,), (2,)]


def test_what_a_transaction_defines_before_the_first_view_of_the_present_time_is_not_kept_early() -> None:
    sim = Sim()
    db = opened(sim)
    db.sql("create table t (a int); insert into t values (1)")
    found = contents(db)
    cuts: list[Sim] = []
    sim.look = lambda what: cuts.append(sim.after_kill())
    db.sql("begin; create table early (b int)")
    db.sql("create materialized view v as select a from t where now() < timestamptz '2999-01-01'")
    db.sql("rollback")
    cuts.append(sim.after_kill())
    for cut in cuts:
        with opened(cut) as again:
            assert again.names() == {"t", "a"}
            assert contents(again)["t"] == found["t"]
    db.sql("begin; create table early (b int)")
    db.sql("create materialized view v as select a from t where now() < timestamptz '2999-01-01'")
    db.sql("commit")
    with opened(sim.after_kill()) as again:
        assert again.query("select a from v").fetchall() == [(1,)]
        assert again.names() == {"t", "a", "early", "b", "v"}
