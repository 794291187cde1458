"""``user.Custom``: an operator that a user wrote, with messages, notifications and state of its own.

It receives, for each time in order, first the messages and then the notification that it asked for: all
messages at earlier or equal times have come by then. It may send, and ask, at the present time or later.
Times are ints; in a loop, tuples (epoch, round, ...) under the product order.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import field
from operator import le
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.callbacks import Batch, UserOperator
from kpg.runtime.convert.foreign import from_rows
from kpg.runtime.dataflow.operator import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, Error, InterfaceError
from kpg.runtime.operators.apply import failure
from kpg.runtime.plan.user import Custom as Node
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates

Words = NDArray[np.int64]
Time = tuple[int, ...]


@dataclass(slots=True)
class Wishes:
    """The notifications asked for, and what was sent to later steps."""

    notifications: set[Time] = field(default_factory=set)
    queue: list[Updates] = field(default_factory=list)

    def copy(self) -> "Wishes":
        """A copy that does not change with this one."""
        return Wishes(set(self.notifications), list(self.queue))

    def times(self) -> set[Time]:
        """All times at which there is something to do."""
        return self.notifications | {tuple(updates.time[:, 0].tolist()) for updates in self.queue}


@dataclass(slots=True, eq=False, kw_only=True)
class Custom(Operator):
    """Runs a user's operator, in steps that can be rolled back: its state is saved before the first call."""

    shows_epochs = True
    node: Node
    dictionary: Dictionary
    arrived: list[tuple[int, Updates]] = field(default_factory=list)
    wishes: Wishes = field(default_factory=Wishes)
    saved: tuple[Any, Wishes] | None = None
    present: Time = ()
    due: list[Time] = field(default_factory=list)
    flowed: bool = False

    def bind(self) -> None:
        """Make the user's operator this one's; InterfaceError if it is another's already."""
        if self.user.context is not None:
            raise InterfaceError(
                f"operator {self.node.operator.name} has a place in a dataflow already",
                hint="make a new instance for each place",
            )
        self.user.context = self

    @property
    def user(self) -> UserOperator:
        """The user's operator."""
        user: UserOperator = self.node.operator.value
        return user

    def accept(self, port: int, updates: Updates) -> None:
        self.arrived.append((port, updates))

    def awaken(self, upper: int) -> None:
        """Have this operator flushed in the step in progress if it has something to do before ``upper``."""
        for rounds in {time[1:] for time in self.wishes.times() if time[0] < upper}:
            self.place.scope.wake(self, rounds)

    def flush(self) -> None:
        self._save()
        step, arrived = self.step, self.arrived
        self.arrived = []
        rounds = step.rounds
        self._post(rounds)
        messages: dict[Time, list[tuple[int, Updates]]] = {}
        for port, updates in arrived:
            for epoch in np.unique(updates.time[0]).tolist():
                messages.setdefault((epoch, *rounds), []).append((port, updates))
        wished = [t for t in self.wishes.notifications if t[0] < step.upper and t[1:] == rounds]
        self.due = sorted({*messages, *wished})
        while self.due:
            self.present = heapq.heappop(self.due)
            for port, updates in messages.pop(self.present, ()):
                self._receive(port, _at(updates, self.present[0]))
            if self.present in self.wishes.notifications:
                self.wishes.notifications.remove(self.present)
                self._call(lambda: self.user.on_notify(self._shown(self.present)))
        self.flowed = True

    def _post(self, rounds: Time) -> None:
        """Send what was sent to this step and these rounds before."""
        kept = []
        for updates in self.wishes.queue:
            ready = updates.time[0, 0] < self.step.upper and tuple(updates.time[1:, 0].tolist()) == rounds
            if ready:
                self.emit(updates)
            else:
                kept.append(updates)
        self.wishes.queue = kept

    def _receive(self, port: int, updates: Updates) -> None:
        batch = Batch(updates, port, self.node.given[port], self.dictionary)
        self._call(lambda: self.user.on_recv(batch, self._shown(self.present)))

    def _call(self, function: Any) -> None:
        try:
            function()
        except InterfaceError:
            raise
        except Exception as error:
            where = f"at time {self._shown(self.present)}"
            raise failure(self.node.operator.name, where, error) from error

    def _shown(self, time: Time) -> Any:
        return time[0] if len(time) == 1 else time

    def send(self, batch: Iterable[tuple[Any, int]], time: Any) -> None:
        """Send pairs (row, multiplicity), or a batch as it came, at a time not before the present."""
        at = self._allowed(time, "send")
        found = batch.words_as(self.node.result.types) if isinstance(batch, Batch) else None
        data, diffs = found if found is not None else self._encoded(batch)
        updates = Updates.of(data, at, diffs)
        if not len(updates):
            return
        if at[0] < self.step.upper:
            self.emit(updates)
        else:
            self.wishes.queue.append(updates)

    def _encoded(self, batch: Iterable[tuple[Any, int]]) -> tuple[Words, Words]:
        name = self.node.operator.name
        pairs = list(batch)
        try:
            counts = np.array([count for _, count in pairs], np.int64)
            rows = [row for row, _ in pairs]
            return from_rows(rows, self.node.result, self.dictionary), counts
        except Error as error:
            raise DataError(f"{name} sent a wrong row: {error.message}", hint=error.hint) from error
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{name} must send (row, multiplicity) pairs: {error}") from error

    def notify_at(self, time: Any) -> None:
        """Ask to be notified when no message at ``time`` or before can come any more."""
        at = self._allowed(time, "be notified")
        if at in self.wishes.notifications:
            return
        self.wishes.notifications.add(at)
        if at[0] >= self.step.upper:
            return
        if at[1:] != self.step.rounds:
            self.place.scope.wake(self, at[1:])
        elif at > self.present and at not in self.due:
            heapq.heappush(self.due, at)

    def _allowed(self, time: Any, what: str) -> Time:
        at: Time = tuple(time) if isinstance(time, (tuple, list)) else (time,)
        if len(at) != len(self.present) or not all(isinstance(part, int) for part in at):
            raise InterfaceError(
                f"operator {self.node.operator.name} cannot {what} at {time!r}",
                hint=f"a time here is like {self._shown(self.present)!r}; use it only when called",
            )
        if not all(map(le, self.present, at)):
            raise InterfaceError(
                f"operator {self.node.operator.name} cannot {what} at {time!r} from time "
                f"{self._shown(self.present)!r}: time does not go back",
                hint="use the time of the call, or a later one",
            )
        return at

    def snapshot(self) -> Iterator[Updates]:
        if self.flowed:
            raise InterfaceError(
                f"operator {self.node.operator.name} gives a stream: what it sent before is not kept",
                hint="have arrange_by_key() or export() keep it from the start, and read that",
            )
        return iter(())

    def _save(self) -> None:
        if self.saved is None:
            self.saved = self.user.save(), self.wishes.copy()

    def commit(self) -> None:
        self.arrived.clear()
        self.saved = None
        self.present = ()

    def rollback(self) -> None:
        self.arrived.clear()
        self.due.clear()
        self.present = ()
        if self.saved is not None:
            state, self.wishes = self.saved
            self.saved = None
            self.user.restore(state)


def _at(updates: Updates, epoch: int) -> Updates:
    """The updates of one epoch."""
    if updates.constant_time:
        return updates
    return updates.take(np.flatnonzero(updates.time[0] == epoch))
