"""INSERT ... ON CONFLICT: the rows to insert, and the replacements of conflicting rows."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.bind.eager_subexpressions import rows_table_name
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.changes import arbiters
from kpg.compiler.sql.rewrite.upsert import PairQuery, lower_conflict
from kpg.execute.changes.expression_keys import expression_keys, normalize_expression, without_conflicts
from kpg.execute.changes.table_writes import Evaluate, check_distinct_keys, resolve_updates, without_existing
from kpg.execute.queries.query_plan import plan_bound
from kpg.execute.queries.result_rows import expand
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.plan import Mfp
from kpg.runtime.tables.table import null_error
from kpg.runtime.types import BIGINT, NULL, ColumnDef, Schema
from kpg.session.base_table import Table
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.execute.changes.expression_keys import ExpressionKey

Words = NDArray[np.int64]


def resolve_conflicts(
    engine: Engine, table: Table, statement: ast.Insert, words: Words
) -> tuple[Words, tuple[Words, Words] | None]:
    """Return the rows that ON CONFLICT inserts, and the rowids with their replacements."""
    check_not_null(table, words)
    keys, rules = _find_arbiters(engine, engine.catalog.table(statement.table, statement.span), statement)
    update = lower_conflict_action(engine, statement)
    _check_snapshot(engine, table, (table.find_unique(key, words[list(key)]) for key in keys))
    _check_snapshot(engine, table, (rule.find(words) for rule in rules))
    if update is not None:
        old = rules[0].find(words) if rules else None
        if old is not None:
            check_distinct_keys(table, rules[0].keys(np.ascontiguousarray(words[:, old < 0]))[0])
        return resolve_updates(
            table, words, keys[0] if keys else (), _make_evaluator(engine, table, update), old
        )
    words = without_existing(table, words, keys) if keys or not rules else words
    if rules:
        words = without_conflicts(rules, words)
    return words, None


def check_not_null(table: Table, words: Words) -> None:
    """Raise IntegrityError for a NULL in a required column of rows, which may conflict and not be stored."""
    for place, column in enumerate(table.schema.columns):
        if not column.nullable or place in table.schema.primary_key:
            absent = np.flatnonzero(words[place] == NULL)
            if absent.size:
                raise null_error(table, words, place, int(absent[0]))


def _check_snapshot(engine: Engine, table: Table, rowid_arrays: Iterable[Words]) -> None:
    """Raise SerializationError if conflicting rows were written after the transaction's snapshot."""
    check = engine.transactions.check_rows_unchanged
    if check is None:
        return
    for rowids in rowid_arrays:
        check(table.name, rowids[rowids >= 0])


def lower_conflict_action(engine: Engine, statement: ast.Insert) -> "Mfp | PairQuery | None":
    """Return the ON CONFLICT action on pairs of existing and new rows; None for DO NOTHING."""

    key = ("conflict", engine.executor.tables.has_pending or engine.snapshot_epoch is not None)
    return engine.plan_cache.derive(
        key, statement, engine.catalog, lambda: lower_conflict(statement, engine.reading_catalog)
    )


def _find_arbiters(
    engine: Engine, entry: TableEntry, statement: ast.Insert
) -> "tuple[Sequence[tuple[int, ...]], list[ExpressionKey]]":
    """Return the key columns and expression keys that ON CONFLICT checks."""
    conflict = statement.conflict
    assert conflict is not None
    has_expressions = conflict.elements or any(
        table == entry.name.lower() for table, _ in engine.catalog.unique_indexes
    )
    if not has_expressions:
        return arbiters(statement, entry), []

    return _find_expression_arbiters(engine, entry, statement)


def _make_evaluator(engine: Engine, table: Table, update: "Mfp | PairQuery") -> Evaluate:
    if isinstance(update, Mfp):
        return partial(engine.executor.evaluate, update)

    return partial(update_by_query, engine, table, update)


def update_by_query(engine: Engine, table: Table, over_pairs: PairQuery, pairs: Words) -> tuple[Words, Words]:
    """Evaluate an ON CONFLICT update that needs a query; return the rows and the positions of their pairs."""
    count = pairs.shape[1]
    columns = [
        ColumnDef(f"{side} {place}", column.type)
        for side in ("old", "new")
        for place, column in enumerate(table.schema.columns)
    ]
    attached = engine.tables.attach(
        rows_table_name("conflicts"), Schema((*columns, ColumnDef("number", BIGINT)))
    )
    numbered = np.concatenate((pairs, np.arange(count, dtype=np.int64)[None, :]))
    engine.table(attached).insert(np.ascontiguousarray(numbered))
    planned = plan_bound(
        over_pairs(engine.catalog.table(attached)), engine.reading_catalog, engine.statistics
    )
    words = expand(*engine.run(planned))
    words = words[:, np.argsort(words[0], kind="stable")]
    return np.ascontiguousarray(words[1:]), np.ascontiguousarray(words[0])


def _find_expression_arbiters(
    engine: Engine, entry: TableEntry, statement: ast.Insert
) -> "tuple[Sequence[tuple[int, ...]], list[ExpressionKey]]":
    """Return the column keys and the expression keys that ON CONFLICT checks."""
    conflict = statement.conflict
    assert conflict is not None
    expression_rules = list(expression_keys(engine.executor, entry, engine.catalog))
    if not conflict.columns and not conflict.elements and not conflict.constraint:
        return arbiters(statement, entry), expression_rules
    if conflict.constraint:
        return arbiters(statement, entry), []
    elements = conflict.elements or conflict.columns
    wanted = sorted(map(normalize_expression, elements))
    columns = {tuple(sorted(name.lower() for name in key.columns)) for key in entry.constraints.uniques}
    columns.add(tuple(sorted(entry.schema.names[place].lower() for place in entry.schema.primary_key)))
    if tuple(wanted) in columns:
        return arbiters(
            replace(statement, conflict=replace(conflict, elements=(), columns=elements)), entry
        ), []
    predicate = normalize_expression(conflict.predicate) if conflict.predicate else ""
    for rule in expression_rules:
        index = rule.index
        fits = sorted(map(normalize_expression, index.elements)) == wanted
        if fits and (not index.where or normalize_expression(index.where) == predicate):
            return (), [rule]
    error = ProgrammingError(
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        span=conflict.span,
    )
    error.sqlstate = "42P10"
    raise error
