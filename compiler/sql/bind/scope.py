"""Scopes: the columns that names refer to at a place in a query, and the binding state of a statement."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from sqlglot import exp

from kpg.compiler.algebra.rel import AggregateCall, RowCall
from kpg.compiler.catalog.entries import Catalog, did_you_mean
from kpg.compiler.sql.bound_tree import Loop, Map, Node, Query, Reads, SortKey, Subquery, output_ids
from kpg.compiler.sql.parse.features import NO_FEATURES, Features
from kpg.compiler.sql.parse.syntax import allow_only, fail, refuse, span_of, whole_span
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.plan.nodes import Frame
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar
from kpg.runtime.types import UNKNOWN, ColumnDef, Type

if TYPE_CHECKING:
    from kpg.runtime.values import input_errors
else:
    input_errors = LazyModule("kpg.runtime.values.input_errors")

ROW_NUMBER: Final = "(row)"
"""Name of the hidden column that numbers the rows of FROM. No query text can name it."""

WIDEN_DECIMALS: Final = ContextVar("wide", default=False)
"""Whether DECIMAL columns are bound as NUMERIC: :mod:`kpg.execute.queries.query_plan`."""


HIDDEN_PREFIX: Final = "\0"
"""Prefix of hidden column names, which no query text can name. They locate the rows of a view."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column in scope: ``relation.name``, and also ``name`` alone if it is visible."""

    relation: str
    name: str
    column: Column
    is_visible: bool = True
    """Whether ``*`` and the unqualified name include it. The two sides of USING are not visible."""
    is_system: bool = False
    """Whether it is a system column such as ``tableoid``, which ``*`` never includes."""


@dataclass(slots=True)
class FieldIndex:
    """Fields by the names that they can have, in lower case."""

    named: dict[str, list[Field]] = field(default_factory=dict)
    """Those that are ``listed``."""
    relations: dict[str, dict[str, list[Field]]] = field(default_factory=dict)
    ids: set[int] = field(default_factory=set)

    def add(self, fields: Iterable[Field]) -> None:
        """Enter more fields, which come after those that are here."""
        for one in fields:
            name = one.name.lower()
            self.relations.setdefault(one.relation.lower(), {}).setdefault(name, []).append(one)
            if one.is_visible:
                self.named.setdefault(name, []).append(one)
            self.ids.add(one.column.index)


class Fields(list[Field]):
    """The fields of a FROM in order, with an index that is built when it is first asked for."""

    __slots__ = ("_index",)

    def __init__(self, fields: Iterable[Field] = ()) -> None:
        super().__init__(fields)
        self._index: FieldIndex | None = None

    @property
    def by_name(self) -> FieldIndex:
        """The index."""
        if self._index is None:
            self._index = FieldIndex()
            self._index.add(self)
        return self._index

    def matching(self, name: str, relation: str) -> list[Field]:
        """The fields that a name means, with the relation's name before it unless that is empty."""
        index = self.by_name
        among = index.relations.get(relation.lower(), {}) if relation else index.named
        return among.get(name.lower(), [])

    def append(self, one: Field) -> None:
        """Add a field."""
        self.extend((one,))

    def extend(self, fields: Iterable[Field]) -> None:
        """Add fields."""
        added = tuple(fields)
        super().extend(added)
        if self._index is not None:
            self._index.add(added)

    def __iadd__(self, fields: Iterable[Field]) -> Self:  # type: ignore[misc, override]
        self.extend(fields)
        return self

    def __setitem__(self, place: Any, value: Any) -> None:
        self._index = None
        super().__setitem__(place, value)


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A WITH query in scope. A correlated one is bound again at each use."""

    name: str
    syntax: exp.Expr
    column_names: tuple[str, ...]
    """Column names in parentheses after the query's name; fewer than its columns, or empty."""
    scope: "Scope"
    shared_key: str | None
    """Key of the query in ``Binding.shared``; None if it is correlated."""
    outer_ids: frozenset[int] = frozenset()
    """Columns of outer queries that the shared query refers to."""


@dataclass(slots=True)
class AggregateCollector:
    """The distinct aggregate calls in a grouped query's expressions, with their column ids."""

    ids: list[int] = field(default_factory=list)
    calls: list[AggregateCall] = field(default_factory=list)
    id_of_call: dict[AggregateCall, int] = field(default_factory=dict)
    """Column id of each call."""
    present: set[int] = field(default_factory=set)
    """The ids in ``ids``."""
    grouping_calls: list["GroupingCall"] = field(default_factory=list)
    """The distinct GROUPING calls."""
    direct_args: list[tuple[Scalar, exp.Expr]] = field(default_factory=list)
    """Direct arguments of ordered-set aggregates, evaluated once per group, with their syntax."""
    order_source: Callable[[], tuple[Node, tuple[SortKey, ...]]] | None = None
    """Return the input with row numbers where needed, and the keys of its row order."""
    ordered_source: tuple[Node, tuple[SortKey, ...]] | None = None
    """Result of ``order_source``, once an aggregate needs the row order."""

    @property
    def order(self) -> tuple[SortKey, ...]:
        """The order of the input rows, as far as the query determines it."""
        if self.ordered_source is None and self.order_source is not None:
            self.ordered_source = self.order_source()
        return () if self.ordered_source is None else self.ordered_source[1]

    @property
    def group_only_ids(self) -> frozenset[int]:
        """Ids of the aggregates and GROUPING calls, which only groups have."""
        return frozenset((*self.ids, *(marker.id for marker in self.grouping_calls)))

    def has_any(self, ids: Collection[int]) -> bool:
        """Whether one of the ids is of something that only groups have."""
        if len(self.present) != len(self.ids):
            self.present = set(self.ids)
        return not self.present.isdisjoint(ids) or any(marker.id in ids for marker in self.grouping_calls)


@dataclass(frozen=True, slots=True)
class GroupingCall:
    """GROUPING(keys...) with its column id: a bit mask of the keys that a row's grouping set lacks."""

    id: int
    keys: tuple[Scalar, ...]
    syntax: exp.Expr = field(compare=False)


@dataclass(frozen=True, slots=True)
class WindowSortKey:
    """One key of a window's ORDER BY."""

    scalar: Scalar
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class WindowDefinition:
    """The window of an OVER or WINDOW clause; ``frame`` is the syntax of the frame clause."""

    partition: tuple[Scalar, ...] = ()
    order: tuple[WindowSortKey, ...] = ()
    frame: exp.Expr | None = None


@dataclass(frozen=True, slots=True)
class BoundWindowCall:
    """A bound window function call over the input rows or groups.

    The frame has no columns yet: ``start``, ``end`` and ``range_key`` are scalars over the input.
    """

    function: str
    args: tuple[Scalar, ...]
    type: Type
    partition: tuple[Scalar, ...]
    order: tuple[WindowSortKey, ...]
    frame: Frame
    start: Scalar | None = None
    end: Scalar | None = None
    range_key: Scalar | None = None
    text: str = field(default="", compare=False)


@dataclass(slots=True)
class WindowCollector:
    """The named windows of a query, and the distinct window calls with their column ids."""

    definitions: dict[str, WindowDefinition] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    calls: list[BoundWindowCall] = field(default_factory=list)
    known: dict[BoundWindowCall, int] = field(default_factory=dict)
    """The id of each."""


@dataclass(slots=True)
class SetReturningCalls:
    """The distinct set-returning calls of a select list, with their column ids.

    The arguments of a call of level n contain only calls of lower levels.
    """

    ids: list[int] = field(default_factory=list)
    calls: list[RowCall] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Scope:
    """The names that can be referenced in one query block, nested in the scopes of the outer queries."""

    parent: "Scope | None" = None
    fields: Fields = field(default_factory=Fields)
    common_tables: dict[str, CommonTable] = field(default_factory=dict)
    aggregates: AggregateCollector | None = None
    """Collector of aggregates; None where aggregates are not allowed."""
    orders: dict[int, tuple[SortKey, ...]] = field(default_factory=dict)
    """ORDER BY of the queries in FROM, by the identity of their nodes."""
    clause: str = "this place"
    """Name of the clause, for errors about aggregates and window functions that it does not allow."""
    windows: WindowCollector | None = None
    """Collector of window calls; None where window functions are not allowed."""
    scalar_columns: dict[str, Column] = field(default_factory=dict)
    """Column by the lower-case name of a function in FROM that returns one scalar column."""
    allows_clock: bool = False
    """Whether a view may compare the current time here."""
    set_returning_calls: SetReturningCalls | None = None
    """Collector of set-returning calls; None where they are not allowed."""
    set_returning_clause: str = ""
    """Name of the clause that allows no set-returning calls, if it differs from ``clause``."""
    hidden_fields: Fields = field(default_factory=Fields)
    """Fields of FROM that cannot be referenced here."""
    hidden_hint: str = ""
    """Hint of the error for a reference to a hidden field."""

    def without_aggregates(self, clause: str) -> "Scope":
        """Return the scope for a clause without aggregates, window functions and set-returning functions."""
        return replace(
            self,
            aggregates=None,
            windows=None,
            clause=clause,
            set_returning_calls=None,
            set_returning_clause="",
        )

    def without_earlier_fields(self, clause: str, start: int) -> "Scope":
        """Return the scope for a clause in which only the fields from position ``start`` on are visible."""
        hint = "JOIN binds more tightly than a comma: replace the comma by CROSS JOIN"
        inner = self.without_aggregates(clause)
        shown, hidden = Fields(self.fields[start:]), Fields(self.fields[:start])
        return replace(inner, fields=shown, hidden_fields=hidden, hidden_hint=hint)

    def without_windows(self, clause: str) -> "Scope":
        """Return the scope for a clause without window functions and set-returning functions."""
        return replace(
            self, windows=None, clause=clause, set_returning_calls=None, set_returning_clause=clause
        )

    def without_set_returning(self, clause: str) -> "Scope":
        """Return the scope for a clause without set-returning functions."""
        return replace(self, set_returning_calls=None, set_returning_clause=clause)

    def find_common_table(self, name: str) -> CommonTable | None:
        """Return the WITH query of that name, the innermost first; None if there is none."""
        scope: Scope | None = self
        while scope is not None:
            if name.lower() in scope.common_tables:
                return scope.common_tables[name.lower()]
            scope = scope.parent
        return None

    def star_fields(self) -> list[Field]:
        """Return the fields that ``*`` expands to."""
        return [known for known in self.fields if known.is_visible and not known.is_system]

    def owning_scope(self, ids: Collection[int]) -> "Scope":
        """Return the innermost enclosing scope that owns one of the columns, or this scope if none does."""
        scope: Scope | None = self
        while scope is not None:
            if not scope.fields.by_name.ids.isdisjoint(ids):
                return scope
            if scope.aggregates is not None and scope.aggregates.has_any(ids):
                return scope
            scope = scope.parent
        return self

    def relation_names(self) -> set[str]:
        """Return the lower-case names of the relations in FROM."""
        return set(self.fields.by_name.relations)


@dataclass(slots=True)
class Binding:
    """The state of binding one statement.

    Expressions contain queries and queries contain expressions. The modules that bind them call each
    other through ``expression`` and ``query``.
    """

    source: str
    catalog: Catalog
    expression: "Callable[[Scope, exp.Expr], Scalar]"
    query: "Callable[[Scope | None, exp.Expr], Query]"
    new_binding: "Callable[[str, Catalog], Binding]"
    """Start binding another text, such as the CHECK of a domain."""
    routine_name: "Callable[[Scalar, exp.Expr], Scalar]"
    """Return the name of the routine with an OID, as a ``regproc`` value."""
    features: Features = NO_FEATURES
    """Features of the statement."""
    subqueries: dict[int, Subquery] = field(default_factory=dict)
    shared: dict[str, Query] = field(default_factory=dict)
    loops: dict[str, Loop] = field(default_factory=dict)
    declared_columns: dict[str, tuple[ColumnDef, ...]] = field(default_factory=dict)
    """Columns of the recursive queries, which are referenced before they are bound."""
    ids: "count[int]" = field(default_factory=count)
    depth: int = 0
    nullable_ids: set[int] = field(default_factory=set)
    """Columns on the nullable sides of outer joins."""
    inlining_depth: int = 0
    """Nesting depth of the user-defined function bodies being inlined."""
    is_view: bool = False
    """Whether the query defines a maintained view, whose rows must follow the current time."""
    clock_id: int | None = None
    """Id of the column that holds the current time in expressions of a view."""
    reads: Reads | None = None
    """The relations and columns that the statement reads; None if no privilege can be missing."""

    policy_role: str | None = None
    """Role whose row security policies apply, such as a view's owner; None for the current user."""
    policy_tables: set[str] = field(default_factory=set)
    """Tables whose policies are being bound. They detect recursion."""
    locked_aliases: frozenset[str] | None = frozenset()
    """Lower-case aliases of the relations in FROM whose rows are locked; None for all."""
    skips_policies: bool = False
    """Whether the relation is part of another table, whose policies apply instead of its own."""
    needs_row_location: bool = False
    """Whether table rows need the columns ``tableoid`` and ``ctid`` even if the text does not name them."""

    def record_use(self, fields: Iterable[Field]) -> None:
        """Record that the statement reads the fields."""
        if self.reads is not None:
            for one in fields:
                self.reads.add_column(one.column)

    def is_locked(self, alias: str) -> bool:
        """Return whether the statement locks the rows of a relation in FROM."""
        return self.locked_aliases is None or alias.lower() in self.locked_aliases

    def new_id(self) -> int:
        """Return a new id."""
        return next(self.ids)

    def shared_columns(self, key: str) -> tuple[tuple[str, ...], tuple[Type, ...]]:
        """Return the names and types of a shared query's columns.

        The types include hidden sort columns, which have no names.
        """
        if key in self.declared_columns:
            columns = self.declared_columns[key]
            return tuple(column.name for column in columns), tuple(column.type for column in columns)
        query = self.shared[key]
        return query.names, tuple(column.type for column in query.columns)

    def fail(
        self, message: str, node: exp.Expr, hint: str | None = None, *, sqlstate: str | None = None
    ) -> NoReturn:
        """Raise ProgrammingError at the node."""
        fail(message, node, self.source, hint, sqlstate=sqlstate)

    def fail_invalid_input(self, text: str, type_: Type, node: exp.Expr) -> NoReturn:
        """Raise the error of a text that is not valid input for a type, at the node."""
        found = input_errors.input_error(text, type_)
        error = ProgrammingError(found.message, span=span_of(node, self.source) or whole_span(self.source))
        error.sqlstate, error.detail = found.sqlstate, found.detail
        raise error

    def refuse(self, construct: str, node: exp.Expr, hint: str | None = None) -> NoReturn:
        """Raise NotSupportedError for a construct, at the node."""
        refuse(construct, node, self.source, hint)


def resolve_name(binding: Binding, scope: Scope, node: exp.Column) -> Field:
    """Return the field that a column reference resolves to.

    Raises:
        ProgrammingError: No field matches, or more than one does.
    """
    name, relation = node.name, node.table
    here: Scope | None = scope
    while here is not None:
        found = here.fields.matching(name, relation)
        if len(found) > 1:
            places = ", ".join(f"{one.relation}.{one.name}" for one in found)
            hint = f"write one of {places}"
            if len({(one.relation, one.name) for one in found}) == 1:
                hint = "give one of the columns another name"
            binding.fail(f'column "{name}" is ambiguous', node, hint)
        if found:
            binding.record_use(found)
            return found[0]
        if not relation and name.lower() in here.scalar_columns:
            return Field("", name, here.scalar_columns[name.lower()])
        if relation and relation.lower() in here.fields.by_name.relations:
            own = (one.name for one in here.fields if one.relation.lower() == relation.lower())
            binding.fail(f'column "{relation}.{name}" does not exist', node, did_you_mean(name, own))
        here = here.parent
    _fail_unknown_column(binding, scope, node)


def _fail_unknown_column(binding: Binding, scope: Scope, node: exp.Column) -> NoReturn:
    every: list[Field] = []
    here: Scope | None = scope
    while here is not None:
        if here.hidden_fields.matching(node.name, node.table):
            column = f"{node.table}.{node.name}" if node.table else node.name
            binding.fail(f'column "{column}" cannot be named here', node, here.hidden_hint)
        every += here.fields
        here = here.parent
    if node.table:
        hint = did_you_mean(node.table, (one.relation for one in every))
        binding.fail(f'missing FROM entry for "{node.table}"', node, hint)
    binding.fail(
        f'column "{node.name}" does not exist', node, did_you_mean(node.name, (f.name for f in every))
    )


def as_columns(binding: Binding, source: Node, scalars: Sequence[Scalar]) -> tuple[Node, tuple[Column, ...]]:
    """Return the source with a column for each scalar, reusing the source's own columns.

    Each constant of unknown type gets its own column, since a UNION may give them different types.
    """
    made = output_ids(source)
    known: dict[Scalar, Column] = {}
    fresh: list[tuple[Column, Scalar]] = []
    columns = []
    for scalar in scalars:
        if isinstance(scalar, Column) and scalar.index in made:
            columns.append(scalar)
            continue
        column = known.get(scalar)
        if column is None or scalar.type == UNKNOWN:
            column = known[scalar] = Column(binding.new_id(), scalar.type)
            fresh.append((column, scalar))
        columns.append(column)
    if fresh:
        ids, values = zip(*((column.index, scalar) for column, scalar in fresh), strict=True)
        source = Map(source, ids, values)
    return source, tuple(columns)


def relation_alias(binding: Binding, node: exp.Expr, default: str) -> tuple[str, list[str]]:
    """Return the alias of a relation in FROM, or ``default``, and its column aliases."""
    alias = node.args.get("alias")
    if alias is None:
        return default, []
    allow_only(alias, binding.source, "this", "columns")
    return alias.name or default, [column.name for column in alias.args.get("columns") or []]


def add_relation(
    binding: Binding,
    scope: Scope,
    relation: str,
    names: tuple[str, ...],
    columns: tuple[Column, ...],
    column_aliases: list[str],
    node: exp.Expr,
) -> None:
    """Add a relation's columns to the scope. Column aliases replace the first names."""
    if len(column_aliases) > len(names):
        binding.fail(f'"{relation}" has {len(names)} columns but {len(column_aliases)} are named', node)
    shown = (*column_aliases, *names[len(column_aliases) :])
    name = relation.lower()
    if name and (name in scope.fields.by_name.relations or name in scope.hidden_fields.by_name.relations):
        binding.fail(f'"{relation}" occurs twice in FROM', node, "give one of them an alias")
    scope.fields += [
        Field(relation, name, column, is_system=name.startswith(HIDDEN_PREFIX))
        for name, column in zip(shown, columns, strict=True)
    ]
