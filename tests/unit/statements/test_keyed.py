"""UPDATEs, DELETEs and upserts of many sessions that share a step, beside the same ones alone."""

import random
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

import kpg
from kpg.execute.changes.keyed_changes import prepare_keyed_change
from kpg.session.session import Session

SETUP = """
create table t (id int primary key, x bigint, y text);
insert into t select i, i * 10, 'y' || i from generate_series(1, 20) g(i);
create materialized view v as select x % 3 as g, count(*) as n, sum(x) as s from t group by x % 3;
create materialized view w as select id, 100 / (x - 77) as q from t;
"""
STATEMENTS = (
    ("update t set x = x + 1 where id = $1", 1),
    ("update t set x = $2, y = 'z' where id = $1 and x < 500", 2),
    ("update t set id = $2 where id = $1", 2),
    ("delete from t where id = $1", 1),
    ("insert into t values ($1, $2, 'i')", 2),
    ("insert into t values ($1, $2, 'u') on conflict (id) do update set x = t.x + excluded.x", 2),
    ("insert into t values ($1, $2, 'u') on conflict (id) do update set y = 'w' where t.x > 90", 2),
    ("insert into t values ($1, $2, 'n') on conflict do nothing", 2),
    ("insert into t values ($1, $2, 'r') on conflict (id) do update set x = 1 returning id, x", 2),
)


@pytest.fixture
def db() -> Iterator[kpg.Database]:
    with kpg.connect() as opened:
        opened.sql(SETUP)
        yield opened


def handed_in(session: Session, text: str, values: list[Any]) -> "Future[Any]":
    """A statement as the server hands it in."""
    engine = session.session_manager.engine
    how = session.job_options(text, values)
    return session.session_manager.submit(session, lambda: session.run_text(engine, text, values), **how)


def told(future: "Future[Any]") -> object:
    """What came of a statement."""
    error = future.exception()
    result = future.result() if error is None else None
    return type(error) if error is not None else (result.rowcount, sorted(result.fetchall()))


def drawn(draw: random.Random) -> tuple[str, list[Any]]:
    text, count = draw.choice(STATEMENTS)
    key: Any = draw.choice((draw.randint(1, 30), str(draw.randint(1, 30))))
    return text, [key, draw.choice((draw.randint(-5, 600), 77, None, 2**62))][:count]


@pytest.mark.slow
@pytest.mark.parametrize("seed", (0, 1, 2, 16, 22))
def test_together_they_do_what_they_do_alone(seed: int) -> None:
    draw = random.Random(seed)
    with kpg.connect() as db, kpg.connect() as other:
        for one in (db, other):
            one.sql(SETUP)
        # What comes of one session is not overtaken.
        session, alone = db.session(), other.session()
        for _ in range(12):
            batch = [drawn(draw) for _ in range(draw.choice((1, 3, 12)))]
            for batched in (batch, [draw.choice(batch)] * 5):
                futures = [handed_in(session, *one) for one in batched]
                db.hub.serve()
                expected = []
                for one in batched:
                    future = handed_in(alone, *one)
                    other.hub.serve()
                    expected.append(told(future))
                assert [told(future) for future in futures] == expected
            query = "select * from t order by id"
            assert session.sql(query).fetchall() == alone.sql(query).fetchall()  # type: ignore[union-attr]
        db.verify("v")
        db.verify("w")


def test_each_has_an_epoch_of_its_own(db: kpg.Database) -> None:
    sessions = [db.session() for _ in range(6)]
    text = "update t set x = x + 1 where id = $1"
    changes: list[Any] = []
    db.sql("create materialized view u as select id, x from t")
    for place in (1, 2, 3):
        sessions[0].sql(text, [place])
    db.view("u").subscribe(changes.append)
    changes.clear()
    first = db.epoch
    keys = (5, 6, 99, 7, 8, 5)
    futures = [handed_in(one, text, [key]) for key, one in zip(keys, sessions, strict=True)]
    db.hub.serve()
    assert [future.result().rowcount for future in futures] == [1, 1, 0, 1, 1, 1]
    (told,) = changes
    assert sorted(told, key=lambda one: (one[1], one[2])) == [
        ((5, 50), first + 1, -1), ((5, 51), first + 1, 1),
        ((6, 60), first + 2, -1), ((6, 61), first + 2, 1),
        ((7, 70), first + 3, -1), ((7, 71), first + 3, 1),
        ((8, 80), first + 4, -1), ((8, 81), first + 4, 1),
        ((5, 51), first + 5, -1), ((5, 52), first + 5, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "update t set x = x + 1 where x = $1",
        "update t set x = x + 1 where id = $1 returning x",
        "update t set x = (select max(x) from t) where id = $1",
        "select x from t where id = $1",
    ],
)
def test_what_is_not_gathered(db: kpg.Database, text: str) -> None:
    session = db.session()
    for _ in range(3):
        session.sql(text, [1])
    assert prepare_keyed_change(session.session_manager.engine, text, [1]) is None


def test_what_is_gathered(db: kpg.Database) -> None:
    session, text = db.session(), "delete from t where id = $1"
    assert prepare_keyed_change(session.session_manager.engine, text, [1]) is None
    for _ in range(3):
        session.sql(text, [1])
    assert prepare_keyed_change(session.session_manager.engine, text, [1]) is not None
    db.sql("create index on t (x)")
    assert prepare_keyed_change(session.session_manager.engine, text, [1]) is None


def test_sessions_that_read_do_not_part_those_that_write(db: kpg.Database) -> None:
    steps: list[Any] = []
    db.view("v").subscribe(steps.append)
    steps.clear()
    sessions = [db.session() for _ in range(4)]
    texts = ("insert into t values ($1, 1, '')", "select count(*) from t where id > $1")
    futures = [handed_in(sessions[i % 4], texts[i % 2], [100 + i]) for i in range(4)]
    db.hub.serve()
    assert [future.result().rowcount for future in futures] == [1, 1, 1, 1]
    assert len(steps) == 1
