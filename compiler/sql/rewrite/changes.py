"""INSERT, UPDATE and DELETE as relations: the rows to insert, or the rowids and new rows.

A change of an updatable view becomes a change of its base table. :func:`check_change` checks the privileges
on the target and, for a view, the owner's on the table below it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from sqlglot import exp

from kpg.compiler.catalog.access_control import (
    has_column_privileges,
    may_deny_access,
    permission_denied,
    relation_key,
    require_column_privileges,
    require_sequence_privileges,
    view_role,
)
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry, did_you_mean, get_node
from kpg.compiler.catalog.updatable_views import UpdatableView, as_selection, resolve_updatable_view
from kpg.compiler.sql.bind.calls import check_assignable, coerce_for_assignment, default_to_text
from kpg.compiler.sql.bind.from_clause import bind_from, bind_insert_values
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query import bind_query, new_binding, resolved_query, with_scope
from kpg.compiler.sql.bind.query_output import coerce_query_for_assignment
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.bind.select import bind_select_items
from kpg.compiler.sql.bound_tree import Distinct, Filter, Join, Map, Node, Query, Rows, Scan
from kpg.compiler.sql.frontend import LoweredQuery, check_reads, lower_bound_query
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.reader import parse_expression
from kpg.compiler.sql.parse.syntax import relation_name
from kpg.compiler.sql.rewrite.column_defaults import (
    apply_set_defaults,
    insert_positions,
    is_default,
    row_width,
)
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column, Literal, Scalar, remap, transform
from kpg.runtime.types import OID, ROWID, ColumnDef, Schema, Type

if TYPE_CHECKING:
    from kpg.compiler.sql.bind import base_tables, per_row_calls, row_security
    from kpg.compiler.sql.rewrite import column_expressions
    from kpg.compiler.system import oids
else:
    base_tables = LazyModule("kpg.compiler.sql.bind.base_tables")
    per_row_calls = LazyModule("kpg.compiler.sql.bind.per_row_calls")
    row_security = LazyModule("kpg.compiler.sql.bind.row_security")
    column_expressions = LazyModule("kpg.compiler.sql.rewrite.column_expressions")
    oids = LazyModule("kpg.compiler.system.oids")

RequiredPrivileges = tuple[tuple[str, frozenset[str] | None], ...]
"""Letters of privileges, each with columns; None for the whole relation."""


def check_change(statement: ast.Change, catalog: Catalog) -> None:
    """Check the privileges to change the statement's relation.

    For a view, its owner needs them on the view or table below. PrivilegeError if one is missing.
    """
    if not may_deny_access(catalog):
        return
    needs = _required_privileges(statement, catalog)
    view = None if isinstance(statement, ast.Merge) else statement.updatable_view
    if view is None:
        name = catalog.table(statement.table).name
        name = catalog.changed_partitions.get(name.lower(), name)
        for letter, columns in needs:
            require_column_privileges(catalog, name, letter, columns, None)
        return
    for letter, columns in needs:
        view_columns = None if columns is None else _view_names(view, columns)
        require_column_privileges(catalog, view.view, letter, view_columns, None)
    _check_below(catalog, view, needs)


def _check_below(catalog: Catalog, view: UpdatableView, needs: RequiredPrivileges) -> None:
    """Check the privileges of each view's owner on the view below, down to the base table."""
    name = view.view
    while True:
        entry = catalog.entries.get(name.lower())
        owner = view_role(catalog, entry) if isinstance(entry, ViewEntry) else catalog.asker.user
        below = getattr(entry, "below", "") or view.entry.name
        for letter, columns in needs:
            if not has_column_privileges(catalog, owner, below, letter, columns):
                raise permission_denied(catalog, relation_key(below))
        if below == view.entry.name:
            return
        name = below


def _view_names(view: UpdatableView, columns: frozenset[str]) -> frozenset[str]:
    """Return the view's names of the table's columns."""
    names = {}
    for name in view.names:
        below = (
            view.column_name(name, lambda message: KeyError(message)) if _is_table_column(view, name) else ""
        )
        names[below.lower()] = name
    return frozenset(names[one.lower()] for one in columns if one.lower() in names)


def _is_table_column(view: UpdatableView, name: str) -> bool:

    return isinstance(view.columns[view.names.index(name)], Column)


def _required_privileges(statement: ast.Change, catalog: Catalog) -> RequiredPrivileges:
    match statement:
        case ast.Insert(conflict=conflict):
            columns = statement.columns or catalog.table(statement.table).schema.names
            needs: RequiredPrivileges = (("a", frozenset(columns)),)
            if conflict is not None and conflict.columns:
                needs += (("r", frozenset(conflict.columns)),)
            if conflict is not None and conflict.assignments:
                needs += (("w", frozenset(target.name for target, _ in conflict.assignments)),)
            return needs
        case ast.Update():
            return (("w", frozenset(target.name for target, _ in statement.assignments)),)
        case ast.Delete():
            return (("d", None),)
        case ast.Merge():
            return tuple(
                _privilege_of_action(when, catalog.table(statement.table).schema.names)
                for when in _effective_actions(statement)
            )
        case _:
            assert_never(statement)


def _effective_actions(statement: ast.Merge) -> list[ast.When]:
    return [when for when in statement.whens if when.assignments or when.deletes or when.values is not None]


def _privilege_of_action(when: ast.When, names: tuple[str, ...]) -> tuple[str, frozenset[str] | None]:
    if when.assignments:
        return "w", frozenset(target.name for target, _ in when.assignments)
    return ("d", None) if when.deletes else ("a", frozenset(when.columns or names))


def lower_insert(statement: ast.Insert, catalog: Catalog) -> LoweredQuery:
    """Lower an INSERT to the rows to insert, with all columns of the table.

    Columns without a value get their default; a default that takes a sequence's number is NULL here,
    and is filled in later. Lengths of text and NOT NULL are not checked here.
    """
    entry = catalog.table(statement.table, statement.span)
    check_change(statement, catalog)
    schema = entry.schema
    binding = new_binding(statement.span.source, catalog, statement.span.features)
    places = insert_positions(statement, schema)
    query = _bind_rows(binding, statement, [schema.columns[place] for place in places])
    keeps_order = statement.conflict is not None or isinstance(statement.query.query, exp.Values)
    rows = _all_columns(binding, query, places, entry, catalog, keeps_order=keeps_order)
    return lower_bound_query(resolved_query(binding, rows), catalog)


def _bind_rows(binding: Binding, statement: ast.Insert, columns: Sequence[ColumnDef]) -> Query:
    """Return the statement's query with columns of the table's types."""
    node = statement.query.query
    if isinstance(node, exp.Values) and not any(
        value for name, value in node.args.items() if name != "expressions"
    ):
        return bind_insert_values(binding, node, columns)
    query = bind_query(binding, None, node)
    if len(query.columns) != len(columns):
        message = f"INSERT has {len(query.columns)} values for {len(columns)} columns"
        raise ProgrammingError(message, span=statement.span)
    for source, column in zip(query.columns, columns, strict=True):
        check_assignable(binding, source.type, column, node)
    return coerce_query_for_assignment(binding, query, columns, node)


def _all_columns(
    binding: Binding,
    query: Query,
    places: list[int],
    entry: TableEntry,
    catalog: Catalog,
    *,
    keeps_order: bool,
) -> Query:
    """Return the query with a column for each of the table's; constant rows stay constant rows.

    ``keeps_order``: the order of the rows matters. It also matters if they take numbers of sequences.
    """
    schema = entry.schema
    missing = [place for place in range(len(schema.columns)) if place not in places]
    values: dict[int, Scalar] = {place: Literal(None, schema.types[place]) for place in missing}
    takes_numbers = False
    if missing and entry.constraints.rules:
        found = column_expressions.bind_defaults(entry, missing, catalog)
        takes_numbers = any(default.sequences for default in found.values())
        values.update(
            (place, column_default.scalar)
            for place, column_default in found.items()
            if not column_default.sequences
        )
    sources = dict(zip(places, query.columns, strict=True))
    constants = {place: value for place, value in values.items() if isinstance(value, Literal)}
    if isinstance(query.node, Rows) and len(constants) == len(values):
        return _constant_rows(binding, query.node, sources, constants, schema)
    ids = {place: binding.new_id() for place in missing}
    columns = tuple(
        sources[place] if place in sources else Column(ids[place], type_)
        for place, type_ in enumerate(schema.types)
    )
    node = Map(query.node, tuple(ids.values()), tuple(values.values())) if missing else query.node
    return Query(node, columns, schema.names, query.order if takes_numbers or keeps_order else ())


def _constant_rows(
    binding: Binding,
    rows: Rows,
    sources: Mapping[int, Column],
    constants: Mapping[int, Literal],
    schema: Schema,
) -> Query:
    cells = {place: rows.ids.index(column.index) for place, column in sources.items()}
    width = range(len(schema.columns))
    values = tuple(
        tuple(row[cells[place]] if place in cells else constants[place] for place in width)
        for row in rows.rows
    )
    types = tuple(rows.types[cells[place]] if place in cells else schema.types[place] for place in width)
    ids = tuple(binding.new_id() for _ in width)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    return Query(Rows(values, ids, types), columns, schema.names)


def arbiters(statement: ast.Insert, entry: TableEntry) -> tuple[tuple[int, ...], ...]:
    """Return the columns of the keys that ON CONFLICT checks: of the named key, or of all keys.

    () for a unique index over expressions. ProgrammingError if the table has no such key.
    """
    conflict = statement.conflict
    assert conflict is not None
    if conflict.elements:
        return ()
    column_names = [name.lower() for name in entry.schema.names]
    keys = {unique.name.lower(): unique for unique in entry.constraints.uniques}
    found = [tuple(column_names.index(name.lower()) for name in unique.columns) for unique in keys.values()]
    if entry.schema.primary_key and entry.schema.primary_key not in found:
        found.insert(0, entry.schema.primary_key)
    if conflict.constraint:
        if conflict.constraint.lower() not in keys:
            message = f'"{statement.table}" has no key "{conflict.constraint}"'
            hint = did_you_mean(conflict.constraint, keys)
            raise ProgrammingError(message, span=conflict.span, hint=hint)
        return (found[list(keys).index(conflict.constraint.lower())],)
    if not conflict.columns and not conflict.assignments:
        return tuple(found)
    if not found:
        raise ProgrammingError(
            f'ON CONFLICT needs a PRIMARY KEY or UNIQUE, which "{statement.table}" does not have',
            span=conflict.span,
        )
    wanted = sorted(name.lower() for name in conflict.columns)
    for key in found:
        if sorted(column_names[place] for place in key) == wanted:
            return (key,)
    names = ", ".join(entry.schema.names[place] for place in found[0])
    raise ProgrammingError(
        f'ON CONFLICT must name a key of "{statement.table}"',
        span=conflict.span,
        hint=f"write ON CONFLICT ({names})",
    )


def lower_delete(statement: ast.Delete, catalog: Catalog) -> LoweredQuery:
    """Lower a DELETE to the rowids of the rows to delete, each once.

    With RETURNING, a rowid occurs once for each row returned.
    """
    binding, scope, target, scan = bind_target(statement, catalog)
    node = _filter_where(
        binding, scope, join_sources(binding, scope, target, statement.using), statement.where
    )
    rowid = Column(scan.ids[-1], ROWID)
    if statement.returning:
        node, columns, names = _with_returning(binding, scope, node, statement.returning)
        return lower_bound_query(
            resolved_query(binding, Query(node, (rowid, *columns), ("rowid", *names))), catalog
        )
    if statement.using:
        node = Distinct(node, (rowid,))
    return lower_bound_query(resolved_query(binding, Query(node, (rowid,), ("rowid",))), catalog)


def lower_update(statement: ast.Update, catalog: Catalog) -> LoweredQuery:
    """Lower an UPDATE to rowids, each with the whole new row and the columns of RETURNING.

    With FROM, a rowid occurs once for every different new row.
    """
    binding, scope, target, scan = bind_target(statement, catalog)
    schema = catalog.table(statement.table, statement.span).schema
    old = [Column(id_, type_) for id_, type_ in zip(scan.ids, schema.types, strict=False)]
    field_count = len(scope.fields)
    node = _filter_where(
        binding, scope, join_sources(binding, scope, target, statement.sources), statement.where
    )
    entry = catalog.table(statement.table, statement.span)
    assignments = apply_set_defaults(statement.assignments, entry, statement.span.source)
    new = bind_assignments(binding, scope, schema, assignments)
    ids = {place: binding.new_id() for place in new}
    node = Map(node, tuple(ids.values()), tuple(new.values()))
    row = [Column(ids[place], column.type) if place in new else column for place, column in enumerate(old)]
    row, node = _with_generated(binding, entry, catalog, row, node)
    rowid = Column(scan.ids[-1], ROWID)
    names = ("rowid", *schema.names)
    if statement.returning:
        columns, node = _new_row_columns(binding, statement, row, node)
        fields = [replace(field, column=one) for field, one in zip(scope.fields, columns, strict=False)]
        if binding.reads is not None:
            binding.reads.add_aliases([field.column for field in scope.fields], columns)
        # ctid is left out: that of the changed row is not known yet.
        fields += (field for field in scope.fields[len(fields) : field_count] if field.name == "tableoid")
        after = replace(scope, fields=Fields([*fields, *scope.fields[field_count:]]))
        node, columns, returned_names = _with_returning(binding, after, node, statement.returning)
        return lower_bound_query(
            resolved_query(binding, Query(node, (rowid, *row, *columns), (*names, *returned_names))), catalog
        )
    if statement.sources:
        node = Distinct(node, (rowid, *row))
    return lower_bound_query(resolved_query(binding, Query(node, (rowid, *row), names)), catalog)


def _new_row_columns(
    binding: Binding, statement: ast.Update, row: Sequence[Column], node: Node
) -> tuple[Sequence[Column], Node]:
    """Return the columns of a changed row as the statement's relation has them."""
    if statement.updatable_view is None:
        return row, node
    return _view_columns(binding, statement.updatable_view, row, node)


def _view_columns(
    binding: Binding, view: UpdatableView, row: Sequence[Column], node: Node
) -> tuple[list[Column], Node]:
    """Return the columns of a view over a table's row, and the node that computes them."""
    values = [substitute_positions(column, row) for column in view.columns]
    computed = [value for value in values if not isinstance(value, Column)]
    ids = [binding.new_id() for _ in computed]
    computed_columns = iter(Column(id_, value.type) for id_, value in zip(ids, computed, strict=True))
    columns = [value if isinstance(value, Column) else next(computed_columns) for value in values]
    return columns, Map(node, tuple(ids), tuple(computed)) if computed else node


def substitute_positions(scalar: Scalar, row: Sequence[Scalar]) -> Scalar:
    """Return a scalar over positions with the row's scalars in their place."""
    return transform(scalar, lambda one: row[one.index] if isinstance(one, Column) else one)


def _with_generated(
    binding: Binding, entry: TableEntry, catalog: Catalog, row: list[Column], node: Node
) -> tuple[list[Column], Node]:
    """Return a new row with its generated columns, and the node that computes them."""
    places = [place for place, rule in enumerate(entry.constraints.rules) if rule.generated]
    if not places:
        return row, node

    ids = {place: binding.new_id() for place in places}
    found = [column_expressions.bind_generated(entry, place, catalog) for place in places]
    values = tuple(remap(scalar, lambda place: row[place].index) for scalar in found)
    node = Map(node, tuple(ids.values()), values)
    types = entry.schema.types
    return [Column(ids[i], types[i]) if i in ids else column for i, column in enumerate(row)], node


def _with_returning(
    binding: Binding, scope: Scope, node: Node, returning: Sequence[exp.Expr]
) -> tuple[Node, tuple[Column, ...], tuple[str, ...]]:
    """Return the node with a column for each expression of RETURNING, the columns and their names."""
    items = bind_select_items(binding, scope.without_aggregates("RETURNING"), returning)
    ids = tuple(binding.new_id() for _ in items)
    scalars = tuple(default_to_text(item.scalar) for item in items)
    columns = tuple(Column(id_, scalar.type) for id_, scalar in zip(ids, scalars, strict=True))
    return Map(node, ids, scalars), columns, tuple(item.name for item in items)


def empty_select() -> exp.Expr:
    """Return an empty SELECT, as a placeholder for a statement's query."""
    return exp.Select()


def lower_returning(
    statement: ast.Insert, catalog: Catalog
) -> tuple[Mfp | None, tuple[str, ...], tuple[Type, ...]]:
    """Return RETURNING of an INSERT as a map of the inserted row, with the names and types of its columns.

    The map is None if RETURNING has a subquery.
    """
    entry = catalog.table(statement.table, statement.span)
    binding = new_binding(statement.span.source, catalog, statement.span.features)
    row: list[Scalar] = [Column(binding.new_id(), column.type) for column in entry.schema.columns]
    field_names, values = entry.schema.names, row
    if statement.updatable_view is not None:
        field_names = statement.updatable_view.names
        values = [substitute_positions(column, row) for column in statement.updatable_view.columns]
    columns = [Column(binding.new_id(), value.type) for value in values]
    fields = [Field(statement.alias, name, one) for name, one in zip(field_names, columns, strict=True)]
    scope = Scope(fields=Fields(fields), common_tables=with_scope(binding, statement.common).common_tables)
    if binding.reads is not None:
        relation = entry if statement.updatable_view is None else catalog.get(statement.updatable_view.view)
        relation = catalog.get(catalog.changed_partitions.get(relation.name.lower(), relation.name))
        binding.reads.add_relation(relation, columns, is_scanned=False)
    oid_values: dict[int, Scalar] = {}
    if "tableoid" in statement.span.features.system_columns and statement.updatable_view is None:
        number = Column(binding.new_id(), OID)
        scope.fields.append(Field(statement.alias, "tableoid", number, is_system=True))
        oid_values[number.index] = Literal(oids.oid_of("relation", entry.name), OID)
    items = bind_select_items(binding, scope.without_aggregates("RETURNING"), statement.returning)
    scalars = tuple(default_to_text(item.scalar) for item in items)
    names = tuple(item.name for item in items)
    types = tuple(scalar.type for scalar in scalars)
    check_reads(binding.reads, catalog)
    if binding.subqueries:
        return None, names, types
    values_by_id = {column.index: value for column, value in zip(columns, values, strict=True)} | oid_values
    return Mfp((), tuple(substitute_ids(scalar, values_by_id) for scalar in scalars)), names, types


def substitute_ids(scalar: Scalar, values: Mapping[int, Scalar]) -> Scalar:
    """Return a scalar with its columns replaced by the scalars for their ids."""
    return transform(scalar, lambda one: values[one.index] if isinstance(one, Column) else one)


def bind_assignments(
    binding: Binding,
    scope: Scope,
    schema: Schema,
    assignments: Sequence[tuple[exp.Identifier, exp.Expr]],
) -> Mapping[int, Scalar]:
    """Return the values of SET by column position."""
    new: dict[int, Scalar] = {}
    inner = scope.without_aggregates("SET")
    places = {name.lower(): place for place, name in reversed(tuple(enumerate(schema.names)))}
    for target, syntax in assignments:
        place = places.get(target.name.lower())
        if place is None:
            hint = did_you_mean(target.name, schema.names)
            binding.fail(f'column "{target.name}" does not exist', target, hint)
        if place in new:
            binding.fail(f'column "{target.name}" is set twice', target)
        value = binding.expression(inner, syntax)
        new[place] = coerce_for_assignment(binding, value, schema.columns[place], syntax)
    return new


def bind_target(
    statement: ast.Delete | ast.Update | ast.Merge, catalog: Catalog
) -> tuple[Binding, Scope, Node, Scan]:
    """Bind the target of a DELETE, UPDATE or MERGE.

    Returns:
        The binding, the scope of the target's columns and of WITH, the target's rows, and the
        table's scan.
    """
    entry = catalog.table(statement.table, statement.span)
    binding = new_binding(statement.span.source, catalog, statement.span.features)
    common = with_scope(binding, statement.common).common_tables
    get = get_node(entry)
    scan = Scan(get, tuple(binding.new_id() for _ in get.types))
    columns = [Column(id_, type_) for id_, type_ in zip(scan.ids, get.types, strict=True)]
    below: Node = scan
    if catalog.row_security:
        below = row_security.filter_changeable(binding, statement, entry, scan, columns)
    names, node = entry.schema.names, _with_predicates(statement, below, columns)
    through = None if isinstance(statement, ast.Merge) else statement.updatable_view
    if through is not None:
        names = through.names
        columns, node = _view_columns(binding, through, columns, node)
    fields = [Field(statement.alias, name, column) for name, column in zip(names, columns, strict=False)]
    scope = Scope(fields=Fields(fields), clause="WHERE", common_tables=common)
    features = binding.features
    if through is None and not isinstance(statement, ast.Merge) and features.system_columns:
        node = base_tables.with_system_columns(binding, scope, statement.alias, entry, node, scan)
    if features.calls_volatile or any(rule.sequence for rule in entry.constraints.rules):
        scope.fields.append(per_row_calls.row_number_field(Column(scan.ids[-1], ROWID)))
    check_change(statement, catalog)
    if binding.reads is not None:
        target_entry = entry if isinstance(statement, ast.Merge) or statement.updatable_view is None else None
        relation = target_entry or catalog.get(statement.updatable_view.view)  # type: ignore[union-attr]
        relation = catalog.get(catalog.changed_partitions.get(relation.name.lower(), relation.name))
        binding.reads.add_relation(relation, columns, is_scanned=False)
    return binding, scope, node, scan


def _with_predicates(
    statement: ast.Delete | ast.Update | ast.Merge, scan: Node, columns: Sequence[Column]
) -> Node:
    """Return the table's rows that the updatable view shows."""
    if (
        isinstance(statement, ast.Merge)
        or statement.updatable_view is None
        or not statement.updatable_view.predicates
    ):
        return scan
    return Filter(
        scan,
        tuple(substitute_positions(predicate, columns) for predicate in statement.updatable_view.predicates),
    )


def join_sources(binding: Binding, scope: Scope, target: Node | None, sources: Sequence[exp.Expr]) -> Node:
    """Join the target's rows with the relations of FROM or USING, whose columns enter the scope."""
    node: Node | None = target
    for source in sources:
        first = source.copy()
        joins = first.args.pop("joins", None) or []
        inner = Scope(common_tables=scope.common_tables)
        select = exp.Select(from_=exp.From(this=first), joins=joins)
        right = bind_from(binding, inner, select)
        duplicates = inner.relation_names() & scope.relation_names()
        if duplicates:
            binding.fail(f'"{min(duplicates)}" occurs twice', source, "give one of them an alias")
        scope.fields += inner.fields
        node = right if node is None else Join("inner", node, right, ())
    assert node is not None
    return node


def _filter_where(binding: Binding, scope: Scope, node: Node, where: exp.Expr | None) -> Node:
    if where is None:
        return node
    return Filter(node, conjuncts(bind_condition(binding, replace(scope), where, "WHERE")))


def redirect_to_table(statement: ast.Change, catalog: Catalog) -> ast.Change:
    """Rewrite a change of an updatable view as a change of its table; other statements stay as they are.

    ProgrammingError for a view that is not updatable.
    """
    if isinstance(statement, ast.Merge):
        return statement
    view = resolve_updatable_view(catalog, statement.table, statement.span)
    if view is None:
        return statement
    statement = replace(statement, table=view.entry.name, updatable_view=view)
    match statement:
        case ast.Insert():
            return _redirect_insert(statement, view)
        case ast.Update():
            return replace(
                statement, assignments=_redirect_assignments(statement, statement.assignments, view)
            )
        case ast.Delete():
            return statement
        case _:
            assert_never(statement)


def _table_column(statement: ast.Change, view: UpdatableView, column: str) -> str:
    return view.column_name(column, lambda message: ProgrammingError(message, span=statement.span))


def _redirect_assignments(
    statement: ast.Change, assignments: tuple[tuple[exp.Identifier, exp.Expr], ...], view: UpdatableView
) -> tuple[tuple[exp.Identifier, exp.Expr], ...]:
    result = []
    for target, value in assignments:
        column = target.copy()
        column.set("this", _table_column(statement, view, target.name))
        if is_default(value):
            text = dict(view.defaults).get(column.name.lower())
            value = exp.Null() if text is None else parse_expression(text)
        result.append((column, value))
    return tuple(result)


def _redirect_insert(statement: ast.Insert, view: UpdatableView) -> ast.Insert:
    columns = statement.columns
    if not columns:
        columns = view.names[: row_width(statement.query.query) or len(view.names)]
    table_columns = tuple(_table_column(statement, view, column) for column in columns)
    if view.defaults:
        table_columns, statement = apply_view_defaults(statement, table_columns, dict(view.defaults))
    conflict = statement.conflict
    if conflict is not None:
        conflict = replace(
            conflict,
            columns=tuple(_table_column(statement, view, column) for column in conflict.columns),
            assignments=_redirect_assignments(statement, conflict.assignments, view),
        )
    return replace(statement, columns=table_columns, conflict=conflict)


def apply_view_defaults(
    statement: ast.Insert, columns: tuple[str, ...], defaults: dict[str, str]
) -> tuple[tuple[str, ...], ast.Insert]:
    """Return the columns and the statement with the defaults of a view's columns."""
    query = statement.query.query
    column_names = [name.lower() for name in columns]
    rows = query.expressions if isinstance(query, exp.Values) else []
    if len(rows) == 1 and rows[0].meta.get("default"):
        column_names, columns = [], ()
    missing = [name for name in defaults if name not in column_names]
    new_query: exp.Expr = query.copy()
    if isinstance(new_query, exp.Values):
        for row in new_query.expressions:
            cells = [
                parse_expression(defaults[name]) if is_default(cell) and name in defaults else cell
                for name, cell in zip(column_names, row.expressions, strict=False)
            ]
            default_cells = [parse_expression(defaults[name]) for name in missing]
            row.replace(exp.Tuple(expressions=[*cells, *default_cells]))
    elif missing:
        names = [exp.to_identifier(f"given_{place}") for place in range(len(columns))]
        alias = exp.TableAlias(this=exp.to_identifier("given"), columns=names)
        listed = [exp.column(name.copy(), table="given") for name in names]
        source = exp.From(this=exp.Subquery(this=new_query, alias=alias))
        new_query = exp.Select(
            expressions=[*listed, *(parse_expression(defaults[name]) for name in missing)], from_=source
        )
    return (*columns, *missing), replace(statement, query=replace(statement.query, query=new_query))


def underlying_view(statement: ast.CreateView, catalog: Catalog) -> str:
    """Return the view that is the only relation a view selects from; "" if there is none."""
    query = statement.query.query
    source = query.args.get("from_") if isinstance(query, exp.Select) else None
    if source is None or query.args.get("joins") or not isinstance(source.this, exp.Table):
        return ""
    entry = catalog.find(relation_name(source.this))
    return entry.name if isinstance(entry, ViewEntry) else ""


def check_updatable_view(statement: ast.CreateView, entry: ViewEntry) -> None:
    """Check that a view with CHECK OPTION is updatable; ProgrammingError if not."""
    if not statement.check:
        return
    if entry.materialized or entry.rel is None or as_selection(entry.rel) is None:
        raise ProgrammingError(
            "WITH CHECK OPTION needs an updatable view",
            span=statement.span,
            hint="an updatable view selects rows and columns of one table",
        )


def check_insertion(statement: ast.Insert, entry: TableEntry, catalog: Catalog) -> None:
    """Check the privileges to insert rows and to take the numbers of their DEFAULTs.

    PrivilegeError if one is missing.
    """
    check_change(statement, catalog)
    if statement.returning:
        lower_returning(statement, catalog)
    if entry.name.lower() not in catalog.changed_partitions:
        require_sequence_privileges(catalog, entry, statement.columns or entry.schema.names)
