"""Statements that change tables, run: conversions, conflicts, other tables, tables made by queries."""

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import kpg
from kpg.api.database import Database
from kpg.execute.changes.table_writes import distinct


def rows(db: Database, text: str) -> list[tuple[Any, ...]]:
    return list(db.query(text))


@pytest.fixture
def counts(db: Database) -> Database:
    """Words with how often they came, and the total, maintained."""
    db.sql("""
        CREATE TABLE word (w TEXT PRIMARY KEY, n INT NOT NULL, note TEXT);
        INSERT INTO word VALUES ('a', 1, 'first'), ('b', 5, NULL);
        CREATE MATERIALIZED VIEW total AS SELECT sum(n) AS n FROM word;
    """)
    return db


def test_each_constant_takes_the_type_of_its_column(db: Database) -> None:
    db.sql("CREATE TABLE t (i INT, f DOUBLE, r REAL, p DECIMAL(8, 2), d DATE)")
    db.sql("INSERT INTO t (f) VALUES (0.5), ('nan'), ('-inf'), (2), (1e3)")
    found = [f for (f,) in rows(db, "SELECT f FROM t ORDER BY f")]
    assert found[:-1] == [-math.inf, 0.5, 2.0, 1000.0] and math.isnan(found[-1])
    db.sql(
        "DELETE FROM t; INSERT INTO t (i, p) VALUES ('7', '2.50'), (2.5, 2.505), (-2.5, -2.505), (NULL, 3)"
    )
    assert rows(db, "SELECT i, p FROM t ORDER BY p") == [
        (-3, Decimal("-2.51")),
        (7, Decimal("2.50")),
        (3, Decimal("2.51")),
        (None, Decimal("3.00")),
    ]
    db.sql("UPDATE t SET p = '9.99', d = '1998-12-01', r = '0.1', f = '0.1' WHERE i = 7")
    assert rows(db, "SELECT p, d::text, r = '0.1'::real, r::double = f FROM t WHERE i = 7") == [
        (Decimal("9.99"), "1998-12-01", True, False)
    ]


@pytest.mark.parametrize(
    ("values", "message", "place"),
    [
        ("(1, 2.5), (3000000000, 1)", '3000000000 is out of range for column "i" INTEGER', "3000000000"),
        ("(1, 1), (1, -1000000)", '-1000000 is out of range for column "p" DECIMAL(8, 2)', "1000000"),
        ("(1, '1000000')", "numeric field overflow", "'1000000'"),
        ("(1, '1e999999999')", "numeric field overflow", "'1e999999999'"),
        ("(TRUE, 1)", 'column "i" is INTEGER, not BOOLEAN', None),
    ],
)
def test_a_constant_that_does_not_fit_is_shown(
    db: Database, values: str, message: str, place: str | None
) -> None:
    db.sql("CREATE TABLE t (i INT, p DECIMAL(8, 2))")
    with pytest.raises(kpg.DatabaseError) as caught:
        db.sql(f"INSERT INTO t VALUES {values}")
    span = caught.value.span
    assert caught.value.message == message and span is not None
    assert place is None or span.source[span.start : span.end] == place


def test_blanks_that_are_too_many_are_cut(db: Database) -> None:
    db.sql("CREATE TABLE t (v VARCHAR(3), c CHAR(3))")
    db.sql("INSERT INTO t VALUES ('ab   ', 'ab   '), ('abc   ', 'abc   '), ('ab ', NULL)")
    found = rows(db, "SELECT v || '|', c || '|' FROM t ORDER BY 1, 2")
    assert found == [("ab |", "ab|"), ("ab |", None), ("abc|", "abc|")]


def test_failures_name_columns_or_values(db: Database) -> None:
    db.sql("CREATE TABLE t (i INT, b BIGINT); INSERT INTO t VALUES (0, 3000000000)")
    cases = {
        "INSERT INTO t (i) SELECT b FROM t": 'value out of range for column "i" INTEGER: b is 3000000000',
        "SELECT b / i FROM t": "division by zero in b / i (b is 3000000000, i is 0)",
        "SELECT max(b) / i FROM t GROUP BY i": "division by zero in 3000000000 / 0",
    }
    for text, message in cases.items():
        with pytest.raises(kpg.DataError) as caught:
            db.sql(text)
        assert caught.value.message == message


def test_conflicting_rows_are_left_alone(counts: Database) -> None:
    text = "INSERT INTO word VALUES ('a', 9, NULL), ('c', 3, 'x'), ('c', 4, 'y') ON CONFLICT DO NOTHING"
    assert rows(counts, text) == [(1,)]
    assert rows(counts, "SELECT * FROM word ORDER BY w") == [
        ("a", 1, "first"),
        ("b", 5, None),
        ("c", 3, "x"),
    ]
    assert list(counts.view("total")) == [(9,)]


def test_conflicting_rows_are_updated(counts: Database) -> None:
    text = """INSERT INTO word AS t (n, w) VALUES (?, 'a'), (2, 'b'), (3, 'c')
              ON CONFLICT (w) DO UPDATE SET n = t.n + EXCLUDED.n WHERE t.n < 5"""
    assert rows_of(counts.sql(text, [10])) == [(2,)]
    assert rows(counts, "SELECT * FROM word ORDER BY w") == [
        ("a", 11, "first"),
        ("b", 5, None),
        ("c", 3, None),
    ]
    counts.sql(
        "INSERT INTO word SELECT w, n + 1, 'again' FROM word ON CONFLICT (w) DO UPDATE SET n = EXCLUDED.n"
    )
    assert rows(counts, "SELECT n, note FROM word ORDER BY w") == [(12, "first"), (6, None), (4, None)]
    counts.verify("total")


def rows_of(outcome: object) -> list[tuple[Any, ...]]:
    assert isinstance(outcome, kpg.Result)
    return list(outcome)


def test_conflicts_that_are_errors(counts: Database) -> None:
    merge = "ON CONFLICT (w) DO UPDATE SET n = EXCLUDED.n"
    with pytest.raises(kpg.IntegrityError, match=r"would update row \(w = 'a'\) of table word twice"):
        counts.sql(f"INSERT INTO word VALUES ('a', 1, ''), ('a', 2, '') {merge}")
    with pytest.raises(kpg.IntegrityError, match="would update a new row of table word twice"):
        counts.sql(f"INSERT INTO word VALUES ('x', 1, ''), ('x', 2, '') {merge}")
    with pytest.raises(kpg.DataError, match=r"INTEGER out of range in 1 \+ 2147483647"):
        counts.sql(
            "INSERT INTO word VALUES ('a', 2147483647, '') "
            "ON CONFLICT (w) DO UPDATE SET n = word.n + EXCLUDED.n"
        )
    assert rows(counts, "SELECT w, n FROM word ORDER BY w") == [("a", 1), ("b", 5)]


def test_update_from_another_table(counts: Database) -> None:
    counts.sql("CREATE TABLE more (w TEXT, n INT); INSERT INTO more VALUES ('a', 2), ('a', 2), ('z', 1)")
    text = "UPDATE word t SET n = t.n + more.n, note = NULL FROM more WHERE more.w = t.w"
    assert rows(counts, text) == [(1,)]
    assert rows(counts, "SELECT * FROM word ORDER BY w") == [("a", 3, None), ("b", 5, None)]
    counts.sql("INSERT INTO more VALUES ('a', 7)")
    with pytest.raises(kpg.DataError, match="a row of table word twice, to different values"):
        counts.sql(text)
    assert list(counts.view("total")) == [(8,)]


def test_delete_with_another_table(counts: Database) -> None:
    counts.sql("CREATE TABLE gone (w TEXT); INSERT INTO gone VALUES ('a'), ('a'), ('z')")
    assert rows(counts, "DELETE FROM word USING gone g WHERE g.w = word.w") == [(1,)]
    assert list(counts.view("total")) == [(5,)]


def test_a_table_of_a_query(counts: Database) -> None:
    text = """CREATE TABLE long (word, size) AS
              SELECT w, n * 2 FROM word WHERE n > 1 UNION ALL SELECT 'x', 4 ORDER BY 2"""
    assert rows(counts, text) == [(2,)]
    assert rows(counts, "SELECT * FROM long ORDER BY size") == [("x", 4), ("b", 10)]
    assert rows(counts, "DESCRIBE long") == [
        ("word", "VARCHAR", True, False),
        ("size", "INTEGER", True, False),
    ]
    assert rows(counts, "CREATE TABLE IF NOT EXISTS long AS SELECT 1 AS a") == [(0,)]
    with pytest.raises(kpg.ProgrammingError, match='"long" already exists'):
        counts.sql("CREATE TABLE long AS SELECT 1 AS a")
    with pytest.raises(kpg.DataError, match="division by zero"):
        counts.sql("CREATE TABLE bad AS SELECT 1 / (n - 1) AS a FROM word")
    with pytest.raises(kpg.ProgrammingError, match='the table has two columns "a"'):
        counts.sql("CREATE TABLE bad AS SELECT 1 AS a, 2 AS a")
    with pytest.raises(kpg.ProgrammingError, match='"bad" does not exist'):
        counts.sql("SELECT * FROM bad")


def test_a_table_of_a_query_that_its_commit_refuses_is_not_there(
    counts: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("kpg.runtime.worker.worker.Worker.step", fail)
    with pytest.raises(MemoryError):
        counts.sql("CREATE TABLE copy AS SELECT * FROM word")
    monkeypatch.undo()
    assert [name for name, _, _ in rows(counts, "SHOW TABLES")] == ["word", "total"]
    assert rows(counts, "CREATE TABLE copy AS SELECT * FROM word") == [(2,)]


def test_a_view_can_be_verified(counts: Database) -> None:
    assert rows(counts, "VERIFY VIEW Total") == [("total", 1)]
    with pytest.raises(kpg.ProgrammingError, match='"word" is a table'):
        counts.sql("VERIFY VIEW word")
    with pytest.raises(kpg.InterfaceError, match="while changes are pending"):
        counts.sql("BEGIN; DELETE FROM word; VERIFY VIEW total")


@pytest.mark.parametrize(
    "stage", ["ast", "logical", "magic", "steps", "optimized", "physical", "arrangements"]
)
def test_every_stage_is_explained(counts: Database, stage: str) -> None:
    text = "SELECT w FROM word WHERE n > (SELECT n FROM total)"
    assert repr(counts.sql(f"EXPLAIN {stage.upper()} {text}")) == counts.explain(text, stage)


def test_python_texts_for_decimals_and_days(db: Database) -> None:
    db.sql("CREATE TABLE t (p DECIMAL(8, 2), d DATE, m TIMESTAMP)")
    db.insert("t", [("2.50", "1998-12-01", "1998-12-01 12:30:00"), (0.1, None, None)])
    assert rows(db, "SELECT p, d::text, m::text FROM t ORDER BY p") == [
        (Decimal("0.10"), None, None),
        (Decimal("2.50"), "1998-12-01", "1998-12-01 12:30:00"),
    ]


@pytest.mark.parametrize("words", [[], [5], [2, -1, 2, 2, -1], [3, 2, 1]])
def test_distinct_words(words: list[int]) -> None:
    assert distinct(np.array(words, np.int64)).tolist() == sorted(set(words))


FOLLOWED = {
    "grouped": "SELECT a, count(*) FROM t GROUP BY a",
    "linear": "SELECT a, b FROM t WHERE a > 1",
    "joined": "SELECT t.a, s FROM t JOIN p ON t.a = p.a",
    "top": "SELECT a FROM t ORDER BY a DESC LIMIT 2",
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_changes_go_on_after_a_table_below_has_other_columns(name: str) -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (2, 1), (3, NULL)")
    db.sql("CREATE TABLE p (a INT PRIMARY KEY, s TEXT); INSERT INTO p VALUES (1, 'x'), (2, 'y'), (8, 'z')")
    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {FOLLOWED[name]}")
    view = db.view(name)
    told: Counter[tuple[object, ...]] = Counter()
    read: Counter[tuple[object, ...]] = Counter()
    calls: list[int] = []

    def hear(changes: list[tuple[tuple[object, ...], int, int]]) -> None:
        calls.append(len(changes))
        for row, _, diff in changes:
            told[row] += diff

    for row, _, diff in view.changes():
        read[row] += diff
        told[row] += diff
    subscription = view.subscribe(hear)
    for script in (
        "INSERT INTO t VALUES (7, 7)",
        "ALTER TABLE t ADD COLUMN c INT DEFAULT 5",
        "INSERT INTO t VALUES (8, 8, 8)",
        "BEGIN; INSERT INTO t VALUES (1, 9, 9); ALTER TABLE t ADD COLUMN d INT;"
        " INSERT INTO t VALUES (2, 9, 9, 9); COMMIT",
        "BEGIN; INSERT INTO t VALUES (1, 9, 9, 9); ALTER TABLE t ADD COLUMN e INT; ROLLBACK",
        "INSERT INTO t VALUES (9, 9, 9, 9)",
        "ALTER TABLE t DROP COLUMN d",
        "INSERT INTO t VALUES (2, 9, 9)",
        "ALTER TABLE t RENAME TO u",
        "DELETE FROM u WHERE a = 2",
    ):
        calls.clear()
        db.sql(script)
        for row, _, diff in view.changes():
            read[row] += diff
        contents = Counter(db.query(f"SELECT * FROM {name}").fetchall())
        assert +told == +read == contents, script
        assert not calls or not script.startswith("ALTER"), "a definition that changes no row tells nothing"
    subscription.close()
    calls.clear()
    db.sql("INSERT INTO u VALUES (8, 8, 8), (9, 9, 9)")
    assert not calls, "a closed subscription is told nothing"
