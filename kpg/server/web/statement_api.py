"""``POST /sql`` and ``POST /datalog``: statements and programs, each request in its own session.

SQL results are returned as JSON or Arrow. A Datalog text is a program to install, or a goal or an update.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kpg.api.result import Result
from kpg.compiler.rules.core import Parameter
from kpg.compiler.sql.parse import statements as ast
from kpg.execute.scripts import command_of
from kpg.runtime.errors import Error, InterfaceError, NotSupportedError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.records import dataclass
from kpg.server import logs, statement_cache
from kpg.server.client import TRANSACTION_CONTROL
from kpg.server.messages import command_tag
from kpg.server.portal import shape_of_result
from kpg.server.subscribe import parse_subscribe as read_subscription
from kpg.server.web.http import Connection, HttpError, Request
from kpg.server.web.json_results import (
    ARROW,
    column_fields,
    encode_arrow,
    encode_rows,
    error_fields,
    http_status,
)
from kpg.session.session import Session, job_options
from kpg.session.transaction import State

if TYPE_CHECKING:
    from kpg.datalog import dispatch as datalog_dispatch
    from kpg.datalog.program import Program
    from kpg.server.listener import Server
    from kpg.session.engine import Engine
else:
    datalog_dispatch = LazyModule("kpg.datalog.dispatch")


Given = TypeVar("Given")
TEXT_TYPES: Final = ("application/sql", "application/datalog")
"""Content types of bodies that are the text itself."""
FIELDS: Final = {"query", "parameters", "max_rows", "timeout"}


@dataclass(frozen=True, slots=True)
class StatementRequest:
    """The statements of a request body, with parameters and limits."""

    text: str
    parameters: Any = None
    max_rows: int | None = None
    timeout: str = ""


def parse_body(request: Request, body: bytes) -> StatementRequest:
    """Parse a request body. Raises HttpError if it is invalid."""
    if request.content_type in TEXT_TYPES:
        return StatementRequest(_decode(body))
    if request.content_type != "application/json":
        raise HttpError(
            415,
            "the body's type is none that is read",
            hint="Content-Type: application/json, or application/sql",
        )
    try:
        fields = json.loads(_decode(body))
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"the body is no JSON: {error}") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("query"), str):
        raise HttpError(400, "the body has no query", hint='{"query": "SELECT $1", "parameters": [1]}')
    for name in fields.keys() - FIELDS:
        raise HttpError(400, f"a body has no field {name!r}", hint=", ".join(sorted(FIELDS)))
    limit, timeout = fields.get("max_rows"), fields.get("timeout", "")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise HttpError(400, "max_rows is no number of rows")
    if not isinstance(timeout, str):
        raise HttpError(400, "timeout is no duration", hint='as "2s"')
    parameters = fields.get("parameters")
    if parameters is not None and not isinstance(parameters, list | dict):
        raise HttpError(400, "parameters must be a list or an object")
    return StatementRequest(fields["query"], parameters, limit, timeout)


def _decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise HttpError(400, f"the body is no UTF-8: {error}") from None


async def run_in_session(
    server: "Server", connection: Connection, user: str, work: Callable[[Session], Awaitable[Given]]
) -> Given:
    """Run a coroutine with a session, which is canceled when the client disconnects."""
    session = await server.open_session(user)
    disconnect = asyncio.ensure_future(connection.wait_for_disconnect())
    task = asyncio.ensure_future(work(session))
    try:
        await asyncio.wait((disconnect, task), return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and disconnect.exception() is None:
            session.cancel()
        return await task
    except asyncio.CancelledError:
        session.cancel()
        raise
    finally:
        disconnect.cancel()
        await asyncio.gather(disconnect, return_exceptions=True)
        await server.close_session(session)


async def sql(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer POST /sql."""
    statement_request = parse_body(request, await connection.read_body())
    response = StatementResponse(server, connection, statement_request)
    if ARROW in request.headers.get("accept", ""):
        await run_in_session(server, connection, user, response.send_arrow)
    else:
        await run_in_session(server, connection, user, response.send_json)


class StatementResponse:
    """Runs the statements of one request and sends their results."""

    def __init__(self, server: "Server", connection: Connection, request: StatementRequest) -> None:
        self._server = server
        self._connection = connection
        self._request = request
        self._dictionary = server.session_manager.engine.executor.dictionary

    async def send_json(self, session: Session) -> None:
        """Send the results as JSON, also those before an error."""
        connection = self._connection
        results: list[tuple[str, Result | None]] = []
        trailer: dict[str, Any] = {}
        status = 200
        try:
            async for one in self._run_statements(session):
                results.append(one)
        except Error as error:
            status, trailer["error"] = http_status(error), error_fields(error)
        trailer["epoch"] = self._server.session_manager.engine.executor.epoch
        await connection.begin_response(status, "application/json")
        await connection.write(b'{"results": [')
        for number, (tag, outcome) in enumerate(results):
            await connection.write(b",\n" if number else b"")
            await self._write_result(tag, outcome)
        await connection.write(b"], " + json.dumps(trailer).encode()[1:] + b"\n")
        await connection.end_response()

    async def send_arrow(self, session: Session) -> None:
        """Send the rows of the last statement that returns any, as an Arrow stream."""
        last: Result | None = None
        try:
            async for _, outcome in self._run_statements(session):
                last = outcome if shape_of_result(outcome) is not None else last
            if last is None:
                raise InterfaceError("no statement gives rows", hint=f"without Accept: {ARROW} it can be run")
        except Error as error:
            data = json.dumps({"error": error_fields(error)}).encode()
            await self._connection.respond(http_status(error), "application/json", data)
            return
        await self._connection.respond(200, ARROW, encode_arrow(last, self._request.max_rows))

    async def _write_result(self, tag: str, outcome: Result | None) -> None:
        connection, shape = self._connection, shape_of_result(outcome)
        head: dict[str, Any] = {"command": tag}
        if outcome is None or shape is None:
            await connection.write(json.dumps(head).encode())
            return
        limit = self._request.max_rows
        head["columns"] = column_fields(shape.names, shape.types)
        if limit is not None and limit < len(outcome):
            head["more"] = len(outcome) - limit
        await connection.write(json.dumps(head).encode()[:-1] + b', "rows": [')
        for number, part in enumerate(encode_rows(outcome, self._dictionary, limit)):
            await connection.write(b"," + part if number else part)
        await connection.write(b"]}")

    async def _run_statements(self, session: Session) -> AsyncIterator[tuple[str, Result | None]]:
        """Yield each statement's tag and result after it has run."""
        text, parameters = self._request.text, self._request.parameters
        if self._request.timeout:
            session.settings["statement_timeout"] = self._request.timeout
        if read_subscription(text) is not None:
            raise NotSupportedError("SUBSCRIBE has no end", hint="GET /subscribe?view=..., or WebSocket /ws")
        verb = command_of(text)
        if verb is not None:
            with logs.log_slow_statements(self._server.limits, session, text):
                outcome = await self._server.run(
                    session,
                    lambda engine: session.run_text(engine, text, parameters),
                    **session.job_options(text, parameters),
                )
            yield statement_cache.row_count_tag(verb, outcome), outcome
            return
        statements = session.parse(text, parameters)
        for statement in statements:
            if isinstance(statement, ast.CopyFrom) and not statement.path:
                raise NotSupportedError(
                    "COPY FROM STDIN is not supported over HTTP", hint="INSERT, or the wire protocol"
                )
            yield await self._run_statement(session, statement, joins=len(statements) > 1)
        await self._end_implicit_transaction(session)
        if session.transactions.state is not State.NONE:
            raise InterfaceError(
                "the transaction is rolled back at the end of the request", hint="end it with COMMIT"
            )

    async def _run_statement(
        self, session: Session, statement: ast.Statement, *, joins: bool
    ) -> tuple[str, Result | None]:
        """Run a statement; ``joins``: in one transaction with the statements that came with it."""
        span, state = statement.span, session.transactions.state
        joins = joins and state is State.NONE and not isinstance(statement, TRANSACTION_CONTROL)
        flags = {} if joins else job_options(statement)
        with logs.log_slow_statements(self._server.limits, session, span.source[span.start : span.end]):
            outcome = await self._server.run(
                session, lambda engine: session.run_statement(engine, statement, joins=joins), **flags
            )
        return command_tag(statement, outcome), outcome

    async def _end_implicit_transaction(self, session: Session) -> None:
        """End the implicit transaction of statements that came together."""
        if session.transactions.is_implicit:
            await self._server.run(session, lambda _: session.end_implicit(), commits=True)


DatalogResults = tuple[dict[str, Any], list[tuple[str, Result]]]
"""Response fields, and the goals with their answers."""


async def datalog(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer POST /datalog."""
    statement_request = parse_body(request, await connection.read_body())
    values = statement_request.parameters or {}
    if not isinstance(values, dict):
        raise HttpError(400, "the parameters of goals must be an object", hint='{"src": 1} for $src')

    async def run_program(session: Session) -> DatalogResults:
        if statement_request.timeout:
            session.settings["statement_timeout"] = statement_request.timeout
        return await server.run(session, lambda engine: run_datalog(engine, statement_request.text, values))

    try:
        head, answers = await run_in_session(server, connection, user, run_program)
        if ARROW in request.headers.get("accept", ""):
            if not answers:
                raise InterfaceError("the program has no goal", hint=f"without Accept: {ARROW} it can be run")
            await connection.respond(200, ARROW, encode_arrow(answers[-1][1], statement_request.max_rows))
            return
    except Error as error:
        data = json.dumps({"error": error_fields(error)}).encode()
        await connection.respond(http_status(error), "application/json", data)
        return
    head["epoch"] = server.session_manager.engine.executor.epoch
    await connection.begin_response(200, "application/json")
    await connection.write(_open_list(head, "goals"))
    for number, (goal, outcome) in enumerate(answers):
        head = {"goal": goal, "columns": column_fields(outcome.columns, outcome.types)}
        if statement_request.max_rows is not None and statement_request.max_rows < len(outcome):
            head["more"] = len(outcome) - statement_request.max_rows
        await connection.write((b",\n" if number else b"") + _open_list(head, "rows"))
        dictionary = server.session_manager.engine.executor.dictionary
        for place, part in enumerate(encode_rows(outcome, dictionary, statement_request.max_rows)):
            await connection.write(b"," + part if place else part)
        await connection.write(b"]}")
    await connection.write(b"]}\n")
    await connection.end_response()


def _open_list(head: dict[str, Any], name: str) -> bytes:
    """Return a JSON object whose last field is a list that is written next."""
    return json.dumps({**head, name: []}).encode()[:-2]


def run_datalog(engine: "Engine", text: str, values: dict[str, Any]) -> DatalogResults:
    """Install a program, or run goals and updates. Runs on the engine's thread."""

    def check_open() -> None:
        if engine.closed:
            raise InterfaceError("the database is closed")

    if datalog_dispatch.has_only_goals_and_updates(text, "", engine.catalog):
        return _run_in_program(datalog_dispatch.program_for(engine, check_open, text), text, values)
    return _install_program(engine, check_open, text, values)


def _run_in_program(program: "Program", text: str, values: dict[str, Any]) -> DatalogResults:
    checked = program.check_text(text)
    head: dict[str, Any] = {}
    known_names: set[str] = set()
    if checked.program.updates:
        terms = [term for update in checked.program.updates for term in update.terms]
        known_names = {term.name for term in terms if isinstance(term, Parameter)}
        head["changed"] = program.run_updates(checked.program, _select_parameters(values, known_names))
    answers = []
    for goal in checked.program.goals:
        with program.goal(checked.program, goal) as prepared_goal:
            known_names |= set(prepared_goal.parameters)
            answers.append(
                (
                    _text(goal.span.source, goal.span),
                    prepared_goal(**_select_parameters(values, prepared_goal.parameters)),
                )
            )
    for name in values.keys() - known_names:
        raise InterfaceError(f"there is no parameter ${name}")
    return head, answers


def _install_program(engine: "Engine", check_open: Any, text: str, values: dict[str, Any]) -> DatalogResults:
    if values:
        raise InterfaceError("a program has no parameters", hint="its goals and updates do, after it")
    program = datalog_dispatch.install(engine, check_open, text)
    head = {
        "program": program.label,
        "relations": list(program.relations),
        "warnings": [one.text() for one in program.warnings],
    }
    goals = zip(program.checked.program.goals, program.goals, strict=True)
    return head, [(_text(goal.span.source, goal.span), prepared_goal()) for goal, prepared_goal in goals]


def _select_parameters(values: dict[str, Any], names: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}


def _text(source: str, span: Any) -> str:
    return source[span.start : span.end].strip()
