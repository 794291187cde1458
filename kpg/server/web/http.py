"""One HTTP/1.1 connection: requests in, responses out, with limits on size and time. h11 does the parsing."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import h11

from kpg.runtime.records import dataclass

MOST_HEAD: Final = 1 << 15
"""Bytes of a request's first line and its headers."""
MOST_BODY: Final = 1 << 26
"""Bytes of a request's body."""
CHUNK: Final = 1 << 16
PATIENCE: Final = 60.0
"""Seconds that a client has for a request's head, the first one or the next, and for taking an answer."""
BODY_PATIENCE: Final = 30.0
"""Seconds that it has for a body, and a second more for each 10,000 bytes that have come."""
LINGER: Final = 1.0
"""Seconds for which what comes after the last answer is passed over."""
SLOWEST: Final = 10_000
SAFE: Final = (
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
)
"""What is said with every answer, so that browsers do nothing with it but what the page does."""
Headers = list[tuple[str, str]]


class Refused(Exception):
    """A request that is answered with a status and a message, and with nothing else."""

    def __init__(self, status: int, message: str, *, hint: str = "", headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint
        self.headers = headers or []


class Gone(Exception):
    """The client has gone, or takes nothing any more."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for. Names of headers are in lower case; of a query's values the last counts."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]

    @property
    def media(self) -> str:
        """The type of the body, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def request_of(event: h11.Request) -> Request:
    """A request as h11 has read it; Refused if its target is none of ours."""
    target = event.target.decode("latin-1")
    try:
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True, max_num_fields=50, errors="strict")
        path = unquote(parts.path, errors="strict")
    except ValueError:
        raise Refused(400, "the address of the request cannot be read") from None
    headers: dict[str, str] = {}
    for name, value in event.headers:
        key = name.decode("latin-1")
        if key in headers and key in ("authorization", "origin", "content-type", "host"):
            raise Refused(400, f"the header {key} is given twice")
        headers[key] = value.decode("latin-1")
    if "content-length" in headers and "transfer-encoding" in headers:
        raise Refused(400, "the body's length is given twice, by content-length and transfer-encoding")
    return Request(
        event.method.decode("latin-1"), path, {key: found[-1] for key, found in query.items()}, headers
    )


class Connection:
    """A client's connection, over which requests come one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.request: Request | None = None
        self.secure = writer.get_extra_info("ssl_object") is not None
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD)
        self._event: h11.Request | None = None
        self._part = bytearray()

    # Requests

    async def next(self) -> Request:
        """The next request, whose body has not been read; Gone if none comes, Refused if it is malformed."""
        if self._http.our_state is h11.MUST_CLOSE or self._http.their_state in (h11.MUST_CLOSE, h11.CLOSED):
            raise Gone
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        try:
            async with asyncio.timeout(PATIENCE):
                event = await self._receive()
        except TimeoutError:
            raise Gone from None
        if not isinstance(event, h11.Request):
            raise Gone
        self._event = event
        self.request = request_of(event)
        return self.request

    async def body(self) -> bytes:
        """The body of the request."""
        loop = asyncio.get_running_loop()
        data, begun = bytearray(), loop.time()
        while True:
            try:
                async with asyncio.timeout_at(begun + BODY_PATIENCE + len(data) / SLOWEST):
                    event = await self._receive()
            except TimeoutError:
                raise Refused(408, "the body of the request comes too slowly") from None
            if isinstance(event, h11.EndOfMessage):
                return bytes(data)
            if not isinstance(event, h11.Data):
                raise Gone
            data += event.data
            if len(data) > MOST_BODY:
                raise Refused(413, f"the body of the request has more than {MOST_BODY >> 20} MB")

    async def _receive(self) -> Any:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise Refused(error.error_status_hint, f"malformed request: {error}") from None
            if event is not h11.NEED_DATA:
                return event
            if self._http.they_are_waiting_for_100_continue:
                self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
                await self.flush()
            data = await self.reader.read(CHUNK)
            self._http.receive_data(data)

    async def watch(self) -> None:
        """Return when the client closes its end; what it sends until then is kept for the next request."""
        while True:
            data = await self.reader.read(CHUNK)
            if not data:
                return
            if len(self._http.trailing_data[0]) > MOST_HEAD:
                return
            self._http.receive_data(data)

    def upgrade_head(self) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """The headers and the target of the request, for another protocol that goes on from here."""
        assert self._event is not None
        return list(self._event.headers), self._event.target

    # Answers

    @property
    def begun(self) -> bool:
        """Whether an answer to the present request has begun."""
        return self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE)

    @property
    def is_last(self) -> bool:
        """Whether no request comes after the present one."""
        return self._http.our_state is h11.MUST_CLOSE or self._http.their_state is h11.ERROR

    async def reply(self, status: int, kind: str, data: bytes, headers: Headers | None = None) -> None:
        """Answer in one go."""
        await self.begin(status, kind, [("content-length", str(len(data))), *(headers or [])])
        if self.request is None or self.request.method != "HEAD":
            await self.write(data)
        await self.end()

    async def begin(self, status: int, kind: str, headers: Headers | None = None) -> None:
        """Begin an answer."""
        said = [("content-type", kind), *SAFE, *(headers or [])]
        if self._http.their_state is h11.SEND_BODY:
            said.append(("connection", "close"))  # what is left of the body is not waited for
        own = {name for name, _ in headers or []}
        said = [pair for index, pair in enumerate(said) if pair[0] not in own or index > len(SAFE)]
        self._write(self._http.send(h11.Response(status_code=status, headers=said)))

    async def write(self, data: bytes) -> None:
        """Send a part of the answer, with what follows if it is short."""
        self._part += data
        if len(self._part) >= CHUNK:
            await self.push()

    async def push(self) -> None:
        """Have what was written be sent now."""
        if self._part:
            part, self._part = bytes(self._part), bytearray()
            self._write(self._http.send(h11.Data(data=part)))
        await self.flush()

    async def end(self) -> None:
        """End the answer."""
        await self.push()
        self._write(self._http.send(h11.EndOfMessage()))
        await self.flush()

    async def linger(self) -> None:
        """Pass over some of what still comes, so that the last answer is not lost with it."""
        passed = 0
        with contextlib.suppress(TimeoutError, OSError, RuntimeError):
            if self.writer.can_write_eof():
                self.writer.write_eof()
            async with asyncio.timeout(LINGER):
                while passed < MOST_BODY and (data := await self.reader.read(CHUNK)):
                    passed += len(data)

    async def raw(self, data: bytes) -> None:
        """Send bytes of another protocol."""
        self._write(data)
        await self.flush()

    async def flush(self) -> None:
        """Wait until the client has taken most of what was sent; Gone if it does not."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self.writer.drain()
        except (TimeoutError, ConnectionError):
            self.writer.transport.abort()
            raise Gone from None

    def _write(self, data: bytes | None) -> None:
        if self.writer.is_closing():
            raise Gone
        if data:
            self.writer.write(data)


async def refuse(connection: Connection, error: Refused) -> None:
    """Answer with an error."""
    if connection.begun:
        raise Gone
    found = {"message": error.message, **({"hint": error.hint} if error.hint else {})}
    data = json.dumps({"error": found}).encode()
    await connection.reply(error.status, "application/json", data, error.headers)


Handler = Callable[[Connection, Request, str], Any]
"""What answers a request of a user."""
