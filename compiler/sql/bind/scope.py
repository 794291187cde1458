"""Scopes: the columns that names refer to at a place in a query, and the binding state of a statement."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import field, replace
from itertools import count
from typing import Any, Final, NoReturn, Self

from sqlglot import exp

from kpg.compiler.algebra.rel import AggregateCall, RowCall
from kpg.compiler.catalog.entries import Catalog, did_you_mean
from kpg.compiler.sql.bound_tree import Loop, Map, Node, Query, Reads, SortKey, Subquery, produced
from kpg.compiler.sql.parse.syntax import only, refuse, span_of, whole, wrong
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.plan.nodes import Frame
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Column, Scalar
from kpg.runtime.types import UNKNOWN, ColumnDef, Type

ROW: Final = "(row)"
"""The name of a column that tells rows apart, which is for no text to name."""

WIDE: Final = ContextVar("wide", default=False)
"""Whether columns of DECIMAL that are named are taken as NUMERICs: :mod:`kpg.execute.queries.query_plan`."""


HIDDEN: Final = "\0"
"""What the names of columns begin with that no text can name: they say where rows of a view are."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column that can be named: ``relation.name``, and as ``name`` if it is ``listed``."""

    relation: str
    name: str
    column: Column
    listed: bool = True
    """Whether ``*`` and the name alone mean it too (the two sides of USING are not listed)."""
    of_system: bool = False
    """Whether ``*`` does not mean it all the same: ``tableoid``."""


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
            if one.listed:
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
class Common:
    """A WITH query that can be named in FROM. A correlated one is bound anew wherever it is used."""

    name: str
    syntax: exp.Expr
    columns: tuple[str, ...]
    scope: "Scope"
    shared: str | None
    outer: frozenset[int] = frozenset()
    """The columns of queries around it that a shared one refers to."""


@dataclass(slots=True)
class Aggregates:
    """The aggregates met in a grouped query's expressions, each once, under its id."""

    ids: list[int] = field(default_factory=list)
    calls: list[AggregateCall] = field(default_factory=list)
    known: dict[AggregateCall, int] = field(default_factory=dict)
    """The id of each."""
    present: set[int] = field(default_factory=set)
    """The ids in ``ids``."""
    markers: list["Marker"] = field(default_factory=list)
    direct: list[tuple[Scalar, exp.Expr]] = field(default_factory=list)
    """Arguments that an aggregate takes once for each group, and where they are written."""
    number: Callable[[], tuple[Node, tuple[SortKey, ...]]] | None = None
    """Gives the rows to be grouped with numbers, where they need any, and the keys of their order."""
    numbered: tuple[Node, tuple[SortKey, ...]] | None = None
    """What ``number`` has given, if an aggregate has asked for the order."""

    @property
    def order(self) -> tuple[SortKey, ...]:
        """The order in which the rows to be grouped come, as far as the query tells."""
        if self.numbered is None and self.number is not None:
            self.numbered = self.number()
        return () if self.numbered is None else self.numbered[1]

    @property
    def all_ids(self) -> frozenset[int]:
        """The ids of all that only groups have."""
        return frozenset((*self.ids, *(marker.id for marker in self.markers)))

    def has_any(self, ids: Collection[int]) -> bool:
        """Whether one of the ids is of something that only groups have."""
        if len(self.present) != len(self.ids):
            self.present = set(self.ids)
        return not self.present.isdisjoint(ids) or any(marker.id in ids for marker in self.markers)


@dataclass(frozen=True, slots=True)
class Marker:
    """GROUPING(keys...), the number whose bits tell which keys a group's set lacks, under its id."""

    id: int
    keys: tuple[Scalar, ...]
    syntax: exp.Expr = field(compare=False)


@dataclass(frozen=True, slots=True)
class Sorted:
    """One key of a window's ORDER BY."""

    scalar: Scalar
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Definition:
    """What OVER or WINDOW says; ``frame`` is the syntax of the frame clause."""

    partition: tuple[Scalar, ...] = ()
    order: tuple[Sorted, ...] = ()
    frame: exp.Expr | None = None


@dataclass(frozen=True, slots=True)
class Over:
    """A call of a window function. The frame's columns are not filled in yet: they are ``start``, ``end``
    and ``ranged``, over the input rows or groups as all scalars here.
    """

    function: str
    args: tuple[Scalar, ...]
    type: Type
    partition: tuple[Scalar, ...]
    order: tuple[Sorted, ...]
    frame: Frame
    start: Scalar | None = None
    end: Scalar | None = None
    ranged: Scalar | None = None
    text: str = field(default="", compare=False)


@dataclass(slots=True)
class Windows:
    """The named windows of a query, and the calls met in its expressions, each once, under its id."""

    named: dict[str, Definition] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    calls: list[Over] = field(default_factory=list)
    known: dict[Over, int] = field(default_factory=dict)
    """The id of each."""


@dataclass(slots=True)
class Expansions:
    """The calls that make rows met in a select list, each once, under its id.

    A call of level n has others of levels below n in its arguments.
    """

    ids: list[int] = field(default_factory=list)
    calls: list[RowCall] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Scope:
    """The fields of one query's FROM, within the scopes of the queries around it."""

    parent: "Scope | None" = None
    fields: Fields = field(default_factory=Fields)
    common: dict[str, Common] = field(default_factory=dict)
    aggregates: Aggregates | None = None
    """Where aggregates may stand, what collects them."""
    orders: dict[int, tuple[SortKey, ...]] = field(default_factory=dict)
    """The ORDER BY of the queries in FROM, by the identity of their nodes."""
    clause: str = "this place"
    """Where no aggregate or no window function may stand, the name of that place."""
    windows: Windows | None = None
    """Where window functions may stand, what collects them."""
    whole: dict[str, Column] = field(default_factory=dict)
    """By the names of functions in FROM that have one column, in lower case: a row of such is its value."""
    clocked: bool = False
    """Whether the present time may be compared here in a view."""
    expansions: Expansions | None = None
    """Where functions that make rows may be called, what collects the calls."""
    rows_clause: str = ""
    """Where none may be called, the name of that place, if it is not ``clause``."""
    hidden: Fields = field(default_factory=Fields)
    """Fields of FROM that may not be named here."""
    hidden_hint: str = ""
    """Why, and what to do."""

    def without_aggregates(self, clause: str) -> "Scope":
        """The same names in a place for neither aggregates, window functions nor functions that make rows."""
        return replace(self, aggregates=None, windows=None, clause=clause, expansions=None, rows_clause="")

    def from_here(self, clause: str, start: int) -> "Scope":
        """A place of the same kind, where only the fields from a number on can be named."""
        hint = "JOIN binds stronger than a comma: write CROSS JOIN for the comma"
        inner = self.without_aggregates(clause)
        shown, hidden = Fields(self.fields[start:]), Fields(self.fields[:start])
        return replace(inner, fields=shown, hidden=hidden, hidden_hint=hint)

    def without_windows(self, clause: str) -> "Scope":
        """The same names in a place where no window function may stand, nor a function that makes rows."""
        return replace(self, windows=None, clause=clause, expansions=None, rows_clause=clause)

    def without_rows(self, clause: str) -> "Scope":
        """The same names in a place where no function that makes rows may be called."""
        return replace(self, expansions=None, rows_clause=clause)

    def find_common(self, name: str) -> Common | None:
        """The WITH query of that name, the innermost first."""
        scope: Scope | None = self
        while scope is not None:
            if name.lower() in scope.common:
                return scope.common[name.lower()]
            scope = scope.parent
        return None

    def visible(self) -> list[Field]:
        """What ``*`` stands for."""
        return [known for known in self.fields if known.listed and not known.of_system]

    def home_of(self, ids: Collection[int]) -> "Scope":
        """The innermost scope around here that one of the columns is of; this one if there is none."""
        scope: Scope | None = self
        while scope is not None:
            if not scope.fields.by_name.ids.isdisjoint(ids):
                return scope
            if scope.aggregates is not None and scope.aggregates.has_any(ids):
                return scope
            scope = scope.parent
        return self

    def relations(self) -> set[str]:
        """The names of the relations in FROM, lower case."""
        return set(self.fields.by_name.relations)


@dataclass(slots=True)
class Binding:
    """The state of binding one statement.

    Expressions contain queries and queries expressions: the modules that bind them call each other
    through ``expression`` and ``query``.
    """

    source: str
    catalog: Catalog
    expression: "Callable[[Scope, exp.Expr], Scalar]"
    query: "Callable[[Scope | None, exp.Expr], Query]"
    new_binding: "Callable[[str, Catalog], Binding]"
    """Begins binding another text, such as the CHECK of a domain."""
    routine_name: "Callable[[Scalar, exp.Expr], Scalar]"
    """The name of a routine by its number, as a value of ``regproc``."""
    subqueries: dict[int, Subquery] = field(default_factory=dict)
    shared: dict[str, Query] = field(default_factory=dict)
    loops: dict[str, Loop] = field(default_factory=dict)
    declared: dict[str, tuple[ColumnDef, ...]] = field(default_factory=dict)
    """The columns of the queries of loops, which are used before they are bound."""
    ids: "count[int]" = field(default_factory=count)
    depth: int = 0
    padded: set[int] = field(default_factory=set)
    """The columns of the sides of outer joins that NULLs stand in for."""
    inlining: int = 0
    """How many bodies of users' functions what is bound stands in."""
    kept: bool = False
    """Whether what is bound is a view, whose rows have to follow the present time."""
    clock: int | None = None
    """The id that stands for the present time in expressions of a view."""
    reads: Reads | None = None
    """What is read, if that may be refused."""

    owner: str | None = None
    """Whose policies hold for the tables that are named, if not those of who asks: a view's owner's."""
    securing: set[str] = field(default_factory=set)
    """The tables whose policies are being bound."""
    locked: frozenset[str] | None = frozenset()
    """The relations of the FROM that is bound, by their aliases, whose rows are to be locked; None: all."""
    governed: bool = False
    """Whether the rows that are bound are a part of another table's, whose policies hold for them."""
    located: bool = False
    """Whether rows of tables have columns that tell where they are, whether the text names these or not."""

    def use(self, fields: Iterable[Field]) -> None:
        """Fields are named."""
        if self.reads is not None:
            for one in fields:
                self.reads.use(one.column)

    def locks(self, alias: str) -> bool:
        """Whether the rows of a relation of FROM are to be locked."""
        return self.locked is None or alias.lower() in self.locked

    def fresh(self) -> int:
        """An id that nothing has yet."""
        return next(self.ids)

    def columns_of(self, shared: str) -> tuple[tuple[str, ...], tuple[Type, ...]]:
        """The names and types of the columns of a shared query; without names, what it is ordered by."""
        if shared in self.declared:
            columns = self.declared[shared]
            return tuple(column.name for column in columns), tuple(column.type for column in columns)
        query = self.shared[shared]
        return query.names, tuple(column.type for column in query.columns)

    def wrong(self, message: str, node: exp.Expr, hint: str | None = None) -> NoReturn:
        """Raise ProgrammingError at the node."""
        wrong(message, node, self.source, hint)

    def no_value(self, text: str, type_: Type, node: exp.Expr) -> NoReturn:
        """Raise the error of a text that means no value of a type, at the node."""
        from kpg.runtime.values.input_errors import complaint  # lazy: an error

        found = complaint(text, type_)
        error = ProgrammingError(found.message, span=span_of(node, self.source) or whole(self.source))
        error.sqlstate, error.detail = found.sqlstate, found.detail
        raise error

    def refuse(self, construct: str, node: exp.Expr, hint: str | None = None) -> NoReturn:
        """Raise NotSupportedError at the node."""
        refuse(construct, node, self.source, hint)


def resolve_name(binding: Binding, scope: Scope, node: exp.Column) -> Field:
    """The field that a column reference means; ProgrammingError if there is none or more than one."""
    name, relation = node.name, node.table
    here: Scope | None = scope
    while here is not None:
        found = here.fields.matching(name, relation)
        if len(found) > 1:
            places = ", ".join(f"{one.relation}.{one.name}" for one in found)
            hint = f"write one of {places}"
            if len({(one.relation, one.name) for one in found}) == 1:
                hint = "give one of the columns another name"
            binding.wrong(f'column "{name}" is ambiguous', node, hint)
        if found:
            binding.use(found)
            return found[0]
        if not relation and name.lower() in here.whole:
            return Field("", name, here.whole[name.lower()])
        if relation and relation.lower() in here.fields.by_name.relations:
            own = (one.name for one in here.fields if one.relation.lower() == relation.lower())
            binding.wrong(f'column "{relation}.{name}" does not exist', node, did_you_mean(name, own))
        here = here.parent
    _unknown(binding, scope, node)


def _unknown(binding: Binding, scope: Scope, node: exp.Column) -> NoReturn:
    every: list[Field] = []
    here: Scope | None = scope
    while here is not None:
        if here.hidden.matching(node.name, node.table):
            column = f"{node.table}.{node.name}" if node.table else node.name
            binding.wrong(f'column "{column}" cannot be named here', node, here.hidden_hint)
        every += here.fields
        here = here.parent
    if node.table:
        hint = did_you_mean(node.table, (one.relation for one in every))
        binding.wrong(f'missing FROM entry for "{node.table}"', node, hint)
    binding.wrong(
        f'column "{node.name}" does not exist', node, did_you_mean(node.name, (f.name for f in every))
    )


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


def relation_alias(binding: Binding, node: exp.Expr, default: str) -> tuple[str, list[str]]:
    """The name that a relation has in FROM, and the names that its alias gives its columns."""
    alias = node.args.get("alias")
    if alias is None:
        return default, []
    only(alias, binding.source, "this", "columns")
    return alias.name or default, [column.name for column in alias.args.get("columns") or []]


def enter(
    binding: Binding,
    scope: Scope,
    relation: str,
    names: tuple[str, ...],
    columns: tuple[Column, ...],
    renamed: list[str],
    node: exp.Expr,
) -> None:
    """Add a relation's columns to the scope, under their new names if it has any."""
    if len(renamed) > len(names):
        binding.wrong(f'"{relation}" has {len(names)} columns but {len(renamed)} are named', node)
    shown = (*renamed, *names[len(renamed) :])
    name = relation.lower()
    if name and (name in scope.fields.by_name.relations or name in scope.hidden.by_name.relations):
        binding.wrong(f'"{relation}" occurs twice in FROM', node, "give one of them an alias")
    scope.fields += [
        Field(relation, name, column, of_system=name.startswith(HIDDEN))
        for name, column in zip(shown, columns, strict=True)
    ]
