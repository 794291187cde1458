"""Members of a database that run one at a time, each with a clock of its own: how long each works alone.

What lies between two meetings is a superstep. Of each the processor time of every member is noted, and how
many bytes each hands to each; what that would take on a network is :meth:`Network.seconds`.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.cluster.messages import (
    Command,
    Reply,
    commands_by_member,
    connection_pair,
    encode_command,
    encode_message,
    exchange,
)
from kpg.runtime.cluster.threads import Message, MessageTable, ThreadMembers
from kpg.runtime.operators.worker_group import BarrierResult, Parcel, Peers, Phase

MEETINGS = 2000


@dataclass(frozen=True, slots=True)
class Network:
    """What is between members: seconds for a message to come, bytes a second in and out of each of them."""

    name: str
    latency: float
    bandwidth: float
    common: bool
    """Whether members see each other's memory: nobody is sent the rows of tables."""

    def seconds(self, bytes_: float) -> float:
        """How long it takes until so many bytes have come."""
        return self.latency + bytes_ / self.bandwidth


@dataclass(slots=True)
class Ledger:
    """What has happened: supersteps by member, in seconds, and what was handed over at each meeting."""

    supersteps: list[list[float]]
    handed: list[float]
    """Bytes of the busiest member of each meeting, out or in."""
    told: list[float]
    """Of each command: its bytes for one member."""
    here: float = 0.0
    """Seconds of the coordinator that were members' work, or this clock's."""

    def clear(self) -> None:
        """Forget it."""
        for one in self.supersteps:
            one.clear()
        self.handed.clear()
        self.told.clear()
        self.here = 0.0


class Baton(threading.Semaphore):
    """Who takes it works until he hands on the next one."""

    def __init__(self, table: "Clocked", index: int | None) -> None:
        super().__init__(0)
        self._of = table
        self._index = index

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """See ``threading.Semaphore``."""
        had = super().acquire(blocking, timeout)
        if self._index is not None:
            self._of.begin(self._index)
        return had

    def release(self, n: int = 1) -> None:
        """See ``threading.Semaphore``."""
        self._of.end()
        super().release(n)


class Clocked(MessageTable):
    """Where members meet: a ``Table`` with a clock."""

    def __init__(self, count: int) -> None:
        super().__init__(count, 0)
        self.ledger = Ledger([[] for _ in range(count)], [], [])
        self.batons = [Baton(self, index) for index in range(count)]
        self.round_done = Baton(self, None)
        self._working: tuple[int, float] | None = None
        self._sizes: NDArray[np.float64] = np.zeros((count, count))

    def begin(self, index: int) -> None:
        """A member begins to work."""
        self._working = index, time.thread_time()

    def end(self) -> None:
        """Who works, if anybody does, is done."""
        if self._working is not None:
            index, start = self._working
            self._working = None
            self.ledger.supersteps[index].append(time.thread_time() - start)

    def exchange(self, barrier: int, index: int, message: Message) -> list[Message]:
        """See ``Table``."""
        for peer, (parcels, delta) in enumerate(
            zip(message[0], message[1] or [None] * self.count, strict=True)
        ):
            size = sum(one.updates.data.nbytes + one.updates.diff.nbytes for one in parcels)
            size += 0 if delta is None else delta.data.nbytes + 8 * len(delta)
            self._sizes[index, peer] = 0 if peer == index else size
        if index == self.count - 1:
            self.ledger.handed.append(float(max(self._sizes.sum(0).max(), self._sizes.sum(1).max())))
        return super().exchange(barrier, index, message)


class Aside:
    """A member's way to the others, whose own work no member has elsewhere: ``worker_group.Peers``.

    What sending and taking messages costs is counted by messages. Where members have no memory in common,
    what is made of the words that have come is theirs.
    """

    def __init__(self, peers: Peers, table: Clocked, index: int, *, common: bool) -> None:
        self._peers = peers
        self._table = table
        self._index = index
        self._common = common

    def swap(self, parcels: list[list[Parcel]], phase: Phase | None, loops: list[int]) -> BarrierResult:
        """See ``worker_group.Peers``."""
        self._table.end()
        met = self._peers.exchange_parcels(parcels, phase, loops)
        if self._common:
            self._table.begin(self._index)
        return met

    def fail(self) -> None:
        """See ``worker_group.Peers``."""
        self._peers.fail()


class Crew(ThreadMembers):
    """Members that run one at a time, with what each of them has taken."""

    def __init__(self, count: int, *, has_shared_memory: bool) -> None:
        table = Clocked(count)
        super().__init__(count, has_shared_memory=has_shared_memory, table=table)
        self.ledger = table.ledger
        for index, member in enumerate(self.members):
            member.worker_group.peers = Aside(
                member.worker_group.peers, table, index, common=has_shared_memory
            )

    def call(self, command: Command, poll: Callable[[], None]) -> tuple[list[Reply], BaseException | None]:
        """See ``messages.Crew``."""
        start = time.thread_time()
        every = commands_by_member(command, self.count)
        self.ledger.told.append(
            sum(len(piece) for one in every for piece in encode_command(one)) / self.count
        )
        self.ledger.here += time.thread_time() - start
        return super().call(command, poll)

    def send(self, command: Command) -> None:
        """See ``messages.Crew``."""
        self.ledger.told.append(0.0)
        for member, taken in zip(self.members, self.ledger.supersteps, strict=True):
            start = time.thread_time()
            member.execute_one_way(command)
            taken.append(time.thread_time() - start)
            self.ledger.here += taken[-1]


def projected(
    ledger: Ledger, coordinator: float, network: Network, message: float
) -> tuple[float, float, float]:
    """What the ledger would take on a network: working, meeting, and the coordinator, in seconds.

    The time of a superstep is that of the slowest member; of a meeting, the network's for the busiest member
    and ``message`` for each other member that one is sent to and taken from. The coordinator sends
    what it has for members to each of them, after its own work.
    """
    count = len(ledger.supersteps)
    working = float(np.array(ledger.supersteps).max(axis=0).sum())
    meeting = sum(network.seconds(size) + (count - 1) * message for size in ledger.handed)
    orders = sum(network.seconds(0 if network.common else count * size) for size in ledger.told)
    return working, meeting, coordinator - ledger.here + orders + count * message * len(ledger.told)


def message_seconds() -> float:
    """What a process takes to send a message that has nothing to hand over, and to take one."""
    one, other = connection_pair()
    start = time.process_time()
    for _ in range(MEETINGS):
        exchange([(one, encode_message(([], None, None, [])))], [])
        exchange([], [other])
    seconds = (time.process_time() - start) / MEETINGS
    one.close()
    other.close()
    return seconds
