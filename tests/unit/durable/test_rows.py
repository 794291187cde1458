"""Rows of large commits: they are written once, into packs that the log names, and none is lost."""

import errno
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow.csv import write_csv

import kpg
from kpg.api.database import Database
from kpg.persistence import checkpoints, write_ahead_log
from kpg.persistence.inspection import find_damage, inspect_files
from kpg.runtime.storage.files import DiskFile, Piece
from kpg.runtime.storage.packs import pack_number, read_manifest
from kpg.runtime.tables import row_groups
from kpg.runtime.worker import base_tables
from tests.model.disk import Sim
from tests.model.durable import contents, opened

TABLE = "create table t (k bigint primary key, v bigint, s text)"
VIEW = "create materialized view n as select v % 7 g, count(*) c, sum(k) s from t group by v % 7"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Groups of 128 rows of three columns; four kilobytes are many."""
    monkeypatch.setattr(row_groups, "GROUP_BYTES", 1 << 11)
    monkeypatch.setattr(write_ahead_log, "MIN_PACK_BYTES", 1 << 12)
    yield


def some(start: int, count: int) -> pyarrow.Table:
    k = np.arange(start, start + count)
    return pyarrow.table(
        {"k": k, "v": k * 37 % 1000, "s": [f"text {i}" for i in range(start, start + count)]}
    )


def packs(sim: Sim) -> list[int]:
    return [number for name in sim.names if (number := pack_number(name)) is not None]


def made(sim: Sim) -> Database:
    db = opened(sim)
    db.sql(TABLE)
    db.sql(VIEW)
    db.insert("t", some(0, 5))
    return db


def test_a_load_is_there_after_a_kill_and_its_groups_are_not_in_the_log() -> None:
    sim = Sim()
    db = made(sim)
    before = sim.names["log-00000001"].now.count(b"")
    db.load("t", some(5, 1000))
    assert packs(sim) == [1] and sim.names["log-00000001"].now.count(b"") - before < 24_000
    expected = contents(db)
    for number in range(2):
        sim = sim.after_kill()
        again = opened(sim)
        assert contents(again) == expected and packs(sim) == [1]
        again.insert("t", some(2000 + number, 1))
        expected = contents(again)
    again.sql("checkpoint")
    manifest = read_manifest(sim)
    assert manifest is not None and manifest.checkpoint is not None
    assert [one.number for one in manifest.checkpoint.packs] == [1, 2]
    again.close()
    assert contents(opened(sim)) == expected


def test_a_load_and_a_checkpoint_write_its_rows_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64,000 rows of four numbers are 2 MB, and so is what is written of them, in log and packs."""
    monkeypatch.setattr(row_groups, "GROUP_BYTES", 1 << 16)
    with kpg.connect(tmp_path / "db") as db:
        db.sql("create table big (a bigint, b bigint, c bigint, d bigint)")
        columns = np.random.default_rng(1).integers(0, 1 << 60, (4, 64_000))
        db.load("big", pyarrow.table(dict(zip("abcd", columns, strict=True))))
        logged = (tmp_path / "db/log-00000001").stat().st_blocks * 512
        rows_once = (tmp_path / "db/pack-00000001").stat().st_size
        db.sql("checkpoint")
        state = (tmp_path / "db/pack-00000002").stat().st_size
    assert 2_048_000 <= rows_once < 2_200_000
    assert logged < 1_200_000  # the most of it is room
    assert state < 300_000
    with kpg.connect(tmp_path / "db") as db:
        assert db.query("select count(*), sum(a) from big").fetchall() == [(64_000, sum(columns[0].tolist()))]


@pytest.mark.parametrize("what", ["write pack", "sync pack", "create pack", "write log", "sync log"])
def test_a_load_that_cannot_be_written_never_was(what: str) -> None:
    sim = Sim()
    db = made(sim)
    expected = contents(db)
    failing = [errno.ENOSPC]
    sim.fails = lambda count, done: failing.pop() if failing and done.startswith(what) else 0
    with pytest.raises(kpg.OperationalError, match="commit was refused"):
        db.load("t", some(5, 1000))
    assert contents(db) == expected and packs(sim) == []
    assert contents(opened(sim.after_kill())) == expected
    db.load("t", some(5, 1000))
    assert contents(opened(sim.after_kill())) == contents(db)


def test_a_view_of_the_present_time_that_is_refused_is_not_there() -> None:
    """Its statement has taken a step before, to have the time."""
    sim = Sim()
    db = made(sim)
    failing = [errno.EIO]
    sim.fails = lambda count, done: failing.pop() if failing and done.startswith("write log") else 0
    view = "create materialized view later as select k from t where now() > timestamptz '2030-01-01'"
    with pytest.raises(kpg.OperationalError, match="commit was refused"):
        db.sql(view)
    assert db._engine.views.keys() == {"n"}
    db.sql(view)
    assert db._engine.views.keys() == {"n", "later"}
    assert contents(opened(sim.after_kill())) == contents(db)


def test_what_a_crash_leaves_before_the_record_is_removed() -> None:
    sim = Sim()
    db = made(sim)
    expected = contents(db)
    found: list[Sim] = []
    sim.look = lambda what: found.append(sim.after_kill()) if what.startswith("write log") else None
    db.load("t", some(5, 1000))
    assert packs(found[0]) == [1]
    again = opened(found[0])
    assert contents(again) == expected and packs(found[0]) == []


def test_several_loads_of_a_batch_are_one_commit() -> None:
    sim = Sim()
    db = made(sim)
    expected = contents(db)
    found: list[Sim] = []
    with db.batch():
        db.load("t", some(5, 1000))
        db.sql("delete from t where k between 100 and 300")
        db.load("t", some(5000, 700))
        found.append(sim.after_kill())
    assert contents(opened(found[0])) == expected and packs(found[0]) == []
    assert contents(opened(sim.after_kill())) == contents(db)


def test_rows_that_come_and_go_in_one_transaction() -> None:
    sim = Sim()
    db = made(sim)
    db.sql("begin")
    db.load("t", some(5, 1000))
    db.sql("delete from t where k between 200 and 310 or k = 700")
    db.sql("update t set v = v + 1 where k > 500")
    db.sql("commit")
    db.sql("create table copy as select * from t")
    assert contents(opened(sim.after_kill())) == contents(db)
    db.sql("drop table copy")
    again = opened(killed := sim.after_kill())
    assert contents(again) == contents(db)
    db.sql("delete from t where k < 900")
    db.sql("checkpoint")
    db.sql("vacuum")
    db.sql("checkpoint")
    assert contents(opened(killed := sim.after_kill())) == contents(db)
    assert len(packs(killed)) <= 3


def test_a_checkpoint_beside_keeps_what_came_meanwhile(tmp_path: Path) -> None:
    db = kpg.connect(tmp_path / "db")
    db.sql(TABLE)
    db.load("t", some(0, 1000))
    keeper = db._engine.write_ahead_log
    assert keeper is not None
    made = keeper.checkpoints  # type: ignore[attr-defined]
    assert isinstance(made, checkpoints.Checkpoints)
    made.begin(in_background=True)
    db.load("t", some(1000, 1000))
    made._background.poll(wait=True)
    assert made.log_packs() == {3}
    db.backup(tmp_path / "copy").wait()
    keeper._lock.release()  # type: ignore[attr-defined]
    for folder in ("db", "copy"):
        assert list(find_damage(tmp_path / folder)) == []
        told = {one.name: one.details for one in inspect_files(tmp_path / folder)}
        assert told["pack-00000003"].endswith("bytes of rows that the log names")
        with kpg.connect(tmp_path / folder) as again:
            assert again.query("select count(*), sum(k) from t").fetchall() == [(2000, 1999 * 1000)]


def test_damage_in_such_a_pack_is_found(tmp_path: Path) -> None:
    db = kpg.connect(tmp_path / "db")
    db.sql(TABLE)
    db.load("t", some(0, 1000))
    db._engine.write_ahead_log._lock.release()  # type: ignore[union-attr]
    path = tmp_path / "db/pack-00000001"
    data = bytearray(path.read_bytes())
    data[5000] ^= 4
    path.write_bytes(data)
    assert [line.partition(":")[0] for line in find_damage(tmp_path / "db")] == [
        f"{path} is damaged at byte 4096"
    ]
    with pytest.raises(kpg.Error, match="is damaged at byte 4096"):
        kpg.connect(tmp_path / "db")
    path.unlink()
    with pytest.raises(kpg.Error, match="pack-00000001 is missing"):
        kpg.connect(tmp_path / "db")


@pytest.mark.parametrize("what", ["", "write pack", "sync pack", "write log"])
def test_many_strings_are_written_once_too(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead_log, "MIN_STRING_PACK_BYTES", 1 << 12)
    sim = Sim()
    db = made(sim)
    expected = contents(db)
    logged = lambda: sim.names["log-00000001"].now.count(b"text 7")  # noqa: E731
    if what:
        failing = [0, errno.EIO] if "log" in what else [errno.EIO]
        sim.fails = lambda count, done: failing.pop() if failing and done.startswith(what) else 0
        with pytest.raises(kpg.OperationalError, match="commit was refused"):
            db.load("t", some(5, 1000))
        sim.fails = lambda count, done: 0
        assert contents(db) == expected and packs(sim) == []
        db.insert("t", some(3000, 1))
    db.load("t", some(5, 1000))
    assert logged() == 0
    expected = contents(db)
    killed = sim.after_kill()
    again = opened(killed)
    assert contents(again) == expected
    again.sql("checkpoint")
    # In one file: how often there is by chance, as what is beyond an array's end is whatever memory held.
    assert sum(b"text 777text" in node.now for node in killed.names.values()) == 1
    again.insert("t", some(9000, 5))
    again.sql("checkpoint")
    expected = contents(again)
    last = killed.after_kill()
    assert contents(opened(last)) == expected


def test_rows_that_were_packed_before_they_were_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are rolled back and others have their rowids, some are deleted; all there are come back."""
    monkeypatch.setattr(write_ahead_log, "MIN_PACK_BYTES", 1 << 20)
    monkeypatch.setattr(base_tables, "MANY", 20)
    monkeypatch.setattr(write_ahead_log, "MANY", 20)
    sim = Sim()
    db = made(sim)
    with db.transaction():
        db.insert("t", some(100, 50))
        db.sql("savepoint s")
        db.insert("t", some(200, 60))
        db.sql("rollback to s")
        db.insert("t", some(300, 50))
        db.insert("t", some(400, 30))
        db.sql("delete from t where k between 110 and 112")
    expected = contents(db)
    reopened = opened(sim.after_kill())
    assert contents(reopened) == expected
    assert reopened.sql("select count(*), sum(k), min(s), max(s) from t").fetchall() == [
        (132, 100 * 50 + 1225 - 110 - 111 - 112 + 300 * 50 + 1225 + 400 * 30 + 435 + 10, "text 0", "text 429")
    ]


class Written:
    """How many bytes are written to files of folders, by kind of file, but for zeros that are room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._bytes: Counter[str] = Counter()
        before = DiskFile.write

        def write(file: DiskFile, offset: int, pieces: Sequence[Piece]) -> None:
            for piece in pieces:
                data = bytes(piece)
                self._bytes[file.name.partition("-")[0]] += len(data) if data.strip(b"\0") else 0
            before(file, offset, pieces)

        monkeypatch.setattr(DiskFile, "write", write)

    def since(self) -> tuple[int, int]:
        """Those of packs and of logs since it was asked last."""
        found, self._bytes = self._bytes, Counter()
        return found["pack"], found["log"]


def bring(db: Database, way: str, table: pyarrow.Table, path: Path) -> None:
    if way == "load":
        db.load("t", table)
    else:
        write_csv(table, path)
        db.sql(f"copy t from '{path}' with (header)")


@pytest.mark.parametrize("way", ["load", "copy"])
def test_small_loads_are_written_once_too(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 rows of three words are 480,000 bytes: two numbers of 40 bits, and one of 500 strings.

    The first load begins a group and is written once, by itself. The next ones go on with the group: their
    rows are in the log, and beside what is there of the group once there was room for them.
    """
    monkeypatch.undo()
    written = Written(monkeypatch)
    random = np.random.default_rng(1)
    found = []
    with kpg.connect(tmp_path / "db") as db:
        db.sql("create table t (a bigint, b bigint, s text)")
        for _ in range(3):
            a, b = random.integers(0, 1 << 40, (2, 20_000))
            table = pyarrow.table({"a": a, "b": b, "s": [f"text {n % 500}" for n in range(20_000)]})
            written.since()
            bring(db, way, table, tmp_path / "t.csv")
            found.append(written.since())
            db.sql("checkpoint")
            found.append(written.since())
        expected = contents(db)
    (pack, log), (state, _) = found[:2]
    assert 480_000 <= pack < 500_000 and log < 32_000
    assert state < 80_000
    (pack, log), (state, _) = found[4:]
    assert pack == 0 and log < 400_000
    assert 480_000 <= state < 660_000
    with kpg.connect(tmp_path / "db") as db:
        assert contents(db) == expected
        assert db.query("select count(*), count(distinct s) from t").fetchall() == [(60_000, 500)]
