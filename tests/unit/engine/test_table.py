"""A table by way of the executor, and which rows are encoded one by one."""

from typing import Any

import pytest

import kpg
from kpg.api.database import Database
from kpg.runtime.errors import DataError, IntegrityError, InterfaceError, ProgrammingError
from kpg.session.base_table import MAX_ROWS_ENCODED_SINGLY, Table


@pytest.fixture
def table(db: Database) -> Table:
    db.sql("create table t (a integer not null, b varchar(3), primary key (a))")
    return db._engine.table("T")


def test_it_is_the_same_in_any_case(db: Database, table: Table) -> None:
    assert db._engine.table("t") is table and db._engine.find_table("t") is table
    assert db._engine.find_table("T") is None


def test_a_few_tuples_are_encoded_one_by_one(table: Table) -> None:
    words = table.encode_rows([(1, "x"), (2, None)])
    assert words is not None
    assert words[0].tolist() == [1, 2] and table.dictionary.decode(words[1]) == ["x", None]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [[1, "x"]],
        [{"a": 1, "b": "x"}],
        [(1,)],
        [(1, "long")],
        [("1", "x")],
        [(1, "x")] * (MAX_ROWS_ENCODED_SINGLY + 1),
    ],
    ids=["none", "lists", "dicts", "short", "too long", "mistyped", "many"],
)
def test_all_others_are_not(table: Table, rows: list[Any]) -> None:
    assert table.encode_rows(rows) is None


def test_keys_are_encoded_one_by_one(db: Database, table: Table) -> None:
    words = table.encode_keys([(1,), (7,)])
    assert words is not None and words.tolist() == [[1, 7]]
    assert table.encode_keys([(1, "x")]) is None and table.encode_keys([("1",)]) is None
    db.sql("create table k (a integer primary key); create table n (a integer, b integer)")
    assert db._engine.table("k").encode_keys([(1,)]) is None
    assert db._engine.table("n").encode_keys([(1,)]) is None


def test_rows_are_deleted_by_key_and_whole(db: Database, table: Table) -> None:
    db.insert("t", [(number, str(number)) for number in range(6)])
    assert db.delete("t", [(4,), (2,)]) == 2
    assert db.delete("t", [(1, "1")]) == 1
    assert db.delete("t", [{"a": 5}]) == 1
    assert db.delete("t", [(4,), (7,)]) == 0
    assert db.delete("t", [(3, "4")]) == 0
    assert db.query("select a from t order by a").fetchall() == [(0,), (3,)]
    assert db.delete("t", [(3,), (3,), (4,)]) == 1
    assert db.query("select a from t order by a").fetchall() == [(0,)]


def test_what_is_wrong_is_said_with_its_place(db: Database, table: Table) -> None:
    with pytest.raises(DataError, match=r"row 2, column b: value 'long' does not fit VARCHAR\(3\)"):
        db.insert("t", [(1, "x"), (2, "long")])
    with pytest.raises(ProgrammingError, match=r"row 1, column a: value 'x' is a str, expected INTEGER"):
        db.insert("t", [("x", "x")])
    with pytest.raises(InterfaceError, match=r"row 1 has 1 values, expected 2: a, b"):
        db.insert("t", [(1,)])
    with pytest.raises(IntegrityError, match=r"NULL in column a of the primary key of table t"):
        db.insert("t", [(None, "x")])
    assert table.row_count == 0


def test_rows_come_and_go(db: Database, table: Table) -> None:
    with db.transaction():
        words = table.encode_rows([(3, "c"), (1, "a")])
        assert words is not None
        rowids = table.insert(words)
        assert table.row_count == 2
        assert table.scan((0,)).tolist() == [[3, 1]]
        assert table.fetch(rowids[1:]).tolist() == words[:, 1:].tolist()
        assert table.find(words[:1]).tolist() == rowids.tolist() == table.match(words).tolist()
        executor = db._engine.executor
        assert executor.tables.scan("t", committed=True).shape == (2, 0)
        table.delete(rowids[:1])
        assert table.find(words[:1]).tolist() == [-1, rowids[1]]
    assert db.query("select a, b from t").fetchall() == [(1, "a")]
    assert table.scan().tolist() == words[:, 1:].tolist()


def tallies(db: kpg.Database) -> list[tuple[object, ...]]:
    asked = "select relname, n_tup_ins, n_tup_upd, n_tup_del, n_live_tup from pg_stat_user_tables order by 1"
    return db.query(asked).fetchall()


def test_rows_that_came_were_changed_and_went_are_counted() -> None:
    """As Postgres counts them; it also counts what is rolled back, and nothing of TRUNCATE."""
    db = kpg.connect()
    db.sql("create table t (id int primary key, a int); create table p (k int) partition by range (k)")
    db.sql("create table p1 partition of p for values from (0) to (10); create view v as select 1 as one")
    db.sql("insert into t select i, i from generate_series(1, 10) s(i); insert into p values (1), (2)")
    assert tallies(db) == [("p", 0, 0, 0, 0), ("p1", 2, 0, 0, 2), ("t", 10, 0, 0, 10)]
    db.sql("update t set a = 0 where id <= 4; delete from t where id > 8")
    db.sql("insert into t values (1, 7), (20, 7) on conflict (id) do update set a = excluded.a")
    assert tallies(db)[2] == ("t", 11, 5, 2, 9)
    db.upsert("t", [(1, 8), (30, 8)])
    assert tallies(db)[2] == ("t", 12, 6, 2, 10)
    db.sql("begin; insert into t values (40, 1); rollback; alter table t rename to u")
    assert tallies(db)[2] == ("u", 13, 6, 2, 10)
    db.sql("alter table u alter column a type bigint; alter table u rename column a to b; truncate u")
    assert tallies(db)[2] == ("u", 13, 6, 2, 0)
    db.load("u", {"id": [1, 2], "b": [1, 2]})
    assert tallies(db)[2] == ("u", 15, 6, 2, 2)


def test_rows_of_many_clients_are_counted() -> None:
    db = kpg.connect()
    db.sql("create table t (id int primary key, a int)")
    one = db.session()
    statements = [f"insert into t values ({i}, {i})" for i in range(5)]
    statements += [f"update t set a = 7 where id = {i}" for i in range(5)]
    for text in [*statements, "delete from t where id = 4"]:
        one.sql(text)
    assert tallies(db) == [("t", 5, 5, 1, 4)]
