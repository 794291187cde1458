"""BYTEA and bit-string functions: encoding, hashing, substrings, single bytes and bits."""

import base64
import binascii
import codecs
import hashlib
import re
from collections.abc import Callable
from typing import Final

from kpg.runtime.functions.registry import (
    MemoizedFunction,
    Overload,
    Rule,
    Signature,
    add_overloads,
    register_scalar,
)
from kpg.runtime.functions.type_rules import is_unknown, kind_rule
from kpg.runtime.types import BIGINT, BIT_KINDS, BYTEA, INTEGER, TEXT, VARBIT, Kind, Type
from kpg.runtime.values.byte_strings import REJECTED_BLANKS, parse_bytes

BIT = Type(Kind.BIT)


def _extend_bits(
    name: str, accepts: str, result: Type, args: tuple[Type, ...], code: Callable[..., object]
) -> None:
    add_overloads(
        name, accepts, Overload(kind_rule(BIT_KINDS, result, *args), MemoizedFunction(lambda call: code))
    )


def _bitwise_operation(sign: str, operation: Callable[[int, int], int]) -> Callable[[str, str], str]:
    def apply(left: str, right: str) -> str:
        if len(left) != len(right):
            raise ValueError(f"cannot {sign} bit strings of different sizes")
        if not left:
            return ""
        return f"{operation(int(left, 2), int(right, 2)):0{len(left)}b}"

    return apply


def shift_bits(value: str, distance: int) -> str:
    """Shift bits to the left, or to the right for a negative distance. Zeros come in."""
    width = len(value)
    if abs(distance) >= width:
        return "0" * width
    return value[distance:] + "0" * distance if distance >= 0 else "0" * -distance + value[:distance]


def bit_substring(value: str, start: int, length: int | None = None) -> str:
    """Return a part of a bit string. Positions count from 1."""
    if length is not None and length < 0:
        raise ValueError("negative substring length not allowed")
    stop = len(value) if length is None else max(start - 1 + length, 0)
    return value[max(start - 1, 0) : stop]


def overlay_bits(value: str, other: str, start: int, length: int | None = None) -> str:
    """Replace a part of a bit string by another one."""
    if start < 1:
        raise ValueError("negative substring length not allowed")
    return value[: start - 1] + other + value[start - 1 + (len(other) if length is None else length) :]


def _check_bit_index(value: str, place: int) -> int:
    if not 0 <= place < len(value):
        raise ValueError(f"bit index {place} out of valid range (0..{len(value) - 1})")
    return place


def get_bit(value: str, place: int) -> int:
    """Return the bit at a position, from 0."""
    return int(value[_check_bit_index(value, place)])


def set_bit(value: str, place: int, bit: int) -> str:
    """Return the bit string with another bit at a position."""
    if bit not in (0, 1):
        raise ValueError("new bit must be 0 or 1")
    return value[: _check_bit_index(value, place)] + str(bit) + value[place + 1 :]


BASE64_BLANKS: Final = str.maketrans("", "", " \t\n\r")
"""Blanks that base64 may contain anywhere."""


def _argument_rule(result: Type, *args: Type) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != len(args):
            return None
        for one, arg in zip(types, args, strict=True):
            alike = one.kind is arg.kind or (one.is_text and arg.is_text)
            if not (is_unknown(one) or alike or (one.is_integer and arg.is_integer)):
                return None
        return Signature(args, result)

    return rule


def _define_bytea(
    name: str,
    accepts: str,
    doc: str,
    examples: dict[str, str],
    rule: Rule,
    code: Callable[..., object],
) -> None:
    register_scalar(name, accepts, doc, examples, Overload(rule, MemoizedFunction(lambda call: code)))


def encode(value: bytes, form: str) -> str:
    """Encode bytes as text: base64 in lines of 76 characters, hex, or escape."""
    match form.lower():
        case "hex":
            return value.hex()
        case "base64":
            text = base64.b64encode(value).decode()
            return "\n".join(text[place : place + 76] for place in range(0, len(text), 76))
        case "escape":
            escapes = {0: "\\000", 92: "\\\\"}
            return "".join(escapes.get(byte, chr(byte) if byte < 128 else f"\\{byte:03o}") for byte in value)
        case _:
            raise ValueError(f'unrecognized encoding: "{form}"')


def decode(text: str, form: str) -> bytes:
    """Decode text to bytes. This is the inverse of :func:`encode`."""
    match form.lower():
        case "hex":
            return bytes.fromhex(text.translate(REJECTED_BLANKS))
        case "base64":
            try:
                return base64.b64decode(text.translate(BASE64_BLANKS), validate=True)
            except binascii.Error as error:
                raise ValueError("invalid base64 end sequence") from error
        case "escape":
            return parse_bytes(text)
        case _:
            raise ValueError(f'unrecognized encoding: "{form}"')


def get_byte(value: bytes, place: int) -> int:
    """Return the byte at a position, from 0."""
    if not 0 <= place < len(value):
        raise ValueError(f"index {place} out of valid range, 0..{len(value) - 1}")
    return value[place]


_BYTES = "'abc'::BYTEA"
_define_bytea(
    "encode",
    "BYTEA and a form (hex, base64 or escape)",
    "Bytes as text.",
    {f"encode({_BYTES}, 'hex')": "'616263'"},
    _argument_rule(TEXT, BYTEA, TEXT),
    encode,
)
_define_bytea(
    "decode",
    "text and a form (hex, base64 or escape)",
    "The bytes that a text stands for.",
    {"encode(decode('YWJj', 'base64'), 'hex')": "'616263'"},
    _argument_rule(BYTEA, TEXT, TEXT),
    decode,
)
_define_bytea(
    "get_byte",
    "BYTEA and a place, from 0 on",
    "A byte as a number.",
    {f"get_byte({_BYTES}, 1)": "98"},
    _argument_rule(INTEGER, BYTEA, INTEGER),
    get_byte,
)


def set_byte(value: bytes, place: int, byte: int) -> bytes:
    """Return the bytes with another byte at a position."""
    get_byte(value, place)
    return value[:place] + bytes([byte & 255]) + value[place + 1 :]


def _check_byte_bit_index(value: bytes, place: int) -> int:
    if not 0 <= place < 8 * len(value):
        raise ValueError(f"index {place} out of valid range, 0..{8 * len(value) - 1}")
    return place


def get_byte_bit(value: bytes, place: int) -> int:
    """Return the bit at a position, counted from the lowest bit of the first byte."""
    return value[_check_byte_bit_index(value, place) // 8] >> place % 8 & 1


def set_byte_bit(value: bytes, place: int, bit: int) -> bytes:
    """Return the bytes with another bit at a position."""
    if bit not in (0, 1):
        raise ValueError("new bit must be 0 or 1")
    at = _check_byte_bit_index(value, place) // 8
    byte = value[at] & ~(1 << place % 8) | bit << place % 8
    return value[:at] + bytes([byte]) + value[at + 1 :]


def _python_encoding(name: str) -> str:
    known = {"latin1": "latin-1", "sql_ascii": "ascii", "unicode": "utf-8", "win1252": "cp1252"}
    try:
        return codecs.lookup(known.get(name.lower(), name)).name
    except LookupError:
        raise ValueError(f'invalid encoding name "{name}"') from None


_define_bytea(
    "set_byte",
    "BYTEA, a place and a byte",
    "The bytes with another one at a place.",
    {f"encode(set_byte({_BYTES}, 1, 65), 'hex')": "'614163'"},
    _argument_rule(BYTEA, BYTEA, INTEGER, INTEGER),
    set_byte,
)
_define_bytea(
    "get_bit",
    "BYTEA and a place, from 0 on",
    "A bit, counted from the lowest of the first byte.",
    {f"get_bit({_BYTES}, 0)": "1"},
    _argument_rule(INTEGER, BYTEA, BIGINT),
    get_byte_bit,
)
_define_bytea(
    "set_bit",
    "BYTEA, a place and a bit",
    "The bytes with another bit at a place.",
    {f"encode(set_bit({_BYTES}, 1, 1), 'hex')": "'636263'"},
    _argument_rule(BYTEA, BYTEA, BIGINT, INTEGER),
    set_byte_bit,
)
_define_bytea(
    "bit_count",
    "BYTEA",
    "How many bits are set.",
    {f"bit_count({_BYTES})": "10"},
    _argument_rule(BIGINT, BYTEA),
    lambda value: sum(byte.bit_count() for byte in value),
)
_define_bytea(
    "convert_to",
    "text and an encoding",
    "The bytes of a text.",
    {"encode(convert_to('abc', 'UTF8'), 'hex')": "'616263'"},
    _argument_rule(BYTEA, TEXT, TEXT),
    lambda text, name: text.encode(_python_encoding(name)),
)


def _check_no_zeros(text: str) -> str:
    if "\0" in text:
        raise ValueError('invalid byte sequence for encoding "UTF8": 0x00')
    return text


_define_bytea(
    "convert_from",
    "BYTEA and an encoding",
    "The text of bytes.",
    {f"convert_from({_BYTES}, 'UTF8')": "'abc'"},
    _argument_rule(TEXT, BYTEA, TEXT),
    lambda value, name: _check_no_zeros(value.decode(_python_encoding(name))),
)
_define_bytea(
    "convert",
    "BYTEA and two encodings",
    "The bytes of a text in another encoding.",
    {f"encode(convert({_BYTES}, 'UTF8', 'LATIN1'), 'hex')": "'616263'"},
    _argument_rule(BYTEA, BYTEA, TEXT, TEXT),
    lambda value, source, target: value.decode(_python_encoding(source)).encode(_python_encoding(target)),
)
_define_bytea(
    "crc32",
    "BYTEA",
    "A checksum.",
    {f"crc32({_BYTES})": "891568578"},
    _argument_rule(BIGINT, BYTEA),
    lambda value: binascii.crc32(value),
)
_define_bytea(
    "crc32c",
    "BYTEA",
    "A checksum, Castagnoli's.",
    {f"crc32c({_BYTES})": "910901175"},
    _argument_rule(BIGINT, BYTEA),
    lambda value: crc32c(value),
)


def crc32c(value: bytes) -> int:
    """Return the CRC-32C of bytes."""
    checksum = 0xFFFFFFFF
    for byte in value:
        checksum ^= byte
        for _ in range(8):
            checksum = checksum >> 1 ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum ^ 0xFFFFFFFF


def _hash(name: str) -> Callable[[bytes], bytes]:
    return lambda value: hashlib.new(name, value).digest()


for _name, _start in (
    ("sha224", "23097d22"),
    ("sha256", "ba7816bf"),
    ("sha384", "cb00753f"),
    ("sha512", "ddaf35a1"),
):
    _define_bytea(
        _name,
        "BYTEA",
        "A hash of the SHA-2 family.",
        {f"left(encode({_name}({_BYTES}), 'hex'), 8)": f"'{_start}'"},
        _argument_rule(BYTEA, BYTEA),
        _hash(_name),
    )


BYTEA_KINDS = frozenset({Kind.BYTEA})


def _extend_bytea(
    name: str, accepts: str, result: Type, args: tuple[Type, ...], code: Callable[..., object]
) -> None:
    add_overloads(
        name, accepts, Overload(kind_rule(BYTEA_KINDS, result, *args), MemoizedFunction(lambda call: code))
    )


def byte_substring(value: bytes, start: int, length: int | None = None) -> bytes:
    """Return a part of a byte string. Positions count from 1."""
    if length is not None and length < 0:
        raise ValueError("negative substring length not allowed")
    stop = len(value) if length is None else max(start - 1 + length, 0)
    return value[max(start - 1, 0) : stop]


def overlay_bytes(value: bytes, other: bytes, start: int, length: int | None = None) -> bytes:
    """Replace a part of a byte string by another one."""
    if start < 1:
        raise ValueError("negative substring length not allowed")
    return value[: start - 1] + other + value[start - 1 + (len(other) if length is None else length) :]


_extend_bytea("concat", "two BYTEAs", BYTEA, (BYTEA, BYTEA), lambda x, y: x + y)
_extend_bytea("length", "a BYTEA", INTEGER, (BYTEA,), len)
_extend_bytea("octet_length", "a BYTEA", INTEGER, (BYTEA,), len)
_extend_bytea("bit_length", "a BYTEA", INTEGER, (BYTEA,), lambda value: 8 * len(value))
_extend_bytea("substring", "a BYTEA, a place and a length", BYTEA, (BYTEA, INTEGER), byte_substring)
_extend_bytea("substring", "a BYTEA, a place and a length", BYTEA, (BYTEA, INTEGER, INTEGER), byte_substring)
_extend_bytea("overlay", "two BYTEAs and a place", BYTEA, (BYTEA, BYTEA, INTEGER), overlay_bytes)
_extend_bytea("overlay", "two BYTEAs and a place", BYTEA, (BYTEA, BYTEA, INTEGER, INTEGER), overlay_bytes)
_extend_bytea("position", "two BYTEAs", INTEGER, (BYTEA, BYTEA), lambda value, part: value.find(part) + 1)
_extend_bytea("btrim", "two BYTEAs", BYTEA, (BYTEA, BYTEA), lambda value, ends: value.strip(ends))
_extend_bytea("ltrim", "two BYTEAs", BYTEA, (BYTEA, BYTEA), lambda value, ends: value.lstrip(ends))
_extend_bytea("rtrim", "two BYTEAs", BYTEA, (BYTEA, BYTEA), lambda value, ends: value.rstrip(ends))
_extend_bytea("md5", "a BYTEA", TEXT, (BYTEA,), lambda value: hashlib.md5(value).hexdigest())
_extend_bytea("reverse", "a BYTEA", BYTEA, (BYTEA,), lambda value: value[::-1])
_extend_bytea(
    "like", "two BYTEAs", Type(Kind.BOOLEAN), (BYTEA, BYTEA), lambda value, pattern: _like(value, pattern)
)


def _like(value: bytes, pattern: bytes) -> bool:
    expression = b""
    place = 0
    while place < len(pattern):
        sign = pattern[place : place + 1]
        if sign == b"\\":
            place += 1
            expression += re.escape(pattern[place : place + 1])
        else:
            expression += {b"%": b".*", b"_": b"."}.get(sign) or re.escape(sign)
        place += 1
    return re.fullmatch(expression, value, re.DOTALL) is not None


_extend_bits(
    "bitwise_and", "two bit strings", BIT, (VARBIT, VARBIT), _bitwise_operation("AND", lambda x, y: x & y)
)
_extend_bits(
    "bitwise_or", "two bit strings", BIT, (VARBIT, VARBIT), _bitwise_operation("OR", lambda x, y: x | y)
)
_extend_bits(
    "bitwise_xor", "two bit strings", BIT, (VARBIT, VARBIT), _bitwise_operation("XOR", lambda x, y: x ^ y)
)
_extend_bits("bitwise_not", "a bit string", BIT, (VARBIT,), lambda value: value.translate({48: "1", 49: "0"}))
_extend_bits("shift_left", "a bit string and a distance", BIT, (VARBIT, INTEGER), shift_bits)
_extend_bits(
    "shift_right", "a bit string and a distance", BIT, (VARBIT, INTEGER), lambda x, by: shift_bits(x, -by)
)
_extend_bits("concat", "two bit strings", VARBIT, (VARBIT, VARBIT), lambda x, y: x + y)
_extend_bits("length", "a bit string", INTEGER, (VARBIT,), len)
_extend_bits("bit_length", "a bit string", INTEGER, (VARBIT,), len)
_extend_bits("octet_length", "a bit string", INTEGER, (VARBIT,), lambda value: -(-len(value) // 8))
_extend_bits(
    "position", "two bit strings", INTEGER, (VARBIT, VARBIT), lambda value, part: value.find(part) + 1
)
_extend_bits("substring", "a bit string, a place and a length", BIT, (VARBIT, INTEGER), bit_substring)
_extend_bits(
    "substring", "a bit string, a place and a length", BIT, (VARBIT, INTEGER, INTEGER), bit_substring
)
_extend_bits("overlay", "two bit strings and a place", BIT, (VARBIT, VARBIT, INTEGER), overlay_bits)
_extend_bits("overlay", "two bit strings and a place", BIT, (VARBIT, VARBIT, INTEGER, INTEGER), overlay_bits)
_extend_bits("get_bit", "a bit string and a place", INTEGER, (VARBIT, INTEGER), get_bit)
_extend_bits("set_bit", "a bit string, a place and a bit", BIT, (VARBIT, INTEGER, INTEGER), set_bit)
_extend_bits("bit_count", "a bit string", Type(Kind.BIGINT), (VARBIT,), lambda value: value.count("1"))
