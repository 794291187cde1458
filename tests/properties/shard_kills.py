"""Databases killed while workers load rows into their folder: the one that commits, or one of the workers.

A process loads, over and over, rows that workers write into packs, makes a checkpoint now and then, and says
after each load that it is committed. It is killed at an instant that nobody chose; or it kills one of its
workers, and goes on. By whatever number of workers the folder is opened then, it has the loads that were told
of and perhaps the next, each whole or not at all, and no pack that nobody names.

``python -m tests.properties.shard_kills --times 50`` kills so often.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import kpg
from kpg.execute.changes import bulk_load
from kpg.persistence.inspection import check, check_contents, inspect_files
from kpg.runtime.cluster.transfer import AuthenticationError
from kpg.runtime.errors import OperationalError
from tests.unit.workers.apart import apart
from tests.unit.workers.test_landing import TABLE, VIEW, Parts, numbers, send

ROWS: Final = 3000
MOST: Final = 60
"""Loads of a life."""


def live(folder: str, workers: int, killing: bool, seed: int) -> None:
    """Load until somebody ends this process; each line says how many loads there are."""
    goes = bulk_load._goes_through_spark
    bulk_load._goes_through_spark = lambda source, mode: isinstance(source, Parts) or goes(source, mode)
    bulk_load.send_tables = send
    chance = random.Random(seed)
    with apart(workers, folder=folder) as db:
        if not db.tables().fetchall():
            db.sql(TABLE)
            db.sql(VIEW)
        done = count(db)
        print(done, flush=True)
        executor: Any = db._engine.executor
        for _ in range(MOST):
            if killing:
                victim = executor.crew.processes[chance.randrange(workers)]
                threading.Timer(chance.expovariate(10), kill, (victim,)).start()
            try:
                db.load("t", Parts(numbers(ROWS * done, ROWS * done + ROWS, 100)))
                done += 1
            except OperationalError as error:
                assert "worker" in str(error), error
            except (OSError, AuthenticationError):
                pass  # of a task, which is this process here, whose worker has gone
            print(done, flush=True)
            if chance.random() < 0.2:
                db.sql("checkpoint")


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def count(db: kpg.Database) -> int:
    """How many loads there are; each is whole."""
    rows = db.sql("select k / 3000, count(*) from t group by 1 order by 1").fetchall()
    assert rows == [(number, ROWS) for number in range(len(rows))], rows
    assert db.sql("select coalesce(sum(n), 0), coalesce(max(k), -1) from s").fetchall() == [
        (ROWS * len(rows), ROWS * len(rows) - 1)
    ]
    return len(rows)


def one_life(folder: Path, seed: int) -> int:
    """Have a process load, and end it; how many loads there are."""
    chance = random.Random(seed)
    workers, killing = chance.randint(2, 3), seed % 2 == 1
    command = [sys.executable, "-m", "tests.properties.shard_kills", "--live", str(folder)]
    command += ["--workers", str(workers), "--seed", str(seed), *(["--killing"] if killing else [])]
    # Whose coordinator is killed as it starts says so at length.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, "the folder could not be opened"
        timer = threading.Timer(chance.uniform(0, 4 if killing else 1.5), kill, (process.pid,))
        timer.start()
        told = int([first, *process.stdout.readlines()][-1])
    timer.join()
    assert process.returncode == -signal.SIGKILL, process.returncode
    assert not (wrong := list(check(folder))), wrong
    readers = chance.randint(1, 3)
    with kpg.connect(folder) if readers == 1 else apart(readers, folder=folder) as db:
        found = count(db)
        assert found in (told, told + 1), (found, told)
        assert not (wrong := list(check_contents(db._engine))), wrong
        assert not [one for one in inspect_files(folder) if one.kind == "pack" and one.details == "left over"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--live")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--killing", action="store_true")
    options = parser.parse_args()
    if options.live:
        live(options.live, options.workers, options.killing, options.seed)
        return
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.times):
            print(seed, one_life(Path(folder) / f"db{seed // 6}", seed), flush=True)


if __name__ == "__main__":
    main()
