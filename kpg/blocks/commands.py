"""DO and CALL, and the transaction that a statement has whose functions run bodies."""

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np

from kpg.blocks.frame import Frame, row_words
from kpg.blocks.returning import Returned
from kpg.compiler.routines import Routine
from kpg.compiler.sql import session as ast
from kpg.compiler.sql import statements
from kpg.compiler.sql.calling import called_procedure
from kpg.compiler.sql.definitions import Truncate
from kpg.engine.engine import Engine
from kpg.engine.transaction import State
from kpg.queries.reading import Decoded
from kpg.result import Result
from kpg.runtime.errors import Waiting
from kpg.runtime.types import Kind, Type

T = TypeVar("T")
CHANGES: Final = statements.Change | statements.Modifying | statements.CopyFrom | Truncate
MAY_CALL: Final = CHANGES | statements.Select | statements.CreateTableAs | statements.CopyTo


def needs_transaction(engine: Engine, statement: statements.Statement) -> bool:
    """Whether a statement may run bodies, which belong to its transaction."""
    transactions = engine.transactions
    if transactions.state is not State.NONE or transactions.in_batch or not isinstance(statement, MAY_CALL):
        return False
    catalog = engine.catalog
    if isinstance(statement, CHANGES) and catalog.others:
        return True
    place = statement.span
    text = place.source[place.start : place.end].lower()
    return any(
        name.rpartition(".")[2] in text
        for name, known in catalog.routines.items()
        if any(one.runs and not one.pure for one in known)
    )


def within_transaction(
    engine: Engine, statement: statements.Statement, run: Callable[[Engine, statements.Statement], T]
) -> T:
    """Run a statement, in a transaction of its own if it needs one."""
    if not needs_transaction(engine, statement):
        return run(engine, statement)
    engine.catalog.moment = engine.clock.read()
    return in_transaction(engine, lambda: run(engine, statement))


def in_transaction(engine: Engine, run: Callable[[], T]) -> T:
    """Run something within a transaction of its own."""
    transactions = engine.transactions
    transactions.begin()
    try:
        result = run()
    except BaseException:
        if transactions.state is not State.NONE:
            transactions.rollback()
        raise
    transactions.commit()
    return result


def do(engine: Engine, statement: ast.Do) -> None:
    """DO."""
    routine = Routine("do", (), Type(Kind.ENUM, name="void"), (), False, statement.body, False, "plpgsql")
    alone = engine.transactions.state is State.NONE

    def run() -> None:
        returned = Returned(Type(Kind.ENUM, name="procedure"), (), rows=False, may_end=alone)
        engine.procedures.run_in(routine, Frame("do"), returned)

    in_transaction(engine, run) if alone else _failing(engine, run)


def call(engine: Engine, statement: ast.CallProcedure) -> Result | None:
    """CALL: a row of the OUT parameters, if there are any."""
    alone = engine.transactions.state is State.NONE

    def run() -> Result | None:
        routine, scalars = called_procedure(statement, engine.catalog)
        procedures = engine.procedures
        words = [
            procedures.word(scalar, one.type) for scalar, one in zip(scalars, routine.parameters, strict=True)
        ]
        value = procedures.run(routine, words, may_end=alone)
        if not routine.outs or value is None:
            return None
        single = value.type.kind is not Kind.RECORD
        row = [value.word] if single else row_words(value, procedures.evaluator.dictionary)
        found = np.array([row], np.int64).T
        types = tuple(type_ for _, type_ in routine.outs) if single else value.type.parts
        names = tuple(name for name, _ in routine.outs)
        return Result(names, types, Decoded(names, types, found, engine.executor.dictionary))

    return in_transaction(engine, run) if alone else _failing(engine, run)


def _failing(engine: Engine, run: Callable[[], T]) -> T:
    """Run something that ends the transaction if it fails, and of which nothing is left if it has to wait."""
    point = engine.savepoint()
    try:
        with engine.transactions.undoing():
            return run()
    except Waiting:
        engine.rollback_to(point)
        raise
