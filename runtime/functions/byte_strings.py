"""Functions of BYTEA: written as text and read from it, hashed, and byte by byte."""

import base64
import binascii
import hashlib
from collections.abc import Callable

from kpg.runtime.functions.registry import Memoized, Overload, Rule, Signature, scalar
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.types import BYTEA, INTEGER, TEXT, Type
from kpg.runtime.values.bits import parse_bytes


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
            return bytes.fromhex(text)
        case "base64":
            try:
                return base64.b64decode("".join(text.split()), validate=True)
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
