"""A join as the planner sees it: a list of relations, and predicates over all their columns.

Columns are numbered across all relations. A base table contributes only its rowid, and its
columns are ``Fetch`` scalars over the rowid. A derived relation contributes its columns, which
may include rowids.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import (
    NEVER_NULL,
    NON_STRICT,
    all_columns,
    can_introduce_null,
    conjuncts,
    substitute,
)
from kpg.compiler.physical.cardinality import filter_selectivity
from kpg.compiler.physical.context import Planning
from kpg.runtime.errors import InternalError
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, columns, remap
from kpg.runtime.types import ROWID, Type

Slots = frozenset[int]


@dataclass(frozen=True, slots=True)
class Relation:
    """An input of a join, with columns ``start .. stop`` in the numbering of the problem."""

    start: int
    stop: int
    source: Rel | Ref
    """A base table's Get, a derived relation, or a stream that is already planned."""
    keys: tuple[frozenset[Scalar], ...]
    rows: float
    selectivity: float
    """Estimated fraction of rows that the filters inside a derived relation keep."""
    never_null: frozenset[Scalar]
    types: tuple[Type, ...]
    early_materialization: bool = False
    """Whether a base table contributes its columns, as a derived relation does."""

    @property
    def table(self) -> str | None:
        """Name of the base table, or None."""
        source = self.source
        if self.early_materialization or not isinstance(source, algebra.Get):
            return None
        return source.name if source.is_table else None

    @property
    def rowid(self) -> Column:
        """The rowid, the only column that a base table contributes."""
        return Column(self.stop - 1, ROWID)

    @property
    def is_single(self) -> bool:
        """Whether the relation has at most one row."""
        return frozenset() in self.keys


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows of the product of the relations that satisfy the predicates, mapped to the outputs."""

    relations: tuple[Relation, ...]
    predicates: tuple[Scalar, ...]
    outputs: tuple[Scalar, ...]
    orders: tuple[tuple[int, ...], ...] = ()
    """Fixed lookup orders, as in ``rel.Join``."""
    slots_cache: dict[Scalar, Slots] = field(default_factory=dict, compare=False, repr=False)
    """Cache of :meth:`slots`."""
    domains: dict[object, float | None] = field(default_factory=dict, compare=False, repr=False)
    """Cache of the estimated number of distinct values per equivalence class."""

    def slots(self, scalar: Scalar) -> Slots:
        """Return the positions of the relations that a scalar reads."""
        result = self.slots_cache.get(scalar)
        if result is None:
            result = self.slots_cache[scalar] = frozenset(map(self._owner, columns(scalar)))
        return result

    def _owner(self, column: int) -> int:
        for index, relation in enumerate(self.relations):
            if relation.start <= column < relation.stop:
                return index
        raise InternalError(f"no relation of the join has column {column}")

    def can_be_null(self, scalar: Scalar) -> bool:
        """Return whether the scalar can be NULL, given the columns that cannot."""
        if any(scalar in relation.never_null for relation in self.relations):
            return False
        match scalar:
            case Call(function=function, args=args):
                if function in NEVER_NULL:
                    return False
                if function in NON_STRICT or any(self.can_be_null(arg) for arg in args):
                    return True
                return can_introduce_null(scalar)
            case Literal(value=value):
                return value is None
            case Column() | If() | Fetch():
                return True
            case _:
                assert_never(scalar)


def problem_of(planning: Planning, join: algebra.Join, mfp: Mfp) -> Problem:
    """Return the mfp over the join's rows as a problem."""
    relations: list[Relation] = []
    values: list[Scalar] = []
    predicates: list[Scalar] = []
    start = 0
    for source in join.inputs:
        core, over_core = _peel_base_table(
            source, early_materialization=planning.column_origins.early_materialization
        )
        base = _global_columns(planning, core, start)
        relation = _relation(planning, core, base, start)
        predicates += [substitute(predicate, base) for predicate in over_core.predicates]
        values += [substitute(output, base) for output in over_core.outputs]
        relations.append(relation)
        start = relation.stop
    predicates += [substitute(test, values) for test in (*join.on, *mfp.predicates)]
    outputs = tuple(substitute(output, values) for output in mfp.outputs)
    return Problem(tuple(relations), conjuncts(predicates), outputs, join.orders)


def _peel_base_table(rel: Rel, *, early_materialization: bool) -> tuple[Rel, Mfp]:
    """Return a base table below maps, filters and projections, and these as an mfp.

    Any other relation is returned unchanged, and so is every relation under early materialization.
    """
    layers: list[algebra.Map | algebra.Filter | algebra.Project] = []
    core = rel
    while isinstance(core, algebra.Map | algebra.Filter | algebra.Project):
        layers.append(core)
        core = core.input
    if early_materialization or not (isinstance(core, algebra.Get) and core.is_table):
        core, layers = rel, []
    values: list[Scalar] = [*all_columns(core)]
    predicates: list[Scalar] = []
    for layer in reversed(layers):
        match layer:
            case algebra.Map(scalars=scalars):
                values += [substitute(scalar, values) for scalar in scalars]
            case algebra.Filter(predicates=tests):
                predicates += [substitute(test, values) for test in tests]
            case algebra.Project(columns=chosen):
                values = [values[column] for column in chosen]
            case _:
                assert_never(layer)
    return core, Mfp(tuple(predicates), tuple(values))


def _relation(planning: Planning, core: Rel, base: Sequence[Scalar], start: int) -> Relation:
    """Return the relation with columns ``base``.

    The columns that it contributes are numbered from ``start``.
    """
    types = algebra.types(core)
    flags = planning.facts.nullable(core)
    keys = tuple(frozenset(base[column] for column in key) for key in planning.facts.unique_keys(core))
    size = planning.estimates.rows(core)
    if isinstance(core, algebra.Get) and core.is_table and len(core.keys) > 1:
        planning.access.primary_keys.setdefault(core.name, core.keys[0])
    not_null = frozenset(column for column, flag in zip(base, flags, strict=True) if not flag)
    early = planning.column_origins.early_materialization
    return Relation(
        start, start + len(types), core, keys, size, filter_selectivity(core), not_null, types, early
    )


def _global_columns(planning: Planning, core: Rel, start: int) -> Sequence[Scalar]:
    """Return the relation's columns as scalars over those that it contributes to the problem."""
    return [
        remap(scalar, lambda column: column + start) for scalar in planning.column_origins.late_columns(core)
    ]
