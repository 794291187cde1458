"""Times are tuples of ints under the product order; a frontier is an antichain of them.

A time is *in advance of* a frontier if some element of it is less than or equal to the time. Lower
frontiers come earlier: ``meet`` is the earlier of two, ``join`` the later. The empty antichain is the
last frontier: no time is in advance of it.
"""

from collections.abc import Iterable
from functools import cache
from operator import le

from kpg.runtime.records import dataclass

Time = tuple[int, ...]


def precedes(left: Time, right: Time) -> bool:
    """Whether left <= right in the product order."""
    return all(map(le, left, right))


def least_upper_bound(left: Time, right: Time) -> Time:
    """The earliest time in advance of both."""
    return tuple(map(max, left, right))


def greatest_lower_bound(left: Time, right: Time) -> Time:
    """The latest time that both are in advance of."""
    return tuple(map(min, left, right))


def _minimal(times: Iterable[Time]) -> tuple[Time, ...]:
    """The minimal elements, in lexicographic order (in which a smaller time always comes first)."""
    kept: list[Time] = []
    for time in sorted(set(times)):
        if not any(precedes(other, time) for other in kept):
            kept.append(time)
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class Antichain:
    """Mutually incomparable times, in lexicographic order; the constructor drops what is not minimal."""

    elements: tuple[Time, ...] = ()

    def __post_init__(self) -> None:
        if len(self.elements) > 1:
            object.__setattr__(self, "elements", _minimal(self.elements))

    @classmethod
    def of(cls, *times: Time) -> "Antichain":
        """The minimal elements of ``times``."""
        return cls(times)

    @classmethod
    def known(cls, elements: tuple[Time, ...]) -> "Antichain":
        """Of elements that are mutually incomparable, in lexicographic order: nothing is checked."""
        frontier = object.__new__(cls)
        object.__setattr__(frontier, "elements", elements)
        return frontier

    @staticmethod
    @cache
    def minimum(depth: int) -> "Antichain":
        """The frontier that every time of ``depth`` coordinates is in advance of."""
        return Antichain(((0,) * depth,))

    def __bool__(self) -> bool:
        return bool(self.elements)

    def less_equal(self, time: Time) -> bool:
        """Whether ``time`` is in advance of this frontier."""
        return any(all(map(le, element, time)) for element in self.elements)

    def less_than(self, time: Time) -> bool:
        """Whether ``time`` is strictly later than some element."""
        return any(element != time and precedes(element, time) for element in self.elements)

    def dominates(self, other: "Antichain") -> bool:
        """Whether this frontier is at or before ``other``: all that is in advance of other is of this."""
        own, others = self.elements, other.elements
        if len(own) == 1 and len(others) == 1:
            if len(own[0]) == 1:
                return own[0][0] <= others[0][0]
            return precedes(own[0], others[0])
        if own == others:
            return True
        return all(self.less_equal(time) for time in others)

    def insert(self, time: Time) -> "Antichain":
        """This frontier with ``time`` added; itself if the time is in advance of it already."""
        return self if self.less_equal(time) else Antichain((*self.elements, time))

    def meet(self, other: "Antichain") -> "Antichain":
        """The frontier of the times that are in advance of either."""
        return Antichain(self.elements + other.elements)

    def join(self, other: "Antichain") -> "Antichain":
        """The frontier of the times that are in advance of both."""
        return Antichain(tuple(least_upper_bound(a, b) for a in self.elements for b in other.elements))

    def floor(self) -> Time | None:
        """Greatest lower bound of the elements; None for the empty antichain, which has none."""
        if not self.elements:
            return None
        return tuple(map(min, *self.elements)) if len(self.elements) > 1 else self.elements[0]

    def representative(self, time: Time) -> Time:
        """The time that no reader at times in advance of this frontier can tell from ``time``.

        ``GLB over f of LUB(time, f)`` (K-Pg, appendix A), right for any lattice; of product orders, which are
        distributive, it is the LUB of the time and the floor, by which kernels compact. It need not itself be
        in advance of the frontier. The empty frontier leaves the time as it is.
        """
        bounds = [least_upper_bound(time, element) for element in self.elements]
        if not bounds:
            return time
        result = bounds[0]
        for bound in bounds[1:]:
            result = greatest_lower_bound(result, bound)
        return result
