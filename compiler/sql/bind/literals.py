"""Typed literals for the constants of SQL text, and constant folding at binding.

A quoted string has type UNKNOWN until its context gives it one, as in Postgres. INTERVAL constants are a text
with the fields to which it is restricted.
"""

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.parse.parameters import (
    CONVERTED,
    NEGATED,
    ROUNDED,
    TEXT,
    Beyond,
    Marker,
    opened,
    slot_of,
    then,
)
from kpg.compiler.sql.parse.syntax import only
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    DATE,
    ERROR,
    INTEGER,
    INTERVAL,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    MAX_DECIMAL_PRECISION,
    MAX_WORD,
    NUMERIC,
    TIMESTAMP,
    UNKNOWN,
    VALUE_KINDS,
    Kind,
    Type,
    decimal,
    float_to_word,
    word_to_float,
)
from kpg.runtime.types import TEXT as TEXT_TYPE
from kpg.runtime.values import codec_of, intervals, numeric
from kpg.runtime.values.styles import BINDING, PLAIN, read_otherwise
from kpg.runtime.values.words import BLANKS, FALSE_WORDS, TRUE_WORDS, parse_float, parse_real, parse_whole

EPOCH: Final = date(1970, 1, 1)
DAY_MICROSECONDS: Final = 86_400_000_000
RANGES: Final = {Kind.SMALLINT: 2**15, Kind.INTEGER: 2**31, Kind.BIGINT: 2**63}
INTERVALS: Final = (INTERVAL, INTERVAL_DAY, INTERVAL_MONTH)
COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "is_distinct", "is_not_distinct"})
QUOTED_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
MOST_DIGITS: Final = 100
"""A number with more digits is a NUMERIC: Python reads integers of some thousand digits at most."""
RANGE_HINT: Final = f"a NUMERIC has {numeric.MOST_WHOLE} digits before the point at most"
"""What to say of a number that :func:`number` or :func:`negated` has no value for."""


def number(text: str) -> Literal | None:
    """An unsigned number of the SQL text: INTEGER, BIGINT, DECIMAL, or NUMERIC if it has many digits."""
    if isinstance(text, Marker):
        return opened(text)
    if text.isdigit():
        if len(text) > MOST_DIGITS or int(text) > MAX_WORD:
            return _numeric(Decimal(text))
        whole = int(text)
        return Literal(whole, INTEGER if whole < RANGES[Kind.INTEGER] else BIGINT)
    value = Decimal(text)
    scale = numeric.shown_scale(value)
    digits = max(value.adjusted() + 1 + scale, scale, 1)
    if digits > MAX_DECIMAL_PRECISION:
        return _numeric(value)
    return Literal(int(value.scaleb(scale)), decimal(digits, scale))


def _numeric(value: Decimal) -> Literal | None:
    try:
        return Literal(numeric.encode(numeric.checked(value)), NUMERIC)
    except OverflowError:
        return None


def own_number(scalar: Scalar) -> Literal | None:
    """The number that a quoted constant is, with the places that it is written with; None if it is none."""
    if not isinstance(scalar, Literal) or scalar.type != UNKNOWN or not isinstance(scalar.value, str):
        return None
    if slot_of(scalar) is not None:
        raise Beyond
    text = scalar.value.strip(BLANKS)
    if not QUOTED_NUMBER.fullmatch(text):
        return None
    found = number(text.lstrip("+-"))
    return negated(found) if found is not None and text[0] == "-" else found


def meant(literal: Literal, type_: Type) -> Literal | None:
    """As :func:`from_text`, of a constant that is a quoted string."""
    slot = slot_of(literal)
    return from_text(str(literal.value), type_) if slot is None else then(slot, TEXT, type_)


def from_text(text: str, type_: Type) -> Literal | None:
    """The constant that a quoted string means as a value of ``type_``; None if it does not mean one."""
    try:
        word = _word_of(text, type_)
    except (ValueError, ArithmeticError):
        return None
    return None if word is None else Literal(word, type_)


def _word_of(text: str, type_: Type) -> int | str | None:
    if type_.kind in RANGES:
        return _in_range(parse_whole(text), type_)
    style = BINDING.get()
    if style is not PLAIN and read_otherwise(type_):
        from kpg.runtime.values.style_output import reader_of  # lazy: 15 ms of start-up

        value = reader_of(type_, style)(text)
        return codec_of(type_).encode(value) if type_.kind in VALUE_KINDS else int(value)
    if type_.kind in VALUE_KINDS:
        codec = codec_of(type_)
        return codec.encode(codec.parse(text))
    match type_.kind:
        case Kind.CHAR | Kind.VARCHAR:
            return fit_text(text, type_)
        case Kind.BOOLEAN:
            lowered = text.strip(BLANKS).lower()
            return 1 if lowered in TRUE_WORDS else 0 if lowered in FALSE_WORDS else None
        case Kind.DECIMAL:
            return _scaled(numeric.parse(text), type_)
        case Kind.REAL | Kind.DOUBLE:
            value = parse_real(text) if type_.kind is Kind.REAL else parse_float(text)
            too_large = math.isinf(value) and "inf" not in text.lower()
            return None if too_large else _float(value, type_)
        case Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMPTZ | Kind.TIME | Kind.ENUM | Kind.TID:
            word = codec_of(type_).parse(text)
            return word if isinstance(word, int) else None
        case _:
            return None


def fit_text(text: str, type_: Type) -> str | None:
    """The text as a value of a text type; None if it is too long. In CHAR blanks at the end do not count."""
    text = text.rstrip(" ") if type_.kind is Kind.CHAR else text
    return None if type_.precision and len(text) > type_.precision else text


def _in_range(value: int, type_: Type) -> int | None:
    limit = RANGES[type_.kind]
    return value if -limit <= value < limit and value > ERROR else None


def _scaled(value: Decimal, type_: Type) -> int | None:
    """The word of a decimal, rounded half away from zero; None if it has too many digits."""
    if not value.is_finite() or value.adjusted() > MAX_DECIMAL_PRECISION:
        return None
    word = _whole(value.scaleb(type_.scale, numeric.EXACT))
    return word if abs(word) < 10**type_.precision else None


def convert(literal: Literal, type_: Type) -> Scalar | None:
    """The constant as a value of ``type_``, where that is exact or a string that means one.

    None if the conversion is not this simple: the cast is then left to run time (or is an error, for
    a quoted string).
    """
    value, source = literal.value, literal.type
    if value is None:
        return Literal(None, type_)
    slot = slot_of(literal)
    if slot is not None:
        return then(slot, CONVERTED, type_) if _is_simple(source, type_) else None
    if source == UNKNOWN or (source.is_text and type_.is_text):
        return from_text(str(value), type_)
    if type_.kind is Kind.NUMERIC and isinstance(value, int) and source.is_exact:
        return _as_numeric(_exact(value, source), type_)
    if type_.kind is Kind.NUMERIC and isinstance(value, str) and source.kind is Kind.NUMERIC:
        return _as_numeric(numeric.decode(value), type_)
    if isinstance(value, str) or not source.is_numeric or not type_.is_numeric:
        return None
    exact = _exact(value, source)
    if type_.is_float:
        return _as_float(exact, type_)
    if source.is_float or exact != round(exact, type_.scale):
        return None
    word = _in_range(int(exact), type_) if type_.is_integer else _scaled(exact, type_)
    return None if word is None else Literal(word, type_)


def _is_simple(source: Type, type_: Type) -> bool:
    """Whether constants of a type may be constants of another."""
    if source == UNKNOWN or (source.is_text and type_.is_text):
        return True
    return source.is_numeric and type_.is_numeric and not (source.is_float and not type_.is_float)


def narrowed(args: Sequence[Scalar]) -> list[Scalar]:
    """The sides of a comparison of a DATE with a constant TIMESTAMP: as dates, if that is at midnight."""
    if {arg.type.kind for arg in args} != {Kind.DATE, Kind.TIMESTAMP}:
        return list(args)
    found = [_midnight(arg) if arg.type.kind is Kind.TIMESTAMP else arg for arg in args]
    known = [arg for arg in found if arg is not None]
    return known if len(known) == len(args) else list(args)


def _midnight(scalar: Scalar) -> Literal | None:
    if not isinstance(scalar, Literal) or not isinstance(scalar.value, int):
        return None
    days, rest = divmod(scalar.value, DAY_MICROSECONDS)
    return None if rest else Literal(days, DATE)


def shifted(moment: Literal, distance: Literal, sign: int) -> Literal | None:
    """A constant DATE or TIMESTAMP plus or minus a constant INTERVAL; None if there is none such."""
    if not isinstance(moment.value, int) or not isinstance(distance.value, str):
        return None
    span = intervals.decode(distance.value)
    clock = moment.value * DAY_MICROSECONDS if moment.type == DATE else moment.value
    days, clock = divmod(clock, DAY_MICROSECONDS)
    try:
        start = EPOCH + timedelta(days=days)
        months = start.year * 12 + start.month - 1 + sign * span.months
        first = date(months // 12, months % 12 + 1, 1)
        next_month = date(first.year + first.month // 12, first.month % 12 + 1, 1)
        moved = first.replace(day=min(start.day, (next_month - first).days)) + timedelta(
            days=sign * span.days
        )
        word = (moved - EPOCH).days * DAY_MICROSECONDS + clock + sign * span.microseconds
        EPOCH + timedelta(microseconds=word)
    except (ValueError, OverflowError):
        return None
    return Literal(word, TIMESTAMP)


def _as_numeric(value: Decimal, type_: Type) -> Literal | None:
    try:
        return Literal(numeric.encode(numeric.fitted(type_, value)), type_)
    except ArithmeticError:
        return None


def rounded(literal: Literal, type_: Type) -> Literal | None:
    """An exact number as a value of another exact type, half away from zero; None if it is out of range."""
    slot = slot_of(literal)
    if slot is not None:
        return then(slot, ROUNDED, type_)
    if not isinstance(literal.value, int):
        return Literal(None, type_)
    value = _exact(literal.value, literal.type)
    word = _scaled(value, type_) if type_.kind is Kind.DECIMAL else _in_range(_whole(value), type_)
    return None if word is None else Literal(word, type_)


def _whole(value: Decimal) -> int:
    return int(value.to_integral_value("ROUND_HALF_UP"))


def _float(value: float, type_: Type) -> int:
    """The word of a float, rounded to single precision for REAL; OverflowError if that is too small."""
    if type_.kind is Kind.REAL:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
        if value and not single:
            raise OverflowError
        value = single
    return float_to_word(value)


def _as_float(value: Decimal, type_: Type) -> Literal | None:
    try:
        return Literal(_float(float(value), type_), type_) if value.is_finite() else None
    except OverflowError:
        return None


def _exact(word: int, type_: Type) -> Decimal:
    if type_.is_float:
        return Decimal(word_to_float(word))
    return Decimal(word).scaleb(-type_.scale)


def negated(literal: Literal) -> Literal | None:
    """Minus a numeric or interval constant; None if that is no value."""
    if literal.value is None:
        return literal
    slot = slot_of(literal)
    if slot is not None:
        return then(slot, NEGATED, literal.type)
    if literal.type.kind is Kind.NUMERIC and isinstance(literal.value, str):
        return Literal(numeric.encode(numeric.decode(literal.value).copy_negate()), literal.type)
    if not isinstance(literal.value, int) or not (literal.type.is_numeric or literal.type in INTERVALS):
        return None
    if literal.type.is_float:
        return Literal(float_to_word(-word_to_float(literal.value)), literal.type)
    if -literal.value <= ERROR:
        return _numeric(Decimal(-literal.value)) if literal.type.is_integer else None
    return Literal(-literal.value, literal.type)


def is_true(scalar: Scalar) -> bool:
    """Whether the scalar is the constant TRUE."""
    return isinstance(scalar, Literal) and scalar.value == 1 and scalar.type.kind is Kind.BOOLEAN


def conjuncts(scalar: Scalar) -> tuple[Scalar, ...]:
    """The parts of a conjunction, constant TRUE left out.

    What every arm of a disjunction demands is a part of its own (TPC-H Q19's join condition).
    """
    if isinstance(scalar, Call) and scalar.function == "and":
        return tuple(dict.fromkeys(part for arg in scalar.args for part in conjuncts(arg)))
    if isinstance(scalar, Call) and scalar.function == "or":
        return _factored(scalar)
    return () if is_true(scalar) else (scalar,)


def _factored(disjunction: Call) -> tuple[Scalar, ...]:
    arms = [conjuncts(arm) for arm in disjunction.args]
    common = tuple(part for part in arms[0] if all(part in arm for arm in arms))
    if not common:
        return (disjunction,)
    rests = [tuple(part for part in arm if part not in common) for arm in arms]
    if not all(rests):
        return common
    rest = tuple(parts[0] if len(parts) == 1 else Call("and", parts, disjunction.type) for parts in rests)
    return (*common, Call("or", rest, disjunction.type))


def loose_type(scalar: Scalar) -> Type:
    """The scalar's type, with UNKNOWN for the fields of a row that are written as NULL.

    So a NULL in ``ROW(...)`` takes its type from what the row stands beside.
    """
    if not isinstance(scalar, Call) or scalar.function != "$row":
        return scalar.type
    return replace(scalar.type, parts=tuple(map(_loose_field, scalar.args)))


def _loose_field(scalar: Scalar) -> Type:
    if not isinstance(scalar, Literal):
        return loose_type(scalar)
    missing = scalar.type == TEXT_TYPE and scalar.value is None and slot_of(scalar) is None
    return UNKNOWN if missing else scalar.type


def settled_type(type_: Type) -> Type:
    """The type with TEXT for fields of rows that nothing gave a type."""
    if type_.kind is not Kind.RECORD:
        return type_
    parts = tuple(TEXT_TYPE if part == UNKNOWN else settled_type(part) for part in type_.parts)
    return replace(type_, parts=parts)


def bind_interval(binding: Binding, node: exp.Interval) -> Literal:
    """``INTERVAL 'text' [fields]``; ProgrammingError if the text means none."""
    only(node, binding.source, "this", "unit")
    if not isinstance(node.this, exp.Literal):
        binding.refuse("INTERVAL of anything but a constant", node)
    unit = node.args.get("unit")
    last = ""
    if isinstance(unit, exp.IntervalSpan):
        only(unit, binding.source, "this", "expression")
        last = unit.expression.name.lower()  # which says all: what comes first follows from the text
    elif unit is not None:
        only(unit, binding.source, "this")
        last = unit.name.lower()
    return interval_of(binding, node.this.name, last, node)


def interval_of(binding: Binding, text: str, last: str, node: exp.Expr) -> Literal:
    """The constant that a text means, whose last field is ``last`` if that is not empty."""
    try:
        value = _parsed(text, last)
    except (ValueError, ArithmeticError):
        binding.no_value(f"{text} {last}".rstrip(), INTERVAL, node)
    return Literal(intervals.encode(value), INTERVAL)


def simplified(literal: Literal) -> Literal:
    """An INTERVAL of months only, or of days and times only, as a number of these; else the literal."""
    if literal.type != INTERVAL or not isinstance(literal.value, str):
        return literal
    value = intervals.decode(literal.value)
    if value.months and not value.days and not value.microseconds:
        return Literal(value.months, INTERVAL_MONTH)
    return literal if value.months else Literal(intervals.span(value), INTERVAL_DAY)


def is_negative(literal: Literal) -> bool:
    """Whether an INTERVAL goes backwards."""
    if literal.type != INTERVAL or not isinstance(literal.value, str):
        return isinstance(literal.value, int) and literal.value < 0
    return intervals.span(intervals.decode(literal.value)) < 0


def _parsed(text: str, last: str) -> intervals.Interval:
    if not last:
        return intervals.parse(text)
    value = intervals.parse(text, last)
    return intervals.cut(value, last)
