"""Synchronisation of workers: in a step, all meet at the same exchanges in the same order.

The *level* of an operator is the largest number of exchanges on a path to it. All workers run their work at a
level and then meet: each hands over its messages and names the next level at which it has work; all continue
at the least of these. In a loop, the next round follows the last level of a round. It needs no meeting of its
own: a worker with work in it may start at once.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.operators.text_exchange import Owners, Strings
from kpg.runtime.plan import Types
from kpg.runtime.trace.updates import Updates

LEVEL: Final = 40
"""The bits of a position that say the order among operators of one level."""
Phase = tuple[int, ...]
"""The rounds of a step of a loop, and a level."""


def level_of(operator: Operator) -> int:
    """The level at which an operator runs."""
    return operator.place.position >> LEVEL


class Parcel(NamedTuple):
    """Updates for the exchange at a position; ``texts`` are the columns of common words."""

    position: int
    updates: Updates
    texts: tuple[int, ...]


class Met(NamedTuple):
    """What came of a meeting: parcels, the least phase anybody has work for, and loops that have work."""

    parcels: list[Parcel]
    phase: Phase | None
    loops: list[int]


class PeerFailedError(Exception):
    """Another worker has failed, or the coordinator wants the step to end: what was done is to be undone."""


class StoppedError(Exception):
    """The coordinator wants the step to end."""


class Peers(Protocol):
    """The way to the other workers."""

    def swap(self, parcels: list[list[Parcel]], phase: Phase | None, loops: list[int]) -> Met:
        """Hand over what is for each worker, and wait for all of them; PeerFailedError if one has failed."""

    def fail(self) -> None:
        """Tell the others, where they wait, that the step has failed."""


class Company:
    """One worker among ``count``."""

    def __init__(self, index: int, count: int, strings: Strings, peers: Peers) -> None:
        self.index = index
        self.count = count
        self.strings = strings
        self.owners = Owners(strings.dictionary, count, apart=strings.apart)
        self.meeting: dict[int, Operator] = {}
        """The exchanges, and the loops with some in them, by position."""
        self.peers = peers
        self.last = 0
        """The last level at which workers meet outside of loops."""
        self.over = True
        """Whether nobody waits for this worker outside of loops."""
        self.deep = 0
        """The loops with exchanges that are running."""
        self.meetings = 0
        self.failing = 0
        """The order of the operator that has failed."""
        self.counts: Mapping[str, int] = {}
        """How many rows the tables of the plan that is being installed have at all workers together."""

    def texts(self, types: Types) -> tuple[int, ...]:
        """The columns whose words are others elsewhere."""
        if not self.strings.apart:
            return ()
        return tuple(place for place, type_ in enumerate(types) if type_.is_interned)

    def begin(self, *, over: bool) -> None:
        """A step begins."""
        self.over, self.deep, self.failing = over, 0, 0

    def fail(self) -> None:
        """This worker has failed: whoever waits for it is to know."""
        if not self.over or self.deep:
            self.over, self.deep = True, 0
            self.peers.fail()

    def meet(self, operators: list[tuple[int, Operator]], phase: Phase | None) -> Met:
        """Hand over what these operators have for others."""
        out: list[list[Parcel]] = [[] for _ in range(self.count)]
        loops = []
        for position, operator in operators:
            if position in self.meeting:
                if isinstance(operator, Sends):
                    operator.collect(out)
                else:
                    loops.append(position)
        return self._swap(out, phase, loops)

    def swap(self, out: list[list[Parcel]]) -> list[Parcel]:
        """Hand over what is for each worker outside of any step; what has come for this one."""
        return self._swap(out, None, []).parcels

    def _swap(self, out: list[list[Parcel]], phase: Phase | None, loops: list[int]) -> Met:
        self.meetings += 1
        try:
            return self.peers.swap(out, phase, loops)
        except BaseException:
            self.over, self.deep = True, 0
            raise

    def deliver(self, met: Met) -> None:
        """Have operators take what has come."""
        for position, updates, _ in met.parcels:
            operator = self.meeting[position]
            assert isinstance(operator, Sends)
            operator.receive(updates)
        for position in met.loops:
            self.meeting[position].schedule()


class Sends(Operator):
    """An operator that has rows for other workers."""

    __slots__ = ()

    def collect(self, out: list[list[Parcel]]) -> None:
        """Put what there is for each worker into its list."""
        raise NotImplementedError

    def receive(self, updates: Updates) -> None:
        """Take what others have sent."""
        raise NotImplementedError
