"""CAST between types, composed from a few conversions, also of the parts of arrays, rows and JSON."""

import functools
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import arithmetic, registry
from kpg.runtime.functions.date_time.dates import DAY, cast_infinity, unless_infinite
from kpg.runtime.functions.registry import (
    Composition,
    MemoizedFunction,
    NullRule,
    Opcode,
    Overload,
    Signature,
    VectorFunction,
    register_primitive,
    register_scalar,
)
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BIT_KINDS,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    JSONB,
    NETWORK_KINDS,
    NUMERIC,
    NUMERIC_KINDS,
    TEXT,
    Kind,
    Type,
    have_same_words,
)
from kpg.runtime.values import codec_of, intervals, numeric
from kpg.runtime.values.codec import strip_blanks
from kpg.runtime.values.jsons import Json
from kpg.runtime.values.words import DAY as WORDS_DAY
from kpg.runtime.values.words import is_infinite, limits

Conversion = Callable[[Any], Any]
MICROSECONDS_TO_2000: Final = 10_957 * WORDS_DAY
"""Microseconds from 1970 to 2000."""
NUMBERS: Final = (Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.NUMERIC)
RANGE_CASTS: Final = frozenset(
    {(Kind.RANGE, Kind.MULTIRANGE), (Kind.RANGE, Kind.RANGE), (Kind.MULTIRANGE, Kind.MULTIRANGE)}
)
SPECIAL_CASTS: Final = frozenset(
    {(source, target) for source in BIT_KINDS for target in (*BIT_KINDS, Kind.INTEGER, Kind.BIGINT)}
    | {(source, Kind.BIT) for source in (Kind.INTEGER, Kind.BIGINT)}
    | {(source, target) for source in NETWORK_KINDS for target in NETWORK_KINDS if source is not target}
    | {(Kind.MACADDR, Kind.MACADDR8), (Kind.MACADDR8, Kind.MACADDR)}
    | {(Kind.TIME, Kind.TIMETZ), (Kind.TIMETZ, Kind.TIME), (Kind.TIMESTAMPTZ, Kind.TIMETZ)}
    | {(Kind.RANGE, Kind.MULTIRANGE)}
)
"""Casts by kinds of bit strings, network addresses, times with zones and ranges."""


def conversion(source: Type, target: Type) -> Conversion:
    """Return the function that converts a value, None for NULL.

    The function raises ValueError or ArithmeticError for values that do not convert.
    """
    convert = _conversion(source, target)
    return lambda value: None if value is None else convert(value)


def _conversion(source: Type, target: Type) -> Conversion:
    if source.kind is Kind.ARRAY and target.kind is Kind.ARRAY:
        inner = conversion(source.parts[0], target.parts[0])
        return lambda value: value._replace(items=tuple(map(inner, value.items)))
    if source.kind is Kind.RECORD and target.kind is Kind.RECORD:
        fields = tuple(map(conversion, source.parts, target.parts))
        return lambda value: tuple(field(one) for field, one in zip(fields, value, strict=True))
    if source.kind is Kind.JSONB and (target.is_numeric or target.kind is Kind.BOOLEAN):
        return _from_json(target)
    if (source.kind, target.kind) in SPECIAL_CASTS:
        return _special_conversion(source, target)
    if source.is_numeric and target.is_numeric:
        return lambda value: _convert_number(value, source, target)
    if source == target or (have_same_words(source, target) and not target.precision):
        return lambda value: value
    read, write = codec_of(target).parse, codec_of(source).show
    if target.is_text and target.precision:
        strip = strip_blanks if target.kind is Kind.CHAR else str
        return lambda value: strip(write(value)[: target.precision])
    return lambda value: read(write(value))


def _convert_number(value: Any, source: Type, target: Type) -> Any:
    exact = value if isinstance(value, Decimal) else numeric.from_number(value, source, NUMERIC)
    number = numeric.to_number(exact, target)
    low, high = limits(target) if isinstance(number, int) else (0, 0)
    if isinstance(number, int) and not low <= number <= high:
        raise OverflowError("numeric field overflow")
    return number


def _special_conversion(source: Type, target: Type) -> Conversion:
    from kpg.runtime.values import byte_strings, networks  # lazy: few programs have such values

    match source.kind, target.kind:
        case ((Kind.BIT | Kind.VARBIT), (Kind.BIT | Kind.VARBIT)):
            return lambda value: byte_strings.cast_bits(value, target)
        case ((Kind.BIT | Kind.VARBIT), _):
            width = 32 if target.kind is Kind.INTEGER else 64
            return lambda value: byte_strings.bits_to_integer(value, width)
        case _, Kind.BIT:
            return lambda value: byte_strings.integer_to_bits(value, target.precision or 1)
        case Kind.INET, Kind.CIDR:
            return lambda value: value._replace(bits=value.bits & ~value.host_mask)
        case Kind.MACADDR, Kind.MACADDR8:
            return networks.widen_mac
        case Kind.MACADDR8, Kind.MACADDR:
            return _narrow_mac
        case Kind.TIME, Kind.TIMETZ:
            return lambda value: (value, 0)
        case Kind.TIMESTAMPTZ, Kind.TIMETZ:
            return lambda value: None if is_infinite(value) else (value % WORDS_DAY, 0)
        case Kind.TIMETZ, Kind.TIME:
            return lambda value: value[0]
        case _:
            return lambda value: value


def _narrow_mac(value: str) -> str:
    if value[9:14] != "ff:fe":
        raise ValueError("macaddr8 data out of range to convert to macaddr")
    return f"{value[:8]}:{value[15:]}"


def check_length(type_: Type, value: str) -> str:
    """Return a text or bit string that fits its type, without blanks beyond the length of a text.

    Raises:
        ValueError: The string is too long, or for BIT of another length.
    """
    length = type_.precision
    if type_.is_text:
        if len(value.rstrip(" ")) > length:
            name = "character" if type_.kind is Kind.CHAR else "character varying"
            raise ValueError(f"value too long for type {name}({length})")
        return value.rstrip(" ") if type_.kind is Kind.CHAR else value[:length]
    if type_.kind is Kind.BIT and len(value) != length:
        raise ValueError(f"bit string length {len(value)} does not match type bit({length})")
    if len(value) > length:
        raise ValueError(f"bit string too long for type bit varying({length})")
    return value


def round_fraction(type_: Type, value: Any, digits: int) -> Any:
    """Round a moment or interval to a number of fractional digits of a second.

    Moments round half away from the start of 2000, intervals half away from zero.
    """
    unit = 10 ** (6 - digits)
    match type_.kind:
        case Kind.INTERVAL:
            return value._replace(microseconds=_round_to_unit(value.microseconds, unit))
        case Kind.TIMETZ:
            return (_round_to_unit(value[0], unit), value[1])
        case Kind.TIME:
            return _round_to_unit(value, unit)
        case _:
            return (
                value
                if is_infinite(value)
                else _round_to_unit(value - MICROSECONDS_TO_2000, unit) + MICROSECONDS_TO_2000
            )


def truncate_to_field(value: Any, last: str) -> Any:
    """Truncate an interval below a field."""

    return intervals.truncate(value, last)


def _round_to_unit(value: int, unit: int) -> int:
    magnitude = (abs(value) + unit // 2) // unit * unit
    return magnitude if value >= 0 else -magnitude


def check_domain(value: Any, condition: bool | None, message: str) -> Any:
    """Return the value.

    Raises:
        ValueError: The domain's condition is false.
    """
    if condition is False:
        raise ValueError(message)
    return value


def show_with_mask(value: Any) -> str:
    """Format an address as the text of a cast, which always has the length of the network."""
    from kpg.runtime.values import networks  # lazy: few programs have such values

    return networks.show_cidr(value)


def _from_json(target: Type) -> Conversion:
    """Return the conversion of JSON to a number or truth value. ``null`` gives NULL."""

    def convert(value: Json) -> Any:
        if value.value is None:
            return None
        if target.kind is Kind.BOOLEAN and isinstance(value.value, bool):
            return value.value
        if target.is_numeric and isinstance(value.value, Decimal):
            return numeric.to_number(value.value, target)
        raise ValueError(f"{codec_of(JSONB).show(value)} is no {target}")

    return convert


TEXT_SOURCES = frozenset(Kind) - {Kind.ROWID, Kind.NULL}
MOMENTS = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
OTHER_CASTS = frozenset(
    {(source, target) for source in MOMENTS for target in MOMENTS}
    | {(source, Kind.TIME) for source in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL)}
    | {(source, Kind.INTERVAL) for source in (Kind.TIME, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)}
    | {(Kind.JSON, Kind.JSONB), (Kind.JSONB, Kind.JSON)}
    | {(Kind.JSONB, target) for target in (*NUMERIC_KINDS, Kind.BOOLEAN)}
    | SPECIAL_CASTS
)
"""Casts that are neither between numbers, nor from or to text."""


def _immediate(call: Call) -> int:
    literal = call.args[1]
    assert isinstance(literal, Literal) and isinstance(literal.value, int)
    return literal.value


register_primitive("$scale_down", Opcode("scale_down", _immediate, operands=1))
register_primitive("$range", Opcode("range"))
register_primitive("$from_double", Opcode("from_double", _immediate, operands=1))
register_primitive("$sub_double", Opcode("sub_double"))
register_primitive("$to_real", VectorFunction(lambda call: arithmetic.to_real))


def is_castable(source: Type, target: Type) -> bool:
    """Check whether CAST from one type to the other exists."""
    if source.parts or target.parts:
        return _are_parts_castable(source, target)
    if source.kind in (target.kind, Kind.NULL) or (source.is_numeric and target.is_numeric):
        return True
    if source.is_text:
        return target.kind not in (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH, Kind.ROWID)
    if target.is_text:
        return source.kind in TEXT_SOURCES
    if (source.kind, target.kind) in OTHER_CASTS:
        return True
    kinds = {source.kind, target.kind}
    return Kind.BOOLEAN in kinds and (source.is_integer or target.is_integer)


def _are_parts_castable(source: Type, target: Type) -> bool:
    """Check a cast of arrays or rows by elements and fields, or from and to text as a whole."""
    if source.kind is Kind.NULL or source.is_text or target.is_text:
        return True
    if Kind.RANGE in (source.kind, target.kind):
        return source.parts == target.parts and (source.kind, target.kind) in RANGE_CASTS
    if source.kind is not target.kind or len(source.parts) != len(target.parts):
        return False
    return all(map(is_castable, source.parts, target.parts))


def _cast_exact(x: Scalar, target: Type) -> Scalar:
    """Cast between integers and decimals: rescale, round half away from zero, check the range."""
    source = x.type
    change = target.scale - source.scale
    if change > 0:
        return Call("$mul", (x, Literal(10**change, BIGINT)), target)
    if change < 0:
        return Call("$scale_down", (x, Literal(10**-change, BIGINT)), target)
    return x if _includes_range(source, target) else Call("$range", (x,), target)


def _includes_range(source: Type, target: Type) -> bool:
    """Check whether an exact type includes every value of another with the same scale."""
    low, high = limits(source)
    target_low, target_high = limits(target)
    return target_low <= low and high <= target_high


def _cast_number(x: Scalar, target: Type) -> Scalar:
    source = x.type
    if source.is_float:
        if target.is_float:
            return Call("$to_real", (x,), target) if target.kind is Kind.REAL else x
        return Call("$from_double", (x, Literal(10**target.scale, BIGINT)), target)
    if target.is_float:
        double = Call("$to_double", (x, Literal(10**source.scale, BIGINT)), DOUBLE)
        return double if target.kind is Kind.DOUBLE else Call("$to_real", (double,), target)
    return _cast_exact(x, target)


def _cast_to_text(x: Scalar, target: Type) -> Scalar:
    """Cast to text, cut to the length of the type. CHAR is stored without trailing blanks."""
    source = x.type
    if source.is_text:
        cut = target.precision and not 0 < source.precision <= target.precision
        text = Call("left", (x, Literal(target.precision, INTEGER)), TEXT) if cut else x
        stays = target.kind is not Kind.CHAR or (source.kind is Kind.CHAR and not cut)
        return text if stays else Call("rtrim", (text,), TEXT)
    if source.kind is Kind.INET:
        text = Call("$with_length", (x,), TEXT)
    else:
        text = Call("$format", (x,), TEXT)
        if target.kind is Kind.CHAR:
            text = Call("rtrim", (text,), TEXT)
    return Call("left", (text, Literal(target.precision, INTEGER)), TEXT) if target.precision else text


def _cast(call: Call) -> Scalar:
    (x,) = call.args
    source, target = x.type, call.type
    if not is_castable(source, target):
        raise ProgrammingError(f"cannot cast {source} to {target}")
    if source.kind is Kind.NULL:
        return Literal(None, target)
    if target.is_text:
        return _cast_to_text(x, target)
    if source.is_text:
        if source.is_padded and target.kind is Kind.BYTEA:
            x = Call("rpad", (x, Literal(source.precision, INTEGER)), TEXT)
        return Call("$parse", (x,), target)
    if Kind.NUMERIC in (source.kind, target.kind) and source.is_numeric and target.is_numeric:
        fits = source.kind is target.kind and not target.precision
        return x if fits else Call("$numeric", (x,), target)
    if source.is_numeric and target.is_numeric:
        return _cast_number(x, target)
    if target.kind is Kind.BOOLEAN and source.is_integer:
        return Call("ne", (x, Literal(0, source)), BOOLEAN)
    if (source.kind, target.kind) in SPECIAL_CASTS:
        return Call("$convert", (x,), target)
    if source.kind in MOMENTS and target.kind in MOMENTS:
        return _cast_moment(x, target)
    if source.parts or Kind.JSONB in (source.kind, target.kind):
        same = have_same_words(source, target) and not (target.has_length_limit and source != target)
        return x if same else Call("$convert", (x,), target)
    if target.kind is Kind.TIME and source.kind is not Kind.TIME:
        if source.kind is Kind.INTERVAL:
            return Call("$interval_time", (x,), target)
        date = Call("$floor_div", (x, Literal(DAY, INTERVAL_DAY)), DATE)
        time = Call("$sub", (x, Call("$mul", (date, Literal(DAY, INTERVAL_DAY)), BIGINT)), target)
        return unless_infinite(x, Literal(None, target), time)
    if target.kind is Kind.INTERVAL:
        name = "$of_months" if source.kind is Kind.INTERVAL_MONTH else "$of_microseconds"
        return x if source.kind is target.kind else Call(name, (x,), target)
    return x


def _cast_moment(x: Scalar, target: Type) -> Scalar:
    """Cast between dates and timestamps. The time zone is UTC."""
    source = x.type
    if source.kind is Kind.DATE and target.kind is not Kind.DATE:
        midnight = Call("$mul", (x, Literal(DAY, INTERVAL_DAY)), target)
        return unless_infinite(x, cast_infinity(x, target), midnight)
    if target.kind is Kind.DATE and source.kind is not Kind.DATE:
        day = Call("$floor_div", (x, Literal(DAY, INTERVAL_DAY)), target)
        return unless_infinite(x, cast_infinity(x, target), day)
    return x if source.kind is target.kind else Call("$relabelled", (x,), target)


def _numeric_conversion(call: Call) -> Callable[..., object]:
    """Return the conversion between NUMERIC and other numbers, or to fewer digits."""
    source, target = call.args[0].type, call.type
    if source.kind is not Kind.NUMERIC:
        return lambda value: numeric.from_number(value, source, target)
    return lambda value: numeric.to_number(value, target)


def _numeric_units(call: Call) -> Callable[[object], object] | None:
    """Return the identity for a cast to NUMERIC without a precision."""
    return (lambda value: value) if call.type.kind is Kind.NUMERIC and not call.type.precision else None


def _numeric_shadow(call: Call, args: Sequence[registry.Shadow]) -> registry.Shadow | None:
    """Return the shadow of an exact number cast to NUMERIC without a precision."""
    exact = call.args[0].type.is_exact and call.type.kind is Kind.NUMERIC and not call.type.precision
    return registry.sign_shadow(call, args) if exact else None


register_primitive(
    "$numeric", MemoizedFunction(_numeric_conversion, build_units=_numeric_units, shadow=_numeric_shadow)
)
register_primitive("$convert", MemoizedFunction(lambda call: conversion(call.args[0].type, call.type)))
register_primitive("$to_field", MemoizedFunction(lambda call: truncate_to_field))
register_primitive("$to_digits", MemoizedFunction(lambda call: functools.partial(round_fraction, call.type)))
register_primitive("$in_domain", MemoizedFunction(lambda call: check_domain, takes_nulls=True))
register_primitive("$of_length", MemoizedFunction(lambda call: functools.partial(check_length, call.type)))
register_primitive("$with_length", MemoizedFunction(lambda call: show_with_mask))
register_primitive("$same", Opcode("add"))
register_primitive("$relabelled", Composition(lambda call: call.args[0]))
register_primitive("$parse", MemoizedFunction(lambda call: codec_of(call.type).parse))
register_primitive(
    "$format", MemoizedFunction(lambda call: codec_of(call.args[0].type).show, shadow=registry.strict_shadow)
)


def _single_value(types: tuple[Type, ...]) -> Signature | None:
    return Signature(types, types[0]) if len(types) == 1 else None


register_scalar(
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
    Overload(_single_value, Composition(_cast)),
    nulls=NullRule.PROPAGATE,
)
