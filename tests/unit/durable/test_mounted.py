"""Folders on file systems that are small, or that nobody may write to, mounted for the test alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kpg

pytestmark = pytest.mark.mounts
ROOT = Path(__file__).parents[3]


def mounted(function: str, place: Path, *sizes: str) -> list[str]:
    """What a function of this file prints, in a process that sees its own mounts."""
    place.mkdir()
    code = f"from tests.unit.durable.test_mounted import {function}; {function}({str(place)!r})"
    alone = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    script = f'mount -t tmpfs -o size={"".join(sizes)} tmpfs "$0" && exec "$@"'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*alone, "sh", "-c", script, str(place), sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert found.returncode == 0, found.stderr
    return found.stdout.replace(str(place), "PLACE").splitlines()


def attempt(text: str, folder: str, **options: bool) -> None:
    """Say what becomes of a statement in a folder."""
    try:
        with kpg.connect(folder, **options) as db:  # type: ignore[arg-type]
            result = db.sql(text)
            print(None if result is None else result.fetchall())
    except kpg.OperationalError as error:
        print(str(error).replace("\n", "; "))


def read(place: str) -> None:
    folder = f"{place}/db"
    with kpg.connect(folder) as db:
        db.sql("create table t (k int primary key, v text); create sequence s")
        db.sql("create materialized view n as select count(*) n from t")
        db.sql("insert into t values (1, 'a'), (2, 'b')")
    # What a killed process leaves is read, too.
    process = os.fork()
    if not process:
        kpg.connect(folder).sql("insert into t values (3, 'c')")
        os._exit(0)
    os.waitpid(process, 0)
    before = {one: one.read_bytes() for one in Path(folder).iterdir()}
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    attempt("select 1", folder)
    attempt("select 1", f"{place}/new")
    attempt("select n, max(v) from n, t group by n", folder, read_only=True)
    attempt("insert into t values (4, 'd')", folder, read_only=True)
    attempt("select nextval('s')", folder, read_only=True)
    attempt("create temp table passing as select * from t", folder, read_only=True)
    attempt("checkpoint", folder, read_only=True)
    print({one: one.read_bytes() for one in Path(folder).iterdir()} == before)


def test_a_file_system_that_may_only_be_read(tmp_path: Path) -> None:
    refused = "PLACE/db was opened with read_only=True"
    assert mounted("read", tmp_path / "place", "16m") == [
        "PLACE/db cannot be opened: Read-only file system; "
        "hint: read it by connect(read_only=True) or kpg sql --read-only, or see to its permissions",
        "PLACE/new cannot be made: Read-only file system; hint: see to its permissions",
        "[(3, 'c')]",
        *[refused] * 4,
        "True",
    ]


def fill(place: str) -> None:
    folder, ballast = f"{place}/db", Path(place, "ballast")
    db = kpg.connect(folder)
    db.sql("create table t (k int primary key, v text); create sequence s")
    db.sql("create materialized view n as select count(*) n from t")
    db.sql("insert into t values (1, 'a')")
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            print(error.strerror)
    many = "insert into t select i, repeat('x', 100) || i from generate_series(10, {}) s(i)"
    for text in (
        many.format(20_000),
        many.format(200_000),
        "create table u as select * from t",
        "checkpoint",
    ):
        try:
            db.sql(text)
            print("done")
        except kpg.OperationalError as error:
            print(str(error).splitlines()[0])
    print(db.query("select n, count(*) from n, t group by n").fetchall())
    db.close()
    print(kpg.connect(folder, read_only=True).query("select * from t").fetchall())
    ballast.unlink()
    with kpg.connect(folder) as again:
        again.sql("insert into t values (2, 'room again')")
        print(again.query("select n from n").fetchall())


def test_a_file_system_that_is_full(tmp_path: Path) -> None:
    full = "PLACE/db could not be written to: No space left on device"
    assert mounted("fill", tmp_path / "place", "12m") == [
        "No space left on device",
        *[f"the commit was refused: {full}"] * 4,
        "[(1, 1)]",
        "[(1, 'a')]",
        "[(2,)]",
    ]
