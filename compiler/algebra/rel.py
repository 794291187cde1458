"""The relational algebra: the logical plan of both SQL and Datalog.

A relation is a multiset of rows. Scalars refer to input columns by position. All nodes are frozen
data, and a rewrite makes new trees. Each node states how its output columns are numbered.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Final, TypeVar, assert_never, cast

from kpg.compiler.qualified_names import mark_qualified
from kpg.runtime.errors import Span
from kpg.runtime.functions import Direction
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Scalar
from kpg.runtime.types import BIGINT, CachedHash, Type, hash_once


class Relation(CachedHash):
    """Base of all nodes, with the slots in which :func:`memoize` caches results.

    They are not pickled.
    """

    __slots__ = ("_free", "_size", "_types")


Found = TypeVar("Found")


def memoize(slot: str, find: "Callable[[Rel], Found]") -> "Callable[[Rel], Found]":
    """Return ``find`` with its result cached in a slot of the node."""
    keep = object.__setattr__

    def cached(rel: Rel) -> Found:
        try:
            return cast("Found", getattr(rel, slot))
        except AttributeError:
            found = find(rel)
            keep(rel, slot, found)
            return found

    return cached


@hash_once
@dataclass(frozen=True, slots=True)
class Get(Relation):
    """A catalog relation.

    A base table has its unique ROWID as an additional last column.
    """

    name: str
    types: tuple[Type, ...]
    nullable: tuple[bool, ...]
    keys: tuple[tuple[int, ...], ...] = ()
    """Unique column sets, such as the primary key and the rowid."""
    is_table: bool = True

    def __post_init__(self) -> None:
        mark_qualified(self, "name")


@hash_once
@dataclass(frozen=True, slots=True)
class Constant(Relation):
    """Literal rows (values as in ``scalar.Literal``)."""

    rows: tuple[tuple[int | str | None, ...], ...]
    types: tuple[Type, ...]


@hash_once
@dataclass(frozen=True, slots=True)
class LocalGet(Relation):
    """The relation bound to ``id`` by an enclosing Let or LetRec."""

    id: str
    types: tuple[Type, ...]


@hash_once
@dataclass(frozen=True, slots=True)
class Map(Relation):
    """The input's columns followed by ``scalars``, each of which sees the input's columns only."""

    input: "Rel"
    scalars: tuple[Scalar, ...]


@hash_once
@dataclass(frozen=True, slots=True)
class Filter(Relation):
    """The rows for which every predicate is true."""

    input: "Rel"
    predicates: tuple[Scalar, ...]


@hash_once
@dataclass(frozen=True, slots=True)
class Project(Relation):
    """The chosen input columns, in that order, repetition allowed."""

    input: "Rel"
    columns: tuple[int, ...]


@hash_once
@dataclass(frozen=True, slots=True)
class Join(Relation):
    """An inner join: the rows of the inputs' product that satisfy every predicate of ``on``.

    The columns are the inputs' columns, concatenated. ``orders`` has for each input the positions of
    the other inputs, in the order in which its changes look them up. If empty, the planner chooses.
    """

    inputs: "tuple[Rel, ...]"
    on: tuple[Scalar, ...] = ()
    orders: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate call, such as ``sum``, ``min``, or ``count``, which counts rows if ``args`` is empty.

    The binder rewrites ``avg`` and other composed aggregates to these. With ``distinct``, rows with
    equal ``args`` count once. An accumulable aggregate may have more ``args`` than it reads, to
    distinguish rows.
    """

    function: str
    args: tuple[Scalar, ...]
    distinct: bool
    type: Type
    order: tuple[Direction, ...] = ()
    """Directions of the sort keys, which are the last ``args``."""
    text: str = field(default="", compare=False)
    """Call as written by the user, for error messages."""


@hash_once
@dataclass(frozen=True, slots=True)
class Reduce(Relation):
    """Grouping by ``keys``.

    The columns are the keys, then the aggregates. Without keys there is always exactly one row.
    """

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
class RowCall:
    """A call of a set-returning function (``functions.table_functions``), with columns of ``types``."""

    function: str
    args: tuple[Scalar, ...]
    types: tuple[Type, ...]
    nullable: bool = True
    """Whether the columns of its rows can be NULL."""
    text: str = field(default="", compare=False)
    """Call as written by the user, for error messages."""


@hash_once
@dataclass(frozen=True, slots=True)
class Expand(Relation):
    """Each input row joined with the rows that ``calls`` return for it (ROWS FROM).

    The columns are the input's, then those of each call. Shorter results are padded with NULLs to the
    longest. With ``ordinality``, a last BIGINT column numbers the rows from 1. With ``outer``, an
    input row without results stays, padded with NULLs.
    """

    input: "Rel"
    calls: tuple[RowCall, ...]
    ordinality: bool = False
    outer: bool = False


@hash_once
@dataclass(frozen=True, slots=True)
class TopK(Relation):
    """Rows ``offset`` to ``offset + limit`` of each group of equal ``group`` columns, sorted by ``order``."""

    input: "Rel"
    group: tuple[int, ...]
    order: tuple[OrderBy, ...]
    limit: int | None
    offset: int = 0


@hash_once
@dataclass(frozen=True, slots=True)
class Window(Relation):
    """The input's columns, then the values of the window ``calls``.

    A partition has equal ``partition`` columns.

    Rows are sorted by ``order``, then by ``ties``, then in a fixed order. Duplicate rows count
    separately.
    """

    input: "Rel"
    partition: tuple[int, ...]
    order: tuple[OrderBy, ...]
    ties: tuple[OrderBy, ...]
    calls: tuple[WindowCall, ...]


@hash_once
@dataclass(frozen=True, slots=True)
class Distinct(Relation):
    """Each row with positive multiplicity, once.

    NULLs are equal.
    """

    input: "Rel"


@hash_once
@dataclass(frozen=True, slots=True)
class Threshold(Relation):
    """Each row with its multiplicity, if that is positive."""

    input: "Rel"


@hash_once
@dataclass(frozen=True, slots=True)
class Negate(Relation):
    """The input with all multiplicities negated."""

    input: "Rel"


@hash_once
@dataclass(frozen=True, slots=True)
class Union(Relation):
    """The sum of multiplicities (UNION ALL)."""

    inputs: "tuple[Rel, ...]"


@hash_once
@dataclass(frozen=True, slots=True)
class Single(Relation):
    """The input, asserted to have at most one row per value of the ``group`` columns (scalar subquery)."""

    input: "Rel"
    group: tuple[int, ...]
    place: Span | None = field(default=None, compare=False, repr=False)
    """Position of the subquery in the SQL text."""


@hash_once
@dataclass(frozen=True, slots=True)
class Let(Relation):
    """``body``, in which ``id`` is bound to ``value``."""

    id: str
    value: "Rel"
    body: "Rel"


@hash_once
@dataclass(frozen=True, slots=True)
class LetRec(Relation):
    """``body``, in which ``ids`` are bound to the fixed point of ``values``.

    These may refer to each other. The fixed point is computed in rounds from empty relations.
    ``limit`` bounds the number of rounds. If ``error_at_limit``, an error is raised when more rounds
    are needed.
    """

    ids: tuple[str, ...]
    values: "tuple[Rel, ...]"
    types: tuple[tuple[Type, ...], ...]
    limit: int | None
    body: "Rel"
    error_at_limit: bool = False


Rel = (
    Get
    | Constant
    | LocalGet
    | Map
    | Filter
    | Project
    | Join
    | Reduce
    | Expand
    | TopK
    | Window
    | Distinct
    | Threshold
    | Negate
    | Union
    | Single
    | Let
    | LetRec
)


def _types(rel: Rel) -> tuple[Type, ...]:
    match rel:
        case Get(types=result) | Constant(types=result) | LocalGet(types=result):
            return result
        case Map(input=source, scalars=scalars):
            return types(source) + tuple(scalar.type for scalar in scalars)
        case Filter(input=source) | TopK(input=source) | Distinct(input=source):
            return types(source)
        case Threshold(input=source) | Negate(input=source) | Single(input=source):
            return types(source)
        case Window(input=source, calls=calls):
            return types(source) + tuple(call.type for call in calls)
        case Project(input=source, columns=columns):
            inner = types(source)
            return tuple([inner[column] for column in columns])
        case Join(inputs=sources):
            return tuple(type_ for source in sources for type_ in types(source))
        case Reduce(keys=keys, aggregates=aggregates):
            return tuple(k.type for k in keys) + tuple(a.type for a in aggregates)
        case Expand(input=source, calls=expanded, ordinality=numbered):
            call_types = (type_ for call in expanded for type_ in call.types)
            return (*types(source), *call_types, *((BIGINT,) if numbered else ()))
        case Union(inputs=sources):
            return types(sources[0])
        case Let(body=body) | LetRec(body=body):
            return types(body)
        case _:
            assert_never(rel)


types: Final = memoize("_types", _types)
"""Column types of a relation's rows."""
