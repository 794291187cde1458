"""CAST between all sensible pairs of types, built from a few conversions."""

import datetime
import decimal as decimals
from collections.abc import Callable

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import vectors
from kpg.runtime.functions.dates import DAY, EPOCH_ORDINAL
from kpg.runtime.functions.registry import (
    Composition,
    Memoized,
    NullRule,
    Opcode,
    Overload,
    Signature,
    Vector,
    primitive,
    scalar,
)
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    TEXT,
    Kind,
    Type,
)

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
CONTEXT = decimals.Context(prec=60, rounding=decimals.ROUND_HALF_UP)
"""More digits than a word of any scale has."""
TRUE_WORDS = frozenset({"true", "t", "yes", "y", "on", "1"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "off", "0"})
TEXT_SOURCES = frozenset(Kind) - {Kind.ROWID, Kind.NULL}
DATED = frozenset({Kind.DATE, Kind.TIMESTAMP})


def _immediate(call: Call) -> int:
    literal = call.args[1]
    assert isinstance(literal, Literal) and isinstance(literal.value, int)
    return literal.value


primitive("$scale_down", Opcode("scale_down", _immediate, operands=1))
primitive("$range", Opcode("range"))
primitive("$from_double", Opcode("from_double", _immediate, operands=1))
primitive("$sub_double", Opcode("sub_double"))
primitive("$to_real", Vector(lambda call: vectors.to_real))


def castable(source: Type, target: Type) -> bool:
    """Whether CAST from one type to the other exists."""
    if source.kind in (target.kind, Kind.NULL) or (source.is_numeric and target.is_numeric):
        return True
    if source.is_text:
        return target.kind not in (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH, Kind.ROWID)
    if target.is_text:
        return source.kind in TEXT_SOURCES
    kinds = {source.kind, target.kind}
    if kinds == DATED:
        return True
    return Kind.BOOLEAN in kinds and (source.is_integer or target.is_integer)


def _exact(x: Scalar, target: Type) -> Scalar:
    """Between integers and decimals: scaled, half away from zero, and checked."""
    source = x.type
    change = target.scale - source.scale
    if change > 0:
        return Call("$mul", (x, Literal(10**change, BIGINT)), target)
    if change < 0:
        return Call("$scale_down", (x, Literal(10**-change, BIGINT)), target)
    return x if _holds(source, target) else Call("$range", (x,), target)


def _holds(source: Type, target: Type) -> bool:
    """Whether every value of an exact type is one of another of its scale."""
    low, high = limits(source)
    target_low, target_high = limits(target)
    return target_low <= low and high <= target_high


def limits(type_: Type) -> tuple[int, int]:
    """The lowest and the highest word of a type."""
    match type_.kind:
        case Kind.SMALLINT:
            return -(2**15), 2**15 - 1
        case Kind.INTEGER:
            return -(2**31), 2**31 - 1
        case Kind.DECIMAL:
            return 1 - 10**type_.precision, 10**type_.precision - 1
        case Kind.DATE:
            return 1 - EPOCH_ORDINAL, datetime.date.max.toordinal() - EPOCH_ORDINAL
        case Kind.TIMESTAMP:
            return (datetime.datetime.min - EPOCH) // MICROSECOND, (
                datetime.datetime.max - EPOCH
            ) // MICROSECOND
        case _:
            return -(2**63) + 2, 2**63 - 1


def _number(x: Scalar, target: Type) -> Scalar:
    source = x.type
    if source.is_float:
        if target.is_float:
            return Call("$to_real", (x,), target) if target.kind is Kind.REAL else x
        return Call("$from_double", (x, Literal(10**target.scale, BIGINT)), target)
    if target.is_float:
        double = Call("$to_double", (x, Literal(10**source.scale, BIGINT)), DOUBLE)
        return double if target.kind is Kind.DOUBLE else Call("$to_real", (double,), target)
    return _exact(x, target)


def _cast(call: Call) -> Scalar:
    (x,) = call.args
    source, target = x.type, call.type
    if not castable(source, target):
        raise ProgrammingError(f"cannot cast {source} to {target}")
    if source.kind is Kind.NULL:
        return Literal(None, target)
    if source.is_text and target.is_text:
        cut = target.precision and not 0 < source.precision <= target.precision
        return Call("left", (x, Literal(target.precision, INTEGER)), TEXT) if cut else x
    if source.is_text:
        return Call("$parse", (x,), target)
    if target.is_text:
        text = Call("$format", (x,), TEXT)
        return Call("left", (text, Literal(target.precision, INTEGER)), TEXT) if target.precision else text
    if source.is_numeric and target.is_numeric:
        return _number(x, target)
    if target.kind is Kind.BOOLEAN and source.is_integer:
        return Call("ne", (x, Literal(0, source)), BOOLEAN)
    if target.kind is Kind.TIMESTAMP and source.kind is Kind.DATE:
        return Call("$mul", (x, Literal(DAY, INTERVAL_DAY)), target)
    if target.kind is Kind.DATE and source.kind is Kind.TIMESTAMP:
        return Call("$floor_div", (x, Literal(DAY, INTERVAL_DAY)), target)
    return x


def _checked(value: int, type_: Type) -> int:
    low, high = limits(type_)
    if not low <= value <= high:
        raise ValueError("out of range")
    return value


def parser(target: Type) -> Callable[[str], object]:
    """The function that reads a value of a type from text; it raises ValueError."""
    match target.kind:
        case Kind.BOOLEAN:
            return _parse_boolean
        case Kind.REAL | Kind.DOUBLE:
            return float
        case Kind.DATE:
            return lambda text: datetime.date.fromisoformat(text.strip()).toordinal() - EPOCH_ORDINAL
        case Kind.TIMESTAMP:
            return _parse_timestamp
        case _:
            return lambda text: _checked(_parse_number(text, target.scale), target)


def _parse_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word in TRUE_WORDS or word in FALSE_WORDS:
        return word in TRUE_WORDS
    raise ValueError("not a boolean")


def _parse_timestamp(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text.strip())
    if moment.tzinfo is not None:
        raise ValueError("time zones are not supported")
    return (moment - EPOCH) // MICROSECOND


def _parse_number(text: str, scale: int) -> int:
    value = decimals.Decimal(text.strip())
    if not value.is_finite() or value.adjusted() > 30:
        raise ValueError("out of range")
    return int(value.scaleb(scale, CONTEXT).to_integral_value(decimals.ROUND_HALF_UP, CONTEXT))


def formatter(source: Type) -> Callable[..., str]:
    """The function that writes a value of a type (as ``Memoized`` functions take it) as text."""
    match source.kind:
        case Kind.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Kind.DECIMAL:
            return lambda value: f"{decimals.Decimal(value).scaleb(-source.scale, CONTEXT):f}"
        case Kind.DATE:
            return lambda value: datetime.date.fromordinal(value + EPOCH_ORDINAL).isoformat()
        case Kind.TIMESTAMP:
            return lambda value: str(EPOCH + value * MICROSECOND)
        case Kind.INTERVAL_DAY:
            return lambda value: str(value * MICROSECOND)
        case Kind.INTERVAL_MONTH:
            return lambda value: f"{value} months"
        case Kind.REAL | Kind.DOUBLE:
            return str
        case _:
            return str


primitive("$parse", Memoized(lambda call: parser(call.type)))
primitive("$format", Memoized(lambda call: formatter(call.args[0].type)))


def _one(types: tuple[Type, ...]) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 1 else None


scalar(
    "cast",
    "a value",
    "The value in another type: decimals round half away from zero, what does not fit is an error.",
    {
        "CAST(2.5 AS INTEGER)": "3",
        "CAST('12' AS INTEGER)": "12",
        "CAST(1.005 AS DECIMAL(10, 2))": "1.01",
        "CAST(12 AS VARCHAR)": "'12'",
        "CAST('1998-09-02' AS DATE)": "DATE '1998-09-02'",
        "CAST(1.50 AS VARCHAR)": "'1.50'",
        "CAST(TIMESTAMP '1998-09-02 07:00:00' AS DATE)": "DATE '1998-09-02'",
        "CAST(0.5 AS DOUBLE PRECISION)": "0.5e0",
        "CAST('t' AS BOOLEAN)": "TRUE",
    },
    Overload(_one, Composition(_cast)),
    nulls=NullRule.PROPAGATE,
)
