"""Statements that come together are one transaction: those of one Query, and those before a Sync."""

from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.unit.server.conftest import Running


@pytest.fixture
def client(running: Running) -> Any:
    with psycopg.connect(running.dsn, autocommit=True) as one:
        one.execute("DROP TABLE IF EXISTS t")
        one.execute("CREATE TABLE t (a INT PRIMARY KEY)")
        yield one


def rows(client: Any) -> list[int]:
    return [row[0] for row in client.execute("SELECT a FROM t ORDER BY a")]


def test_a_script_that_fails_has_done_nothing(client: Any) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation):
        client.execute("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); INSERT INTO t VALUES (1)")
    assert rows(client) == []
    assert client.info.transaction_status.name == "IDLE"
    client.execute("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    assert rows(client) == [1, 2]


def test_a_script_may_end_its_transaction_in_the_middle(client: Any) -> None:
    said: list[Any] = []
    client.add_notice_handler(lambda one: said.append((one.sqlstate, one.message_primary)))
    with pytest.raises(psycopg.errors.UniqueViolation):
        client.execute("INSERT INTO t VALUES (1); COMMIT; INSERT INTO t VALUES (2); INSERT INTO t VALUES (1)")
    assert rows(client) == [1]
    assert said == [("25P01", "there is no transaction in progress")]
    client.execute("INSERT INTO t VALUES (5); ROLLBACK; INSERT INTO t VALUES (6)")
    assert rows(client) == [1, 6]


def test_begin_makes_of_it_a_transaction_like_any(client: Any) -> None:
    client.execute("INSERT INTO t VALUES (1); BEGIN; INSERT INTO t VALUES (2)")
    assert client.info.transaction_status.name == "INTRANS"
    client.execute("ROLLBACK")
    assert rows(client) == []
    client.execute("BEGIN; INSERT INTO t VALUES (1); COMMIT; INSERT INTO t VALUES (2)")
    assert rows(client) == [1, 2]


def test_definitions_of_a_script_are_undone(client: Any) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        client.execute(
            "CREATE TABLE more (a INT); CREATE MATERIALIZED VIEW seen AS SELECT count(*) AS n FROM more;"
            "SELECT 1 / 0"
        )
    assert client.execute("SELECT to_regclass('more'), to_regclass('seen')").fetchone() == (None, None)
    client.execute(
        "CREATE TABLE more (a INT); CREATE MATERIALIZED VIEW seen AS SELECT count(*) AS n FROM more;"
        "INSERT INTO more VALUES (1)"
    )
    assert client.execute("SELECT n FROM seen").fetchone() == (1,)
    client.execute("DROP TABLE more CASCADE")


def test_what_stands_before_a_sync_is_one_transaction(client: Any) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation), client.pipeline():
        client.execute("INSERT INTO t VALUES (%s)", [1])
        client.execute("INSERT INTO t VALUES (%s)", [2])
        client.execute("INSERT INTO t VALUES (%s)", [1])
    assert rows(client) == []
    with client.pipeline() as pipeline:
        client.execute("INSERT INTO t VALUES (%s)", [1])
        pipeline.sync()
        client.execute("INSERT INTO t VALUES (%s)", [2])
        seen = client.execute("SELECT count(*) FROM t")
    assert (seen.fetchone(), rows(client)) == ((2,), [1, 2])
    with pytest.raises(psycopg.errors.UniqueViolation), client.pipeline() as pipeline:
        client.execute("INSERT INTO t VALUES (%s)", [3])
        pipeline.sync()
        client.execute("INSERT INTO t VALUES (%s)", [4])
        client.execute("INSERT INTO t VALUES (%s)", [3])
    assert rows(client) == [1, 2, 3]


def test_keys_that_are_checked_at_the_end_are_checked_at_the_sync(running: Running, client: Any) -> None:
    client.execute("DROP TABLE IF EXISTS child")
    client.execute("CREATE TABLE child (a INT REFERENCES t DEFERRABLE INITIALLY DEFERRED)")
    # libpq does not come out of its pipeline after such an error, of Postgres neither.
    with (
        closing(psycopg.connect(running.dsn, autocommit=True)) as other,
        pytest.raises(psycopg.Error),
        other.pipeline(),
    ):
        other.execute("INSERT INTO child VALUES (%s)", [77])
        other.execute("SELECT 1")
    assert client.execute("SELECT count(*) FROM child").fetchone() == (0,)
    with client.pipeline():
        client.execute("INSERT INTO child VALUES (%s)", [77])
        client.execute("INSERT INTO t VALUES (%s)", [77])
    assert client.execute("SELECT count(*) FROM child").fetchone() == (1,)
    client.execute("DROP TABLE child")


def test_settings_of_the_transaction_end_with_it(client: Any) -> None:
    client.execute("SET LOCAL statement_timeout = '9s'; SELECT 1")
    assert client.execute("SHOW statement_timeout").fetchone() == ("0",)
    with client.transaction():
        client.execute("SET LOCAL search_path = nowhere, public")
        assert client.execute("SHOW search_path").fetchone() == ("nowhere, public",)
        client.execute("SAVEPOINT s")
        client.execute("SET LOCAL search_path = elsewhere")
        client.execute("ROLLBACK TO s")
        assert client.execute("SHOW search_path").fetchone() == ("nowhere, public",)
    assert client.execute("SHOW search_path").fetchone() == ('"$user", public',)


def test_beginning_twice_and_ending_nothing_is_warned_of(client: Any) -> None:
    said: list[Any] = []
    client.add_notice_handler(lambda one: said.append((one.severity, one.sqlstate)))
    client.execute("COMMIT")
    client.execute("BEGIN")
    client.execute("BEGIN")
    client.execute("ROLLBACK")
    assert said == [("WARNING", "25P01"), ("WARNING", "25001")]
