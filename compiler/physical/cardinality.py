"""Cardinality estimates: row counts of relations and selectivities of predicates.

The estimates are coarse constants. They only choose between plans that are all correct.
:class:`Statistics` is the planner's interface to statistics of the data.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import Final, Protocol, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import Facts
from kpg.compiler.algebra.rel import Rel
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar


class Statistics(Protocol):
    """Statistics of the data for the planner."""

    def rows(self, table: str) -> int:
        """Return the approximate number of rows of a table."""

    def arrangements(self, table: str) -> tuple[tuple[int, ...], ...]:
        """Return the key columns of each existing arrangement of a table, in order."""

    @property
    def early_materialization(self) -> bool:
        """Whether columns must be read before a row is sent to another worker, as only its owner has it."""


@dataclass(frozen=True, slots=True)
class NoStatistics:
    """No statistics: each table has 1000 rows and no arrangement."""

    def rows(self, table: str) -> int:
        return 1000

    def arrangements(self, table: str) -> tuple[tuple[int, ...], ...]:
        return ()

    @property
    def early_materialization(self) -> bool:
        return False


DEFAULT_ROWS: Final = 1000.0
"""Estimated rows of an unknown relation, and of an empty table, which will be filled."""
EXPANSION_FACTOR: Final = 10.0
"""Estimated rows that a set-returning function returns per input row."""
SELECTIVITY: Final = {"eq": 0.1, "is_null": 0.1, "in": 0.2, "like": 0.3, "is_not_null": 1.0, "ne": 0.9}
COMPARISONS: Final = frozenset({"lt", "le", "gt", "ge"})


def selectivity(predicates: Iterable[Scalar]) -> float:
    """Return the fraction of rows that satisfy all the predicates.

    These must not compare relations.
    """
    result = 1.0
    for predicate in predicates:
        result *= _selectivity(predicate)
    return result


def _selectivity(predicate: Scalar) -> float:
    match predicate:
        case Call(function="and", args=args):
            return selectivity(args)
        case Call(function="or", args=args):
            return min(1.0, sum(_selectivity(arg) for arg in args))
        case Call(function="not", args=(arg,)):
            return 1.0 - min(0.9, _selectivity(arg))
        case Call(function=function, args=args) if function in COMPARISONS:
            return 0.4 if any(isinstance(arg, Literal) for arg in args) else 0.6
        case Call(function="eq", args=args) if not any(isinstance(arg, Literal) for arg in args):
            return 0.3
        case Call(function=function):
            return SELECTIVITY.get(function, 0.5)
        case Column() | Fetch() | Literal() | If():
            return 0.5
        case _:
            assert_never(predicate)


def filter_selectivity(rel: Rel) -> float:
    """Return the fraction of rows that the filters at the top of a relation keep."""
    result = 1.0
    while isinstance(rel, algebra.Filter | algebra.Map | algebra.Project):
        if isinstance(rel, algebra.Filter):
            result *= selectivity(rel.predicates)
        rel = rel.input
    return result


@dataclass(slots=True, eq=False)
class CardinalityEstimates:
    """Estimated row counts, computed once per relation.

    The ids of lets must be unique.
    """

    statistics: Statistics
    facts: Facts
    _rows: dict[Rel, float] = field(default_factory=dict)

    def rows(self, rel: Rel) -> float:
        """Return the estimated number of rows, at least 1."""
        known = self._rows.get(rel)
        if known is None:
            single = self.facts.at_most_one_row(rel)
            known = self._rows[rel] = 1.0 if single else max(1.0, self._estimate_rows(rel))
        return known

    def _estimate_rows(self, rel: Rel) -> float:
        match rel:
            case algebra.Get(name=name, is_table=is_table):
                return float(self.statistics.rows(name) if is_table else 0) or DEFAULT_ROWS
            case algebra.Constant(rows=values):
                return float(len(values))
            case algebra.LocalGet(id=id_):
                return self.rows(self.facts.let_values[id_]) if id_ in self.facts.let_values else DEFAULT_ROWS
            case algebra.Filter(input=source, predicates=predicates):
                return self.rows(source) * selectivity(predicates)
            case algebra.Reduce(input=source) | algebra.Distinct(input=source):
                return self.rows(source) * 0.5
            case algebra.Expand(input=source):
                return self.rows(source) * EXPANSION_FACTOR
            case algebra.TopK(input=source, limit=limit, group=group):
                most = self.rows(source)
                return most if limit is None or group else min(most, float(limit))
            case algebra.Map(input=source) | algebra.Project(input=source) | algebra.Negate(input=source):
                return self.rows(source)
            case algebra.Threshold() | algebra.Single() | algebra.Window():
                return self.rows(rel.input)
            case algebra.Join(inputs=inputs):
                return max(self.rows(source) * filter_selectivity(source) for source in inputs)
            case algebra.Union(inputs=inputs):
                return sum(self.rows(source) for source in inputs if not isinstance(source, algebra.Negate))
            case algebra.Let(body=body):
                return self.rows(body)
            case algebra.LetRec():
                return DEFAULT_ROWS
            case _:
                assert_never(rel)
