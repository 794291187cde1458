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
from kpg.runtime.handles import Installation
from kpg.runtime.monitor import Monitor, synchronized
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates
from kpg.session.notification_queue import Guarded, Handler

if TYPE_CHECKING:
    from kpg.session.time_travel import Epoch, Past

Words = NDArray[np.int64]
Change = tuple[Row, int, int]
"""A row, the epoch of its change, and how often it appeared (or, negative, went)."""
Callback = Callable[[list[Change]], object]


@dataclass(eq=False)
class Mailbox:
    """What one reader of changes has not read yet."""

    waiting: list[Updates] = field(default_factory=list)


@synchronized()
class Subscription:
    """A callback that is told of every commit that changes the view, until it is closed."""

    def __init__(
        self,
        feed: "Feed",
        name: str,
        callback: Callback,
        readers: Words | None = None,
        on_error: Handler | None = None,
    ) -> None:
        """Of an ego view, ``readers`` are the words of those that it is told of, in order; None: all."""
        self._monitor = feed.monitor
        self._feed = feed
        self.readers = readers
        self.tell = Guarded(f"a subscriber of view {name}", callback, self.close, on_error)
        """Calls the callback."""

    def close(self) -> None:
        """Tell it nothing more; closing twice is allowed."""
        self._feed.leave(self)

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Feed:
    """Who listens to one installed view. Mailboxes end with their readers, subscriptions when closed."""

    def __init__(
        self,
        monitor: Monitor,
        executor: Executor,
        installed: Installation,
        reader: Reader,
        past: "Past | None" = None,
    ) -> None:
        self.monitor = monitor
        self._past = past
        self._executor = executor
        self._installed = installed
        self._reader = reader
        self._mailboxes: list[ref[Mailbox]] = []
        """Not a WeakSet, which changes in the thread that drops the last reference, at any moment."""
        self._subscriptions: list[Subscription] = []
        self._chosen: Words | None = None
        self._missed: list[Updates] = []
        """Changes that came with another installation of the view, not yet distributed."""

    def leave_installation(self) -> Sequence[Updates] | None:
        """What brings listeners from what they know to no rows, before the installation ends.

        None if nobody listens.
        """
        if not self.is_heard():
            return None
        rows, counts = self._installed.rows()
        gone = Updates.of(rows, (self._executor.epoch,), -counts)
        return [*self._missed, *self._installed.drain(), gone]

    def move(self, installed: Installation, reader: Reader, left: Sequence[Updates] | None) -> None:
        """Listen to another installation of the same view, within the commit that makes it.

        What it differs by from the one that was left is a change of that commit.
        """
        self._installed, self._reader = installed, reader
        if left is None:
            return
        rows, counts = installed.rows()
        come = Updates.of(rows, (self._executor.epoch,), counts)
        net = Updates.concat([*left, come]).consolidate()
        self._missed = [net] if len(net) else []
        self._listen()
        self._choose()

    def mailbox(self) -> Mailbox:
        """A new mailbox, which collects changes from now on for as long as somebody holds it."""
        box = Mailbox()
        self._listen()
        self._mailboxes.append(ref(box))
        self._choose()
        return box

    def subscribe(
        self, callback: Callback, readers: Words | None = None, on_error: Handler | None = None
    ) -> Subscription:
        """Call ``callback`` with the changes of every commit from now on, at least those of ``readers``."""
        subscription = Subscription(self, self._installed.name, callback, readers, on_error)
        self._listen()
        self._subscriptions.append(subscription)
        self._choose()
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Forget a subscription."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._choose()

    def changes(self, updates: Sequence[Updates]) -> list[Change]:
        """Updates as Python rows with epoch and count, in order of time."""
        return self._reader.changes(updates)

    def snapshot(self) -> list[Change]:
        """The present contents as changes at the present epoch."""
        return self._reader.snapshot(*self._installed.rows(), self._executor.epoch)

    def since(self, name: str, epoch: "Epoch") -> list[Change]:
        """The changes of the view of that name after an epoch or a moment, if they are kept."""
        return self.changes(self._kept().changes(name, self._installed, epoch))

    def then(self, name: str, epoch: "Epoch") -> Result:
        """The contents as of an epoch or a moment, if they are kept."""
        return self._reader.result(*self._kept().contents(name, self._installed, epoch))

    def _kept(self) -> "Past":
        if self._past is None:
            from kpg.session.time_travel import nothing_kept  # lazy: the start does without it

            raise nothing_kept()
        return self._past

    @property
    def listeners(self) -> int:
        """How many subscriptions there are."""
        return len(self._subscriptions)

    def is_heard(self) -> bool:
        """Whether somebody listens; if not, changes are captured no more."""
        if self._boxes() or self._subscriptions:
            return True
        if self._installed.watched:
            self._executor.unwatch(self._installed)
        return False

    def distribute(self) -> Iterator[tuple[Subscription, list[Change]]]:
        """Put the last commit's changes into the mailboxes; what subscriptions are to be told is yielded."""
        updates, self._missed = [*self._missed, *self._installed.drain()], []
        for box in self._boxes():
            box.waiting.extend(updates)
        changes = self.changes(updates) if self._subscriptions else []
        for subscription in list(self._subscriptions) if changes else ():
            yield subscription, changes

    def _boxes(self) -> list[Mailbox]:
        """The mailboxes that have readers."""
        found = [box for one in self._mailboxes if (box := one()) is not None]
        if len(found) < len(self._mailboxes):
            self._mailboxes = [one for one in self._mailboxes if one() is not None]
        return found

    def _listen(self) -> None:
        if not self._installed.watched:
            self._executor.watch(self._installed)
            self._chosen = None

    def _choose(self) -> None:
        """Have only those changes be captured that somebody is to be told."""
        told = [one.readers for one in self._subscriptions if one.readers is not None]
        every = bool(self._boxes()) or len(told) < len(self._subscriptions)
        chosen = None if every else np.unique(np.concatenate((np.empty(0, np.int64), *told)))
        if self._installed.watched and not (chosen is None and self._chosen is None):
            self._installed.choose(chosen)
            self._chosen = chosen
