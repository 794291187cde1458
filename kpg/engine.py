"""One database from inside: the executor, the catalog, and the views that are kept up to date.

The statements and the public API are thin layers over this. Invariant: the catalog's tables are among the
executor's tables, and its materialized views are ``views``.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.algebra.rel import Get, Rel
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.catalog import Catalog, TableEntry, ViewEntry
from kpg.feed import Feed
from kpg.notifications import Notification, Notifications
from kpg.planning import LiveStatistics, Planned
from kpg.result import Result
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.executor import Installation
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.local import local_executor
from kpg.runtime.plan import Plan
from kpg.runtime.types import Schema
from kpg.table import Table
from kpg.transaction import Transactions
from kpg.view import Maintained

Words = NDArray[np.int64]


class Client(Protocol):
    """A dataflow, as the engine sees it."""

    def pull(self) -> None:
        """Bring what is new into the inputs, before a step."""

    def notifications(self) -> Iterator[Notification]:
        """Whom to tell of a commit."""

    def retire(self) -> None:
        """Give up what can never change again, of which everybody has been told."""

    def drop(self) -> None:
        """Give everything up."""


class Engine:
    """Tables, views, transactions; Ctrl-C never leaves it half changed. For one thread only."""

    def __init__(self, merge_effort: str = "default") -> None:
        self._interrupt = DeferredInterrupt()
        self.executor = local_executor(merge_effort, self._interrupt)
        self.catalog = Catalog()
        self.views: dict[str, Maintained] = {}
        self._plans: dict[str, Plan] = {}
        self.statistics = LiveStatistics(self.executor, self._plans)
        self.notifications = Notifications()
        self.transactions = Transactions(self, self.notifications.deliver)
        self._tables: dict[str, Table] = {}
        self._uses: dict[str, frozenset[str]] = {}
        self._queries = 0
        self.dataflows: dict[str, Client] = {}
        self.dataflows_made = 0
        self.attached: set[str] = set()
        """Tables of rows from outside."""
        self.closed = False

    def close(self) -> None:
        """Give up all views, once and for all."""
        self.closed = True
        self.executor.close()

    def table(self, name: str) -> Table:
        """A base table, by name in any case."""
        table = self._tables.get(name)
        return self._tables[self.catalog.table(name).name] if table is None else table

    def find_table(self, name: str) -> Table | None:
        """The base table of that name, in exactly these letters, if there is one."""
        return self._tables.get(name)

    def view(self, name: str) -> Maintained:
        """A maintained view, by name in any case; ProgrammingError if it is none."""
        entry = self.catalog.get(name)
        maintained = self.views.get(entry.name)
        if maintained is None:
            what = "a table" if isinstance(entry, TableEntry) else "not materialized"
            raise ProgrammingError(
                f'"{entry.name}" is {what}', hint="only what CREATE MATERIALIZED VIEW made is kept up to date"
            )
        return maintained

    def refuse_in_transaction(self, what: str) -> None:
        """Raise unless the catalog may change now."""
        self.transactions.check()
        if not self.transactions.idle:
            raise NotSupportedError(
                f"{what} inside a transaction is not supported", hint="run it before or after the transaction"
            )

    def create_table(self, name: str, schema: Schema) -> None:
        """Add an empty table."""
        self.refuse_in_transaction("CREATE TABLE")
        with self._interrupt:
            self.catalog.add(TableEntry(name, schema))
            try:
                self.executor.create_table(name, schema)
            except BaseException:
                self.catalog.remove(name)
                raise
            self._tables[name] = Table(self.executor, name, schema)

    def attach_table(self, name: str, schema: Schema) -> str:
        """Add an empty table for rows from outside, in a transaction too; the name that it gets.

        It lives until :meth:`release_attached` finds that nothing uses it.
        """
        taken = (f"{name} ({number})" if number else name for number in count())
        name = next(free for free in taken if free not in self.catalog)
        with self._interrupt:
            self.attached.add(name)
            self.catalog.add(TableEntry(name, schema))
            self.executor.create_table(name, schema)
            self._tables[name] = Table(self.executor, name, schema)
        return name

    def release_attached(self) -> None:
        """Drop the tables of rows from outside that no view uses."""
        if self.attached and not self.closed:
            used = frozenset().union(*self._uses.values())
            for name in self.attached.difference(used):
                self.drop(name)

    def create_view(self, entry: ViewEntry, uses: frozenset[str], *, replace_old: bool) -> None:
        """Add a view that is not kept, but expanded where it is used."""
        self.refuse_in_transaction("CREATE VIEW")
        old = self._replaced(entry.name, uses, replace_old)
        with self._interrupt:
            self.catalog.add(entry, replace=replace_old)
            if old is not None:
                self._forget(old)
            self._uses[entry.name] = uses

    def create_materialized_view(
        self, entry: ViewEntry, planned: Planned, uses: frozenset[str], *, replace_old: bool
    ) -> Maintained:
        """Install a view and keep it up to date from now on; if that fails, nothing has changed."""
        self.refuse_in_transaction("CREATE MATERIALIZED VIEW")
        old = self._replaced(entry.name, uses, replace_old)
        if old is None and entry.name in self.catalog:
            self.catalog.add(entry)
        with self._interrupt:
            installed = self._install(entry.name, planned, old)
            return self._keep(entry, planned, uses, installed)

    def materialize(self, entry: ViewEntry, planned: Planned, uses: frozenset[str]) -> Maintained:
        """Keep a view up to date that was expanded where it is used; those who use it stay as they are."""
        self.refuse_in_transaction("materializing a view")
        with self._interrupt:
            return self._keep(entry, planned, uses, self.executor.install(entry.name, planned.plan))

    def _keep(
        self, entry: ViewEntry, planned: Planned, uses: frozenset[str], installed: Installation
    ) -> Maintained:
        self.catalog.add(entry, replace=True)
        self._uses[entry.name] = uses
        self._plans[entry.name] = planned.plan
        reader = planned.reader(self.executor.dictionary)
        feed = Feed(self.executor, installed, reader)
        self.views[entry.name] = Maintained(entry.name, entry.sql, installed, reader, feed)
        return self.views[entry.name]

    # Steps: what has been committed is told, also where Ctrl-C comes in between

    def step(self) -> None:
        """Take all pending changes through everything, and queue whom to tell of it; all or nothing."""
        self._stepped(self.executor.step)

    def close_epoch(self) -> None:
        """End a logical epoch without a step."""
        self.executor.close_epoch()

    def rollback(self) -> None:
        """Throw away what is pending."""
        self.executor.rollback()

    def advance(self) -> None:
        """Take what inputs hold through everything, as far as all of them have advanced."""
        self.refuse_in_transaction("a step")
        for client in list(self.dataflows.values()):
            client.pull()
        self._stepped(self.executor.advance)
        self.notifications.deliver()

    def _stepped(self, step: Callable[[], object]) -> None:
        try:
            with self._interrupt:
                step()
                self.notifications.add(self._news())
        except BaseException:
            self.notifications.deliver()
            raise

    def note_uses(self, label: str, uses: frozenset[str]) -> None:
        """Keep what a dataflow reads from being dropped."""
        self._uses[label] = uses

    def forget_dataflow(self, label: str) -> None:
        """A dataflow is gone."""
        self._uses.pop(label, None)
        self.dataflows.pop(label, None)

    def dependents(self, name: str) -> list[str]:
        """The views that use a relation, directly or through others, those that others use first."""
        found: set[str] = set()
        pending = [name]
        while pending:
            one = pending.pop()
            users = [view for view, used in self._uses.items() if one in used and view not in found]
            found.update(users)
            pending += users
        return [view for view in self._uses if view in found]

    def drop(self, name: str) -> None:
        """Forget a relation that nothing uses, and of a view the rows from outside that only it used."""
        if name in self.dataflows:
            self.dataflows[name].drop()
            return
        with self._interrupt:
            entry = self.catalog.remove(name)
            if isinstance(entry, TableEntry):
                self.executor.drop_table(entry.name)
                del self._tables[entry.name]
                self.attached.discard(name)
            else:
                self._forget(entry)
        if self.attached and isinstance(entry, ViewEntry):
            self.release_attached()

    def run(self, planned: Planned) -> tuple[Words, Words]:
        """The rows and multiplicities of a query, by a dataflow that lives only now.

        It shares the arrangements there are; while changes are pending it sees the tables with those changes,
        which takes a computation of its own.
        """
        return self._run(planned, isolated=self.executor.has_pending)

    def recompute(self, planned: Planned) -> tuple[Words, Words]:
        """As :meth:`run`, sharing nothing."""
        return self._run(planned, isolated=True)

    def select(self, planned: Planned) -> Result:
        """The result of a one-off query."""
        return planned.reader(self.executor.dictionary).result(*self.run(planned))

    @property
    def reading_catalog(self) -> Catalog:
        """The catalog for a one-off query.

        While changes are pending, maintained views lag behind the tables: queries then use their definitions.
        """
        return self.expanded_catalog() if self.executor.has_pending else self.catalog

    def expanded_catalog(self) -> Catalog:
        """The catalog with every view to be expanded where it is used, inside other views too."""

        def written_out(node: Rel) -> Rel:
            view = None if not isinstance(node, Get) or node.is_table else self.catalog.get(node.name)
            rel = view.rel if isinstance(view, ViewEntry) else None
            return node if rel is None else transform_up(rel, written_out)

        def expanded(entry: ViewEntry) -> Rel:
            assert entry.rel is not None
            return transform_up(entry.rel, written_out)

        catalog = Catalog(functions=self.catalog.functions)
        for entry in self.catalog:
            if isinstance(entry, ViewEntry) and entry.definition is not None:
                entry = replace(entry, definition=cache(partial(expanded, entry)), materialized=False)
            catalog.add(entry)
        return catalog

    def _run(self, planned: Planned, isolated: bool) -> tuple[Words, Words]:
        self._queries += 1
        with self._interrupt:
            installed = self.executor.install(f"query {self._queries}", planned.plan, isolated=isolated)
            try:
                return installed.rows()
            finally:
                self.executor.uninstall(installed)

    def _replaced(self, name: str, uses: frozenset[str], replace_old: bool) -> ViewEntry | None:
        """The view that a new one of this name takes the place of; nobody may use it."""
        old = self.catalog.find(name)
        if not replace_old or not isinstance(old, ViewEntry):
            return None
        if old.name in uses:
            raise ProgrammingError(f'view "{old.name}" cannot be replaced by a query over itself')
        users = self.dependents(old.name)
        if users:
            raise ProgrammingError(
                f'view "{old.name}" cannot be replaced: "{users[0]}" uses it', hint=f'drop "{users[0]}" first'
            )
        return old

    def _install(self, name: str, planned: Planned, old: ViewEntry | None) -> Installation:
        if old is None:
            return self.executor.install(name, planned.plan)
        # First under another name: if it fails the old view is still there, and if not, it is shared.
        stand_in = self.executor.install(f"{name} (new)", planned.plan)
        self._forget(old)
        installed = self.executor.install(name, planned.plan)
        self.executor.uninstall(stand_in)
        return installed

    def _forget(self, entry: ViewEntry) -> None:
        self._uses.pop(entry.name, None)
        self._plans.pop(entry.name, None)
        maintained = self.views.pop(entry.name, None)
        if maintained is not None:
            maintained.live = False
            self.executor.uninstall(maintained.installed)

    def _news(self) -> Iterator[tuple[str, Notification]]:
        """Whom to tell of a commit."""
        for view in list(self.views.values()):
            if view.feed.is_heard():
                for subscription, changes in view.feed.distribute():
                    yield f"a subscriber of view {view.name}", partial(subscription.tell, changes)
        for label, client in list(self.dataflows.items()):
            yield from ((f"a callback of {label}", one) for one in client.notifications())
        self.retire()

    def retire(self) -> None:
        """Free what closed inputs can never change again, once they have brought everything."""
        if self.executor.inputs_ended():
            for client in list(self.dataflows.values()):
                client.retire()
            self.executor.retire()

    def tell(self, label: str, notifications: Iterable[Notification]) -> None:
        """Tell a new listener of a dataflow what is there."""
        try:
            with self._interrupt:
                self.notifications.add((f"a callback of {label}", one) for one in notifications)
        finally:
            self.notifications.deliver()
