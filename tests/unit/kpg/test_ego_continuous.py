"""Continuous and quasi-continuous readers in one overlay, beside plain SQL."""

import random
from collections import Counter
from typing import Any

import pytest

import kpg
from kpg.runtime.errors import ProgrammingError

PEOPLE = range(12)


def database(**options: Any) -> Any:
    db = kpg.connect(**options)
    db.sql("CREATE TABLE follows (who BIGINT, whom BIGINT); CREATE TABLE vips (who BIGINT)")
    db.sql("CREATE TABLE posts (id BIGINT, author BIGINT, likes BIGINT)")
    db.insert("follows", [(a, b) for a in PEOPLE for b in PEOPLE if (3 * a + b) % 4])
    db.insert("posts", [(i, i % 12, i * 7 % 30) for i in range(40)])
    return db


TRUTH = (
    "SELECT who, {}(likes) FROM (SELECT DISTINCT * FROM follows) f JOIN (SELECT *, row_number() OVER"
    " (PARTITION BY author ORDER BY id DESC) n FROM posts) p ON author = whom AND n <= 2 GROUP BY who"
)


def change(db: Any, chance: random.Random, number: int) -> None:
    with db.transaction():
        db.insert("posts", [(100 + number, chance.choice(PEOPLE), chance.randrange(50))])
        if chance.random() < 0.5:
            db.sql(f"DELETE FROM posts WHERE author = {chance.choice(PEOPLE)} AND id < {90 + number}")
        db.insert("follows", [(chance.choice(PEOPLE), chance.choice(PEOPLE))])
        db.sql(f"DELETE FROM follows WHERE who = {chance.choice(PEOPLE)} AND whom = {chance.choice(PEOPLE)}")


@pytest.mark.parametrize("aggregate", ["sum", "max", "bit_xor"])
@pytest.mark.parametrize("mode", ["auto", "pull"])
def test_whoever_is_followed_is_told_and_others_are_right_when_read(aggregate: str, mode: str) -> None:
    db, chance = database(), random.Random(aggregate)
    view = db.ego("v", edges="follows", writes="posts", aggregate=aggregate, window=2, mode=mode)
    heard: Counter[Any] = Counter()
    mine = [1, 4, 5, 77]

    def tell(changes: list[Any]) -> None:
        for row, _, diff in changes:
            heard[row] += diff

    before = {row for row in db.sql(TRUTH.format(aggregate)).fetchall() if row[0] in mine}
    heard.update(before)
    with view.subscribe(tell, nodes=mine):
        for number in range(12):
            change(db, chance, number)
            expected = dict(db.sql(TRUTH.format(aggregate)).fetchall())
            assert {row: n for row, n in heard.items() if n} == {
                (node, value): 1 for node, value in expected.items() if node in mine
            }
            assert view.read_many(list(PEOPLE)) == [expected.get(node) for node in PEOPLE]
            assert dict(view.fetchall()) == expected


def test_only_what_is_followed_is_pushed() -> None:
    db = database()
    view = db.ego("v", edges="follows", writes="posts", mode="pull", overlay="none")
    readers = view.overlay.readers
    heard: list[Any] = []
    with view.subscribe(heard.extend, nodes=[2, 3]), view.subscribe(heard.extend, nodes=[3]):
        db.insert("posts", [(900, 1, 1)])
        assert (view.overlay.pushed, view.overlay.pulled) == (2, readers - 2)
    db.insert("posts", [(901, 1, 1)])
    assert view.overlay.pushed == 0
    db.sql(
        "CREATE MATERIALIZED VIEW few AS SELECT node, value + 1 AS more FROM v WHERE node < 5 AND value > 0"
    )
    db.insert("posts", [(902, 1, 1)])
    assert view.overlay.pushed == 5
    wanted = sorted((node, value + 1) for node, value in view.fetchall() if node < 5 and value > 0)
    assert sorted(db.query("SELECT * FROM few").fetchall()) == wanted
    db.sql("CREATE MATERIALIZED VIEW best AS SELECT max(value) AS v FROM v")
    db.insert("posts", [(903, 1, 100)])
    assert view.overlay.pulled == 0
    assert db.query("SELECT v FROM best").fetchall() == [(max(value for _, value in view.fetchall()),)]
    db.sql("DROP MATERIALIZED VIEW best")
    db.insert("posts", [(904, 1, 1)])
    assert view.overlay.pushed == 5
    db.verify("few")


@pytest.mark.parametrize("workers", [1, 2])
def test_readers_that_are_continuous_by_a_relation(workers: int) -> None:
    chance = random.Random(workers)
    with database(workers=workers) as db:
        db.sql("INSERT INTO vips VALUES (3), (4)")
        db.sql(
            "CREATE EGO VIEW v AS sum(likes) FROM posts LAST 2 OVER follows READERS node <> 7"
            " CONTINUOUS (SELECT who FROM vips) WITH (mode = pull, overlay = none)".replace("likes", "value")
        )
        view = db.view("v")
        assert view.overlay.pushed == 2
        for number in range(6):
            change(db, chance, number)
            if number == 2:
                db.sql("DELETE FROM vips WHERE who = 3; INSERT INTO vips VALUES (5), (6), (99)")
                assert view.overlay.pushed >= 3
            expected = {row for row in db.sql(TRUTH.format("sum")).fetchall() if row[0] != 7}
            assert set(view.fetchall()) == expected
        with pytest.raises(RuntimeError), db.transaction():
            db.sql("INSERT INTO vips VALUES (8)")
            raise RuntimeError
        view.decide()
        there = {who for (who,) in db.query("SELECT who FROM vips JOIN follows USING (who)").fetchall()}
        assert view.overlay.pushed == len(there)


def test_continuous_readers_by_a_list_or_a_condition() -> None:
    db = database()
    listed = db.ego("a", edges="follows", writes="posts", mode="pull", continuous=[1, 2], overlay="none")
    asked = db.ego("b", edges="follows", writes="posts", mode="pull", continuous="node > 8", overlay="none")
    assert (listed.overlay.pushed, asked.overlay.pushed) == (2, 3)
    assert "readers of %" in asked.explain()
    with pytest.raises(ProgrammingError, match="nobody"):
        db.ego("c", edges="follows", writes="posts", continuous="nobody = 3")


def test_with_workers_a_subscription_pushes_only_what_it_follows() -> None:
    with kpg.connect(workers=2) as db:
        db.sql("CREATE TABLE e (a TEXT, b TEXT); CREATE TABLE w (o INT, n TEXT, v INT)")
        db.insert("e", [(a, b) for a in "abcdef" for b in "uvxyz"])
        db.insert("w", [(i, "uvxyz"[i % 5], i) for i in range(20)])
        view = db.ego("v", edges="e", writes="w", window=1, mode="pull", overlay="none")
        heard: list[Any] = []
        with view.subscribe(heard.extend, nodes=["b", "e"]):
            db.insert("w", [(50, "u", 1000)])
            assert [(row, diff) for row, _, diff in sorted(heard)] == [
                (("b", 85), -1), (("b", 1070), 1), (("e", 85), -1), (("e", 1070), 1)
            ]  # fmt: skip
            assert view.overlay.pushed == 2
