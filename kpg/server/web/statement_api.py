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
from kpg.execute.scripts import word_of
from kpg.runtime.errors import Error, InterfaceError, NotSupportedError
from kpg.runtime.records import dataclass
from kpg.server import logs, statement_cache
from kpg.server.client import CONTROL
from kpg.server.messages import tag_of
from kpg.server.portal import shape_of_result
from kpg.server.subscribe import read as read_subscription
from kpg.server.web.http import Connection, Refused, Request
from kpg.server.web.json_results import ARROW, arrow_of, columns_of, error_of, portions, status_of
from kpg.session.session import Session, how
from kpg.session.transaction import State

if TYPE_CHECKING:
    from kpg.datalog.program import Program
    from kpg.server.listener import Server
    from kpg.session.engine import Engine


Given = TypeVar("Given")
RAW: Final = ("application/sql", "application/datalog")
"""Types of bodies that are the text itself."""
FIELDS: Final = {"query", "parameters", "max_rows", "timeout"}


@dataclass(frozen=True, slots=True)
class Question:
    """What a body asks."""

    text: str
    parameters: Any = None
    max_rows: int | None = None
    timeout: str = ""


def question_of(request: Request, body: bytes) -> Question:
    """The question of a body; Refused if it is none."""
    if request.media in RAW:
        return Question(_decoded(body))
    if request.media != "application/json":
        raise Refused(
            415,
            "the body's type is none that is read",
            hint="Content-Type: application/json, or application/sql",
        )
    try:
        found = json.loads(_decoded(body))
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is no JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("query"), str):
        raise Refused(400, "the body has no query", hint='{"query": "SELECT $1", "parameters": [1]}')
    for name in found.keys() - FIELDS:
        raise Refused(400, f"a body has no field {name!r}", hint=", ".join(sorted(FIELDS)))
    most, timeout = found.get("max_rows"), found.get("timeout", "")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 0):
        raise Refused(400, "max_rows is no number of rows")
    if not isinstance(timeout, str):
        raise Refused(400, "timeout is no duration", hint='as "2s"')
    parameters = found.get("parameters")
    if parameters is not None and not isinstance(parameters, list | dict):
        raise Refused(400, "parameters are a list, or an object of names and values")
    return Question(found["query"], parameters, most, timeout)


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Refused(400, f"the body is no UTF-8: {error}") from None


async def in_session(
    server: "Server", connection: Connection, user: str, work: Callable[[Session], Awaitable[Given]]
) -> Given:
    """Do something with a session, which is cancelled when the client goes."""
    session = await server.open_session(user)
    watching = asyncio.ensure_future(connection.watch())
    working = asyncio.ensure_future(work(session))
    try:
        await asyncio.wait((watching, working), return_when=asyncio.FIRST_COMPLETED)
        if not working.done() and watching.exception() is None:
            session.cancel()
        return await working
    except asyncio.CancelledError:
        session.cancel()
        raise
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await server.close_session(session)


async def sql(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer POST /sql."""
    question = question_of(request, await connection.body())
    answer = Answer(server, connection, question)
    if ARROW in request.headers.get("accept", ""):
        await in_session(server, connection, user, answer.arrow)
    else:
        await in_session(server, connection, user, answer.json)


class Answer:
    """What the statements of one request give, sent as they are done."""

    def __init__(self, server: "Server", connection: Connection, question: Question) -> None:
        self._server = server
        self._connection = connection
        self._question = question
        self._dictionary = server.hub.engine.executor.dictionary

    async def json(self, session: Session) -> None:
        """The results as JSON, those before an error too."""
        connection = self._connection
        done: list[tuple[str, Result | None]] = []
        end: dict[str, Any] = {}
        status = 200
        try:
            async for one in self._outcomes(session):
                done.append(one)
        except Error as error:
            status, end["error"] = status_of(error), error_of(error)
        end["epoch"] = self._server.hub.engine.executor.epoch
        await connection.begin(status, "application/json")
        await connection.write(b'{"results": [')
        for number, (tag, outcome) in enumerate(done):
            await connection.write(b",\n" if number else b"")
            await self._result(tag, outcome)
        await connection.write(b"], " + json.dumps(end).encode()[1:] + b"\n")
        await connection.end()

    async def arrow(self, session: Session) -> None:
        """The rows of the last statement that gives some, as a stream in Arrow's format."""
        last: Result | None = None
        try:
            async for _, outcome in self._outcomes(session):
                last = outcome if shape_of_result(outcome) is not None else last
            if last is None:
                raise InterfaceError("no statement gives rows", hint=f"without Accept: {ARROW} it can be run")
        except Error as error:
            data = json.dumps({"error": error_of(error)}).encode()
            await self._connection.reply(status_of(error), "application/json", data)
            return
        await self._connection.reply(200, ARROW, arrow_of(last, self._question.max_rows))

    async def _result(self, tag: str, outcome: Result | None) -> None:
        connection, shape = self._connection, shape_of_result(outcome)
        head: dict[str, Any] = {"command": tag}
        if outcome is None or shape is None:
            await connection.write(json.dumps(head).encode())
            return
        most = self._question.max_rows
        head["columns"] = columns_of(shape.names, shape.types)
        if most is not None and most < len(outcome):
            head["more"] = len(outcome) - most
        await connection.write(json.dumps(head).encode()[:-1] + b', "rows": [')
        for number, part in enumerate(portions(outcome, self._dictionary, most)):
            await connection.write(b"," + part if number else part)
        await connection.write(b"]}")

    async def _outcomes(self, session: Session) -> AsyncIterator[tuple[str, Result | None]]:
        """Each statement's tag and outcome, when it has run."""
        text, parameters = self._question.text, self._question.parameters
        if self._question.timeout:
            session.settings["statement_timeout"] = self._question.timeout
        if read_subscription(text) is not None:
            raise NotSupportedError("SUBSCRIBE has no end", hint="GET /subscribe?view=..., or WebSocket /ws")
        word = word_of(text)
        if word is not None:
            with logs.timed(self._server.limits, session, text):
                found = await self._server.run(
                    session,
                    lambda engine: session.answer(engine, text, parameters),
                    **session.how(text, parameters),
                )
            yield statement_cache.tag_of(word, found), found
            return
        statements = session.parsed(text, parameters)
        for statement in statements:
            if isinstance(statement, ast.CopyFrom) and not statement.path:
                raise NotSupportedError(
                    "COPY FROM STDIN has no lines here", hint="INSERT, or the wire protocol"
                )
            yield await self._perform(session, statement, joins=len(statements) > 1)
        await self._part(session)
        if session.transactions.state is not State.NONE:
            raise InterfaceError(
                "the transaction is rolled back: a request's end is its session's", hint="end it with COMMIT"
            )

    async def _perform(
        self, session: Session, statement: ast.Statement, *, joins: bool
    ) -> tuple[str, Result | None]:
        """Run a statement; ``joins``: in one transaction with those that came with it."""
        span, state = statement.span, session.transactions.state
        joins = joins and state is State.NONE and not isinstance(statement, CONTROL)
        flags = {} if joins else how(statement)
        with logs.timed(self._server.limits, session, span.source[span.start : span.end]):
            found = await self._server.run(
                session, lambda engine: session.perform(engine, statement, joins=joins), **flags
            )
        return tag_of(statement, found), found

    async def _part(self, session: Session) -> None:
        """End the transaction of statements that came together."""
        if session.transactions.implicit:
            await self._server.run(session, lambda _: session.part(), commits=True)


Answered = tuple[dict[str, Any], list[tuple[str, Result]]]
"""What there is to say, and the goals with their answers."""


async def datalog(server: "Server", connection: Connection, request: Request, user: str) -> None:
    """Answer POST /datalog."""
    question = question_of(request, await connection.body())
    values = question.parameters or {}
    if not isinstance(values, dict):
        raise Refused(400, "parameters of goals have names", hint='{"src": 1} for $src')

    async def ask(session: Session) -> Answered:
        if question.timeout:
            session.settings["statement_timeout"] = question.timeout
        return await server.run(session, lambda engine: run_datalog(engine, question.text, values))

    try:
        head, answers = await in_session(server, connection, user, ask)
        if ARROW in request.headers.get("accept", ""):
            if not answers:
                raise InterfaceError("no goal is asked", hint=f"without Accept: {ARROW} it can be run")
            await connection.reply(200, ARROW, arrow_of(answers[-1][1], question.max_rows))
            return
    except Error as error:
        data = json.dumps({"error": error_of(error)}).encode()
        await connection.reply(status_of(error), "application/json", data)
        return
    head["epoch"] = server.hub.engine.executor.epoch
    await connection.begin(200, "application/json")
    await connection.write(_opened(head, "goals"))
    for number, (goal, outcome) in enumerate(answers):
        head = {"goal": goal, "columns": columns_of(outcome.columns, outcome.types)}
        if question.max_rows is not None and question.max_rows < len(outcome):
            head["more"] = len(outcome) - question.max_rows
        await connection.write((b",\n" if number else b"") + _opened(head, "rows"))
        dictionary = server.hub.engine.executor.dictionary
        for place, part in enumerate(portions(outcome, dictionary, question.max_rows)):
            await connection.write(b"," + part if place else part)
        await connection.write(b"]}")
    await connection.write(b"]}\n")
    await connection.end()


def _opened(head: dict[str, Any], name: str) -> bytes:
    """An object whose last field is a list that follows."""
    return json.dumps({**head, name: []}).encode()[:-2]


def run_datalog(engine: "Engine", text: str, values: dict[str, Any]) -> Answered:
    """Install a program, or run goals and updates, on the engine's thread."""
    from kpg.datalog.dispatch import home, only_adds  # lazy: Datalog loads on first use

    def alive() -> None:
        if engine.closed:
            raise InterfaceError("the database is closed")

    if only_adds(text, "", engine.catalog):
        return _added(home(engine, alive, text), text, values)
    return _installed(engine, alive, text, values)


def _added(program: "Program", text: str, values: dict[str, Any]) -> Answered:
    checked = program.with_program(text)
    head: dict[str, Any] = {}
    known: set[str] = set()
    if checked.program.updates:
        terms = [term for update in checked.program.updates for term in update.terms]
        known = {term.name for term in terms if isinstance(term, Parameter)}
        head["changed"] = program.run_updates(checked.program, _chosen(values, known))
    answers = []
    for goal in checked.program.goals:
        with program.goal(checked.program, goal) as asked:
            known |= set(asked.parameters)
            answers.append((_text(goal.span.source, goal.span), asked(**_chosen(values, asked.parameters))))
    for name in values.keys() - known:
        raise InterfaceError(f"there is no parameter ${name}")
    return head, answers


def _installed(engine: "Engine", alive: Any, text: str, values: dict[str, Any]) -> Answered:
    from kpg.datalog.dispatch import install  # lazy: Datalog loads on first use

    if values:
        raise InterfaceError("a program has no parameters", hint="its goals and updates do, after it")
    program = install(engine, alive, text)
    head = {
        "program": program.label,
        "relations": list(program.relations),
        "warnings": [one.text() for one in program.warnings],
    }
    goals = zip(program.checked.program.goals, program.goals, strict=True)
    return head, [(_text(goal.span.source, goal.span), asked()) for goal, asked in goals]


def _chosen(values: dict[str, Any], names: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}


def _text(source: str, span: Any) -> str:
    return source[span.start : span.end].strip()
