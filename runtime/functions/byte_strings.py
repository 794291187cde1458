"""Functions of BYTEA: written as text and read from it, hashed, and byte by byte."""

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import Final

from kpg.runtime.functions.registry import Memoized, Overload, Rule, Signature, scalar
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.types import BIGINT, BYTEA, INTEGER, TEXT, Type
from kpg.runtime.values.bits import ODD, parse_bytes

SKIPPED: Final = str.maketrans("", "", " \t\n\r")
"""Blanks that base64 may have anywhere."""


def _takes(result: Type, *args: Type) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != len(args):
            return None
        for one, arg in zip(types, args, strict=True):
            alike = one.kind is arg.kind or (one.is_text and arg.is_text)
            if not (is_unknown(one) or alike or (one.is_integer and arg.is_integer)):
                return None
        return Signature(args, result)

    return rule


def _define(
    name: str,
    accepts: str,
    doc: str,
    examples: dict[str, str],
    rule: Rule,
    code: Callable[..., object],
) -> None:
    scalar(name, accepts, doc, examples, Overload(rule, Memoized(lambda call: code)))


def encode(value: bytes, form: str) -> str:
    """Bytes as text: base64 in lines of 76 characters, hex, or escape."""
    match form.lower():
        case "hex":
            return value.hex()
        case "base64":
            text = base64.b64encode(value).decode()
            return "\n".join(text[place : place + 76] for place in range(0, len(text), 76))
        case "escape":
            shown = {0: "\\000", 92: "\\\\"}
            return "".join(shown.get(byte, chr(byte) if byte < 128 else f"\\{byte:03o}") for byte in value)
        case _:
            raise ValueError(f'unrecognized encoding: "{form}"')


def decode(text: str, form: str) -> bytes:
    """The bytes that a text stands for."""
    match form.lower():
        case "hex":
            return bytes.fromhex(text.translate(ODD))
        case "base64":
            try:
                return base64.b64decode(text.translate(SKIPPED), validate=True)
            except binascii.Error as error:
                raise ValueError("invalid base64 end sequence") from error
        case "escape":
            return parse_bytes(text)
        case _:
            raise ValueError(f'unrecognized encoding: "{form}"')


def byte_at(value: bytes, place: int) -> int:
    """The byte at a place, from 0 on."""
    if not 0 <= place < len(value):
        raise ValueError(f"index {place} out of valid range, 0..{len(value) - 1}")
    return value[place]


_BYTES = "'abc'::BYTEA"
_define(
    "encode",
    "BYTEA and a form (hex, base64 or escape)",
    "Bytes as text.",
    {f"encode({_BYTES}, 'hex')": "'616263'"},
    _takes(TEXT, BYTEA, TEXT),
    encode,
)
_define(
    "decode",
    "text and a form (hex, base64 or escape)",
    "The bytes that a text stands for.",
    {"encode(decode('YWJj', 'base64'), 'hex')": "'616263'"},
    _takes(BYTEA, TEXT, TEXT),
    decode,
)
_define(
    "get_byte",
    "BYTEA and a place, from 0 on",
    "A byte as a number.",
    {f"get_byte({_BYTES}, 1)": "98"},
    _takes(INTEGER, BYTEA, INTEGER),
    byte_at,
)


def with_byte(value: bytes, place: int, byte: int) -> bytes:
    """The bytes with another one at a place."""
    byte_at(value, place)
    return value[:place] + bytes([byte & 255]) + value[place + 1 :]


def _bit(value: bytes, place: int) -> int:
    if not 0 <= place < 8 * len(value):
        raise ValueError(f"index {place} out of valid range, 0..{8 * len(value) - 1}")
    return place


def bit_at(value: bytes, place: int) -> int:
    """The bit at a place, from the lowest bit of the first byte on."""
    return value[_bit(value, place) // 8] >> place % 8 & 1


def with_bit(value: bytes, place: int, bit: int) -> bytes:
    """The bytes with another bit at a place."""
    if bit not in (0, 1):
        raise ValueError("new bit must be 0 or 1")
    at = _bit(value, place) // 8
    byte = value[at] & ~(1 << place % 8) | bit << place % 8
    return value[:at] + bytes([byte]) + value[at + 1 :]


def _coding(name: str) -> str:
    import codecs

    known = {"latin1": "latin-1", "sql_ascii": "ascii", "unicode": "utf-8", "win1252": "cp1252"}
    try:
        return codecs.lookup(known.get(name.lower(), name)).name
    except LookupError:
        raise ValueError(f'invalid encoding name "{name}"') from None


_define(
    "set_byte",
    "BYTEA, a place and a byte",
    "The bytes with another one at a place.",
    {f"encode(set_byte({_BYTES}, 1, 65), 'hex')": "'614163'"},
    _takes(BYTEA, BYTEA, INTEGER, INTEGER),
    with_byte,
)
_define(
    "get_bit",
    "BYTEA and a place, from 0 on",
    "A bit, counted from the lowest of the first byte.",
    {f"get_bit({_BYTES}, 0)": "1"},
    _takes(INTEGER, BYTEA, BIGINT),
    bit_at,
)
_define(
    "set_bit",
    "BYTEA, a place and a bit",
    "The bytes with another bit at a place.",
    {f"encode(set_bit({_BYTES}, 1, 1), 'hex')": "'636263'"},
    _takes(BYTEA, BYTEA, BIGINT, INTEGER),
    with_bit,
)
_define(
    "bit_count",
    "BYTEA",
    "How many bits are set.",
    {f"bit_count({_BYTES})": "10"},
    _takes(BIGINT, BYTEA),
    lambda value: sum(byte.bit_count() for byte in value),
)
_define(
    "convert_to",
    "text and an encoding",
    "The bytes of a text.",
    {"encode(convert_to('abc', 'UTF8'), 'hex')": "'616263'"},
    _takes(BYTEA, TEXT, TEXT),
    lambda text, name: text.encode(_coding(name)),
)


def _without_zeros(text: str) -> str:
    if "\0" in text:
        raise ValueError('invalid byte sequence for encoding "UTF8": 0x00')
    return text


_define(
    "convert_from",
    "BYTEA and an encoding",
    "The text of bytes.",
    {f"convert_from({_BYTES}, 'UTF8')": "'abc'"},
    _takes(TEXT, BYTEA, TEXT),
    lambda value, name: _without_zeros(value.decode(_coding(name))),
)
_define(
    "convert",
    "BYTEA and two encodings",
    "The bytes of a text in another encoding.",
    {f"encode(convert({_BYTES}, 'UTF8', 'LATIN1'), 'hex')": "'616263'"},
    _takes(BYTEA, BYTEA, TEXT, TEXT),
    lambda value, source, target: value.decode(_coding(source)).encode(_coding(target)),
)
_define(
    "crc32",
    "BYTEA",
    "A checksum.",
    {f"crc32({_BYTES})": "891568578"},
    _takes(BIGINT, BYTEA),
    lambda value: binascii.crc32(value),
)
_define(
    "crc32c",
    "BYTEA",
    "A checksum, Castagnoli's.",
    {f"crc32c({_BYTES})": "910901175"},
    _takes(BIGINT, BYTEA),
    lambda value: castagnoli(value),
)


def castagnoli(value: bytes) -> int:
    """The CRC-32C of bytes."""
    found = 0xFFFFFFFF
    for byte in value:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (0x82F63B78 if found & 1 else 0)
    return found ^ 0xFFFFFFFF


def _hash(name: str) -> Callable[[bytes], bytes]:
    return lambda value: hashlib.new(name, value).digest()


for _name, _start in (
    ("sha224", "23097d22"),
    ("sha256", "ba7816bf"),
    ("sha384", "cb00753f"),
    ("sha512", "ddaf35a1"),
):
    _define(
        _name,
        "BYTEA",
        "A hash of the SHA-2 family.",
        {f"left(encode({_name}({_BYTES}), 'hex'), 8)": f"'{_start}'"},
        _takes(BYTEA, BYTEA),
        _hash(_name),
    )
