"""The memory limit: what goes beyond it is undone, and the database is usable after."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kpg
from kpg.api.database import Database
from kpg.api.result import Rows
from kpg.postgres.sqlstate import sqlstate_of
from kpg.session.memory_limit import OutOfMemoryError, parse_limit, release_memory, used_bytes

TRIPLES = "select x.a, y.a as b, z.a as c from t x, t y, t z"


@pytest.fixture
def db() -> Iterator[Database]:
    with kpg.connect(memory_limit=used_bytes() + (150 << 20)) as database:
        database.sql("create table t (a int)")
        database.sql("insert into t select * from generate_series(1, 2000)")
        yield database


def count(db: Database, query: str) -> object:
    found = db.sql(query)
    assert isinstance(found, Rows)
    return found.fetchone()


@pytest.mark.slow
def test_a_runaway_query_ends(db: Database) -> None:
    with pytest.raises(OutOfMemoryError, match="the memory limit of"):
        db.sql(f"select count(distinct (a, b, c)) from ({TRIPLES}) q")
    assert count(db, "select count(*), sum(a) from t where a <= 10") == (10, 55)


@pytest.mark.slow
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


def test_an_error_is_of_memory_by_its_class() -> None:
    """One that only names a file of that name keeps its traceback, and its SQLSTATE."""
    found = []
    for error in (kpg.OperationalError("no file memory.csv"), MemoryError("no room")):
        try:
            raise error
        except Exception as raised:
            found.append(release_memory(raised))
    assert [sqlstate_of(error) for error in found] == ["58000", "53200"]
    assert [error.__traceback__ is None for error in found] == [False, True]
    assert isinstance(found[1], OutOfMemoryError)
    assert str(found[1]) == "out of memory: no room\nhint: the system gives the process no more"


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
    assert parse_limit(limit) == expected


@pytest.mark.parametrize("limit", [0, -1, "much", "", "5 apples"])
def test_what_is_no_limit_is_refused(limit: int | str) -> None:
    with pytest.raises(kpg.InterfaceError, match="the memory limit is a number of bytes"):
        kpg.connect(memory_limit=limit)


@pytest.mark.slow
def test_a_database_larger_than_its_memory_is_read_and_changed(tmp_path: Path) -> None:
    """What is mapped does not count: twice as much as is allowed comes to be in memory, and may go again."""
    rows = 2_200_000
    with kpg.connect(tmp_path / "db") as db:
        db.sql("create table t (k bigint primary key, a bigint, b bigint, c bigint, d bigint, e bigint)")
        db.sql(f"insert into t select i, i % 7, i % 11, i, i, i from generate_series(1, {rows}) s(i)")
        db.sql("update t set e = e where k = 1")  # which has keys be indexed
        db.sql("create materialized view sums as select a, count(*) n, sum(e) s from t group by a")
    limit = 60 << 20
    size = sum(file.stat().st_size for file in (tmp_path / "db").iterdir())
    assert size > 2 * limit
    allowed = used_bytes() + limit
    with kpg.connect(tmp_path / "db", memory_limit=allowed) as db:
        assert db.query("select e from t where k = 777777").fetchall() == [(777777,)]
        for k in (1, 1_000_000, 2_000_000):
            db.sql(f"update t set e = e + 1 where k = {k}")
        db.sql(f"delete from t where k > {rows - 10}; insert into t values ({rows}, 1, 1, 1, 1, 1)")
        total = (rows - 10) * (rows - 9) // 2 + 3 + 1
        assert db.query("select sum(n), sum(s) from sums").fetchall() == [(rows - 9, total)]
        assert used_bytes() < allowed
        db.verify("sums")
