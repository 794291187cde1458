"""Clients of a server that run random transactions at the same time, and a check of what they have seen.

Each client is a thread with a connection: it appends to lists (rows that are updated), adds to sets (rows
that are inserted), and reads both from tables, through joins, and from views of several kinds. Among its ways
are savepoints, errors after which it goes on, deferred constraints, statements that are cancelled, several
statements in one message, and single ones. ``tests/model/anomalies.py`` says what is wrong with a history.

``python -m tests.properties.isolation --minutes 20`` does so as long, at each level and at all at once.
"""

import argparse
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.model.anomalies import COMMITTED, REPEATABLE, SERIALIZABLE, Read, Transaction, anomalies
from tests.properties.kills import Served

KEYS: Final = 4
CLAIMS, REFERRING = 100, 101
"""Sets that are no rows of table e: keys that one client may have, and rows with a deferred constraint."""
LEVELS: Final = (COMMITTED, REPEATABLE, SERIALIZABLE)
START: Final = """
    drop table if exists l, e, claims, referring cascade;
    create table l (k int primary key, vs text not null);
    create table e (k int, v int primary key); create index on e (k);
    create table claims (k int primary key, v int unique);
    create table referring (v int primary key, k int references l (k) deferrable initially deferred);
    create materialized view grouped as
        select k % 2 as g, string_agg(k || ':' || vs, ';' order by k) as all_of from l group by k % 2;
    create materialized view sets as select k, string_agg(v::text, ' ' order by v) as vs from e group by k;
    create view plain as select s.k, s.vs from sets s;
    create materialized view joined as select k, l.vs, s.vs as members from l left join sets s using (k);
    create materialized view outsiders as
        select v from referring union all select v from referring where v < 0
"""
Lists = dict[int, tuple[int, ...]]
Sets = dict[int, frozenset[int]]
Rows = list[tuple[Any, ...]]


def values_of(text: str | None) -> tuple[int, ...]:
    return tuple(map(int, (text or "").split()))


def all_lists(rows: Rows) -> Lists:
    return dict.fromkeys(range(KEYS), ()) | {key: values_of(text) for key, text in rows}


def all_sets(rows: Rows) -> Sets:
    return dict.fromkeys(range(KEYS), frozenset()) | {key: frozenset(values_of(text)) for key, text in rows}


def grouped(rows: Rows) -> Lists:
    pairs = [one.split(":") for _, text in rows for one in text.split(";")]
    return all_lists([(int(key), text) for key, text in pairs])


READS: Final[dict[str, Callable[[Rows], tuple[Lists, Sets]]]] = {
    "select k, vs from l": lambda rows: (all_lists(rows), {}),
    "select * from grouped": lambda rows: (grouped(rows), {}),
    "select k, vs from sets": lambda rows: ({}, all_sets(rows)),
    "select k, vs from plain": lambda rows: ({}, all_sets(rows)),
    "select k, string_agg(v::text, ' ') from e group by k": lambda rows: ({}, all_sets(rows)),
    "select k, vs, members from joined": lambda rows: (
        all_lists([row[:2] for row in rows]),
        {key: frozenset(values_of(members)) for key, _, members in rows},
    ),
    "select k, vs, (select string_agg(v::text, ' ') from e where e.k = l.k) from l": lambda rows: (
        all_lists([row[:2] for row in rows]),
        {key: frozenset(values_of(members)) for key, _, members in rows},
    ),
    "select v from claims": lambda rows: ({}, {CLAIMS: frozenset(v for (v,) in rows)}),
    "select v from outsiders": lambda rows: ({}, {REFERRING: frozenset(v for (v,) in rows)}),
}
"""Queries, and what they say of lists and sets."""


class Numbers:
    """Numbers that are given once, whoever asks."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        with self._lock:
            self._last += 1
            return self._last


class Client:
    """One connection and the transactions that it has run."""

    def __init__(self, dsn: str, seed: int, levels: tuple[str, ...], numbers: Numbers) -> None:
        self.chance = random.Random(seed)
        self.one = psycopg.connect(dsn, autocommit=True, prepare_threshold=2)
        self.levels = levels
        self.numbers = numbers
        self.history: list[Transaction] = []
        self.wrong: list[str] = []
        self.met: Counter[str] = Counter()

    def run(self, count: int) -> None:
        try:
            for _ in range(count):
                self.transaction()
        except psycopg.Error as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
        finally:
            self.one.close()

    def transaction(self) -> None:
        level = self.chance.choice(self.levels)
        self.now = Transaction(level)
        self.history.append(self.now)
        alone = self.chance.random() < 0.2
        if alone:
            self.now.level = COMMITTED
        else:
            self.one.execute(f"begin isolation level {level}")
        self.now.begun = time.perf_counter()
        try:
            self.statements(1 if alone else self.chance.randrange(1, 7))
            if not alone:
                if self.chance.random() < 0.1:
                    self.one.execute("rollback")
                    return
                self.ask("commit")
            self.now.committed = True
        except psycopg.Error as error:
            self.met[error.sqlstate or "?"] += 1
            if not self.expected(error):
                raise
            self.one.execute("rollback")
        finally:
            self.now.ended = time.perf_counter()

    def expected(self, error: psycopg.Error) -> bool:
        return error.sqlstate in ("40001", "40P01", "57014", "23503", "23505", "25P02")

    def statements(self, count: int) -> None:
        self.point: tuple[list[Any], list[Any]] | None = None
        inside = self.one.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
        for _ in range(count):
            try:
                self.statement(inside=inside)
            except psycopg.Error as error:
                if self.point is None or not self.expected(error) or self.chance.random() < 0.4:
                    raise
                self.met[f"{error.sqlstate} undone"] += 1
                self.back(self.point)

    def statement(self, *, inside: bool) -> None:
        if inside and self.chance.random() < 0.2:
            self.one.execute("savepoint p")
            self.point = list(self.now.appended), list(self.now.added)
        elif self.point is not None and self.chance.random() < 0.2:
            self.back(self.point)
        else:
            ways = (self.read, self.append, self.add, self.claim, self.refer)
            self.chance.choices(ways, (5, 4, 3, 1, 1))[0]()

    def back(self, point: tuple[list[Any], list[Any]]) -> None:
        self.one.execute("rollback to p")
        self.now.appended, self.now.added = list(point[0]), list(point[1])

    def ask(self, text: str, values: tuple[Any, ...] | None = None) -> Rows:
        """Run a statement, which may be cancelled meanwhile."""
        timer = None
        if self.chance.random() < 0.05:
            timer = threading.Timer(self.chance.random() * 0.004, self.one.cancel_safe)
            timer.start()
        try:
            cursor = self.one.execute(text, values)
            return cursor.fetchall() if cursor.description else []
        finally:
            if timer is not None:
                timer.join()

    def read(self) -> None:
        found = Read(begun=time.perf_counter())
        if self.chance.random() < 0.3:
            key = self.chance.randrange(KEYS)
            rows = self.ask("select vs from l where k = %s", (key,))
            found.lists = {key: values_of(rows[0][0]) if rows else ()}
        elif self.chance.random() < 0.2:
            key = self.chance.randrange(KEYS)
            rows = self.ask("select v from e where k = %s", (key,))
            found.sets = {key: frozenset(value for (value,) in rows)}
        else:
            text = self.chance.choice(list(READS))
            found.lists, found.sets = READS[text](self.ask(text))
        self.note(found)

    def note(self, found: Read) -> None:
        """Take away what is the reader's own, which has to be there, and at the end."""
        for key, values in found.lists.items():
            own = tuple(value for one, value in self.now.appended if one == key)
            if own and values[-len(own) :] != own:
                self.wrong.append(f"own {own} not at the end of {values}")
            found.lists[key] = values[: len(values) - len(own)]
        for key, members in found.sets.items():
            mine = {value for one, value in self.now.added if one == key}
            if not mine <= members:
                self.wrong.append(f"own {mine} not among {members}")
            found.sets[key] = members - mine
        self.now.reads.append(found)

    def append(self) -> None:
        value, key, way = self.numbers.next(), self.chance.randrange(KEYS), self.chance.random()
        keys = (key,)
        begun = time.perf_counter()
        rows: Rows = []
        if way < 0.3:
            self.ask("update l set vs = vs || %s where k = %s", (f" {value}", key))
        elif way < 0.5:
            rows = self.ask("update l set vs = vs || %s where k = %s returning vs", (f" {value}", key))
        elif way < 0.7:
            keys = (key, (key + 1) % KEYS)
            self.ask(f"update l set vs = vs || ' {value}' where k in ({keys[0]}, {keys[1]})")
        elif way < 0.85:
            self.ask(
                "insert into l values (%s, %s) on conflict (k) do update set vs = l.vs || ' ' || excluded.vs",
                (key, str(value)),
            )
        else:
            self.ask(
                f"merge into l using (values ({key}, '{value}')) as n(k, v) on l.k = n.k"
                " when matched then update set vs = l.vs || ' ' || n.v"
            )
        self.now.appended += [(one, value) for one in keys]
        if rows:
            self.note(Read({key: values_of(rows[0][0])}, begun=begun))

    def add(self) -> None:
        key, way = self.chance.randrange(KEYS), self.chance.random()
        value, other = self.numbers.next(), self.numbers.next()
        keys = [(key, value)]
        if way < 0.6:
            self.ask("insert into e values (%s, %s)", (key, value))
        else:
            keys.append(((key + 1) % KEYS, other))
            rows = [f"insert into e values ({one}, {each})" for one, each in keys]
            if way < 0.8:
                self.ask(";".join(rows))
            else:
                self.ask(f"insert into e select * from (values {', '.join(map(str, keys))}) as t")
        self.now.added += keys

    def claim(self) -> None:
        """One of few keys, which only one client can have."""
        value = self.numbers.next()
        self.ask("insert into claims values (%s, %s)", (self.chance.randrange(300), value))
        self.now.added.append((CLAIMS, value))

    def refer(self) -> None:
        """A row that refers to one that is not there, and may be put right before the end."""
        value = self.numbers.next()
        self.ask(f"insert into referring values ({value}, {self.chance.choice((0, 1, 999))})")
        self.now.added.append((REFERRING, value))
        inside = self.one.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
        if inside and self.chance.random() < 0.5:
            self.ask(f"update referring set k = 0 where v = {value}")


def history_of(dsn: str, seed: int, levels: tuple[str, ...], clients: int, count: int) -> Counter[str]:
    """Run a history on fresh tables; AssertionError if anything is wrong with it."""
    numbers = Numbers()
    with psycopg.connect(dsn, autocommit=True) as one:
        one.execute(START)
        one.execute("insert into l select k, '' from generate_series(0, %s) t(k)" % (KEYS - 1))
        players = [Client(dsn, seed * 100 + number, levels, numbers) for number in range(clients)]
        threads = [threading.Thread(target=player.run, args=(count,)) for player in players]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wrong = [message for player in players for message in player.wrong]
        lists = all_lists(one.execute("select k, vs from l").fetchall())
        sets: dict[int, Any] = {key: [] for key in range(KEYS)} | {CLAIMS: [], REFERRING: []}
        for key, value in one.execute("select k, v from e").fetchall():
            sets[key].append(value)
        sets[CLAIMS] = [value for (value,) in one.execute("select v from claims").fetchall()]
        sets[REFERRING] = [value for (value,) in one.execute("select v from referring").fetchall()]
        assert grouped(one.execute("select * from grouped").fetchall()) == lists
        assert one.execute("select count(*) from referring where k > 3").fetchone() == (0,)
    history = [transaction for player in players for transaction in player.history]
    wrong += anomalies(history, lists, sets)
    assert not wrong, (seed, levels, wrong[:5])
    met = sum((player.met for player in players), Counter[str]())
    met["committed"] = sum(one.committed for one in history)
    met["reads"] = sum(len(one.reads) for one in history)
    return met


def main() -> None:
    """Histories for some minutes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    end, seed, met = time.monotonic() + 60 * given.minutes, given.seed, Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        served = Served(Path(place) / "db")
        try:
            while time.monotonic() < end:
                levels = ((COMMITTED,), (REPEATABLE,), (SERIALIZABLE,), LEVELS)[seed % 4]
                met += history_of(served.dsn, seed, levels, random.Random(seed).choice((3, 6, 12)), 60)
                seed += 1
                if seed % 20 == 0:
                    print(f"{seed - given.seed} histories: {dict(met)}", flush=True)
        finally:
            served.kill()
    print(f"{seed - given.seed} histories, nothing wrong: {dict(met)}")


if __name__ == "__main__":
    main()
