"""``plan.Window`` over changed partitions: the old answers of their rows are taken back, the new ones given.

A small partition that has changed is read from the arrangement, as it was and as it is. A large one is so the
first time; from then on it has an index (see ``index.py``), by which a few changes cost what they reach, if
every call is of the kind of which that is known (``plan.is_local``).
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.functions import TEXT_WORDS
from kpg.runtime.operators.textorder import ExactOrder
from kpg.runtime.operators.topk import GroupReader, Tasks, distinct_prefixes
from kpg.runtime.operators.windows.evaluate import evaluated
from kpg.runtime.operators.windows.index import Index, Key, Shape
from kpg.runtime.operators.windows.layout import laid_out
from kpg.runtime.operators.windows.local import PORTION, Calls, Change
from kpg.runtime.operators.windows.partials import summaries_of
from kpg.runtime.operators.windows.reach import stays_near
from kpg.runtime.plan import WindowCall, is_local
from kpg.runtime.records import dataclass
from kpg.runtime.trace.batch import Layers
from kpg.runtime.trace.collect import collect
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import NULL

Words = NDArray[np.int64]
Partition = tuple[int, ...]
LARGE: Final = 1024
"""Rows from which on a partition has an index."""
FEW: Final = 16
"""Rows that may come and go at once where an index is used: more are not worth finding one by one."""


@dataclass(slots=True, eq=False, kw_only=True)
class Window(GroupReader):
    """Each row of a partition with what the calls say of it; equal rows are numbered one by one."""

    peers: tuple[int, ...]
    calls: tuple[WindowCall, ...]
    exact: ExactOrder | None
    dictionary: Dictionary
    shape: Shape | None = None
    """Of the indexes; None if large partitions have none."""
    indexes: dict[Partition, Index] = field(default_factory=dict)
    saved: dict[Partition, Index | None] = field(default_factory=dict)
    """What the step has changed of them."""
    read_rows: int = 0
    """Rows computed so far, for tests that count work."""

    def read(self, layers: Layers, tasks: Tasks, seen: Words) -> tuple[Words, Words, Words]:
        rows, count, task, _ = collect(layers, tasks.prefix, tasks.times, seen, self.arrangement.width)
        if self.exact is not None:
            order = self.exact.order(rows, task)
            rows, count, task = rows[:, order], count[order], task[order]
        if (count != 1).any():
            rows, task = np.repeat(rows, count, axis=1), np.repeat(task, count)
        self.read_rows += task.shape[0]
        layout = laid_out(rows, task, self.peers)
        answers = evaluated(layout, self.calls, self.dictionary)
        return np.ascontiguousarray(np.concatenate((rows, answers))), np.ones(task.shape[0], np.int64), task

    def flush(self) -> None:
        step = self.step
        local = self.shape is not None and self.place.scope.depth == 1
        if not local or step.hydrating or not self.pending:
            GroupReader.flush(self)
            return
        if not step.single_time:
            for prefix in distinct_prefixes(self.pending, (), self.group).T.tolist():
                self._keep(tuple(prefix), None)
            GroupReader.flush(self)
            return
        self._flush_locally(Updates.concat(self.take()).consolidate())

    def _flush_locally(self, updates: Updates) -> None:
        """The differences of partitions with an index by these; of the others by reading them."""
        parts: list[Updates] = []
        plain: list[Updates] = []
        for part in _partitions(updates, self.group):
            index = self.indexes.get(_partition(part, self.group))
            if index is None or len(part) > FEW:
                plain.append(part)
            else:
                for some in self._together(index, part):
                    parts += self._changed(self.indexes[_partition(part, self.group)], some)
        if plain:
            for part in plain:
                self._keep(_partition(part, self.group), None)
            parts += self._reread(Updates.concat(plain))
        if parts:
            self.emit(Updates.concat(parts).consolidate())

    def _together(self, index: Index, updates: Updates) -> list[Updates]:
        """The changes of a partition as far as they are to be seen together: all, or neighbours."""
        if len(updates) == 1 or not all(map(stays_near, self.calls)):
            return [updates]
        places = np.array([index.place(index.shape.key(row)) for row in updates.data.T.tolist()])
        order = np.argsort(places, kind="stable")
        cuts = np.flatnonzero(np.diff(places[order]) > PORTION) + 1
        return [updates.take(np.sort(part)) for part in np.split(order, cuts)]

    def _reread(self, updates: Updates) -> list[Updates]:
        """The differences of these partitions, all of which are read; the large ones get an index."""
        layers = self.arrangement.layers
        if not layers:
            return []
        prefix = distinct_prefixes([updates], (), self.group)
        count = prefix.shape[1]
        at = np.ascontiguousarray(np.repeat(prefix, 2, axis=1))
        times = np.tile(np.array([self.step.time - 1, self.step.time], np.int64), count).reshape(1, -1)
        tasks = Tasks(at, times, np.zeros(2 * count, np.bool_))
        rows, diff, task = self.read(layers, tasks, np.full(2 * count, len(layers), np.int64))
        sizes = np.bincount(task, minlength=2 * count)
        ends = np.cumsum(sizes)
        for number in np.flatnonzero(sizes[1::2] >= LARGE).tolist():
            place = 2 * number + 1
            own = rows[: self.arrangement.width, ends[place] - sizes[place] : ends[place]]
            assert self.shape is not None
            self._keep(tuple(prefix[:, number].tolist()), Index.of(self.shape, own))
        return [Updates(rows, self.step.stamp, np.where(task % 2 == 1, diff, -diff))]

    def _changed(self, index: Index, updates: Updates) -> list[Updates]:
        """The differences in one partition that has an index, which is changed with it."""
        rows, diffs = updates.data, updates.diffs()
        if self.exact is not None:
            order = self.exact.order(rows, np.zeros(len(updates), np.int64))
            rows, diffs = np.ascontiguousarray(rows[:, order]), diffs[order]
        columns = rows.T.tolist()
        start = index.place(index.shape.key(columns[0]))
        new = index.changed(rows, diffs.tolist())
        last = index.shape.key(columns[-1])
        gone = max(-int(diffs[-1]), 0)
        rest = index.size - index.place(last) - gone
        self._keep(_partition(updates, self.group), new)
        change = Change(index, new, start, rest, columns)
        found = []
        for data, sign in Calls(self.calls, self.dictionary).differences(change):
            self.read_rows += data.shape[1]
            found.append(Updates(np.ascontiguousarray(data), self.step.stamp, np.array([sign], np.int64)))
        return found

    def _keep(self, partition: Partition, index: Index | None) -> None:
        """Another index for a partition, or none; the one before is saved for a rollback."""
        known = self.indexes.get(partition)
        self.saved.setdefault(partition, known)
        if index is None:
            self.indexes.pop(partition, None)
        else:
            self.indexes[partition] = index

    def commit(self) -> None:
        GroupReader.commit(self)
        self.saved.clear()

    def rollback(self) -> None:
        GroupReader.rollback(self)
        for partition, index in self.saved.items():
            if index is None:
                self.indexes.pop(partition, None)
            else:
                self.indexes[partition] = index
        self.saved.clear()

    @property
    def rows(self) -> int:
        return sum(index.size for index in self.indexes.values())

    @property
    def bytes(self) -> int:
        return sum(block.nbytes for index in self.indexes.values() for block in index.blocks)


def shape_of(
    width: int,
    peers: tuple[int, ...],
    calls: Sequence[WindowCall],
    exact: tuple[tuple[int, int, bool], ...],
    dictionary: Dictionary,
) -> Shape | None:
    """What indexes of a window's partitions are like, if there are any."""
    summaries = summaries_of(calls, dictionary)
    if summaries is None or not all(map(is_local, calls)):
        return None
    return Shape(width, _key(exact, dictionary), peers, summaries)


class _Descending:
    """The bytes of a string in the other order."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.text == other.text

    def __lt__(self, other: "_Descending") -> bool:
        return other.text < self.text


def _key(exact: tuple[tuple[int, int, bool], ...], dictionary: Dictionary) -> Callable[[list[int]], Key]:
    """Rows as tuples that are in the order of the rows: behind the order words of a text are its bytes."""
    if not exact:
        return tuple
    texts = [(first + TEXT_WORDS, code, descending) for first, code, descending in exact]

    def key(row: list[int]) -> Key:
        found: list[object] = list(row)
        for place, code, descending in reversed(texts):
            text = b"" if row[code] == NULL else (dictionary.get(row[code]) or "").encode()
            found.insert(place, _Descending(text) if descending else text)
        return tuple(found)

    return key


def _partition(updates: Updates, group: int) -> Partition:
    return tuple(updates.data[:group, 0].tolist())


def _partitions(updates: Updates, group: int) -> list[Updates]:
    """Sorted updates, those of each partition apart."""
    if not len(updates):
        return []
    data = updates.data
    fresh = (data[:group, 1:] != data[:group, :-1]).any(axis=0)
    bounds = [0, *(np.flatnonzero(fresh) + 1).tolist(), len(updates)]
    return [updates.take(np.arange(start, end, dtype=np.int64)) for start, end in pairwise(bounds)]
