"""Random histories of sessions that lock rows and tables, step by step, beside a real Postgres.

One statement is begun at a time, in a fixed order; then it is seen who is done, with which rows or which
SQLSTATE, and who waits. Both have to agree on all of that, and on the tables in the end. Who has waited sees
in kpg what there is then, and in Postgres only the new version of the row: so no statement here reads other
rows that may have changed meanwhile.
``python -m tests.properties.locking --minutes 20`` goes on for as long.
"""

import argparse
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.oracle.postgres import serving
from tests.unit.server.conftest import Running
from tests.unit.server.conftest import serving as served
from tests.waiting import PATIENCE

KEYS: Final = 4
MODES: Final = ("update", "no key update", "share", "key share")
TABLE_MODES: Final = (
    *("access share", "row share", "row exclusive", "share update exclusive", "share"),
    *("share row exclusive", "exclusive"),
)
"""Not ACCESS EXCLUSIVE, which does not wait for who has only read."""
START: Final = (
    "create table t (id int primary key, x int)",
    "create table u (id int primary key, x int)",
    "create table w (id int primary key, x int)",
    "insert into w select i, i from generate_series(1, 4) g(i)",
    "insert into t select i, 0 from generate_series(1, 4) g(i)",
    "insert into u select i, 0 from generate_series(1, 4) g(i)",
)
Outcome = tuple[Any, ...]
BLOCKED: Final = """
    with recursive b(pid) as (
        select unnest(pg_blocking_pids(%(number)s)) union select unnest(pg_blocking_pids(b.pid)) from b)
    select count(*) > 0 and not bool_or(pid = %(number)s) from b
"""


class Asked:
    """A statement that one session runs in a thread."""

    def __init__(self, work: Callable[[], Outcome]) -> None:
        self.outcome: Outcome | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.outcome = self._work()

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "a statement neither ends nor waits"


class Side:
    """One database with several connections."""

    def __init__(self, address: str, waits: Callable[[int], bool], count: int) -> None:
        self.asked: list[Asked | None] = [None] * count
        self._waits = waits
        with psycopg.connect(address, autocommit=True) as one:
            one.execute("drop table if exists t, u, w cascade")
            for text in START:
                one.execute(text.encode())
        self.all = [psycopg.connect(address, autocommit=True, prepare_threshold=1) for _ in range(count)]

    def begin(self, session: int, text: str) -> None:
        """Begin a statement."""
        assert self.asked[session] is None
        self.asked[session] = Asked(lambda: self._work(session, text))

    def _work(self, session: int, text: str) -> Outcome:
        """Run a statement: its tag and its rows, or its SQLSTATE."""
        try:
            found = self.all[session].execute(text.encode())
            return (found.statusmessage, found.fetchall()) if found.description else (found.statusmessage,)
        except psycopg.Error as error:
            return (error.sqlstate,)

    def settled(self) -> list[Outcome]:
        """What has come of all statements that had been begun, once nothing moves any more."""
        end, before = time.monotonic() + PATIENCE, None
        while time.monotonic() < end:
            now = [self._state(session) for session in range(len(self.asked))]
            if None not in now and now == before:
                break
            before = now
            time.sleep(0.004)
        else:
            raise AssertionError(f"neither done nor waiting: {now}")
        for session, one in enumerate(self.asked):
            if one is not None and one.outcome is not None:
                one.join()
                self.asked[session] = None
        return [one for one in now if one is not None]

    def _state(self, session: int) -> Outcome | None:
        one = self.asked[session]
        if one is None:
            return ()
        if one.outcome is not None:
            return one.outcome
        return ("waits",) if self._waits(self.all[session].info.backend_pid) else None

    def close(self) -> None:
        """End all connections, and what they wait for."""
        for session, asked in enumerate(self.asked):
            while asked is not None and asked.outcome is None:
                self.all[session].cancel_safe()
                time.sleep(0.005)
        for one in self.all:
            one.close()


class Sides:
    """kpg's server and a real Postgres, with a connection that sees who waits there."""

    def __init__(self, running: Running, address: str) -> None:
        self.running, self.address = running, address
        self._watch = psycopg.connect(address, autocommit=True)
        self._watch.execute("alter system set deadlock_timeout = '1ms'")
        self._watch.execute("select pg_reload_conf()")

    def close(self) -> None:
        """End the connection."""
        self._watch.close()

    def waits_here(self, number: int) -> bool:
        """Whether a session of kpg waits, and nobody is about to have it go on."""
        hub = self.running.db.hub
        waits = hub.sessions[number] in hub.waiting_statements
        return waits and not (hub.waiting_statements.ready or hub._waiting or hub._running_thread)

    def waits_there(self, number: int) -> bool:
        """Whether a session of Postgres waits: one that waits for itself is about to be ended."""
        row = self._watch.execute(BLOCKED, {"number": number}).fetchone()
        return row is not None and bool(row[0])


class Writer:
    """Random statements of sessions."""

    def __init__(self, chance: random.Random, count: int) -> None:
        self.chance = chance
        self.tables = chance.random() < 0.4
        self.deletes = not self.tables and chance.random() < 0.5
        """Whether rows are deleted: then none comes again, which who has waited for it would find here."""
        """Whether tables are locked, too: every change then finds a row, as only such hold tables."""
        self.open = [False] * count
        self.fresh = 100

    def statement(self, session: int) -> str:
        chance = self.chance
        if not self.open[session] and chance.random() < 0.7:
            self.open[session] = True
            return f"begin isolation level {chance.choice(('read committed',) * 4 + ('repeatable read',))}"
        if self.open[session] and chance.random() < 0.2:
            self.open[session] = False
            return chance.choice(("commit", "commit", "rollback"))
        if self.open[session] and chance.random() < 0.12:
            return chance.choice(
                ("savepoint a", "savepoint b", "rollback to a", "rollback to b", "release a")
            )
        more = (self.lock,) if self.tables else ()
        return self.chance.choice((self.select, self.select, self.change, self.change, *more))()

    def select(self) -> str:
        chance = self.chance
        words = f"for {chance.choice(MODES)}"
        mode = f"{words}{chance.choice(('', '', ' nowait', ' skip locked'))}"
        table = chance.choice(("t", "t", "u"))
        key = chance.randrange(1, KEYS + 1)
        kinds = (
            f"select id, x from {table} where id = {key} {mode}",
            f"select id, x from {table} where id in ({key}, {key % KEYS + 1}) order by id {mode}",
            f"select id from t order by id limit 2 {mode if 'skip' in mode else 'for update skip locked'}",
            f"select t.id, w.x, t.x from t join w using (id) where id = {key} {words} of t",
            f"select id, x from {table} where id = {key}",
            f"select count(*), sum(x) from {table}",
        )
        return chance.choice(kinds)

    def change(self) -> str:
        chance = self.chance
        table = chance.choice(("t", "t", "u"))
        key, other = chance.randrange(1, KEYS + 1), chance.randrange(1, KEYS + 1)
        self.fresh += 1
        kinds = (
            f"update {table} set x = x + {key} where id = {other}",
            f"update {table} set x = x + 1 where id in ({key}, {other})",
            f"update t set x = t.x + w.x from w where w.id = t.id and t.id = {key}",
            f"insert into {table} values ({self.fresh}, 0)",
            "update t set x = x + 100 where id = "
            "(select id from t order by id for update skip locked limit 1) returning id",
            "with j as (select id from t order by id desc for update skip locked limit 2) "
            "update t set x = x - 1 from j where j.id = t.id",
        )
        rarely = (
            f"update {table} set x = x + 10 where id = {key} and x < 5",
            f"delete from {table} where id = {key}",
            "delete from u using (select id from u order by id for update skip locked limit 1) q "
            "where q.id = u.id returning u.id",
        )
        again = f"insert into {table} values ({key}, 1) on conflict (id) do update set x = {table}.x + 1"
        return chance.choice((*kinds, *rarely) if self.deletes else (*kinds, again))

    def lock(self) -> str:
        mode = self.chance.choice(TABLE_MODES)
        return (
            f"lock table {self.chance.choice('tu')} in {mode} mode{self.chance.choice(('', '', ' nowait'))}"
        )


class Raced(Exception):
    """Several sessions went on at the same time: who is first is chance."""


class History:
    """A random history, which both sides run."""

    def __init__(self, sides: Sides, seed: int) -> None:
        self.chance = random.Random(seed)
        count = self.chance.choice((2, 3))
        self.sides = sides
        self.own = Side(sides.running.dsn, sides.waits_here, count)
        self.other = Side(sides.address, sides.waits_there, count)
        self.writer = Writer(self.chance, count)
        self.count = count
        self.script: list[str] = []
        self.waiting = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            session = self.chance.randrange(self.count)
            if self.own.asked[session] is None:
                self.step(session, self.writer.statement(session))
        for _ in range(self.count + 1):
            for session in range(self.count):
                if self.own.asked[session] is None:
                    self.step(session, "commit")
        self.step(0, "select * from t order by id")
        self.step(0, "select * from u order by id")
        engine = self.sides.running.db.hub.engine
        assert not engine.tables.change_hooks, "something is locked though all transactions are over"
        assert len(engine.locks) == 0, "something is locked though all transactions are over"

    def end(self) -> None:
        """End all connections, and what they wait for."""
        self.own.close()
        self.other.close()

    def step(self, session: int, text: str) -> None:
        self.script.append(f"{session}: {text}")
        self.own.begin(session, text)
        self.other.begin(session, text)
        expected = [plain(one) for one in self.other.settled()]
        found = [plain(one) for one in self.own.settled()]
        self.script.append(f"    -- {expected}")
        if found != expected and self.waiting > 1:
            raise Raced
        self.waiting = expected.count(("waits",))
        if found != expected:
            raise AssertionError("\n".join([*self.script, f"    kpg: {found}"]))


def plain(outcome: Outcome) -> Outcome:
    """Rows in an order; a failed transaction's refusals have one SQLSTATE."""
    return (outcome[0], sorted(outcome[1])) if len(outcome) > 1 else outcome


def main() -> None:
    """Random histories until the time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=20)
    options = parser.parse_args()
    raced, seed, end = 0, options.seed, time.monotonic() + options.minutes * 60
    with serving(Path(tempfile.mkdtemp())) as address, served() as running:
        sides = Sides(running, address)
        while time.monotonic() < end:
            history = History(sides, seed)
            try:
                history.run(40)
            except Raced:
                raced += 1
            except AssertionError as error:
                print(f"seed {seed}\n{error}", flush=True)
                os._exit(1)  # connections that wait would keep it
            history.end()
            seed += 1
        sides.close()
    print(f"seeds {options.seed} to {seed - 1}, {raced} of which were not seen to their ends")


if __name__ == "__main__":
    main()
