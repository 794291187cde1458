"""What can fail for some row: it must not be evaluated for rows for which the query does not need it.

An operator with state evaluates its input in any case; a selection or join evaluates what its reader needs.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import children, scalars
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar
from kpg.runtime.scalar import children as arguments
from kpg.runtime.types import Kind, Type

TOTAL: Final = frozenset(
    (
        *("eq", "ne", "lt", "le", "gt", "ge", "is_distinct", "is_not_distinct", "in", "and", "or", "not"),
        *("is_null", "is_not_null", "is_true", "is_false", "coalesce", "nullif", "least", "greatest"),
        *("add", "sub", "mul", "neg", "abs"),
    )
)
"""Functions that have a value, or NULL, for all arguments, overflow aside."""
DIVISIONS: Final = frozenset({"div", "mod"})
INTEGERS: Final = {Kind.SMALLINT: 15, Kind.INTEGER: 31, Kind.BIGINT: 63}
"""The types of integers, with the bits of their values."""


def is_total(scalar: Scalar) -> bool:
    """Whether it is certain that the scalar has a value, or NULL, in every row."""
    match scalar:
        case Column() | Literal() | Fetch():
            return True
        case Call(function="cast", args=(arg,), type=type_):
            return widens(arg.type, type_) and is_total(arg)
        case Call(function=function, args=(arg, divisor)) if function in DIVISIONS:
            return is_total(arg) and _is_never_zero(divisor)
        case Call(function=function, args=args):
            return function in TOTAL and all(map(is_total, args))
        case If():
            return all(map(is_total, arguments(scalar)))
        case _:
            assert_never(scalar)


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


def may_fail(rel: Rel, lets: Mapping[str, Rel]) -> bool:
    """Whether a row of the relation, read by a join, may have a column or pass a test that fails."""
    match rel:
        case algebra.Filter() | algebra.Map() | algebra.Join():
            return not all(map(is_total, scalars(rel))) or _any_may_fail(children(rel), lets)
        case algebra.Expand():
            return True
        case algebra.Project() | algebra.Union() | algebra.Negate():
            return _any_may_fail(children(rel), lets)
        case algebra.Let(id=id_, value=value, body=body):
            return may_fail(body, {**lets, id_: value})
        case algebra.LetRec(body=body):
            return may_fail(body, lets)
        case algebra.LocalGet(id=id_):
            return id_ in lets and may_fail(lets[id_], lets)
        case (
            algebra.Get()
            | algebra.Constant()
            | algebra.Distinct()
            | algebra.Threshold()
            | algebra.Reduce()
            | algebra.TopK()
            | algebra.Single()
        ):
            return False
        case _:
            assert_never(rel)


def _any_may_fail(rels: tuple[Rel, ...], lets: Mapping[str, Rel]) -> bool:
    return any(may_fail(rel, lets) for rel in rels)
