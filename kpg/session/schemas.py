"""The part of the engine that creates and drops tables and views.

Invariant: the catalog's tables are a subset of the executor's.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpg.api.view import Maintained
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.catalog.constraints import Constraints
from kpg.compiler.catalog.constraints import Sequence as Numbers
from kpg.compiler.catalog.entries import NO_CONSTRAINTS, Catalog, TableEntry, ViewEntry
from kpg.compiler.catalog.privileges import FIRST
from kpg.compiler.catalog.routines import ArrayFold
from kpg.compiler.qualified_names import Resolved, untaken
from kpg.execute.queries.query_plan import LiveStatistics, Planned, plan_view_entry
from kpg.execute.queries.result_rows import Folds, Reader
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.executor import Executor
from kpg.runtime.handles import Installation
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.monitor import Monitor
from kpg.runtime.plan import Plan
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Named
from kpg.runtime.types import Schema
from kpg.session.base_table import Table, Watch
from kpg.session.subscriptions import Feed
from kpg.session.transaction import Transactions
from kpg.session.undo import Journal

if TYPE_CHECKING:
    from kpg.execute.changes.defaults import Sequences
    from kpg.execute.changes.foreign_keys import References
    from kpg.runtime.functions.user_functions import Own
    from kpg.session.time_travel import Past

Words = NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Keeping:
    """A view that a commit installs: whether its entry is ``materialized`` then, and what installs it.

    ``computed`` is the :meth:`Schemas.row_state` in which its rows have been computed without an error.
    """

    materialized: bool
    install: Callable[[], None]
    computed: object = None


class Schemas:
    """What there is by name. Invariant: the catalog's tables are among the executor's."""

    executor: Executor
    monitor: Monitor
    catalog: Catalog
    views: dict[str, Maintained]
    transactions: Transactions
    journal: Journal
    attached: set[str]
    waiting_goals: dict[str, Any]
    closed: bool
    past: "Past | None"
    _interrupt: DeferredInterrupt
    _plans: dict[str, Plan]
    _tables: dict[str, Table]
    watching: list[Watch]
    _uses: dict[str, frozenset[str]]
    statistics: LiveStatistics
    followed: set[str]
    """Views whose texts alone do not say what they are: tables have changed below, or a style was set."""
    functions_given: dict[str, Any]
    """What users' functions are made of, by their names in lower case."""
    keeping: dict[str, "Keeping"]
    """The views that the commit of the open transaction installs, by name."""
    _aside: "count[int]"

    @property
    def settings(self) -> dict[str, str]:
        """What the session has set."""
        return self.catalog.settings

    @settings.setter
    def settings(self, settings: dict[str, str]) -> None:
        self.catalog.settings = settings

    @cached_property
    def references(self) -> "References":
        """Foreign keys."""
        from kpg.execute.changes.foreign_keys import References  # lazy: the start does without it

        return References(self.executor, lambda name: self._tables[name])

    @cached_property
    def sequences(self) -> "Sequences":
        """Where sequences stand."""
        from kpg.execute.changes.defaults import Sequences  # lazy: the start does without it

        return Sequences(lambda: self.catalog)

    @cached_property
    def folds(self) -> "Folds":
        """The functions of arrays that compute users' aggregates."""

        return Folds(self.executor)

    def fold_function(self, fold: "ArrayFold") -> "Named[Own]":
        """The name by which plans call a fold."""
        known = self.folds.find(fold)
        if known is None:
            known = Named(fold.label, self.catalog.number_function())
            self.folds.adopt(fold, known)
        return known

    def refuse_in_transaction(self, what: str) -> None:
        """Raise unless what cannot be undone may change now."""
        self.transactions.check()
        if not self.transactions.idle:
            raise NotSupportedError(
                f"{what} inside a transaction is not supported", hint="run it before or after the transaction"
            )

    def check_defining(self, what: str) -> None:
        """Raise unless the catalog may change now."""
        self.transactions.check()
        if self.transactions.in_batch or (not self.transactions.idle and not self.journal.writing_now):
            raise NotSupportedError(
                f"{what} inside a batch is not supported"
                if self.transactions.in_batch
                else f"{what} inside a transaction is not supported",
                hint="run it before or after",
            )

    # Tables

    def create_table(
        self,
        name: str,
        schema: Schema,
        constraints: Constraints = NO_CONSTRAINTS,
        sequences: Sequence[Numbers] = (),
    ) -> None:
        """Add an empty table, with its sequences."""
        self.check_defining("CREATE TABLE")
        with self._interrupt:
            self.catalog.add(TableEntry(name, schema, constraints))
            try:
                self.executor.create_table(name, schema)
                self._add_keys(name, schema, constraints)
                for one in sequences:
                    self.catalog.sequences[one.name.lower()] = one
                    self.journal.note(undo=self.sequences.forget(one.name))
                self._tables[name] = Table(self.executor, name, schema, self.watching)
                self.journal.note(undo=partial(self._discard, name))
                if constraints.guarded:
                    self.refresh_rules()
            except BaseException:
                if name in self.catalog:
                    self.catalog.remove(name)
                raise

    def _add_keys(self, name: str, schema: Schema, constraints: Constraints) -> None:
        for key in constraints.uniques:
            if not key.primary:
                places = tuple(schema.names.index(one) for one in key.columns)
                self.executor.add_unique(name, key.name, places, nulls_distinct=key.nulls_distinct)

    def _discard(self, name: str) -> None:
        self.executor.drop_table(name)
        self._tables.pop(name, None)

    def drop_table(self, entry: TableEntry) -> None:
        """Forget a table that nothing uses, with its sequences."""
        name = entry.name
        self.catalog.remove(name)
        self._forget_others(name)
        self.attached.discard(name)
        for index in [one for one in self.catalog.indexes.values() if one.table == name]:
            del self.catalog.indexes[index.name.lower()]
            self.journal.note(done=partial(self.forget_index, index.name))
        for one in [one for one in self.catalog.sequences.values() if one.owner and one.owner[0] == name]:
            del self.catalog.sequences[one.name.lower()]
            self.journal.note(undo=self.sequences.forget(one.name))
        self.set_aside(name)
        if entry.constraints.guarded or ("references" in self.__dict__ and self.references.concerns(name)):
            self.refresh_rules()

    def _forget_others(self, name: str) -> None:
        """What is kept beside a relation goes with it: unique indexes, policies, inheritance, partitions."""
        others, lower = self.catalog.others, name.lower()
        kept = [one.kept for key, one in others.items() if key[:2] == ("unique index", lower)]
        for key in [one for one in others if one[1] == lower or (one[0] == "inherits" and one[2] == lower)]:
            del others[key]
            if key[1] != lower:  # what that was when it had this partition, nobody knows
                parent, executor = self.catalog.get(key[1]).name, self.executor
                executor.known_from(parent, executor.epoch + executor.has_pending)
        for one in kept:
            self.drop_table(self.catalog.table(one))

    def set_aside(self, name: str) -> None:
        """Take a table's rows out of the way, to be given up when the transaction is over."""
        if not self.journal.writing_now:
            self._discard(name)
            return
        table, aside = self._tables.pop(name), f"{name} (dropped {next(self._aside)})"
        self.executor.rename_table(name, aside)

        def undo() -> None:
            self.executor.rename_table(aside, name)
            self._tables[name] = table

        self.journal.note(undo, partial(self.executor.drop_table, aside))

    def refresh_rules(self) -> None:
        """Have tables follow the rules that the catalog has for them now."""
        from kpg.execute.changes.constraints import guards  # lazy: the start does without it

        self.references.refresh(self.catalog, self._default_words)
        for name, guard in guards(self.executor, self.catalog, self.references).items():
            if name in self._tables:
                self._tables[name].guard = guard

    def _default_words(self, table: str, places: tuple[int, ...], rows: int) -> Words:
        from kpg.execute.changes.defaults import default_words  # lazy: the start does without it

        entry = self.catalog.table(table)
        return default_words(self.executor, self.sequences, entry, self.catalog, places, rows)

    def attach_table(self, name: str, schema: Schema) -> str:
        """Add a table for rows from outside, until :meth:`release_attached`; the name that it gets."""
        name = untaken(name, self.catalog.__contains__)
        with self._interrupt:
            self.attached.add(name)
            self.catalog.add(TableEntry(name, schema))
            self.executor.create_table(name, schema)
            self.executor.is_new(name)
            self._tables[name] = Table(self.executor, name, schema)
            if self.catalog.asker.user != FIRST:  # who owns what nobody is said to own
                self.catalog.rights.owners["RELATION", name.lower()] = self.catalog.asker.user
        return name

    def release_attached(self) -> None:
        """Drop the tables of rows from outside that no view uses."""
        if self.attached and not self.closed:
            for name in self.attached.difference(*self._uses.values()):
                self.catalog.rights.owners.pop(("RELATION", name.lower()), None)
                if name in self.catalog:
                    self.drop(name)
                else:  # a rollback has taken it out of the catalog
                    self.attached.discard(name)
                    self._discard(name)

    def drop(self, name: str) -> None:
        """Forget a relation that nothing uses, and of a view the rows from outside that only it used."""
        with self._interrupt:
            entry = self.catalog.get(name)
            if isinstance(entry, TableEntry):
                self.drop_table(entry)
            else:
                self.catalog.remove(name)
                self._forget(entry)
        if self.catalog.comments:
            from kpg.compiler.system.pg_catalog import move_comments  # lazy: the start does without it

            move_comments(self.catalog, entry.name)
        if self.attached and isinstance(entry, ViewEntry):
            self.release_attached()

    def forget_index(self, name: str) -> None:
        """Give up an index that may be installed."""
        raise NotImplementedError

    # Views

    def create_view(self, entry: ViewEntry, uses: frozenset[str], *, replace_old: bool) -> None:
        """Add a view that is not kept, but expanded where it is used."""
        self.check_defining("CREATE VIEW")
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

    def row_state(self) -> object:
        """Return a value that is another one once rows have changed in the transaction or by a commit."""
        return self.executor.epoch, self.executor.savepoint()

    def create_later(
        self,
        entry: ViewEntry,
        plan: Callable[[], Planned],
        uses: frozenset[str],
        *,
        replace_old: bool,
        computed: object = None,
    ) -> None:
        """In a transaction: a view that is expanded where it is used, until the commit has it kept.

        ``computed`` is the :meth:`row_state` in which it has been computed.
        """
        expanded = replace(entry, materialized=False)
        self.create_view(expanded, uses, replace_old=replace_old)
        name = entry.name

        def keep() -> None:
            view = self.catalog.get(name)
            assert isinstance(view, ViewEntry)
            planned = plan() if view is expanded else self._plan_definition(view)
            self.materialize(replace(view, materialized=entry.materialized), planned, self._uses[name])

        self._keep_at_commit(name, Keeping(entry.materialized, keep, computed))

    def materialize(self, entry: ViewEntry, planned: Planned, uses: frozenset[str]) -> Maintained:
        """Keep a view up to date that was expanded where it is used; those who use it stay as they are."""
        with self._interrupt:
            return self._keep(entry, planned, uses, self.executor.install(entry.name, planned.plan))

    def _plan_definition(self, entry: ViewEntry) -> Planned:
        """Plan a view by its present definition."""
        assert entry.rel is not None
        reader = Reader(entry.schema.names, rel_types(entry.rel), entry.order, self.executor.dictionary)
        return plan_view_entry(entry, reader, self.catalog, self.statistics)

    def _keep_at_commit(self, name: str, keeping: Keeping) -> None:
        """Install a view when the transaction commits, unless it is dropped, replaced or undone before."""
        before = self.keeping.get(name)
        self.keeping[name] = keeping

        def undo() -> None:
            if before is None:
                self.keeping.pop(name, None)
            else:
                self.keeping[name] = before

        def done() -> None:
            if self.keeping.get(name) is keeping:
                del self.keeping[name]
                keeping.install()

        self.journal.note(undo, done)

    def _keep(
        self,
        entry: ViewEntry,
        planned: Planned,
        uses: frozenset[str],
        installed: Installation,
        before: Maintained | None = None,
    ) -> Maintained:
        """Note a view that is installed; ``before`` is what was known of it by another installation."""
        self.catalog.add(entry, replace=True)
        self._uses[entry.name] = uses
        self._plans[entry.name] = planned.plan
        reader = planned.reader(self.executor.dictionary)
        if self.past is not None:
            self.past.remember(installed)
        if before is None:
            feed = Feed(self.monitor, self.executor, installed, reader, self.past)
            maintained = Maintained(entry.name, entry.sql, installed, reader, feed)
        else:
            maintained = before
            maintained.installed, maintained.reader, maintained.sql = installed, reader, entry.sql
        self.views[entry.name] = maintained
        self.journal.note(undo=partial(self._keep_no_more, maintained))
        return maintained

    def _keep_no_more(self, maintained: Maintained) -> None:
        if self.views.get(maintained.name) is maintained:
            del self.views[maintained.name]
            self._plans.pop(maintained.name, None)
        maintained.live = False
        self.executor.uninstall(maintained.installed)

    def dependents(self, name: str) -> list[str]:
        """The views that use a relation, directly or through others, those that others use first."""
        found: set[str] = set()
        pending = [name]
        while pending:
            one = pending.pop()
            users = [view for view, used in self._uses.items() if one in used and view not in found]
            found.update(users)
            pending += users
        return [Resolved(view) for view in self._uses if view in found]

    def users(self, name: str) -> list[str]:
        """As :meth:`dependents`, without goals of earlier lives that nobody prepared: they are given up."""
        found = self.dependents(name)
        for text, goal in list(self.waiting_goals.items()):
            if goal.label in found:
                del self.waiting_goals[text]
                goal.drop()
                found = self.dependents(name)
        return found

    def _replaced(self, name: str, uses: frozenset[str], replace_old: bool) -> ViewEntry | None:
        """The view that a new one of this name takes the place of; nobody may use it."""
        old = self.catalog.find(name)
        if not replace_old or not isinstance(old, ViewEntry):
            return None
        if old.name in uses:
            raise ProgrammingError(f'view "{old.name}" cannot be replaced by a query over itself')
        users = self.users(old.name)
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
        name = entry.name
        self._uses.pop(name, None)
        for index in [one for one in self.catalog.indexes.values() if one.table == name]:
            del self.catalog.indexes[index.name.lower()]
        keeping = self.keeping.pop(name, None)
        if keeping is not None:
            self.journal.note(undo=partial(self.keeping.__setitem__, name, keeping))
        plan = self._plans.pop(name, None)
        maintained = self.views.pop(name, None)
        if maintained is None:
            return
        maintained.live = False

        def undo() -> None:
            maintained.live = True
            self.views[name] = maintained
            if plan is not None:
                self._plans[name] = plan

        def undo_idle() -> None:
            undo()
            assert plan is not None
            maintained.installed = self.executor.install(name, plan)
            maintained.feed = Feed(
                self.monitor, self.executor, maintained.installed, maintained.reader, self.past
            )

        if self.transactions.idle:
            self.executor.uninstall(maintained.installed)
            if plan is not None:
                self.journal.note(undo_idle)
        else:
            self.journal.note(undo, partial(self.executor.uninstall, maintained.installed))
