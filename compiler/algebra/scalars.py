"""Analysis and substitution of scalars, for the passes and the planner.

A scalar is *total* if it cannot fail for any row. An expression that can fail must be evaluated only for rows
that the query needs. An ERROR value lives within one map-filter-project: it vanishes if another predicate of
that step rejects the row. A value that leaves the step has been evaluated. This gives six rules:

* A selection is one step: filters may move below maps, and scalars may move up into the step.
* A predicate over a column computed above a join runs after its predicates (:func:`guard_predicate`). If
  such a column is a join key, the join is not flattened into the one above.
* A lookup key is computed in its own step, after all predicates on the relation's rows.
* Rows may enter one input of a union or join and cancel in another. A scalar that can fail runs in a step
  behind the operator, which cancels them.
* A shared relation serves every reader, so each reader evaluates what can fail.
* A correlated subquery is a relation too: CASE, COALESCE, AND and OR restrict it to the rows that reach it.

The module also answers when a scalar can be NULL and which columns make it NULL.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.runtime.functions.registry import (
    ColumnFunction,
    Composition,
    Matcher,
    Membership,
    MemoizedFunction,
    Opcode,
    VectorFunction,
    implementation,
    may_return_null,
)
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.scalar import (
    Call,
    Column,
    Fetch,
    If,
    Literal,
    Scalar,
    UserFunctionName,
    children,
    transform,
    walk,
    with_children,
)
from kpg.runtime.scalar import children as arguments
from kpg.runtime.types import BOOLEAN, Kind, Type


def substitute(scalar: Scalar, values: Sequence[Scalar]) -> Scalar:
    """Return the scalar with column ``i`` replaced by ``values[i]``."""
    if isinstance(scalar, Column):
        return values[scalar.index]
    checkpoint()
    old = children(scalar)
    new = tuple(substitute(child, values) for child in old)
    return scalar if all(map(is_, old, new)) else with_children(scalar, new)


def all_columns(rel: Rel) -> tuple[Column, ...]:
    """Return the columns of a relation as scalars."""
    return tuple([Column(index, type_) for index, type_ in enumerate(algebra.types(rel))])


def conjuncts(predicates: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """Return the distinct conjuncts of the predicates, in order, without literal truths."""
    result: dict[Scalar, None] = {}
    stack = list(reversed(tuple(predicates)))
    while stack:
        predicate = stack.pop()
        match predicate:
            case Call(function="and", args=args):
                stack.extend(reversed(args))
            case Literal(value=1):
                pass
            case Column() | Fetch() | Literal() | If() | Call():
                result.setdefault(predicate)
            case _:
                assert_never(predicate)
    return tuple(result)


def size_after_substitution(scalars: Iterable[Scalar], values: Sequence[Scalar]) -> int:
    """Return the number of scalar nodes after ``values`` replace the columns of ``scalars``."""
    sizes = [1 if isinstance(value, Column | Literal) else _size(value) for value in values]
    return sum(
        sizes[node.index] if isinstance(node, Column) else 1 for scalar in scalars for node in walk(scalar)
    )


@lru_cache(maxsize=1 << 14)
def _size(scalar: Scalar) -> int:
    return 1 + sum(map(_size, children(scalar)))


def substitute_columns(scalar: Scalar, values: Mapping[int, Scalar]) -> Scalar:
    """Return the scalar with the columns in ``values`` replaced."""

    def rewrite(part: Scalar) -> Scalar:
        return values.get(part.index, part) if isinstance(part, Column) else part

    return transform(scalar, rewrite)


ARITHMETIC: Final = frozenset(
    (
        *("add", "sub", "mul", "neg", "abs", "$add_all", "$sub_all", "$mul_all"),
        *("$add_doubles", "$sub_doubles", "$mul_doubles"),
    )
)
"""Functions that have a value for all arguments except on overflow."""
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
"""Functions that have a value or NULL for all arguments except on overflow."""
DIVISIONS: Final = frozenset({"div", "mod"})
INTEGER_BITS: Final = {Kind.SMALLINT: 15, Kind.INTEGER: 31, Kind.BIGINT: 63}
"""Value bits of each integer type, without the sign."""


def is_total(scalar: Scalar) -> bool:
    """Return whether the scalar certainly has a value or NULL in every row, except on overflow."""
    match scalar:
        case Column() | Literal() | Fetch():
            return True
        case Call(function="cast", args=(arg,), type=type_):
            return (widens(arg.type, type_) or _is_exact_to_decimal(arg.type, type_)) and is_total(arg)
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
    """Return whether the scalar certainly has a value or NULL in every row, overflow included."""
    return is_total(scalar) and not any(map(_may_overflow, walk(scalar)))


def _may_overflow(scalar: Scalar) -> bool:
    if not isinstance(scalar, Call):
        return False
    decimal = scalar.function == "cast" and scalar.type.kind is Kind.DECIMAL
    return decimal or scalar.function in ARITHMETIC


def guard_predicate(
    predicate: Scalar, tests: Iterable[Scalar], reads: Callable[[Scalar], frozenset[int]]
) -> Scalar:
    """Return a join predicate that is evaluated only for rows that pass ``tests``, if it may fail.

    Args:
      predicate: the predicate to guard.
      tests: the join's own predicates.
      reads: returns the join inputs that a scalar reads. Tests over inputs that ``predicate`` reads
        need no guard, because they run together with it.
    """
    if is_total(predicate):
        return predicate
    guards = tuple(dict.fromkeys(test for test in tests if not reads(test) <= reads(predicate)))
    if not guards:
        return predicate
    guard = guards[0] if len(guards) == 1 else Call("and", guards, BOOLEAN)
    return If(guard, predicate, Literal(0, BOOLEAN), BOOLEAN)


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
    """Return whether a cast between the types keeps the word of every value."""
    if narrow.kind in INTEGER_BITS and wide.kind in INTEGER_BITS:
        return INTEGER_BITS[narrow.kind] <= INTEGER_BITS[wide.kind]
    return narrow.is_text and wide.is_text and not wide.precision


def _is_exact_to_decimal(source: Type, target: Type) -> bool:
    """Return whether the cast makes a DECIMAL or DOUBLE of an exact number, which fails only on overflow."""
    return source.is_exact and target.kind in (Kind.DECIMAL, Kind.DOUBLE)


Key = frozenset[int]

NEVER_NULL: Final = frozenset(
    {"is_null", "is_not_null", "is_distinct", "is_not_distinct", "is_true", "is_false"}
)
FIRST_NOT_NULL: Final = frozenset({"coalesce", "greatest", "least"})
NON_STRICT: Final = NEVER_NULL | FIRST_NOT_NULL | {"and", "or", "in", "nullif"}
"""Functions that may return a value for a NULL argument.

All others are strict.
"""


def can_be_null(scalar: Scalar, flags: tuple[bool, ...]) -> bool:
    """Return whether the scalar can be NULL; ``flags`` states which columns can be."""
    match scalar:
        case Column(index=index):
            return flags[index]
        case Literal(value=value):
            return value is None
        case If(then=then, otherwise=otherwise):
            return can_be_null(then, flags) or can_be_null(otherwise, flags)
        case Fetch():
            return True
        case Call(function=function, args=args):
            if function in NEVER_NULL:
                return False
            if function in FIRST_NOT_NULL:
                return all(can_be_null(arg, flags) for arg in args)
            if any(can_be_null(arg, flags) for arg in args):
                return True
            return can_introduce_null(scalar)
        case _:
            assert_never(scalar)


def can_introduce_null(call: Call) -> bool:
    """Return whether the call can be NULL when none of its arguments is."""
    if call.function == "nullif":
        return True
    definition = implementation(call)
    match definition:
        case Composition(build=build):
            return can_be_null(build(_over_argument_columns(call)), (False,) * len(call.args))
        case MemoizedFunction(build=build):
            return isinstance(call.function, UserFunctionName) or may_return_null(build(call))
        case ColumnFunction():
            return True
        case VectorFunction():
            return definition.may_return_null
        case Opcode() | Matcher() | Membership():
            return False
        case _:
            assert_never(definition)


def strict_columns(scalar: Scalar) -> Key:
    """Return the columns that make the scalar NULL when they are NULL."""
    match scalar:
        case Column(index=index):
            return frozenset((index,))
        case Call(function=function) if function not in NON_STRICT:
            return _strict_columns(scalar)
        case Call(function="in", args=args):
            return strict_columns(args[0])
        case Fetch() | Literal() | If() | Call():
            return frozenset()
        case _:
            assert_never(scalar)


def _over_argument_columns(call: Call) -> Call:
    """Return the call with each non-literal argument replaced by a column, numbered by argument.

    Expanding the result takes time in the size of the function. It may repeat arguments, which can be
    large.
    """
    args = tuple(
        arg if isinstance(arg, Literal) else Column(place, arg.type) for place, arg in enumerate(call.args)
    )
    return Call(call.function, args, call.type)


def _strict_columns(call: Call) -> Key:
    definition = implementation(call)
    if isinstance(definition, Composition):
        places = strict_columns(definition.build(_over_argument_columns(call)))
        return frozenset[int]().union(*(strict_columns(call.args[place]) for place in places))
    if isinstance(definition, MemoizedFunction) and definition.takes_nulls:
        return frozenset()
    return frozenset[int]().union(*(strict_columns(arg) for arg in call.args))


def null_rejecting_columns(predicate: Scalar) -> Key:
    """Return the columns that cannot be NULL where the predicate is true."""
    match predicate:
        case Call(function="and", args=args):
            return frozenset[int]().union(*(null_rejecting_columns(arg) for arg in args))
        case Call(function="or", args=args):
            return frozenset.intersection(*(null_rejecting_columns(arg) for arg in args))
        case Call(function="is_not_null", args=args):
            return strict_columns(args[0])
        case Column() | Fetch() | Literal() | If() | Call():
            return strict_columns(predicate)
        case _:
            assert_never(predicate)
