"""AS OF: tables and views at earlier epochs, for as long as their history is kept.

The history of a table is in ``tables/row_groups.py`` (:class:`TablePast`); that of a view is its changes, in
a :class:`Memory`. A plan as of an epoch is rendered in a context that reads both and shares nothing with
maintained operators.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Below, Operator, Place, Scope
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.operators.input import Memory, connected
from kpg.runtime.operators.linear import Constant
from kpg.runtime.render import disconnect
from kpg.runtime.render.context import Context
from kpg.runtime.tables.row_groups import TablePast
from kpg.runtime.tables.table import Closed, Table
from kpg.runtime.worker.dataflows import Installed

if TYPE_CHECKING:
    from kpg.runtime.operators.worker_group import Company

Words = NDArray[np.int64]


class Keeper(Context, Protocol):
    """What the past is kept for: a worker."""

    epoch: int
    remembering: bool
    tables: dict[str, Table]
    views: dict[str, Installed]


class Remembering(Protocol):
    """What a view was."""

    @property
    def remembers(self) -> int | None:
        """The epoch since which its changes are kept; None if they are not."""

    def rows_then(self, epoch: int) -> tuple[Words, Words]:
        """Its rows after an epoch."""


class Then:
    """What rendering needs of a worker, for a plan as of the epoch ``then``."""

    def __init__(self, worker: Keeper, then: int, *, own: bool) -> None:
        """``own``: with the changes of tables that are pending."""
        self.dictionary: Dictionary = worker.dictionary
        self.scope: Scope = worker.scope
        self.merge_effort: int = worker.merge_effort
        self.then: int | None = then
        self.restoring = False
        self.sharing: Company | None = None
        self.own = own
        self._epoch = then
        self._worker = worker

    def store(self, table: str) -> Table:
        """The row store of a table; ProgrammingError if nothing is known of it then."""
        found = self._worker.store(table)
        past = found.past
        if past is None or not (past.tells(self._epoch) if self.own else past.since <= self._epoch):
            raise unknown(table, self._epoch, None if past is None else past.since)
        return found

    def source_identity(self, table: str) -> str:
        """What tells the table from others."""
        return self._worker.source_identity(table)

    def view_output(self, view: str) -> Operator:
        """What gives the contents of a view then."""
        installed = self._installed(view)
        since = installed.remembers
        if since is None or since > self._epoch:
            raise unknown(view, self._epoch, since)
        data, diffs = installed.rows_then(self._epoch)
        place = Place("", f"{view} at {self._epoch}", self.next_position(), (), self.scope, data.shape[0])
        contents = Constant(place, data=np.repeat(data, diffs, axis=1))
        contents.hydrated = True
        return contents

    def _installed(self, view: str) -> "Remembering":
        return self._worker.views[view]

    def input(self, identity: str) -> Operator:
        """The operator of an input, which views stand for."""
        return self._worker.input(identity)

    def next_position(self, inputs: Below = (), scope: Scope | None = None, *, apart: bool = False) -> int:
        """A position after all operators there are."""
        return self._worker.next_position()


def unknown(name: str, epoch: int, since: int | None) -> ProgrammingError:
    """That nothing is known of a relation at an epoch."""
    if since is None:
        return ProgrammingError(
            f'the past of "{name}" is not kept', hint='kpg.connect(history="1 hour") keeps it'
        )
    return ProgrammingError(
        f'what "{name}" was at epoch {epoch} is not known',
        hint=f"it is there, as it is defined now, since epoch {since}",
    )


def begin(table: Table, epoch: int) -> None:
    """Keep what a table is, from the end of an epoch on."""
    if table.past is None:
        table.past = TablePast(epoch)
        table.past.count = table.count


def remember(worker: Keeper, view: Installed) -> None:
    """Keep what a view is, from now on."""
    if view.past is None:
        name, position = f"Past of {view.name}", worker.next_position()
        view.past = connected(Memory, name, view.output, position, since=worker.epoch)


def note(worker: Keeper, closed: Sequence[Closed]) -> None:
    """Remember what a step has changed in tables, before it is made final."""
    for one in closed:
        table = worker.tables[one.table]
        if table.past is not None:
            came = [change.rowids for change in one.changes if change.diff > 0]
            went = [change.rowids for change in one.changes if change.diff < 0]
            nothing = np.empty(0, np.int64)
            table.past.note(one.epoch, np.concatenate([nothing, *came]), np.concatenate([nothing, *went]))


def forget(worker: Keeper, epoch: int) -> None:
    """Forget what was before an epoch."""
    for table in worker.tables.values():
        table.forget(epoch)
    for view in worker.views.values():
        if view.past is not None:
            view.past.forget(epoch)


def drop(worker: Keeper) -> None:
    """Forget everything, and keep nothing any more."""
    worker.remembering = False
    for table in worker.tables.values():
        table.forget(worker.epoch)
        table.past = None
    for view in worker.views.values():
        if view.past is not None:
            disconnect((view.past,))
            view.past = None


def changed(table: Table, since: int) -> tuple[Words, Words]:
    """Rowids of rows that were there after an epoch and are gone, and of those that came since."""
    assert table.past is not None
    count, gone = table.past.at(since)
    return np.concatenate([np.empty(0, np.int64), *gone]), table.groups.live(count, table.count)
