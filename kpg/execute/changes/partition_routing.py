"""Partition routing: assigns each inserted or updated row to its partition.

A statement on a partitioned table becomes changes of several partitions (``MultiTableChanges``), applied
together. MERGE runs in each partition for that partition's rows. The source rows that match in no partition
are found by a join with all of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result, row_count_result
from kpg.compiler.catalog.constraints import Check, Constraints, Heir, descendant_tables
from kpg.compiler.catalog.entries import Entry, TableEntry
from kpg.compiler.sql.bind.eager_subexpressions import expand_returning
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.definitions import Action
from kpg.compiler.sql.parse.features import StatementSpan
from kpg.compiler.sql.rewrite.changes import empty_select
from kpg.compiler.sql.rewrite.column_expressions import bind_checks
from kpg.execute.changes.dml import (
    compute_insert_rows,
    insert_changes,
    merge_changes,
    prepare_table_changes,
)
from kpg.execute.changes.table_pipeline import Stage
from kpg.runtime.errors import IntegrityError, NotSupportedError, ProgrammingError, Span
from kpg.session.base_table import Changes, ReturningRows
from kpg.session.engine import Engine

Words = NDArray[np.int64]


class PartitionRouter:
    """Routes the changes of a partitioned table to its partitions."""

    def prepare(self, engine: Engine, statement: ast.Change) -> Changes | None:
        """Return the changes of a statement; None if it changes only the table itself."""
        several: MultiTableChanges | None
        match statement:
            case ast.Insert():
                several = route_insert(engine, statement)
            case ast.Merge():
                several = route_merge(engine, statement)
            case ast.Update() | ast.Delete():
                several = prepare_with_partitions(engine, statement)
            case _:
                assert_never(statement)
        return several  # type: ignore[return-value]

    def route(self, engine: Engine, name: str, words: Words) -> Changes:
        """Return the changes of appending rows."""
        return route_rows(engine, name, words)  # type: ignore[return-value]


def prepare_with_partitions(engine: Engine, statement: ast.Change) -> "MultiTableChanges | None":
    """Compute the changes of an UPDATE or DELETE on a table and its partitions; None for a single table."""
    if not isinstance(statement, ast.Update | ast.Delete) or statement.only:
        return None
    entry = engine.catalog.find(statement.table)
    children = () if entry is None else descendant_tables(engine.catalog.partitions, entry.name)
    if entry is None or not children:
        return None
    with inherit_privileges(engine, entry):
        return _prepare_with_partitions(engine, statement, entry, children)


@contextmanager
def inherit_privileges(engine: Engine, entry: Entry) -> Iterator[None]:
    """Within the block, privileges of a table apply to its partitions."""
    catalog = engine.catalog
    before, root = catalog.changed_partitions, catalog.changed_partitions.get(entry.name.lower(), entry.name)
    catalog.changed_partitions = before | {
        name.lower(): root for name in descendant_tables(catalog.partitions, entry.name)
    }
    try:
        yield
    finally:
        catalog.changed_partitions = before


def _prepare_with_partitions(
    engine: Engine, statement: ast.Update | ast.Delete, entry: Entry, children: Sequence[str]
) -> "MultiTableChanges":

    parts: list[Changes] = []
    moves = 0
    for name in (entry.name, *children):
        part_statement = replace(statement, table=name, only=True)
        changes = prepare_table_changes(engine, part_statement)
        if not isinstance(part_statement, ast.Update):
            parts.append(changes)
            continue
        found, count = move_rows(engine, entry.name, changes)
        parts += found
        moves += count
    return MultiTableChanges(parts, moves)


def _columns_by_name(returned: ReturningRows, names: Sequence[str]) -> Words:
    """Return the columns in the order of ``names``; all columns if the names are ambiguous."""
    known = [name.lower() for name in returned.names]
    if len(known) == len(names) and (sorted(known) != sorted(names) or len(set(known)) < len(known)):
        return returned.words
    return np.ascontiguousarray(returned.words[[known.index(name) for name in names]])


def with_partitions(engine: Engine, names: list[str]) -> list[str]:
    """Return tables with their partitions."""
    found = list(names)
    for name in names:
        found += [child for child in descendant_tables(engine.catalog.partitions, name) if child not in found]
    return found


def tables_to_alter(engine: Engine, name: str, action: Action, span: Span) -> tuple[str, ...]:
    """Return the tables that an action applies to: columns of partitions change only with their parent."""
    partitions = engine.catalog.partitions
    mine = descendant_tables(partitions, name)
    is_partition = name.lower() in partitions
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


class MultiTableChanges:
    """Changes of several tables by one statement."""

    updated = None
    deleted = None
    inserted = None

    def __init__(self, parts: Sequence[Changes], moves: int = 0) -> None:
        """Combine changes; ``moves`` rows are counted twice, as they move from one table to another."""
        self._moves = moves
        self.parts = parts
        self.table = parts[0].table

    @property
    def count(self) -> int:
        """Number of changed rows."""
        return sum(part.count for part in self.parts) - self._moves

    @property
    def returned(self) -> ReturningRows | None:
        """RETURNING rows of all parts."""
        first = self.parts[0].returned
        if first is None:
            return None
        names = [name.lower() for name in first.names]
        words = [_columns_by_name(part.returned, names) for part in self.parts if part.returned is not None]
        return replace(first, words=np.concatenate(words, axis=1))

    def apply(self) -> None:
        """Apply the changes."""
        for part in self.parts:
            part.apply()

    def result(self) -> Result:
        """Return the statement's result."""
        if self.returned is None:
            return row_count_result(self.count)
        result = Changes(self.table, returned=self.returned).result()
        result.affected = self.count
        return result


Mask = NDArray[np.bool_]


def is_partitioned(engine: Engine, name: str) -> bool:
    """Whether a table is partitioned."""
    return name.lower() in engine.catalog.partitioned


def route_insert(engine: Engine, statement: ast.Insert) -> MultiTableChanges | None:
    """Compute the changes of an INSERT into a partitioned table; None for other tables."""
    entry = engine.catalog.find(statement.table)
    if not isinstance(entry, TableEntry) or not is_partitioned(engine, entry.name):
        return None
    table = engine.table(entry.name)
    statement, words = compute_insert_rows(
        engine, table, replace(statement, returning=expand_returning(statement, entry.schema.names))
    )
    whole = replace(statement, conflict=None, returning=())
    inserted = insert_changes(engine, table, whole, words, checks_rows=False).inserted
    assert inserted is not None
    with inherit_privileges(engine, entry):
        return MultiTableChanges(_partition_changes(engine, entry, statement, inserted))


def route_rows(engine: Engine, name: str, words: Words, *, moves: bool = False) -> MultiTableChanges:
    """Compute the changes of inserting rows into a partitioned table; ``moves`` marks moved rows."""
    span = StatementSpan("", 0, 0)
    statement = ast.Insert(name, "", (), ast.Select(empty_select(), span), None, span, is_row_movement=moves)
    return MultiTableChanges(_partition_changes(engine, engine.catalog.table(name), statement, words))


def _partition_changes(
    engine: Engine, entry: TableEntry, statement: ast.Insert, words: Words
) -> list[Changes]:
    """Return the changes of each partition; IntegrityError if a row has none."""
    return [
        _leaf_changes(engine, leaf, statement, rows) for leaf, rows in _assign_leaves(engine, entry, words)
    ]


def _leaf_changes(engine: Engine, leaf: TableEntry, statement: ast.Insert, rows: Words) -> Changes:
    leaf_statement = replace(statement, table=leaf.name, columns=leaf.schema.names)
    return insert_changes(engine, engine.table(leaf.name), leaf_statement, rows)


def partitions_of(engine: Engine, name: str) -> list[Heir]:
    """Return the partitions of a table, the DEFAULT one last."""
    partitions = [one for one in engine.catalog.partitions.values() if one.parent.lower() == name.lower()]
    return sorted(partitions, key=lambda one: one.default)


def _assign_leaves(engine: Engine, entry: TableEntry, words: Words) -> list[tuple[TableEntry, Words]]:
    """Return the leaf partitions with their rows, in their own column order."""
    if not is_partitioned(engine, entry.name):
        return [(entry, words)]
    unassigned: Mask = np.ones(words.shape[1], np.bool_)
    found: list[tuple[TableEntry, Words]] = []
    for partition in partitions_of(engine, entry.name):
        is_member = (
            unassigned
            if partition.default
            else unassigned & satisfies_bound(engine, entry, partition.bound, words)
        )
        if is_member.any() or not found:
            child = engine.catalog.table(partition.child)
            leaf_rows = np.ascontiguousarray(words[column_order(entry, child)][:, is_member])
            found += _assign_leaves(engine, child, leaf_rows)
        unassigned = unassigned & ~is_member
    if unassigned.any() or not found:
        error = IntegrityError(
            f'no partition of relation "{entry.name}" found for row',
            hint="make one, or one that is the DEFAULT",
        )
        error.sqlstate = "23514"
        raise error
    return found


def column_order(parent: TableEntry, partition: TableEntry) -> list[int]:
    """Return the positions of a partition's columns in the parent."""
    names = [name.lower() for name in parent.schema.names]
    return [names.index(name.lower()) for name in partition.schema.names]


def satisfies_bound(engine: Engine, entry: TableEntry, bound: str, words: Words) -> Mask:
    """Return a mask of the rows that satisfy a bound."""
    if not bound:
        return np.ones(words.shape[1], np.bool_)
    tested = replace(entry, constraints=Constraints(checks=(Check("bound", bound),)))
    mfp = bind_checks(tested, engine.catalog)
    assert mfp is not None
    results, _ = engine.executor.evaluate(mfp, np.ascontiguousarray(words))
    mask: Mask = results[0] == 1
    return mask


def stays_in_partition(engine: Engine, root: str, name: str, words: Words) -> Mask:
    """Return a mask of the updated rows that stay in their partition, up to the table ``root``."""
    entry = engine.catalog.table(name)
    mask: Mask = np.ones(words.shape[1], np.bool_)
    while name.lower() != root.lower():
        partition = engine.catalog.partitions[name.lower()]
        siblings: Sequence[Heir] = partitions_of(engine, partition.parent) if partition.default else ()
        mask = mask & satisfies_bound(engine, entry, partition.bound, words)
        for other in siblings:
            if not other.default:
                mask = mask & ~satisfies_bound(engine, entry, other.bound, words)
        name = partition.parent
    return mask


def move_rows(engine: Engine, root: str, changes: Changes) -> tuple[list[Changes], int]:
    """Split the changes of a partition: rows that leave it are inserted elsewhere. Return their number."""
    if changes.updated is None or not changes.updated[0].size:
        return [changes], 0
    rowids, words = changes.updated
    is_staying = stays_in_partition(engine, root, changes.table.name, words)
    if is_staying.all():
        return [changes], 0
    ids, rows = rowids[~is_staying], np.ascontiguousarray(words[:, ~is_staying])
    if engine.tables.references is not None:
        engine.tables.foreign_keys.record_move(changes.table.name, rows)
    kept = np.ascontiguousarray(rowids[is_staying]), np.ascontiguousarray(words[:, is_staying])
    parent, child = engine.catalog.table(root), engine.catalog.table(changes.table.name)
    names = [name.lower() for name in child.schema.names]
    rows = rows[[names.index(name.lower()) for name in parent.schema.names]]
    inserted_parts = [
        replace(part, returned=None) for part in route_rows(engine, root, rows, moves=True).parts
    ]
    return [replace(changes, updated=kept, deleted=np.ascontiguousarray(ids)), *inserted_parts], int(ids.size)


def route_merge(engine: Engine, statement: ast.Merge) -> MultiTableChanges | None:
    """Compute the changes of a MERGE into a partitioned table; None for a single table."""
    entry = engine.catalog.find(statement.table)
    below = descendant_tables(engine.catalog.partitions, entry.name) if isinstance(entry, TableEntry) else ()
    if statement.phase or not isinstance(entry, TableEntry) or not below:
        return None
    with inherit_privileges(engine, entry):
        parts, moves = _merge_matched(engine, statement, entry, below)
        return MultiTableChanges([*parts, *_merge_unmatched(engine, statement, entry)], moves=moves)


def _merge_matched(
    engine: Engine, statement: ast.Merge, entry: TableEntry, names: tuple[str, ...]
) -> tuple[list[Changes], int]:
    """Return the changes of matched rows, and the number of rows that move between partitions."""
    whens = tuple(when for when in statement.whens if when.kind != "target")
    parts: list[Changes] = []
    moves = 0
    for name in names:
        table = engine.table(name)
        changes = merge_changes(engine, table, replace(statement, table=name, whens=whens, phase="matched"))
        found, count = move_rows(engine, entry.name, changes)
        parts += found
        moves += count
    return parts, moves


def _merge_unmatched(engine: Engine, statement: ast.Merge, entry: TableEntry) -> list[Changes]:
    whens = tuple(when for when in statement.whens if when.kind == "target")
    if not whens:
        return []
    unmatched = replace(statement, whens=whens, phase="unmatched")
    rows = merge_changes(engine, engine.table(entry.name), unmatched).inserted
    return [] if rows is None or not rows.shape[1] else list(route_rows(engine, entry.name, rows).parts)


PARTITIONS: Final = Stage("partitions", router=PartitionRouter())
"""The stage of partitioned tables."""
