"""INSERTs of one kind that many clients have sent: done together, each with its reply and its error."""

import asyncio
import os
import random
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from pygwire import messages as wire

from kpg.runtime.native.link import call_module
from kpg.runtime.sockets import Sockets
from kpg.server.batched_inserts import InsertBatch
from tests.unit.server.conftest import Running, serving
from tests.unit.server.test_lane import bound, connected, query, replies
from tests.waiting import PATIENCE, until

CLIENTS = 8
INSERT = "insert into t values ($1, $2, $3)"
VIEW = "create materialized view v as select n, count(*) as c, sum(id) as s from t group by n"


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Waits for the loops, without which all requests go the usual way."""
    assert call_module().RECEIVE
    until(Sockets().is_ready)


@pytest.fixture
def crowds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests have been done together, each time."""
    done: list[int] = []
    succeed = InsertBatch.succeed

    def counted(crowd: InsertBatch, result: Any) -> None:
        done.append(int(crowd._request_counts.sum()))
        succeed(crowd, result)

    monkeypatch.setattr(InsertBatch, "succeed", counted)
    return done


@contextmanager
def several(
    running: Running, text: str = INSERT, types: tuple[int, ...] = (), user: str = "kpg"
) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(running, user)) for _ in range(CLIENTS)]
        for one in clients:
            one.sendall(wire.Parse(statement="i", query=text, param_types=list(types)).to_wire())
            one.sendall(wire.Sync().to_wire())
            replies(one, 1)
        yield clients


def at_once(running: Running, clients: list[socket.socket], requests: list[bytes]) -> None:
    """Send all while the server's loop stands still, so that it reads them in one go."""
    with standing(running):
        for one, request in zip(clients, requests, strict=True):
            one.sendall(request)
        for one in clients:
            arrived(running, one)


def arrived(running: Running, one: socket.socket) -> None:
    """Wait until what a client has sent, or its end, is where the server reads it."""
    numbers = {peer_of(number): number for number in running.server.socket_reader.file_descriptors()}
    assert select.select([numbers[one.getsockname()]], [], [], PATIENCE)[0]


def peer_of(number: int) -> object:
    """Who is at the other end of one of the server's sockets."""
    with socket.socket(fileno=os.dup(number)) as one:
        return one.getpeername()


@contextmanager
def standing(running: Running) -> Iterator[None]:
    """The loop of the server stands still."""
    held, go = threading.Event(), threading.Event()

    async def stand() -> None:
        held.set()
        go.wait(PATIENCE)

    asyncio.run_coroutine_threadsafe(stand(), running.server.engine_thread._loop)  # type: ignore[arg-type]
    assert held.wait(PATIENCE)
    try:
        yield
    finally:
        go.set()


def kinds(one: socket.socket, times: int = 1) -> str:
    return "".join(kind for kind, _ in replies(one, times))


def row(number: int, text: str | None = "a", n: object = 7) -> bytes:
    return bound("i", str(number).encode(), None if text is None else text.encode(), str(n).encode())


def warm(running: Running, clients: list[socket.socket], first: int) -> None:
    """Have all be done once in the usual way, together."""
    at_once(running, clients, [row(first + place) for place in range(len(clients))])
    assert [kinds(one) for one in clients] == ["2nCZ"] * len(clients)


@contextmanager
def filled(view: str = VIEW) -> Iterator[Running]:
    with serving() as running:
        running.db.session().sql("create table t (id bigint primary key, x text, n int);" + view)
        yield running


def rows(running: Running) -> list[Any]:
    found = running.db.session().sql("select id, x, n from t where id < 1000 order by id")
    assert found is not None
    return found.fetchall()


def test_values_are_those_that_were_sent(crowds: list[int]) -> None:
    with filled() as running, several(running) as clients:
        warm(running, clients, 10_000)
        texts = ["a", "", "ä€", None, "x" * 900, "7", "'", "z"]
        numbers = [0, -1, 2**31 - 1, -(2**31), 5, 6, 7, 8]
        requests = [row(place, texts[place], numbers[place]) for place in range(CLIENTS)]
        at_once(running, clients, requests)
        assert [kinds(one) for one in clients] == ["2nCZ"] * CLIENTS
        assert crowds == [CLIENTS]
        assert rows(running) == [(place, texts[place], numbers[place]) for place in range(CLIENTS)]
        running.db.verify("v")


def test_each_is_a_commit_of_its_own(crowds: list[int]) -> None:
    with filled() as running, several(running) as clients:
        warm(running, clients, 10_000)
        before = running.db.epoch
        at_once(running, clients, [row(place) for place in range(CLIENTS)])
        assert [kinds(one) for one in clients] == ["2nCZ"] * CLIENTS
        assert (running.db.epoch - before, crowds) == (CLIENTS, [CLIENTS])
        told: list[Any] = []
        running.db.view("v").subscribe(told.append)
        at_once(running, clients, [row(100 + place, n=8) for place in range(CLIENTS)])
        assert [kinds(one) for one in clients] == ["2nCZ"] * CLIENTS
        assert len({epoch for changes in told for _, epoch, _ in changes}) == CLIENTS
        running.db.verify("v")


def test_errors_are_of_whom_they_come_from() -> None:
    view = "create materialized view v as select id, 10 / (id - 5) as y from t"
    with filled(view) as running, several(running) as clients:
        warm(running, clients, 10_000)
        requests = [row(place) for place in range(CLIENTS)]
        requests[1] = row(10_000)  # there is one
        requests[2] = row(3)  # another's
        requests[4] = row(4, n="three")
        at_once(running, clients, requests)
        found = [kinds(one) for one in clients]
        assert [one[-2:] for one in found] == [
            "CZ",
            "EZ",
            found[2][-2:],
            found[3][-2:],
            "EZ",
            "EZ",
            "CZ",
            "CZ",
        ]
        assert sorted([found[2][-2:], found[3][-2:]]) == ["CZ", "EZ"]
        assert [one[0] for one in rows(running)] == [0, 3, 6, 7]
        at_once(running, clients, [row(100 + place) for place in range(CLIENTS)])
        assert [kinds(one)[-2:] for one in clients] == ["CZ"] * CLIENTS
        running.db.verify("v")


def test_whoever_sends_more_is_answered_in_order(crowds: list[int]) -> None:
    with filled() as running, several(running) as clients:
        warm(running, clients, 10_000)
        requests = [row(place) for place in range(CLIENTS)]
        requests[1] += row(100) + row(101)
        requests[2] += query("select 5")
        requests[3] += row(300)
        requests[4] = requests[4][:-20]
        requests[5] = query("begin") + row(200) + query("rollback")
        at_once(running, clients, requests)
        assert [kinds(clients[place]) for place in (0, 6, 7)] == ["2nCZ"] * 3
        assert kinds(clients[1], 3) == "2nCZ" * 3
        assert kinds(clients[2], 2) == "2nCZTDCZ"
        assert kinds(clients[3], 2) == "2nCZ" * 2
        assert kinds(clients[5], 3) == "CZ2nCZCZ"
        clients[4].sendall(row(4)[-20:])
        assert kinds(clients[4]) == "2nCZ"
        assert [one[0] for one in rows(running)] == [0, 1, 2, 3, 4, 6, 7, 100, 101, 300]
        assert crowds
        running.db.verify("v")


def test_definitions_and_settings_that_change_are_heeded(crowds: list[int]) -> None:
    with filled() as running, several(running) as clients:
        warm(running, clients, 10_000)
        running.db.session().sql("alter table t add constraint small check (n < 100)")
        at_once(running, clients, [row(place, n=50 * place) for place in range(CLIENTS)])
        assert [kinds(one)[-2:] for one in clients] == ["CZ", "CZ"] + ["EZ"] * 6
        running.db.session().sql(
            "alter table t drop constraint small; create schema s; create table s.t (like t)"
        )
        warm(running, clients, 20_000)
        warm(running, clients, 30_000)
        assert crowds == [CLIENTS]
        clients[0].sendall(
            query("set search_path = s") + query("select set_config('search_path', 's', false)")
        )
        assert kinds(clients[0], 2) == "CZTDCZ"
        at_once(running, clients, [row(200 + place) for place in range(CLIENTS)])
        assert [kinds(one) for one in clients] == ["2nCZ"] * CLIENTS
        assert [one[0] for one in rows(running)] == [0, 1, *range(201, 200 + CLIENTS)]


def test_limited_roles_are_asked_for_their_privileges(crowds: list[int]) -> None:
    with filled() as running:
        owner = running.db.session()
        owner.sql("create role r login; grant insert on t to r")
        with several(running, user="r") as clients:
            warm(running, clients, 10_000)
            warm(running, clients, 20_000)
            assert crowds == [CLIENTS]
            owner.sql("revoke insert on t from r")
            at_once(running, clients, [row(place) for place in range(CLIENTS)])
            assert [kinds(one)[-2:] for one in clients] == ["EZ"] * CLIENTS
            owner.sql("grant insert (id, x) on t to r")
            at_once(running, clients, [row(place) for place in range(CLIENTS)])
            assert [kinds(one)[-2:] for one in clients] == ["EZ"] * CLIENTS
            owner.sql("grant insert on t to r")
            warm(running, clients, 30_000)
            owner.sql("alter table t enable row level security; create policy p on t using (id <> 2)")
            at_once(running, clients, [row(place) for place in range(CLIENTS)])
            assert [kinds(one)[-2:] for one in clients] == ["CZ", "CZ", "EZ"] + ["CZ"] * 5
            assert crowds == [CLIENTS]
            assert [one[0] for one in rows(running)] == [0, 1, 3, 4, 5, 6, 7]
            running.db.verify("v")


def test_clients_that_go_take_nobody_with_them() -> None:
    with filled() as running, several(running) as clients:
        warm(running, clients, 10_000)
        with standing(running):
            for place, one in enumerate(clients):
                one.sendall(row(place))
                arrived(running, one)
            clients[0].close()
            clients[1].shutdown(socket.SHUT_RDWR)
        assert [kinds(one) for one in clients[2:]] == ["2nCZ"] * (CLIENTS - 2)
        assert [one[0] for one in rows(running)][-6:] == [2, 3, 4, 5, 6, 7]
        running.db.verify("v")


def binary(number: int, text: str, n: int) -> bytes:
    bind = wire.Bind(
        portal="",
        statement="i",
        param_formats=[1, 0, 1],
        param_values=[
            number.to_bytes(8, "big", signed=True),
            text.encode(),
            n.to_bytes(4, "big", signed=True),
        ],
    )
    return bind.to_wire() + wire.Execute(portal="", max_rows=0).to_wire() + wire.Sync().to_wire()


def test_binary_values(crowds: list[int]) -> None:
    with filled() as running, several(running, types=(20, 25, 23)) as clients:
        at_once(running, clients, [binary(2**40 + place, "w", 0) for place in range(CLIENTS)])
        assert [kinds(one) for one in clients] == ["2CZ"] * CLIENTS
        at_once(running, clients, [binary(place - 3, f"{place}", -place) for place in range(CLIENTS)])
        assert [kinds(one) for one in clients] == ["2CZ"] * CLIENTS
        assert crowds == [CLIENTS]
        assert rows(running) == [(place - 3, f"{place}", -place) for place in range(CLIENTS)]


@pytest.mark.parametrize("seed", range(3))
def test_random_requests_however_cut(seed: int, crowds: list[int]) -> None:
    chance = random.Random(seed)
    with filled() as running, several(running) as clients:
        warm(running, clients, 10**6)
        wanted: dict[int, tuple[str, int]] = {}
        waiting = [b""] * CLIENTS
        asked = [0] * CLIENTS
        for number in range(400):
            place = chance.randrange(CLIENTS)
            asked[place] += 1
            key, case = number, chance.random()
            if case < 0.96:
                waiting[place] += row(key, f"x{key}", key)
                wanted[key] = (f"x{key}", key)
            elif case < 0.985:
                waiting[place] += query("select 1")
            else:
                waiting[place] += row(10**6, "again", 1)
            if number % 16 == 15:
                with standing(running):
                    for one, data in enumerate(waiting):
                        cut = chance.choice((*[len(data)] * 15, len(data) // 2))
                        clients[one].sendall(data[:cut])
                        waiting[one] = data[cut:]
                        if cut:
                            arrived(running, clients[one])
        for one, data in enumerate(waiting):
            clients[one].sendall(data)
        answered = [kinds(one, times) for one, times in zip(clients, asked, strict=True)]
        assert sum(one.count("nC") for one in answered) == len(wanted)
        assert {key: (text, n) for key, text, n in rows(running)} == wanted
        assert crowds
        running.db.verify("v")
