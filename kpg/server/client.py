"""One client of the wire protocol: its connection, its message loop and its idle timeouts.

``Connection`` decodes the bytes that arrive and buffers the replies. The client dispatches each message to
``startup``, the simple or extended protocol, or a COPY or subscription stream. The idle timeouts are
``idle_session_timeout`` and ``idle_in_transaction_session_timeout``.
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
from kpg.execute.scripts import gathers, word_of
from kpg.runtime.errors import CanceledError, Error, NotSupportedError
from kpg.runtime.interrupts import checked
from kpg.runtime.values.styles import PLAIN, of_settings
from kpg.server import logs, messages, statement_cache, streams, subscribe
from kpg.server.extended_protocol import Extended
from kpg.server.fast_path import Lane, Wires
from kpg.server.interfaces import Services
from kpg.server.logs import address_of
from kpg.server.messages import Pace, prepared_by, tag_of
from kpg.server.portal import Portal, Prepared
from kpg.server.startup import Login, People, Telling
from kpg.server.statement_cache import Request
from kpg.server.subscribe import Subscribe
from kpg.server.subscription_cursors import Following
from kpg.session.cancel import deadline_of
from kpg.session.channels import Message
from kpg.session.engine import Engine
from kpg.session.session import Session, how
from kpg.session.setting_values import seconds_of
from kpg.session.transaction import State

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

Given = TypeVar("Given")


class Gone(Exception):
    """The client has gone, or must go."""


class Server(Services, Protocol):
    """What a connection uses of its server."""

    tls: ssl.SSLContext | None
    users: People | None
    """Who may come in with a password; None: anybody."""
    wires: Wires
    clients: "dict[int, Client]"
    """Clients that have come in, by their numbers."""

    def call(self, what: Callable[[], object]) -> None:
        """Have the loop of the connections call something, from any thread."""

    def run(self, session: Session, work: Callable[[Engine], Given], **flags: Any) -> Awaitable[Given]:
        """Run something with the engine when it is the session's turn."""

    def close_session(self, session: Session) -> Awaitable[None]:
        """End a session, and roll back its open transaction."""

    def refused(self, user: str) -> str:
        """Return why one client more of a user is too many; empty if it is not."""

    def cancel(self, number: int, secret: bytes) -> None:
        """Cancel a client's statement, if the secret is the client's."""


class Connection:
    """Messages in, replies out."""

    def __init__(self, server: Server, reader: Lane, writer: asyncio.StreamWriter) -> None:
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
                self.send(messages.refusal("08P01", f"invalid message: {message}"))
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


log = logging.getLogger("kpg.server")
PATIENCE: Final = 0.5
"""Seconds that a statement may go on whose client has gone."""
LONG: Final = 10_000
"""Letters of a text that is read on the loop's thread, and takes 20 ms or so."""
CONTROL: Final = (ast.Begin, ast.Commit, ast.Rollback)
STATUS: Final = {State.NONE: "I", State.OPEN: "T", State.FAILED: "E"}


class Client(Connection):
    """A connection and its session."""

    def __init__(self, server: Server, reader: Lane, writer: asyncio.StreamWriter) -> None:
        super().__init__(server, reader, writer)
        self.number = 0
        self.secret = secrets.token_bytes(4)
        self.session: Session | None = None
        self.busy = False  # whether what it has asked for is being done, or sent
        self.rests = 0
        """How often that has come to its end."""
        self.canceled = asyncio.Event()
        """Set when the client wants a subscription to end."""
        self.following = Following(self)
        self._extended = Extended(self, self.following)
        reader.left = self._left
        self.wanted: dict[str, str] = {}  # settings that the client came with
        self.telling = Telling(self)
        self._told: list[bytes] = []  # what is to be sent when no transaction is open
        self._idle = False
        """Whether nothing has been asked since it was said that there is no transaction."""
        self._skipping = False  # whether messages are passed over until the next Sync, after an error

    def ready_for_requests(self) -> None:
        """See Connection."""
        self._reader.open_for(self)

    # Life

    async def run(self) -> None:
        """Serve the client until it goes."""
        try:
            user = await Login(self, self.server).run()
            if user is not None:
                await self.telling.settle(self.wanted)
                log.info("client %d comes as %s", self.number, user, extra=self._extra())
                self._greet()
                await self._serve()
        except (Gone, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.following.end()
            self.server.clients.pop(self.number, None)
            try:
                if self.session is not None:
                    log.info("client %d goes", self.number, extra=self._extra())
                    await self.server.close_session(self.session)
            finally:
                # The server may stop in the meantime, which ends what is waited for here.
                with contextlib.suppress(ConnectionError):
                    self.hang_up()

    def admit(self, user: str) -> None:
        """Let the client in, as a user: it counts from now on."""
        self.session = session = Session(self.server.hub, user)
        self._extended.begin()
        session.rests = True
        session.mailbox.told, session.ender = self._tell, self._end
        self.number = session.number
        self.server.clients[self.number] = self

    def _left(self) -> None:
        """The client has gone: what it waits for is not to keep the engine from others."""
        if self.busy:
            asyncio.get_running_loop().call_later(PATIENCE, self._ended, False)

    def _end(self, wholly: bool) -> None:
        """End what the client does, or the connection; on the engine's thread."""
        self.server.call(lambda: self._ended(wholly))

    def _ended(self, wholly: bool) -> None:
        self.canceled.set()
        if self.busy and self.session is not None:
            self.session.cancel()
        if wholly:
            self.dismiss("57P01", "terminating connection due to administrator command")
            # Who takes nothing of what waits for him is not told.
            asyncio.get_running_loop().call_later(PATIENCE, self._writer.transport.abort)

    def dismiss(self, code: str, message: str) -> None:
        """Close the connection, and say why."""
        self.send(messages.refusal(code, message))
        self.push()
        self.hang_up()

    def _tell(self, message: Message) -> None:
        """Have a message of NOTIFY sent; on the engine's thread."""
        self.server.call(lambda: self._notified(message))

    def _notified(self, message: Message) -> None:
        self._told.append(messages.notification(message))
        if self._idle:
            self._say()
            self.push()

    def _say(self) -> None:
        for told in self._told:
            self.send(told)
        self._told.clear()

    def _extra(self) -> dict[str, object]:
        return {"client": self.number, "user": "" if self.session is None else self.session.user}

    def took(self, text: str, seconds: float) -> None:
        """A statement has run: tell of it if it took long."""
        if seconds >= self.server.limits.slow:
            logs.slow(self.number, "" if self.session is None else self.session.user, text, seconds)

    async def end(self) -> None:
        """Tell the client that the server ends; its statement, if it has one, has been given time."""
        if not self._writer.is_closing():
            self.send(messages.refusal("57P01", "terminating connection due to administrator command"))
            with contextlib.suppress(ConnectionError):
                self.hang_up()

    def _greet(self) -> None:
        self.send(wire.AuthenticationOk().to_wire())
        self.telling.tell()
        self.send(wire.BackendKeyData(process_id=self.number, secret_key=self.secret).to_wire())
        self.send(messages.ready("I"))
        self.phase(Phase.READY)
        self.server.wires.adopt(self._reader, self._writer.transport)
        self._idle = True

    async def _serve(self) -> None:
        assert self.session is not None
        while True:
            self.between = not self._skipping
            message = await self.receive()
            self.between = False
            self._idle = False
            if isinstance(message, wire.Terminate):
                return
            if self._skipping and not isinstance(message, wire.Sync):
                continue
            self.busy = True
            try:
                await self._handle(message)
            except Error as error:
                await self.fail()
                await self._failed(message, messages.failure(error))
            except (Gone, ConnectionError):
                raise
            except Exception as error:
                # A fault of ours must not take the connection, or the server, with it.
                log.exception("client %d: %s", self.number, type(message).__name__)
                await self.fail()
                await self._failed(message, messages.failure(error))
            finally:
                self.busy = False
                self.session.deadline = 0.0

    async def fail(self) -> None:
        """Have the transaction be one that has failed, where an error came before the engine."""
        session = self.session
        if session is not None and session.transactions.state is State.OPEN:
            try:
                await self.engine(lambda engine: engine.transactions.fail(), returns=True)
            except Error:
                # It waited too long for its turn, by which the transaction has failed, too.
                if session.transactions.state is State.OPEN:
                    raise

    async def part(self) -> None:
        """End the transaction of statements that came together."""
        session = self.session
        if session is not None and session.transactions.implicit:
            commits = session.transactions.state is State.OPEN
            await self.engine(lambda _: session.part(), commits=commits, rolls_back=not commits)

    async def _failed(self, message: object, reply: bytes) -> None:
        self.send(reply)
        if isinstance(message, wire.Query):
            await self.part()
            self._ready()
        else:
            self._skipping = True

    async def _handle(self, message: object) -> None:
        match message:
            case wire.Query(query_string=text):
                await self._query(text)
            case wire.Parse() | wire.Bind() | wire.Describe() | wire.Execute() | wire.Close():
                await self._extended.handle(message)
            case wire.Flush():
                pass
            case wire.Sync():
                self._skipping = False
                assert self.session is not None
                try:
                    await self.part()
                except Error as error:
                    self.send(messages.failure(error))
                self._ready()
            case wire.FunctionCall():
                raise NotSupportedError("a function call message is not supported", hint="use SELECT")
            case wire.CopyData() | wire.CopyDone() | wire.CopyFail():
                pass  # what was on its way when COPY failed
            case _:
                self.send(messages.refusal("08P01", f"unexpected message {type(message).__name__}"))
                raise Gone

    def _ready(self) -> None:
        assert self.session is not None
        state = self.session.transactions.state
        if state is State.NONE:
            self._extended.portals.clear()
        self.rest()
        self.telling.tell()
        self._idle = state is State.NONE
        if state is not State.OPEN:
            self.following.end()
        if self._idle:
            self._say()
        self.send(messages.ready(STATUS[state]))

    # Statements

    async def engine(self, work: Callable[[Engine], Given], **flags: Any) -> Given:
        """Do something with the engine when it is this session's turn."""
        assert self.session is not None
        before, self.busy = self.busy, True
        try:
            return await self.server.run(self.session, work, **flags)
        finally:
            self.busy = before
            if self.session.notices:
                self.send(messages.said(self.session))

    async def apart(self, size: int, work: Callable[[], Given]) -> Given:
        """Do something without the engine, on a thread of its own if ``size`` letters or values are many."""
        assert self.session is not None
        if size <= LONG:
            return work()
        end = deadline_of(self.session)

        def check() -> None:
            self.check_canceled()
            if end and time.monotonic() > end:
                raise CanceledError("canceling statement due to statement timeout")

        def checking() -> Given:
            with checked(check):
                return work()

        return await asyncio.to_thread(checking)

    def rest(self) -> None:
        """What was sent is done: whoever cancels it now is too late, and does not meet what comes next."""
        self.busy = False
        self.rests += 1
        if self.session is not None:
            self.session.token.canceled = False

    def check_canceled(self) -> None:
        """CanceledError if the statement is to end, whose result is being sent, or whose rows come."""
        session = self.session
        if session is not None and session.token.canceled:
            session.token.canceled = False
            raise CanceledError("canceling statement due to user request")
        if session is not None and session.deadline and time.monotonic() > session.deadline:
            raise CanceledError("canceling statement due to statement timeout")

    def prepared(self, name: str) -> Prepared | None:
        """The prepared statement of a name."""
        return self._extended.prepared(name)

    def goes_on_as(self, name: str, prepared: Prepared | None) -> bool:
        """Whether the prepared statement of a name is that one, with the columns that its client knows."""
        return prepared is self.prepared(name) and (prepared is None or self._extended.is_as_told(prepared))

    def asked(self, request: Request) -> tuple[str, list[Any] | None] | None:
        """The text and the values of a request, if it may be run from these."""
        if request.name is None:
            self._extended.forget_unnamed()
            return request.text, None
        return self._extended.asked(request)

    async def _query(self, text: str) -> None:
        assert self.session is not None
        self.session.asked = text
        self._extended.forget_unnamed()
        if await self.following.query(text):
            self._ready()
            return
        subscription = subscribe.read(text)
        if subscription is not None:
            await streams.subscribe(self, subscription, 0, describe=True)
        word = word_of(text)
        statements: Sequence[ast.Statement | None] = (None,)
        if word is None:
            statements = await self.apart(len(text), lambda: parse(text))
        if not statements:
            self.send(messages.EMPTY)
        for statement in statements:
            portal = Portal(statement, (), None if word is None else (text, None))
            await self.perform(portal, joins=len(statements) > 1)
            if await streams.copied_out(self, portal):
                continue
            if portal.shape is not None:
                names, types, origins = portal.shape
                self.send(messages.description(names, types, [0] * len(types), origins))
                await self.send_rows(portal, 0)
            if word is not None:
                portal.tag = statement_cache.tag_of(word, portal.outcome)
            elif statement is not None:
                portal.tag = portal.tag or tag_of(statement, portal.outcome)
            self.send(messages.complete(portal.tag))
        await self.part()  # which Executes before the Query may have begun
        self._ready()

    async def perform(self, portal: Portal, *, joins: bool = False) -> None:
        """Run a portal's statement, if it has not run; ``joins``: in one transaction with what comes next."""
        statement, session = portal.statement, self.session
        assert session is not None
        if not portal.ran:
            session.deadline = deadline_of(session)
        joins = joins and session.transactions.state is State.NONE and not isinstance(statement, CONTROL)
        if portal.quick is not None and not portal.ran:
            text, values = portal.quick
            portal.ran = True
            flags: dict[str, Any] = {} if joins else {"adds": gathers(text)}
            with logs.timed(self.server.limits, session, text):
                portal.outcome = await self.engine(
                    lambda engine: session.answer(engine, text, values, joins=joins), **flags
                )
        if portal.ran or statement is None:
            return
        assert not isinstance(statement, Subscribe)
        if await self._extended.portals.answers(portal):
            return
        if isinstance(statement, ast.CopyFrom) and not statement.path:
            statement = await streams.copy_in(self, statement)
        portal.ran = True
        failed, prepared = session.transactions.state is State.FAILED, prepared_by(session, statement)
        asked = statement
        if isinstance(statement, ast.CopyTo) and statement.format == BINARY:
            asked = statement.query
        flags, span = {} if joins else how(asked), statement.span
        with logs.timed(self.server.limits, session, span.source[span.start : span.end]):
            portal.outcome = await self.engine(
                lambda engine: session.perform(engine, asked, joins=joins), **flags
            )
        self._extended.performed(statement)
        if failed and isinstance(statement, ast.Commit):
            portal.tag = "ROLLBACK"
        elif prepared is not None:
            portal.tag = statement_cache.tag_of(prepared, portal.outcome)

    async def send_rows(self, portal: Portal, most: int) -> int:
        """Send up to ``most`` rows, 0: all; how many."""
        dictionary = self.server.hub.engine.executor.dictionary
        style = PLAIN if self.session is None else of_settings(self.session.settings)
        sent, pace = 0, Pace()
        while not portal.done and (not most or sent < most):
            rows = portal.rows(min(pace.rows, most - sent) if most else pace.rows, dictionary, style)
            data = messages.data(rows)
            sent += len(rows)
            pace.took(len(rows), len(data))
            self.send(data)
            if portal.done:
                await self.flush()
            else:
                await self.give_way()
        return sent

    async def give_way(self) -> None:
        """Between two pieces of a result: wait for the client, let others have their turn, heed a cancel."""
        await self.flush()
        await asyncio.sleep(0)  # who takes all at once is never waited for
        self.check_canceled()


SELDOM: Final = 1.0
OFTEN: Final = 0.05
"""Seconds between two looks: while no client has a limit, and while one has."""
LIMITS: Final = {
    "idle_session_timeout": ("57P05", "terminating connection due to idle-session timeout"),
    "idle_in_transaction_session_timeout": (
        "25P03",
        "terminating connection due to idle-in-transaction timeout",
    ),
}
"""What is said as the connection is closed."""


async def look_after_idle(server: Server) -> None:
    """Close connections that have been idle for longer than they may, until it is cancelled."""
    seen: dict[Client, tuple[int, float]] = {}
    while True:
        limited = [client for client in server.clients.values() if limit_of(client)[0]]
        for client in [one for one in seen if one not in limited]:
            del seen[client]
        now = time.monotonic()
        for client in limited:
            rests, since = seen.setdefault(client, (client.rests, now))
            seconds, name = limit_of(client)
            if client.busy or client.rests != rests:
                seen[client] = (client.rests, now)
            elif now - since >= seconds:
                client.dismiss(*LIMITS[name])
        await asyncio.sleep(OFTEN if limited else SELDOM)


def limit_of(client: "Client") -> tuple[float, str]:
    """How long a client may be idle as it is now, 0 for ever, and the setting that says so."""
    session = client.session
    if session is None:
        return 0.0, ""
    idle = session.transactions.state is State.NONE
    name = "idle_session_timeout" if idle else "idle_in_transaction_session_timeout"
    text = session.settings.get(name)
    return (seconds_of(text) if text else 0.0), name
