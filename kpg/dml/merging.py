"""MERGE: the rows of its plan as changes."""

import numpy as np

from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.upsert import missing_of
from kpg.constraints.filling import filled, numbered
from kpg.dml.changing import Changes
from kpg.dml.modify import checked, distinct
from kpg.engine.engine import Engine
from kpg.engine.table import Table
from kpg.queries.planning import plan
from kpg.queries.reading import expand
from kpg.runtime.errors import DataError


def merge_changes(engine: Engine, table: Table, statement: ast.Merge) -> Changes:
    """What a MERGE is going to change."""
    catalog = engine.reading_catalog
    entry = catalog.table(statement.table, statement.span)
    data = expand(*engine.run(plan(statement, catalog, engine.statistics)))
    rowids, actions, rows = data[0], data[1], np.ascontiguousarray(data[2:])
    updating = [index for index, when in enumerate(statement.whens) if when.assignments]
    deleting = [index for index, when in enumerate(statement.whens) if when.deletes]
    updates, deletes = np.isin(actions, updating), np.isin(actions, deleting)
    touched = rowids[updates | deletes]
    if distinct(touched).shape[0] < touched.shape[0]:
        raise DataError(
            f"MERGE would change a row of table {table.name} twice",
            span=statement.span,
            hint="each row must meet one row of the source",
        )
    inserted = [np.empty((rows.shape[0], 0), np.int64)]
    for index, when in enumerate(statement.whens):
        if when.values is not None:
            words = np.ascontiguousarray(rows[:, actions == index])
            places = list(missing_of(when, entry, statement.span.source))
            inserted.append(
                filled(engine.executor, engine.sequences, numbered(entry, catalog, places), words)
            )
    made = np.ascontiguousarray(np.concatenate(inserted, axis=1))
    changed = checked(np.ascontiguousarray(rows[:, updates]), table)
    if engine.catalog.others:
        from kpg.security.securing import check_merged

        check_merged(engine, table, statement, (rowids[updates], changed), rowids[deletes], made)
    return Changes(
        table,
        deleted=np.ascontiguousarray(rowids[deletes]) if deleting else None,
        updated=(np.ascontiguousarray(rowids[updates]), changed) if updating else None,
        inserted=checked(made, table) if len(inserted) > 1 else None,
    )
