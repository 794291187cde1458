"""Results of any size go out in pieces: who does not take them holds back only himself."""

import psycopg
import pytest
from pygwire import messages as wire

from kpg.server.client import Client
from tests.unit.server.conftest import Running
from tests.unit.server.test_extended import Raw
from tests.waiting import until

MOST_WAITING = 4 << 20
"""Bytes that may wait for a client: what drains below 64 KB, and a piece."""
ASKED = (
    "copy (select repeat('x', 100000), a from generate_series(1, 2000) g(a)) to stdout",
    "copy (select repeat('x', 100000), a from generate_series(1, 2000) g(a)) to stdout (format binary)",
    "select repeat('x', 100000), a from generate_series(1, 2000) g(a)",
    "table wide",
)


@pytest.fixture(scope="module", autouse=True)
def wide(running: Running) -> None:
    running.db.sql(
        "create table wide as select repeat('x', 100000) as x, a from generate_series(1, 1000) g(a)"
    )


def _asked(running: Running, text: str) -> tuple[Raw, Client]:
    """A client that has asked something, and takes nothing of what comes until its socket is full."""
    before = set(running.server.clients)
    one = Raw(running.port)
    (number,) = set(running.server.clients) - before
    client = running.server.clients[number]
    one.socket.sendall(wire.Query(query_string=text).to_wire())
    until(lambda: client.unsent_bytes > 0)
    return one, client


@pytest.mark.parametrize("text", ASKED)
def test_what_waits_for_a_client_is_bounded_and_can_be_canceled(running: Running, text: str) -> None:
    one, client = _asked(running, text)
    with psycopg.connect(running.dsn, autocommit=True) as other:
        assert other.execute("select count(*) from wide").fetchone() == (1000,)
        assert client.unsent_bytes < MOST_WAITING
        other.execute("select pg_cancel_backend(%s)", (client.number,))
    found = one.until_ready()
    assert found[-2:] == ["E57014", "ZI"]
    assert len(found) < 1000
    assert one.query("select 1") == ["T", "D1", "C SELECT 1", "ZI"]
    one.close()


@pytest.mark.parametrize("text", ASKED[:3])
def test_a_limit_of_time_ends_what_is_being_sent(running: Running, text: str) -> None:
    one, client = _asked(running, text)
    session = client.session
    assert session is not None
    session.deadline = 1.0  # which is long over
    found = one.until_ready()
    assert found[-2:] == ["E57014", "ZI"]
    assert len(found) < 1000
    one.close()


def test_who_takes_nothing_can_be_sent_away(running: Running) -> None:
    one, client = _asked(running, ASKED[0])
    with psycopg.connect(running.dsn, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s)", (client.number,))
        until(lambda: client.number not in running.server.clients)
    one.close()


def test_a_header_is_no_row(running: Running) -> None:
    one = Raw(running.port)
    assert one.query("copy (select 1) to stdout csv header") == ["H", "d", "d", "c", "C COPY 1", "ZI"]
    one.close()
