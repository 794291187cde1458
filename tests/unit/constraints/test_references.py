"""Constraints: errors that name the constraint, the key and the row, and nothing half applied."""

import random
from collections import Counter

import pytest

import kpg
from kpg.api.database import Database
from kpg.postgres.sqlstate import sqlstate_of

FAMILY = """
    CREATE TABLE parent (id INT PRIMARY KEY, code TEXT UNIQUE);
    CREATE TABLE child (id INT, parent INT REFERENCES parent ON DELETE CASCADE, n INT CHECK (n > 0));
    INSERT INTO parent VALUES (1, 'a'), (2, 'b');
    INSERT INTO child VALUES (10, 1, 1), (11, 1, 2), (12, 2, 3);
    CREATE MATERIALIZED VIEW families AS
        SELECT p.id, count(c.id) AS n FROM parent p LEFT JOIN child c ON c.parent = p.id GROUP BY p.id;
"""


@pytest.fixture
def family(db: Database) -> Database:
    db.sql(FAMILY)
    return db


def state(db: Database) -> tuple[list[object], list[object]]:
    return list(db.query("SELECT * FROM parent ORDER BY 1")), list(db.query("SELECT * FROM child ORDER BY 1"))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "INSERT INTO child VALUES (13, 1, 1), (14, 7, 1)",
            "(parent) = (7) of table child is no row of table parent, against FOREIGN KEY child_parent_fkey",
            "of row (14, 7, 1)",
        ),
        (
            "UPDATE child SET n = n - 2",
            "row (10, 1, -1) of table child fails CHECK child_n_check: n > 0",
            "nothing was changed",
        ),
        (
            "UPDATE parent SET code = 'b' WHERE id = 1",
            "duplicate key in table parent: (code) = ('b') exists already, "
            "against constraint parent_code_key",
            "of the row (1, 'b')",
        ),
        (
            "INSERT INTO parent VALUES (3, 'c'), (4, 'c')",
            "duplicate key in table parent: (code) = ('c') is given twice, "
            "against constraint parent_code_key",
            "of the row (4, 'c')",
        ),
        (
            "UPDATE parent SET id = id + 10",
            "(id) = (1) of table parent is still referred to by table child, against FOREIGN KEY "
            "child_parent_fkey",
            "row (10, 1, 1) of child refers to it",
        ),
    ],
)
def test_what_violates_a_constraint_changes_nothing(
    family: Database, text: str, message: str, hint: str
) -> None:
    before = state(family)
    with pytest.raises(kpg.IntegrityError) as caught:
        family.sql(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert state(family) == before
    family.verify("families")
    family.sql("INSERT INTO parent VALUES (3, 'c'); INSERT INTO child VALUES (13, 3, 1)")
    assert list(family.view("families")) == [(1, 2), (2, 1), (3, 1)]


def test_python_rows_are_held_to_constraints_too(family: Database) -> None:
    with pytest.raises(kpg.IntegrityError, match="child_parent_fkey"):
        family.insert("child", [(13, 9, 1)])
    with pytest.raises(kpg.IntegrityError, match="child_n_check"):
        family.insert("child", [(13, 1, 0)])
    with pytest.raises(kpg.IntegrityError, match="parent_code_key"):
        family.upsert("parent", [(1, "b")])
    family.delete("parent", [(1,)])
    assert list(family.view("families")) == [(2, 1)]
    assert state(family)[1] == [(12, 2, 3)]


def test_a_cascade_is_taken_back_with_its_transaction(family: Database) -> None:
    before = state(family)
    family.sql("BEGIN; DELETE FROM parent; INSERT INTO parent VALUES (1, 'z'); ROLLBACK")
    assert state(family) == before
    with pytest.raises(kpg.IntegrityError, match="child_parent_fkey"):
        family.sql("INSERT INTO child VALUES (13, 3, 1)")
    family.sql("DELETE FROM parent WHERE id = 1")
    assert state(family)[1] == [(12, 2, 3)]


def test_keys_at_random(db: Database) -> None:
    """Against a model: rows by key, the statement refused if two would be the same."""
    choose = random.Random(7)
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT, UNIQUE (a, b), UNIQUE NULLS NOT DISTINCT (b))")
    model: dict[int, tuple[int | None, int | None]] = {}
    for _ in range(300):
        rows = {
            choose.randrange(20): (choose.choice((None, *range(4))), choose.choice((None, *range(12))))
            for _ in range(choose.randrange(1, 4))
        }
        new = dict(model)
        if choose.random() < 0.4 and model:
            gone = choose.sample(sorted(model), min(len(model), choose.randrange(1, 5)))
            db.delete("t", [(key,) for key in gone])
            for key in gone:
                del model[key]
            continue
        taken = any(key in model for key in rows)
        new.update(rows)
        b = Counter(b for _, b in new.values())
        ab = Counter(pair for pair in new.values() if None not in pair)
        wrong = taken or max(b.values()) > 1 or max(ab.values(), default=0) > 1
        try:
            db.insert("t", [(key, *values) for key, values in rows.items()])
        except kpg.IntegrityError:
            assert wrong
        else:
            assert not wrong
            model = new
        assert {row[0]: row[1:] for row in db.query("SELECT * FROM t")} == model


def test_many_children_of_few_parents(db: Database) -> None:
    db.sql("""
        CREATE TABLE p (id INT PRIMARY KEY);
        CREATE TABLE c (id INT, p INT REFERENCES p ON DELETE SET NULL ON UPDATE CASCADE);
        INSERT INTO p SELECT * FROM generate_series(1, 50);
        INSERT INTO c SELECT n, n % 50 + 1 FROM generate_series(1, 5000) s (n)
    """)
    db.sql("UPDATE p SET id = 51 - id")
    assert list(db.query("SELECT p FROM c WHERE id = 50")) == [(50,)]
    db.sql("DELETE FROM p WHERE id <= 49")
    assert list(db.query("SELECT p, count(*) FROM c GROUP BY p ORDER BY p")) == [(50, 100), (None, 4900)]
    with pytest.raises(kpg.IntegrityError):
        db.sql("BEGIN; DELETE FROM c WHERE p IS NULL; INSERT INTO c VALUES (1, 3); COMMIT")
    db.sql("ROLLBACK; DELETE FROM p")
    assert list(db.query("SELECT p, count(*) FROM c GROUP BY p")) == [(None, 5000)]


@pytest.mark.parametrize(
    ("column", "change", "state"),
    [
        ("k varchar(2) references p on update cascade", "update p set k = 'abc' where k = 'a'", "22001"),
        ("k char(2) references p on update cascade", "update p set k = 'abc' where k = 'a'", "22001"),
        ("k varchar(2) references p on update cascade", "update p set k = 'b   ' where k = 'a'", "23503"),
        ("k varchar(2) default 'long' references p on delete set default", "delete from p", "22001"),
        ("k varchar(2) default 'long' references p on update set default", "update p set k = 'z'", "22001"),
    ],
)
def test_an_action_stores_texts_that_fit(column: str, change: str, state: str) -> None:
    with kpg.connect() as db:
        db.sql(f"create table p (k varchar(6) primary key); create table c (id int, {column})")
        db.sql("insert into p values ('a'); insert into c values (1, 'a')")
        with pytest.raises(kpg.Error) as caught:
            db.sql(change)
        assert sqlstate_of(caught.value) == state
        assert rows_of(db, "select k from p") == [("a",)]
        assert [k.strip() for (k,) in rows_of(db, "select k from c")] == ["a"]


def rows_of(db: Database, text: str) -> list[tuple[str]]:
    return [(k,) for (k,) in db.query(text).fetchall()]
