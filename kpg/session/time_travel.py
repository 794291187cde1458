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
from kpg.compiler.catalog.entries import CLOCK, CLOCK_SCHEMA, TableEntry, get_of
from kpg.compiler.sql.frontend import Bound
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.as_of import evaluated, query_of
from kpg.compiler.sql.parse.parser import parse_query
from kpg.execute.queries.limit import answer, limit_of
from kpg.execute.queries.query_plan import LiveStatistics, Planned, bind, plan_bound
from kpg.execute.queries.result_rows import Decoded
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
Settled = ast.Insert | ast.CreateTableAs
Epoch = int | str | datetime.datetime
HOW: Final = (
    'it is kept by kpg.connect(history="1 hour"), of a server by kpg serve --history "1 hour"; '
    "1000 is as many epochs"
)
PATIENCE: Final = 8
"""The past is forgotten when an eighth of what is kept need not be: that is a look at all that remembers."""


class HistoricView(Protocol):
    """A maintained view whose earlier contents may be kept."""

    @property
    def installed(self) -> Installation:
        """The view's dataflow."""


class CommitLog(Protocol):
    """The write-ahead log of a database."""

    @property
    def moment(self) -> tuple[int, int]:
        """The epoch that was recorded last, and when that was."""


class Historic(Protocol):
    """The members of the engine that time travel uses."""

    @property
    def executor(self) -> Executor:
        """Keeps earlier states of tables."""

    @property
    def clock(self) -> Clock:
        """The time of the database."""

    @property
    def keeper(self) -> CommitLog | None:
        """The write-ahead log, if the database has one."""

    @property
    def views(self) -> Mapping[str, HistoricView]:
        """Maintained views by name."""

    @property
    def statistics(self) -> LiveStatistics:
        """Sizes of tables, for planning."""

    @property
    def transactions(self) -> Transactions:
        """The open transaction."""

    @property
    def past(self) -> "Past | None":
        """The epochs that are kept; None without ``history``."""

    @property
    def reading_catalog(self) -> "Catalog":
        """The catalog for a one-off query."""

    def expanded_catalog(self, kept: Callable[[str], bool]) -> "Catalog":
        """The catalog with every view expanded where it is used, except those that are ``kept``."""

    def run_then(self, planned: Planned, epoch: int) -> tuple[Words, Words]:
        """The rows and multiplicities of a query as of an epoch."""

    def select(self, planned: Planned) -> Result:
        """The result of a one-off query."""

    @property
    def tables(self) -> Tables:
        """Get tables for the duration of a statement."""

    def table(self, name: str) -> Table:
        """A base table, by name in any case."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much is kept: so many ``epochs`` before the present one, or so many ``microseconds``."""

    epochs: int | None
    microseconds: int | None


def retention_of(history: int | str | datetime.timedelta) -> Retention:
    """What ``history`` of :func:`kpg.connect` says; InterfaceError if it says nothing."""
    wrong = InterfaceError(
        f"history is {history!r}", hint='it is a time such as "1 hour", or a number of epochs from 1 on'
    )
    if isinstance(history, bool):
        raise wrong
    if isinstance(history, datetime.timedelta):
        history = f"{history // MICROSECOND} microseconds"
    if isinstance(history, str):
        count, _, unit = history.strip().partition(" ")
        if unit.strip().lower() not in ("epoch", "epochs"):
            try:
                length = intervals.span(intervals.parse(history))
            except (ValueError, OverflowError):
                raise wrong from None
            if length <= 0:
                raise wrong
            return Retention(None, length)
        if not count.isdigit():
            raise wrong
        history = int(count)
    if not isinstance(history, int) or history < 1:
        raise wrong
    return Retention(history, None)


class Past:
    """The epochs that a database can be asked for, and their moments."""

    def __init__(self, engine: Historic, retention: Retention) -> None:
        self.retention = retention
        self._engine = engine
        self._epochs = [engine.executor.epoch]
        self._moments = [engine.clock.read()]
        self._forgotten = engine.executor.epoch
        self.held: Collection[int] = ()
        """Epochs that transactions see, which are not forgotten before these end."""
        engine.executor.keep_past()

    def told(self) -> bytes:
        """The epochs that it knows and their moments, for :meth:`learn`."""
        return np.array([[self._forgotten, *self._epochs], [0, *self._moments]], np.int64).tobytes()

    def learn(self, told: bytes | None, commits: Sequence[tuple[int, int]]) -> None:
        """Know what an earlier life of the database has told, and the moments of commits since."""
        forgotten, *known = np.frombuffer(told or bytes(16), np.int64).reshape(2, -1).T.tolist()
        moments: dict[int, int] = {}
        for epoch, moment in (*known, *commits):
            moments.setdefault(epoch, moment)
        now = self._engine.executor.epoch
        moments.setdefault(now, moments[max(moments)] if moments else self._engine.clock.read())
        self._epochs = sorted(epoch for epoch in moments if epoch <= now)
        # Where the clock was set back, nothing had been later, as :meth:`_now` has it.
        later_first = (moments[epoch] for epoch in reversed(self._epochs))
        self._moments = list(accumulate(later_first, min))[::-1]
        self._forgotten = self._epochs[0] if told is None else forgotten[0]
        self._engine.executor.keep_past()
        self._forget(self.first)

    def follow(self, other: "Past") -> None:
        """Know the epochs that another database with the same past knows."""
        self._epochs, self._moments = list(other._epochs), list(other._moments)
        self._forgotten = other.first

    def _now(self) -> int:
        """The time of the database. Where the user has set it back, nothing was later."""
        now = self._engine.clock.read()
        if now < self._moments[-1]:
            self._moments = [min(moment, now) for moment in self._moments]
        return now

    @property
    def first(self) -> int:
        """The earliest epoch that is sure to be kept."""
        now = self._engine.executor.epoch
        if self.retention.epochs is not None:
            return max(self._forgotten, now - self.retention.epochs)
        assert self.retention.microseconds is not None
        begin = self._now() - self.retention.microseconds
        return max(self._forgotten, self._epochs[max(0, bisect_right(self._moments, begin) - 1)])

    def known(self) -> list[tuple[int, int]]:
        """The epochs that can be asked for and their moments; of those of one batch, the last."""
        start = bisect_left(self._epochs, self.first)
        return list(zip(self._epochs[start:], self._moments[start:], strict=True))

    def note(self) -> None:
        """A step is over: its epochs are part of the past, and earlier ones may be no more."""
        now = self._engine.executor.epoch
        if now != self._epochs[-1]:
            moment, keeper = self._now(), self._engine.keeper
            if keeper is not None and keeper.moment[0] == now:
                moment = max(keeper.moment[1], self._moments[-1])
            self._epochs.append(now)
            self._moments.append(moment)
            first = min((self.first, *self.held))
            if (first - self._forgotten) * PATIENCE > now - first:
                self._forget(first)

    def _forget(self, first: int) -> None:
        self._forgotten = first
        self._engine.executor.forget_past(first)
        gone = bisect_left(self._epochs, first)
        del self._epochs[:gone], self._moments[:gone]

    def remember(self, installed: Installation) -> None:
        """Keep what changes in a view from now on."""
        self._engine.executor.remember(installed)

    def moment(self, epoch: int) -> int:
        """The moment of an epoch that is kept."""
        return self._moments[bisect_left(self._epochs, epoch)]

    def epoch_of(self, given: object) -> int:
        """The epoch that a number, or a moment, means; ProgrammingError unless it is kept."""
        match given:
            case bool():
                raise _no_epoch(given)
            case int():
                return self._checked(given)
            case datetime.datetime():
                utc = given if given.tzinfo is not None else given.replace(tzinfo=datetime.UTC)
                return self._at((utc - EPOCH) // MICROSECOND)
            case datetime.date():
                midnight = datetime.datetime.combine(given, datetime.time(), datetime.UTC)
                return self._at((midnight - EPOCH) // MICROSECOND)
            case str():
                if given.strip().isdigit():
                    return self._checked(int(given))
                try:
                    return self._at(date_time.parse_instant(given))
                except (ValueError, OverflowError):
                    raise _no_epoch(given) from None
            case _:
                raise _no_epoch(given)

    def _checked(self, epoch: int) -> int:
        now, first = self._engine.executor.epoch, self.first
        if epoch > now:
            raise ProgrammingError(f"epoch {epoch} has not come: the last one is {now}")
        if epoch < first:
            raise self._gone(f"epoch {epoch}", first)
        return epoch

    def _at(self, moment: int) -> int:
        now = self._now()
        if moment > now:
            raise ProgrammingError(f"{shown(moment)} has not come: it is {shown(now)}")
        first = self.first
        if moment < self.moment(first):
            raise self._gone(shown(moment), first)
        return max(first, self._epochs[bisect_right(self._moments, moment) - 1])

    def _gone(self, what: str, first: int) -> ProgrammingError:
        return ProgrammingError(
            f"{what} is not kept: the past begins with epoch {first}, of {shown(self.moment(first))}",
            hint=HOW,
        )

    # Reading

    def changes(self, name: str, installed: Installation, since: Epoch) -> list[Any]:
        """What has changed in a view after an epoch, as updates."""
        epoch = since if isinstance(since, int) and not isinstance(since, bool) else self.epoch_of(since)
        kept, now = installed.remembers, self._engine.executor.epoch
        if epoch > now:
            self._checked(epoch)
        if kept is None or kept > epoch:
            begin = "" if kept is None else f": they begin after epoch {kept}"
            raise ProgrammingError(f"changes of {name} since epoch {epoch} are not kept{begin}", hint=HOW)
        return installed.changes(epoch)

    def contents(self, name: str, installed: Installation, then: Epoch) -> tuple[Words, Words]:
        """The rows of a view as of an epoch or a moment."""
        epoch, kept = self.epoch_of(then), installed.remembers
        if kept is None or kept > epoch:
            begin = "" if kept is None else f": they begin with epoch {kept}"
            hint = f"SELECT * FROM {name} AS OF {epoch} computes them from what tables were"
            raise ProgrammingError(f"the contents of {name} at epoch {epoch} are not kept{begin}", hint=hint)
        return installed.rows_then(epoch)

    def catalog(self, epoch: int) -> "Catalog":
        """The catalog for a query as of an epoch: views whose past is kept are read, others computed."""

        def kept(name: str) -> bool:
            view = self._engine.views.get(name)
            since = None if view is None else view.installed.remembers
            return since is not None and since <= epoch

        catalog = self._engine.expanded_catalog(kept)
        if epoch < self._engine.executor.epoch:
            catalog.moment = self.moment(epoch)
        return catalog

    def select(self, statement: ast.Select, epoch: int) -> "Result":
        """The result of a query as of an epoch."""
        engine, catalog = self._engine, self.catalog(epoch)

        def run(planned: Planned) -> "Result":
            rows = engine.run_then(planned, epoch)
            return planned.reader(engine.executor.dictionary).result(*rows)

        bound = self._timed(bind(statement, catalog), epoch)
        if any(isinstance(node, LetRec) for node in walk(bound.rel)):
            limit = limit_of(bound.rel)
            if limit is not None:
                return answer(bound, limit, lambda one: run(plan_bound(one, catalog, engine.statistics)))
        return run(plan_bound(bound, catalog, engine.statistics))

    def _timed(self, bound: Bound, epoch: int) -> Bound:
        """The query with a constant time, where views did not compare with the present time yet."""
        clock = get_of(TableEntry(CLOCK, CLOCK_SCHEMA))
        since = self._engine.executor.known_since(CLOCK) if self._engine.clock.kept else 0
        if since is None or since <= epoch:
            return bound
        row = Constant(((self.moment(epoch), 0),), clock.types)

        def timed(node: Rel) -> Rel:
            return row if isinstance(node, Get) and node.name == CLOCK else node

        return replace(bound, rel=transform_up(bound.rel, timed))


def select_then(engine: Historic, statement: ast.Select) -> "Result":
    """The result of a query AS OF an epoch or a moment."""
    assert statement.then is not None
    past = past_of(engine, statement.then.span)
    present = replace(statement, then=None)
    try:
        epoch = past.epoch_of(constant(engine, statement.then))
    except Error as error:
        error.span = error.span or statement.then.span
        raise
    return past.select(present, epoch)


def settled(engine: Historic, statement: Settled) -> Settled:
    """A statement with a table of the rows that its query has AS OF an epoch, in the query's place.

    ``engine.release_attached`` is to be called when it has run.
    """
    tree = parse_query(f'select * from "{attached(engine, statement.query)}"').query
    return replace(statement, query=replace(statement.query, query=tree, then=None))


def within(engine: Historic, statement: ast.Statement) -> ast.Statement:
    """A statement with tables in the place of queries AS OF an epoch that are parts of it, as above."""

    return evaluated(statement, lambda query: attached(engine, query), statement.span)


def attached(engine: Historic, query: ast.Select) -> str:
    """The name of a table of the rows that a query has AS OF an epoch."""
    rows = select_then(engine, query)
    columns = zip(rows.columns, rows.types, strict=True)
    schema = Schema(tuple(ColumnDef(name, type_, True) for name, type_ in columns))
    name = engine.tables.attach("rows as of an epoch", schema)
    contents = rows.contents
    assert isinstance(contents, Decoded)
    with engine.transactions.statement(changes=True):
        engine.table(name).insert(np.ascontiguousarray(contents.words))
    return name


def past_of(engine: Historic, span: Span | None = None) -> Past:
    """The past of a database; InterfaceError if none is kept."""
    if engine.past is None:
        raise nothing_kept(span)
    return engine.past


def nothing_kept(span: Span | None = None) -> InterfaceError:
    """That a database keeps nothing of the past."""
    return InterfaceError("nothing of the past is kept", hint=HOW, span=span)


def constant(engine: Historic, alone: ast.Then) -> Any:
    """The value of an expression that stands alone in a statement."""
    catalog = engine.reading_catalog
    result = engine.select(plan_bound(bind(query_of(alone), catalog), catalog, engine.statistics))
    ((value,),) = result.fetchall()
    return value


def epochs(engine: Historic) -> "Result":
    """The epochs that are kept, and their moments."""
    known = past_of(engine).known()
    times = [EPOCH + moment * MICROSECOND for _, moment in known]
    return listing({"epoch": (BIGINT, [epoch for epoch, _ in known]), "moment": (TIMESTAMPTZ, times)})


def _no_epoch(given: object) -> ProgrammingError:
    what = "NULL" if given is None else repr(given) if isinstance(given, str) else str(given)
    return ProgrammingError(f"{what} is neither an epoch nor a moment")


def shown(moment: int) -> str:
    """A moment as a text."""
    return f"{EPOCH + moment * MICROSECOND:%Y-%m-%d %H:%M:%S.%f} UTC"
