"""The relational algebra: the logical plan of both SQL and Datalog.

A relation is a multiset of rows; scalars refer to input columns by position. All nodes are frozen
data; rewriting makes new trees. Column numbering of an operator's output is stated at each node.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Final, TypeVar, assert_never, cast

from kpg.compiler.qualified_names import resolve
from kpg.runtime.errors import Span
from kpg.runtime.functions import Direction
from kpg.runtime.plan.nodes import WindowCall
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Scalar
from kpg.runtime.types import BIGINT, HashedOnce, Type, hash_once


class Relation(HashedOnce):
    """Base of all nodes: where :func:`once` keeps what it has found about one, which is not pickled."""

    __slots__ = ("_free", "_size", "_types")


Found = TypeVar("Found")


def once(slot: str, find: "Callable[[Rel], Found]") -> "Callable[[Rel], Found]":
    """The function, which keeps what it finds in a slot of the node: passes ask it again and again."""
    keep = object.__setattr__

    def known(rel: Rel) -> Found:
        try:
            return cast("Found", getattr(rel, slot))
        except AttributeError:
            found = find(rel)
            keep(rel, slot, found)
            return found

    return known


@hash_once
@dataclass(frozen=True, slots=True)
class Get(Relation):
    """A catalog relation. A base table has one more column at the end: its ROWID, unique per row."""

    name: str
    types: tuple[Type, ...]
    nullable: tuple[bool, ...]
    keys: tuple[tuple[int, ...], ...] = ()
    """Column sets that are unique: the primary key, the rowid."""
    is_table: bool = True

    def __post_init__(self) -> None:
        resolve(self, "name")


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
    """Inner join: the product of the inputs' rows for which every predicate of ``on`` is true.

    Columns are the inputs' columns one after the other. ``orders``, if there are any: for each input, the
    others by place in the order in which its changes look them up; empty where the planner chooses.
    """

    inputs: "tuple[Rel, ...]"
    on: tuple[Scalar, ...] = ()
    orders: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate: ``count`` (of rows when ``args`` is empty), ``sum``, ``min``, ``max``, ``string_agg``...

    ``avg`` and the like are rewritten to these when bound. ``distinct``: of rows with equal ``args`` one
    counts; what an accumulable aggregate does not take is there to tell rows apart.
    """

    function: str
    args: tuple[Scalar, ...]
    distinct: bool
    type: Type
    order: tuple[Direction, ...] = ()
    """The rows are taken in the order of as many keys, the last of ``args``."""
    text: str = field(default="", compare=False)
    """The call as the user would recognise it, for errors."""


@hash_once
@dataclass(frozen=True, slots=True)
class Reduce(Relation):
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
class RowCall:
    """A call of a function that makes rows (``functions.tables``), with columns of ``types``."""

    function: str
    args: tuple[Scalar, ...]
    types: tuple[Type, ...]
    nullable: bool = True
    """Whether columns of its rows can be NULL."""
    text: str = field(default="", compare=False)
    """The call as the user would recognise it, for errors."""


@hash_once
@dataclass(frozen=True, slots=True)
class Expand(Relation):
    """Each input row as often as the longest of ``calls`` has rows, its columns followed by theirs.

    The rows of the calls stand side by side, NULLs where one has fewer than another; after them their
    number from 1 on, a BIGINT, if ``ordinality``. With ``outer`` a row for which there are none stays,
    with NULLs.
    """

    input: "Rel"
    calls: tuple[RowCall, ...]
    ordinality: bool = False
    outer: bool = False


@hash_once
@dataclass(frozen=True, slots=True)
class TopK(Relation):
    """Rows ``offset .. offset + limit`` of each group of equal ``group`` columns, by ``order``."""

    input: "Rel"
    group: tuple[int, ...]
    order: tuple[OrderBy, ...]
    limit: int | None
    offset: int = 0


@hash_once
@dataclass(frozen=True, slots=True)
class Window(Relation):
    """The input's columns, then what ``calls`` say of each row among those of equal ``partition`` columns.

    Rows are in ``order``, peers (equal by it) in the order of ``ties`` and then in any that is always the
    same. Equal rows are as many rows.
    """

    input: "Rel"
    partition: tuple[int, ...]
    order: tuple[OrderBy, ...]
    ties: tuple[OrderBy, ...]
    calls: tuple[WindowCall, ...]


@hash_once
@dataclass(frozen=True, slots=True)
class Distinct(Relation):
    """Each row with positive multiplicity, once. NULLs equal each other."""

    input: "Rel"


@hash_once
@dataclass(frozen=True, slots=True)
class Threshold(Relation):
    """Each row as often as its multiplicity, where that is positive."""

    input: "Rel"


@hash_once
@dataclass(frozen=True, slots=True)
class Negate(Relation):
    """Every multiplicity times -1."""

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
    """Where the subquery is written."""


@hash_once
@dataclass(frozen=True, slots=True)
class Let(Relation):
    """``body`` with ``id`` standing for ``value``."""

    id: str
    value: "Rel"
    body: "Rel"


@hash_once
@dataclass(frozen=True, slots=True)
class LetRec(Relation):
    """``body`` with ``ids`` standing for the fixed point of ``values``, which may refer to each other.

    They are computed by rounds from empty relations; with a ``limit``, so many rounds, more of which
    would be an error if ``error_at_limit``.
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
            return tuple(inner[column] for column in columns)
        case Join(inputs=sources):
            return tuple(type_ for source in sources for type_ in types(source))
        case Reduce(keys=keys, aggregates=aggregates):
            return tuple(k.type for k in keys) + tuple(a.type for a in aggregates)
        case Expand(input=source, calls=expanded, ordinality=numbered):
            made = (type_ for call in expanded for type_ in call.types)
            return (*types(source), *made, *((BIGINT,) if numbered else ()))
        case Union(inputs=sources):
            return types(sources[0])
        case Let(body=body) | LetRec(body=body):
            return types(body)
        case _:
            assert_never(rel)


types: Final = once("_types", _types)
"""The column types of a relation's rows."""
