"""The extended protocol: Parse, Bind, Describe, Execute, Close."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pygwire import messages as wire

from kpg.compiler.sql import session
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.parameters import highest_place
from kpg.compiler.sql.parse import parse
from kpg.result import Affected, Result
from kpg.runtime.errors import InterfaceError
from kpg.server import quick, replies, streams, subscribing
from kpg.server.inference import numbers_of
from kpg.server.portal import Portal, Prepared, Shape, gives_rows, shape_of, shape_of_result, spread
from kpg.server.requests import Request
from kpg.server.subscribing import Subscribe
from kpg.server.tags import tag_of
from kpg.statements import cursors
from kpg.statements.cursors import Picked

if TYPE_CHECKING:
    from kpg.server.client import Client

READING: Final = (
    *(ast.Select, ast.Insert, ast.Update, ast.Delete),
    *(ast.Explain, ast.ExplainView, session.Execute, session.Fetch),
)
"""Statements whose columns are known before they run."""


class Extended:
    """A client's prepared statements and portals."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}

    async def handle(
        self, message: wire.Parse | wire.Bind | wire.Describe | wire.Execute | wire.Close
    ) -> None:
        """Do what a message says."""
        if await self._client.following.handle(message):
            return
        match message:
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
                self._client.send(replies.CLOSED)

    async def moved(self, statement: "ast.Statement | Subscribe | None") -> Result | None:
        """What MOVE and FETCH FORWARD give of a portal of that name; None if it is about something else."""
        if not isinstance(statement, session.Fetch) or statement.direction != "FORWARD":
            return None
        portal = self._portals.get(statement.name.lower())
        if portal is None or statement.count < 0:
            return None
        await self._client.perform(portal)
        if portal.outcome is None:
            return None
        start = portal.position
        portal.position = min(len(portal.outcome), start + statement.count)
        if statement.moves:
            return Affected(portal.position - start)
        places = list(range(start, portal.position))
        return Result(portal.outcome.columns, portal.outcome.types, Picked(portal.outcome, places))

    def end_portals(self) -> None:
        """Forget all portals."""
        self._portals.clear()

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
        self._client.send(replies.PARSED)

    def _bind(self, message: wire.Bind) -> None:
        prepared = self._named(message.statement)
        if self._client.session is not None:
            self._client.session.asked = prepared.text
        again = self._quick(prepared, message)
        statement = prepared.statement
        if again is None or "returning" in prepared.text.lower():
            statement = prepared.bind(message.param_values, message.param_formats)
        self._portals[message.portal] = Portal(statement, tuple(message.result_formats), again)
        self._client.send(replies.BOUND)

    def _quick(self, prepared: Prepared, message: wire.Bind) -> tuple[str, list[Any] | None] | None:
        forms = spread(message.param_formats, len(message.param_values))
        return prepared.asked(message.param_values, forms)

    def asked(self, request: Request) -> tuple[str, list[Any] | None] | None:
        """The text and the values of a request, if it may be run from these."""
        prepared = self._prepared.get(request.name or "")
        if prepared is None or (len(request.formats) > 1 and len(request.formats) != len(request.values)):
            return None
        return prepared.asked(request.values, spread(request.formats, len(request.values)))

    def prepared(self, name: str) -> Prepared | None:
        """The prepared statement of a name."""
        return self._prepared.get(name)

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
            self._client.send(wire.ParameterDescription(type_oids=list(numbers)).to_wire())
            nothing = prepared.bind([None] * len(numbers), ())
            self._send_shape(await self._shape(Portal(nothing, ())), ())
            return
        if message.name and message.name not in self._portals:
            declared = await self._client.engine(lambda engine: cursors.shape_of(engine, message.name))
            if declared is not None:
                self._send_shape(Shape(*declared), ())
                return
        portal = self._portal(message.name)
        self._send_shape(await self._shape(portal), portal.formats)

    async def _typed(self, prepared: Prepared, name: str) -> Prepared:
        """The statement with the types of all its parameters, which its values are then read by."""
        statement, given = prepared.statement, prepared.parameters
        if isinstance(statement, Subscribe) or all(given):
            return prepared
        text = prepared.text
        numbers = await self._client.engine(lambda engine: numbers_of(engine, text, statement, given))
        found = self._prepared[name] = Prepared(text, statement, tuple(numbers))
        return found

    async def _shape(self, portal: Portal) -> Shape | None:
        statement = portal.statement
        reads = portal.quick is not None and isinstance(statement, ast.Select)
        if reads or gives_rows(statement):
            await self._client.perform(portal, joins=self._goes_on(statement))
        if isinstance(statement, Subscribe):
            told = await self._client.engine(lambda engine: subscribing.shape_of(engine, statement))
            return None if told is None else Shape(*told)
        if portal.ran:
            return shape_of_result(portal.outcome)
        if not isinstance(statement, READING):
            return None  # without the engine: ROLLBACK must not meet what its transaction has met
        return await self._client.engine(lambda engine: shape_of(engine, statement))

    def _send_shape(self, shape: Shape | None, formats: Sequence[int]) -> None:
        if shape is None:
            self._client.send(replies.NO_DATA)
        else:
            formats = spread(formats, len(shape.types))
            self._client.send(replies.description(shape.names, shape.types, formats, shape.origins))

    def _goes_on(self, statement: ast.Statement | Subscribe | None) -> bool:
        """Whether more statements may come before the Sync that ends their transaction."""
        return isinstance(statement, ast.CopyFrom) or not self._client.ends_here()

    def _portal(self, name: str) -> Portal:
        found = self._portals.get(name)
        if found is None:
            raise InterfaceError(f'portal "{name}" does not exist')
        return found

    async def _execute(self, message: wire.Execute) -> None:
        portal = self._portal(message.portal)
        statement = portal.statement
        if statement is None:
            self._client.send(replies.EMPTY)
            return
        if isinstance(statement, Subscribe):
            form = portal.formats[0] if portal.formats else 0
            await streams.subscribe(self._client, statement, form, describe=False)
            return
        await self._client.perform(portal, joins=self._goes_on(statement))
        if await streams.copied_out(self._client, portal):
            return
        sent = await self._client.send_rows(portal, message.max_rows)
        if not portal.done:
            self._client.send(replies.SUSPENDED)
            return
        tag = portal.tag or tag_of(statement, portal.outcome)
        self._client.send(replies.complete(f"SELECT {sent}" if tag.startswith("SELECT") else tag))
