"""Members as threads of this process, one running at a time, for tests that control the message order.

The running member holds a baton. At an exchange it deposits its messages and passes the baton on. When the
baton
returns, all other members have deposited theirs.
"""

import pickle
import random
import threading
from collections.abc import Callable
from typing import Final

from kpg.runtime.cluster import messages
from kpg.runtime.cluster.member import Member
from kpg.runtime.cluster.messages import STEP_METHODS, Command, Reply, commands_by_member, encode_command
from kpg.runtime.cluster.shared_memory import SharedMemory
from kpg.runtime.operators.text_exchange import StringDelta
from kpg.runtime.operators.worker_group import BarrierResult, Parcel, PeerFailedError, Phase, StepAbortError
from kpg.runtime.trace.merge import EFFORT
from kpg.runtime.trace.updates import Updates

POLL: Final = 0.02
"""Seconds between checks for Ctrl-C by the coordinator."""
Message = tuple[list[list[Parcel]], list[StringDelta], Phase | None, list[int], bool]


class MessageTable:
    """Messages by barrier; received parcels are shuffled by ``seed``."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.random = random.Random(seed)
        self.batons = [threading.Semaphore(0) for _ in range(count)]
        self.round_done = threading.Semaphore(0)
        self.messages: dict[int, list[Message | None]] = {}
        self.taken_counts: dict[int, int] = {}

    def exchange(self, barrier: int, index: int, message: Message) -> list[Message]:
        """Deposit a message for a barrier, and return those of all members once they are there."""
        deposited = self.messages.setdefault(barrier, [None] * self.count)
        deposited[index] = message
        self.batons[(index + 1) % self.count].release()
        self.batons[index].acquire()
        received = [one for one in deposited if one is not None]
        assert len(received) == self.count, "a worker does not reach a barrier"
        self.taken_counts[barrier] = self.taken_counts.get(barrier, 0) + 1
        if self.taken_counts[barrier] == self.count:
            del self.messages[barrier], self.taken_counts[barrier]
        return received


class ThreadPeers:
    """One member's connections to the others; implements ``worker_group.Peers``."""

    def __init__(self, table: MessageTable, index: int) -> None:
        self._table = table
        self._index = index
        self._barrier = 0
        self.member: Member | None = None

    def exchange_parcels(
        self, parcels: list[list[Parcel]], phase: Phase | None, loops: list[int]
    ) -> BarrierResult:
        """Send each worker its parcels and wait for those of all workers."""
        assert self.member is not None
        strings, index = self.member.worker_group.strings, self._index
        deltas = [strings.take_delta(peer) for peer in range(self._table.count)]
        messages = self._exchange((parcels, deltas, phase, loops, False))
        if any(failed for *_, failed in messages):
            raise PeerFailedError
        received = []
        for sender, message in enumerate(messages):
            if sender != index:
                strings.add_peer_strings(sender, message[1][index])
                received += [_decode_parcel(self.member, sender, parcel) for parcel in message[0][index]]
        self._table.random.shuffle(received)
        phases = [phase for _, _, phase, _, _ in messages if phase is not None]
        all_loops = sorted({loop for message in messages for loop in message[3]})
        return BarrierResult(received, min(phases, default=None), all_loops)

    def fail(self) -> None:
        """Notify the waiting workers that the step has failed."""
        count = self._table.count
        self._exchange(([[] for _ in range(count)], [], None, [], True))

    def _exchange(self, message: Message) -> list[Message]:
        self._barrier += 1
        return self._table.exchange(self._barrier, self._index, message)


def _decode_parcel(member: Member, sender: int, parcel: Parcel) -> Parcel:
    if not parcel.text_columns:
        return parcel
    data = parcel.updates.data.copy()
    for column in parcel.text_columns:
        data[column] = member.worker_group.strings.decode_from_peer(sender, data[column])
    updates = parcel.updates
    return Parcel(parcel.position, Updates(data, updates.time, updates.diff), ())


def _pickle_roundtrip(command: Command) -> Command:
    """Return a command as another process receives it."""
    arrays: list[pickle.PickleBuffer] = []
    header = messages.dumps(command, arrays.append)
    result: Command = pickle.loads(header, buffers=arrays)
    return result


class StopWatch:
    """Watch that ends a step when the coordinator requests it."""

    def __init__(self) -> None:
        self.cause: BaseException | None = None
        """Error that ended the coordinator's wait; None without a request."""

    def begin_step(self) -> None:
        """Do nothing."""

    def __call__(self) -> None:
        if self.cause is not None:
            raise StepAbortError

    def check_room(self, size: int) -> None:
        """Do nothing: memory is not limited."""


class ThreadMembers:
    """Members in threads of this process; implements ``messages.Crew``."""

    def __init__(
        self,
        count: int,
        seed: int = 0,
        merge_effort: int = EFFORT,
        *,
        has_shared_memory: bool = False,
        table: MessageTable | None = None,
    ) -> None:
        """Start the members; with ``has_shared_memory`` as on one machine."""
        self.count = count
        self.hosts: list[str] = []
        self.memory = SharedMemory() if has_shared_memory else None
        self._table = table or MessageTable(count, seed)
        self._commands: list[Command | None] = [None] * count
        self._replies: list[Reply | None] = [None] * count
        self._stop = StopWatch()
        self.members: list[Member] = []
        for index in range(count):
            peers = ThreadPeers(self._table, index)
            peers.member = Member(index, count, peers, merge_effort, self.memory)
            peers.member.set_watch(self._stop)
            self.members.append(peers.member)
            threading.Thread(target=self._serve, args=(index,), daemon=True).start()

    def call(self, command: Command, poll: Callable[[], None]) -> tuple[list[Reply], BaseException | None]:
        """Run a command at all members and return their replies, and the error of ``poll`` if it raised."""
        commands_sent = commands_by_member(command, self.count)
        encode_command(commands_sent[0])
        is_pickled = command.method == "put"  # plans contain users' functions, which have to be picklable
        self._commands = [_pickle_roundtrip(one) if is_pickled else one for one in commands_sent]
        self._table.batons[0].release()
        while not self._table.round_done.acquire(timeout=POLL):
            if command.method in STEP_METHODS and not self._stop.cause:
                try:
                    poll()
                except BaseException as error:
                    self._stop.cause = error
        cause, self._stop.cause = self._stop.cause, None
        return [reply for reply in self._replies if reply is not None], cause

    def send(self, command: Command) -> None:
        """Run a one-way command at all members."""
        for member in self.members:
            member.execute_one_way(command)

    def restart(self) -> None:
        """Do nothing: threads do not end."""

    def close(self) -> None:
        """End the threads."""
        self._commands = [None] * self.count
        self._table.batons[0].release()
        self._table.round_done.acquire()

    def _serve(self, index: int) -> None:
        batons, member = self._table.batons, self.members[index]
        while True:
            batons[index].acquire()
            command = self._commands[index]
            if command is not None:
                self._replies[index] = member.execute(command)
            if index + 1 < self.count:
                batons[index + 1].release()
            else:
                self._table.round_done.release()
            if command is None:
                member.close()
                return
