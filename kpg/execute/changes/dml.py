"""INSERT, UPDATE, DELETE and MERGE: compute the ``Changes`` of a statement, then apply them.

A statement is rewritten first: INSERT OR REPLACE, WHERE CURRENT OF, updatable views. The router of the
table's pipeline may take it over, and the rows that it writes pass the pipeline's stages. Nothing changes
before the application, so all parts of a statement see the tables as of its start. Volatile values (random
functions, sequence numbers) are evaluated and put into the statement before it runs.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.sql.bind.volatile_calls import (
    Tree,
    evaluate_sequence_calls,
    evaluate_volatile_rows,
    has_sequence_calls,
    number_assignments,
    number_rows_from_sequences,
)
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.changes import check_insertion, lower_returning, redirect_to_table
from kpg.compiler.sql.rewrite.column_defaults import (
    apply_insert_defaults,
    apply_sequence_defaults,
    insert_positions,
)
from kpg.execute.changes.table_pipeline import Write, check_computed, distinct, pipeline_of
from kpg.execute.queries.query_plan import (
    PlannedStatement,
    bind,
    constant_words,
    plan,
    plan_bound,
    retry_with_numeric,
)
from kpg.execute.queries.result_rows import expand, permutation
from kpg.runtime.errors import DataError, IntegrityError, NotSupportedError, SerializationError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.plan import Mfp
from kpg.runtime.types import Schema
from kpg.session.base_table import Changes, ReturningRows, Table
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.compiler.sql.bind import eager_subexpressions
    from kpg.compiler.sql.rewrite import upsert as merge_rewrite
    from kpg.execute.changes import defaults, upsert
    from kpg.execute.queries import cursors
else:
    eager_subexpressions = LazyModule("kpg.compiler.sql.bind.eager_subexpressions")
    merge_rewrite = LazyModule("kpg.compiler.sql.rewrite.upsert")
    defaults = LazyModule("kpg.execute.changes.defaults")
    upsert = LazyModule("kpg.execute.changes.upsert")
    cursors = LazyModule("kpg.execute.queries.cursors")

T = TypeVar("T")


def finish_row_numbers(engine: Engine) -> None:
    """Advance the sequences by the numbers that a statement has drawn for rows."""
    if engine.used_sequences is not None:
        engine.sequences.finish_row_numbers()


def compute_with_numbers(engine: Engine, compute: Callable[[], T]) -> T:
    """Return the result of ``compute``, and advance the sequences that it has drawn from, also on failure."""
    try:
        return retry_with_numeric(compute)
    finally:
        finish_row_numbers(engine)


def evaluate_volatile(engine: Engine, statement: ast.Select, *, sleeps: bool = True) -> ast.Select:
    """Return a query with volatile calls replaced by constants.

    Without ``sleeps``, pg_sleep stays in place.
    """
    if not statement.span.features.calls_volatile:
        return statement
    tree = evaluate_volatile_rows(statement.query, evaluate_sleep=sleeps)
    if has_sequence_calls(tree):
        tree = evaluate_sequence_calls(
            assign_row_numbers(engine, tree), engine.catalog, engine.sequences.call
        )
        engine.commit_definitions()
    return replace(statement, query=tree)


def evaluate_insert_calls(engine: Engine, statement: ast.Insert) -> ast.Insert:
    """Return an INSERT with calls of nextval and similar functions replaced by numbers."""
    rules = engine.catalog.table(statement.table).constraints.rules
    if not rules and not statement.span.features.calls_volatile:
        return statement
    tree = evaluate_volatile_rows(statement.query.query)
    if tree is not statement.query.query:
        statement = replace(statement, query=replace(statement.query, query=tree))
    if not has_sequence_calls(tree):
        return statement
    query = evaluate_sequence_calls(assign_row_numbers(engine, tree), engine.catalog, engine.sequences.call)
    return replace(statement, query=replace(statement.query, query=query))


def assign_update_numbers(engine: Engine, statement: ast.Update) -> ast.Update:
    """Return an UPDATE with nextval replaced by a number for each row."""
    entry = engine.catalog.table(statement.table)
    if any(rule.sequence for rule in entry.constraints.rules):
        statement = replace(statement, assignments=apply_sequence_defaults(statement.assignments, entry))
    elif not statement.span.features.calls_volatile:
        return statement
    found = number_assignments(statement.assignments, partial(assign_row_numbers, engine))
    return replace(statement, assignments=found)


def assign_row_numbers(engine: Engine, tree: Tree) -> Tree:
    """Return a statement whose calls of nextval per row of a query draw numbers by row."""
    found = number_rows_from_sequences(tree, engine.catalog, engine.sequences.begin_row_numbers)
    if found is not tree and engine.workers is not None:
        finish_row_numbers(engine)
        raise NotSupportedError("nextval for each row of a query is not supported with many workers")
    return found


Words = NDArray[np.int64]


def run_change(engine: Engine, statement: ast.Change) -> Result:
    """Run an INSERT, UPDATE, DELETE or MERGE."""
    changes = prepare_changes(engine, statement)
    check_rows_live(engine, changes)
    changes.apply()
    return changes.result()


def prepare_changes(engine: Engine, statement: ast.Change) -> Changes:
    """Compute the changes of a statement."""
    if isinstance(statement, ast.Insert) and statement.alternative:
        statement = merge_rewrite.rewrite_alternative(statement, engine.catalog)
    if isinstance(statement, ast.Update | ast.Delete) and statement.cursor:
        return cursors.current_row_changes(engine, statement, prepare_changes)
    statement = resolve_view_target(engine, statement)
    router = pipeline_of(engine, engine.table(statement.table)).router
    routed = None if router is None else router.prepare(engine, statement)
    return prepare_table_changes(engine, statement) if routed is None else routed


def check_rows_live(engine: Engine, changes: Changes) -> None:
    """Raise SerializationError if rows found in an older snapshot have been deleted."""
    for rowids in (changes.deleted, None if changes.updated is None else changes.updated[0]):
        if engine.snapshot_epoch is None or rowids is None:
            continue
        if engine.executor.tables.filter_live(changes.table.name, rowids).size < rowids.size:
            row = f'a row of table "{changes.table.name}"'
            raise SerializationError(f"could not serialize access due to concurrent update of {row}")


def resolve_view_target(engine: Engine, statement: ast.Change) -> ast.Change:
    """Return the statement with an updatable view replaced by its table."""
    if isinstance(engine.catalog.find(statement.table), TableEntry):
        return statement

    return redirect_to_table(statement, engine.catalog)


def prepare_table_changes(engine: Engine, statement: ast.Change) -> Changes:
    """Compute the changes of a statement on one table."""
    table = engine.table(statement.table)
    match statement:
        case ast.Insert():
            return _insert(engine, table, statement)
        case ast.Delete():
            planned, data = find_rows(engine, statement)
            return delete_changes(table, statement, planned, data)
        case ast.Update():
            planned, data = find_rows(engine, statement)
            return update_changes(engine, table, statement, planned, data)
        case ast.Merge():
            return merge_changes(engine, table, statement)
        case _:
            assert_never(statement)


def _insert(engine: Engine, table: Table, statement: ast.Insert) -> Changes:
    statement, words = compute_insert_rows(engine, table, statement)
    return insert_changes(engine, table, statement, words)


def compute_insert_rows(engine: Engine, table: Table, statement: ast.Insert) -> tuple[ast.Insert, Words]:
    """Return an INSERT with its evaluated rows. Sequence DEFAULTs are not filled in yet.

    The returned statement lists the columns that already have their DEFAULT.
    """
    catalog = engine.reading_catalog
    numbered = evaluate_insert_calls(engine, apply_insert_defaults(statement, catalog))
    return numbered, compute_with_numbers(engine, lambda: _compute_rows(engine, table, numbered, catalog))


def _compute_rows(engine: Engine, table: Table, statement: ast.Insert, catalog: Catalog) -> Words:
    bound = bind(statement, catalog)
    words = constant_words(bound.rel, table.dictionary)
    if words is not None:
        return words
    planned = plan_bound(bound, catalog, engine.statistics)
    words = expand(*engine.run(planned))
    if planned.order:
        words = words[:, permutation(words, planned.order, planned.types, table.dictionary)]
        words = words[: len(table.schema.columns)]
    return words


def find_rows(engine: Engine, statement: ast.Delete | ast.Update) -> tuple[PlannedStatement, Words]:
    """Return the plan and the found rows of an UPDATE or DELETE."""

    def run_query() -> tuple[PlannedStatement, Words]:
        planned = plan(numbered, engine.reading_catalog, engine.statistics)
        return planned, engine.run(planned)[0]

    numbered = assign_update_numbers(engine, statement) if isinstance(statement, ast.Update) else statement
    return compute_with_numbers(engine, run_query)


def _with_defaults(engine: Engine, statement: ast.Insert, entry: TableEntry, words: Words) -> Words:
    """Fill the columns with sequence DEFAULTs that the statement does not list."""
    given = set(insert_positions(statement, entry.schema))
    places = [place for place in range(len(entry.schema.columns)) if place not in given]
    make = partial(defaults.sequence_defaults, entry, engine.reading_catalog, places)
    found = engine.plan_cache.derive(("numbered", *places), entry, engine.catalog, make)
    return defaults.fill_sequence_defaults(engine.executor, engine.sequences, found, words)


def insert_changes(
    engine: Engine,
    table: Table,
    statement: ast.Insert,
    words: Words,
    *,
    checks_rows: bool = True,
) -> Changes:
    """Return the changes of inserting rows, whose sequence DEFAULTs are not filled in yet.

    Without ``checks_rows``, the rows are for partitions, which check them.
    """
    catalog = engine.catalog
    entry = catalog.table(statement.table, statement.span)
    if catalog.checks_privileges and not statement.is_row_movement:
        check_insertion(statement, entry, catalog)
    if entry.constraints.rules and len(statement.columns):
        words = _with_defaults(engine, statement, entry, words)
    if not checks_rows:
        return Changes(table, inserted=words)
    check_computed(words, table)
    pipeline = pipeline_of(engine, table)
    if pipeline.stages:
        words = pipeline.check_new_rows(Write(engine, table, statement, "INSERT"), words)
    updated: tuple[Words, Words] | None = None
    if statement.conflict is not None:
        words, updated = upsert.resolve_conflicts(engine, table, statement, words)
        if updated is not None:
            write = Write(engine, table, statement, "UPDATE")
            pipeline.check_existing_rows(write, updated[0], "UPDATE")
            updated = updated[0], pipeline.check_new_rows(write, updated[1])
            _check_option(engine, statement, updated[1])
    _check_option(engine, statement, words)
    changes = Changes(table, updated=updated, inserted=words)
    if not statement.returning:
        return changes
    rows = words if updated is None else np.concatenate((updated[1], words), axis=1)
    return replace(changes, returned=_returning_rows(engine, table, statement, np.ascontiguousarray(rows)))


def _check_option(engine: Engine, statement: ast.Insert | ast.Update, words: Words) -> None:
    """Check rows against WITH CHECK OPTION of the view (IntegrityError)."""
    if statement.updatable_view is None or not words.shape[1]:
        return
    for view, predicates in statement.updatable_view.check_options:
        results, _ = engine.executor.evaluate(Mfp((), predicates), np.ascontiguousarray(words))
        if predicates and (results != 1).any():
            raise IntegrityError(
                f'a new row fails the CHECK OPTION of view "{view}"',
                span=statement.span,
                hint="the view would not show it; nothing was changed",
                sqlstate="44000",
            )


def _returning_rows(engine: Engine, table: Table, statement: ast.Insert, rows: Words) -> ReturningRows:
    what = ("returning", engine.executor.tables.has_pending)
    mfp, names, types = engine.plan_cache.derive(
        what, statement, engine.catalog, lambda: lower_returning(statement, engine.reading_catalog)
    )
    if not rows.shape[1]:
        return ReturningRows(names, types, np.empty((len(names), 0), np.int64))
    if mfp is not None:
        words, _ = engine.executor.evaluate(mfp, rows)
        return ReturningRows(names, types, words)
    if statement.updatable_view is not None:
        raise NotSupportedError(
            "a subquery in RETURNING of an INSERT into a view is not supported", span=statement.span
        )
    return returning_by_query(engine, table, statement, rows)


def delete_changes(table: Table, statement: ast.Delete, planned: PlannedStatement, data: Words) -> Changes:
    """Return the changes of a DELETE from the result of its plan."""
    if not statement.returning:
        return Changes(table, deleted=data[0])
    rowids, first = np.unique(data[0], return_index=True)
    names, types = planned.schema.names[1:], planned.schema.types[1:]
    return Changes(table, deleted=rowids, returned=ReturningRows(names, types, data[1:, first]))


def update_changes(
    engine: Engine, table: Table, statement: ast.Update, planned: PlannedStatement, data: Words
) -> Changes:
    """Return the changes of an UPDATE from the result of its plan.

    ``data`` has the rowids, all columns of the new rows, and then the RETURNING columns.
    """
    width = 1 + len(table.schema.columns)
    returned: ReturningRows | None = None
    if statement.returning:
        _, first = np.unique(data[:width], axis=1, return_index=True)
        data = data[:, first]
        names, types = planned.schema.names[width:], planned.schema.types[width:]
        returned = ReturningRows(names, types, np.ascontiguousarray(data[width:]))
    if data.shape[1] > 1 and distinct(data[0]).shape[0] < data.shape[1]:
        raise DataError(
            f"UPDATE would change a row of table {table.name} twice, to different values",
            span=statement.span,
            hint="each row must meet one row of FROM, or rows that give the same values",
        )
    words = np.ascontiguousarray(data[1:width])
    check_computed(words, table)
    pipeline = pipeline_of(engine, table)
    if pipeline.stages:
        words = pipeline.check_new_rows(Write(engine, table, statement, "UPDATE"), words)
    if statement.updatable_view is not None:
        _check_option(engine, statement, words)
    return Changes(table, updated=(np.ascontiguousarray(data[0]), words), returned=returned)


def merge_changes(engine: Engine, table: Table, statement: ast.Merge) -> Changes:
    """Compute the changes of a MERGE."""
    catalog = engine.reading_catalog
    entry = catalog.table(statement.table, statement.span)
    data = expand(*engine.run(plan(statement, catalog, engine.statistics)))
    rowids, actions, rows = data[0], data[1], np.ascontiguousarray(data[2:])
    updating = [index for index, when in enumerate(statement.whens) if when.assignments]
    deleting = [index for index, when in enumerate(statement.whens) if when.deletes]
    updates, deletes = np.isin(actions, updating), np.isin(actions, deleting)
    changed_rowids = rowids[updates | deletes]
    if distinct(changed_rowids).shape[0] < changed_rowids.shape[0]:
        raise DataError(
            f"MERGE would change a row of table {table.name} twice",
            span=statement.span,
            hint="each row must meet one row of the source",
            sqlstate="21000",
        )
    inserted = [np.empty((rows.shape[0], 0), np.int64)]
    for index, when in enumerate(statement.whens):
        if when.values is not None:
            words = np.ascontiguousarray(rows[:, actions == index])
            places = list(merge_rewrite.missing_columns(when, entry, statement.span.source))
            made_by = defaults.sequence_defaults(entry, catalog, places)
            inserted.append(
                defaults.fill_sequence_defaults(engine.executor, engine.sequences, made_by, words)
            )
    new_rows = np.ascontiguousarray(np.concatenate(inserted, axis=1))
    changed = np.ascontiguousarray(rows[:, updates])
    for words in (changed, new_rows):
        check_computed(words, table)
    pipeline = pipeline_of(engine, table)
    write = Write(engine, table, statement, "UPDATE")
    pipeline.check_existing_rows(write, rowids[updates], "UPDATE")
    pipeline.check_existing_rows(write, rowids[deletes], "DELETE")
    changed = pipeline.check_new_rows(write, changed)
    new_rows = pipeline.check_new_rows(replace(write, command="INSERT"), new_rows)
    return Changes(
        table,
        deleted=np.ascontiguousarray(rowids[deletes]) if deleting else None,
        updated=(np.ascontiguousarray(rowids[updates]), changed) if updating else None,
        inserted=new_rows if len(inserted) > 1 else None,
    )


def returning_by_query(engine: Engine, table: Table, statement: ast.Insert, rows: Words) -> ReturningRows:
    """Evaluate a RETURNING that needs a query."""
    schema = Schema(tuple(replace(column, nullable=True) for column in table.schema.columns))
    attached = engine.tables.attach(eager_subexpressions.rows_table_name("inserted"), schema)
    engine.table(attached).insert(np.ascontiguousarray(rows))
    query = eager_subexpressions.returning_query(statement, attached)
    planned = plan(query, engine.reading_catalog, engine.statistics)
    words = expand(*engine.run(planned))[: len(planned.schema.columns)]
    return ReturningRows(planned.schema.names, planned.schema.types, words)
