"""The engine of one database: executor, catalog, tables, views and transactions.

The statement handlers and the public API are thin layers over it. Callers hold its monitor.

The module also defines state that an engine owns:

* ``PreparedStatements``: PREPARE and the protocol's Parse share one namespace.
* ``StatementCaches``: plans and derived values by statement text. It may be cleared at any time.
* ``StepStatistics``: durations of recent steps, per quarter of a second.
* ``PostgresDeparser``: texts of definitions for the catalog relations.
"""

import sys
import time
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result
from kpg.api.view import MaintainedView
from kpg.compiler.algebra.rel import Get, Rel
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.catalog.entries import (
    DEPENDENCIES,
    RELATIONS,
    Catalog,
    CatalogCache,
    SystemReads,
    TableEntry,
    ViewEntry,
    move_comments,
)
from kpg.compiler.catalog.privileges import OWNERS, Asker
from kpg.compiler.sql.frontend import is_computed
from kpg.compiler.sql.parse.statements import Prepare, Select, Statement
from kpg.execute.queries.query_plan import LiveStatistics, PlannedStatement, plan_view_entry
from kpg.execute.queries.result_rows import Folds, Reader
from kpg.runtime.errors import DataError, NotSupportedError, ProgrammingError, Span, WaitRequest
from kpg.runtime.executor import Executor
from kpg.runtime.executor_factory import local_executor
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.monitor import Monitor
from kpg.runtime.plan import Plan
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import UserFunctionName
from kpg.runtime.types import Schema
from kpg.session.base_table import Table
from kpg.session.clock import Clock
from kpg.session.notification_queue import Notification, Notifications
from kpg.session.tables import Tables
from kpg.session.transaction import State, Transactions
from kpg.session.undo import Journal, JournalMark
from kpg.session.views import Views

if TYPE_CHECKING:
    from kpg.compiler.catalog.entries import Entry
    from kpg.compiler.catalog.routines import ArrayFold
    from kpg.compiler.sql.parse.statements import Insert
    from kpg.compiler.sql.rewrite import deparse
    from kpg.execute.changes import defaults
    from kpg.execute.changes.defaults import Sequences
    from kpg.provenance.proof_tree import Proof
    from kpg.runtime.functions.user_functions import UserFunction
    from kpg.runtime.types import Type
    from kpg.session import channels, locks, time_travel
    from kpg.session import memory_limit as memory_limits
    from kpg.session.channels import Channels
    from kpg.session.distribution import Workers
    from kpg.session.locks import LockManager
    from kpg.session.notices import Notice
    from kpg.session.time_travel import History
else:
    deparse = LazyModule("kpg.compiler.sql.rewrite.deparse")
    defaults = LazyModule("kpg.execute.changes.defaults")
    channels = LazyModule("kpg.session.channels")
    locks = LazyModule("kpg.session.locks")
    memory_limits = LazyModule("kpg.session.memory_limit")
    time_travel = LazyModule("kpg.session.time_travel")


Words = NDArray[np.int64]
ACTION_CHECKS: Final[list[Callable[["Engine", Table, Words], Words]]] = []
"""Pass the rows of referential actions through the pipelines, whose layer is above this one."""


class OpenPortal(NamedTuple):
    """An open portal of a client: its name, its text, the time of its creation, and its statement."""

    name: str
    text: str
    moment: int
    statement: object


@dataclass(slots=True)
class Cursor:
    """An open cursor.

    ``position`` is 0 before the first row, 1 at it, and the row count plus 1 behind the last.
    """

    name: str
    rows: Result
    transaction: int | None
    can_scroll: bool
    position: int = 0
    base_rows: Words | None = None
    """Rows of the only table that it selects from, by columns."""
    table: str = ""
    text: str = ""
    query: Select | None = None
    moment: int = 0
    number: int = field(default_factory=count().__next__)
    """Unique number."""


class SessionInfo(Protocol):
    """A session's role and open portals."""

    asker: Asker
    portals: Callable[[], list[OpenPortal]]


class NestedExecution(NamedTuple):
    """Runs a statement within another one: EXECUTE, cursors, COPY of a query, CREATE SCHEMA."""

    execute: "Callable[[Engine, Statement], Result | MaintainedView | None]"
    select: "Callable[[Engine, Select], Result]"


class Sessions(Protocol):
    """The session manager, as statements of a session use it."""

    @property
    def memory_bound(self) -> int:
        """Upper bound in bytes of each statement's memory; 0 for none."""

    @property
    def sessions(self) -> Mapping[int, SessionInfo]:
        """Open sessions by number."""

    def swap_in_default(self) -> None:
        """Make the engine use the database's own transaction and settings, unless a statement is running."""

    def wait_for_planned_statements(self) -> None:
        """Suspend a definition in a transaction until no statement is being planned outside the monitor."""

    def signal(self, number: int, terminates: bool) -> bool:
        """Cancel a session's statement or, with ``terminates``, end the session; return whether it exists."""

    def export_snapshot(self) -> str:
        """Export the current transaction's snapshot and return its name; valid while the transaction runs."""

    def import_snapshot(self, name: str) -> None:
        """Make the current transaction use an exported snapshot."""


class WriteAheadLog(Protocol):
    """The write-ahead log of a database in a folder."""

    moment: tuple[int, int]
    """Last recorded epoch and its moment."""

    @property
    def where(self) -> str:
        """Path of the folder."""

    @property
    def refuses(self) -> str | None:
        """Why changes are refused; None if they are accepted."""

    def hold(self) -> bool:
        """Combine all steps into one commit from now on; return whether that is new."""

    def release(self) -> None:
        """Write the combined commit."""

    def tend(self) -> None:
        """Do periodic work, between commits."""

    def checkpoint(self) -> None:
        """Write a checkpoint of the present state."""

    def close(self) -> None:
        """Write what is pending, and release the folder."""


class DataflowClient(Protocol):
    """A dataflow, as the engine sees it."""

    def pull(self) -> None:
        """Read new rows into the inputs, before a step."""

    def notifications(self) -> Iterator[Notification]:
        """Yield the notifications of a commit."""

    def retire(self) -> None:
        """Free what can never change again, after all listeners have been notified."""

    def drop(self) -> None:
        """Drop the dataflow."""

    def locate_error(self, error: DataError) -> None:
        """Set the position of an error that this dataflow has caused, if it has none."""

    def prover(self, name: str) -> "Callable[[Any], Proof] | None":
        """Return a function that proves rows of a relation; None if no rules derive it."""


class PostgresDeparser:
    """Deparses definitions as Postgres does."""

    def expression(
        self,
        catalog: "Catalog",
        entry: "Entry | None",
        text: str,
        pretty: bool = False,
        default_type: "Type | None" = None,
    ) -> str:
        """Return an expression over a relation's columns; ``default_type`` is the type of a DEFAULT."""
        return deparse.deparse(catalog, entry, text, pretty, default_type)

    def type_of(self, catalog: "Catalog", entry: "Entry", text: str) -> "Type | None":
        """Return the type of an expression, if known."""
        return deparse.expression_type(catalog, entry, text)

    def query(self, catalog: "Catalog", text: str) -> str:
        """Return a query that qualifies only the names that the search path does not find."""
        return deparse.qualify_where_needed(catalog, text)

    def is_computed(self, catalog: "Catalog", view: "ViewEntry", place: int) -> bool:
        """Whether a column of a view is computed, so that its type has no length or precision."""

        return is_computed(catalog, view, place)


class ParsedStatement(Protocol):
    """A statement of a Parse message."""

    @property
    def text(self) -> str:
        """Its text."""

    def declared(self, engine: "Engine") -> tuple[str, ...]:
        """Return the types of its parameters, as texts."""


class PreparedStatements(dict[str, Prepare]):
    """Statements of PREPARE; ``protocol_statements`` are those of Parse messages, with the unnamed one."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol_statements: dict[str, Any] = {}
        """Each is a :class:`ParsedStatement`."""

    def find(self, engine: "Engine", name: str) -> Prepare | None:
        """Return a statement by name, in the form of PREPARE."""
        found = self.get(name)
        if found is not None or name not in self.protocol_statements:
            return found
        parsed: ParsedStatement = self.protocol_statements[name]
        return Prepare(name, parsed.declared(engine), parsed.text, Span(parsed.text, 0, len(parsed.text)))

    def check_name_free(self, name: str, span: Span | None = None) -> None:
        """Raise ProgrammingError if the name is in use."""
        if name in self or name in self.protocol_statements:
            message = f'prepared statement "{name}" already exists'
            raise ProgrammingError(message, span=span, sqlstate="42P05")

    def drop(self, name: str) -> bool:
        """Drop a statement; return whether it existed."""
        return (self.pop(name, None) or self.protocol_statements.pop(name, None)) is not None

    def clear(self) -> None:
        """Drop all named statements."""
        super().clear()
        for name in [statement_name for statement_name in self.protocol_statements if statement_name]:
            del self.protocol_statements[name]

    def named_statements(self, engine: "Engine") -> Iterator[tuple[Prepare, bool]]:
        """Yield all named statements, and whether PREPARE made each."""
        yield from ((statement, True) for statement in self.values())
        for name in sorted(filter(None, self.protocol_statements)):
            found = self.find(engine, name)
            assert found is not None
            yield found, False


MAX_DERIVED: Final = 64
MAX_ENTRIES: Final = 512
"""Entries of each cache; the least recently used one is evicted."""
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """A mapping that evicts the least recently used entry."""

    __slots__ = ("_capacity", "_values")

    def __init__(self, capacity: int = MAX_ENTRIES) -> None:
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._capacity = capacity

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, or None."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Set the value of a key."""
        self._values[key] = value
        if len(self._values) > self._capacity:
            self._values.popitem(last=False)

    def clear(self) -> None:
        """Remove all entries."""
        self._values.clear()


class CacheKind(Generic[Key, Value]):
    """A kind of cached values, declared by the module that computes them."""


class StatementCaches:
    """Caches of one database, by statement texts."""

    def __init__(self) -> None:
        self.inserts: LruCache[str, Insert] = LruCache()
        self._arrivals: LruCache[tuple[object, ...], bool] = LruCache()
        self._kinds: defaultdict[CacheKind[Any, Any], LruCache[Any, Any]] = defaultdict(LruCache)
        self.parameter_types: LruCache[str, Type] = LruCache()
        """Types of declared parameters."""
        self._derived: LruCache[tuple[object, ...], tuple[object, int, Any]] = LruCache(MAX_DERIVED)
        self.keyed_texts: LruCache[str, int] = LruCache()
        """Texts that find their row by key, with the catalog's version."""
        self.system_results = CatalogCache()
        """Results of queries over system relations."""
        self.system_queries: LruCache[str, bool] = LruCache()
        """Normalized texts that read system relations: their plans are not cached."""
        self.hits = 0
        """Number of executions with a cached plan."""
        self.invalidations = 0
        """Number of invalidations, by changes of names, types or settings."""

    def of_kind(self, kind: CacheKind[Key, Value]) -> LruCache[Key, Value]:
        """Return the cache of a kind, which :meth:`invalidate` clears."""
        return self._kinds[kind]

    def is_repeated(self, key: tuple[object, ...]) -> bool:
        """Record the arrival of a statement; return whether it has arrived before."""
        if self._arrivals.get(key):
            return True
        self._arrivals.put(key, True)
        return False

    def derive(
        self, key_prefix: tuple[object, ...], part: object, catalog: "Catalog", make: "Callable[[], Value]"
    ) -> "Value":
        """Return ``make()`` for a statement or catalog entry, cached unless it reads system state."""
        key = (*key_prefix, id(part), catalog.resolution_key, catalog.style)
        cached = self._derived.get(key)
        if cached is not None and cached[0] is part and cached[1] == catalog.version:
            found: Value = cached[2]
            return found
        before = catalog.system_reads.count
        value = make()
        if catalog.system_reads.count == before:
            self._derived.put(key, (part, catalog.version, value))
        return value

    def invalidate(self) -> None:
        """Clear all caches that depend on names, types or settings."""
        self.invalidations += 1
        self._kinds.clear()
        self.keyed_texts.clear()
        self.parameter_types.clear()
        self._derived.clear()
        self.system_results.clear()


def is_unpartitioned(engine: "Engine", name: str) -> bool:
    """Whether a change of a relation affects no other one: it has no partitions."""
    catalog = engine.catalog
    if not (catalog.partitioned or catalog.row_security):
        return True
    entry = catalog.find(name)
    return isinstance(entry, TableEntry) and catalog.is_standalone_table(entry.name)


@dataclass(frozen=True, slots=True)
class EngineSavepoint:
    """The engine's part of a savepoint.

    ``Transactions`` has the savepoints by name, each with one of these. ``rows`` has a
    ``runtime.tables.table.Savepoint`` for each table.
    """

    rows: object
    """The result of ``TableAccess.savepoint``, which only the executor reads."""
    mark: JournalMark
    pending_checks: tuple[int, int]
    """Pending foreign key checks, of inserted and of removed keys."""


class Engine:
    """The state of one database. Each operation is atomic, also under Ctrl-C. Callers hold its monitor."""

    nested_execution: NestedExecution
    """Set by :func:`kpg.execute.statements.install_execution`."""

    def __init__(
        self,
        merge_effort: str = "default",
        memory_limit: int | str | None = None,
        history: "int | str | timedelta | None" = None,
        trunk: "Engine | None" = None,
        workers: "Workers | None" = None,
    ) -> None:
        """Create an engine. With a ``trunk``, share its tables; ``kpg/api/branch.py`` does the rest."""
        self.monitor: Monitor = Monitor() if trunk is None else trunk.monitor
        """Held by every call of the public API. Branches share dictionaries, and therefore the monitor."""
        self._interrupt = DeferredInterrupt()
        if memory_limit is not None:
            self._interrupt.watch = memory_limits.make_watch(memory_limit, workers)
        self.workers = workers
        make = local_executor if workers is None else workers.executor
        make_executor = trunk.executor.fork if trunk is not None else partial(make, merge_effort)
        self.executor: Executor = make_executor(self._interrupt)
        self.catalog: Catalog = Catalog() if trunk is None else trunk.catalog.copy()
        self.catalog.fold_function = lambda fold: self.fold_function(fold)
        self.journal = Journal(self.catalog)
        plans: dict[str, Plan] = {}
        self.statistics = LiveStatistics(self.executor, plans)
        self.statistics.distribution = workers
        self.tables = Tables(self.executor, self.catalog, self.journal, self._interrupt, plans, self)
        self.views = Views(
            self.executor,
            self.catalog,
            self.journal,
            self._interrupt,
            self.monitor,
            plans,
            self.statistics,
            self,
        )
        self.notifications = Notifications()
        self.sessions: Sessions | None = None
        """The session manager, once there are sessions."""
        self.transactions = Transactions(self, self.notifications.deliver)
        self._queries, self.dataflows_made = 0, 0
        self.read_count = 0
        """Number of queries and function bodies run."""
        self.query_runner: (
            Callable[[PlannedStatement, Callable[[], tuple[Words, Words]]], tuple[Words, Words]] | None
        )
        self.query_runner = None
        """Runs a query and lets other statements use the engine if it takes long (``snapshot_query``)."""
        self.answered_epoch: int | None = None
        """Epoch that the statement has read, if other statements have run since."""
        self.dataflows: dict[str, DataflowClient] = {}
        self.clock = Clock(self)
        self.folds = Folds(self.executor)
        self.function_records: dict[str, Any] = {}
        """Persistent form of user functions, by name in lower case."""
        self.last_change_epochs: dict[str, int] | None = None
        """Epoch of the last change of each table; None without sessions."""
        self._tables_in_step = set[str]()
        self.prepared_statements = PreparedStatements()
        self.goals: dict[str, int] = {}
        """Goals stored in a folder, by text, with the number of handles on each."""
        self.waiting_goals: dict[str, Any] = {}
        """Stored goals that have not been prepared since the database was opened."""
        self.cursors: dict[tuple[int, str], Cursor] = {}
        self.catalog.system_reads = SystemReads(0, PostgresDeparser())
        self.plan_cache = StatementCaches()
        self.notices: list[Notice] = []
        """Unread notices of statements."""
        self.on_commit_actions: dict[str, Callable[[], None]] = {}
        """ON COMMIT actions of temporary tables, by table name."""
        self.used_sequences: Sequences | None = None
        """Positions of sequences; None before the first use."""
        self.used_locks: LockManager | None = None
        """The lock manager; None before the first use."""
        self._channels: Channels | None = None
        self.extras: dict[str, object] = {}
        """Other values that are logged, by name; each is replaced as a whole."""
        if workers is not None:
            workers.extras = self.extras
        self.write_ahead_log: WriteAheadLog | None = None
        self.closed = False
        self.supplied_functions: frozenset[str] = frozenset()
        """Names of user functions that are supplied whenever the database is opened."""
        self.snapshot_epoch: int | None = None
        """Epoch that queries see, together with pending changes; None for the present one."""
        self.step_statistics: StepStatistics | None = None
        """Durations of recent steps, if enabled."""
        self.history: History | None = None
        """Earlier epochs, if they are kept."""
        if history is not None:
            self.history = time_travel.History(self, time_travel.parse_retention(history))

    def swap_in_default(self) -> None:
        """Make the engine use the database's own transaction and settings, if there are sessions."""
        if self.sessions is not None:
            self.sessions.swap_in_default()

    @property
    def interrupt(self) -> DeferredInterrupt:
        """The interrupt that is checked while the engine runs."""
        return self._interrupt

    def close(self) -> None:
        """Uninstall all views and close the database."""
        if self.write_ahead_log is not None and not self.transactions.is_idle:
            self.rollback()
        try:
            if self.write_ahead_log is not None:
                self.write_ahead_log.close()
        finally:
            self.closed = True
            self.executor.close()

    @property
    def can_use_cache(self) -> bool:
        """Whether cached plans may be used: not with custom plans, in a snapshot, or under LOCK TABLE."""
        excludes_readers = bool(self.tables.change_hooks) and self.locks.excludes_readers
        catalog = self.catalog
        custom = bool(catalog.settings) and catalog.needs_custom_plan
        return self.snapshot_epoch is None and not custom and not excludes_readers

    def table(self, name: str) -> Table:
        """Return a base table, by name in any case."""
        table = self.tables.by_name.get(name) if self.catalog.has_one_schema else None
        return self.tables.by_name[self.catalog.table(name).name] if table is None else table

    def find_table(self, name: str) -> Table | None:
        """Return the base table of exactly that name, or None."""
        return self.tables.by_name.get(name)

    def view(self, name: str) -> MaintainedView:
        """Return a maintained view, by name in any case; ProgrammingError if it is not maintained."""
        self.refresh_clock()
        entry = self.catalog.get(name)
        maintained = self.views.by_name.get(entry.name)
        if maintained is None:
            what = "a table" if isinstance(entry, TableEntry) else "not materialized"
            raise ProgrammingError(
                f'"{entry.name}" is {what}', hint="only what CREATE MATERIALIZED VIEW made is kept up to date"
            )
        return maintained

    # Steps: listeners are notified of every commit, also under Ctrl-C

    def step(self) -> None:
        """Run a step over all pending changes and queue the notifications; all or nothing."""
        if self.clock.has_row:
            self.clock.tick()
        if self.last_change_epochs is not None:
            self._tables_in_step.update(self.executor.tables.tables_with_changes())
        self._run_step(self.executor.step)
        if self._tables_in_step and self.last_change_epochs is not None:
            self.last_change_epochs.update(dict.fromkeys(self._tables_in_step, self.executor.epoch))
            self._tables_in_step.clear()
        if self.journal and not self.journal.is_writing:
            self.journal.finish()
            self.notifications.add(self._notifications())  # of views that were installed again
        if self.write_ahead_log is not None:
            self.write_ahead_log.tend()

    def step_unlogged(self) -> None:
        """Run a step that is not logged; the next commit logs its changes."""
        recorder, self.executor.tables.recorder = self.executor.tables.recorder, None
        try:
            self._run_step(self.executor.step)
        finally:
            self.executor.tables.recorder = recorder

    def begin_statement(self) -> None:
        """Set the statement's time to the present, outside of a transaction."""
        if self.transactions.state is State.NONE:
            clock = self.clock
            self.catalog.now = time.time_ns() // 1000 if clock.advanced_time is None else clock.advanced_time
            if clock.has_row:
                self.refresh_clock()

    def refresh_clock(self) -> None:
        """Advance the clock row for views that compare with the time; not within a transaction."""
        if self.write_ahead_log is not None and self.write_ahead_log.refuses is not None:
            return
        if self.clock.has_row and self.transactions.is_idle and not self.executor.tables.has_pending:
            with self.transactions.failing_on_error():
                if self.clock.tick():
                    self.transactions.commit_epoch()

    def advance_to(self, moment: datetime | str) -> None:
        """Set the database time, also in views."""
        self.refuse_in_transaction("advance_to")
        before = self.clock.advanced_time
        self.clock.advance_to(moment)
        try:
            self.refresh_clock()
            self.commit_definitions()
        except BaseException:
            self.clock.advanced_time = before
            raise

    def close_epoch(self) -> None:
        """Close the epoch without a step."""
        if self.last_change_epochs is not None:
            self._tables_in_step.update(self.executor.tables.tables_with_changes())
        self.executor.close_epoch()

    def rollback(self) -> None:
        """Discard all pending changes."""
        self.executor.tables.rollback()
        if self.tables.references is not None:
            self.tables.references.clear()
        self.views.pending.clear()
        if self.journal:
            self.undo_definitions(None)

    def savepoint(self) -> "EngineSavepoint":
        """Return the present state, for :meth:`rollback_to`."""
        return EngineSavepoint(
            self.executor.tables.savepoint(), self.journal.mark(), self.tables.foreign_keys.pending_counts
        )

    def rollback_to(self, point: "EngineSavepoint") -> None:
        """Discard the changes since a savepoint."""
        self.executor.tables.rollback_to(point.rows)
        self.tables.foreign_keys.truncate(point.pending_checks)
        self.undo_definitions(point.mark)

    def undo_definitions(self, mark: JournalMark | None) -> None:
        """Undo definitions back to a mark."""
        with self._interrupt:
            self.journal.undo(mark)
            if self.tables.references is not None:
                self.tables.refresh_constraints()

    def advance(self) -> None:
        """Run a step over the inputs of dataflows, up to the least of their times."""
        self.refuse_in_transaction("a step")
        for client in list(self.dataflows.values()):
            client.pull()
        self._run_step(self.executor.advance)
        self.notifications.deliver()

    def _run_step(self, step: Callable[[], object]) -> None:
        if self.step_statistics is not None:
            self.step_statistics.begin()
        committed = False
        try:
            with self._interrupt:
                step()
                committed = True
                if self.step_statistics is not None:
                    self.step_statistics.end(self.executor.epoch)
                if self.history is not None:
                    self.history.record_step()
                self.notifications.add(self._notifications())
        except BaseException as error:
            if committed:
                # Ctrl-C was pressed. It must not make the caller undo or repeat the commit.
                self.notifications.interrupt(error)
                return
            self.notifications.deliver()
            if isinstance(error, DataError):
                for client in self.dataflows.values():
                    client.locate_error(error)
            raise

    def record_reads(self, label: str, reads: frozenset[str]) -> None:
        """Record what a dataflow reads, so that it cannot be dropped."""
        self.views.record_reads(label, reads)

    def remove_dataflow(self, label: str) -> None:
        """Remove a dropped dataflow."""
        self.catalog.apply(DEPENDENCIES.remove(label))
        self.dataflows.pop(label, None)

    def run(self, planned: PlannedStatement) -> tuple[Words, Words]:
        """Return the rows and multiplicities of a query, by a temporary dataflow.

        It shares existing arrangements. With pending changes it computes from the tables and shares
        nothing.
        """
        return self._run(
            planned,
            isolated=self.executor.tables.has_pending or self.snapshot_epoch is not None,
            then=self.snapshot_epoch,
        )

    def run_as_of(self, planned: PlannedStatement, epoch: int) -> tuple[Words, Words]:
        """Return the rows of a query as of an epoch, by whose catalog it was planned."""
        return self._run(planned, isolated=True, then=epoch, own=False)

    def recompute(self, planned: PlannedStatement) -> tuple[Words, Words]:
        """Return the rows of a query without shared arrangements."""
        return self._run(planned, isolated=True)

    def select(self, planned: PlannedStatement) -> Result:
        """Return the result of a one-off query."""
        return planned.reader(self.executor.dictionary).result(*self.run_read_only(planned))

    def run_read_only(self, planned: PlannedStatement) -> tuple[Words, Words]:
        """Return the rows of a statement that only reads; see :meth:`run`."""
        query, outside = partial(self.run, planned), self.query_runner
        return query() if outside is None else outside(planned, query)

    def check_views(self) -> None:
        """Compute the views that the commit will install: an error refuses the commit."""
        state = self.views.row_state()
        catalog = None
        for name, pending_view in self.views.pending.items():
            if pending_view.computed == state or self.views.is_ego_view(name):
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

        With pending changes, maintained views lag behind the tables, so they are expanded.
        """
        lags = self.executor.tables.has_pending or self.snapshot_epoch is not None
        return self.expanded_catalog() if lags else self.catalog

    def expanded_catalog(self, kept: Callable[[str], bool] = lambda name: False) -> Catalog:
        """Return the catalog with every view expanded where it is used, except those that are ``kept``."""

        def expand_node(node: Rel) -> Rel:
            if not isinstance(node, Get) or node.is_table or kept(node.name):
                return node
            view = self.catalog.get(node.name)
            rel = view.rel if isinstance(view, ViewEntry) else None
            return node if rel is None else transform_up(rel, expand_node)

        def expand_view(entry: ViewEntry) -> Rel:
            assert entry.rel is not None
            return transform_up(entry.rel, expand_node)

        catalog = self.catalog.copy()
        catalog.user_catalog = self.catalog
        expanded = (
            replace(entry, definition=cache(partial(expand_view, entry)), materialized=False)
            for entry in self.catalog
            if isinstance(entry, ViewEntry) and entry.definition is not None and not kept(entry.name)
        )
        catalog.apply(*(RELATIONS.put(entry.name.lower(), entry) for entry in expanded))
        return catalog

    def _run(
        self, planned: PlannedStatement, isolated: bool, then: int | None = None, *, own: bool = True
    ) -> tuple[Words, Words]:
        if self.answered_epoch is not None and self.answered_epoch != self.executor.epoch:
            raise WaitRequest(None)  # a statement reads a single epoch
        self._queries += 1
        self.read_count += 1
        with self._interrupt:
            name = f"query {self._queries}"
            installation = self.executor.install(
                name, planned.plan, isolated=isolated, as_of=then, reads_pending=own
            )
            try:
                return self._interrupt.check_room(installation.rows())
            finally:
                self.executor.uninstall(installation)

    def _notifications(self) -> Iterator[tuple[str, Notification]]:
        """Yield the notifications of the commit."""
        for view in list(self.views.by_name.values()):
            if view.installation.is_watched and view.feed.has_listeners():
                for subscription, changes in view.feed.distribute():
                    yield f"a subscriber of view {view.name}", partial(subscription.deliver, changes)
        for label, client in list(self.dataflows.items()):
            yield from ((f"a callback of {label}", notification) for notification in client.notifications())
        self.retire()

    def retire(self) -> None:
        """Free the state of closed inputs whose rows have all arrived."""
        if self.executor.poll_ended_inputs():
            for client in list(self.dataflows.values()):
                client.retire()
            self.executor.free_final_operators()

    def notify_listener(self, label: str, notifications: Iterable[Notification]) -> None:
        """Notify a new listener of a dataflow of the present contents."""
        try:
            with self._interrupt:
                self.notifications.add(
                    (f"a callback of {label}", notification) for notification in notifications
                )
        finally:
            self.notifications.deliver()

    # Definitions

    def refuse_in_transaction(self, operation: str) -> None:
        """Raise an error within a transaction, for an operation that cannot be undone."""
        self.transactions.check_not_failed()
        if not self.transactions.is_idle:
            raise NotSupportedError(
                f"{operation} inside a transaction is not supported",
                hint="run it before or after the transaction",
            )

    def check_action_rows(self, table: str, words: Words) -> Words:
        """Return the rows that a referential action writes to a table after its pipeline."""
        for check in ACTION_CHECKS:
            words = check(self, self.tables.by_name[table], words)
        return words

    def check_can_define(self, operation: str) -> None:
        """Raise an error unless the catalog may change now."""
        self.transactions.check_not_failed()
        if self.transactions.in_batch or (not self.transactions.is_idle and not self.journal.is_writing):
            raise NotSupportedError(
                f"{operation} inside a batch is not supported"
                if self.transactions.in_batch
                else f"{operation} inside a transaction is not supported",
                hint="run it before or after",
            )

    def drop(self, name: str) -> None:
        """Drop an unused dataflow, table or view, with the attached tables of the view."""
        if name in self.dataflows:
            self.dataflows[name].drop()
            return
        with self._interrupt:
            entry = self.catalog.get(name)
            if isinstance(entry, TableEntry):
                self.tables.drop(entry)
            else:
                self.catalog.remove(name)
                self.views.remove(entry)
        if self.catalog.comments:
            self.catalog.apply(*move_comments(self.catalog, entry.name))
        if self.tables.attached_tables and isinstance(entry, ViewEntry):
            self.drop_attached()

    def drop_attached(self) -> None:
        """Drop the attached tables that no view reads."""
        attached = self.tables.attached_tables
        if attached and not self.closed:
            for name in attached.difference(*self.views.reads.values()):
                if ("RELATION", name.lower()) in self.catalog.privileges.owners:
                    self.catalog.apply(OWNERS.remove(("RELATION", name.lower())))
                if name in self.catalog:
                    self.drop(name)
                else:  # a rollback has removed it from the catalog
                    attached.discard(name)
                    self.tables.discard(name)

    def rename_table(self, old: TableEntry, name: str) -> None:
        """Rename a table, also in everything that refers to it."""
        self.tables.rename(old, name)
        self.views.follow_rename(old.name, name)

    def set_schema(self, table: str, schema: Schema) -> None:
        """Change column names or nullability of a table."""
        self.tables.set_schema(table, schema)
        self.views.follow_columns(table)

    def fold_function(self, fold: "ArrayFold") -> "UserFunctionName[UserFunction]":
        """Return the name by which plans call a fold."""
        name = self.folds.find(fold)
        if name is None:
            name = UserFunctionName(fold.label, self.catalog.next_function_number())
            self.folds.register(fold, name)
        return name

    @property
    def settings(self) -> dict[str, str]:
        """The session's settings."""
        return self.catalog.settings

    @settings.setter
    def settings(self, settings: dict[str, str]) -> None:
        self.catalog.settings = settings

    @property
    def sequences(self) -> "Sequences":
        """Positions of sequences."""
        if self.used_sequences is None:
            self.used_sequences = defaults.Sequences(lambda: self.catalog)
        return self.used_sequences

    @property
    def locks(self) -> "LockManager":
        """The lock manager."""
        if self.used_locks is None:
            self.used_locks = locks.LockManager(self)
        return self.used_locks

    @property
    def channels(self) -> "Channels":
        """Channels of LISTEN and NOTIFY."""
        if self._channels is None:
            self._channels = channels.Channels()
        return self._channels

    # Commits

    def finish_constraints(self, *, committing: bool) -> None:
        """Run the actions of foreign keys, then check them; deferred keys only when committing.

        When committing, also run ON COMMIT actions and check the views that the commit installs.
        """
        if committing and self.on_commit_actions:
            mine = f"{self.catalog.temporary_schema}."
            for name, act in list(self.on_commit_actions.items()):
                if name.startswith(mine):
                    act()
        references = self.tables.references
        if references is not None:
            references.run_actions_and_check(at_commit=committing)
            if committing:
                references.defer(set(), deferred=False)
        if committing and self.views.pending:
            self.check_views()

    def close_epochs(
        self, table: str, counts: Sequence[int], deleted: NDArray[np.int64] | None = None
    ) -> None:
        """Close one epoch for each i.

        It inserts the next ``counts[i]`` of the newest rows and deletes row ``deleted[i]``.

        There must be no other pending changes.
        """
        self._tables_in_step.add(table)
        self.executor.close_epochs(table, counts, deleted)

    def commit_definitions(self, undo: Callable[[], object] = lambda: None) -> None:
        """Commit definitions and sequence positions unless in a transaction; on failure call ``undo``."""
        if self.write_ahead_log is not None and self.transactions.is_idle:
            try:
                self.step()
            except BaseException:
                undo()
                raise

    def refuse_if_durable(self, operation: str, reason: str) -> None:
        """Raise NotSupportedError if the database is in a folder."""
        if self.write_ahead_log is not None:
            raise NotSupportedError(
                f"{operation} in a durable database is not supported: {reason}",
                hint="make it in a database in memory, kpg.connect(), or say it in SQL or Datalog",
            )

    @contextmanager
    def single_commit(self) -> Iterator[None]:
        """Combine the steps of the block into one commit. In a folder, Ctrl-C is deferred to a safe point."""
        if self.write_ahead_log is None:
            yield
            return
        with self._interrupt:
            outermost = self.write_ahead_log.hold()
            try:
                yield
            finally:
                if outermost:
                    self.write_ahead_log.release()


MAX_QUARTERS: Final = 1_200
"""Quarters of a second with steps that are recorded: at least five minutes."""


class StepStatistics:
    """Durations of recent steps; recording costs about a microsecond per step."""

    def __init__(self) -> None:
        self.count = 0
        """Number of recorded steps."""
        self.seconds = 0.0
        """Total duration."""
        self.quarters: deque[list[float]] = deque(maxlen=MAX_QUARTERS)
        """For each quarter: its number (4 * seconds since 1970), the last epoch, the number of steps, and the
        total and the longest duration in seconds.
        """
        self._start = 0.0

    def begin(self) -> None:
        """Begin a step."""
        self._start = time.perf_counter()

    def end(self, epoch: int) -> None:
        """End a step, at an epoch."""
        seconds, quarter = time.perf_counter() - self._start, int(4 * time.time())
        self.count += 1
        self.seconds += seconds
        if self.quarters and self.quarters[-1][0] == quarter:
            record = self.quarters[-1]
            record[1] = epoch
            record[2] += 1
            record[3] += seconds
            record[4] = max(record[4], seconds)
        else:
            self.quarters.append([quarter, epoch, 1, seconds, seconds])

    def since(self, quarter: int) -> list[list[float]]:
        """Return the records of a quarter and later ones."""
        records = []
        for record in reversed(self.quarters):
            if record[0] < quarter:
                break
            records.append(list(record))
        return records[::-1]


def importable(function: Any) -> str | None:
    """Return the import path ``module:name`` of a function; None if another process cannot import it."""
    if not isinstance(function, types.FunctionType | types.BuiltinFunctionType | type):
        function = type(function) if hasattr(function, "initialize") else None
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    if module is None or module == "__main__" or "<" in name:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is function else None
