"""Cursors: where they stand after each FETCH, and how long they are there."""

import pytest

import kpg
from kpg.api.database import Database


@pytest.fixture
def db() -> Database:
    made = kpg.connect()
    made.sql("create table t (a int, b text); insert into t values (1, 'x'), (2, 'y'), (3, 'z'), (4, null)")
    made.sql("begin; declare c scroll cursor for select a, b from t order by a")
    return made


def fetched(db: Database, text: str) -> list[int]:
    return [row[0] for row in db.query(text).fetchall()]


def test_fetch_goes_in_all_directions(db: Database) -> None:
    # As Postgres answers each of these, one after the other.
    for text, rows in (
        ("fetch c", [1]),
        ("fetch next from c", [2]),
        ("fetch 0 from c", [2]),
        ("fetch prior in c", [1]),
        ("fetch prior c", []),
        ("fetch forward 2 from c", [1, 2]),
        ("fetch 5 from c", [3, 4]),
        ("fetch next c", []),
        ("fetch backward 2 from c", [4, 3]),
        ("fetch absolute -1 from c", [4]),
        ("fetch absolute 2 from c", [2]),
        ("fetch relative -1 from c", [1]),
        ("fetch relative 5 from c", []),
        ("fetch backward all from c", [4, 3, 2, 1]),
        ("fetch all from c", [1, 2, 3, 4]),
        ("fetch first from c", [1]),
        ("fetch last from c", [4]),
        ("fetch -2 from c", [3, 2]),
        ("fetch absolute 0 from c", []),
        ("fetch c", [1]),
    ):
        assert fetched(db, text) == rows, text


def test_move_gives_no_rows_and_a_cursor_sees_the_rows_of_its_declaration(db: Database) -> None:
    db.sql("delete from t where a > 1; move 1 in c")
    assert fetched(db, "fetch all c") == [2, 3, 4]
    assert db.query("fetch first from c").arrow().to_pydict() == {"a": [1], "b": ["x"]}


def test_a_cursor_ends_with_its_transaction_unless_it_holds(db: Database) -> None:
    db.sql("declare h cursor with hold for select a from t order by a desc; fetch h; commit")
    assert fetched(db, "fetch 2 from h") == [3, 2]
    with pytest.raises(kpg.ProgrammingError, match='cursor "c" does not exist'):
        db.sql("fetch c")
    db.sql("begin")
    with pytest.raises(kpg.ProgrammingError, match='cursor "c" does not exist'):
        db.sql("fetch c")
    db.sql("rollback; close h")
    with pytest.raises(kpg.ProgrammingError, match='cursor "h" does not exist'):
        db.sql("fetch h")


def test_what_is_refused(db: Database) -> None:
    db.sql("savepoint s")
    for text, message in (
        ("declare c cursor for select 1", 'cursor "c" already exists'),
        ("fetch sideways from c", "syntax error"),
        ("declare d cursor for delete from t", "DELETE is not supported"),
        ("close d", 'cursor "d" does not exist'),
    ):
        with pytest.raises(kpg.Error, match=message):
            db.sql(text)
        db.sql("rollback to s")
    db.sql("declare f no scroll cursor for select a from t; fetch 2 f")
    with pytest.raises(kpg.ProgrammingError, match="cursor can only scan forward"):
        db.sql("fetch prior f")
    db.sql("rollback")
    with pytest.raises(kpg.ProgrammingError, match="DECLARE CURSOR can only be used"):
        db.sql("declare c cursor for select 1")


@pytest.mark.parametrize("back", ["rollback", "rollback to s"])
def test_a_cursor_that_holds_goes_with_the_transaction_that_declared_it(db: Database, back: str) -> None:
    db.sql("savepoint s; insert into t values (9, 'never'); declare h cursor with hold for select a from t")
    db.sql(f"{back}; end")
    with pytest.raises(kpg.ProgrammingError, match='cursor "h" does not exist'):
        db.sql("fetch all h")


def test_a_cursor_outlives_a_savepoint_that_was_released(db: Database) -> None:
    db.sql("savepoint one; savepoint two; declare late cursor for select a from t order by a")
    db.sql("release two; release one; savepoint three; fetch late; rollback to three")
    assert fetched(db, "fetch late") == [2]
    db.sql("savepoint four; declare gone cursor for select 1; close late; rollback to four")
    for name in ("gone", "late"):
        db.sql("savepoint five")
        with pytest.raises(kpg.ProgrammingError, match=f'cursor "{name}" does not exist'):
            db.sql(f"fetch {name}")
        db.sql("rollback to five")


def test_the_rows_of_a_cursor_are_given_up_with_its_transaction(db: Database) -> None:
    db.sql("rollback; begin; declare a cursor for select 1; declare b cursor with hold for select 2; commit")
    assert [name for _, name in db._engine.cursors] == ["b"]


def test_where_current_of_finds_its_row_again_after_a_rollback_to_a_savepoint(db: Database) -> None:
    db.sql("rollback; create table k (id int primary key, x int); insert into k values (1, 10), (2, 20)")
    db.sql("begin; declare c cursor for select * from k order by id; fetch c")
    db.sql("savepoint s; update k set id = 99 where current of c; rollback to s")
    db.sql("update k set x = 5 where current of c; update k set x = x + 1 where current of c; commit")
    assert db.sql("select * from k order by id").fetchall() == [(1, 6), (2, 20)]
