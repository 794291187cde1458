"""A member's process: it does what its coordinator asks, and ends with it."""

import ctypes
import os
import pickle
import signal
import sys
from typing import Any, Final, Protocol

from kpg.runtime.errors import InternalError
from kpg.runtime.sharing.company import Met, Parcel, PeerFailedError, Phase, StoppedError
from kpg.runtime.sharing.memory import Memory
from kpg.runtime.trace.updates import Updates
from kpg.runtime.workers.member import Member
from kpg.runtime.workers.messages import TOLD, Command, Reply
from kpg.runtime.workers.wire import GoneError, Line, exchange, packed

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
