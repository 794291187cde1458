"""Members as threads of this process, one running at a time, for tests that control the message order.

The running member holds a baton. At an exchange it deposits its messages and passes the baton on. When the
baton returns, all other members have deposited theirs.
"""

import pickle
import random
import threading
from collections.abc import Callable
from typing import Final

from kpg.runtime.cluster import messages
from kpg.runtime.cluster.member import Member
from kpg.runtime.cluster.messages import STEPS, Command, Reply, commands, sent
from kpg.runtime.cluster.shared_memory import Memory
from kpg.runtime.operators.text_exchange import Delta
from kpg.runtime.operators.worker_group import Met, Parcel, PeerFailedError, Phase, StoppedError
from kpg.runtime.trace.merge import EFFORT
from kpg.runtime.trace.updates import Updates

POLL: Final = 0.02
"""Seconds after which the coordinator looks whether to go on."""
Message = tuple[list[list[Parcel]], list[Delta], Phase | None, list[int], bool]


class Table:
    """Where messages are put down, meeting by meeting; they are taken up in an order of ``seed``."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.random = random.Random(seed)
        self.batons = [threading.Semaphore(0) for _ in range(count)]
        self.done = threading.Semaphore(0)
        self.laid: dict[int, list[Message | None]] = {}
        self.taken: dict[int, int] = {}

    def lay(self, meeting: int, index: int, message: Message) -> list[Message]:
        """Put down a message, and take up those of all once they are there."""
        box = self.laid.setdefault(meeting, [None] * self.count)
        box[index] = message
        self.batons[(index + 1) % self.count].release()
        self.batons[index].acquire()
        found = [one for one in box if one is not None]
        assert len(found) == self.count, "a worker does not come to a meeting"
        self.taken[meeting] = self.taken.get(meeting, 0) + 1
        if self.taken[meeting] == self.count:
            del self.laid[meeting], self.taken[meeting]
        return found


class Seat:
    """One member's place at the table: ``company.Peers``."""

    def __init__(self, table: Table, index: int) -> None:
        self._table = table
        self._index = index
        self._meeting = 0
        self.member: Member | None = None

    def swap(self, parcels: list[list[Parcel]], phase: Phase | None, loops: list[int]) -> Met:
        """See ``company.Peers``."""
        assert self.member is not None
        strings, index = self.member.sharing.strings, self._index
        deltas = [strings.delta(peer) for peer in range(self._table.count)]
        messages = self._swap((parcels, deltas, phase, loops, False))
        if any(failed for *_, failed in messages):
            raise PeerFailedError
        found = []
        for sender, message in enumerate(messages):
            if sender != index:
                strings.hear(sender, message[1][index])
                found += [_own(self.member, sender, parcel) for parcel in message[0][index]]
        self._table.random.shuffle(found)
        phases = [phase for _, _, phase, _, _ in messages if phase is not None]
        every = sorted({loop for message in messages for loop in message[3]})
        return Met(found, min(phases, default=None), every)

    def fail(self) -> None:
        """See ``company.Peers``."""
        count = self._table.count
        self._swap(([[] for _ in range(count)], [], None, [], True))

    def _swap(self, message: Message) -> list[Message]:
        self._meeting += 1
        return self._table.lay(self._meeting, self._index, message)


def _own(member: Member, sender: int, parcel: Parcel) -> Parcel:
    if not parcel.texts:
        return parcel
    data = parcel.updates.data.copy()
    for column in parcel.texts:
        data[column] = member.sharing.strings.incoming(sender, data[column])
    updates = parcel.updates
    return Parcel(parcel.position, Updates(data, updates.time, updates.diff), ())


def _received(command: Command) -> Command:
    """A command as it comes to another process."""
    arrays: list[pickle.PickleBuffer] = []
    header = messages.pickled(command, arrays.append)
    found: Command = pickle.loads(header, buffers=arrays)
    return found


class Stop:
    """Whether the coordinator wants members to stop: an ``interrupts.Watch``."""

    def __init__(self) -> None:
        self.wanted: BaseException | None = None

    def begin(self) -> None:
        """A step begins."""

    def __call__(self) -> None:
        if self.wanted is not None:
            raise StoppedError

    def room(self, wanted: int) -> None:
        """As much as there is."""


class Threads:
    """Members in threads of this process: ``messages.Crew``."""

    def __init__(
        self,
        count: int,
        seed: int = 0,
        merge_effort: int = EFFORT,
        *,
        common: bool = False,
        table: Table | None = None,
    ) -> None:
        """``common``: they have memory in common, as on one machine; ``table``: where they meet."""
        self.count = count
        self.hosts: list[str] = []
        self.memory = Memory() if common else None
        self._table = table or Table(count, seed)
        self._commands: list[Command | None] = [None] * count
        self._replies: list[Reply | None] = [None] * count
        self._stop = Stop()
        self.members: list[Member] = []
        for index in range(count):
            seat = Seat(self._table, index)
            seat.member = Member(index, count, seat, merge_effort, self.memory)
            seat.member.stop_when(self._stop)
            self.members.append(seat.member)
            threading.Thread(target=self._serve, args=(index,), daemon=True).start()

    def call(self, command: Command, poll: Callable[[], None]) -> tuple[list[Reply], BaseException | None]:
        """See ``messages.Crew``."""
        told = commands(command, self.count)
        sent(told[0])
        own = command.method == "put"  # what users bring along
        self._commands = [_received(one) if own else one for one in told]
        self._table.batons[0].release()
        while not self._table.done.acquire(timeout=POLL):
            if command.method in STEPS and not self._stop.wanted:
                try:
                    poll()
                except BaseException as error:
                    self._stop.wanted = error
        wanted, self._stop.wanted = self._stop.wanted, None
        return [reply for reply in self._replies if reply is not None], wanted

    def tell(self, command: Command) -> None:
        """See ``messages.Crew``."""
        for member in self.members:
            member.obey(command)

    def again(self) -> None:
        """Threads do not end."""

    def close(self) -> None:
        """End the threads."""
        self._commands = [None] * self.count
        self._table.batons[0].release()
        self._table.done.acquire()

    def _serve(self, index: int) -> None:
        batons, member = self._table.batons, self.members[index]
        while True:
            batons[index].acquire()
            command = self._commands[index]
            if command is not None:
                self._replies[index] = member.perform(command)
            if index + 1 < self.count:
                batons[index + 1].release()
            else:
                self._table.done.release()
            if command is None:
                member.close()
                return
