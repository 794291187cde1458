"""Data-modifying WITH queries: the rows that a part returns become a relation of the rest."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result
from kpg.compiler.sql.bind.eager_subexpressions import rows_table_name, with_row_tables
from kpg.compiler.sql.parse import statements as ast
from kpg.execute.changes.dml import check_rows_live, prepare_changes
from kpg.execute.queries.query_plan import explain, plan, returning_columns
from kpg.runtime.errors import DataError, ProgrammingError
from kpg.runtime.types import ColumnDef, Schema
from kpg.session.base_table import Changes, ReturningRows
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.compiler.explain import ExplainOutput

Words = NDArray[np.int64]


def run_modifying(engine: Engine, statement: ast.ModifyingWith) -> Result:
    """Run all parts on the tables as they are, then apply the changes."""
    try:
        return _run(engine, statement)
    finally:
        engine.drop_attached()


def _run(engine: Engine, statement: ast.ModifyingWith) -> Result:
    changes: list[Changes] = []
    tables: dict[str, str] = {}
    claimed: dict[str, Words] = {}
    for name, columns, part in statement.with_queries:
        reading = with_row_tables(part, tables)
        assert not isinstance(reading, ast.Select)
        part_changes = _drop_claimed(prepare_changes(engine, reading), reading, claimed)
        changes.append(part_changes)
        if part_changes.returned is not None:
            tables[name] = _attach_rows(engine, name, columns, part_changes.returned)
    main = with_row_tables(statement.main, tables)
    if isinstance(main, ast.Select):
        planned = plan(main, engine.reading_catalog, engine.statistics)
        result = planned.reader(engine.executor.dictionary).result(*engine.run(planned))
    else:
        changes.append(_drop_claimed(prepare_changes(engine, main), main, claimed))
        result = changes[-1].result()
    # The attached rows are not changes of the statement.
    for change in changes:
        check_rows_live(engine, change)
        change.apply()
    return result


def _drop_claimed(changes: Changes, part: ast.Change, claimed: dict[str, Words]) -> Changes:
    """Return the changes without rows that earlier parts change, which are ``claimed``.

    Raises DataError for an INSERT or a MERGE that would change such a row.
    """
    if type(changes) is not Changes:  # of several tables, or already applied row by row
        return changes
    name = changes.table.name
    claimed_rowids, rowids = claimed.get(name, np.empty(0, np.int64)), changes.rowids
    claimed[name] = np.concatenate((claimed_rowids, rowids))
    if not np.isin(rowids, claimed_rowids).any():
        return changes
    if isinstance(part, ast.Insert | ast.Merge):
        error = DataError(
            f'a row of table "{name}" was already changed by another part of the statement', span=part.span
        )
        error.sqlstate = "21000"
        raise error
    kept = np.flatnonzero(~np.isin(rowids, claimed_rowids))
    returned = changes.returned
    if returned is not None:
        returned = replace(returned, words=np.ascontiguousarray(returned.words[:, kept]))
    if changes.updated is not None:
        words = np.ascontiguousarray(changes.updated[1][:, kept])
        return replace(changes, updated=(rowids[kept], words), returned=returned)
    return replace(changes, deleted=rowids[kept], returned=returned)


def explain_modifying(engine: Engine, statement: ast.ModifyingWith, *, costs: bool) -> "ExplainOutput":
    """Return the plans of all parts, with the results of earlier parts assumed empty."""
    tables: dict[str, str] = {}
    parts = []
    try:
        for name, columns, part in statement.with_queries:
            reading = with_row_tables(part, tables)
            assert not isinstance(reading, ast.Select)
            plan = explain(reading, "physical", engine.reading_catalog, engine.statistics, costs=costs)
            parts.append((name, plan))
            if not isinstance(reading, ast.Merge) and reading.returning:
                names, types = returning_columns(reading, engine.reading_catalog)
                none = np.empty((len(types), 0), np.int64)
                tables[name] = _attach_rows(engine, name, columns, ReturningRows(names, types, none))
        main = with_row_tables(statement.main, tables)
        last = explain(main, "physical", engine.reading_catalog, engine.statistics, costs=costs)
    finally:
        engine.drop_attached()
    return replace(last, common_queries=tuple(parts))


def _attach_rows(engine: Engine, name: str, columns: tuple[str, ...], rows: ReturningRows) -> str:
    names = (*columns, *rows.names[len(columns) :])
    if len({one.lower() for one in names}) < len(names):
        raise ProgrammingError(f'WITH query "{name}" has two columns of one name', hint="name its columns")
    schema = Schema(tuple(ColumnDef(one, type_) for one, type_ in zip(names, rows.types, strict=True)))
    attached = engine.tables.attach(rows_table_name(name), schema)
    engine.table(attached).insert(np.ascontiguousarray(rows.words))
    return attached
