"""Many sockets at once: what comes is read as rows, answers go as far as they are taken."""

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from kpg.runtime.sockets import IntegerField, Pattern, Sockets
from kpg.runtime.types import NULL
from tests.waiting import until

HEAD = b"\0name\0\0\0\0\x02"
TAIL = b"\0\0" + b"E\0\0\0\x09\0\0\0\0\0" + b"S\0\0\0\x04"
PLAIN = Pattern.build(HEAD, TAIL, 2, [5, 6, 7], [IntegerField(2, 0, -(2**31), 2**31 - 1), 0])
BINARY = Pattern.build(
    HEAD,
    TAIL,
    2,
    [5, 6, 7],
    [IntegerField(2, 4, -(2**31), 2**31 - 1), IntegerField(0, 8, NULL + 2, 2**63 - 1)],
)


@pytest.fixture(scope="module")
def sockets() -> Sockets:
    made = Sockets()
    until(made.is_ready)
    return made


@contextmanager
def pairs(count: int) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    with ExitStack() as stack:
        found = [socket.socketpair() for _ in range(count)]
        for one, other in found:
            stack.enter_context(one)
            stack.enter_context(other)
        yield found


def request(*values: bytes | None) -> bytes:
    body = HEAD
    for value in values:
        body += (
            (-1).to_bytes(4, "big", signed=True) if value is None else len(value).to_bytes(4, "big") + value
        )
    return b"B" + (len(body) + 2 + 4).to_bytes(4, "big") + body + TAIL


def read(sockets: Sockets, pattern: Pattern, sent: list[bytes]) -> tuple[list[list[int]], list[int]]:
    """The rows, and how many requests each has sent."""
    with pairs(len(sent)) as found:
        for (one, _), data in zip(found, sent, strict=True):
            one.sendall(data)
        sockets.receive([other.fileno() for _, other in found])
        assert sockets.data == b"".join(sent)
        rows = sockets.decode(pattern)
        return rows.words.T.tolist(), rows.counts.tolist()


def test_values_become_words(sockets: Sockets) -> None:
    sent = [request(text, b"?") for text in (b"0", b"-0", b"12", b"-2147483648", b"2147483647", b"007")]
    rows, counts = read(sockets, PLAIN, [*sent, request(None, None)])
    assert [row[2] for row in rows] == [0, 0, 12, -(2**31), 2**31 - 1, 7, NULL]
    assert [row[1] for row in rows] == [6] * 7
    assert ([row[0] for row in rows], counts) == ([5] * 6 + [NULL], [1] * 7)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"-",
        b"+1",
        b" 1",
        b"1 ",
        b"1.0",
        b"2147483648",
        b"-2147483649",
        b"9" * 19,
        b"1" * 20,
        b"1_0",
        b"x",
    ],
)
def test_what_is_no_such_number_is_left(sockets: Sockets, text: bytes) -> None:
    assert read(sockets, PLAIN, [request(text, b""), request(b"1", b"")])[1] == [0, 1]


def test_binary_numbers(sockets: Sockets) -> None:
    def sent(one: int, other: int, width: int = 4) -> bytes:
        return request(one.to_bytes(width, "big", signed=True), other.to_bytes(8, "big", signed=True))

    values = [(0, 0), (-1, -1), (2**31 - 1, 2**63 - 1), (-(2**31), NULL + 2)]
    rows, counts = read(
        sockets, BINARY, [*(sent(*pair) for pair in values), sent(1, NULL), sent(1, NULL + 1)]
    )
    assert [(row[2], row[0]) for row in rows] == values
    assert counts == [1, 1, 1, 1, 0, 0]
    assert read(sockets, BINARY, [sent(1, 1, 2), sent(1, 1, 8)])[1] == [0, 0]


def test_what_is_cut_or_changed_anywhere_is_left_or_read_in_full(sockets: Sockets) -> None:
    whole = request(b"12", b"abc")
    cut = [whole[:length] for length in range(1, len(whole))]
    for start in range(0, len(cut), 20):
        assert set(read(sockets, PLAIN, cut[start : start + 20])[1]) == {0}
    chance = random.Random(1)
    changed = []
    for place in range(len(whole)):
        other = bytearray(whole)
        other[place] ^= 1 << chance.randrange(8)
        changed.append(bytes(other))
    for start in range(0, len(changed), 20):
        part = changed[start : start + 20]
        for data, count in zip(part, read(sockets, PLAIN, part)[1], strict=True):
            values = data[5 + len(HEAD) : -len(TAIL)]
            alike = data[:5] + data[5 : 5 + len(HEAD)] + data[-len(TAIL) :] == whole[: 5 + len(HEAD)] + TAIL
            number = values[4:6]
            fine = (
                values[:4] + values[6:10] == b"\0\0\0\x02\0\0\0\x03" and number.removeprefix(b"-").isdigit()
            )
            assert count == (alike and fine), data


def test_several_of_one(sockets: Sockets) -> None:
    one = request(b"1", b"")
    rows, counts = read(sockets, PLAIN, [one * 3, one * 2 + one[:-1], one + b"Q", one])
    assert (len(rows), counts) == (4, [3, 0, 0, 1])


def test_more_than_there_is_room_for(sockets: Sockets) -> None:
    one = request(b"1", b"")
    _, counts = read(sockets, PLAIN, [one * 70] * 20)
    assert counts == [70] * 14 + [0] * 6


def test_nothing_errors_and_the_end(sockets: Sockets) -> None:
    with pairs(2) as ((one, other), (first, second)):
        first.close()
        found = sockets.receive([other.fileno(), second.fileno(), -1])
        assert [count for _, count in found] == [-11, 0, -9]
        one.sendall(request(b"1", b"") * 200)
        assert sockets.receive([other.fileno()]) == [[0, 4096]]


def test_answers_go_as_far_as_they_are_taken(sockets: Sockets) -> None:
    with pairs(3) as found:
        numbers = [one.fileno() for one, _ in found]
        found[1][1].close()
        most, reply = 100_000, b"abcdefg"
        sent = sockets.send([*numbers, -1], np.array([2, 1, most, 1], np.int64), reply)
        assert (sent[0], sent[1], sent[3]) == (14, 0, 0)
        assert 0 < sent[2] < most * len(reply)
        assert found[0][1].recv(100) == reply * 2
        data = b""
        while len(data) < sent[2]:
            data += found[2][1].recv(1 << 20)
        assert data == (reply * most)[: sent[2]]
