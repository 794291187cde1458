"""Execution of a statement: its transaction, its handler, and its result.

The registry gives the handler. A definition is also checked for privileges, and its new object gets an owner.
"""

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

from kpg.api.result import Result
from kpg.compiler.algebra.rel import LetRec
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.catalog.privileges import FIRST
from kpg.compiler.sql.bind.volatile_calls import LOCKING
from kpg.compiler.sql.frontend import Bound
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.definitions import AnyDefinition, CreateSchema, Definition
from kpg.compiler.sql.rewrite.name_qualification import anchored
from kpg.execute.changes.dml import evaluated, settling
from kpg.execute.definitions.user_types import with_known_types
from kpg.execute.queries.query_plan import bind, plan_bound
from kpg.execute.registry import Handler, Kind, Outcome, register, registration
from kpg.gc_pause import LazyModule
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.interrupts import DeepCalls
from kpg.session.engine import Engine, Nested
from kpg.session.notices import warn
from kpg.session.transaction import State

if TYPE_CHECKING:
    from kpg.execute import table_locks
    from kpg.execute.queries import eager_subexpressions, for_update, limit, plan_cache, side_effects
    from kpg.postgres import privileges
    from kpg.postgres.privileges import Defining as PrivilegesDefining
    from kpg.session import settings, time_travel
else:
    eager_subexpressions = LazyModule("kpg.execute.queries.eager_subexpressions")
    for_update = LazyModule("kpg.execute.queries.for_update")
    limit = LazyModule("kpg.execute.queries.limit")
    plan_cache = LazyModule("kpg.execute.queries.plan_cache")
    side_effects = LazyModule("kpg.execute.queries.side_effects")
    table_locks = LazyModule("kpg.execute.table_locks")
    privileges = LazyModule("kpg.postgres.privileges")
    settings = LazyModule("kpg.session.settings")
    time_travel = LazyModule("kpg.session.time_travel")


NOTHING: Final[AbstractContextManager[None]] = nullcontext()


def owning(engine: "Engine", statement: "PrivilegesDefining") -> AbstractContextManager[None]:
    """PrivilegeError unless the statement may be run in the block; what that makes gets an owner.

    As long as there is nobody but the role that every database has, there is nothing to do.
    """
    rights = engine.catalog.rights
    alone = engine.catalog.asker.user == FIRST and not (rights.owners or rights.lists or rights.defaults)
    if alone and not (isinstance(statement, CreateSchema) and statement.owner):
        return NOTHING
    return privileges.settling(engine, statement)


Part = TypeVar("Part")
Defining = ast.CreateTable | ast.CreateTableAs | ast.CreateView | ast.Drop | AnyDefinition


COMPUTED_BEFORE: Final = re.compile(
    r"\b(limit|offset|first|next)\s*\(|current_setting|set_config|pg_(notify|cancel|export|terminate|sleep)|setval|advisory",
    re.IGNORECASE,
)
"""A text without these has no LIMIT that is a query, no call about settings, and none that does something."""
SYSTEM: Final = ("pg_", "information_schema", "current_", "version")
"""What is in the texts of queries over the system's relations."""
DEEP: Final = DeepCalls(30_000)
"""How deep calls may go for one statement."""


def execute(engine: Engine, statement: ast.Statement) -> Outcome:
    """Run one statement."""
    try:
        with DEEP:
            return _execute(engine, statement)
    except RecursionError:
        message = "a statement nested this deep is not supported"
        raise NotSupportedError(message, span=getattr(statement, "span", None)) from None


def provide_statements(engine: Engine) -> None:
    """Give an engine what runs statements inside statements, and the system relations about its sessions."""
    engine.nested = Nested(execute, select)
    engine.catalog.consulted.session = partial(_session_rows, engine)


def _session_rows(engine: Engine, kind: str) -> Iterable[tuple[int | str | None, ...]]:
    return settings.session_rows(engine, kind)


def _execute(engine: Engine, statement: ast.Statement) -> Outcome:
    engine.begin_statement()
    if engine.tables.watching:
        table_locks.wait_for_tables(engine, statement)
    if engine.transactions.read_only and registration(statement).kind in (Kind.CHANGE, Kind.DEFINITION):
        with settings.into_temporary(engine, statement):
            return run(engine, statement)
    return run(engine, statement)


def run(engine: Engine, statement: ast.Statement) -> Outcome:
    """Run a statement by its handler, within what its kind needs."""
    found = registration(statement)
    match found.kind:
        case Kind.CONTROL:
            return found.handler(engine, statement)
        case Kind.READ:
            with engine.transactions.statement(changes=False):
                outcome = found.handler(engine, statement)
            engine.transactions.say()
            return outcome
        case Kind.CHANGE:
            with engine.transactions.statement(changes=True):
                return found.handler(engine, with_locked_rows(engine, statement))
        case Kind.DEFINITION:
            return _define(engine, statement, found.handler)
        case _:
            assert_never(found.kind)


def _define(engine: Engine, statement: Any, handler: Handler) -> Outcome:
    if engine.sessions is not None and engine.transactions.state is not State.NONE:
        engine.sessions.before_defining()
    engine.remembered.forget()
    changing, writing = engine.transactions.statement(changes=True), engine.journal.writing()
    with changing, writing, owning(engine, statement), _closing(engine, statement):
        if isinstance(statement, Definition):
            engine.check_defining("a definition")
        return handler(engine, _qualified(engine, with_known_types(statement, engine.catalog)))


def begin(engine: Engine, statement: ast.Begin) -> None:
    """BEGIN."""
    engine.transactions.open(partial(warn, engine))
    if statement.read_only is not None:
        engine.transactions.read_only = statement.read_only


def commit(engine: Engine, statement: ast.Commit) -> None:
    """COMMIT."""
    engine.transactions.end(partial(warn, engine), commit=True, chain=statement.chain)


def rollback(engine: Engine, statement: ast.Rollback) -> None:
    """ROLLBACK."""
    engine.transactions.end(partial(warn, engine), commit=False, chain=statement.chain)


def savepoint(engine: Engine, statement: ast.Savepoint) -> None:
    """SAVEPOINT, ROLLBACK TO SAVEPOINT and RELEASE SAVEPOINT."""
    transactions = engine.transactions
    if statement.kind == "RETURN":
        transactions.rollback_to(statement.name)
        return
    with transactions.undoing():
        if statement.kind == "SAVE":
            transactions.savepoint(statement.name)
        else:
            transactions.release(statement.name)


def _closing(engine: Engine, statement: Defining) -> AbstractContextManager[None]:
    """Wait for those who have locked what the block defines anew."""
    locks = engine.used_locks
    if locks is None or locks.alone(engine.catalog.asker.number):
        return NOTHING
    return table_locks.closing(engine, statement)


def _qualified(engine: Engine, statement: Defining) -> Defining:
    """A definition whose texts mean the same on every search path."""
    if isinstance(statement, ast.CreateTable):
        constraints = statement.constraints
        if not (constraints.rules or constraints.checks or statement.partitioned):
            return statement  # it has none

    return anchored(statement, engine.catalog)


def with_locked_rows(engine: Engine, statement: Part) -> Part:
    """A statement with rows in the place of subqueries that lock some."""
    span = getattr(statement, "span", None)
    if span is None or not LOCKING.search(span.source, span.start, span.end):
        return statement
    return for_update.with_locked(engine, statement)


def select(engine: Engine, statement: ast.Select) -> Result:
    """The rows of a query that is asked once."""
    given = statement
    statement = evaluated(engine, statement, sleeps=False)
    place = statement.span
    if COMPUTED_BEFORE.search(place.source, place.start, place.end):
        statement = eager_subexpressions.settled(engine, statement)
        if side_effects.acts(statement):
            return side_effects.run(engine, statement, _select)
    elif statement is given and _may_be_kept(statement):
        return settling(engine, lambda: plan_cache.answer(engine, statement, _computed))
    return _select(engine, statement)


def _may_be_kept(statement: ast.Select) -> bool:
    """Whether it may ask the system alone, of the present, and locks nothing."""
    text = statement.text
    return statement.then is None and any(map(text.__contains__, SYSTEM)) and not LOCKING.search(text)


def _select(engine: Engine, statement: ast.Select) -> Result:
    if LOCKING.search(statement.span.source, statement.span.start, statement.span.end):
        return for_update.select_locked(engine, statement, _unlocked)
    return _unlocked(engine, statement)


def _unlocked(engine: Engine, statement: ast.Select) -> Result:
    return settling(engine, lambda: _selected(engine, statement))


def _selected(engine: Engine, statement: ast.Select) -> Result:
    if statement.then is not None:
        return time_travel.select_then(engine, statement)
    catalog = engine.reading_catalog
    return _computed(engine, bind(statement, catalog), catalog)


def _computed(engine: Engine, bound: Bound, catalog: Catalog) -> Result:
    if any(isinstance(node, LetRec) for node in walk(bound.rel)):
        topk = limit.limit_of(bound.rel)
        if topk is not None:
            return limit.answer(
                bound, topk, lambda one: engine.select(plan_bound(one, catalog, engine.statistics))
            )
    return engine.select(plan_bound(bound, catalog, engine.statistics))


register(ast.Begin, Kind.CONTROL, begin)
register(ast.Commit, Kind.CONTROL, commit)
register(ast.Rollback, Kind.CONTROL, rollback)
register(ast.Savepoint, Kind.CONTROL, savepoint)
register(ast.Select, Kind.READ, select)
