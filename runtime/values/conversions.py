"""One value of a type as a value of another: what a cast does to the parts of arrays, rows and JSON."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from kpg.runtime.types import BIT_KINDS, JSONB, NETWORK_KINDS, NUMERIC, Kind, Type, same_words
from kpg.runtime.values import numeric
from kpg.runtime.values.calendars import is_infinite
from kpg.runtime.values.codec import codec_of, stripped
from kpg.runtime.values.jsons import Json
from kpg.runtime.values.text import limits
from kpg.runtime.values.words import DAY

Convert = Callable[[Any], Any]
MILLENNIUM: Final = 10_957 * DAY
"""Microseconds from 1970 to 2000."""
NUMBERS: Final = (Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.NUMERIC)
RANGED: Final = frozenset(
    {(Kind.RANGE, Kind.MULTIRANGE), (Kind.RANGE, Kind.RANGE), (Kind.MULTIRANGE, Kind.MULTIRANGE)}
)
PAIRS: Final = frozenset(
    {(source, target) for source in BIT_KINDS for target in (*BIT_KINDS, Kind.INTEGER, Kind.BIGINT)}
    | {(source, Kind.BIT) for source in (Kind.INTEGER, Kind.BIGINT)}
    | {(source, target) for source in NETWORK_KINDS for target in NETWORK_KINDS if source is not target}
    | {(Kind.MACADDR, Kind.MACADDR8), (Kind.MACADDR8, Kind.MACADDR)}
    | {(Kind.TIME, Kind.TIMETZ), (Kind.TIMETZ, Kind.TIME), (Kind.TIMESTAMPTZ, Kind.TIMETZ)}
    | {(Kind.RANGE, Kind.MULTIRANGE)}
)
"""Casts of types whose values are texts in Python, by kinds."""


def between(source: Type, target: Type) -> Convert:
    """The function that converts a value, None for NULL; it raises ValueError or ArithmeticError."""
    convert = _between(source, target)
    return lambda value: None if value is None else convert(value)


def _between(source: Type, target: Type) -> Convert:
    if source.kind is Kind.ARRAY and target.kind is Kind.ARRAY:
        inner = between(source.parts[0], target.parts[0])
        return lambda value: value._replace(items=tuple(map(inner, value.items)))
    if source.kind is Kind.RECORD and target.kind is Kind.RECORD:
        fields = tuple(map(between, source.parts, target.parts))
        return lambda value: tuple(field(one) for field, one in zip(fields, value, strict=True))
    if source.kind is Kind.JSONB and (target.is_numeric or target.kind is Kind.BOOLEAN):
        return _from_json(target)
    if (source.kind, target.kind) in PAIRS:
        return _spelled(source, target)
    if source.is_numeric and target.is_numeric:
        return lambda value: _number(value, source, target)
    if source == target or (same_words(source, target) and not target.precision):
        return lambda value: value
    read, write = codec_of(target).parse, codec_of(source).show
    if target.is_text and target.precision:
        strip = stripped if target.kind is Kind.CHAR else str
        return lambda value: strip(write(value)[: target.precision])
    return lambda value: read(write(value))


def _number(value: Any, source: Type, target: Type) -> Any:
    exact = value if isinstance(value, Decimal) else numeric.of_number(value, source, NUMERIC)
    number = numeric.to_number(exact, target)
    low, high = limits(target) if isinstance(number, int) else (0, 0)
    if isinstance(number, int) and not low <= number <= high:
        raise OverflowError("numeric field overflow")
    return number


def _spelled(source: Type, target: Type) -> Convert:
    from kpg.runtime.values import bitstrings, networks

    match source.kind, target.kind:
        case ((Kind.BIT | Kind.VARBIT), (Kind.BIT | Kind.VARBIT)):
            return lambda value: bitstrings.fitted(value, target)
        case ((Kind.BIT | Kind.VARBIT), _):
            width = 32 if target.kind is Kind.INTEGER else 64
            return lambda value: bitstrings.number(value, width)
        case _, Kind.BIT:
            return lambda value: bitstrings.of_number(value, target.precision or 1)
        case Kind.INET, Kind.CIDR:
            return lambda value: value._replace(bits=value.bits & ~value.hosts)
        case Kind.MACADDR, Kind.MACADDR8:
            return networks.wide_mac
        case Kind.MACADDR8, Kind.MACADDR:
            return _narrow_mac
        case Kind.TIME, Kind.TIMETZ:
            return lambda value: (value, 0)
        case Kind.TIMESTAMPTZ, Kind.TIMETZ:
            return lambda value: None if is_infinite(value) else (value % DAY, 0)
        case Kind.TIMETZ, Kind.TIME:
            return lambda value: value[0]
        case _:
            return lambda value: value


def _narrow_mac(value: str) -> str:
    if value[9:14] != "ff:fe":
        raise ValueError("macaddr8 data out of range to convert to macaddr")
    return f"{value[:8]}:{value[15:]}"


def of_length(type_: Type, value: str) -> str:
    """A bit string, if it has the length of its column."""
    if type_.kind is Kind.BIT and len(value) != type_.precision:
        raise ValueError(f"bit string length {len(value)} does not match type bit({type_.precision})")
    if len(value) > type_.precision:
        raise ValueError(f"bit string too long for type bit varying({type_.precision})")
    return value


def to_digits(type_: Type, value: Any, digits: int) -> Any:
    """A moment or an interval with so many digits of a second, rounded half away from 2000, or from zero."""
    unit = 10 ** (6 - digits)
    match type_.kind:
        case Kind.INTERVAL:
            return value._replace(microseconds=_nearest(value.microseconds, unit))
        case Kind.TIMETZ:
            return (_nearest(value[0], unit), value[1])
        case Kind.TIME:
            return _nearest(value, unit)
        case _:
            return value if is_infinite(value) else _nearest(value - MILLENNIUM, unit) + MILLENNIUM


def to_field(value: Any, last: str) -> Any:
    """An interval without what is below a field."""
    from kpg.runtime.values import intervals

    return intervals.cut(value, last)


def _nearest(value: int, unit: int) -> int:
    found = (abs(value) + unit // 2) // unit * unit
    return found if value >= 0 else -found


def in_domain(value: Any, held: bool | None, message: str) -> Any:
    """The value; ValueError with the message if its condition is false."""
    if held is False:
        raise ValueError(message)
    return value


def with_length(value: Any) -> str:
    """An address as the text of a cast, which has the length of its network in any case."""
    from kpg.runtime.values import networks

    return networks.show_cidr(value)


def _from_json(target: Type) -> Convert:
    """A number or a truth value out of JSON, of which ``null`` is NULL."""

    def convert(value: Json) -> Any:
        if value.value is None:
            return None
        if target.kind is Kind.BOOLEAN and isinstance(value.value, bool):
            return value.value
        if target.is_numeric and isinstance(value.value, Decimal):
            return numeric.to_number(value.value, target)
        raise ValueError(f"{codec_of(JSONB).show(value)} is no {target}")

    return convert
