"""Where the steps end whose updates are in the head of a trace."""

from array import array
from collections.abc import Iterable
from typing import Final

from kpg.runtime.progress.antichain import Antichain, Time

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

    def captured(self) -> tuple[tuple[tuple[Time, ...], int], ...]:
        """All of it, for :meth:`restore`: elements of frontiers, and sizes."""
        if self._times is None:
            uppers = [upper.elements for upper in self._uppers]
        else:
            uppers = [() if time == NEVER else ((time,),) for time in self._times]
        return tuple(zip(uppers, self._sizes, strict=True))

    def restore(self, captured: Iterable[tuple[tuple[Time, ...], int]]) -> None:
        """Have what was captured."""
        self.clear()
        for elements, size in captured:
            self.append(Antichain.known(elements), size)
