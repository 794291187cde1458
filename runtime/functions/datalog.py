"""Primitives of Datalog programs: 32-bit and bitwise arithmetic, and records and branches as texts.

A record is the text ``[1, "a", nil]`` of its fields. A branch of an ADT is ``$Name(1, "a")`` or
``$Name``. Symbols are quoted in them, so that equal values are equal texts.
"""

import re
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial

import numpy as np

from kpg.runtime.functions.arithmetic import from_doubles, propagate_nulls, to_doubles
from kpg.runtime.functions.registry import MemoizedFunction, VectorFunction, Words, register_primitive
from kpg.runtime.types import ERROR, MIN_WORD

LOW_BITS = 2**32 - 1
SIGN_BIT = 2**31
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
ESCAPES = {"\\": "\\", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\](),]', re.DOTALL)
NUMBER_TEXT = re.compile(r"\s*[+-]?(?:(?P<based>0[xX][0-9a-fA-F]+|0[bB][01]+)|[0-9]{1,30})\s*", re.ASCII)
MAX_RECORD_LENGTH = 1 << 24
"""Characters that a record may have. A longer record is an error."""


def _register_vector(name: str, function: Callable[..., Words]) -> None:
    """Register a vector function of whole numbers. A result below the smallest word becomes an error."""

    def apply(*words: Words) -> Words:
        result = np.asarray(function(*words), dtype=np.int64)
        return propagate_nulls(np.where(result < MIN_WORD, ERROR, result), *words)

    register_primitive(name, VectorFunction(lambda call: apply))


def _shift_left(words: Words, distance: Words) -> Words:
    return (words.view(np.uint64) << (distance & 63).view(np.uint64)).view(np.int64)


def _shift_right_unsigned(words: Words, distance: Words) -> Words:
    return (words.view(np.uint64) >> (distance & 63).view(np.uint64)).view(np.int64)


def _product(left: Words, right: Words) -> Words:
    return (left.view(np.uint64) * right.view(np.uint64)).view(np.int64) & LOW_BITS


def _low_bits(bits: int, words: Words) -> Words:
    return words & ((1 << bits) - 1)


def _low_bits_signed(bits: int, words: Words) -> Words:
    sign = 1 << (bits - 1)
    return (_low_bits(bits, words) ^ sign) - sign


_register_vector("$unsigned", lambda words: np.where(words < 0, ERROR, words))
_register_vector("$wrap_number", lambda words: ((words & LOW_BITS) ^ SIGN_BIT) - SIGN_BIT)
_register_vector("$wrap_unsigned", lambda words: words & LOW_BITS)
for _bits in (8, 16):
    _register_vector(f"$wrap_int{_bits}", partial(_low_bits_signed, _bits))
    _register_vector(f"$wrap_uint{_bits}", partial(_low_bits, _bits))
_register_vector("$wrap_product", _product)
_register_vector("$band", np.bitwise_and)
_register_vector("$bor", np.bitwise_or)
_register_vector("$bxor", np.bitwise_xor)
_register_vector("$bnot", np.bitwise_not)
_register_vector("$bshl", _shift_left)
_register_vector("$bshr", lambda words, distance: words >> (distance & 63))
_register_vector("$bshru", _shift_right_unsigned)
_register_vector("$land", lambda left, right: (left != 0) & (right != 0))
_register_vector("$lor", lambda left, right: (left != 0) | (right != 0))
_register_vector("$lxor", lambda left, right: (left != 0) ^ (right != 0))
_register_vector("$lnot", lambda words: words == 0)


def _quotient(left: Words, right: Words) -> Words:
    with np.errstate(all="ignore"):
        return propagate_nulls(from_doubles(to_doubles(left) / to_doubles(right)), left, right)


register_primitive("$quotient", VectorFunction(lambda call: _quotient))


def _round_to_single(words: Words) -> Words:
    with np.errstate(all="ignore"):
        return propagate_nulls(from_doubles(to_doubles(words).astype(np.float32).astype(np.float64)), words)


register_primitive("$single", VectorFunction(lambda call: _round_to_single))
_register_vector("$ord", lambda words: words)


def _register_function(name: str, function: Callable[..., object]) -> None:
    register_primitive(name, MemoizedFunction(lambda call: function))


def _negative_power(base: int, exponent: int) -> int:
    """Return the power with a negative exponent, rounded toward 0."""
    if base == 0:
        raise ZeroDivisionError("0 to a negative power")
    return base ** (-exponent % 2) if base in (1, -1) else 0


def power(base: int, exponent: int) -> int:
    """Return the power of whole numbers. With a negative exponent it is rounded toward 0."""
    if exponent < 0:
        return _negative_power(base, exponent)
    if exponent > 63 and base not in (-1, 0, 1):
        raise OverflowError("the power has more than 64 bits")
    return int(base ** (exponent if base not in (-1, 0, 1) or exponent < 2 else 2 - exponent % 2))


def wrap_power(base: int, exponent: int) -> int:
    """Return the low 32 bits of the power."""
    return pow(base, exponent, 2**32) if exponent >= 0 else _negative_power(base, exponent) & LOW_BITS


def substring(text: str, start: int, count: int) -> str:
    """Return at most ``count`` characters from a position, counted from 0. Negative positions give none."""
    return text[start : start + count] if start >= 0 and count > 0 else ""


def full_match(pattern: str, text: str) -> bool | None:
    """Check whether an ECMAScript regular expression matches a whole text; None if it is invalid."""
    from kpg.runtime.functions.regex import compile_ecmascript  # lazy: the regex package takes 15 ms

    try:
        expression = compile_ecmascript(pattern)
    except ValueError:
        return None
    return expression.fullmatch(text) is not None


def show_six_places(value: float) -> str:
    """Format a float with six decimal places, like C++'s ``to_string``."""
    return f"{value:f}"


def show_float(value: float) -> str:
    """Format a float with its shortest digits and no exponent, like FlowLog. NaN is ``NaN``."""
    if value != value:
        return "NaN"
    text = repr(value)
    return f"{Decimal(text):f}" if "e" in text else text.removesuffix(".0")


def show_single(value: float) -> str:
    """Format a float with the shortest digits that identify it among 32-bit floats."""
    return show_float(float(str(np.float32(value))))


def parse_integer(text: str) -> int:
    """Parse a decimal, ``0x`` hexadecimal or ``0b`` binary integer."""
    found = NUMBER_TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" is no number')
    return int(text, 0 if found["based"] else 10)


def float_bits(value: float) -> int:
    """Return the integer with the same 64 bits as a float."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)


def float_bits32(value: float) -> int:
    """Return the integer with the 32 bits of a float rounded to single precision."""
    (bits,) = struct.unpack("<i", struct.pack("<f", value))
    return int(bits)


def bits_float(value: int) -> float:
    """Return the float with the same 64 bits as an integer."""
    (result,) = struct.unpack("<d", struct.pack("<q", value))
    return float(result)


def bits_float32(value: int) -> float:
    """Return the float with the low 32 bits of an integer."""
    (result,) = struct.unpack("<f", struct.pack("<I", value & LOW_BITS))
    return float(result)


def number_or_zero(text: str) -> int:
    """Parse a 32-bit integer like FlowLog: 0 for any other text."""
    result = int(text) if re.fullmatch(r"[+-]?[0-9]{1,20}", text) else 0
    return result if -(2**31) <= result < 2**31 else 0


def quote(text: str) -> str:
    """Quote a symbol as in a program, and in a field of a record."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def unquote(text: str) -> str | None:
    """Return the symbol of a field that :func:`quote` wrote, or None for any other field."""
    found = QUOTED.fullmatch(text)
    if found is None:
        return None
    return re.sub(r"\\(.)", lambda escape: ESCAPES.get(escape[1], escape[1]), found[1])


def show_number(value: float) -> str:
    """Format a number as a field."""
    return repr(value)


def format_record(*fields: str) -> str:
    """Format a record of its fields."""
    return _check_length(f"[{', '.join(fields)}]")


def format_branch(name: str, *fields: str) -> str:
    """Format a branch of an ADT of its fields."""
    return _check_length(f"${name}({', '.join(fields)})" if fields else f"${name}")


def _check_length(text: str) -> str:
    if len(text) > MAX_RECORD_LENGTH:
        raise OverflowError("the record is too long")
    return text


def branch_name(text: str) -> str:
    """Return the name of a value's branch: empty for a record, ``nil`` for nil."""
    if text.startswith("$"):
        return text[1:].partition("(")[0]
    return "" if text.startswith("[") else text


def extract_field(text: str, position: int) -> str | None:
    """Return the text of a field, or None if there is none."""
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


def parse_number(text: str) -> int | None:
    """Return the whole number of a field, or None if it is not one."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else None


def parse_float(text: str) -> float | None:
    """Return the float of a field, or None if it is not one."""
    try:
        return float(text)
    except ValueError:
        return None


_register_function("$power", power)
_register_function("$wrap_power", wrap_power)
_register_function("$substr", substring)
_register_function("$full_match", full_match)
_register_function("$six_places", show_six_places)
_register_function("$plain_float", show_float)
_register_function("$plain_single", show_single)
_register_function("$whole_number", parse_integer)
_register_function("$float_bits", float_bits)
_register_function("$float_bits32", float_bits32)
_register_function("$bits_float", bits_float)
_register_function("$bits_float32", bits_float32)
_register_function("$number_or_zero", number_or_zero)
_register_function("$quote", quote)
_register_function("$unquote", unquote)
_register_function("$show", show_number)
_register_function("$record", format_record)
_register_function("$branch", format_branch)
_register_function("$branch_of", branch_name)
_register_function("$field", extract_field)
_register_function("$number", parse_number)
_register_function("$float", parse_float)
