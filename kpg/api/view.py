"""``View``: the contents, changes and cost of a maintained view."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kpg.api.result import Result, Row, Rows
from kpg.execute.queries.result_rows import Reader
from kpg.runtime.errors import InterfaceError, check_argument
from kpg.runtime.handles import Installation, Stats
from kpg.runtime.monitor import Monitor, synchronized
from kpg.runtime.plan import Plan
from kpg.runtime.types import Type
from kpg.session.notification_queue import Handler
from kpg.session.subscriptions import Callback, Change, Feed, Mailbox, Subscription

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow


class Maintained:
    """What the database holds of an installed view; ``live`` until it is dropped or replaced."""

    def __init__(
        self,
        name: str,
        sql: str,
        installed: Installation,
        reader: Reader,
        feed: Feed,
        plan: Plan | None = None,
    ) -> None:
        """``plan`` is what computes a collection that was exported, of which there is no ``sql``."""
        self.name = name
        self.sql = sql
        self.plan = plan
        self.installed = installed
        self.reader = reader
        self.feed = feed
        self.live = True

    def count(self) -> int:
        """The number of rows."""
        return int(self.installed.rows()[1].sum())


@synchronized("name", "sql", "columns", "types", "fetchone", "fetchmany", "fetchall")
class View(Rows):
    """A handle on a maintained view. Whatever is read is the state after the last commit.

    ``fetchall`` and the other reading methods of a result start at the first row each time.
    """

    def __init__(
        self,
        maintained: Maintained,
        monitor: Monitor,
        check: Callable[[], None],
        explain: Callable[[str], str],
    ) -> None:
        self._maintained = maintained
        self._monitor = monitor
        self._check_database = check
        self._explain = explain
        self._mailbox: Mailbox | None = None

    @property
    def name(self) -> str:
        """The view's name."""
        return self._maintained.name

    @property
    def sql(self) -> str:
        """The text of the view's query; empty for an exported collection."""
        return self._maintained.sql

    @property
    def columns(self) -> list[str]:
        return list(self._maintained.reader.names)

    @property
    def types(self) -> list[Type]:
        return list(self._maintained.reader.visible_types)

    @property
    def stats(self) -> Stats:
        """Time and arrangements of installing the view, and the time of its last refresh."""
        self._check()
        return self._maintained.installed.stats

    def __len__(self) -> int:
        self._check()
        return self._maintained.count()

    def result(self) -> Result:
        """The present contents, which later commits do not change."""
        self._check()
        return self._maintained.reader.result(*self._maintained.installed.rows())

    def arrow(self) -> "pyarrow.Table":
        return self.result().arrow()

    def part(self, start: int = 0, stop: int | None = None) -> list[Row]:
        return self.result().part(start, stop)

    def __repr__(self) -> str:
        return repr(self.result())

    def _repr_html_(self) -> str:
        return self.result()._repr_html_()

    def fetchone(self) -> Row | None:
        """The first row of the present contents, or None."""
        return self.result().fetchone()

    def fetchmany(self, size: int = 1) -> list[Row]:
        """The first ``size`` rows of the present contents."""
        return self.result().fetchmany(size)

    def fetchall(self) -> list[Row]:
        """The present contents."""
        return self.result().fetchall()

    def to_spark(self) -> Any:
        """The present contents as a frame of the Spark session of the workers, in no order.

        Its executors fetch them from the workers, a partition from each, before this returns: later commits
        do not change it. InterfaceError unless the database was opened with ``spark=``.
        """
        from kpg.runtime.spark.stage import frame  # lazy: pyspark is an optional dependency

        self._check()
        reader = self._maintained.reader
        nothing = reader.result(np.empty((len(reader.types), 0), np.int64), np.empty(0, np.int64)).arrow()
        with self._maintained.installed.offered(reader.names, reader.visible_types) as offered:
            return frame(offered, nothing)

    def as_of(self, epoch: "int | str | datetime") -> Result:
        """The contents after an epoch, or at a moment; ProgrammingError unless that is kept."""
        self._check()
        return self._maintained.feed.then(self.name, epoch)

    def changes(
        self, snapshot: bool = True, *, since: "int | str | datetime | None" = None
    ) -> Iterator[Change]:
        """What changed since this handle's last call, as ``(row, time, diff)`` in order of time.

        ``time`` is the epoch of the transaction, ``diff`` how often the row appeared (negative: went).
        The first call starts recording; it gives the present contents as changes, or nothing without
        ``snapshot``. With ``since``, what changed after that epoch or moment, whoever asked before;
        ProgrammingError unless that is kept (see ``history`` of :func:`kpg.connect`).
        """
        self._check()
        feed = self._maintained.feed
        if since is not None:
            return iter(feed.since(self.name, since))
        if self._mailbox is None:
            self._mailbox = feed.mailbox()
            return iter(feed.snapshot() if snapshot else [])
        updates, self._mailbox.waiting = self._mailbox.waiting, []
        return iter(feed.changes(updates))

    def subscribe(
        self,
        callback: Callback,
        *,
        since: "int | str | datetime | None" = None,
        on_error: Handler | None = None,
    ) -> Subscription:
        """Call ``callback`` with a list of ``(row, time, diff)`` after each commit that changes the view.

        With ``since``, first with what changed after that epoch or moment, if anything did.

        An exception of the callback leaves the commit as it is: the logger ``kpg`` and ``on_error`` get it.
        After 10 failing calls in a row the callback is unsubscribed.
        """
        self._check()
        feed = self._maintained.feed
        before = [] if since is None else feed.since(self.name, since)
        subscription = feed.subscribe(callback, on_error=on_error)
        if before:
            subscription.tell(before)
        return subscription

    def explain(self, stage: str = "physical") -> str:
        """The view's plan at a stage of compilation, as EXPLAIN prints it; of an export the physical one."""
        check_argument("stage", stage, str, "the name of a stage of compilation")
        self._check()
        return self._explain(stage)

    def _check(self) -> None:
        self._check_database()
        if not self._maintained.live:
            raise InterfaceError(
                f"view {self.name} was dropped or replaced", hint=f'get it again with db.view("{self.name}")'
            )
