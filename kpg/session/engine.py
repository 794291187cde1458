"""Engine of one database: executor, catalog, and the maintained views.

The statement handlers and the public API are thin layers over it. Callers hold its monitor.
Invariant: the catalog's tables are a subset of the executor's, and ``views`` holds the materialized views.

The module also defines the state attached to an engine: ``PreparedStatements`` (PREPARE and the protocol's
share one namespace), ``Remembered`` (statement caches of a database, which may be dropped at any time),
``Steps`` (durations of recent steps, per quarter of a second), and the engine's data for catalog relations.
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
from kpg.api.view import Maintained
from kpg.compiler.algebra.rel import Get, Rel
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.algebra.traverse import transform_up
from kpg.compiler.catalog.cache import Consulted, Keeping
from kpg.compiler.catalog.constraints import is_plain
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry, move_comments
from kpg.compiler.catalog.privileges import Asker
from kpg.compiler.sql.frontend import is_computed
from kpg.compiler.sql.parse.statements import Prepare, Select, Statement
from kpg.execute.queries.query_plan import LiveStatistics, Planned, plan_view_entry
from kpg.execute.queries.result_rows import Folds, Reader
from kpg.gc_pause import LazyModule
from kpg.runtime.errors import DataError, NotSupportedError, ProgrammingError, Span, Waiting
from kpg.runtime.executor import Executor
from kpg.runtime.executor_factory import local_executor
from kpg.runtime.interrupts import DeferredInterrupt
from kpg.runtime.monitor import Monitor
from kpg.runtime.plan import Plan
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Named
from kpg.runtime.types import Schema
from kpg.session.base_table import Table
from kpg.session.clock import Clock
from kpg.session.notification_queue import Notification, Notifications
from kpg.session.tables import Tables
from kpg.session.transaction import State, Transactions
from kpg.session.undo import Journal, Mark
from kpg.session.views import Views

if TYPE_CHECKING:
    from kpg.compiler.catalog.entries import Entry
    from kpg.compiler.catalog.routines import ArrayFold
    from kpg.compiler.sql.parse.statements import Insert
    from kpg.compiler.sql.rewrite import deparse
    from kpg.execute.changes import defaults
    from kpg.execute.changes.defaults import Sequences
    from kpg.provenance.proof_tree import Proof
    from kpg.runtime.functions.user_functions import Own
    from kpg.runtime.types import Type
    from kpg.session import channels, locks, time_travel
    from kpg.session import memory_limit as memory_limits
    from kpg.session.channels import Channels
    from kpg.session.distribution import Workers
    from kpg.session.locks import RowLocks
    from kpg.session.notices import Notice
    from kpg.session.time_travel import Past
else:
    deparse = LazyModule("kpg.compiler.sql.rewrite.deparse")
    defaults = LazyModule("kpg.execute.changes.defaults")
    channels = LazyModule("kpg.session.channels")
    locks = LazyModule("kpg.session.locks")
    memory_limits = LazyModule("kpg.session.memory_limit")
    time_travel = LazyModule("kpg.session.time_travel")


Words = NDArray[np.int64]


class Opened(NamedTuple):
    """A portal that a client has opened: its name, the text, when it was made, and what it runs."""

    name: str
    text: str
    moment: int
    statement: object


@dataclass(slots=True)
class Cursor:
    """A cursor that DECLARE has opened.

    ``place`` is 0 before the first row, 1 at it, and one more than there are rows behind the last.
    """

    name: str
    rows: Result
    transaction: int | None
    scrolls: bool
    place: int = 0
    whole: Words | None = None
    """The rows of the one table that it selects from, by columns."""
    table: str = ""
    text: str = ""
    query: Select | None = None
    moment: int = 0
    number: int = field(default_factory=count().__next__)
    """None has the number of another."""


class Asking(Protocol):
    """A session, as far as roles and open queries go."""

    asker: Asker
    portals: Callable[[], list[Opened]]


class Nested(NamedTuple):
    """Runs a statement inside another one: EXECUTE, cursors, COPY of a query, CREATE SCHEMA."""

    execute: "Callable[[Engine, Statement], Result | Maintained | None]"
    select: "Callable[[Engine, Select], Result]"


class Sessions(Protocol):
    """All sessions of a database, as statements of one of them ask for them."""

    @property
    def memory_bound(self) -> int:
        """Bytes that no statement may go beyond, 0 for as many as there are."""

    @property
    def sessions(self) -> Mapping[int, Asking]:
        """Those that are not closed, by their numbers."""

    def admit_owner(self) -> None:
        """Have the engine's transaction and settings be the database's own, unless a statement is running."""

    def before_defining(self) -> None:
        """Have a definition in a transaction wait for statements that are in the middle of being planned."""

    def end(self, number: int, wholly: bool) -> bool:
        """End what the session of a number does or, ``wholly``, the session; whether there is one."""

    def export(self) -> str:
        """The name of what the present transaction sees, by which others can see the same while it lasts."""

    def join(self, name: str) -> None:
        """Have the present transaction see what the one sees that has given the name."""


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

    def place(self, error: DataError) -> None:
        """Give an error that has no place in a text its place, if it is here that it came from."""

    def prover(self, name: str) -> "Callable[[Any], Proof] | None":
        """What proves rows of a relation; None for one that it does not derive by rules."""


class InPostgresWords:
    """Texts of definitions as Postgres writes them."""

    def expression(
        self,
        catalog: "Catalog",
        entry: "Entry | None",
        text: str,
        pretty: bool = False,
        given: "Type | None" = None,
    ) -> str:
        """An expression over a relation's columns; ``given`` is the type of a column whose DEFAULT it is."""
        return deparse.spelled(catalog, entry, text, pretty, given)

    def type_of(self, catalog: "Catalog", entry: "Entry", text: str) -> "Type | None":
        """The type of an expression, if it is known."""
        return deparse.type_of(catalog, entry, text)

    def query(self, catalog: "Catalog", text: str) -> str:
        """A query with the schemas of what is not found without, and no others."""
        return deparse.placed(catalog, text)

    def is_computed(self, catalog: "Catalog", view: "ViewEntry", place: int) -> bool:
        """Whether a column of a view is computed, so that its type has neither length nor digits."""

        return is_computed(catalog, view, place)


class Parsed(Protocol):
    """A statement that came by a message."""

    @property
    def text(self) -> str:
        """Its text."""

    def declared(self, engine: "Engine") -> tuple[str, ...]:
        """The types of its parameters, as texts."""


class PreparedStatements(dict[str, Prepare]):
    """Those of PREPARE; ``parsed`` are the others, of which that without a name is the protocol's alone."""

    def __init__(self) -> None:
        super().__init__()
        self.parsed: dict[str, Any] = {}
        """Each is a :class:`Parsed`."""

    def find(self, engine: "Engine", name: str) -> Prepare | None:
        """The statement of a name, as PREPARE would have made it."""
        found = self.get(name)
        if found is not None or name not in self.parsed:
            return found
        one: Parsed = self.parsed[name]
        return Prepare(name, one.declared(engine), one.text, Span(one.text, 0, len(one.text)))

    def check_free(self, name: str, span: Span | None = None) -> None:
        """ProgrammingError if a statement has that name."""
        if name in self or name in self.parsed:
            error = ProgrammingError(f'prepared statement "{name}" already exists', span=span)
            error.sqlstate = "42P05"
            raise error

    def drop(self, name: str) -> bool:
        """Forget a statement; whether there was one."""
        return (self.pop(name, None) or self.parsed.pop(name, None)) is not None

    def clear(self) -> None:
        """Forget all that have names."""
        super().clear()
        for name in [one for one in self.parsed if one]:
            del self.parsed[name]

    def all(self, engine: "Engine") -> Iterator[tuple[Prepare, bool]]:
        """All that have names, and whether by PREPARE."""
        yield from ((one, True) for one in self.values())
        for name in sorted(filter(None, self.parsed)):
            found = self.find(engine, name)
            assert found is not None
            yield found, False


FEW: Final = 64
MOST: Final = 512
"""Of each kind: what is used least lately is forgotten."""
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Latest(Generic[Key, Value]):
    """A mapping that keeps what was used latest."""

    __slots__ = ("_most", "_values")

    def __init__(self, most: int = MOST) -> None:
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """What is remembered under a key."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Remember something under a key."""
        self._values[key] = value
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()


class CacheKind(Generic[Key, Value]):
    """A kind of values that the plan cache keeps, declared by the module that computes them."""


class Remembered:
    """Statements by their texts."""

    def __init__(self) -> None:
        self.inserts: Latest[str, Insert] = Latest()
        self._seen: Latest[tuple[object, ...], bool] = Latest()
        self._kinds: defaultdict[CacheKind[Any, Any], Latest[Any, Any]] = defaultdict(Latest)
        self.types: Latest[str, Type] = Latest()
        """Of declared parameters."""
        self._made: Latest[tuple[object, ...], tuple[object, int, Any]] = Latest(FEW)
        self.keyed: Latest[str, int] = Latest()
        """Texts that look up what they read, or the row that they change; the catalog's version."""
        self.answers = Keeping()
        """Of queries over the system's relations."""
        self.of_system: Latest[str, bool] = Latest()
        """Statements, without their constants, that ask the system's relations: they have no plan for all."""
        self.used = 0
        """How often a plan was used again."""
        self.forgotten = 0
        """How often names, types or settings have come to mean something else."""

    def kind(self, kind: CacheKind[Key, Value]) -> Latest[Key, Value]:
        """The values of a kind; :meth:`forget` drops them."""
        return self._kinds[kind]

    def comes_again(self, key: tuple[object, ...]) -> bool:
        """Whether a statement has come before; from now on it has."""
        if self._seen.get(key):
            return True
        self._seen.put(key, True)
        return False

    def made(
        self, what: tuple[object, ...], part: object, catalog: "Catalog", make: "Callable[[], Value]"
    ) -> "Value":
        """What is made of a statement, or of a part of the catalog: once, unless it asks for the time."""
        key = (*what, id(part), catalog.outlook, catalog.style)
        known = self._made.get(key)
        if known is not None and known[0] is part and known[1] == catalog.version:
            found: Value = known[2]
            return found
        before = catalog.consulted.times
        value = make()
        if catalog.consulted.times == before:
            self._made.put(key, (part, catalog.version, value))
        return value

    def forget(self) -> None:
        """Names, types or settings mean something else from now on."""
        self.forgotten += 1
        self._kinds.clear()
        self.keyed.clear()
        self.types.clear()
        self._made.clear()
        self.answers.clear()


def changes_alone(engine: "Engine", name: str) -> bool:
    """Whether a change of a relation runs nothing else: it has no partitions."""
    others = engine.catalog.others
    if not others:
        return True

    entry = engine.catalog.find(name)
    return isinstance(entry, TableEntry) and is_plain(others, entry.name)


@dataclass(frozen=True, slots=True)
class Point:
    """A state of a transaction: rows, definitions, and how many foreign keys were to be checked."""

    rows: object
    mark: Mark
    waiting: tuple[int, int]


class Engine:
    """Tables, views, transactions; Ctrl-C never leaves it half changed. Callers hold its monitor."""

    nested: Nested
    """Set by :func:`kpg.execute.statements.provide_statements`."""

    def __init__(
        self,
        merge_effort: str = "default",
        memory_limit: int | str | None = None,
        history: "int | str | timedelta | None" = None,
        trunk: "Engine | None" = None,
        workers: "Workers | None" = None,
    ) -> None:
        """With a ``trunk``, tables are as there, and ``kpg/api/branch.py`` does the rest."""
        self.monitor: Monitor = Monitor() if trunk is None else trunk.monitor
        """What every call of the public API holds; branches share dictionaries, and so the monitor."""
        self._interrupt = DeferredInterrupt()
        if memory_limit is not None:
            self._interrupt.watch = memory_limits.watch_of(memory_limit, workers)
        self.workers = workers
        make = local_executor if workers is None else workers.executor
        fork = trunk.executor.fork if trunk is not None else partial(make, merge_effort)
        self.executor: Executor = fork(self._interrupt)
        self.catalog: Catalog = Catalog() if trunk is None else trunk.catalog.copy()
        self.catalog.fold_function = lambda fold: self.fold_function(fold)
        uses: dict[str, frozenset[str]] = {}
        self.journal = Journal(self.catalog, uses)
        plans: dict[str, Plan] = {}
        self.statistics = LiveStatistics(self.executor, plans)
        self.statistics.tables = workers
        self.tables = Tables(self.executor, self.catalog, self.journal, self._interrupt, plans, self)
        self.views = Views(
            self.executor,
            self.catalog,
            self.journal,
            self._interrupt,
            self.monitor,
            plans,
            self.statistics,
            uses,
            self,
        )
        self.notifications = Notifications()
        self.sessions: Sessions | None = None
        """Those that use the engine, where there are some."""
        self.transactions = Transactions(self, self.notifications.deliver)
        self._queries, self.dataflows_made = 0, 0
        self.touched = 0
        """How often rows have been read by a dataflow, or a body has been run."""
        self.reads_outside: Callable[[Planned, Callable[[], tuple[Words, Words]]], tuple[Words, Words]] | None
        self.reads_outside = None
        """Runs a query, which lets other statements use the engine if it takes long (``snapshot_query``)."""
        self.answered: int | None = None
        """The epoch that the present statement has read, if other statements have run since."""
        self.dataflows: dict[str, Client] = {}
        self.clock = Clock(self)
        self.folds = Folds(self.executor)
        self.functions_given: dict[str, Any] = {}
        """What users' functions are made of, by their names in lower case."""
        self.changed: dict[str, int] | None = None
        """The epoch of the last change of each table; None while nobody has to know (see sessions)."""
        self._closing = set[str]()
        self.prepared = PreparedStatements()
        self.goals: dict[str, int] = {}
        """The goals that are kept in a folder, by text, and how many have prepared each."""
        self.waiting_goals: dict[str, Any] = {}
        """Those that were there before the database was opened, and nobody has prepared again yet."""
        self.cursors: dict[tuple[int, str], Cursor] = {}
        self.catalog.consulted = Consulted(0, InPostgresWords())
        self.remembered = Remembered()
        self.notices: list[Notice] = []
        """What statements have to say beside their results, until somebody takes it."""
        self.at_commit: dict[str, Callable[[], None]] = {}
        """The ON COMMIT actions of temporary tables, by the tables' names."""
        self.used_sequences: Sequences | None = None
        """The next numbers of sequences; None before the first use of one."""
        self.used_locks: RowLocks | None = None
        """The locks of sessions; None before the first use of one."""
        self._channels: Channels | None = None
        self.extras: dict[str, object] = {}
        """What else is to be there when it is opened again, by name; values are replaced as a whole."""
        if workers is not None:
            workers.extras = self.extras
        self.keeper: Keeper | None = None
        self.closed = False
        self.given_anew: frozenset[str] = frozenset()
        """Names of users' functions that are given whenever the database is opened."""
        self.seen: int | None = None
        """The epoch that queries see, with pending changes, if that is not the present one."""
        self.steps: Steps | None = None
        """What the last steps took, if somebody wants to know."""
        self.past: Past | None = None
        """What is kept of earlier epochs, if that is asked for."""
        if history is not None:
            self.past = time_travel.Past(self, time_travel.retention_of(history))

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
        closed = bool(self.tables.watching) and self.locks.closed
        return self.seen is None and not self.catalog.plans_anew and not closed

    def table(self, name: str) -> Table:
        """A base table, by name in any case."""
        table = self.tables.by_name.get(name) if self.catalog.has_one_schema else None
        return self.tables.by_name[self.catalog.table(name).name] if table is None else table

    def find_table(self, name: str) -> Table | None:
        """The base table of that name, in exactly these letters, if there is one."""
        return self.tables.by_name.get(name)

    def view(self, name: str) -> Maintained:
        """A maintained view, by name in any case; ProgrammingError if it is none."""
        self.show_time()
        entry = self.catalog.get(name)
        maintained = self.views.maintained.get(entry.name)
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

    def begin_statement(self) -> None:
        """Set the time of a statement to the present, unless a transaction is open, which has its own."""
        if self.transactions.state is State.NONE:
            self.catalog.moment = self.clock.read()
            self.show_time()

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
        if self.tables.references is not None:
            self.tables.references.clear()
        self.views.keeping.clear()
        if self.journal:
            self.undo_definitions(None)

    def savepoint(self) -> "Point":
        """The present state, for :meth:`rollback_to`."""
        return Point(self.executor.savepoint(), self.journal.mark(), self.tables.foreign_keys.waiting)

    def rollback_to(self, point: "Point") -> None:
        """Throw away what has changed since a savepoint."""
        self.executor.rollback_to(point.rows)
        self.tables.foreign_keys.return_to(point.waiting)
        self.undo_definitions(point.mark)

    def undo_definitions(self, mark: Mark | None) -> None:
        """Have names mean what they meant."""
        with self._interrupt:
            self.journal.undo(mark)
            if self.tables.references is not None:
                self.tables.refresh_rules()

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

    def note_uses(self, label: str, uses: frozenset[str]) -> None:
        """Keep what a dataflow reads from being dropped."""
        self.views.reads[label] = uses

    def forget_dataflow(self, label: str) -> None:
        """A dataflow is gone."""
        self.views.reads.pop(label, None)
        self.dataflows.pop(label, None)

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
        return planned.reader(self.executor.dictionary).result(*self.rows(planned))

    def rows(self, planned: Planned) -> tuple[Words, Words]:
        """As :meth:`run`, for a statement that only reads."""
        query, outside = partial(self.run, planned), self.reads_outside
        return query() if outside is None else outside(planned, query)

    def check_views(self) -> None:
        """Compute the views that the commit is to install: an error refuses the commit."""
        state = self.views.row_state()
        catalog = None
        for name, keeping in self.views.keeping.items():
            if keeping.computed == state or self.views.is_overlay(name):
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
        if self.answered is not None and self.answered != self.executor.epoch:
            raise Waiting(None)  # a statement reads one epoch
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
        for view in list(self.views.maintained.values()):
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

    # Definitions

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

    def drop(self, name: str) -> None:
        """Drop a dataflow, table or view that nothing uses, and rows from outside that only the view used."""
        if name in self.dataflows:
            self.dataflows[name].drop()
            return
        with self._interrupt:
            entry = self.catalog.get(name)
            if isinstance(entry, TableEntry):
                self.tables.drop(entry)
            else:
                self.catalog.remove(name)
                self.views.forget(entry)
        if self.catalog.comments:
            move_comments(self.catalog, entry.name)
        if self.tables.attached and isinstance(entry, ViewEntry):
            self.release_attached()

    def release_attached(self) -> None:
        """Drop the tables of rows from outside that no view uses."""
        attached = self.tables.attached
        if attached and not self.closed:
            for name in attached.difference(*self.views.reads.values()):
                self.catalog.rights.owners.pop(("RELATION", name.lower()), None)
                if name in self.catalog:
                    self.drop(name)
                else:  # a rollback has taken it out of the catalog
                    attached.discard(name)
                    self.tables.discard(name)

    def rename_table(self, old: TableEntry, name: str) -> None:
        """Give a table another name; whatever refers to it follows."""
        self.tables.rename(old, name)
        self.views.follow_name(old.name, name)

    def set_schema(self, table: str, schema: Schema) -> None:
        """Give a table's columns other names, or let them be NULL or not."""
        self.tables.set_schema(table, schema)
        self.views.follow_columns(table)

    def fold_function(self, fold: "ArrayFold") -> "Named[Own]":
        """The name by which plans call a fold."""
        known = self.folds.find(fold)
        if known is None:
            known = Named(fold.label, self.catalog.number_function())
            self.folds.adopt(fold, known)
        return known

    @property
    def settings(self) -> dict[str, str]:
        """What the session has set."""
        return self.catalog.settings

    @settings.setter
    def settings(self, settings: dict[str, str]) -> None:
        self.catalog.settings = settings

    @property
    def sequences(self) -> "Sequences":
        """Where sequences stand."""
        if self.used_sequences is None:
            self.used_sequences = defaults.Sequences(lambda: self.catalog)
        return self.used_sequences

    @property
    def locks(self) -> "RowLocks":
        """The locks of sessions."""
        if self.used_locks is None:
            self.used_locks = locks.RowLocks(self)
        return self.used_locks

    @property
    def channels(self) -> "Channels":
        """What sessions tell each other by."""
        if self._channels is None:
            self._channels = channels.Channels()
        return self._channels

    # Commits

    def settle(self, *, committing: bool) -> None:
        """Have foreign keys hold after changes: all of them when committing, else those not deferred."""
        if committing and self.at_commit:
            mine = f"{self.catalog.temporary}."
            for name, act in list(self.at_commit.items()):
                if name.startswith(mine):
                    act()
        references = self.tables.references
        if references is not None:
            references.settle(committing=committing)
            if committing:
                references.defer(set(), deferred=False)
        if committing and self.views.keeping:
            self.check_views()

    def close_epochs(self, table: str, counts: Sequence[int], gone: NDArray[np.int64] | None = None) -> None:
        """End an epoch for each count of rows that a table was given last, and row that is gone from it.

        Nothing else is pending.
        """
        self._closing.add(table)
        self.executor.close_epochs(table, counts, gone)

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


KEPT: Final = 1_200
"""Quarters of a second in which something happened that are remembered: five minutes at least."""


class Steps:
    """A running record, which costs a step about a microsecond."""

    def __init__(self) -> None:
        self.count = 0
        """The number of steps since the record began."""
        self.seconds = 0.0
        """What all of them took."""
        self.last: deque[list[float]] = deque(maxlen=KEPT)
        """Of each quarter: its number (4 * seconds since 1970), the last epoch, how many steps there were,
        the seconds of all of them and of the longest."""
        self._begun = 0.0

    def begin(self) -> None:
        """A step begins."""
        self._begun = time.perf_counter()

    def note(self, epoch: int) -> None:
        """It is done, and has come to an epoch."""
        took, quarter = time.perf_counter() - self._begun, int(4 * time.time())
        self.count += 1
        self.seconds += took
        if self.last and self.last[-1][0] == quarter:
            found = self.last[-1]
            found[1] = epoch
            found[2] += 1
            found[3] += took
            found[4] = max(found[4], took)
        else:
            self.last.append([quarter, epoch, 1, took, took])

    def since(self, quarter: int) -> list[list[float]]:
        """What is remembered of a quarter and those after it."""
        found = []
        for one in reversed(self.last):
            if one[0] < quarter:
                break
            found.append(list(one))
        return found[::-1]


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
