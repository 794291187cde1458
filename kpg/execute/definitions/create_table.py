"""CREATE TABLE and CREATE TABLE AS, also of partitions and of temporary tables."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result, row_count_result
from kpg.compiler.sql.parse import statements as ast
from kpg.execute.changes.dml import compute_with_numbers, evaluate_volatile
from kpg.execute.definitions.table_definition import definition
from kpg.execute.queries.query_plan import PlannedStatement, plan_view
from kpg.execute.queries.result_rows import expand
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.types import Schema
from kpg.session.engine import Engine
from kpg.session.notices import notice_existing

if TYPE_CHECKING:
    from kpg.compiler.sql.rewrite import column_expressions
    from kpg.execute.definitions import ddl, drop, partitions
    from kpg.execute.queries import for_update
    from kpg.session import distribution
else:
    column_expressions = LazyModule("kpg.compiler.sql.rewrite.column_expressions")
    ddl = LazyModule("kpg.execute.definitions.ddl")
    drop = LazyModule("kpg.execute.definitions.drop")
    partitions = LazyModule("kpg.execute.definitions.partitions")
    for_update = LazyModule("kpg.execute.queries.for_update")
    distribution = LazyModule("kpg.session.distribution")

Words = NDArray[np.int64]


def create_table(engine: Engine, statement: ast.CreateTable) -> None:
    """Run CREATE TABLE."""
    name = engine.catalog.qualify_new_name(statement.name, temporary=statement.temporary, span=statement.span)
    if statement.if_not_exists and name in engine.catalog:
        notice_existing(engine, name)
        return
    _drop_replaced(engine, statement, name)
    if statement.partition is not None:
        partitions.create_partition(engine, statement, name)
        return
    if statement.partitioned is not None:
        partitions.record_partitioning(engine, statement, name)
    if statement.constraints is ast.NO_CONSTRAINTS and not statement.likes:
        engine.tables.create(name, statement.schema)
    else:
        _create_with_constraints(engine, statement, name)
    if statement.distribution:
        distribution.declare_distribution(engine, name, statement.distribution)


def _drop_replaced(engine: Engine, statement: ast.CreateTable | ast.CreateTableAs, name: str) -> None:
    """Drop the table that CREATE OR REPLACE replaces."""
    if statement.on_commit or engine.on_commit_actions:
        ddl.set_on_commit(engine, name, statement)
    if statement.or_replace and name in engine.catalog:
        drop.drop_relations(engine, ast.Drop("TABLE", (name,), False, False, statement.span))


def create_table_as(engine: Engine, statement: ast.CreateTableAs) -> Result:
    """Run CREATE TABLE AS."""
    name = engine.catalog.qualify_new_name(statement.name, temporary=statement.temporary, span=statement.span)
    if statement.if_not_exists and name in engine.catalog:
        notice_existing(engine, name)
        return row_count_result(0)
    engine.check_can_define("CREATE TABLE")
    statement = replace(statement, query=evaluate_volatile(engine, statement.query))
    if statement.query.span.features.locks_rows:
        statement = for_update.run_locking_subqueries(engine, statement)

    def run_query() -> tuple[PlannedStatement, Words]:
        planned = plan_view(statement, engine.reading_catalog, engine.statistics)
        nothing = np.empty((len(planned.types), 0), np.int64)
        return planned, expand(*engine.run(planned)) if statement.data else nothing

    planned, rows = compute_with_numbers(engine, run_query)
    schema = Schema(tuple(replace(column, nullable=True) for column in planned.schema.columns))
    _drop_replaced(engine, statement, name)
    engine.tables.create(name, schema)
    engine.table(name).insert(np.ascontiguousarray(rows[: len(schema.columns)]))
    return row_count_result(int(rows.shape[1]))


def _create_with_constraints(engine: Engine, statement: ast.CreateTable, name: str) -> None:
    """Create a table with constraints or LIKE clauses."""
    entry, sequences = definition(statement, name, engine.catalog)
    engine.tables.create(name, entry.schema, entry.constraints, sequences)
    if entry.constraints.rules or entry.constraints.checks:
        column_expressions.check_rules(entry, engine.catalog)
