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
    """Return whether left <= right in the product order."""
    return all(map(le, left, right))


def least_upper_bound(left: Time, right: Time) -> Time:
    """Return the earliest time in advance of both."""
    return tuple(map(max, left, right))


def greatest_lower_bound(left: Time, right: Time) -> Time:
    """Return the latest time that both are in advance of."""
    return tuple(map(min, left, right))


def _minimal_elements(times: Iterable[Time]) -> tuple[Time, ...]:
    """Return the minimal elements in lexicographic order, where a smaller time always comes first."""
    minimal: list[Time] = []
    for time in sorted(set(times)):
        if not any(precedes(other, time) for other in minimal):
            minimal.append(time)
    return tuple(minimal)


@dataclass(frozen=True, slots=True)
class Antichain:
    """Mutually incomparable times in lexicographic order.

    The constructor drops elements that are not minimal.
    """

    elements: tuple[Time, ...] = ()

    def __post_init__(self) -> None:
        if len(self.elements) > 1:
            object.__setattr__(self, "elements", _minimal_elements(self.elements))

    @classmethod
    def of(cls, *times: Time) -> "Antichain":
        """Return the minimal elements of ``times``."""
        return cls(times)

    @classmethod
    def of_minimal(cls, elements: tuple[Time, ...]) -> "Antichain":
        """Return the antichain of mutually incomparable elements in lexicographic order, unchecked."""
        frontier = object.__new__(cls)
        object.__setattr__(frontier, "elements", elements)
        return frontier

    @staticmethod
    @cache
    def minimum(depth: int) -> "Antichain":
        """Return the frontier that every time of ``depth`` coordinates is in advance of."""
        return Antichain(((0,) * depth,))

    def __bool__(self) -> bool:
        return bool(self.elements)

    def less_equal(self, time: Time) -> bool:
        """Return whether ``time`` is in advance of this frontier."""
        return any(all(map(le, element, time)) for element in self.elements)

    def less_than(self, time: Time) -> bool:
        """Return whether ``time`` is strictly later than some element."""
        return any(element != time and precedes(element, time) for element in self.elements)

    def precedes(self, other: "Antichain") -> bool:
        """Return whether this frontier is at or before ``other``.

        Then every time in advance of ``other`` is in advance of this one.
        """
        own, others = self.elements, other.elements
        if len(own) == 1 and len(others) == 1:
            if len(own[0]) == 1:
                return own[0][0] <= others[0][0]
            return precedes(own[0], others[0])
        if own == others:
            return True
        return all(self.less_equal(time) for time in others)

    def insert(self, time: Time) -> "Antichain":
        """Return this frontier with ``time`` added; itself if the time is already in advance of it."""
        return self if self.less_equal(time) else Antichain((*self.elements, time))

    def meet(self, other: "Antichain") -> "Antichain":
        """Return the frontier of the times that are in advance of either."""
        return Antichain(self.elements + other.elements)

    def join(self, other: "Antichain") -> "Antichain":
        """Return the frontier of the times that are in advance of both."""
        return Antichain(tuple(least_upper_bound(a, b) for a in self.elements for b in other.elements))

    def floor(self) -> Time | None:
        """Return the greatest lower bound of the elements; None for the empty antichain."""
        if not self.elements:
            return None
        return tuple(map(min, *self.elements)) if len(self.elements) > 1 else self.elements[0]

    def representative(self, time: Time) -> Time:
        """Return a time that readers in advance of this frontier cannot distinguish from ``time``.

        ``GLB over f of LUB(time, f)`` (K-Pg, appendix A) is correct in any lattice. Product orders are
        distributive, so it equals the LUB of the time and the floor, by which kernels compact. It need not
        be in advance of the frontier. The empty frontier leaves the time unchanged.
        """
        bounds = [least_upper_bound(time, element) for element in self.elements]
        if not bounds:
            return time
        result = bounds[0]
        for bound in bounds[1:]:
            result = greatest_lower_bound(result, bound)
        return result
