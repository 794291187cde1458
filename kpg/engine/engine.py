"""One database from inside: the executor, the catalog, and the views that are kept up to date.

The statements and the public API are thin layers over this. Invariant: the catalog's tables are among the
executor's tables, and its materialized views are ``views``.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.algebra.rel import Get, Rel
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.catalog.cache import Consulted
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry
from kpg.engine.client import Client, Sessions
from kpg.engine.clock import Clock
from kpg.engine.journal import Journal, Mark
from kpg.engine.kept import Kept
from kpg.engine.prepared import PreparedStatements
from kpg.engine.remembered import Remembered
from kpg.engine.table import Table
from kpg.engine.transaction import Transactions
from kpg.engine.wording import InPostgresWords, session_rows
from kpg.listeners.notifications import Notification, Notifications
from kpg.queries.planning import LiveStatistics, Planned, plan_view_entry
from kpg.queries.reading import Reader
from kpg.result import Result
from kpg.runtime.errors import DataError, ProgrammingError
from kpg.runtime.executor_factory import local_executor
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.monitor import Monitor
from kpg.runtime.plan import Plan
from kpg.runtime.records import dataclass
from kpg.view import Maintained

if TYPE_CHECKING:
    from kpg.engine.past import Past
    from kpg.engine.steps import Steps
    from kpg.engine.working import Workers
    from kpg.statements.cursors import Cursor

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Point:
    """A state of a transaction: rows, definitions, and how many foreign keys were to be checked."""

    rows: object
    mark: Mark
    waiting: tuple[int, int]


class Engine(Kept):
    """Tables, views, transactions; Ctrl-C never leaves it half changed. Callers hold its monitor."""

    def __init__(
        self,
        merge_effort: str = "default",
        memory_limit: int | str | None = None,
        history: "int | str | timedelta | None" = None,
        trunk: "Engine | None" = None,
        workers: "Workers | None" = None,
    ) -> None:
        """With a ``trunk``, tables are as there, and ``kpg/branching.py`` does the rest."""
        self.monitor: Monitor = Monitor() if trunk is None else trunk.monitor
        """What every call of the public API holds; branches share dictionaries, and so the monitor."""
        self._interrupt = DeferredInterrupt()
        if memory_limit is not None:
            from kpg.engine.memory import watch_of

            self._interrupt.watch = watch_of(memory_limit, workers)
        self.workers = workers
        make = local_executor if workers is None else workers.executor
        fork = trunk.executor.fork if trunk is not None else partial(make, merge_effort)
        self.executor = fork(self._interrupt)
        self.catalog = Catalog() if trunk is None else trunk.catalog.copy()
        self.catalog.fold_function = lambda fold: self.fold_function(fold)
        self.views: dict[str, Maintained] = {}
        self._plans: dict[str, Plan] = {}
        self.statistics = LiveStatistics(self.executor, self._plans)
        self.statistics.tables = workers
        self.notifications = Notifications()
        self.sessions: Sessions | None = None
        """Those that use the engine, where there are some."""
        self.transactions = Transactions(self, self.notifications.deliver)
        self._tables: dict[str, Table] = {}
        self._uses: dict[str, frozenset[str]] = {}
        self._queries, self.dataflows_made = 0, 0
        self.touched = 0
        """How often rows have been read by a dataflow, or a body has been run."""
        self.dataflows: dict[str, Client] = {}
        self.clock = Clock(self)
        self.journal = Journal(self.catalog, self._uses)
        self._aside = count()
        self._indexes, self.functions_given = {}, {}
        self.changed: dict[str, int] | None = None
        """The epoch of the last change of each table; None while nobody has to know (see sessions)."""
        self._closing, self.prepared = set[str](), PreparedStatements()
        self.goals: dict[str, int] = {}
        """The goals that are kept in a folder, by text, and how many have prepared each."""
        self.waiting_goals = {}
        """Those that were there before the database was opened, and nobody has prepared again yet."""
        self.cursors: dict[tuple[int, str], Cursor] = {}
        self.catalog.consulted = Consulted(0, InPostgresWords(), session=partial(session_rows, self))
        self.remembered = Remembered()
        self.keeping, self.followed, self.notices, self.at_commit, self.watching = {}, set(), [], {}, []
        self.attached = self.catalog.attached = set[str]()
        """Tables of rows from outside."""
        self.extras: dict[str, object] = {}
        """What else is to be there when it is opened again, by name; values are replaced as a whole."""
        if workers is not None:
            workers.extras = self.extras
        self.keeper, self.closed = None, False
        self.given_anew: frozenset[str] = frozenset()
        """Names of users' functions that are given whenever the database is opened."""
        self.seen: int | None = None
        """The epoch that queries see, with pending changes, if that is not the present one."""
        self.steps: Steps | None = None
        """What the last steps took, if somebody wants to know."""
        self.past: Past | None = None
        """What is kept of earlier epochs, if that is asked for."""
        if history is not None:
            from kpg.engine import past

            self.past = past.Past(self, past.retention_of(history))

    def admit_owner(self) -> None:
        """Have the transaction and the settings be the database's own, where sessions use the engine, too."""
        if self.sessions is not None:
            self.sessions.admit_owner()

    @property
    def interrupt(self) -> DeferredInterrupt:
        """Who is asked, while the engine runs, whether to go on."""
        return self._interrupt

    def close(self) -> None:
        """Give up all views, once and for all."""
        if self.keeper is not None and not self.transactions.idle:
            self.rollback()
        try:
            if self.keeper is not None:
                self.keeper.close()
        finally:
            self.closed = True
            self.executor.close()

    @property
    def remembers(self) -> bool:
        """Whether plans may be used again: not where a setting has each be made anew, or LOCK TABLE."""
        closed = bool(self.watching) and self.locks.closed
        return self.seen is None and not self.catalog.plans_anew and not closed

    def table(self, name: str) -> Table:
        """A base table, by name in any case."""
        table = self._tables.get(name) if self.catalog.has_one_schema else None
        return self._tables[self.catalog.table(name).name] if table is None else table

    def find_table(self, name: str) -> Table | None:
        """The base table of that name, in exactly these letters, if there is one."""
        return self._tables.get(name)

    def plan_of(self, view: str) -> Plan | None:
        """The plan of a maintained view, by its name in exactly these letters."""
        return self._plans.get(view)

    def view(self, name: str) -> Maintained:
        """A maintained view, by name in any case; ProgrammingError if it is none."""
        self.show_time()
        entry = self.catalog.get(name)
        maintained = self.views.get(entry.name)
        if maintained is None:
            what = "a table" if isinstance(entry, TableEntry) else "not materialized"
            raise ProgrammingError(
                f'"{entry.name}" is {what}', hint="only what CREATE MATERIALIZED VIEW made is kept up to date"
            )
        return maintained

    # Steps: what has been committed is told, also where Ctrl-C comes in between

    def step(self) -> None:
        """Take all pending changes through everything, and queue whom to tell of it; all or nothing."""
        if self.clock.kept:
            self.clock.tick()
        if self.changed is not None:
            self._closing.update(self.executor.changing())
        self._stepped(self.executor.step)
        if self._closing and self.changed is not None:
            self.changed.update(dict.fromkeys(self._closing, self.executor.epoch))
            self._closing.clear()
        if self.journal and not self.journal.writing_now:
            self.journal.finish()
            self.notifications.add(self._news())  # of views that it has installed anew
        if self.keeper is not None:
            self.keeper.tend()

    def step_unkept(self) -> None:
        """Take what is pending through everything; the next commit has it be there after opening again."""
        recorder, self.executor.recorder = self.executor.recorder, None
        try:
            self._stepped(self.executor.step)
        finally:
            self.executor.recorder = recorder

    def show_time(self) -> None:
        """Have views that compare with the present time follow it; not within a transaction."""
        if self.keeper is not None and self.keeper.refuses is not None:
            return
        if self.clock.kept and self.transactions.idle and not self.executor.has_pending:
            with self.transactions.undoing():
                if self.clock.tick():
                    self.transactions.close()

    def advance_to(self, moment: datetime | str) -> None:
        """Let it be that time, in views too."""
        self.refuse_in_transaction("advance_to")
        before = self.clock.given
        self.clock.advance_to(moment)
        try:
            self.show_time()
            self.keep()
        except BaseException:
            self.clock.given = before
            raise

    def close_epoch(self) -> None:
        """End a logical epoch without a step."""
        if self.changed is not None:
            self._closing.update(self.executor.changing())
        self.executor.close_epoch()

    def rollback(self) -> None:
        """Throw away what is pending."""
        self.executor.rollback()
        if "references" in self.__dict__:
            self.references.clear()
        self.keeping.clear()
        if self.journal:
            self.undo_definitions(None)

    def savepoint(self) -> "Point":
        """The present state, for :meth:`rollback_to`."""
        return Point(self.executor.savepoint(), self.journal.mark(), self.references.waiting)

    def rollback_to(self, point: "Point") -> None:
        """Throw away what has changed since a savepoint."""
        self.executor.rollback_to(point.rows)
        self.references.return_to(point.waiting)
        self.undo_definitions(point.mark)

    def undo_definitions(self, mark: Mark | None) -> None:
        """Have names mean what they meant."""
        with self._interrupt:
            self.journal.undo(mark)
            if "references" in self.__dict__:
                self.refresh_rules()

    def advance(self) -> None:
        """Take what inputs hold through everything, as far as all of them have advanced."""
        self.refuse_in_transaction("a step")
        for client in list(self.dataflows.values()):
            client.pull()
        self._stepped(self.executor.advance)
        self.notifications.deliver()

    def _stepped(self, step: Callable[[], object]) -> None:
        if self.steps is not None:
            self.steps.begin()
        committed = False
        try:
            with self._interrupt:
                step()
                committed = True
                if self.steps is not None:
                    self.steps.note(self.executor.epoch)
                if self.past is not None:
                    self.past.note()
                self.notifications.add(self._news())
        except BaseException as error:
            if committed:
                # Ctrl-C was pressed meanwhile. It must not make the caller undo or repeat what is committed.
                self.notifications.interrupt(error)
                return
            self.notifications.deliver()
            if isinstance(error, DataError):
                for client in self.dataflows.values():
                    client.place(error)
            raise

    def tables_under(self, names: Iterable[str]) -> frozenset[str]:
        """Relations, and all that they are made of."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._uses.get(name, ())
        return frozenset(found)

    def note_uses(self, label: str, uses: frozenset[str]) -> None:
        """Keep what a dataflow reads from being dropped."""
        self._uses[label] = uses

    def uses(self) -> Iterator[tuple[str, str]]:
        """The views and what they are kept up to date by, pair by pair."""
        return ((name, used) for name, names in self._uses.items() for used in sorted(names))

    def forget_dataflow(self, label: str) -> None:
        """A dataflow is gone."""
        self._uses.pop(label, None)
        self.dataflows.pop(label, None)

    def drop(self, name: str) -> None:
        """Forget a relation that nothing uses, and of a view the rows from outside that only it used."""
        if name in self.dataflows:
            self.dataflows[name].drop()
            return
        super().drop(name)

    def run(self, planned: Planned) -> tuple[Words, Words]:
        """The rows and multiplicities of a query, by a dataflow that lives only now.

        It shares the arrangements there are; while changes are pending it sees the tables with those changes,
        which takes a computation of its own.
        """
        return self._run(planned, isolated=self.executor.has_pending or self.seen is not None, then=self.seen)

    def run_then(self, planned: Planned, epoch: int) -> tuple[Words, Words]:
        """As :meth:`run`, as of an epoch; the catalog that it was planned by is that of then."""
        return self._run(planned, isolated=True, then=epoch, own=False)

    def recompute(self, planned: Planned) -> tuple[Words, Words]:
        """As :meth:`run`, sharing nothing."""
        return self._run(planned, isolated=True)

    def select(self, planned: Planned) -> Result:
        """The result of a one-off query."""
        return planned.reader(self.executor.dictionary).result(*self.run(planned))

    def check_views(self) -> None:
        """Compute the views that the commit is to install: an error refuses the commit."""
        state = self.row_state()
        catalog = None
        for name, keeping in self.keeping.items():
            if keeping.computed == state or self.is_overlay(name):
                continue
            catalog = catalog or self.expanded_catalog()
            entry = catalog.find(name)
            if isinstance(entry, ViewEntry) and entry.rel is not None:
                reader = Reader(
                    entry.schema.names, rel_types(entry.rel), entry.order, self.executor.dictionary
                )
                self.run(plan_view_entry(entry, reader, catalog, self.statistics))

    @property
    def reading_catalog(self) -> Catalog:
        """The catalog for a one-off query.

        While changes are pending, maintained views lag behind the tables: queries then use their definitions.
        """
        lags = self.executor.has_pending or self.seen is not None
        return self.expanded_catalog() if lags else self.catalog

    def expanded_catalog(self, kept: Callable[[str], bool] = lambda name: False) -> Catalog:
        """The catalog with every view to be expanded where it is used, inside other views too.

        Except for materialized ones that are ``kept``, by their names.
        """

        def written_out(node: Rel) -> Rel:
            if not isinstance(node, Get) or node.is_table or kept(node.name):
                return node
            view = self.catalog.get(node.name)
            rel = view.rel if isinstance(view, ViewEntry) else None
            return node if rel is None else transform_up(rel, written_out)

        def expanded(entry: ViewEntry) -> Rel:
            assert entry.rel is not None
            return transform_up(entry.rel, written_out)

        catalog = self.catalog.copy()
        catalog.told = self.catalog
        for entry in self.catalog:
            if isinstance(entry, ViewEntry) and entry.definition is not None and not kept(entry.name):
                definition = cache(partial(expanded, entry))
                catalog.replace(replace(entry, definition=definition, materialized=False))
        return catalog

    def _run(
        self, planned: Planned, isolated: bool, then: int | None = None, *, own: bool = True
    ) -> tuple[Words, Words]:
        self._queries += 1
        self.touched += 1
        with self._interrupt:
            name = f"query {self._queries}"
            installed = self.executor.install(name, planned.plan, isolated=isolated, then=then, own=own)
            try:
                return self._interrupt.having_room(installed.rows())
            finally:
                self.executor.uninstall(installed)

    def _news(self) -> Iterator[tuple[str, Notification]]:
        """Whom to tell of a commit."""
        for view in list(self.views.values()):
            if view.installed.watched and view.feed.is_heard():
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
