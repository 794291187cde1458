"""Processes that are killed amid what rewrites much: the vacuum, ALTER, COPY, merges, checkpoints, workers.

Each load is a sequence of commits, of which the n-th is the same whenever it is made. So what a process has
left is compared, all of it, with a database in memory that has made as many: as many as were told of, or one
more. Some processes get signals all the while, which end a call of the system early, or Ctrl-C; some have
history, whose views another goes on to follow where it stopped, and positions of a source.

``python -m tests.properties.kill_loads --times 300`` kills so often, each load in turn; ``--load copy`` one.
"""

import argparse
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

import kpg
from kpg.api.database import Database
from kpg.persistence.inspection import check_contents
from kpg.runtime.cluster.messages import MemberLostError
from tests.model.durable import comparable, contents, difference
from tests.properties.kills import kill_children
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Commit = Callable[[Database, int], None]
COPIED = 3000
"""Rows of a file that is copied, many for a database whose large commits begin at a few."""
MOST = 100
"""Commits of a life; a process that has made so many waits for its end, as the model makes them all again."""
TICK = 0.0007
"""Seconds between signals."""


@dataclass(frozen=True)
class Load:
    """What a process does: at first, and as its n-th commit; and how it has the folder open."""

    start: str
    commit: Commit
    workers: int = 1
    history: int | None = None
    large: int = 1 << 18
    """Bytes of log after which a checkpoint begins."""
    signals: signal.Signals | None = None


def numbered(db: Database, n: int, *texts: str) -> None:
    """One commit of statements, which says that it is the n-th."""
    with db.transaction():
        for text in texts:
            db.sql(text)
        db.sql(f"update done set n = {n}")


ROWS = """
    create table t (k int primary key, g int, v text); create index t_g on t (g);
    create table h (k int, v int);
    create materialized view groups as select g, count(*) n, max(v) m from t group by g;
    create materialized view tops as select k, v from t order by k desc limit 5;
    create materialized view both_of as select h.v, count(*) n from t join h on t.k = h.k group by h.v
"""


def churn(db: Database, n: int) -> None:
    """Most rows go soon after they came, so that the vacuum has much to give up and to write anew."""
    first = 200 * n
    numbered(
        db,
        n,
        f"insert into t select i, i % 7, 'word ' || i % 50 from generate_series({first}, {first + 199}) s(i)",
        f"insert into h select i, i % 3 from generate_series({first}, {first + 99}) s(i)",
        f"delete from t where k < {first - 300} and k % 5 <> {n % 5} and k >= {first - 1500}",
        f"delete from h where k < {first - 200} and k % 11 <> 3",
        f"update t set v = 'new {n}' where k % 97 = {n % 97}",
    )
    db.sql("vacuum")


ALTERED = (
    "alter table a add column c int default 7",
    "insert into a (k, g, v) select i, i % 4, 'x' from generate_series({first}, {first} + 9) s(i)",
    "alter table a rename column c to d",
    "drop view below cascade; create view below as select k, g, upper(v) as v from a where k % 3 <> 1; "
    "create materialized view over_below as select g, count(*) n, max(v) m from below group by g",
    "insert into wide values ({n}, {n}); alter table wide alter column c type bigint",
    "update a set d = k * 2, v = v || 'y' where k % 4 = 1",
    "create table p{n} partition of p for values from ({first}) to ({first} + 10)",
    "insert into p select i, i % 4, 'z' from generate_series({first} - 25, {first} + 5) s(i)",
    "alter table a add constraint small check (d < 1000000)",
    "alter table a rename to b; alter table b rename to a",
    "create table q (k int, g int, v text); insert into f values ({n}, 2, 'q')",
    "alter table p attach partition q for values from ({first} + 40) to ({first} + 50); "
    "insert into p values ({first} + 41, 1, 'q')",
    "alter table a drop constraint small; create or replace view unkept as select k, g, v from f",
    "alter table p detach partition q; drop table q",
    "drop view below cascade; alter table a drop column d; alter table wide alter column c type int",
    "create view below as select k, g, v from a; "
    "create materialized view over_below as select g, count(*) n, max(v) m from below group by g",
    "create or replace function twice(x int) returns int language sql return x * {n}; "
    "insert into f values ({n}, 1, 'f')",
    "delete from a where k % 3 = 0; delete from p where k % 2 = 0",
)


def alter(db: Database, n: int) -> None:
    """Definitions of tables that views are kept over."""
    numbered(db, n, ALTERED[(n - 1) % len(ALTERED)].format(n=n, first=10 * n))


def copy(db: Database, n: int) -> None:
    """Rows of a file, which go straight into packs, and rows of another that go."""
    path = Path(tempfile.gettempdir()) / f"kpg-copied-{os.getpid()}.csv"
    lines = (f"{COPIED * n + i},{i % 9},text {n} {i % 500}\n" for i in range(COPIED))
    path.write_text("".join(lines))
    try:
        numbered(db, n, f"copy t from '{path}' (format csv)", f"delete from t where k < {COPIED * (n - 4)}")
    finally:
        path.unlink()


def merge(db: Database, n: int) -> None:
    """A branch that has changed much, and is merged."""
    with db.branch() as branch:
        first = 50 * n
        branch.sql(f"insert into t select i, i % 7, 'b' from generate_series({first}, {first + 49}) s(i)")
        branch.sql(f"delete from t where k % 13 = {n % 13} and k < {first - 100}")
        branch.sql(f"update t set v = 'merged {n}' where k % 10 = {n % 10}")
        branch.sql(f"insert into h select k, g from t where k >= {first} and g = 2; update done set n = {n}")
        branch.merge()


def read(db: Database, n: int) -> None:
    """Rows of a source, with its position."""
    rows = [(n, n % 5, f"row {n}"), (-n, n % 3, "its other")]
    with db.transaction():
        db.insert("t", rows, position=("topic", n))
        db.sql(f"delete from t where k between 1 and {n - 40} and k % 4 = {n % 4}; update done set n = {n}")


PARTED = """
    create table a (k int, g int, v text); create view below as select k, g, v from a;
    create table wide (k int, c int); create table f (k int, g int, v text);
    create view unkept as select k, g, upper(v) as v from f;
    create function twice(x int) returns int language sql return x * 2;
    create table p (k int, g int, v text) partition by range (k); create table rest partition of p default;
    create materialized view over_below as select g, count(*) n, max(v) m from below group by g;
    create materialized view over_p as select g, count(*) n, max(k) m from p group by g;
    create materialized view over_both as select f.v, count(*) n from f join p on f.k = p.k group by f.v;
    create materialized view over_unkept as select v, count(*) n from unkept group by v;
    create materialized view over_twice as select k, twice(g) t from f
"""
LOADS = {
    "vacuum": Load(ROWS, churn),
    "alter": Load(PARTED, alter, large=1 << 13),
    "copy": Load(ROWS, copy),
    "merge": Load(ROWS, merge),
    "checkpoint": Load(ROWS, churn, large=1),
    "workers": Load(ROWS, churn, workers=2),
    "signals": Load(ROWS, churn, large=1 << 16, signals=signal.SIGALRM),
    "interrupted": Load(ROWS, churn, large=1 << 16, signals=signal.SIGINT),
    "source": Load(f"{ROWS}; set position 'topic' = 0", read, history=10**6, large=1 << 14),
}


def write(folder: str, name: str, telling: "Connection") -> None:
    """Commit, and tell of each commit when it has returned; end when killed."""
    import kpg.persistence.checkpoints
    import kpg.persistence.write_ahead_log
    import kpg.runtime.tables.row_groups

    load = LOADS[name]
    kpg.persistence.checkpoints.MIN_LOG_BYTES = load.large  # type: ignore[misc]
    kpg.runtime.tables.row_groups.GROUP_BYTES = 1 << 14  # type: ignore[misc]
    kpg.persistence.write_ahead_log.MIN_PACK_BYTES = 1 << 16  # type: ignore[misc]
    with kpg.connect(folder, workers=load.workers, history=load.history) as db:
        n = begin(db, load)
        telling.send(n)
        with disturbed(load.signals) as disturbing:
            for _ in range(MOST):
                n = committed(load, db, n + 1, disturbing)
                telling.send(n)
            while True:
                time.sleep(60)


def begin(db: Database, load: Load) -> int:
    """Have the tables be there; how many commits have been made."""
    if not db.tables().fetchall():
        with db.transaction():
            db.sql(f"create table done (n int); insert into done values (0); {load.start}")
    ((n,),) = db.query("select n from done").fetchall()
    return int(n)


def committed(load: Load, db: Database, n: int, disturbing: "Disturbing") -> int:
    """Make the n-th commit, again if Ctrl-C, or a worker that was killed, has ended it before it was one."""
    while True:
        with suppress(KeyboardInterrupt, MemberLostError):
            disturbing.presses = False
            if db.query("select n from done").fetchall() == [(n,)]:
                return n
            disturbing.presses = True
            load.commit(db, n)


class Disturbing:
    """What a signal does: nothing, or press Ctrl-C where that is expected."""

    def __init__(self) -> None:
        self.presses = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.presses:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def disturbed(number: signal.Signals | None) -> Iterator[Disturbing]:
    """Have this process get a signal again and again; Ctrl-C less often, as it ends what is under way."""
    disturbing = Disturbing()
    if number is None:
        yield disturbing
        return
    often = 0.03 if number is signal.SIGINT else TICK
    signal.signal(signal.SIGALRM, disturbing if number is signal.SIGINT else lambda alarm, frame: None)
    signal.setitimer(signal.ITIMER_REAL, often, often)
    try:
        yield disturbing
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Model:
    """What a load leaves: a database in memory that goes on as far as the process had come."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._db = kpg.connect()
        self.last = begin(self._db, load)

    def check(self, db: Database, told: int) -> None:
        """Have a database be as after the last commit that was told of, or the one behind it."""
        ((found,),) = db.query("select n from done").fetchall()
        assert told <= found <= told + 1, (found, told)
        while self.last < found:
            self.last += 1
            self._load.commit(self._db, self.last)
        wrong = difference(comparable(contents(db)), comparable(contents(self._db)))
        assert not wrong, (found, wrong)
        assert not (lines := list(check_contents(db._engine))), lines


class Follower:
    """Who follows a view over several lives of the database, and has each change once."""

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._rows: Counter[tuple[Any, ...]] = Counter()

    def check(self, db: Database) -> None:
        """Go on where it stopped; what it has is what the view has, and the source's position the last."""
        rows = Counter(map(tuple, db.query("select * from groups").fetchall()))
        for row, epoch, diff in db.view("groups").changes(since=self._epoch) if self._epoch else ():
            assert epoch > (self._epoch or 0)
            self._rows[tuple(row)] += diff
        kept = {row: count for row, count in self._rows.items() if count}
        assert self._epoch is None or kept == rows
        self._epoch, self._rows = db.epoch, rows
        ((n,),) = db.query("select n from done").fetchall()
        assert db.positions() == {"topic": n}
        assert db.query("select count(*), min(k) from t where k < 0").fetchall() == [(n, -n if n else None)]


class Lives:
    """The lives of one load in a folder, each ended by a kill."""

    def __init__(self, place: Path, name: str, how: str = "spawn") -> None:
        self.folder = place / name
        self.load = LOADS[name]
        self.told = self.kills = 0
        self._name = name
        self._how = how
        self._model: Model | None = None
        self._follower = Follower()

    def life(self, random: Generator, *, beside: bool = False) -> None:
        """Have a process write until it is killed, and look at what is left, ``beside`` it before, too."""
        context: Any = multiprocessing.get_context(self._how)
        heard, telling = context.Pipe(duplex=False)
        process = context.Process(target=write, args=(str(self.folder), self._name, telling))
        process.start()
        telling.close()
        try:
            self._lived(process.pid, heard, random, beside=beside)
        finally:  # nobody would end it who waits for processes at the end
            process.kill()
            process.join(PATIENCE)
        assert process.exitcode == -signal.SIGKILL, "it has ended by itself"
        self._hear(heard)
        heard.close()
        self.kills += 1
        self.check()

    def _lived(self, process: int, heard: "Connection", random: Generator, *, beside: bool) -> None:
        """Wait for the moment when a process is to be killed."""
        if random.random() < 0.85:
            self._hear(heard, until=int(random.integers(1, 8)))
            time.sleep(float(random.exponential(0.05)))
        else:  # while it opens
            time.sleep(float(random.exponential(0.3)))
        if beside and (self.folder / "manifest").exists():
            look(self.folder)
        if random.random() < 0.2:
            kill_children(process)
            time.sleep(float(random.exponential(0.05)))

    def _hear(self, heard: "Connection", until: int | None = None) -> None:
        """Hear so many messages, or all to the end."""
        with suppress(EOFError, OSError):
            while until is None or until > 0:
                self.told = max(self.told, heard.recv())
                until = None if until is None else until - 1

    def check(self) -> None:
        """Compare what is there with what was told of."""
        if not (self.folder / "manifest").exists():
            assert not self.told
            return
        self._model = self._model or Model(self.load)
        with kpg.connect(self.folder, read_only=True, history=self.load.history) as db:
            if not db.tables().fetchall():
                assert not self.told
                return
            self._model.check(db, self.told)
            self.told = self._model.last
            if self.load.history is not None:
                self._follower.check(db)


def look(folder: Path) -> None:
    """What others do with the folder while commits go on: nothing is wrong with what they see."""
    for command in ("check", "inspect"):
        found = subprocess.run(
            [sys.executable, "-m", "kpg", command, str(folder)], capture_output=True, text=True, check=False
        )
        assert found.returncode == 0, (command, found.stdout, found.stderr)


def main() -> None:
    """Kill as often as is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--load", choices=LOADS, action="append")
    given = parser.parse_args()
    random = np.random.default_rng(given.seed)
    names = given.load or list(LOADS)
    place = Path(tempfile.mkdtemp())
    # Processes begin as copies of one that has imported all this, and has no threads.
    multiprocessing.set_forkserver_preload(["tests.properties.kills", "kpg.persistence.recovery"])
    lives = {name: Lives(place, name, "forkserver") for name in names}
    for time_ in range(given.times):
        lives[names[time_ % len(names)]].life(random, beside=time_ % 30 == 29)
        if time_ % 10 == 9 or time_ == given.times - 1:
            commits = {name: one.told for name, one in lives.items()}
            print(f"killed {time_ + 1} times, commits: {commits}", flush=True)
    shutil.rmtree(place)
    print("none lost")


if __name__ == "__main__":
    main()
