"""Processes that are killed under load by a signal that they cannot notice, again and again.

One has a database itself: it commits rows, many rows, deletions, definitions and Datalog updates, with
checkpoints in the background, and tells of each commit once it has returned. The other serves a folder to
clients that insert. After each kill nothing that was told of may be missing, nothing may be half there, and
views have to be what they are computed to be.

``python -m tests.properties.kills --times 300`` does it so often, ``--serve`` to the server.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psycopg
from numpy.random import Generator

import kpg
from kpg.durable.checking import check_contents

ROOT = Path(__file__).parents[2]
MANY = 9000
"""Rows of a large commit, which are written before its record."""
KEPT = 4
"""Large commits that are there at a time."""
START = """
    create table t (k int primary key, v int); create table log (n int); create table big (n int, i int);
    create index big_n on big (n);
    create materialized view sums as select v % 5 g, count(*) n, sum(v) s from t group by v % 5;
    create materialized view sizes as select n, count(*) c, sum(i) s from big group by n;
    create materialized view last as select k, v from t order by k desc limit 3;
    create materialized view reach as with recursive r(x) as (
        select min(k) from t union select t.k from r join t on t.k = r.x + 1 where t.k % 50 <> 0)
        select x from r
"""
PROGRAM = """
.decl edge(a: number, b: number) .input edge
.decl tc(a: number, b: number) .output tc
tc(a, b) :- edge(a, b). tc(a, c) :- tc(a, b), edge(b, c).
"""


def write(folder: str) -> None:
    """Commit for ever; each commit is told when it has returned."""
    import kpg.durable.checkpoints

    kpg.durable.checkpoints.LARGE = 300_000  # type: ignore[misc]
    db = kpg.connect(folder)
    if not db.tables().fetchall():
        with db.transaction():
            db.sql(START)
        db.datalog(PROGRAM)
    (last,) = db.query("select coalesce(max(k), 0) from t").fetchone() or (0,)
    print(last, flush=True)
    while True:
        last += 1
        with db.transaction():
            db.sql(f"insert into t values ({last}, {last * 7 % 100})")
            db.sql(f"delete from log; insert into log values ({last})")
            if last % 10 == 0:
                db.sql(f"insert into big select {last}, i from generate_series(1, {MANY}) s(i)")
                db.sql(f"delete from big where n <= {last - 10 * KEPT}")
        if last % 7 == 0:
            db.sql(f"update t set v = v + 5 where k % 10 = {last % 10}")
        if last % 3 == 0:
            db.datalog(f"+edge({last % 9}, {last % 11}). -edge({last % 11}, {last % 9}).")
        if last % 23 == 0:
            db.sql(f"create or replace view shown as select * from t where k > {last}")
        if last % 60 == 0:
            db.sql("checkpoint")
        print(last, flush=True)


def check(folder: Path, told: int) -> int:
    """What a process has left: the last commit, which is the last that was told of, or the one after it."""
    with kpg.connect(folder, read_only=True) as db:
        if not db.tables().fetchall():
            assert not told
            return 0
        ((count, last),) = db.query("select count(*), coalesce(max(k), 0) from t").fetchall()
        assert last in (told, told + 1), (last, told)
        assert count == last
        assert db.query("select n from log").fetchall() == ([(last,)] if last else [])
        large = [n for n in range(10, last + 1, 10) if n > last // 10 * 10 - 10 * KEPT]
        total = MANY * (MANY + 1) // 2
        assert sorted(db.query("select * from sizes").fetchall()) == [(n, MANY, total) for n in large]
        assert not (wrong := list(check_contents(db._engine))), wrong
        return int(last)


def kill_writer(folder: Path, told: int, random: Generator) -> int:
    """A life of the process, and what is found after it."""
    command = [sys.executable, "-c", f"from tests.properties.kills import write; write({str(folder)!r})"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        if random.random() < 0.9:  # else while it opens
            first = writer.stdout.readline()
            assert int(first) in (told, told + 1), (first, told)
            told = int(first)
        time.sleep(float(random.exponential(0.4)))
        writer.send_signal(signal.SIGKILL)
        told = max([told, *(int(line) for line in writer.stdout.read().split())])
    return check(folder, told) if (folder / "manifest").exists() else 0


class Served:
    """A server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "kpg", "serve", str(folder), "--trust", "--listen", "127.0.0.1:0"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if "serves on" in line)
        self.dsn = f"host=127.0.0.1 port={line.split(':')[1].split(';')[0]} user=kpg dbname=kpg"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)
        assert self.process.stderr is not None
        self.process.stderr.close()


class Clients:
    """Clients of servers of one folder; ``acknowledged`` are the keys of rows that have been committed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.acknowledged: set[int] = set()
        self.lives = 0

    def insert(self, dsn: str, first: int) -> None:
        number = first
        with suppress(psycopg.Error), psycopg.connect(dsn, autocommit=True) as one:
            while True:
                if number % 5:
                    one.execute("insert into t values (%s, %s)", (number, number % 7))
                else:
                    with one.transaction():
                        one.execute("insert into t values (%s, 1)", (number,))
                        one.execute("insert into t values (%s, 2)", (-number,))
                self.acknowledged.add(number)
                number += 1

    def life(self, random: Generator) -> None:
        served = Served(self.folder)
        if not self.lives:
            with psycopg.connect(served.dsn, autocommit=True) as one:
                one.execute("create table t (id int primary key, g int)")
                one.execute("create materialized view v as select g, count(*) n from t group by g")
        self.lives += 1
        starts = [1 + 10**5 * (10 * self.lives + client) for client in range(4)]
        clients = [threading.Thread(target=self.insert, args=(served.dsn, start)) for start in starts]
        for client in clients:
            client.start()
        time.sleep(float(random.exponential(0.5)))
        served.kill()
        for client in clients:
            client.join()
        with kpg.connect(self.folder, read_only=True) as db:
            found = {number for (number,) in db.query("select id from t").fetchall()}
            assert self.acknowledged <= found
            more = {number for number in found if number > 0} - self.acknowledged
            assert len(more) <= 4 * self.lives
            assert {-n for n in found if n < 0} == {n for n in found if n > 0 and n % 5 == 0}
            assert not (wrong := list(check_contents(db._engine))), wrong


def main() -> None:
    """Kill as often as is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", action="store_true")
    given = parser.parse_args()
    random = np.random.default_rng(given.seed)
    with tempfile.TemporaryDirectory() as place:
        folder, told = Path(place) / "db", 0
        clients = Clients(folder)
        for time_ in range(given.times):
            if given.serve:
                clients.life(random)
                told = len(clients.acknowledged)
            else:
                told = kill_writer(folder, told, random)
            if time_ % 20 == 19:
                print(f"killed {time_ + 1} times, {told} commits", flush=True)
    print(f"killed {given.times} times, {told} commits, none lost")


if __name__ == "__main__":
    main()
