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
from kpg.compiler.sql.parse.parameters import blank_placeholders, max_placeholder
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.reader import parse_expression
from kpg.compiler.sql.parse.session_statements import ALL_ROWS
from kpg.compiler.sql.parse.type_names import sql_type
from kpg.compiler.system.oids import FIRST_USER_OID, type_facts
from kpg.execute.queries import cursors
from kpg.runtime.errors import Error, InterfaceError, NotSupportedError, Span
from kpg.runtime.types import UNKNOWN, Type
from kpg.server import messages, statement_cache, streams, subscribe
from kpg.server.binary_input import user_types_by_oid
from kpg.server.interfaces import ClientConnection
from kpg.server.messages import command_tag
from kpg.server.portal import (
    VOID_OID,
    Portal,
    PreparedStatement,
    Shape,
    expand_formats,
    infer_parameter_oids,
    must_run_to_describe,
    shape_of,
    shape_of_result,
)
from kpg.server.statement_cache import Request
from kpg.server.subscribe import Subscribe
from kpg.server.subscription_cursors import SubscriptionCursors
from kpg.session.engine import Cursor, OpenPortal, PreparedStatements
from kpg.session.transaction import State

NOWHERE = Span("", 0, 0)


class Portals:
    """Portals by name. The unnamed portal exists only in the protocol, not in SQL."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._portals: dict[str, Portal] = {}

    def get(self, name: str) -> Portal | None:
        """Return the portal of a name."""
        return self._portals.get(name)

    def drop(self, name: str) -> None:
        """Remove a portal."""
        self._portals.pop(name, None)

    def clear(self) -> None:
        """Remove all portals."""
        self._portals.clear()

    def list_named(self) -> list[OpenPortal]:
        """Return the named portals."""
        return [
            OpenPortal(name, one.text, one.creation_time, one.statement)
            for name, one in self._portals.items()
            if name
        ]

    async def add(self, name: str, portal: Portal) -> None:
        """Add a portal until its transaction ends. InterfaceError if a named one exists already."""
        if name and (name in self._portals or await self.shape_of_cursor(name) is not None):
            raise interface_error(f'cursor "{name}" already exists', "42P03")
        portal.creation_time = time.time_ns() // 1000
        self._portals[name] = portal
        if name:
            self._close_with_transaction(name, portal)

    async def shape_of_cursor(self, name: str) -> Shape | None:
        """Return the columns of a cursor that SQL declared; None if there is none."""
        if not name:
            return None
        found = await self._client.run_with_engine(lambda engine: cursors.cursor_columns(engine, name))
        return None if found is None else Shape(*found)

    def cursor_portal(self, name: str, limit: int) -> Portal:
        """Return a portal for the next rows of a SQL cursor: up to ``limit``, 0 for all."""
        return Portal(statements.Fetch(name, "FORWARD", limit or ALL_ROWS, False, NOWHERE), ())

    async def close_cursor(self, name: str) -> None:
        """Close a SQL cursor, if it exists."""
        if await self.shape_of_cursor(name) is not None:
            await self._client.run_with_engine(
                lambda engine: cursors.close(engine, statements.Close(name, NOWHERE))
            )

    async def run_on_portal(self, portal: Portal) -> bool:
        """Run a portal's statement if it is a CLOSE, DECLARE or FETCH that names another portal.

        Returns False if the statement must run in the engine.
        """
        match portal.statement:
            case statements.Close(name=""):
                self._check_transaction()
                for name in list(filter(None, self._portals)):
                    del self._portals[name]
                return False  # and all cursors
            case statements.Close(name=name) if name in self._portals:
                self._check_transaction()
                del self._portals[name]
            case statements.Declare(name=name) if name in self._portals:
                raise interface_error(f'cursor "{name}" already exists', "42P03")
            case statements.Fetch(name=name) if name in self._portals:
                portal.outcome = await self._fetch(self._portals[name], portal.statement)
            case _:
                return False
        portal.has_run = True
        return True

    def _check_transaction(self) -> None:
        if self._client.session is not None:
            self._client.session.transactions.check_not_failed()

    async def _fetch(self, portal: Portal, statement: statements.Fetch) -> Result:
        self._check_transaction()
        await self._client.run_portal(portal)
        outcome = portal.outcome
        if outcome is None or portal.shape is None:
            raise interface_error(
                "unsupported portal strategy", "XX000"
            )  # as Postgres, for statements without rows
        cursor = Cursor(statement.name, outcome, None, False, portal.position)
        rows = cursors.fetch_or_move(cursor, statement)
        portal.position = min(cursor.position, len(outcome))
        return rows

    def _close_with_transaction(self, name: str, portal: Portal) -> None:
        """Close a portal when the transaction or savepoint in which it was created ends."""
        session = self._client.session
        if session is None or session.transactions.state is not State.OPEN:
            return
        weak_portal = ref(portal)  # a closed portal must not live until the end

        def end() -> None:
            if name in self._portals and self._portals[name] is weak_portal():
                del self._portals[name]

        session.transactions.setting_changes.add(session.transactions.depth, end)
        session.transactions.setting_changes.add_local(end)


def interface_error(message: str, sqlstate: str) -> InterfaceError:
    """Return an InterfaceError with a SQLSTATE."""
    error = InterfaceError(message)
    error.sqlstate = sqlstate
    return error


DESCRIBABLE: Final = (
    *(ast.Select, ast.Insert, ast.Update, ast.Delete),
    *(ast.Explain, ast.ExplainView, statements.Execute, statements.Fetch),
)
"""Statements whose columns are known before they run."""


CHARACTERS_PER_VALUE: Final = 10
"""Characters that take as long to parse as one value takes to bind."""


class ExtendedProtocol:
    """Prepared statements and portals of a client."""

    def __init__(self, client: ClientConnection, subscription_cursors: SubscriptionCursors) -> None:
        self._client = client
        self._subscription_cursors = subscription_cursors
        self._statements: dict[str, PreparedStatement] = {}
        """Statements that Parse messages prepared."""
        self._sql_statements: dict[str, tuple[statements.Prepare, PreparedStatement]] = {}
        """Statements that PREPARE created, converted for the extended protocol."""
        self.portals = Portals(client)

    @property
    def _session_statements(self) -> PreparedStatements:
        """All prepared statements of the session."""
        assert self._client.session is not None
        return self._client.session.prepared_statements

    def attach_session(self) -> None:
        """Share one namespace of statements and portals between the session's SQL and the messages."""
        assert self._client.session is not None
        self._client.session.portals = self.portals.list_named
        self._session_statements.protocol_statements = self._statements

    async def handle_message(
        self, message: wire.Parse | wire.Bind | wire.Describe | wire.Execute | wire.Close
    ) -> None:
        """Handle a message."""
        if await self._subscription_cursors.handle_message(message):
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
                self._session_statements.drop(name)
                self._client.send(messages.CLOSE_COMPLETE)
            case wire.Close(name=name):
                if self.portals.get(name) is None:
                    await self.portals.close_cursor(name)
                self.portals.drop(name)
                self._client.send(messages.CLOSE_COMPLETE)

    def drop_unnamed(self) -> None:
        """Remove the unnamed statement and portal, as a Query does."""
        self._statements.pop("", None)
        self.portals.drop("")

    def drop_ended(self, statement: ast.Statement) -> None:
        """Remove the portals that a statement has ended."""
        if isinstance(statement, ast.Commit | ast.Rollback):
            self.portals.drop("")
        elif isinstance(statement, statements.Utility) and command_tag(statement, None) == "DISCARD ALL":
            self.portals.clear()

    async def _parse(self, message: wire.Parse) -> None:
        if message.statement:
            self._session_statements.check_name_free(message.statement)
        if VOID_OID in message.param_types:
            # OUT parameters of a driver (JDBC's {? = call f(?)}); Postgres drops them from the call too.
            out_parameters = {
                place for place, type_ in enumerate(message.param_types, 1) if type_ == VOID_OID
            }
            message = replace(message, query=blank_placeholders(message.query, out_parameters))
        cached = statement_cache.parse_cached(message.query)
        if cached is not None:
            statement, count = cached
            self._prepare(message, statement, count)
            return
        subscription = subscribe.parse_subscribe(message.query)
        if subscription is not None:
            self._prepare(message, subscription, max_placeholder(subscription))
            return
        parsed = await self._client.run_without_engine(
            len(message.query), partial(_parse_single, message.query)
        )
        self._prepare(message, *parsed)

    def _prepare(
        self, message: wire.Parse, statement: ast.Statement | Subscribe | None, parameter_count: int
    ) -> None:
        parameter_count = max(parameter_count, len(message.param_types))
        oids = (*message.param_types, *[0] * (parameter_count - len(message.param_types)))
        self._statements[message.statement] = PreparedStatement(message.query, statement, oids)
        self._client.send(messages.PARSE_COMPLETE)

    async def _bind(self, message: wire.Bind) -> None:
        prepared = await self._check_description(
            self._require_statement(message.statement), message.statement
        )
        count = len(message.param_values)
        if count != len(prepared.parameter_oids):
            supplied = (
                f'bind message supplies {count} parameters, but prepared statement "{message.statement}"'
            )
            raise InterfaceError(f"{supplied} requires {len(prepared.parameter_oids)}")
        forms = expand_formats(message.param_formats, count)
        if any(form and not number for form, number in zip(forms, prepared.parameter_oids, strict=False)):
            prepared = await self._infer_types(prepared, message.statement)
        if self._client.session is not None:
            self._client.session.last_query = prepared.text
        text_and_values = self._text_and_values(prepared, message)
        statement = prepared.statement
        if text_and_values is None or "returning" in prepared.text.lower():
            user_types = await self._user_types(prepared.parameter_oids, forms)
            statement = await self._bind_values(
                prepared, message.param_values, message.param_formats, user_types
            )
        portal = Portal(statement, tuple(message.result_formats), text_and_values)
        portal.text, portal.statement_name = prepared.text, message.statement
        await self.portals.add(message.portal, portal)
        self._client.send(messages.BIND_COMPLETE)

    async def _bind_values(
        self,
        prepared: PreparedStatement,
        values: Sequence[bytes | None],
        formats: Sequence[int] = (),
        user_types: Mapping[int, Type] = MappingProxyType({}),
    ) -> ast.Statement | Subscribe | None:
        """Return the statement with its values."""
        return await self._client.run_without_engine(
            CHARACTERS_PER_VALUE * len(values), partial(prepared.bind, values, formats, user_types)
        )

    async def _user_types(self, oids: Sequence[int], forms: Sequence[int]) -> dict[int, Type]:
        """Return the user-defined types by OID, if there are binary values of any."""
        if not any(form and number >= FIRST_USER_OID for form, number in zip(forms, oids, strict=False)):
            return {}
        return await self._client.run_with_engine(lambda engine: user_types_by_oid(engine.catalog))

    async def _check_description(self, prepared: PreparedStatement, name: str) -> PreparedStatement:
        """Return the statement. NotSupportedError if its columns are not those described to the client."""
        described, version = prepared.described_shape, self._catalog_version
        if described is None or prepared.version == version:
            return prepared
        statement = await self._bind_values(prepared, [None] * len(prepared.parameter_oids))
        shape = await self._shape(Portal(statement, ()))
        if shape is None or (shape.names, shape.types) != (described.names, described.types):
            error = NotSupportedError("cached plan must not change result type")
            error.routine = "RevalidateCachedQuery"  # drivers prepare the statement again
            raise error
        return self._replace_statement(name, replace(prepared, version=version))

    @property
    def _catalog_version(self) -> int:
        """The catalog's version. Definitions that have not run yet are not included."""
        return self._client.server.session_manager.engine.catalog.version

    def _text_and_values(
        self, prepared: PreparedStatement, message: wire.Bind
    ) -> tuple[str, list[Any] | None] | None:
        forms = expand_formats(message.param_formats, len(message.param_values))
        return prepared.text_and_values(message.param_values, forms)

    def request_text_and_values(self, request: Request) -> tuple[str, list[Any] | None] | None:
        """Return the text and Python values of a request for the plan cache; None if it may not use it."""
        prepared = self.prepared_statement(request.name or "")
        if (
            prepared is None
            or not self.is_description_current(prepared)
            or (len(request.formats) > 1 and len(request.formats) != len(request.values))
        ):
            return None
        return prepared.text_and_values(request.values, expand_formats(request.formats, len(request.values)))

    def is_description_current(self, prepared: PreparedStatement) -> bool:
        """Return whether the columns described to the client cannot have changed."""
        return prepared.described_shape is None or prepared.version == self._catalog_version

    def prepared_statement(self, name: str) -> PreparedStatement | None:
        """Return the prepared statement of a name; None if there is none."""
        statement_of_parse = self._statements.get(name)
        if statement_of_parse is not None or not self._session_statements:
            return statement_of_parse
        by_sql = self._session_statements.get(name)
        if by_sql is None:
            return None
        converted = self._sql_statements.get(name)
        if converted is None or converted[0] is not by_sql:
            (statement,) = parse(by_sql.text)
            oids = [_declared_oid(text) for text in by_sql.types]
            oids += [0] * (max_placeholder(statement) - len(oids))
            converted = self._sql_statements[name] = (
                by_sql,
                PreparedStatement(by_sql.text, statement, tuple(oids)),
            )
        return converted[1]

    def _replace_statement(self, name: str, prepared: PreparedStatement) -> PreparedStatement:
        """Replace the prepared statement of a name."""
        by_sql = self._session_statements.get(name)
        if by_sql is None:
            self._statements[name] = prepared
        else:
            self._sql_statements[name] = by_sql, prepared
        return prepared

    def _require_statement(self, name: str) -> PreparedStatement:
        found = self.prepared_statement(name)
        if found is None:
            description = f'prepared statement "{name}"' if name else "unnamed prepared statement"
            raise interface_error(f"{description} does not exist", "26000")
        return found

    async def _describe(self, message: wire.Describe) -> None:
        if message.kind == "S":
            prepared = self._require_statement(message.name)
            prepared = await self._infer_types(prepared, message.name)
            oids = prepared.parameter_oids
            self._client.send(wire.ParameterDescription(type_oids=list(oids)).to_wire())
            statement, version = await self._bind_values(prepared, [None] * len(oids)), self._catalog_version
            shape = await self._shape(Portal(statement, ()))
            if shape is not None and message.name:
                self._record_description(message.name, shape, version)
            self._send_shape(shape, ())
            return
        portal, version = await self._portal(message.name, 0), self._catalog_version
        shape = await self._shape(portal)
        if shape is not None and portal.statement_name:
            self._record_description(portal.statement_name, shape, version)
        self._send_shape(shape, portal.formats)

    def _record_description(self, name: str, shape: Shape, version: int) -> None:
        """Record the columns described to the client, which the named statement must keep."""
        prepared = self.prepared_statement(name)
        if prepared is not None:
            self._replace_statement(name, replace(prepared, described_shape=shape, version=version))

    async def _infer_types(self, prepared: PreparedStatement, name: str) -> PreparedStatement:
        """Return the statement with the types of all its parameters."""
        statement, declared = prepared.statement, prepared.parameter_oids
        if isinstance(statement, Subscribe) or all(declared):
            return prepared
        text = prepared.text
        oids = await self._client.run_with_engine(
            lambda engine: infer_parameter_oids(engine, text, statement, declared)
        )
        return self._replace_statement(name, PreparedStatement(text, statement, tuple(oids)))

    async def _shape(self, portal: Portal) -> Shape | None:
        statement = portal.statement
        is_cached_select = portal.text_and_values is not None and isinstance(statement, ast.Select)
        if is_cached_select or must_run_to_describe(statement):
            await self._client.run_portal(portal, joins=self._may_continue(statement))
        if isinstance(statement, Subscribe):
            columns = await self._client.run_with_engine(lambda engine: subscribe.shape_of(engine, statement))
            return None if columns is None else Shape(*columns)
        if portal.has_run:
            return shape_of_result(portal.outcome)
        if not isinstance(statement, DESCRIBABLE):
            return None  # without the engine, because a failed transaction must accept ROLLBACK
        return await self._client.run_with_engine(lambda engine: shape_of(engine, statement))

    def _send_shape(self, shape: Shape | None, formats: Sequence[int]) -> None:
        if shape is None:
            self._client.send(messages.NO_DATA)
        else:
            formats = expand_formats(formats, len(shape.types))
            self._client.send(messages.row_description(shape.names, shape.types, formats, shape.origins))

    def _may_continue(self, statement: ast.Statement | Subscribe | None) -> bool:
        """Return whether more statements may come before the Sync that ends their transaction."""
        return isinstance(statement, ast.CopyFrom) or not self._client.is_followed_by_sync()

    async def _portal(self, name: str, limit: int) -> Portal:
        """Return the portal of a name, or a portal for the next rows of a SQL cursor."""
        found = self.portals.get(name)
        if found is None and await self.portals.shape_of_cursor(name) is not None:
            return self.portals.cursor_portal(name, limit)
        if found is None:
            raise interface_error(f'portal "{name}" does not exist', "34000")
        return found

    async def _execute(self, message: wire.Execute) -> None:
        by_sql = self.portals.get(message.portal) is None
        portal = await self._portal(message.portal, message.max_rows)
        statement = portal.statement
        if statement is None:
            self._client.send(messages.EMPTY_QUERY_RESPONSE)
            return
        if isinstance(statement, Subscribe):
            form = portal.formats[0] if portal.formats else 0
            await streams.send_subscription(self._client, statement, form, describe=False)
            return
        portal.check_runnable(message.portal, self._client.session)
        await self._client.run_portal(portal, joins=self._may_continue(statement))
        if await streams.send_if_copy(self._client, portal):
            return
        sent = await self._client.send_rows(portal, message.max_rows)
        if message.max_rows and sent == message.max_rows:
            # The next Execute finds out whether there are more rows.
            self._client.send(messages.PORTAL_SUSPENDED)
            return
        tag = portal.tag or command_tag(statement, portal.outcome)
        portal.is_completed = True
        is_row_count = tag.startswith("SELECT") or by_sql
        self._client.send(messages.command_complete(f"SELECT {sent}" if is_row_count else tag))


def _parse_single(query: str) -> tuple[ast.Statement | None, int]:
    """Return the only statement of a text, None if it is empty, and the number of its parameters."""
    found = parse(query)
    if len(found) > 1:
        raise interface_error("cannot insert multiple commands into a prepared statement", "42601")
    first = found[0] if found else None
    return first, max_placeholder(first)


def _declared_oid(declared: str) -> int:
    """Return the OID of a type that PREPARE declares; 0 for types that only the catalog knows."""
    try:
        type_ = sql_type(parse_expression(f"null::{declared}").args["to"], declared)
    except Error:
        return 0
    return 0 if type_ == UNKNOWN else type_facts(type_)[2]
