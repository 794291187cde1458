"""Workers that are killed at instants that nobody chose, and right before and after each thing they do."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kpg
from kpg.runtime.errors import OperationalError
from tests.properties.worker_kills import HOW, Kills
from tests.unit.workers.test_processes import gone
from tests.waiting import until

Call = Callable[..., Any]


@pytest.mark.parametrize("how", HOW)
def test_workers_that_end_at_any_instant_take_nothing_with_them(how: str, tmp_path: Path) -> None:
    kills = Kills(tmp_path / "db", np.random.default_rng(11))
    kills.life(how, 3)
    assert kills.kills == 3 and kills.commits > 3


def struck(crew: Any, method: str, *, before: bool) -> None:
    """Have worker 1 be killed right before, or after, it is told the next time to do something."""

    def kill() -> None:
        crew.call, crew.send = call, tell
        process = crew.processes[1]
        os.kill(process, signal.SIGKILL)
        until(lambda: gone(process))

    def around(told: Call) -> Call:
        def telling(command: Any, *args: Any) -> Any:
            if command.method != method:
                return told(command, *args)
            if before:
                kill()
                return told(command, *args)
            found = told(command, *args)
            kill()
            return found

        return telling

    call, tell = crew.call, crew.send
    crew.call, crew.send = around(call), around(tell)


INSERT = "insert into t select i, i % 3 from generate_series(1001, 1030) s(i)"
VIEW = "create materialized view w as select g from t where k > 5"


@pytest.mark.parametrize(
    ("method", "before", "text", "happens"),
    [
        ("change", True, INSERT, False),
        ("change", False, INSERT, True),
        ("settle", True, INSERT, True),
        ("settle", False, INSERT, True),
        ("put", True, VIEW, False),
        ("put", False, VIEW, True),
        ("observe", True, "", True),
        ("table", True, "create table u (k int); insert into u values (1)", True),
        ("drop_table", False, "drop table e", True),
        ("drop", True, "drop view v; insert into t values (2000, 1)", True),
        ("rename_table", False, "alter table e rename to f", True),
    ],
)
def test_a_worker_killed_around_what_it_is_told(
    method: str, before: bool, text: str, happens: bool, tmp_path: Path
) -> None:
    """A change that it has not answered has not happened; one that is in the log has, whoever is gone."""
    with kpg.connect(tmp_path / "db", workers=2) as db, kpg.connect() as one:
        for each in (db, one):
            each.sql("create table t (k int primary key, g int); create table e (k int)")
            each.sql("insert into t select i, i % 3 from generate_series(1, 1000) s(i)")
            each.sql("create materialized view v as select g, count(*) as n from t group by g")
            each.sql("create materialized view s as select g, sum(k) as k from t group by g")
        told: list[Any] = []
        executor: Any = db._engine.executor
        crew = executor.crew
        struck(crew, method, before=before)
        db.view("s").subscribe(told.append)
        if happens:
            db.sql(text or INSERT)
            one.sql(text or INSERT)
        else:
            with pytest.raises(OperationalError, match=r"worker 1 \(process \d+\) was ended by signal 9"):
                db.sql(text)
        assert contents(db) == contents(one)
        for each in (db, one):
            each.sql("update t set g = 5 where k < 10")
        assert contents(db) == contents(one)
        changed = text.startswith("insert") or "insert into t" in text or not text
        assert len(told) == 1 + (happens and changed)
    with kpg.connect(tmp_path / "db") as db, kpg.connect() as again:
        assert contents(db)["t"][:1] == [(1, 5)] and not again.tables().fetchall()


def contents(db: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all tables and views."""
    names = [row[0] for row in (*db.tables().fetchall(), *db.views().fetchall())]
    return {name: sorted(db.query(f"select * from {name}").fetchall()) for name in names}


COMMITTING = """
import sys
import kpg
from tests.unit.workers.apart import apart

folder, how = sys.argv[1:]
with kpg.connect(folder, workers=2) if how == "processes" else apart(2, folder=folder) as db:
    db.sql("create table t (k int primary key, g int)")
    db.sql("create materialized view v as select g, count(*) as n from t group by g")
    print(*db._engine.executor.crew.processes, flush=True)
    n = 0
    while True:
        db.sql(f"insert into t select i, i % 7 from generate_series({n}, {n + 999}) s(i)")
        n += 1000
        print(n, flush=True)
"""


@pytest.mark.parametrize("how", ["processes", "apart"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_parent_killed_amid_its_commits_leaves_no_orphans(how: str, seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    command = [sys.executable, "-c", COMMITTING, str(tmp_path / "db"), how]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        workers = [int(one) for one in parent.stdout.readline().split()]
        ends = list[int]()
        for worker in workers:
            ends.append(os.pidfd_open(worker))
        for _ in range(int(random.integers(1, 5))):
            last = int(parent.stdout.readline())
        time.sleep(float(random.exponential(0.01)))
        parent.kill()
        for line in parent.stdout:
            with suppress(ValueError):  # half a line
                last = max(last, int(line))
    for worker, end in zip(workers, ends, strict=True):
        waited = [sys.executable, "-c", WAIT, str(end)]
        assert subprocess.run(waited, pass_fds=[end], check=False).returncode == 0, worker
        os.close(end)
    assert len(workers) == 2
    with kpg.connect(tmp_path / "db", workers=2) as db:
        ((count,),) = db.query("select count(*) from t").fetchall()
        assert count in (last, last + 1000)
        assert sum(n for _, n in db.query("select * from v").fetchall()) == count


WAIT = "import select, sys; sys.exit(not select.select([int(sys.argv[1])], [], [], 300)[0])"
