"""POST /datalog: programs, which are installed, and goals and updates with parameters."""

import json
from typing import TYPE_CHECKING, Any

from kpg.compiler.rules.core import Parameter
from kpg.result import Result
from kpg.runtime.errors import Error, InterfaceError
from kpg.server.web.answers import ARROW, arrow_of, columns_of, error_of, portions, status_of
from kpg.server.web.asking import in_session, question_of
from kpg.server.web.connection import Connection, Refused, Request
from kpg.sessions.session import Session

if TYPE_CHECKING:
    from kpg.datalog.program import Program
    from kpg.engine.engine import Engine
    from kpg.server.listen import Server

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
    from kpg.datalog.dispatch import home, only_adds

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
    from kpg.datalog.dispatch import install

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
