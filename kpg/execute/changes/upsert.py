"""INSERT ... ON CONFLICT: the rows to insert, and the replacements of conflicting rows."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.bind.eager_subexpressions import named_rows
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.changes import arbiters
from kpg.compiler.sql.rewrite.upsert import OverPairs, lower_conflict
from kpg.execute.changes.expression_keys import expression_keys, without_conflicts, written
from kpg.execute.changes.table_writes import Evaluate, merged, missing
from kpg.execute.queries.query_plan import plan_bound
from kpg.execute.queries.result_rows import expand
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.plan import Mfp
from kpg.runtime.types import BIGINT, ColumnDef, Schema
from kpg.session.base_table import Table
from kpg.session.engine import Engine

if TYPE_CHECKING:
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
    attached = engine.tables.attach(named_rows("conflicts"), Schema((*columns, ColumnDef("number", BIGINT))))
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
