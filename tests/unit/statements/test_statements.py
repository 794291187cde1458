"""SQL statements through ``db.sql``."""

from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.api.database import Database
from kpg.api.result import Result
from kpg.api.view import View


def rows(db: Database, text: str) -> list[tuple[Any, ...]]:
    result = db.sql(text)
    assert isinstance(result, Result)
    return result.fetchall()


def test_what_statements_give(db: Database) -> None:
    assert db.sql("CREATE TABLE t (a INT)") is None
    inserted = db.sql("INSERT INTO t VALUES (1), (2)")
    assert isinstance(inserted, Result)
    assert inserted.rowcount == 2
    assert isinstance(db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t"), View)
    assert db.sql("CREATE VIEW w AS SELECT a FROM t") is None
    assert db.sql("") is None
    assert db.sql("  -- nothing\n") is None


def test_insert_columns_and_query(db: Database) -> None:
    db.sql("CREATE TABLE t (a INT, b TEXT, c INT)")
    db.sql("INSERT INTO t (c, a) VALUES (1, 2)")
    db.sql("INSERT INTO t SELECT a + 1, 'x', c FROM t")
    assert sorted(rows(db, "SELECT a, b, c FROM t"), key=str) == [(2, None, 1), (3, "x", 1)]


def test_sql_transaction(shop: Database) -> None:
    shop.sql("BEGIN; INSERT INTO item VALUES (4, 'c', 1); ROLLBACK")
    assert rows(shop, "SELECT count(*) FROM item") == [(3,)]
    epoch = shop.epoch
    shop.sql("BEGIN; INSERT INTO item VALUES (4, 'c', 1); DELETE FROM item WHERE id = 1; COMMIT")
    assert shop.epoch == epoch + 1
    assert rows(shop, "SELECT id FROM item ORDER BY id") == [(2,), (3,), (4,)]


def test_failed_sql_transaction(shop: Database) -> None:
    with pytest.raises(kpg.IntegrityError):
        shop.sql("BEGIN; DELETE FROM item; INSERT INTO item VALUES (1, 'a', NULL); COMMIT")
    with pytest.raises(kpg.InterfaceError, match="rolled back by an earlier error"):
        shop.sql("SELECT 1")
    shop.sql("ROLLBACK")
    assert rows(shop, "SELECT count(*) FROM item") == [(3,)]


def test_script_stops_at_the_first_error(shop: Database) -> None:
    with pytest.raises(kpg.DataError):
        shop.sql("DELETE FROM item WHERE id = 1; SELECT 1 / 0; DELETE FROM item")
    assert rows(shop, "SELECT id FROM item ORDER BY id") == [(2,), (3,)]


def test_nothing_runs_if_the_script_does_not_parse(shop: Database) -> None:
    with pytest.raises(kpg.ProgrammingError):
        shop.sql("DELETE FROM item; SELEC 1")
    assert rows(shop, "SELECT count(*) FROM item") == [(3,)]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE u (a INT)",
        "CREATE TABLE u AS SELECT * FROM item",
        "CREATE VIEW u AS SELECT 1 AS a",
        "CREATE MATERIALIZED VIEW u AS SELECT count(*) FROM item",
        "DROP VIEW total",
        "DROP TABLE item CASCADE",
        "DROP VIEW total; ALTER TABLE item ADD COLUMN more INT DEFAULT 3",
        "ALTER TABLE item RENAME TO other",
        "DROP TABLE item CASCADE; CREATE TABLE item (a INT); INSERT INTO item VALUES (1)",
        "TRUNCATE item",
    ],
)
def test_definitions_are_rolled_back(shop: Database, text: str) -> None:
    before = rows(shop, "SELECT * FROM item"), shop.view("total").fetchall()
    shop.sql(f"BEGIN; {text}; ROLLBACK")
    assert [row[0] for row in rows(shop, "SHOW TABLES")] == ["item", "total"]
    assert (rows(shop, "SELECT * FROM item"), shop.view("total").fetchall()) == before
    shop.sql("DELETE FROM item WHERE id = 1")
    shop.verify("total")
    shop.sql(f"BEGIN; SAVEPOINT s; {text}; ROLLBACK TO s; DELETE FROM item WHERE id = 2; COMMIT")
    assert len(rows(shop, "SELECT * FROM item")) == len(before[0]) - 2
    shop.verify("total")


def test_definitions_are_committed(shop: Database) -> None:
    shop.sql("""
        BEGIN;
        CREATE TABLE u (a INT PRIMARY KEY);
        INSERT INTO u SELECT id FROM item;
        CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM u;
        CREATE INDEX ON item (kind);
        DROP VIEW total;
        DELETE FROM u WHERE a = 1;
        COMMIT
    """)
    assert list(shop.view("n")) == [(2,)]
    shop.sql("INSERT INTO u VALUES (7)")
    assert list(shop.view("n")) == [(3,)]
    shop.verify("n")


def test_drop_of_several(shop: Database) -> None:
    shop.sql("CREATE TABLE u (a INT)")
    shop.sql("DROP VIEW total")
    shop.sql("DROP TABLE item, u")
    assert rows(shop, "SHOW TABLES") == []


def test_show_and_describe(shop: Database) -> None:
    shop.sql("CREATE VIEW cheap AS SELECT id FROM item")
    assert rows(shop, "SHOW TABLES") == [
        ("item", "table", 3),
        ("total", "materialized view", 2),
        ("cheap", "view", None),
    ]
    assert rows(shop, "DESCRIBE item") == [
        ("id", "INTEGER", False, True),
        ("kind", "VARCHAR", True, False),
        ("price", "DECIMAL(10, 2)", False, False),
    ]


@pytest.mark.parametrize("stage", ["", "LOGICAL", "OPTIMIZED", "PHYSICAL"])
def test_explain(shop: Database, stage: str) -> None:
    plan = shop.sql(f"EXPLAIN {stage} SELECT kind FROM item WHERE price > 2")
    assert isinstance(plan, Result)
    assert "item" in repr(plan)


def test_copy_round_trip(shop: Database, tmp_path: Path) -> None:
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"item.{suffix}"
        assert rows(shop, f"COPY item TO '{path}'") == [(3,)]
        shop.sql(f"CREATE TABLE {suffix} (id INT PRIMARY KEY, kind TEXT, price DECIMAL(10, 2))")
        assert rows(shop, f"COPY {suffix} FROM '{path}'") == [(3,)]
        assert rows(shop, f"SELECT * FROM {suffix} EXCEPT SELECT * FROM item") == []
        assert rows(shop, f"SELECT count(*) FROM {suffix}") == [(3,)]


def test_copy_options(db: Database, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1|x\n2|-\n", encoding="utf-8")
    db.sql("CREATE TABLE t (a INT, b TEXT, c INT)")
    db.sql(f"COPY t (a, b) FROM '{path}' (HEADER false, DELIMITER '|', NULL '-')")
    assert sorted(rows(db, "SELECT * FROM t")) == [(1, "x", None), (2, None, None)]


def test_copy_of_a_bad_file_changes_nothing(db: Database, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\nx\n", encoding="utf-8")
    db.sql("CREATE TABLE t (a INT)")
    with pytest.raises(kpg.DataError, match=r"t\.csv, row 2, column a"):
        db.sql(f"COPY t FROM '{path}'")
    assert rows(db, "SELECT * FROM t") == []


def test_copy_finds_out_whether_there_is_a_header(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    db.sql("CREATE TABLE t (a INT, b TEXT)")
    for text in ("1,x\n2,y\n", "a,b\n3,x\n", "B,A\nz,4\n"):
        file.write_text(text)
        db.sql(f"COPY t FROM '{file}'")
    assert rows(db, "SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, "y"), (3, "x"), (4, "z")]
    db.sql(f"COPY t TO '{file}'; DELETE FROM t; COPY t FROM '{file}'")
    assert rows(db, "SELECT count(*) FROM t") == [(4,)]
