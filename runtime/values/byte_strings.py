"""UUID, BYTEA and bit strings.

A UUID's value is its text in lower case; a BYTEA's is ``bytes``. A value of BIT(n) or BIT VARYING is a text
of ``0`` and ``1``: shorter ones sort first, then by text.
"""

import re
import uuid
from typing import Any, Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.codec import Codec, spelled
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


HEX: Final = {f"{digit:x}": f"{digit:04b}" for digit in range(16)}


def codec(type_: Type) -> Codec:
    """The codec of bit strings, of a length or of any."""
    return spelled(lambda text: fitted(read(text), type_), str, str, str, "a text of 0 and 1")


def read(text: str) -> str:
    """The bits of ``101``, ``b101`` or ``x1f``; ValueError for anything else."""
    start = text[:1].lower()
    body = text[1:] if start in ("b", "x") else text
    if start == "x":
        return "".join(map(_four, body.lower()))
    if body.strip("01"):
        raise ValueError(f'"{body.strip("01")[0]}" is not a valid binary digit')
    return body


def _four(digit: str) -> str:
    if digit not in HEX:
        raise ValueError(f'"{digit}" is not a valid hexadecimal digit')
    return HEX[digit]


def fitted(value: str, type_: Type) -> str:
    """The bits as a cast to a type has them: cut, and of BIT(n) filled up with zeros."""
    if not type_.precision:
        return value
    cut = value[: type_.precision]
    return cut.ljust(type_.precision, "0") if type_.kind is Kind.BIT else cut


def number(value: str, width: int) -> int:
    """The integer of so many bits, of which the first is the sign; ArithmeticError if there are more."""
    if len(value) > width:
        raise OverflowError("integer out of range")
    found = int(value or "0", 2)
    return found - (1 << width) if len(value) == width and value[0] == "1" else found


def of_number(value: int, length: int) -> str:
    """The last bits of an integer, its sign before them if there are more than it has."""
    return f"{value & ((1 << length) - 1):0{length}b}"
