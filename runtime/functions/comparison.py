"""Comparisons, tests for NULL, and membership."""

from kpg.runtime.functions import spans
from kpg.runtime.functions.registry import (
    Composition,
    Membership,
    NullRule,
    Opcode,
    Overload,
    primitive,
    scalar,
)
from kpg.runtime.functions.rules import any_type, is_interned, is_not_interned, same
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import BOOLEAN, INTEGER

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
    build = Composition(lambda call: Call(name, spans.lengths(call.args), BOOLEAN))
    return Overload(spans.compared, build)


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
