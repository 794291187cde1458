"""Synchronization of workers: in a step, all reach the same barriers in the same order.

The *level* of an operator is the largest number of exchanges on a path to it. All workers run their
work at a level and then reach a *barrier*: each sends its messages and announces the next level at
which it has work. All continue at the least of these levels. In a loop, the next round follows the
last level of a round without a barrier of its own: a worker with work in it may start at once.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from kpg.runtime.dataflow.dataflow_graph import Operator
from kpg.runtime.operators.text_exchange import Owners, WorkerStrings
from kpg.runtime.plan import Types
from kpg.runtime.trace.updates import Updates

LEVEL_SHIFT: Final = 40
"""Bits of a position that order operators within one level."""
Phase = tuple[int, ...]
"""Rounds of a step of a loop, followed by a level."""


def level_of(operator: Operator) -> int:
    """Return the level at which an operator runs."""
    return operator.place.position >> LEVEL_SHIFT


class Parcel(NamedTuple):
    """Updates for the exchange at ``position``; ``text_columns`` have common codes."""

    position: int
    updates: Updates
    text_columns: tuple[int, ...]


class BarrierResult(NamedTuple):
    """Outcome of a barrier: received parcels, the least phase with work, and loops with work."""

    parcels: list[Parcel]
    phase: Phase | None
    loops: list[int]


class PeerFailedError(Exception):
    """Another worker has failed, or the coordinator ends the step; the step is rolled back."""


class StepAbortError(Exception):
    """The coordinator ends the step."""


class Peers(Protocol):
    """Message transport to the other workers."""

    def exchange_parcels(
        self, parcels: list[list[Parcel]], phase: Phase | None, loops: list[int]
    ) -> BarrierResult:
        """Send each worker its parcels and wait for those of all workers.

        Raises:
            PeerFailedError: If a worker has failed.
        """

    def fail(self) -> None:
        """Notify the waiting workers that the step has failed."""


class Sender(Protocol):
    """Operator with rows for other workers."""

    def collect(self, out: list[list[Parcel]]) -> None:
        """Append the rows for each worker to its list."""

    def receive(self, updates: Updates) -> None:
        """Buffer the updates of another worker."""


class WorkerGroup:
    """This worker's view of the group of ``count`` workers."""

    def __init__(self, index: int, count: int, strings: WorkerStrings, peers: Peers) -> None:
        self.index = index
        self.count = count
        self.strings = strings
        self.owners = Owners(strings.dictionary, count, has_local_codes=strings.has_local_codes)
        self.senders: dict[int, Sender] = {}
        """The exchanges by position."""
        self.loops: dict[int, Operator] = {}
        """The loops that contain exchanges, by position."""
        self.peers = peers
        self.last_level = 0
        """Last level with a barrier outside loops."""
        self.is_done = True
        """Whether no worker waits for this one outside loops."""
        self.running_loops = 0
        """Number of running loops with exchanges."""
        self.barrier_count = 0
        self.failing_position = 0
        """Position within its level of the running operator, which is the one to blame after a failure."""
        self.table_rows: Mapping[str, int] = {}
        """Row counts, over all workers, of the tables of the plan that is being installed."""

    def text_columns(self, types: Types) -> tuple[int, ...]:
        """Return the columns whose codes differ between workers."""
        if not self.strings.has_local_codes:
            return ()
        return tuple(place for place, type_ in enumerate(types) if type_.is_interned)

    def is_barrier(self, position: int) -> bool:
        """Return whether workers synchronize before the operator at this position."""
        return position in self.senders or position in self.loops

    def remove(self, position: int) -> None:
        """Remove the barrier of an operator that is freed."""
        self.senders.pop(position, None)
        self.loops.pop(position, None)

    def begin_step(self, *, is_done: bool) -> None:
        """Reset the state for a new step."""
        self.is_done, self.running_loops, self.failing_position = is_done, 0, 0

    def fail(self) -> None:
        """Notify the other workers that this one has failed."""
        if not self.is_done or self.running_loops:
            self.is_done, self.running_loops = True, 0
            self.peers.fail()

    def reach_barrier(self, operators: list[tuple[int, Operator]], phase: Phase | None) -> BarrierResult:
        """Send the rows that these operators have for other workers, and wait for the others."""
        out: list[list[Parcel]] = [[] for _ in range(self.count)]
        loops = []
        for position, _ in operators:
            sender = self.senders.get(position)
            if sender is not None:
                sender.collect(out)
            elif position in self.loops:
                loops.append(position)
        return self._exchange(out, phase, loops)

    def exchange_parcels(self, out: list[list[Parcel]]) -> list[Parcel]:
        """Send each worker its parcels outside of a step and return the received ones."""
        return self._exchange(out, None, []).parcels

    def _exchange(self, out: list[list[Parcel]], phase: Phase | None, loops: list[int]) -> BarrierResult:
        self.barrier_count += 1
        try:
            return self.peers.exchange_parcels(out, phase, loops)
        except BaseException:
            self.is_done, self.running_loops = True, 0
            raise

    def deliver(self, result: BarrierResult) -> None:
        """Pass received parcels to their exchanges and schedule the loops with work."""
        for position, updates, _ in result.parcels:
            self.senders[position].receive(updates)
        for position in result.loops:
            self.loops[position].schedule()
