"""Branches and their trunk go on by themselves: random histories against models that know nothing of sharing.

A database and its branches, and branches of these, change, roll back, are merged and discarded in any order.
Each has a model of its own: plain bags of rows, from which views are computed.
"""

import random
from collections import Counter
from pathlib import Path

import pytest

import kpg
from tests.properties.test_past_is_its_model import MODEL, VIEWS, Rows

INDEXES = "create index on t (v); create unique index on u (k, w)"


class Copy:
    """A database, and what its tables should hold; ``t`` has no key, ``u`` has one."""

    def __init__(self, rng: random.Random, db: "kpg.Database", t: Rows, u: Rows) -> None:
        self.rng = rng
        self.db = db
        self.t, self.u = Counter(t), Counter(u)
        self.began = Counter(t), Counter(u)

    def change(self) -> None:
        """Some changes in a transaction, which is perhaps rolled back."""
        rng, db = self.rng, self.db
        before = self.t.copy(), self.u.copy()
        db.sql("begin")
        for _ in range(rng.randint(1, 4)):
            k, v = rng.randrange(8), rng.randrange(8)
            match rng.choice(["insert", "delete", "update", "upsert", "remove"]):
                case "insert":
                    rows = [(rng.randrange(8), rng.randrange(8)) for _ in range(rng.choice([1, 3, 40]))]
                    db.insert("t", rows)
                    self.t.update(rows)
                case "delete":
                    db.sql(f"delete from t where k = {k}")
                    self.t = Counter({row: n for row, n in self.t.items() if row[0] != k})
                case "update":
                    db.sql(f"update t set v = {v} where k = {k}")
                    self.t = Counter((a, v if a == k else b) for a, b in self.t.elements())
                case "upsert":
                    db.upsert("u", [(k, v)])
                    self.u = Counter([row for row in self.u if row[0] != k] + [(k, v)])
                case "remove":
                    db.sql(f"delete from u where k = {k}")
                    self.u = Counter([row for row in self.u if row[0] != k])
        if rng.random() < 0.25:
            db.sql("rollback")
            self.t, self.u = before
        else:
            db.sql("commit")

    def check(self) -> None:
        """Tables and views are what the model says, and views what their queries say."""
        assert Counter(self.db.query("select * from t").fetchall()) == self.t
        assert Counter(self.db.query("select * from u").fetchall()) == self.u
        assert dict(self.db.query("select k, w from u where k = 3").fetchall()) == {
            k: w for k, w in self.u if k == 3
        }
        for name, model in MODEL.items():
            assert Counter(self.db.view(name).fetchall()) == model(self.t, self.u), name
            self.db.verify(name)

    def differences(self, other: "Copy") -> None:
        """What differs from the trunk is what differs between the models."""
        for name in ("t", "u", *MODEL):
            mine, theirs = (
                one.t if name == "t" else one.u if name == "u" else MODEL[name](one.t, one.u)
                for one in (self, other)
            )
            assert isinstance(self.db, kpg.Branch)
            found = Counter(dict(self.db.diff(name)))
            more = {row: mine[row] - theirs[row] for row in mine | theirs}
            assert found == {row: count for row, count in more.items() if count}


def start(seed: int, folder: Path | None = None) -> Copy:
    rng = random.Random(seed)
    db = kpg.connect(folder, history=rng.choice([None, 5]))
    db.sql("create table t (k int, v int); create table u (k int primary key, w int)")
    if rng.random() < 0.5:
        db.sql(INDEXES)
    for name, text in VIEWS.items():
        db.sql(f"create materialized view {name} as {text}")
    return Copy(rng, db, Counter(), Counter())


@pytest.mark.parametrize("seed", range(8))
def test_each_goes_on_by_itself(seed: int, tmp_path: Path) -> None:
    """Where the trunk is in a folder, it is closed and opened again from time to time."""
    folder = tmp_path / "db" if seed % 2 else None
    trunk = start(seed, folder)
    rng = trunk.rng
    alive: list[tuple[Copy, Copy | None]] = [(trunk, None)]
    for _ in range(30):
        one, parent = rng.choice(alive)
        match rng.choice(["change", "change", "change", "branch", "discard", "check", "diff", "again"]):
            case "again" if folder is not None and len(alive) == 1:
                trunk.db.close()
                trunk.db = kpg.connect(folder, history=rng.choice([None, 5]))
            case "change":
                one.change()
            case "branch" if len(alive) < 5:
                alive.append((Copy(rng, one.db.branch(), one.t, one.u), one))
            case "discard" if parent is not None and not any(other is one for _, other in alive):
                assert isinstance(one.db, kpg.Branch)
                one.db.discard()
                alive = [pair for pair in alive if pair[0] is not one]
            case "diff" if parent is not None:
                one.differences(parent)
            case "check":
                one.check()
    for one, _ in alive:
        one.check()


@pytest.mark.parametrize("seed", range(6))
def test_a_merge_is_both_changes_or_none(seed: int) -> None:
    """The trunk has both afterwards if they are of other rows; else it is as it was."""
    trunk = start(seed)
    rng = trunk.rng
    outcomes = set()
    for _ in range(8):
        trunk.change()
        db = trunk.db.branch()
        branch = Copy(rng, db, trunk.t, trunk.u)
        for _ in range(rng.randint(0, 2)):
            branch.change()
        if rng.random() < 0.6:
            trunk.change()
        mine = branch.u - branch.began[1], branch.began[1] - branch.u
        theirs = trunk.u - branch.began[1], branch.began[1] - trunk.u
        keys = [{row[0] for row in (*came, *went)} for came, went in (mine, theirs)]
        assert isinstance(db, kpg.Branch)
        try:
            db.merge()
        except kpg.IntegrityError:
            trunk.check()
            branch.check()
            db.discard()
            outcomes.add("refused")
            continue
        assert not keys[0] & keys[1]
        trunk.t = trunk.t + (branch.t - branch.began[0]) - (branch.began[0] - branch.t)
        trunk.u = trunk.u + mine[0] - mine[1]
        trunk.check()
        assert db.closed
        outcomes.add("merged")
    assert "merged" in outcomes


def reopened(one: Copy, folder: Path, *, read_only: bool = False) -> None:
    one.db.close()
    one.db = kpg.connect(folder, read_only=read_only)


@pytest.mark.parametrize("seed", range(6))
def test_what_sleeps_in_a_branch_and_its_trunk_wakes_in_each_by_itself(seed: int, tmp_path: Path) -> None:
    """Branches begin right after opening, when nobody has read anything; arrays are stored, with patches.

    A third of the trunks are opened for reading; of others checkpoints are made then, which remove packs.
    """
    folder, read_only = tmp_path / "db", seed % 3 == 2
    trunk = start(seed, folder)
    rng = trunk.rng
    rows = [(8 + rng.randrange(200), rng.randrange(8)) for _ in range(400)]
    trunk.db.insert("t", rows)
    trunk.t.update(rows)
    keyed = {(k, rng.randrange(8)): 1 for k in range(8, 400)}
    trunk.db.insert("u", list(keyed))
    trunk.u.update(keyed)
    for _ in range(rng.randint(1, 3)):
        reopened(trunk, folder)
        trunk.change()
    reopened(trunk, folder, read_only=read_only)
    alive = [trunk]
    for _ in range(4):
        one = rng.choice(alive)
        if rng.random() < 0.2 and not (read_only and one is trunk):
            one.change()
        alive.append(Copy(rng, one.db.branch(), one.t, one.u))
    for _ in range(12):
        one = rng.choice(alive)
        if one is not trunk or not read_only:
            one.change()
        if not read_only and rng.random() < 0.3:
            trunk.db.sql("checkpoint")
        if rng.random() < 0.3:
            one.check()
    for one in alive:
        one.check()
