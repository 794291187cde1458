"""Composing map-filter-project: how the operators above a relation become one step over its rows."""

from collections.abc import Callable, Sequence

from kpg.compiler.algebra.scalars import substitute
from kpg.runtime.errors import InternalError
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column, Scalar, children, with_children
from kpg.runtime.types import Type

Finder = Callable[[Scalar], int | None]
"""Where a row has the value of a scalar, if it has it."""


def compose(mfp: Mfp, values: Sequence[Scalar]) -> Mfp:
    """``mfp`` over rows whose column ``i`` is ``values[i]`` of the rows below."""
    return Mfp(
        tuple(substitute(predicate, values) for predicate in mfp.predicates),
        tuple(substitute(output, values) for output in mfp.outputs),
    )


def identity(types: Sequence[Type]) -> Mfp:
    """All rows as they are."""
    return Mfp((), tuple(Column(index, type_) for index, type_ in enumerate(types)))


def is_identity(mfp: Mfp, width: int) -> bool:
    """Whether the mfp gives every row of ``width`` columns as it is."""
    places = tuple(output.index if isinstance(output, Column) else -1 for output in mfp.outputs)
    return not mfp.predicates and places == tuple(range(width))


def over(scalar: Scalar, find: Finder) -> Scalar:
    """The scalar over the columns of a row that has the values of other scalars.

    InternalError if it reads a column whose value cannot be found.
    """
    place = find(scalar)
    return parts_over(scalar, find) if place is None else Column(place, scalar.type)


def parts_over(scalar: Scalar, find: Finder) -> Scalar:
    """As :func:`over`, the scalar being computed even if a row has its value."""
    if isinstance(scalar, Column):
        raise InternalError(f"column {scalar.index} is not at hand")
    return with_children(scalar, tuple(over(child, find) for child in children(scalar)))
