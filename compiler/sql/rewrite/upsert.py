"""MERGE and ON CONFLICT as relations.

MERGE yields an action for each row of the target or source. ON CONFLICT DO UPDATE yields the row that
replaces an existing one. INSERT OR REPLACE and INSERT OR IGNORE are forms of ON CONFLICT.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from kpg.compiler.algebra.rel import types
from kpg.compiler.catalog.constraints import NO_RULE
from kpg.compiler.catalog.entries import Catalog, TableEntry, get_of
from kpg.compiler.sql.bind.base_tables import with_heirs
from kpg.compiler.sql.bind.calls import assigned, call
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query import new_binding, resolved
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.bound_tree import Filter, Join, Map, Node, Query, Scan
from kpg.compiler.sql.frontend import Bound, check_reads, lowered
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.changes import arbiters, assigned_values, joined, target_of
from kpg.compiler.sql.rewrite.column_defaults import given_assignments, given_values
from kpg.compiler.sql.rewrite.column_expressions import defaults
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, INTEGER, ROWID, Schema

OverPairs = Callable[[TableEntry], Bound]
"""From a table of pairs, as below, and behind them a number for each: the numbers and the new rows."""


def _note_reads(binding: Binding, statement: ast.Insert, entry: TableEntry, ids: Sequence[int]) -> None:
    """What is read of the row that is there, if somebody asks whether it may be."""
    if binding.reads is None:
        return
    named = entry if statement.through is None else binding.catalog.get(statement.through.view)
    shown = {
        name.lower(): Column(ids[place], BIGINT) for name, place in _shown_columns(statement, entry.schema)
    }
    known = [shown.get(name.lower(), Column(-1, BIGINT)) for name in named.schema.names]
    binding.reads.enter(named, known, scanned=False)


def lower_conflict(statement: ast.Insert, catalog: Catalog) -> Mfp | OverPairs | None:
    """What ON CONFLICT does to a row that is there already; None for DO NOTHING.

    The input are the columns of the row that is there, then those of the row to insert; the output is the
    row to put in their place, if the condition holds. With subqueries it is a query.
    """
    conflict = statement.conflict
    assert conflict is not None
    entry = catalog.table(statement.table, statement.span)
    schema = entry.schema
    binding = new_binding(statement.span.source, catalog)
    arbiters(statement, entry)
    if not conflict.assignments:
        return None
    ids = [[binding.fresh() for _ in schema.columns] for _ in range(2)]
    fields = [
        Field(relation, name, Column(own[place], schema.types[place]))
        for relation, own in zip((statement.alias, "excluded"), ids, strict=True)
        for name, place in _shown_columns(statement, schema)
    ]
    scope = Scope(fields=Fields(fields))
    _note_reads(binding, statement, entry, ids[0])
    assignments = given_assignments(conflict.assignments, entry, statement.span.source)
    new = assigned_values(binding, scope, schema, assignments)
    kept: tuple[Scalar, ...] = ()
    if conflict.where is not None:
        kept = conjuncts(bind_condition(binding, scope.without_aggregates("WHERE"), conflict.where, "WHERE"))
    check_reads(binding.reads, catalog)
    old = [Column(id_, type_) for id_, type_ in zip(ids[0], schema.types, strict=True)]
    row = tuple(new.get(place, column) for place, column in enumerate(old))
    if not binding.subqueries:
        return Mfp(kept, row)

    def over_pairs(pairs: TableEntry) -> Bound:
        get = get_of(pairs)
        number = Column(binding.fresh(), BIGINT)
        node: Node = Scan(get, (*ids[0], *ids[1], number.index, binding.fresh()))
        node = Filter(node, kept) if kept else node
        made = [Column(binding.fresh(), scalar.type) for scalar in row]
        node = Map(node, tuple(column.index for column in made), row)
        return lowered(resolved(binding, Query(node, (number, *made), ("number", *schema.names))), catalog)

    return over_pairs


def _shown_columns(statement: ast.Insert, schema: Schema) -> list[tuple[str, int]]:
    """The names by which a statement knows the table's columns, and these by their positions."""
    found = statement.through
    if found is None:
        return [(name, place) for place, name in enumerate(schema.names)]
    shown = zip(found.names, found.columns, strict=True)
    return [(name, column.index) for name, column in shown if isinstance(column, Column)]


def with_conflict(statement: ast.Insert, catalog: Catalog) -> ast.Insert:
    """The statement with an ON CONFLICT: for OR REPLACE over the one key that the table has."""
    if statement.conflict is not None:
        raise ProgrammingError("INSERT OR with ON CONFLICT", span=statement.span, hint="write one of them")
    if statement.alternative == "IGNORE":
        return replace(statement, alternative="", conflict=ast.Conflict((), (), None, statement.span))
    entry = catalog.table(statement.table, statement.span)
    names = entry.schema.names
    keys = {one.columns for one in entry.constraints.uniques}
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
    both = replace(scope, fields=Fields([*targets, *source_scope.fields]))
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
