"""``plan.Source``, ``user.Input`` and sinks: the entries and exits of the dataflow.

A :class:`Source` emits the rowids of a base table. An :class:`Input` is a stream of user updates;
it buffers only updates that no step has processed. A :class:`Sink` or :class:`Capture` buffers
changes until they are drained; a capture may also keep them for reads AS OF.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator, Place
from kpg.runtime.errors import InterfaceError
from kpg.runtime.operators.linear import Linear
from kpg.runtime.records import dataclass
from kpg.runtime.tables.epochs import live_as_of
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.updates import Updates


@dataclass(slots=True, eq=False)
class Piece:
    """Updates sorted by time. Those from ``start`` on are still to be processed."""

    updates: Updates
    start: int = 0

    @classmethod
    def of(cls, updates: Updates) -> "Piece":
        """Return the updates sorted by time."""
        times = updates.time[0]
        if not updates.constant_time and (times[1:] < times[:-1]).any():
            updates = updates.take(np.argsort(times, kind="stable"))
        return cls(updates)

    def __len__(self) -> int:
        return len(self.updates) - self.start

    @property
    def first(self) -> int:
        """First time still to be processed."""
        return int(self.updates.time[0, 0 if self.updates.constant_time else self.start])

    def end(self, upper: int) -> int:
        """Return the position after the updates before ``upper``."""
        if self.updates.constant_time:
            return len(self.updates) if self.first < upper else self.start
        return int(np.searchsorted(self.updates.time[0], upper))

    def last(self, upper: int) -> int:
        """Return the last time before ``upper``; there must be one to be processed."""
        return int(self.updates.time[0, 0 if self.updates.constant_time else self.end(upper) - 1])

    def split(self, upper: int) -> tuple[Updates, "Piece | None"]:
        """Return the remaining updates before ``upper``, and the piece of those after."""
        end = self.end(upper)
        rest = Piece(self.updates, end) if end < len(self.updates) else None
        if self.start == 0 and rest is None:
            return self.updates, None
        return self.updates.take(np.arange(self.start, end)), rest


@dataclass(slots=True, eq=False, kw_only=True)
class Input(Operator):
    """Buffer of updates in order of arrival, at times not before ``time``, which only advances.

    ``user_time`` is the time that the user has last set: a commit that closes an epoch moves ``time``
    past it.
    """

    name: str
    time: int
    user_time: int
    is_open: bool = True
    has_emitted: bool = False
    buffer: list[Piece] = field(default_factory=list)
    staged_rows: list[tuple[int, ...]] = field(default_factory=list)
    undo_buffer: list[Piece] = field(default_factory=list)

    @property
    def identity(self) -> str:
        """Identity in plans."""
        return self.place.fingerprint

    def advance_to(self, time: int) -> None:
        """Promise that no update before ``time`` will follow."""
        self.time = self.user_time = time

    def close(self) -> None:
        """Promise that no update will follow."""
        self.is_open = False

    @property
    def earliest(self) -> int | None:
        """First time in the buffer; None if it is empty."""
        self.flush_staged()
        return min((piece.first for piece in self.buffer), default=None)

    def stage(self, row: tuple[int, ...]) -> None:
        """Buffer one update: the words of its row, its time and its diff."""
        self.staged_rows.append(row)

    def flush_staged(self) -> None:
        """Turn the staged updates into a piece."""
        if self.staged_rows:
            words = np.ascontiguousarray(np.array(self.staged_rows, np.int64).T)
            single = len({row[-2] for row in self.staged_rows}) == 1
            self.staged_rows = []
            self.add(Updates(words[:-2], words[-2:-1, :1].copy() if single else words[-2:-1], words[-1]))

    def clear(self) -> int:
        """Discard the buffer and return the number of its updates."""
        self.flush_staged()
        count = sum(map(len, self.buffer))
        self.buffer.clear()
        return count

    def add(self, updates: Updates) -> None:
        """Buffer updates at times not before ``time``."""
        if len(updates):
            self.buffer.append(Piece.of(updates))

    def consolidate_buffer(self) -> None:
        """Consolidate the buffer into one piece.

        Raises:
            DataError: If a sum of diffs does not fit 64 bits.
        """
        self.flush_staged()
        if self.buffer:
            parts = [piece.updates.take(np.arange(piece.start, len(piece.updates))) for piece in self.buffer]
            updates = Updates.concat(parts).consolidate()
            self.buffer = [Piece.of(updates)] if len(updates) else []

    def span(self, upper: int) -> tuple[int, int] | None:
        """Return the first and the last time in the buffer before ``upper``; None if there is none."""
        self.flush_staged()
        due = [piece for piece in self.buffer if piece.first < upper]
        return (min(p.first for p in due), max(p.last(upper) for p in due)) if due else None

    def push_until(self, upper: int) -> None:
        """Push the buffered updates at times before ``upper`` in the current step."""
        self.flush_staged()
        if not any(piece.first < upper for piece in self.buffer):
            return
        self.undo_buffer, self.buffer = self.buffer, []
        parts = []
        for piece in self.undo_buffer:
            rest: Piece | None = piece
            if piece.first < upper:
                updates, rest = piece.split(upper)
                parts.append(updates)
            if rest is not None:
                self.buffer.append(rest)
        self.push(0, _shorten_times(Updates.concat(parts)))

    def flush(self) -> None:
        for updates in self.take_pending():
            self.emit(updates)

    def hydrate(self) -> None:
        """Do nothing: an input has no history."""

    def snapshot(self) -> Iterator[Updates]:
        if self.has_emitted:
            raise InterfaceError(
                f"input {self.name} is a stream: what it brought up to time {self.step.time} is not kept",
                hint="have arrange_by_key() or export() keep it from the start, and read that",
            )
        return iter(())

    def size(self) -> int:
        return 0

    def commit(self) -> None:
        self.has_emitted = True
        self.pending.clear()
        self.undo_buffer = []

    def rollback(self) -> None:
        self.pending.clear()
        if self.undo_buffer:
            self.buffer, self.undo_buffer = self.undo_buffer, []


def _shorten_times(updates: Updates) -> Updates:
    """Return the updates with their time stored once if all are equal."""
    time = updates.time
    if time.shape[1] > 1 and (time == time[0, 0]).all():
        return updates.with_time(time[:, :1].copy())
    return updates


@dataclass(slots=True, eq=False, kw_only=True)
class Sink(Operator):
    """Buffers the consolidated changes of each step, or of each round in a loop, until they are drained."""

    shows_epochs = True
    listener: int
    is_open: bool = True
    """Whether a client will drain it."""
    changes: list[Updates] = field(default_factory=list)
    uncommitted_changes: list[Updates] = field(default_factory=list)

    def flush(self) -> None:
        pending = self.take_pending()
        if pending:
            changes = Updates.concat(pending).consolidate()
            self.uncommitted_changes += [changes] if len(changes) else []

    def drain(self) -> list[Updates]:
        """Return the changes of committed steps since the last call."""
        changes, self.changes = self.changes, []
        return changes

    def commit(self) -> None:
        self.pending.clear()
        if self.is_open:
            self.changes.extend(self.uncommitted_changes)
        self.uncommitted_changes = []

    def rollback(self) -> None:
        self.pending.clear()
        self.uncommitted_changes = []

    def snapshot(self) -> Iterator[Updates]:
        return iter(())

    def size(self) -> int:
        return 0


CHUNK_ROWS = 1 << 20
"""Rows of a table's snapshot per chunk; consumers absorb each chunk before the next."""


@dataclass(slots=True, eq=False, kw_only=True)
class Source(Operator):
    """Emits the table's changes of each epoch that a step closes."""

    table: Table
    as_of: int | None = None
    """Epoch as of which it reads the table; None for the current contents."""
    reads_pending: bool = False
    """Whether reads as of an epoch include pending changes."""

    def push_change(self, epoch: int, rowids: NDArray[np.int64], sign: int) -> None:
        """Push rows that ``epoch`` inserted (sign 1) or deleted (-1)."""
        time = np.array([[epoch]], np.int64)
        self.push(0, Updates(rowids.reshape(1, -1), time, np.array([sign], np.int64)))

    def flush(self) -> None:
        if self.step.hydrating:
            for updates in self.snapshot():
                self.emit(updates, more=True)
        # Commits that share a step have a few rows each: emit them together.
        pending = self.take_pending()
        is_small = len(pending) > 1 and sum(part.data.shape[1] for part in pending) <= CHUNK_ROWS
        for updates in [Updates.concat(pending)] if is_small else pending:
            self.emit(updates)

    def snapshot(self) -> Iterator[Updates]:
        rowids = self.table.live() if self.as_of is None else self._rowids_as_of(self.as_of)
        time = self.step.stamp
        for start in range(0, rowids.shape[0], CHUNK_ROWS):
            chunk = rowids[start : start + CHUNK_ROWS].reshape(1, -1)
            yield Updates(chunk, time, np.ones(1, np.int64))

    def _rowids_as_of(self, epoch: int) -> NDArray[np.int64]:
        return live_as_of(self.table, epoch, reads_pending=self.reads_pending)

    def size(self) -> int:
        return self.table.rows


@dataclass(slots=True, eq=False)
class Capture(Operator):
    """Buffers the changes of a view until they are drained, or keeps them as its history."""

    readers: NDArray[np.int64] | None = None
    """For an ego view, the sorted readers whose changes are requested; None for all."""
    changes: list[Updates] = field(default_factory=list)
    uncommitted_changes: list[Updates] = field(default_factory=list)
    lazy_output: Linear | None = None
    """The view's output, if it is lazy: then the buffer has changes of its input."""
    since: int | None = None
    """Epoch since which all changes are kept, for reads AS OF; None if they are drained."""

    def view_changes(self, changes: Iterable[Updates]) -> list[Updates]:
        """Return buffered changes as changes of the view."""
        if self.lazy_output is None:
            return list(changes)
        results = [self.lazy_output.evaluate_changes(part) for part in changes]
        return [part for part in results if len(part)]

    def flush(self) -> None:
        changes = Updates.concat(self.take_pending()).consolidate()
        self.uncommitted_changes = [changes] if len(changes) else []

    def commit(self) -> None:
        self.changes.extend(self.uncommitted_changes)
        self.uncommitted_changes = []
        if self.since is not None:
            merge_small_parts(self.changes)

    def rollback(self) -> None:
        self.pending.clear()
        self.uncommitted_changes = []

    def changes_since(self, epoch: int) -> list[Updates]:
        """Return the kept changes after an epoch, step by step."""
        return changes_after(self.changes, epoch)

    def drop_through(self, epoch: int) -> None:
        """Drop the kept changes up to an epoch."""
        assert self.since is not None
        self.changes, self.since = drop_changes_through(self.changes, self.since, epoch)


def attach_capture(name: str, output: Operator, position: int, *, since: int | None = None) -> Capture:
    """Attach a capture to an output, or to the input of a lazy output, and return it."""
    lazy_output = output if isinstance(output, Linear) and output.lazy is not None else None
    source = output if lazy_output is None else lazy_output.inputs[0]
    place = Place("", name, position, (source,), output.place.scope, source.width)
    capture = Capture(place, lazy_output=lazy_output, since=since)
    source.consumers.append((capture, 0))
    return capture


def changes_after(parts: list[Updates], epoch: int) -> list[Updates]:
    """Return the changes after ``epoch``, from parts sorted by epoch."""
    first = next((i for i, part in enumerate(parts) if part.time[0].max() > epoch), None)
    if first is None:
        return []
    rest = parts[first:]
    is_later = rest[0].times()[0] > epoch
    return rest if is_later.all() else [rest[0].take(np.flatnonzero(is_later)), *rest[1:]]


def drop_changes_through(parts: list[Updates], since: int, epoch: int) -> tuple[list[Updates], int]:
    """Return the changes after ``epoch``, and the epoch since which they are complete."""
    remaining = changes_after(parts, epoch)
    if len(remaining) == len(parts) and not (remaining and remaining[0] is not parts[0]):
        return parts, since
    times = np.concatenate([part.time[0] for part in parts[: len(parts) - len(remaining) + 1]])
    return remaining, max(since, int(times[times <= epoch].max()))


def merge_small_parts(parts: list[Updates]) -> None:
    """Merge parts until each has more than twice the updates of the next."""
    while len(parts) > 1 and len(parts[-2]) <= 2 * len(parts[-1]):
        parts[-2:] = [Updates.concat(parts[-2:])]
