"""Bytes between processes: messages over sockets that nobody else can connect to, of a machine or of several.

A message is a header, pickled, and arrays, whose bytes go as they are. To peers it is columns and a few
numbers; commands and replies are between a process and those that it has started itself.
"""

import pickle
import select
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

BUFFER: Final = 1 << 20
"""Bytes that are on their way between two processes of one machine at most; who sends more waits until they
are read. Between machines the system has a bound of its own (tcp_wmem, tcp_rmem)."""
AT_ONCE: Final = 64
"""Arrays that one call sends."""
AHEAD: Final = 4096
"""Bytes that are read at once where fewer are wanted."""
LENGTHS: Final = struct.Struct("<QI")


class GoneError(Exception):
    """The process at the other end has died, or the way to it is cut."""


class Line(socket.socket):
    """An end of a connection; ``left`` is what has come of the next message."""

    def __init__(self, number: int) -> None:
        super().__init__(fileno=number)
        if self.family == socket.AF_UNIX:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        self.setblocking(False)
        self.left = b""


def pair() -> tuple[Line, Line]:
    """Two ends of a connection."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Line(one.detach()), Line(other.detach())


def packed(message: object) -> list[memoryview]:
    """The pieces of a message: lengths, the header, and the arrays."""
    arrays: list[pickle.PickleBuffer] = []
    header = pickle.dumps(message, protocol=5, buffer_callback=arrays.append)
    raws = [array.raw() for array in arrays]
    lengths = LENGTHS.pack(len(header), len(raws)) + struct.pack(f"<{len(raws)}Q", *map(len, raws))
    return [memoryview(lengths + header), *(raw for raw in raws if len(raw))]


class Sender:
    """What is still to be sent to one process."""

    def __init__(self, end: socket.socket, pieces: list[memoryview]) -> None:
        self._end = end
        self._pieces = pieces

    @property
    def done(self) -> bool:
        """Whether all is on its way."""
        return not self._pieces

    def go_on(self) -> None:
        """Send as much as there is room for."""
        while self._pieces:
            try:
                count = self._end.sendmsg(self._pieces[:AT_ONCE])
            except BlockingIOError:
                return
            except OSError:
                raise GoneError from None
            while count:
                first = self._pieces[0]
                if count < len(first):
                    self._pieces[0] = first[count:]
                    break
                count -= len(first)
                del self._pieces[0]


class Receiver:
    """A message that comes from one process, piece by piece."""

    def __init__(self, end: Line) -> None:
        self._end = end
        self._head = bytearray()
        self._wanted = LENGTHS.size
        self._header = -1
        self._arrays: list[NDArray[np.uint8]] = []
        self._filled = 0
        self._place = 0
        self.done = False

    def go_on(self) -> None:
        """Take as much as there is."""
        while not self.done:
            if self._header < 0 or len(self._head) < self._wanted:
                if not self._read_head():
                    return
            elif not self._read_array():
                return

    def _read_head(self) -> bool:
        found = self._take(self._wanted - len(self._head))
        if found is None:
            return False
        self._head += found
        if len(self._head) == self._wanted:
            if self._header < 0:
                header, count = LENGTHS.unpack_from(self._head)
                self._header = header
                self._wanted += 8 * count + header
            else:
                _, count = LENGTHS.unpack_from(self._head)
                sizes = struct.unpack_from(f"<{count}Q", self._head, LENGTHS.size)
                self._arrays = [np.empty(size, np.uint8) for size in sizes]
                self._next()
        return True

    def _next(self) -> None:
        while self._place < len(self._arrays) and self._filled == len(self._arrays[self._place]):
            self._place += 1
            self._filled = 0
        self.done = self._place == len(self._arrays)

    def _read_array(self) -> bool:
        array = self._arrays[self._place].data
        wanted = len(array) - self._filled
        if self._end.left or wanted < AHEAD:
            found = self._take(wanted)
            if found is None:
                return False
            count = len(found)
            array[self._filled : self._filled + count] = found
        else:
            try:
                count = self._end.recv_into(array[self._filled :])
            except BlockingIOError:
                return False
            except OSError:
                raise GoneError from None
            if not count:
                raise GoneError
        self._filled += count
        self._next()
        return True

    def _take(self, most: int) -> bytes | None:
        """So many bytes at most; what comes with them is kept."""
        found = self._end.left
        if not found:
            try:
                found = self._end.recv(max(most, AHEAD))
            except BlockingIOError:
                return None
            except OSError:
                raise GoneError from None
            if not found:
                raise GoneError
        self._end.left = found[most:]
        return found[:most]

    @property
    def message(self) -> Any:
        """What has come."""
        _, count = LENGTHS.unpack_from(self._head)
        header = memoryview(self._head)[LENGTHS.size + 8 * count :]
        return pickle.loads(header, buffers=self._arrays)


def exchange(
    out: Sequence[tuple[Line, list[memoryview]]],
    awaited: Sequence[Line],
    poll: Callable[[], None] | None = None,
    seconds: float | None = None,
    looks: int = 0,
) -> list[Any]:
    """Send messages and take one from each of those awaited, whichever can be done first.

    ``poll`` is called after each so many ``seconds`` in which nothing happens. Before it goes to sleep it
    ``looks`` so often whether something has happened. GoneError if one is gone.
    """
    senders = {end.fileno(): Sender(end, pieces) for end, pieces in out}
    receivers = {end.fileno(): Receiver(end) for end in awaited}
    for sender in senders.values():
        sender.go_on()
    for end in awaited:
        if end.left:
            receivers[end.fileno()].go_on()
    while True:
        wanted: dict[int, int] = {}
        for number, sender in senders.items():
            if not sender.done:
                wanted[number] = select.POLLOUT
        for number, receiver in receivers.items():
            if not receiver.done:
                wanted[number] = wanted.get(number, 0) | select.POLLIN
        if not wanted:
            return [receivers[end.fileno()].message for end in awaited]
        poller = select.poll()
        for number, events in wanted.items():
            poller.register(number, events)
        found = poller.poll(0) if looks else None
        while not found and looks:
            looks -= 1
            found = poller.poll(0)
        if not found:
            found = poller.poll(None if seconds is None else 1000 * seconds)
        for number, events in found:
            if events & select.POLLOUT:
                senders[number].go_on()
            if number in receivers and events & ~select.POLLOUT:
                receivers[number].go_on()
        if not found and poll is not None:
            poll()
