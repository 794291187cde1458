"""GET /ws: subscriptions over a WebSocket."""

import base64
import json
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)

from kpg.server.web import event_streams
from tests.unit.server.web.conftest import Web, web_of
from tests.waiting import PATIENCE


class Socket:
    """A WebSocket's client."""

    def __init__(self, one: socket.socket, headers: list[tuple[bytes, bytes]]) -> None:
        self._socket = one
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self.send(Request(host="127.0.0.1", target="/ws", extra_headers=headers))
        self._events: list[Any] = []

    def send(self, event: Any) -> None:
        self._socket.sendall(self._protocol.send(event))

    def say(self, message: Any) -> None:
        self.send(TextMessage(message if isinstance(message, str) else json.dumps(message)))

    def frame(self, text: str) -> bytes:
        return self._protocol.send(TextMessage(text))

    def raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def event(self) -> Any:
        while not self._events:
            data = self._socket.recv(1 << 16)
            self._protocol.receive_data(data or None)
            self._events += self._protocol.events()
        return self._events.pop(0)

    def next(self) -> Any:
        """The next message."""
        text = ""
        while True:
            event = self.event()
            assert isinstance(event, TextMessage), event
            text += event.data
            if event.message_finished:
                return json.loads(text)


@contextmanager
def connected(web: Web, headers: list[tuple[bytes, bytes]] | None = None) -> Iterator[Socket]:
    with socket.create_connection(("127.0.0.1", web.port), timeout=PATIENCE) as one:
        yield Socket(one, headers or [])


def test_two_views_over_one_socket(web: Web) -> None:
    web.sql("create table ws (a int); create materialized view ws_a as select a from ws where a < 10")
    web.sql("create materialized view ws_b as select a * 2 b from ws")
    with connected(web) as one:
        assert isinstance(one.event(), AcceptConnection)
        one.say({"subscribe": {"view": "ws_a"}, "id": "a"})
        life = web.running.server.run_id
        assert one.next() == {"id": "a", "columns": [{"name": "a", "type": "INTEGER"}], "life": life}
        assert one.next()["snapshot"] is True
        one.say({"subscribe": {"view": "ws_b", "snapshot": False}, "id": 7})
        assert one.next() == {"id": 7, "columns": [{"name": "b", "type": "INTEGER"}], "life": life}
        web.sql("insert into ws values (1)")
        found = sorted((one.next(), one.next()), key=lambda message: str(message["id"]))
        assert [(message["id"], message["changes"]) for message in found] == [
            (7, [[1, [2]]]),
            ("a", [[1, [1]]]),
        ]
        one.say({"unsubscribe": 7})
        assert one.next() == {"id": 7, "unsubscribed": True}
        web.sql("insert into ws values (2)")
        assert one.next()["id"] == "a"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("{", "the message is no JSON"),
        ("1", "a message is an object"),
        ("{}", "nothing is asked"),
        ({"subscribe": {}}, "a subscription is to a view, or to a goal"),
        ({"subscribe": {"view": 1}}, "view of a subscription is of another type"),
        ({"subscribe": {"view": "a", "as_of": True}}, "as_of of a subscription is of another type"),
        ({"subscribe": {"view": "a", "x": 1}}, "a subscription has no field 'x'"),
        ({"subscribe": {"view": "nosuch"}}, 'relation "nosuch" does not exist'),
        ({"unsubscribe": 9}, "there is no subscription of that id"),
        ({"subscribe": {"view": "a"}, "id": []}, "an id is a text or a number"),
    ],
)
def test_messages_that_are_refused(web: Web, said: Any, message: str) -> None:
    with connected(web) as one:
        one.event()
        one.say(said)
        assert one.next()["error"]["message"] == message
        one.send(Ping())
        assert isinstance(one.event(), Pong)


def test_a_message_that_is_too_long(web: Web) -> None:
    with connected(web) as one:
        one.event()
        one.say(" " * ((1 << 20) + 1))
        event = one.event()
        assert isinstance(event, CloseConnection)
        assert event.code == 1009


def test_a_message_of_too_many_pieces(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "MAX_MESSAGE_BYTES", 1000)
    with connected(web) as one:
        one.event()
        for _ in range(1001):
            one.send(TextMessage("", message_finished=False))
        event = one.event()
        assert isinstance(event, CloseConnection)
        assert event.code == 1009
    with connected(web) as one:
        one.event()
        for _ in range(20):  # the bound is of a message
            for _ in range(99):
                one.send(TextMessage("", message_finished=False))
            one.say({"unsubscribe": 1})
            assert one.next()["error"]["message"] == "there is no subscription of that id"


def test_closing(web: Web) -> None:
    with connected(web) as one:
        one.event()
        one.send(CloseConnection(1000))
        assert isinstance(one.event(), CloseConnection)


def test_pages_of_others_get_no_socket(web: Web) -> None:
    with connected(web, [(b"Origin", b"http://evil.example")]) as one:
        event = one.event()
        assert isinstance(event, RejectConnection)
        assert event.status_code == 403
    with web_of("secret") as locked, connected(locked) as one:
        event = one.event()
        assert isinstance(event, RejectConnection)
        assert event.status_code == 401
    given = b"Basic " + base64.b64encode(b"kpg:secret")
    with web_of("secret") as locked, connected(locked, [(b"Authorization", given)]) as one:
        assert isinstance(one.event(), AcceptConnection)


def test_what_is_no_handshake(web: Web) -> None:
    assert web.ask("GET", "/ws")[0] == 426
    assert web.ask("GET", "/ws", None, {"Upgrade": "websocket", "Connection": "Upgrade"})[0] == 400


def test_random_frames(web: Web) -> None:
    """Whatever comes, the server answers or closes, and goes on."""
    chance = random.Random(11)
    said = json.dumps({"subscribe": {"view": "nosuch"}, "id": 1})
    for _ in range(40):
        with connected(web) as one:
            assert isinstance(one.event(), AcceptConnection)
            data = bytearray(one.frame(said) + one.frame(said))
            for _ in range(chance.randint(1, 4)):
                place = chance.randrange(len(data))
                match chance.randrange(3):
                    case 0:
                        data[place] = chance.randrange(256)
                    case 1:
                        del data[place:]
                        data += b"\0"
                    case _:
                        data[place:place] = chance.randbytes(chance.randint(1, 9))
            one.raw(bytes(data))
    assert web.rows("select 1") == [[1]]


def test_contents_by_socket_may_be_larger_than_what_may_wait(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "MAX_PENDING_BYTES", 1 << 16)
    web.sql("create table lgs (a int, b text); create materialized view lgs_v as select a, b from lgs")
    web.sql("insert into lgs select i, repeat('x', 100) from generate_series(1, 5000) t(i)")
    with connected(web) as one:
        one.event()
        one.say({"subscribe": {"view": "lgs_v"}, "id": 4})
        rows = []
        assert "columns" in one.next()
        while not (part := one.next())["snapshot"]:
            rows += part["changes"]
        rows += part["changes"]
        assert (len(rows), part["id"]) == (5000, 4)


def test_a_socket_whose_client_does_not_read_is_cut_off(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "MAX_PENDING_BYTES", 1 << 20)
    web.sql("create table wide (a text); create materialized view wide_v as select a from wide")
    with connected(web) as one:
        one.event()
        one.say({"subscribe": {"view": "wide_v"}})
        assert [one.next()["id"], one.next()["id"]] == [0, 0]
        for i in range(20):
            assert web.sql("insert into wide values ($1)", [str(i) + "x" * 1_000_000])[0] == 200
        while not isinstance(event := one.event(), CloseConnection):
            pass
        assert event.code == 1013
