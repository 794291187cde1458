"""Random lives of durable databases whose power goes: what is found again is what was acknowledged.

A history runs on a database in a ``Sim`` and, beside it, on one in memory. Before operations of files that
are chosen at random the folder is copied as a power cut might leave it, and opened: it has to be the state
after the last acknowledged action, or after the one that was under way. Operations fail, too: then the action
never was.

``python -m tests.properties.crashes --seed 1 --minutes 60`` goes on for an hour and prints seeds that fail.
"""

import argparse
import errno
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

import kpg
from kpg.database import Database
from tests.model.disk import Sim
from tests.model.durable import contents, opened

Action = Callable[[Database], object]
TABLES = ("t", "u")
DATALOG = """
.decl edge(a: number, b: number) .input edge
.decl tc(a: number, b: number) .output tc
tc(a, b) :- edge(a, b). tc(a, c) :- tc(a, b), edge(b, c).
edge(1, 2).
"""
VIEWS = (
    "select g, count(*) n, sum(v) s from t group by g",
    "select t.k, u.name from t join u on t.g = u.k",
    "select g, max(v) m from t group by g having count(*) > 1",
    "with recursive r(k) as (select g from t where v > 5 union select (r.k + 1) % 7 from r where r.k < 6) "
    "select k from r",
    "select k, v from t order by v desc, k limit 3",
    "select distinct upper(name) n from u",
)


def sql(text: str) -> Action:
    return lambda db: db.sql(text)


def together(*texts: str, end: str = "commit") -> Action:
    def run(db: Database) -> None:
        db.sql("begin")
        try:
            for text in texts:
                db.sql(text)
        except kpg.Error:
            db.sql("rollback")
            raise
        db.sql(end)

    return run


def batched(*texts: str) -> Action:
    def run(db: Database) -> None:
        with db.batch():
            for text in texts:
                db.sql(text)

    return run


def change(random: Generator) -> str:
    """A statement that changes rows; it may violate a key, and then does nothing in both databases."""
    k, g, v = int(random.integers(12)), int(random.integers(4)), int(random.integers(10))
    word = random.choice(["x", "yy", "zzz"]) * int(random.choice([1, 1, 200]))
    return str(
        random.choice(
            [
                f"insert into t values ({k}, {g}, {v})",
                f"insert into t select {k} + 100 * n, {g}, n from generate_series(1, 40) s(n)",
                f"insert into t values ({k}, {g}, {v}) on conflict (k) do update set v = excluded.v",
                f"insert into u (name) values ('{word}'), (null)",
                f"delete from t where g = {g}",
                f"delete from u where k % 3 = {k % 3}",
                f"update t set v = v + 1, g = {g} where k < {k}",
                f"update u set name = '{word}' where k = {k}",
                "truncate t",
                "select nextval('s')",
            ]
        )
    )


def definition(random: Generator) -> str:
    n = int(random.integers(3))
    return str(
        random.choice(
            [
                f"create table if not exists more{n} (a int, b text default 'd')",
                f"create table made{n} as select k, v from t",
                f"drop table if exists more{n}",
                f"drop table if exists made{n}",
                f"alter table more{n} add column c{int(random.integers(3))} int default 3",
                f"alter table more{n} rename to more{int(random.integers(3))}",
                f"insert into more{n} (a) values (1)",
                f"create index if not exists i{n} on t (g, v)",
                f"drop index if exists i{n}",
                f"comment on table t is 'number {n}'",
                f"create sequence if not exists q{n} start 7",
                f"create type kind{n} as enum ('a', 'b')",
            ]
        )
    )


def view(random: Generator) -> str:
    n = int(random.integers(4))
    text = str(random.choice(VIEWS))
    return str(
        random.choice(
            [
                f"create materialized view v{n} as {text}",
                f"create or replace materialized view v{n} as {text}",
                f"create view v{n} as {text}",
                f"drop view if exists v{n}",
            ]
        )
    )


def datalog(random: Generator) -> Action:
    a, b = (int(one) for one in random.integers(1, 5, 2))
    kind = random.random()
    if kind < 0.3:
        return lambda db: None if "edge" in db.names() else db.datalog(DATALOG)
    if kind < 0.8:
        return lambda db: db.datalog(f"+edge({a}, {b}). -edge({b}, {a}).") if "edge" in db.names() else None
    return sql("drop view if exists tc cascade")


def action(random: Generator, views: bool) -> Action:
    """One action, which is all or nothing."""
    kind = random.random()
    changes = [change(random) for _ in range(int(random.integers(1, 4)))]
    if kind < 0.08:
        return sql("checkpoint")
    if kind < 0.45:
        return sql(changes[0])
    if kind < 0.55:
        return together(*changes)
    if kind < 0.6:
        return together(*changes, definition(random), end="rollback")
    if kind < 0.65:
        return together(changes[0], "savepoint p", *changes[1:], "rollback to p", definition(random))
    if kind < 0.72:
        return batched(*changes)
    if kind < 0.85 or not views:
        return sql(definition(random))
    return sql(view(random)) if kind < 0.95 else datalog(random)


@dataclass
class Life:
    """A history under way: the folder, what was acknowledged, and what was found after cuts."""

    seed: int
    views: bool
    mode: str = "full"
    failing: float = 0.0
    cuts: int = 10
    found: list[tuple[int, str, Sim]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    failed: int = 0
    refusing: bool = False
    doubtful: list[Sim] = field(default_factory=list)
    """Folders as they were while an action failed, which may be there or not."""

    def run(self, actions: int) -> None:
        random = np.random.default_rng(self.seed)
        sim, beside = Sim(self.seed), kpg.connect()
        sim.look = lambda what: self._look(sim, what, random)
        db = opened(sim, self.mode)
        start = (
            "create table t (k int primary key, g int not null, v int check (v < 1000))",
            "create table u (k serial primary key, name text)",
            "create sequence s",
        )
        steps: list[Action] = [sql(one) for one in start]
        steps += [action(random, self.views) for _ in range(actions)]
        self.states.append(contents(beside))
        for step in steps:
            if random.random() < 0.06:
                db = self._again(sim, db, random)
                # Numbers that failed statements took are given again.
                share_numbers(db, beside)
            if not self._both(step, sim, db, beside):
                break
        sim.fails = lambda count, what: 0
        if not self.refusing:
            self.found.append((len(self.states) - 1, "the end", sim.after_kill()))
        self._check(random)

    def _again(self, sim: Sim, db: Database, random: Generator) -> Database:
        """Close and open, or open what a kill leaves."""
        if random.random() < 0.5:
            db.close()
        else:
            sim.holder = None
        return opened(sim, self.mode)

    def _both(self, step: Action, sim: Sim, db: Database, beside: Database) -> bool:
        """Take a step in both databases; whether there may be another one."""
        if self.failing:
            sim.fails = self._fails(sim)
        before = len(self.found)
        error = _outcome(step, db)
        sim.fails = lambda count, what: 0
        if isinstance(error, kpg.OperationalError):
            self.failed += 1
            keeper: Any = db._engine.keeper
            if keeper.refuses is None:
                self.doubtful += [one for _, _, one in self.found[before:]]
                del self.found[before:]
                found = difference(comparable(contents(db)), comparable(self.states[-1]))
                assert not found, (self.seed, len(self.states), str(error), found)
                # As after any statement that fails, numbers of sequences are gone.
                share_numbers(db, beside)
                return True
            self.refusing = True
            _outcome(step, beside)
            self.states.append(contents(beside))
            self.found.append((len(self.states) - 2, "refusing", sim.after_cut(self.seed)))
            assert comparable(contents(db)) == comparable(self.states[-2])
            return False
        expected = _outcome(step, beside)
        assert str(error) == str(expected), (self.seed, error, expected)
        self.states.append(contents(beside))
        return True

    def _fails(self, sim: Sim) -> Callable[[int, str], int]:
        def fails(count: int, what: str) -> int:
            if sim.random.random() < self.failing:
                return int(sim.random.choice([errno.EIO, errno.ENOSPC]))
            return 0

        return fails

    def _look(self, sim: Sim, what: str, random: Generator) -> None:
        if len(self.states) > 1 and random.random() < self.cuts / 150:
            self.found.append((len(self.states) - 1, what, sim.after_cut(int(random.integers(2**31)))))

    def _check(self, random: Generator) -> None:
        for sim in self.doubtful:
            with opened(sim) as db:
                contents(db)
        states = [comparable(one) for one in self.states]
        for acknowledged, what, sim in self.found:
            with opened(sim) as db:
                found = comparable(contents(db))
                least = acknowledged if self.mode == "full" else 0
                allowed = states[least : acknowledged + 2]
                if found not in allowed:
                    differences = [difference(found, one) for one in allowed[-2:]]
                    raise AssertionError((self.seed, what, acknowledged, differences))
                if "u" in found and random.random() < 0.2:
                    # Its number is one that no row has had.
                    db.sql("insert into u (name) values ('it goes on')")


def share_numbers(db: Database, beside: Database) -> None:
    """Have sequences go on with the same numbers."""
    beside._engine.sequences.next.clear()
    beside._engine.sequences.next.update(db._engine.sequences.next)


def comparable(state: dict[str, Any]) -> dict[str, Any]:
    """What has to be the same: not epochs of nothing, nor numbers that statements took which failed."""
    return {key: value for key, value in state.items() if key not in ("epoch", "numbers")}


def difference(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What is not the same."""
    keys = [*one, *(key for key in other if key not in one)]
    return {key: (one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)}


def _outcome(step: Action, db: Database) -> Exception | None:
    try:
        step(db)
    except kpg.Error as error:
        return error
    return None


def main() -> None:
    """Go on for some minutes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1)
    given = parser.parse_args()
    end, seed, cuts, failed = time.monotonic() + 60 * given.minutes, given.seed, 0, []
    while time.monotonic() < end:
        life = Life(
            seed,
            views=seed % 3 == 0,
            mode=("full", "full", "normal", "off")[seed % 4],
            failing=(0.0, 0.1)[seed % 2],
        )
        try:
            life.run(40)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:2000]}", flush=True)
        cuts += len(life.found)
        seed += 1
    print(f"{seed - given.seed} lives, {cuts} cuts, seeds that fail: {failed}")


if __name__ == "__main__":
    main()
