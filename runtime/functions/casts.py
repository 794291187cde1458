"""CAST between types, composed from a few conversions; also of the parts of arrays, rows and JSON."""

import functools
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import arithmetic, registry
from kpg.runtime.functions.date_time.dates import DAY, end_of, unless_infinite
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
    same_words,
)
from kpg.runtime.values import codec_of, intervals, numeric
from kpg.runtime.values.codec import stripped
from kpg.runtime.values.jsons import Json
from kpg.runtime.values.words import DAY as WORDS_DAY
from kpg.runtime.values.words import is_infinite, limits

Convert = Callable[[Any], Any]
MILLENNIUM: Final = 10_957 * WORDS_DAY
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
        return lambda value: _conversions_number(value, source, target)
    if source == target or (same_words(source, target) and not target.precision):
        return lambda value: value
    read, write = codec_of(target).parse, codec_of(source).show
    if target.is_text and target.precision:
        strip = stripped if target.kind is Kind.CHAR else str
        return lambda value: strip(write(value)[: target.precision])
    return lambda value: read(write(value))


def _conversions_number(value: Any, source: Type, target: Type) -> Any:
    exact = value if isinstance(value, Decimal) else numeric.of_number(value, source, NUMERIC)
    number = numeric.to_number(exact, target)
    low, high = limits(target) if isinstance(number, int) else (0, 0)
    if isinstance(number, int) and not low <= number <= high:
        raise OverflowError("numeric field overflow")
    return number


def _spelled(source: Type, target: Type) -> Convert:
    from kpg.runtime.values import byte_strings, networks  # lazy: few programs have such values

    match source.kind, target.kind:
        case ((Kind.BIT | Kind.VARBIT), (Kind.BIT | Kind.VARBIT)):
            return lambda value: byte_strings.fitted(value, target)
        case ((Kind.BIT | Kind.VARBIT), _):
            width = 32 if target.kind is Kind.INTEGER else 64
            return lambda value: byte_strings.number(value, width)
        case _, Kind.BIT:
            return lambda value: byte_strings.of_number(value, target.precision or 1)
        case Kind.INET, Kind.CIDR:
            return lambda value: value._replace(bits=value.bits & ~value.hosts)
        case Kind.MACADDR, Kind.MACADDR8:
            return networks.wide_mac
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
    from kpg.runtime.values import networks  # lazy: few programs have such values

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


TEXT_SOURCES = frozenset(Kind) - {Kind.ROWID, Kind.NULL}
DATED = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
BETWEEN = frozenset(
    {(source, target) for source in DATED for target in DATED}
    | {(source, Kind.TIME) for source in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL)}
    | {(source, Kind.INTERVAL) for source in (Kind.TIME, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)}
    | {(Kind.JSON, Kind.JSONB), (Kind.JSONB, Kind.JSON)}
    | {(Kind.JSONB, target) for target in (*NUMERIC_KINDS, Kind.BOOLEAN)}
    | PAIRS
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
primitive("$to_real", Vector(lambda call: arithmetic.to_real))


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
        return source.parts == target.parts and (source.kind, target.kind) in RANGED
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
    if (source.kind, target.kind) in PAIRS:
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


def _as_numeric(call: Call, args: Sequence[registry.Shadow]) -> registry.Shadow | None:
    """What is known of an exact number as a NUMERIC of any number of digits."""
    exact = call.args[0].type.is_exact and call.type.kind is Kind.NUMERIC and not call.type.precision
    return registry.same(call, args) if exact else None


primitive("$numeric", Memoized(_numeric, units=_numeric_units, shadow=_as_numeric))
primitive("$convert", Memoized(lambda call: between(call.args[0].type, call.type)))
primitive("$to_field", Memoized(lambda call: to_field))
primitive("$to_digits", Memoized(lambda call: functools.partial(to_digits, call.type)))
primitive("$in_domain", Memoized(lambda call: in_domain, takes_nulls=True))
primitive("$of_length", Memoized(lambda call: functools.partial(of_length, call.type)))
primitive("$with_length", Memoized(lambda call: with_length))
primitive("$same", Opcode("add"))
primitive("$relabelled", Composition(lambda call: call.args[0]))
primitive("$parse", Memoized(lambda call: codec_of(call.type).parse))
primitive("$format", Memoized(lambda call: codec_of(call.args[0].type).show, shadow=registry.strict))


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
