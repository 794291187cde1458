"""Whether multiplicities stay within what merges can add up.

A merge adds up the diffs of a row over a range of epochs: the difference of two multiplicities. While every
multiplicity stays below ``MOST`` each such sum fits 64 bits, so no merge, whenever it comes, can overflow.
"""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.kernels.links import MOST_COUNTED
from kpg.runtime.trace.updates import ONE, Updates, Words, multiplicity_overflow

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
