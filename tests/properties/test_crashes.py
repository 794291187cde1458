"""Databases whose power goes, whose disk fails, whose process is killed: nothing acknowledged is lost."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kpg
from tests.model.durable import contents
from tests.properties.crashes import Life
from tests.properties.kill_loads import Lives
from tests.properties.kills import kill_writer


@pytest.mark.parametrize("seed", range(9))
def test_the_power_goes(seed: int) -> None:
    life = Life(seed, views=False, cuts=20, history=(None, 1000, 5)[seed % 3])
    life.run(40)
    assert len(life.found) > 5


@pytest.mark.parametrize("seed", range(100, 106))
def test_the_power_goes_with_views_loops_and_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables have many groups of rows, of which the vacuum takes some."""
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 1536)
    Life(seed, views=True, cuts=8, history=(None, 1000)[seed % 2]).run(40)


@pytest.mark.parametrize("seed", [600, 601, 602, 606, 607])
def test_the_power_goes_with_rights_functions_partitions_and_more(seed: int) -> None:
    Life(seed, views=False, themes=True, failing=0.1 * (seed % 2), cuts=4).run(24)


@pytest.mark.parametrize("seed", range(200, 208))
def test_operations_fail(seed: int) -> None:
    """What a failed operation was part of never was; the rest goes on, or says that it does not."""
    life = Life(seed, views=seed % 4 == 0, failing=0.12, cuts=10)
    life.run(40)
    assert life.failed > 0


@pytest.mark.parametrize("seed", (400, 401, 402, 405))
def test_rows_that_are_written_while_views_take_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In some lives their records are large, and pages are small."""
    monkeypatch.setattr("kpg.persistence.write_ahead_log.MANY", 2)
    monkeypatch.setattr("kpg.runtime.worker.base_tables.MANY", 2)
    if seed % 2:
        monkeypatch.setattr("kpg.runtime.storage.log.SMALL", 256)
        monkeypatch.setattr("kpg.runtime.storage.log.PAGE", 512)
    Life(seed, views=seed % 2 == 0, failing=0.1 * (seed % 3 == 0), cuts=30).run(40)


@pytest.mark.parametrize("seed", range(500, 503))
def test_rows_that_go_straight_into_packs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handful of rows is a large commit, and a few letters are many strings."""
    monkeypatch.setattr("kpg.runtime.tables.row_groups.GROUP_BYTES", 256)
    monkeypatch.setattr("kpg.persistence.write_ahead_log.MIN_GROUPED_ROWS", 4)
    monkeypatch.setattr("kpg.persistence.write_ahead_log.MIN_PACK_BYTES", 512)
    monkeypatch.setattr("kpg.persistence.write_ahead_log.MIN_STRING_PACK_BYTES", 256)
    Life(seed, views=seed % 2 == 0, failing=0.1 * (seed % 3 == 0), cuts=12).run(30)


@pytest.mark.parametrize("seed", range(300, 304))
@pytest.mark.parametrize("mode", ["normal", "off"])
def test_other_modes_may_lose_the_end_and_nothing_else(seed: int, mode: str) -> None:
    Life(seed, views=False, mode=mode, cuts=20, failing=0.05 * (seed % 2)).run(30)


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    """Killed at instants that nobody chose, again and again, by a signal that it cannot notice."""
    random, told = np.random.default_rng(7), 0
    lives = 0
    while lives < 3 or not told:
        told, lives = kill_writer(tmp_path / "db", told, random), lives + 1


@pytest.mark.parametrize("name", ["vacuum", "alter", "copy", "merge", "workers", "source"])
def test_a_process_killed_amid_what_rewrites_much_loses_nothing(name: str, tmp_path: Path) -> None:
    random, lives = np.random.default_rng(3), Lives(tmp_path, name)
    lives.life(random, beside=name == "copy")
    lives.life(random)
    assert lives.told > 0


def fill(folder: str, limit: int) -> None:
    """Insert until the folder's files may not grow any more; say what was acknowledged, and what then."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    db = kpg.connect(folder)
    db.sql("create table t (k int primary key, word text)")
    db.sql("create materialized view n as select count(*) n from t")
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    last = 0
    try:
        while True:
            db.sql(f"insert into t values ({last}, '{'x' * (last % 3000)}')")
            last += 1
    except kpg.OperationalError as error:
        print(last, str(error).splitlines()[0])
    print(db.query("select n from n").fetchall() == [(last,)], db.query("select max(k) from t").fetchall())
    try:
        db.sql(f"create table more as select '{'y' * 10**6}' word")
    except kpg.OperationalError as error:
        print(str(error).splitlines()[0])
    print(db.tables().fetchall())
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    db.sql(f"insert into t values ({last}, 'room again')")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("limit", [1_100_000, 1_500_001, 2_345_678])
def test_a_full_disk_refuses_a_commit_and_nothing_more(tmp_path: Path, limit: int) -> None:
    folder = str(tmp_path / "db")
    code = f"from tests.properties.test_crashes import fill; fill({folder!r}, {limit})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    lines = found.stdout.splitlines()
    assert found.returncode == -signal.SIGKILL, found.stderr
    last, message = lines[0].split(" ", 1)
    refused = f"the commit was refused: {folder} could not be written to: File too large"
    assert message == refused
    assert lines[1] == f"True [({int(last) - 1},)]"
    assert lines[2:] == [refused, f"[('t', {last})]"]
    with kpg.connect(folder) as db:
        assert db.query("select count(*) from t").fetchall() == [(int(last) + 1,)]
        assert contents(db)["kept"] == ["n"]
