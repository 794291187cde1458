"""Partition routing: assigns each inserted or updated row to its partition.

A statement on a partitioned table becomes changes of several partitions (``Several``), applied together.
MERGE runs in each partition for that partition's rows. The source rows that match in no partition are found
by a join with all of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result, row_count
from kpg.compiler.catalog.constraints import Check, Constraints, Heir, heirs
from kpg.compiler.catalog.entries import Entry, TableEntry
from kpg.compiler.sql.bind.eager_subexpressions import listed
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.definitions import Action
from kpg.compiler.sql.rewrite.changes import nothing
from kpg.compiler.sql.rewrite.column_expressions import checks
from kpg.execute.changes.dml import (
    Changes,
    Returned,
    given_words,
    insertion,
    into_table,
    merge_changes,
    prepared_alone,
)
from kpg.runtime.errors import IntegrityError, NotSupportedError, ProgrammingError, Span
from kpg.session.engine import Engine

Words = NDArray[np.int64]


def prepared_beside(engine: Engine, statement: ast.Change) -> Changes:
    """What a statement is going to change."""

    statement = into_table(engine, statement)
    several = together(engine, statement)
    if several is None and isinstance(statement, ast.Insert):
        several = routed(engine, statement)
    if isinstance(statement, ast.Merge):
        several = merged(engine, statement)
    if several is not None:
        return several  # type: ignore[return-value]
    return prepared_alone(engine, statement)


def together(engine: Engine, statement: ast.Change) -> "Several | None":
    """What changes of a table and of its partitions do; None if there is only one."""
    if not isinstance(statement, ast.Update | ast.Delete) or statement.alone:
        return None
    entry = engine.catalog.find(statement.table)
    heirs_ = () if entry is None else heirs(engine.catalog.others, entry.name)
    if entry is None or not heirs_:
        return None
    with parts_of(engine, entry):
        return _together(engine, statement, entry, heirs_)


@contextmanager
def parts_of(engine: Engine, entry: Entry) -> Iterator[None]:
    """Within the block the tables below one are changed by who may change that one."""
    catalog = engine.catalog
    before, whole = catalog.parts, catalog.parts.get(entry.name.lower(), entry.name)
    catalog.parts = before | {name.lower(): whole for name in heirs(catalog.others, entry.name)}
    try:
        yield
    finally:
        catalog.parts = before


def _together(
    engine: Engine, statement: ast.Update | ast.Delete, entry: Entry, heirs_: Sequence[str]
) -> "Several":

    parts: list[Changes] = []
    moves = 0
    for name in (entry.name, *heirs_):
        one = replace(statement, table=name, alone=True)
        if not isinstance(one, ast.Update):
            parts.append(prepared_beside(engine, one))
            continue
        changes = prepared_beside(engine, one)
        found, count = moved(engine, entry.name, changes)
        parts += found
        moves += count
    return Several(parts, moves)


def _chosen(returned: Returned, names: Sequence[str]) -> Words:
    """The columns of these names, which may stand in another order; all of them where names do not tell."""
    known = [name.lower() for name in returned.names]
    if len(known) == len(names) and (sorted(known) != sorted(names) or len(set(known)) < len(known)):
        return returned.words
    return np.ascontiguousarray(returned.words[[known.index(name) for name in names]])


def dropped_together(engine: Engine, names: list[str]) -> list[str]:
    """Tables to drop, with their partitions."""
    found = list(names)
    for name in names:
        found += [one for one in heirs(engine.catalog.others, name) if one not in found]
    return found


def altered_together(engine: Engine, name: str, action: Action, span: Span) -> tuple[str, ...]:
    """The tables that an action is for: the partitions too, whose columns must not change alone."""
    others = engine.catalog.others
    lower = name.lower()
    mine = heirs(others, name)
    is_partition = any(key[0] == "inherits" and key[2] == lower for key in others)
    if (mine or is_partition) and isinstance(action, ddl.RenameTo | ddl.SetSchema):
        message = "another name for a table with partitions, or for a partition, is not supported"
        raise NotSupportedError(message, span=span)
    columns = ddl.DropColumn | ddl.RenameColumn | ddl.AlterType
    if is_partition and isinstance(action, columns):
        message = "a change of a column of a partition is not supported"
        raise NotSupportedError(message, span=span, hint="change the table whose partition it is")
    if is_partition and isinstance(action, ddl.AddColumn):
        error = ProgrammingError("cannot add column to a partition", span=span)
        error.sqlstate = "42809"
        raise error
    is_default = isinstance(action, ddl.SetRule) and action.part == "default"
    followed = columns | ddl.AddColumn | ddl.SetNotNull | ddl.DropConstraint | ddl.AddConstraint
    return (name, *mine) if is_default or isinstance(action, followed) else (name,)


class Several:
    """Changes of several tables by one statement."""

    updated = None
    deleted = None
    inserted = None

    def __init__(self, parts: Sequence[Changes], moves: int = 0) -> None:
        """``moves`` of the changes are counted twice: rows that go from one table to another."""
        self._moves = moves
        self.parts = parts
        self.table = parts[0].table

    @property
    def count(self) -> int:
        """How many rows change."""
        return sum(part.count for part in self.parts) - self._moves

    @property
    def returned(self) -> Returned | None:
        """What all of them return."""
        first = self.parts[0].returned
        if first is None:
            return None
        names = [name.lower() for name in first.names]
        words = [_chosen(part.returned, names) for part in self.parts if part.returned is not None]
        return replace(first, words=np.concatenate(words, axis=1))

    def apply(self) -> None:
        """Make the changes."""
        for part in self.parts:
            part.apply()

    def result(self) -> Result:
        """What the statement gives."""
        if self.returned is None:
            return row_count(self.count)
        result = Changes(self.table, returned=self.returned).result()
        result.affected = self.count
        return result


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
    if engine.tables.references is not None:
        engine.tables.foreign_keys.moves(changes.table.name, rows)
    kept = np.ascontiguousarray(rowids[verdict]), np.ascontiguousarray(words[:, verdict])
    parent, child = engine.catalog.table(whole), engine.catalog.table(changes.table.name)
    names = [name.lower() for name in child.schema.names]
    rows = rows[[names.index(name.lower()) for name in parent.schema.names]]
    taken = [replace(part, returned=None) for part in route_words(engine, whole, rows, moves=True).parts]
    return [replace(changes, updated=kept, deleted=np.ascontiguousarray(ids)), *taken], int(ids.size)


def merged(engine: Engine, statement: ast.Merge) -> Several | None:
    """What a MERGE changes in several tables; None if there is only one."""
    entry = engine.catalog.find(statement.table)
    below = heirs(engine.catalog.others, entry.name) if isinstance(entry, TableEntry) else ()
    if statement.part or not isinstance(entry, TableEntry) or not below:
        return None
    with parts_of(engine, entry):
        parts, moves = _there(engine, statement, entry, below)
        return Several([*parts, *_new(engine, statement, entry)], moves=moves)


def _there(
    engine: Engine, statement: ast.Merge, entry: TableEntry, names: tuple[str, ...]
) -> tuple[list[Changes], int]:
    """What becomes of the rows that are there, and how many of them go from one partition to another."""
    whens = tuple(one for one in statement.whens if one.kind != "target")
    parts: list[Changes] = []
    moves = 0
    for name in names:
        table = engine.table(name)
        changes = merge_changes(engine, table, replace(statement, table=name, whens=whens, part="matched"))
        found, count = moved(engine, entry.name, changes)
        parts += found
        moves += count
    return parts, moves


def _new(engine: Engine, statement: ast.Merge, entry: TableEntry) -> list[Changes]:
    whens = tuple(one for one in statement.whens if one.kind == "target")
    if not whens:
        return []
    asked = replace(statement, whens=whens, part="unmatched")
    rows = merge_changes(engine, engine.table(entry.name), asked).inserted
    return [] if rows is None or not rows.shape[1] else list(route_words(engine, entry.name, rows).parts)
