"""Where the steps end whose updates are in the head of a trace."""

from array import array
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.progress.antichain import Antichain, Time

Words = NDArray[np.int64]

NEVER: Final = 1 << 62
"""Stands for the last frontier; times are below it (``runtime.executor.MAX_TIME``)."""


class Ends:
    """For each step, oldest first, the frontier that it led to and how many updates there were then.

    They are two words where times have one coordinate: a head has up to a hundred thousand of them, which as
    objects take 25 MB, and which every collection of garbage looks at.
    """

    __slots__ = ("_sizes", "_times", "_uppers")

    def __init__(self, depth: int) -> None:
        self._sizes = array("q")
        self._times = array("q") if depth == 1 else None
        self._uppers: list[Antichain] = []

    def append(self, upper: Antichain, size: int) -> None:
        """A step led to a frontier, and to so many updates."""
        if self._times is None:
            self._uppers.append(upper)
        else:
            elements = upper.elements
            self._times.append(elements[0][0] if elements else NEVER)
        self._sizes.append(size)

    def truncate(self, held: int) -> None:
        """Forget the steps that led to more updates."""
        count = len(self._sizes)
        while count and self._sizes[count - 1] > held:
            count -= 1
        for ends in (self._sizes, self._uppers if self._times is None else self._times):
            del ends[count:]

    def at(self, frontier: Antichain) -> list[int]:
        """How many updates there were after steps that led to a frontier, in order."""
        if self._times is None:
            return [size for upper, size in zip(self._uppers, self._sizes, strict=True) if upper == frontier]
        time = frontier.elements[0][0] if frontier.elements else NEVER
        return [size for one, size in zip(self._times, self._sizes, strict=True) if one == time]

    def clear(self) -> None:
        """Forget all."""
        self.truncate(-1)

    @property
    def words(self) -> tuple[Words, Words] | None:
        """All of it as times and sizes, for :meth:`adopt`; None if times have more coordinates than one."""
        if self._times is None:
            return None
        return np.array(self._times, np.int64), np.array(self._sizes, np.int64)

    def adopt(self, times: Words, sizes: Words) -> None:
        """Have what another one had as words."""
        self._times, self._sizes = array("q", times.tobytes()), array("q", sizes.tobytes())

    @property
    def pairs(self) -> tuple[tuple[tuple[Time, ...], int], ...]:
        """All of it, for :meth:`restore`: elements of frontiers, and sizes; no times with one coordinate."""
        return tuple(zip([upper.elements for upper in self._uppers], self._sizes, strict=True))

    def restore(self, pairs: Iterable[tuple[tuple[Time, ...], int]]) -> None:
        """Have what another one had as pairs."""
        self.clear()
        for elements, size in pairs:
            self.append(Antichain.known(elements), size)
