"""What was there at an epoch is what was there: random histories against a model that keeps every version.

The model is plain Python over lists of rows, and knows nothing of epochs but the version that each was.
"""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

import kpg

Rows = Counter[tuple[int, ...]]
Version = tuple[Rows, Rows]
VIEWS = {
    "joined": "select t.k, t.v, u.w from t join u on t.k = u.k",
    "grouped": "select k, count(*), sum(v) from t group by k",
    "top": "select k, v from t order by v desc, k limit 3",
    "reached": """with recursive r (k, w) as (
        select k, w from u union select r.k, u.w from r join u on r.w = u.k) select k, w from r""",
    "missing": "select k, v from t where not exists (select 1 from u where u.k = t.v)",
}


def joined(t: Rows, u: Rows) -> Rows:
    return Counter((k, v, w) for k, v in t.elements() for k2, w in u.elements() if k == k2)


def grouped(t: Rows, u: Rows) -> Rows:
    keys = {k for k, _ in t}
    values = {key: [v for k, v in t.elements() if k == key] for key in keys}
    return Counter((key, len(found), sum(found)) for key, found in values.items())


def top(t: Rows, u: Rows) -> Rows:
    return Counter(sorted(t.elements(), key=lambda row: (-row[1], row[0]))[:3])


def reached(t: Rows, u: Rows) -> Rows:
    found = set(u)
    while True:
        more = found | {(k, w2) for k, w in found for k2, w2 in u if w == k2}
        if more == found:
            return Counter(found)
        found = more


def missing(t: Rows, u: Rows) -> Rows:
    there = {k for k, _ in u}
    return Counter({row: n for row, n in t.items() if row[1] not in there})


MODEL = {"joined": joined, "grouped": grouped, "top": top, "reached": reached, "missing": missing}


class History:
    """A database with two tables, one of them with a key, and every version of them."""

    def __init__(self, seed: int, keep: int, folder: Path | None = None) -> None:
        self.rng = random.Random(seed)
        self.keep = keep
        self.folder = folder
        self.lives = 0
        self.db = kpg.connect(folder, history=keep)
        self.db.sql("create table t (k int, v int); create table u (k int primary key, w int)")
        for name, text in VIEWS.items():
            if self.rng.random() < 0.7:
                self.db.sql(f"create materialized view {name} as {text}")
            else:
                self.db.sql(f"create view {name} as {text}")
        self.t: Rows = Counter()
        self.u: Rows = Counter()
        self.versions: dict[int, Version] = {self.db.epoch: (self.t.copy(), self.u.copy())}

    def change(self) -> None:
        """Change the tables by a statement or two, and the model alike."""
        rng, db = self.rng, self.db
        for _ in range(rng.randint(1, 3)):
            kind = rng.choice(["insert", "insert", "delete", "update", "upsert", "remove", "clear"])
            k, v = rng.randrange(6), rng.randrange(6)
            match kind:
                case "insert":
                    rows = [(rng.randrange(6), rng.randrange(6)) for _ in range(rng.randint(1, 4))]
                    db.insert("t", rows)
                    self.t.update(rows)
                case "delete":
                    db.sql(f"delete from t where k = {k}")
                    self.t = Counter({row: n for row, n in self.t.items() if row[0] != k})
                case "update":
                    db.sql(f"update t set v = {v} where k = {k}")
                    self.t = sum(
                        (Counter({(a, v if a == k else b): n}) for (a, b), n in self.t.items()), Counter()
                    )
                case "upsert":
                    db.upsert("u", [(k, v)])
                    self.u = Counter([row for row in self.u if row[0] != k] + [(k, v)])
                case "remove":
                    db.sql(f"delete from u where k = {k}")
                    self.u = Counter([row for row in self.u if row[0] != k])
                case "clear" if rng.random() < 0.1:
                    db.sql("delete from t")
                    self.t = Counter()

    def note(self) -> None:
        self.versions[self.db.epoch] = (self.t.copy(), self.u.copy())

    def step(self) -> None:
        """A commit, a batch of some, or one that is taken back."""
        match self.rng.choice(["transaction", "transaction", "batch", "rollback", "savepoint"]):
            case "transaction":
                with self.db.transaction():
                    self.change()
            case "batch":
                first = self.db.epoch
                inside = []
                with self.db.batch():
                    for _ in range(3):
                        with self.db.transaction():
                            self.change()
                            self.db.insert("t", [(9, len(inside))])
                            self.t[(9, len(inside))] += 1
                        inside.append((self.t.copy(), self.u.copy()))
                self.versions.update({first + 1 + i: version for i, version in enumerate(inside)})
            case "rollback":
                before = self.t.copy(), self.u.copy()
                self.db.sql("begin")
                self.change()
                self.db.sql("rollback")
                self.t, self.u = before
            case "savepoint":
                self.db.sql("begin; savepoint s")
                before = self.t.copy(), self.u.copy()
                self.change()
                self.db.sql("rollback to s")
                self.t, self.u = before
                self.change()
                self.db.sql("commit")
        self.note()

    def again(self) -> None:
        """Close the database and open it again, or have another process find what a killed one has left."""
        if self.folder is None:
            return
        if self.rng.random() < 0.5:
            self.lives += 1
            copy = self.folder.with_name(f"{self.folder.name}_{self.lives}")
            shutil.copytree(self.folder, copy)
            self.folder = copy
        self.db.close()
        self.db = kpg.connect(self.folder, history=self.keep)
        assert self.db.epoch == max(self.versions)

    def check(self) -> None:
        """Every epoch that is kept is as the model says, every other is refused."""
        db, now = self.db, self.db.epoch
        first = max(0, now - self.keep)
        for epoch in sorted(self.rng.sample(range(first, now + 1), min(4, now + 1 - first))):
            t, u = self.versions[epoch]
            assert Counter(db.query(f"select * from t as of {epoch}").fetchall()) == t
            assert Counter(db.query("select * from u as of $1", [epoch]).fetchall()) == u
            for name, model in MODEL.items():
                found = Counter(db.query(f"select * from {name} as of {epoch}").fetchall())
                assert found == model(t, u), (name, epoch)
                again = Counter(db.query(f"select * from ({VIEWS[name]}) q as of {epoch}").fetchall())
                assert again == model(t, u), (name, epoch)
        if first:
            with pytest.raises(kpg.ProgrammingError, match=f"epoch {first - 1} is not kept"):
                db.query(f"select * from t as of {first - 1}")
        for name, model in MODEL.items():
            if name in kept(db):
                since = self.rng.randint(first, now)
                net = Counter(model(*self.versions[since]))
                for row, epoch, diff in db.view(name).changes(since=since):
                    assert since < epoch <= now
                    net[row] += diff
                assert {row: n for row, n in net.items() if n} == model(self.t, self.u)
                assert Counter(db.view(name).as_of(since).fetchall()) == model(*self.versions[since])


def kept(db: "kpg.Database") -> set[str]:
    """The views that are kept up to date."""
    return {name for name, kind, _ in db.views().fetchall() if kind == "materialized view"}


@pytest.mark.parametrize("seed", range(5))
def test_a_database_in_a_folder_knows_its_past_in_its_next_life(seed: int, tmp_path: Path) -> None:
    history = History(seed, random.Random(seed).choice([3, 1000]), tmp_path / "db")
    for _ in range(12):
        history.step()
        if history.rng.random() < 0.4:
            history.again()
            history.check()
    history.again()
    history.check()
    history.db.close()


@pytest.mark.parametrize("seed", range(6))
def test_every_epoch_that_is_kept_is_what_it_was(seed: int) -> None:
    history = History(seed, keep=random.Random(seed).choice([1, 3, 10, 1000]))
    for _ in range(16):
        history.step()
        if history.rng.random() < 0.4:
            history.check()
    history.check()
