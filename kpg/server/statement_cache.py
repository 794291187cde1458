"""Statement cache: recognizes repeated requests by their bytes and runs them by cached plans.

A request is either a Query, or the sequence Bind, Describe, Execute, Sync of a prepared statement. Requests
that have another form or are malformed are left to pygwire.
"""

import datetime
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final

from kpg.api.result import Result
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import Sized, highest_place
from kpg.compiler.sql.parse.parser import parse
from kpg.execute.scripts import word_of
from kpg.runtime.errors import DataError
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, INTEGER, SMALLINT
from kpg.server import binary_input

Taker = Callable[[bytes], Any]
TAGS: Final = {"select": "SELECT", "insert": "INSERT 0", "update": "UPDATE", "delete": "DELETE"}
MOST_TEXTS: Final = 1024
"""So many texts are known to be statements."""
LONGEST: Final = 10_000
TAKERS: Final[dict[int, Callable[[str], Any]]] = {
    0: str,
    16: lambda text: {"true": True, "t": True, "false": False, "f": False}[text],
    20: lambda text: Sized.of(int(text), BIGINT),
    21: lambda text: Sized.of(int(text), SMALLINT),
    23: lambda text: Sized.of(int(text), INTEGER),
    25: str,
    705: str,
    1042: str,
    1043: str,
    1082: datetime.date.fromisoformat,
    1700: lambda text: _fraction(Decimal(text)),
}
"""From a parameter's text to the value that means the same in SQL, by the number of its type."""


def _fraction(value: Decimal) -> Decimal:
    """A number with digits behind the point; another would be an INTEGER."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent >= 0:
        raise ValueError
    return value


def tag_of(word: str, outcome: Result | None) -> str:
    """The tag of such a statement."""
    return f"{TAGS[word]} {0 if outcome is None else outcome.rowcount}"


@lru_cache(MOST_TEXTS)
def _known(text: str) -> tuple[ast.Statement, int]:
    (statement,) = parse(text)
    return statement, highest_place(statement)


def parsed(text: str) -> tuple[ast.Statement, int] | None:
    """The statement of a text, and how many parameters it has; None if the text is more than one."""
    return _known(text) if len(text) <= LONGEST and word_of(text) is not None else None


def takers_of(formats: Sequence[int], numbers: Sequence[int]) -> "list[Taker] | None":
    """What makes Python values of parameters; None if one is of a type that has none that means the same."""
    found: list[Taker] = []
    for form, number in zip(formats, numbers, strict=True):
        take = TAKERS.get(number)
        if take is None or (form and not number):  # only its type tells what it is in binary
            return None
        if form:
            found.append(partial(_binary, take, number))
        else:
            found.append(_decoded if take is str else partial(_textual, take))
    return found


def _binary(take: Callable[[str], Any], number: int, value: bytes) -> Any:
    try:
        return take(binary_input.text_of_number(value, number, {}))
    except DataError as error:
        raise ValueError from error


def _decoded(value: bytes) -> str:
    """A text; ValueError if it has a zero byte, which is no character of a text."""
    if b"\0" in value:
        raise ValueError
    return value.decode()


def _textual(take: Callable[[str], Any], value: bytes) -> Any:
    return take(value.decode())


def taken(values: Sequence[bytes | None], takers: "Sequence[Taker]") -> list[Any] | None:
    """Parameters as Python values; None if one is none that means the same in SQL."""
    try:
        return [None if value is None else take(value) for value, take in zip(values, takers, strict=True)]
    except (ValueError, ArithmeticError, KeyError):
        return None


def values_of(
    values: Sequence[bytes | None], formats: Sequence[int], numbers: Sequence[int]
) -> list[Any] | None:
    """Parameters as Python values; None if one is of a type that has none that means the same."""
    takers = takers_of(formats, numbers)
    return None if takers is None else taken(values, takers)


_length = struct.Struct("!i").unpack_from
_count = struct.Struct("!H").unpack_from
BIND, DESCRIBE, EXECUTE, SYNC, QUERY = b"BDESQ"
DESCRIBED: Final = b"D\x00\x00\x00\x06P\x00"
EXECUTED: Final = b"E\x00\x00\x00\x09\x00\x00\x00\x00\x00"
SYNCED: Final = b"S\x00\x00\x00\x04"
LONGEST_REQUEST: Final = 100_000
"""Bytes of a request that is read here."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """What the requests for a prepared statement have in common: all but their values."""

    head: bytes
    """From behind the length of Bind up to the number of values."""
    count: int
    tail: bytes
    """What comes behind the values, up to the end of Sync."""
    results: int
    """Bytes of the tail that are Bind's."""


Values = list[bytes | None]


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


def repeated(data: bytes, request: Request) -> Repeated:
    """What may come again, of a prepared statement's request."""
    start = request.start + 5
    names = 1 + len((request.name or "").encode()) + 1
    head = data[start : start + names + 2 + 2 * len(request.formats) + 2]
    place = start + len(head) + sum(4 + len(value or b"") for value in request.values)
    return Repeated(head, len(request.values), data[place : request.stop], 2 + 2 * len(request.results))


def again(data: bytes, start: int, known: Repeated) -> tuple[Values, int] | None:
    """The values of a request that begins at ``start``, and where it stops, if it is known but for these."""
    place = start + 5
    if not data.startswith(b"B", start) or not data.startswith(known.head, place):
        return None
    place += len(known.head)
    values: Values = []
    try:
        for _ in range(known.count):
            (length,) = _length(data, place)
            place += 4
            if length < 0:
                values.append(None)
            else:
                values.append(data[place : place + length])
                place += length
        if _length(data, start + 1)[0] != place + known.results - start - 1:
            return None
    except struct.error:
        return None
    return (values, place + len(known.tail)) if data.startswith(known.tail, place) else None


def request_at(data: bytes, start: int) -> Request | None:
    """The request that begins at ``start``, if all of it has come and it is of these kinds."""
    try:
        return _prepared(data, start) if data[start] == BIND else _query(data, start)
    except (struct.error, ValueError, IndexError):
        return None


def name_at(data: bytes, start: int) -> bytes | None:
    """The name of the prepared statement that a request at ``start`` may be for."""
    close = data.find(0, start + 6)
    return data[start + 6 : close] if close > 0 and data.startswith(b"\0", start + 5) else None


def _query(data: bytes, start: int) -> Request | None:
    if data[start] != QUERY:
        return None
    stop = start + 1 + _length(data, start + 1)[0]
    if not start + 5 < stop <= len(data) or data[stop - 1] or stop - start > LONGEST_REQUEST:
        return None
    text = data[start + 5 : stop - 1]
    return None if b"\0" in text else Request(start, stop, None, text.decode())


def _prepared(data: bytes, start: int) -> Request | None:
    end = start + 1 + _length(data, start + 1)[0]
    if end - start > LONGEST_REQUEST or not data.startswith(b"\0", start + 5):
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
