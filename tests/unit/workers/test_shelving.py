"""Rows of loads that workers write into the folder of a database: whoever opens it has them all."""

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kpg
from kpg.api.database import Database
from kpg.persistence import checkpoints
from kpg.persistence.inspection import check, check_contents, inspect_files
from kpg.persistence.recovery import OpenOptions, open_files
from kpg.runtime.cluster import table_shards
from kpg.runtime.cluster.threads import ThreadMembers
from kpg.runtime.errors import IntegrityError, OperationalError
from kpg.runtime.storage.packs import pack_number
from kpg.session.distribution import Workers
from tests.model.disk import PowerCut, Sim
from tests.unit.workers import test_landing
from tests.unit.workers.apart import apart
from tests.unit.workers.test_landing import TABLE, VIEW, Parts, blocks, numbers

tasks = test_landing.tasks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "db"


def packs(folder: Path) -> dict[str, int]:
    """The packs of a folder, and their bytes."""
    return {path.name: path.stat().st_size for path in folder.iterdir() if pack_number(path.name) is not None}


def opened(folder: Path, count: int) -> Database:
    return apart(count, folder=folder) if count > 1 else kpg.connect(folder)


@pytest.fixture
def loaded(folder: Path) -> list[Any]:
    """The rows of a folder, as two workers have loaded them, some with neither text nor value."""
    odd = pa.table({"k": [7001, 7002, 7003], "g": [None, "", "g3"], "v": [None, 5, -(2**62)]})
    with apart(2, folder=folder) as db:
        db.sql(TABLE)
        db.sql(VIEW)
        db.load("t", Parts(numbers(0, 3000), numbers(3000, 5000)))
        db.load("t", Parts(numbers(9000, 9100, 9), odd))
        assert blocks(db) == 2
        return everything(db)


def answers(db: Database) -> list[Any]:
    return sorted(db.sql("select * from s").fetchall(), key=str)


def everything(db: Database) -> list[Any]:
    return sorted(db.sql("select * from t").fetchall(), key=str)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_are_there_for_any_number_of_workers(loaded: list[Any], folder: Path, count: int) -> None:
    for life in range(2):
        with opened(folder, count) as db:
            assert count == 1 or blocks(db) == 2  # the coordinator has none of them
            assert everything(db) == loaded
            assert db.sql("select sum(n), sum(v), max(k) from s").fetchall() == [
                (5103, 252450 + 5 - 2**62, 9099)
            ]
            assert db.sql("select g, v from t where k in (7001, 7002) order by k").fetchall() == [
                (None, None),
                ("", 5),
            ]
            assert not (wrong := list(check_contents(db._engine))), (life, wrong)
    assert list(check(folder)) == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_is_changed_afterwards_is_kept_as_well(loaded: list[Any], folder: Path, count: int) -> None:
    with opened(folder, count) as db:
        db.sql("update t set v = 1, g = 'new' where k % 10 = 3; delete from t where k % 7 = 1")
        db.sql("insert into t values (5000, 'newer', 1)")
        with pytest.raises(IntegrityError, match=r"duplicate key in table t: \(k\) = \(4002\)"):
            db.sql("insert into t values (4002, 'x', 1)")
        after, summed = everything(db), answers(db)
    for other in (count % 3 + 1, 1):
        with opened(folder, other) as db:
            assert (everything(db), answers(db)) == (after, summed)
            with pytest.raises(IntegrityError, match=r"duplicate key in table t"):
                db.load("t", numbers(4007, 4008))
            assert not (wrong := list(check_contents(db._engine))), wrong
    assert list(check(folder)) == []


def test_a_key_is_looked_for_among_rows_that_were_loaded_before(loaded: list[Any], folder: Path) -> None:
    for count in (2, 3):
        with opened(folder, count) as db:
            with pytest.raises(IntegrityError, match=r"\(k\) = \(4007\) exists already"):
                db.load("t", Parts(numbers(4007, 4008)))
            db.load("t", Parts(numbers(10000 * count, 10000 * count + 10)))
            assert blocks(db) == count + 1
    with kpg.connect(folder) as db:
        assert db.sql("select count(*), sum(k) from t where k >= 20000").fetchall() == [(20, 500090)]


def test_a_checkpoint_names_what_workers_have_written(folder: Path) -> None:
    with apart(2, folder=folder) as db:
        db.sql(TABLE)
        db.load("t", Parts(numbers(0, 30000, 5000)))
        before = packs(folder)
        db.sql("checkpoint")
        now = packs(folder)
        assert {name: now[name] for name in before} == before
        (made,) = now.keys() - before.keys()
        assert now[made] < min(before.values()) < 400_000
        db.load("t", Parts(numbers(30000, 30100)))
        db.sql("create table u(k int)")
        db.sql("checkpoint")
        assert before.keys() < packs(folder).keys()
        db.sql("drop table t")
        db.sql("checkpoint")
        assert before.keys().isdisjoint(packs(folder))
    assert {one.kind for one in inspect_files(folder)} == {"lock", "log", "manifest", "pack"}


def test_one_worker_has_rows_written_as_its_own(loaded: list[Any], folder: Path) -> None:
    before = packs(folder)
    with kpg.connect(folder) as db:
        db.sql("create table u(k int)")
        db.sql("checkpoint")
        shards = {f"pack-{number:08}" for number in (1, 2, 3, 4)}
        assert shards < before.keys() and shards.isdisjoint(packs(folder))
    with apart(2, folder=folder) as db:
        assert (everything(db), blocks(db)) == (loaded, 0)


def test_what_does_not_come_leaves_no_pack_behind(folder: Path) -> None:
    with apart(2, folder=folder) as db:
        db.sql(TABLE)
        db.sql("create materialized view d as select 10 / (v - 55) as q from t")
        db.load("t", Parts(numbers(0, 10)))
        before = packs(folder)
        with pytest.raises(ZeroDivisionError), db.transaction():
            db.load("t", Parts(numbers(10, 30)))
            assert len(packs(folder)) == len(before) + 2
            raise ZeroDivisionError
        with pytest.raises(kpg.Error, match="division by zero"):
            db.load("t", Parts(numbers(10, 3000)))
        with pytest.raises(IntegrityError, match="exists already"):
            db.load("t", Parts(numbers(9, 12)))
        assert (packs(folder), blocks(db)) == (before, 1)
        db.load("t", Parts(numbers(10, 20)))
    with kpg.connect(folder) as db:
        assert db.sql("select count(*), max(k) from t").fetchall() == [(20, 19)]


def test_workers_that_do_not_see_the_folder_have_rows_come_through_the_driver(folder: Path) -> None:
    with apart(2, folder=folder) as db:
        db.sql(TABLE)
        executor: Any = db._engine.executor
        executor.tables.shard_store.folder = str(folder / "elsewhere")
        assert db.load("t", Parts(numbers(0, 3000))) == 3000
        assert (blocks(db), packs(folder)) == (0, {})
    with kpg.connect(folder) as db:
        assert db.sql("select count(*), sum(k) from t").fetchall() == [(3000, 4498500)]


def test_workers_elsewhere_have_the_driver_read_what_others_wrote(
    loaded: list[Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with apart(2, folder=folder) as db:
        executor: Any = db._engine.executor
        summed, executor.tables.shard_store.folder = answers(db), str(folder / "elsewhere")
        os.kill(executor.crew.processes[1], signal.SIGKILL)
        assert (answers(db), blocks(db)) == (summed, 0)
    monkeypatch.setattr(checkpoints, "_shared_folder", lambda _: str(folder / "elsewhere"))
    with apart(2, folder=folder) as db:
        assert (everything(db), blocks(db)) == (loaded, 0)


def test_workers_that_are_started_again_read_what_they_wrote(loaded: list[Any], folder: Path) -> None:
    with apart(2, folder=folder) as db:
        executor: Any = db._engine.executor
        summed = answers(db)
        for worker in (1, 0):
            os.kill(executor.crew.processes[worker], signal.SIGKILL)
            assert (answers(db), blocks(db)) == (summed, 2)
        with pytest.raises(OperationalError, match="worker"), db.transaction():
            db.load("t", Parts(numbers(6000, 6007)))
            os.kill(executor.crew.processes[1], signal.SIGKILL)
        assert everything(db) == loaded and len(packs(folder)) == 5  # and the checkpoint's


def test_constraints_hold_for_rows_of_an_earlier_life(folder: Path) -> None:
    with apart(2, folder=folder) as db:
        db.sql("create table a(k bigint primary key, g text unique, v bigint)")
        db.sql("create table t(k bigint primary key, g text references a(g), v bigint check (v < 100))")
        db.load("a", Parts(numbers(0, 50, 50)))
        db.load("t", Parts(numbers(0, 3000, 50)))
        assert (blocks(db), blocks(db, "a")) == (1, 1)
    for count in (2, 3):
        with opened(folder, count) as db:
            assert (blocks(db), blocks(db, "a")) == (1, 1)
            with pytest.raises(IntegrityError, match=r"\(g\) = \('g50'\) of table t is no row"):
                db.load("t", Parts(numbers(9000, 9100, 60)))
            with pytest.raises(IntegrityError, match="g7"):
                db.load("a", Parts(numbers(57, 58, 50)))
            with pytest.raises(IntegrityError):
                db.sql("delete from a where k = 3")
            assert db.sql("select count(*) from t join a on t.g = a.g").fetchall() == [(3000,)]


def test_branches_backups_readers_and_the_past(folder: Path, tmp_path: Path) -> None:
    with apart(2, folder=folder, history=100) as db:
        db.sql(TABLE)
        db.sql(VIEW)
        db.load("t", Parts(numbers(0, 300)))
        first = db.epoch
        db.load("t", Parts(numbers(300, 500)))
        now, then = answers(db), f"select sum(n) from s as of {first}"
        db.backup(tmp_path / "copy").wait()
        with db.branch() as branch:
            branch.sql("delete from t where k < 100")
            assert branch.sql("select sum(n) from s").fetchall() == [(400,)]
        db.sql("vacuum")
        assert answers(db) == now
        with kpg.connect(folder, read_only=True) as reader:
            assert answers(reader) == now
    with apart(2, folder=folder, history=100) as db:
        assert (db.sql(then).fetchall(), answers(db)) == ([(300,)], now)
    assert list(check(tmp_path / "copy")) == []
    for count in (1, 3):
        with opened(tmp_path / "copy", count) as db:
            assert answers(db) == now


def test_a_pack_that_is_damaged_or_missing_is_an_error_that_names_it(loaded: list[Any], folder: Path) -> None:
    name = min(packs(folder))
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    assert any(name in line for line in check(folder))
    for count in (1, 2, 3):
        with pytest.raises(OperationalError, match=f"{name} is damaged"), opened(folder, count) as db:
            everything(db)
    (folder / name).unlink()
    assert any(name in line for line in check(folder))
    with pytest.raises(OperationalError, match=f"{name} is missing"), opened(folder, 1):
        pass
    (folder / name).write_bytes(whole)
    with opened(folder, 2) as db:
        assert everything(db) == loaded


# Power cuts and disks that fail

Start = Callable[[Sim], Database]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Opens a database of two workers in this process over files in memory, which they see too."""
    made: list[Database] = []

    def begin(files: Sim) -> Database:
        crew = ThreadMembers(2)
        crew.hosts = ["127.0.0.1"] * 2
        monkeypatch.setattr(checkpoints, "_shared_folder", lambda _: "sim")
        monkeypatch.setattr(table_shards, "find_database", lambda folder, database: files)
        db = Database(workers=Workers(crew, 0))
        made.append(db)
        open_files(db._engine, files, OpenOptions())
        return db

    yield begin
    for db in made:
        with suppress(BaseException):
            db.close()


LOADS = ((0, 40), (40, 90), (200, 230))


def life(db: Database, done: list[int]) -> None:
    """Three loads with a checkpoint between them."""
    db.sql(TABLE)
    for number, (first, end) in enumerate(LOADS):
        if number == 2:
            db.sql("checkpoint")
        db.load("t", Parts(numbers(first, end)))
        assert blocks(db) == number + 1
        done.append(number)


def keys(db: Database) -> list[int]:
    try:
        return [k for (k,) in db.sql("select k from t order by k").fetchall()]
    except kpg.Error:  # there is no table yet
        return []


def prefixes() -> list[list[int]]:
    return [[k for first, end in LOADS[:n] for k in range(first, end)] for n in range(len(LOADS) + 1)]


def operations(start: Start) -> int:
    files = Sim()
    life(start(files), [])
    return files.count


def test_what_a_power_cut_leaves_is_all_loads_that_were_told_of(start: Start) -> None:
    last = operations(start)
    assert last > 60
    for cut in range(4, last, 5):
        files, done = Sim(cut), list[int]()
        files.cut_at = cut
        with suppress(PowerCut, OperationalError):
            life(start(files), done)
        found = files.after_cut(cut)
        with Database() as one:
            open_files(one._engine, found, OpenOptions())
            there = keys(one)
            assert there in prefixes()[len(done) : len(done) + 2], (cut, done, len(there))
            assert not list(check_contents(one._engine))


def test_a_disk_that_fails_once_takes_nothing_with_it(start: Start) -> None:
    last = operations(start)
    for failing in range(8, last, 4):
        files, done = Sim(failing), list[int]()
        files.fails = lambda count, what, at=failing: errno.ENOSPC if count == at else 0
        with suppress(OperationalError, OSError):
            life(start(files), done)
        found = files.after_kill()
        with Database() as one:
            open_files(one._engine, found, OpenOptions())
            assert keys(one) in prefixes()[len(done) : len(done) + 2], (failing, files.done[failing - 1])
