"""What clients of a server may send that is wrong: it answers or closes, goes on, and keeps little of it.

Messages of the protocol are put together as a client would, and then cut, repeated, mixed, lengthened, or
changed in some bytes: simple and extended queries, pipelines that go on after errors, COPY by text and
binary, passwords, TLS. Some clients send a byte at a time, some nothing, some do not read, some go at once.

``python -m tests.properties.wire_fuzz --minutes 5`` does so for as long, to a server that asks for passwords
by turns with one that does not, and to HTTP.
"""

import argparse
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg
from pygwire import messages as wire

from tests.unit.server.web.conftest import Web, web_of
from tests.waiting import PATIENCE, until

TABLES: Final = "create table if not exists t (id int, x text, y float8)"
BINARY: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
ROW: Final = b"\0\3\0\0\0\4\0\0\0\1\0\0\0\1a" + struct.pack("!id", 8, 1.5)
TEXTS: Final = (
    "select 1",
    "select * from t",
    "begin",
    "commit",
    "select 1 / 0",
    "insert into t values (1)",
    "",
    ";;",
)
TLS: Final = struct.pack("!ii", 8, 80877103)
CANCEL: Final = struct.pack("!iiii", 16, 80877102, 1, 1)


def startup(user: str = "kpg") -> bytes:
    body = struct.pack("!i", 196608) + f"user\0{user}\0\0".encode()
    return struct.pack("!i", len(body) + 4) + body


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def pipeline(chance: random.Random) -> bytes:
    """Extended queries, of which some fail, and some come without their Sync."""
    data = b""
    for number in range(chance.randrange(1, 12)):
        name = chance.choice(("", f"s{number}", "nosuch"))
        data += chance.choice(
            (
                wire.Parse(
                    name, chance.choice(TEXTS), [chance.randrange(3000)] * chance.randrange(3)
                ).to_wire(),
                wire.Bind("", name, [1], [chance.randbytes(4)] * chance.randrange(4), [1]).to_wire(),
                wire.Describe("S", name).to_wire(),
                wire.Execute("", chance.randrange(3)).to_wire(),
                wire.Close("S", name).to_wire(),
                wire.Sync().to_wire(),
                wire.Flush().to_wire(),
            )
        )
    return data


def copying(chance: random.Random) -> bytes:
    how, rows = chance.choice(
        (
            ("", b"1\ta\t1.5\n" * chance.randrange(5)),
            (" with (format csv)", b'1,"a,\n' * chance.randrange(5)),
            (" with (format binary)", BINARY + ROW * chance.randrange(5) + b"\xff\xff"),
        )
    )
    data = bytearray(rows)
    for _ in range(chance.randrange(4)):
        if data:
            place = chance.randrange(len(data))
            data[place : place + chance.randrange(2)] = chance.randbytes(chance.randrange(3))
    text = f"copy t from stdin{how}\0".encode()
    cut = chance.randrange(len(data) + 1)
    end = chance.choice((b"", message(b"c", b""), message(b"f", b"no\0"), message(b"Q", b"select 1\0")))
    return message(b"Q", text) + message(b"d", bytes(data[:cut])) + message(b"d", bytes(data[cut:])) + end


def queries(chance: random.Random) -> bytes:
    text = ";".join(chance.choice(TEXTS) for _ in range(chance.randrange(1, 4)))
    return message(b"Q", text.encode() + b"\0") * chance.randrange(1, 4)


def passwords(chance: random.Random) -> bytes:
    body = chance.choice(
        (
            b"SCRAM-SHA-256\0" + struct.pack("!i", 20) + b"n,,n=,r=" + chance.randbytes(12),
            b"SCRAM-SHA-256\0" + struct.pack("!i", 2**31 - 1) + b"n,,n=,r=x",
            b"SCRAM-SHA-256-PLUS\0\0\0\0\0",
            b"n,,n=,r=fyko",
            b"c=biws,r=x,p=" + b"A" * 43 + b"=",
            b"\xff\xfe",
            b"",
        )
    )
    return message(b"p", body) * chance.randrange(1, 4)


def beginnings(chance: random.Random) -> bytes:
    return chance.choice(
        (
            TLS,
            TLS + startup(),
            TLS + b"\x16\x03\x01" + chance.randbytes(40),
            CANCEL,
            startup("n" * 9000),
            struct.pack("!ii", 9, 196608) + b"x",
            struct.pack("!ii", 8, 80877104),
            startup() + startup(),
            struct.pack("!i", 2**31 - 1),
            b"GET / HTTP/1.1\r\n\r\n",
        )
    )


SPOKEN: Final[tuple[Callable[[random.Random], bytes], ...]] = (pipeline, copying, queries, passwords)


def changed(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randrange(3)):
        if not made:
            break
        place = chance.randrange(len(made))
        match chance.randrange(4):
            case 0:
                made[place] = chance.randrange(256)
            case 1:
                del made[place:]
            case 2:
                made[place:place] = chance.randbytes(chance.randrange(9))
            case _:
                made[place:place] = made[place : place + chance.randrange(60)]
    return bytes(made)


def spoken(chance: random.Random) -> bytes:
    """What one client sends."""
    data = startup() if chance.random() < 0.8 else beginnings(chance)
    for _ in range(chance.randrange(1, 5)):
        data += changed(chance.choice(SPOKEN)(chance), chance)
    return data


HOST: Final = b"Host: 127.0.0.1\r\n"


def by_http(chance: random.Random) -> bytes:
    """Requests with lengths that are not theirs, in chunks, with long heads, and one within another."""
    inner = (
        b"POST /sql HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/sql\r\nContent-Length: 8\r\n\r\nselect 2"
    )
    lengths = chance.choice(
        (
            b"Content-Length: 8\r\n",
            b"Content-Length: 8\r\nContent-Length: 80\r\n",
            b"Content-Length: -1\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Content-Length: 8\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding : chunked\r\n",
            b"Transfer-Encoding: identity, chunked\r\n",
            b"Content-Length: +8\r\n",
            b"Content-Length: 99999999999999999999\r\n",
            b"X: " + b"y" * chance.choice((10, 40_000)) + b"\r\n",
            b"".join(b"X%d: y\r\n" % number for number in range(chance.choice((3, 3000)))),
        )
    )
    body = chance.choice(
        (
            b"select 1",
            b"8\r\nselect 1\r\n0\r\n\r\n",
            b"ffffffffffffffff\r\nx",
            b"0\r\n\r\n" + inner,
            b"8;x=" + b"y" * 9000,
            b"-1\r\nx\r\n",
            inner,
        )
    )
    head = chance.choice(
        (b"POST /sql", b"GET /ws", b"GET /subscribe?view=t", b"POST /datalog", b"GET /" + b"a" * 70_000)
    )
    upgrade = (
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
    )
    more = upgrade if chance.random() < 0.3 else b"Content-Type: application/sql\r\n"
    return changed(head + b" HTTP/1.1\r\n" + HOST + more + lengths + b"\r\n" + body, chance)


def send(port: int, data: bytes, chance: random.Random) -> bytes:
    """Send in one of several ways, and what comes back until the server closes, which it has to."""
    with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as one:
        way = chance.random()
        if way < 0.1:
            for place in range(min(len(data), 60)):
                one.sendall(data[place : place + 1])
        elif way < 0.2:
            one.sendall(data)
            return b""
        elif way < 0.3:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.sendall(data)
            return b""
        else:
            one.sendall(data)
        one.shutdown(socket.SHUT_WR)
        found = b""
        while part := one.recv(1 << 16):
            found += part
        return found
    return b""


def memory() -> int:
    """MB of this process, in which the server is."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20


def talk(web: Web, seed: int, count: int) -> None:
    """Have clients send, and beside them some that only hang on; then the server answers as ever."""
    chance = random.Random(seed)
    idle = [socket.create_connection(("127.0.0.1", port)) for port in (web.running.port, web.port)]
    idle[0].sendall(startup()[:9])
    idle[1].sendall(b"POST /sql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
    try:
        for _ in range(count):
            if chance.random() < 0.6:
                send(web.running.port, spoken(chance), chance)
            else:
                send(web.port, by_http(chance), chance)
    finally:
        for one in idle:
            one.close()


def round_of(seed: int, count: int, password: str | None = None) -> None:
    """Several clients of a server of its own at once; AssertionError if it does not go on as it should."""
    with web_of(password) as web:
        login = f"{web.running.dsn} password={password or 'none'}"
        with psycopg.connect(login, autocommit=True) as one:
            one.execute(TABLES)
        threads = [
            threading.Thread(target=talk, args=(web, seed * 10 + number, count // 3)) for number in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"seed {seed}: a client still waits"
        with psycopg.connect(login, autocommit=True) as one:
            assert one.execute("select 41 + 1").fetchone() == (42,)
            one.execute("insert into t values (17, 'here', 1)")
            gone = f"seed {seed}: clients that are gone are still there"
            until(lambda: len(web.running.server.clients) == 1, gone)


def main() -> None:
    """Rounds for some minutes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    end, seed = time.monotonic() + 60 * given.minutes, given.seed
    while time.monotonic() < end:
        round_of(seed, 300, None if seed % 3 else "s3cret")
        seed += 1
        print(f"{seed - given.seed} rounds of 300 clients, {memory()} MB", flush=True)


if __name__ == "__main__":
    main()
