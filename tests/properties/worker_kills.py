"""Workers that are killed, or cut off, at instants that nobody chose, while a database in a folder commits.

A statement that ends in an error has not happened, and one that returns has: so what is there is known to the
row, in memory and in the folder that is opened next, by another number of workers. Who listens to a view
hears of each commit once. ``how`` they end: a process that is killed, with memory in common or without, or
the connections to the coordinator that are cut.

``python -m tests.properties.worker_kills --minutes 10`` goes on so long, by turns in each way.
"""

import argparse
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.random import Generator

import kpg
from kpg.api.database import Database
from kpg.persistence.inspection import check_contents
from kpg.runtime.cluster.transport import NetworkMembers
from kpg.runtime.errors import OperationalError
from kpg.runtime.trace.merge import EFFORT
from kpg.session.distribution import Workers
from tests.unit.workers.apart import Through, apart

START: Final = """
    create table t (k int primary key, g int);
    create materialized view sums as select g, count(*) as n, sum(k) as s from t group by g;
    create materialized view pairs as
        select a.g, count(*) as n from t a join t b on a.k + 1 = b.k group by a.g;
    create materialized view reached as with recursive r(k) as (
        select min(k) from t union select t.k from r join t on t.k = r.k + 1 where t.k % 40 <> 0)
        select count(*) as n from r
"""
HOW: Final = ("processes", "apart", "cut")
Changes = list[tuple[tuple[Any, ...], int, int]]


def opened(how: str, folder: Path, count: int, small: int) -> tuple[Database, Callable[[int], None]]:
    """A database of so many workers, and what ends one of them."""
    if how == "cut":
        starter = Through()
        crew = NetworkMembers(count, EFFORT, starter)
        return Database(workers=Workers(crew, small), folder=folder), lambda _: starter.cut()
    if how == "apart":
        db = apart(count, small, folder=folder)
    else:
        db = kpg.connect(folder, workers=count)
    executor: Any = db._engine.executor
    crew = executor.crew

    def kill(number: int) -> None:
        with suppress(ProcessLookupError, IndexError):  # they are just being started again
            os.kill(crew.processes[number % count], signal.SIGKILL)

    return db, kill


class Kills:
    """One folder, and what has to be in it."""

    def __init__(self, folder: Path, random: Generator) -> None:
        self._folder = folder
        self._random = random
        self._rows: dict[int, int] = {}
        self._views = 0
        self._next = 1
        self.failed = self.kills = 0

    @property
    def commits(self) -> int:
        """The keys that were ever tried."""
        return self._next

    def life(self, how: str, kills: int) -> None:
        """Open the folder by some workers, and end one of them so often."""
        count, small = int(self._random.integers(2, 4)), int(self._random.choice([0, 1000]))
        db, end = opened(how, self._folder, count, small)
        with db:
            if not db.tables().fetchall():
                db.sql(START)
            self._check(db)
            told: list[Changes] = []
            heard = Counter(map(tuple, db.query("select * from sums").fetchall()))
            db.view("sums").subscribe(told.append)
            for _ in range(kills):
                self._until_killed(db, end)
                self._check(db)
            for row, _, diff in (change for each in told for change in each):
                heard[tuple(row)] += diff
            assert +heard == self._sums() and min(heard.values(), default=0) >= 0
        with kpg.connect(self._folder, read_only=True) as db:
            self._check(db)
            assert not (wrong := list(check_contents(db._engine))), wrong

    def _until_killed(self, db: Database, end: Callable[[int], None]) -> None:
        """Commit until a worker has ended, and a little longer."""
        delay = float(self._random.exponential(0.1))
        timer = threading.Timer(delay, end, (int(self._random.integers(0, 9)),))
        timer.start()
        until = time.monotonic() + delay + 0.05
        while time.monotonic() < until:
            self._commit(db)
        timer.join()
        self.kills += 1
        self._commit(db)

    def _commit(self, db: Database) -> None:
        """A statement, or some; of what ends in an error nothing has happened."""
        after = dict(self._rows)
        texts = self._statements(after)
        try:
            if len(texts) == 1:
                db.sql(texts[0])
            else:
                with db.transaction():
                    for text in texts:
                        db.sql(text)
        except OperationalError as error:
            assert "worker" in str(error), error
            self.failed += 1
        else:
            self._rows = after

    def _statements(self, after: dict[int, int]) -> list[str]:
        """What to do next, and what there is then."""
        n, kind = int(self._random.choice([1, 20, 3000])), int(self._random.integers(0, 8))
        first, self._next = self._next, self._next + n
        after.update((k, k % 5) for k in range(first, first + n))
        texts = [f"insert into t select i, i % 5 from generate_series({first}, {first + n - 1}) s(i)"]
        if kind == 0:
            texts.append(f"delete from t where k % 7 = {first % 7}")
            for k in [k for k in after if k % 7 == first % 7]:
                del after[k]
        elif kind == 1:
            texts.append(f"update t set g = 9 where k % 11 = {first % 11}")
            after.update((k, 9) for k in after if k % 11 == first % 11)
        elif kind == 2:
            texts = [f"delete from t where k < {first - 4000}"]
            for k in [k for k in after if k < first - 4000 or k >= first]:
                del after[k]
        elif kind == 3:
            after.clear()
            after.update(self._rows)
            texts = [f"create or replace materialized view more as select g + {first} as g, k from t"]
        elif kind == 4:
            after.clear()
            after.update(self._rows)
            texts = ["checkpoint"]
        return texts

    def _sums(self) -> Counter[tuple[Any, ...]]:
        found: dict[int, list[int]] = {}
        for k, g in self._rows.items():
            found.setdefault(g, []).append(k)
        return Counter({(g, len(keys), sum(keys)): 1 for g, keys in found.items()})

    def _check(self, db: Database) -> None:
        """What is there is what has been committed; a view's rows are those of the same query."""
        there = dict(db.query("select k, g from t").fetchall())
        assert there == self._rows, (len(there), len(self._rows))
        assert Counter(map(tuple, db.query("select * from sums").fetchall())) == self._sums()
        pairs = Counter(g for k, g in self._rows.items() if k + 1 in self._rows)
        assert dict(db.query("select * from pairs").fetchall()) == pairs
        k = reached = min(self._rows, default=0)
        while reached + 1 in self._rows and (reached + 1) % 40:
            reached += 1
        assert db.query("select n from reached").fetchall() == [(reached - k + 1,)]


def main() -> None:
    """Kill for as long as is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--how", choices=HOW, action="append")
    given = parser.parse_args()
    random, ways = np.random.default_rng(given.seed), given.how or list(HOW)
    place, lives = Path(tempfile.mkdtemp()), 0
    kills, until = Kills(place / "db", random), time.monotonic() + 60 * given.minutes
    while time.monotonic() < until:
        kills.life(ways[lives % len(ways)], 4)
        lives += 1
        print(
            f"{lives} lives, {kills.kills} kills, {kills.failed} statements ended, {kills.commits} keys",
            flush=True,
        )
    shutil.rmtree(place)
    print("none lost")


if __name__ == "__main__":
    main()
