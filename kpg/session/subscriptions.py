"""Feed of one maintained view: hands its committed changes to the subscribers.

A feed captures changes only while it has subscribers. Subscribers are notified after the commit. An exception
of one does not affect the others: see :mod:`kpg.session.notification_queue`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result, Row
from kpg.execute.queries.result_rows import Reader
from kpg.runtime.executor import Executor
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.handles import Installation
from kpg.runtime.monitor import Monitor, synchronized
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates
from kpg.session.notification_queue import GuardedCallback, Handler

if TYPE_CHECKING:
    from kpg.session import time_travel
    from kpg.session.time_travel import Epoch, History
else:
    time_travel = LazyModule("kpg.session.time_travel")

Words = NDArray[np.int64]
Change = tuple[Row, int, int]
"""A row, the epoch of its change, and its multiplicity, negative for deletions."""
Callback = Callable[[list[Change]], object]


@dataclass(eq=False)
class ChangeQueue:
    """Changes that one reader has not read yet."""

    unread: list[Updates] = field(default_factory=list)


@synchronized()
class Subscription:
    """A callback that receives the changes of each commit to a view, until it is closed."""

    def __init__(
        self,
        feed: "Feed",
        name: str,
        callback: Callback,
        readers: Words | None = None,
        on_error: Handler | None = None,
    ) -> None:
        """Subscribe; for an ego view, only to ``readers``, given by sorted words, or to all (None)."""
        self._monitor = feed.monitor
        self._feed = feed
        self.readers = readers
        self.deliver = GuardedCallback(f"a subscriber of view {name}", callback, self.close, on_error)
        """Calls the callback."""

    def close(self) -> None:
        """Unsubscribe; closing twice is allowed."""
        self._feed.unsubscribe(self)

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Feed:
    """The listeners of one installed view. Queues end with their readers, subscriptions when closed."""

    def __init__(
        self,
        monitor: Monitor,
        executor: Executor,
        installation: Installation,
        reader: Reader,
        history: "History | None" = None,
    ) -> None:
        self.monitor = monitor
        self._history = history
        self._executor = executor
        self._installation = installation
        self._reader = reader
        self._queues: list[ref[ChangeQueue]] = []
        """Not a WeakSet: that changes at any moment, in the thread that drops the last reference."""
        self._subscriptions: list[Subscription] = []
        self._readers: Words | None = None
        self._carried_over: list[Updates] = []
        """Changes caused by a new installation of the view, not yet distributed."""

    def detach(self) -> Sequence[Updates] | None:
        """Return the changes that empty the view, before the installation ends; None without listeners."""
        if not self.has_listeners():
            return None
        rows, counts = self._installation.rows()
        deletions = Updates.of(rows, (self._executor.epoch,), -counts)
        return [*self._carried_over, *self._installation.drain(), deletions]

    def attach(self, installation: Installation, reader: Reader, detached: Sequence[Updates] | None) -> None:
        """Follow another installation of the view, within the commit that creates it.

        Its difference from the former installation is a change of that commit.
        """
        self._installation, self._reader = installation, reader
        if detached is None:
            return
        rows, counts = installation.rows()
        insertions = Updates.of(rows, (self._executor.epoch,), counts)
        net = Updates.concat([*detached, insertions]).consolidate()
        self._carried_over = [net] if len(net) else []
        self._listen()
        self._select_readers()

    def open_queue(self) -> ChangeQueue:
        """Return a new queue, which collects changes while its reader holds it."""
        queue = ChangeQueue()
        self._listen()
        self._queues.append(ref(queue))
        self._select_readers()
        return queue

    def subscribe(
        self, callback: Callback, readers: Words | None = None, on_error: Handler | None = None
    ) -> Subscription:
        """Call ``callback`` with the changes of each commit, at least those of ``readers``."""
        subscription = Subscription(self, self._installation.name, callback, readers, on_error)
        self._listen()
        self._subscriptions.append(subscription)
        self._select_readers()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._select_readers()

    def changes(self, updates: Sequence[Updates]) -> list[Change]:
        """Return updates as Python rows with epoch and multiplicity, in order of time."""
        return self._reader.changes(updates)

    def snapshot(self) -> list[Change]:
        """Return the contents as changes at the present epoch."""
        return self._reader.snapshot(*self._installation.rows(), self._executor.epoch)

    def changes_since(self, name: str, epoch: "Epoch") -> list[Change]:
        """Return the view's changes after an epoch or a moment, from its history."""
        return self.changes(self._require_history().changes(name, self._installation, epoch))

    def contents_as_of(self, name: str, epoch: "Epoch") -> Result:
        """Return the view's contents as of an epoch or a moment, from its history."""
        return self._reader.result(*self._require_history().contents(name, self._installation, epoch))

    def _require_history(self) -> "History":
        if self._history is None:
            raise time_travel.no_history_error()
        return self._history

    @property
    def subscription_count(self) -> int:
        """Number of subscriptions."""
        return len(self._subscriptions)

    def has_listeners(self) -> bool:
        """Whether there are listeners; without any, capturing changes stops."""
        if self._live_queues() or self._subscriptions:
            return True
        if self._installation.is_watched:
            self._executor.unwatch(self._installation)
        return False

    def distribute(self) -> Iterator[tuple[Subscription, list[Change]]]:
        """Put the last commit's changes into the queues, and yield each subscription with its changes."""
        updates, self._carried_over = [*self._carried_over, *self._installation.drain()], []
        for box in self._live_queues():
            box.unread.extend(updates)
        changes = self.changes(updates) if self._subscriptions else []
        for subscription in list(self._subscriptions) if changes else ():
            yield subscription, changes

    def _live_queues(self) -> list[ChangeQueue]:
        """Return the queues that still have readers."""
        queues = [box for reference in self._queues if (box := reference()) is not None]
        if len(queues) < len(self._queues):
            self._queues = [reference for reference in self._queues if reference() is not None]
        return queues

    def _listen(self) -> None:
        if not self._installation.is_watched:
            self._executor.watch(self._installation)
            self._readers = None

    def _select_readers(self) -> None:
        """Capture only the changes that some listener receives."""
        reader_words = [
            subscription.readers for subscription in self._subscriptions if subscription.readers is not None
        ]
        needs_all = bool(self._live_queues()) or len(reader_words) < len(self._subscriptions)
        readers = None if needs_all else np.unique(np.concatenate((np.empty(0, np.int64), *reader_words)))
        if self._installation.is_watched and not (readers is None and self._readers is None):
            self._installation.capture_readers(readers)
            self._readers = readers
