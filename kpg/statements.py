"""What each parsed statement does to the database, and what it gives back."""

from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np

from kpg.compiler.catalog import TableEntry, ViewEntry
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.change import lower_conflict
from kpg.engine import Engine
from kpg.modify import checked, distinct, insert_missing, merge
from kpg.planning import Planned, bind, constant_words, explain, plan, plan_bound, plan_view, relations_of
from kpg.reading import expand
from kpg.result import Affected, Explanation, Result, listing
from kpg.runtime.errors import DataError, ProgrammingError
from kpg.runtime.types import BIGINT, BOOLEAN, TEXT, Schema
from kpg.table import Table
from kpg.verify import verify
from kpg.view import Maintained

Outcome = Result | Maintained | None


def execute(engine: Engine, statement: ast.Statement) -> Outcome:
    """Run one statement."""
    match statement:
        case ast.Begin():
            engine.transactions.begin()
        case ast.Commit():
            engine.transactions.commit()
        case ast.Rollback():
            engine.transactions.rollback()
        case ast.Insert() | ast.Delete() | ast.Update() | ast.CopyFrom():
            with engine.transactions.statement(changes=True):
                return Affected(_change(engine, statement))
        case ast.CreateTableAs():
            return _create_table_as(engine, statement)
        case _:
            with engine.transactions.statement(changes=False):
                return _other(engine, statement)
    return None


def _change(engine: Engine, statement: ast.Insert | ast.Delete | ast.Update | ast.CopyFrom) -> int:
    table = engine.table(statement.table)
    match statement:
        case ast.Insert():
            return _insert(engine, table, statement)
        case ast.Delete():
            return _delete(engine, table, statement)
        case ast.Update():
            return _update(engine, table, statement)
        case ast.CopyFrom():
            from kpg.loading import copy_from

            return copy_from(table, statement)
        case _:
            assert_never(statement)


def _other(engine: Engine, statement: ast.Statement) -> Outcome:
    match statement:
        case ast.Select():
            return engine.select(_planned(engine, statement))
        case ast.CreateTable():
            _create_table(engine, statement)
        case ast.CreateView():
            return _create_view(engine, statement)
        case ast.Drop():
            _drop(engine, statement)
        case ast.CopyTo():
            from kpg.loading import copy_to

            result = engine.select(_planned(engine, statement.query))
            copy_to(result.arrow(), statement)
            return Affected(len(result))
        case ast.Explain():
            return Explanation(
                explain(statement.statement, statement.stage, engine.reading_catalog, engine.statistics)
            )
        case ast.ShowTables():
            return show_tables(engine)
        case ast.Describe():
            return describe(engine, statement.name)
        case ast.VerifyView():
            return _verify(engine, statement.name)
        case ast.Begin() | ast.Commit() | ast.Rollback() | ast.CreateTableAs():
            raise AssertionError(statement)
        case ast.Insert() | ast.Delete() | ast.Update() | ast.CopyFrom():
            raise AssertionError(statement)
        case _:
            assert_never(statement)
    return None


def _planned(engine: Engine, statement: ast.Select | ast.Delete | ast.Update) -> Planned:
    return plan(statement, engine.reading_catalog, engine.statistics)


def _insert(engine: Engine, table: Table, statement: ast.Insert) -> int:
    bound = bind(statement, engine.reading_catalog)
    words = constant_words(bound.rel, table.dictionary)
    if words is None:
        data, diff = engine.run(plan_bound(bound, engine.reading_catalog, engine.statistics))
        words = expand(data, diff)
    words = checked(words, table)
    if statement.conflict is None:
        table.insert(words)
        return int(words.shape[1])
    update = lower_conflict(statement, engine.reading_catalog)
    if update is None:
        return insert_missing(table, words)
    return merge(table, words, partial(engine.executor.evaluate, update))


def _delete(engine: Engine, table: Table, statement: ast.Delete) -> int:
    data, _ = engine.run(_planned(engine, statement))
    table.delete(data[0])
    return int(data.shape[1])


def _update(engine: Engine, table: Table, statement: ast.Update) -> int:
    """The plan gives the rowid and all columns of the new row."""
    data, _ = engine.run(_planned(engine, statement))
    if distinct(data[0]).shape[0] < data.shape[1]:
        raise DataError(
            f"UPDATE would change a row of table {table.name} twice, to different values",
            span=statement.span,
            hint="each row must meet one row of FROM, or rows that give the same values",
        )
    words = checked(np.ascontiguousarray(data[1:]), table)
    table.delete(data[0])
    table.insert(words)
    return int(words.shape[1])


def _create_table(engine: Engine, statement: ast.CreateTable) -> None:
    if not (statement.if_not_exists and isinstance(engine.catalog.find(statement.name), TableEntry)):
        engine.create_table(statement.name, statement.schema)


def _create_table_as(engine: Engine, statement: ast.CreateTableAs) -> Outcome:
    if statement.if_not_exists and isinstance(engine.catalog.find(statement.name), TableEntry):
        return Affected(0)
    with engine.transactions.statement(changes=False):
        engine.refuse_in_transaction("CREATE TABLE")
        planned = plan_view(statement, engine.catalog, engine.statistics)
        schema = Schema(tuple(replace(column, nullable=True) for column in planned.schema.columns))
        words = expand(*engine.run(planned))[: len(schema.columns)]
        engine.create_table(statement.name, schema)
    try:
        with engine.transactions.statement(changes=True):
            engine.table(statement.name).insert(np.ascontiguousarray(words))
    except BaseException:
        engine.drop(statement.name)
        raise
    return Affected(int(words.shape[1]))


def _verify(engine: Engine, name: str) -> Result:
    """The view's name and its number of rows, if it is what its query says."""
    view = engine.view(name)
    verify(engine, view)
    return listing({"view": (TEXT, [view.name]), "rows": (BIGINT, [view.count()])})


def _create_view(engine: Engine, statement: ast.CreateView) -> Maintained | None:
    old = engine.catalog.find(statement.name)
    if statement.if_not_exists and isinstance(old, ViewEntry):
        return engine.views.get(old.name)
    planned = plan_view(statement, engine.catalog, engine.statistics)
    # Hidden columns, which only sort, are not for others to read: then others expand the view.
    entry = ViewEntry(
        statement.name,
        planned.schema,
        planned.rel,
        statement.query.text,
        statement.materialized and not planned.has_hidden_columns,
        planned.order,
    )
    uses = relations_of(planned.rel, statement.query, engine.catalog)
    if not statement.materialized:
        engine.create_view(entry, uses, replace_old=statement.or_replace)
        return None
    return engine.create_materialized_view(entry, planned, uses, replace_old=statement.or_replace)


def _drop(engine: Engine, statement: ast.Drop) -> None:
    engine.refuse_in_transaction("DROP")
    doomed: list[str] = []
    for name in statement.names:
        entry = engine.catalog.find(name)
        if entry is None and statement.if_exists:
            continue
        entry = entry or engine.catalog.get(name, statement.span)
        kind = "TABLE" if isinstance(entry, TableEntry) else "VIEW"
        if kind != statement.kind:
            raise ProgrammingError(
                f'"{entry.name}" is a {kind.lower()}', span=statement.span, hint=f"use DROP {kind}"
            )
        doomed.append(entry.name)
    everything = set(doomed).union(*(engine.dependents(name) for name in doomed))
    for user in sorted(everything.difference(doomed)):
        if not statement.cascade:
            used = next(name for name in doomed if user in engine.dependents(name))
            raise ProgrammingError(
                f'"{used}" cannot be dropped: view "{user}" uses it',
                span=statement.span,
                hint="drop the view first, or use CASCADE",
            )
    # Whatever more views depend on, directly or not, goes later than they do.
    for name in sorted(everything, key=lambda name: len(engine.dependents(name))):
        # A Datalog program takes its tables and views with it.
        if name in engine.dataflows or name in engine.catalog:
            engine.drop(name)


def show_tables(engine: Engine) -> Result:
    """Every table and view: its name, what it is, and its rows if it has any of its own."""
    names, kinds = [], []
    rows: list[int | None] = []
    for entry in engine.catalog:
        names.append(entry.name)
        if isinstance(entry, TableEntry):
            kinds.append("table")
            rows.append(engine.executor.count(entry.name))
        else:
            maintained = engine.views.get(entry.name)
            kinds.append("view" if maintained is None else "materialized view")
            rows.append(None if maintained is None else maintained.count())
    return listing({"name": (TEXT, names), "kind": (TEXT, kinds), "rows": (BIGINT, rows)})


def describe(engine: Engine, name: str) -> Result:
    """The columns of a relation."""
    schema = engine.catalog.get(name).schema
    return listing(
        {
            "column": (TEXT, list(schema.names)),
            "type": (TEXT, [str(type_) for type_ in schema.types]),
            "nullable": (BOOLEAN, [column.nullable for column in schema.columns]),
            "key": (BOOLEAN, [index in schema.primary_key for index in range(len(schema.columns))]),
        }
    )


def is_explained(statement: ast.Statement) -> bool:
    """Whether :func:`explain_statement` has a plan to show."""
    return isinstance(statement, ast.Explain | ast.Select | ast.CreateView)


def explain_statement(engine: Engine, statement: ast.Statement, stage: str) -> str:
    """The plan of a query, of a view's query, or of what an EXPLAIN is about, as it would run now."""
    query = statement.statement if isinstance(statement, ast.Explain) else statement
    assert isinstance(query, ast.Select | ast.CreateView)
    with engine.transactions.statement(changes=False):
        return explain(query, stage, engine.reading_catalog, engine.statistics)
