"""The extended protocol: Parse, Bind, Describe, Execute, Close."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from pygwire import messages as wire

from kpg.compiler.sql import session
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.parameters import highest_place
from kpg.compiler.sql.parse import parse
from kpg.compiler.system.naming import FIRST
from kpg.engine.transaction import State
from kpg.result import Affected, Result
from kpg.runtime.errors import InterfaceError, NotSupportedError
from kpg.runtime.types import Type
from kpg.server import quick, replies, streams, subscribing
from kpg.server.inference import numbers_of
from kpg.server.portal import Portal, Prepared, Shape, gives_rows, shape_of, shape_of_result, spread
from kpg.server.received import types_of_users
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
                await self._bind(message)
            case wire.Describe():
                await self._describe(message)
            case wire.Execute():
                await self._execute(message)
            case wire.Close(kind=kind, name=name):
                (self._prepared if kind == "S" else self._portals).pop(name, None)
                self._client.send(replies.CLOSED)

    async def answers(self, portal: Portal) -> bool:
        """Do what a portal's statement says if it is about a portal or a statement of this protocol."""
        if self._deallocates(portal.statement):
            portal.ran = True
        elif (moved := await self._moved(portal.statement)) is not None:
            portal.ran, portal.outcome = True, moved
        return portal.ran

    async def _moved(self, statement: "ast.Statement | Subscribe | None") -> Result | None:
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

    def _deallocates(self, statement: "ast.Statement | Subscribe | None") -> bool:
        """Forget the prepared statement that a DEALLOCATE names, if there is one of this protocol."""
        one = self._client.session
        if (
            one is None
            or not isinstance(statement, session.Deallocate)
            or statement.name not in self._prepared
        ):
            return False
        one.transactions.check()
        del self._prepared[statement.name]
        return True

    def performed(self, statement: ast.Statement) -> None:
        """Forget what a statement has ended, beside what the engine knows."""
        if isinstance(statement, ast.Commit | ast.Rollback):
            self._portals.pop("", None)
        elif isinstance(statement, session.Deallocate | session.Accepted):
            tag = tag_of(statement, None)
            if tag in ("DEALLOCATE ALL", "DISCARD ALL"):
                self._prepared.clear()
            if tag == "DISCARD ALL":
                self._portals.clear()

    def _parse(self, message: wire.Parse) -> None:
        if message.statement and message.statement in self._prepared:
            raise _refusal(f'prepared statement "{message.statement}" already exists', "42P05")
        known = quick.parsed(message.query)
        if known is not None:
            statement, count = known
            self._prepare(message, statement, count)
            return
        subscription = subscribing.read(message.query)
        parsed = parse(message.query) if subscription is None else [subscription]
        if len(parsed) > 1:
            raise _refusal("cannot insert multiple commands into a prepared statement", "42601")
        first = parsed[0] if parsed else None
        self._prepare(message, first, highest_place(first))

    def _prepare(self, message: wire.Parse, statement: ast.Statement | Subscribe | None, count: int) -> None:
        count = max(count, len(message.param_types))
        numbers = (*message.param_types, *[0] * (count - len(message.param_types)))
        self._prepared[message.statement] = Prepared(message.query, statement, numbers)
        self._client.send(replies.PARSED)

    async def _bind(self, message: wire.Bind) -> None:
        if message.portal and message.portal in self._portals:
            raise _refusal(f'cursor "{message.portal}" already exists', "42P03")
        prepared = await self._as_told(self._named(message.statement), message.statement)
        forms = spread(message.param_formats, len(message.param_values))
        if any(form and not number for form, number in zip(forms, prepared.parameters, strict=False)):
            prepared = await self._typed(prepared, message.statement)
        if self._client.session is not None:
            self._client.session.asked = prepared.text
        again = self._quick(prepared, message)
        statement = prepared.statement
        if again is None or "returning" in prepared.text.lower():
            known = await self._known(prepared.parameters, forms)
            statement = prepared.bind(message.param_values, message.param_formats, known)
        portal = self._portals[message.portal] = Portal(statement, tuple(message.result_formats), again)
        if message.portal:
            self._tie(message.portal, portal)
        self._client.send(replies.BOUND)

    async def _known(self, numbers: Sequence[int], forms: Sequence[int]) -> dict[int, Type]:
        """The types that users have made, if there are binary values of one."""
        if not any(form and number >= FIRST for form, number in zip(forms, numbers, strict=False)):
            return {}
        return await self._client.engine(lambda engine: types_of_users(engine.catalog))

    def _tie(self, name: str, portal: Portal) -> None:
        """Have a portal end with what of an open transaction it was made in."""
        session = self._client.session
        if session is None or session.transactions.state is not State.OPEN:
            return
        known = ref(portal)  # what is closed is not to be kept until the end

        def end() -> None:
            if name in self._portals and self._portals[name] is known():
                del self._portals[name]

        session.transactions.settled.note(session.transactions.depth, end)
        session.transactions.settled.until_end(end)

    async def _as_told(self, prepared: Prepared, name: str) -> Prepared:
        """The statement, if it still has the columns that the client was told of."""
        told, version = prepared.told, self._version
        if told is None or prepared.version == version:
            return prepared
        nothing = prepared.bind([None] * len(prepared.parameters), ())
        shape = await self._shape(Portal(nothing, ()))
        if shape is None or (shape.names, shape.types) != (told.names, told.types):
            raise NotSupportedError("cached plan must not change result type")
        found = self._prepared[name] = replace(prepared, version=version)
        return found

    @property
    def _version(self) -> int:
        """Of the definitions, as far as they are there: who needs them waits for those on their way."""
        return self._client.server.hub.engine.catalog.version

    def _quick(self, prepared: Prepared, message: wire.Bind) -> tuple[str, list[Any] | None] | None:
        forms = spread(message.param_formats, len(message.param_values))
        return prepared.asked(message.param_values, forms)

    def asked(self, request: Request) -> tuple[str, list[Any] | None] | None:
        """The text and the values of a request, if it may be run from these."""
        prepared = self._prepared.get(request.name or "")
        if (
            prepared is None
            or not self.is_as_told(prepared)
            or (len(request.formats) > 1 and len(request.formats) != len(request.values))
        ):
            return None
        return prepared.asked(request.values, spread(request.formats, len(request.values)))

    def is_as_told(self, prepared: Prepared) -> bool:
        """Whether nothing can have changed the columns that a client was told of."""
        return prepared.told is None or prepared.version == self._version

    def prepared(self, name: str) -> Prepared | None:
        """The prepared statement of a name."""
        return self._prepared.get(name)

    def _named(self, name: str) -> Prepared:
        found = self._prepared.get(name)
        if found is None:
            raise _refusal(f'prepared statement "{name}" does not exist', "26000")
        return found

    async def _describe(self, message: wire.Describe) -> None:
        if message.kind == "S":
            prepared = self._named(message.name)
            prepared = await self._typed(prepared, message.name)
            numbers = prepared.parameters
            self._client.send(wire.ParameterDescription(type_oids=list(numbers)).to_wire())
            nothing, version = prepared.bind([None] * len(numbers), ()), self._version
            shape = await self._shape(Portal(nothing, ()))
            if shape is not None and message.name:
                self._prepared[message.name] = replace(prepared, told=shape, version=version)
            self._send_shape(shape, ())
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
            raise _refusal(f'portal "{name}" does not exist', "34000")
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
        portal.check(message.portal, self._client.session)
        await self._client.perform(portal, joins=self._goes_on(statement))
        if await streams.copied_out(self._client, portal):
            return
        sent = await self._client.send_rows(portal, message.max_rows)
        if not portal.done:
            self._client.send(replies.SUSPENDED)
            return
        tag = portal.tag or tag_of(statement, portal.outcome)
        portal.ended = True
        self._client.send(replies.complete(f"SELECT {sent}" if tag.startswith("SELECT") else tag))


def _refusal(message: str, state: str) -> InterfaceError:
    """An error that clients know by its SQLSTATE."""
    error = InterfaceError(message)
    error.sqlstate = state
    return error
