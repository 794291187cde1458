"""Partitioned tables where they refuse; what they give is compared with Postgres."""

from collections.abc import Iterator

import pytest

import kpg
from kpg.api.database import Database


@pytest.fixture
def db() -> Iterator[Database]:
    with kpg.connect() as made:
        made.sql("create table p (a int primary key, b text) partition by range (a)")
        made.sql("create table p1 partition of p for values from (1) to (10)")
        yield made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("insert into p values (10, 'x')", 'no partition of relation "p" found for row'),
        ("insert into p1 values (10, 'x')", "violates partition constraint"),
        ("create table q partition of p1 default", '"p1" is not partitioned'),
        ("create table w (a int) partition by range (a) replicated", "REPLICATED on a partitioned table"),
        (
            "create table w (a int) partition by range (a) distributed by (a)",
            "DISTRIBUTED BY on a partitioned table",
        ),
        ("create table q partition of p for values in (1)", "no bound of a partition by RANGE"),
        ("create table q partition of p for values from (1, 2) to (3)", "need a value for each key"),
        ("create unique index on p (b)", "must include all partitioning columns"),
        ("alter table p1 add c int", "cannot add column to a partition"),
        (
            "create table q (a int references p1); create table p2 partition of p default; "
            "insert into p values (1); update p set a = 20",
            "cannot move tuple across partitions",
        ),
    ],
)
def test_what_partitions_refuse(db: Database, text: str, message: str) -> None:
    with pytest.raises(kpg.Error, match=message):
        db.sql(text)


def test_a_row_moves_to_another_partition(db: Database) -> None:
    db.sql("create table p2 partition of p for values from (10) to (20); insert into p values (1, 'x')")
    db.sql("update p set a = 15")
    assert db.query("select a from p1").fetchall() == []
    assert db.query("select a from p2").fetchall() == [(15,)]
    with pytest.raises(kpg.IntegrityError, match='no partition of relation "p" found for row'):
        db.sql("update p set a = 25")
    assert db.query("select a from p2").fetchall() == [(15,)]


def test_copied_rows_find_their_partitions(db: Database) -> None:
    db.sql("create table p2 partition of p default")
    db.sql("copy p from stdin;\n1\tone\n15\tfifteen\n\\.\n")
    assert db.query("select * from p1").fetchall() == [(1, "one")]
    assert db.query("select * from p2").fetchall() == [(15, "fifteen")]


def test_rows_of_python_do_not_go_past_partitions(db: Database) -> None:
    with pytest.raises(kpg.NotSupportedError, match="which is partitioned, are not supported"):
        db.insert("p", [(1, "x")])


def test_what_is_returned_has_the_columns_of_the_whole_table() -> None:
    with kpg.connect() as db:
        db.sql("create table p (a int primary key, o text, n int) partition by range (a)")
        db.sql("create table other (n int, a int not null, o text)")
        db.sql("alter table p attach partition other for values from (0) to (10)")
        found = db.sql("insert into p values (2, 'x', 7) returning *, a + n")
        assert found is not None
        assert found.fetchall() == [(2, "x", 7, 9)]
        changed = db.sql("update p set n = 8 returning *")
        assert changed is not None
        assert changed.fetchall() == [(2, "x", 8)]
