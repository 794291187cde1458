"""``user.Custom`` and ``user.Apply``: user-defined operators, and user functions over rows.

A custom operator receives, for each time in order, first the messages and then the notification
that it requested. All messages at earlier or equal times have arrived by then. It may send and
request notifications at the current time or later. Times are ints; in a loop, tuples (epoch, round,
...) under the product order.

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
from kpg.runtime.plan.user import Apply as Node
from kpg.runtime.plan.user import Custom as UserCustom
from kpg.runtime.plan.user import Kind
from kpg.runtime.records import dataclass
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import MAX_WORD

Words = NDArray[np.int64]


Result = TypeVar("Result")
ROWS_BETWEEN_POLLS = 256
"""Calls of a user's function between checks for Ctrl-C, which must not add to the cost of a row."""


class Caller:
    """Calls a user's function on words and turns its errors into a DataError that names the row."""

    def __init__(self, node: Node, dictionary: Dictionary, poll: Callable[[], None]) -> None:
        self._node = node
        self._poll = poll
        self._function = node.function.value
        self._dictionary = dictionary

    def apply(self, updates: Updates) -> Updates:
        """Return the function's results for the updates.

        Raises:
            DataError: If the function fails.
        """
        match self._node.kind:
            case Kind.MAP_COLUMNS:
                return updates.with_data(self._call_checked(self._map_columns, updates.data))
            case Kind.FILTER_COLUMNS:
                return updates.take(self._call_checked(self._filter_columns, updates.data))
            case Kind.MAP_ROWS:
                return updates.with_data(self._encode(self._call_rows(updates.data)))
            case Kind.FILTER_ROWS:
                positions = [place for place, passes in enumerate(self._call_rows(updates.data)) if passes]
                return updates.take(np.array(positions, np.int64))
            case Kind.FLAT_MAP:
                return self._flatten(
                    updates, [[(row, 1) for row in rows] for rows in self._call_lists(updates.data)]
                )
            case Kind.EXPLODE:
                return self._flatten(updates, self._call_lists(updates.data))

    def _rows(self, data: Words) -> list[tuple[Any, ...]]:
        return to_rows(data, self._node.input_schema.types, self._dictionary)

    def _call_rows(self, data: Words, collect: Callable[[Any], Any] | None = None) -> list[Any]:
        """Return the function's result for each row, after ``collect``; polls for Ctrl-C."""
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

    def _call_lists(self, data: Words) -> list[list[Any]]:
        """Return the function's results as lists; generators are run to their end."""
        return self._call_rows(data, list)

    def _flatten(self, updates: Updates, lists: list[list[Any]]) -> Updates:
        """Return each (row, multiplicity) of list i at the time of update i, multiplied by its diff."""
        places = np.repeat(np.arange(len(lists)), [len(pairs) for pairs in lists]).astype(np.int64)
        try:
            counts = np.array([count for pairs in lists for _, count in pairs], np.int64)
            rows = [row for pairs in lists for row, _ in pairs]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{self._node.function.name} must return (row, multiplicity) pairs: {error}"
            ) from error
        repeated = updates.take(places)
        return Updates(self._encode(rows), repeated.time, multiply_counts(repeated.diffs(), counts))

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
        return self._function(*to_arrays(data, self._node.input_schema, self._dictionary))

    def _call_checked(self, function: Any, data: Words) -> Words:
        try:
            result: Words = function(data)
        except Exception as error:
            row = self._find_failing_row(function, data)
            raise self._failure(row, error) from error
        return result

    def _find_failing_row(self, function: Any, data: Words) -> tuple[Any, ...] | None:
        """Return a row on which alone the function fails, found by bisection; None if there is none."""
        low, high = 0, data.shape[1]
        while high - low > 1:
            middle = (low + high) // 2
            fails = _fails(function, data, low, middle)
            low, high = (low, middle) if fails else (middle, high)
        if high == low or not _fails(function, data, low, high):
            return None
        return self._rows(np.ascontiguousarray(data[:, low:high]))[0]

    def _failure(self, row: tuple[Any, ...] | None, error: Exception) -> DataError:
        return function_error(self._node.function.name, f"on row {row}" if row is not None else "", error)


def multiply_counts(diffs: Words, counts: Words) -> Words:
    """Return the products of multiplicities.

    Raises:
        DataError: If a product does not fit 64 bits.
    """
    if diffs.shape[0] and int(np.abs(diffs).max()) * int(np.abs(counts).max()) > MAX_WORD:
        raise DataError("multiplicity overflow: a row occurs more often than a 64-bit count can hold")
    return diffs * counts


def _fails(function: Any, data: Words, low: int, high: int) -> bool:
    try:
        function(np.ascontiguousarray(data[:, low:high]))
    except Exception:
        return True
    return False


def function_error(name: str, where: str, error: Exception) -> DataError:
    """Return the error of a user's function; the caller chains the cause by ``from``."""
    message = error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    return DataError(
        f"{name} failed{' ' if where else ''}{where}: {message}",
        hint="the step was rolled back; correct the row",
    )


def apply_with_retry(apply: Callable[[Updates], Result], parts: Iterable[Updates]) -> Iterator[Result]:
    """Yield the result of each part; parts that fail are retried together, consolidated."""
    failed_parts = []
    for updates in parts:
        try:
            result = apply(updates)
        except DataError:
            failed_parts.append(updates)
        else:
            yield result
    if failed_parts:
        yield apply(Updates.concat(failed_parts).consolidate())


@dataclass(slots=True, eq=False, kw_only=True)
class Apply(Operator):
    """Applies the function to every update. Rows that cancel out within a step cannot raise errors."""

    caller: Caller

    def push(self, port: int, updates: Updates) -> None:
        self.counters.updates_in += len(updates)
        self.place.scope.forward(self, port, updates)

    def flush(self) -> None:
        for result in apply_with_retry(self.caller.apply, self.take_pending()):
            self.emit(result)

    def snapshot(self) -> Iterator[Updates]:
        for result in apply_with_retry(self.caller.apply, self.inputs[0].snapshot()):
            if len(result):
                yield result


Time = tuple[int, ...]


@dataclass(slots=True)
class PendingWork:
    """Requested notifications, and updates sent to later steps."""

    notifications: set[Time] = field(default_factory=set)
    queue: list[Updates] = field(default_factory=list)

    def copy(self) -> "PendingWork":
        """Return an independent copy."""
        return PendingWork(set(self.notifications), list(self.queue))

    def times(self) -> set[Time]:
        """Return all times with pending work."""
        return self.notifications | {tuple(updates.time[:, 0].tolist()) for updates in self.queue}


@dataclass(slots=True, eq=False, kw_only=True)
class Custom(Operator):
    """Runs a user's operator. Its state is saved before the first call of a step, for a rollback."""

    shows_epochs = True
    node: UserCustom
    dictionary: Dictionary
    inbox: list[tuple[int, Updates]] = field(default_factory=list)
    pending_work: PendingWork = field(default_factory=PendingWork)
    undo_state: tuple[Any, PendingWork] | None = None
    current_time: Time = ()
    due_times: list[Time] = field(default_factory=list)
    has_emitted: bool = False

    def bind(self) -> None:
        """Attach the user's operator to this one.

        Raises:
            InterfaceError: If it is attached to another one.
        """
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
        self.inbox.append((port, updates))

    def schedule_before(self, upper: int) -> None:
        """Schedule a flush in the current step if there is pending work before ``upper``."""
        for rounds in {time[1:] for time in self.pending_work.times() if time[0] < upper}:
            self.place.scope.schedule_at(self, rounds)

    def flush(self) -> None:
        self._save()
        step, received = self.step, self.inbox
        self.inbox = []
        rounds = step.rounds
        self._send_queued(rounds)
        messages: dict[Time, list[tuple[int, Updates]]] = {}
        for port, updates in received:
            for epoch in np.unique(updates.time[0]).tolist():
                messages.setdefault((epoch, *rounds), []).append((port, updates))
        requested = [t for t in self.pending_work.notifications if t[0] < step.upper and t[1:] == rounds]
        self.due_times = sorted({*messages, *requested})
        while self.due_times:
            self.current_time = heapq.heappop(self.due_times)
            for port, updates in messages.pop(self.current_time, ()):
                self._receive(port, _select_epoch(updates, self.current_time[0]))
            if self.current_time in self.pending_work.notifications:
                self.pending_work.notifications.remove(self.current_time)
                self._call(lambda: self.user.on_notify(self._user_time(self.current_time)))
        self.has_emitted = True

    def _send_queued(self, rounds: Time) -> None:
        """Emit the queued updates of this step and these rounds."""
        remaining = []
        for updates in self.pending_work.queue:
            ready = updates.time[0, 0] < self.step.upper and tuple(updates.time[1:, 0].tolist()) == rounds
            if ready:
                self.emit(updates)
            else:
                remaining.append(updates)
        self.pending_work.queue = remaining

    def _receive(self, port: int, updates: Updates) -> None:
        batch = Batch(updates, port, self.node.input_schemas[port], self.dictionary)
        self._call(lambda: self.user.on_recv(batch, self._user_time(self.current_time)))

    def _call(self, function: Any) -> None:
        try:
            function()
        except InterfaceError:
            raise
        except Exception as error:
            where = f"at time {self._user_time(self.current_time)}"
            raise function_error(self.node.operator.name, where, error) from error

    def _user_time(self, time: Time) -> Any:
        return time[0] if len(time) == 1 else time

    def send(self, batch: Iterable[tuple[Any, int]], time: Any) -> None:
        """Send pairs (row, multiplicity), or a received batch, at a time not before the current one."""
        at = self._check_time(time, "send")
        words = batch.words_as(self.node.result.types) if isinstance(batch, Batch) else None
        data, diffs = words if words is not None else self._encode_pairs(batch)
        updates = Updates.of(data, at, diffs)
        if not len(updates):
            return
        if at[0] < self.step.upper:
            self.emit(updates)
        else:
            self.pending_work.queue.append(updates)

    def _encode_pairs(self, batch: Iterable[tuple[Any, int]]) -> tuple[Words, Words]:
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
        """Request a notification for when no message at ``time`` or before can arrive."""
        at = self._check_time(time, "be notified")
        if at in self.pending_work.notifications:
            return
        self.pending_work.notifications.add(at)
        if at[0] >= self.step.upper:
            return
        if at[1:] != self.step.rounds:
            self.place.scope.schedule_at(self, at[1:])
        elif at > self.current_time and at not in self.due_times:
            heapq.heappush(self.due_times, at)

    def _check_time(self, time: Any, action: str) -> Time:
        at: Time = tuple(time) if isinstance(time, (tuple, list)) else (time,)
        if len(at) != len(self.current_time) or not all(isinstance(part, int) for part in at):
            raise InterfaceError(
                f"operator {self.node.operator.name} cannot {action} at {time!r}",
                hint=f"a time here is like {self._user_time(self.current_time)!r}; use it only when called",
            )
        if not all(map(le, self.current_time, at)):
            raise InterfaceError(
                f"operator {self.node.operator.name} cannot {action} at {time!r} from time "
                f"{self._user_time(self.current_time)!r}: time does not go back",
                hint="use the time of the call, or a later one",
            )
        return at

    def snapshot(self) -> Iterator[Updates]:
        if self.has_emitted:
            raise InterfaceError(
                f"operator {self.node.operator.name} gives a stream: what it sent before is not kept",
                hint="have arrange_by_key() or export() keep it from the start, and read that",
            )
        return iter(())

    def _save(self) -> None:
        if self.undo_state is None:
            self.undo_state = self.user.save(), self.pending_work.copy()

    def commit(self) -> None:
        self.inbox.clear()
        self.undo_state = None
        self.current_time = ()

    def rollback(self) -> None:
        self.inbox.clear()
        self.due_times.clear()
        self.current_time = ()
        if self.undo_state is not None:
            state, self.pending_work = self.undo_state
            self.undo_state = None
            self.user.restore(state)


def _select_epoch(updates: Updates, epoch: int) -> Updates:
    """Return the updates of one epoch."""
    if updates.constant_time:
        return updates
    return updates.take(np.flatnonzero(updates.time[0] == epoch))
