"""What readers of a trace still need of it: two frontiers each."""

import weakref
from collections.abc import Iterator

from kpg.runtime.progress.antichain import Antichain
from kpg.runtime.trace.folding import meet


class Hold:
    """The two frontiers that a spine respects while this object lives."""

    __slots__ = ("__weakref__", "logical", "physical")

    def __init__(self, logical: Antichain, physical: Antichain) -> None:
        self.logical = logical
        self.physical = physical


class Holds:
    """The holds of all readers of a trace, by weak ``references``: none is kept alive by it."""

    __slots__ = ("references",)

    def __init__(self) -> None:
        self.references: list[weakref.ref[Hold]] = []

    def add(self, hold: Hold) -> None:
        """Respect a hold for as long as it lives."""
        self.references.append(weakref.ref(hold, self.references.remove))

    def remove(self, hold: Hold) -> None:
        """Forget a hold."""
        self.references[:] = [reference for reference in self.references if reference() is not hold]

    def logical(self) -> Antichain | None:
        """The frontier to compact to: no reader reads at times that are not in advance of it."""
        return meet(hold.logical for hold in self._alive())

    def physical(self) -> Antichain | None:
        """The frontier up to which batches may be merged: no reader cuts the trace before it."""
        return meet(hold.physical for hold in self._alive())

    def physicals(self) -> Iterator[Antichain]:
        """The frontiers at which readers may cut the trace."""
        return (hold.physical for hold in self._alive())

    def _alive(self) -> list[Hold]:
        return [hold for reference in self.references if (hold := reference()) is not None]
