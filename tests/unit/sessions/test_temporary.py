"""Temporary tables: each session has its own, which go with it; ON COMMIT."""

from pathlib import Path

import pytest

import kpg


def test_sessions_have_tables_of_one_name_each_its_own() -> None:
    with kpg.connect() as db, db.session() as one, db.session() as other:
        db.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (0)")
        one.sql("CREATE TEMP TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2)")
        other.sql("CREATE TEMPORARY TABLE t (a TEXT); INSERT INTO t VALUES ('x')")
        for _ in range(3):
            assert one.sql("SELECT * FROM t").fetchall() == [(1, 2)]
            assert other.sql("SELECT * FROM t").fetchall() == [("x",)]
            assert db.sql("SELECT * FROM t").fetchall() == [(0,)]
        assert one.sql("SELECT * FROM pg_temp.t").fetchall() == [(1, 2)]
        assert one.sql("SELECT * FROM public.t").fetchall() == [(0,)]
        one.sql("UPDATE t SET b = 3; DROP TABLE t")
        assert one.sql("SELECT * FROM t").fetchall() == [(0,)]
        assert other.sql("SELECT * FROM t").fetchall() == [("x",)]


def test_the_rows_that_come_again_and_again_go_into_the_session_s_own_table() -> None:
    with kpg.connect() as db, db.session() as one, db.session() as other:
        db.sql("CREATE TABLE t (a INT)")
        one.sql("CREATE TEMP TABLE t (a INT)")
        for number in range(4):
            for session in (one, other):
                session.sql("INSERT INTO t VALUES (?)", [number])
        one.sql("DELETE FROM t WHERE a = 0")
        assert one.sql("SELECT count(*) FROM t").fetchone() == (3,)
        assert other.sql("SELECT count(*) FROM t").fetchone() == (4,)


def test_they_go_with_their_session_and_what_was_made_of_them_too() -> None:
    with kpg.connect() as db:
        with db.session() as one:
            one.sql("CREATE TEMP TABLE own (id SERIAL PRIMARY KEY, a INT); INSERT INTO own (a) VALUES (1)")
            one.sql("CREATE TEMP VIEW shown AS SELECT a FROM own")
            one.sql("CREATE MATERIALIZED VIEW kept AS SELECT sum(a) AS s FROM own")
            assert one.sql("SELECT * FROM kept, shown").fetchall() == [(1, 1)]
            asked = "SELECT table_name, table_type FROM information_schema.tables WHERE table_name = 'own'"
            assert one.sql(asked).fetchall() == [("own", "LOCAL TEMPORARY")]
            assert db.sql(asked).fetchall() == []
        assert [entry.name for entry in db._engine.catalog] == []
        assert list(db._engine.catalog.sequences) == []
        assert list(db._engine.catalog.schemas) == ["public"]


def test_a_session_that_ends_within_a_transaction_leaves_nothing() -> None:
    with kpg.connect() as db:
        one = db.session()
        one.sql("CREATE TEMP TABLE own (a INT); BEGIN; INSERT INTO own VALUES (1)")
        with db.session() as other:
            assert other.sql("SELECT 1").fetchall() == [(1,)]
            one.close()
            assert other.sql("SELECT count(*) FROM pg_class WHERE relname = 'own'").fetchall() == [(0,)]


def test_on_commit() -> None:
    with kpg.connect() as db, db.session() as one:
        one.sql("CREATE TEMP TABLE emptied (a INT) ON COMMIT DELETE ROWS")
        one.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM emptied")
        one.sql("BEGIN; INSERT INTO emptied VALUES (1), (2)")
        assert one.sql("SELECT count(*) FROM emptied").fetchone() == (2,)
        one.sql("COMMIT")
        assert one.sql("SELECT count(*) FROM emptied").fetchone() == (0,)
        for number in range(3):
            one.sql("INSERT INTO emptied VALUES (?)", [number])
        assert one.sql("SELECT n FROM n").fetchone() == (0,)
        one.sql("BEGIN; CREATE TEMP TABLE dropped ON COMMIT DROP AS SELECT 1 AS a")
        assert one.sql("SELECT a FROM dropped").fetchone() == (1,)
        one.sql("COMMIT")
        with pytest.raises(kpg.Error, match='relation "dropped" does not exist'):
            one.sql("SELECT a FROM dropped")
        one.sql("BEGIN; CREATE TEMP TABLE dropped (a INT) ON COMMIT DROP; ROLLBACK")
        one.sql("CREATE TEMP TABLE dropped (a INT); INSERT INTO dropped VALUES (1)")
        assert one.sql("SELECT a FROM dropped").fetchone() == (1,)
        with pytest.raises(kpg.Error, match="ON COMMIT can only be used on temporary tables"):
            one.sql("CREATE TABLE x (a INT) ON COMMIT DROP")


def test_a_folder_keeps_none_of_them(tmp_path: Path) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (a INT)")
        one = db.session()
        one.sql("CREATE TEMP TABLE own (a INT); INSERT INTO own VALUES (1); INSERT INTO t VALUES (1)")
        assert one.sql("SELECT * FROM own, t").fetchall() == [(1, 1)]
    with kpg.connect(tmp_path / "db") as db:
        assert [entry.name for entry in db._engine.catalog] == ["t"]
        assert list(db._engine.catalog.schemas) == ["public"]
