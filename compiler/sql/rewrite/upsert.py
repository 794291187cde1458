"""MERGE and ON CONFLICT as relations.

MERGE yields an action for each row of the target or source. ON CONFLICT DO UPDATE yields the row that
replaces an existing one. INSERT OR REPLACE and INSERT OR IGNORE are forms of ON CONFLICT.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from kpg.compiler.algebra.rel import types
from kpg.compiler.catalog.constraints import NO_RULE
from kpg.compiler.catalog.entries import Catalog, TableEntry, get_node
from kpg.compiler.sql.bind.base_tables import bind_partitions
from kpg.compiler.sql.bind.calls import call, coerce_for_assignment
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query import new_binding, resolved_query
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.bound_tree import Filter, Join, Map, Node, Query, Scan
from kpg.compiler.sql.frontend import LoweredQuery, check_reads, lower_bound_query
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.changes import arbiters, bind_assignments, bind_target, join_sources
from kpg.compiler.sql.rewrite.column_defaults import apply_merge_defaults, apply_set_defaults
from kpg.compiler.sql.rewrite.column_expressions import bind_defaults
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, ROWID, Schema

PairQuery = Callable[[TableEntry], LoweredQuery]
"""Function from a table of pairs to a query for the new rows.

A row of the table has the existing row, the row to insert and a number. The query has number and
new row.
"""


def _record_reads(binding: Binding, statement: ast.Insert, entry: TableEntry, ids: Sequence[int]) -> None:
    """Record which columns of the existing row are read, if privileges are to be checked."""
    if binding.reads is None:
        return
    catalog, view = binding.catalog, statement.updatable_view
    name = entry.name if view is None else view.view
    target = catalog.get(catalog.changed_partitions.get(name.lower(), name))
    columns_by_name = {
        name.lower(): Column(ids[place], BIGINT) for name, place in _named_positions(statement, entry.schema)
    }
    columns = [columns_by_name.get(name.lower(), Column(-1, BIGINT)) for name in target.schema.names]
    binding.reads.add_relation(target, columns, is_scanned=False)


def lower_conflict(statement: ast.Insert, catalog: Catalog) -> Mfp | PairQuery | None:
    """Lower ON CONFLICT to a map from the existing and the proposed row to the row that replaces it.

    The input has the columns of the existing row, then those of the row to insert. The map drops rows
    that fail the condition. With subqueries it is a query. None for DO NOTHING.
    """
    conflict = statement.conflict
    assert conflict is not None
    entry = catalog.table(statement.table, statement.span)
    schema = entry.schema
    binding = new_binding(statement.span.source, catalog, statement.span.features)
    arbiters(statement, entry)
    if not conflict.assignments:
        return None
    ids = [[binding.new_id() for _ in schema.columns] for _ in range(2)]
    fields = [
        Field(relation, name, Column(own[place], schema.types[place]))
        for relation, own in zip((statement.alias, "excluded"), ids, strict=True)
        for name, place in _named_positions(statement, schema)
    ]
    scope = Scope(fields=Fields(fields))
    _record_reads(binding, statement, entry, ids[0])
    assignments = apply_set_defaults(conflict.assignments, entry, statement.span.source)
    new = bind_assignments(binding, scope, schema, assignments)
    predicates: tuple[Scalar, ...] = ()
    if conflict.where is not None:
        predicates = conjuncts(
            bind_condition(binding, scope.without_aggregates("WHERE"), conflict.where, "WHERE")
        )
    check_reads(binding.reads, catalog)
    old = [Column(id_, type_) for id_, type_ in zip(ids[0], schema.types, strict=True)]
    row = tuple(new.get(place, column) for place, column in enumerate(old))
    if not binding.subqueries:
        return Mfp(predicates, row)

    def lower_pairs(pairs: TableEntry) -> LoweredQuery:
        get = get_node(pairs)
        number = Column(binding.new_id(), BIGINT)
        node: Node = Scan(get, (*ids[0], *ids[1], number.index, binding.new_id()))
        node = Filter(node, predicates) if predicates else node
        new_columns = [Column(binding.new_id(), scalar.type) for scalar in row]
        node = Map(node, tuple(column.index for column in new_columns), row)
        return lower_bound_query(
            resolved_query(binding, Query(node, (number, *new_columns), ("number", *schema.names))), catalog
        )

    return lower_pairs


def _named_positions(statement: ast.Insert, schema: Schema) -> list[tuple[str, int]]:
    """Return the statement's names of the table's columns, with their positions."""
    view = statement.updatable_view
    if view is None:
        return [(name, place) for place, name in enumerate(schema.names)]
    pairs = zip(view.names, view.columns, strict=True)
    return [(name, column.index) for name, column in pairs if isinstance(column, Column)]


def rewrite_alternative(statement: ast.Insert, catalog: Catalog) -> ast.Insert:
    """Rewrite INSERT OR IGNORE and INSERT OR REPLACE as INSERT ... ON CONFLICT.

    OR REPLACE needs a table with exactly one key; NotSupportedError otherwise.
    """
    if statement.conflict is not None:
        raise ProgrammingError("INSERT OR with ON CONFLICT", span=statement.span, hint="write one of them")
    if statement.alternative == "IGNORE":
        return replace(statement, alternative="", conflict=ast.Conflict((), (), None, statement.span))
    entry = catalog.table(statement.table, statement.span)
    names = entry.schema.names
    keys = {unique.columns for unique in entry.constraints.uniques}
    keys |= {tuple(names[place] for place in entry.schema.primary_key)} if entry.schema.primary_key else set()
    if len(keys) != 1:
        message = f'INSERT OR REPLACE into "{entry.name}", which has {len(keys) or "no"} keys,'
        raise NotSupportedError(
            f"{message} is not supported", span=statement.span, hint="write ON CONFLICT (...) DO UPDATE"
        )
    rules = entry.constraints.rules
    assignments = tuple(
        (exp.to_identifier(name, quoted=True), exp.column(exp.to_identifier(name, quoted=True), "excluded"))
        for place, name in enumerate(names)
        if not (rules and (rules[place].generated or rules[place].identity == "ALWAYS"))
    )
    conflict = ast.Conflict(keys.pop(), assignments, None, statement.span)
    return replace(statement, alternative="", conflict=conflict)


def lower_merge(statement: ast.Merge, catalog: Catalog) -> LoweredQuery:
    """Lower a MERGE to rows of the target's rowid, the number of the action and the new row.

    The rowid is NULL for rows to insert. The new row of an action without one is arbitrary. A default
    that takes a sequence's number is NULL.
    """
    entry = catalog.table(statement.table, statement.span)
    binding, scope, target_rows, scan = bind_target(statement, catalog)
    in_target, in_source = (Column(binding.new_id(), INTEGER) for _ in range(2))
    present = Literal(1, INTEGER)
    target: Node = Map(_target_rows(binding, statement, target_rows, scan), (in_target.index,), (present,))
    targets = list(scope.fields)
    source_scope = Scope(common_tables=scope.common_tables)
    source: Node = Map(
        join_sources(binding, source_scope, None, statement.using), (in_source.index,), (present,)
    )
    both = replace(scope, fields=Fields([*targets, *source_scope.fields]))
    on = conjuncts(bind_condition(binding, both.without_aggregates("ON"), statement.on, "ON"))
    kinds = {when.kind for when in statement.whens}
    if "source" in kinds:
        node: Node = Join("full", source, target, on)
    else:
        node = Join("left" if "target" in kinds else "inner", source, target, on)
    action, choices = _choose_actions(binding, statement, (both, source_scope, scope), (in_target, in_source))
    number = Column(binding.new_id(), INTEGER)
    node = Filter(
        Map(node, (number.index,), (action,)), (call(binding, "is_not_null", [number], statement.on),)
    )
    rows = [
        _new_row(binding, entry, when, scoped, catalog)
        for when, scoped in zip(statement.whens, choices, strict=True)
    ]
    columns: list[Column] = []
    values: list[Scalar] = []
    for place, type_ in enumerate(entry.schema.types):
        value: Scalar = Literal(None, type_)
        for index in range(len(rows) - 1, -1, -1):
            row = rows[index]
            if row is not None:
                test = call(binding, "eq", [number, Literal(index, INTEGER)], statement.on)
                value = If(test, row[place], value, type_)
        columns.append(Column(binding.new_id(), type_))
        values.append(value)
    node = Map(node, tuple(column.index for column in columns), tuple(values))
    names = ("rowid", "action", *entry.schema.names)
    return lower_bound_query(
        resolved_query(binding, Query(node, (Column(scan.ids[-1], ROWID), number, *columns), names)), catalog
    )


def _target_rows(binding: Binding, statement: ast.Merge, rows: Node, scan: Scan) -> Node:
    """Return the target's rows.

    In the phase for rows that match no partition, return those of all partitions, with NULL rowids.
    """
    if statement.phase != "unmatched":
        return rows
    query = bind_partitions(binding, binding.catalog.table(statement.table), "")
    assert query is not None
    *ids, rowid = scan.ids
    return Map(query.node, (*ids, rowid), (*query.columns[: len(ids)], Literal(None, types(scan.rel)[-1])))


def _choose_actions(
    binding: Binding,
    statement: ast.Merge,
    scopes: tuple[Scope, Scope, Scope],
    present: tuple[Column, Column],
) -> tuple[Scalar, list[Scope]]:
    """Return the number of the first action that applies to a row, and the scope of each action."""
    both, source, target = scopes
    in_target, in_source = present
    action: Scalar = Literal(None, INTEGER)
    chosen: list[Scope] = []
    for index, when in reversed(list(enumerate(statement.whens))):
        match when.kind:
            case "matched":
                scope, tests = both, [("is_not_null", in_target), ("is_not_null", in_source)]
            case "target":
                scope, tests = source, [("is_null", in_target)]
            case _:
                scope, tests = target, [("is_null", in_source)]
        conditions = [call(binding, name, [column], statement.on) for name, column in tests]
        if when.condition is not None:
            conditions.append(
                bind_condition(binding, scope.without_aggregates("WHEN"), when.condition, "WHEN")
            )
        # The condition is a nested If and not AND, which computes all its arguments; the next action
        # occurs once, or its text would grow with a power of the number of actions.
        test = conditions.pop()
        while conditions:
            test = If(conditions.pop(), test, Literal(False, BOOLEAN), BOOLEAN)
        action = If(test, Literal(index, INTEGER), action, INTEGER)
        chosen.insert(0, scope)
    return action, chosen


def _new_row(
    binding: Binding, entry: TableEntry, when: ast.When, scope: Scope, catalog: Catalog
) -> list[Scalar] | None:
    """Return the new row of an action; None if it has none."""
    schema = entry.schema
    if when.assignments:
        assignments = apply_set_defaults(when.assignments, entry, binding.source)
        new = bind_assignments(binding, scope, schema, assignments)
        old = [field.column for field in scope.fields[: len(schema.columns)]]
        return [new.get(place, column) for place, column in enumerate(old)]
    if when.values is None:
        return None
    places, cells = apply_merge_defaults(when, entry, binding.source)
    values: dict[int, Scalar] = {}
    inner = scope.without_aggregates("VALUES")
    for place, cell in zip(places, cells, strict=True):
        values[place] = coerce_for_assignment(
            binding, binding.expression(inner, cell), schema.columns[place], cell
        )
    missing = [place for place in range(len(schema.columns)) if place not in values]
    for place, default in bind_defaults(entry, missing, catalog).items():
        empty: Scalar = Literal(None, schema.types[place])
        values[place] = empty if default.sequences else default.scalar
    return [values[place] for place in range(len(schema.columns))]


def missing_columns(when: ast.When, entry: TableEntry, source: str) -> Sequence[int]:
    """Return the positions of the columns to which an inserting action assigns no value.

    Empty for tables without defaults, generated or identity columns.
    """
    if when.values is None or not any(rule != NO_RULE for rule in entry.constraints.rules):
        return ()
    places, _ = apply_merge_defaults(when, entry, source)
    return tuple(place for place in range(len(entry.schema.columns)) if place not in places)
