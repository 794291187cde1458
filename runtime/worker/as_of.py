"""AS OF: tables and views at earlier epochs, as far back as their history reaches.

The history of a table is a ``TableHistory`` (``tables/row_groups.py``). That of a view is its changes, in a
``Capture`` (``operators/input.py``). A plan as of an epoch is rendered in a context that reads both,
and
shares no operator with maintained views.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Below, Operator, Place, Scope
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.operators.input import attach_capture
from kpg.runtime.operators.linear import Constant
from kpg.runtime.render.context import Context
from kpg.runtime.tables.table import Table
from kpg.runtime.worker.dataflows import LocalInstallation

if TYPE_CHECKING:
    from kpg.runtime.operators.worker_group import WorkerGroup

Words = NDArray[np.int64]


class ViewHistory(Protocol):
    """History of a view."""

    @property
    def history_since(self) -> int | None:
        """Epoch since which all changes are kept; None if they are not kept."""

    def rows_as_of(self, epoch: int) -> tuple[Words, Words]:
        """Return the rows as of an epoch."""


class AsOfContext:
    """Rendering context for a plan as of an epoch."""

    def __init__(
        self,
        worker: Context,
        epoch: int,
        view_history: Callable[[str], ViewHistory],
        *,
        reads_pending: bool,
    ) -> None:
        """Create a context; with ``reads_pending``, plans also read the pending changes of tables."""
        self.dictionary: Dictionary = worker.dictionary
        self.scope: Scope = worker.scope
        self.merge_effort: int = worker.merge_effort
        self.as_of_epoch: int | None = epoch
        self.is_restoring = False
        self.worker_group: WorkerGroup | None = None
        self.reads_pending = reads_pending
        self._epoch = epoch
        self._worker = worker
        self._view_history = view_history

    def store(self, table: str) -> Table:
        """Return the row store of a table.

        Raises:
            ProgrammingError: If the history of the table does not reach back to the epoch.
        """
        store = self._worker.store(table)
        history = store.history
        if history is None or not (
            history.is_known_at(self._epoch) if self.reads_pending else history.since <= self._epoch
        ):
            raise missing_history_error(table, self._epoch, None if history is None else history.since)
        return store

    def source_identity(self, table: str) -> str:
        """Return the identity of the table in fingerprints."""
        return self._worker.source_identity(table)

    def view_output(self, view: str) -> Operator:
        """Return an operator with the contents of a view as of the epoch.

        Raises:
            ProgrammingError: If the history of the view does not reach back to the epoch.
        """
        installed = self._view_history(view)
        since = installed.history_since
        if since is None or since > self._epoch:
            raise missing_history_error(view, self._epoch, since)
        data, diffs = installed.rows_as_of(self._epoch)
        place = Place("", f"{view} at {self._epoch}", self.next_position(), (), self.scope, data.shape[0])
        contents = Constant(place, data=np.repeat(data, diffs, axis=1))
        contents.is_hydrated = True
        return contents

    def input(self, identity: str) -> Operator:
        """Return the operator of an input."""
        return self._worker.input(identity)

    def next_position(
        self, inputs: Below = (), scope: Scope | None = None, *, at_barrier: bool = False
    ) -> int:
        """Return a position after all existing operators."""
        return self._worker.next_position()


def missing_history_error(name: str, epoch: int, since: int | None) -> ProgrammingError:
    """Return the error for a relation without history at an epoch."""
    if since is None:
        return ProgrammingError(
            f'the past of "{name}" is not kept', hint='enable it with kpg.connect(history="1 hour")'
        )
    return ProgrammingError(
        f'what "{name}" was at epoch {epoch} is not known',
        hint=f"it is there, as it is defined now, since epoch {since}",
    )


def keep_view_changes(view: LocalInstallation, position: int, epoch: int) -> None:
    """Keep the changes of a view after an epoch as its history, by an operator at that position."""
    name = f"Past of {view.name}"
    view.history = attach_capture(name, view.output, position, since=epoch)
