"""CAST between all sensible pairs of types, built from a few conversions."""

from collections.abc import Callable

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import vectors
from kpg.runtime.functions.dates import DAY
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
from kpg.runtime.values import codec_of, numeric
from kpg.runtime.values.text import limits

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
    if Kind.NUMERIC in (source.kind, target.kind) and source.is_numeric and target.is_numeric:
        fits = source.kind is target.kind and not target.precision
        return x if fits else Call("$numeric", (x,), target)
    if source.is_numeric and target.is_numeric:
        return _number(x, target)
    if target.kind is Kind.BOOLEAN and source.is_integer:
        return Call("ne", (x, Literal(0, source)), BOOLEAN)
    if target.kind is Kind.TIMESTAMP and source.kind is Kind.DATE:
        return Call("$mul", (x, Literal(DAY, INTERVAL_DAY)), target)
    if target.kind is Kind.DATE and source.kind is Kind.TIMESTAMP:
        return Call("$floor_div", (x, Literal(DAY, INTERVAL_DAY)), target)
    return x


def _numeric(call: Call) -> Callable[..., object]:
    """Between NUMERIC and the other numbers, and to fewer digits."""
    source, target = call.args[0].type, call.type
    if source.kind is not Kind.NUMERIC:
        return lambda value: numeric.of_number(value, source, target)
    return lambda value: numeric.to_number(value, target)


primitive("$numeric", Memoized(_numeric))
primitive("$parse", Memoized(lambda call: codec_of(call.type).parse))
primitive("$format", Memoized(lambda call: codec_of(call.args[0].type).show))


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
