"""Every statement class has a handler, and so may a class of a user's own."""

import inspect
from dataclasses import dataclass
from types import UnionType
from typing import Any, get_args

import pytest

import kpg
from kpg.api.view import MaintainedView
from kpg.compiler.sql.parse import definitions, statements
from kpg.compiler.sql.parse.statements import Statement
from kpg.execute.registry import Kind, Outcome, register, registration
from kpg.execute.statements import execute
from kpg.runtime.errors import NotSupportedError
from kpg.session.engine import Engine

CLASSES = get_args(Statement)
NAMES = {**vars(definitions), **vars(statements), "ast": definitions, "MaintainedView": MaintainedView} | {
    "Engine": Engine
}
"""What annotations name that are imported for types only."""


@dataclass
class Ping:
    """A statement of a user's own."""

    answers: list[str]


@dataclass
class LoudPing(Ping):
    """A subclass, which nobody has registered."""


def accepted(annotation: Any) -> tuple[type, ...]:
    """The classes that a parameter takes."""
    return get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)


@pytest.mark.parametrize("statement", CLASSES, ids=lambda one: one.__name__)
def test_a_handler_takes_the_engine_and_the_statement(statement: type) -> None:
    handler = registration(statement.__new__(statement)).handler
    engine, taken = inspect.signature(handler, locals=NAMES, eval_str=True).parameters.values()
    assert engine.annotation is Engine
    assert statement in accepted(taken.annotation)


def test_a_statement_class_of_a_user() -> None:
    def answer(engine: Engine, statement: Ping) -> Outcome:
        statement.answers.append(engine.transactions.state.name)
        return None

    engine = kpg.connect()._engine
    asked: Any = Ping([])
    with pytest.raises(NotSupportedError, match="no handler is registered for statements of the class Ping"):
        execute(engine, asked)
    register(Ping, Kind.READ, answer)
    execute(engine, asked)
    loud: Any = LoudPing([])
    execute(engine, loud)
    assert (asked.answers, loud.answers) == (["NONE"], ["NONE"])


def test_a_definition_of_a_user_is_undone_by_an_error() -> None:
    @dataclass
    class Twice:
        """Creates a table two times."""

    def create(engine: Engine, _: Twice) -> Outcome:
        for _ in range(2):
            engine.tables.create("t", table.schema)
        return None

    db = kpg.connect()
    db.sql("create table s (a int)")
    table = db._engine.catalog.table("s")
    register(Twice, Kind.DEFINITION, create)
    asked: Any = Twice()
    with pytest.raises(kpg.ProgrammingError, match="already"):
        execute(db._engine, asked)
    assert "t" not in db._engine.catalog
