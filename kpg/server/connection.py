"""The bytes of one connection: messages that come, and replies that go."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from pygwire import ConnectionPhase as Phase
from pygwire import FrontendMessageDecoder, PygwireError
from pygwire import messages as wire
from pygwire.constants import MessageDirection
from pygwire.messages import STANDARD_REGISTRY

from kpg.server import replies
from kpg.server.lane import Lane
from kpg.server.logs import address_of

if TYPE_CHECKING:
    from kpg.server.listen import Server

FEW_AHEAD: Final = 4
"""So many messages are looked at before their turn."""
CHUNK: Final = 1 << 16
"""Bytes that are read at once."""
MOST_BEFORE_LOGIN: Final = 10_000
"""Bytes that a client may send before it has logged in, as in Postgres."""
MOST_UNTAKEN: Final = 1 << 26
"""Bytes that may wait for a client that has asked nothing."""
BEFORE: Final = (
    Phase.STARTUP,
    Phase.AUTHENTICATING,
    Phase.AUTHENTICATING_SASL_INITIAL,
    Phase.AUTHENTICATING_SASL_CONTINUE,
)

PASSED_OVER: Final = (
    (wire.Sync, Phase.COPY_IN),
    (wire.Flush, Phase.COPY_IN),
    (wire.CopyData, Phase.READY),
    (wire.CopyDone, Phase.READY),
    (wire.CopyFail, Phase.READY),
)
"""Messages that the protocol wants ignored, where pygwire does not expect them: a client may have sent Sync
along with the Execute of a COPY, and rows of a COPY that has failed."""
for _message, _phase in PASSED_OVER:
    STANDARD_REGISTRY.register(_message.identifier, MessageDirection.FRONTEND, frozenset({_phase}))(_message)


class Gone(Exception):
    """The client has gone, or must go."""


class Connection:
    """Messages in, replies out."""

    def __init__(self, server: "Server", reader: Lane, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self._reader = reader
        self._writer = writer
        self._out: list[bytes] = []
        self._decoder = FrontendMessageDecoder()
        self.end_point = b""
        """The hash of the certificate of the TLS channel; empty without TLS."""
        self.between = False
        """Whether the next message may be the first of any request."""
        self._ahead: deque[Any] = deque()
        """Messages that have been looked at before their turn, or the error in the place of one."""

    def ends_here(self) -> bool:
        """Whether nothing but the end of a request, Sync, is known to come behind its last Execute."""
        executed = False
        for place in range(FEW_AHEAD):
            if len(self._ahead) <= place:
                message = self._decoded()
                if message is None:
                    return False
                self._ahead.append(message)
            match self._ahead[place]:
                case wire.Sync():
                    return True
                case wire.Execute() if not executed:
                    executed = True
                case wire.Describe() | wire.Close() | wire.Flush():
                    pass
                case _:
                    return False
        return False

    def _decoded(self) -> Any:
        """The next message, or the error in the place of one; None if no message is complete."""
        try:
            return next(self._decoder, None)
        except PygwireError as error:
            return error
        except IndexError:  # pygwire looks at the first byte of what Describe and Close name
            return PygwireError("it ends too early")

    async def receive(self) -> Any:
        """The next message; Gone if there is none."""
        while True:
            message = self._ahead.popleft() if self._ahead else self._decoded()
            if isinstance(message, PygwireError):
                self.send(replies.refusal("08P01", f"invalid message: {message}"))
                raise Gone
            if message is not None:
                return message
            if self._decoder.phase in BEFORE and self._decoder.buffered > MOST_BEFORE_LOGIN:
                raise Gone
            await self.flush()
            if self.between and not self._decoder.buffered:
                self.ready_for_requests()
            data = await self._reader.read(CHUNK)
            self._reader.close()
            if not data:
                raise Gone
            self._decoder.feed(data)

    def phase(self, phase: Phase) -> None:
        """What messages are expected from now on."""
        self._decoder.phase = phase

    def send(self, data: bytes) -> None:
        """Send with what follows, before the next message is waited for."""
        self._out.append(data)

    async def flush(self) -> None:
        """Send what is to be sent, and wait until the client has taken most of it."""
        if self._out:
            self._writer.write(b"".join(self._out))
            self._out.clear()
        await self._writer.drain()

    @property
    def address(self) -> str:
        """Whence the client comes."""
        return address_of(self._writer.get_extra_info("peername"))

    @property
    def unsent(self) -> int:
        """Bytes that the client has not taken."""
        return self._writer.transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Send at once."""
        transport = self._writer.transport
        if not transport.is_closing():
            transport.write(data)

    def push(self) -> None:
        """Send without waiting; who does not take what is sent is cut off."""
        self._writer.write(b"".join(self._out))
        self._out.clear()
        if self._writer.transport.get_write_buffer_size() > MOST_UNTAKEN:
            self._writer.transport.abort()

    def ready_for_requests(self) -> None:
        """The next request may be taken off the socket at once."""

    def check_there(self) -> None:
        """Gone if the client has closed its end."""
        if self._reader.at_eof() or self._writer.is_closing():
            raise Gone

    async def secure(self) -> None:
        """Go on with TLS."""
        tls = self.server.tls
        assert tls is not None
        self.end_point = getattr(tls, "end_point", b"")  # of the certificate that this client is shown
        await self._writer.start_tls(tls)

    def hang_up(self) -> None:
        """Send what is left, and close."""
        self._writer.write(b"".join(self._out))
        self._writer.close()
