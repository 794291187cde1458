"""Comparisons, NULL tests, three-valued logic, conditional functions, and ORDER BY keys.

* Loose types: some equal values look different (1.0 and 1.00, a month and 30 days). Comparisons,
  groups, DISTINCT, orders and joins use :func:`equality_key`, which maps equal values to one value.
  Results show the value itself.
* A NUMERIC compared with an integer or DECIMAL is rounded to the nearest word below or above
  (:func:`round_comparands`). So comparisons work on words, in index order: ``price > average`` holds
  for prices above the average rounded down to the scale of price.
* ORDER BY keys are words whose int64 order is the order of SQL.
"""

import decimal
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from kpg.runtime.functions import registry
from kpg.runtime.functions.date_time import dates
from kpg.runtime.functions.registry import (
    Composition,
    Membership,
    MemoizedFunction,
    NullRule,
    Opcode,
    Overload,
    Rule,
    Signature,
    register_primitive,
    register_scalar,
)
from kpg.runtime.functions.type_rules import (
    any_type,
    common_type,
    is_interned,
    is_not_interned,
    is_unknown,
    same_type_rule,
)
from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    MAX_DECIMAL_PRECISION,
    MIN_WORD,
    NUMERIC,
    Kind,
    Type,
    is_loose,
)
from kpg.runtime.types import decimal as decimal_type
from kpg.runtime.values import codec_of, intervals, jsons, numeric
from kpg.runtime.values.words import limits

ROUNDING_FUNCTIONS: Final = {"gt": "$below", "le": "$below", "ge": "$above", "lt": "$above"}
"""Function that rounds a NUMERIC on the right of a comparison with a word on the left."""
COMMUTED: Final = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}


def round_comparands(comparison: str, args: Sequence[Scalar]) -> list[Scalar]:
    """Return the sides of a comparison, with a NUMERIC compared to an exact type rounded to its words."""
    if comparison not in ROUNDING_FUNCTIONS or len(args) != 2:
        return list(args)
    left, right = args
    if left.type.is_exact and right.type.kind is Kind.NUMERIC:
        return [left, _round_to_word(ROUNDING_FUNCTIONS[comparison], right, left.type)]
    if right.type.is_exact and left.type.kind is Kind.NUMERIC:
        return [_round_to_word(ROUNDING_FUNCTIONS[COMMUTED[comparison]], left, right.type), right]
    return list(args)


def _round_to_word(function: str, value: Scalar, other_type: Type) -> Scalar:
    type_ = BIGINT if other_type.is_integer else decimal_type(MAX_DECIMAL_PRECISION, other_type.scale)
    if isinstance(value, Literal) and isinstance(value.value, str):
        return Literal(_word_rounder(function, type_)(numeric.decode(value.value)), type_)
    return Call(function, (value,), type_)


def _word_rounder(function: str, type_: Type) -> Callable[[Decimal], int]:
    """Return a function to the nearest word of a type. Values out of range give the first or last word."""
    rounding = decimal.ROUND_FLOOR if function == "$below" else decimal.ROUND_CEILING
    low, high = _bound_limits(type_)

    def convert(value: Decimal) -> int:
        if value.is_nan():
            return high
        if not value.is_finite() or value.adjusted() > MAX_DECIMAL_PRECISION + 1:
            return high if value > 0 else low
        word = int(value.scaleb(type_.scale, numeric.EXACT).to_integral_value(rounding, numeric.EXACT))
        return min(max(word, low), high)

    return convert


def _bound_limits(type_: Type) -> tuple[int, int]:
    """Return the first and last word of a bound. Memos store no lowest word."""
    low, high = limits(type_)
    return max(low, MIN_WORD + 1), high


def _units_rounder(function: str, type_: Type) -> Callable[[tuple[int, int]], int]:
    """Like :func:`_word_rounder`, for a number as scaled integer."""
    low, high = _bound_limits(type_)

    def convert(value: tuple[int, int]) -> int:
        units, places = value
        multiplier, divisor = 10 ** max(type_.scale - places, 0), 10 ** max(places - type_.scale, 0)
        word = units * multiplier // divisor if function == "$below" else -(-units * multiplier // divisor)
        return min(max(word, low), high)

    return convert


for _name in ("$below", "$above"):
    register_primitive(
        _name,
        MemoizedFunction(
            lambda call: _word_rounder(call.function, call.type),
            build_units=lambda call: _units_rounder(call.function, call.type),
            shadow=registry.strict_shadow,
        ),
    )


ZERO = Literal(0, INTEGER)

register_primitive("$text_compare", Opcode("text_compare"))


def _swap_operands(name: str) -> Composition:
    return Composition(lambda call: Call(name, (call.args[1], call.args[0]), BOOLEAN))


def _text_comparison(name: str) -> Composition:
    """Compare the bytes of two strings, then the outcome with 0."""

    def build(call: Call) -> Scalar:
        return Call(name, (Call("$text_compare", call.args, INTEGER), ZERO), BOOLEAN)

    return Composition(build)


_any_pair = same_type_rule(any_type, at_least=2, at_most=2, result=BOOLEAN)
_text_pair = same_type_rule(is_interned, at_least=2, at_most=2, result=BOOLEAN)
_other_pair = same_type_rule(is_not_interned, at_least=2, at_most=2, result=BOOLEAN)
_single_value = same_type_rule(any_type, result=BOOLEAN)
_PAIR = "two values of comparable types"


def _interval_overload(name: str) -> Overload:
    """Return an overload that compares intervals by length, since different intervals can be equal."""
    build = Composition(lambda call: Call(name, dates.interval_lengths(call.args), BOOLEAN))
    return Overload(dates.interval_comparison, build)


register_scalar(
    "eq",
    _PAIR,
    "Equal.",
    {"1 = 1.0": "TRUE", "'a' = 'b'": "FALSE"},
    _interval_overload("eq"),
    Overload(_any_pair, Opcode("eq")),
)
register_scalar(
    "ne",
    _PAIR,
    "Not equal.",
    {"1 <> 2": "TRUE", "1 <> NULL": "NULL"},
    _interval_overload("ne"),
    Overload(_any_pair, Opcode("ne")),
)
register_scalar(
    "lt",
    _PAIR,
    "Less; text by the bytes of its UTF-8.",
    {"1 < 1.5": "TRUE", "'abc' < 'abd'": "TRUE", "'Z' < 'a'": "TRUE"},
    _interval_overload("lt"),
    Overload(_text_pair, _text_comparison("lt")),
    Overload(_other_pair, Opcode("lt")),
)
register_scalar(
    "le",
    _PAIR,
    "Less or equal.",
    {"2 <= 2": "TRUE", "DATE '1998-01-02' <= DATE '1998-01-01'": "FALSE"},
    _interval_overload("le"),
    Overload(_text_pair, _text_comparison("le")),
    Overload(_other_pair, Opcode("le")),
)
register_scalar(
    "gt",
    _PAIR,
    "Greater.",
    {"2 > 1": "TRUE", "'a' > 'ab'": "FALSE"},
    Overload(_any_pair, _swap_operands("lt")),
)
register_scalar(
    "ge",
    _PAIR,
    "Greater or equal.",
    {"0.06 >= 0.05": "TRUE", "NULL >= 1": "NULL"},
    Overload(_any_pair, _swap_operands("le")),
)
register_scalar(
    "is_distinct",
    _PAIR,
    "Different, where NULL equals NULL.",
    {"1 IS DISTINCT FROM NULL": "TRUE", "NULL IS DISTINCT FROM NULL": "FALSE"},
    _interval_overload("is_distinct"),
    Overload(_any_pair, Opcode("distinct")),
    nulls=NullRule.CALLED_ON_NULL,
)
register_scalar(
    "is_not_distinct",
    _PAIR,
    "Equal, where NULL equals NULL.",
    {"1 IS NOT DISTINCT FROM 1": "TRUE", "1 IS NOT DISTINCT FROM NULL": "FALSE"},
    Overload(
        _any_pair,
        Composition(lambda call: Call("not", (Call("is_distinct", call.args, BOOLEAN),), BOOLEAN)),
    ),
    nulls=NullRule.CALLED_ON_NULL,
)
register_scalar(
    "is_null",
    "a value",
    "Whether the value is NULL.",
    {"NULL IS NULL": "TRUE", "1 IS NULL": "FALSE"},
    Overload(_single_value, Opcode("is_null")),
    nulls=NullRule.CALLED_ON_NULL,
)
register_scalar(
    "is_not_null",
    "a value",
    "Whether the value is not NULL.",
    {"NULL IS NOT NULL": "FALSE", "'' IS NOT NULL": "TRUE"},
    Overload(
        _single_value, Composition(lambda call: Call("not", (Call("is_null", call.args, BOOLEAN),), BOOLEAN))
    ),
    nulls=NullRule.CALLED_ON_NULL,
)


def _membership(call: Call) -> Scalar:
    first, *items = call.args
    if all(isinstance(item, Literal) for item in items):
        return Call("$in", call.args, BOOLEAN)
    return Call("or", tuple(Call("eq", (first, item), BOOLEAN) for item in items), BOOLEAN)


register_primitive("$in", Membership())

register_scalar(
    "in",
    "a value and a list of values of its type",
    "Whether the first is among the others; NULL instead of false if one of them is NULL.",
    {"2 IN (1, 2, 3)": "TRUE", "4 IN (1, NULL)": "NULL", "'a' IN ('b', 'c')": "FALSE"},
    Overload(same_type_rule(any_type, at_least=1, at_most=10**9, result=BOOLEAN), Composition(_membership)),
    nulls=NullRule.CALLED_ON_NULL,
)


Normalizer = Callable[[Any], Any]


def equality_key(scalar: Scalar) -> Scalar:
    """Return a scalar that is equal for equal values of a loose type. Other scalars stay as they are."""
    if not is_loose(scalar.type) or (isinstance(scalar, Call) and scalar.function == "$key"):
        return scalar
    if isinstance(scalar, Literal) and scalar.value is None:
        return scalar
    if isinstance(scalar, Literal) and isinstance(scalar.value, str):
        codec = codec_of(scalar.type)
        return Literal(codec.encode(_normalizer(scalar.type)(codec.decode(scalar.value))), scalar.type)
    plain = isinstance(scalar, Call) and scalar.function == "cast" and scalar.type == NUMERIC
    if plain and isinstance(scalar, Call) and scalar.args[0].type.is_exact:
        return Call("$key", scalar.args, NUMERIC)
    return Call("$key", (scalar,), scalar.type)


def sort_key_of(type_: Type) -> Callable[[Any], Any]:
    """Return a function from a value to a key that compares as the values of the type do."""
    return intervals.duration if type_.kind is Kind.INTERVAL else codec_of(type_).encode


def equality_key_encoder(type_: Type) -> Callable[[str], str]:
    """Return a function from the encoded string of a value to that of its equality key."""
    codec, form = codec_of(type_), _normalizer(type_)
    return lambda string: codec.encode(form(codec.decode(string)))


def _normalizer(type_: Type) -> Normalizer:
    """Return a function from a value to the representative of all equal values."""
    match type_.kind:
        case Kind.NUMERIC:
            return numeric.strip_zeros
        case Kind.INTERVAL:
            return lambda value: intervals.Interval(0, 0, intervals.duration(value))
        case Kind.JSONB:
            return lambda value: jsons.Json(_normalize_json(value.value))
        case Kind.ARRAY:
            item = _keep_none(_normalizer(type_.parts[0]))
            return lambda value: value._replace(items=tuple(map(item, value.items)))
        case Kind.RANGE | Kind.MULTIRANGE:
            from kpg.runtime.values import ranges  # lazy: few programs have such values

            bound = _normalizer(type_.parts[0])
            return lambda value: ranges.map_bounds(value, bound)
        case Kind.RECORD:
            fields = [_keep_none(_normalizer(part)) for part in type_.parts]
            return lambda value: tuple(form(one) for form, one in zip(fields, value, strict=True))
        case _:
            return lambda value: value


def _keep_none(normalize: Normalizer) -> Normalizer:
    return lambda value: None if value is None else normalize(value)


def _normalize_json(value: Any) -> Any:

    match value:
        case Decimal():
            return numeric.strip_zeros(value)
        case list():
            return list(map(_normalize_json, value))
        case dict():
            return {name: _normalize_json(inner) for name, inner in value.items()}
        case _:
            return value


def _call_normalizer(call: Call) -> Normalizer:
    source = call.args[0].type
    normalize = _normalizer(call.type)
    if not source.is_exact:
        return normalize

    return lambda value: normalize(numeric.from_number(value, source, call.type))


register_primitive("$key", MemoizedFunction(_call_normalizer))


UNLIMITED = 10**9
"""Number of arguments that stands for no limit."""


def _boolean_arguments(types: tuple[Type, ...]) -> Signature | None:
    if all(type_.kind in (Kind.BOOLEAN, Kind.NULL) for type_ in types):
        return Signature((BOOLEAN,) * len(types), BOOLEAN)
    return None


def _single_boolean(types: tuple[Type, ...]) -> Signature | None:
    return _boolean_arguments(types) if len(types) == 1 else None


register_scalar(
    "and",
    "conditions",
    "False if one is false, else NULL if one is NULL, else true; a false one makes up for an error.",
    {"TRUE AND NULL": "NULL", "FALSE AND NULL": "FALSE", "TRUE AND TRUE": "TRUE"},
    Overload(_boolean_arguments, Opcode("and", fold=True)),
    nulls=NullRule.CALLED_ON_NULL,
)
register_scalar(
    "or",
    "conditions",
    "True if one is true, else NULL if one is NULL, else false; a true one makes up for an error.",
    {"TRUE OR NULL": "TRUE", "FALSE OR NULL": "NULL", "FALSE OR FALSE": "FALSE"},
    Overload(_boolean_arguments, Opcode("or", fold=True)),
    nulls=NullRule.CALLED_ON_NULL,
)
register_scalar(
    "not", "a condition", "Negation.", {"NOT TRUE": "FALSE"}, Overload(_single_boolean, Opcode("not"))
)


def _null_to_false(value: Scalar) -> Scalar:
    return Call("coalesce", (value, Literal(0, BOOLEAN)), BOOLEAN)


register_scalar(
    "is_true",
    "a condition",
    "Whether the condition is true (neither false nor NULL).",
    {"(1 < 2) IS TRUE": "TRUE", "CAST(NULL AS BOOLEAN) IS TRUE": "FALSE"},
    Overload(_single_boolean, Composition(lambda call: _null_to_false(call.args[0]))),
    nulls=NullRule.CALLED_ON_NULL,
)
register_scalar(
    "is_false",
    "a condition",
    "Whether the condition is false (neither true nor NULL).",
    {"(1 > 2) IS FALSE": "TRUE", "CAST(NULL AS BOOLEAN) IS FALSE": "FALSE"},
    Overload(_single_boolean, Composition(lambda call: _null_to_false(Call("not", call.args, BOOLEAN)))),
    nulls=NullRule.CALLED_ON_NULL,
)

register_primitive("$coalesce", Opcode("coalesce"))


def _coalesce(call: Call) -> Scalar:
    """Nest ``If`` calls, so that an error in a later argument does not matter after a non-NULL one."""

    def choose(rest: Scalar, value: Scalar) -> Scalar:
        if isinstance(rest, Literal):
            return Call("$coalesce", (value, rest), call.type)
        return If(Call("is_null", (value,), BOOLEAN), rest, value, call.type)

    return reduce(choose, reversed(call.args))


_same_types = same_type_rule(any_type, at_most=UNLIMITED)
_VALUES = "values of one type"

register_scalar(
    "coalesce",
    _VALUES,
    "The first that is not NULL.",
    {"coalesce(NULL, 2, 1)": "2", "coalesce(1, 2)": "1", "coalesce('a', 'b')": "'a'"},
    Overload(_same_types, Composition(_coalesce)),
    nulls=NullRule.CALLED_ON_NULL,
)


def _extreme(comparison: str) -> Composition:
    def choose(left: Scalar, right: Scalar) -> Scalar:
        right_wins = Call(comparison, (equality_key(left), equality_key(right)), BOOLEAN)
        best = If(right_wins, right, left, left.type)
        return If(Call("is_null", (left,), BOOLEAN), right, best, left.type)

    return Composition(lambda call: reduce(choose, call.args))


register_scalar(
    "greatest",
    _VALUES,
    "The largest; NULLs are ignored.",
    {"greatest(1, 3, 2)": "3", "greatest(1, NULL)": "1", "greatest('a', 'b')": "'b'"},
    Overload(_same_types, _extreme("lt")),
    nulls=NullRule.CALLED_ON_NULL,
)
register_scalar(
    "least",
    _VALUES,
    "The smallest; NULLs are ignored.",
    {"least(2, 1.5)": "1.5", "least(NULL, 4)": "4"},
    Overload(_same_types, _extreme("gt")),
    nulls=NullRule.CALLED_ON_NULL,
)


def _null_if(call: Call) -> Scalar:
    left = _cast_to(call.args[0], call.type)
    common = common_type(tuple(arg.type for arg in call.args))
    assert common is not None
    sides = tuple(equality_key(_cast_to(arg, common)) for arg in call.args)
    return If(Call("eq", sides, BOOLEAN), Literal(None, left.type), left, left.type)


def _cast_to(scalar: Scalar, type_: Type) -> Scalar:
    return scalar if scalar.type == type_ else Call("cast", (scalar,), type_)


def _null_if_types(types: tuple[Type, ...]) -> Signature | None:
    """Accept numbers without casts. The result shows the first in a type to which both cast."""
    common = common_type(types) if len(types) == 2 else None
    if common is None:
        return None
    if types[0].kind is Kind.REAL and types[1].is_numeric:
        return Signature(types, types[0])
    if common.kind is not Kind.DECIMAL or is_unknown(types[0]) or is_unknown(types[1]):
        return Signature((common, common), common)
    return Signature(types, types[0] if types[0].kind is Kind.DECIMAL else NUMERIC)


register_scalar(
    "nullif",
    "two values of one type",
    "NULL if they are equal, else the first.",
    {"nullif(1, 1)": "NULL", "nullif(1, 2)": "1"},
    Overload(_null_if_types, Composition(_null_if)),
    nulls=NullRule.CALLED_ON_NULL,
)


TEXT_WORDS = 4
"""Order words of a text: 28 bytes. Longer equal prefixes are compared by ``TopK.exact``."""


def _integer(call: Call, position: int) -> int:
    literal = call.args[position]
    assert isinstance(literal, Literal) and isinstance(literal.value, int)
    return literal.value


def _flags(call: Call) -> int:
    return _integer(call, 1) | _integer(call, 2) << 1


def _text_order_word(call: Call) -> Scalar:
    x, descending, nulls_first, part = call.args
    word = Call("$text_word", (x, part), BIGINT)
    return Call("$order", (word, descending, nulls_first), BIGINT)


register_primitive("$order", Opcode("order", _flags, operands=1))
register_primitive("$text_word", Opcode("text_word", lambda call: _integer(call, 1), operands=1))


def _order_word_rule(is_text: bool) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 4 or types[0].is_interned is not is_text:
            return None
        return Signature((types[0], INTEGER, INTEGER, INTEGER), BIGINT)

    return rule


register_scalar(
    "order_word",
    "a value and the literals descending (0, 1), nulls first (0, 1) and part (text: 0 to 3, else 0)",
    "A number that orders as ORDER BY does; for text, one for each seven bytes.",
    {},
    Overload(_order_word_rule(True), Composition(_text_order_word)),
    Overload(_order_word_rule(False), Opcode("order", _flags, operands=1)),
    nulls=NullRule.CALLED_ON_NULL,
)
