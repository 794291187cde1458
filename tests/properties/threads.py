"""Random calls of one database's objects from many threads: a serial order explains every answer.

Threads call the database, views, sessions, goals, dataflows, branches, connections of the DB-API and
``kpg.aio``, while Python changes threads all the time. A subscriber, which is called within each commit,
records what every epoch changed. From that the checker replays the table and demands:

* A write that was acknowledged is one epoch's, whole, after all that was acknowledged before it began, and
  its effect follows from the state before. A write that failed is no epoch's.
* A read gives the state after one epoch between those at its beginning and its end, in all columns and views.
* A subscriber is told of every epoch from its beginning to its end, and reads the state of that epoch.
* At the end tables, views, goals and dataflows hold what the replay holds, also when opened again.

``python -m tests.properties.threads --seed 1 --minutes 60`` goes on for an hour, prints seeds that fail and
ends with an exit code. A seed gives the same calls, not the same order of them.
"""

import argparse
import asyncio
import faulthandler
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kpg
import kpg.aio
import kpg.dbapi
from kpg.collections import Captured, Input
from kpg.runtime import interrupts
from kpg.session import scheduler

Row = tuple[int, int, int]
"""A key, a value, and the number of the write that made the row."""
State = dict[int, Row]
KEYS = 12
SWITCH = 1e-6
"""Seconds after which Python lets another thread run."""
HANGS = 300.0
"""Seconds after which a life that has not ended hangs."""
ALLOWED = (
    "could not obtain lock",
    "lock timeout",
    "deadlock detected",
    "could not serialize",
    "duplicate key",
    "has no row",
    "a session has changed definitions",
    "changed in the trunk too",
    "came to table t in the trunk too",
    "already exists",
    "does not exist",
    "is a table",
    "is a view",
    "is not a",
    "cannot advance to",
    "was rolled back by an earlier error",
    "is at time",
    "cannot be committed: input",
)
"""What a call may be refused by, having done nothing."""
START = """
    create table t (k int primary key, v int not null, op bigint not null);
    create materialized view r as select k, v, op from t;
    create materialized view g as
        select k % 3 as part, count(*) as n, sum(v) as s, sum(op) as o from t group by k % 3;
    create materialized view j as select a.k as x, b.k as y from t a join t b on a.v = b.v and a.k < b.k;
    create table names (k int primary key, name text)
"""
PROGRAM = """
    .decl edge(x:number, y:number)
    .input edge
    .decl tc(x:number, y:number)
    .output tc
    tc(x, y) :- edge(x, y).
    tc(x, z) :- tc(x, y), edge(y, z).
"""


def groups(state: State) -> list[tuple[int, ...]]:
    """What the view ``g`` is in a state."""
    found = []
    for part in range(3):
        rows = [row for row in state.values() if row[0] % 3 == part]
        if rows:
            found.append((part, len(rows), sum(row[1] for row in rows), sum(row[2] for row in rows)))
    return found


def pairs(state: State) -> list[tuple[int, int]]:
    """What the view ``j`` is in a state."""
    return sorted((a, b) for a in state for b in state if a < b and state[a][1] == state[b][1])


READ: dict[str, Callable[[State], Any]] = {
    "rows": lambda state: sorted(state.values()),
    "groups": groups,
    "pairs": pairs,
    "count": len,
    "both": lambda state: (sorted(state.values()), groups(state)),
    "one": lambda state: state,
}


@dataclass
class Write:
    """A write that was tried: what it was to do, between which epochs it ran, and what came of it."""

    op: int
    kind: str
    key: int
    value: int
    low: int = 0
    high: int = 0
    affected: int | None = None
    """None if it was refused."""
    partners: tuple[int, ...] = ()
    """The numbers of the writes of the same transaction."""
    action: str = ""
    """The action whose write it is."""


@dataclass
class Reading:
    """A read: what was read, of which key if of one, and the epochs between which it was."""

    what: str
    found: Any
    low: int
    high: int
    key: int | None = None


@dataclass
class Heard:
    """What a subscriber was told between two epochs."""

    low: int
    high: int
    told: list[Any]


class Life:
    """One database, its threads, and what they have seen."""

    def __init__(self, seed: int, threads: int, calls: int, folder: Path | None = None) -> None:
        self.seed, self.count, self.calls, self.folder = seed, threads, calls, folder
        how: dict[str, Any] = {} if folder is None else {"synchronous": ("off", "normal", "full")[seed % 3]}
        self.db = kpg.connect(folder, history=1_000_000 if seed % 4 == 1 else None, **how)
        self.db.sql(START)
        self.program = self.db.datalog(PROGRAM)
        self.begun = self.db.epoch
        self.history: list[Any] = []
        self.inside: list[tuple[int, Any]] = []
        self.writes: list[Write] = []
        self.reads: list[Reading] = []
        self.heard: list[Heard] = []
        self.edges: list[tuple[int, int]] = []
        self.inputs: list[int] = []
        self.names: dict[int, str] = {}
        self.wrong: list[str] = []
        self.refused: Counter[str] = Counter()
        self.did: Counter[str] = Counter()
        self._numbers = iter(range(1, 1 << 40))
        self.subscription = self.db.view("r").subscribe(self._told)
        self.session = self.db.session()
        self.session.sql("set lock_timeout = '50ms'")
        self.connection = kpg.dbapi.connect(database=self.db, autocommit=True)
        self.flow: kpg.Dataflow | None = None
        if folder is None and seed % 2:
            self.flow = self.db.dataflow("flow")
            self.given: Input = self.flow.input("given", op=int)
            self.captured: Captured = self.given.capture()

    def _told(self, changes: list[Any]) -> None:
        self.history += changes
        if len(self.history) % 7 == 0:
            self.inside.append((changes[-1][1], self.db.view("g").fetchall()))

    def run(self) -> None:
        """Let the threads run, and check what they have seen."""
        before, slice_, every = sys.getswitchinterval(), scheduler.SLICE, interrupts.EVERY
        if self.seed % 2:
            # Each statement lets others in wherever it may.
            scheduler.SLICE, interrupts.EVERY = 0.0, 0  # type: ignore[misc]
        callers = [Caller(self, random.Random(f"{self.seed}/{number}")) for number in range(self.count)]
        threads = [
            threading.Thread(target=self._thread, args=(number, caller), name=f"caller {number}", daemon=True)
            for number, caller in enumerate(callers)
        ]
        sys.setswitchinterval(SWITCH)
        try:
            for thread in threads:
                thread.start()
            end = time.monotonic() + HANGS
            for thread in threads:
                thread.join(max(0.0, end - time.monotonic()))
        finally:
            sys.setswitchinterval(before)
            scheduler.SLICE, interrupts.EVERY = slice_, every  # type: ignore[misc]
        if any(thread.is_alive() for thread in threads):
            faulthandler.dump_traceback(all_threads=True)
            raise AssertionError(f"threads hang: {[one.name for one in threads if one.is_alive()]}")
        assert not self.wrong, self.wrong[:5]
        self._check()

    def _thread(self, number: int, caller: "Caller") -> None:
        try:
            if number == self.count - 1 and self.seed % 5 == 0:
                asyncio.run(caller.go_on_loop())
            else:
                caller.go()
        except BaseException:
            self.wrong.append(traceback.format_exc(limit=-8))

    # Checking

    def _check(self) -> None:
        self.subscription.close()
        states = self._replay()
        for write in self.writes:
            self._check_write(write, states)
        written = Counter(row[2] for row, _, diff in self.history if diff > 0)
        known = {one.op: one for one in self.writes}
        for op, times in written.items():
            assert times == 1 and op in known and known[op].affected, (op, times, known.get(op))
        for read in self.reads:
            wanted = READ[read.what]
            for epoch in range(read.low, read.high + 1):
                state = states[epoch]
                seen = state.get(read.key) if read.key is not None else wanted(state)
                if seen == read.found:
                    break
            else:
                raise AssertionError(
                    f"no epoch explains {read}: {[states[e] for e in range(read.low, read.high + 1)]}"
                )
        for epoch, seen in self.inside:
            assert sorted(seen) == groups(states[epoch]), (epoch, seen, groups(states[epoch]))
        for heard in self.heard:
            self._check_heard(heard)
        self._check_end(states[max(states)])

    def _replay(self) -> dict[int, State]:
        """The state after each epoch."""
        changes: dict[int, list[tuple[Row, int]]] = {}
        last = self.begun
        for row, epoch, diff in self.history:
            assert epoch >= last, "epochs are told in their order"
            last = epoch
            changes.setdefault(epoch, []).append((row, diff))
        states, state = {}, State()
        for epoch in range(self.begun, self.db.epoch + 1):
            for row, diff in sorted(changes.get(epoch, ()), key=lambda change: change[1]):
                if diff < 0:
                    assert diff == -1 and state.pop(row[0]) == row, (epoch, row)
                else:
                    assert diff == 1 and row[0] not in state, (epoch, row)
                    state[row[0]] = row
            states[epoch] = dict(state)
        return states

    def _check_write(self, write: Write, states: dict[int, State]) -> None:
        if write.affected is None:
            return
        window = range(write.low + 1, write.high + 1)
        if write.affected == 0:
            around = [states[epoch] for epoch in range(write.low, write.high + 1)]
            assert any(write.key not in state for state in around), write
            return
        if write.kind == "delete":
            gone = [e for e in window if write.key in states[e - 1] and write.key not in states[e]]
            assert gone, (write, [one for one in self.history if one[0][0] == write.key])
            return
        at = [e for e in window if states[e].get(write.key, (0, 0, 0))[2] == write.op]
        at = [e for e in at if states[e - 1].get(write.key, (0, 0, 0))[2] != write.op]
        assert len(at) == 1, (write, at, [one for one in self.history if one[0][0] == write.key])
        before, now = states[at[0] - 1].get(write.key), states[at[0]][write.key]
        if write.kind == "insert":
            assert before is None, (write, before)
        wanted = write.value
        if write.kind == "update":
            assert before is not None, write
            wanted = before[1] + write.value
        assert now == (write.key, wanted, write.op), (write, before, now)
        for partner in write.partners:
            assert any(row[2] == partner for row in states[at[0]].values()), (write, partner)

    def _check_heard(self, heard: Heard) -> None:
        """It is a part of what all were told, from no later than ``low`` to no earlier than the last."""
        key = lambda change: (change[1], change[0], change[2])  # noqa: E731
        told = sorted(heard.told, key=key)
        first = min((change[1] for change in told), default=heard.low + 1)
        for begin in {heard.low, first - 1}:
            for end in range(heard.low, heard.high + 1):
                wanted = [change for change in self.history if begin < change[1] <= end]
                if sorted(wanted, key=key) == told:
                    return
        raise AssertionError(f"told {told}, between {heard.low} and {heard.high}")

    def _check_end(self, state: State) -> None:
        db = self.db
        self._same(db, state)
        for name in ("r", "g", "j"):
            db.verify(name)
        assert db.view("r").stats is not None
        edges = set(self.edges)
        assert sorted(db.query("select * from edge").fetchall()) == sorted(edges)
        assert set(self.program["tc"].fetchall()) == closure(edges)
        if self.flow is not None:
            self.given.advance_to(self.given.time + 1)
            self.flow.step()
            assert sorted(row[0] for row, _, diff in self.captured for _ in range(diff)) == sorted(
                self.inputs
            )
        assert dict(db.query("select k, name from names").fetchall()) == self.names
        db.close()
        if self.folder is not None:
            with kpg.connect(self.folder) as again:
                self._same(again, state)
                assert dict(again.query("select k, name from names").fetchall()) == self.names

    def _same(self, db: kpg.Database, state: State) -> None:
        assert sorted(db.query("select * from t").fetchall()) == sorted(state.values())
        assert sorted(db.view("r").fetchall()) == sorted(state.values())
        assert sorted(db.view("g").fetchall()) == groups(state)
        assert sorted(db.view("j").fetchall()) == pairs(state)

    def number(self) -> int:
        """A number for a write."""
        return next(self._numbers)


def closure(edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The transitive closure."""
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in edges if b == c} - found:
        found |= more
    return found


class Leaving(Exception):
    """Ends a block, which is rolled back."""


class Caller:
    """One thread's calls."""

    def __init__(self, life: Life, chance: random.Random) -> None:
        self.life, self.db, self.chance = life, life.db, chance
        self.own = self.db.session()
        self.own.sql("set lock_timeout = '50ms'")
        self.view = self.db.view("r")
        self.changes: State | None = None
        self.action = "awaited"
        self.actions: list[tuple[str, Callable[[], None]]] = [
            (name.removeprefix("do_"), getattr(self, name)) for name in dir(self) if name.startswith("do_")
        ]
        if life.flow is None:
            self.actions = [one for one in self.actions if one[0] != "flow"]

    def go(self) -> None:
        """Make all calls."""
        some = [self.chance.choice(self.actions) for _ in range(8)]
        for _ in range(self.life.calls):
            name, action = self.chance.choice(some if self.chance.random() < 0.6 else self.actions)
            self.life.did[name] += 1
            self.action = name
            with self.allowed():
                action()
        self.own.close()

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """The block may be refused."""
        try:
            yield
        except kpg.Error as error:
            found = next((one for one in ALLOWED if one in str(error)), None)
            if found is None:
                raise
            self.life.refused[found] += 1

    # Writes

    def write(self, partners: int = 0) -> Write:
        """A write to try."""
        kind = self.chance.choice(("insert", "insert", "update", "update", "upsert", "delete"))
        value = self.chance.randrange(5)
        made = Write(self.life.number(), kind, self.chance.randrange(KEYS), value, self.db.epoch)
        made.action = self.action
        self.life.writes.append(made)
        return made

    def text(self, one: Write) -> tuple[str, list[int]]:
        """A write as a statement, and its parameters."""
        k, v, op = one.key, one.value, one.op
        match one.kind:
            case "insert":
                return "insert into t values (?, ?, ?)", [k, v, op]
            case "update":
                return "update t set v = v + ?, op = ? where k = ?", [v, op, k]
            case "upsert":
                conflict = "on conflict (k) do update set v = excluded.v, op = excluded.op"
                return f"insert into t values (?, ?, ?) {conflict}", [k, v, op]
            case _:
                return "delete from t where k = ?", [k]

    def plain(self, one: Write) -> str:
        """A write as a statement without parameters."""
        text, parameters = self.text(one)
        for value in parameters:
            text = text.replace("?", str(value), 1)
        return text

    def take(self, one: Write, by: Callable[..., Any]) -> None:
        """Try a write by ``sql`` of somebody."""
        if self.chance.random() < 0.5:
            result = by(self.plain(one))
        else:
            result = by(*self.text(one))
        self.done(one, result.rowcount)

    def done(self, one: Write, affected: int) -> None:
        """A write was acknowledged."""
        one.affected = affected
        one.high = self.db.epoch

    def do_write(self) -> None:
        self.take(self.write(), self.db.sql)

    do_write_again = do_write

    def do_write_by_session(self) -> None:
        self.take(self.write(), self.own.sql)

    def do_write_by_shared_session(self) -> None:
        self.take(self.write(), self.life.session.sql)

    def do_write_by_connection(self) -> None:
        cursor = self.life.connection.cursor()
        self.take(self.write(), cursor.execute)

    def do_python_rows(self) -> None:
        one = self.write()
        row = (one.key, one.value, one.op)
        if one.kind in ("update", "upsert"):
            one.kind = "upsert"
            self.done(one, self.db.upsert("t", [row]))
        elif one.kind == "insert":
            self.done(one, self.db.insert("t", [row]))
        else:
            with self.absent(one):
                self.done(one, self.db.delete("t", [(one.key,)]))

    @contextmanager
    def absent(self, one: Write) -> Iterator[None]:
        """A row to be deleted may be absent."""
        try:
            yield
        except kpg.IntegrityError:
            self.done(one, 0)

    def writes(self) -> list[Write]:
        """Some writes of keys that differ."""
        some, keys = [], set[int]()
        for _ in range(self.chance.randrange(1, 4)):
            one = self.write()
            if one.key not in keys:
                keys.add(one.key)
                some.append(one)
        return some

    def ended(self, some: list[tuple[Write, int]]) -> None:
        """A transaction of writes was acknowledged."""
        partners = tuple(one.op for one, affected in some if affected and one.kind != "delete")
        for one, affected in some:
            one.partners = partners
            self.done(one, affected)

    def do_transaction(self) -> None:
        some: list[tuple[Write, int]] = []
        try:
            with self.db.transaction():
                for one in self.writes():
                    some.append((one, self.db.query(*self.text(one)).rowcount))
                    if self.chance.random() < 0.1:
                        raise Leaving
        except Leaving:
            return
        self.ended(some)

    def do_batch(self) -> None:
        some: list[tuple[Write, int]] = []
        with self.db.batch():
            for one in self.writes():
                some.append((one, self.db.query(*self.text(one)).rowcount))
        for one, affected in some:
            self.done(one, affected)

    def do_script(self) -> None:
        some = self.writes()
        script = self.db.script("; ".join(self.plain(one) for one in some))
        for one in some:
            result = next(script)
            assert isinstance(result, kpg.Result)
            self.done(one, result.rowcount)

    def do_session_transaction(self) -> None:
        some: list[tuple[Write, int]] = []
        own = self.own
        level = self.chance.choice(("read committed", "repeatable read", "serializable"))
        own.sql(f"begin isolation level {level}")
        ended = False
        try:
            seen = None
            for one in self.writes():
                result = own.sql(*self.text(one))
                assert result is not None
                some.append((one, result.rowcount))
                if level == "repeatable read":
                    mine = {one.key for one, _ in some}
                    rows = self.rows(own.sql("select * from t"))
                    rows = [row for row in rows if row[0] not in mine]
                    if seen is not None:
                        assert [row for row in seen if row[0] not in mine] == rows, (seen, rows, some)
                    seen = rows
            if self.chance.random() < 0.2:
                return
            own.sql("commit")
            ended = True
        finally:
            if not ended:
                own.sql("rollback")
        self.ended(some)

    def do_branch(self) -> None:
        some: list[tuple[Write, int]] = []
        with self.db.branch() as branch:
            for one in self.writes():
                one.low = self.db.epoch
                some.append((one, branch.query(*self.text(one)).rowcount))
            assert sum(branch.view("g").df()["n"]) == len(branch.query("select * from t"))
            branch.diff("r")
            if self.chance.random() < 0.5:
                branch.merge()
            else:
                return
        # What was not there in the branch may be in the trunk.
        self.ended([(one, affected) for one, affected in some if affected])

    def do_definitions(self) -> None:
        name = f"x{self.chance.randrange(4)}"
        by = self.chance.choice((self.db.sql, self.own.sql))
        by(
            self.chance.choice(
                (
                    f"create materialized view {name} as select v, count(*) as n from t group by v",
                    f"drop materialized view {name}",
                    f"create table {name} (a int)",
                    f"drop table {name}",
                    f"create index {name}_i on t (v)",
                    f"drop index {name}_i",
                )
            )
        )

    def do_definitions_in_a_transaction(self) -> None:
        name = f"x{self.chance.randrange(4)}"
        self.own.sql("begin")
        try:
            self.own.sql(f"create table {name} (a int)")
            self.own.sql("select count(*) from t")
        finally:
            self.own.sql("rollback")

    def do_names(self) -> None:
        """Texts, which the dictionary interns while others read them."""
        number = self.life.number()
        name = f"a name {number} {'long ' * (number % 50)}"
        by = self.chance.choice((self.db.sql, self.own.sql, self.life.session.sql))
        by("insert into names values (?, ?)", [number, name])
        self.life.names[number] = name
        result = by("select * from names")
        assert isinstance(result, kpg.Result)
        found = dict(result.fetchall())
        assert found[number] == name
        assert all(text.startswith(f"a name {key} ") for key, text in found.items()), found

    # Reads

    @contextmanager
    def reading(self, what: str, key: int | None = None) -> Iterator[list[Any]]:
        """The block reads something, and puts it into the list."""
        low, found = self.db.epoch, list[Any]()
        yield found
        self.life.reads.append(Reading(what, found[0], low, self.db.epoch, key))

    def rows(self, result: Any) -> list[Row]:
        """The rows of a result in their order, by one of its ways."""
        match self.chance.randrange(4):
            case 0:
                return sorted(result.fetchall())
            case 1:
                return sorted(result)
            case 2:
                return sorted(tuple(map(int, row.values())) for row in result.arrow().to_pylist())
            case _:
                return sorted(result.part())

    def do_read(self) -> None:
        by = self.chance.choice((self.db.sql, self.own.sql, self.life.session.sql))
        with self.reading("rows") as found:
            found.append(self.rows(by("select * from t")))

    do_read_again = do_read

    def do_read_view(self) -> None:
        with self.reading("rows") as found:
            found.append(self.rows(self.view))

    def do_read_groups(self) -> None:
        by = self.chance.choice((self.db.sql, self.own.sql))
        with self.reading("groups") as found:
            asked = by("select * from g") if self.chance.random() < 0.5 else self.db.view("g")
            found.append(self.rows(asked))

    def do_read_pairs(self) -> None:
        with self.reading("pairs") as found:
            found.append(self.rows(self.db.view("j")))

    def do_read_count(self) -> None:
        with self.reading("count") as found:
            found.append(len(self.view))

    def do_read_both(self) -> None:
        """The table and the view, in one script of a snapshot."""
        with self.reading("both") as found:
            text = "select array_agg(k order by k), array_agg(v order by k), array_agg(op order by k) from t"
            text = (
                f"select *, (select array_agg(array[part, n, s, o] order by part) from g) from ({text}) as x"
            )
            result = self.own.sql(text)
            assert result is not None
            ((keys, values, ops, parts),) = result.fetchall()
            rows = list(zip(keys or [], values or [], ops or [], strict=True))
            found.append((rows, [tuple(map(int, part)) for part in parts or []]))

    def do_point(self) -> None:
        key = self.chance.randrange(KEYS)
        by = self.chance.choice((self.db.sql, self.own.sql))
        with self.reading("one", key) as found:
            rows = by("select * from t where k = ?", [key]).fetchall()
            found.append(rows[0] if rows else None)

    def do_changes(self) -> None:
        """What this thread's handle was told makes the state."""
        with self.reading("rows") as found:
            state = self.changes = {} if self.changes is None else self.changes
            for row, _, diff in sorted(self.view.changes(), key=lambda change: (change[1], change[2])):
                if diff < 0:
                    assert state.pop(row[0]) == row
                else:
                    assert row[0] not in state
                    state[row[0]] = row
            found.append(sorted(state.values()))

    def do_past(self) -> None:
        if self.life.seed % 4 != 1:
            return
        epoch = self.db.epoch
        rows = sorted(self.view.as_of(epoch).fetchall())
        self.life.reads.append(Reading("rows", rows, epoch, epoch))

    def do_subscribe(self) -> None:
        told: list[Any] = []
        low = self.db.epoch
        subscription = self.view.subscribe(told.extend)
        for _ in range(self.chance.randrange(3)):
            with self.allowed():
                self.do_write()
        subscription.close()
        self.life.heard.append(Heard(low, self.db.epoch, told))

    def do_iterate(self) -> None:
        """Threads share the cursor of one result."""
        rows = self.db.query("select * from generate_series(1, 40)")
        other = list[Any]()
        thread = threading.Thread(target=lambda: other.extend(iter(rows.fetchone, None)))
        thread.start()
        mine = list(iter(rows.fetchone, None))
        thread.join()
        assert sorted(mine + other) == [(number,) for number in range(1, 41)]

    # Programs and dataflows

    def do_program(self) -> None:
        edge = (self.life.number(), self.life.number() if self.chance.random() < 0.5 else 0)
        if self.chance.random() < 0.5:
            self.life.program.update("+edge($a, $b).", a=edge[0], b=edge[1])
        else:
            self.db.insert("edge", [edge])
        self.life.edges.append(edge)
        goal = self.db.prepare("?- tc($x, y).")
        answer = goal(x=edge[0]).fetchall()
        assert (edge[1],) in answer, (edge, answer)
        with goal.subscribe(x=edge[0]) as answers:
            assert (edge[1],) in answers.result().fetchall()
        goal.drop()

    def do_flow(self) -> None:
        number = self.life.number()
        self.life.given.insert(number)
        self.life.inputs.append(number)
        if self.chance.random() < 0.5:
            self.life.given.advance_to(self.life.given.time + 1)
        assert self.life.flow is not None
        self.life.flow.step()
        known = set(self.life.inputs) | {number}
        assert known >= {row[0] for row, _, _ in self.life.captured} - set(self.life.inputs)

    # On a loop

    async def go_on_loop(self) -> None:
        """Make calls by ``kpg.aio``."""
        async with kpg.aio.of(self.db) as database:
            await asyncio.gather(*(self._awaited(database) for _ in range(3)))
        self.own.close()

    async def _awaited(self, database: kpg.aio.Database) -> None:
        async with database.session() as session:
            await session.sql("set lock_timeout = '50ms'")
            for _ in range(self.life.calls // 3):
                self.life.did["awaited"] += 1
                with self.allowed():
                    one = self.write()
                    result = await session.sql(*self.text(one))
                    assert result is not None
                    self.done(one, result.rowcount)
                with self.allowed(), self.reading("rows") as found:
                    result = await session.sql("select * from t")
                    assert result is not None
                    found.append(sorted(result.fetchall()))


def life(seed: int, folder: Path, calls: int = 40) -> Life:
    """A life of any kind; every third is in the folder."""
    return Life(seed, 2 + seed % 7, calls, folder if seed % 3 == 2 else None)


def main() -> int:
    """Go on for some minutes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--calls", type=int, default=40, help="calls of each thread")
    given = parser.parse_args()
    end, seed, failed = time.monotonic() + 60 * given.minutes, given.seed, list[int]()
    done, refused, writes, reads = Counter[str](), Counter[str](), 0, 0
    while time.monotonic() < end:
        one: Life | None = None
        folder = Path(tempfile.mkdtemp(prefix="kpg-threads-"))
        try:
            one = life(seed, folder / "db", given.calls)
            one.run()
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:3000]}", flush=True)
            traceback.print_tb(error.__traceback__, -5)
        if one is not None:
            done, refused = done + one.did, refused + one.refused
            writes, reads = writes + len(one.writes), reads + len(one.reads)
        if seed not in failed:
            shutil.rmtree(folder)
        seed += 1
        if (lives := seed - given.seed) % 20 == 0 or time.monotonic() >= end:
            print(f"{lives} lives, {done.total()} calls, {writes} writes, {reads} reads", flush=True)
    print(f"calls: {dict(done)}\nrefused: {dict(refused)}\nseeds that fail: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
