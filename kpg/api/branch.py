"""Branches: copy-on-write forks of a database, their diff against the trunk, and the merge into it.

A branch starts in milliseconds with all tables, views, indexes and sequences of its trunk. Arrays are shared
until one side writes to them. Both share the trunk's dictionary of strings, so a word means the same string
in both. A branch keeps its history from the fork on; the diff and the merge read its changes from there.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Row
from kpg.api.view import MaintainedView
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.execute.changes.source_positions import TABLE as POSITIONS
from kpg.execute.changes.source_positions import positions_table
from kpg.execute.queries.result_rows import Reader
from kpg.execute.statements import install_execution
from kpg.runtime.convert.python_values import show_word
from kpg.runtime.errors import IntegrityError, InterfaceError, NotSupportedError, ProgrammingError
from kpg.runtime.plan import Import, Plan
from kpg.runtime.plan.user import Input
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates
from kpg.session.base_table import Table
from kpg.session.engine import Engine
from kpg.session.subscriptions import Feed
from kpg.session.time_travel import History, Retention

Words = NDArray[np.int64]
FULL_HISTORY = Retention(1 << 60, None)


@dataclass(frozen=True, slots=True)
class TableDiff:
    """The changes of a table in a branch: rowids of deleted trunk rows, and the inserted rows."""

    name: str
    deleted: Words
    inserted: Words


class Fork:
    """The origin of a branch, its trunk's definitions and epoch, and the branch's own engine."""

    def __init__(self, trunk: Engine) -> None:
        """Fork an engine.

        Raises:
            InterfaceError: Within a transaction.
            NotSupportedError: If an object cannot be part of a branch.
        """
        if not trunk.transactions.is_idle or trunk.executor.tables.has_pending:
            raise InterfaceError("a branch begins outside of transactions", hint="commit first")
        self.engine = fork_engine(trunk)
        self._origin_catalog = self.engine.catalog.copy()
        self._origin_epoch = trunk.executor.epoch

    def diff(self, trunk: Engine, name: str) -> list[tuple[Row, int]]:
        """Return the rows in which a relation differs from the trunk's, with multiplicity differences."""
        for engine in (self.engine, trunk):
            if not engine.transactions.is_idle:
                raise InterfaceError("a branch cannot be compared within a transaction", hint="commit first")
        reader, (data, counts) = _contents(self.engine, name)
        other, (before, counted) = _contents(trunk, name)
        if reader.types != other.types:
            raise ProgrammingError(f"the columns of {name} in the branch are not those in the trunk")
        parts = [Updates.of(data, (0,), counts), Updates.of(before, (0,), -counted)]
        return [(row, diff) for row, _, diff in reader.changes(parts)]

    def change_counts(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of inserted and deleted rows of each changed table since the fork."""
        return _counts(table_diffs(self.engine, self._origin_epoch))

    def merge(self, trunk: Engine) -> dict[str, tuple[int, int]]:
        """Apply the branch's changes to the trunk in one commit; return inserted, deleted rows by table."""
        mine, theirs = self.engine, trunk
        if not mine.transactions.is_idle or not theirs.transactions.is_idle:
            raise InterfaceError("a branch cannot be merged within a transaction", hint="commit first")
        _check_definitions(self._origin_catalog, mine.catalog)
        found = table_diffs(mine, self._origin_epoch)
        targets = [(one, _trunk_table(mine, theirs, one.name)) for one in found]
        with theirs.transactions.statement(changes=True):
            merged = [(one, table, MergePlan.make(one, table, mine, theirs)) for one, table in targets]
            for _, table, rows in merged:
                table.delete(rows.deleted)
            for _, table, rows in merged:
                if rows.updated_rowids.shape[0]:
                    table.update(rows.updated_rowids, rows.updated_rows)
                table.insert(rows.inserted)
        _advance_sequences(mine, theirs)
        return _counts(found)


def _counts(diffs: list[TableDiff]) -> dict[str, tuple[int, int]]:
    return {diff.name: (diff.inserted.shape[1], diff.deleted.shape[0]) for diff in diffs}


def _check_definitions(origin: Catalog, catalog: Catalog) -> None:
    before = {entry.name: entry for entry in origin}
    now = {entry.name: entry for entry in catalog}
    for name in before.keys() | now.keys():
        if before.get(name) is not now.get(name) and name != POSITIONS:
            raise NotSupportedError(
                f'definitions are not merged, and the branch has changed "{name}"',
                hint="define it in the trunk, and merge a branch that begins after that",
            )


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The changes of a trunk table: rowids to delete, rowids with new rows, and rows to insert."""

    deleted: Words
    updated_rowids: Words
    updated_rows: Words
    inserted: Words

    @classmethod
    def make(cls, diff: TableDiff, table: Table, mine: Engine, theirs: Engine) -> "MergePlan":
        """Plan the merge of a table; IntegrityError if the trunk has changed one of the rows, too."""
        live = np.isin(diff.deleted, theirs.executor.tables.filter_live(table.name, diff.deleted))
        if not live.all():
            row = mine.executor.tables.fetch(diff.name, diff.deleted[~live][:1])
            raise _conflict(
                f"row {_format_row(table, row)} of table {table.name} was changed in the trunk too"
            )
        nothing = np.empty(0, np.int64)
        if not table.schema.primary_key:
            return cls(diff.deleted, nothing, diff.inserted[:, :0], diff.inserted)
        keys = np.ascontiguousarray(diff.inserted[list(table.schema.primary_key)])
        rowids = table.find(keys)
        ours = np.isin(rowids, diff.deleted)
        if (taken := (rowids >= 0) & ~ours).any():
            row = np.ascontiguousarray(diff.inserted[:, taken][:, :1])
            raise _conflict(
                f"a row with the key of {_format_row(table, row)} came to table {table.name} in the trunk too"
            )
        updates = np.ascontiguousarray(diff.inserted[:, ours])
        came = np.ascontiguousarray(diff.inserted[:, ~ours])
        return cls(diff.deleted[~np.isin(diff.deleted, rowids)], rowids[ours], updates, came)


def fork_engine(engine: Engine) -> Engine:
    """Return an independent engine with all contents of another one."""
    for name, maintained in engine.views.items():
        plan = _plan_of(engine, maintained)
        if any(isinstance(node, Input) for node in plan.nodes):
            raise NotSupportedError(
                f'a branch with a view over inputs of a dataflow, such as "{name}", is not supported',
                hint="drop the dataflow first",
            )
    branch = Engine(trunk=engine)
    install_execution(branch)
    branch.tables.attached_tables |= engine.tables.attached_tables
    branch.settings.update(engine.settings)
    branch.prepared_statements.update(engine.prepared_statements)
    branch.function_records.update(engine.function_records)
    branch.clock.copy_from(engine.clock)
    for entry in branch.catalog:
        if isinstance(entry, TableEntry):
            branch.tables.register(entry.name, entry.schema)
    branch.history = History(branch, FULL_HISTORY)
    if engine.history is not None:
        branch.history.copy_from(engine.history)
    for maintained in _views_in_order(engine):
        _install(branch, engine, maintained)
    for name in engine.tables.indexes:
        branch.tables.install_index(name, engine.views.plans[f"index {name}"])
    branch.executor.finish_fork()
    if engine.used_sequences is not None:
        branch.sequences.copy_from(engine.sequences)
    if any(
        isinstance(table_entry, TableEntry) and table_entry.constraints.has_row_checks
        for table_entry in branch.catalog
    ):
        branch.tables.refresh_constraints()
    return branch


def _plan_of(engine: Engine, maintained: MaintainedView) -> Plan:
    plan = engine.views.plans.get(maintained.name, maintained.plan)
    assert plan is not None
    return plan


def _views_in_order(engine: Engine) -> Iterator[MaintainedView]:
    """Yield the maintained views, each after those that it reads."""
    done: set[str] = set()

    def visit(maintained: MaintainedView) -> Iterator[MaintainedView]:
        if maintained.name in done:
            return
        done.add(maintained.name)
        for node in _plan_of(engine, maintained).nodes:
            if isinstance(node, Import) and node.view in engine.views:
                yield from visit(engine.views[node.view])
        yield maintained

    for maintained in engine.views.values():
        yield from visit(maintained)


def _install(branch: Engine, engine: Engine, view: MaintainedView) -> None:
    plan = _plan_of(engine, view)
    installed = branch.executor.install(view.name, plan)
    assert branch.history is not None
    branch.history.keep_changes(installed)
    reader = replace(view.reader, dictionary=branch.executor.dictionary)
    feed = Feed(branch.monitor, branch.executor, installed, reader, branch.history)
    maintained = MaintainedView(view.name, view.sql, installed, reader, feed, view.plan)
    branch.views.adopt(maintained, engine.views.plan_of(view.name))


def table_diffs(engine: Engine, since: int) -> list[TableDiff]:
    """Return the net changes of an engine's tables after an epoch."""
    found = []
    for entry in engine.catalog:
        if isinstance(entry, TableEntry) and entry.name not in engine.tables.attached_tables:
            gone, came = engine.executor.tables.changes_after(entry.name, since)
            if gone.shape[0] or came.shape[0]:
                found.append(TableDiff(entry.name, gone, engine.executor.tables.fetch(entry.name, came)))
    return found


def _trunk_table(mine: Engine, theirs: Engine, name: str) -> Table:
    """Return the trunk's table for a table of the branch; ProgrammingError if it was dropped or replaced."""
    if name == POSITIONS:
        return positions_table(theirs)
    number = mine.executor.tables.table_number(name)
    for entry in theirs.catalog:
        if isinstance(entry, TableEntry) and theirs.executor.tables.table_number(entry.name) == number:
            return theirs.table(entry.name)
    raise ProgrammingError(
        f"table {name}, which the branch has changed, was dropped or altered in the trunk",
        hint="discard the branch",
    )


def _contents(engine: Engine, name: str) -> tuple[Reader, tuple[Words, Words]]:
    """Return all rows of a table or maintained view, and their reader."""
    entry = engine.catalog.get(name)
    if not isinstance(entry, TableEntry):
        view = engine.view(name)
        return view.reader, view.installation.rows()
    words = engine.executor.tables.scan(entry.name)
    reader = Reader(entry.schema.names, entry.schema.types, (), engine.executor.dictionary)
    return reader, (words, np.ones(words.shape[1], np.int64))


def _format_row(table: Table, row: Words) -> str:
    pairs = zip(row[:, 0].tolist(), table.schema.types, strict=True)
    return f"({', '.join(show_word(word, type_, table.dictionary) for word, type_ in pairs)})"


def _conflict(message: str) -> IntegrityError:
    return IntegrityError(message, hint="discard the branch, or take the change back in the trunk")


def _advance_sequences(mine: Engine, theirs: Engine) -> None:
    """Advance the trunk's sequences past the numbers that the branch has used."""
    if mine.used_sequences is not None:
        theirs.sequences.advance_past(mine.sequences)
