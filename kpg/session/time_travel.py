"""Time travel: ``AS OF`` queries, the retention of history, and the epoch of a given moment.

An epoch is a commit. Its moment is the database time (``clock``) of that commit. ``AS OF`` an epoch reads the
state after it; ``AS OF`` a moment reads the last epoch that is not later. Names have their present meaning:
a table's history begins with its present definition. A view that was not maintained at the time is computed
anew.
"""

import datetime
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result, listing
from kpg.compiler.algebra.rel import Constant, Get, LetRec, Rel
from kpg.compiler.algebra.traverse import transform_up, walk
from kpg.compiler.catalog.entries import CLOCK, CLOCK_SCHEMA, TableEntry, get_node
from kpg.compiler.sql.frontend import LoweredQuery
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.as_of import replace_nested_queries, value_query
from kpg.compiler.sql.parse.parser import parse_query
from kpg.execute.queries.limit import find_limit, run_with_limit
from kpg.execute.queries.query_plan import LiveStatistics, PlannedStatement, bind, plan_bound
from kpg.execute.queries.result_rows import EncodedContents
from kpg.runtime.errors import Error, InterfaceError, ProgrammingError, Span
from kpg.runtime.executor import Executor
from kpg.runtime.handles import Installation
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, TIMESTAMPTZ, ColumnDef, Schema
from kpg.runtime.values import date_time, intervals
from kpg.session.base_table import Table
from kpg.session.clock import EPOCH, MICROSECOND, Clock
from kpg.session.tables import Tables
from kpg.session.transaction import Transactions

if TYPE_CHECKING:
    from kpg.compiler.catalog.entries import Catalog

Words = NDArray[np.int64]
InsertingStatement = ast.Insert | ast.CreateTableAs
Epoch = int | str | datetime.datetime
HISTORY_HINT: Final = (
    'it is kept by kpg.connect(history="1 hour"), of a server by kpg serve --history "1 hour"; '
    "1000 is as many epochs"
)
TRIM_DIVISOR: Final = 8
"""History is trimmed once one part in this many has expired: trimming visits everything that has
history.
"""


class HistoricView(Protocol):
    """A maintained view that may have history."""

    @property
    def installation(self) -> Installation:
        """The view's installed dataflow."""


class CommitLog(Protocol):
    """The write-ahead log of a database."""

    @property
    def moment(self) -> tuple[int, int]:
        """Last recorded epoch and its moment."""


class HistoryHost(Protocol):
    """The members of the engine that time travel uses."""

    @property
    def executor(self) -> Executor:
        """Holds earlier states of tables."""

    @property
    def clock(self) -> Clock:
        """The database clock."""

    @property
    def write_ahead_log(self) -> CommitLog | None:
        """The write-ahead log, if the database has one."""

    @property
    def views(self) -> Mapping[str, HistoricView]:
        """Maintained views by name."""

    @property
    def statistics(self) -> LiveStatistics:
        """Table sizes, for planning."""

    @property
    def transactions(self) -> Transactions:
        """The open transaction."""

    @property
    def history(self) -> "History | None":
        """The epochs that are kept; None without ``history``."""

    @property
    def reading_catalog(self) -> "Catalog":
        """The catalog for a one-off query."""

    def expanded_catalog(self, kept: Callable[[str], bool]) -> "Catalog":
        """Return the catalog with every view expanded where it is used, except those that are ``kept``."""

    def run_as_of(self, planned: PlannedStatement, epoch: int) -> tuple[Words, Words]:
        """Return the rows and multiplicities of a query as of an epoch."""

    def select(self, planned: PlannedStatement) -> Result:
        """Return the result of a one-off query."""

    @property
    def tables(self) -> Tables:
        """Base tables, which also add tables for the duration of a statement."""

    def table(self, name: str) -> Table:
        """Return a base table by name, in any case."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much history is kept: a number of epochs before the present one, or of microseconds."""

    epochs: int | None
    microseconds: int | None


def parse_retention(history: int | str | datetime.timedelta) -> Retention:
    """Return the retention for ``history`` of :func:`kpg.connect`; InterfaceError if it is malformed."""
    error = InterfaceError(
        f"history is {history!r}", hint='it is a time such as "1 hour", or a number of epochs from 1 on'
    )
    if isinstance(history, bool):
        raise error
    if isinstance(history, datetime.timedelta):
        history = f"{history // MICROSECOND} microseconds"
    if isinstance(history, str):
        count, _, unit = history.strip().partition(" ")
        if unit.strip().lower() not in ("epoch", "epochs"):
            try:
                microseconds = intervals.duration(intervals.parse(history))
            except (ValueError, OverflowError):
                raise error from None
            if microseconds <= 0:
                raise error
            return Retention(None, microseconds)
        if not count.isdigit():
            raise error
        history = int(count)
    if not isinstance(history, int) or history < 1:
        raise error
    return Retention(history, None)


class History:
    """The epochs of a database that can be queried, and their moments."""

    def __init__(self, engine: HistoryHost, retention: Retention) -> None:
        self.retention = retention
        self._engine = engine
        self._epochs = [engine.executor.epoch]
        self._moments = [engine.clock.read()]
        self._dropped_before = engine.executor.epoch
        self.pinned_epochs: Collection[int] = ()
        """Epochs of transaction snapshots, which are kept until the transactions end."""
        engine.executor.enable_history()

    def encode(self) -> bytes:
        """Return the known epochs and their moments as bytes, for :meth:`restore`."""
        return np.array([[self._dropped_before, *self._epochs], [0, *self._moments]], np.int64).tobytes()

    def restore(self, encoded: bytes | None, commits: Sequence[tuple[int, int]]) -> None:
        """Restore the epochs from ``encoded`` and from later commits, when a database is opened."""
        forgotten, *known = np.frombuffer(encoded or bytes(16), np.int64).reshape(2, -1).T.tolist()
        moments: dict[int, int] = {}
        for epoch, moment in (*known, *commits):
            moments.setdefault(epoch, moment)
        now = self._engine.executor.epoch
        moments.setdefault(now, moments[max(moments)] if moments else self._engine.clock.read())
        self._epochs = sorted(epoch for epoch in moments if epoch <= now)
        # Moments never descend: if the clock was set back, earlier moments are lowered, as in _now.
        later_first = (moments[epoch] for epoch in reversed(self._epochs))
        self._moments = list(accumulate(later_first, min))[::-1]
        self._dropped_before = self._epochs[0] if encoded is None else forgotten[0]
        self._engine.executor.enable_history()
        self._drop_before(self.first)

    def copy_from(self, other: "History") -> None:
        """Take over the epochs of another database with the same history."""
        self._epochs, self._moments = list(other._epochs), list(other._moments)
        self._dropped_before = other.first

    def _now(self) -> int:
        """Return the database time. If the user has set it back, lower later moments to it."""
        now = self._engine.clock.read()
        if now < self._moments[-1]:
            self._moments = [min(moment, now) for moment in self._moments]
        return now

    @property
    def first(self) -> int:
        """Earliest epoch that is certain to be kept."""
        now = self._engine.executor.epoch
        if self.retention.epochs is not None:
            return max(self._dropped_before, now - self.retention.epochs)
        assert self.retention.microseconds is not None
        begin = self._now() - self.retention.microseconds
        return max(self._dropped_before, self._epochs[max(0, bisect_right(self._moments, begin) - 1)])

    def known_epochs(self) -> list[tuple[int, int]]:
        """Return the epochs that can be queried and their moments; of a batch of epochs, the last."""
        start = bisect_left(self._epochs, self.first)
        return list(zip(self._epochs[start:], self._moments[start:], strict=True))

    def record_step(self) -> None:
        """Record the epochs of a finished step, and drop expired ones."""
        now = self._engine.executor.epoch
        if now != self._epochs[-1]:
            moment, keeper = self._now(), self._engine.write_ahead_log
            if keeper is not None and keeper.moment[0] == now:
                moment = max(keeper.moment[1], self._moments[-1])
            self._epochs.append(now)
            self._moments.append(moment)
            first = min((self.first, *self.pinned_epochs))
            if (first - self._dropped_before) * TRIM_DIVISOR > now - first:
                self._drop_before(first)

    def _drop_before(self, first: int) -> None:
        self._dropped_before = first
        self._engine.executor.drop_history_before(first)
        gone = bisect_left(self._epochs, first)
        del self._epochs[:gone], self._moments[:gone]

    def keep_changes(self, installation: Installation) -> None:
        """Keep the changes of a view from now on."""
        self._engine.executor.keep_changes(installation)

    def moment(self, epoch: int) -> int:
        """Return the moment of an epoch that is kept."""
        return self._moments[bisect_left(self._epochs, epoch)]

    def epoch_of(self, value: object) -> int:
        """Return the epoch for a number or a moment; ProgrammingError unless it is kept."""
        match value:
            case bool():
                raise _no_epoch(value)
            case int():
                return self._check_epoch(value)
            case datetime.datetime():
                utc = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
                return self._epoch_at((utc - EPOCH) // MICROSECOND)
            case datetime.date():
                midnight = datetime.datetime.combine(value, datetime.time(), datetime.UTC)
                return self._epoch_at((midnight - EPOCH) // MICROSECOND)
            case str():
                if value.strip().isdigit():
                    return self._check_epoch(int(value))
                try:
                    return self._epoch_at(date_time.parse_instant(value))
                except (ValueError, OverflowError):
                    raise _no_epoch(value) from None
            case _:
                raise _no_epoch(value)

    def _check_epoch(self, epoch: int) -> int:
        now, first = self._engine.executor.epoch, self.first
        if epoch > now:
            raise ProgrammingError(f"epoch {epoch} has not come: the last one is {now}")
        if epoch < first:
            raise self._not_kept_error(f"epoch {epoch}", first)
        return epoch

    def _epoch_at(self, moment: int) -> int:
        now = self._now()
        if moment > now:
            raise ProgrammingError(f"{format_moment(moment)} has not come: it is {format_moment(now)}")
        first = self.first
        if moment < self.moment(first):
            raise self._not_kept_error(format_moment(moment), first)
        return max(first, self._epochs[bisect_right(self._moments, moment) - 1])

    def _not_kept_error(self, subject: str, first: int) -> ProgrammingError:
        moment = format_moment(self.moment(first))
        return ProgrammingError(
            f"{subject} is not kept: the past begins with epoch {first}, of {moment}", hint=HISTORY_HINT
        )

    # Reading

    def changes(self, name: str, installation: Installation, since: Epoch) -> list[Any]:
        """Return the updates of a view after an epoch."""
        epoch = since if isinstance(since, int) and not isinstance(since, bool) else self.epoch_of(since)
        since_epoch, now = installation.history_since, self._engine.executor.epoch
        if epoch > now:
            self._check_epoch(epoch)
        if since_epoch is None or since_epoch > epoch:
            begin = "" if since_epoch is None else f": they begin after epoch {since_epoch}"
            raise ProgrammingError(
                f"changes of {name} since epoch {epoch} are not kept{begin}", hint=HISTORY_HINT
            )
        return installation.changes_after(epoch)

    def contents(self, name: str, installation: Installation, as_of: Epoch) -> tuple[Words, Words]:
        """Return the rows of a view as of an epoch or a moment."""
        epoch, since_epoch = self.epoch_of(as_of), installation.history_since
        if since_epoch is None or since_epoch > epoch:
            begin = "" if since_epoch is None else f": they begin with epoch {since_epoch}"
            hint = f"SELECT * FROM {name} AS OF {epoch} computes them from what tables were"
            raise ProgrammingError(f"the contents of {name} at epoch {epoch} are not kept{begin}", hint=hint)
        return installation.rows_as_of(epoch)

    def catalog(self, epoch: int) -> "Catalog":
        """Return the catalog for a query as of an epoch: views without history at the epoch are expanded."""

        def has_history(name: str) -> bool:
            view = self._engine.views.get(name)
            since = None if view is None else view.installation.history_since
            return since is not None and since <= epoch

        catalog = self._engine.expanded_catalog(has_history)
        if epoch < self._engine.executor.epoch:
            catalog.now = self.moment(epoch)
        return catalog

    def select(self, statement: ast.Select, epoch: int) -> "Result":
        """Return the result of a query as of an epoch."""
        engine, catalog = self._engine, self.catalog(epoch)

        def run(planned: PlannedStatement) -> "Result":
            rows = engine.run_as_of(planned, epoch)
            return planned.reader(engine.executor.dictionary).result(*rows)

        bound = self._fix_time(bind(statement, catalog), epoch)
        if any(isinstance(node, LetRec) for node in walk(bound.rel)):
            limit = find_limit(bound.rel)
            if limit is not None:
                return run_with_limit(
                    bound,
                    limit,
                    lambda limited_query: run(plan_bound(limited_query, catalog, engine.statistics)),
                )
        return run(plan_bound(bound, catalog, engine.statistics))

    def _fix_time(self, bound: LoweredQuery, epoch: int) -> LoweredQuery:
        """Replace the clock row by the epoch's moment, if the clock row has no history at the epoch."""
        clock = get_node(TableEntry(CLOCK, CLOCK_SCHEMA))
        since = self._engine.executor.tables.history_since(CLOCK) if self._engine.clock.has_row else 0
        if since is None or since <= epoch:
            return bound
        row = Constant(((self.moment(epoch), 0),), clock.types)

        def replace_clock(node: Rel) -> Rel:
            return row if isinstance(node, Get) and node.name == CLOCK else node

        return replace(bound, rel=transform_up(bound.rel, replace_clock))


def select_as_of(engine: HistoryHost, statement: ast.Select) -> "Result":
    """Return the result of a query AS OF an epoch or a moment."""
    assert statement.as_of is not None
    past = history_of(engine, statement.as_of.span)
    present = replace(statement, as_of=None)
    try:
        epoch = past.epoch_of(evaluate_constant(engine, statement.as_of))
    except Error as error:
        error.span = error.span or statement.as_of.span
        raise
    return past.select(present, epoch)


def materialize_query(engine: HistoryHost, statement: InsertingStatement) -> InsertingStatement:
    """Return a statement whose AS OF query is replaced by a temporary table of its rows.

    The caller calls ``engine.drop_attached`` after the statement.
    """
    tree = parse_query(f'select * from "{attach_result(engine, statement.query)}"').query
    return replace(statement, query=replace(statement.query, query=tree, as_of=None))


def materialize_subqueries(engine: HistoryHost, statement: ast.Querying) -> ast.Querying:
    """Return a statement with AS OF subqueries replaced by temporary tables; by :func:`materialize_query`."""

    return replace_nested_queries(statement, lambda query: attach_result(engine, query), statement.span)


def attach_result(engine: HistoryHost, query: ast.Select) -> str:
    """Return the name of a temporary table with the rows of an AS OF query."""
    rows = select_as_of(engine, query)
    columns = zip(rows.columns, rows.types, strict=True)
    schema = Schema(tuple(ColumnDef(name, type_, True) for name, type_ in columns))
    name = engine.tables.attach("rows as of an epoch", schema)
    contents = rows.contents
    assert isinstance(contents, EncodedContents)
    with engine.transactions.statement(changes=True):
        engine.table(name).insert(np.ascontiguousarray(contents.words))
    return name


def history_of(engine: HistoryHost, span: Span | None = None) -> History:
    """Return the history of a database; InterfaceError if none is kept."""
    if engine.history is None:
        raise no_history_error(span)
    return engine.history


def no_history_error(span: Span | None = None) -> InterfaceError:
    """Return the error that a database keeps no history."""
    return InterfaceError("nothing of the past is kept", hint=HISTORY_HINT, span=span)


def evaluate_constant(engine: HistoryHost, expression: ast.AsOf) -> Any:
    """Return the value of a constant expression of a statement."""
    catalog = engine.reading_catalog
    result = engine.select(plan_bound(bind(value_query(expression), catalog), catalog, engine.statistics))
    ((value,),) = result.fetchall()
    return value


def epochs(engine: HistoryHost) -> "Result":
    """Return the epochs that are kept, and their moments."""
    known = history_of(engine).known_epochs()
    times = [EPOCH + moment * MICROSECOND for _, moment in known]
    return listing({"epoch": (BIGINT, [epoch for epoch, _ in known]), "moment": (TIMESTAMPTZ, times)})


def _no_epoch(value: object) -> ProgrammingError:
    what = "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
    return ProgrammingError(f"{what} is neither an epoch nor a moment")


def format_moment(moment: int) -> str:
    """Return a moment as text."""
    return f"{EPOCH + moment * MICROSECOND:%Y-%m-%d %H:%M:%S.%f} UTC"
