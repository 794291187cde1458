"""The memory limit: what goes beyond it is undone, and the database is usable after."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kpg
from kpg.database import Database
from kpg.memory import bytes_of
from kpg.result import Rows

TRIPLES = "select x.a, y.a as b, z.a as c from t x, t y, t z"


def used() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.fixture
def db() -> Iterator[Database]:
    with kpg.connect(memory_limit=used() + (150 << 20)) as database:
        database.sql("create table t (a int)")
        database.sql("insert into t select * from generate_series(1, 2000)")
        yield database


def count(db: Database, query: str) -> object:
    found = db.sql(query)
    assert isinstance(found, Rows)
    return found.fetchone()


def test_a_runaway_query_ends(db: Database) -> None:
    with pytest.raises(kpg.OperationalError, match="the memory limit of"):
        db.sql(f"select count(distinct (a, b, c)) from ({TRIPLES}) q")
    assert count(db, "select count(*), sum(a) from t where a <= 10") == (10, 55)


def test_a_runaway_view_is_not_there(db: Database) -> None:
    with pytest.raises(kpg.OperationalError, match="memory limit"):
        db.sql(f"create materialized view v as {TRIPLES}")
    db.sql("create materialized view v as select count(*) as n from t")
    db.sql("insert into t values (1)")
    assert list(db.view("v")) == [(2001,)]


def test_a_runaway_change_is_undone(db: Database) -> None:
    db.sql("create table switch (on_ int)")
    db.sql(f"create materialized view v as select q.* from ({TRIPLES}) q, switch")
    with pytest.raises(kpg.OperationalError, match="memory limit"):
        db.sql("insert into switch values (1)")
    assert count(db, "select count(*) from switch") == (0,)
    assert list(db.view("v")) == []
    db.sql("drop view v")
    db.sql("insert into switch values (1)")
    assert count(db, "select count(*) from switch") == (1,)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1000, 1000),
        ("1000", 1000),
        ("2 KB", 2048),
        ("500MB", 500 << 20),
        ("1.5g", 3 << 29),
        ("1 GiB", 1 << 30),
    ],
)
def test_limits_are_numbers_or_texts(limit: int | str, expected: int) -> None:
    assert bytes_of(limit) == expected


@pytest.mark.parametrize("limit", [0, -1, "much", "", "5 apples"])
def test_what_is_no_limit_is_refused(limit: int | str) -> None:
    with pytest.raises(kpg.InterfaceError, match="the memory limit is a number of bytes"):
        kpg.connect(memory_limit=limit)
