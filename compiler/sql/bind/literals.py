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
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.parse.parameters import (
    CONVERT_STEP,
    NEGATE_STEP,
    PARSE_STEP,
    ROUND_STEP,
    Marker,
    NotConstantError,
    add_step,
    slot_literal,
    slot_of,
)
from kpg.compiler.sql.parse.syntax import allow_only
from kpg.runtime.gc_pause import LazyModule
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
from kpg.runtime.values.styles import CURRENT_STYLE, DEFAULT_STYLE, has_style_input
from kpg.runtime.values.words import BLANKS, FALSE_WORDS, TRUE_WORDS, parse_float, parse_integer, parse_real

if TYPE_CHECKING:
    from kpg.runtime.values import style_output
else:
    style_output = LazyModule("kpg.runtime.values.style_output")

EPOCH: Final = date(1970, 1, 1)
DAY_MICROSECONDS: Final = 86_400_000_000
RANGES: Final = {Kind.SMALLINT: 2**15, Kind.INTEGER: 2**31, Kind.BIGINT: 2**63}
INTERVALS: Final = (INTERVAL, INTERVAL_DAY, INTERVAL_MONTH)
COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "is_distinct", "is_not_distinct"})
QUOTED_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
MAX_INTEGER_DIGITS: Final = 100
"""A number with more digits is a NUMERIC: Python limits the digits of integers that it reads."""
RANGE_HINT: Final = f"a NUMERIC has {numeric.MAX_INTEGER_DIGITS} digits before the point at most"
"""Hint for a number that :func:`parse_number` or :func:`negate_literal` cannot represent."""


def parse_number(text: str) -> Literal | None:
    """Return an unsigned number of SQL text as INTEGER, BIGINT, DECIMAL or NUMERIC, by its digits.

    Return None if it is out of range.
    """
    if isinstance(text, Marker):
        return slot_literal(text)
    if text.isdigit():
        if len(text) > MAX_INTEGER_DIGITS or int(text) > MAX_WORD:
            return _numeric_literal(Decimal(text))
        whole = int(text)
        return Literal(whole, INTEGER if whole < RANGES[Kind.INTEGER] else BIGINT)
    value = Decimal(text)
    scale = numeric.display_scale(value)
    digits = max(value.adjusted() + 1 + scale, scale, 1)
    if digits > MAX_DECIMAL_PRECISION:
        return _numeric_literal(value)
    return Literal(int(value.scaleb(scale)), decimal(digits, scale))


def _numeric_literal(value: Decimal) -> Literal | None:
    try:
        return Literal(numeric.encode(numeric.check_range(value)), NUMERIC)
    except OverflowError:
        return None


def parse_quoted_number(scalar: Scalar) -> Literal | None:
    """Return a quoted number with the scale that it is written with; None if it is not a number."""
    if not isinstance(scalar, Literal) or scalar.type != UNKNOWN or not isinstance(scalar.value, str):
        return None
    if slot_of(scalar) is not None:
        raise NotConstantError
    text = scalar.value.strip(BLANKS)
    if not QUOTED_NUMBER.fullmatch(text):
        return None
    found = parse_number(text.lstrip("+-"))
    return negate_literal(found) if found is not None and text[0] == "-" else found


def literal_from_quoted(literal: Literal, type_: Type) -> Literal | None:
    """Return a quoted constant as a value of ``type_``; None if it is not valid input."""
    slot = slot_of(literal)
    return literal_from_text(str(literal.value), type_) if slot is None else add_step(slot, PARSE_STEP, type_)


def literal_from_text(text: str, type_: Type) -> Literal | None:
    """Return text as a value of ``type_``; None if it is not valid input."""
    try:
        word = _read_word(text, type_)
    except (ValueError, ArithmeticError):
        return None
    return None if word is None else Literal(word, type_)


def _read_word(text: str, type_: Type) -> int | str | None:
    if type_.kind in RANGES:
        return _integer_word(parse_integer(text), type_)
    style = CURRENT_STYLE.get()
    if style is not DEFAULT_STYLE and has_style_input(type_):
        value = style_output.reader_of(type_, style)(text)
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
            return _decimal_word(numeric.parse(text), type_)
        case Kind.REAL | Kind.DOUBLE:
            value = parse_real(text) if type_.kind is Kind.REAL else parse_float(text)
            too_large = math.isinf(value) and "inf" not in text.lower()
            return None if too_large else _float_word(value, type_)
        case (
            Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMPTZ | Kind.TIME | Kind.ENUM | Kind.TID | Kind.EXTENSION
        ):
            word = codec_of(type_).parse(text)
            return word if isinstance(word, int) else None
        case _:
            return None


def fit_text(text: str, type_: Type) -> str | None:
    """Return text as a value of a text type; None if it is too long. CHAR ignores trailing blanks."""
    text = text.rstrip(" ") if type_.kind is Kind.CHAR else text
    return None if type_.precision and len(text) > type_.precision else text


def _integer_word(value: int, type_: Type) -> int | None:
    limit = RANGES[type_.kind]
    return value if -limit <= value < limit and value > ERROR else None


def _decimal_word(value: Decimal, type_: Type) -> int | None:
    """Return the word of a decimal, rounded half away from zero; None if it has too many digits."""
    if not value.is_finite() or value.adjusted() > MAX_DECIMAL_PRECISION:
        return None
    word = _round_half_up(value.scaleb(type_.scale, numeric.EXACT))
    return word if abs(word) < 10**type_.precision else None


def convert(literal: Literal, type_: Type) -> Scalar | None:
    """Return the constant as a value of ``type_`` if the conversion is exact or reads a string.

    Return None otherwise: the cast then runs at run time, or is an error for a quoted string.
    """
    value, source = literal.value, literal.type
    if value is None:
        return Literal(None, type_)
    slot = slot_of(literal)
    if slot is not None:
        return add_step(slot, CONVERT_STEP, type_) if _converts_parameters(source, type_) else None
    if source == UNKNOWN or (source.is_text and type_.is_text):
        return literal_from_text(str(value), type_)
    if type_.kind is Kind.NUMERIC and isinstance(value, int) and source.is_exact:
        return _fit_numeric(_exact(value, source), type_)
    if type_.kind is Kind.NUMERIC and isinstance(value, str) and source.kind is Kind.NUMERIC:
        return _fit_numeric(numeric.decode(value), type_)
    if isinstance(value, str) or not source.is_numeric or not type_.is_numeric:
        return None
    exact = _exact(value, source)
    if type_.is_float:
        return _as_float(exact, type_)
    if source.is_float or exact != round(exact, type_.scale):
        return None
    word = _integer_word(int(exact), type_) if type_.is_integer else _decimal_word(exact, type_)
    return None if word is None else Literal(word, type_)


def _converts_parameters(source: Type, type_: Type) -> bool:
    """Return whether parameters of a cached plan convert between the types."""
    if source == UNKNOWN or (source.is_text and type_.is_text):
        return True
    return source.is_numeric and type_.is_numeric and not (source.is_float and not type_.is_float)


def compare_as_dates(args: Sequence[Scalar]) -> list[Scalar]:
    """Convert a constant TIMESTAMP at midnight to a DATE if it is compared with a DATE."""
    if {arg.type.kind for arg in args} != {Kind.DATE, Kind.TIMESTAMP}:
        return list(args)
    found = [_date_at_midnight(arg) if arg.type.kind is Kind.TIMESTAMP else arg for arg in args]
    known = [arg for arg in found if arg is not None]
    return known if len(known) == len(args) else list(args)


def _date_at_midnight(scalar: Scalar) -> Literal | None:
    if not isinstance(scalar, Literal) or not isinstance(scalar.value, int):
        return None
    days, rest = divmod(scalar.value, DAY_MICROSECONDS)
    return None if rest else Literal(days, DATE)


def shift_datetime(moment: Literal, distance: Literal, sign: int) -> Literal | None:
    """Return a constant DATE or TIMESTAMP plus or minus a constant INTERVAL; None if out of range."""
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


def _fit_numeric(value: Decimal, type_: Type) -> Literal | None:
    try:
        return Literal(numeric.encode(numeric.fit_precision(type_, value)), type_)
    except ArithmeticError:
        return None


def round_literal(literal: Literal, type_: Type) -> Literal | None:
    """Round an exact number to another exact type, half away from zero; None if out of range."""
    slot = slot_of(literal)
    if slot is not None:
        return add_step(slot, ROUND_STEP, type_)
    if not isinstance(literal.value, int):
        return Literal(None, type_)
    value = _exact(literal.value, literal.type)
    word = (
        _decimal_word(value, type_)
        if type_.kind is Kind.DECIMAL
        else _integer_word(_round_half_up(value), type_)
    )
    return None if word is None else Literal(word, type_)


def _round_half_up(value: Decimal) -> int:
    return int(value.to_integral_value("ROUND_HALF_UP"))


def _float_word(value: float, type_: Type) -> int:
    """Return the word of a float, rounded to single precision for REAL.

    Raises OverflowError if a value that is not zero rounds to zero.
    """
    if type_.kind is Kind.REAL:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
        if value and not single:
            raise OverflowError
        value = single
    return float_to_word(value)


def _as_float(value: Decimal, type_: Type) -> Literal | None:
    try:
        return Literal(_float_word(float(value), type_), type_) if value.is_finite() else None
    except OverflowError:
        return None


def _exact(word: int, type_: Type) -> Decimal:
    if type_.is_float:
        return Decimal(word_to_float(word))
    return Decimal(word).scaleb(-type_.scale)


def negate_literal(literal: Literal) -> Literal | None:
    """Return the negative of a numeric or interval constant; None if it is out of range."""
    if literal.value is None:
        return literal
    slot = slot_of(literal)
    if slot is not None:
        return add_step(slot, NEGATE_STEP, literal.type)
    if literal.type.kind is Kind.NUMERIC and isinstance(literal.value, str):
        return Literal(numeric.encode(numeric.decode(literal.value).copy_negate()), literal.type)
    if not isinstance(literal.value, int) or not (literal.type.is_numeric or literal.type in INTERVALS):
        return None
    if literal.type.is_float:
        return Literal(float_to_word(-word_to_float(literal.value)), literal.type)
    if -literal.value <= ERROR:
        return _numeric_literal(Decimal(-literal.value)) if literal.type.is_integer else None
    return Literal(-literal.value, literal.type)


def is_true(scalar: Scalar) -> bool:
    """Return whether the scalar is the constant TRUE."""
    return isinstance(scalar, Literal) and scalar.value == 1 and scalar.type.kind is Kind.BOOLEAN


def conjuncts(scalar: Scalar) -> tuple[Scalar, ...]:
    """Return the conjuncts of a condition, without constant TRUE.

    A condition in all arms of a disjunction is a conjunct of its own (TPC-H Q19's join condition).
    """
    if isinstance(scalar, Call) and scalar.function == "and":
        return tuple(dict.fromkeys(part for arg in scalar.args for part in conjuncts(arg)))
    if isinstance(scalar, Call) and scalar.function == "or":
        return _factor_disjunction(scalar)
    return () if is_true(scalar) else (scalar,)


def _factor_disjunction(disjunction: Call) -> tuple[Scalar, ...]:
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
    """Return the scalar's type, with UNKNOWN for fields of a row that are written as NULL.

    A NULL in ``ROW(...)`` then takes its type from the value that the row is combined with.
    """
    if not isinstance(scalar, Call) or scalar.function != "$row":
        return scalar.type
    return replace(scalar.type, parts=tuple(map(_loose_field, scalar.args)))


def _loose_field(scalar: Scalar) -> Type:
    if not isinstance(scalar, Literal):
        return loose_type(scalar)
    missing = scalar.type == TEXT_TYPE and scalar.value is None and slot_of(scalar) is None
    return UNKNOWN if missing else scalar.type


def default_fields_to_text(type_: Type) -> Type:
    """Return the type with TEXT for the UNKNOWN fields of rows."""
    if type_.kind is not Kind.RECORD:
        return type_
    parts = tuple(TEXT_TYPE if part == UNKNOWN else default_fields_to_text(part) for part in type_.parts)
    return replace(type_, parts=parts)


def bind_interval(binding: Binding, node: exp.Interval) -> Literal:
    """Bind ``INTERVAL 'text' [fields]``.

    Raises:
        ProgrammingError: The text is not a valid interval.
    """
    allow_only(node, binding.source, "this", "unit")
    if not isinstance(node.this, exp.Literal):
        binding.refuse("INTERVAL with an expression that is not a constant", node)
    unit = node.args.get("unit")
    last = ""
    if isinstance(unit, exp.IntervalSpan):
        allow_only(unit, binding.source, "this", "expression")
        last = unit.expression.name.lower()  # the text determines the first field
    elif unit is not None:
        allow_only(unit, binding.source, "this")
        last = unit.name.lower()
    return interval_literal(binding, node.this.name, last, node)


def interval_literal(binding: Binding, text: str, last: str, node: exp.Expr) -> Literal:
    """Return the INTERVAL constant of a text, truncated to the field ``last`` unless that is empty."""
    try:
        value = _parse_interval(text, last)
    except (ValueError, ArithmeticError):
        binding.fail_invalid_input(f"{text} {last}".rstrip(), INTERVAL, node)
    return Literal(intervals.encode(value), INTERVAL)


def simplify_interval(literal: Literal) -> Literal:
    """Return an INTERVAL of months only, or without months, as a number of months or microseconds.

    Return other literals unchanged.
    """
    if literal.type != INTERVAL or not isinstance(literal.value, str):
        return literal
    value = intervals.decode(literal.value)
    if value.months and not value.days and not value.microseconds:
        return Literal(value.months, INTERVAL_MONTH)
    return literal if value.months else Literal(intervals.duration(value), INTERVAL_DAY)


def is_negative(literal: Literal) -> bool:
    """Return whether a number or INTERVAL is negative."""
    if literal.type != INTERVAL or not isinstance(literal.value, str):
        return isinstance(literal.value, int) and literal.value < 0
    return intervals.duration(intervals.decode(literal.value)) < 0


def _parse_interval(text: str, last: str) -> intervals.Interval:
    if not last:
        return intervals.parse(text)
    value = intervals.parse(text, last)
    return intervals.truncate(value, last)
