"""What can fail for some row: it must not be evaluated for rows for which the query does not need it.

A word that is ERROR lives within one step of the dataflow, a map-filter-project: there a row that another
predicate rejects has no error. What leaves a step has been evaluated, so these are the places that decide
which rows a scalar is evaluated for:

* a selection is one step, so filters may go below maps, and scalars into the step above;
* what is computed above a join is computed of its rows: a test of it waits for the join's own
  (:func:`after`), and where it is a key, the join is not made part of the one above;
* a lookup's key is a step of its own, before the join: the planner applies all that is known of a
  relation's rows before it computes such a key from them;
* rows that come in one part of a union or join may go in another: what can fail is a step behind it, which
  finds those that cancel out;
* a relation that several read is computed for all of them: what can fail is left to each reader;
* a value that a subquery computes for rows outside is a relation too: CASE, COALESCE, AND and OR restrict it
  to the rows that ask for it.
"""

from collections.abc import Callable, Iterable
from typing import Final, assert_never

from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, walk
from kpg.runtime.scalar import children as arguments
from kpg.runtime.types import BOOLEAN, Kind, Type

ARITHMETIC: Final = frozenset(("add", "sub", "mul", "neg", "abs"))
"""Functions that have a value for all arguments, overflow aside."""
TOTAL: Final = ARITHMETIC | frozenset(
    (
        *("eq", "ne", "lt", "le", "gt", "ge", "is_distinct", "is_not_distinct", "in", "and", "or", "not"),
        *("is_null", "is_not_null", "is_true", "is_false", "coalesce", "nullif", "least", "greatest", "sign"),
        *(
            "length",
            "lower",
            "upper",
            "trim",
            "ltrim",
            "rtrim",
            "like",
            "contains",
            "starts_with",
            "ends_with",
        ),
        *("extract_year", "extract_quarter", "extract_month", "extract_week", "extract_day", "extract_dow"),
    )
)
"""Functions that have a value, or NULL, for all arguments, overflow aside."""
DIVISIONS: Final = frozenset({"div", "mod"})
INTEGERS: Final = {Kind.SMALLINT: 15, Kind.INTEGER: 31, Kind.BIGINT: 63}
"""The types of integers, with the bits of their values."""


def is_total(scalar: Scalar) -> bool:
    """Whether it is certain that the scalar has a value, or NULL, in every row, overflow aside."""
    match scalar:
        case Column() | Literal() | Fetch():
            return True
        case Call(function="cast", args=(arg,), type=type_):
            return (widens(arg.type, type_) or _is_number(arg.type, type_)) and is_total(arg)
        case Call(function="substring", args=(arg, _, Literal(value=int() as length))):
            return length >= 0 and is_total(arg)
        case Call(function=function, args=(arg, divisor)) if function in DIVISIONS:
            return is_total(arg) and _is_never_zero(divisor)
        case Call(function=function, args=args):
            return function in TOTAL and all(map(is_total, args))
        case If():
            return all(map(is_total, arguments(scalar)))
        case _:
            assert_never(scalar)


def never_fails(scalar: Scalar) -> bool:
    """Whether it is certain that the scalar has a value, or NULL, in every row."""
    return is_total(scalar) and not any(map(_may_overflow, walk(scalar)))


def _may_overflow(scalar: Scalar) -> bool:
    if not isinstance(scalar, Call):
        return False
    decimal = scalar.function == "cast" and scalar.type.kind is Kind.DECIMAL
    return decimal or scalar.function in ARITHMETIC


def after(predicate: Scalar, tests: Iterable[Scalar], reads: Callable[[Scalar], frozenset[int]]) -> Scalar:
    """The predicate for rows of a join that pass the ``tests``, which come first if it may fail.

    ``reads``: the inputs of the join that a scalar reads. What reads no others is tested with it in any case.
    """
    if is_total(predicate):
        return predicate
    before = tuple(dict.fromkeys(test for test in tests if not reads(test) <= reads(predicate)))
    if not before:
        return predicate
    passed = before[0] if len(before) == 1 else Call("and", before, BOOLEAN)
    return If(passed, predicate, Literal(0, BOOLEAN), BOOLEAN)


def _is_never_zero(divisor: Scalar) -> bool:
    match divisor:
        case Literal(value=value):
            return value != 0
        case Call(function="nullif", args=(arg, Literal(value=0))):
            return is_total(arg)
        case Column() | Fetch() | If() | Call():
            return False
        case _:
            assert_never(divisor)


def widens(narrow: Type, wide: Type) -> bool:
    """Whether a cast between the types keeps the word of every value."""
    if narrow.kind in INTEGERS and wide.kind in INTEGERS:
        return INTEGERS[narrow.kind] <= INTEGERS[wide.kind]
    return narrow.is_text and wide.is_text and not wide.precision


def _is_number(given: Type, type_: Type) -> bool:
    """Whether a cast makes a DECIMAL or DOUBLE of any exact number, overflow aside."""
    return given.is_exact and type_.kind in (Kind.DECIMAL, Kind.DOUBLE)
