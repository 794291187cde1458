"""UUID, BYTEA and bit strings.

A UUID's value is its text in lower case, and a BYTEA's is ``bytes``. A value of BIT(n) or BIT VARYING
is a text of ``0`` and ``1``: shorter ones sort first, then by text.
"""

import re
import uuid
from typing import Any, Final

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.codec import Codec, text_codec
from kpg.runtime.values.words import UnrepresentableValue, WrongPythonType

UUID_FORM: Final = re.compile(r"\{?((?:[0-9a-f]{4}-?){8})\}?", re.IGNORECASE)
"""Text of a UUID. A hyphen may follow any group of four digits."""
REJECTED_BLANKS: Final = str.maketrans(dict.fromkeys("\v\f", "?"))
"""Blanks that ``bytes.fromhex`` skips and Postgres rejects."""


def uuid_codec() -> Codec:
    """Return the codec of UUID."""
    same = str
    return Codec(same, same, parse_uuid, same, uuid.UUID, _uuid_from_python, "a uuid.UUID, or its text")


def bytea_codec() -> Codec:
    """Return the codec of BYTEA."""
    return Codec(bytes.hex, bytes.fromhex, parse_bytes, show_bytes, bytes, _bytes_from_python, "bytes")


def parse_uuid(text: str) -> str:
    """Parse a UUID, with or without hyphens and braces.

    Raises:
        ValueError: The text is not a UUID.
    """
    found = UUID_FORM.fullmatch(text)
    if found is None or text.startswith("{") != text.endswith("}") or found[1].endswith("-"):
        raise ValueError("not a UUID")
    return str(uuid.UUID(hex=found[1].replace("-", "")))


def _uuid_from_python(value: Any) -> str:
    if isinstance(value, uuid.UUID):
        return str(value)
    if not isinstance(value, str):
        raise WrongPythonType
    try:
        return parse_uuid(value)
    except ValueError:
        raise UnrepresentableValue from None


def parse_bytes(text: str) -> bytes:
    r"""Parse ``\x0102``, or text with ``\\`` and ``\123`` as escapes.

    Raises:
        ValueError: The text is not a BYTEA.
    """
    if text[:2] in ("\\x", "\\X"):
        return bytes.fromhex(text[2:].translate(REJECTED_BLANKS))
    result = bytearray()
    position = 0
    while position < len(text):
        if text[position] != "\\":
            result += text[position].encode()
            position += 1
        elif text[position + 1 : position + 2] == "\\":
            result += b"\\"
            position += 2
        elif re.fullmatch("[0-3][0-7]{2}", text[position + 1 : position + 4]):
            result.append(int(text[position + 1 : position + 4], 8))
            position += 4
        else:
            raise ValueError("not a BYTEA")
    return bytes(result)


def show_bytes(value: bytes) -> str:
    """Format bytes like Postgres, in hexadecimal."""
    return f"\\x{value.hex()}"


def _bytes_from_python(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, str):
        raise WrongPythonType
    try:
        return parse_bytes(value)
    except ValueError:
        raise UnrepresentableValue from None


HEX_DIGIT_BITS: Final = {f"{digit:x}": f"{digit:04b}" for digit in range(16)}


def codec(type_: Type) -> Codec:
    """Return the codec of bit strings, of a length or of any."""
    return text_codec(lambda text: cast_bits(parse_bits(text), type_), str, str, str, "a text of 0 and 1")


def parse_bits(text: str) -> str:
    """Parse the bits of ``101``, ``b101`` or ``x1f``.

    Raises:
        ValueError: The text is not a bit string.
    """
    prefix = text[:1].lower()
    body = text[1:] if prefix in ("b", "x") else text
    if prefix == "x":
        return "".join(map(_hex_digit_bits, body.lower()))
    if body.strip("01"):
        raise ValueError(f'"{body.strip("01")[0]}" is not a valid binary digit')
    return body


def _hex_digit_bits(digit: str) -> str:
    if digit not in HEX_DIGIT_BITS:
        raise ValueError(f'"{digit}" is not a valid hexadecimal digit')
    return HEX_DIGIT_BITS[digit]


def cast_bits(value: str, type_: Type) -> str:
    """Cast bits to a type: truncate, and for BIT(n) pad with zeros."""
    if not type_.precision:
        return value
    cut = value[: type_.precision]
    return cut.ljust(type_.precision, "0") if type_.kind is Kind.BIT else cut


def bits_to_integer(value: str, width: int) -> int:
    """Return the signed integer of at most ``width`` bits. Only a full-width string has a sign bit.

    Raises:
        OverflowError: There are more bits.
    """
    if len(value) > width:
        raise OverflowError("integer out of range")
    unsigned = int(value or "0", 2)
    return unsigned - (1 << width) if len(value) == width and value[0] == "1" else unsigned


def integer_to_bits(value: int, length: int) -> str:
    """Return the lowest bits of an integer, extended by its sign."""
    return f"{value & ((1 << length) - 1):0{length}b}"
