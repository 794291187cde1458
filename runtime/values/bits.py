"""UUID and BYTEA. A UUID's value is its text in lower case, a BYTEA's is ``bytes``."""

import re
import uuid
from typing import Any, Final

from kpg.runtime.values.codec import Codec
from kpg.runtime.values.words import Mistyped, Unfit

FORM: Final = re.compile(r"\{?((?:[0-9a-f]{4}-?){8})\}?", re.IGNORECASE)
"""Hyphens may follow any group of four digits."""
ODD: Final = str.maketrans(dict.fromkeys("\v\f", "?"))
"""Blanks that ``bytes.fromhex`` passes over and Postgres does not."""


def uuids() -> Codec:
    """The codec of UUID."""
    same = str
    return Codec(same, same, parse_uuid, same, uuid.UUID, _uuid, "a uuid.UUID, or its text")


def byteas() -> Codec:
    """The codec of BYTEA."""
    return Codec(bytes.hex, bytes.fromhex, parse_bytes, shown_bytes, bytes, _bytes, "bytes")


def parse_uuid(text: str) -> str:
    """The UUID that a text means, with or without hyphens and braces; ValueError if none."""
    found = FORM.fullmatch(text)
    if found is None or text.startswith("{") != text.endswith("}") or found[1].endswith("-"):
        raise ValueError("not a UUID")
    return str(uuid.UUID(hex=found[1].replace("-", "")))


def _uuid(value: Any) -> str:
    if isinstance(value, uuid.UUID):
        return str(value)
    if not isinstance(value, str):
        raise Mistyped
    try:
        return parse_uuid(value)
    except ValueError:
        raise Unfit from None


def parse_bytes(text: str) -> bytes:
    r"""The bytes of ``\x0102``, or of text with ``\\`` and ``\123`` as escapes; ValueError if none."""
    if text[:2] in ("\\x", "\\X"):
        return bytes.fromhex(text[2:].translate(ODD))
    result = bytearray()
    place = 0
    while place < len(text):
        if text[place] != "\\":
            result += text[place].encode()
            place += 1
        elif text[place + 1 : place + 2] == "\\":
            result += b"\\"
            place += 2
        elif re.fullmatch("[0-3][0-7]{2}", text[place + 1 : place + 4]):
            result.append(int(text[place + 1 : place + 4], 8))
            place += 4
        else:
            raise ValueError("not a BYTEA")
    return bytes(result)


def shown_bytes(value: bytes) -> str:
    """As Postgres writes them, in hexadecimal."""
    return f"\\x{value.hex()}"


def _bytes(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, str):
        raise Mistyped
    try:
        return parse_bytes(value)
    except ValueError:
        raise Unfit from None
