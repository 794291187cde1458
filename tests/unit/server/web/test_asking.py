"""POST /sql: results, parameters, errors, Arrow."""

import json
import socket
import threading
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

from kpg.server.logs import Limits
from tests.unit.server.web.conftest import Web

ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"


def test_a_script_gives_a_result_for_each_statement(web: Web) -> None:
    status, found = web.sql(
        "create table s (a int primary key, b text); insert into s values (1, 'x'), (2, null);select * from s"
    )
    assert status == 200
    assert found["results"] == [
        {"command": "CREATE TABLE"},
        {"command": "INSERT 0 2"},
        {
            "command": "SELECT 2",
            "columns": [{"name": "a", "type": "INTEGER"}, {"name": "b", "type": "VARCHAR"}],
            "rows": [[1, "x"], [2, None]],
        },
    ]
    assert found["epoch"] >= 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("null", None),
        ("true", True),
        ("1::smallint", 1),
        ("9007199254740992", 9007199254740992),
        ("9007199254740993", "9007199254740993"),
        ("1.50::numeric", "1.50"),
        ("2.5::double precision", 2.5),
        ("1e300::double precision", 1e300),
        ("'NaN'::double precision", "NaN"),
        ("'-Infinity'::real", "-Infinity"),
        ("date '2024-02-29'", "2024-02-29"),
        ("timestamp '2024-02-29 12:00:00.5'", "2024-02-29 12:00:00.5"),
        ("interval '1 day 2 hours'", "1 day 02:00:00"),
        ("""'{"a": [1, null]}'::jsonb""", {"a": [1, None]}),
        ("array[1, null, 3]", "{1,NULL,3}"),
        ("'a\"\\n\u2028<'", 'a"\\n\u2028<'),
        ("e'a\\n'", "a\n"),
    ],
)
def test_values(web: Web, value: str, expected: object) -> None:
    assert web.rows(f"select {value}") == [[expected]]


@pytest.mark.parametrize(
    ("query", "parameters", "expected"),
    [
        ("select $2 - $1", [1, 3], [[2]]),
        ("select ?, ?", ["it's", None], [["it's", None]]),
        ("select :a || :b", {"a": "x", "b": "'; drop table s --"}, [["x'; drop table s --"]]),
        ("select 1", None, [[1]]),
    ],
)
def test_parameters(web: Web, query: str, parameters: Any, expected: Any) -> None:
    for _ in range(3):  # the third time by a plan that there is
        assert web.rows(query, parameters) == expected


def test_an_error_tells_what_and_where(web: Web) -> None:
    status, found = web.sql("select 1;\nselect nosuch from (values (1)) t(x)")
    error = found["error"]
    assert status == 400
    assert [one["rows"] for one in found["results"]] == [[[1]]]
    assert (error["sqlstate"], error["line"], error["column"], error["position"]) == ("42703", 2, 8, 18)
    assert error["message"] == 'column "nosuch" does not exist'


@pytest.mark.parametrize(
    ("query", "status", "state"),
    [
        ("select 1 / 0", 400, "22012"),
        (
            "create table k (a int primary key); insert into k values (1); insert into k values (1)",
            409,
            "23505",
        ),
        ("selec 1", 400, "42601"),
        ("begin; select 1", 400, "08P01"),
        ("subscribe s", 501, "0A000"),
        ("copy s from stdin", 501, "0A000"),
    ],
)
def test_status_of_errors(web: Web, query: str, status: int, state: str) -> None:
    found, answer = web.sql(query)
    assert (found, answer["error"]["sqlstate"]) == (status, state)


def test_an_error_names_what_was_violated(web: Web) -> None:
    web.sql("create table vio (a int, constraint positive check (a > 0))")
    error = web.sql("insert into vio values (-1)")[1]["error"]
    assert {name: error[name] for name in ("sqlstate", "table_name", "constraint_name")} == {
        "sqlstate": "23514",
        "table_name": "vio",
        "constraint_name": "positive",
    }


def test_what_takes_long_is_logged(
    web: Web, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(web.running.server, "limits", Limits(slow=0.0))
    assert web.rows("select 17") == [[17]]
    assert "select 17" in caplog.text


def test_what_a_request_has_not_committed_is_gone(web: Web) -> None:
    web.sql("create table open_one (a int)")
    assert web.sql("begin; insert into open_one values (1)")[0] == 400
    assert web.rows("select count(*) from open_one") == [[0]]
    assert web.sql("begin; insert into open_one values (1); commit")[0] == 200
    assert web.rows("select count(*) from open_one") == [[1]]


@pytest.mark.parametrize(
    ("script", "status", "left"),
    [
        ("insert into z values (1); insert into z values (2)", 200, [1, 2]),
        ("insert into z values (1); select 1 / 0", 400, []),
        ("insert into z values (1); insert into z values (1)", 409, []),
        ("insert into z values (1); commit; insert into z values (2); select 1 / 0", 400, [1]),
        ("insert into z values (1); begin; insert into z values (2); commit; select 1 / 0", 400, [1, 2]),
        ("insert into z values (1); rollback; insert into z values (2)", 200, [2]),
        ("insert into z values (1); savepoint p", 400, []),
        (
            "begin; insert into z values (1); savepoint p; insert into z values (2); rollback to p; commit",
            200,
            [1],
        ),
        ("create table z2 (a int); insert into z values (1); select 1 / 0", 400, []),
        ("insert into z values (1); insert into refers values (7)", 409, []),
        ("select 1 / 0; insert into z values (1)", 400, []),
    ],
)
def test_statements_that_come_together_are_one_transaction(
    web: Web, script: str, status: int, left: list[int]
) -> None:
    """As in Postgres, where they are one message."""
    web.sql("create table z (a int primary key)")
    web.sql("create table refers (a int references z deferrable initially deferred)")
    try:
        assert web.sql(script)[0] == status
        assert web.rows("select a from z order by a") == [[one] for one in left]
        assert web.sql("select * from z2")[0] == 400
    finally:
        web.sql("drop table refers, z")


def test_max_rows(web: Web) -> None:
    _, found = web.sql("select i from generate_series(1, 5000) t(i)", max_rows=2)
    assert found["results"][0]["rows"] == [[1], [2]]
    assert found["results"][0]["more"] == 4998
    assert len(web.rows("select i from generate_series(1, 5000) t(i)")) == 5000


def test_a_time_limit(web: Web) -> None:
    status, found = web.sql(ENDLESS, timeout="50ms")
    assert (status, found["error"]["sqlstate"]) == (408, "57014")


def test_a_client_that_goes_takes_its_statement_with_it(web: Web) -> None:
    with socket.create_connection(("127.0.0.1", web.port)) as one:
        body = json.dumps({"query": ENDLESS}).encode()
        head = f"POST /sql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
        one.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
    assert web.rows("select 1") == [[1]]


def test_arrow(web: Web) -> None:
    headers = {"Accept": "application/vnd.apache.arrow.stream", "Content-Type": "application/sql"}
    status, said, data = web.ask("POST", "/sql", "select 1 a, 'x' b, 2.50::decimal(9, 2) c", headers)
    assert (status, said["content-type"]) == (200, "application/vnd.apache.arrow.stream")
    with pyarrow.ipc.open_stream(data) as stream:
        assert stream.read_all().to_pylist() == [{"a": 1, "b": "x", "c": Decimal("2.50")}]
    status, _, data = web.ask("POST", "/sql", "create table no_rows (a int)", headers)
    assert (status, json.loads(data)["error"]["message"]) == (400, "no statement gives rows")
    assert web.ask("POST", "/sql", "select 1 / 0", headers)[0] == 400


@pytest.mark.parametrize(
    ("body", "kind", "status", "message"),
    [
        ("select 1", "text/plain", 415, "the body's type is none that is read"),
        ("query=select", "application/x-www-form-urlencoded", 415, "the body's type is none that is read"),
        ("{", "application/json", 400, "the body is no JSON: "),
        ("[" * 100_000, "application/json", 400, "the body is no JSON: "),
        ("[]", "application/json", 400, "the body has no query"),
        ('{"query": 1}', "application/json", 400, "the body has no query"),
        ('{"query": "select 1", "x": 1}', "application/json", 400, "a body has no field 'x'"),
        ('{"query": "select 1", "max_rows": -1}', "application/json", 400, "max_rows is no number of rows"),
        ('{"query": "select 1", "parameters": 1}', "application/json", 400, "parameters must be a list or "),
        ('{"query": "select 1", "timeout": 1}', "application/json", 400, "timeout is no duration"),
        (b"\xff", "application/sql", 400, "the body is no UTF-8: "),
    ],
)
def test_bodies_that_are_refused(web: Web, body: Any, kind: str, status: int, message: str) -> None:
    found, _, data = web.ask("POST", "/sql", body, {"Content-Type": kind})
    assert found == status
    assert json.loads(data)["error"]["message"].startswith(message)


def test_many_clients_at_once(web: Web) -> None:
    web.sql("create table many (a int)")
    threads = [threading.Thread(target=web.sql, args=(f"insert into many values ({i})",)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert web.rows("select count(*), sum(a) from many") == [[16, 120]]
