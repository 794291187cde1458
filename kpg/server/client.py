"""One client of the wire protocol: its connection, its message loop and its idle timeouts.

:class:`Connection` decodes the received bytes and buffers the replies. :class:`Client` dispatches
each message to ``startup``, the simple or extended protocol, or a COPY or subscription stream. The
idle timeouts are ``idle_session_timeout`` and ``idle_in_transaction_session_timeout``.
"""

import asyncio
import contextlib
import logging
import secrets
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from pygwire import ConnectionPhase as Phase
from pygwire import FrontendMessageDecoder, PygwireError
from pygwire import messages as wire
from pygwire.constants import MessageDirection
from pygwire.messages import STANDARD_REGISTRY

from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.copy import BINARY
from kpg.compiler.sql.parse.parser import parse
from kpg.execute.scripts import command_of, may_share_step
from kpg.runtime.errors import CanceledError, Error, NotSupportedError
from kpg.runtime.interrupts import install_check
from kpg.runtime.values.styles import DEFAULT_STYLE, style_of_settings
from kpg.server import logs, messages, statement_cache, streams, subscribe
from kpg.server.extended_protocol import ExtendedProtocol
from kpg.server.fast_path import STATUS_LETTERS, FastPathReader, SocketReader
from kpg.server.interfaces import Services
from kpg.server.logs import format_address
from kpg.server.messages import ChunkSizer, command_tag, executed_row_word
from kpg.server.portal import Portal, PreparedStatement
from kpg.server.startup import Login, LoginVerifiers, ParameterStatus
from kpg.server.statement_cache import Request
from kpg.server.subscribe import Subscribe
from kpg.server.subscription_cursors import SubscriptionCursors
from kpg.session.cancel import statement_deadline
from kpg.session.channels import Message
from kpg.session.engine import Engine
from kpg.session.session import Session, job_options
from kpg.session.setting_values import parse_duration
from kpg.session.transaction import State

MAX_LOOKAHEAD: Final = 4
"""Messages that are decoded ahead of their turn."""
READ_SIZE: Final = 1 << 16
"""Bytes of one read."""
MAX_LOGIN_BYTES: Final = 10_000
"""Bytes that a client may send before it has logged in, as in Postgres."""
MAX_PUSHED_BYTES: Final = 1 << 26
"""Unsent bytes from which an idle client is disconnected."""
LOGIN_PHASES: Final = (
    Phase.STARTUP,
    Phase.AUTHENTICATING,
    Phase.AUTHENTICATING_SASL_INITIAL,
    Phase.AUTHENTICATING_SASL_CONTINUE,
)

IGNORED_MESSAGES: Final = (
    (wire.Sync, Phase.COPY_IN),
    (wire.Flush, Phase.COPY_IN),
    (wire.CopyData, Phase.READY),
    (wire.CopyDone, Phase.READY),
    (wire.CopyFail, Phase.READY),
)
"""Messages that the protocol requires to be ignored, in phases in which pygwire does not expect them.

A client may have sent Sync together with the Execute of a COPY, and rows of a COPY that has failed.
"""
for _message, _phase in IGNORED_MESSAGES:
    STANDARD_REGISTRY.register(_message.identifier, MessageDirection.FRONTEND, frozenset({_phase}))(_message)

Given = TypeVar("Given")


class ClientDisconnected(Exception):
    """The client has disconnected or must be disconnected."""


class Server(Services, Protocol):
    """The server's interface to a connection."""

    tls: ssl.SSLContext | None
    users: LoginVerifiers | None
    """Verifiers of passwords; None if no password is required."""
    socket_reader: SocketReader
    clients: "dict[int, Client]"
    """Clients that have logged in, by their numbers."""

    def call_on_loop(self, callback: Callable[[], object]) -> None:
        """Call a function on the event loop of the connections, from any thread."""

    def run(self, session: Session, work: Callable[[Engine], Given], **flags: Any) -> Awaitable[Given]:
        """Run a function with the engine when it is the session's turn."""

    def close_session(self, session: Session) -> Awaitable[None]:
        """End a session and roll back its open transaction."""

    def connection_refusal(self, user: str) -> str:
        """Return why another connection of a user exceeds a limit; empty if it does not."""

    def cancel(self, number: int, secret: bytes) -> None:
        """Cancel a client's statement, if the secret is the client's."""


class Connection:
    """Decodes messages and buffers replies."""

    def __init__(self, server: Server, reader: FastPathReader, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self._reader = reader
        self._writer = writer
        self._output: list[bytes] = []
        self._decoder = FrontendMessageDecoder()
        self.end_point = b""
        """Hash of the certificate of the TLS channel; empty without TLS."""
        self.is_between_requests = False
        """Whether the next message may start a request."""
        self._lookahead: deque[Any] = deque()
        """Messages that were decoded ahead of their turn, or the error in place of a message."""

    def is_followed_by_sync(self) -> bool:
        """Return whether the received messages show that only Sync follows the request's last Execute."""
        executed = False
        for index in range(MAX_LOOKAHEAD):
            if len(self._lookahead) <= index:
                message = self._decode_message()
                if message is None:
                    return False
                self._lookahead.append(message)
            match self._lookahead[index]:
                case wire.Sync():
                    return True
                case wire.Execute() if not executed:
                    executed = True
                case wire.Describe() | wire.Close() | wire.Flush():
                    pass
                case _:
                    return False
        return False

    def _decode_message(self) -> Any:
        """Return the next message, or the error in its place; None if no message is complete."""
        try:
            return next(self._decoder, None)
        except PygwireError as error:
            return error
        except IndexError:  # pygwire reads the first byte of an empty Describe or Close
            return PygwireError("it ends too early")

    async def receive(self) -> Any:
        """Return the next message. Raises ClientDisconnected if there is none."""
        while True:
            message = self._lookahead.popleft() if self._lookahead else self._decode_message()
            if isinstance(message, PygwireError):
                self.send(messages.protocol_error("08P01", f"invalid message: {message}"))
                raise ClientDisconnected
            if message is not None:
                return message
            if self._decoder.phase in LOGIN_PHASES and self._decoder.buffered > MAX_LOGIN_BYTES:
                raise ClientDisconnected
            await self.flush()
            if self.is_between_requests and not self._decoder.buffered:
                self.start_fast_path()
            data = await self._reader.read(READ_SIZE)
            self._reader.deactivate()
            if not data:
                raise ClientDisconnected
            self._decoder.feed(data)

    def set_phase(self, phase: Phase) -> None:
        """Set the protocol phase, which decides the messages that are expected."""
        self._decoder.phase = phase

    def send(self, data: bytes) -> None:
        """Buffer bytes, which are sent before the next message is read."""
        self._output.append(data)

    async def flush(self) -> None:
        """Send the buffered bytes, and wait until the client has received most of them."""
        if self._output:
            self._writer.write(b"".join(self._output))
            self._output.clear()
        await self._writer.drain()

    @property
    def address(self) -> str:
        """The client's network address."""
        return format_address(self._writer.get_extra_info("peername"))

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the socket has not accepted yet."""
        return self._writer.transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Send bytes immediately."""
        transport = self._writer.transport
        if not transport.is_closing():
            transport.write(data)

    def flush_or_abort(self) -> None:
        """Send the buffered bytes without waiting. A client that does not read them is disconnected."""
        self._writer.write(b"".join(self._output))
        self._output.clear()
        if self._writer.transport.get_write_buffer_size() > MAX_PUSHED_BYTES:
            self._writer.transport.abort()

    def start_fast_path(self) -> None:
        """Let the fast path take the next request."""

    def check_connected(self) -> None:
        """Raise ClientDisconnected if the client has closed its end."""
        if self._reader.at_eof() or self._writer.is_closing():
            raise ClientDisconnected

    async def start_tls(self) -> None:
        """Switch the connection to TLS."""
        tls = self.server.tls
        assert tls is not None
        self.end_point = getattr(tls, "end_point", b"")  # of the certificate that this client sees
        await self._writer.start_tls(tls)

    def close(self) -> None:
        """Send the buffered bytes and close the connection."""
        self._writer.write(b"".join(self._output))
        self._writer.close()


log = logging.getLogger("kpg.server")
DISCONNECT_GRACE: Final = 0.5
"""Seconds for which a statement continues after its client has disconnected."""
MAX_INLINE_SIZE: Final = 10_000
"""Characters of a text that is parsed on the loop's thread, which takes about 20 ms."""
TRANSACTION_CONTROL: Final = (ast.Begin, ast.Commit, ast.Rollback)


class Client(Connection):
    """A connection and its session."""

    def __init__(self, server: Server, reader: FastPathReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(server, reader, writer)
        self.number = 0
        self.secret = secrets.token_bytes(4)
        self.session: Session | None = None
        self.busy = False  # whether a request is running or its reply is being sent
        self.request_count = 0
        """Number of requests that have ended."""
        self.canceled = asyncio.Event()
        """Set when the client cancels a subscription."""
        self.subscription_cursors = SubscriptionCursors(self)
        self._extended_protocol = ExtendedProtocol(self, self.subscription_cursors)
        reader.on_disconnect = self._handle_disconnect
        self.startup_settings: dict[str, str] = {}  # settings of the startup message
        self.parameter_status = ParameterStatus(self)
        self._notifications: list[bytes] = []  # sent when no transaction is open
        self._is_idle = False
        """Whether the client has sent nothing since ReadyForQuery reported that no transaction is open."""
        self._skips_to_sync = False  # whether messages are skipped until the next Sync

    def start_fast_path(self) -> None:
        """See Connection."""
        self._reader.activate(self)

    # Connection

    async def run(self) -> None:
        """Serve the client until it disconnects."""
        try:
            user = await Login(self, self.server).run()
            if user is not None:
                await self.parameter_status.apply_settings(self.startup_settings)
                log.info("client %d logs in as %s", self.number, user, extra=self._log_fields())
                self._complete_login()
                await self._serve()
        except (ClientDisconnected, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.subscription_cursors.close_all()
            self.server.clients.pop(self.number, None)
            try:
                if self.session is not None:
                    log.info("client %d disconnects", self.number, extra=self._log_fields())
                    await self.server.close_session(self.session)
            finally:
                # The server may stop meanwhile and cancel this wait.
                with contextlib.suppress(ConnectionError):
                    self.close()

    def open_session(self, user: str) -> None:
        """Open the session of a user who has logged in, and register the client."""
        self.session = session = Session(self.server.session_manager, user)
        self._extended_protocol.attach_session()
        session.has_explicit_end = True
        session.mailbox.callback, session.terminate = self._deliver_notification, self._request_termination
        self.number = session.number
        self.server.clients[self.number] = self

    def _handle_disconnect(self) -> None:
        """Cancel the statement of a disconnected client, so that it does not occupy the engine."""
        if self.busy:
            asyncio.get_running_loop().call_later(DISCONNECT_GRACE, self._terminate, False)

    def _request_termination(self, disconnects: bool) -> None:
        """End the client's statement, or the connection. Called on the engine's thread."""
        self.server.call_on_loop(lambda: self._terminate(disconnects))

    def _terminate(self, disconnects: bool) -> None:
        self.canceled.set()
        if self.busy and self.session is not None:
            self.session.cancel()
        if disconnects:
            self.close_with_error("57P01", "terminating connection due to administrator command")
            # A client that does not read never gets the message.
            asyncio.get_running_loop().call_later(DISCONNECT_GRACE, self._writer.transport.abort)

    def close_with_error(self, sqlstate: str, message: str) -> None:
        """Send an error and close the connection."""
        self.send(messages.protocol_error(sqlstate, message))
        self.flush_or_abort()
        self.close()

    def _deliver_notification(self, message: Message) -> None:
        """Send a notification of NOTIFY. Called on the engine's thread."""
        self.server.call_on_loop(lambda: self._queue_notification(message))

    def _queue_notification(self, message: Message) -> None:
        self._notifications.append(messages.notification_response(message))
        if self._is_idle:
            self._send_notifications()
            self.flush_or_abort()

    def _send_notifications(self) -> None:
        for notification in self._notifications:
            self.send(notification)
        self._notifications.clear()

    def _log_fields(self) -> dict[str, object]:
        return {"client": self.number, "user": "" if self.session is None else self.session.user}

    def log_if_slow(self, text: str, seconds: float) -> None:
        """Log a statement that ran for ``seconds`` if it was slow."""
        if seconds >= self.server.limits.slow:
            logs.log_slow_statement(
                self.number, "" if self.session is None else self.session.user, text, seconds
            )

    async def shut_down(self) -> None:
        """Tell the client that the server stops, and close the connection."""
        if not self._writer.is_closing():
            self.send(messages.protocol_error("57P01", "terminating connection due to administrator command"))
            with contextlib.suppress(ConnectionError):
                self.close()

    def _complete_login(self) -> None:
        self.send(wire.AuthenticationOk().to_wire())
        self.parameter_status.report()
        self.send(wire.BackendKeyData(process_id=self.number, secret_key=self.secret).to_wire())
        self.send(messages.ready_for_query("I"))
        self.set_phase(Phase.READY)
        self.server.socket_reader.add(self._reader, self._writer.transport)
        self._is_idle = True

    async def _serve(self) -> None:
        assert self.session is not None
        while True:
            self.is_between_requests = not self._skips_to_sync
            message = await self.receive()
            self.is_between_requests = False
            self._is_idle = False
            if isinstance(message, wire.Terminate):
                return
            if self._skips_to_sync and not isinstance(message, wire.Sync):
                continue
            self.busy = True
            try:
                await self._dispatch(message)
            except Error as error:
                await self.fail_transaction()
                await self._send_error(message, messages.error_response(error))
            except (ClientDisconnected, ConnectionError):
                raise
            except Exception as error:
                # An internal error must not end the connection or the server.
                log.exception("client %d: %s", self.number, type(message).__name__)
                await self.fail_transaction()
                await self._send_error(message, messages.error_response(error))
            finally:
                self.busy = False
                self.session.deadline = 0.0

    async def fail_transaction(self) -> None:
        """Mark the open transaction as failed, for errors that occur outside the engine."""
        session = self.session
        if session is not None and session.transactions.state is State.OPEN:
            try:
                await self.run_with_engine(
                    lambda engine: engine.transactions.roll_back_and_fail(), returns=True
                )
            except Error:
                # The wait for the engine timed out, which fails the transaction too.
                if session.transactions.state is State.OPEN:
                    raise

    async def end_implicit_transaction(self) -> None:
        """End the implicit transaction of statements that came together."""
        session = self.session
        if session is not None and session.transactions.is_implicit:
            commits = session.transactions.state is State.OPEN
            await self.run_with_engine(
                lambda _: session.end_implicit(), commits=commits, rolls_back=not commits
            )

    async def _send_error(self, message: object, reply: bytes) -> None:
        self.send(reply)
        if isinstance(message, wire.Query):
            await self.end_implicit_transaction()
            self._finish_request()
        else:
            self._skips_to_sync = True

    async def _dispatch(self, message: object) -> None:
        match message:
            case wire.Query(query_string=text):
                await self._handle_query(text)
            case wire.Parse() | wire.Bind() | wire.Describe() | wire.Execute() | wire.Close():
                await self._extended_protocol.handle_message(message)
            case wire.Flush():
                pass
            case wire.Sync():
                self._skips_to_sync = False
                assert self.session is not None
                try:
                    await self.end_implicit_transaction()
                except Error as error:
                    self.send(messages.error_response(error))
                self._finish_request()
            case wire.FunctionCall():
                raise NotSupportedError("a function call message is not supported", hint="use SELECT")
            case wire.CopyData() | wire.CopyDone() | wire.CopyFail():
                pass  # rows that were sent before COPY failed
            case _:
                self.send(messages.protocol_error("08P01", f"unexpected message {type(message).__name__}"))
                raise ClientDisconnected

    def _finish_request(self) -> None:
        assert self.session is not None
        state = self.session.transactions.state
        if state is State.NONE:
            self._extended_protocol.portals.clear()
        self.end_request()
        self.parameter_status.report()
        self._is_idle = state is State.NONE
        if state is not State.OPEN:
            self.subscription_cursors.close_all()
        if self._is_idle:
            self._send_notifications()
        self.send(messages.ready_for_query(STATUS_LETTERS[state]))

    # Statements

    async def run_with_engine(self, work: Callable[[Engine], Given], **flags: Any) -> Given:
        """Run a function with the engine when it is this session's turn."""
        assert self.session is not None
        was_busy, self.busy = self.busy, True
        try:
            return await self.server.run(self.session, work, **flags)
        finally:
            self.busy = was_busy
            if self.session.notices:
                self.send(messages.take_notices(self.session))

    async def run_without_engine(self, size: int, work: Callable[[], Given]) -> Given:
        """Run a function without the engine, on another thread if ``size`` characters or values are many."""
        assert self.session is not None
        if size <= MAX_INLINE_SIZE:
            return work()
        deadline = statement_deadline(self.session)

        def check() -> None:
            self.check_canceled()
            if deadline and time.monotonic() > deadline:
                raise CanceledError("canceling statement due to statement timeout")

        def run_checked() -> Given:
            with install_check(check):
                return work()

        return await asyncio.to_thread(run_checked)

    def end_request(self) -> None:
        """End the request. A later cancellation does not affect the next one."""
        self.busy = False
        self.request_count += 1
        if self.session is not None:
            self.session.token.is_canceled = False

    def check_canceled(self) -> None:
        """Raise CanceledError if the statement was canceled or has timed out."""
        session = self.session
        if session is not None and session.token.is_canceled:
            session.token.is_canceled = False
            raise CanceledError("canceling statement due to user request")
        if session is not None and session.deadline and time.monotonic() > session.deadline:
            raise CanceledError("canceling statement due to statement timeout")

    def prepared_statement(self, name: str) -> PreparedStatement | None:
        """Return the prepared statement of a name."""
        return self._extended_protocol.prepared_statement(name)

    def is_current(self, name: str, prepared: PreparedStatement | None) -> bool:
        """Return whether a name still has this prepared statement, with the columns that the client knows."""
        return prepared is self.prepared_statement(name) and (
            prepared is None or self._extended_protocol.is_description_current(prepared)
        )

    def request_text_and_values(self, request: Request) -> tuple[str, list[Any] | None] | None:
        """Return the text and Python values of a request for the plan cache; None if it may not use it."""
        if request.name is None:
            self._extended_protocol.drop_unnamed()
            return request.text, None
        return self._extended_protocol.request_text_and_values(request)

    async def _handle_query(self, text: str) -> None:
        assert self.session is not None
        self.session.last_query = text
        self._extended_protocol.drop_unnamed()
        if await self.subscription_cursors.handle_query(text):
            self._finish_request()
            return
        subscription = subscribe.parse_subscribe(text)
        if subscription is not None:
            await streams.send_subscription(self, subscription, 0, describe=True)
        word = command_of(text)
        statements: Sequence[ast.Statement | None] = (None,)
        if word is None:
            statements = await self.run_without_engine(len(text), lambda: parse(text))
        if not statements:
            self.send(messages.EMPTY_QUERY_RESPONSE)
        for statement in statements:
            portal = Portal(statement, (), None if word is None else (text, None))
            await self.run_portal(portal, joins=len(statements) > 1)
            if await streams.send_if_copy(self, portal):
                continue
            if portal.shape is not None:
                names, types, origins = portal.shape
                self.send(messages.row_description(names, types, [0] * len(types), origins))
                await self.send_rows(portal, 0)
            if word is not None:
                portal.tag = statement_cache.row_count_tag(word, portal.outcome)
            elif statement is not None:
                portal.tag = portal.tag or command_tag(statement, portal.outcome)
            self.send(messages.command_complete(portal.tag))
        await self.end_implicit_transaction()  # Executes before the Query may have begun it
        self._finish_request()

    async def run_portal(self, portal: Portal, *, joins: bool = False) -> None:
        """Run a portal's statement unless it has run; ``joins``: in one transaction with later statements."""
        statement, session = portal.statement, self.session
        assert session is not None
        if not portal.has_run:
            session.deadline = statement_deadline(session)
        joins = (
            joins
            and session.transactions.state is State.NONE
            and not isinstance(statement, TRANSACTION_CONTROL)
        )
        if portal.text_and_values is not None and not portal.has_run:
            text, values = portal.text_and_values
            portal.has_run = True
            flags: dict[str, Any] = {} if joins else {"adds": may_share_step(text)}
            with logs.log_slow_statements(self.server.limits, session, text):
                portal.outcome = await self.run_with_engine(
                    lambda engine: session.run_text(engine, text, values, joins=joins), **flags
                )
        if portal.has_run or statement is None:
            return
        assert not isinstance(statement, Subscribe)
        if await self._extended_protocol.portals.run_on_portal(portal):
            return
        if isinstance(statement, ast.CopyFrom) and not statement.path:
            statement = await streams.copy_in(self, statement)
        portal.has_run = True
        was_failed, execute_word = (
            session.transactions.state is State.FAILED,
            executed_row_word(session, statement),
        )
        executed = statement
        if isinstance(statement, ast.CopyTo) and statement.format == BINARY:
            executed = statement.query
        flags, span = {} if joins else job_options(executed), statement.span
        with logs.log_slow_statements(self.server.limits, session, span.source[span.start : span.end]):
            portal.outcome = await self.run_with_engine(
                lambda engine: session.run_statement(engine, executed, joins=joins), **flags
            )
        self._extended_protocol.drop_ended(statement)
        if was_failed and isinstance(statement, ast.Commit):
            portal.tag = "ROLLBACK"
        elif execute_word is not None:
            portal.tag = statement_cache.row_count_tag(execute_word, portal.outcome)

    async def send_rows(self, portal: Portal, limit: int) -> int:
        """Send up to ``limit`` rows (0: all) of a portal, and return their number."""
        dictionary = self.server.session_manager.engine.executor.dictionary
        style = DEFAULT_STYLE if self.session is None else style_of_settings(self.session.settings)
        sent_rows, sizer = 0, ChunkSizer()
        while not portal.is_exhausted and (not limit or sent_rows < limit):
            rows = portal.next_rows(
                min(sizer.rows, limit - sent_rows) if limit else sizer.rows, dictionary, style
            )
            data = messages.data_rows(rows)
            sent_rows += len(rows)
            sizer.record_chunk(len(rows), len(data))
            self.send(data)
            if portal.is_exhausted:
                await self.flush()
            else:
                await self.yield_between_chunks()
        return sent_rows

    async def yield_between_chunks(self) -> None:
        """Wait for the client, let others run, and check for cancellation, between two chunks of a result."""
        await self.flush()
        await asyncio.sleep(0)  # flush does not wait for a client that reads everything
        self.check_canceled()


UNLIMITED_CHECK_INTERVAL: Final = 1.0
"""Seconds between checks while no client has an idle timeout."""
CHECK_INTERVAL: Final = 0.05
"""Seconds between checks while a client has an idle timeout."""
TIMEOUT_ERRORS: Final = {
    "idle_session_timeout": ("57P05", "terminating connection due to idle-session timeout"),
    "idle_in_transaction_session_timeout": (
        "25P03",
        "terminating connection due to idle-in-transaction timeout",
    ),
}
"""SQLSTATE and message for each idle timeout."""


async def close_idle_clients(server: Server) -> None:
    """Close connections that exceed their idle timeout, until the task is canceled."""
    idle_since: dict[Client, tuple[int, float]] = {}
    while True:
        limited = [client for client in server.clients.values() if idle_timeout(client)[0]]
        for client in [one for one in idle_since if one not in limited]:
            del idle_since[client]
        now = time.monotonic()
        for client in limited:
            request_count, since = idle_since.setdefault(client, (client.request_count, now))
            seconds, name = idle_timeout(client)
            if client.busy or client.request_count != request_count:
                idle_since[client] = (client.request_count, now)
            elif now - since >= seconds:
                client.close_with_error(*TIMEOUT_ERRORS[name])
        await asyncio.sleep(CHECK_INTERVAL if limited else UNLIMITED_CHECK_INTERVAL)


def idle_timeout(client: "Client") -> tuple[float, str]:
    """Return a client's current idle timeout in seconds (0 for none), and the setting's name."""
    session = client.session
    if session is None:
        return 0.0, ""
    idle = session.transactions.state is State.NONE
    name = "idle_session_timeout" if idle else "idle_in_transaction_session_timeout"
    text = session.settings.get(name)
    return (parse_duration(text) if text else 0.0), name
