"""ON CONFLICT: which rows are let in, and what takes the place of those that are there."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.changes import arbiters
from kpg.dml.modify import Evaluate, merged, missing
from kpg.engine.engine import Engine
from kpg.engine.table import Table
from kpg.runtime.plan import Mfp

if TYPE_CHECKING:
    from kpg.compiler.sql.rewrite.upsert import OverPairs
    from kpg.ddl.unique_expressions import ExpressionKey

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
        from kpg.ddl.unique_expressions import without_conflicts

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
    from kpg.compiler.sql.rewrite.upsert import lower_conflict

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
    from kpg.ddl.unique_expressions import arbiters_beside

    return arbiters_beside(engine, entry, statement)


def _evaluation(engine: Engine, table: Table, update: "Mfp | OverPairs") -> Evaluate:
    if isinstance(update, Mfp):
        return partial(engine.executor.evaluate, update)
    from kpg.dml.modifying import updated_by_query

    return partial(updated_by_query, engine, table, update)
