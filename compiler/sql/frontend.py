"""Entry points from a statement to a relation, with the facts that presenting its rows needs.

:class:`LoweredQuery` is the result. :func:`column_origins` gives the table and column from which
each output column comes; the server sends it to clients. Drivers use it to look up nullability and
the table of an updatable row. The ``check_*`` functions raise PrivilegeError.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from kpg.compiler.algebra import facts
from kpg.compiler.algebra.rel import OrderBy, Rel, types
from kpg.compiler.catalog.access_control import (
    has_column_privileges,
    permission_denied,
    relation_key,
    require_column_privileges,
    view_role,
)
from kpg.compiler.catalog.entries import Catalog, Entry, ViewEntry
from kpg.compiler.catalog.privileges import BOOTSTRAP_ROLE
from kpg.compiler.qualified_names import quote_qualified_name
from kpg.compiler.sql.bind.query import bind, bind_query, new_binding
from kpg.compiler.sql.bound_tree import BoundQuery, Reads
from kpg.compiler.sql.lower.query import lower_to_algebra
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import trees_of
from kpg.compiler.sql.parse.parser import parse_query
from kpg.compiler.sql.parse.reader import parse_body
from kpg.compiler.sql.parse.syntax import relation_name
from kpg.runtime.errors import Error, ProgrammingError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.records import dataclass
from kpg.runtime.types import Type
from kpg.runtime.values.styles import DEFAULT_STYLE as STYLES_PLAIN

if TYPE_CHECKING:
    from kpg.compiler.sql.bind import row_security
    from kpg.compiler.sql.lower import session_style
else:
    row_security = LazyModule("kpg.compiler.sql.bind.row_security")
    session_style = LazyModule("kpg.compiler.sql.lower.session_style")

Origin = tuple[str, int]
"""Name of a relation, and the attribute number of a column in it."""
NO_ORIGIN: Final = ("", 0)
COMPUTED_ORIGIN: Final = ("", -1)
"""Origin of a computed value, whose type has neither a length nor a precision."""
COMPUTED_CLASSES: Final = (exp.AggFunc, exp.Binary, exp.Literal, exp.Window)


def column_origins(query: exp.Expr, catalog: Catalog, width: int) -> tuple[Origin, ...]:
    """Return, for each of the ``width`` columns of a query, its relation and attribute number.

    () if they are unknown.
    """
    if not isinstance(query, exp.Select):
        return ()
    common = {one.alias.lower() for one in query.find_all(exp.CTE)}
    sources = [_from_source(one, catalog, common) for one in _from_items(query)]
    joined = any(one.args.get("using") or one.args.get("method") for one in query.args.get("joins") or ())
    found: list[Origin] = []
    places: Places = {}
    for item in query.expressions:
        expression = item.this if isinstance(item, exp.Alias) else item
        if isinstance(expression, exp.Star) or (
            isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star)
        ):
            star_origins = _star_origins(
                sources, expression.table if isinstance(expression, exp.Column) else ""
            )
            if star_origins is None or joined:
                return ()
            found += star_origins
        elif isinstance(expression, exp.Column):
            found.append(_column_origin(sources, places, expression))
        else:
            found.append(COMPUTED_ORIGIN if isinstance(expression, COMPUTED_CLASSES) else NO_ORIGIN)
    return tuple(found) if len(found) == width else ()


def is_computed(catalog: Catalog, view: ViewEntry, position: int) -> bool:
    """Return whether a column of a view is computed, so that its type has neither length nor precision."""
    if not view.sql or not view.schema.types[position].precision:
        return False
    try:
        found = column_origins(parse_query(view.sql).query, catalog, len(view.schema.columns))
    except Error:
        return False
    name, origin_column = found[position] if found else NO_ORIGIN
    source = catalog.find(name) if name else None
    if isinstance(source, ViewEntry):
        return is_computed(catalog, source, origin_column - 1)
    return origin_column == COMPUTED_ORIGIN[1]


Source = tuple[str, Entry | None]
"""Name of an item of FROM, and its relation; None for an item that is no relation."""


def _from_items(query: exp.Select) -> Iterator[exp.Expr]:
    start = query.args.get("from") or query.args.get("from_")
    if start is not None:
        yield start.this
    for join in query.args.get("joins") or ():
        yield join.this
    yield from query.args.get("laterals") or ()


def _from_source(item: exp.Expr, catalog: Catalog, common: set[str]) -> Source:
    name = item.alias_or_name.lower()
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier):
        return name, None
    alias = item.args.get("alias")
    renamed = alias is not None and alias.args.get("columns")
    inside = item.args.get("joins")
    qualified_name = relation_name(item)
    if renamed or inside or qualified_name.lower() in common:
        return name, None
    return name, catalog.find(qualified_name)


def _star_origins(sources: list[Source], table: str) -> list[Origin] | None:
    found: list[Origin] = []
    for name, entry in sources:
        if table and name != table.lower():
            continue
        if entry is None:
            return None
        found += [(entry.name, place) for place in range(1, len(entry.schema.columns) + 1)]
    return found


Places = dict[str, dict[str, int]]
"""The positions of the columns of relations by their names in lower case."""


def _column_origin(sources: list[Source], places: Places, column: exp.Column) -> Origin:
    """Return the origin of a column. Ambiguous names are errors that the binder reports."""
    wanted = column.name.lower()
    for name, entry in sources:
        if entry is None or (column.table and name != column.table.lower()):
            continue
        if entry.name not in places:
            names = reversed(tuple(enumerate(entry.schema.names)))
            places[entry.name] = {name.lower(): place for place, name in names}
        place = places[entry.name].get(wanted)
        if place is not None:
            return entry.name, place + 1
    return NO_ORIGIN


@dataclass(frozen=True, slots=True)
class LoweredQuery:
    """Query as a relation. The first ``visible`` columns are the result; ``order`` is over all columns."""

    rel: Rel
    names: tuple[str, ...]
    types: tuple[Type, ...]
    nullable: tuple[bool, ...]
    order: tuple[OrderBy, ...]
    visible: int
    origins: tuple[tuple[str, int], ...] = ()
    """Relation and attribute number of each visible column; () if unknown. See :func:`column_origins`."""


def lower_query(statement: ast.Select, catalog: Catalog, *, is_view: bool = False) -> LoweredQuery:
    """Bind and lower a query.

    ``is_view``: it is a view's query, else one that runs once.
    """
    result = lower_bound_query(bind(statement, catalog, is_view=is_view), catalog)
    return (
        result
        if is_view
        else replace(result, origins=column_origins(statement.query, catalog, result.visible))
    )


def lower_bound_query(bound_query: BoundQuery, catalog: Catalog) -> LoweredQuery:
    """Lower a bound query. PrivilegeError if the session user may not read its relations."""
    check_reads(bound_query.reads, catalog)
    query = bound_query.query
    rel, ids = lower_to_algebra(bound_query)
    if bound_query.style is not STYLES_PLAIN:
        rel = session_style.apply_session_style(rel, bound_query.style)
    order = tuple(
        OrderBy(ids.index(key.column.index), key.descending, key.nulls_first) for key in query.order
    )
    visible = len(query.columns)
    return LoweredQuery(rel, query.names, types(rel)[:visible], facts.nullable(rel)[:visible], order, visible)


def lower_relation(name: str, catalog: Catalog) -> LoweredQuery:
    """Lower a query for all rows of a table or view."""
    return lower_query(parse_query(f"select * from {quote_qualified_name(name)}"), catalog)


def referenced_relations(query: ast.Select, catalog: Catalog) -> frozenset[str]:
    """Return the tables and views, and the keys of the routines, that a query's text refers to."""
    common = {with_.alias.lower() for with_ in query.query.find_all(exp.CTE)}
    found = (catalog.find(relation_name(table)) for table in query.query.find_all(exp.Table))
    names = {entry.name for entry in found if entry is not None and entry.name.lower() not in common}
    return frozenset(names) | (
        _called_routines(query.query, catalog) if catalog.routines or catalog.aggregates else frozenset()
    )


def input_relations(statement: object, catalog: Catalog) -> frozenset[str]:
    """Return the tables and views that a statement reads, without the target of an INSERT or COPY."""
    found: set[str] = set()
    if isinstance(statement, ast.ModifyingWith):
        for substatement in (*(part for _, _, part in statement.with_queries), statement.main):
            found |= input_relations(substatement, catalog)
        return frozenset(found)
    for tree in trees_of(statement):
        for table in tree.find_all(exp.Table):
            entry = catalog.find(relation_name(table))
            if entry is not None:
                found.add(entry.name)
    if isinstance(statement, ast.ExplainRow | ast.ExplainView):
        found.add(catalog.get(statement.relation, statement.place).name)
    target = getattr(statement, "table", None)
    if isinstance(target, str) and not isinstance(statement, ast.Insert | ast.CopyFrom):
        found.add(catalog.get(target).name)
    return frozenset(found)


def _called_routines(tree: exp.Expr, catalog: Catalog) -> frozenset[str]:
    """Return the keys of the SQL functions and aggregates that a tree and the called bodies call."""

    found: set[str] = set()
    pending = [tree]
    while pending:
        for node in pending.pop().find_all(exp.Func):
            names = [str(node.this)] if isinstance(node, exp.Anonymous) else type(node).sql_names()
            schema = node.parent.this.name if isinstance(node.parent, exp.Dot) else ""
            for routine_or_aggregate in (
                one for name in names for one in catalog.aggregates.get(name.lower(), ())
            ):
                found.add(f"function {routine_or_aggregate.fold}")
            for routine in (one for name in names for one in catalog.find_routines(name.lower(), schema)):
                if routine.key not in found:
                    found.add(routine.key)
                    pending.append(parse_body(routine.body))
    return frozenset(found)


def referenced_columns(query: ast.Select, catalog: Catalog, relation: str) -> frozenset[str]:
    """Return the columns of a relation that a query's text refers to; ``*`` refers to all.

    ProgrammingError if the text cannot be bound.
    """
    superuser_catalog = catalog.copy()
    superuser_catalog.asker = replace(catalog.asker, user=BOOTSTRAP_ROLE)
    binding = new_binding(query.span.source, superuser_catalog, query.span.features)
    binding.is_view, binding.reads = True, Reads()
    bind_query(binding, None, query.query)
    found = (read.column_names for read in binding.reads.walk() if read.entry.name == relation)
    return frozenset().union(*found)


def has_star(query: ast.Select) -> bool:
    """Return whether a SELECT of the query has a ``*``."""
    return any(select.is_star for select in query.query.find_all(exp.Select))


def reads_system_catalog(query: ast.Select, catalog: Catalog) -> bool:
    """Return whether a query reads a relation of the system catalogs, or a view that does."""
    names = [relation_name(table).lower() for table in query.query.find_all(exp.Table)]
    if any(name.startswith(("pg_catalog.", "information_schema.", "pg_")) for name in names):
        return True
    return any(isinstance(view := catalog.find(name), ViewEntry) and view.of_system for name in names)


def lower_view(
    statement: ast.CreateView | ast.CreateTableAs, catalog: Catalog, *, is_view: bool = True
) -> LoweredQuery:
    """Lower the query of a view or of CREATE TABLE AS, under the column names of the statement.

    ``is_view``: lower a view's query for maintenance, else for one execution. ProgrammingError
    for duplicate names, or for more names than columns.
    """
    result = lower_query(statement.query, catalog, is_view=is_view and isinstance(statement, ast.CreateView))
    relation_kind = "view" if isinstance(statement, ast.CreateView) else "table"
    if len(statement.columns) > result.visible:
        message = f"the {relation_kind} has {result.visible} columns but {len(statement.columns)} are named"
        raise ProgrammingError(message, span=statement.span)
    names = (*statement.columns, *result.names[len(statement.columns) :])
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            hint = "give one of them another name with AS"
            raise ProgrammingError(
                f'the {relation_kind} has two columns "{name}"', span=statement.span, hint=hint
            )
        seen.add(name.lower())
    return replace(result, names=names)


def check_reads(reads: Reads | None, catalog: Catalog) -> None:
    """Check that the session user may read the relations that a statement reads.

    Raises:
        PrivilegeError: A privilege is missing.
    """
    if reads is None:
        return
    for read in reads.relations:
        if read.is_scanned or read.column_names:
            require_column_privileges(catalog, read.entry.name, "r", frozenset(read.column_names))
            if isinstance(read.entry, ViewEntry):
                check_view(catalog, read.entry)
    for owner_catalog, inner in reads.routine_reads:
        check_reads(inner, owner_catalog)
    for read in reads.locked_relations:
        require_column_privileges(catalog, read.entry.name, "w", frozenset())


def check_view(catalog: Catalog, view: ViewEntry) -> None:
    """Check that the owner of a view may read its relations.

    For a security_invoker view, it is the session user instead.

    A materialized view passes, since its rows are stored. PrivilegeError if a privilege is missing.
    """
    if view.materialized or not view.sql:
        return
    user = view_role(catalog, view)
    if view.is_derived:
        for relation in row_security.relations_read(catalog, view):
            if not has_column_privileges(catalog, user, relation.name, "r", frozenset(relation.schema.names)):
                raise permission_denied(catalog, relation_key(relation.name))
        return
    query = parse_query(view.text)
    reads_whole_relations = True
    for name in sorted(referenced_relations(query, catalog)):
        entry = catalog.entries.get(name.lower())
        if isinstance(entry, ViewEntry):
            check_view(catalog, entry)
        reads_whole_relations &= entry is None or has_column_privileges(catalog, user, name, "r", None)
    if reads_whole_relations:
        return
    # The user may read only some columns: bind the view to find the columns that it reads.
    owner_catalog = catalog.copy()
    owner_catalog.asker = replace(catalog.asker, user=user)
    reads = bind(query, owner_catalog).reads
    for read in reads.relations if reads is not None else ():
        if (read.is_scanned or read.column_names) and not has_column_privileges(
            owner_catalog, user, read.entry.name, "r", frozenset(read.column_names)
        ):
            raise permission_denied(owner_catalog, relation_key(read.entry.name))


def check_relation(catalog: Catalog, name: str) -> None:
    """Check that the session user may read all columns of a relation; PrivilegeError if not."""
    if not catalog.checks_privileges:
        return
    entry = catalog.get(name)
    require_column_privileges(catalog, entry.name, "r", frozenset(entry.schema.names))
    if catalog.row_security:
        row_security.check_no_policies(catalog, entry)
    if isinstance(entry, ViewEntry):
        check_view(catalog, entry)
