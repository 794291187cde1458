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
from kpg.api.view import Maintained
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.execute.changes.source_positions import TABLE as POSITIONS
from kpg.execute.changes.source_positions import table_of
from kpg.execute.queries.result_rows import Reader
from kpg.execute.statements import provide_statements
from kpg.runtime.convert.python_values import show
from kpg.runtime.errors import IntegrityError, InterfaceError, NotSupportedError, ProgrammingError
from kpg.runtime.plan import Import, Plan
from kpg.runtime.plan.user import Input
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates
from kpg.session.base_table import Table
from kpg.session.engine import Engine
from kpg.session.subscriptions import Feed
from kpg.session.time_travel import Past, Retention

Words = NDArray[np.int64]
ALL = Retention(1 << 60, None)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a branch has changed in a table: rowids of rows that are gone, and the rows that came."""

    name: str
    gone: Words
    came: Words


class Fork:
    """Where a branch began: the definitions and the epoch of its trunk, and the branch's own engine."""

    def __init__(self, trunk: Engine) -> None:
        """InterfaceError within a transaction; NotSupportedError if there is what has no branches."""
        if not trunk.transactions.idle or trunk.executor.has_pending:
            raise InterfaceError("a branch begins outside of transactions", hint="commit first")
        self.engine = forked(trunk)
        self._began = self.engine.catalog.copy()
        self._epoch = trunk.executor.epoch

    def diff(self, trunk: Engine, name: str) -> list[tuple[Row, int]]:
        """In what a relation differs from the trunk's: rows, and how often more they occur."""
        for engine in (self.engine, trunk):
            if not engine.transactions.idle:
                raise InterfaceError("a branch is compared outside of transactions", hint="commit first")
        reader, (data, counts) = _contents(self.engine, name)
        other, (before, counted) = _contents(trunk, name)
        if reader.types != other.types:
            raise ProgrammingError(f"the columns of {name} in the branch are not those in the trunk")
        parts = [Updates.of(data, (0,), counts), Updates.of(before, (0,), -counted)]
        return [(row, diff) for row, _, diff in reader.changes(parts)]

    def changed(self) -> dict[str, tuple[int, int]]:
        """How many rows of each table have come and gone since the branch began, if any have."""
        return _counts(changes(self.engine, self._epoch))

    def merge(self, trunk: Engine) -> dict[str, tuple[int, int]]:
        """Change the trunk's tables as the branch's have, in one commit: how many rows came and went."""
        mine, theirs = self.engine, trunk
        if not mine.transactions.idle or not theirs.transactions.idle:
            raise InterfaceError("a branch is merged outside of transactions", hint="commit first")
        _check_definitions(self._began, mine.catalog)
        found = changes(mine, self._epoch)
        targets = [(one, _target(mine, theirs, one.name)) for one in found]
        with theirs.transactions.statement(changes=True):
            merged = [(one, table, Replaced.of(one, table, mine, theirs)) for one, table in targets]
            for _, table, rows in merged:
                table.delete(rows.gone)
            for _, table, rows in merged:
                if rows.updated.shape[0]:
                    table.update(rows.updated, rows.updates)
                table.insert(rows.came)
        _advance_sequences(mine, theirs)
        return _counts(found)


def _counts(found: list[Changed]) -> dict[str, tuple[int, int]]:
    return {one.name: (one.came.shape[1], one.gone.shape[0]) for one in found}


def _check_definitions(began: Catalog, catalog: Catalog) -> None:
    before = {entry.name: entry for entry in began}
    now = {entry.name: entry for entry in catalog}
    for name in before.keys() | now.keys():
        if before.get(name) is not now.get(name) and name != POSITIONS:
            raise NotSupportedError(
                f'definitions are not merged, and the branch has changed "{name}"',
                hint="define it in the trunk, and merge a branch that begins after that",
            )


@dataclass(frozen=True, slots=True)
class Replaced:
    """What to change in the trunk's table: rows that go, rows in the place of others, and rows that come."""

    gone: Words
    updated: Words
    updates: Words
    came: Words

    @classmethod
    def of(cls, one: Changed, table: Table, mine: Engine, theirs: Engine) -> "Replaced":
        """IntegrityError if the trunk has changed one of the rows too."""
        live = np.isin(one.gone, theirs.executor.live(table.name, one.gone))
        if not live.all():
            row = mine.executor.fetch(one.name, one.gone[~live][:1])
            raise _conflict(f"row {_shown(table, row)} of table {table.name} was changed in the trunk too")
        nothing = np.empty(0, np.int64)
        if not table.schema.primary_key:
            return cls(one.gone, nothing, one.came[:, :0], one.came)
        keys = np.ascontiguousarray(one.came[list(table.schema.primary_key)])
        there = table.find(keys)
        ours = np.isin(there, one.gone)
        if (taken := (there >= 0) & ~ours).any():
            row = np.ascontiguousarray(one.came[:, taken][:, :1])
            raise _conflict(
                f"a row with the key of {_shown(table, row)} came to table {table.name} in the trunk too"
            )
        updates = np.ascontiguousarray(one.came[:, ours])
        came = np.ascontiguousarray(one.came[:, ~ours])
        return cls(one.gone[~np.isin(one.gone, there)], there[ours], updates, came)


def forked(engine: Engine) -> Engine:
    """An engine with all that another one has, that goes on by itself."""
    for name, maintained in engine.views.items():
        plan = _plan_of(engine, maintained)
        if any(isinstance(node, Input) for node in plan.nodes):
            raise NotSupportedError(
                f'a branch with a view over inputs of a dataflow, such as "{name}", is not supported',
                hint="drop the dataflow first",
            )
    made = Engine(trunk=engine)
    provide_statements(made)
    made.tables.attached |= engine.tables.attached
    made.views.followed |= engine.views.followed
    made.views.reads.update(engine.views.reads)
    made.settings.update(engine.settings)
    made.prepared.update(engine.prepared)
    made.functions_given.update(engine.functions_given)
    made.clock.follow(engine.clock)
    for entry in made.catalog:
        if isinstance(entry, TableEntry):
            made.tables.register(entry.name, entry.schema)
    made.past = Past(made, ALL)
    if engine.past is not None:
        made.past.follow(engine.past)
    for maintained in _in_order(engine):
        _install(made, engine, maintained)
    for name in engine.tables.indexes:
        made.tables.keep_index(name, engine.views.plans[f"index {name}"])
    made.executor.complete()
    if engine.used_sequences is not None:
        made.sequences.follow(engine.sequences)
    if any(isinstance(one, TableEntry) and one.constraints.guarded for one in made.catalog):
        made.tables.refresh_rules()
    return made


def _plan_of(engine: Engine, maintained: Maintained) -> Plan:
    plan = engine.views.plans.get(maintained.name, maintained.plan)
    assert plan is not None
    return plan


def _in_order(engine: Engine) -> Iterator[Maintained]:
    """The maintained views, those first that others read."""
    done: set[str] = set()

    def visit(maintained: Maintained) -> Iterator[Maintained]:
        if maintained.name in done:
            return
        done.add(maintained.name)
        for node in _plan_of(engine, maintained).nodes:
            if isinstance(node, Import) and node.view in engine.views:
                yield from visit(engine.views[node.view])
        yield maintained

    for maintained in engine.views.values():
        yield from visit(maintained)


def _install(made: Engine, engine: Engine, view: Maintained) -> None:
    plan = _plan_of(engine, view)
    installed = made.executor.install(view.name, plan)
    assert made.past is not None
    made.past.remember(installed)
    reader = replace(view.reader, dictionary=made.executor.dictionary)
    feed = Feed(made.monitor, made.executor, installed, reader, made.past)
    maintained = Maintained(view.name, view.sql, installed, reader, feed, view.plan)
    made.views.adopt(maintained, engine.views.plan_of(view.name))


def changes(engine: Engine, since: int) -> list[Changed]:
    """What has changed in the tables of an engine after an epoch, without what was undone since."""
    found = []
    for entry in engine.catalog:
        if isinstance(entry, TableEntry) and entry.name not in engine.tables.attached:
            gone, came = engine.executor.changed(entry.name, since)
            if gone.shape[0] or came.shape[0]:
                found.append(Changed(entry.name, gone, engine.executor.fetch(entry.name, came)))
    return found


def _target(mine: Engine, theirs: Engine, name: str) -> Table:
    """The trunk's table that a branch's was; ProgrammingError if it is no more, or another."""
    if name == POSITIONS:
        return table_of(theirs)
    number = mine.executor.table_number(name)
    for entry in theirs.catalog:
        if isinstance(entry, TableEntry) and theirs.executor.table_number(entry.name) == number:
            return theirs.table(entry.name)
    raise ProgrammingError(
        f"table {name}, which the branch has changed, was dropped or altered in the trunk",
        hint="discard the branch",
    )


def _contents(engine: Engine, name: str) -> tuple[Reader, tuple[Words, Words]]:
    """All rows of a table or of a maintained view, and how to read them."""
    entry = engine.catalog.get(name)
    if not isinstance(entry, TableEntry):
        view = engine.view(name)
        return view.reader, view.installed.rows()
    words = engine.executor.scan(entry.name)
    reader = Reader(entry.schema.names, entry.schema.types, (), engine.executor.dictionary)
    return reader, (words, np.ones(words.shape[1], np.int64))


def _shown(table: Table, row: Words) -> str:
    pairs = zip(row[:, 0].tolist(), table.schema.types, strict=True)
    return f"({', '.join(show(word, type_, table.dictionary) for word, type_ in pairs)})"


def _conflict(message: str) -> IntegrityError:
    return IntegrityError(message, hint="discard the branch, or take the change back in the trunk")


def _advance_sequences(mine: Engine, theirs: Engine) -> None:
    """Have sequences of the trunk go on behind numbers that the branch has given."""
    if mine.used_sequences is not None:
        theirs.sequences.pass_by(mine.sequences)
