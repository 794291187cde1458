"""Damage of any file of a database is reported, or changes nothing that is read."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.random import Generator

import kpg
from kpg.cli.folders import run_check
from kpg.persistence.inspection import find_file_damage, repair
from kpg.runtime.storage.files import Disk
from kpg.runtime.storage.log import COMMITTED_NAME as PROOF
from kpg.runtime.storage.log import Segment
from kpg.runtime.storage.packs import read_manifest
from tests.model.disk import Node, Sim
from tests.model.durable import contents, opened

Damage = Callable[[bytearray, Generator], None]


def flipped(data: bytearray, random: Generator) -> None:
    data[int(random.integers(len(data)))] ^= 1 << int(random.integers(8))


def overwritten(data: bytearray, random: Generator) -> None:
    at = int(random.integers(len(data)))
    data[at : at + 16] = random.bytes(len(data[at : at + 16]))


def zeroed(data: bytearray, random: Generator) -> None:
    at, size = int(random.integers(len(data))), int(random.choice([1, 16, 512, 4096, 1 << 20]))
    data[at : at + size] = bytes(len(data[at : at + size]))


def shortened(data: bytearray, random: Generator) -> None:
    del data[int(random.integers(len(data))) :]


@pytest.fixture(scope="module")
def folder() -> Sim:
    """Two segments, a checkpoint of several packs, one that a record names, and commits behind it."""
    sim = Sim()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kpg.persistence.write_ahead_log.MIN_GROUPED_ROWS", 4)
        patch.setattr("kpg.persistence.write_ahead_log.MIN_PACK_BYTES", 512)
        patch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 4096)
        db = opened(sim)
        db.sql("create table t (k int primary key, g int, name text)")
        db.sql("create materialized view m as select g, count(*) n, max(name) b from t group by g")
        db.sql("insert into t select n, n % 7, 'name ' || n from generate_series(1, 500) s(n)")
        db.sql("checkpoint")
        db.sql(
            "delete from t where k < 50; insert into t select n, 8, null from generate_series(501, 900) s(n)"
        )
        db.sql("checkpoint; create table u (a int, b numeric); create role r; comment on table u is 'u'")
        db.sql("insert into t select n, 9, 'x' from generate_series(1001, 1400) s(n)")
        for number in range(6):
            db.sql(f"insert into u values ({number}, {number}.5)")
    return sim.after_kill()


@pytest.mark.parametrize("damage", [flipped, overwritten, zeroed, shortened])
def test_damage_is_reported_or_changes_nothing(folder: Sim, damage: Damage) -> None:
    with opened(folder.after_kill()) as db:
        expected = contents(db)
    random = np.random.default_rng(1)
    reported = 0
    for name in folder.names:
        used = len(bytes(folder.names[name].now).rstrip(b"\0"))
        for _ in range(12):
            data = bytearray(folder.names[name].now)
            part = data[:used]
            damage(part, random)
            data[: max(used, len(part))] = part
            found = folder.after_kill()
            found.names[name] = Node(data, data)
            reported += check(found, expected, f"{damage.__name__} {name}")
    assert reported > 20


def test_a_file_that_is_gone_is_reported(folder: Sim) -> None:
    with opened(folder.after_kill()) as db:
        expected = contents(db)
    for name in folder.names:
        found = folder.after_kill()
        del found.names[name]
        assert check(found, expected, f"without {name}") or name == PROOF


def check(found: Sim, expected: object, what: str) -> bool:
    """Whether damage is reported; if not, all is as it was."""
    try:
        manifest = read_manifest(found)
        assert manifest is not None
        told = list(find_file_damage(found, manifest))
    except (kpg.Error, AssertionError):
        return True
    try:
        with opened(found.after_kill()) as db:
            assert contents(db) == expected, what
    except kpg.Error:
        return True
    return bool(told)


def killed(path: Path, statements: int) -> list[tuple[int, int]]:
    """A folder whose process was killed after inserts of a row each: where the records are."""
    child = os.fork()
    if not child:
        try:
            db = kpg.connect(path)
            db.sql("create table t (a int)")
            for number in range(statements):
                db.sql(f"insert into t values ({number})")
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    files = Disk(path)
    manifest = read_manifest(files)
    assert manifest is not None
    return [(one.start, one.end) for one in Segment(files, 1, manifest.database).records()]


LAST = {
    "random bytes": lambda size: np.random.default_rng(3).bytes(size),
    "zeros": bytes,
}


@pytest.mark.parametrize("size", [16, 24, 100, 600])
@pytest.mark.parametrize("what", LAST)
def test_the_last_acknowledged_record_is_not_dropped(
    what: str, size: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is damage, also where a power cut could have left the same of a record that was never synced."""
    path = tmp_path / "db"
    records = killed(path, 5)
    log, (start, end) = path / "log-00000001", records[-1]
    data = bytearray(log.read_bytes())
    data[max(end - size, start - 400) : end] = LAST[what](size)[: end - max(end - size, start - 400)]
    log.write_bytes(data)
    with pytest.raises(kpg.OperationalError) as caught:
        kpg.connect(path)
    assert f"{log} is damaged at byte" in str(caught.value)
    assert f"kpg check --repair {path}" in str(caught.value)
    assert log.read_bytes() == data
    assert run_check(path) == 1
    capsys.readouterr()
    assert run_check(path, repairs=True) == 0
    told = capsys.readouterr().out
    lost = 1 if size <= 100 else len([one for one in records if one[1] > end - size])
    assert f"lost, at most {lost} commit{'s' * (lost > 1)}; what it had is in files named .damaged" in told
    with kpg.connect(path) as db:
        assert db.query("select count(*) from t").fetchall() == [(5 - lost,)]
        db.sql("insert into t values (7)")
    with kpg.connect(path) as db:
        assert db.query("select count(*) from t").fetchall() == [(6 - lost,)]
    assert (path / "log-00000001.1.damaged").read_bytes() == data


def test_a_log_that_is_whole_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "db"
    killed(path, 3)
    before = (path / "log-00000001").read_bytes()
    assert list(repair(path)) == []
    assert (path / "log-00000001").read_bytes() == before
    with kpg.connect(path), pytest.raises(kpg.OperationalError, match="is in use by"):
        list(repair(path))


def test_a_log_that_is_gone_is_given_up_on_request(tmp_path: Path) -> None:
    """What the checkpoint has is there."""
    path = tmp_path / "db"
    with kpg.connect(path) as db:
        db.sql("create table t (a int); insert into t values (1); checkpoint")
    child = os.fork()
    if not child:
        try:
            kpg.connect(path).sql("insert into t values (2)")
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (log,) = path.glob("log-*")
    log.unlink()
    with pytest.raises(kpg.OperationalError, match=f"{log.name} is missing"):
        kpg.connect(path)
    (told,) = repair(path)
    assert f"{log.name} was cut at byte 0" in told
    with kpg.connect(path) as db:
        assert db.query("select a from t").fetchall() == [(1,)]
        db.sql("insert into t values (3)")
    with kpg.connect(path) as db:
        assert db.query("select a from t order by a").fetchall() == [(1,), (3,)]
