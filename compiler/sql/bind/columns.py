"""Scalars as columns of a relation."""

from collections.abc import Sequence

from kpg.compiler.sql.bind.scope import Binding
from kpg.compiler.sql.tree import Map, Node, produced
from kpg.runtime.scalar import Column, Scalar


def as_columns(binding: Binding, source: Node, scalars: Sequence[Scalar]) -> tuple[Node, tuple[Column, ...]]:
    """The source with a column for each scalar: its own where it has it, else a new one."""
    made = produced(source)
    fresh: dict[Scalar, Column] = {}
    columns = []
    for scalar in scalars:
        if isinstance(scalar, Column) and scalar.index in made:
            columns.append(scalar)
            continue
        if scalar not in fresh:
            fresh[scalar] = Column(binding.fresh(), scalar.type)
        columns.append(fresh[scalar])
    if fresh:
        source = Map(source, tuple(column.index for column in fresh.values()), tuple(fresh))
    return source, tuple(columns)
