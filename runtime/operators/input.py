"""``plan.Source``, ``user.Input`` and sinks: where updates enter the dataflow and where changes leave it.

A :class:`Source` streams the rowids of a base table. An :class:`Input` is a stream of user updates; it keeps
only what no step has taken yet. A :class:`Sink` or :class:`Capture` keeps changes until they are drained; a
:class:`Memory` keeps the changes of a view for AS OF reads.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dataflow.dataflow_graph import Operator, Place
from kpg.runtime.errors import InterfaceError
from kpg.runtime.operators.linear import Late
from kpg.runtime.records import dataclass
from kpg.runtime.tables.epochs import live_then
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.updates import Updates


@dataclass(slots=True, eq=False)
class Piece:
    """Updates in order of time, of which those from ``start`` on are still to come."""

    updates: Updates
    start: int = 0

    @classmethod
    def of(cls, updates: Updates) -> "Piece":
        """The updates, put in order."""
        times = updates.time[0]
        if not updates.constant_time and (times[1:] < times[:-1]).any():
            updates = updates.take(np.argsort(times, kind="stable"))
        return cls(updates)

    def __len__(self) -> int:
        return len(self.updates) - self.start

    @property
    def first(self) -> int:
        """The first time to come."""
        return int(self.updates.time[0, 0 if self.updates.constant_time else self.start])

    def end(self, upper: int) -> int:
        """The position behind the updates before ``upper``."""
        if self.updates.constant_time:
            return len(self.updates) if self.first < upper else self.start
        return int(np.searchsorted(self.updates.time[0], upper))

    def last(self, upper: int) -> int:
        """The last time before ``upper``, where there is one to come."""
        return int(self.updates.time[0, 0 if self.updates.constant_time else self.end(upper) - 1])

    def taken(self, upper: int) -> tuple[Updates, "Piece | None"]:
        """The updates to come before ``upper``, and those after them."""
        end = self.end(upper)
        rest = Piece(self.updates, end) if end < len(self.updates) else None
        if self.start == 0 and rest is None:
            return self.updates, None
        return self.updates.take(np.arange(self.start, end)), rest


@dataclass(slots=True, eq=False, kw_only=True)
class Input(Operator):
    """Updates in order of arrival, at times not before ``time``, which only rises.

    ``asked`` is the time that the user has last set: a commit that closes an epoch moves ``time`` past it.
    """

    name: str
    time: int
    asked: int
    open: bool = True
    flowed: bool = False
    buffer: list[Piece] = field(default_factory=list)
    staged: list[tuple[int, ...]] = field(default_factory=list)
    released: list[Piece] = field(default_factory=list)

    @property
    def identity(self) -> str:
        """What plans call it."""
        return self.place.fingerprint

    def advance_to(self, time: int) -> None:
        """Have nothing more come before ``time``."""
        self.time = self.asked = time

    def close(self) -> None:
        """Have nothing more come than what is buffered."""
        self.open = False

    @property
    def earliest(self) -> int | None:
        """The first time in the buffer."""
        self.settle()
        return min((piece.first for piece in self.buffer), default=None)

    def stage(self, row: tuple[int, ...]) -> None:
        """Buffer one update: the words of its row, its time and its diff."""
        self.staged.append(row)

    def settle(self) -> None:
        """Make a piece of the updates that came one by one."""
        if self.staged:
            words = np.ascontiguousarray(np.array(self.staged, np.int64).T)
            single = len({row[-2] for row in self.staged}) == 1
            self.staged = []
            self.add(Updates(words[:-2], words[-2:-1, :1].copy() if single else words[-2:-1], words[-1]))

    def clear(self) -> int:
        """Forget what is buffered; how many updates."""
        self.settle()
        count = sum(map(len, self.buffer))
        self.buffer.clear()
        return count

    def add(self, updates: Updates) -> None:
        """Buffer updates at times not before ``time``."""
        if len(updates):
            self.buffer.append(Piece.of(updates))

    def gather(self) -> None:
        """Make the buffer one consolidated piece. DataError if a sum of diffs does not fit 64 bits."""
        self.settle()
        if self.buffer:
            parts = [piece.updates.take(np.arange(piece.start, len(piece.updates))) for piece in self.buffer]
            updates = Updates.concat(parts).consolidate()
            self.buffer = [Piece.of(updates)] if len(updates) else []

    def span(self, upper: int) -> tuple[int, int] | None:
        """The first and the last time in the buffer before ``upper``, if there are any."""
        self.settle()
        due = [piece for piece in self.buffer if piece.first < upper]
        return (min(p.first for p in due), max(p.last(upper) for p in due)) if due else None

    def release(self, upper: int) -> None:
        """Send what is buffered at times before ``upper`` in the step in progress."""
        self.settle()
        if not any(piece.first < upper for piece in self.buffer):
            return
        self.released, self.buffer = self.buffer, []
        parts = []
        for piece in self.released:
            rest: Piece | None = piece
            if piece.first < upper:
                updates, rest = piece.taken(upper)
                parts.append(updates)
            if rest is not None:
                self.buffer.append(rest)
        self.push(0, _shortened(Updates.concat(parts)))

    def flush(self) -> None:
        for updates in self.take():
            self.emit(updates)

    def hydrate(self) -> None:
        """There is nothing before."""

    def snapshot(self) -> Iterator[Updates]:
        if self.flowed:
            raise InterfaceError(
                f"input {self.name} is a stream: what it brought up to time {self.step.time} is not kept",
                hint="have arrange_by_key() or export() keep it from the start, and read that",
            )
        return iter(())

    def size(self) -> int:
        return 0

    def commit(self) -> None:
        self.flowed = True
        self.pending.clear()
        self.released = []

    def rollback(self) -> None:
        self.pending.clear()
        if self.released:
            self.buffer, self.released = self.released, []


def _shortened(updates: Updates) -> Updates:
    """With one time stored once."""
    time = updates.time
    if time.shape[1] > 1 and (time == time[0, 0]).all():
        return updates.with_time(time[:, :1].copy())
    return updates


@dataclass(slots=True, eq=False)
class Hearer(Operator):
    """Base of what hears a view's rows for somebody outside."""

    chosen: NDArray[np.int64] | None = None
    """Of an ego view the only readers, in order, whose changes anybody asks for."""


@dataclass(slots=True, eq=False, kw_only=True)
class Sink(Operator):
    """Keeps the changes of each step, in a loop of each round, consolidated, until they are drained."""

    shows_epochs = True
    listener: int
    open: bool = True
    """Whether anybody will drain it."""
    changes: list[Updates] = field(default_factory=list)
    uncommitted: list[Updates] = field(default_factory=list)

    def flush(self) -> None:
        pending = self.take()
        if pending:
            changes = Updates.concat(pending).consolidate()
            self.uncommitted += [changes] if len(changes) else []

    def drain(self) -> list[Updates]:
        """The changes of committed steps since the last call."""
        changes, self.changes = self.changes, []
        return changes

    def commit(self) -> None:
        self.pending.clear()
        if self.open:
            self.changes.extend(self.uncommitted)
        self.uncommitted = []

    def rollback(self) -> None:
        self.pending.clear()
        self.uncommitted = []

    def snapshot(self) -> Iterator[Updates]:
        return iter(())

    def size(self) -> int:
        return 0


CHUNK = 1 << 20
"""Rows of a table's snapshot that are handed on at a time: what they become is absorbed before the next."""


@dataclass(slots=True, eq=False, kw_only=True)
class Source(Operator):
    """Streams the table's changes of each epoch that a step closes."""

    table: Table
    then: int | None = None
    """The epoch as of which it gives the rows; None for the present one."""
    own: bool = False
    """Whether rows as of an epoch come with pending changes."""

    def change(self, epoch: int, rowids: NDArray[np.int64], sign: int) -> None:
        """Accept rows that ``epoch`` inserted (sign 1) or deleted (-1)."""
        time = np.array([[epoch]], np.int64)
        self.push(0, Updates(rowids.reshape(1, -1), time, np.array([sign], np.int64)))

    def flush(self) -> None:
        if self.step.hydrating:
            for updates in self.snapshot():
                self.emit(updates, more=True)
        # Commits that share a step bring a few rows each: those go on together.
        taken = self.take()
        few = len(taken) > 1 and sum(one.data.shape[1] for one in taken) <= CHUNK
        for updates in [Updates.concat(taken)] if few else taken:
            self.emit(updates)

    def snapshot(self) -> Iterator[Updates]:
        rowids = self.table.live() if self.then is None else self._then(self.then)
        time = self.step.stamp
        for start in range(0, rowids.shape[0], CHUNK):
            chunk = rowids[start : start + CHUNK].reshape(1, -1)
            yield Updates(chunk, time, np.ones(1, np.int64))

    def _then(self, epoch: int) -> NDArray[np.int64]:
        return live_then(self.table, epoch, own=self.own)

    def size(self) -> int:
        return self.table.rows


Kept = TypeVar("Kept", bound="Capture")


@dataclass(slots=True, eq=False)
class Capture(Hearer):
    """Keeps the changes of a view until they are drained."""

    changes: list[Updates] = field(default_factory=list)
    uncommitted: list[Updates] = field(default_factory=list)
    late: Late | None = None
    """The view's output, if changes of its input are kept, of which it makes its own when they are read."""

    def read(self, changes: Iterable[Updates]) -> list[Updates]:
        """Kept changes as those of the view."""
        if self.late is None:
            return list(changes)
        made = [self.late.late(one) for one in changes]
        return [one for one in made if len(one)]

    def flush(self) -> None:
        changes = Updates.concat(self.take()).consolidate()
        self.uncommitted = [changes] if len(changes) else []

    def commit(self) -> None:
        self.changes.extend(self.uncommitted)
        self.uncommitted = []

    def rollback(self) -> None:
        self.pending.clear()
        self.uncommitted = []


def connected(kind: type[Kept], name: str, output: Operator, position: int, **fields: Any) -> Kept:
    """What keeps an output's changes from now on, or what they are made of, if that waits for a reader."""
    late = output if isinstance(output, Late) else None
    source = output if late is None else late.inputs[0]
    place = Place("", name, position, (source,), output.place.scope, source.width)
    capture = kind(place, late=late, **fields)
    source.consumers.append((capture, 0))
    return capture


def changes_after(parts: list[Updates], epoch: int) -> list[Updates]:
    """Those of changes in order of epochs that came after one, in the parts in which they are kept."""
    first = next((i for i, part in enumerate(parts) if part.time[0].max() > epoch), None)
    if first is None:
        return []
    rest = parts[first:]
    late = rest[0].times()[0] > epoch
    return rest if late.all() else [rest[0].take(np.flatnonzero(late)), *rest[1:]]


def forgotten(parts: list[Updates], since: int, epoch: int) -> tuple[list[Updates], int]:
    """As above, and the epoch since which changes are known then; before it was ``since``."""
    kept = changes_after(parts, epoch)
    if len(kept) == len(parts) and not (kept and kept[0] is not parts[0]):
        return parts, since
    times = np.concatenate([part.time[0] for part in parts[: len(parts) - len(kept) + 1]])
    return kept, max(since, int(times[times <= epoch].max()))


def gathered(parts: list[Updates]) -> None:
    """Have changes be in few parts: each has more than the next."""
    while len(parts) > 1 and len(parts[-2]) <= 2 * len(parts[-1]):
        parts[-2:] = [Updates.concat(parts[-2:])]


@dataclass(slots=True, eq=False)
class Memory(Capture):
    """Keeps the changes of a view as its past: all that came after the epoch ``since``."""

    since: int = field(kw_only=True)

    def commit(self) -> None:
        """Keep the step's changes, in few parts: each has more than the next."""
        Capture.commit(self)
        gathered(self.changes)

    def after(self, epoch: int) -> list[Updates]:
        """The changes after an epoch, step by step."""
        return changes_after(self.changes, epoch)

    def forget(self, epoch: int) -> None:
        """Keep only what came after an epoch."""
        self.changes, self.since = forgotten(self.changes, self.since, epoch)
