"""The coordinator: an executor that keeps tables and the clock here and runs operators at the members.

It checks and rolls back table changes like a single worker. A step sends the net changes to all members,
which process them together. Queries that share nothing with maintained views (over pending changes, or as of
an epoch) run here.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.installation import Installing, Placer
from kpg.runtime.cluster.messages import Changed, Crew, Each, Reply, shortened, texts_of
from kpg.runtime.cluster.remote_load import FarTable, Landings, Shares, told
from kpg.runtime.cluster.shared_memory import CommonDictionary, CommonGroups
from kpg.runtime.dataflow.dataflow_graph import Step
from kpg.runtime.errors import InternalError, ProgrammingError
from kpg.runtime.handles import Installation
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.operators.input import Input
from kpg.runtime.operators.text_exchange import Told
from kpg.runtime.plan import Types
from kpg.runtime.tables.epochs import drain_all
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema
from kpg.runtime.worker.as_of import Remembering, Then
from kpg.runtime.worker.worker import Worker

Words = NDArray[np.int64]


def _unchecked(schema: Schema) -> Schema:
    """The columns, of which members need not check anything."""
    return Schema(tuple(replace(column, nullable=True) for column in schema.columns))


def _one(parts: list[Words]) -> Words:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])


AT_ONCE: Final = 1 << 20
"""So many rows of a table are sent to new members in one message."""


class ThenHere(Then):
    """As of an epoch, of views whose members tell what has changed in them."""

    _worker: "Coordinator"

    def _installed(self, view: str) -> Remembering:
        return self._worker.remote[view]


class Coordinator(Installing):
    """An ``executor.Executor`` whose operators are at the members of a crew."""

    far = True

    def __init__(self, crew: Crew, placer: Placer, merge_effort: int, interrupt: DeferredInterrupt) -> None:
        Worker.__init__(self, merge_effort, interrupt)
        self.crew = crew
        if crew.memory is not None:
            self.dictionary = CommonDictionary(crew.memory)
        self.remote = {}
        self._placer = placer
        self._told = self._nobody_told()
        self._ended = False
        self._input_texts = {}
        self._sizes = {}
        self._positions = 0
        """The highest position of an operator, from which all members go on alike."""
        self._shares = Shares(self.dictionary, crew.count)
        self._homes: dict[str, int] = {}
        """The columns whose words tell which member has a row, of tables whose rows were sent."""
        self._landings = Landings(self)

    @property
    def landing(self) -> Landings | None:
        """See ``executor.Executor``."""
        return self._landings if self.crew.memory is None and self.crew.hosts else None

    # Members that are new

    def _be_there(self) -> None:
        """Start new members if they are gone, and have them be as of the last commit.

        What was captured of views' changes is here: their listeners miss nothing, and hear nothing twice.
        """
        gone = self._gone
        if gone is None:
            return
        if self.inputs or any(remote.has_sinks for remote in self.remote.values()):
            raise gone
        self.crew.again()
        self._gone = None
        self._told = self._nobody_told()
        self._positions = 0
        self._landings.begin()
        try:
            self.inform("start_at", self.epoch)
            for name in self.tables:
                self._tell_table(name)
            for remote in self.remote.values():
                self._put(remote)
                if remote.observed:
                    self.inform("observe", remote.name, True)
            if self._gone is not None:
                raise self._gone
        except BaseException:
            self.crew.close()
            self._gone = gone
            raise

    def _nobody_told(self) -> Told:
        return Told(self.dictionary, self.crew.count, apart=self.crew.memory is None)

    def texts_of(self, types: Types) -> tuple[int, ...]:
        """The columns whose words are others at members."""
        return () if self.crew.memory is not None else texts_of(types)

    def _tell_table(self, name: str) -> None:
        """Have members have a table, with the rows of the last commit."""
        table, point = self.tables[name], self._savepoints[name]
        self.inform("table", name, _unchecked(table.schema), self.table_number(name))
        if isinstance(table.groups, CommonGroups):
            table.groups.tell_all()
            if point.count:
                hidden, _ = table.changed_since(point)
                self.inform("stand", name, point.count, table.live_at(point).shape[0], hidden)
            return
        if isinstance(table, FarTable) and table.blocks and self._landings.send_again(table):
            return
        rowids = table.live_at(point)
        for start in range(0, rowids.shape[0], AT_ONCE):
            some = rowids[start : start + AT_ONCE]
            self.inform("fill", name, *self._shares.fill(table, self.home(name), some))

    def _tell_rows(self, name: str) -> None:
        """Have members that see a table's rows see those of the last commit."""
        table, point = self.tables[name], self._savepoints[name]
        if isinstance(table.groups, CommonGroups):
            hidden, _ = table.changed_since(point)
            self.inform("stand", name, point.count, table.live_at(point).shape[0], hidden)

    def start_at(self, epoch: int) -> None:
        """See ``Worker``."""
        super().start_at(epoch)
        self.inform("start_at", epoch)

    def replayed(self, epoch: int) -> None:
        """See ``executor.Lasting``."""
        super().replayed(epoch)
        self.inform("start_at", epoch)

    # Tables

    def create_table(self, name: str, schema: Schema, number: int | None = None) -> Any:
        """A new table, here and at all members; with the rows that it kept."""
        table = super().create_table(name, schema, number)
        self._tell_table(name)
        return table

    def _new_table(self, name: str, schema: Schema, number: int) -> Table:
        memory = self.crew.memory
        if memory is None:
            far = FarTable(name, schema, self.dictionary, self._interrupt, self._touched)
            far.fetch, far.gone = self._landings.fetch, self._landings.gone
            far.opening = lambda: self.recorder is None and self.vault is not None
            return far
        groups = CommonGroups(len(schema.columns), memory, number)
        return Table(name, schema, self.dictionary, self._interrupt, self._touched, groups)

    def drop_table(self, name: str) -> None:
        """Forget a table that nothing installed reads."""
        table = self.tables[name]
        if isinstance(table, FarTable):
            table.give_up()
        groups = table.groups
        super().drop_table(name)
        self._homes.pop(name, None)
        self.inform("drop_table", name)
        if isinstance(groups, CommonGroups):
            groups.give_up()

    def rename_table(self, old: str, new: str) -> None:
        """Have a table be another name's."""
        super().rename_table(old, new)
        if old in self._homes:
            self._homes[new] = self._homes.pop(old)
        self.inform("rename_table", old, new)

    # What is installed

    def watch(self, installed: Installation) -> None:
        """Start capturing its changes."""
        remote = self.remote[installed.name]
        if not remote.observed:
            self.inform("observe", remote.name, True)
        remote.watched = True

    def unwatch(self, installed: Installation) -> None:
        """Stop capturing its changes, and forget those not drained."""
        remote = self.remote.get(installed.name)
        if remote is not None and remote.watched:
            remote.watched = False
            remote.captured.clear()
            if not remote.observed:
                self.inform("observe", remote.name, False)

    def preview(self, installed: Installation) -> Updates:
        """See ``executor.Executor``."""
        if self._closed:
            raise InternalError("epochs are closed that no step has taken")
        remote = self.remote[installed.name]
        with self._interrupt:
            try:
                drain_all(self._touched, self._open_epoch, self._closed)
                found = self.ask("consider", remote.name, self._changes())
                self._interrupt.check()
            finally:
                self.rollback()
        return remote.merged(found)

    def close(self) -> None:
        """Give everything up."""
        super().close()
        for table in self.tables.values():
            if isinstance(table, FarTable):
                table.give_up()
        self.remote.clear()
        self._ended = True
        self.crew.close()

    def fork(self, interrupt: DeferredInterrupt) -> Worker:
        """A single worker with the tables of this one, which computes what is installed in it."""
        self._have_rows_here()
        other = super().fork(interrupt)
        if self.crew.memory is not None:
            self.crew.memory.pin(other)
        return other

    def _have_rows_here(self) -> None:
        for table in self.tables.values():
            if isinstance(table, FarTable):
                table.come_here()

    def remember(self, installed: Installation) -> None:
        """Keep what changes in an installation from now on, until it is forgotten."""
        remote = self.remote[installed.name]
        if remote.remembers is None:
            if not remote.observed:
                self.inform("observe", remote.name, True)
            remote.remember(self.epoch)

    def forget_past(self, epoch: int) -> None:
        """See ``Worker``."""
        super().forget_past(epoch)
        for remote in self.remote.values():
            remote.forget(epoch)

    def drop_past(self) -> None:
        """See ``Worker``."""
        super().drop_past()
        for remote in self.remote.values():
            remote.remember(None)
            if not remote.observed:
                self.inform("observe", remote.name, False)

    def _as_of(self, epoch: int, *, own: bool) -> Then:
        return ThenHere(self, epoch, own=own)

    def retire(self) -> None:
        """Members keep what closed inputs have made."""

    # Inputs and the clock

    def create_input(self, name: str, width: int) -> Input:
        """A new input; what it brings goes to the members with the step that takes it."""
        made = super().create_input(name, width)
        self.inform("feed", name, width, made.identity)
        return made

    def forget_input(self, identity: str) -> None:
        """Nobody feeds an input any more."""
        super().forget_input(identity)
        self.inform("forget", identity)

    def _take(self, step: Step, epoch: int) -> None:
        self.scope.step = step
        with self._interrupt:
            recorder = self.recorder
            self._look_at_sizes()
            try:
                if recorder is not None:
                    recorder.expect(self._closed)
                self.inputs.release(step.upper)
                fed = self._fed(step)
                news = self.replies("change", step.lower, step.upper, self._changes(), fed)
                self._interrupt.check()
                if recorder is not None:
                    recorder.record(epoch, self._closed)
            except BaseException:
                if recorder is not None:
                    recorder.cancel()
                self._take_back(step)
                raise
            self._make_final(step, epoch, None)
            self._news(news)
            self.tell("settle", epoch)

    def _look_at_sizes(self) -> None:
        """Before a step that gives tables other sizes: what is placed otherwise then takes it so."""
        names = {closed.table for closed in self._closed}
        if self._resized(names):
            rows = sum(change.rowids.shape[0] for closed in self._closed for change in closed.changes)
            self._place_again(rows, names)

    def _take_back(self, step: Step) -> None:
        self.inform("undo")
        self._undo(step)

    def _fed(self, step: Step) -> list[tuple[str, Updates, tuple[int, ...]]]:
        """What inputs have brought."""
        found = []
        while (operator := step.next()) is not None:
            assert isinstance(operator, Input)
            pending = operator.take()
            if pending:
                texts = self._input_texts.get(operator.identity, ())
                found.append((operator.identity, Updates.concat(pending), texts))
        return found

    def _changes(self) -> list[Changed] | Each:
        """What is closed; where members do not see rows, each one's share of them in words."""
        if self.crew.memory is None:
            parts = [told(self, closed, self._shares) for closed in self._closed]
            members = range(self.crew.count)
            return Each(tuple([one for each in parts for one in each[member]] for member in members))
        found = []
        for closed in self._closed:
            table = self.tables[closed.table]
            gone = [change.rowids for change in closed.changes if change.diff < 0]
            came = [change.rowids for change in closed.changes if change.diff > 0]
            rowids, deleted = _one(came), _one(gone)
            if len(came) > 1:
                rowids.sort()
            gone_ones, after = deleted if deleted.shape[0] else None, (table.count, table.rows)
            found.append(Changed(closed.epoch, table.name, gone_ones, shortened(rowids), None, after))
        return found

    def _news(self, replies: list[Reply]) -> None:
        """Keep what has changed in what is watched."""
        for worker, reply in enumerate(replies):
            assert isinstance(reply.value, dict)
            for name, changes in reply.value.items():
                remote = self.remote.get(name)
                if remote is not None and (worker == 0 or not remote.held):
                    remote.fresh += [self.updates(worker, one, remote.texts) for one in changes]
        for remote in self.remote.values():
            remote.gather()

    # Tables' columns

    def home(self, table: str) -> int:
        """The column whose words tell which member has a row of a table."""
        found = self._homes.get(table)
        if found is None:
            found = self._homes[table] = self._placer.home(table)
        return found

    def column(self, table: str, name: str) -> int:
        """The place of a table's column, whose name is in any case."""
        names = [one.lower() for one in self.tables[table].schema.names]
        if name.lower() not in names:
            raise ProgrammingError(f'column "{name}" does not exist')
        return names.index(name.lower())

    def leading_key(self, table: str) -> int:
        """The first column of a table's primary key, or of all."""
        key = self.tables[table].schema.primary_key
        return key[0] if key else 0
