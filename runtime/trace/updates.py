"""Updates ``(row, time, diff)`` in columns: the data on every edge of a dataflow.

A merge adds up the diffs of a row over a range of epochs, which is the difference of two
multiplicities. While every multiplicity stays below ``MULTIPLICITY_LIMIT``, each such sum fits 64
bits, so no merge can overflow. :func:`extend_bound` and :func:`compute_bound` maintain an upper
bound of the multiplicities that proves this.
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
    """Return the error for a sum of diffs that does not fit 64 bits."""
    return DataError("multiplicity overflow: a row occurs more often than a 64-bit count can hold")


class Updates:
    """``data int64[width, n]``, ``time int64[depth, n]`` or ``[depth, 1]``, ``diff int64[n]`` or ``[1]``.

    All arrays are C-contiguous; the short form of ``time`` and ``diff`` means all equal. Updates are values:
    no code writes to the arrays once they are in an ``Updates``. ``ordered`` means that the rows are known to
    be sorted by their columns, first column first; there may be duplicates.
    """

    __slots__ = ("data", "diff", "ordered", "time")

    def __init__(self, data: Words, time: Words, diff: Words, ordered: bool = False) -> None:
        self.data = data
        self.time = time
        self.diff = diff
        self.ordered = ordered

    @classmethod
    def of(cls, data: object, time: object, diff: object) -> "Updates":
        """Return updates of array-likes; ``time`` may be one tuple and ``diff`` one int, for all rows."""
        words = np.ascontiguousarray(np.asarray(data, np.int64))
        times = np.asarray(time, np.int64)
        if times.ndim < 2:
            times = times.reshape(-1, 1)
        diffs = np.atleast_1d(np.asarray(diff, np.int64))
        return cls(words, np.ascontiguousarray(times), np.ascontiguousarray(diffs))

    @classmethod
    def empty(cls, width: int, depth: int) -> "Updates":
        """Return no updates, with ``width`` columns and times of ``depth`` coordinates."""
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
        """Return the times at full length, ``int64[depth, n]``."""
        n = len(self)
        return self.time if self.time.shape[1] == n else np.repeat(self.time, n, axis=1)

    def diffs(self) -> Words:
        """Return the diffs at full length, ``int64[n]``."""
        n = len(self)
        return self.diff if self.diff.shape[0] == n else np.repeat(self.diff, n)

    def take(self, index: Words) -> "Updates":
        """Return the updates at positions ``index``, in its order."""
        data = np.empty((self.width, index.shape[0]), np.int64)
        sort.gather(self.data, index, data)
        time = self.time
        if not self.constant_time:
            time = np.empty((self.depth, index.shape[0]), np.int64)
            sort.gather(self.time, index, time)
        diff = self.diff if self.constant_diff else self.diff[index]
        return Updates(data, time, diff)

    def with_data(self, data: Words) -> "Updates":
        """Return the same times and diffs with other rows, of equal number."""
        return Updates(data, self.time, self.diff, self.ordered and data is self.data)

    def with_time(self, time: Words) -> "Updates":
        """Return the same rows and diffs at other times, ``int64[depth, n | 1]``."""
        return Updates(self.data, time, self.diff, self.ordered)

    def negate(self) -> "Updates":
        """Return the updates with every diff negated."""
        return Updates(self.data, self.time, -self.diff, self.ordered)

    @staticmethod
    def concat(parts: Sequence["Updates"]) -> "Updates":
        """Return all updates of ``parts`` (at least one), in order.

        Equal constant times and diffs stay constant.
        """
        if len(parts) == 1:
            return parts[0]
        nonempty = [part for part in parts if part.data.shape[1]]
        if len(nonempty) < 2:
            return nonempty[0] if nonempty else parts[0]
        first = nonempty[0]
        data = np.concatenate([part.data for part in nonempty], axis=1)
        time, diff = first.time, first.diff
        if not (first.constant_time and all(_equals_short(part.time, time) for part in nonempty)):
            time = np.concatenate([part.times() for part in nonempty], axis=1)
        if not (first.constant_diff and all(_equals_short(part.diff, diff) for part in nonempty)):
            diff = np.concatenate([part.diffs() for part in nonempty])
        return Updates(data, time, diff)

    def consolidate(self) -> "Updates":
        """Return the updates sorted by row and time, each pair once, diffs added up, zeros dropped.

        Raises:
            DataError: If a sum of diffs does not fit 64 bits.
        """
        n = len(self)
        if n == 0:
            return self
        if n >= MANY and (fields := self._packing_fields()) is not None:
            return self._consolidate_packed(fields)
        if n < MANY:
            return self._consolidate_in_one_call(sort.consolidate_few if n <= sort.FEW else sort.consolidate)
        order = np.empty(n, np.int64)
        flags = sort.sort_order(self.data, self.time, order)
        if flags & sort.DISTINCT and self.diff.all():
            result = self if flags & sort.IDENTITY else self.take(order)
        else:
            result = self._consolidate_in_order(order)
        result.ordered = True
        return result

    def consolidate_if_smaller(self) -> "Updates":
        """Return the updates, consolidated if that is certain to leave far fewer of them."""
        n = len(self)
        if n < MANY or (fields := self._packing_fields()) is None or 2 * n < 1 << int(fields[:, 1].sum()):
            return self
        return self._consolidate_packed(fields)

    def _packing_fields(self) -> Words | None:
        """Return the bit fields that pack a row into a word, or None if a row does not fit."""
        columns = self.width + (0 if self.constant_time else self.depth)
        fields = np.empty((columns, 2), np.int64)
        fits = columns > 0 and packed.measure(self.data, self.time, fields) <= packed.ROOM
        return fields if fits else None

    def _consolidate_packed(self, fields: Words) -> "Updates":
        n = len(self)
        words = np.empty(n, np.uint64)
        order = packed.pack(self.data, self.time, fields, words)
        if order == packed.STRICT and self.diff.all():
            self.ordered = True
            return self
        if order == packed.LAST and self.constant_diff and self.diff.all():
            return self._sort_packed(words, fields)
        sums, spare = np.empty(n, np.int64), np.empty(n, np.uint64)
        other = self.diff if self.constant_diff else np.empty(n, np.int64)
        count = packed.combine(words, spare, self.diff, other, sums, int(fields[:, 1].sum()))
        if count < 0:
            raise multiplicity_overflow()
        if count == 0:
            return Updates.empty(self.width, self.depth)
        data = np.empty((self.width, count), np.int64)
        time = self.time if self.constant_time else np.empty((self.depth, count), np.int64)
        packed.unpack(words, fields, data, time)
        uniform = bool((sums[:count] == sums[0]).all())
        return Updates(data, time, sums[: 1 if uniform else count].copy(), ordered=True)

    def _sort_packed(self, words: NDArray[np.uint64], fields: Words) -> "Updates":
        """Return the updates sorted; the last packed field ascends, so no two words are equal."""
        packed.sort_stably(words, np.empty_like(words), int(fields[:, 1].sum()), int(fields[-1, 1]))
        data = np.empty_like(self.data)
        time = self.time if self.constant_time else np.empty_like(self.time)
        packed.unpack(words, fields, data, time)
        return Updates(data, time, self.diff, ordered=True)

    def _consolidate_in_one_call(self, consolidate: Callable[..., int]) -> "Updates":
        """Return the updates consolidated by a kernel that does everything in one call."""
        (width, n), depth = self.data.shape, self.time.shape[0]
        out, sums, state = np.empty(width * n, np.int64), np.empty(n, np.int64), np.empty(2, np.int64)
        times = np.empty(0 if self.constant_time else depth * n, np.int64)
        count = consolidate(self.data, self.time, self.diff, out, times, sums, state)
        if count < 0:
            self.ordered = True
            return self
        uniform, overflow = state.tolist()
        if overflow:
            raise multiplicity_overflow()
        if count == 0:
            return Updates.empty(width, depth)
        time = self.time if self.constant_time else times[: depth * count].reshape(depth, count)
        return Updates(
            out[: width * count].reshape(width, count), time, sums[: 1 if uniform else count], ordered=True
        )

    def _consolidate_in_order(self, order: Words) -> "Updates":
        n = len(self)
        heads = np.empty(n, np.int64)
        sums = np.empty(n, np.int64)
        state = np.empty(2, np.int64)
        count = sort.group(self.data, self.time, self.diff, order, heads, sums, state)
        if state[1]:
            raise multiplicity_overflow()
        if count == 0:
            return Updates.empty(self.width, self.depth)
        result = Updates(self.data, self.time, ONE).take(heads[:count])
        result.diff = sums[:1].copy() if state[0] else sums[:count].copy()
        return result


def _equals_short(array: Words, short: Words) -> bool:
    """Return whether an array equals one in the short form."""
    return array is short or (array.shape == short.shape and array.tolist() == short.tolist())


MULTIPLICITY_LIMIT: Final = MOST_COUNTED
"""Every multiplicity must stay below this."""

FEW_DIFFS: Final = 16
"""Diffs up to which Python is faster than numpy."""

LOW_BITS: Final = 32
"""Bits of the lower of the two parts in which sums are carried."""


def max_added(updates: Updates) -> int:
    """Return a bound on the sum that the updates add to any row's multiplicity, without comparing rows."""
    diff = updates.diff
    if diff is ONE:
        return updates.data.shape[1]
    if diff.shape[0] == 1:
        return abs(diff.item(0)) * updates.data.shape[1]
    if diff.shape[0] <= FEW_DIFFS:
        return max(map(abs, diff.tolist())) * len(updates) if diff.shape[0] else 0
    return max(int(diff.max()), -int(diff.min())) * len(updates)


def extend_bound(bound: int, contents: Callable[[], Iterable[Updates]], updates: Updates) -> int:
    """Return a bound of the multiplicities of ``contents``, which has ``bound``, with ``updates`` added.

    O(1) in nearly all cases; rows are compared only if the bound would reach ``MULTIPLICITY_LIMIT``.

    Raises:
        DataError: If a multiplicity reaches the limit.
    """
    after = bound + max_added(updates)
    return after if after < MULTIPLICITY_LIMIT else compute_bound([*contents(), updates])


def compute_bound(contents: Iterable[Updates]) -> int:
    """Return a bound of the multiplicities of the updates, computed by row.

    Raises:
        DataError: If a multiplicity reaches ``MULTIPLICITY_LIMIT``.
    """
    bound = max_multiplicity(Updates.concat([*contents]))
    if bound >= MULTIPLICITY_LIMIT:
        raise multiplicity_overflow()
    return bound


def max_multiplicity(updates: Updates) -> int:
    """Return the greatest absolute multiplicity of a row at any epoch, rounded up to a multiple of 2^32.

    In a loop, each round counts separately.
    """
    rows = np.concatenate((updates.data, updates.times()[1:]))
    order = np.lexsort((updates.times()[0], *rows[::-1]))
    rows, diffs = rows[:, order], updates.diffs()[order]
    first = np.ones(len(updates), np.bool_)
    first[1:] = (rows[:, 1:] != rows[:, :-1]).any(axis=0)
    high, low = _running_sums(diffs >> LOW_BITS, first), _running_sums(diffs & (2**LOW_BITS - 1), first)
    totals = high + (low >> LOW_BITS)
    return (max(int(totals.max()), -int(totals.min())) + 1) << LOW_BITS if len(totals) else 0


def _running_sums(values: Words, first: NDArray[np.bool_]) -> Words:
    """Return the running sums of the values, which restart where ``first`` is True."""
    sums = np.cumsum(values)
    starts = np.flatnonzero(first)
    before = sums[starts] - values[starts]
    return sums - np.repeat(before, np.diff(starts, append=len(values)))
