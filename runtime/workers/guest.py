"""A member that comes to its coordinator over a network."""

import os
import socket
import threading
from contextlib import suppress
from typing import Final

from kpg.runtime.sharing.company import StoppedError
from kpg.runtime.workers.door import Card, Door, StrangerError, visit
from kpg.runtime.workers.member import Member
from kpg.runtime.workers.network import BELL, COMMANDS, NUMBER, PEER, Calling
from kpg.runtime.workers.process import Lines, keep_pages, serve
from kpg.runtime.workers.wire import GoneError, Line, exchange, packed

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
