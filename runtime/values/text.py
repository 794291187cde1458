"""Values of types of words as text and back, and what of them fits a type."""

import decimal as decimals
import functools
import math
import re
from collections.abc import Callable

from kpg.runtime.types import Kind, Type
from kpg.runtime.values.calendars import FIRST_DAY, LAST_DAY, shown_date, shown_stamp
from kpg.runtime.values.words import (
    BLANKS,
    DAY,
    Unfit,
    encoder_of,
    parse_date,
    parse_instant,
    parse_time,
    parse_timestamp,
)

CONTEXT = decimals.Context(prec=60, rounding=decimals.ROUND_HALF_UP)
"""More digits than a word of any scale has."""
TRUE_WORDS = frozenset({"true", "tru", "tr", "t", "yes", "ye", "y", "on", "1"})
FALSE_WORDS = frozenset({"false", "fals", "fal", "fa", "f", "no", "n", "off", "of", "0"})
FLOAT = re.compile(r"[-+]?(?:(\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf|infinity|nan)", re.IGNORECASE | re.ASCII)
SMALLEST_REAL = 2.0**-150
"""Half of the smallest REAL: what is not above it would be 0."""
BEYOND_REAL = 2.0**128 - 2.0**103
"""Half way from the largest REAL to the next power of two: from here on all would be infinite."""


def limits(type_: Type) -> tuple[int, int]:
    """The lowest and the highest word of a type, of moments that are finite."""
    match type_.kind:
        case Kind.SMALLINT:
            return -(2**15), 2**15 - 1
        case Kind.INTEGER:
            return -(2**31), 2**31 - 1
        case Kind.DECIMAL:
            return 1 - 10**type_.precision, 10**type_.precision - 1
        case Kind.BOOLEAN:
            return 0, 1
        case Kind.TIME:
            return 0, DAY
        case Kind.ENUM:
            return 0, len(type_.labels) - 1
        case Kind.TID:
            from kpg.runtime.values import places

            return 0, places.MOST
        case Kind.DATE:
            return FIRST_DAY, LAST_DAY
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1
        case _:
            return -(2**63) + 2, 2**63 - 1


def _checked(value: int, type_: Type) -> int:
    low, high = limits(type_)
    if not low <= value <= high:
        raise ValueError("out of range")
    return value


def parser(target: Type) -> Callable[[str], object]:
    """The function that reads a value of a type of words from text; it raises ValueError."""
    match target.kind:
        case Kind.BOOLEAN:
            return _parse_boolean
        case Kind.REAL | Kind.DOUBLE:
            return parse_real if target.kind is Kind.REAL else parse_float
        case Kind.DATE:
            return parse_date
        case Kind.TIMESTAMP:
            return parse_timestamp
        case Kind.TIMESTAMPTZ | Kind.TIME:
            return parse_instant if target.kind is Kind.TIMESTAMPTZ else parse_time
        case Kind.ENUM:
            return functools.partial(_read, encoder_of(target))
        case Kind.TID:
            from kpg.runtime.values import places

            return places.parse
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return lambda text: _checked(parse_whole(text), target)
        case _:
            return lambda text: _checked(_parse_number(text, target.scale), target)


def _read(encode: Callable[[object], int], text: str) -> int:
    try:
        return encode(text)
    except Unfit:
        raise ValueError("no such value") from None


def _parse_boolean(text: str) -> bool:
    word = text.strip(BLANKS).lower()
    if word in TRUE_WORDS or word in FALSE_WORDS:
        return word in TRUE_WORDS
    raise ValueError("not a boolean")


def parse_float(text: str) -> float:
    """The float that a text means; ValueError if it means none, or one too small to be told from 0."""
    body = text.strip(BLANKS)
    found = FLOAT.fullmatch(body)
    if found is None:
        if re.match(r"[-+]?0x", body, re.IGNORECASE):
            return float.fromhex(body)
        raise ValueError("not a number")
    value = float(body)
    if found[1] and (math.isinf(value) or (not value and found[1].strip("0."))):
        raise ValueError("out of range")
    return value


def parse_real(text: str) -> float:
    """The same of a REAL."""
    value = parse_float(text)
    if math.isfinite(value) and value and not SMALLEST_REAL < abs(value) < BEYOND_REAL:
        raise ValueError("out of range")
    return value


def parse_whole(text: str) -> int:
    """The integer that a text means, as hexadecimal, octal and binary and with underscores too."""
    body = text.strip(BLANKS)
    sign = -1 if body[:1] == "-" else 1
    body = body[1:] if body[:1] in ("+", "-") else body
    if not body[:1].isdigit() or not body.isascii():
        raise ValueError("not an integer")
    return sign * (int(body, 0) if body[:2].lower() in ("0x", "0o", "0b") else int(body))


def _parse_number(text: str, scale: int) -> int:
    from kpg.runtime.values import numeric

    value = numeric.parse(text)
    if not value.is_finite() or value.adjusted() > 30:
        raise ValueError("out of range")
    return int(value.scaleb(scale, CONTEXT).to_integral_value(decimals.ROUND_HALF_UP, CONTEXT))


def formatter(source: Type) -> Callable[..., str]:
    """The function that writes a value of a type (as ``Memoized`` functions take it) as text."""
    from kpg.runtime.values import intervals

    match source.kind:
        case Kind.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Kind.DECIMAL:
            return lambda value: f"{decimals.Decimal(value).scaleb(-source.scale, CONTEXT):f}"
        case Kind.DATE:
            return shown_date
        case Kind.TIMESTAMP:
            return shown_stamp
        case Kind.TIMESTAMPTZ:
            return lambda value: shown_stamp(value, "+00")
        case Kind.TIME:
            return intervals.clock
        case Kind.ENUM:
            return lambda value: source.labels[value]
        case Kind.TID:
            from kpg.runtime.values import places

            return places.show
        case Kind.INTERVAL_DAY:
            return lambda value: intervals.shown(intervals.of_microseconds(value))
        case Kind.INTERVAL_MONTH:
            return lambda value: intervals.shown(intervals.Interval(value, 0, 0))
        case Kind.REAL:
            return _real
        case Kind.DOUBLE:
            return shown_double
        case _:
            return str


def shown_double(value: float) -> str:
    """The fewest digits that tell the number from all others, as Postgres writes them."""
    return _written(repr(value), 15)


def _real(value: float) -> str:
    import numpy as np

    return _written(np.format_float_scientific(np.float32(value)), 6)


def _written(text: str, most: int) -> str:
    """Without an exponent if there are up to ``most`` digits before the point, or few zeros behind it."""
    if text[-1] in "fn":
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(text, "NaN")
    number = decimals.Decimal(text)
    exponent = number.adjusted() if number else 0
    if -4 <= exponent < most:
        plain = f"{number:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    sign, digits, _ = number.normalize().as_tuple()
    first, rest = digits[0], "".join(map(str, digits[1:]))
    return f"{'-' * sign}{first}{'.' * bool(rest)}{rest}e{exponent:+03d}"


def expected(type_: Type) -> str:
    """What Python objects a type of words takes."""
    match type_.kind:
        case Kind.BOOLEAN:
            return "a bool"
        case Kind.DECIMAL:
            return "a Decimal, an int, or a text such as '2.50'"
        case Kind.REAL | Kind.DOUBLE:
            return "a float"
        case Kind.DATE:
            return "a datetime.date, or a text such as '1998-12-01'"
        case Kind.TIMESTAMP:
            return "a datetime.datetime without time zone, or a text such as '1998-12-01 12:30:00'"
        case Kind.TIMESTAMPTZ:
            return "a datetime.datetime, or a text such as '1998-12-01 12:30:00+02:00'"
        case Kind.TIME:
            return "a datetime.time without time zone, or a text such as '12:30:00'"
        case Kind.ENUM:
            return f"one of {', '.join(map(repr, type_.labels))}"
        case Kind.TID:
            return "a text such as '(0,1)'"
        case Kind.INTERVAL_MONTH:
            return "a number of months (int)"
        case Kind.INTERVAL_DAY:
            return "a datetime.timedelta"
        case Kind.NULL:
            return "None"
        case _:
            return "an int"
