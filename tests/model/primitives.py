"""The slow truth about Datalog's primitives, written from what ``primitives.PRIMITIVES`` says of them.

``$ord`` is missing: its value depends on what texts the database met before.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

WORD = 2**64
HALF = 2**32
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\](),]|[^\[\](),"\s]+')
"""What the text of a record or branch is made of."""
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _signed(value: int, size: int) -> int:
    low = value % size
    return low - size if low >= size // 2 else low


def _unsigned(value: int) -> int:
    if value < 0:
        raise ValueError("below 0")
    return value


def _power(base: int, exponent: int) -> int:
    if exponent >= 0:
        return base**exponent if abs(base) < 2 or exponent < 64 else WORD
    if base == 0:
        raise ZeroDivisionError
    return 0


def _full_match(pattern: str, text: str) -> bool | None:
    try:
        return re.fullmatch(pattern, text) is not None
    except re.error:
        return None


def _plain(value: Any) -> str:
    return "NaN" if math.isnan(value) else np.format_float_positional(value, trim="-")


def _number_or_zero(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        return 0
    plain = (
        text.lstrip("+-").isascii()
        and text.lstrip("+-").isdecimal()
        and len(text.lstrip("+-")) >= len(text) - 1
    )
    return value if plain and -(2**31) <= value < 2**31 else 0


def _whole_number(text: str) -> int:
    digits = text.strip().lstrip("+-")
    base = {"0x": 16, "0b": 2}.get(digits[:2].lower(), 10)
    value = int(digits[2:] if base != 10 else digits, base)
    return -value if "-" in text else value


def _branch(name: str, *fields: str) -> str:
    return f"${name}({', '.join(fields)})" if fields else f"${name}"


@cache
def _parts(text: str) -> tuple[str, tuple[str, ...]]:
    """The name of a record's or branch's shape, as ``$branch_of`` gives it, and the texts of its fields."""
    tokens = TOKEN.findall(text)
    name = tokens.pop(0) if tokens[0] != "[" else ""
    fields: list[list[str]] = []
    depth = 0
    for token in tokens:
        depth -= token in "])"
        if depth == 1 and token == ",":
            fields.append([])
        elif depth > 0:
            fields = fields or [[]]
            fields[-1].append(", " if token == "," else token)
        depth += token in "[("
    return name.removeprefix("$"), tuple("".join(field) for field in fields)


def _field(text: str, place: int) -> str | None:
    fields = _parts(text)[1]
    return fields[place] if place < len(fields) else None


def _unquote(text: str | None) -> str | None:
    if text is None or not text.startswith('"'):
        return None
    back = {shown: plain for plain, shown in ESCAPES.items()}
    return re.sub(r"\\.", lambda found: back[found[0]], text[1:-1])


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def _float(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "$unsigned": _unsigned,
    "$wrap_number": lambda x: _signed(x, HALF),
    "$wrap_unsigned": lambda x: x % HALF,
    **{f"$wrap_int{bits}": lambda x, bits=bits: _signed(x, 2**bits) for bits in (8, 16)},
    **{f"$wrap_uint{bits}": lambda x, bits=bits: x % 2**bits for bits in (8, 16)},
    "$single": lambda x: float(np.float32(x)),
    "$wrap_product": lambda x, y: x * y % HALF,
    "$power": _power,
    "$wrap_power": lambda x, y: pow(x, y, HALF) if y >= 0 else _power(x, y),
    "$band": lambda x, y: x & y,
    "$bor": lambda x, y: x | y,
    "$bxor": lambda x, y: x ^ y,
    "$bnot": lambda x: ~x,
    "$bshl": lambda x, y: _signed(x << y % 64, WORD),
    "$bshr": lambda x, y: x >> y % 64,
    "$bshru": lambda x, y: x % WORD >> y % 64,
    "$land": lambda x, y: int(x != 0 and y != 0),
    "$lor": lambda x, y: int(x != 0 or y != 0),
    "$lxor": lambda x, y: int((x != 0) is not (y != 0)),
    "$lnot": lambda x: int(x == 0),
    "$substr": lambda text, start, count: text[start : start + count] if start >= 0 and count > 0 else "",
    "$full_match": _full_match,
    "$quotient": lambda x, y: x / y if y else math.nan if x == 0 or x != x else math.copysign(math.inf, x),
    "$six_places": lambda x: f"{x:.6f}",
    "$plain_float": lambda x: _plain(np.float64(x)),
    "$plain_single": lambda x: _plain(np.float32(x)),
    "$whole_number": _whole_number,
    "$float_bits": lambda value: int(np.float64(value).view(np.int64)),
    "$float_bits32": lambda value: int(np.float32(value).view(np.int32)),
    "$bits_float": lambda bits: float(np.int64(bits).view(np.float64)),
    "$bits_float32": lambda bits: float(np.uint32(bits & 0xFFFFFFFF).view(np.float32)),
    "$number_or_zero": _number_or_zero,
    "$quote": lambda text: '"' + "".join(ESCAPES.get(one, one) for one in text) + '"',
    "$show": repr,
    "$record": lambda *fields: f"[{', '.join(fields)}]",
    "$branch": _branch,
    "$branch_of": lambda text: _parts(text)[0],
    "$field": _field,
}
"""Of arguments that are not NULL."""
PARTIAL: Mapping[str, Callable[..., Any]] = {"$unquote": _unquote, "$number": _number, "$float": _float}
"""Those that read a field, which may not be there or not be of the type: None for it, and for None.

Numbers beyond 64 bits are not refused here.
"""
