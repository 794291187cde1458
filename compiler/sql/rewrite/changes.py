"""INSERT, UPDATE and DELETE as relations: the rows to insert, or the rowids and new rows.

A change of an updatable view becomes a change of its base table. :func:`check_change` checks the privileges
on the target and, for a view, the owner's on the table below it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from kpg.compiler.catalog.access_control import (
    denied,
    key_of,
    may_columns,
    may_refuse,
    need_columns,
    need_numbers,
    whose,
)
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry, did_you_mean, get_of
from kpg.compiler.catalog.updatable_views import Through, selection, through
from kpg.compiler.sql.bind.calls import assigned, check_assignable, settled
from kpg.compiler.sql.bind.from_clause import bind_from, bind_inserted
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query import bind_query, new_binding, resolved, with_scope
from kpg.compiler.sql.bind.query_output import stored_query
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.bind.select import select_items
from kpg.compiler.sql.bind.volatile_calls import mentions_volatile
from kpg.compiler.sql.bound_tree import Distinct, Filter, Join, Map, Node, Query, Rows, Scan
from kpg.compiler.sql.frontend import Bound, check_reads, lowered
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.reader import parsed_expression
from kpg.compiler.sql.parse.syntax import relation_name
from kpg.compiler.sql.rewrite.column_defaults import given_assignments, given_width, insert_places, is_default
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column, Literal, Scalar, remap, transform
from kpg.runtime.types import OID, ROWID, ColumnDef, Schema, Type

Needs = tuple[tuple[str, frozenset[str] | None], ...]
"""Letters of privileges, each of some columns or of all of the relation."""


def check_change(statement: ast.Change, catalog: Catalog) -> None:
    """PrivilegeError unless the statement may change its relation, and a view's owner what is below."""
    if not may_refuse(catalog):
        return
    needs = _needs(statement, catalog)
    found = None if isinstance(statement, ast.Merge) else statement.through
    if found is None:
        name = catalog.table(statement.table).name
        name = catalog.parts.get(name.lower(), name)
        for letter, columns in needs:
            need_columns(catalog, name, letter, columns, None)
        return
    for letter, columns in needs:
        shown = None if columns is None else _shown(found, columns)
        need_columns(catalog, found.view, letter, shown, None)
    _check_below(catalog, found, needs)


def _check_below(catalog: Catalog, found: Through, needs: Needs) -> None:
    """The views below, and then the table, are changed with the rights of the owner of the view above."""
    name = found.view
    while True:
        entry = catalog.entries.get(name.lower())
        owner = whose(catalog, entry) if isinstance(entry, ViewEntry) else catalog.asker.user
        below = getattr(entry, "below", "") or found.entry.name
        for letter, columns in needs:
            if not may_columns(catalog, owner, below, letter, columns):
                raise denied(catalog, key_of(below))
        if below == found.entry.name:
            return
        name = below


def _shown(found: Through, columns: frozenset[str]) -> frozenset[str]:
    """The view's names of a table's columns."""
    names = {}
    for name in found.names:
        below = found.name_of(name, lambda message: KeyError(message)) if _is_plain(found, name) else ""
        names[below.lower()] = name
    return frozenset(names[one.lower()] for one in columns if one.lower() in names)


def _is_plain(found: Through, name: str) -> bool:

    return isinstance(found.columns[found.names.index(name)], Column)


def _needs(statement: ast.Change, catalog: Catalog) -> Needs:
    match statement:
        case ast.Insert(conflict=conflict):
            columns = statement.columns or catalog.table(statement.table).schema.names
            needs: Needs = (("a", frozenset(columns)),)
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
                _of_when(when, catalog.table(statement.table).schema.names) for when in _acting(statement)
            )
        case _:
            assert_never(statement)


def _acting(statement: ast.Merge) -> list[ast.When]:
    return [when for when in statement.whens if when.assignments or when.deletes or when.values is not None]


def _of_when(when: ast.When, names: tuple[str, ...]) -> tuple[str, frozenset[str] | None]:
    if when.assignments:
        return "w", frozenset(target.name for target, _ in when.assignments)
    return ("d", None) if when.deletes else ("a", frozenset(when.columns or names))


def lower_insert(statement: ast.Insert, catalog: Catalog) -> Bound:
    """The rows to insert: a column for each of the table's, the default where the statement names no value.

    A default that takes a number of a sequence is left NULL, to be filled in. Text is not checked against the
    length that a column has, nor NOT NULL: that is the table's part.
    """
    entry = catalog.table(statement.table, statement.span)
    check_change(statement, catalog)
    schema = entry.schema
    binding = new_binding(statement.span.source, catalog)
    places = insert_places(statement, schema)
    query = _inserted(binding, statement, [schema.columns[place] for place in places])
    in_order = statement.conflict is not None or isinstance(statement.query.query, exp.Values)
    whole = _all_columns(binding, query, places, entry, catalog, in_order=in_order)
    return lowered(resolved(binding, whole), catalog)


def _inserted(binding: Binding, statement: ast.Insert, columns: Sequence[ColumnDef]) -> Query:
    """The statement's query with columns of the types of the table's."""
    node = statement.query.query
    if isinstance(node, exp.Values) and not any(
        value for name, value in node.args.items() if name != "expressions"
    ):
        return bind_inserted(binding, node, columns)
    query = bind_query(binding, None, node)
    if len(query.columns) != len(columns):
        message = f"INSERT has {len(query.columns)} values for {len(columns)} columns"
        raise ProgrammingError(message, span=statement.span)
    for given, column in zip(query.columns, columns, strict=True):
        check_assignable(binding, given.type, column, node)
    return stored_query(binding, query, columns, node)


def _all_columns(
    binding: Binding, query: Query, places: list[int], entry: TableEntry, catalog: Catalog, *, in_order: bool
) -> Query:
    """The query with a column for each of the table's; rows of constants stay rows of constants.

    ``in_order``: the order of the rows matters. It also does where they get numbers.
    """
    schema = entry.schema
    missing = [place for place in range(len(schema.columns)) if place not in places]
    values: dict[int, Scalar] = {place: Literal(None, schema.types[place]) for place in missing}
    numbered = False
    if missing and entry.constraints.rules:
        from kpg.compiler.sql.rewrite.column_expressions import defaults  # lazy: columns with expressions

        found = defaults(entry, missing, catalog)
        numbered = any(default.sequences for default in found.values())
        values.update((place, one.scalar) for place, one in found.items() if not one.sequences)
    given = dict(zip(places, query.columns, strict=True))
    constants = {place: value for place, value in values.items() if isinstance(value, Literal)}
    if isinstance(query.node, Rows) and len(constants) == len(values):
        return _constant_rows(binding, query.node, given, constants, schema)
    ids = {place: binding.fresh() for place in missing}
    columns = tuple(
        given[place] if place in given else Column(ids[place], type_)
        for place, type_ in enumerate(schema.types)
    )
    node = Map(query.node, tuple(ids.values()), tuple(values.values())) if missing else query.node
    return Query(node, columns, schema.names, query.order if numbered or in_order else ())


def _constant_rows(
    binding: Binding,
    rows: Rows,
    given: Mapping[int, Column],
    constants: Mapping[int, Literal],
    schema: Schema,
) -> Query:
    cells = {place: rows.ids.index(column.index) for place, column in given.items()}
    width = range(len(schema.columns))
    whole = tuple(
        tuple(row[cells[place]] if place in cells else constants[place] for place in width)
        for row in rows.rows
    )
    types = tuple(rows.types[cells[place]] if place in cells else schema.types[place] for place in width)
    ids = tuple(binding.fresh() for _ in width)
    columns = tuple(Column(id_, type_) for id_, type_ in zip(ids, types, strict=True))
    return Query(Rows(whole, ids, types), columns, schema.names)


def arbiters(statement: ast.Insert, entry: TableEntry) -> tuple[tuple[int, ...], ...]:
    """The columns in which ON CONFLICT looks for rows that are there: those of one key, or of any.

    ProgrammingError if the table has no such key.
    """
    conflict = statement.conflict
    assert conflict is not None
    if conflict.elements:
        return ()
    known = [name.lower() for name in entry.schema.names]
    keys = {one.name.lower(): one for one in entry.constraints.uniques}
    found = [tuple(known.index(name.lower()) for name in one.columns) for one in keys.values()]
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
        if sorted(known[place] for place in key) == wanted:
            return (key,)
    names = ", ".join(entry.schema.names[place] for place in found[0])
    raise ProgrammingError(
        f'ON CONFLICT must name a key of "{statement.table}"',
        span=conflict.span,
        hint=f"write ON CONFLICT ({names})",
    )


def lower_delete(statement: ast.Delete, catalog: Catalog) -> Bound:
    """The rowids of the rows to delete, each once; with RETURNING once for each of what it gives."""
    binding, scope, target, scan = target_of(statement, catalog)
    node = _restricted(binding, scope, joined(binding, scope, target, statement.using), statement.where)
    rowid = Column(scan.ids[-1], ROWID)
    if statement.returning:
        node, columns, names = _returned(binding, scope, node, statement.returning)
        return lowered(resolved(binding, Query(node, (rowid, *columns), ("rowid", *names))), catalog)
    if statement.using:
        node = Distinct(node, (rowid,))
    return lowered(resolved(binding, Query(node, (rowid,), ("rowid",))), catalog)


def lower_update(statement: ast.Update, catalog: Catalog) -> Bound:
    """The rowids of the rows to change, each with the whole new row, and with what RETURNING gives.

    With FROM, a rowid is there once for every different row that it would become.
    """
    binding, scope, target, scan = target_of(statement, catalog)
    schema = catalog.table(statement.table, statement.span).schema
    old = [Column(id_, type_) for id_, type_ in zip(scan.ids, schema.types, strict=False)]
    shown = len(scope.fields)
    node = _restricted(binding, scope, joined(binding, scope, target, statement.sources), statement.where)
    entry = catalog.table(statement.table, statement.span)
    assignments = given_assignments(statement.assignments, entry, statement.span.source)
    new = assigned_values(binding, scope, schema, assignments)
    ids = {place: binding.fresh() for place in new}
    node = Map(node, tuple(ids.values()), tuple(new.values()))
    row = [Column(ids[place], column.type) if place in new else column for place, column in enumerate(old)]
    row, node = _with_generated(binding, entry, catalog, row, node)
    rowid = Column(scan.ids[-1], ROWID)
    names = ("rowid", *schema.names)
    if statement.returning:
        columns, node = _after(binding, statement, row, node)
        fields = [replace(field, column=one) for field, one in zip(scope.fields, columns, strict=False)]
        if binding.reads is not None:
            binding.reads.also([field.column for field in scope.fields], columns)
        # Its place is another one after the change, and not known yet.
        fields += (field for field in scope.fields[len(fields) : shown] if field.name == "tableoid")
        after = replace(scope, fields=Fields([*fields, *scope.fields[shown:]]))
        node, columns, more = _returned(binding, after, node, statement.returning)
        return lowered(resolved(binding, Query(node, (rowid, *row, *columns), (*names, *more))), catalog)
    if statement.sources:
        node = Distinct(node, (rowid, *row))
    return lowered(resolved(binding, Query(node, (rowid, *row), names)), catalog)


def _after(
    binding: Binding, statement: ast.Update, row: Sequence[Column], node: Node
) -> tuple[Sequence[Column], Node]:
    """The columns of a row that has been changed, as the statement knows them."""
    if statement.through is None:
        return row, node
    return _seen(binding, statement.through, row, node)


def _seen(binding: Binding, found: Through, row: Sequence[Column], node: Node) -> tuple[list[Column], Node]:
    """A table's row as a view shows it."""
    values = [over(column, row) for column in found.columns]
    computed = [value for value in values if not isinstance(value, Column)]
    ids = [binding.fresh() for _ in computed]
    made = iter(Column(id_, value.type) for id_, value in zip(ids, computed, strict=True))
    columns = [value if isinstance(value, Column) else next(made) for value in values]
    return columns, Map(node, tuple(ids), tuple(computed)) if computed else node


def over(scalar: Scalar, row: Sequence[Scalar]) -> Scalar:
    """A scalar over positions, over what stands there."""
    return transform(scalar, lambda one: row[one.index] if isinstance(one, Column) else one)


def _with_generated(
    binding: Binding, entry: TableEntry, catalog: Catalog, row: list[Column], node: Node
) -> tuple[list[Column], Node]:
    """A new row with its generated columns."""
    places = [place for place, rule in enumerate(entry.constraints.rules) if rule.generated]
    if not places:
        return row, node
    from kpg.compiler.sql.rewrite.column_expressions import bind_generated  # lazy: columns with expressions

    ids = {place: binding.fresh() for place in places}
    found = [bind_generated(entry, place, catalog) for place in places]
    values = tuple(remap(scalar, lambda place: row[place].index) for scalar in found)
    node = Map(node, tuple(ids.values()), values)
    types = entry.schema.types
    return [Column(ids[i], types[i]) if i in ids else column for i, column in enumerate(row)], node


def _returned(
    binding: Binding, scope: Scope, node: Node, returning: Sequence[exp.Expr]
) -> tuple[Node, tuple[Column, ...], tuple[str, ...]]:
    """The node with a column for each expression of RETURNING."""
    items = select_items(binding, scope.without_aggregates("RETURNING"), returning)
    ids = tuple(binding.fresh() for _ in items)
    scalars = tuple(settled(item.scalar) for item in items)
    columns = tuple(Column(id_, scalar.type) for id_, scalar in zip(ids, scalars, strict=True))
    return Map(node, ids, scalars), columns, tuple(item.name for item in items)


def nothing() -> exp.Expr:
    """A query of no meaning, where a statement has to have one."""
    return exp.Select()


def lower_returning(
    statement: ast.Insert, catalog: Catalog
) -> tuple[Mfp | None, tuple[str, ...], tuple[Type, ...]]:
    """What RETURNING gives for a row that is inserted; no Mfp if it takes a query."""
    entry = catalog.table(statement.table, statement.span)
    binding = new_binding(statement.span.source, catalog)
    row: list[Scalar] = [Column(binding.fresh(), column.type) for column in entry.schema.columns]
    shown, values = entry.schema.names, row
    if statement.through is not None:
        shown = statement.through.names
        values = [over(column, row) for column in statement.through.columns]
    columns = [Column(binding.fresh(), value.type) for value in values]
    fields = [Field(statement.alias, name, one) for name, one in zip(shown, columns, strict=True)]
    scope = Scope(fields=Fields(fields), common=with_scope(binding, statement.common).common)
    if binding.reads is not None:
        named = entry if statement.through is None else catalog.get(statement.through.view)
        named = catalog.get(catalog.parts.get(named.name.lower(), named.name))
        binding.reads.enter(named, columns, scanned=False)
    known_oid: dict[int, Scalar] = {}
    if "tableoid" in statement.span.source.lower() and statement.through is None:
        from kpg.compiler.system.oids import number_of  # lazy: the system catalogs

        number = Column(binding.fresh(), OID)
        scope.fields.append(Field(statement.alias, "tableoid", number, of_system=True))
        known_oid[number.index] = Literal(number_of("relation", entry.name), OID)
    items = select_items(binding, scope.without_aggregates("RETURNING"), statement.returning)
    scalars = tuple(settled(item.scalar) for item in items)
    names = tuple(item.name for item in items)
    types = tuple(scalar.type for scalar in scalars)
    check_reads(binding.reads, catalog)
    if binding.subqueries:
        return None, names, types
    known = {column.index: value for column, value in zip(columns, values, strict=True)} | known_oid
    return Mfp((), tuple(substituted(scalar, known) for scalar in scalars)), names, types


def substituted(scalar: Scalar, known: Mapping[int, Scalar]) -> Scalar:
    """A scalar with others in the place of columns."""
    return transform(scalar, lambda one: known[one.index] if isinstance(one, Column) else one)


def assigned_values(
    binding: Binding,
    scope: Scope,
    schema: Schema,
    assignments: Sequence[tuple[exp.Identifier, exp.Expr]],
) -> Mapping[int, Scalar]:
    """The values of SET by the positions of the columns that take them."""
    new: dict[int, Scalar] = {}
    inner = scope.without_aggregates("SET")
    places = {name.lower(): place for place, name in reversed(tuple(enumerate(schema.names)))}
    for target, syntax in assignments:
        place = places.get(target.name.lower())
        if place is None:
            hint = did_you_mean(target.name, schema.names)
            binding.wrong(f'column "{target.name}" does not exist', target, hint)
        if place in new:
            binding.wrong(f'column "{target.name}" is set twice', target)
        value = binding.expression(inner, syntax)
        new[place] = assigned(binding, value, schema.columns[place], syntax)
    return new


def target_of(
    statement: ast.Delete | ast.Update | ast.Merge, catalog: Catalog
) -> tuple[Binding, Scope, Node, Scan]:
    """A binding, the names of the target's columns and of WITH queries, its rows, and those of its table."""
    entry = catalog.table(statement.table, statement.span)
    binding = new_binding(statement.span.source, catalog)
    common = with_scope(binding, statement.common).common
    get = get_of(entry)
    scan = Scan(get, tuple(binding.fresh() for _ in get.types))
    columns = [Column(id_, type_) for id_, type_ in zip(scan.ids, get.types, strict=True)]
    below: Node = scan
    if catalog.others:
        from kpg.compiler.sql.bind.row_security import changeable  # lazy: policies

        below = changeable(binding, statement, entry, scan, columns)
    names, node = entry.schema.names, _with_predicates(statement, below, columns)
    through = None if isinstance(statement, ast.Merge) else statement.through
    if through is not None:
        names = through.names
        columns, node = _seen(binding, through, columns, node)
    fields = [Field(statement.alias, name, column) for name, column in zip(names, columns, strict=False)]
    scope = Scope(fields=Fields(fields), clause="WHERE", common=common)
    text = binding.source.lower()
    if through is None and not isinstance(statement, ast.Merge) and ("ctid" in text or "tableoid" in text):
        from kpg.compiler.sql.bind.base_tables import with_system  # lazy: the system catalogs

        node = with_system(binding, scope, statement.alias, entry, node, scan)
    if mentions_volatile(binding.source) or any(rule.sequence for rule in entry.constraints.rules):
        from kpg.compiler.sql.bind.per_row_calls import numbered_by  # lazy: volatile calls

        scope.fields.append(numbered_by(Column(scan.ids[-1], ROWID)))
    check_change(statement, catalog)
    if binding.reads is not None:
        shown = entry if isinstance(statement, ast.Merge) or statement.through is None else None
        named = shown or catalog.get(statement.through.view)  # type: ignore[union-attr]
        named = catalog.get(catalog.parts.get(named.name.lower(), named.name))
        binding.reads.enter(named, columns, scanned=False)
    return binding, scope, node, scan


def _with_predicates(
    statement: ast.Delete | ast.Update | ast.Merge, scan: Node, columns: Sequence[Column]
) -> Node:
    """The rows of a table, of which a view may show some."""
    if isinstance(statement, ast.Merge) or statement.through is None or not statement.through.predicates:
        return scan
    return Filter(scan, tuple(over(one, columns) for one in statement.through.predicates))


def joined(binding: Binding, scope: Scope, scan: Node | None, sources: Sequence[exp.Expr]) -> Node:
    """The rows of the target with those of FROM or USING, whose names enter the scope."""
    node: Node | None = scan
    for source in sources:
        first = source.copy()
        joins = first.args.pop("joins", None) or []
        inner = Scope(common=scope.common)
        select = exp.Select(from_=exp.From(this=first), joins=joins)
        right = bind_from(binding, inner, select)
        again = inner.relations() & scope.relations()
        if again:
            binding.wrong(f'"{min(again)}" occurs twice', source, "give one of them an alias")
        scope.fields += inner.fields
        node = right if node is None else Join("inner", node, right, ())
    assert node is not None
    return node


def _restricted(binding: Binding, scope: Scope, node: Node, where: exp.Expr | None) -> Node:
    if where is None:
        return node
    return Filter(node, conjuncts(bind_condition(binding, replace(scope), where, "WHERE")))


def through_view(statement: ast.Change, catalog: Catalog) -> ast.Change:
    """A statement about the table that a view shows; ProgrammingError if it is no such view."""
    if isinstance(statement, ast.Merge):
        return statement
    found = through(catalog, statement.table, statement.span)
    if found is None:
        return statement
    statement = replace(statement, table=found.entry.name, through=found)
    match statement:
        case ast.Insert():
            return _insert(statement, found)
        case ast.Update():
            return replace(statement, assignments=_assigned(statement, statement.assignments, found))
        case ast.Delete():
            return statement
        case _:
            assert_never(statement)


def _name(statement: ast.Change, found: Through, column: str) -> str:
    return found.name_of(column, lambda message: ProgrammingError(message, span=statement.span))


def _assigned(
    statement: ast.Change, assignments: tuple[tuple[exp.Identifier, exp.Expr], ...], found: Through
) -> tuple[tuple[exp.Identifier, exp.Expr], ...]:
    result = []
    for target, value in assignments:
        renamed = target.copy()
        renamed.set("this", _name(statement, found, target.name))
        if is_default(value):
            text = dict(found.defaults).get(renamed.name.lower())
            value = exp.Null() if text is None else parsed_expression(text)
        result.append((renamed, value))
    return tuple(result)


def _insert(statement: ast.Insert, found: Through) -> ast.Insert:
    columns = statement.columns
    if not columns:
        columns = found.names[: given_width(statement.query.query) or len(found.names)]
    named = tuple(_name(statement, found, column) for column in columns)
    if found.defaults:
        named, statement = with_defaults(statement, named, dict(found.defaults))
    conflict = statement.conflict
    if conflict is not None:
        conflict = replace(
            conflict,
            columns=tuple(_name(statement, found, column) for column in conflict.columns),
            assignments=_assigned(statement, conflict.assignments, found),
        )
    return replace(statement, columns=named, conflict=conflict)


def with_defaults(
    statement: ast.Insert, columns: tuple[str, ...], defaults: dict[str, str]
) -> tuple[tuple[str, ...], ast.Insert]:
    """The columns and the statement with what a view's columns have for DEFAULT."""
    query = statement.query.query
    known = [name.lower() for name in columns]
    rows = query.expressions if isinstance(query, exp.Values) else []
    if len(rows) == 1 and rows[0].meta.get("default"):
        known, columns = [], ()
    more = [name for name in defaults if name not in known]
    made: exp.Expr = query.copy()
    if isinstance(made, exp.Values):
        for row in made.expressions:
            cells = [
                parsed_expression(defaults[name]) if is_default(cell) and name in defaults else cell
                for name, cell in zip(known, row.expressions, strict=False)
            ]
            more_cells = [parsed_expression(defaults[name]) for name in more]
            row.replace(exp.Tuple(expressions=[*cells, *more_cells]))
    elif more:
        names = [exp.to_identifier(f"given_{place}") for place in range(len(columns))]
        alias = exp.TableAlias(this=exp.to_identifier("given"), columns=names)
        listed = [exp.column(name.copy(), table="given") for name in names]
        source = exp.From(this=exp.Subquery(this=made, alias=alias))
        made = exp.Select(
            expressions=[*listed, *(parsed_expression(defaults[name]) for name in more)], from_=source
        )
    return (*columns, *more), replace(statement, query=replace(statement.query, query=made))


def below_of(statement: ast.CreateView, catalog: Catalog) -> str:
    """The view that a view selects from, if that is all that it reads; "" if there is none."""
    query = statement.query.query
    source = query.args.get("from_") if isinstance(query, exp.Select) else None
    if source is None or query.args.get("joins") or not isinstance(source.this, exp.Table):
        return ""
    entry = catalog.find(relation_name(source.this))
    return entry.name if isinstance(entry, ViewEntry) else ""


def refuse_unchecked(statement: ast.CreateView, entry: ViewEntry) -> None:
    """ProgrammingError if a view cannot have the CHECK OPTION that it is to have."""
    if not statement.check:
        return
    if entry.materialized or entry.rel is None or selection(entry.rel) is None:
        raise ProgrammingError(
            "WITH CHECK OPTION needs a view that can be written to",
            span=statement.span,
            hint="it selects rows and columns of one table",
        )


def check_insertion(statement: ast.Insert, entry: TableEntry, catalog: Catalog) -> None:
    """PrivilegeError unless rows may be inserted, and the numbers of their DEFAULTs taken."""
    check_change(statement, catalog)
    if statement.returning:
        lower_returning(statement, catalog)
    if entry.name.lower() not in catalog.parts:
        need_numbers(catalog, entry, statement.columns or entry.schema.names)
