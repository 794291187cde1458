"""WITH queries that change tables, and RETURNING that asks a query: their rows become relations.

ON CONFLICT: which rows are let in, and what takes the place of those that are there.

MERGE: the rows of its plan as changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.bind.eager_subexpressions import named_rows, returning_query, with_rows
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.changes import arbiters
from kpg.compiler.sql.rewrite.upsert import OverPairs, lower_conflict, missing_of
from kpg.execute.changes.defaults import filled, numbered
from kpg.execute.changes.dml import Changes, Returned, check_there, prepared
from kpg.execute.changes.expression_keys import expression_keys, without_conflicts, written
from kpg.execute.changes.table_writes import Evaluate, checked, distinct, merged, missing
from kpg.execute.queries.query_plan import explain, plan, plan_bound, returned_shape
from kpg.execute.queries.result_rows import expand
from kpg.postgres.row_security import check_merged
from kpg.runtime.errors import DataError, ProgrammingError
from kpg.runtime.plan import Mfp
from kpg.runtime.types import BIGINT, ColumnDef, Schema
from kpg.session.base_table import Table
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.compiler.explain import Shown
    from kpg.execute.changes.expression_keys import ExpressionKey

Words = NDArray[np.int64]


def settled(
    engine: Engine, table: Table, statement: ast.Insert, words: Words
) -> tuple[Words, tuple[Words, Words] | None]:
    """The rows that ON CONFLICT lets in, and those that it has take the place of others."""
    keys, rules = _arbiters(engine, engine.catalog.table(statement.table, statement.span), statement)
    update = conflict_of(engine, statement)
    _check_seen(engine, table, (table.find_unique(key, words[list(key)]) for key in keys))
    _check_seen(engine, table, (rule.find(words) for rule in rules))
    if update is not None:
        old = rules[0].find(words) if rules else None
        return merged(table, words, keys[0] if keys else (), _evaluation(engine, table, update), old)
    words = missing(table, words, keys) if keys or not rules else words
    if rules:
        words = without_conflicts(rules, words)
    return words, None


def _check_seen(engine: Engine, table: Table, found: Iterable[Words]) -> None:
    """SerializationError if rows that are in the way have come since the transaction's snapshot."""
    check = engine.transactions.check_seen
    if check is None:
        return
    for rowids in found:
        check(table.name, rowids[rowids >= 0])


def conflict_of(engine: Engine, statement: ast.Insert) -> "Mfp | OverPairs | None":
    """What ON CONFLICT makes of a row that is there next to the one that is given; None: it leaves it."""

    what = ("conflict", engine.executor.has_pending or engine.seen is not None)
    return engine.remembered.made(
        what, statement, engine.catalog, lambda: lower_conflict(statement, engine.reading_catalog)
    )


def _arbiters(
    engine: Engine, entry: TableEntry, statement: ast.Insert
) -> "tuple[Sequence[tuple[int, ...]], list[ExpressionKey]]":
    """Where ON CONFLICT looks for rows that are there."""
    conflict = statement.conflict
    assert conflict is not None
    beside = conflict.elements or any(
        key[:2] == ("unique index", entry.name.lower()) for key in engine.catalog.others
    )
    if not beside:
        return arbiters(statement, entry), []

    return _arbiters_among_all(engine, entry, statement)


def _evaluation(engine: Engine, table: Table, update: "Mfp | OverPairs") -> Evaluate:
    if isinstance(update, Mfp):
        return partial(engine.executor.evaluate, update)

    return partial(updated_by_query, engine, table, update)


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
        check_merged(engine, table, statement, (rowids[updates], changed), rowids[deletes], made)
    return Changes(
        table,
        deleted=np.ascontiguousarray(rowids[deletes]) if deleting else None,
        updated=(np.ascontiguousarray(rowids[updates]), changed) if updating else None,
        inserted=checked(made, table) if len(inserted) > 1 else None,
    )


def run_modifying(engine: Engine, statement: ast.Modifying) -> Result:
    """Run all parts over the tables as they are; only then let the changes be made."""
    try:
        return _run(engine, statement)
    finally:
        engine.release_attached()


def _run(engine: Engine, statement: ast.Modifying) -> Result:
    changes: list[Changes] = []
    known: dict[str, str] = {}
    claimed: dict[str, Words] = {}
    for name, columns, part in statement.parts:
        reading = with_rows(part, known)
        assert not isinstance(reading, ast.Select)
        found = _unclaimed(prepared(engine, reading), reading, claimed)
        changes.append(found)
        if found.returned is not None:
            known[name] = _attached(engine, name, columns, found.returned)
    main = with_rows(statement.main, known)
    if isinstance(main, ast.Select):
        planned = plan(main, engine.reading_catalog, engine.statistics)
        result = engine.select(planned)
    else:
        changes.append(_unclaimed(prepared(engine, main), main, claimed))
        result = changes[-1].result()
    # Rows that were attached are no change of the statement's.
    for one in changes:
        check_there(engine, one)
        one.apply()
    return result


def _unclaimed(changes: Changes, part: ast.Change, claimed: dict[str, Words]) -> Changes:
    """The changes without the rows that earlier parts of the statement change, which are ``claimed``.

    DataError for an INSERT or a MERGE that would change such a row.
    """
    if type(changes) is not Changes:  # of several tables, or made row by row already
        return changes
    name = changes.table.name
    taken, rowids = claimed.get(name, np.empty(0, np.int64)), changes.rowids
    claimed[name] = np.concatenate((taken, rowids))
    if not np.isin(rowids, taken).any():
        return changes
    if isinstance(part, ast.Insert | ast.Merge):
        error = DataError(
            f'a row of table "{name}" was already changed by another part of the statement', span=part.span
        )
        error.sqlstate = "21000"
        raise error
    kept = np.flatnonzero(~np.isin(rowids, taken))
    returned = changes.returned
    if returned is not None:
        returned = replace(returned, words=np.ascontiguousarray(returned.words[:, kept]))
    if changes.updated is not None:
        words = np.ascontiguousarray(changes.updated[1][:, kept])
        return replace(changes, updated=(rowids[kept], words), returned=returned)
    return replace(changes, deleted=rowids[kept], returned=returned)


def explain_modifying(engine: Engine, statement: ast.Modifying, *, costs: bool) -> "Shown":
    """The plans of all parts, each over the rows of those before it as if these had none."""
    known: dict[str, str] = {}
    parts = []
    try:
        for name, columns, part in statement.parts:
            reading = with_rows(part, known)
            assert not isinstance(reading, ast.Select)
            shown = explain(reading, "physical", engine.reading_catalog, engine.statistics, costs=costs)
            parts.append((name, shown))
            if not isinstance(reading, ast.Merge) and reading.returning:
                names, types = returned_shape(reading, engine.reading_catalog)
                none = np.empty((len(types), 0), np.int64)
                known[name] = _attached(engine, name, columns, Returned(names, types, none))
        main = with_rows(statement.main, known)
        last = explain(main, "physical", engine.reading_catalog, engine.statistics, costs=costs)
    finally:
        engine.release_attached()
    return replace(last, parts=tuple(parts))


def _attached(engine: Engine, name: str, columns: tuple[str, ...], returned: Returned) -> str:
    names = (*columns, *returned.names[len(columns) :])
    if len({one.lower() for one in names}) < len(names):
        raise ProgrammingError(f'WITH query "{name}" has two columns of one name', hint="name its columns")
    schema = Schema(tuple(ColumnDef(one, type_) for one, type_ in zip(names, returned.types, strict=True)))
    attached = engine.attach_table(named_rows(name), schema)
    engine.table(attached).insert(np.ascontiguousarray(returned.words))
    return attached


def returned_by_query(engine: Engine, table: Table, statement: ast.Insert, rows: Words) -> Returned:
    """What RETURNING gives if it asks a query."""
    schema = Schema(tuple(replace(column, nullable=True) for column in table.schema.columns))
    attached = engine.attach_table(named_rows("inserted"), schema)
    engine.table(attached).insert(np.ascontiguousarray(rows))
    query = returning_query(statement, attached)
    planned = plan(query, engine.reading_catalog, engine.statistics)
    words = expand(*engine.run(planned))[: len(planned.schema.columns)]
    return Returned(planned.schema.names, planned.schema.types, words)


def updated_by_query(
    engine: Engine, table: Table, over_pairs: OverPairs, pairs: Words
) -> tuple[Words, Words]:
    """The rows that ON CONFLICT puts in the place of others, and of which pairs they are."""
    count = pairs.shape[1]
    columns = [
        ColumnDef(f"{side} {place}", column.type)
        for side in ("old", "new")
        for place, column in enumerate(table.schema.columns)
    ]
    attached = engine.attach_table(named_rows("conflicts"), Schema((*columns, ColumnDef("number", BIGINT))))
    numbered = np.concatenate((pairs, np.arange(count, dtype=np.int64)[None, :]))
    engine.table(attached).insert(np.ascontiguousarray(numbered))
    planned = plan_bound(
        over_pairs(engine.catalog.table(attached)), engine.reading_catalog, engine.statistics
    )
    words = expand(*engine.run(planned))
    words = words[:, np.argsort(words[0], kind="stable")]
    return np.ascontiguousarray(words[1:]), np.ascontiguousarray(words[0])


def _arbiters_among_all(
    engine: Engine, entry: TableEntry, statement: ast.Insert
) -> "tuple[Sequence[tuple[int, ...]], list[ExpressionKey]]":
    """Where ON CONFLICT looks for rows that are there: keys of columns, and other keys."""
    conflict = statement.conflict
    assert conflict is not None
    known = list(expression_keys(engine.executor, entry, engine.catalog))
    if not conflict.columns and not conflict.elements and not conflict.constraint:
        return arbiters(statement, entry), known
    if conflict.constraint:
        return arbiters(statement, entry), []
    elements = conflict.elements or conflict.columns
    wanted = sorted(map(written, elements))
    columns = {tuple(sorted(name.lower() for name in key.columns)) for key in entry.constraints.uniques}
    columns.add(tuple(sorted(entry.schema.names[place].lower() for place in entry.schema.primary_key)))
    if tuple(wanted) in columns:
        return arbiters(
            replace(statement, conflict=replace(conflict, elements=(), columns=elements)), entry
        ), []
    given = written(conflict.predicate) if conflict.predicate else ""
    for rule in known:
        one = rule.one
        fits = sorted(map(written, one.elements)) == wanted
        if fits and (not one.where or written(one.where) == given):
            return (), [rule]
    error = ProgrammingError(
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        span=conflict.span,
    )
    error.sqlstate = "42P10"
    raise error
