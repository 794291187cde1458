"""Fast path: repeated requests go from the socket to the engine without waking the client's task.

A client's fast path is active while its task waits for the next message and has no other work. Replies are
sent in the order of the requests. A request that the fast path cannot serve goes to the task, after all
earlier ones are answered.

One event-loop callback reads the sockets of all clients, instead of one transport wake-up per client. It
covers plain TCP connections from login to close. The transports still write, and they still notice a lost
connection. With TLS, or without epoll, the transports also read.
"""

import asyncio
import errno
import os
import select
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from kpg.api.result import Result, row_count_result
from kpg.execute.scripts import command_of, is_light
from kpg.runtime.errors import CanceledError
from kpg.runtime.types import Type
from kpg.server import messages, statement_cache
from kpg.server.batched_inserts import BatchReader, InsertTemplate
from kpg.server.interfaces import Services
from kpg.server.messages import ChunkSizer
from kpg.server.portal import (
    CachedStatement,
    Portal,
    PreparedStatement,
    encode_result,
    expand_formats,
    shape_of_result,
)
from kpg.server.statement_cache import Request, decode_values, match_request, read_request, statement_name_at
from kpg.session.cancel import statement_deadline
from kpg.session.group_commit import PreparedInsert
from kpg.session.session import Session
from kpg.session.transaction import State

if TYPE_CHECKING:
    from kpg.execute.changes.keyed_changes import KeyedChange, UpsertRow
    from kpg.session.engine import Engine


STATUS_LETTERS: Final = {State.NONE: "I", State.OPEN: "T", State.FAILED: "E"}
MAX_REPLY_ROWS: Final = 2_000
"""Rows of a result that is sent as one reply; larger results are sent in chunks."""
MAX_REPLY_BYTES: Final = 1 << 20
"""Bytes of a result that is sent as one reply."""
ONE_ROW: Final = row_count_result(1)
"""Result of an INSERT of one row."""


class FastPathClient(Protocol):
    """The client's interface to the fast path."""

    session: Session | None
    busy: bool
    """Whether a request is running or its reply is being sent."""

    @property
    def server(self) -> Services:
        """The server's services."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the socket has not accepted yet."""

    def write(self, data: bytes) -> None:
        """Send bytes immediately."""

    def send(self, data: bytes) -> None:
        """Buffer bytes, which are sent before the next message is read."""

    def send_rows(self, portal: Portal, limit: int) -> Awaitable[int]:
        """Send up to ``limit`` rows (0: all) of a portal, and return their number."""

    def end_request(self) -> None:
        """End the request. A later cancellation does not affect the next one."""

    def log_if_slow(self, text: str, seconds: float) -> None:
        """Log a statement that ran for ``seconds`` if it was slow."""

    def fail_transaction(self) -> Awaitable[None]:
        """Mark the open transaction as failed."""

    def prepared_statement(self, name: str) -> PreparedStatement | None:
        """Return the prepared statement of a name."""

    def is_current(self, name: str, prepared: PreparedStatement | None) -> bool:
        """Return whether a name still has this prepared statement, with the columns that the client knows."""

    def request_text_and_values(self, request: Request) -> tuple[str, list[Any] | None] | None:
        """Return the text and Python values of a request for the plan cache; None if it may not use it."""


class FastPathRequest:
    """A request of the fast path: a job for the engine, and then its reply."""

    __slots__ = (
        "_error",
        "_notices",
        "_outcome",
        "_reader",
        "_start_time",
        "_state",
        "_status_message",
        "_values",
        "client",
        "commits",
        "large_result",
        "reply",
        "returns",
        "rolls_back",
        "session",
        "statement",
        "stop",
        "template",
    )

    def __init__(
        self,
        reader: "FastPathReader",
        client: FastPathClient,
        statement: CachedStatement,
        values: list[Any] | None,
        stop: int,
    ) -> None:
        assert client.session is not None
        self.session = client.session
        self.session.last_query = statement.text
        self.rolls_back = self.commits = self.returns = False
        self.client = client
        self.reply: bytes | None = None
        """The reply, once it is complete."""
        self.template: InsertTemplate | None = None
        """Template of the statement, if it ran by a cached insert plan."""
        self.large_result: Result | None = None
        """Rows that are too many for one reply."""
        self.stop = stop
        """End of the request in the received bytes."""
        self._reader = reader
        self.statement = statement
        self._values = values
        self._start_time = time.monotonic()
        self._status_message = self._notices = b""
        self._outcome: Result | bytes | None = None
        self._error: BaseException | None = None
        self._state = State.NONE

    # The job

    @property
    def sessions(self) -> None:
        """See Job."""

    def work(self) -> bytes | Result | None:
        """See Job."""
        engine = self.client.server.session_manager.engine
        dictionary, keeps_strings = engine.executor.dictionary, True
        dictionary.begin_reply()
        try:
            answer = self._encode_reply(
                engine, self.session.run_text(engine, self.statement.text, self._values)
            )
            keeps_strings = isinstance(answer, Result)
        finally:
            dictionary.end_reply(keep=keeps_strings)
        return answer

    def may_share_step(self, engine: "Engine") -> bool:
        """See Job."""
        adds = self.statement.only_inserts
        return adds if isinstance(adds, bool) else adds(engine)

    def prepare_change(self, engine: "Engine") -> "PreparedInsert | KeyedChange | UpsertRow | None":
        """See Job."""
        statement = self.statement
        if statement.only_inserts is False:
            return None
        ready = self.session.prepare_change(engine, statement.text, self._values, ONE_ROW)
        if isinstance(ready, PreparedInsert) and ready.insert_plan is not None:
            version, reply = (
                engine.catalog.version,
                count_reply(statement.verb, 1, State.NONE, True, statement.is_described),
            )
            self.template = self.client.server.batch_reader.find_template(
                statement, ready.insert_plan, version, reply
            )
        return ready

    @property
    def is_plain_success(self) -> bool:
        """Whether the request succeeded outside of a transaction."""
        return self._error is None and self._state is State.NONE

    def is_light(self, engine: "Engine") -> bool:
        """See Job."""
        return self.statement.only_inserts is True or is_light(self.statement.text, engine)

    def begin(self) -> bool:
        """See Job. It runs even if the client has disconnected, as its effect is visible to others."""
        return True

    def succeed(self, result: Any) -> None:
        """See Job."""
        self._outcome = result
        self._state = self.session.transactions.state
        self.client.server.engine_thread.call_soon(self._finish)

    def fail(self, error: BaseException) -> None:
        """See Job."""
        self._error = error
        self._state = self.session.transactions.state
        self.client.server.engine_thread.call_soon(self._finish)

    # The reply

    def _encode_reply(self, engine: "Engine", outcome: Result | None) -> bytes | Result | None:
        """Return the reply; a result that is only a count or too large is returned unchanged."""
        shape = shape_of_result(outcome)
        if outcome is None or shape is None or len(outcome) > MAX_REPLY_ROWS:
            return outcome
        formats = expand_formats(self.statement.result_formats, len(outcome.types))
        sizer, start, parts = ChunkSizer(), 0, [self._row_header(outcome)]
        while start < len(outcome):
            if start and sum(map(len, parts)) > MAX_REPLY_BYTES:
                return outcome
            stop = start + sizer.rows
            rows = encode_result(
                outcome, start, stop, formats, engine.executor.dictionary, engine.catalog.style
            )
            parts.append(messages.data_rows(rows))
            sizer.record_chunk(len(rows), len(parts[-1]))
            start = stop
        parts.append(command_complete(statement_cache.row_count_tag(self.statement.verb, outcome)))
        return b"".join(parts)

    def _row_header(self, outcome: Result) -> bytes:
        """Return the messages before the rows."""
        statement = self.statement
        is_described = statement.is_described or statement.prepared is None
        formats = tuple(expand_formats(statement.result_formats, len(outcome.types)))
        columns = tuple(outcome.columns), tuple(outcome.types)
        description = row_description(*columns, formats, outcome.origins) if is_described else b""
        return description if statement.prepared is None else messages.BIND_COMPLETE + description

    def _finish(self) -> None:
        """Build the reply, after the engine has run the request."""
        outcome, statement = self._outcome, self.statement
        if (seconds := time.monotonic() - self._start_time) >= self.client.server.limits.slow:
            self.client.log_if_slow(statement.text, seconds)
        is_prepared = statement.prepared is not None
        if self._error is not None:
            failure = messages.error_response(self._error) + messages.ready_for_query(
                STATUS_LETTERS[self._state]
            )
            self.reply = (messages.BIND_COMPLETE if is_prepared else b"") + failure
        elif isinstance(outcome, bytes):
            self.reply = outcome + messages.ready_for_query(STATUS_LETTERS[self._state])
        elif outcome is None or outcome.is_count:
            count = 0 if outcome is None else outcome.affected
            self.reply = count_reply(statement.verb, count, self._state, is_prepared, statement.is_described)
        else:
            self.large_result = outcome
            self._status_message = messages.ready_for_query(STATUS_LETTERS[self._state])
        if self.session.notices:
            notices = messages.take_notices(self.session)
            self.reply, self._notices = (None, notices) if self.reply is None else (notices + self.reply, b"")
        self._reader.send_replies()

    def send_large_result(self) -> None:
        """Send a large result as fast as the client reads it."""
        outcome, self.large_result = self.large_result, None
        assert outcome is not None
        self.client.server.start_task(self._stream_rows(outcome))

    async def _stream_rows(self, outcome: Result) -> None:
        portal = Portal(None, self.statement.result_formats)
        portal.outcome, portal.has_run = outcome, True
        self.session.deadline = statement_deadline(self.session)
        try:
            self.client.send(self._notices + self._row_header(outcome))
            await self.client.send_rows(portal, 0)
            self.reply = (
                command_complete(statement_cache.row_count_tag(self.statement.verb, outcome))
                + self._status_message
            )
        except ConnectionError:
            # The client has disconnected, which its task notices too.
            self.reply = b""
        except CanceledError as error:
            await self.client.fail_transaction()
            self.reply = messages.error_response(error) + messages.ready_for_query(
                STATUS_LETTERS[self.session.transactions.state]
            )
        finally:
            self.session.deadline = 0.0
            self._reader.send_replies()


@lru_cache(256)
def command_complete(tag: str) -> bytes:
    """Return CommandComplete."""
    return messages.command_complete(tag)


@lru_cache(1024)
def count_reply(verb: str, count: int, state: State, is_prepared: bool, is_described: bool) -> bytes:
    """Return the complete reply to a statement whose result is a count."""
    head = (messages.BIND_COMPLETE if is_prepared else b"") + (messages.NO_DATA if is_described else b"")
    return (
        head
        + command_complete(f"{statement_cache.TAGS[verb]} {count}")
        + messages.ready_for_query(STATUS_LETTERS[state])
    )


@lru_cache(256)
def row_description(
    names: tuple[str, ...],
    types: tuple[Type, ...],
    formats: tuple[int, ...],
    origins: tuple[tuple[str, int], ...],
) -> bytes:
    """Return RowDescription."""
    return messages.row_description(names, types, formats, origins)


MAX_UNSENT_BYTES: Final = 1 << 16
"""Unsent bytes of a client up to which the fast path serves it."""
MAX_PENDING_BYTES: Final = 1 << 20
"""Bytes that a client may send ahead before its socket is paused."""

MAX_STATEMENTS: Final = 64
"""Prepared statements that are cached per client."""


class FastPathReader(asyncio.StreamReader):
    """Stream reader that serves repeated requests and leaves other bytes to the client's task."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._client: FastPathClient | None = None
        self._pending: list[bytes] = []
        self._requests: deque[FastPathRequest] = deque()
        self._at_end = self._is_in_batch = False
        self._template: InsertTemplate | None = None
        self._template_statement: CachedStatement | None = None
        """The last request's statement, if it has a template."""
        self._statements: dict[bytes, CachedStatement] = {}
        """Cached statements by the name of the prepared statement."""
        self.socket: ClientSocket | None = None
        """The socket that reads in place of the transport, if any."""
        self.on_disconnect: Callable[[], object] | None = None
        """Called when the client has disconnected."""

    def activate(self, client: FastPathClient) -> None:
        """Serve the next requests, unless bytes for the client's task are buffered."""
        self._client = None if self._buffer else client  # type: ignore[attr-defined]

    def attach_socket(self, socket: "ClientSocket") -> None:
        """Read by this socket instead of the transport, which has been paused."""
        self.socket = self._transport = socket
        if not self._paused:  # type: ignore[attr-defined]
            socket.resume_reading()

    def deactivate(self) -> None:
        """Leave received bytes to the client's task."""
        self._client = None

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]
        """Receive bytes."""
        if self.socket is not None:
            self.socket.template = None
        if self._requests or self._is_in_batch:
            self._pending.append(bytes(data))
            if sum(map(len, self._pending)) > MAX_PENDING_BYTES:
                self._pause(paused=True)
        elif self._client is None or self._client.unsent_bytes > MAX_UNSENT_BYTES:
            super().feed_data(data)
        else:
            self._submit_requests(bytes(data))

    def feed_eof(self) -> None:
        """Receive the end of the stream."""
        if self.on_disconnect is not None:
            self.on_disconnect()
        if self._requests or self._is_in_batch:
            self._at_end = True
        else:
            super().feed_eof()

    def _pause(self, *, paused: bool) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            (transport.pause_reading if paused else transport.resume_reading)()

    def _submit_requests(self, data: bytes) -> None:
        client, stop, end = self._client, 0, len(data)
        assert client is not None
        if self.socket is not None:
            self.socket.template = None
        while stop < end:
            request = self._repeated_request(client, data, stop) or self._new_request(client, data, stop)
            if request is None:
                break
            self._requests.append(request)
            client.busy = True
            client.server.engine_thread.submit_job(request)
            stop = request.stop
        if stop == end:
            return
        remainder = data[stop:] if stop else data
        if self._requests:
            self._pending.append(remainder)
        else:
            self._pass_to_task(remainder)

    def _repeated_request(self, client: FastPathClient, data: bytes, start: int) -> FastPathRequest | None:
        """Return the request at ``start`` if it differs from an earlier one only in its values."""
        name = statement_name_at(data, start)
        statement = None if name is None else self._statements.get(name)
        if statement is None or not client.is_current(statement.name, statement.prepared):
            return None
        match = match_request(data, start, statement.request_template)
        if match is None:
            return None
        values = decode_values(match[0], statement.decoders)
        return None if values is None else FastPathRequest(self, client, statement, values or None, match[1])

    def _new_request(self, client: FastPathClient, data: bytes, start: int) -> FastPathRequest | None:
        """Return the request at ``start``; None if the fast path cannot run it."""
        request = read_request(data, start)
        if request is None:
            return None
        text_and_values = client.request_text_and_values(request)
        verb = None if text_and_values is None else command_of(text_and_values[0])
        if text_and_values is None or verb is None:
            return None
        prepared = None if request.name is None else client.prepared_statement(request.name)
        statement = CachedStatement.from_request(prepared, request, text_and_values[0], verb, data)
        if request.name is not None:
            if len(self._statements) >= MAX_STATEMENTS:
                self._statements.clear()
            self._statements[request.name.encode()] = statement
        return FastPathRequest(self, client, statement, text_and_values[1], request.stop)

    def _pass_to_task(self, data: bytes) -> None:
        """Pass bytes to the client's task."""
        self._client = None
        self._record_template(None)
        super().feed_data(data)

    def send_replies(self) -> None:
        """Send the replies that are complete, and continue with the bytes received meanwhile."""
        first = self._requests[0]
        client = first.client
        while self._requests and self._requests[0].reply is not None:
            first = self._requests.popleft()
            client.write(first.reply or b"")
            self._record_template(first)
        if self._requests:
            first = self._requests[0]
            if first.large_result is not None:
                first.send_large_result()
            return
        if self.socket is not None:
            self.socket.template = self._template
        client.end_request()
        self._resume(client)

    def _record_template(self, last_request: FastPathRequest | None) -> None:
        """Record the template of the last request, which the next one is likely to share."""
        if last_request is None or not last_request.is_plain_success:
            self._template = self._template_statement = None
        elif last_request.template is not None:
            self._template, self._template_statement = last_request.template, last_request.statement
        elif last_request.statement is not self._template_statement:
            self._template = self._template_statement = None

    def join(self) -> Session:
        """Return the session, and hold later bytes back until :meth:`leave`."""
        client = self._client
        assert client is not None
        assert client.session is not None
        self._is_in_batch = client.busy = True
        return client.session

    def leave(self, data: bytes = b"") -> None:
        """End the batch. ``data`` holds requests that have not run."""
        self._is_in_batch = False
        client = self._client
        if client is None:
            return
        if data:
            self._pending.insert(0, data)
        else:
            client.end_request()
        if self._pending or self._at_end:
            self._resume(client)

    def write(self, data: bytes) -> None:
        """Send bytes immediately."""
        if self._client is not None:
            self._client.write(data)

    def log_if_slow(self, text: str, seconds: float) -> None:
        """Log a statement that ran for ``seconds`` if it was slow."""
        if self._client is not None:
            self._client.log_if_slow(text, seconds)

    def _resume(self, client: FastPathClient) -> None:
        if self._pending:
            # The client's task is still waiting.
            pending, self._pending = b"".join(self._pending), []
            if len(pending) > MAX_PENDING_BYTES:
                self._pause(paused=False)
            self._pass_to_task(pending) if client.unsent_bytes > MAX_UNSENT_BYTES else self._submit_requests(
                pending
            )
        if self._at_end and not self._requests:
            super().feed_eof()


class FastPathProtocol(asyncio.StreamReaderProtocol):
    """Removes a lost connection's socket before its file descriptor is reused."""

    def __init__(
        self,
        reader: FastPathReader,
        on_connect: Callable[..., Awaitable[None]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(reader, on_connect, loop=loop)
        self._fast_path_reader = reader

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._fast_path_reader.socket is not None:
            self._fast_path_reader.socket.remove()
        super().connection_lost(exc)


READ_SIZE: Final = 1 << 16
"""Bytes of one read."""
MAX_READY_SOCKETS: Final = 256
"""Sockets that are read before their requests run."""


class SocketReader:
    """Reads the sockets of all plain TCP clients.

    ``before`` and ``after`` are called around each round of reads.
    """

    def __init__(
        self, before: Callable[[], object], after: Callable[[], object], batch_reader: "BatchReader"
    ) -> None:
        self._before, self._after, self._batch_reader = before, after, batch_reader
        self._loop: asyncio.AbstractEventLoop | None = None
        self._epoll: select.epoll | None = None
        self._sockets: dict[int, ClientSocket] = {}

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start reading, on the running event loop."""
        if hasattr(select, "epoll"):
            self._loop, self._epoll = loop, select.epoll()
            loop.add_reader(self._epoll.fileno(), self._read_ready)

    def stop(self) -> None:
        """Stop reading."""
        if self._epoll is not None and self._loop is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
        self._epoll = None
        self._sockets.clear()

    def file_descriptors(self) -> list[int]:
        """Return the file descriptors of the sockets."""
        return list(self._sockets)

    def add(self, reader: "FastPathReader", transport: asyncio.WriteTransport) -> None:
        """Read a connection here instead of by its transport."""
        raw_socket = transport.get_extra_info("socket")
        if self._epoll is None or raw_socket is None or transport.get_extra_info("sslcontext") is not None:
            return
        if isinstance(transport, asyncio.ReadTransport) and not transport.is_closing():
            transport.pause_reading()
            client_socket = ClientSocket(self, raw_socket.fileno(), reader, transport)
            self._sockets[client_socket.fd] = client_socket
            reader.attach_socket(client_socket)

    def enable(self, socket: "ClientSocket") -> None:
        """Start reading a socket."""
        if self._epoll is not None and self._sockets.get(socket.fd) is socket:
            self._epoll.register(socket.fd, select.EPOLLIN)

    def disable(self, socket: "ClientSocket") -> None:
        """Stop reading a socket."""
        if self._epoll is not None and self._sockets.get(socket.fd) is socket:
            with suppress(OSError):
                self._epoll.unregister(socket.fd)

    def remove(self, socket: "ClientSocket") -> None:
        """Remove the socket of a closed connection, because its file descriptor may be reused."""
        socket.pause_reading()
        socket.is_closed = True
        if self._sockets.get(socket.fd) is socket:
            del self._sockets[socket.fd]

    def _read_ready(self) -> None:
        if self._epoll is None:
            return
        ready = self._epoll.poll(0, MAX_READY_SOCKETS)
        sockets_by_template: dict[InsertTemplate, list[ClientSocket]] = {}
        self._before()
        try:
            for fd, _ in ready:
                socket = self._sockets.get(fd)
                if socket is None:
                    continue
                if socket.template is None:
                    socket.read()
                else:
                    sockets_by_template.setdefault(socket.template, []).append(socket)
            for template, sockets in sockets_by_template.items():
                self._batch_reader.read_batch(template, sockets)
        finally:
            self._after()


class ClientSocket:
    """A connection's socket. It replaces the transport for its reader, which pauses and resumes it."""

    __slots__ = ("_is_reading", "_socket_reader", "_transport", "fast_path", "fd", "is_closed", "template")

    def __init__(
        self,
        socket_reader: SocketReader,
        fd: int,
        reader: "FastPathReader",
        transport: asyncio.WriteTransport,
    ) -> None:
        self.fd = fd
        """File descriptor of the socket."""
        self.is_closed = False
        """Whether the connection is closed."""
        self.template: InsertTemplate | None = None
        """Template of the request that the client is likely to send next, if the client waits for no reply.
        """
        self._socket_reader = socket_reader
        self.fast_path = reader
        self._transport = transport
        self._is_reading = False

    def read(self) -> None:
        """Read the available bytes and pass them on."""
        if self._transport.is_closing():
            self.pause_reading()
            return
        try:
            data = os.read(self.fd, READ_SIZE)
        except OSError as error:
            self.receive(b"", -(error.errno or errno.EIO))
        else:
            self.receive(data, len(data))

    def receive(self, data: bytes, count: int) -> None:
        """Pass on ``count`` received bytes. A negative count is a negated errno."""
        if count > 0:
            self.fast_path.feed_data(data)
        elif count == 0:
            self.pause_reading()
            self.fast_path.feed_eof()
        elif -count not in (errno.EAGAIN, errno.EINTR):
            self.pause_reading()
            self._transport.abort()

    def join(self) -> Session:
        """Return the session, and hold later bytes back while a batch runs."""
        self.template = None
        return self.fast_path.join()

    @property
    def writable_fd(self) -> int:
        """File descriptor if all earlier replies have been sent, else -1."""
        transport = self._transport
        return (
            -1 if self.is_closed or transport.is_closing() or transport.get_write_buffer_size() else self.fd
        )

    def is_closing(self) -> bool:
        """See asyncio.BaseTransport."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport."""
        if self._is_reading:
            self._is_reading = False
            self._socket_reader.disable(self)

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport."""
        if not self._is_reading and not self._transport.is_closing():
            self._is_reading = True
            self._socket_reader.enable(self)

    def remove(self) -> None:
        """Remove the socket of a closed connection."""
        self._socket_reader.remove(self)
