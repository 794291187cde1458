"""Three-valued logic, and functions that choose among their arguments."""

from functools import reduce

from kpg.runtime.functions.keys import key
from kpg.runtime.functions.registry import (
    Composition,
    NullRule,
    Opcode,
    Overload,
    Signature,
    primitive,
    scalar,
)
from kpg.runtime.functions.rules import any_type, common_type, is_unknown, same
from kpg.runtime.scalar import Call, If, Literal, Scalar
from kpg.runtime.types import BOOLEAN, NUMERIC, Kind, Type

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
