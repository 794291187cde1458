"""The bound query: names resolved, scalars typed, subqueries still nested.

Every column of every operator has an *id*, unique in the statement. Scalars refer to columns by id:
``Column.index`` is an id here, not a position. A column that an operator does not compute comes from its
input or, in a subquery, from an enclosing query. A subquery in a scalar is a Column whose id is the
subquery's. Lowering turns ids into positions.

:class:`Reads` records the relations and columns that a statement reads, for privilege checks.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import assert_never

from kpg.compiler.algebra.rel import AggregateCall, Rel, RowCall
from kpg.compiler.catalog.entries import Catalog, Entry
from kpg.runtime.errors import Span
from kpg.runtime.plan.nodes import WindowCall, call_columns
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Literal, Scalar, columns
from kpg.runtime.types import ROWID, Type
from kpg.runtime.values.styles import PLAIN, Style


@dataclass(frozen=True, slots=True)
class Read:
    """A relation, and its columns by their names. ``scanned``: it is read even if no column is."""

    entry: Entry
    scanned: bool
    used: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Reads:
    """The relations that a statement names, if what is read has to be known."""

    relations: list[Read] = field(default_factory=list)
    _columns: dict[int, tuple[Read, str]] = field(default_factory=dict)
    locked: list[Read] = field(default_factory=list)
    within: "list[tuple[Catalog, Reads]]" = field(default_factory=list)
    """What bodies of functions read with the rights of their owners."""

    def enter(
        self, entry: Entry, columns: Iterable[Column], *, scanned: bool = True, locked: bool = False
    ) -> None:
        """A relation is named, whose columns have these ids; FOR UPDATE: its rows are to be ``locked``."""
        read = Read(entry, scanned)
        self.relations.append(read)
        if locked:
            self.locked.append(read)
        for name, column in zip(entry.schema.names, columns, strict=False):
            self._columns[column.index] = (read, name)

    def also(self, columns: Iterable[Column], others: Iterable[Column]) -> None:
        """Other ids for the same columns."""
        for one, other in zip(columns, others, strict=False):
            if one.index in self._columns:
                self._columns[other.index] = self._columns[one.index]

    def use(self, column: Column) -> None:
        """A column is named."""
        known = self._columns.get(column.index)
        if known is not None:
            known[0].used.add(known[1])


Ids = frozenset[int]


@dataclass(frozen=True, slots=True)
class Scan:
    """A catalog relation or a view's plan; ``ids`` for all columns, a table's rowid included."""

    rel: Rel
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """The WITH query or view ``name`` of :attr:`Resolved.shared`, under new ids.

    Only a recursive query can refer to columns of queries around it, ``outer``: it is then one for each
    combination of their values.
    """

    name: str
    ids: tuple[int, ...]
    outer: Ids = frozenset()


@dataclass(frozen=True, slots=True)
class Rows:
    """Literal rows."""

    rows: tuple[tuple[Literal, ...], ...]
    ids: tuple[int, ...]
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which every predicate is true."""

    input: "Node"
    predicates: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """The input's columns and ``scalars``, each under its id."""

    input: "Node"
    ids: tuple[int, ...]
    scalars: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """``kind`` is ``inner``, ``left`` or ``full``; ``right`` may refer to ``left``'s columns (LATERAL)."""

    kind: str
    left: "Node"
    right: "Node"
    on: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One row per group: the keys under their ids, then the aggregates under theirs."""

    input: "Node"
    key_ids: tuple[int, ...]
    keys: tuple[Scalar, ...]
    ids: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]


@dataclass(frozen=True, slots=True)
class GroupingSets:
    """The groups of several sets of keys, all in one: the keys that a set lacks are NULL.

    ``sets`` are places in ``keys``. ``marks[i]`` is a column of its own that has, for a group of set j, the
    number ``marked[i][j]``: what tells the sets apart.
    """

    input: "Node"
    key_ids: tuple[int, ...]
    keys: tuple[Scalar, ...]
    ids: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    sets: tuple[tuple[int, ...], ...]
    marks: tuple[int, ...]
    marked: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Expand:
    """Each input row with the rows that ``calls`` make of it side by side: all their columns under ``ids``.

    With ``ordinality`` the last id is that of the number of the row among those made of one.
    """

    input: "Node"
    ids: tuple[int, ...]
    calls: tuple[RowCall, ...]
    ordinality: bool = False


@dataclass(frozen=True, slots=True)
class Distinct:
    """Each combination of the ``columns`` once; other columns of the input are gone."""

    input: "Node"
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to sort by."""

    column: Column
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class TopK:
    """Rows ``offset .. offset + limit`` of each group, in order."""

    input: "Node"
    group: tuple[Column, ...]
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class Window:
    """The input's columns and, under ``ids``, what ``calls`` say of each row in its partition.

    ``ties`` is the order of rows that are equal by ``order``: as far as it is known, that in which they came.
    """

    input: "Node"
    partition: tuple[Column, ...]
    order: tuple[SortKey, ...]
    ties: tuple[SortKey, ...]
    ids: tuple[int, ...]
    calls: tuple[WindowCall, ...]


@dataclass(frozen=True, slots=True)
class SetOperation:
    """``kind`` is ``union``, ``intersect`` or ``except``; all columns under new ids."""

    kind: str
    all: bool
    left: "Query"
    right: "Query"
    ids: tuple[int, ...]


Node = (
    Scan
    | Shared
    | Rows
    | Filter
    | Map
    | Join
    | Group
    | GroupingSets
    | Expand
    | Distinct
    | TopK
    | Window
    | SetOperation
)


@dataclass(frozen=True, slots=True)
class Query:
    """The ``columns`` of ``node``, in that order, as a relation."""

    node: Node
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    order: tuple[SortKey, ...] = ()
    """Order without limit, which matters only at the top."""


@dataclass(frozen=True, slots=True)
class Subquery:
    """A subquery in an expression.

    ``scalar``: its one column's value in its one row, NULL without one. ``exists``: whether there is
    a row. ``any``: whether ``comparison`` (over the outer columns and the query's) is true for some
    row, NULL if it is for none but NULL for some.
    """

    id: int
    kind: str
    query: Query
    type: Type
    comparison: tuple[Scalar, ...] = ()
    """Conjuncts of the comparison, for ``any``."""
    place: Callable[[], Span | None] = field(default=lambda: None, compare=False, repr=False)
    """Find where it is written, which takes as long as the text around it."""
    outer: list[Ids] = field(default_factory=list, init=False, compare=False, repr=False)
    """The result of :func:`free_of`, once it is computed."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Shared queries that refer to each other: the fixed point of their definitions, from no rows on.

    With a ``limit``, what is there after so many rounds, or an error if the last of them changed something.
    """

    names: tuple[str, ...]
    queries: tuple[Query, ...]
    limit: int | None = None
    error_at_limit: bool = False


@dataclass(frozen=True, slots=True)
class Resolved:
    """A whole bound query: the query, its subqueries by id, the shared queries in order of definition.

    ``loops`` has, for the name of each shared query of a loop, the loop.
    """

    query: Query
    subqueries: dict[int, Subquery]
    shared: dict[str, Query]
    loops: dict[str, Loop]
    next_id: int
    """All ids from here on are free."""
    reads: Reads | None = None
    """What it reads, if that may be refused."""
    style: Style = PLAIN
    """What its text of moments is like."""


def children(node: Node) -> tuple[Node, ...]:
    """The direct inputs of a node."""
    match node:
        case Scan() | Shared() | Rows():
            return ()
        case Join(left=left, right=right):
            return (left, right)
        case SetOperation(left=left_query, right=right_query):
            return (left_query.node, right_query.node)
        case Filter() | Map() | Group() | GroupingSets() | Expand() | Distinct() | TopK() | Window():
            return (node.input,)
        case _:
            assert_never(node)


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, without the subqueries in its scalars."""
    stack = [node]
    while stack:
        here = stack.pop()
        yield here
        stack.extend(reversed(children(here)))


def scalars(node: Node) -> tuple[Scalar, ...]:
    """The scalars that the node evaluates."""
    match node:
        case Scan() | Shared() | Rows():
            return ()
        case Filter(predicates=result) | Map(scalars=result) | Join(on=result):
            return result
        case Group(keys=keys, aggregates=aggregates) | GroupingSets(keys=keys, aggregates=aggregates):
            return (*keys, *(arg for call in aggregates for arg in call.args))
        case Expand(calls=calls):
            return tuple(arg for call in calls for arg in call.args)
        case Distinct(columns=result):
            return result
        case TopK(group=group, order=order):
            return (*group, *(key.column for key in order))
        case Window(partition=partition, order=order, ties=ties, calls=calls):
            called = (Column(id_, ROWID) for call in calls for id_ in call_columns(call))
            return (*partition, *(key.column for key in (*order, *ties)), *called)
        case SetOperation(left=left, right=right):
            return (*left.columns, *right.columns)
        case _:
            assert_never(node)


def own_ids(node: Node) -> tuple[int, ...]:
    """The ids that the node itself gives to columns."""
    match node:
        case Scan(ids=ids) | Shared(ids=ids) | Rows(ids=ids) | Map(ids=ids) | SetOperation(ids=ids):
            return ids
        case Expand(ids=ids) | Window(ids=ids):
            return ids
        case Group(key_ids=key_ids, ids=ids):
            return key_ids + ids
        case GroupingSets(key_ids=key_ids, ids=ids, marks=marks):
            return key_ids + ids + marks
        case Filter() | Join() | Distinct() | TopK():
            return ()
        case _:
            assert_never(node)


def produced(node: Node) -> Ids:
    """The ids of the columns that the node's rows have."""
    match node:
        case Filter() | TopK():
            return produced(node.input)
        case Map(input=source, ids=ids) | Expand(input=source, ids=ids) | Window(input=source, ids=ids):
            return produced(source) | set(ids)
        case Join(left=left, right=right):
            return produced(left) | produced(right)
        case Distinct(columns=kept):
            return frozenset(column.index for column in kept)
        case Scan() | Shared() | Rows() | Group() | GroupingSets() | SetOperation():
            return frozenset(own_ids(node))
        case _:
            assert_never(node)


def used(scalar: Scalar, subqueries: dict[int, Subquery]) -> Ids:
    """The columns that a scalar needs, those that its subqueries need from around them included."""
    result: set[int] = set()
    for id_ in columns(scalar):
        subquery = subqueries.get(id_)
        result |= {id_} if subquery is None else free_of(subquery, subqueries)
    return frozenset(result)


def free_of(subquery: Subquery, subqueries: dict[int, Subquery]) -> Ids:
    """The columns of the queries around it that a subquery refers to."""
    if not subquery.outer:
        own = {column.index for column in subquery.query.columns}
        compared = frozenset[int]().union(*(used(part, subqueries) for part in subquery.comparison))
        subquery.outer.append(free(subquery.query.node, subqueries) | (compared - own))
    return subquery.outer[0]


def shared_names(node: Node, subqueries: dict[int, Subquery]) -> frozenset[str]:
    """The shared queries that a node and the subqueries in it refer to."""
    found: set[str] = set()
    for part in walk(node):
        if isinstance(part, Shared):
            found.add(part.name)
        for scalar in scalars(part):
            found.update(*(names_in(id_, subqueries) for id_ in columns(scalar)))
    return frozenset(found)


def names_in(id_: int, subqueries: dict[int, Subquery]) -> frozenset[str]:
    """The shared queries that the subquery of an id refers to; none if the id is that of a column."""
    subquery = subqueries.get(id_)
    if subquery is None:
        return frozenset()
    inner = (names_in(other, subqueries) for part in subquery.comparison for other in columns(part))
    return shared_names(subquery.query.node, subqueries).union(*inner)


def free(node: Node, subqueries: dict[int, Subquery]) -> Ids:
    """The columns that a node refers to and that nothing below it makes."""
    needed: set[int] = set()
    made: set[int] = set()
    for part in walk(node):
        made.update(own_ids(part))
        if isinstance(part, Shared):
            needed |= part.outer
        for scalar in scalars(part):
            needed |= used(scalar, subqueries)
    return frozenset(needed - made)
