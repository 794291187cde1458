"""The front end's result: statements as relations, with what presenting their rows needs."""

from dataclasses import dataclass, replace

from sqlglot import exp

from kpg.compiler.algebra import facts
from kpg.compiler.algebra.rel import OrderBy, Rel, types
from kpg.compiler.catalog import Catalog, did_you_mean, get_of
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.bind import bind, bind_query, finished, new_binding
from kpg.compiler.sql.bind_predicate import bind_condition
from kpg.compiler.sql.calls import brought, settled
from kpg.compiler.sql.literals import conjuncts
from kpg.compiler.sql.lower import lower_resolved
from kpg.compiler.sql.parse import parse_query
from kpg.compiler.sql.scope import Binding, Field, Scope
from kpg.compiler.sql.shape import brought_query
from kpg.compiler.sql.tree import Filter, Map, Node, Query, Resolved, Scan
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.scalar import Column, Literal
from kpg.runtime.types import ROWID, Schema, Type


@dataclass(frozen=True, slots=True)
class Bound:
    """A query as a relation. Its first ``visible`` columns are the result; ``order`` is over all of them."""

    rel: Rel
    names: tuple[str, ...]
    types: tuple[Type, ...]
    nullable: tuple[bool, ...]
    order: tuple[OrderBy, ...]
    visible: int


def lower_query(statement: ast.Select, catalog: Catalog) -> Bound:
    """The relation of a query."""
    return _lowered(bind(statement.query, statement.span.source, catalog))


def _lowered(resolved: Resolved) -> Bound:
    query = resolved.query
    rel, ids = lower_resolved(resolved)
    order = tuple(
        OrderBy(ids.index(key.column.index), key.descending, key.nulls_first) for key in query.order
    )
    visible = len(query.columns)
    return Bound(rel, query.names, types(rel)[:visible], facts.nullable(rel)[:visible], order, visible)


def lower_relation(name: str, catalog: Catalog) -> Bound:
    """All rows of a table or view."""
    quoted = '"' + name.replace('"', '""') + '"'
    return lower_query(parse_query(f"select * from {quoted}"), catalog)


def lower_view(statement: ast.CreateView, catalog: Catalog) -> Bound:
    """The relation of a view's query under the view's column names, which must differ."""
    bound = lower_query(statement.query, catalog)
    if len(statement.columns) > bound.visible:
        message = f"the view has {bound.visible} columns but {len(statement.columns)} are named"
        raise ProgrammingError(message, span=statement.span)
    names = (*statement.columns, *bound.names[len(statement.columns) :])
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            hint = "give one of them another name with AS"
            raise ProgrammingError(f'the view has two columns "{name}"', span=statement.span, hint=hint)
        seen.add(name.lower())
    return replace(bound, names=names)


def lower_insert(statement: ast.Insert, catalog: Catalog) -> Bound:
    """The rows to insert: a column for each of the table's, NULL where the statement names no value.

    Text is not checked against the length that a column has, nor NOT NULL: that is the table's part.
    """
    schema = catalog.table(statement.table, statement.span).schema
    binding = new_binding(statement.span.source, catalog)
    query = bind_query(binding, None, statement.query.query)
    places = _insert_places(statement, schema)
    if len(query.columns) != len(places):
        message = f"INSERT has {len(query.columns)} values for {len(places)} columns"
        raise ProgrammingError(message, span=statement.span)
    targets = tuple(schema.types[place] for place in places)
    for column, target, place in zip(query.columns, targets, places, strict=True):
        _assignable(binding, column.type, target, schema.columns[place].name, statement.query.query)
    query = brought_query(binding, query, targets, statement.query.query)
    return _lowered(finished(binding, _all_columns(binding, query, places, schema)))


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


def _assignable(binding: Binding, source: Type, target: Type, name: str, node: exp.Expr) -> None:
    """Refuses to store a value of a kind that the column's type does not take without a CAST."""
    numbers = source.is_numeric and target.is_numeric
    texts = source.is_text and target.is_text
    if source.kind is not target.kind and not numbers and not texts and source.kind.value != "NULL":
        binding.wrong(f'column "{name}" is {target}, not {source}', node, "add a CAST")


def lower_delete(statement: ast.Delete, catalog: Catalog) -> Bound:
    """The rowids of the rows to delete."""
    binding, scope, scan = _target(statement, catalog)
    node = _restricted(binding, scope, scan, statement.where)
    rowid = Column(scan.ids[-1], ROWID)
    return _lowered(finished(binding, Query(node, (rowid,), ("rowid",))))


def lower_update(statement: ast.Update, catalog: Catalog) -> Bound:
    """The rowids of the rows to change, each with the whole new row."""
    binding, scope, scan = _target(statement, catalog)
    schema = catalog.table(statement.table, statement.span).schema
    node = _restricted(binding, scope, scan, statement.where)
    new = {index: known.column for index, known in enumerate(scope.fields)}
    ids: list[int] = []
    scalars = []
    inner = scope.without_aggregates("SET")
    for target, syntax in statement.assignments:
        place = _position(binding, schema, target)
        if new[place].index in ids:
            binding.wrong(f'column "{target.name}" is set twice', target)
        value = binding.expression(inner, syntax)
        _assignable(binding, value.type, schema.types[place], target.name, syntax)
        scalars.append(settled(brought(binding, value, schema.types[place], syntax)))
        ids.append(binding.fresh())
        new[place] = Column(ids[-1], schema.types[place])
    rowid = Column(scan.ids[-1], ROWID)
    mapped = Map(node, tuple(ids), tuple(scalars))
    return _lowered(finished(binding, Query(mapped, (rowid, *new.values()), ("rowid", *schema.names))))


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


def _restricted(binding: Binding, scope: Scope, scan: Scan, where: exp.Expr | None) -> Node:
    if where is None:
        return scan
    return Filter(scan, conjuncts(bind_condition(binding, scope, where, "WHERE")))
