"""Connections that are read together: they come and go, and without epoll all is as before."""

import select
import socket
from contextlib import ExitStack

import psycopg
import pytest

from tests.unit.server.conftest import serving
from tests.unit.server.test_lane import bound, connected, prepare, query, replies
from tests.waiting import until


def test_numbers_of_sockets_are_given_again() -> None:
    with serving() as running:
        running.db.session().sql("create table t (id int primary key, x text); insert into t values (1, 'a')")
        for turn in range(20):
            with ExitStack() as stack:
                several = [stack.enter_context(connected(running)) for _ in range(4)]
                for place, one in enumerate(several):
                    prepare(one)
                    one.sendall(bound("read", b"1") if place % 2 else query("select 5"))
                for one in several:
                    assert [kind for kind, _ in replies(one, 1)][-3:] == ["D", "C", "Z"]
                if turn % 3 == 0:
                    # Some go without a word, some in the middle of a message.
                    several[0].shutdown(socket.SHUT_RDWR)
                    several[1].sendall(bound("read", b"1")[:-7])
        until(
            lambda: not running.server.socket_reader.file_descriptors()
        )  # those that have gone are forgotten


def test_who_sends_ahead_without_reading_is_not_read_from() -> None:
    with serving() as running, connected(running) as one, connected(running) as other:
        running.db.session().sql("create table t (id int primary key, x text)")
        prepare(one)
        one.setblocking(False)
        piece, sent = query(f"select '{'x' * 9000}'") * 10, 0
        with pytest.raises(BlockingIOError):
            for _ in range(2000):
                # What is half sent is no longer looked at: the server is to stop reading, here or there.
                sent += one.send(piece[sent % len(piece) :])
        assert sent < 64 << 20
        other.sendall(query("select 7"))
        assert [kind for kind, _ in replies(other, 1)] == ["T", "D", "C", "Z"]


def test_without_epoll_transports_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "epoll")
    with serving() as running:
        with psycopg.connect(running.dsn, autocommit=True) as one:
            one.execute("create table t (a int primary key)")
            one.execute("insert into t values (%s)", [3])
            assert one.execute("select a from t").fetchall() == [(3,)]
        assert running.server.socket_reader.file_descriptors() == []
