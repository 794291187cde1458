"""Rows of partitioned tables: which partition takes each, and where those go that change."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.constraints import Check, Constraints, Heir
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.rewrite.changes import nothing
from kpg.compiler.sql.rewrite.column_expressions import checks
from kpg.compiler.sql.rewrite.eager_subexpressions import listed
from kpg.dml.changing import Changes, given_words, insertion
from kpg.engine.engine import Engine
from kpg.inheritance.inheriting import Several, parts_of
from kpg.runtime.errors import IntegrityError, Span

Words = NDArray[np.int64]
Mask = NDArray[np.bool_]


def is_partitioned(engine: Engine, name: str) -> bool:
    """Whether a table has its rows in partitions."""
    return ("partitioned", name.lower(), "") in engine.catalog.others


def routed(engine: Engine, statement: ast.Insert) -> Several | None:
    """What an INSERT into a partitioned table changes; None if the table is none."""
    entry = engine.catalog.find(statement.table)
    if not isinstance(entry, TableEntry) or not is_partitioned(engine, entry.name):
        return None
    table = engine.table(entry.name)
    statement, words = given_words(
        engine, table, replace(statement, returning=listed(statement, entry.schema.names))
    )
    whole = replace(statement, conflict=None, returning=())
    inserted = insertion(engine, table, whole, words, fitted=False).inserted
    assert inserted is not None
    with parts_of(engine, entry):
        return Several(_parts(engine, entry, statement, inserted))


def route_words(engine: Engine, name: str, words: Words, *, moves: bool = False) -> Several:
    """What inserting rows into a partitioned table changes; whether they have been in it before."""
    span = Span("", 0, 0)
    statement = ast.Insert(name, "", (), ast.Select(nothing(), span), None, span, moves=moves)
    return Several(_parts(engine, engine.catalog.table(name), statement, words))


def _parts(engine: Engine, entry: TableEntry, statement: ast.Insert, words: Words) -> list[Changes]:
    """The changes of the partitions that take rows; IntegrityError if none takes one."""
    return [_part(engine, leaf, statement, rows) for leaf, rows in _leaves(engine, entry, words)]


def _part(engine: Engine, leaf: TableEntry, statement: ast.Insert, rows: Words) -> Changes:
    one = replace(statement, table=leaf.name, columns=leaf.schema.names)
    return insertion(engine, engine.table(leaf.name), one, rows)


def partitions_of(engine: Engine, name: str) -> list[Heir]:
    """The partitions of a table, the DEFAULT one last."""
    others = engine.catalog.others
    mine = [one for key, one in others.items() if key[0] == "inherits" and key[1] == name.lower()]
    return sorted(mine, key=lambda one: one.default)


def _leaves(engine: Engine, entry: TableEntry, words: Words) -> list[tuple[TableEntry, Words]]:
    """The tables that take rows, with the rows in their own columns' order."""
    if not is_partitioned(engine, entry.name):
        return [(entry, words)]
    left: Mask = np.ones(words.shape[1], np.bool_)
    found: list[tuple[TableEntry, Words]] = []
    for heir in partitions_of(engine, entry.name):
        taken = left if heir.default else left & fits(engine, entry, heir.bound, words)
        if taken.any() or not found:
            child = engine.catalog.table(heir.child)
            chosen = np.ascontiguousarray(words[order_of(entry, child)][:, taken])
            found += _leaves(engine, child, chosen)
        left = left & ~taken
    if left.any() or not found:
        error = IntegrityError(
            f'no partition of relation "{entry.name}" found for row',
            hint="make one, or one that is the DEFAULT",
        )
        error.sqlstate = "23514"
        raise error
    return found


def order_of(whole: TableEntry, part: TableEntry) -> list[int]:
    """Where the columns of a partition are in the whole table."""
    names = [name.lower() for name in whole.schema.names]
    return [names.index(name.lower()) for name in part.schema.names]


def fits(engine: Engine, entry: TableEntry, bound: str, words: Words) -> Mask:
    """Which rows of a table keep a bound."""
    if not bound:
        return np.ones(words.shape[1], np.bool_)
    tested = replace(entry, constraints=Constraints(checks=(Check("bound", bound),)))
    mfp = checks(tested, engine.catalog)
    assert mfp is not None
    results, _ = engine.executor.evaluate(mfp, np.ascontiguousarray(words))
    verdict: Mask = results[0] == 1
    return verdict


def stays(engine: Engine, whole: str, name: str, words: Words) -> Mask:
    """Which new rows of a partition are still of it, up to the table that was named."""
    entry = engine.catalog.table(name)
    verdict: Mask = np.ones(words.shape[1], np.bool_)
    while name.lower() != whole.lower():
        heir = next(
            one
            for key, one in engine.catalog.others.items()
            if key[0] == "inherits" and key[2] == name.lower()
        )
        siblings: Sequence[Heir] = partitions_of(engine, heir.parent) if heir.default else ()
        verdict = verdict & fits(engine, entry, heir.bound, words)
        for other in siblings:
            if not other.default:
                verdict = verdict & ~fits(engine, entry, other.bound, words)
        name = heir.parent
    return verdict


def moved(engine: Engine, whole: str, changes: Changes) -> tuple[list[Changes], int]:
    """The changes of a partition, and those of others to which rows go that become theirs; how many do."""
    if changes.updated is None or not changes.updated[0].size:
        return [changes], 0
    rowids, words = changes.updated
    verdict = stays(engine, whole, changes.table.name, words)
    if verdict.all():
        return [changes], 0
    ids, rows = rowids[~verdict], np.ascontiguousarray(words[:, ~verdict])
    if "references" in vars(engine):
        engine.references.moves(changes.table.name, rows)
    kept = np.ascontiguousarray(rowids[verdict]), np.ascontiguousarray(words[:, verdict])
    parent, child = engine.catalog.table(whole), engine.catalog.table(changes.table.name)
    names = [name.lower() for name in child.schema.names]
    rows = rows[[names.index(name.lower()) for name in parent.schema.names]]
    taken = [replace(part, returned=None) for part in route_words(engine, whole, rows, moves=True).parts]
    return [replace(changes, updated=kept, deleted=np.ascontiguousarray(ids)), *taken], int(ids.size)
