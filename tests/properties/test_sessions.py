"""Random histories of several sessions, statement by statement, and what each level promises of them.

* Every statement sees the last commit and its own transaction's changes, under REPEATABLE READ and
  SERIALIZABLE the commits before the transaction's first statement and its own changes.
* A read is never refused, unless a row that the transaction itself has changed was changed by another.
* No update is lost: what a committed transaction found in a row that it changed the commit before has left.
* Under SERIALIZABLE everything that a committed transaction saw is what it would see at its commit, so that
  the transactions might have run one after the other.
* Tables and views hold, at the end, what the commits made, in their order.
"""

import random
from collections.abc import Iterator

import pytest

import kpg
from kpg.runtime.errors import Error, SerializationError
from kpg.session.locks import LockNotAvailableError
from kpg.session.session import Session
from tests.model.lives import Lives

KEYS = 5
ACTIONS = ("read", "write", "insert", "delete", "point", "end")
Rows = dict[int, int]


class Player:
    """One session and the model of what it sees: ``base`` are the commits, ``own`` its changes."""

    def __init__(self, session: Session, level: str) -> None:
        self.session = session
        session.sql("set lock_timeout = '1ms'")  # nobody else would let go meanwhile
        self.level = level
        self.open = False
        self.base: Rows | None = None
        self.own: dict[int, int | None] = {}
        self.points: list[dict[int, int | None]] = []
        self.seen: list[Rows] = []
        self.found: Rows = {}

    def view(self, committed: Rows) -> Rows:
        rows = dict(committed if self.base is None else self.base)
        for key, value in self.own.items():
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
        return rows

    def end(self) -> None:
        self.open, self.base, self.own, self.points, self.seen, self.found = False, None, {}, [], [], {}


class World:
    """The database, its sessions, and what has been committed."""

    def __init__(self, seed: int, level: str, lives: Lives | None = None) -> None:
        self.chance = random.Random(seed)
        self.level = level
        self.lives = lives
        self.db = kpg.connect() if lives is None else lives.db
        self.db.sql(
            "create table t (id int primary key, x int);"
            "create materialized view v as select count(*) as n, sum(x) as s from t;"
            "insert into t select i, 0 from generate_series(0, 3) g(i)"
        )
        self.committed: Rows = dict.fromkeys(range(4), 0)
        self.players = [Player(self.db.session(), level) for _ in range(3)]
        self.refused = self.done = 0
        self.action = ""
        self.value = 0

    def play(self, steps: int) -> None:
        for _ in range(steps):
            if self.lives is not None and self.chance.random() < 0.05:
                # What sessions have not committed is gone, with them.
                self.db = self.lives.again()
                self.players = [Player(self.db.session(), self.level) for _ in range(3)]
                self.check_committed()
            player = self.chance.choice(self.players)
            try:
                self.step(player)
            except (SerializationError, LockNotAvailableError, kpg.IntegrityError):
                assert player.own or self.action != "read", "a read was refused"
                self.refused += 1
                if player.open:
                    player.session.sql("rollback")
                player.end()
            self.check_committed()

    def step(self, player: Player) -> None:
        if not player.open:
            player.session.sql(f"begin isolation level {player.level}")
            player.open = True
            return
        weights = (4, 4, 1, 1, 1, 2)
        action = self.action = self.chance.choices(ACTIONS, weights)[0]
        if action == "end":
            self.end(player)
            return
        if action == "point":
            self.savepoint(player)
            return
        if player.base is None and player.level != "read committed":
            player.base = dict(self.committed)
        key = self.chance.randrange(KEYS)
        if action == "read":
            self.read(player)
        else:
            self.change(player, action, key)

    def read(self, player: Player) -> None:
        result = player.session.sql("select * from t")
        assert result is not None
        found = dict(result.fetchall())
        assert found == player.view(self.committed)
        if not player.own:
            player.seen.append(found)
        (total,) = self.rows(player, "select n, s from v")
        assert total == (len(found), sum(found.values()) if found else None)
        key = self.chance.randrange(KEYS)
        expected = [(found[key],)] if key in found else []
        assert self.rows(player, f"select x from t where id = {key}") == expected
        bound = self.chance.randrange(1 + self.value)
        (count,) = self.rows(player, f"select count(*) from t join t as u using (id) where u.x > {bound}")
        assert count == (sum(value > bound for value in found.values()),)

    def rows(self, player: Player, query: str) -> list[tuple[object, ...]]:
        result = player.session.sql(query)
        assert result is not None
        return result.fetchall()

    def change(self, player: Player, action: str, key: int) -> None:
        before = player.view(self.committed)
        self.value += 1
        texts = {
            "write": f"update t set x = {self.value} where id = {key}",
            "delete": f"delete from t where id = {key}",
            "insert": f"insert into t values ({key}, {self.value})",
        }
        player.session.sql(texts[action])
        if action == "insert":
            player.own[key] = self.value
        elif key in before:
            if key not in player.own:
                player.found[key] = before[key]
            player.own[key] = self.value if action == "write" else None

    def savepoint(self, player: Player) -> None:
        if player.points and self.chance.random() < 0.5:
            player.own = dict(player.points[-1])
            player.session.sql(f"rollback to p{len(player.points)}")
        else:
            player.points.append(dict(player.own))
            player.session.sql(f"savepoint p{len(player.points)}")

    def end(self, player: Player) -> None:
        if self.chance.random() < 0.2:
            player.session.sql("rollback")
            player.end()
            return
        player.open = False
        player.session.sql("commit")
        for key, value in player.found.items():
            if key in player.own:
                assert self.committed.get(key) == value, "an update was lost"
        if player.level == "serializable" and player.own:
            assert all(seen == self.committed for seen in player.seen)
        for key, made in player.own.items():
            if made is None:
                self.committed.pop(key, None)
            else:
                self.committed[key] = made
        self.done += bool(player.own)
        player.end()

    def check_committed(self) -> None:
        assert dict(self.db.query("select * from t").fetchall()) == self.committed
        values = self.committed.values()
        assert self.db.view("v").fetchall() == [(len(values), sum(values) if values else None)]


@pytest.fixture(params=["read committed", "repeatable read", "serializable"])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


@pytest.mark.parametrize("seed", range(8))
def test_histories_of_sessions(level: str, seed: int) -> None:
    """Those from the seventh on in a folder, closed and killed in between."""
    world = World(seed, level, Lives(seed) if seed >= 6 else None)
    try:
        world.play(120)
        assert world.done > 0
    except Error as error:
        raise AssertionError(f"{level}, seed {seed}: {error}") from error
    finally:
        for player in world.players:
            player.session.close()
        world.db.close()
