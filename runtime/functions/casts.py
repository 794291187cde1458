"""CAST between all sensible pairs of types, built from a few conversions."""

import functools
from collections.abc import Callable, Sequence

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import shadows, vectors
from kpg.runtime.functions.dates import DAY
from kpg.runtime.functions.infinite import end_of, unless_infinite
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
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    NUMERIC_KINDS,
    TEXT,
    Kind,
    Type,
    same_words,
)
from kpg.runtime.values import codec_of, conversions, numeric
from kpg.runtime.values.text import limits

TEXT_SOURCES = frozenset(Kind) - {Kind.ROWID, Kind.NULL}
DATED = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
BETWEEN = frozenset(
    {(source, target) for source in DATED for target in DATED}
    | {(source, Kind.TIME) for source in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL)}
    | {(source, Kind.INTERVAL) for source in (Kind.TIME, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)}
    | {(Kind.JSON, Kind.JSONB), (Kind.JSONB, Kind.JSON)}
    | {(Kind.JSONB, target) for target in (*NUMERIC_KINDS, Kind.BOOLEAN)}
    | conversions.PAIRS
)
"""Casts that are not between numbers, nor from or to text."""


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
    if source.parts or target.parts:
        return _parts_castable(source, target)
    if source.kind in (target.kind, Kind.NULL) or (source.is_numeric and target.is_numeric):
        return True
    if source.is_text:
        return target.kind not in (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH, Kind.ROWID)
    if target.is_text:
        return source.kind in TEXT_SOURCES
    if (source.kind, target.kind) in BETWEEN:
        return True
    kinds = {source.kind, target.kind}
    return Kind.BOOLEAN in kinds and (source.is_integer or target.is_integer)


def _parts_castable(source: Type, target: Type) -> bool:
    """Arrays and rows are cast by their elements and fields, and from and to text as a whole."""
    if source.kind is Kind.NULL or source.is_text or target.is_text:
        return True
    if Kind.RANGE in (source.kind, target.kind):
        return source.parts == target.parts and (source.kind, target.kind) in conversions.RANGED
    if source.kind is not target.kind or len(source.parts) != len(target.parts):
        return False
    return all(map(castable, source.parts, target.parts))


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


def _text(x: Scalar, target: Type) -> Scalar:
    """As text, cut to the length of the type; CHAR is kept without its blanks."""
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
    if not castable(source, target):
        raise ProgrammingError(f"cannot cast {source} to {target}")
    if source.kind is Kind.NULL:
        return Literal(None, target)
    if target.is_text:
        return _text(x, target)
    if source.is_text:
        if source.is_padded and target.kind is Kind.BYTEA:
            x = Call("rpad", (x, Literal(source.precision, INTEGER)), TEXT)
        return Call("$parse", (x,), target)
    if Kind.NUMERIC in (source.kind, target.kind) and source.is_numeric and target.is_numeric:
        fits = source.kind is target.kind and not target.precision
        return x if fits else Call("$numeric", (x,), target)
    if source.is_numeric and target.is_numeric:
        return _number(x, target)
    if target.kind is Kind.BOOLEAN and source.is_integer:
        return Call("ne", (x, Literal(0, source)), BOOLEAN)
    if (source.kind, target.kind) in conversions.PAIRS:
        return Call("$convert", (x,), target)
    if source.kind in DATED and target.kind in DATED:
        return _moment(x, target)
    if source.parts or Kind.JSONB in (source.kind, target.kind):
        same = same_words(source, target) and not (target.limits_length and source != target)
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


def _moment(x: Scalar, target: Type) -> Scalar:
    """Between dates and times, with and without a time zone, which is UTC."""
    source = x.type
    if source.kind is Kind.DATE and target.kind is not Kind.DATE:
        moved = Call("$mul", (x, Literal(DAY, INTERVAL_DAY)), target)
        return unless_infinite(x, end_of(x, target), moved)
    if target.kind is Kind.DATE and source.kind is not Kind.DATE:
        day = Call("$floor_div", (x, Literal(DAY, INTERVAL_DAY)), target)
        return unless_infinite(x, end_of(x, target), day)
    return x if source.kind is target.kind else Call("$relabelled", (x,), target)


def _numeric(call: Call) -> Callable[..., object]:
    """Between NUMERIC and the other numbers, and to fewer digits."""
    source, target = call.args[0].type, call.type
    if source.kind is not Kind.NUMERIC:
        return lambda value: numeric.of_number(value, source, target)
    return lambda value: numeric.to_number(value, target)


def _numeric_units(call: Call) -> Callable[[object], object] | None:
    """To NUMERIC of any number of digits: the same."""
    return (lambda value: value) if call.type.kind is Kind.NUMERIC and not call.type.precision else None


def _as_numeric(call: Call, args: Sequence[shadows.Shadow]) -> shadows.Shadow | None:
    """What is known of an exact number as a NUMERIC of any number of digits."""
    exact = call.args[0].type.is_exact and call.type.kind is Kind.NUMERIC and not call.type.precision
    return shadows.same(call, args) if exact else None


primitive("$numeric", Memoized(_numeric, units=_numeric_units, shadow=_as_numeric))
primitive("$convert", Memoized(lambda call: conversions.between(call.args[0].type, call.type)))
primitive("$to_field", Memoized(lambda call: conversions.to_field))
primitive("$to_digits", Memoized(lambda call: functools.partial(conversions.to_digits, call.type)))
primitive("$in_domain", Memoized(lambda call: conversions.in_domain, takes_nulls=True))
primitive("$of_length", Memoized(lambda call: functools.partial(conversions.of_length, call.type)))
primitive("$with_length", Memoized(lambda call: conversions.with_length))
primitive("$same", Opcode("add"))
primitive("$relabelled", Composition(lambda call: call.args[0]))
primitive("$parse", Memoized(lambda call: codec_of(call.type).parse))
primitive("$format", Memoized(lambda call: codec_of(call.args[0].type).show, shadow=shadows.strict))


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
