"""The engine's part that keeps it in a folder, and has it be what it was."""

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.catalog.entries import TableEntry, ViewEntry
from kpg.engine.following import Following
from kpg.engine.table import Table
from kpg.listeners.feed import Feed
from kpg.queries.reading import Reader
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.plan import Plan
from kpg.view import Maintained

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kpg.engine.row_locks import RowLocks
    from kpg.listeners.channels import Channels
    from kpg.listeners.notices import Notice


class Keeper(Protocol):
    """Who keeps what is committed in a folder."""

    moment: tuple[int, int]
    """The epoch that was recorded last, and when that was."""

    @property
    def where(self) -> str:
        """The folder."""

    @property
    def refuses(self) -> str | None:
        """Why no more changes are taken, if so."""

    def hold(self) -> bool:
        """Have all steps be one commit from now on; whether they were not already."""

    def release(self) -> None:
        """Keep that commit."""

    def tend(self) -> None:
        """Between commits: do what is to be done now and then."""

    def checkpoint(self) -> None:
        """Have opening begin with what there is now."""

    def close(self) -> None:
        """Keep what there is, and let others have the folder."""


class Kept(Following):
    """See the module."""

    keeper: Keeper | None
    notices: "list[Notice]"
    """What statements have to say beside their results, until somebody takes it."""
    at_commit: dict[str, str]
    """DROP, or DELETE ROWS, by the names of temporary tables."""

    _closing: set[str]

    def settle(self, *, committing: bool) -> None:
        """Have foreign keys hold after changes: all of them when committing, else those not deferred."""
        if committing and self.at_commit:
            from kpg.ddl.temporary import tidy

            tidy(self)  # type: ignore[arg-type]
        if "references" in self.__dict__:
            self.references.settle(committing=committing)
            if committing:
                self.references.defer(set(), deferred=False)
        if committing and self.keeping:
            self.check_views()

    def check_views(self) -> None:
        """Compute the views that the commit is to install: an error refuses the commit."""
        raise NotImplementedError

    def step(self) -> None:
        """Take all pending changes through everything."""
        raise NotImplementedError

    def close_epochs(
        self, table: str, counts: Sequence[int], gone: "NDArray[np.int64] | None" = None
    ) -> None:
        """End an epoch for each count of rows that a table was given last, and row that is gone from it.

        Nothing else is pending.
        """
        self._closing.add(table)
        self.executor.close_epochs(table, counts, gone)

    @cached_property
    def channels(self) -> "Channels":
        """What sessions tell each other by."""
        from kpg.listeners.channels import Channels

        return Channels()

    @cached_property
    def locks(self) -> "RowLocks":
        """The locks of sessions."""
        from kpg.engine.row_locks import RowLocks

        return RowLocks(self)

    def keep(self, undo: Callable[[], object] = lambda: None) -> None:
        """Have what has been defined outside of statements be there when the database is opened again.

        If that fails, ``undo`` has it be undone.
        """
        if self.keeper is not None and self.transactions.idle:
            try:
                self.step()
            except BaseException:
                undo()
                raise

    def refuse_to_keep(self, what: str, why: str) -> None:
        """Raise NotSupportedError if the database is in a folder."""
        if self.keeper is not None:
            raise NotSupportedError(
                f"{what} in a durable database is not supported: {why}",
                hint="make it in a database in memory, kpg.connect(), or say it in SQL or Datalog",
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have what the block does be one commit. In a folder Ctrl-C waits for a safe point, or the end."""
        if self.keeper is None:
            yield
            return
        with self._interrupt:
            outermost = self.keeper.hold()
            try:
                yield
            finally:
                if outermost:
                    self.keeper.release()

    def used(self) -> frozenset[str]:
        """Everything that something uses."""
        return frozenset().union(*self._uses.values())

    def used_by(self, name: str) -> frozenset[str]:
        """What a view uses."""
        return self._uses.get(name, frozenset())

    def plan_of(self, name: str) -> Plan | None:
        """The plan by which a view is kept."""
        return self._plans.get(name)

    def adopt_table(self, entry: TableEntry) -> None:
        """Have a table that has its rows again be as it was."""
        self._add_keys(entry.name, entry.schema, entry.constraints)
        self._tables[entry.name] = Table(self.executor, entry.name, entry.schema, self.watching)

    def restore_view(
        self, entry: ViewEntry, uses: frozenset[str], kept: tuple[Any, ...] | None, *, followed: bool
    ) -> None:
        """Have a view be as it was; ``kept`` is its plan, and its columns' names, types and order."""
        if kept is not None and entry.rel is not None and not entry.materialized:
            # Records of earlier versions say that one made in a transaction is not materialized.
            hidden = len(rel_types(entry.rel)) > len(entry.schema.columns)
            entry = replace(entry, materialized=not hidden)
        self.catalog.add(entry)
        self._uses[entry.name] = uses
        if followed:
            self.followed.add(entry.name)
        if kept is None:
            return
        assert entry.rel is not None
        plan, names, types, order = kept or (None, entry.schema.names, rel_types(entry.rel), entry.order)
        reader = Reader(names, types, order, self.executor.dictionary)
        if plan is None or self.statistics.early:
            # Who has no memory in common reads columns elsewhere than the plan of who wrote the folder.
            plan = self._planned_again(entry, reader, plan).plan
        with self._interrupt:
            installed = self.executor.install(entry.name, plan)
            self._plans[entry.name] = plan
            feed = Feed(self.monitor, self.executor, installed, reader, self.past)
            if self.past is not None:
                self.past.remember(installed)
            self.views[entry.name] = Maintained(entry.name, entry.sql, installed, reader, feed)


def importable(function: Any) -> str | None:
    """Where another process finds a function, ``module:name``; None if it is nowhere."""
    if not isinstance(function, types.FunctionType | types.BuiltinFunctionType | type):
        function = type(function) if hasattr(function, "initialize") else None
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    if module is None or module == "__main__" or "<" in name:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is function else None
