"""The main function of a member process: serve the coordinator's commands and exit when it ends.

A member either is started by its coordinator on the same machine or connects to it over a network.
"""

import ctypes
import os
import pickle
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any, Final, Protocol

from kpg.runtime.cluster.member import Member
from kpg.runtime.cluster.messages import TOLD, Command, GoneError, Line, Reply, exchange, packed
from kpg.runtime.cluster.shared_memory import Memory
from kpg.runtime.cluster.transfer import Card, Door, StrangerError, visit
from kpg.runtime.cluster.transport import BELL, COMMANDS, NUMBER, PEER, Calling
from kpg.runtime.errors import InternalError
from kpg.runtime.operators.worker_group import Met, Parcel, PeerFailedError, Phase, StoppedError
from kpg.runtime.trace.updates import Updates

PR_SET_PDEATHSIG: Final = 1
LOOKS: Final = 40
"""So often a worker looks whether the others have come before it goes to sleep: some 50 microseconds."""
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
LARGE: Final = 32 << 20
"""Arrays below that are made where others were before: new pages cost more than what is put into them."""
KEPT: Final = 256 << 20
"""Bytes that are kept for that."""


class Lines:
    """The ways to the other processes: ``company.Peers``."""

    def __init__(self, index: int, ends: list[Line]) -> None:
        self._index = index
        self._others = [peer for peer in range(len(ends) + 1) if peer != index]
        self._ends = ends
        self._looks = LOOKS if (os.cpu_count() or 1) > len(ends) else 0
        self.member: Member | None = None

    def swap(self, parcels: list[list[Parcel]], phase: Phase | None, loops: list[int]) -> Met:
        """See ``company.Peers``."""
        assert self.member is not None
        strings = self.member.sharing.strings
        out = []
        for peer, end in zip(self._others, self._ends, strict=True):
            delta = strings.delta(peer)
            plain = [
                (one.position, one.updates.data, one.updates.time, one.updates.diff, one.texts)
                for one in parcels[peer]
            ]
            out.append((end, packed((plain, delta if len(delta) else None, phase, loops))))
        messages = exchange(out, self._ends, looks=self._looks)
        found, phases, every = [], [phase], set(loops)
        for peer, message in zip(self._others, messages, strict=True):
            if message is None:
                raise PeerFailedError
            plain, delta, theirs, wanted = message
            if delta is not None:
                strings.hear(peer, delta)
            phases.append(theirs)
            every |= set(wanted)
            found += [self._own(peer, one) for one in plain]
        least = min((one for one in phases if one is not None), default=None)
        return Met(found, least, sorted(every))

    def _own(self, peer: int, parcel: tuple[int, Any, Any, Any, tuple[int, ...]]) -> Parcel:
        assert self.member is not None
        position, data, time, diff, texts = parcel
        for column in texts:
            data[column] = self.member.sharing.strings.incoming(peer, data[column])
        return Parcel(position, Updates(data, time, diff), ())

    def fail(self) -> None:
        """See ``company.Peers``."""
        exchange([(end, packed(None)) for end in self._ends], self._ends)


class Wish(Protocol):
    """Whether the coordinator wants the step to end, which is looked at between operators."""

    def fresh(self) -> None:
        """A command has come: what was wanted before is over."""

    def begin(self) -> None:
        """See ``interrupts.Watch``."""

    def __call__(self) -> None:
        """StoppedError if it does."""

    def room(self, wanted: int) -> None:
        """See ``interrupts.Watch``."""


class Signal:
    """A wish that is told by a signal."""

    def __init__(self) -> None:
        self._wanted = False
        signal.signal(signal.SIGUSR1, self._note)

    def _note(self, number: int, frame: object) -> None:
        self._wanted = True

    def fresh(self) -> None:
        """See ``Wish``."""
        self._wanted = False

    def begin(self) -> None:
        """See ``Wish``."""

    def __call__(self) -> None:
        """See ``Wish``."""
        if self._wanted:
            self._wanted = False
            raise StoppedError

    def room(self, wanted: int) -> None:
        """As much as there is."""


def sendable(reply: Reply) -> Reply:
    """A reply whose error can be sent: one that cannot is told in words."""
    if reply.error is None:
        return reply
    try:
        pickle.loads(pickle.dumps(reply.error))
    except Exception:
        shown = f"{type(reply.error).__name__}: {reply.error}"
        return reply._replace(error=InternalError(f"a worker failed with {shown}"))
    return reply


def keep_pages() -> ctypes.CDLL:
    """Have memory that was freed be used again; the C library."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, LARGE)
        libc.mallopt(M_TRIM_THRESHOLD, KEPT)
    return libc


def serve(member: Member, end: Line, wish: Wish) -> None:
    """Do what the coordinator at an end asks, until it hangs up or another member is gone."""
    member.stop_when(wish)
    while True:
        try:
            (found,) = exchange([], [end])
            wish.fresh()
            command = Command(*found)
            if command.method in TOLD:
                member.obey(command)
                continue
            reply = sendable(member.perform(command))
            if isinstance(reply.error, GoneError):
                return  # another one, or the way to it: the coordinator is to start all again
            exchange([(end, packed(tuple(reply)))], [])
            if member.broken:
                return
        except GoneError:
            return


def main() -> None:
    """Serve until the coordinator hangs up or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    index, count, effort, parent, file, lock, *numbers = map(int, sys.argv[1:])
    keep_pages().prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    ends = [Line(number) for number in numbers]
    lines = Lines(index, ends[1:])
    member = lines.member = Member(index, count, lines, effort, Memory((file, lock)))
    serve(member, ends[0], Signal())


SECONDS_TO_MEET: Final = 60.0
"""For the other members to come."""
SECONDS_TO_END: Final = 10.0
"""For what is done when the coordinator has gone; then the process ends."""


class Bell:
    """A wish that is told on a connection of its own: ``process.Wish``.

    When that ends, so does what is done: nobody waits for it any more.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._begun = 0
        """The commands that have come."""
        self._rung = -1
        self._over = False
        self._done = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="kpg-bell", daemon=True)
        self._listener.start()

    def fresh(self) -> None:
        """See ``process.Wish``: it may already have been said of this command that it is to end."""
        self._begun += 1

    def begin(self) -> None:
        """See ``process.Wish``."""

    def room(self, wanted: int) -> None:
        """As much as there is."""

    def __call__(self) -> None:
        """See ``process.Wish``."""
        if self._rung == self._begun:
            self._rung = -1
            raise StoppedError
        if self._over:
            raise StoppedError

    def _listen(self) -> None:
        said = b""
        while more := self._hear():
            said += more
            while len(said) >= NUMBER.size:
                (self._rung,) = NUMBER.unpack(said[: NUMBER.size])
                said = said[NUMBER.size :]
        self._over = True
        if not self._done.wait(SECONDS_TO_END):
            os._exit(1)

    def _hear(self) -> bytes:
        try:
            return self._connection.recv(NUMBER.size)
        except OSError:
            return b""

    def close(self) -> None:
        """Listen no more."""
        self._done.set()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._listener.join()
        self._connection.close()


def attend(index: int, calling: Calling) -> None:
    """Be number ``index`` of the members until the coordinator hangs up, or dies.

    StrangerError if who called is somebody else, OSError if nobody is there any more.
    """
    address = calling.host, calling.port
    process = os.getpid()
    with Door(_own_address(address), calling.secret) as door:
        commands = visit(address, calling.secret, Card(COMMANDS, index, door.port, process))
        bell = Bell(visit(address, calling.secret, Card(BELL, index, door.port, process)))
        end = Line(commands.detach())
        ends = []
        try:
            ends = _meet(index, calling, door, end)
            door.close()
            lines = Lines(index, ends)
            member = lines.member = Member(index, calling.workers, lines, calling.merge_effort, None)
            keep_pages()
            exchange([(end, packed("ready"))], [])
            serve(member, end, bell)
            member.close()
        except (GoneError, StrangerError, OSError):
            return
        finally:
            bell.close()
            for one in (end, *ends):
                one.close()


def _own_address(other: tuple[str, int]) -> str:
    """That by which this machine is reached on the way to another one, which hears nothing of it."""
    family, kind, *_, there = socket.getaddrinfo(*other, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(there)
        return str(probe.getsockname()[0])


def _meet(index: int, calling: Calling, door: Door, end: Line) -> list[Line]:
    """Connections to the other members, in their order."""
    (addresses,) = exchange([], [end])
    found: dict[int, Line] = {}
    for other, address in enumerate(addresses[:index]):
        card = Card(PEER, index, door.port, os.getpid())
        found[other] = Line(visit(tuple(address), calling.secret, card).detach())
    while len(found) < calling.workers - 1:
        come = door.wait(SECONDS_TO_MEET)
        if come is None:
            raise GoneError
        found[come[0].worker] = Line(come[1].detach())
    return [found[other] for other in sorted(found)]
