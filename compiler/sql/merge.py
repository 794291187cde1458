"""MERGE as a relation: for each row of the target or of the source what is to become of it."""

from collections.abc import Sequence
from dataclasses import replace

from kpg.compiler.algebra.rel import types
from kpg.compiler.catalog import Catalog, TableEntry
from kpg.compiler.constraints import NO_RULE
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.bind.calls import assigned, call
from kpg.compiler.sql.bind.inherited import with_heirs
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query import resolved
from kpg.compiler.sql.bind.scope import Binding, Scope
from kpg.compiler.sql.change import assigned_values, joined, target_of
from kpg.compiler.sql.given import given_assignments, given_values
from kpg.compiler.sql.query import Bound, lowered
from kpg.compiler.sql.rules import defaults
from kpg.compiler.sql.tree import Filter, Join, Map, Node, Query, Scan
from kpg.runtime.scalar import Column, If, Literal, Scalar
from kpg.runtime.types import INTEGER, ROWID


def lower_merge(statement: ast.Merge, catalog: Catalog) -> Bound:
    """The rowid of the target's row, NULL where there is none, the number of the action, and the new row.

    Actions without a new row have any; a default that takes a number of a sequence is NULL.
    """
    entry = catalog.table(statement.table, statement.span)
    binding, scope, below, scan = target_of(statement, catalog)
    there, given = (Column(binding.fresh(), INTEGER) for _ in range(2))
    one = Literal(1, INTEGER)
    target: Node = Map(_of_all(binding, statement, below, scan), (there.index,), (one,))
    targets = list(scope.fields)
    source_scope = Scope(common=scope.common)
    source: Node = Map(joined(binding, source_scope, None, statement.using), (given.index,), (one,))
    both = replace(scope, fields=[*targets, *source_scope.fields])
    on = conjuncts(bind_condition(binding, both.without_aggregates("ON"), statement.on, "ON"))
    kinds = {when.kind for when in statement.whens}
    if "source" in kinds:
        node: Node = Join("full", source, target, on)
    else:
        node = Join("left" if "target" in kinds else "inner", source, target, on)
    action, choices = _choices(binding, statement, (both, source_scope, scope), (there, given))
    number = Column(binding.fresh(), INTEGER)
    node = Filter(
        Map(node, (number.index,), (action,)), (call(binding, "is_not_null", [number], statement.on),)
    )
    rows = [
        _row(binding, entry, when, scoped, catalog)
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
        columns.append(Column(binding.fresh(), type_))
        values.append(value)
    node = Map(node, tuple(column.index for column in columns), tuple(values))
    names = ("rowid", "action", *entry.schema.names)
    return lowered(
        resolved(binding, Query(node, (Column(scan.ids[-1], ROWID), number, *columns), names)), catalog
    )


def _of_all(binding: Binding, statement: ast.Merge, below: Node, scan: Scan) -> Node:
    """The target's rows; for what no table has, those of all tables under its ids, with NULL for rowids."""
    if statement.part != "unmatched":
        return below
    query = with_heirs(binding, binding.catalog.table(statement.table), "")
    assert query is not None
    *ids, rowid = scan.ids
    return Map(query.node, (*ids, rowid), (*query.columns[: len(ids)], Literal(None, types(scan.rel)[-1])))


def _choices(
    binding: Binding,
    statement: ast.Merge,
    scopes: tuple[Scope, Scope, Scope],
    present: tuple[Column, Column],
) -> tuple[Scalar, list[Scope]]:
    """The number of the first action whose row it is, and the names that each may use."""
    both, source, target = scopes
    there, given = present
    action: Scalar = Literal(None, INTEGER)
    chosen: list[Scope] = []
    for index, when in reversed(list(enumerate(statement.whens))):
        match when.kind:
            case "matched":
                scope, tests = both, [("is_not_null", there), ("is_not_null", given)]
            case "target":
                scope, tests = source, [("is_null", there)]
            case _:
                scope, tests = target, [("is_null", given)]
        conditions = [call(binding, name, [column], statement.on) for name, column in tests]
        if when.condition is not None:
            conditions.append(
                bind_condition(binding, scope.without_aggregates("WHEN"), when.condition, "WHEN")
            )
        result: Scalar = Literal(index, INTEGER)
        for condition in reversed(conditions):
            result = If(condition, result, action, INTEGER)
        action = result
        chosen.insert(0, scope)
    return action, chosen


def _row(
    binding: Binding, entry: TableEntry, when: ast.When, scope: Scope, catalog: Catalog
) -> list[Scalar] | None:
    """The new row of an action; None if it makes none."""
    schema = entry.schema
    if when.assignments:
        given = given_assignments(when.assignments, entry, binding.source)
        new = assigned_values(binding, scope, schema, given)
        old = [field.column for field in scope.fields[: len(schema.columns)]]
        return [new.get(place, column) for place, column in enumerate(old)]
    if when.values is None:
        return None
    places, cells = given_values(when, entry, binding.source)
    values: dict[int, Scalar] = {}
    inner = scope.without_aggregates("VALUES")
    for place, cell in zip(places, cells, strict=True):
        values[place] = assigned(binding, binding.expression(inner, cell), schema.columns[place], cell)
    missing = [place for place in range(len(schema.columns)) if place not in values]
    for place, default in defaults(entry, missing, catalog).items():
        empty: Scalar = Literal(None, schema.types[place])
        values[place] = empty if default.sequences else default.scalar
    return [values[place] for place in range(len(schema.columns))]


def missing_of(when: ast.When, entry: TableEntry, source: str) -> Sequence[int]:
    """The columns that an inserting action gives no value."""
    if when.values is None or not any(rule != NO_RULE for rule in entry.constraints.rules):
        return ()
    places, _ = given_values(when, entry, source)
    return tuple(place for place in range(len(entry.schema.columns)) if place not in places)
