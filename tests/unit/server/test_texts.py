"""What is no text, and malformed lines of COPY: refused everywhere, beside a real Postgres."""

from collections.abc import Iterator

import psycopg
import pytest

import kpg
from tests.unit.server.conftest import Running, beside

Both = tuple[psycopg.Connection, psycopg.Connection]


@pytest.fixture(scope="module")
def both(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with beside(running, tmp_path_factory.mktemp("postgres")) as (ours, theirs):
        for one in (ours, theirs):
            one.execute("create table lines (a int, b text)")
        yield ours, theirs


def outcome(one: psycopg.Connection, statement: str, data: bytes | None = None) -> object:
    """The rows, or the SQLSTATE of the error."""
    try:
        if data is None:
            return one.execute(statement.encode()).fetchall()
        with one.cursor() as cursor:
            with cursor.copy(statement.encode()) as copy:
                copy.write(data)
            return cursor.execute("delete from lines returning a, b").fetchall()
    except psycopg.Error as error:
        return error.sqlstate


@pytest.mark.parametrize(
    "query",
    [
        r"select E'a\000b'",
        r"select E'\x00'",
        r"select chr(0)",
        r"select convert_from('\x610062', 'UTF8')",
        r"""select '{"a": "b\u0000"}'::jsonb""",
    ],
)
def test_no_text_has_a_zero_byte(both: Both, query: str) -> None:
    ours, theirs = (outcome(one, query) for one in both)
    assert ours == theirs
    assert isinstance(ours, str)


@pytest.mark.parametrize(
    "data",
    [
        b"1\ta\n2\tb\n",
        b"1\ta\r\n2\tb\r\n",
        b"1\ta\r2\tb\r",
        b"1\ta\rb\n",
        b"1\ta\n2\tb\r\n",
        b"1\ta\r\n2\tb\n",
        b"1\ta\r2\tb\n",
        b"1\ta\\\rb\n",
        b"1\ta\\\nb\n",
        b"1\tx\x00y\n",
        b"1\tx\\000y\n",
        b"1\tx\xffy\n",
        b"1\n",
        b"1\ta\tb\n",
        b"x\ta\n",
        b"99999999999\ta\n",
    ],
)
def test_lines_of_copy_are_taken_and_refused_as_by_postgres(both: Both, data: bytes) -> None:
    ours, theirs = (outcome(one, "copy lines from stdin", data) for one in both)
    assert ours == theirs


def test_values_of_python_have_no_zero_byte() -> None:
    with kpg.connect() as db:
        db.sql("create table t (a text, b text[])")
        wrong = 'invalid byte sequence for encoding "UTF8": 0x00'
        for statement, value in (("select ?", "a\0"), ("select ?::text[]", ["a\0"])):
            with pytest.raises(kpg.DataError, match=wrong):
                db.sql(statement, [value])
        with pytest.raises(kpg.DataError, match=wrong):
            db.insert("t", [("a\0", None)])
        with pytest.raises(kpg.DataError, match=wrong):
            db.sql("select 'a\0'")
        assert db.query("select count(*) from t").fetchall() == [(0,)]


def test_a_row_that_came_after_the_snapshot_is_a_conflict(both: Both) -> None:
    found = []
    for one in both:
        one.execute("create table seen (k int primary key, v int)")
        with psycopg.connect(one.info.dsn, autocommit=True) as other:
            one.execute("begin isolation level repeatable read")
            one.execute("select * from seen")
            other.execute("insert into seen values (1, 1)")
            texts = ("values (2, 2)", "values (2, 3)", "values (1, 2)")
            found.append(
                [
                    outcome(one, f"insert into seen {text} on conflict do nothing returning v")
                    for text in texts
                ]
            )
            one.execute("rollback")
            one.execute("begin isolation level repeatable read")
            found[-1].append(
                outcome(one, "insert into seen values (1, 2) on conflict do nothing returning v")
            )
            one.execute("rollback")
    assert found[0] == found[1] == [[(2,)], [], "40001", []]


def test_set_constraints_is_undone_with_its_savepoint(both: Both) -> None:
    found = []
    for one in both:
        one.execute("create table whole (a int primary key)")
        one.execute("create table part (a int references whole deferrable)")
        states = []
        for before, after in (("", "deferred"), ("set constraints all deferred", "immediate")):
            one.execute(f"begin; {before}")
            one.execute(f"savepoint s; set constraints all {after}; rollback to s")
            states.append(outcome(one, "insert into part values (9) returning a"))
            states.append(outcome(one, "commit"))
            one.execute("rollback")
        found.append(states)
    assert found[0] == found[1]
