"""Processes that are killed under load by a signal that they cannot notice, again and again.

One has a database itself: it commits rows, many rows, deletions, definitions and Datalog updates, with
checkpoints in the background, and tells of each commit once it has returned. The other serves a folder to
clients that insert. After each kill nothing that was told of may be missing, nothing may be half there, and
views have to be what they are computed to be.

``python -m tests.properties.kills --times 300`` does it so often, ``--serve`` to the server.
"""

import argparse
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from numpy.random import Generator

import kpg
from kpg.api.database import Database
from kpg.persistence.inspection import check_contents
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ROOT = Path(__file__).parents[2]
MANY = 9000
"""Rows of a large commit, which are written before its record."""
KEPT = 4
"""Large commits that are there at a time."""
START = """
    create table t (k int primary key, v int); create table log (n int); create table big (n int, i int);
    create index big_n on big (n); create table forked (n int, i int);
    create materialized view forks as select n, count(*) c from forked group by n;
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


def write(folder: str, mode: str, telling: "Connection") -> None:
    """Commit for ever; each commit is told when it has returned, and the first error."""
    try:
        commit(folder, mode, telling)
    except kpg.OperationalError as error:
        telling.send((str(error), 0))


def commit(folder: str, mode: str, telling: "Connection") -> None:
    import kpg.persistence.checkpoints

    kpg.persistence.checkpoints.MIN_LOG_BYTES = 300_000  # type: ignore[misc]
    db = kpg.connect(folder, synchronous=mode)
    if not db.tables().fetchall():
        with db.transaction():
            db.sql(START)
        db.datalog(PROGRAM)
    (last,) = db.query("select coalesce(max(k), 0) from t").fetchone() or (0,)
    if last and last % 11 == 0:  # whoever was killed may have been about to
        fork(db, last)
    telling.send(("commit", last))
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
        if last % 11 == 0:
            fork(db, last)
        if last % 40 == 0:
            backup(db, f"{folder} copy")
            telling.send(("copy", last))
        if last % 60 == 0:
            db.sql("checkpoint")
        telling.send(("commit", last))


def fork(db: Database, last: int) -> None:
    """Merge a branch that has two rows more."""
    if not db.query(f"select 1 from forked where n = {last}").fetchall():
        with db.branch() as branch:
            branch.sql(f"insert into forked values ({last}, 1); insert into forked values ({last}, 2)")
            branch.merge()


def backup(db: Database, folder: str) -> None:
    """Copy the database as it is after a commit; what is there of an older copy goes first."""
    shutil.rmtree(folder, ignore_errors=True)
    db.backup(folder)


def check_copy(folder: Path, begun: int) -> bool:
    """A backup that was killed is no database, one that was not is as the database was."""
    if not (folder / "manifest").exists():
        return False
    with kpg.connect(folder, read_only=True) as db:
        ((count, last),) = db.query("select count(*), max(k) from t").fetchall()
        assert last == count and last in (begun, begun + 40), (last, begun)
        assert not (wrong := list(check_contents(db._engine))), wrong
    return True


def check(folder: Path, told: int, beyond: int = 1) -> int:
    """What a process has left: the last commit, which is the last that was told of, or one behind it."""
    with kpg.connect(folder, read_only=True) as db:
        if not db.tables().fetchall():
            assert not told
            return 0
        ((count, last),) = db.query("select count(*), coalesce(max(k), 0) from t").fetchall()
        assert told <= last <= told + beyond, (last, told)
        told = max(told, last - 1)
        assert count == last
        assert db.query("select n from log").fetchall() == ([(last,)] if last else [])
        large = [n for n in range(10, last + 1, 10) if n > last // 10 * 10 - 10 * KEPT]
        forks = sorted(db.query("select * from forks").fetchall())
        assert all(c == 2 for _, c in forks)
        # The last one may be missing if its process was killed before it, and the next one, too.
        forked, told_of = [n for n, _ in forks], list(range(11, told + 1, 11))
        assert forked in (told_of, [*told_of, told + 1], list(range(11, told, 11))), (forked, told)
        total = MANY * (MANY + 1) // 2
        assert sorted(db.query("select * from sizes").fetchall()) == [(n, MANY, total) for n in large]
        assert not (wrong := list(check_contents(db._engine))), wrong
        return int(last)


class Writer:
    """A process that writes into a folder, and what it has told of."""

    def __init__(self, folder: Path, mode: str = "full", how: str = "spawn") -> None:
        """``how`` is ``fork`` where a process is to begin at once, from one that has no other threads."""
        context: Any = multiprocessing.get_context(how)
        self._told, telling = context.Pipe(duplex=False)
        self.process = context.Process(target=write, args=(str(folder), mode, telling), daemon=True)
        self.process.start()
        telling.close()
        self.lines: list[tuple[str, int]] = []

    def hear(self) -> bool:
        """Wait until it tells of something more; whether it did."""
        try:
            self.lines.append(self._told.recv())
        except (EOFError, OSError):
            return False
        return True

    def listen(self) -> None:
        """Hear what it has told so far."""
        while self._told.poll() and self.hear():
            pass

    def kill(self) -> None:
        """End it, and hear what it has told before."""
        self.process.kill()
        while self.hear():
            pass
        self.process.join(PATIENCE)
        self._told.close()

    def last(self, what: str) -> int | None:
        """The last number that it has told."""
        return max((number for kind, number in self.lines if kind == what), default=None)


def kill_writer(folder: Path, told: int, random: Generator, how: str = "spawn") -> int:
    """A life of the process, and what is found after it."""
    writer = Writer(folder, how=how)
    if random.random() < 0.85:
        assert writer.hear()
        assert writer.lines[0][1] in (told, told + 1), (writer.lines, told)
        time.sleep(float(random.exponential(0.4)))
    else:  # while it opens
        time.sleep(float(random.exponential(0.03 if how == "fork" else 1)))
    if random.random() < 0.2:
        kill_children(writer.process.pid)
        time.sleep(float(random.exponential(0.1)))
    writer.kill()
    told = max(told, writer.last("commit") or 0)
    copied = writer.last("copy")
    if copied is not None:
        check_copy(folder.with_name(f"{folder.name} copy"), copied)
    return check(folder, told) if (folder / "manifest").exists() else 0


def kill_children(process: int | None) -> None:
    """End those that write checkpoints for a process, if there are any."""
    with suppress(OSError):
        for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)


class Served:
    """A server in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "kpg", "serve", str(folder), "--trust", "--listen", "127.0.0.1:0"]
        command += options
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if "serves on" in line)
        self.ports = [int(port) for port in re.findall(r":(\d+)", line)]
        """Of the protocol and, with ``--http``, of HTTP."""
        self.dsn = f"host=127.0.0.1 port={self.ports[0]} user=kpg dbname=kpg"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
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
                told = kill_writer(folder, told, random, "fork")
            if time_ % 20 == 19:
                print(f"killed {time_ + 1} times, {told} commits", flush=True)
    print(f"killed {given.times} times, {told} commits, none lost")


if __name__ == "__main__":
    main()
