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
from kpg.runtime.values.styles import DEFAULT_STYLE, Style


@dataclass(frozen=True, slots=True)
class RelationRead:
    """Relation that a statement reads, with the names of the columns read.

    ``is_scanned``: it is read even if no column is.
    """

    entry: Entry
    is_scanned: bool
    column_names: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Reads:
    """Relations and columns that a statement reads, recorded for privilege checks."""

    relations: list[RelationRead] = field(default_factory=list)
    _columns: dict[int, tuple[RelationRead, str]] = field(default_factory=dict)
    locked_relations: list[RelationRead] = field(default_factory=list)
    routine_reads: "list[tuple[Catalog, Reads]]" = field(default_factory=list)
    """Reads of function bodies that run with the privileges of the functions' owners."""

    def add_relation(
        self, entry: Entry, columns: Iterable[Column], *, is_scanned: bool = True, locks_rows: bool = False
    ) -> None:
        """Record a relation of the statement and the ids of its columns.

        ``locks_rows``: FOR UPDATE locks its rows.
        """
        read = RelationRead(entry, is_scanned)
        self.relations.append(read)
        if locks_rows:
            self.locked_relations.append(read)
        for name, column in zip(entry.schema.names, columns, strict=False):
            self._columns[column.index] = (read, name)

    def add_aliases(self, columns: Iterable[Column], aliases: Iterable[Column]) -> None:
        """Record the columns ``aliases`` as aliases of ``columns``."""
        for column, alias in zip(columns, aliases, strict=False):
            if column.index in self._columns:
                self._columns[alias.index] = self._columns[column.index]

    def walk(self) -> Iterator[RelationRead]:
        """Yield the relations that are read, also by functions."""
        yield from self.relations
        for _, nested in self.routine_reads:
            yield from nested.walk()

    def add_column(self, column: Column) -> None:
        """Record a column that the statement refers to."""
        found = self._columns.get(column.index)
        if found is not None:
            found[0].column_names.add(found[1])


Ids = frozenset[int]


@dataclass(frozen=True, slots=True)
class Scan:
    """Scan of a catalog relation or a view's plan; ``ids`` for all columns, a table's rowid included."""

    rel: Rel
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SharedScan:
    """Scan of the WITH query or view ``name`` of :attr:`BoundQuery.shared_queries`, under new ids.

    Only a recursive query can refer to columns of enclosing queries, ``outer``. It is then evaluated
    for each combination of their values.
    """

    name: str
    ids: tuple[int, ...]
    outer: Ids = frozenset()


@dataclass(frozen=True, slots=True)
class Rows:
    """Constant rows."""

    rows: tuple[tuple[Literal, ...], ...]
    ids: tuple[int, ...]
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """Selection of the rows for which every predicate is true."""

    input: "Node"
    predicates: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """Extension of the input's columns by ``scalars``, each under its id."""

    input: "Node"
    ids: tuple[int, ...]
    scalars: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Join of two nodes; ``right`` may refer to the columns of ``left`` (LATERAL).

    ``kind`` is ``inner``, ``left`` or ``full``.
    """

    kind: str
    left: "Node"
    right: "Node"
    on: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Aggregation to one row per group: the keys under their ids, then the aggregates under theirs."""

    input: "Node"
    key_ids: tuple[int, ...]
    keys: tuple[Scalar, ...]
    ids: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]


@dataclass(frozen=True, slots=True)
class GroupingSets:
    """Aggregation over several sets of keys; the keys that a set lacks are NULL.

    ``sets`` are positions in ``keys``. ``marks`` are the ids of columns that identify a group's set:
    column ``marks[i]`` has the value ``mark_values[i][j]`` for the groups of set j.
    """

    input: "Node"
    key_ids: tuple[int, ...]
    keys: tuple[Scalar, ...]
    ids: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    sets: tuple[tuple[int, ...], ...]
    marks: tuple[int, ...]
    mark_values: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Expand:
    """Expansion of each input row by the rows of ``calls``, side by side; their columns have the ``ids``.

    With ``ordinality`` the last id is the row number among the rows of one input row.
    """

    input: "Node"
    ids: tuple[int, ...]
    calls: tuple[RowCall, ...]
    ordinality: bool = False


@dataclass(frozen=True, slots=True)
class Distinct:
    """Distinct combinations of the ``columns``; the input's other columns are dropped."""

    input: "Node"
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class SortKey:
    """Column to sort by."""

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
    """Input's columns and, under ``ids``, the results of window ``calls``.

    ``ties`` orders rows that are equal by ``order``: the order of arrival, as far as it is known.
    """

    input: "Node"
    partition: tuple[Column, ...]
    order: tuple[SortKey, ...]
    ties: tuple[SortKey, ...]
    ids: tuple[int, ...]
    calls: tuple[WindowCall, ...]


@dataclass(frozen=True, slots=True)
class SetOperation:
    """Set operation; ``kind`` is ``union``, ``intersect`` or ``except``; all columns have new ids."""

    kind: str
    all: bool
    left: "Query"
    right: "Query"
    ids: tuple[int, ...]


Node = (
    Scan
    | SharedScan
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
    """Relation of the ``columns`` of ``node``, in that order."""

    node: Node
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    order: tuple[SortKey, ...] = ()
    """Order without a limit; it matters only at the top."""


@dataclass(frozen=True, slots=True)
class Subquery:
    """Subquery in an expression.

    ``scalar``: the value of its one column in its one row, NULL without a row. ``exists``: whether
    there is a row. ``any``: whether ``comparison`` (over the outer columns and the query's) is true for
    some row, NULL if it is true for none but NULL for some.
    """

    id: int
    kind: str
    query: Query
    type: Type
    comparison: tuple[Scalar, ...] = ()
    """Conjuncts of the comparison, for ``any``."""
    locate: Callable[[], Span | None] = field(default=lambda: None, compare=False, repr=False)
    """Function that finds the span in the text; it takes time in proportion to the text."""
    outer: list[Ids] = field(default_factory=list, init=False, compare=False, repr=False)
    """The result of :func:`subquery_free_ids`, once it is computed."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Recursive queries: the fixed point of queries that refer to each other, from no rows on.

    With a ``limit``, the result after that many rounds, or an error if the last round changed
    something.
    """

    names: tuple[str, ...]
    queries: tuple[Query, ...]
    limit: int | None = None
    error_at_limit: bool = False


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """Whole bound query: the query, its subqueries by id, the shared queries in order of definition.

    ``loops`` maps the name of each shared query in a loop to the loop.
    """

    query: Query
    subqueries: dict[int, Subquery]
    shared_queries: dict[str, Query]
    loops: dict[str, Loop]
    next_id: int
    """First unused id."""
    reads: Reads | None = None
    """Relations that the query reads, for privilege checks; None if no check is needed."""
    style: Style = DEFAULT_STYLE
    """Session's time zone and DateStyle."""


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct inputs of a node."""
    match node:
        case Scan() | SharedScan() | Rows():
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
    """Yield the node and everything below it, without the subqueries in its scalars."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def scalars(node: Node) -> tuple[Scalar, ...]:
    """Return the scalars that the node evaluates."""
    match node:
        case Scan() | SharedScan() | Rows():
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
    """Return the ids of the columns that the node itself computes."""
    match node:
        case Scan(ids=ids) | SharedScan(ids=ids) | Rows(ids=ids) | Map(ids=ids) | SetOperation(ids=ids):
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


def output_ids(node: Node) -> Ids:
    """Return the ids of the columns of the node's rows."""
    match node:
        case Filter() | TopK():
            return output_ids(node.input)
        case Map(input=source, ids=ids) | Expand(input=source, ids=ids) | Window(input=source, ids=ids):
            return output_ids(source) | set(ids)
        case Join(left=left, right=right):
            return output_ids(left) | output_ids(right)
        case Distinct(columns=kept):
            return frozenset(column.index for column in kept)
        case Scan() | SharedScan() | Rows() | Group() | GroupingSets() | SetOperation():
            return frozenset(own_ids(node))
        case _:
            assert_never(node)


def referenced_ids(scalar: Scalar, subqueries: dict[int, Subquery]) -> Ids:
    """Return the columns that a scalar needs, with the outer columns that its subqueries need."""
    result: set[int] = set()
    for id_ in columns(scalar):
        subquery = subqueries.get(id_)
        result |= {id_} if subquery is None else subquery_free_ids(subquery, subqueries)
    return frozenset(result)


def subquery_free_ids(subquery: Subquery, subqueries: dict[int, Subquery]) -> Ids:
    """Return the columns of enclosing queries that a subquery refers to."""
    if not subquery.outer:
        own = {column.index for column in subquery.query.columns}
        compared = frozenset[int]().union(*(referenced_ids(part, subqueries) for part in subquery.comparison))
        subquery.outer.append(free_ids(subquery.query.node, subqueries) | (compared - own))
    return subquery.outer[0]


def shared_query_names(node: Node, subqueries: dict[int, Subquery]) -> frozenset[str]:
    """Return the names of the shared queries that a node and its subqueries refer to."""
    found: set[str] = set()
    for part in walk(node):
        if isinstance(part, SharedScan):
            found.add(part.name)
        for scalar in scalars(part):
            found.update(*(subquery_shared_names(id_, subqueries) for id_ in columns(scalar)))
    return frozenset(found)


def subquery_shared_names(id_: int, subqueries: dict[int, Subquery]) -> frozenset[str]:
    """Return the names of the shared queries that the subquery ``id_`` refers to; none for a column's id."""
    subquery = subqueries.get(id_)
    if subquery is None:
        return frozenset()
    inner = (
        subquery_shared_names(other, subqueries) for part in subquery.comparison for other in columns(part)
    )
    return shared_query_names(subquery.query.node, subqueries).union(*inner)


def free_ids(node: Node, subqueries: dict[int, Subquery]) -> Ids:
    """Return the columns that a node refers to and that nothing below it computes."""
    needed: set[int] = set()
    computed: set[int] = set()
    for part in walk(node):
        computed.update(own_ids(part))
        if isinstance(part, SharedScan):
            needed |= part.outer
        for scalar in scalars(part):
            needed |= referenced_ids(scalar, subqueries)
    return frozenset(needed - computed)
