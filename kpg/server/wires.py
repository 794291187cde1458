"""Reading from many clients at once: one callback of the loop takes what all of them have sent.

The loop's own way wakes a transport for each of them. Transports still write, and notice that a connection
is lost; from when a client has come in over plain TCP until it goes, only its bytes are read here. Where
there is no epoll, and for TLS, nothing is adopted, and transports read as always.
"""

import asyncio
import errno
import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kpg.server.crowd import Form, Forms
    from kpg.server.lane import Lane
    from kpg.sessions.session import Session

SIZE: Final = 1 << 16
"""Bytes that are read at once."""
MOST_AT_ONCE: Final = 256
"""Clients that are read before what they ask for is done."""


class Wires:
    """The connections that are read here. ``before`` and ``after`` are called around each reading."""

    def __init__(self, before: Callable[[], object], after: Callable[[], object], forms: "Forms") -> None:
        self._before, self._after, self._forms = before, after, forms
        self._loop: asyncio.AbstractEventLoop | None = None
        self._epoll: select.epoll | None = None
        self._wires: dict[int, Wire] = {}

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to read, on the loop that runs."""
        if hasattr(select, "epoll"):
            self._loop, self._epoll = loop, select.epoll()
            loop.add_reader(self._epoll.fileno(), self._read)

    def stop(self) -> None:
        """Read no more."""
        if self._epoll is not None and self._loop is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
        self._epoll = None
        self._wires.clear()

    def numbers(self) -> list[int]:
        """The sockets that are read."""
        return list(self._wires)

    def adopt(self, lane: "Lane", transport: asyncio.WriteTransport) -> None:
        """Read a connection here from now on."""
        socket = transport.get_extra_info("socket")
        if self._epoll is None or socket is None or transport.get_extra_info("sslcontext") is not None:
            return
        if isinstance(transport, asyncio.ReadTransport) and not transport.is_closing():
            transport.pause_reading()
            wire = Wire(self, socket.fileno(), lane, transport)
            self._wires[wire.number] = wire
            lane.adopted(wire)

    def listen(self, wire: "Wire") -> None:
        """Take what comes."""
        if self._epoll is not None and self._wires.get(wire.number) is wire:
            self._epoll.register(wire.number, select.EPOLLIN)

    def ignore(self, wire: "Wire") -> None:
        """Take nothing for now."""
        if self._epoll is not None and self._wires.get(wire.number) is wire:
            with suppress(OSError):
                self._epoll.unregister(wire.number)

    def forget(self, wire: "Wire") -> None:
        """The connection is over: its number may be another's soon."""
        wire.pause_reading()
        wire.gone = True
        if self._wires.get(wire.number) is wire:
            del self._wires[wire.number]

    def _read(self) -> None:
        if self._epoll is None:
            return
        found = self._epoll.poll(0, MOST_AT_ONCE)
        alike: dict[Form, list[Wire]] = {}
        self._before()
        try:
            for number, _ in found:
                wire = self._wires.get(number)
                if wire is None:
                    continue
                if wire.form is None:
                    wire.read()
                else:
                    alike.setdefault(wire.form, []).append(wire)
            for form, wires in alike.items():
                self._forms.read(form, wires)
        finally:
            self._after()


class Wire:
    """One connection's way in; to its reader it is the transport, which it asks to pause and to go on."""

    __slots__ = ("_reads", "_transport", "_wires", "form", "gone", "lane", "number")

    def __init__(self, wires: Wires, number: int, lane: "Lane", transport: asyncio.WriteTransport) -> None:
        self.number = number
        """Of the socket, as the system knows it."""
        self.gone = False
        """Whether the connection is over."""
        self.form: Form | None = None
        """Of the requests that the client is likely to send, if it waits for nothing."""
        self._wires = wires
        self.lane = lane
        self._transport = transport
        self._reads = False

    def read(self) -> None:
        """Hand on what has come."""
        if self._transport.is_closing():
            self.pause_reading()
            return
        try:
            data = os.read(self.number, SIZE)
        except OSError as error:
            self.came(b"", -(error.errno or errno.EIO))
        else:
            self.came(data, len(data))

    def came(self, data: bytes, count: int) -> None:
        """Hand on so many bytes; below 0 it is the number of an error."""
        if count > 0:
            self.lane.feed_data(data)
        elif count == 0:
            self.pause_reading()
            self.lane.feed_eof()
        elif -count not in (errno.EAGAIN, errno.EINTR):
            self.pause_reading()
            self._transport.abort()

    def join(self) -> "Session":
        """What has come is done with that of others: see ``Lane.join``."""
        self.form = None
        return self.lane.join()

    @property
    def free_number(self) -> int:
        """The number, if what is written there comes behind all that has been sent; else -1."""
        transport = self._transport
        return -1 if self.gone or transport.is_closing() or transport.get_write_buffer_size() else self.number

    def is_closing(self) -> bool:
        """As a transport's."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """As a transport's."""
        if self._reads:
            self._reads = False
            self._wires.ignore(self)

    def resume_reading(self) -> None:
        """As a transport's."""
        if not self._reads and not self._transport.is_closing():
            self._reads = True
            self._wires.listen(self)

    def forget(self) -> None:
        """The connection is over."""
        self._wires.forget(self)
