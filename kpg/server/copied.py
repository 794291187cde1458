"""COPY in binary form: a head, each row a number of fields and these with their lengths, and an end."""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from kpg.result import Result
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError
from kpg.runtime.types import Type
from kpg.server import received
from kpg.server.pace import Pace
from kpg.server.portal import encoded
from kpg.server.replies import NULL_FIELD, copy_data

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
HEAD: Final = SIGNATURE + struct.pack("!ii", 0, 0)
END: Final = b"\xff\xff"
LARGE_FLAGS: Final = 0xFFFF0000
"""Flags that a reader has to know."""
ESCAPES: Final = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def text_of(data: bytes, types: Sequence[Type]) -> str:
    """The same rows as lines of COPY's text form; DataError if they are malformed."""
    try:
        return "".join(_lines(memoryview(data), types))
    except (struct.error, IndexError) as error:
        raise DataError(f"COPY brings rows that cannot be read: {error}") from None


def _lines(data: memoryview, types: Sequence[Type]) -> Iterator[str]:
    if bytes(data[: len(SIGNATURE)]) != SIGNATURE:
        raise DataError("COPY file signature not recognized")
    flags, more = struct.unpack_from("!Ii", data, len(SIGNATURE))
    if flags & LARGE_FLAGS or more < 0:
        raise DataError("invalid COPY file header")
    place = len(HEAD) + more
    # The end may be left out: then that of the data is the rows'.
    while place < len(data):
        (count,) = struct.unpack_from("!h", data, place)
        place += 2
        if count == -1:
            return
        if count != len(types):
            raise DataError(f"row field count is {count}, expected {len(types)}")
        fields = []
        for type_ in types:
            (length,) = struct.unpack_from("!i", data, place)
            place += 4
            if length < -1 or place + length > len(data):
                raise DataError("unexpected end of the rows of COPY")
            if length == -1:
                fields.append(r"\N")
                continue
            fields.append(received.text_of(bytes(data[place : place + length]), type_).translate(ESCAPES))
            place += length
        yield "\t".join(fields) + "\n"


def messages(outcome: Result, dictionary: Dictionary) -> Iterator[bytes]:
    """The rows of a result as CopyData, one each, many at a time; the head is a part of the first."""
    width = struct.pack("!h", len(outcome.types))
    head = HEAD
    pace, start = Pace(), 0
    while start < len(outcome):
        rows = encoded(outcome, start, start + pace.rows, [1] * len(outcome.types), dictionary)
        out = []
        for row in rows:
            fields = (NULL_FIELD if field is None else struct.pack("!i", len(field)) + field for field in row)
            out.append(copy_data(head + width + b"".join(fields)))
            head = b""
        start += len(rows)
        data = b"".join(out)
        pace.took(len(rows), len(data))
        yield data
    yield copy_data(head + END)
