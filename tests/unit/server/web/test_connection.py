"""What comes over a socket that is no good request, and what lies at which address."""

import contextlib
import random
import socket

import pytest

from kpg.server.web import http
from tests.unit.server.web.conftest import Web, web_of
from tests.waiting import PATIENCE, until

HOST = b"Host: 127.0.0.1\r\n"


POST = b"POST /sql HTTP/1.1\r\nContent-Type: application/sql\r\n" + HOST


def raw(web: Web, *parts: bytes, half: bool = True) -> bytes:
    """What the server answers to bytes, until it closes the connection; ``half``: no more will come."""
    with socket.create_connection(("127.0.0.1", web.port), timeout=PATIENCE) as one:
        for part in parts:
            one.sendall(part)
        if half:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_WR)
        found = b""
        try:
            while data := one.recv(1 << 16):
                found += data
        except ConnectionError:
            pass
        return found


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n" + HOST + b"Content-Length: x\r\n\r\n", b"400"),
        (
            b"GET /metrics HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
            b"400",
        ),
        (b"GET /metrics HTTP/1.1\r\n" + HOST + HOST + b"\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n" + HOST + b"Origin: a\r\nOrigin: b\r\n\r\n", b"400"),
        (b"GET /%ff HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
        (b"GET //[ HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
        (b"GET /?" + b"a=1&" * 99 + b" HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
        (b"GET /" + b"a" * 70_000, b"431"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"DELETE /sql HTTP/1.1\r\n" + HOST + b"\r\n", b"405"),
        (b"GET /etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", b"404"),
        (b"GET /../run.py HTTP/1.1\r\n" + HOST + b"\r\n", b"404"),
    ],
)
def test_requests_that_are_refused(web: Web, data: bytes, status: bytes) -> None:
    assert raw(web, data).startswith(b"HTTP/1.1 " + status)


def test_requests_one_after_the_other(web: Web) -> None:
    one = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
    assert raw(web, one * 3).count(b"HTTP/1.1 200") == 3


def test_a_body_in_chunks_and_in_drops(web: Web) -> None:
    head = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunked = head + b"7\r\nselect \r\n1\r\n1\r\n0\r\n\r\n"
    drops = (chunked[place : place + 1] for place in range(len(chunked)))
    assert b'"rows": [[1]]' in raw(web, *drops, half=False)


def test_what_is_not_waited_for(web: Web) -> None:
    """A body that is announced and refused is not read; the connection is closed."""
    head = b"POST /nosuch HTTP/1.1\r\nContent-Length: 99999999999\r\n" + HOST + b"\r\n"
    assert raw(web, head, b"x" * 1000).startswith(b"HTTP/1.1 404")


def test_100_continue(web: Web) -> None:
    head = POST + b"Expect: 100-continue\r\nContent-Length: 8\r\n"
    with socket.create_connection(("127.0.0.1", web.port), timeout=PATIENCE) as one:
        one.sendall(head + b"\r\n")
        assert one.recv(100).startswith(b"HTTP/1.1 100")
        one.sendall(b"select 1")
        assert one.recv(1000).startswith(b"HTTP/1.1 200")


def test_bounds(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BODY", 1000)
    assert web.ask("POST", "/sql", " " * 1001, {"Content-Type": "application/sql"})[0] == 413
    monkeypatch.setattr(http, "BODY_TIMEOUT", 0.01)
    head = POST + b"Content-Length: 8\r\n\r\n"
    with socket.create_connection(("127.0.0.1", web.port), timeout=PATIENCE) as one:
        one.sendall(head + b"sel")
        assert one.recv(1000).startswith(b"HTTP/1.1 408")
    monkeypatch.setattr(http, "HEAD_TIMEOUT", 0.01)
    with socket.create_connection(("127.0.0.1", web.port), timeout=PATIENCE) as one:
        one.sendall(b"GET /")
        assert one.recv(1000) == b""


def test_random_bytes(web: Web) -> None:
    """Whatever comes, the server answers or closes, and goes on."""
    chance = random.Random(7)
    good = (
        b"POST /sql HTTP/1.1\r\nContent-Type: application/sql\r\nContent-Length: 8\r\n"
        + HOST
        + b"\r\nselect 1"
    )
    for _ in range(60):
        data = bytearray(good * chance.randint(1, 2))
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(data))
            match chance.randrange(3):
                case 0:
                    data[place] = chance.randrange(256)
                case 1:
                    del data[place : place + chance.randint(1, 9)]
                case _:
                    data[place:place] = chance.randbytes(chance.randint(1, 9))
        raw(web, bytes(data))
    assert web.rows("select 1") == [[1]]


def test_a_client_that_takes_no_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HEAD_TIMEOUT", 0.3)
    query = b"select repeat('x', 1000000) || i from generate_series(1, 20) t(i)"
    with web_of() as web, contextlib.ExitStack() as stack:

        def is_answered() -> bool:
            """Who is too slow to ask is left, too."""
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(PATIENCE)
            one.connect(("127.0.0.1", web.port))
            with contextlib.suppress(ConnectionError):
                one.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(query) + query)
                return one.recv(100).startswith(b"HTTP/1.1 200")
            return False

        def alone() -> bool:
            with contextlib.suppress(ConnectionError):
                return b'kpg_connections{protocol="http"} 1\n' in web.ask("GET", "/metrics")[2]
            return False

        until(is_answered)
        until(alone)
