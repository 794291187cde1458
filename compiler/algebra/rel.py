"""The relational algebra: the one logical plan that SQL and Datalog both become.

A relation is a multiset of rows; scalars refer to input columns by position. All nodes are frozen
data; rewriting makes new trees. Column numbering of an operator's output is stated at each node.
"""

from dataclasses import dataclass
from typing import assert_never

from kpg.runtime.scalar import Scalar
from kpg.runtime.types import Type


@dataclass(frozen=True, slots=True)
class Get:
    """A catalog relation. A base table has one more column at the end: its ROWID, unique per row."""

    name: str
    types: tuple[Type, ...]
    nullable: tuple[bool, ...]
    keys: tuple[tuple[int, ...], ...] = ()
    """Column sets that are unique: the primary key, the rowid."""
    is_table: bool = True


@dataclass(frozen=True, slots=True)
class Constant:
    """Literal rows (values as in ``scalar.Literal``)."""

    rows: tuple[tuple[int | str | None, ...], ...]
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class LocalGet:
    """The relation bound to ``id`` by an enclosing Let or LetRec."""

    id: str
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """The input's columns followed by ``scalars``, each of which sees the input's columns only."""

    input: "Rel"
    scalars: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which every predicate is true."""

    input: "Rel"
    predicates: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """The chosen input columns, in that order, repetition allowed."""

    input: "Rel"
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Inner join: the product of the inputs' rows for which every predicate of ``on`` is true.

    Columns are the inputs' columns one after the other.
    """

    inputs: "tuple[Rel, ...]"
    on: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate: ``count`` (of rows when ``args`` is empty), ``sum``, ``min``, ``max``, ``string_agg``...

    ``avg`` and the like are rewritten to these when bound.
    """

    function: str
    args: tuple[Scalar, ...]
    distinct: bool
    type: Type


@dataclass(frozen=True, slots=True)
class Reduce:
    """Groups by ``keys``; columns are the keys, then the aggregates. No keys: exactly one row, always."""

    input: "Rel"
    keys: tuple[Scalar, ...]
    aggregates: tuple[AggregateCall, ...]


@dataclass(frozen=True, slots=True)
class OrderBy:
    """One sort key: an input column, its direction, and where NULLs go."""

    column: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class TopK:
    """Rows ``offset .. offset + limit`` of each group of equal ``group`` columns, by ``order``."""

    input: "Rel"
    group: tuple[int, ...]
    order: tuple[OrderBy, ...]
    limit: int | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Distinct:
    """Each row with positive multiplicity, once. NULLs equal each other."""

    input: "Rel"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Each row as often as its multiplicity, where that is positive."""

    input: "Rel"


@dataclass(frozen=True, slots=True)
class Negate:
    """Every multiplicity times -1."""

    input: "Rel"


@dataclass(frozen=True, slots=True)
class Union:
    """The sum of multiplicities (UNION ALL)."""

    inputs: "tuple[Rel, ...]"


@dataclass(frozen=True, slots=True)
class Single:
    """The input, asserted to have at most one row per value of the ``group`` columns (scalar subquery)."""

    input: "Rel"
    group: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Let:
    """``body`` with ``id`` standing for ``value``."""

    id: str
    value: "Rel"
    body: "Rel"


@dataclass(frozen=True, slots=True)
class LetRec:
    """``body`` with ``ids`` standing for the least fixed point (by rounds) of ``values``."""

    ids: tuple[str, ...]
    values: "tuple[Rel, ...]"
    types: tuple[tuple[Type, ...], ...]
    limit: int | None
    body: "Rel"


Rel = (
    Get
    | Constant
    | LocalGet
    | Map
    | Filter
    | Project
    | Join
    | Reduce
    | TopK
    | Distinct
    | Threshold
    | Negate
    | Union
    | Single
    | Let
    | LetRec
)


def types(rel: Rel) -> tuple[Type, ...]:
    """The column types of a relation's rows."""
    match rel:
        case Get(types=result) | Constant(types=result) | LocalGet(types=result):
            return result
        case Map(input=source, scalars=scalars):
            return types(source) + tuple(scalar.type for scalar in scalars)
        case Filter(input=source) | TopK(input=source) | Distinct(input=source):
            return types(source)
        case Threshold(input=source) | Negate(input=source) | Single(input=source):
            return types(source)
        case Project(input=source, columns=columns):
            inner = types(source)
            return tuple(inner[column] for column in columns)
        case Join(inputs=sources):
            return tuple(type_ for source in sources for type_ in types(source))
        case Reduce(keys=keys, aggregates=aggregates):
            return tuple(k.type for k in keys) + tuple(a.type for a in aggregates)
        case Union(inputs=sources):
            return types(sources[0])
        case Let(body=body) | LetRec(body=body):
            return types(body)
        case _:
            assert_never(rel)
