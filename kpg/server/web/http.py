"""HTTP/1.1 connection: requests and responses, with limits on size and time. h11 parses the protocol."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import h11

from kpg.runtime.records import dataclass

MAX_HEAD: Final = 1 << 15
"""Bytes of a request's first line and headers."""
MAX_BODY: Final = 1 << 26
"""Bytes of a request's body."""
CHUNK: Final = 1 << 16
HEAD_TIMEOUT: Final = 60.0
"""Seconds for a client to send a request's head, and to accept a response."""
BODY_TIMEOUT: Final = 30.0
"""Seconds for a client to send a body, and one more for each ``MIN_BODY_RATE`` bytes received."""
LINGER: Final = 1.0
"""Seconds for which bytes after the last response are read and discarded."""
MIN_BODY_RATE: Final = 10_000
"""Bytes per second of a body."""
SECURITY_HEADERS: Final = (
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
"""Headers of every response. They restrict browsers to what the page does."""
Headers = list[tuple[str, str]]


class HttpError(Exception):
    """An error that is reported as a response with a status and a message."""

    def __init__(self, status: int, message: str, *, hint: str = "", headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint
        self.headers = headers or []


class ClientDisconnected(Exception):
    """The client has disconnected or does not read."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. Header names are in lower case; of a repeated query parameter the last value counts."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]

    @property
    def content_type(self) -> str:
        """The type of the body, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def convert_request(event: h11.Request) -> Request:
    """Convert a request of h11. Raises HttpError if it is invalid."""
    target = event.target.decode("latin-1")
    try:
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True, max_num_fields=50, errors="strict")
        path = unquote(parts.path, errors="strict")
    except ValueError:
        raise HttpError(400, "invalid request target") from None
    headers: dict[str, str] = {}
    for name, value in event.headers:
        key = name.decode("latin-1")
        if key in headers and key in ("authorization", "origin", "content-type", "host"):
            raise HttpError(400, f"the header {key} is given twice")
        headers[key] = value.decode("latin-1")
    if "content-length" in headers and "transfer-encoding" in headers:
        raise HttpError(400, "content-length and transfer-encoding must not both be given")
    return Request(
        event.method.decode("latin-1"), path, {key: found[-1] for key, found in query.items()}, headers
    )


class Connection:
    """A client's connection, which carries requests one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.request: Request | None = None
        self.secure = writer.get_extra_info("ssl_object") is not None
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._event: h11.Request | None = None
        self._chunk = bytearray()

    # Receiving

    async def next_request(self) -> Request:
        """Return the next request, without its body.

        Raises ClientDisconnected if there is none, and HttpError if it is malformed.
        """
        if self._http.our_state is h11.MUST_CLOSE or self._http.their_state in (h11.MUST_CLOSE, h11.CLOSED):
            raise ClientDisconnected
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                event = await self._receive()
        except TimeoutError:
            raise ClientDisconnected from None
        if not isinstance(event, h11.Request):
            raise ClientDisconnected
        self._event = event
        self.request = convert_request(event)
        return self.request

    async def read_body(self) -> bytes:
        """Return the body of the request."""
        loop = asyncio.get_running_loop()
        data, start = bytearray(), loop.time()
        while True:
            try:
                async with asyncio.timeout_at(start + BODY_TIMEOUT + len(data) / MIN_BODY_RATE):
                    event = await self._receive()
            except TimeoutError:
                raise HttpError(408, "the request body arrives too slowly") from None
            if isinstance(event, h11.EndOfMessage):
                return bytes(data)
            if not isinstance(event, h11.Data):
                raise ClientDisconnected
            data += event.data
            if len(data) > MAX_BODY:
                raise HttpError(413, f"the request body exceeds {MAX_BODY >> 20} MB")

    async def _receive(self) -> Any:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise HttpError(error.error_status_hint, f"malformed request: {error}") from None
            if event is not h11.NEED_DATA:
                return event
            if self._http.they_are_waiting_for_100_continue:
                self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
                await self.flush()
            data = await self.reader.read(CHUNK)
            self._http.receive_data(data)

    async def wait_for_disconnect(self) -> None:
        """Return when the client closes its end. Bytes received meanwhile are kept for the next request."""
        while True:
            data = await self.reader.read(CHUNK)
            if not data:
                return
            if len(self._http.trailing_data[0]) > MAX_HEAD:
                return
            self._http.receive_data(data)

    def upgrade_head(self) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Return the headers and the target of the request, for a protocol upgrade."""
        assert self._event is not None
        return list(self._event.headers), self._event.target

    # Sending

    @property
    def has_begun_response(self) -> bool:
        """Whether the response to the current request has begun."""
        return self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE)

    @property
    def is_last(self) -> bool:
        """Whether the current request is the last one."""
        return self._http.our_state is h11.MUST_CLOSE or self._http.their_state is h11.ERROR

    async def respond(
        self, status: int, content_type: str, data: bytes, headers: Headers | None = None
    ) -> None:
        """Send a complete response."""
        await self.begin_response(
            status, content_type, [("content-length", str(len(data))), *(headers or [])]
        )
        if self.request is None or self.request.method != "HEAD":
            await self.write(data)
        await self.end_response()

    async def begin_response(self, status: int, content_type: str, headers: Headers | None = None) -> None:
        """Begin a response."""
        response_headers = [("content-type", content_type), *SECURITY_HEADERS, *(headers or [])]
        if self._http.their_state is h11.SEND_BODY:
            response_headers.append(("connection", "close"))  # the rest of the body is not read
        overridden = {name for name, _ in headers or []}
        response_headers = [
            pair
            for index, pair in enumerate(response_headers)
            if pair[0] not in overridden or index > len(SECURITY_HEADERS)
        ]
        self._write(self._http.send(h11.Response(status_code=status, headers=response_headers)))

    async def write(self, data: bytes) -> None:
        """Buffer a part of the response body, and send the buffer if it is large."""
        self._chunk += data
        if len(self._chunk) >= CHUNK:
            await self.push()

    async def push(self) -> None:
        """Send the buffered part of the response body."""
        if self._chunk:
            chunk, self._chunk = bytes(self._chunk), bytearray()
            self._write(self._http.send(h11.Data(data=chunk)))
        await self.flush()

    async def end_response(self) -> None:
        """End the response."""
        await self.push()
        self._write(self._http.send(h11.EndOfMessage()))
        await self.flush()

    async def linger(self) -> None:
        """Discard bytes that still arrive, because closing the socket before could lose the last response."""
        discarded_bytes = 0
        with contextlib.suppress(TimeoutError, OSError, RuntimeError):
            if self.writer.can_write_eof():
                self.writer.write_eof()
            async with asyncio.timeout(LINGER):
                while discarded_bytes < MAX_BODY and (data := await self.reader.read(CHUNK)):
                    discarded_bytes += len(data)

    async def write_raw(self, data: bytes) -> None:
        """Send bytes of another protocol."""
        self._write(data)
        await self.flush()

    async def flush(self) -> None:
        """Wait until the client has received most of the bytes. Raises ClientDisconnected after a timeout."""
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                await self.writer.drain()
        except (TimeoutError, ConnectionError):
            self.writer.transport.abort()
            raise ClientDisconnected from None

    def _write(self, data: bytes | None) -> None:
        if self.writer.is_closing():
            raise ClientDisconnected
        if data:
            self.writer.write(data)


async def respond_error(connection: Connection, error: HttpError) -> None:
    """Respond with an error."""
    if connection.has_begun_response:
        raise ClientDisconnected
    fields = {"message": error.message, **({"hint": error.hint} if error.hint else {})}
    data = json.dumps({"error": fields}).encode()
    await connection.respond(error.status, "application/json", data, error.headers)


Handler = Callable[[Connection, Request, str], Any]
"""Answers the request of a user."""
