"""Scalars in terms of other scalars: what passes and the planner do with the expressions of a relation."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.scalar import (
    Call,
    Column,
    Fetch,
    If,
    Literal,
    Scalar,
    children,
    transform,
    walk,
    with_children,
)


def substitute(scalar: Scalar, values: Sequence[Scalar]) -> Scalar:
    """The scalar with column ``i`` replaced by ``values[i]``."""
    if isinstance(scalar, Column):
        return values[scalar.index]
    checkpoint()
    old = children(scalar)
    new = tuple(substitute(child, values) for child in old)
    return scalar if all(map(is_, old, new)) else with_children(scalar, new)


def all_columns(rel: Rel) -> tuple[Column, ...]:
    """The columns of a relation as scalars."""
    return tuple(Column(index, type_) for index, type_ in enumerate(algebra.types(rel)))


def conjuncts(predicates: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """The predicates with every AND taken apart and literal truths left out, in order, each once."""
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


def written_size(scalars: Iterable[Scalar], values: Sequence[Scalar]) -> int:
    """How many nodes the scalars have once ``values`` are substituted for their columns."""
    sizes = [1 if isinstance(value, Column | Literal) else _size(value) for value in values]
    return sum(
        sizes[node.index] if isinstance(node, Column) else 1 for scalar in scalars for node in walk(scalar)
    )


@lru_cache(maxsize=1 << 14)
def _size(scalar: Scalar) -> int:
    return 1 + sum(map(_size, children(scalar)))


def substitute_ids(scalar: Scalar, values: Mapping[int, Scalar]) -> Scalar:
    """The scalar with other scalars for some of its columns."""

    def rewrite(part: Scalar) -> Scalar:
        return values.get(part.index, part) if isinstance(part, Column) else part

    return transform(scalar, rewrite)
