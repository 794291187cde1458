"""Clients that are killed in the middle of what they do, and servers that are told to stop under load.

Each client is a process: it copies rows in or out, has a transaction with locks open, waits for a lock, or
follows a view by COPY, a cursor, server-sent events or a WebSocket, and dies by a signal that it cannot
notice, at a random instant. Afterwards the server has no session, lock or subscription of it, and of its rows
all that it was told are committed, and of no transaction a part. A server that is told to stop finishes or
rolls back, exits with 0 within its time, and has all of that when it is opened again.

``python -m tests.properties.client_kills --minutes 5``
"""

import argparse
import multiprocessing
import os
import random
import signal
import socket
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

from tests.properties.kills import Served
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

START: Final = """
    create table t (id int primary key, g int); create table big (i int, x text);
    insert into big select i, repeat('x', 200) from generate_series(1, 20000) s(i);
    create materialized view v as select g, count(*) as n from t group by g;
    create materialized view rows as select id, g from t
"""
AT_ONCE: Final = 4
STOPS_WITHIN: Final = 300.0
"""Seconds that a server has to be gone; its grace is two, the rest is for a slow machine."""
Tell = Callable[[int], None]


def copy_in(dsn: str, _: int, first: int, tell: Tell) -> None:
    """Portions of a hundred rows, each a commit."""
    with psycopg.connect(dsn, autocommit=True) as one:
        while True:
            with one.cursor().copy("copy t from stdin") as copy:
                for number in range(first, first + 100):
                    copy.write_row((number, first))
            tell(first)
            first += 100


def copy_out(dsn: str, _: int, first: int, tell: Tell) -> None:
    with psycopg.connect(dsn, autocommit=True) as one:
        while True:
            with one.cursor().copy("copy (select * from big order by i) to stdout") as copy:
                for _data in copy:
                    pass


def transaction(dsn: str, _: int, first: int, tell: Tell) -> None:
    """A hundred rows in a transaction that has locks, of which only one client has the first at a time."""
    with psycopg.connect(dsn) as one:
        one.execute("select pg_advisory_lock(%s)", (first,))
        while True:
            one.execute("select pg_advisory_xact_lock_shared(1), pg_advisory_xact_lock(2)")
            one.execute("insert into t select %s + i, %s from generate_series(0, 49) s(i)", (first, first))
            one.execute("savepoint a")
            one.execute("insert into t select %s + i, %s from generate_series(50, 99) s(i)", (first, first))
            one.commit()
            tell(first)
            first += 100


def following(dsn: str, _: int, first: int, tell: Tell) -> None:
    with (
        psycopg.connect(dsn, autocommit=True) as one,
        one.cursor().copy("copy (subscribe rows) to stdout") as copy,
    ):
        for _data in copy:
            pass


def cursor(dsn: str, _: int, first: int, tell: Tell) -> None:
    with psycopg.connect(dsn) as one:
        one.execute("declare c cursor for subscribe v")
        while True:
            one.execute("fetch 100 c with (timeout = '50ms')").fetchall()


def events(dsn: str, port: int, first: int, tell: Tell) -> None:
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.sendall(b"GET /subscribe?view=rows HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while one.recv(4096):
            pass


def web_socket(dsn: str, port: int, first: int, tell: Tell) -> None:
    from wsproto import ConnectionType, WSConnection
    from wsproto.events import Request, TextMessage

    protocol = WSConnection(ConnectionType.CLIENT)
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.sendall(protocol.send(Request(host="127.0.0.1", target="/ws")))
        protocol.receive_data(one.recv(4096))
        list(protocol.events())
        one.sendall(protocol.send(TextMessage('{"subscribe": {"view": "rows"}, "id": 1}')))
        while one.recv(4096):
            pass


KINDS: Final = (copy_in, copy_out, transaction, following, cursor, events, web_socket)


class Life:
    """A client's process, and the first numbers of the hundreds that it was told are committed."""

    def __init__(self, kind: Callable[[str, int, int, Tell], None], served: Served, first: int) -> None:
        self.kind, self.first = kind, first
        self._heard, telling = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")
        arguments = (kind, served.dsn, served.ports[1], first, telling)
        self.process = context.Process(target=_live, args=arguments)
        self.process.start()
        telling.close()

    def end(self) -> set[int]:
        """Wait for the end of the process; what it was told."""
        self.process.join()
        told: set[int] = set()
        with suppress(EOFError):
            while True:
                told.add(self._heard.recv())
        self._heard.close()
        return told


def _live(
    kind: Callable[[str, int, int, Tell], None], dsn: str, port: int, first: int, telling: "Connection"
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(psycopg.Error, OSError):
        kind(dsn, port, first, telling.send)
    os._exit(0)


class Harness:
    """A folder, what is known to be in it, and how often who was killed."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.told: set[int] = set()
        self.killed: Counter[str] = Counter()
        self._first = 0
        self.served = self._serve()
        with psycopg.connect(self.served.dsn, autocommit=True) as one:
            one.execute(START)

    def _serve(self) -> Served:
        return Served(self.folder, "--http", "127.0.0.1:0", "--grace", "2s")

    def _clients(self) -> list[Life]:
        lives = []
        for _ in range(AT_ONCE):
            self._first += 10**6
            lives.append(Life(self.chance.choice(KINDS), self.served, self._first))
        return lives

    def kill(self) -> None:
        """Kill some clients, and look at what the server has then."""
        lives = self._clients()
        for _ in lives:
            time.sleep(self.chance.choice((0.0, 0.02, 0.3)) * self.chance.random() + 0.05)
        time.sleep(self.chance.random() * self.chance.choice((0.05, 1.0)))
        for life in lives:
            life.process.kill()
            self.told |= life.end()
            self.killed[life.kind.__name__] += 1
        self.check()

    def stop(self) -> None:
        """Tell the server to stop under load, and open the folder again."""
        lives = self._clients()
        time.sleep(self.chance.random() * 2)
        process = self.served.process
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOPS_WITHIN) == 0, process.stderr and process.stderr.read()
        assert process.stderr is not None
        said = process.stderr.read()
        assert "Traceback" not in said, said
        process.stderr.close()
        self.killed["server"] += 1
        for life in lives:
            life.process.kill()
            self.told |= life.end()
        print(f"stopped in {time.monotonic() - begun:.1f} s", flush=True)
        self.served = self._serve()
        self.check()

    def check(self) -> None:
        """AssertionError if anything is left of those who were killed, or anything missing."""
        end = time.monotonic() + PATIENCE
        with psycopg.connect(self.served.dsn, autocommit=True) as one:
            while left := self._left(one):
                assert time.monotonic() < end, left
                time.sleep(0.05)
            rows = one.execute("select id, g from t").fetchall()
            views = (
                dict(one.execute("select g, n from v").fetchall()),
                one.execute("select count(*) from rows").fetchone(),
            )
        parts: Counter[int] = Counter(number // 100 * 100 for number, _ in rows)
        assert set(parts.values()) <= {100}, "a part of a transaction"
        assert self.told <= set(parts), "what was committed is missing"
        assert views == (Counter(group for _, group in rows), (len(rows),))

    def _left(self, one: psycopg.Connection) -> list[object]:
        """What the server has that is nobody's."""
        found: list[object] = one.execute(
            "select 'session', pid, state, query from pg_stat_activity where pid <> pg_backend_pid()"
        ).fetchall()
        found += one.execute("select 'lock', pid, mode, granted::text from pg_locks").fetchall()
        address = f"http://127.0.0.1:{self.served.ports[1]}/metrics"
        with urllib.request.urlopen(address) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("kpg_subscriptions") and not line.endswith(" 0"):
                    found.append(line)
        return found

    def memory(self) -> int:
        """Megabytes that the server has in memory of its own."""
        status = Path(f"/proc/{self.served.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if "RssAnon" in line).split()[1]) // 1024


def main() -> None:
    """Kill for some minutes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stops", type=int, default=10, metavar="N", help="a stop after N rounds of kills")
    given = parser.parse_args()
    end, rounds = time.monotonic() + 60 * given.minutes, 0
    with tempfile.TemporaryDirectory() as place:
        harness = Harness(Path(place) / "db", random.Random(given.seed))
        try:
            while time.monotonic() < end:
                rounds += 1
                harness.stop() if rounds % given.stops == 0 else harness.kill()
                if rounds % 5 == 0:
                    print(f"{rounds} rounds, {harness.memory()} MB: {dict(harness.killed)}", flush=True)
        finally:
            harness.served.kill()
    print(f"{rounds} rounds, {len(harness.told)} hundreds committed: {dict(harness.killed)}")


if __name__ == "__main__":
    sys.exit(main())
