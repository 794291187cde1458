"""The part of a worker that knows what of its tables is not final yet, and takes it back.

Only tables that something has happened to are looked at: a statement costs nothing for all others.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.tables.epochs import changed_since, drain_all
from kpg.runtime.tables.table import Closed, Savepoint, Table

Words = NDArray[np.int64]


class Undoing:
    """See the module."""

    tables: dict[str, Table]
    epoch: int
    _interrupt: DeferredInterrupt
    _open_epoch: int
    _closed: list[Closed]
    _savepoints: dict[str, Savepoint]
    """What the last step that changed them has left of tables."""
    _touched: dict[Table, None]
    _unsettled: dict[Table, None]
    """Those that were drained, and of which what has happened is not final."""

    def savepoint(self) -> object:
        """The present state of all tables."""
        return {table: table.savepoint() for table in self._moving()}

    def _moving(self) -> list[Table]:
        """The tables to which something may have happened since a step; all others are as it left them."""
        return list(self._unsettled | self._touched)

    def rollback_to(self, savepoint: object) -> None:
        """Throw away what has changed since a savepoint that is from after the last step."""
        assert isinstance(savepoint, dict)
        with self._interrupt:
            for table in self._moving():
                table.rollback(savepoint.get(table) or self._savepoints[table.name])

    def changing(self) -> list[str]:
        """The tables that may have changes which no epoch has taken."""
        return [table.name for table in self._touched if table.has_pending]

    def changed_since(self, savepoint: object) -> list[tuple[str, Words, Words, Words]]:
        """Of each table that has changed since a savepoint, or the last step, rowids that went and came."""
        points: Any = savepoint or {}
        return changed_since(
            (table, points.get(table) or self._savepoints[table.name]) for table in self._moving()
        )

    @property
    def has_pending(self) -> bool:
        """Whether some table has changes that no step has taken."""
        return bool(self._closed) or any(table.pending for table in self._touched)

    def rollback(self) -> None:
        """Throw away every change that no step has taken."""
        with self._interrupt:
            for table in self._moving():
                table.rollback(self._savepoints[table.name])
            self._closed.clear()
            self._open_epoch = self.epoch + 1

    def _drain(self) -> bool:
        self._unsettled.update(self._touched)
        return drain_all(self._touched, self._open_epoch, self._closed)

    def _settle_all(self) -> None:
        """Make final what came and went in commits that changed nothing of a table in the end."""
        if not self.has_pending:
            self._settle([table.name for table in self._moving()])

    def _settle(self, names: Iterable[str]) -> None:
        """Make what has happened to tables final."""
        for name in names:
            table = self.tables[name]
            table.commit()
            self._savepoints[name] = table.savepoint()
            self._unsettled.pop(table, None)
