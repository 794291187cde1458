"""Backups: copies of a database that open, made while commits go on."""

import os
from pathlib import Path

import pytest

import kpg
from kpg.persistence.inspection import check
from kpg.runtime.storage.files import DiskFile


def made(path: Path) -> "kpg.Database":
    db = kpg.connect(path)
    db.sql("create table t (id serial primary key, name text)")
    db.sql("create materialized view v as select name, count(*) n from t group by name")
    db.sql("insert into t (name) values ('ada'), ('bob'), ('ada')")
    return db


def test_a_backup_is_the_database_as_it_was(tmp_path: Path) -> None:
    db = made(tmp_path / "db")
    db.set_position("topic", 7)
    done = db.backup(tmp_path / "copy")
    assert (done.epoch, done.folder) == (2, tmp_path / "copy")
    assert done.bytes == sum(
        file.stat().st_size for file in (tmp_path / "copy").iterdir() if file.name != "manifest"
    )
    db.sql("delete from t")
    db.close()
    assert list(check(tmp_path / "copy")) == []
    with kpg.connect(tmp_path / "copy") as copy:
        assert copy.epoch == 2
        assert sorted(copy.view("v").fetchall()) == [("ada", 2), ("bob", 1)]
        assert copy.positions() == {"topic": 7}
        assert copy.query("insert into t (name) values ('eve') returning id").fetchall() == [(4,)]
        copy.backup(tmp_path / "again")
    with kpg.connect(tmp_path / "again") as again:
        assert again.query("select count(*) from t").fetchall() == [(4,)]


def test_commits_go_on_while_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that copies waits until commits have been made, and a checkpoint perhaps, meanwhile."""
    import threading

    db = made(tmp_path / "db")
    go = threading.Event()
    read = DiskFile.read

    def late(self: DiskFile, offset: int, size: int) -> bytes:
        assert go.wait(60)
        return read(self, offset, size)

    monkeypatch.setattr(DiskFile, "read", late)
    backup = db.backup(tmp_path / "copy", wait=False)
    db.sql("insert into t (name) values ('later')")
    db.insert("t", [(number, "many") for number in range(100, 5000)])
    db.sql("checkpoint")
    assert "manifest" not in os.listdir(tmp_path / "copy")
    go.set()
    backup.wait()
    monkeypatch.undo()
    with kpg.connect(tmp_path / "copy") as copy:
        assert copy.query("select count(*) from t").fetchall() == [(3,)]
    assert db.query("select count(*) from t").fetchall() == [(4904,)]
    db.verify("v")
    db.close()


def test_a_backup_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = made(tmp_path / "db")
    write = DiskFile.write

    def full(self: DiskFile, offset: int, pieces: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DiskFile, "write", full)
    with pytest.raises(kpg.OperationalError, match="copy could not be written to: No space left on device"):
        db.backup(tmp_path / "copy")
    monkeypatch.setattr(DiskFile, "write", write)
    assert os.listdir(tmp_path / "copy") == []
    db.backup(tmp_path / "copy")
    db.sql("insert into t (name) values ('x')")
    db.close()


def test_what_is_wrong_is_refused(tmp_path: Path) -> None:
    with pytest.raises(kpg.NotSupportedError, match="a backup of a database in memory is not supported"):
        kpg.connect().backup(tmp_path / "copy")
    db = made(tmp_path / "db")
    (tmp_path / "file").write_text("x")
    refused = {"db": "is not empty", "file": "is a file", "file/below": "no backup could be made"}
    for name, message in refused.items():
        with pytest.raises(kpg.OperationalError, match=message):
            db.backup(tmp_path / name)
    db.sql("begin; delete from t")
    with pytest.raises(kpg.InterfaceError, match="a backup is made outside of transactions"):
        db.backup(tmp_path / "copy")
    db.sql("rollback")
    db.close()
    with pytest.raises(kpg.InterfaceError, match="closed"):
        db.backup(tmp_path / "copy")


def test_what_was_opened_for_reading_can_be_copied(tmp_path: Path) -> None:
    made(tmp_path / "db").close()
    with kpg.connect(tmp_path / "db", read_only=True) as db:
        db.backup(tmp_path / "copy")
    with kpg.connect(tmp_path / "copy") as copy:
        assert copy.query("select count(*) from t").fetchall() == [(3,)]


def test_a_branch_of_what_was_opened_goes_on_by_itself_and_is_merged_for_good(tmp_path: Path) -> None:
    made(tmp_path / "db").close()
    with kpg.connect(tmp_path / "db") as db:
        branch = db.branch()
        branch.sql("insert into t (name) values ('eve'); delete from t where name = 'bob'")
        assert sorted(branch.view("v").fetchall()) == [("ada", 2), ("eve", 1)]
        assert sorted(db.view("v").fetchall()) == [("ada", 2), ("bob", 1)]
        db.sql("insert into t (id, name) values (50, 'ada')")
        branch.verify("v")
        assert branch.merge() == {"t": (1, 1)}
        db.branch().sql("delete from t")
    with kpg.connect(tmp_path / "db") as db:
        assert sorted(db.view("v").fetchall()) == [("ada", 3), ("eve", 1)]
        assert db.query("insert into t (name) values ('x') returning id").fetchall() == [(5,)]
    assert list(check(tmp_path / "db")) == []


def test_a_merge_that_cannot_be_kept_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = made(tmp_path / "db")
    branch = db.branch()
    branch.sql("delete from t")

    def full(self: DiskFile, offset: int, pieces: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DiskFile, "write", full)
    with pytest.raises(kpg.OperationalError, match="the commit was refused"):
        branch.merge()
    monkeypatch.undo()
    assert db.query("select count(*) from t").fetchall() == [(3,)]
    assert branch.merge() == {"t": (0, 3)}
    db.close()
    with kpg.connect(tmp_path / "db", read_only=True) as again:
        assert again.query("select count(*) from t").fetchall() == [(0,)]


def test_a_file_that_has_become_shorter_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql("create table t (a int); insert into t values (1)")
        monkeypatch.setattr(DiskFile, "read", lambda file, offset, size: bytes(size - 1))
        with pytest.raises(kpg.OperationalError, match="log-00000001 is shorter than it was"):
            db.backup(tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []
