"""Sums of CASE and COALESCE whose branches have different scales: as of words, with the scale that they show.

``CASE WHEN paid THEN price ELSE 0 END`` is a NUMERIC, since 0 is shown as 0. A sum of it has as many digits
behind the point as the longest of what it adds up: it is computed of words, and of how many are so long.
"""

import functools
from collections.abc import Callable, Sequence
from decimal import Decimal

from kpg.compiler.sql.bind.calls import coerce
from kpg.compiler.sql.bind.scope import WIDE
from kpg.runtime.functions import Composed, Part, common_type
from kpg.runtime.functions.aggregation.builtins import sum_type
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    MAX_DECIMAL_PRECISION,
    NUMERIC,
    Kind,
    Type,
    decimal,
)
from kpg.runtime.values import numeric

MEANS = {"$sum": False, "$avg": True}
"""The aggregates of NUMERICs that are computed so, and whether it is a mean."""


def over_words(function: str, args: Sequence[Scalar]) -> tuple[Composed, tuple[Scalar, ...]] | None:
    """How such an aggregate is made of sums of words, and its operand; None if it is over anything else."""
    if function not in MEANS or len(args) != 1 or args[0].type != NUMERIC or WIDE.get():
        return None
    leaves = _leaves(args[0])
    if leaves is None:
        return None
    known = [leaf.type for leaf in leaves if not (isinstance(leaf, Literal) and leaf.value is None)]
    joint = common_type(tuple(known)) if known else None
    if joint is None or joint.kind is not Kind.DECIMAL:
        return None
    scales = sorted({type_.scale for type_ in known}, reverse=True)
    words = _rebuilt(args[0], lambda leaf: coerce(leaf, joint), joint)
    marks = [_rebuilt(args[0], functools.partial(_mark, scale), INTEGER) for scale in scales[:-1]]

    def build(_: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
        total = Column(0, sum_type(joint))
        parts = [Part("sum", (words,)), *(Part("count", (mark,)) for mark in marks)]
        result = _with_scale(total, scales[-1])
        for place, scale in reversed(list(enumerate(scales[:-1], 1))):
            some = Call("gt", (Column(place, BIGINT), Literal(0, BIGINT)), BOOLEAN)
            result = If(some, _with_scale(total, scale), result, NUMERIC)
        if MEANS[function]:
            parts.append(Part("count", (words,)))
            number = Call("nullif", (Column(len(parts) - 1, BIGINT), Literal(0, BIGINT)), BIGINT)
            result = Call("div", (result, number), NUMERIC)
        return tuple(parts), result

    return Composed(build), (words,)


def _with_scale(total: Scalar, scale: int) -> Scalar:
    """A sum of which no more digits behind the point are needed, as a NUMERIC of so many."""
    return coerce(coerce(total, decimal(MAX_DECIMAL_PRECISION, scale)), NUMERIC)


def _leaves(scalar: Scalar) -> list[Scalar] | None:
    """What CASE and COALESCE choose among, as words; None if something is no such."""
    if isinstance(scalar, Literal):
        found = _literal(scalar)
        return None if found is None else [found]
    if isinstance(scalar, If):
        parts: Sequence[Scalar] = (scalar.then, scalar.otherwise)
    elif isinstance(scalar, Call) and scalar.function == "coalesce":
        parts = scalar.args
    elif isinstance(scalar, Call) and scalar.function == "cast" and scalar.args[0].type.is_exact:
        return [scalar.args[0]]
    else:
        return None
    found_parts = [_leaves(part) for part in parts]
    return None if None in found_parts else [leaf for part in found_parts for leaf in part or ()]


def _literal(literal: Literal) -> Literal | None:
    """A constant NUMERIC as a word, if it is one."""
    if literal.value is None:
        return literal
    value = numeric.decode(str(literal.value))
    if not value.is_finite() or value.adjusted() + numeric.shown_scale(value) >= MAX_DECIMAL_PRECISION:
        return None
    scale = numeric.shown_scale(value)
    type_ = decimal(MAX_DECIMAL_PRECISION, scale) if scale else BIGINT
    return Literal(int(Decimal(value).scaleb(scale)), type_)


def _rebuilt(scalar: Scalar, leaf: Callable[[Scalar], Scalar], type_: Type) -> Scalar:
    """The expression of another type, with something else for each of its leaves."""
    if isinstance(scalar, If):
        then, otherwise = (_rebuilt(part, leaf, type_) for part in (scalar.then, scalar.otherwise))
        return If(scalar.condition, then, otherwise, type_)
    if isinstance(scalar, Literal):
        found = _literal(scalar)
        assert found is not None
        return leaf(found) if found.value is not None else Literal(None, type_)
    assert isinstance(scalar, Call)
    first, *rest = scalar.args
    if scalar.function != "coalesce":
        return leaf(first)
    if not rest:
        return _rebuilt(first, leaf, type_)
    others = Call("coalesce", tuple(rest), NUMERIC)
    missing = Call("is_null", (first,), BOOLEAN)
    return If(missing, _rebuilt(others, leaf, type_), _rebuilt(first, leaf, type_), type_)


def _mark(scale: int, leaf: Scalar) -> Scalar:
    """Not NULL where the leaf has a value of this scale."""
    nothing, one = Literal(None, INTEGER), Literal(1, INTEGER)
    if leaf.type.scale != scale:
        return nothing
    return one if isinstance(leaf, Literal) else If(Call("is_null", (leaf,), BOOLEAN), nothing, one, INTEGER)
