"""Execution of a statement: its transaction, its handler, and its result.

The registry gives the handler. A definition is also checked for privileges, and its new object gets an owner.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

from kpg.api.result import Result
from kpg.compiler.algebra.rel import LetRec
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.catalog.privileges import BOOTSTRAP_ROLE
from kpg.compiler.sql.frontend import LoweredQuery
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.definitions import AnyDefinition, CreateSchema, Definition
from kpg.compiler.sql.parse.features import StatementSpan
from kpg.compiler.sql.rewrite.name_qualification import qualify_definition
from kpg.execute.changes.dml import compute_with_numbers, evaluate_volatile
from kpg.execute.queries.query_plan import bind, plan_bound
from kpg.execute.registry import Handler, Kind, Outcome, register, registration
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.interrupts import DeepCalls
from kpg.session.engine import Engine, NestedExecution
from kpg.session.notices import warn
from kpg.session.transaction import State

if TYPE_CHECKING:
    from kpg.execute import access_control, table_locks
    from kpg.execute.definitions import user_types
    from kpg.execute.queries import eager_subexpressions, for_update, limit, plan_cache, side_effects
    from kpg.session import settings, time_travel
else:
    eager_subexpressions = LazyModule("kpg.execute.queries.eager_subexpressions")
    for_update = LazyModule("kpg.execute.queries.for_update")
    limit = LazyModule("kpg.execute.queries.limit")
    plan_cache = LazyModule("kpg.execute.queries.plan_cache")
    side_effects = LazyModule("kpg.execute.queries.side_effects")
    table_locks = LazyModule("kpg.execute.table_locks")
    access_control = LazyModule("kpg.execute.access_control")
    settings = LazyModule("kpg.session.settings")
    time_travel = LazyModule("kpg.session.time_travel")
    user_types = LazyModule("kpg.execute.definitions.user_types")


NO_BLOCK: Final[AbstractContextManager[None]] = nullcontext()


def check_ownership(engine: "Engine", statement: "Defining") -> AbstractContextManager[None]:
    """Return a block that checks privileges for a definition and gives its new objects an owner.

    It does nothing while the bootstrap role is the only one.
    """
    rights = engine.catalog.privileges
    alone = engine.catalog.asker.user == BOOTSTRAP_ROLE and not (
        rights.owners or rights.acls or rights.default_acls
    )
    if alone and not (isinstance(statement, CreateSchema) and statement.owner):
        return NO_BLOCK
    return access_control.installed().track_ownership(engine, statement)


Part = TypeVar("Part")
Defining = ast.CreateTable | ast.CreateTableAs | ast.CreateView | ast.Drop | AnyDefinition


CALL_DEPTH: Final = DeepCalls(30_000)
"""Limit of the call depth of one statement."""


def execute(engine: Engine, statement: ast.Statement) -> Outcome:
    """Run one statement."""
    try:
        with CALL_DEPTH:
            return _execute(engine, statement)
    except RecursionError:
        message = "a statement nested this deep is not supported"
        raise NotSupportedError(message, span=getattr(statement, "span", None)) from None


def install_execution(engine: Engine) -> None:
    """Give an engine the execution of nested statements, and the system relations about its sessions."""
    engine.nested_execution = NestedExecution(execute, select)
    engine.catalog.system_reads.session_rows = partial(_session_rows, engine)


def _session_rows(engine: Engine, kind: str) -> Iterable[tuple[int | str | None, ...]]:
    return settings.session_rows(engine, kind)


def _execute(engine: Engine, statement: ast.Statement) -> Outcome:
    engine.begin_statement()
    if engine.tables.change_hooks:
        table_locks.wait_for_tables(engine, statement)
    if engine.transactions.is_read_only and registration(statement).kind in (Kind.CHANGE, Kind.DEFINITION):
        with settings.allow_temporary(engine, statement):
            return run(engine, statement)
    return run(engine, statement)


def run(engine: Engine, statement: ast.Statement) -> Outcome:
    """Run a statement by its handler, under the transaction rules of its kind."""
    found = registration(statement)
    match found.kind:
        case Kind.CONTROL:
            return found.handler(engine, statement)
        case Kind.READ:
            with engine.transactions.statement(changes=False):
                outcome = found.handler(engine, statement)
            engine.transactions.send_messages()
            return outcome
        case Kind.CHANGE:
            with engine.transactions.statement(changes=True):
                return found.handler(engine, lock_subquery_rows(engine, statement))
        case Kind.DEFINITION:
            return _define(engine, statement, found.handler)
        case _:
            assert_never(found.kind)


def _define(engine: Engine, statement: Any, handler: Handler) -> Outcome:
    if engine.sessions is not None and engine.transactions.state is not State.NONE:
        engine.sessions.wait_for_planned_statements()
    engine.plan_cache.invalidate()
    changing, writing = engine.transactions.statement(changes=True), engine.journal.writing()
    with changing, writing, check_ownership(engine, statement), _wait_for_locks(engine, statement):
        if isinstance(statement, Definition):
            engine.check_can_define("a definition")
        return handler(engine, _qualify(engine, user_types.resolve_types(statement, engine.catalog)))


def begin(engine: Engine, statement: ast.Begin) -> None:
    """Run BEGIN."""
    engine.transactions.begin_block(partial(warn, engine))
    if statement.read_only is not None:
        engine.transactions.is_read_only = statement.read_only


def commit(engine: Engine, statement: ast.Commit) -> None:
    """Run COMMIT."""
    engine.transactions.end_block(partial(warn, engine), commit=True, chain=statement.chain)


def rollback(engine: Engine, statement: ast.Rollback) -> None:
    """Run ROLLBACK."""
    engine.transactions.end_block(partial(warn, engine), commit=False, chain=statement.chain)


def savepoint(engine: Engine, statement: ast.Savepoint) -> None:
    """Run SAVEPOINT, ROLLBACK TO SAVEPOINT or RELEASE SAVEPOINT."""
    transactions = engine.transactions
    if statement.kind == "RETURN":
        transactions.rollback_to(statement.name)
        return
    with transactions.failing_on_error():
        if statement.kind == "SAVE":
            transactions.savepoint(statement.name)
        else:
            transactions.release_savepoint(statement.name)


def _wait_for_locks(engine: Engine, statement: Defining) -> AbstractContextManager[None]:
    """Return a block that waits for sessions with locks on the tables of a definition."""
    locks = engine.used_locks
    if locks is None or locks.is_only_session(engine.catalog.asker.number):
        return NO_BLOCK
    return table_locks.wait_for_definition(engine, statement)


def _qualify(engine: Engine, statement: Defining) -> Defining:
    """Return a definition with qualified names, so that it means the same on every search path."""
    if isinstance(statement, ast.CreateTable):
        constraints = statement.constraints
        if not (constraints.rules or constraints.checks or statement.partitioned):
            return statement  # no stored texts

    return qualify_definition(statement, engine.catalog)


def lock_subquery_rows(engine: Engine, statement: Part) -> Part:
    """Return a statement with locking subqueries replaced by their rows."""
    span = getattr(statement, "span", None)
    if not isinstance(span, StatementSpan) or not span.features.locks_rows:
        return statement
    return for_update.run_locking_subqueries(engine, statement)


def select(engine: Engine, statement: ast.Select) -> Result:
    """Run a one-time query."""
    original = statement
    statement = evaluate_volatile(engine, statement, sleeps=False)
    if statement.span.features.evaluates_early:
        statement = eager_subexpressions.evaluate_eagerly(engine, statement)
        if side_effects.has_side_effects(statement):
            return side_effects.run_with_side_effects(engine, statement, _select)
    elif statement is original and _may_be_cached(statement):
        return compute_with_numbers(
            engine, lambda: plan_cache.run_catalog_query(engine, statement, _run_bound)
        )
    return _select(engine, statement)


def _may_be_cached(statement: ast.Select) -> bool:
    """Whether a query may read system relations only, as of the present, and locks nothing."""
    features = statement.span.features
    return statement.as_of is None and features.reads_system and not features.locks_rows


def _select(engine: Engine, statement: ast.Select) -> Result:
    if statement.span.features.locks_rows:
        return for_update.select_for_update(engine, statement, _select_without_locks)
    return _select_without_locks(engine, statement)


def _select_without_locks(engine: Engine, statement: ast.Select) -> Result:
    return compute_with_numbers(engine, lambda: _plan_and_run(engine, statement))


def _plan_and_run(engine: Engine, statement: ast.Select) -> Result:
    if statement.as_of is not None:
        return time_travel.select_as_of(engine, statement)
    catalog = engine.reading_catalog
    return _run_bound(engine, bind(statement, catalog), catalog)


def _run_bound(engine: Engine, bound: LoweredQuery, catalog: Catalog) -> Result:
    if any(isinstance(node, LetRec) for node in walk(bound.rel)):
        topk = limit.find_limit(bound.rel)
        if topk is not None:
            return limit.run_with_limit(
                bound, topk, lambda one: engine.select(plan_bound(one, catalog, engine.statistics))
            )
    return engine.select(plan_bound(bound, catalog, engine.statistics))


register(ast.Begin, Kind.CONTROL, begin)
register(ast.Commit, Kind.CONTROL, commit)
register(ast.Rollback, Kind.CONTROL, rollback)
register(ast.Savepoint, Kind.CONTROL, savepoint)
register(ast.Select, Kind.READ, select)
