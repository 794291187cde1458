"""Requests that come again and again, read off the bytes in one go.

A statement that was prepared, with its values (Bind, Describe, Execute, Sync), or a Query. What is anything
else, or malformed, is for pygwire to read.
"""

import struct
from typing import Final

from kpg.runtime.records import dataclass

_length = struct.Struct("!i").unpack_from
_count = struct.Struct("!H").unpack_from
BIND, DESCRIBE, EXECUTE, SYNC, QUERY = b"BDESQ"
DESCRIBED: Final = b"D\x00\x00\x00\x06P\x00"
EXECUTED: Final = b"E\x00\x00\x00\x09\x00\x00\x00\x00\x00"
SYNCED: Final = b"S\x00\x00\x00\x04"
LONGEST: Final = 100_000
"""Bytes of a request that is read here."""


@dataclass(frozen=True, slots=True)
class Request:
    """A prepared statement's name and values, or, ``name`` being None, the text of a Query."""

    start: int
    stop: int
    name: str | None
    text: str = ""
    formats: tuple[int, ...] = ()
    values: tuple[bytes | None, ...] = ()
    results: tuple[int, ...] = ()
    described: bool = False


def requests(data: bytes) -> list[Request]:
    """The requests that data begins with: the first starts at 0, each where the one before stops."""
    found: list[Request] = []
    place = 0
    try:
        while place < len(data):
            one = _prepared(data, place) if data[place] == BIND else _query(data, place)
            if one is None:
                break
            found.append(one)
            place = one.stop
    except (struct.error, ValueError, IndexError):
        pass
    return found


def _query(data: bytes, start: int) -> Request | None:
    if data[start] != QUERY:
        return None
    stop = start + 1 + _length(data, start + 1)[0]
    if not start + 5 < stop <= len(data) or data[stop - 1] or stop - start > LONGEST:
        return None
    text = data[start + 5 : stop - 1]
    return None if b"\0" in text else Request(start, stop, None, text.decode())


def _prepared(data: bytes, start: int) -> Request | None:
    end = start + 1 + _length(data, start + 1)[0]
    if end - start > LONGEST or not data.startswith(b"\0", start + 5):
        return None
    after = end
    described = data.startswith(DESCRIBED, after)
    after += len(DESCRIBED) if described else 0
    if not data.startswith(EXECUTED, after) or not data.startswith(SYNCED, after + len(EXECUTED)):
        return None
    close = data.index(0, start + 6, end)
    name = data[start + 6 : close].decode()
    formats, place = _numbers(data, close + 1)
    (count,) = _count(data, place)
    place += 2
    values: list[bytes | None] = []
    for _ in range(count):
        (length,) = _length(data, place)
        place += 4
        if length < 0:
            values.append(None)
            continue
        values.append(data[place : place + length])
        place += length
    results, place = _numbers(data, place)
    if place != end:
        return None
    stop = after + len(EXECUTED) + len(SYNCED)
    return Request(start, stop, name, "", formats, tuple(values), results, described)


def _numbers(data: bytes, place: int) -> tuple[tuple[int, ...], int]:
    (count,) = _count(data, place)
    return struct.unpack_from(f"!{count}H", data, place + 2), place + 2 + 2 * count
