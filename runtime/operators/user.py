"""``user.Custom`` and ``user.Apply``: user-defined operators, and user functions over rows.

A custom operator receives, for each time in order, first the messages and then the notification that it
requested; all messages at earlier or equal times have arrived by then. It may send and request notifications
at the present time or later. Times are ints; in a loop, tuples (epoch, round, ...) under the product order.

Apply calls a user function on columns or on one row at a time.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from operator import le
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.convert.callbacks import Batch, UserOperator, from_arrays, from_rows, to_arrays
from kpg.runtime.convert.python_values import to_rows
from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, Error, InterfaceError
from kpg.runtime.operators.linear import Stateless
from kpg.runtime.plan.user import Apply as Node
from kpg.runtime.plan.user import Custom as UserCustom
from kpg.runtime.plan.user import Kind
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import MAX_WORD

Words = NDArray[np.int64]


Result = TypeVar("Result")
ROWS_BETWEEN_POLLS = 256
"""Calls of a user's function between looks for Ctrl-C, which shall not show in what a row costs."""


class Caller:
    """Calls a user's function on words, and turns what it raises into a DataError that names the row."""

    def __init__(self, node: Node, dictionary: Dictionary, poll: Callable[[], None]) -> None:
        self._node = node
        self._poll = poll
        self._function = node.function.value
        self._dictionary = dictionary

    def apply(self, updates: Updates) -> Updates:
        """What the function makes of the updates; DataError if it fails."""
        match self._node.kind:
            case Kind.MAP_COLUMNS:
                return updates.with_data(self._checked(self._map_columns, updates.data))
            case Kind.FILTER_COLUMNS:
                return updates.take(self._checked(self._filter_columns, updates.data))
            case Kind.MAP_ROWS:
                return updates.with_data(self._encode(self._each(updates.data)))
            case Kind.FILTER_ROWS:
                kept = [place for place, passes in enumerate(self._each(updates.data)) if passes]
                return updates.take(np.array(kept, np.int64))
            case Kind.FLAT_MAP:
                return self._flat(updates, [[(row, 1) for row in rows] for rows in self._lists(updates.data)])
            case Kind.EXPLODE:
                return self._flat(updates, self._lists(updates.data))

    def _rows(self, data: Words) -> list[tuple[Any, ...]]:
        return to_rows(data, self._node.given.types, self._dictionary)

    def _each(self, data: Words, collect: Callable[[Any], Any] | None = None) -> list[Any]:
        """What the function gives for each row, after ``collect``; Ctrl-C is noticed on the way."""
        results = []
        for number, row in enumerate(self._rows(data)):
            if not number % ROWS_BETWEEN_POLLS:
                self._poll()
            try:
                result = self._function(*row)
                results.append(result if collect is None else collect(result))
            except Exception as error:
                raise self._failure(row, error) from error
        return results

    def _lists(self, data: Words) -> list[list[Any]]:
        """As :meth:`_each`, the results, which may be generators, run to their end."""
        return self._each(data, list)

    def _flat(self, updates: Updates, found: list[list[Any]]) -> Updates:
        """Each (row, multiplicity) of place i at the time of update i, times its diff."""
        places = np.repeat(np.arange(len(found)), [len(pairs) for pairs in found]).astype(np.int64)
        try:
            counts = np.array([count for pairs in found for _, count in pairs], np.int64)
            rows = [row for pairs in found for row, _ in pairs]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{self._node.function.name} must give (row, multiplicity) pairs: {error}"
            ) from error
        taken = updates.take(places)
        return Updates(self._encode(rows), taken.time, product(taken.diffs(), counts))

    def _encode(self, rows: list[Any]) -> Words:
        try:
            return from_rows(rows, self._node.result, self._dictionary)
        except Error as error:
            raise DataError(
                f"{self._node.function.name} gave a wrong row: {error.message}", hint=error.hint
            ) from error

    def _map_columns(self, data: Words) -> Words:
        result = self._call(data)
        if len(self._node.result.types) == 1 and not isinstance(result, (tuple, list)):
            result = (result,)
        return from_arrays(result, self._node.result, self._dictionary, data.shape[1])

    def _filter_columns(self, data: Words) -> Words:
        mask = np.asarray(self._call(data))
        if mask.dtype != np.bool_ or mask.shape != (data.shape[1],):
            raise DataError(
                f"{self._node.function.name} gave {mask.dtype} of shape {mask.shape}, expected one bool a row"
            )
        return np.flatnonzero(mask)

    def _call(self, data: Words) -> Any:
        return self._function(*to_arrays(data, self._node.given, self._dictionary))

    def _checked(self, function: Any, data: Words) -> Words:
        try:
            result: Words = function(data)
        except Exception as error:
            row = self._culprit(function, data)
            raise self._failure(row, error) from error
        return result

    def _culprit(self, function: Any, data: Words) -> tuple[Any, ...] | None:
        """A row on which alone the function fails, found by halving; None if there is none."""
        low, high = 0, data.shape[1]
        while high - low > 1:
            middle = (low + high) // 2
            fails = _fails(function, data, low, middle)
            low, high = (low, middle) if fails else (middle, high)
        if high == low or not _fails(function, data, low, high):
            return None
        return self._rows(np.ascontiguousarray(data[:, low:high]))[0]

    def _failure(self, row: tuple[Any, ...] | None, error: Exception) -> DataError:
        return failure(self._node.function.name, f"on row {row}" if row is not None else "", error)


def product(diffs: Words, counts: Words) -> Words:
    """The products of multiplicities; DataError if one does not fit 64 bits."""
    if diffs.shape[0] and int(np.abs(diffs).max()) * int(np.abs(counts).max()) > MAX_WORD:
        raise DataError("multiplicity overflow: a row occurs more often than a 64-bit count can hold")
    return diffs * counts


def _fails(function: Any, data: Words, low: int, high: int) -> bool:
    try:
        function(np.ascontiguousarray(data[:, low:high]))
    except Exception:
        return True
    return False


def failure(name: str, where: str, error: Exception) -> DataError:
    """The error of a user's function; the cause is to be chained by ``from``."""
    what = error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    return DataError(
        f"{name} failed{' ' if where else ''}{where}: {what}",
        hint="the step was rolled back; correct the row",
    )


def applied(apply: Callable[[Updates], Result], parts: Iterable[Updates]) -> Iterator[Result]:
    """What becomes of each part; parts that fail are tried again together, without what cancels out."""
    failed = []
    for updates in parts:
        try:
            result = apply(updates)
        except DataError:
            failed.append(updates)
        else:
            yield result
    if failed:
        yield apply(Updates.concat(failed).consolidate())


@dataclass(slots=True, eq=False, kw_only=True)
class Apply(Stateless):
    """The function over every update. A row that came and went in one step may fail: it is not there."""

    caller: Caller

    def flush(self) -> None:
        for result in applied(self.caller.apply, self.take()):
            self.emit(result)

    def snapshot(self) -> Iterator[Updates]:
        for result in applied(self.caller.apply, self.inputs[0].snapshot()):
            if len(result):
                yield result


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
    node: UserCustom
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
