"""Updates ``(row, time, diff)`` in columns: what flows along every edge of a dataflow.

A merge adds up the diffs of a row over a range of epochs, which is the difference of two multiplicities.
While every multiplicity stays below ``MOST``, each such sum fits 64 bits, so no merge can overflow.
:func:`bound_with` and :func:`bound_of` maintain an upper bound of the multiplicities that proves this.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import DataError
from kpg.runtime.kernels import packed, sort
from kpg.runtime.kernels.links import MANY, MOST_COUNTED

Words = NDArray[np.int64]

ONE: Final[Words] = np.ones(1, np.int64)


def multiplicity_overflow() -> DataError:
    """The error for a sum of diffs that does not fit 64 bits."""
    return DataError("multiplicity overflow: a row occurs more often than a 64-bit count can hold")


class Updates:
    """``data int64[width, n]``, ``time int64[depth, n]`` or ``[depth, 1]``, ``diff int64[n]`` or ``[1]``.

    All arrays are C-contiguous; the short form of ``time`` and ``diff`` means all equal. Updates are
    values: nobody writes to the arrays once they are in an ``Updates``. ``ordered`` says that the rows are
    known to be sorted by their columns, the first one first; duplicates may be among them.
    """

    __slots__ = ("data", "diff", "ordered", "time")

    def __init__(self, data: Words, time: Words, diff: Words, ordered: bool = False) -> None:
        self.data = data
        self.time = time
        self.diff = diff
        self.ordered = ordered

    @classmethod
    def of(cls, data: object, time: object, diff: object) -> "Updates":
        """From anything numpy takes; ``time`` may be one tuple and ``diff`` one int, for all rows."""
        words = np.ascontiguousarray(np.asarray(data, np.int64))
        times = np.asarray(time, np.int64)
        if times.ndim < 2:
            times = times.reshape(-1, 1)
        diffs = np.atleast_1d(np.asarray(diff, np.int64))
        return cls(words, np.ascontiguousarray(times), np.ascontiguousarray(diffs))

    @classmethod
    def empty(cls, width: int, depth: int) -> "Updates":
        """No updates, of rows of ``width`` columns at times of ``depth`` coordinates."""
        return cls(np.empty((width, 0), np.int64), np.zeros((depth, 1), np.int64), ONE)

    def __len__(self) -> int:
        return self.data.shape[1]

    def __repr__(self) -> str:
        return f"Updates({self.data.tolist()}, time={self.time.tolist()}, diff={self.diff.tolist()})"

    @property
    def width(self) -> int:
        """Number of data columns."""
        return self.data.shape[0]

    @property
    def depth(self) -> int:
        """Number of time coordinates."""
        return self.time.shape[0]

    @property
    def constant_time(self) -> bool:
        """Whether the time is stored once for all rows."""
        return self.time.shape[1] == 1

    @property
    def constant_diff(self) -> bool:
        """Whether the diff is stored once for all rows."""
        return self.diff.shape[0] == 1

    def times(self) -> Words:
        """The times at full length, ``int64[depth, n]``."""
        n = len(self)
        return self.time if self.time.shape[1] == n else np.repeat(self.time, n, axis=1)

    def diffs(self) -> Words:
        """The diffs at full length, ``int64[n]``."""
        n = len(self)
        return self.diff if self.diff.shape[0] == n else np.repeat(self.diff, n)

    def take(self, index: Words) -> "Updates":
        """The rows at positions ``index``, in its order."""
        data = np.empty((self.width, index.shape[0]), np.int64)
        sort.gather(self.data, index, data)
        time = self.time
        if not self.constant_time:
            time = np.empty((self.depth, index.shape[0]), np.int64)
            sort.gather(self.time, index, time)
        diff = self.diff if self.constant_diff else self.diff[index]
        return Updates(data, time, diff)

    def with_data(self, data: Words) -> "Updates":
        """The same times and diffs for other rows, as many as these."""
        return Updates(data, self.time, self.diff, self.ordered and data is self.data)

    def with_time(self, time: Words) -> "Updates":
        """The same rows and diffs at other times, ``int64[depth, n | 1]``."""
        return Updates(self.data, time, self.diff, self.ordered)

    def negate(self) -> "Updates":
        """Every diff times -1."""
        return Updates(self.data, self.time, -self.diff, self.ordered)

    @staticmethod
    def concat(parts: Sequence["Updates"]) -> "Updates":
        """All updates of ``parts`` (at least one), in order; equal constant times and diffs stay constant."""
        if len(parts) == 1:
            return parts[0]
        filled = [part for part in parts if part.data.shape[1]]
        if len(filled) < 2:
            return filled[0] if filled else parts[0]
        first = filled[0]
        data = np.concatenate([part.data for part in filled], axis=1)
        time, diff = first.time, first.diff
        if not (first.constant_time and all(_same(part.time, time) for part in filled)):
            time = np.concatenate([part.times() for part in filled], axis=1)
        if not (first.constant_diff and all(_same(part.diff, diff) for part in filled)):
            diff = np.concatenate([part.diffs() for part in filled])
        return Updates(data, time, diff)

    def consolidate(self) -> "Updates":
        """Sorted by row and time, each pair once, diffs added up, zeros dropped.

        Raises DataError if a sum of diffs does not fit 64 bits.
        """
        n = len(self)
        if n == 0:
            return self
        if n >= MANY and (fields := self._fields()) is not None:
            return self._packed(fields)
        if n < MANY:
            return self._at_once(sort.consolidate_few if n <= sort.FEW else sort.consolidate)
        order = np.empty(n, np.int64)
        found = sort.sort_order(self.data, self.time, order)
        if found & sort.DISTINCT and self.diff.all():
            result = self if found & sort.IDENTITY else self.take(order)
        else:
            result = self._grouped(order)
        result.ordered = True
        return result

    def combined(self) -> "Updates":
        """These updates, consolidated if that is bound to leave far fewer of them."""
        n = len(self)
        if n < MANY or (fields := self._fields()) is None or 2 * n < 1 << int(fields[:, 1].sum()):
            return self
        return self._packed(fields)

    def _fields(self) -> Words | None:
        """How the rows are packed into words, if they can be."""
        columns = self.width + (0 if self.constant_time else self.depth)
        fields = np.empty((columns, 2), np.int64)
        fits = columns > 0 and packed.measure(self.data, self.time, fields) <= packed.ROOM
        return fields if fits else None

    def _packed(self, fields: Words) -> "Updates":
        n = len(self)
        words = np.empty(n, np.uint64)
        order = packed.pack(self.data, self.time, fields, words)
        if order == packed.STRICT and self.diff.all():
            self.ordered = True
            return self
        if order == packed.LAST and self.constant_diff and self.diff.all():
            return self._reordered(words, fields)
        sums, spare = np.empty(n, np.int64), np.empty(n, np.uint64)
        other = self.diff if self.constant_diff else np.empty(n, np.int64)
        kept = packed.combine(words, spare, self.diff, other, sums, int(fields[:, 1].sum()))
        if kept < 0:
            raise multiplicity_overflow()
        if kept == 0:
            return Updates.empty(self.width, self.depth)
        data = np.empty((self.width, kept), np.int64)
        time = self.time if self.constant_time else np.empty((self.depth, kept), np.int64)
        packed.unpack(words, fields, data, time)
        uniform = bool((sums[:kept] == sums[0]).all())
        return Updates(data, time, sums[: 1 if uniform else kept].copy(), ordered=True)

    def _reordered(self, words: NDArray[np.uint64], fields: Words) -> "Updates":
        """These updates sorted: packed words whose last field ascends, so that no two are equal."""
        packed.sort_stably(words, np.empty_like(words), int(fields[:, 1].sum()), int(fields[-1, 1]))
        data = np.empty_like(self.data)
        time = self.time if self.constant_time else np.empty_like(self.time)
        packed.unpack(words, fields, data, time)
        return Updates(data, time, self.diff, ordered=True)

    def _at_once(self, consolidate: Callable[..., int]) -> "Updates":
        """Consolidated by one of the kernels that do all of it in a call."""
        (width, n), depth = self.data.shape, self.time.shape[0]
        out, sums, state = np.empty(width * n, np.int64), np.empty(n, np.int64), np.empty(2, np.int64)
        times = np.empty(0 if self.constant_time else depth * n, np.int64)
        kept = consolidate(self.data, self.time, self.diff, out, times, sums, state)
        if kept < 0:
            self.ordered = True
            return self
        uniform, overflow = state.tolist()
        if overflow:
            raise multiplicity_overflow()
        if kept == 0:
            return Updates.empty(width, depth)
        time = self.time if self.constant_time else times[: depth * kept].reshape(depth, kept)
        return Updates(
            out[: width * kept].reshape(width, kept), time, sums[: 1 if uniform else kept], ordered=True
        )

    def _grouped(self, order: Words) -> "Updates":
        n = len(self)
        heads = np.empty(n, np.int64)
        sums = np.empty(n, np.int64)
        state = np.empty(2, np.int64)
        kept = sort.group(self.data, self.time, self.diff, order, heads, sums, state)
        if state[1]:
            raise multiplicity_overflow()
        if kept == 0:
            return Updates.empty(self.width, self.depth)
        result = Updates(self.data, self.time, ONE).take(heads[:kept])
        result.diff = sums[:1].copy() if state[0] else sums[:kept].copy()
        return result


def _same(array: Words, short: Words) -> bool:
    """Whether an array equals one in the short form, of few elements."""
    return array is short or (array.shape == short.shape and array.tolist() == short.tolist())


MOST: Final = MOST_COUNTED
"""What no multiplicity may come to."""

FEW: Final = 16
"""So many diffs are looked at without numpy."""

LOW: Final = 32
"""Sums are carried in two parts, of which the lower has so many bits."""


def most_added(updates: Updates) -> int:
    """A bound for what the updates add to any row's multiplicity, without a look at rows."""
    diff = updates.diff
    if diff is ONE:
        return updates.data.shape[1]
    if diff.shape[0] == 1:
        return abs(diff.item(0)) * updates.data.shape[1]
    if diff.shape[0] <= FEW:
        return max(map(abs, diff.tolist())) * len(updates) if diff.shape[0] else 0
    return max(int(diff.max()), -int(diff.min())) * len(updates)


def bound_with(bound: int, held: Callable[[], Iterable[Updates]], more: Updates) -> int:
    """A bound for the multiplicities of what is ``held``, which is ``bound``, after ``more`` updates.

    O(1) in nearly all cases; the rows are only looked at where a row could come to ``MOST`` by the bound.
    DataError if one does.
    """
    after = bound + most_added(more)
    return after if after < MOST else bound_of([*held(), more])


def bound_of(held: Iterable[Updates]) -> int:
    """A bound for the multiplicities of what is ``held``, by its rows. DataError if one comes to ``MOST``."""
    found = largest(Updates.concat([*held]))
    if found >= MOST:
        raise multiplicity_overflow()
    return found


def largest(updates: Updates) -> int:
    """The largest absolute multiplicity of a row at any epoch, in a loop at each round, or a little more."""
    rows = np.concatenate((updates.data, updates.times()[1:]))
    order = np.lexsort((updates.times()[0], *rows[::-1]))
    rows, diffs = rows[:, order], updates.diffs()[order]
    first = np.ones(len(updates), np.bool_)
    first[1:] = (rows[:, 1:] != rows[:, :-1]).any(axis=0)
    high, low = _running(diffs >> LOW, first), _running(diffs & (2**LOW - 1), first)
    totals = high + (low >> LOW)
    return (max(int(totals.max()), -int(totals.min())) + 1) << LOW if len(totals) else 0


def _running(values: Words, first: NDArray[np.bool_]) -> Words:
    """The running sums of the values, which begin anew where ``first`` says."""
    sums = np.cumsum(values)
    starts = np.flatnonzero(first)
    before = sums[starts] - values[starts]
    return sums - np.repeat(before, np.diff(starts, append=len(values)))
