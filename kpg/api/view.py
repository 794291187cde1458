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
from kpg.session.subscriptions import Callback, Change, ChangeQueue, Feed, Subscription

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow


class MaintainedView:
    """The database's record of an installed view; ``is_live`` until it is dropped or replaced."""

    def __init__(
        self,
        name: str,
        sql: str,
        installation: Installation,
        reader: Reader,
        feed: Feed,
        plan: Plan | None = None,
    ) -> None:
        """Record a view. ``plan`` computes an exported collection, which has no ``sql``."""
        self.name = name
        self.sql = sql
        self.plan = plan
        self.installation = installation
        self.reader = reader
        self.feed = feed
        self.is_live = True

    def count(self) -> int:
        """Return the number of rows."""
        return int(self.installation.rows()[1].sum())


@synchronized("name", "sql", "columns", "types", "fetchone", "fetchmany", "fetchall")
class View(Rows):
    """A handle on a maintained view. All reads return the state after the last commit.

    ``fetchall`` and the other reading methods of a result start at the first row each time.
    """

    def __init__(
        self,
        maintained: MaintainedView,
        monitor: Monitor,
        check: Callable[[], None],
        explain: Callable[[str], str],
    ) -> None:
        self._maintained = maintained
        self._monitor = monitor
        self._check_database = check
        self._explain = explain
        self._queue: ChangeQueue | None = None

    @property
    def name(self) -> str:
        """Name of the view."""
        return self._maintained.name

    @property
    def sql(self) -> str:
        """Text of the view's query; empty for an exported collection."""
        return self._maintained.sql

    @property
    def columns(self) -> list[str]:
        return list(self._maintained.reader.names)

    @property
    def types(self) -> list[Type]:
        return list(self._maintained.reader.visible_types)

    @property
    def stats(self) -> Stats:
        """Time and arrangements of the installation, and the time of the last refresh."""
        self._check()
        return self._maintained.installation.stats

    def __len__(self) -> int:
        self._check()
        return self._maintained.count()

    def result(self) -> Result:
        """Return the present contents, which later commits do not change."""
        self._check()
        return self._maintained.reader.result(*self._maintained.installation.rows())

    def arrow(self) -> "pyarrow.Table":
        return self.result().arrow()

    def part(self, start: int = 0, stop: int | None = None) -> list[Row]:
        return self.result().part(start, stop)

    def __repr__(self) -> str:
        return repr(self.result())

    def _repr_html_(self) -> str:
        return self.result()._repr_html_()

    def fetchone(self) -> Row | None:
        """Return the first row of the present contents, or None."""
        return self.result().fetchone()

    def fetchmany(self, size: int = 1) -> list[Row]:
        """Return the first ``size`` rows of the present contents."""
        return self.result().fetchmany(size)

    def fetchall(self) -> list[Row]:
        """Return the present contents."""
        return self.result().fetchall()

    def to_spark(self) -> Any:
        """Return the present contents as a frame of the workers' Spark session, in no order.

        Its executors fetch one partition from each worker before this returns, so that later commits do not
        change it. InterfaceError unless the database was opened with ``spark=``.
        """
        from kpg.runtime.spark.stage import make_frame  # lazy: pyspark is an optional dependency

        self._check()
        reader = self._maintained.reader
        nothing = reader.result(np.empty((len(reader.types), 0), np.int64), np.empty(0, np.int64)).arrow()
        with self._maintained.installation.export(reader.names, reader.visible_types) as offered:
            return make_frame(offered, nothing)

    def as_of(self, epoch: "int | str | datetime") -> Result:
        """Return the contents as of an epoch or a moment; ProgrammingError without that history."""
        self._check()
        return self._maintained.feed.contents_as_of(self.name, epoch)

    def changes(
        self, snapshot: bool = True, *, since: "int | str | datetime | None" = None
    ) -> Iterator[Change]:
        """Return the changes since this handle's last call, as ``(row, time, diff)`` in order of time.

        ``time`` is the epoch of the transaction, ``diff`` the multiplicity of the row, negative for
        deletions. The first call starts recording. It returns the present contents as changes, or nothing
        without ``snapshot``. With ``since``, it returns the changes after that epoch or moment, independent
        of earlier calls; ProgrammingError without that history (see ``history`` of :func:`kpg.connect`).
        """
        self._check()
        feed = self._maintained.feed
        if since is not None:
            return iter(feed.changes_since(self.name, since))
        if self._queue is None:
            self._queue = feed.open_queue()
            return iter(feed.snapshot() if snapshot else [])
        updates, self._queue.unread = self._queue.unread, []
        return iter(feed.changes(updates))

    def subscribe(
        self,
        callback: Callback,
        *,
        since: "int | str | datetime | None" = None,
        on_error: Handler | None = None,
    ) -> Subscription:
        """Call ``callback`` with a list of ``(row, time, diff)`` after each commit that changes the view.

        With ``since``, call it first with the changes after that epoch or moment, if there are any. An
        exception of the callback does not affect the commit: the logger ``kpg`` and ``on_error`` receive
        it. After 10 consecutive failures the callback is unsubscribed.
        """
        self._check()
        feed = self._maintained.feed
        before = [] if since is None else feed.changes_since(self.name, since)
        subscription = feed.subscribe(callback, on_error=on_error)
        if before:
            subscription.deliver(before)
        return subscription

    def explain(self, stage: str = "physical") -> str:
        """Return the view's plan at a stage of compilation, as EXPLAIN prints it."""
        check_argument("stage", stage, str, "the name of a stage of compilation")
        self._check()
        return self._explain(stage)

    def _check(self) -> None:
        self._check_database()
        if not self._maintained.is_live:
            raise InterfaceError(
                f"view {self.name} was dropped or replaced", hint=f'get it again with db.view("{self.name}")'
            )
