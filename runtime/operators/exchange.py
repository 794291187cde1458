"""``plan.Exchange``: sends each row to the workers that need it; and loops with exchanges in their body.

Rows that all workers hold are divided without communication. In a loop, all workers run the rounds together
and agree on the end.
"""

from collections.abc import Iterator
from dataclasses import field
from heapq import heappop
from typing import Final, assert_never

import numpy as np

from kpg.runtime.dataflow.dataflow_graph import Operator, Step
from kpg.runtime.errors import InternalError
from kpg.runtime.kernels import partial as kernels
from kpg.runtime.operators.linear import Stateless
from kpg.runtime.operators.loop import Loop
from kpg.runtime.operators.worker_group import LEVEL, Company, Parcel, Phase, Sends
from kpg.runtime.plan import Combine, Exchange, Route
from kpg.runtime.records import dataclass
from kpg.runtime.tables.table import Table
from kpg.runtime.trace.updates import ONE, Updates, Words
from kpg.runtime.types import NULL

MANY: Final = 1024
"""Updates from which on it pays to add them up before they are sent."""
PIECE: Final = 12
"""Bits of a rowid that are told of by the same worker: columns of rows beside each other are read fast."""
TOGETHER: Final = 1 << 16
"""Rows that have come are handed on as one, if they are so few: each part costs all operators behind it."""
RUN: Final = 1 << 20
"""Updates that wait to be sent until they are added up, if they can be."""


@dataclass(slots=True, eq=False, kw_only=True)
class Share(Stateless):
    """Rows that every worker holds: this one's share of them."""

    company: Company
    node: Exchange
    table: Table | None
    interned: bool
    """Whether what decides is text."""

    def _mine(self, updates: Updates) -> Updates:
        node, company = self.node, self.company
        if node.route is Route.FIRST:
            return updates if company.index == 0 else updates.take(np.empty(0, np.int64))
        assert node.by is not None
        words = updates.data[node.by]
        if node.route is Route.PIECES:
            return _pieces(updates, words, company)
        owners, interned = company.owners, self.interned
        if updates.width == 1 and updates.constant_time and updates.constant_diff:
            if self.table is None or node.fetched is None:
                rows = owners.mine(words, words, company.index, interned=interned)
            else:
                rows = owners.rows(
                    self.table.groups, node.fetched[1], words, company.index, interned=interned
                )
            return updates.with_data(rows.reshape(1, -1))
        if self.table is not None and node.fetched is not None:
            chosen = np.array([node.fetched[1]], np.int64)
            words = self.table.groups.read(chosen, np.ascontiguousarray(words))[0]
        places = np.arange(len(updates))
        mine = owners.mine(words, places, company.index, interned=interned)
        return updates if mine.shape[0] == len(updates) else updates.take(mine)

    def absorb(self) -> None:
        for updates in self.take():
            self.emit(self._mine(updates), more=True)

    def flush(self) -> None:
        for updates in self.take():
            self.emit(self._mine(updates))

    def snapshot(self) -> Iterator[Updates]:
        for updates in self.inputs[0].snapshot():
            yield self._mine(updates)


def _pieces(updates: Updates, rowids: Words, company: Company) -> Updates:
    """The updates of which the pieces are this worker's: of rows beside each other whole stretches."""
    count, index, n = company.count, company.index, rowids.shape[0]
    alike = updates.width == 1 and updates.constant_time and updates.constant_diff
    if not alike or not n or int(rowids[-1]) - int(rowids[0]) != n - 1 or (np.diff(rowids) != 1).any():
        return updates.take(np.flatnonzero((rowids >> PIECE) % count == index))
    first, end = int(rowids[0]), int(rowids[-1]) + 1
    piece = first >> PIECE
    piece += (index - piece) % count
    starts = range(piece << PIECE, end, count << PIECE)
    parts = [rowids[max(start - first, 0) : start + (1 << PIECE) - first] for start in starts]
    return updates.with_data(np.concatenate([rowids[:0], *parts]).reshape(1, -1))


@dataclass(slots=True, eq=False, kw_only=True)
class Sending(Stateless, Sends):
    """Rows that are at one worker each: sent when the workers meet, and handed on at the next level."""

    company: Company
    node: Exchange
    interned: bool
    texts: tuple[int, ...]
    """The columns whose words are codes."""
    received: list[Updates] = field(default_factory=list)
    sent: int = 0
    """Rows that went to other workers,"""
    came: int = 0
    """and that came from them."""

    def absorb(self) -> None:
        if self.node.combine is not None and sum(map(len, self.pending)) > RUN:
            self.pending = [added_up(Updates.concat(self.take()), self.node.combine)]

    def collect(self, out: list[list[Parcel]]) -> None:
        pending = self.take()
        if not pending:
            return
        updates = Updates.concat(pending)
        if self.node.combine is not None:
            updates = added_up(updates, self.node.combine)
        for worker, part in enumerate(self._parts(updates)):
            if part is None:
                continue
            if worker == self.company.index:
                self.received.append(part)
            else:
                self.sent += len(part)
                out[worker].append(Parcel(self.place.position, self._common(part), self.texts))

    def _parts(self, updates: Updates) -> list[Updates | None]:
        """What each worker gets."""
        count = self.company.count
        match self.node.route:
            case Route.EVERYWHERE:
                return [updates] * count
            case Route.FIRST:
                return [updates] + [None] * (count - 1)
            case Route.OWNER:
                assert self.node.by is not None
                owners, words = self.company.owners, updates.data[self.node.by]
                found = owners.places(words, interned=self.interned)
                return [updates.take(some) if some.shape[0] else None for some in found]
            case Route.PIECES:
                raise InternalError("rows that are sent have owners")
            case _:
                assert_never(self.node.route)

    def _common(self, updates: Updates) -> Updates:
        if not self.texts:
            return updates
        data = updates.data.copy()
        for column in self.texts:
            data[column] = self.company.strings.outgoing(data[column])
        return updates.with_data(data)

    def receive(self, updates: Updates) -> None:
        self.came += len(updates)
        self.received.append(updates)
        self.schedule()

    def flush(self) -> None:
        received, self.received = self.received, []
        if len(received) > 1 and sum(map(len, received)) <= TOGETHER:
            received = [Updates.concat(received)]
        for updates in received:
            self.emit(self.step.stamp_on(updates) if self._is_now(updates) else updates)

    def _is_now(self, updates: Updates) -> bool:
        """Whether the updates are of this very round, of a step of one epoch."""
        time, step = updates.time, self.step
        return time.shape == (len(step.rounds) + 1, 1) and time[1:, 0].tolist() == list(step.rounds)

    def snapshot(self) -> Iterator[Updates]:
        raise NotImplementedError("what was sent is not kept: an exchange has its own readers")

    def commit(self) -> None:
        self.pending.clear()
        self.received.clear()

    def rollback(self) -> None:
        self.pending.clear()
        self.received.clear()


def added_up(updates: Updates, combine: Combine) -> Updates:
    """Fewer rows of which a reduce makes the same: one for each group and sum, and what is left to count.

    A group of n rows with the sum s of a column that is NULL in m of them becomes (s, 1), (0, n - m - 1),
    and (NULL, m): diffs stand for the rows that there were.
    """
    n = len(updates)
    if n < MANY or not updates.constant_time:
        return updates.combined()
    key, width = combine.key, updates.width
    summed = np.array([column in combine.summed for column in range(key, width)], np.int64)
    groups, sums = np.empty((n // 4, 2 + width - key), np.int64), np.empty((n // 4, width - key), np.int64)
    slots = np.full(1 << (n - 1).bit_length(), -1, np.int64)
    data = np.ascontiguousarray(updates.data)
    found = kernels.add_up(data, np.ascontiguousarray(updates.diff), key, summed, slots, groups, sums)
    if found < 0:
        return updates.combined() if found == kernels.MANY else updates
    keys, left = data[:key, groups[:found, 0]], groups[:found, 1]
    rows, counts = list[Words](), list[Words]()
    for place, column in enumerate(range(key, width)):
        filled, total = groups[:found, 2 + place], sums[:found, place]
        left = left - filled
        if summed[place]:
            some = total != 0
            rows.append(_rows(keys[:, some], width, column, total[some]))
            counts.append(np.ones(int(some.sum()), np.int64))
            filled = filled - some
        rows.append(_rows(keys, width, column, np.zeros(found, np.int64)))
        counts.append(filled)
    rows.append(_rows(keys, width, width, np.empty(0, np.int64)))
    counts.append(left)
    diff = np.concatenate(counts)
    kept = np.flatnonzero(diff)
    whole = np.ascontiguousarray(np.concatenate(rows, axis=1)[:, kept])
    return Updates(whole, updates.time, diff[kept] if kept.shape[0] else ONE)


def _rows(keys: Words, width: int, column: int, words: Words) -> Words:
    """Rows of these keys with words in one column, and NULL in all others."""
    out = np.full((width, keys.shape[1]), NULL, np.int64)
    out[: keys.shape[0]] = keys
    if column < width:
        out[column] = words
    return out


@dataclass(slots=True, eq=False, kw_only=True)
class LoopTogether(Loop):
    """``last`` is the last level at which the body has workers meet; ``sharing/company.py`` says how they do.

    The round right after this one may be begun without asking: nobody can have work for an earlier one.
    """

    company: Company
    last: int

    def flush(self) -> None:
        scope, company, outer = self.within, self.company, self.step
        company.deep += 1
        depth = len(outer.rounds)
        rounds: tuple[int, ...] = (*outer.rounds, 0)
        level, step = 0, None
        scope.active = True
        while True:
            if step is None and scope.order and scope.order[0] == rounds:
                step = scope.begin(outer, rounds)
            if step is not None:
                self._run(step, level)
            if level == self.last:
                rounds, level, step = (*outer.rounds, rounds[-1] + 1), 0, None
                continue
            met = company.meet(step.queue if step is not None else [], self._next(step, rounds, depth))
            if met.phase is None:
                break
            if met.phase[:-1] != rounds:
                rounds, step = met.phase[:-1], None
            level = met.phase[-1]
            if level and step is None:
                step = scope.begin(outer, rounds)
            company.deliver(met)
        scope.active = False
        company.deep -= 1

    def _next(self, step: Step | None, rounds: tuple[int, ...], depth: int) -> Phase | None:
        """What this worker has work for next."""
        if step is not None and step.queue:
            return (*rounds, step.queue[0][0] >> LEVEL)
        order = self.within.order
        if order and order[0][:depth] == rounds[:depth]:
            return (*order[0], 0)
        return None

    def _run(self, step: Step, level: int) -> None:
        queue, interrupt = step.queue, self.within.interrupt
        while queue and queue[0][0] >> LEVEL <= level:
            position, operator = heappop(queue)
            self.touched[operator] = None
            if interrupt.pending or interrupt.watch is not None:
                interrupt.check()
            self.company.failing = position & ((1 << LEVEL) - 1)
            operator.flush()


def levels(operators: tuple[Operator, ...], company: Company) -> int:
    """The last level at which operators of one scope have workers meet; 0 if they never do."""
    found = (one.place.position >> LEVEL for one in operators if one.place.position in company.meeting)
    return max(found, default=0)
