"""Extended query protocol: Parse, Bind, Describe, Execute and Close.

A client's portals and the cursors that its SQL declares share one namespace.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from weakref import ref

from pygwire import messages as wire

from kpg.api.result import Result
from kpg.compiler.sql.parse import statements
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import highest_place, without_arguments
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.reader import parsed_expression
from kpg.compiler.sql.parse.session_statements import ALL
from kpg.compiler.sql.parse.type_names import sql_type
from kpg.compiler.system.oids import FIRST, type_facts
from kpg.execute.queries import cursors
from kpg.runtime.errors import Error, InterfaceError, NotSupportedError, Span
from kpg.runtime.types import UNKNOWN, Type
from kpg.server import messages, statement_cache, streams, subscribe
from kpg.server.binary_input import types_of_users
from kpg.server.interfaces import ClientConnection
from kpg.server.messages import tag_of
from kpg.server.portal import (
    VOID,
    Portal,
    Prepared,
    Shape,
    gives_rows,
    numbers_of,
    shape_of,
    shape_of_result,
    spread,
)
from kpg.server.statement_cache import Request
from kpg.server.subscribe import Subscribe
from kpg.server.subscription_cursors import Following
from kpg.session.engine import Cursor, Opened, PreparedStatements
from kpg.session.transaction import State

NOWHERE = Span("", 0, 0)


class Portals:
    """Portals by their names; the one without a name is the protocol's alone."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._named: dict[str, Portal] = {}

    def get(self, name: str) -> Portal | None:
        """The portal of a name."""
        return self._named.get(name)

    def drop(self, name: str) -> None:
        """Forget one."""
        self._named.pop(name, None)

    def clear(self) -> None:
        """Forget all."""
        self._named.clear()

    def listed(self) -> list[Opened]:
        """Those that have names."""
        return [
            Opened(name, one.text, one.moment, one.statement) for name, one in self._named.items() if name
        ]

    async def add(self, name: str, portal: Portal) -> None:
        """Keep a portal as long as its transaction; InterfaceError if there is one of that name."""
        if name and (name in self._named or await self.shape_of_cursor(name) is not None):
            raise refusal(f'cursor "{name}" already exists', "42P03")
        portal.moment = time.time_ns() // 1000
        self._named[name] = portal
        if name:
            self._tie(name, portal)

    async def shape_of_cursor(self, name: str) -> Shape | None:
        """The columns of a cursor that SQL has declared; None if there is none."""
        if not name:
            return None
        found = await self._client.engine(lambda engine: cursors.shape_of(engine, name))
        return None if found is None else Shape(*found)

    def of_cursor(self, name: str, most: int) -> Portal:
        """What gives the next rows of such a cursor: up to ``most``, 0 for all."""
        return Portal(statements.Fetch(name, "FORWARD", most or ALL, False, NOWHERE), ())

    async def close_cursor(self, name: str) -> None:
        """Close such a cursor, if there is one."""
        if await self.shape_of_cursor(name) is not None:
            await self._client.engine(lambda engine: cursors.close(engine, statements.Close(name, NOWHERE)))

    async def answers(self, portal: Portal) -> bool:
        """Do what a portal's statement says if it is about another portal."""
        match portal.statement:
            case statements.Close(name=""):
                self._check()
                for name in list(filter(None, self._named)):
                    del self._named[name]
                return False  # and all cursors
            case statements.Close(name=name) if name in self._named:
                self._check()
                del self._named[name]
            case statements.Declare(name=name) if name in self._named:
                raise refusal(f'cursor "{name}" already exists', "42P03")
            case statements.Fetch(name=name) if name in self._named:
                portal.outcome = await self._fetched(self._named[name], portal.statement)
            case _:
                return False
        portal.ran = True
        return True

    def _check(self) -> None:
        if self._client.session is not None:
            self._client.session.transactions.check()

    async def _fetched(self, portal: Portal, statement: statements.Fetch) -> Result:
        self._check()
        await self._client.perform(portal)
        outcome = portal.outcome
        if outcome is None or portal.shape is None:
            raise refusal("unsupported portal strategy", "XX000")  # as Postgres says of what gives no rows
        cursor = Cursor(statement.name, outcome, None, False, portal.position)
        found = cursors.moved(cursor, statement)
        portal.position = min(cursor.place, len(outcome))
        return found

    def _tie(self, name: str, portal: Portal) -> None:
        """Have a portal end with what of an open transaction it was made in."""
        session = self._client.session
        if session is None or session.transactions.state is not State.OPEN:
            return
        known = ref(portal)  # what is closed is not to be kept until the end

        def end() -> None:
            if name in self._named and self._named[name] is known():
                del self._named[name]

        session.transactions.settled.note(session.transactions.depth, end)
        session.transactions.settled.until_end(end)


def refusal(message: str, state: str) -> InterfaceError:
    """An error that clients know by its SQLSTATE."""
    error = InterfaceError(message)
    error.sqlstate = state
    return error


READING: Final = (
    *(ast.Select, ast.Insert, ast.Update, ast.Delete),
    *(ast.Explain, ast.ExplainView, statements.Execute, statements.Fetch),
)
"""Statements whose columns are known before they run."""


EACH: Final = 10
"""Letters that take as long to read as one value to put in its place."""


class Extended:
    """A client's prepared statements and portals."""

    def __init__(self, client: ClientConnection, following: Following) -> None:
        self._client = client
        self._following = following
        self._prepared: dict[str, Prepared] = {}
        """Those that came by messages."""
        self._of_sql: dict[str, tuple[statements.Prepare, Prepared]] = {}
        """What PREPARE has made, as it is run by messages."""
        self.portals = Portals(client)

    @property
    def _all(self) -> PreparedStatements:
        """Those that came by SQL, and the others with them."""
        assert self._client.session is not None
        return self._client.session.prepared

    def begin(self) -> None:
        """The session is there: its SQL and the client's messages have the same names."""
        assert self._client.session is not None
        self._client.session.portals = self.portals.listed
        self._all.parsed = self._prepared

    async def handle(
        self, message: wire.Parse | wire.Bind | wire.Describe | wire.Execute | wire.Close
    ) -> None:
        """Do what a message says."""
        if await self._following.handle(message):
            return
        match message:
            case wire.Parse():
                await self._parse(message)
            case wire.Bind():
                await self._bind(message)
            case wire.Describe():
                await self._describe(message)
            case wire.Execute():
                await self._execute(message)
            case wire.Close(kind="S", name=name):
                self._all.drop(name)
                self._client.send(messages.CLOSED)
            case wire.Close(name=name):
                if self.portals.get(name) is None:
                    await self.portals.close_cursor(name)
                self.portals.drop(name)
                self._client.send(messages.CLOSED)

    def forget_unnamed(self) -> None:
        """A Query comes: the statement and the portal without names are no more."""
        self._prepared.pop("", None)
        self.portals.drop("")

    def performed(self, statement: ast.Statement) -> None:
        """Forget what a statement has ended, beside what the engine knows."""
        if isinstance(statement, ast.Commit | ast.Rollback):
            self.portals.drop("")
        elif isinstance(statement, statements.Accepted) and tag_of(statement, None) == "DISCARD ALL":
            self.portals.clear()

    async def _parse(self, message: wire.Parse) -> None:
        if message.statement:
            self._all.check_free(message.statement)
        if VOID in message.param_types:
            # A driver's OUT parameters (JDBC's {? = call f(?)}), which Postgres leaves out of the call, too.
            outputs = {place for place, type_ in enumerate(message.param_types, 1) if type_ == VOID}
            message = replace(message, query=without_arguments(message.query, outputs))
        known = statement_cache.parsed(message.query)
        if known is not None:
            statement, count = known
            self._prepare(message, statement, count)
            return
        subscription = subscribe.read(message.query)
        if subscription is not None:
            self._prepare(message, subscription, highest_place(subscription))
            return
        parsed = await self._client.apart(len(message.query), partial(_parsed, message.query))
        self._prepare(message, *parsed)

    def _prepare(self, message: wire.Parse, statement: ast.Statement | Subscribe | None, count: int) -> None:
        count = max(count, len(message.param_types))
        numbers = (*message.param_types, *[0] * (count - len(message.param_types)))
        self._prepared[message.statement] = Prepared(message.query, statement, numbers)
        self._client.send(messages.PARSED)

    async def _bind(self, message: wire.Bind) -> None:
        prepared = await self._as_told(self._named(message.statement), message.statement)
        count = len(message.param_values)
        if count != len(prepared.parameters):
            supplied = (
                f'bind message supplies {count} parameters, but prepared statement "{message.statement}"'
            )
            raise InterfaceError(f"{supplied} requires {len(prepared.parameters)}")
        forms = spread(message.param_formats, count)
        if any(form and not number for form, number in zip(forms, prepared.parameters, strict=False)):
            prepared = await self._typed(prepared, message.statement)
        if self._client.session is not None:
            self._client.session.asked = prepared.text
        again = self._quick(prepared, message)
        statement = prepared.statement
        if again is None or "returning" in prepared.text.lower():
            known = await self._known(prepared.parameters, forms)
            statement = await self._bound(prepared, message.param_values, message.param_formats, known)
        portal = Portal(statement, tuple(message.result_formats), again)
        portal.text, portal.prepared = prepared.text, message.statement
        await self.portals.add(message.portal, portal)
        self._client.send(messages.BOUND)

    async def _bound(
        self,
        prepared: Prepared,
        values: Sequence[bytes | None],
        formats: Sequence[int] = (),
        known: Mapping[int, Type] = MappingProxyType({}),
    ) -> ast.Statement | Subscribe | None:
        """The statement with values."""
        return await self._client.apart(EACH * len(values), partial(prepared.bind, values, formats, known))

    async def _known(self, numbers: Sequence[int], forms: Sequence[int]) -> dict[int, Type]:
        """The types that users have made, if there are binary values of one."""
        if not any(form and number >= FIRST for form, number in zip(forms, numbers, strict=False)):
            return {}
        return await self._client.engine(lambda engine: types_of_users(engine.catalog))

    async def _as_told(self, prepared: Prepared, name: str) -> Prepared:
        """The statement, if it still has the columns that the client was told of."""
        told, version = prepared.told, self._version
        if told is None or prepared.version == version:
            return prepared
        nothing = await self._bound(prepared, [None] * len(prepared.parameters))
        shape = await self._shape(Portal(nothing, ()))
        if shape is None or (shape.names, shape.types) != (told.names, told.types):
            error = NotSupportedError("cached plan must not change result type")
            error.routine = "RevalidateCachedQuery"  # drivers prepare the statement again
            raise error
        return self._keep(name, replace(prepared, version=version))

    @property
    def _version(self) -> int:
        """Of the definitions, as far as they are there: who needs them waits for those on their way."""
        return self._client.server.hub.engine.catalog.version

    def _quick(self, prepared: Prepared, message: wire.Bind) -> tuple[str, list[Any] | None] | None:
        forms = spread(message.param_formats, len(message.param_values))
        return prepared.asked(message.param_values, forms)

    def asked(self, request: Request) -> tuple[str, list[Any] | None] | None:
        """The text and the values of a request, if it may be run from these."""
        prepared = self.prepared(request.name or "")
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
        found = self._prepared.get(name)
        if found is not None or not self._all:
            return found
        by_sql = self._all.get(name)
        if by_sql is None:
            return None
        known = self._of_sql.get(name)
        if known is None or known[0] is not by_sql:
            (statement,) = parse(by_sql.text)
            numbers = [_number(text) for text in by_sql.types]
            numbers += [0] * (highest_place(statement) - len(numbers))
            known = self._of_sql[name] = by_sql, Prepared(by_sql.text, statement, tuple(numbers))
        return known[1]

    def _keep(self, name: str, prepared: Prepared) -> Prepared:
        """The statement of a name is known better."""
        by_sql = self._all.get(name)
        if by_sql is None:
            self._prepared[name] = prepared
        else:
            self._of_sql[name] = by_sql, prepared
        return prepared

    def _named(self, name: str) -> Prepared:
        found = self.prepared(name)
        if found is None:
            called = f'prepared statement "{name}"' if name else "unnamed prepared statement"
            raise refusal(f"{called} does not exist", "26000")
        return found

    async def _describe(self, message: wire.Describe) -> None:
        if message.kind == "S":
            prepared = self._named(message.name)
            prepared = await self._typed(prepared, message.name)
            numbers = prepared.parameters
            self._client.send(wire.ParameterDescription(type_oids=list(numbers)).to_wire())
            nothing, version = await self._bound(prepared, [None] * len(numbers)), self._version
            shape = await self._shape(Portal(nothing, ()))
            if shape is not None and message.name:
                self._keep_told(message.name, shape, version)
            self._send_shape(shape, ())
            return
        portal, version = await self._portal(message.name, 0), self._version
        shape = await self._shape(portal)
        if shape is not None and portal.prepared:
            self._keep_told(portal.prepared, shape, version)
        self._send_shape(shape, portal.formats)

    def _keep_told(self, name: str, shape: Shape, version: int) -> None:
        """Keep the columns that a client has been told of: its named statement gives these or an error."""
        prepared = self.prepared(name)
        if prepared is not None:
            self._keep(name, replace(prepared, told=shape, version=version))

    async def _typed(self, prepared: Prepared, name: str) -> Prepared:
        """The statement with the types of all its parameters, which its values are then read by."""
        statement, given = prepared.statement, prepared.parameters
        if isinstance(statement, Subscribe) or all(given):
            return prepared
        text = prepared.text
        numbers = await self._client.engine(lambda engine: numbers_of(engine, text, statement, given))
        return self._keep(name, Prepared(text, statement, tuple(numbers)))

    async def _shape(self, portal: Portal) -> Shape | None:
        statement = portal.statement
        reads = portal.quick is not None and isinstance(statement, ast.Select)
        if reads or gives_rows(statement):
            await self._client.perform(portal, joins=self._goes_on(statement))
        if isinstance(statement, Subscribe):
            told = await self._client.engine(lambda engine: subscribe.shape_of(engine, statement))
            return None if told is None else Shape(*told)
        if portal.ran:
            return shape_of_result(portal.outcome)
        if not isinstance(statement, READING):
            return None  # without the engine: ROLLBACK must not meet what its transaction has met
        return await self._client.engine(lambda engine: shape_of(engine, statement))

    def _send_shape(self, shape: Shape | None, formats: Sequence[int]) -> None:
        if shape is None:
            self._client.send(messages.NO_DATA)
        else:
            formats = spread(formats, len(shape.types))
            self._client.send(messages.description(shape.names, shape.types, formats, shape.origins))

    def _goes_on(self, statement: ast.Statement | Subscribe | None) -> bool:
        """Whether more statements may come before the Sync that ends their transaction."""
        return isinstance(statement, ast.CopyFrom) or not self._client.ends_here()

    async def _portal(self, name: str, most: int) -> Portal:
        """The portal of a name, or one for the next rows of a cursor."""
        found = self.portals.get(name)
        if found is None and await self.portals.shape_of_cursor(name) is not None:
            return self.portals.of_cursor(name, most)
        if found is None:
            raise refusal(f'portal "{name}" does not exist', "34000")
        return found

    async def _execute(self, message: wire.Execute) -> None:
        by_sql = self.portals.get(message.portal) is None
        portal = await self._portal(message.portal, message.max_rows)
        statement = portal.statement
        if statement is None:
            self._client.send(messages.EMPTY)
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
        if message.max_rows and sent == message.max_rows:
            # Whether there are more is seen when they are asked for.
            self._client.send(messages.SUSPENDED)
            return
        tag = portal.tag or tag_of(statement, portal.outcome)
        portal.ended = True
        counted = tag.startswith("SELECT") or by_sql
        self._client.send(messages.complete(f"SELECT {sent}" if counted else tag))


def _parsed(query: str) -> tuple[ast.Statement | None, int]:
    """The statement of a text, None if it has none, and how many parameters it has."""
    found = parse(query)
    if len(found) > 1:
        raise refusal("cannot insert multiple commands into a prepared statement", "42601")
    first = found[0] if found else None
    return first, highest_place(first)


def _number(declared: str) -> int:
    """The number of a type that PREPARE names; 0 for what only the catalog knows, which is inferred."""
    try:
        type_ = sql_type(parsed_expression(f"null::{declared}").args["to"], declared)
    except Error:
        return 0
    return 0 if type_ == UNKNOWN else type_facts(type_)[2]
