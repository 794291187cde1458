"""The executor of many workers: tables and the clock are here, operators are at the members.

Rows are checked, and rolled back, where they always were; a step sends what has changed to all members, which
take it through everything together. What is isolated from all that is kept up to date (a query over pending
changes, or as of an epoch) is computed here.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.epochs import drain_all
from kpg.runtime.dataflow.step import Step
from kpg.runtime.errors import InternalError, NotSupportedError, ProgrammingError
from kpg.runtime.handles import ArrangementInfo, Installation, OperatorInfo, Work
from kpg.runtime.installed import Installed
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.operators.input import Input
from kpg.runtime.plan import Columns, Import, Plan, Source, user
from kpg.runtime.sharing.strings import Told
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import Schema
from kpg.runtime.worker import Worker
from kpg.runtime.workers.messages import Changed, Command, Crew, Reply, texts_of, with_columns
from kpg.runtime.workers.remote import Remote

Words = NDArray[np.int64]


def _unchecked(schema: Schema) -> Schema:
    """The columns, of which members need not check anything."""
    return Schema(tuple(replace(column, nullable=True) for column in schema.columns))


def _added(infos: Sequence[OperatorInfo]) -> OperatorInfo:
    """One operator at all members."""
    first = infos[0]
    return replace(
        first,
        updates_in=sum(one.updates_in for one in infos),
        updates_out=sum(one.updates_out for one in infos),
        rows=sum(one.rows for one in infos),
        bytes=sum(one.bytes for one in infos),
        seconds=max(one.seconds for one in infos),
        step_seconds=max(one.step_seconds for one in infos),
    )


def _all_of(infos: Sequence[ArrangementInfo]) -> ArrangementInfo:
    return replace(infos[0], rows=sum(one.rows for one in infos), bytes=sum(one.bytes for one in infos))


ONCE: Final = "query "
"""What is installed for one answer is called so."""
FEW: Final = 2000
"""Rows of tables that are looked through here, for one answer, in less time than asking takes."""
Place = Callable[[str, Plan], tuple[Plan, bool]]
"""What makes of a plan one for many workers, and says whether each of them has all rows of its output."""


class Coordinator(Worker):
    """An ``executor.Executor`` whose operators are at the members of a crew."""

    def __init__(self, crew: Crew, place: Place, merge_effort: int, interrupt: DeferredInterrupt) -> None:
        super().__init__(merge_effort, interrupt)
        self.crew = crew
        self.remote: dict[str, Remote] = {}
        self._place = place
        self._told = Told(self.dictionary, crew.count)
        self._ended = False
        self._input_texts: dict[str, tuple[int, ...]] = {}

    # Asking members

    def ask(self, method: str, *args: object) -> list[Any]:
        """What all members answer; of several errors the one that comes first in order of operators."""
        return [reply.value for reply in self.replies(method, *args)]

    def replies(self, method: str, *args: object) -> list[Reply]:
        """As :meth:`ask`, with the strings that came along taken up."""
        if self._ended:
            return []
        command = Command(method, args, self._told.delta())
        replies, stopped = self.crew.call(command, self._interrupt.check)
        for worker, reply in enumerate(replies):
            self._told.hear(worker, reply.delta)
        if stopped is not None:
            raise stopped
        failed = [reply for reply in replies if reply.error is not None]
        if failed:
            own = [reply for reply in failed if not reply.aside] or failed
            error = min(own, key=lambda reply: reply.order).error
            assert error is not None
            raise error
        return replies

    def words(self, worker: int, words: Words, texts: tuple[int, ...]) -> Words:
        """Words of a member as those of the coordinator, in place."""
        for column in texts:
            words[column] = self._told.words(worker, words[column])
        return words

    def updates(self, worker: int, updates: Updates, texts: tuple[int, ...]) -> Updates:
        """Updates of a member in words of the coordinator."""
        columns = {place: self._told.words(worker, updates.data[place]) for place in texts}
        return with_columns(updates, columns) if columns else updates

    # Tables

    def create_table(self, name: str, schema: Schema, number: int | None = None) -> Any:
        """A new table, here and at all members."""
        table = super().create_table(name, schema, number)
        self.ask("table", name, _unchecked(schema), self.table_number(name))
        return table

    def drop_table(self, name: str) -> None:
        """Forget a table that nothing installed reads."""
        super().drop_table(name)
        self.ask("drop_table", name)

    def rename_table(self, old: str, new: str) -> None:
        """Have a table be another name's."""
        super().rename_table(old, new)
        self.ask("rename_table", old, new)

    # Plans

    def install(
        self, name: str, plan: Plan, *, isolated: bool = False, then: int | None = None, own: bool = False
    ) -> Any:
        """See ``executor.Executor``."""
        if isolated or (name.startswith(ONCE) and self._is_small(plan)):
            return super().install(name, plan, isolated=True, then=then, own=own)
        if self.has_pending:
            raise InternalError("a view cannot be installed while changes are pending")
        made, held = self._place(name, plan)
        for node in made.nodes:
            if isinstance(node, user.Input):
                self._input_texts[node.identity] = texts_of(node.types)
        types = Columns(made.nodes).types[made.output]
        remote = self.remote[name] = Remote(self, name, made, texts_of(types), len(types), held)
        try:
            with self._interrupt:
                figures = self.ask("put", name, made)
        except BaseException:
            del self.remote[name]
            raise
        remote.figures = figures
        return remote

    def _is_small(self, plan: Plan) -> bool:
        """Whether a query is answered here sooner than anybody is asked."""
        rows = 0
        for node in plan.nodes:
            if isinstance(node, Import | user.Input | user.Apply | user.UserReduce | user.Custom):
                return False
            if isinstance(node, Source):
                rows += self.count(node.table)
        return rows <= FEW

    def uninstall(self, installed: Installation) -> None:
        """Drop an installation, if it is still there."""
        if isinstance(installed, Installed):
            super().uninstall(installed)
        elif isinstance(installed, Remote) and self.remote.get(installed.name) is installed:
            del self.remote[installed.name]
            self.ask("drop", installed.name)

    def watch(self, installed: Installation) -> None:
        """Start capturing its changes."""
        remote = self.remote[installed.name]
        if not remote.watched:
            self.ask("observe", remote.name, True)
            remote.watched = True

    def unwatch(self, installed: Installation) -> None:
        """Stop capturing its changes, and forget those not drained."""
        remote = self.remote.get(installed.name)
        if remote is not None and remote.watched:
            self.ask("observe", remote.name, False)
            remote.watched = False
            remote.captured.clear()

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
        self.remote.clear()
        self._ended = True
        self.crew.close()

    def fork(self, interrupt: DeferredInterrupt) -> Any:
        """Not there yet."""
        raise NotSupportedError(
            "a branch of a database with several workers is not supported",
            hint="branch one that was made without workers=",
        )

    def remember(self, installed: Installation) -> None:
        """Not there yet."""
        raise NotSupportedError(
            "the past of views is not kept with several workers",
            hint="open the database without workers=, or without history=",
        )

    def retire(self) -> None:
        """Members keep what closed inputs have made."""

    # Inputs and the clock

    def create_input(self, name: str, width: int) -> Input:
        """A new input; what it brings goes to the members with the step that takes it."""
        made = super().create_input(name, width)
        self.ask("feed", name, width, made.identity)
        return made

    def forget_input(self, identity: str) -> None:
        """Nobody feeds an input any more."""
        super().forget_input(identity)
        self.ask("forget", identity)

    def _take(self, step: Step, epoch: int) -> None:
        self.scope.step = step
        with self._interrupt:
            try:
                self.inputs.release(step.upper)
                fed = self._fed(step)
                self.ask("change", step.lower, step.upper, self._changes(), fed)
                self._interrupt.check()
            except BaseException:
                self.ask("undo")
                self._undo(step)
                raise
            self.epoch = epoch
            self._news(self.replies("settle", epoch, True))
            self._commit(step, None)

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

    def _changes(self) -> list[Changed]:
        """What is closed, in words."""
        found = []
        for closed in self._closed:
            table = self.tables[closed.table]
            gone = [change.rowids for change in closed.changes if change.diff < 0]
            came = [change.rowids for change in closed.changes if change.diff > 0]
            rowids = np.sort(np.concatenate(came)) if came else np.empty(0, np.int64)
            deleted = np.concatenate(gone) if gone else np.empty(0, np.int64)
            found.append(Changed(closed.epoch, closed.table, deleted, rowids, table.read(rowids)))
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

    # Profiles

    def operators(self) -> list[OperatorInfo]:
        """Every operator, with the work of all members."""
        return [_added(infos) for infos in zip(*self.ask("operators_here"), strict=True)]

    def work(self) -> list[Work]:
        """What each member keeps and has done."""
        return self.ask("work_here")

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

    def arrangements(self) -> list[ArrangementInfo]:
        """Every index, with the rows of all members."""
        return [_all_of(infos) for infos in zip(*self.ask("arrangements_here"), strict=True)]
