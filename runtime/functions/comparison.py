"""Comparisons, NULL tests, three-valued logic, conditional functions, and ORDER BY keys.

* Loose types: some values are equal and look different (1.0 and 1.00, a month and 30 days). Comparisons,
  groups, DISTINCT, orders and joins use :func:`key`, which is equal for equal values. Results show the value
  itself.
* A NUMERIC beside an integer or DECIMAL is rounded to the nearest word below or above (:func:`bounded`), so
  that comparisons work on words, in index order: ``price > average`` holds for prices above the average cut
  to the scale of price.
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
    Memoized,
    NullRule,
    Opcode,
    Overload,
    Rule,
    Signature,
    primitive,
    scalar,
)
from kpg.runtime.functions.type_rules import (
    any_type,
    common_type,
    is_interned,
    is_not_interned,
    is_unknown,
    same,
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

BELOW: Final = {"gt": "$below", "le": "$below", "ge": "$above", "lt": "$above"}
"""What a word on the left is compared with instead of a NUMERIC on the right."""
SWAPPED: Final = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}


def bounded(name: str, args: Sequence[Scalar]) -> list[Scalar]:
    """The sides of a comparison, of which a NUMERIC beside an integer or DECIMAL is brought to its words."""
    if name not in BELOW or len(args) != 2:
        return list(args)
    left, right = args
    if left.type.is_exact and right.type.kind is Kind.NUMERIC:
        return [left, _bound(BELOW[name], right, left.type)]
    if right.type.is_exact and left.type.kind is Kind.NUMERIC:
        return [_bound(BELOW[SWAPPED[name]], left, right.type), right]
    return list(args)


def _bound(function: str, value: Scalar, beside: Type) -> Scalar:
    type_ = BIGINT if beside.is_integer else decimal_type(MAX_DECIMAL_PRECISION, beside.scale)
    if isinstance(value, Literal) and isinstance(value.value, str):
        return Literal(_word(function, type_)(numeric.decode(value.value)), type_)
    return Call(function, (value,), type_)


def _word(function: str, type_: Type) -> Callable[[Decimal], int]:
    """The nearest word of a type; its first or last if there is none as small or large."""
    rounding = decimal.ROUND_FLOOR if function == "$below" else decimal.ROUND_CEILING
    low, high = _ends(type_)

    def convert(value: Decimal) -> int:
        if value.is_nan():
            return high
        if not value.is_finite() or value.adjusted() > MAX_DECIMAL_PRECISION + 1:
            return high if value > 0 else low
        word = int(value.scaleb(type_.scale, numeric.EXACT).to_integral_value(rounding, numeric.EXACT))
        return min(max(word, low), high)

    return convert


def _ends(type_: Type) -> tuple[int, int]:
    """The first and last word that a bound is; what memos keep is never the lowest of all."""
    low, high = limits(type_)
    return max(low, MIN_WORD + 1), high


def _word_of_units(function: str, type_: Type) -> Callable[[tuple[int, int]], int]:
    """As :func:`_word`, of a number in units of its last digit."""
    low, high = _ends(type_)

    def convert(value: tuple[int, int]) -> int:
        units, places = value
        above, below = 10 ** max(type_.scale - places, 0), 10 ** max(places - type_.scale, 0)
        word = units * above // below if function == "$below" else -(-units * above // below)
        return min(max(word, low), high)

    return convert


for _name in ("$below", "$above"):
    primitive(
        _name,
        Memoized(
            lambda call: _word(call.function, call.type),
            units=lambda call: _word_of_units(call.function, call.type),
            shadow=registry.strict,
        ),
    )


ZERO = Literal(0, INTEGER)

primitive("$text_compare", Opcode("text_compare"))


def _swapped(name: str) -> Composition:
    return Composition(lambda call: Call(name, (call.args[1], call.args[0]), BOOLEAN))


def _by_text(name: str) -> Composition:
    """Compares the bytes of two strings, then the outcome with 0."""

    def build(call: Call) -> Scalar:
        return Call(name, (Call("$text_compare", call.args, INTEGER), ZERO), BOOLEAN)

    return Composition(build)


_any_pair = same(any_type, at_least=2, at_most=2, result=BOOLEAN)
_text_pair = same(is_interned, at_least=2, at_most=2, result=BOOLEAN)
_other_pair = same(is_not_interned, at_least=2, at_most=2, result=BOOLEAN)
_one = same(any_type, result=BOOLEAN)
_PAIR = "two values of comparable types"


def _by_length(name: str) -> Overload:
    """Intervals are compared by their lengths: there are different ones of the same."""
    build = Composition(lambda call: Call(name, dates.lengths(call.args), BOOLEAN))
    return Overload(dates.compared, build)


scalar(
    "eq",
    _PAIR,
    "Equal.",
    {"1 = 1.0": "TRUE", "'a' = 'b'": "FALSE"},
    _by_length("eq"),
    Overload(_any_pair, Opcode("eq")),
)
scalar(
    "ne",
    _PAIR,
    "Not equal.",
    {"1 <> 2": "TRUE", "1 <> NULL": "NULL"},
    _by_length("ne"),
    Overload(_any_pair, Opcode("ne")),
)
scalar(
    "lt",
    _PAIR,
    "Less; text by the bytes of its UTF-8.",
    {"1 < 1.5": "TRUE", "'abc' < 'abd'": "TRUE", "'Z' < 'a'": "TRUE"},
    _by_length("lt"),
    Overload(_text_pair, _by_text("lt")),
    Overload(_other_pair, Opcode("lt")),
)
scalar(
    "le",
    _PAIR,
    "Less or equal.",
    {"2 <= 2": "TRUE", "DATE '1998-01-02' <= DATE '1998-01-01'": "FALSE"},
    _by_length("le"),
    Overload(_text_pair, _by_text("le")),
    Overload(_other_pair, Opcode("le")),
)
scalar(
    "gt",
    _PAIR,
    "Greater.",
    {"2 > 1": "TRUE", "'a' > 'ab'": "FALSE"},
    Overload(_any_pair, _swapped("lt")),
)
scalar(
    "ge",
    _PAIR,
    "Greater or equal.",
    {"0.06 >= 0.05": "TRUE", "NULL >= 1": "NULL"},
    Overload(_any_pair, _swapped("le")),
)
scalar(
    "is_distinct",
    _PAIR,
    "Different, where NULL equals NULL.",
    {"1 IS DISTINCT FROM NULL": "TRUE", "NULL IS DISTINCT FROM NULL": "FALSE"},
    _by_length("is_distinct"),
    Overload(_any_pair, Opcode("distinct")),
    nulls=NullRule.OWN,
)
scalar(
    "is_not_distinct",
    _PAIR,
    "Equal, where NULL equals NULL.",
    {"1 IS NOT DISTINCT FROM 1": "TRUE", "1 IS NOT DISTINCT FROM NULL": "FALSE"},
    Overload(
        _any_pair,
        Composition(lambda call: Call("not", (Call("is_distinct", call.args, BOOLEAN),), BOOLEAN)),
    ),
    nulls=NullRule.OWN,
)
scalar(
    "is_null",
    "a value",
    "Whether the value is NULL.",
    {"NULL IS NULL": "TRUE", "1 IS NULL": "FALSE"},
    Overload(_one, Opcode("is_null")),
    nulls=NullRule.OWN,
)
scalar(
    "is_not_null",
    "a value",
    "Whether the value is not NULL.",
    {"NULL IS NOT NULL": "FALSE", "'' IS NOT NULL": "TRUE"},
    Overload(_one, Composition(lambda call: Call("not", (Call("is_null", call.args, BOOLEAN),), BOOLEAN))),
    nulls=NullRule.OWN,
)


def _membership(call: Call) -> Scalar:
    first, *items = call.args
    if all(isinstance(item, Literal) for item in items):
        return Call("$in", call.args, BOOLEAN)
    return Call("or", tuple(Call("eq", (first, item), BOOLEAN) for item in items), BOOLEAN)


primitive("$in", Membership())

scalar(
    "in",
    "a value and a list of values of its type",
    "Whether the first is among the others; NULL instead of false if one of them is NULL.",
    {"2 IN (1, 2, 3)": "TRUE", "4 IN (1, NULL)": "NULL", "'a' IN ('b', 'c')": "FALSE"},
    Overload(same(any_type, at_least=1, at_most=10**9, result=BOOLEAN), Composition(_membership)),
    nulls=NullRule.OWN,
)


Form = Callable[[Any], Any]


def key(scalar: Scalar) -> Scalar:
    """The scalar, or what equal values of it have in common if they may differ."""
    if not is_loose(scalar.type) or (isinstance(scalar, Call) and scalar.function == "$key"):
        return scalar
    if isinstance(scalar, Literal) and scalar.value is None:
        return scalar
    if isinstance(scalar, Literal) and isinstance(scalar.value, str):
        codec = codec_of(scalar.type)
        return Literal(codec.encode(_form(scalar.type)(codec.decode(scalar.value))), scalar.type)
    plain = isinstance(scalar, Call) and scalar.function == "cast" and scalar.type == NUMERIC
    if plain and isinstance(scalar, Call) and scalar.args[0].type.is_exact:
        return Call("$key", scalar.args, NUMERIC)
    return Call("$key", (scalar,), scalar.type)


def key_of(type_: Type) -> Callable[[Any], Any]:
    """From a value to a key that compares as values of the type do."""
    return intervals.span if type_.kind is Kind.INTERVAL else codec_of(type_).encode


def key_string(type_: Type) -> Callable[[str], str]:
    """From the string that stands for a value to that of its key."""
    codec, form = codec_of(type_), _form(type_)
    return lambda string: codec.encode(form(codec.decode(string)))


def _form(type_: Type) -> Form:
    """From a value to the form that all its equals share."""
    match type_.kind:
        case Kind.NUMERIC:
            return numeric.trimmed
        case Kind.INTERVAL:
            return lambda value: intervals.Interval(0, 0, intervals.span(value))
        case Kind.JSONB:
            return lambda value: jsons.Json(_json(value.value))
        case Kind.ARRAY:
            item = _or_none(_form(type_.parts[0]))
            return lambda value: value._replace(items=tuple(map(item, value.items)))
        case Kind.RANGE | Kind.MULTIRANGE:
            from kpg.runtime.values import ranges  # lazy: few programs have such values

            bound = _form(type_.parts[0])
            return lambda value: ranges.over(value, bound)
        case Kind.RECORD:
            fields = [_or_none(_form(part)) for part in type_.parts]
            return lambda value: tuple(form(one) for form, one in zip(fields, value, strict=True))
        case _:
            return lambda value: value


def _or_none(form: Form) -> Form:
    return lambda value: None if value is None else form(value)


def _json(value: Any) -> Any:

    match value:
        case Decimal():
            return numeric.trimmed(value)
        case list():
            return list(map(_json, value))
        case dict():
            return {name: _json(inner) for name, inner in value.items()}
        case _:
            return value


def _of_call(call: Call) -> Form:
    source = call.args[0].type
    form = _form(call.type)
    if not source.is_exact:
        return form

    return lambda value: form(numeric.of_number(value, source, call.type))


primitive("$key", Memoized(_of_call))


ANY_NUMBER = 10**9
"""Arguments that a call can have: no limit."""


def _conditions(types: tuple[Type, ...]) -> Signature | None:
    if all(type_.kind in (Kind.BOOLEAN, Kind.NULL) for type_ in types):
        return Signature((BOOLEAN,) * len(types), BOOLEAN)
    return None


def _condition(types: tuple[Type, ...]) -> Signature | None:
    return _conditions(types) if len(types) == 1 else None


scalar(
    "and",
    "conditions",
    "False if one is false, else NULL if one is NULL, else true; a false one makes up for an error.",
    {"TRUE AND NULL": "NULL", "FALSE AND NULL": "FALSE", "TRUE AND TRUE": "TRUE"},
    Overload(_conditions, Opcode("and", fold=True)),
    nulls=NullRule.OWN,
)
scalar(
    "or",
    "conditions",
    "True if one is true, else NULL if one is NULL, else false; a true one makes up for an error.",
    {"TRUE OR NULL": "TRUE", "FALSE OR NULL": "NULL", "FALSE OR FALSE": "FALSE"},
    Overload(_conditions, Opcode("or", fold=True)),
    nulls=NullRule.OWN,
)
scalar("not", "a condition", "Negation.", {"NOT TRUE": "FALSE"}, Overload(_condition, Opcode("not")))


def _true_or_false(value: Scalar) -> Scalar:
    return Call("coalesce", (value, Literal(0, BOOLEAN)), BOOLEAN)


scalar(
    "is_true",
    "a condition",
    "Whether the condition is true (neither false nor NULL).",
    {"(1 < 2) IS TRUE": "TRUE", "CAST(NULL AS BOOLEAN) IS TRUE": "FALSE"},
    Overload(_condition, Composition(lambda call: _true_or_false(call.args[0]))),
    nulls=NullRule.OWN,
)
scalar(
    "is_false",
    "a condition",
    "Whether the condition is false (neither true nor NULL).",
    {"(1 > 2) IS FALSE": "TRUE", "CAST(NULL AS BOOLEAN) IS FALSE": "FALSE"},
    Overload(_condition, Composition(lambda call: _true_or_false(Call("not", call.args, BOOLEAN)))),
    nulls=NullRule.OWN,
)

primitive("$coalesce", Opcode("coalesce"))


def _first_known(call: Call) -> Scalar:
    """``If`` keeps an error in a later argument from mattering once an earlier one is known."""

    def choose(rest: Scalar, value: Scalar) -> Scalar:
        if isinstance(rest, Literal):
            return Call("$coalesce", (value, rest), call.type)
        return If(Call("is_null", (value,), BOOLEAN), rest, value, call.type)

    return reduce(choose, reversed(call.args))


_several = same(any_type, at_most=ANY_NUMBER)
_VALUES = "values of one type"

scalar(
    "coalesce",
    _VALUES,
    "The first that is not NULL.",
    {"coalesce(NULL, 2, 1)": "2", "coalesce(1, 2)": "1", "coalesce('a', 'b')": "'a'"},
    Overload(_several, Composition(_first_known)),
    nulls=NullRule.OWN,
)


def _extreme(comparison: str) -> Composition:
    def choose(left: Scalar, right: Scalar) -> Scalar:
        right_wins = Call(comparison, (key(left), key(right)), BOOLEAN)
        best = If(right_wins, right, left, left.type)
        return If(Call("is_null", (left,), BOOLEAN), right, best, left.type)

    return Composition(lambda call: reduce(choose, call.args))


scalar(
    "greatest",
    _VALUES,
    "The largest; NULLs are ignored.",
    {"greatest(1, 3, 2)": "3", "greatest(1, NULL)": "1", "greatest('a', 'b')": "'b'"},
    Overload(_several, _extreme("lt")),
    nulls=NullRule.OWN,
)
scalar(
    "least",
    _VALUES,
    "The smallest; NULLs are ignored.",
    {"least(2, 1.5)": "1.5", "least(NULL, 4)": "4"},
    Overload(_several, _extreme("gt")),
    nulls=NullRule.OWN,
)


def _null_if(call: Call) -> Scalar:
    left = _brought(call.args[0], call.type)
    common = common_type(tuple(arg.type for arg in call.args))
    assert common is not None
    sides = tuple(key(_brought(arg, common)) for arg in call.args)
    return If(Call("eq", sides, BOOLEAN), Literal(None, left.type), left, left.type)


def _brought(scalar: Scalar, type_: Type) -> Scalar:
    return scalar if scalar.type == type_ else Call("cast", (scalar,), type_)


def _null_if_types(types: tuple[Type, ...]) -> Signature | None:
    """Numbers as they are: the result shows the first, of a type that both can be brought to."""
    common = common_type(types) if len(types) == 2 else None
    if common is None:
        return None
    if types[0].kind is Kind.REAL and types[1].is_numeric:
        return Signature(types, types[0])
    if common.kind is not Kind.DECIMAL or is_unknown(types[0]) or is_unknown(types[1]):
        return Signature((common, common), common)
    return Signature(types, types[0] if types[0].kind is Kind.DECIMAL else NUMERIC)


scalar(
    "nullif",
    "two values of one type",
    "NULL if they are equal, else the first.",
    {"nullif(1, 1)": "NULL", "nullif(1, 2)": "1"},
    Overload(_null_if_types, Composition(_null_if)),
    nulls=NullRule.OWN,
)


TEXT_WORDS = 4
"""How many order words a text has: 28 bytes; longer equal prefixes are compared by ``TopK.exact``."""


def _integer(call: Call, position: int) -> int:
    literal = call.args[position]
    assert isinstance(literal, Literal) and isinstance(literal.value, int)
    return literal.value


def _flags(call: Call) -> int:
    return _integer(call, 1) | _integer(call, 2) << 1


def _text(call: Call) -> Scalar:
    x, descending, nulls_first, part = call.args
    word = Call("$text_word", (x, part), BIGINT)
    return Call("$order", (word, descending, nulls_first), BIGINT)


primitive("$order", Opcode("order", _flags, operands=1))
primitive("$text_word", Opcode("text_word", lambda call: _integer(call, 1), operands=1))


def _rule(text: bool) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 4 or types[0].is_interned is not text:
            return None
        return Signature((types[0], INTEGER, INTEGER, INTEGER), BIGINT)

    return rule


scalar(
    "order_word",
    "a value and the literals descending (0, 1), nulls first (0, 1) and part (text: 0 to 3, else 0)",
    "A number that orders as ORDER BY does; for text, one for each seven bytes.",
    {},
    Overload(_rule(True), Composition(_text)),
    Overload(_rule(False), Opcode("order", _flags, operands=1)),
    nulls=NullRule.OWN,
)
