"""Statement cache: recognizes repeated requests by their bytes and runs them by cached plans.

A request is either a Query, or the sequence Bind, Describe, Execute, Sync of a prepared statement.
Describe is optional. Requests of another form and malformed ones are left to pygwire.
"""

import datetime
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final

from kpg.api.result import Result
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import TypedInteger, max_placeholder
from kpg.compiler.sql.parse.parser import parse
from kpg.execute.scripts import command_of
from kpg.runtime.errors import DataError
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, INTEGER, SMALLINT
from kpg.server import binary_input

ParameterDecoder = Callable[[bytes], Any]
TAGS: Final = {"select": "SELECT", "insert": "INSERT 0", "update": "UPDATE", "delete": "DELETE"}
MAX_TEXTS: Final = 1024
"""Number of cached statement texts."""
MAX_TEXT_LENGTH: Final = 10_000
DECODERS: Final[dict[int, Callable[[str], Any]]] = {
    0: str,
    16: lambda text: {"true": True, "t": True, "false": False, "f": False}[text],
    20: lambda text: TypedInteger.of(int(text), BIGINT),
    21: lambda text: TypedInteger.of(int(text), SMALLINT),
    23: lambda text: TypedInteger.of(int(text), INTEGER),
    25: str,
    705: str,
    1042: str,
    1043: str,
    1082: datetime.date.fromisoformat,
    1700: lambda text: _require_fraction(Decimal(text)),
}
"""Functions from a parameter's text to the Python value with the same meaning in SQL, by type OID."""


def _require_fraction(value: Decimal) -> Decimal:
    """Return a number with fractional digits. ValueError for others, which would be an INTEGER."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent >= 0:
        raise ValueError
    return value


def row_count_tag(verb: str, outcome: Result | None) -> str:
    """Return the command tag of a statement that starts with a word of ``TAGS``."""
    return f"{TAGS[verb]} {0 if outcome is None else outcome.rowcount}"


@lru_cache(MAX_TEXTS)
def _parse_cached(text: str) -> tuple[ast.Statement, int]:
    (statement,) = parse(text)
    return statement, max_placeholder(statement)


def parse_cached(text: str) -> tuple[ast.Statement, int] | None:
    """Return the statement of a text and the number of its parameters; None if the text is not cacheable."""
    return _parse_cached(text) if len(text) <= MAX_TEXT_LENGTH and command_of(text) is not None else None


def parameter_decoders(formats: Sequence[int], oids: Sequence[int]) -> "list[ParameterDecoder] | None":
    """Return the decoders of parameters; None if a type has no Python value with the same meaning in SQL."""
    decoders: list[ParameterDecoder] = []
    for form, oid in zip(formats, oids, strict=True):
        decode = DECODERS.get(oid)
        if decode is None or (form and not oid):  # binary values need a type
            return None
        if form:
            decoders.append(partial(_decode_binary, decode, oid))
        else:
            decoders.append(_decode_text if decode is str else partial(_decode_literal, decode))
    return decoders


def _decode_binary(decode: Callable[[str], Any], oid: int, value: bytes) -> Any:
    try:
        return decode(binary_input.binary_to_text_by_oid(value, oid, {}))
    except DataError as error:
        raise ValueError from error


def _decode_text(value: bytes) -> str:
    """Decode UTF-8 text. ValueError for a zero byte."""
    if b"\0" in value:
        raise ValueError
    return value.decode()


def _decode_literal(decode: Callable[[str], Any], value: bytes) -> Any:
    return decode(value.decode())


def decode_values(values: Sequence[bytes | None], decoders: "Sequence[ParameterDecoder]") -> list[Any] | None:
    """Return parameters as Python values; None if one has no value with the same meaning in SQL."""
    try:
        return [
            None if value is None else decode(value) for value, decode in zip(values, decoders, strict=True)
        ]
    except (ValueError, ArithmeticError, KeyError):
        return None


def decode_parameters(
    values: Sequence[bytes | None], formats: Sequence[int], oids: Sequence[int]
) -> list[Any] | None:
    """Return parameters as Python values; None if one has no value with the same meaning in SQL."""
    decoders = parameter_decoders(formats, oids)
    return None if decoders is None else decode_values(values, decoders)


_length = struct.Struct("!i").unpack_from
_count = struct.Struct("!H").unpack_from
BIND, DESCRIBE, EXECUTE, SYNC, QUERY = b"BDESQ"
DESCRIBE_MESSAGE: Final = b"D\x00\x00\x00\x06P\x00"
EXECUTE_MESSAGE: Final = b"E\x00\x00\x00\x09\x00\x00\x00\x00\x00"
SYNC_MESSAGE: Final = b"S\x00\x00\x00\x04"
MAX_REQUEST: Final = 100_000
"""Bytes of a request that is read here."""


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """The bytes that requests for a prepared statement share: all but their values."""

    head: bytes
    """Bytes between the length field of Bind and the first value."""
    count: int
    """Number of values."""
    tail: bytes
    """Bytes after the last value to the end of Sync."""
    bind_tail: int
    """Number of bytes of the tail that belong to Bind."""


Values = list[bytes | None]


@dataclass(frozen=True, slots=True)
class Request:
    """The name and values of a prepared statement, or the text of a Query if ``name`` is None."""

    start: int
    stop: int
    name: str | None
    text: str = ""
    formats: tuple[int, ...] = ()
    values: tuple[bytes | None, ...] = ()
    result_formats: tuple[int, ...] = ()
    is_described: bool = False


def request_template(data: bytes, request: Request) -> RequestTemplate:
    """Return the template of a prepared statement's request."""
    start = request.start + 5
    names = 1 + len((request.name or "").encode()) + 1
    head = data[start : start + names + 2 + 2 * len(request.formats) + 2]
    position = start + len(head) + sum(4 + len(value or b"") for value in request.values)
    return RequestTemplate(
        head, len(request.values), data[position : request.stop], 2 + 2 * len(request.result_formats)
    )


def match_request(data: bytes, start: int, template: RequestTemplate) -> tuple[Values, int] | None:
    """Return the values of the request at ``start`` and its end; None if it does not match the template."""
    position = start + 5
    if not data.startswith(b"B", start) or not data.startswith(template.head, position):
        return None
    position += len(template.head)
    values: Values = []
    try:
        for _ in range(template.count):
            (length,) = _length(data, position)
            position += 4
            if length < 0:
                values.append(None)
            else:
                values.append(data[position : position + length])
                position += length
        if _length(data, start + 1)[0] != position + template.bind_tail - start - 1:
            return None
    except struct.error:
        return None
    return (values, position + len(template.tail)) if data.startswith(template.tail, position) else None


def read_request(data: bytes, start: int) -> Request | None:
    """Return the request at ``start``; None if it is incomplete or of another form."""
    try:
        return _read_bind(data, start) if data[start] == BIND else _read_query(data, start)
    except (struct.error, ValueError, IndexError):
        return None


def statement_name_at(data: bytes, start: int) -> bytes | None:
    """Return the name of the prepared statement of a Bind at ``start``; None for another message."""
    close = data.find(0, start + 6)
    return data[start + 6 : close] if close > 0 and data.startswith(b"\0", start + 5) else None


def _read_query(data: bytes, start: int) -> Request | None:
    if data[start] != QUERY:
        return None
    stop = start + 1 + _length(data, start + 1)[0]
    if not start + 5 < stop <= len(data) or data[stop - 1] or stop - start > MAX_REQUEST:
        return None
    text = data[start + 5 : stop - 1]
    return None if b"\0" in text else Request(start, stop, None, text.decode())


def _read_bind(data: bytes, start: int) -> Request | None:
    end = start + 1 + _length(data, start + 1)[0]
    if end - start > MAX_REQUEST or not data.startswith(b"\0", start + 5):
        return None
    after = end
    is_described = data.startswith(DESCRIBE_MESSAGE, after)
    after += len(DESCRIBE_MESSAGE) if is_described else 0
    if not data.startswith(EXECUTE_MESSAGE, after) or not data.startswith(
        SYNC_MESSAGE, after + len(EXECUTE_MESSAGE)
    ):
        return None
    close = data.index(0, start + 6, end)
    name = data[start + 6 : close].decode()
    formats, position = _read_formats(data, close + 1)
    (count,) = _count(data, position)
    position += 2
    values: list[bytes | None] = []
    for _ in range(count):
        (length,) = _length(data, position)
        position += 4
        if length < 0:
            values.append(None)
            continue
        values.append(data[position : position + length])
        position += length
    result_formats, position = _read_formats(data, position)
    if position != end:
        return None
    stop = after + len(EXECUTE_MESSAGE) + len(SYNC_MESSAGE)
    return Request(start, stop, name, "", formats, tuple(values), result_formats, is_described)


def _read_formats(data: bytes, position: int) -> tuple[tuple[int, ...], int]:
    (count,) = _count(data, position)
    return struct.unpack_from(f"!{count}H", data, position + 2), position + 2 + 2 * count
