"""Statement dispatch: runs each parsed statement by its handler and returns its result.

A definition is also checked for privileges, and the new object gets its owner.
"""

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, assert_never

import numpy as np

from kpg.api.result import Affected, Result
from kpg.api.view import Maintained
from kpg.compiler.algebra.rel import LetRec
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.catalog.privileges import FIRST
from kpg.compiler.sql.bind.volatile_calls import LOCKING
from kpg.compiler.sql.frontend import Bound
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.definitions import AnyDefinition, CreateSchema, Definition
from kpg.compiler.sql.parse.statements import Session
from kpg.compiler.sql.rewrite.name_qualification import anchored
from kpg.execute.changes.dml import evaluated, settling, widening
from kpg.execute.changes.pipeline import change
from kpg.execute.definitions.create_table import create_defined
from kpg.execute.definitions.user_types import with_known_types
from kpg.execute.definitions.views import create_view
from kpg.execute.queries.query_plan import Planned, bind, plan_bound, plan_view
from kpg.execute.queries.result_rows import expand
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.interrupts import DeepCalls
from kpg.runtime.types import Schema
from kpg.session.engine import Engine, Nested
from kpg.session.notices import say_present, warn
from kpg.session.transaction import State

if TYPE_CHECKING:
    from kpg.postgres.privileges import Defining as PrivilegesDefining


NOTHING: Final[AbstractContextManager[None]] = nullcontext()


def owning(engine: "Engine", statement: "PrivilegesDefining") -> AbstractContextManager[None]:
    """PrivilegeError unless the statement may be run in the block; what that makes gets an owner.

    As long as there is nobody but the role that every database has, there is nothing to do.
    """
    rights = engine.catalog.rights
    alone = engine.catalog.asker.user == FIRST and not (rights.owners or rights.lists or rights.defaults)
    if alone and not (isinstance(statement, CreateSchema) and statement.owner):
        return NOTHING
    from kpg.postgres.privileges import settling  # lazy: the start does without it

    return settling(engine, statement)


Outcome = Result | Maintained | None
Changing = ast.Insert | ast.Delete | ast.Update | ast.Merge | ast.Modifying | ast.CopyFrom
Part = TypeVar("Part", ast.CreateTableAs, Changing)
Defining = ast.CreateTable | ast.CreateTableAs | ast.CreateView | ast.Drop | AnyDefinition


Words = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
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
    from kpg.session.settings import session_rows  # lazy: start-up

    return session_rows(engine, kind)


def _execute(engine: Engine, statement: ast.Statement) -> Outcome:
    engine.begin_statement()
    if engine.watching:
        from kpg.execute.table_locks import wait_for_tables  # lazy: the start does without it

        wait_for_tables(engine, statement)
    if engine.transactions.read_only and isinstance(statement, Changing | Defining):
        from kpg.session.settings import into_temporary  # lazy: the start does without it

        with into_temporary(engine, statement):
            return _run(engine, statement)
    return _run(engine, statement)


def _run(engine: Engine, statement: ast.Statement) -> Outcome:
    match statement:
        case ast.Begin():
            engine.transactions.open(partial(warn, engine))
            if statement.read_only is not None:
                engine.transactions.read_only = statement.read_only
        case ast.Commit():
            engine.transactions.end(partial(warn, engine), commit=True, chain=statement.chain)
        case ast.Rollback():
            engine.transactions.end(partial(warn, engine), commit=False, chain=statement.chain)
        case ast.Insert() | ast.Delete() | ast.Update() | ast.Merge() | ast.Modifying() | ast.CopyFrom():
            with engine.transactions.statement(changes=True):
                return _change(engine, statement)
        case ast.CreateTable() | ast.CreateTableAs() | ast.CreateView() | ast.Drop() | Definition():
            if engine.sessions is not None and engine.transactions.state is not State.NONE:
                engine.sessions.before_defining()
            engine.remembered.forget()
            changing = engine.transactions.statement(changes=True)
            writing = engine.journal.writing()
            with changing, writing, owning(engine, statement), _closing(engine, statement):
                return _define(engine, _anchored(engine, with_known_types(statement, engine.catalog)))
        case ast.Explain() | ast.ExplainView():
            from kpg.execute.queries.explain import run_explain  # lazy: the start does without it

            return run_explain(engine, statement, _execute)
        case Session():
            from kpg.session.settings import run_session  # lazy: the start does without it

            return run_session(engine, statement, execute)
        case _:
            with engine.transactions.statement(changes=False):
                return _other(engine, statement)
    return None


def _closing(engine: Engine, statement: Defining) -> AbstractContextManager[None]:
    """Wait for those who have locked what the block defines anew."""
    locks = vars(engine).get("locks")
    if locks is None or locks.alone(engine.catalog.asker.number):
        return NOTHING
    from kpg.execute.table_locks import closing  # lazy: the start does without it

    return closing(engine, statement)


def _anchored(engine: Engine, statement: Defining) -> Defining:
    """A definition whose texts mean the same on every search path."""
    if isinstance(statement, ast.CreateTable):
        constraints = statement.constraints
        if not (constraints.rules or constraints.checks or statement.partitioned):
            return statement  # it has none

    return anchored(statement, engine.catalog)


def _define(engine: Engine, statement: Defining) -> Outcome:
    match statement:
        case ast.CreateTable():
            _create_table(engine, statement)
        case ast.CreateTableAs():
            return _create_table_as(engine, statement)
        case ast.CreateView():
            return widening(lambda: create_view(engine, statement))
        case ast.Drop():
            # lazy: the start does without it
            from kpg.execute.definitions.drop import check_unused, drop_relations

            check_unused(engine, statement.names, f"DROP {statement.kind}", statement.span)
            drop_relations(engine, statement)
        case Definition():
            from kpg.execute.definitions.ddl import define  # lazy: the start does without it

            return define(engine, statement)
        case _:
            assert_never(statement)
    return None


def _settled(engine: Engine, statement: Part) -> Part:
    """A statement with rows in the place of subqueries that lock some."""
    span = statement.span
    if not LOCKING.search(span.source, span.start, span.end):
        return statement
    from kpg.execute.queries.for_update import with_locked  # lazy: the start does without it

    return with_locked(engine, statement)


def _change(engine: Engine, statement: Changing) -> Result:
    statement = _settled(engine, statement)
    match statement:
        case ast.CopyFrom():
            from kpg.execute.changes.copy import copy_from  # lazy: the start does without it

            return Affected(copy_from(engine, statement))
        case ast.Modifying():
            # lazy: the start does without it
            from kpg.execute.changes.modifying_queries import run_modifying

            return run_modifying(engine, statement)
        case ast.Insert() | ast.Delete() | ast.Update() | ast.Merge():
            return change(engine, statement)
        case _:
            assert_never(statement)


def _other(engine: Engine, statement: ast.Statement) -> Outcome:
    match statement:
        case ast.Select():
            return select(engine, statement)
        case ast.CopyTo():
            from kpg.execute.changes.copy import copy_to  # lazy: the start does without it

            return copy_to(engine, statement)
        case ast.ExplainRow():
            from kpg.provenance.explain_row import explained  # lazy: the start does without it

            return explained(engine, statement)
        case ast.ShowTables():
            from kpg.execute.queries.explain import show_tables  # lazy: the start does without it

            return show_tables(engine)
        case ast.Describe():
            from kpg.execute.queries.explain import describe  # lazy: the start does without it

            return describe(engine, statement.name)
        case ast.VerifyView():
            from kpg.execute.queries.explain import verified  # lazy: the start does without it

            return verified(engine, statement.name)
        case ast.Begin() | ast.Commit() | ast.Rollback() | ast.Explain() | ast.ExplainView():
            raise AssertionError(statement)
        case (
            ast.CreateTable() | ast.CreateTableAs() | ast.CreateView() | ast.Drop() | Definition() | Session()
        ):
            raise AssertionError(statement)
        case ast.Insert() | ast.Delete() | ast.Update() | ast.Merge() | ast.Modifying() | ast.CopyFrom():
            raise AssertionError(statement)
        case _:
            assert_never(statement)
    return None


def select(engine: Engine, statement: ast.Select) -> Result:
    """The rows of a query that is asked once."""
    given = statement
    statement = evaluated(engine, statement, sleeps=False)
    place = statement.span
    if COMPUTED_BEFORE.search(place.source, place.start, place.end):
        from kpg.execute.queries import side_effects  # lazy: the start does without it
        from kpg.execute.queries.eager_subexpressions import settled  # lazy: the start does without it

        statement = settled(engine, statement)
        if side_effects.acts(statement):
            return side_effects.run(engine, statement, _select)
    elif statement is given and _may_be_kept(statement):
        from kpg.execute.queries.plan_cache import answer  # lazy: the start does without it

        return settling(engine, lambda: answer(engine, statement, _computed))
    return _select(engine, statement)


def _may_be_kept(statement: ast.Select) -> bool:
    """Whether it may ask the system alone, of the present, and locks nothing."""
    text = statement.text
    return statement.then is None and any(map(text.__contains__, SYSTEM)) and not LOCKING.search(text)


def _select(engine: Engine, statement: ast.Select) -> Result:
    if LOCKING.search(statement.span.source, statement.span.start, statement.span.end):
        from kpg.execute.queries.for_update import select_locked  # lazy: the start does without it

        return select_locked(engine, statement, _unlocked)
    return _unlocked(engine, statement)


def _unlocked(engine: Engine, statement: ast.Select) -> Result:
    return settling(engine, lambda: _selected(engine, statement))


def _selected(engine: Engine, statement: ast.Select) -> Result:
    if statement.then is not None:
        from kpg.session.time_travel import select_then  # lazy: the start does without it

        return select_then(engine, statement)
    catalog = engine.reading_catalog
    return _computed(engine, bind(statement, catalog), catalog)


def _computed(engine: Engine, bound: Bound, catalog: Catalog) -> Result:
    if any(isinstance(node, LetRec) for node in walk(bound.rel)):
        from kpg.execute.queries.limit import answer, limit_of  # lazy: the start does without it

        limit = limit_of(bound.rel)
        if limit is not None:
            return answer(
                bound, limit, lambda one: engine.select(plan_bound(one, catalog, engine.statistics))
            )
    return engine.select(plan_bound(bound, catalog, engine.statistics))


def _create_table(engine: Engine, statement: ast.CreateTable) -> None:
    name = engine.catalog.created(statement.name, temporary=statement.temporary, span=statement.span)
    if statement.if_not_exists and name in engine.catalog:
        say_present(engine, name)
        return
    _make_room(engine, statement, name)
    if statement.partition is not None:
        from kpg.execute.definitions.partitions import create_partition  # lazy: the start does without it

        create_partition(engine, statement, name)
        return
    if statement.partitioned is not None:
        from kpg.execute.definitions.partitions import note_partitioned  # lazy: the start does without it

        note_partitioned(engine, statement, name)
    if statement.constraints is ast.NOTHING and not statement.likes:
        engine.create_table(name, statement.schema)
    else:
        create_defined(engine, statement, name)
    if statement.distribution:
        from kpg.session.distribution import declare  # lazy: the start does without it

        declare(engine, name, statement.distribution)


def _make_room(engine: Engine, statement: ast.CreateTable | ast.CreateTableAs, name: str) -> None:
    """Drop the table that CREATE OR REPLACE takes the place of."""
    if statement.on_commit or engine.at_commit:
        from kpg.execute.definitions.ddl import made  # lazy: the start does without it

        made(engine, name, statement)
    if statement.or_replace and name in engine.catalog:
        from kpg.execute.definitions.drop import drop_relations  # lazy: the start does without it

        drop_relations(engine, ast.Drop("TABLE", (name,), False, False, statement.span))


def _create_table_as(engine: Engine, statement: ast.CreateTableAs) -> Outcome:
    name = engine.catalog.created(statement.name, temporary=statement.temporary, span=statement.span)
    if statement.if_not_exists and name in engine.catalog:
        say_present(engine, name)
        return Affected(0)
    engine.check_defining("CREATE TABLE")
    statement = _settled(engine, replace(statement, query=evaluated(engine, statement.query)))

    def asked() -> tuple[Planned, Words]:
        planned = plan_view(statement, engine.reading_catalog, engine.statistics)
        nothing = np.empty((len(planned.types), 0), np.int64)
        return planned, expand(*engine.run(planned)) if statement.data else nothing

    planned, rows = settling(engine, asked)
    schema = Schema(tuple(replace(column, nullable=True) for column in planned.schema.columns))
    _make_room(engine, statement, name)
    engine.create_table(name, schema)
    engine.table(name).insert(np.ascontiguousarray(rows[: len(schema.columns)]))
    return Affected(int(rows.shape[1]))
