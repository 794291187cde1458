"""Columns that wait until rows are read are what they would be if they were computed at each step.

Engines that take the same history in small steps, in batches, and in each of the two by turns agree on
contents and on changes, whoever listens from when on; and on which changes fail.
"""

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

import kpg
from kpg.runtime.errors import DataError
from tests.properties.test_small_steps import BATCHES, SMALL, mixed, press

VIEWS = {
    "means": "SELECT k, avg(a) AS m, count(*) AS n, avg(w) AS wide FROM t GROUP BY k",
    "shares": "SELECT k, 100.00 * sum(a) / sum(b) AS share FROM t GROUP BY k",
    "guarded": "SELECT k, CASE WHEN sum(b) > 5 THEN sum(a) / sum(b) END AS q FROM t GROUP BY k",
    "large": "SELECT k, round(avg(a), 1) AS m FROM t GROUP BY k HAVING avg(a) > 1.5",
    "whole": "SELECT avg(a) / 7.0 AS m, sum(w) / sum(b) AS q FROM t",
    "spread": "SELECT k, stddev(a) AS s, -avg(b) AS m FROM t GROUP BY k",
    "heard": "SELECT k, m FROM means WHERE m > 1",
    "numbered": "SELECT k, sum(r * w % 7) AS s FROM (SELECT k, w % 100 AS w,"
    " row_number() OVER (PARTITION BY k ORDER BY id) AS r FROM t) x GROUP BY k",
    "both": "SELECT x.k, x.m, y.n FROM (SELECT k, max(m) AS m FROM means GROUP BY k) x,"
    " (SELECT k, count(*) AS n FROM (SELECT k, row_number() OVER (PARTITION BY k ORDER BY a, id) AS r"
    " FROM t) z WHERE r < 4 GROUP BY k) y WHERE x.k = y.k",
    "joined": "SELECT t.k, t.a FROM t, means WHERE t.k = means.k AND t.a < 0.8 * means.m",
}
LISTENED = ("means", "shares", "large", "whole")


class Twin:
    """A database, what has been heard of its views, and what they were before anybody listened."""

    def __init__(self) -> None:
        self.db = kpg.connect()
        self.db.sql(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, a NUMERIC(8, 2), b NUMERIC(8, 2), w BIGINT)"
        )
        for name, query in VIEWS.items():
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        self.heard: dict[str, Counter[Any]] = {}

    def listen(self, name: str) -> None:
        """Add up the changes of a view from now on."""
        self.heard[name] = heard = Counter(self.rows(name))

        def told(changes: list[tuple[Any, int, int]]) -> None:
            counts = Counter((row, time) for row, time, _ in changes)
            assert max(counts.values()) == 1  # what comes and goes at once is no change
            for row, _, diff in changes:
                heard[row] += diff

        self.db.view(name).subscribe(told)

    def rows(self, name: str) -> Counter[Any]:
        return Counter(self.db.view(name).fetchall())

    def check(self) -> None:
        for name, heard in self.heard.items():
            assert +heard == self.rows(name), name
        for name, query in VIEWS.items():
            assert self.rows(name) == Counter(self.db.sql(query).fetchall()), name


def change(rng: random.Random, ids: list[int]) -> list[str]:
    """Statements of a transaction."""
    texts = []
    for _ in range(rng.randint(1, 4)):
        if ids and rng.random() < 0.35:
            texts.append(f"DELETE FROM t WHERE id = {ids.pop(rng.randrange(len(ids)))}")
        elif ids and rng.random() < 0.3:
            texts.append(f"UPDATE t SET a = a + 0.01, w = w - 1 WHERE id = {rng.choice(ids)}")
        else:
            ids.append(max(ids, default=0) + rng.randint(1, 3))
            a = "NULL" if rng.random() < 0.1 else str(rng.randint(-300, 900) / Decimal(100))
            word = rng.choice([rng.randint(-9, 9), 2**61, -(2**61)])
            texts.append(
                f"INSERT INTO t VALUES ({ids[-1]}, {rng.randint(0, 3)}, {a}, {rng.randint(1, 99)}.5, {word})"
            )
    return texts


class History:
    """What happens to twins of other limits."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.rng, self.patch = random.Random(seed), patch
        self.twins = [Twin() for _ in range(3)]
        self.ids: list[int] = []

    def limit(self, index: int) -> None:
        turn = self.rng.choice((SMALL, BATCHES, mixed(self.rng)))
        for (owner, name), value in (SMALL, BATCHES, turn)[index].items():
            self.patch.setattr(owner, name, value)

    def commit(self, texts: list[str]) -> None:
        for index, twin in enumerate(self.twins):
            self.limit(index)
            with twin.db.transaction():
                for text in texts:
                    twin.db.sql(text)

    def fail(self) -> None:
        """Have the divisor of a group be 0: the step fails, as if it had not been."""
        for index, twin in enumerate(self.twins):
            self.limit(index)
            before = {name: twin.rows(name) for name in VIEWS}
            with pytest.raises(DataError, match=r"division by zero"):
                twin.db.sql("INSERT INTO t VALUES (-1, 9, 1, 0, 1)")
            assert {name: twin.rows(name) for name in VIEWS} == before

    def interrupted(self) -> None:
        when = self.rng.randrange(4)
        for index, twin in enumerate(self.twins):
            self.limit(index)
            with pytest.MonkeyPatch.context() as patch:
                press(patch, when)
                with pytest.raises(KeyboardInterrupt):
                    twin.db.sql("INSERT INTO t VALUES (-1, 1, 1, 1, 1)")

    def compare(self) -> None:
        first, *rest = self.twins
        for twin in self.twins:
            twin.check()
        for name in VIEWS:
            assert all(twin.rows(name) == first.rows(name) for twin in rest), name


@pytest.mark.parametrize("seed", range(6))
def test_reading_late_is_reading(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(seed, monkeypatch)
    rng = history.rng
    for turn in range(30):
        chance = rng.random()
        if chance < 0.1:
            history.fail()
        elif chance < 0.2:
            history.interrupted()
        elif chance < 0.3:
            quiet = [name for name in LISTENED if name not in history.twins[0].heard]
            for twin in history.twins:
                for name in quiet[:1]:
                    twin.listen(name)
        history.commit(change(rng, history.ids))
        if turn % 5 == 4:
            history.compare()
    history.compare()


def test_a_mean_is_what_postgres_says() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE t (k INTEGER, a NUMERIC(8, 2))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, avg(a) AS m FROM t GROUP BY k")
    for number in range(20):
        db.sql(f"INSERT INTO t VALUES (1, {number}.25)")
    assert db.view("v").fetchall() == [(1, Decimal("9.7500000000000000"))]
    db.sql("DELETE FROM t WHERE a < 18")
    assert db.view("v").fetchall() == [(1, Decimal("18.7500000000000000"))]
    db.sql("DELETE FROM t WHERE a > 19")
    assert db.view("v").fetchall() == [(1, Decimal("18.2500000000000000"))]
