"""One client: how it begins, and what its messages do."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pygwire import ConnectionPhase as Phase
from pygwire import FrontendMessageDecoder, PygwireError
from pygwire import messages as wire

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.parameters import highest_place
from kpg.compiler.sql.parse import parse
from kpg.runtime.errors import Error, InterfaceError, NotSupportedError
from kpg.server import quick, replies, streams, subscribing
from kpg.server.inference import numbers_of
from kpg.server.login import Login
from kpg.server.portal import Portal, Prepared, Shape, gives_rows, shape_of, shape_of_result, spread
from kpg.server.subscribing import Subscribe
from kpg.server.tags import tag_of
from kpg.sessions.session import Session, how
from kpg.transaction import State

if TYPE_CHECKING:
    from kpg.engine import Engine
    from kpg.server.listen import Server

log = logging.getLogger("kpg.server")
Given = TypeVar("Given")
ROWS_AT_ONCE: Final = 2_000
"""Rows that are made into messages in one go, so that others have their turn in between."""
CHUNK: Final = 1 << 16
"""Bytes that are read at once."""
MOST_BEFORE_LOGIN: Final = 10_000
"""Bytes that a client may send before it has logged in, as in Postgres."""
STATUS: Final = {State.NONE: "I", State.OPEN: "T", State.FAILED: "E"}


class Gone(Exception):
    """The client has gone, or must go."""


class Client:
    """A connection: its session, its prepared statements and its portals."""

    def __init__(self, server: "Server", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self.number = server.next_number()
        self.secret = secrets.token_bytes(4)
        self.session: Session | None = None
        self.busy = False
        self.canceled = asyncio.Event()
        """Set when the client wants a subscription to end."""
        self._reader = reader
        self._writer = writer
        self._out: list[bytes] = []
        self._decoder = FrontendMessageDecoder()
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._skipping = False
        """Whether messages are passed over until the next Sync, after an error."""

    # Reading and writing

    async def receive(self) -> Any:
        """The next message; Gone if there is none."""
        while True:
            try:
                message = next(self._decoder, None)
            except PygwireError as error:
                self.send(replies.refusal("08P01", f"invalid message: {error}"))
                raise Gone from None
            if message is not None:
                return message
            if self._decoder.phase in BEFORE and self._decoder.buffered > MOST_BEFORE_LOGIN:
                raise Gone
            await self.flush()
            data = await self._reader.read(CHUNK)
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

    def check_there(self) -> None:
        """Gone if the client has closed its end."""
        if self._reader.at_eof() or self._writer.is_closing():
            raise Gone

    async def secure(self) -> None:
        """Go on with TLS."""
        assert self.server.tls is not None
        await self._writer.start_tls(self.server.tls)

    # Life

    async def run(self) -> None:
        """Serve the client until it goes."""
        try:
            user = await Login(self, self.server).run()
            if user is not None:
                self.session = await self.server.open_session(user)
                self.server.clients[self.number] = self
                self._greet()
                await self._serve()
        except (Gone, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.server.clients.pop(self.number, None)
            if self.session is not None:
                await self.server.close_session(self.session)
            with contextlib.suppress(ConnectionError):
                self._writer.write(b"".join(self._out))
                self._writer.close()

    def _greet(self) -> None:
        self.send(wire.AuthenticationOk().to_wire())
        for name, value in self.server.settings.items():
            self.send(replies.setting(name, value))
        self.send(wire.BackendKeyData(process_id=self.number, secret_key=self.secret).to_wire())
        self.send(replies.ready("I"))
        self.phase(Phase.READY)

    async def _serve(self) -> None:
        while True:
            message = await self.receive()
            if isinstance(message, wire.Terminate):
                return
            if self._skipping and not isinstance(message, wire.Sync):
                continue
            try:
                await self._handle(message)
            except Error as error:
                self._failed(message, replies.failure(error))
            except (Gone, ConnectionError):
                raise
            except Exception as error:
                # A fault of ours must not take the connection, or the server, with it.
                log.exception("client %d: %s", self.number, type(message).__name__)
                self._failed(message, replies.failure(error))

    def _failed(self, message: object, reply: bytes) -> None:
        self.send(reply)
        if isinstance(message, wire.Query):
            self._ready()
        else:
            self._skipping = True

    async def _handle(self, message: object) -> None:
        match message:
            case wire.Query(query_string=text):
                await self._query(text)
            case wire.Parse():
                self._parse(message)
            case wire.Bind():
                self._bind(message)
            case wire.Describe():
                await self._describe(message)
            case wire.Execute():
                await self._execute(message)
            case wire.Close(kind=kind, name=name):
                (self._prepared if kind == "S" else self._portals).pop(name, None)
                self.send(replies.CLOSED)
            case wire.Flush():
                pass
            case wire.Sync():
                self._skipping = False
                self._portals.clear()
                self._ready()
            case wire.FunctionCall():
                raise NotSupportedError("a function call message is not supported", hint="use SELECT")
            case wire.CopyData() | wire.CopyDone() | wire.CopyFail():
                pass  # what was on its way when COPY failed
            case _:
                self.send(replies.refusal("08P01", f"unexpected message {type(message).__name__}"))
                raise Gone

    def _ready(self) -> None:
        assert self.session is not None
        self.send(replies.ready(STATUS[self.session.transactions.state]))

    # Statements

    async def engine(self, work: "Callable[[Engine], Given]", **flags: bool) -> Given:
        """Do something with the engine when it is this session's turn."""
        assert self.session is not None
        self.busy = True
        try:
            return await self.server.run(self.session, work, **flags)
        finally:
            self.busy = False

    async def _query(self, text: str) -> None:
        subscription = subscribing.read(text)
        if subscription is not None:
            await streams.subscribe(self, subscription, 0, describe=True)
        word = quick.word_of(text)
        if word is not None:
            await self._query_quickly(word, text)
            return
        statements = parse(text)
        if not statements:
            self.send(replies.EMPTY)
        for statement in statements:
            portal = Portal(statement, ())
            await self._perform(portal)
            if await self._copied_out(portal):
                continue
            if portal.shape is not None:
                names, types = portal.shape
                self.send(replies.description(names, types, [0] * len(types)))
                await self._send_rows(portal, 0)
            self.send(replies.complete(tag_of(statement, portal.outcome)))
        self._ready()

    async def _query_quickly(self, word: str, text: str) -> None:
        portal = Portal(None, (), (text, None))
        await self._perform(portal)
        if portal.shape is not None:
            names, types = portal.shape
            self.send(replies.description(names, types, [0] * len(types)))
            await self._send_rows(portal, 0)
        self.send(replies.complete(quick.tag_of(word, portal.outcome)))
        self._ready()

    async def _perform(self, portal: Portal) -> None:
        """Run a portal's statement, if it has not run."""
        statement, session = portal.statement, self.session
        assert session is not None
        if portal.quick is not None and not portal.ran:
            text, values = portal.quick
            portal.ran = True
            portal.outcome = await self.engine(
                lambda engine: session.answer(engine, text, values), **quick.how(text)
            )
        if portal.ran or statement is None:
            return
        assert not isinstance(statement, Subscribe)
        if isinstance(statement, ast.CopyFrom) and not statement.path:
            statement = await streams.copy_in(self, statement)
        portal.ran = True
        portal.outcome = await self.engine(
            lambda engine: session.perform(engine, statement), **how(statement)
        )

    async def _copied_out(self, portal: Portal) -> bool:
        """Send what a COPY TO STDOUT gives; whether it was one."""
        statement, outcome = portal.statement, portal.outcome
        if not isinstance(statement, ast.CopyTo) or statement.path or outcome is None:
            return False
        query = statement.query
        shape = await self.engine(lambda engine: shape_of(engine, query))
        columns = 0 if shape is None else len(shape[0])
        self.send(replies.complete(f"COPY {await streams.copy_out(self, columns, outcome)}"))
        return True

    async def _send_rows(self, portal: Portal, most: int) -> int:
        """Send up to ``most`` rows, 0: all; how many."""
        dictionary = self.server.hub.engine.executor.dictionary
        sent = 0
        while not portal.done and (not most or sent < most):
            count = min(ROWS_AT_ONCE, most - sent) if most else ROWS_AT_ONCE
            rows = portal.rows(count, dictionary)
            sent += len(rows)
            self.send(replies.data(rows))
            await self.flush()
        return sent

    def _parse(self, message: wire.Parse) -> None:
        if message.statement and message.statement in self._prepared:
            raise InterfaceError(f'prepared statement "{message.statement}" already exists')
        known = quick.parsed(message.query)
        if known is not None:
            statement, count = known
            self._prepare(message, statement, count)
            return
        subscription = subscribing.read(message.query)
        parsed = parse(message.query) if subscription is None else [subscription]
        if len(parsed) > 1:
            raise InterfaceError("cannot insert multiple commands into a prepared statement")
        first = parsed[0] if parsed else None
        self._prepare(message, first, highest_place(first))

    def _prepare(self, message: wire.Parse, statement: ast.Statement | Subscribe | None, count: int) -> None:
        count = max(count, len(message.param_types))
        numbers = (*message.param_types, *[0] * (count - len(message.param_types)))
        self._prepared[message.statement] = Prepared(message.query, statement, numbers)
        self.send(replies.PARSED)

    def _bind(self, message: wire.Bind) -> None:
        prepared = self._named(message.statement)
        again = self._quick(prepared, message)
        statement = prepared.statement
        if again is None or "returning" in prepared.text.lower():
            statement = prepared.bind(message.param_values, message.param_formats)
        self._portals[message.portal] = Portal(statement, tuple(message.result_formats), again)
        self.send(replies.BOUND)

    def _quick(self, prepared: Prepared, message: wire.Bind) -> tuple[str, list[Any] | None] | None:
        count = len(message.param_values)
        if quick.word_of(prepared.text) is None or count != len(prepared.parameters):
            return None
        forms = spread(message.param_formats, len(message.param_values))
        values = quick.values_of(message.param_values, forms, prepared.parameters)
        return None if values is None else (prepared.text, values or None)

    def _named(self, name: str) -> Prepared:
        found = self._prepared.get(name)
        if found is None:
            raise InterfaceError(f'prepared statement "{name}" does not exist')
        return found

    async def _describe(self, message: wire.Describe) -> None:
        if message.kind == "S":
            prepared = self._named(message.name)
            prepared = await self._typed(prepared, message.name)
            numbers = prepared.parameters
            self.send(wire.ParameterDescription(type_oids=list(numbers)).to_wire())
            nothing = prepared.bind([None] * len(numbers), ())
            self._send_shape(await self._shape(Portal(nothing, ())), ())
            return
        portal = self._portal(message.name)
        self._send_shape(await self._shape(portal), portal.formats)

    async def _typed(self, prepared: Prepared, name: str) -> Prepared:
        """The statement with the types of all its parameters, which its values are then read by."""
        statement, given = prepared.statement, prepared.parameters
        if isinstance(statement, Subscribe) or all(given):
            return prepared
        numbers = await self.engine(lambda engine: numbers_of(engine, prepared.text, statement, given))
        found = self._prepared[name] = Prepared(prepared.text, statement, tuple(numbers))
        return found

    async def _shape(self, portal: Portal) -> Shape | None:
        statement = portal.statement
        reads = portal.quick is not None and isinstance(statement, ast.Select)
        if reads or gives_rows(statement):
            await self._perform(portal)
        if isinstance(statement, Subscribe):
            return await self.engine(lambda engine: subscribing.shape_of(engine, statement))
        if portal.ran:
            return shape_of_result(portal.outcome)
        return await self.engine(lambda engine: shape_of(engine, statement))

    def _send_shape(self, shape: Shape | None, formats: Sequence[int]) -> None:
        if shape is None:
            self.send(replies.NO_DATA)
        else:
            names, types = shape
            self.send(replies.description(names, types, spread(formats, len(types))))

    def _portal(self, name: str) -> Portal:
        found = self._portals.get(name)
        if found is None:
            raise InterfaceError(f'portal "{name}" does not exist')
        return found

    async def _execute(self, message: wire.Execute) -> None:
        portal = self._portal(message.portal)
        statement = portal.statement
        if statement is None:
            self.send(replies.EMPTY)
            return
        if isinstance(statement, Subscribe):
            form = portal.formats[0] if portal.formats else 0
            await streams.subscribe(self, statement, form, describe=False)
            return
        await self._perform(portal)
        if await self._copied_out(portal):
            return
        sent = await self._send_rows(portal, message.max_rows)
        if not portal.done:
            self.send(replies.SUSPENDED)
            return
        tag = tag_of(statement, portal.outcome)
        self.send(replies.complete(f"SELECT {sent}" if tag.startswith("SELECT") else tag))


BEFORE: Final = (
    Phase.STARTUP,
    Phase.AUTHENTICATING,
    Phase.AUTHENTICATING_SASL_INITIAL,
    Phase.AUTHENTICATING_SASL_CONTINUE,
)
