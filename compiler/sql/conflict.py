"""ON CONFLICT DO UPDATE: the row that takes the place of one that is there."""

from collections.abc import Callable, Sequence

from kpg.compiler.catalog import Catalog, TableEntry, get_of
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.bind.literals import conjuncts
from kpg.compiler.sql.bind.predicate import bind_condition
from kpg.compiler.sql.bind.query import new_binding, resolved
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.change import arbiters, assigned_values
from kpg.compiler.sql.given import given_assignments
from kpg.compiler.sql.query import Bound, check_reads, lowered
from kpg.compiler.sql.tree import Filter, Map, Node, Query, Scan
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Column, Scalar
from kpg.runtime.types import BIGINT, Schema

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
    scope = Scope(fields=fields)
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
