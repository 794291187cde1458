"""Primitives of Datalog programs: 32-bit and bitwise arithmetic, and records and branches as texts.

A record is the text ``[1, "a", nil]`` of its fields, a branch of an ADT ``$Name(1, "a")`` or ``$Name``;
symbols are quoted in them, so that equal values are equal texts.
"""

import re
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial

import numpy as np

from kpg.runtime.functions.arithmetic import combine, from_doubles, to_doubles
from kpg.runtime.functions.registry import Memoized, Vector, Words, primitive
from kpg.runtime.types import ERROR, MIN_WORD

LOW_BITS = 2**32 - 1
SIGN_BIT = 2**31
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
ESCAPES = {"\\": "\\", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\](),]', re.DOTALL)
NUMBER_TEXT = re.compile(r"\s*[+-]?(?:(?P<based>0[xX][0-9a-fA-F]+|0[bB][01]+)|[0-9]{1,30})\s*", re.ASCII)
LONGEST = 1 << 24
"""A record of more characters is an error."""


def _vector(name: str, function: Callable[..., Words]) -> None:
    """Registers a function of whole numbers; a result that is no word of a number is an error."""

    def apply(*words: Words) -> Words:
        result = np.asarray(function(*words), dtype=np.int64)
        return combine(np.where(result < MIN_WORD, ERROR, result), *words)

    primitive(name, Vector(lambda call: apply))


def _shift_left(words: Words, distance: Words) -> Words:
    return (words.view(np.uint64) << (distance & 63).view(np.uint64)).view(np.int64)


def _shift_right_unsigned(words: Words, distance: Words) -> Words:
    return (words.view(np.uint64) >> (distance & 63).view(np.uint64)).view(np.int64)


def _product(left: Words, right: Words) -> Words:
    return (left.view(np.uint64) * right.view(np.uint64)).view(np.int64) & LOW_BITS


def _low(bits: int, words: Words) -> Words:
    return words & ((1 << bits) - 1)


def _low_signed(bits: int, words: Words) -> Words:
    sign = 1 << (bits - 1)
    return (_low(bits, words) ^ sign) - sign


_vector("$unsigned", lambda words: np.where(words < 0, ERROR, words))
_vector("$wrap_number", lambda words: ((words & LOW_BITS) ^ SIGN_BIT) - SIGN_BIT)
_vector("$wrap_unsigned", lambda words: words & LOW_BITS)
for _bits in (8, 16):
    _vector(f"$wrap_int{_bits}", partial(_low_signed, _bits))
    _vector(f"$wrap_uint{_bits}", partial(_low, _bits))
_vector("$wrap_product", _product)
_vector("$band", np.bitwise_and)
_vector("$bor", np.bitwise_or)
_vector("$bxor", np.bitwise_xor)
_vector("$bnot", np.bitwise_not)
_vector("$bshl", _shift_left)
_vector("$bshr", lambda words, distance: words >> (distance & 63))
_vector("$bshru", _shift_right_unsigned)
_vector("$land", lambda left, right: (left != 0) & (right != 0))
_vector("$lor", lambda left, right: (left != 0) | (right != 0))
_vector("$lxor", lambda left, right: (left != 0) ^ (right != 0))
_vector("$lnot", lambda words: words == 0)


def _quotient(left: Words, right: Words) -> Words:
    with np.errstate(all="ignore"):
        return combine(from_doubles(to_doubles(left) / to_doubles(right)), left, right)


primitive("$quotient", Vector(lambda call: _quotient))


def _single(words: Words) -> Words:
    with np.errstate(all="ignore"):
        return combine(from_doubles(to_doubles(words).astype(np.float32).astype(np.float64)), words)


primitive("$single", Vector(lambda call: _single))
_vector("$ord", lambda words: words)


def _function(name: str, function: Callable[..., object]) -> None:
    primitive(name, Memoized(lambda call: function))


def _small_power(base: int, exponent: int) -> int:
    """Powers with a negative exponent, rounded towards 0."""
    if base == 0:
        raise ZeroDivisionError("0 to a negative power")
    return base ** (-exponent % 2) if base in (1, -1) else 0


def power(base: int, exponent: int) -> int:
    """Power of whole numbers; with a negative exponent, rounded towards 0."""
    if exponent < 0:
        return _small_power(base, exponent)
    if exponent > 63 and base not in (-1, 0, 1):
        raise OverflowError("the power has more than 64 bits")
    return int(base ** (exponent if base not in (-1, 0, 1) or exponent < 2 else 2 - exponent % 2))


def wrap_power(base: int, exponent: int) -> int:
    """The low 32 bits of the power."""
    return pow(base, exponent, 2**32) if exponent >= 0 else _small_power(base, exponent) & LOW_BITS


def substring(text: str, start: int, count: int) -> str:
    """So many characters from a position, which counts from 0; none from a place before the start."""
    return text[start : start + count] if start >= 0 and count > 0 else ""


def full_match(pattern: str, text: str) -> bool | None:
    """Whether a regular expression of ECMAScript matches all of a text; None if it is no such expression."""
    from kpg.runtime.functions.regex import compiled  # lazy: the regex package takes 15 ms

    try:
        expression = compiled(pattern)
    except ValueError:
        return None
    return expression.fullmatch(text) is not None


def six_places(value: float) -> str:
    """A float as text with six decimal places, as C++'s to_string has it."""
    return f"{value:f}"


def plain_float(value: float) -> str:
    """The shortest digits that are the float, as FlowLog writes them: without an exponent; ``NaN``."""
    if value != value:
        return "NaN"
    text = repr(value)
    return f"{Decimal(text):f}" if "e" in text else text.removesuffix(".0")


def plain_single(value: float) -> str:
    """The shortest digits that are the float among those of 32 bits."""
    return plain_float(float(str(np.float32(value))))


def whole_number(text: str) -> int:
    """The number that a text is: decimal, ``0x`` hexadecimal or ``0b`` binary."""
    found = NUMBER_TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" is no number')
    return int(text, 0 if found["based"] else 10)


def float_bits(value: float) -> int:
    """The whole number of the same 64 bits."""
    (found,) = struct.unpack("<q", struct.pack("<d", value))
    return int(found)


def float_bits32(value: float) -> int:
    """The whole number of the 32 bits that the float has if it is rounded to them."""
    (found,) = struct.unpack("<i", struct.pack("<f", value))
    return int(found)


def bits_float(value: int) -> float:
    """The float of the same 64 bits."""
    (found,) = struct.unpack("<d", struct.pack("<q", value))
    return float(found)


def bits_float32(value: int) -> float:
    """The float that the low 32 bits are."""
    (found,) = struct.unpack("<f", struct.pack("<I", value & LOW_BITS))
    return float(found)


def number_or_zero(text: str) -> int:
    """The number of 32 bits that a text is, as FlowLog reads it: 0 for what is none."""
    found = int(text) if re.fullmatch(r"[+-]?[0-9]{1,20}", text) else 0
    return found if -(2**31) <= found < 2**31 else 0


def quote(text: str) -> str:
    """A symbol as a program writes it, and as a field of a record."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def unquote(text: str) -> str | None:
    """The symbol that :func:`quote` made a field of; None for any other field."""
    found = QUOTED.fullmatch(text)
    if found is None:
        return None
    return re.sub(r"\\(.)", lambda escape: ESCAPES.get(escape[1], escape[1]), found[1])


def show(value: float) -> str:
    """A number as a field."""
    return repr(value)


def record(*fields: str) -> str:
    """A record of its fields."""
    return _of_length(f"[{', '.join(fields)}]")


def branch(name: str, *fields: str) -> str:
    """A branch of an ADT of its fields."""
    return _of_length(f"${name}({', '.join(fields)})" if fields else f"${name}")


def _of_length(text: str) -> str:
    if len(text) > LONGEST:
        raise OverflowError("the record is too long")
    return text


def branch_of(text: str) -> str:
    """The name of a value's branch; of a record the empty text, of nil ``nil``."""
    if text.startswith("$"):
        return text[1:].partition("(")[0]
    return "" if text.startswith("[") else text


def field(text: str, position: int) -> str | None:
    """A field as it stands; None if there is none."""
    for number, part in enumerate(_fields(text)):
        if number == position:
            return part
    return None


def _fields(text: str) -> Iterator[str]:
    opening = re.match(r"\[|\$[^(]*\(", text)
    if opening is None or opening.end() == len(text) - 1:
        return
    start, depth = opening.end(), 0
    for mark in MARKS.finditer(text, start, len(text) - 1):
        if mark[0] in "[(":
            depth += 1
        elif mark[0] in "])":
            depth -= 1
        elif mark[0] == "," and depth == 0:
            yield text[start : mark.start()]
            start = mark.end() + 1
    yield text[start:-1]


def number(text: str) -> int | None:
    """The whole number that a field shows; None if it shows none."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else None


def floating(text: str) -> float | None:
    """The double that a field shows; None if it shows none."""
    try:
        return float(text)
    except ValueError:
        return None


_function("$power", power)
_function("$wrap_power", wrap_power)
_function("$substr", substring)
_function("$full_match", full_match)
_function("$six_places", six_places)
_function("$plain_float", plain_float)
_function("$plain_single", plain_single)
_function("$whole_number", whole_number)
_function("$float_bits", float_bits)
_function("$float_bits32", float_bits32)
_function("$bits_float", bits_float)
_function("$bits_float32", bits_float32)
_function("$number_or_zero", number_or_zero)
_function("$quote", quote)
_function("$unquote", unquote)
_function("$show", show)
_function("$record", record)
_function("$branch", branch)
_function("$branch_of", branch_of)
_function("$field", field)
_function("$number", number)
_function("$float", floating)
