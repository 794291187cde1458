"""BYTEA in functions and operators of text."""

import hashlib
from collections.abc import Callable

from kpg.runtime.functions.registry import Memoized, Overload, extend
from kpg.runtime.functions.rules import among
from kpg.runtime.types import BYTEA, INTEGER, TEXT, Kind, Type

OF = frozenset({Kind.BYTEA})


def _define(
    name: str, accepts: str, result: Type, args: tuple[Type, ...], code: Callable[..., object]
) -> None:
    extend(name, accepts, Overload(among(OF, result, *args), Memoized(lambda call: code)))


def cut(value: bytes, start: int, length: int | None = None) -> bytes:
    """A part, from a place that counts from 1."""
    if length is not None and length < 0:
        raise ValueError("negative substring length not allowed")
    stop = len(value) if length is None else max(start - 1 + length, 0)
    return value[max(start - 1, 0) : stop]


def laid_over(value: bytes, other: bytes, start: int, length: int | None = None) -> bytes:
    """The bytes with others in the place of some."""
    if start < 1:
        raise ValueError("negative substring length not allowed")
    return value[: start - 1] + other + value[start - 1 + (len(other) if length is None else length) :]


_define("concat", "two BYTEAs", BYTEA, (BYTEA, BYTEA), lambda x, y: x + y)
_define("length", "a BYTEA", INTEGER, (BYTEA,), len)
_define("octet_length", "a BYTEA", INTEGER, (BYTEA,), len)
_define("bit_length", "a BYTEA", INTEGER, (BYTEA,), lambda value: 8 * len(value))
_define("substring", "a BYTEA, a place and a length", BYTEA, (BYTEA, INTEGER), cut)
_define("substring", "a BYTEA, a place and a length", BYTEA, (BYTEA, INTEGER, INTEGER), cut)
_define("overlay", "two BYTEAs and a place", BYTEA, (BYTEA, BYTEA, INTEGER), laid_over)
_define("overlay", "two BYTEAs and a place", BYTEA, (BYTEA, BYTEA, INTEGER, INTEGER), laid_over)
_define("position", "two BYTEAs", INTEGER, (BYTEA, BYTEA), lambda value, part: value.find(part) + 1)
_define("btrim", "two BYTEAs", BYTEA, (BYTEA, BYTEA), lambda value, ends: value.strip(ends))
_define("ltrim", "two BYTEAs", BYTEA, (BYTEA, BYTEA), lambda value, ends: value.lstrip(ends))
_define("rtrim", "two BYTEAs", BYTEA, (BYTEA, BYTEA), lambda value, ends: value.rstrip(ends))
_define("md5", "a BYTEA", TEXT, (BYTEA,), lambda value: hashlib.md5(value).hexdigest())
_define("reverse", "a BYTEA", BYTEA, (BYTEA,), lambda value: value[::-1])
_define(
    "like", "two BYTEAs", Type(Kind.BOOLEAN), (BYTEA, BYTEA), lambda value, pattern: _like(value, pattern)
)


def _like(value: bytes, pattern: bytes) -> bool:
    import re

    form = b""
    place = 0
    while place < len(pattern):
        sign = pattern[place : place + 1]
        if sign == b"\\":
            place += 1
            form += re.escape(pattern[place : place + 1])
        else:
            form += {b"%": b".*", b"_": b"."}.get(sign) or re.escape(sign)
        place += 1
    return re.fullmatch(form, value, re.DOTALL) is not None
