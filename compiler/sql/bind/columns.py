"""Scalars as columns of a relation."""

from collections.abc import Sequence

from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.tree import Map, Node, produced
from kpg.runtime.scalar import Column, Scalar
from kpg.runtime.types import UNKNOWN


def as_columns(binding: Binding, source: Node, scalars: Sequence[Scalar]) -> tuple[Node, tuple[Column, ...]]:
    """The source with a column for each scalar: its own where it has it, else a new one.

    Constants without a type have a column each: a UNION may give them different ones.
    """
    made = produced(source)
    known: dict[Scalar, Column] = {}
    fresh: list[tuple[Column, Scalar]] = []
    columns = []
    for scalar in scalars:
        if isinstance(scalar, Column) and scalar.index in made:
            columns.append(scalar)
            continue
        column = known.get(scalar)
        if column is None or scalar.type == UNKNOWN:
            column = known[scalar] = Column(binding.fresh(), scalar.type)
            fresh.append((column, scalar))
        columns.append(column)
    if fresh:
        ids, values = zip(*((column.index, scalar) for column, scalar in fresh), strict=True)
        source = Map(source, ids, values)
    return source, tuple(columns)
