"""Positions of sources: committed with the rows that they came with, and rolled back with them."""

from pathlib import Path

import pytest

import kpg


def database() -> "kpg.Database":
    db = kpg.connect()
    db.sql("create table t (a int primary key)")
    return db


def test_a_position_is_committed_with_rows() -> None:
    db = database()
    assert db.positions() == {}
    assert db.insert("t", [(1,), (2,)], position=("topic-0", 1234)) == 2
    db.upsert("t", [(2,)], position=("topic-1", "0/16B3748"))
    db.delete("t", [(1,)], position={"topic-0": 1235, "empty": ""})
    assert db.positions() == {"topic-0": 1235, "topic-1": "0/16B3748", "empty": ""}
    assert db.epoch == 3


def test_a_position_is_rolled_back_with_rows() -> None:
    db = database()
    db.insert("t", [(1,)], position=("a", 1))
    with pytest.raises(kpg.IntegrityError):
        db.insert("t", [(1,)], position=("a", 2))
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.insert("t", [(2,)], position=("a", 2))
        assert db.positions() == {"a": 2}
        raise ZeroDivisionError
    with pytest.raises(kpg.InterfaceError), db.transaction():
        db.insert("t", [(3,)], position=("a", 3.5))  # type: ignore[arg-type]
    assert db.positions() == {"a": 1}
    assert db.query("select * from t").fetchall() == [(1,)]


def test_a_first_position_that_is_rolled_back_leaves_nothing() -> None:
    db = database()
    db.sql("begin; set position 'a' = 1; rollback")
    assert db.positions() == {}
    assert db.tables().fetchall() == [("t", 0)]
    db.sql("begin; savepoint s; set position 'a' = 1; rollback to s; set position 'b' = 2; commit")
    assert db.positions() == {"b": 2}


def test_rows_come_with_a_position_from_files_and_in_batches(tmp_path: Path) -> None:
    db = database()
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    db.load("t", tmp_path / "t.csv", mode="arrow", position=("files", "t.csv"))
    with db.batch():
        for number in range(3, 6):
            db.insert("t", [(number,)], position=("numbers", number))
    assert db.positions() == {"files": "t.csv", "numbers": 5}
    db.load_all({"t": [(9,)]}, mode="arrow", position=("numbers", 9))
    assert db.positions()["numbers"] == 9
    first = database()
    with first.batch():
        first.insert("t", [(1,)], position=("a", 1))
    assert first.positions() == {"a": 1}


def test_a_position_is_set_in_sql() -> None:
    db = database()
    db.sql("begin; insert into t values (1); set position 'topic-0' = 1234; commit")
    db.sql("SET POSITION 'topic-1' TO 'at ' || '5'; set position $1 = $2", ["x", 10**20])
    db.sql("set position lower('Y') = -1 + 3")
    assert db.positions() == {"topic-0": 1234, "topic-1": "at 5", "x": 10**20, "y": 2}
    db.sql("set position 'x' = null; set position 'none' = null")
    db.set_position("y", None)
    db.set_position("topic-0", 1235)
    assert db.positions() == {"topic-0": 1235, "topic-1": "at 5"}


def test_positions_are_a_table_that_is_there_when_it_is_asked_for() -> None:
    db = database()
    assert db.query("select position from kpg_positions where source = 'a'").fetchall() == []
    db.sql("create materialized view lag as select source, 100 - position::int behind from kpg_positions")
    db.set_position("a", 60)
    assert db.view("lag").fetchall() == [("a", 40)]
    db.insert("t", [(1,)], position=("a", 99))
    assert db.view("lag").fetchall() == [("a", 1)]
    db.sql("delete from kpg_positions where source = 'a'")
    assert db.positions() == {}


@pytest.mark.parametrize(
    "position", [("a", 1.5), ("a", None), ("a", True), ("a",), "a", (1, 1), {"a": b"x"}, {1: 1}, 5]
)
def test_a_wrong_position_is_refused_with_its_rows(position: object) -> None:
    db = database()
    with pytest.raises(kpg.InterfaceError, match="the position"):
        db.insert("t", [(1,)], position=position)  # type: ignore[arg-type]
    assert db.query("select * from t").fetchall() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("set position 5 = 1", "a source has a name, not 5"),
        ("set position null = 1", "a source has a name, not None"),
        ("set position 'a' = 1.5", "a position is a whole number or a text"),
        ("set position 'a' = true", "a position is a whole number or a text, not True"),
        ("set position 'a'", "syntax error"),
        ("set position 'a' 5", 'syntax error at "5"'),
        ("set position = 5", "syntax error"),
        ("set position 'a' = 1, 'b' = 2", 'syntax error at ","'),
        ("set position b = 2", "b"),
    ],
)
def test_a_wrong_statement_is_refused(text: str, message: str) -> None:
    db = database()
    with pytest.raises(kpg.Error) as caught:
        db.sql(text)
    assert message in caught.value.message
    assert db.positions() == {}


def test_another_table_of_that_name_is_refused() -> None:
    db = database()
    db.sql("create table kpg_positions (a int)")
    with pytest.raises(kpg.ProgrammingError, match="is not what positions are kept in") as caught:
        db.insert("t", [(1,)], position=("a", 1))
    assert caught.value.hint == "rename it: positions need that name"
    assert db.query("select * from t").fetchall() == []


def test_batches_of_an_unknown_table_are_refused_at_once() -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int); create view v as select a from t")
        with pytest.raises(kpg.ProgrammingError, match='relation "nosuch" does not exist'):
            db.foreach_batch("nosuch", "x")
        with pytest.raises(kpg.ProgrammingError, match='"v" is a view'):
            db.foreach_batch("v", "x")
