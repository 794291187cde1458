"""Connections between machines: who knows the secret comes in, strangers do not, and keep nobody waiting."""

import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from kpg.runtime.cluster.messages import Connection, ConnectionLostError, encode_message, exchange
from kpg.runtime.cluster.transfer import AuthenticationError, Hello, Listener, connect
from tests.unit.workers.test_processes import exchange_both_ways
from tests.waiting import PATIENCE

SECRET = b"s" * 32
HERE = "127.0.0.1"


@pytest.fixture
def door() -> Iterator[Listener]:
    with Listener(HERE, SECRET) as made:
        yield made


def both(door: Listener) -> tuple[Connection, Connection]:
    """The two ends of a connection."""
    there = connect((HERE, door.port), SECRET, Hello(b"p", 1, 2, 3))
    come = door.accept(PATIENCE)
    assert come is not None
    return Connection(come[1].detach()), Connection(there.detach())


def test_who_knows_the_secret_comes_in_and_says_who_it_is(door: Listener) -> None:
    card = Hello(b"c", 7, 65535, 1 << 31)
    with connect((HERE, door.port), SECRET, card):
        come = door.accept(PATIENCE)
        assert come is not None and come[0] == card
        come[1].close()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n" * 20, b"\x80\x05" * 200, b"short"])
def test_a_stranger_is_turned_away_unheard(door: Listener, said: bytes) -> None:
    with socket.create_connection((HERE, door.port)) as stranger:
        nonce = stranger.recv(32)
        stranger.sendall(said)
        answer = b""
        try:
            stranger.shutdown(socket.SHUT_WR)
            while more := stranger.recv(100):
                answer += more
        except OSError:  # it may be closed by then
            pass
    assert (nonce + answer)[32:] == b""
    assert door.accept(0) is None


def test_another_secret_is_a_stranger_on_both_sides(door: Listener) -> None:
    with pytest.raises((AuthenticationError, ConnectionResetError)):
        connect((HERE, door.port), b"t" * 32, Hello(b"c", 0, 0, 0))
    assert door.accept(0) is None
    with socket.create_server((HERE, 0)) as other:

        def pretend() -> None:
            connection, _ = other.accept()
            with connection:
                connection.sendall(b"n" * 32)
                connection.recv(1000)
                connection.sendall(b"m" * 32)

        pretender = threading.Thread(target=pretend)
        pretender.start()
        with pytest.raises(AuthenticationError):
            connect((HERE, other.getsockname()[1]), SECRET, Hello(b"c", 0, 0, 0))
        pretender.join()


def test_what_was_said_once_does_not_open_the_door_again(door: Listener) -> None:
    said: list[bytes] = []
    with socket.create_server((HERE, 0)) as between:

        def listen() -> None:
            connection, _ = between.accept()
            with connection, socket.create_connection((HERE, door.port)) as onward:
                connection.sendall(onward.recv(32))
                said.append(connection.recv(1000))
                onward.sendall(said[0])
                connection.sendall(onward.recv(32))

        listener = threading.Thread(target=listen)
        listener.start()
        connect((HERE, between.getsockname()[1]), SECRET, Hello(b"c", 0, 0, 0)).close()
        listener.join()
    come = door.accept(PATIENCE)
    assert come is not None
    come[1].close()
    with socket.create_connection((HERE, door.port)) as again:
        again.recv(32)
        again.sendall(said[0])
        assert again.recv(32) == b""
    assert door.accept(0) is None


def test_those_who_say_nothing_keep_nobody_waiting(door: Listener) -> None:
    silent = [socket.create_connection((HERE, door.port)) for _ in range(20)]
    with connect((HERE, door.port), SECRET, Hello(b"c", 0, 0, 0)):
        come = door.accept(PATIENCE)
        assert come is not None
        come[1].close()
    for one in silent:
        one.close()


def test_a_closed_door_lets_nobody_in() -> None:
    door = Listener(HERE, SECRET)
    door.close()
    with pytest.raises((OSError, AuthenticationError)):
        connect((HERE, door.port), SECRET, Hello(b"c", 0, 0, 0))


def test_large_messages_arrive_as_they_were_sent_both_ways_at_once(door: Listener) -> None:
    here, there = both(door)
    exchange_both_ways(here, there, 3_000_001)
    here.close()
    there.close()


def test_a_connection_that_is_dropped_is_an_error_on_both_sides(door: Listener) -> None:
    here, there = both(door)
    words = np.zeros(1 << 23, np.int64)
    failed: list[bool] = []

    def send() -> None:
        try:
            exchange([(there, encode_message(words))], [there])
        except ConnectionLostError:
            failed.append(True)

    other = threading.Thread(target=send)
    other.start()
    here.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ConnectionLostError):
        exchange([], [here])
    here.close()
    other.join()
    assert failed == [True]
    there.close()
