"""pg_dump, psql's own copies, and readers of other libraries, each the real thing."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import polars
import psycopg
import pytest

import kpg
from tests.unit.server.conftest import Running, serving
from tests.unit.server.programs import packaged
from tests.waiting import PATIENCE

SETUP = (
    "CREATE SCHEMA s",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TABLE t (id SERIAL PRIMARY KEY, name TEXT NOT NULL DEFAULT 'x', amount NUMERIC(10,2), "
    "at TIMESTAMP, tags TEXT[], m mood)",
    "INSERT INTO t (name, amount, at, tags, m) VALUES ('a', 1.50, '2024-01-01 00:00:00', '{a,b}', 'ok'), "
    "('b', NULL, NULL, NULL, NULL), (E'tab\\tq''s', 3, '2025-01-01 10:00', '{}', 'sad')",
    "CREATE TABLE s.u (a INT REFERENCES t, b DATE CHECK (b > '2000-01-01'), UNIQUE (a, b))",
    "INSERT INTO s.u VALUES (1, '2024-02-03')",
    "CREATE VIEW v AS SELECT name, amount FROM t",
    "CREATE MATERIALIZED VIEW m AS SELECT name, count(*) AS n FROM t GROUP BY name",
    "CREATE INDEX t_name ON t (name)",
    "CREATE SEQUENCE q; SELECT nextval('q'), nextval('q')",
    "CREATE ROLE ann LOGIN; GRANT SELECT ON t TO ann",
)


@pytest.fixture(scope="module")
def filled() -> Any:
    with serving() as running, psycopg.connect(running.dsn, autocommit=True) as one:
        for statement in SETUP:
            one.execute(statement)
        yield running


def run(running: Running, name: str, *words: str, given: str = "") -> str:
    where = ["-h", "127.0.0.1", "-p", str(running.port), "-U", "kpg", "-d", "kpg"]
    done = subprocess.run(
        [packaged(name), *where, *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("how", [(), ("--inserts",), ("--column-inserts",), ("--rows-per-insert=2",)])
def test_a_dump_of_the_rows_makes_them_again(filled: Running, how: tuple[str, ...]) -> None:
    text = run(filled, "pg_dump", "--data-only", *how)
    last = "SELECT last_value, is_called FROM"
    asked = ("SELECT * FROM t ORDER BY id", "SELECT * FROM s.u", f"{last} q", f"{last} t_id_seq")
    with kpg.connect() as db:
        for statement in SETUP:
            if not statement.startswith(("INSERT", "SELECT")):
                db.sql(statement.partition("; SELECT")[0])
        db.sql("\n".join(line for line in text.splitlines() if not line.startswith("\\") or line == "\\."))
        again = [db.sql(one).fetchall() for one in asked]
    assert again[2:] == [[(2, True)], [(3, True)]]
    with filled.db.session() as one:
        assert again[:2] == [one.sql(asked[0]).fetchall(), one.sql(asked[1]).fetchall()]


def test_psql_copies_and_describes(filled: Running, tmp_path: Path) -> None:
    script = f"""\\copy (SELECT id, name FROM t ORDER BY id) TO '{tmp_path}/t.csv' WITH (FORMAT csv, HEADER)
CREATE TEMP TABLE copied (id INT, name TEXT);
\\copy copied FROM '{tmp_path}/t.csv' WITH (FORMAT csv, HEADER)
SELECT count(*), max(name) FROM copied;
\\timing on
SELECT 1 AS one \\gset
\\echo :one
"""
    shown = run(filled, "psql", "-X", "-A", "-t", given=script)
    assert "COPY 3" in shown and "3|tab\tq's" in shown and shown.rstrip().endswith("1") and "Time:" in shown
    assert (tmp_path / "t.csv").read_text().splitlines()[0] == "id,name"
    asked = [part for what in ("dp t", "du", "dt s.*", "dn") for part in ("-c", f"\\{what}")]
    described = run(filled, "psql", "-X", *asked)
    for text in ("ann=r/kpg", "Superuser, Create role", "s      | u", "pg_database_owner"):
        assert text in described


@pytest.mark.parametrize("what", ["d", "dt+", "d+ t", "d+ v", "d+ m", "dv", "dm", "di", "ds", "l", "z", "dg"])
def test_psql_finds_what_it_describes_things_by(filled: Running, what: str) -> None:
    assert run(filled, "psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", f"\\{what}").count("\n") > 3


def test_execute_and_the_end_of_a_failed_transaction_say_what_they_did(filled: Running) -> None:
    with psycopg.connect(filled.dsn, autocommit=True) as one:
        one.execute("CREATE TABLE told (a INT)")
        one.execute("PREPARE p AS INSERT INTO told VALUES ($1)")
        assert one.execute("EXECUTE p (1)").statusmessage == "INSERT 0 1"
        one.execute("PREPARE r AS SELECT $1 + 1, $2 || 'x'")
        assert one.execute("EXECUTE r (1, 'a')").fetchall() == [(2, "ax")]
        one.execute("BEGIN")
        with pytest.raises(psycopg.errors.DivisionByZero):
            one.execute("SELECT 1 / 0")
        assert one.execute("COMMIT").statusmessage == "ROLLBACK"
        one.execute("DROP TABLE told")


def test_psycopg_awaited_in_a_pipeline_and_by_portions(filled: Running) -> None:
    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(filled.dsn) as one:
            async with one.pipeline():
                first = await one.execute("SELECT count(*) FROM t")
                second = await one.execute("SELECT %s::int + 1", [4])
            assert [await first.fetchone(), await second.fetchone()] == [(3,), (5,)]
            async with one.cursor(name="portions") as cursor:
                cursor.itersize = 2
                await cursor.execute("SELECT id FROM t ORDER BY id")
                assert [row async for row in cursor] == [(1,), (2,), (3,)]
            async with one.cursor(name="scrolled", scrollable=True) as cursor:
                await cursor.execute("SELECT id FROM t ORDER BY id")
                await cursor.scroll(2)
                assert await cursor.fetchone() == (3,)
                await cursor.scroll(0, mode="absolute")
                assert await cursor.fetchone() == (1,)
            async with one.cursor().copy("COPY t (name) TO STDOUT") as copy:
                assert len([row async for row in copy.rows()]) == 3

    asyncio.run(main())


def test_cursors_are_their_sessions_own(filled: Running) -> None:
    with psycopg.connect(filled.dsn) as one, psycopg.connect(filled.dsn) as other:
        one.execute("DECLARE c CURSOR FOR SELECT 1")
        other.execute("DECLARE c CURSOR FOR SELECT 2")
        assert [each.execute("FETCH c").fetchall() for each in (one, other)] == [[(1,)], [(2,)]]
        other.execute("CLOSE ALL")
        assert one.execute("MOVE ABSOLUTE 0 FROM c").statusmessage == "MOVE 0"
        assert one.execute("FETCH c").fetchall() == [(1,)]


def test_polars_reads_a_query(filled: Running) -> None:
    with psycopg.connect(filled.dsn) as one:
        frame = polars.read_database("SELECT id, name, amount FROM t ORDER BY id", one)
    assert frame.columns == ["id", "name", "amount"]
    assert frame["id"].to_list() == [1, 2, 3]
