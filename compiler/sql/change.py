"""INSERT, UPDATE and DELETE as relations: the rows to insert, or the rowids and rows to change."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from kpg.compiler.catalog import Catalog, did_you_mean, get_of
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.bind.calls import assigned, check_assignable
from kpg.compiler.sql.bind.from_clause import bind_from
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.output import stored_query
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query import bind_query, new_binding, resolved
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.bind.values import bind_inserted
from kpg.compiler.sql.query import Bound, lowered
from kpg.compiler.sql.tree import Distinct, Filter, Join, Map, Node, Query, Scan
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column, Literal, Scalar
from kpg.runtime.types import ROWID, ColumnDef, Schema


def lower_insert(statement: ast.Insert, catalog: Catalog) -> Bound:
    """The rows to insert: a column for each of the table's, NULL where the statement names no value.

    Text is not checked against the length that a column has, nor NOT NULL: that is the table's part.
    """
    schema = catalog.table(statement.table, statement.span).schema
    binding = new_binding(statement.span.source, catalog)
    places = _insert_places(statement, schema)
    query = _inserted(binding, statement, [schema.columns[place] for place in places])
    return lowered(resolved(binding, _all_columns(binding, query, places, schema)))


def _insert_places(statement: ast.Insert, schema: Schema) -> list[int]:
    if not statement.columns:
        return list(range(len(schema.columns)))
    known = [name.lower() for name in schema.names]
    places: list[int] = []
    for name in statement.columns:
        if name.lower() not in known:
            message = f'column "{name}" of "{statement.table}" does not exist'
            raise ProgrammingError(message, span=statement.span, hint=did_you_mean(name, schema.names))
        if known.index(name.lower()) in places:
            raise ProgrammingError(f'column "{name}" is named twice', span=statement.span)
        places.append(known.index(name.lower()))
    return places


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


def _all_columns(binding: Binding, query: Query, places: list[int], schema: Schema) -> Query:
    missing = [place for place in range(len(schema.columns)) if place not in places]
    ids = {place: binding.fresh() for place in missing}
    node: Node = query.node
    if missing:
        empty = tuple(Literal(None, schema.types[place]) for place in missing)
        node = Map(node, tuple(ids.values()), empty)
    given = dict(zip(places, query.columns, strict=True))
    columns = tuple(
        given[place] if place in given else Column(ids[place], type_)
        for place, type_ in enumerate(schema.types)
    )
    return Query(node, columns, schema.names)


def lower_conflict(statement: ast.Insert, catalog: Catalog) -> Mfp | None:
    """What ON CONFLICT does to a row that is there already; None for DO NOTHING.

    The input are the columns of the row that is there, then those of the row to insert; the output is the
    row to put in their place, if the condition holds.
    """
    conflict = statement.conflict
    assert conflict is not None
    entry = catalog.table(statement.table, statement.span)
    schema = entry.schema
    binding = new_binding(statement.span.source, catalog)
    _check_target(statement, conflict, schema)
    if not conflict.assignments:
        return None
    fields = [
        Field(relation, column.name, Column(binding.fresh(), column.type))
        for relation in (statement.alias, "excluded")
        for column in schema.columns
    ]
    scope = Scope(fields=fields)
    new = _assigned(binding, scope, schema, conflict.assignments)
    kept: tuple[Scalar, ...] = ()
    if conflict.where is not None:
        kept = conjuncts(bind_condition(binding, scope.without_aggregates("WHERE"), conflict.where, "WHERE"))
    if binding.subqueries:
        binding.refuse("a subquery in ON CONFLICT", conflict.assignments[0][1])
    old = [field.column for field in fields[: len(schema.columns)]]
    return Mfp(kept, tuple(new.get(place, column) for place, column in enumerate(old)))


def _check_target(statement: ast.Insert, conflict: ast.Conflict, schema: Schema) -> None:
    """The primary key is all that rows can conflict in."""
    names = [schema.names[place].lower() for place in schema.primary_key]
    if not names:
        raise ProgrammingError(
            f'ON CONFLICT needs a primary key, which "{statement.table}" does not have',
            span=conflict.span,
        )
    given = sorted(name.lower() for name in conflict.columns)
    if given != sorted(names) and (given or conflict.assignments):
        raise ProgrammingError(
            f'ON CONFLICT must name the primary key of "{statement.table}"',
            span=conflict.span,
            hint=f"write ON CONFLICT ({', '.join(names)})",
        )


def lower_delete(statement: ast.Delete, catalog: Catalog) -> Bound:
    """The rowids of the rows to delete, each once."""
    binding, scope, scan = _target(statement, catalog)
    node = _restricted(binding, scope, _joined(binding, scope, scan, statement.using), statement.where)
    rowid = Column(scan.ids[-1], ROWID)
    if statement.using:
        node = Distinct(node, (rowid,))
    return lowered(resolved(binding, Query(node, (rowid,), ("rowid",))))


def lower_update(statement: ast.Update, catalog: Catalog) -> Bound:
    """The rowids of the rows to change, each with the whole new row.

    With FROM, a rowid is there once for every different row that it would become.
    """
    binding, scope, scan = _target(statement, catalog)
    schema = catalog.table(statement.table, statement.span).schema
    old = [field.column for field in scope.fields]
    node = _restricted(binding, scope, _joined(binding, scope, scan, statement.sources), statement.where)
    new = _assigned(binding, scope, schema, statement.assignments)
    ids = {place: binding.fresh() for place in new}
    node = Map(node, tuple(ids.values()), tuple(new.values()))
    row = [Column(ids[place], column.type) if place in new else column for place, column in enumerate(old)]
    columns = (Column(scan.ids[-1], ROWID), *row)
    if statement.sources:
        node = Distinct(node, columns)
    return lowered(resolved(binding, Query(node, columns, ("rowid", *schema.names))))


def _assigned(
    binding: Binding,
    scope: Scope,
    schema: Schema,
    assignments: Sequence[tuple[exp.Identifier, exp.Expr]],
) -> Mapping[int, Scalar]:
    """The values of SET by the positions of the columns that take them."""
    new: dict[int, Scalar] = {}
    inner = scope.without_aggregates("SET")
    for target, syntax in assignments:
        place = _position(binding, schema, target)
        if place in new:
            binding.wrong(f'column "{target.name}" is set twice', target)
        value = binding.expression(inner, syntax)
        new[place] = assigned(binding, value, schema.columns[place], syntax)
    return new


def _position(binding: Binding, schema: Schema, target: exp.Identifier) -> int:
    for index, name in enumerate(schema.names):
        if name.lower() == target.name.lower():
            return index
    hint = did_you_mean(target.name, schema.names)
    binding.wrong(f'column "{target.name}" does not exist', target, hint)


def _target(statement: ast.Delete | ast.Update, catalog: Catalog) -> tuple[Binding, Scope, Scan]:
    entry = catalog.table(statement.table, statement.span)
    binding = new_binding(statement.span.source, catalog)
    get = get_of(entry)
    ids = tuple(binding.fresh() for _ in get.types)
    fields = [
        Field(statement.alias, column.name, Column(id_, column.type))
        for id_, column in zip(ids, entry.schema.columns, strict=False)
    ]
    return binding, Scope(fields=fields, clause="WHERE"), Scan(get, ids)


def _joined(binding: Binding, scope: Scope, scan: Scan, sources: Sequence[exp.Expr]) -> Node:
    """The rows of the target with those of FROM or USING, whose names enter the scope."""
    node: Node = scan
    for source in sources:
        first = source.copy()
        joins = first.args.pop("joins", None) or []
        inner = Scope()
        select = exp.Select(from_=exp.From(this=first), joins=joins)
        right = bind_from(binding, inner, select)
        again = inner.relations() & scope.relations()
        if again:
            binding.wrong(f'"{min(again)}" occurs twice', source, "give one of them an alias")
        scope.fields += inner.fields
        node = Join("inner", node, right, ())
    return node


def _restricted(binding: Binding, scope: Scope, node: Node, where: exp.Expr | None) -> Node:
    if where is None:
        return node
    return Filter(node, conjuncts(bind_condition(binding, replace(scope), where, "WHERE")))
