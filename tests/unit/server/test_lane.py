"""Requests that are sent ahead: their replies come in order, each with its own error, however cut."""

import random
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pygwire import messages as wire

from tests.unit.server.conftest import Running, serving
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def filled() -> Iterator[Running]:
    with serving() as one:
        session = one.db.session()
        session.sql("create table t (id int primary key, x text)")
        session.sql("insert into t select i, 'x' || i from generate_series(1, 3000) g(i)")
        yield one


@contextmanager
def connected(running: Running, user: str = "kpg") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE) as one:
        one.sendall(wire.StartupMessage(params={"user": user, "database": "kpg"}).to_wire())
        replies(one, 1)
        yield one


def replies(one: socket.socket, times: int) -> list[tuple[str, bytes]]:
    """Messages up to so many ReadyForQuery."""
    found: list[tuple[str, bytes]] = []
    data = b""
    while times:
        while len(data) < 5 or len(data) < 1 + int.from_bytes(data[1:5], "big"):
            part = one.recv(1 << 16)
            assert part, "the server has closed the connection"
            data += part
        length = 1 + int.from_bytes(data[1:5], "big")
        found.append((chr(data[0]), data[5:length]))
        times -= data[0] == ord("Z")
        data = data[length:]
    assert not data
    return found


def bound(name: str, *values: bytes | None, described: bool = True) -> bytes:
    data = wire.Bind(portal="", statement=name, param_values=list(values)).to_wire()
    if described:
        data += wire.Describe(kind="P", name="").to_wire()
    return data + wire.Execute(portal="", max_rows=0).to_wire() + wire.Sync().to_wire()


def query(text: str) -> bytes:
    return wire.Query(query_string=text).to_wire()


PREPARED = {
    "read": "select x from t where id = $1::int",
    "many": "select id from t where id <= $1::int order by id",
    "insert": "insert into t values ($1, $2)",
    "divide": "select 1 / $1::int",
}


def prepare(one: socket.socket) -> None:
    for name, text in PREPARED.items():
        one.sendall(wire.Parse(statement=name, query=text).to_wire() + wire.Sync().to_wire())
        assert [kind for kind, _ in replies(one, 1)] == ["1", "Z"]


def expected(chance: random.Random, number: int) -> tuple[bytes, str]:
    """A request, and the kinds of the messages that answer it."""
    key = str(chance.randint(1, 3000)).encode()
    described = chance.random() < 0.5
    shape = "T" if described else ""
    cases = (
        (bound("read", key, described=described), f"2{shape}DCZ"),
        (bound("many", b"3", described=described), f"2{shape}DDDCZ"),
        (bound("many", b"2500", described=described), f"2{shape}{'D' * 2500}CZ"),
        (bound("insert", str(10_000 + number).encode(), b"y", described=described), f"2{'n' * described}CZ"),
        (bound("insert", key, None, described=described), "2EZ"),
        (bound("divide", b"0", described=described), "2EZ"),
        (query(f"select x from t where id = {key.decode()}"), "TDCZ"),
        (query("select nothing from t"), "EZ"),
        (query("select 1; select 2"), "TDCTDCZ"),
        (query("begin; insert into t values (-1, 'z'); rollback"), "CCCZ"),
        (bound("nobody", b"1"), "EZ"),
    )
    weights = (6, 3, 1, 6, 2, 2, 4, 1, 1, 1, 1)
    return chance.choices(cases, weights)[0]


@pytest.mark.parametrize("seed", range(3))
def test_replies_come_in_order(filled: Running, seed: int) -> None:
    chance = random.Random(seed)
    with connected(filled) as one:
        prepare(one)
        asked = [expected(chance, 1000 * seed + number) for number in range(120)]
        data = b"".join(request for request, _ in asked)
        while data:
            size = chance.choice((1, 7, 40, 500, 5000, 100_000))
            one.sendall(data[:size])
            data = data[size:]
        found = "".join(kind for kind, _ in replies(one, len(asked)))
    # An error may come before or after BindComplete and NoData: it is the last before ReadyForQuery anyhow.
    assert re.sub("2n?E", "E", found) == re.sub("2n?E", "E", "".join(kinds for _, kinds in asked))


def test_a_client_that_goes_in_the_middle_hurts_nobody(filled: Running) -> None:
    for times in range(10):
        with connected(filled) as one:
            prepare(one)
            one.sendall((bound("many", b"2500") + bound("insert", b"1", b"x")) * times)
    with connected(filled) as one:
        prepare(one)
        one.sendall(bound("read", b"5"))
        assert [kind for kind, _ in replies(one, 1)] == ["2", "T", "D", "C", "Z"]
